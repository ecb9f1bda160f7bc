"""The contract: OpenAPI 3.1, generated from the operations.

Run as a module it is printed as YAML; no database is needed for that.
"""

import sys
from typing import Any, Final

import yaml
from flask import Flask

from service import __version__
from service.api import examples, schemas, tournament_schemas
from service.api.following import following
from service.api.framework import NDJSON, Api
from service.api.hosting import hosting
from service.api.resources import BLUEPRINTS
from service.api.tournaments import tournaments

DESCRIPTION: Final = """\
Deals from seeds, judged moves, and replays that anybody can verify.

**First steps.** `POST /v1/players` gives a token, sent as `Authorization: Bearer ...`;
`POST /v1/games` makes a game; its `legal_moves` can be sent back as they are to
`POST /v1/games/{id}/moves` with the `ply` that was seen.

**Repeat what you like.** An act carries the ply that its sender saw. The same acts at the same ply
answer as they did the first time; any other act at an old ply is refused as `stale-ply`, with the
game as it is. What creates takes an `Idempotency-Key`: within 24 hours the same request with the
same key gives the same thing, another request with it is refused.

**Errors** are problem documents (RFC 9457): `code` is stable, `detail` is for people. A refused
request changes nothing. Each operation lists its codes as `x-problem-codes`.

**Streams** are lines of JSON, `application/x-ndjson`; `x-item-schema` says what a line is. The last
line tells their number: without it the stream is not complete. Where an operation has `x-bulk` it
takes such a stream, too, and answers it by one.

**Absent, not null**: members without a value are left out.
"""

_OPTIONS: Final[dict[str, Any]] = {
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
_ORDER: Final = ("openapi", "info", "servers", "security", "tags", "paths", "components")


def publish(app: Flask) -> dict[str, Any]:
    """Add the operations to an app and return the contract that they make."""
    app.config.update(_OPTIONS)
    api = Api(app)
    api.spec.components.security_scheme("token", {"type": "http", "scheme": "bearer"})
    api.spec.components.schema("VerdictLine", schema=schemas.VerdictLine)
    api.spec.components.schema("ResultsLine", schema=tournament_schemas.ResultsLine)
    for blueprint in (*BLUEPRINTS, tournaments, hosting, following):
        api.register_blueprint(blueprint)
    document = api.spec.to_dict()
    _tell_lines(document)
    examples.include(document)
    return {name: document[name] for name in _ORDER}


def _tell_lines(document: dict[str, Any]) -> None:
    """Tell of streams what they are, a text, and beside it what a line of them is.

    OpenAPI 3.1 has no word for that; 3.2 has `itemSchema`.
    """
    for _, _, operation in examples.operations(document):
        for answer in operation["responses"].values():
            content = answer.get("content", {}).get(NDJSON)
            if content is not None:
                content["x-item-schema"] = content["schema"]
                content["schema"] = {"type": "string"}


class _Dumper(yaml.SafeDumper):
    """Texts of several lines stand as they are read, and nothing is an alias."""

    def ignore_aliases(self, data: object) -> bool:
        """Return that it is not to be one."""
        del data
        return True


def _represent_object(dumper: _Dumper, value: dict[str, Any]) -> yaml.MappingNode:
    """Return an object; an example's value takes the form of JSON, a tenth of the lines."""
    node = dumper.represent_mapping("tag:yaml.org,2002:map", value)
    if "summary" in value and "value" in value:
        node.value[-1][1].flow_style = True
    return node


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else "")


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(dict, _represent_object)


def render(document: dict[str, Any]) -> str:
    """Return the contract as YAML, in a stable order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


if __name__ == "__main__":
    sys.stdout.write(render(publish(Flask(__name__))))
