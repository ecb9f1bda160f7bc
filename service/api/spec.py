"""The contract: OpenAPI 3.1, generated from the operations."""

from typing import Any, Final

import yaml

from service import __version__

DESCRIPTION: Final = """\
Deals from seeds, judged moves, and replays that anybody can verify.

**First steps.** `POST /v1/players` gives a token, sent as `Authorization: Bearer ...`;
`POST /v1/games` makes a game; its `legal_moves` can be sent back as they are to
`POST /v1/games/{id}/moves` with the `ply` that was seen.

**Repeat what you like.** An act carries the ply that its sender saw. The same acts at the same ply
answer as they did the first time; any other act at an old ply is refused as `stale-ply`, with the
game as it is.

**Errors** are problem documents (RFC 9457): `code` is stable, `detail` is for people. A refused
request changes nothing.

**Absent, not null**: members without a value are left out.
"""

OPTIONS: Final[dict[str, Any]] = {
    "API_TITLE": "Royal Rendezvous",
    "API_VERSION": __version__,
    "OPENAPI_VERSION": "3.1.0",
    "API_SPEC_OPTIONS": {
        "info": {
            "description": DESCRIPTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/", "description": "This service"}],
        "security": [],
    },
}
"""Configuration of flask-smorest."""


def render(document: dict[str, Any]) -> str:
    """Return the contract as YAML, in a stable order."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
