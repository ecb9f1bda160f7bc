"""The page docs/errors.md: every problem by its status, and what a client does about it.

Run as a module it is printed.
"""

import sys
from typing import Any, Final

from flask import Flask

from service.api import spec
from service.api.examples import operations
from service.api.problems import PROBLEMS

Json = dict[str, Any]

INTRODUCTION: Final = """\
# Problems, and what to do about them

Made from the code by `make openapi`; a test holds it to that. Every answer of 400 and above is a
problem document (RFC 9457, `application/problem+json`):

| member | value |
|---|---|
| `code` | Stable name of the problem: this is for programs. `type` is `/problems/` and the code. |
| `status`, `title` | The HTTP status, and a text that belongs to the code. |
| `detail` | A sentence on this very case, for people. |
| `request_id` | Also in the header `X-Request-Id`. Quote it when you ask the host. |
| `errors` | What is wrong where in the request: JSON Pointers, `#query/name`, `#header/name`. |
| `ply`, `game`, `legal_moves` | Where a game stands that refused an act. |
| `failed_index`, `reason`, `targets` | Which move was refused, by which rule, and what fits. |
| `required_scope` | The scope that the token lacks. |
| `retry_after` | Seconds, as in the header `Retry-After`. |

Members that do not belong to a case are absent. **A refused request changes nothing.** Examples
stand in [`openapi.yaml`](../openapi.yaml). What no operation names can come from paths beside them,
or belongs to the command line.
"""

ADVICE: Final[dict[int, str]] = {
    400: "It cannot be read. Mend the client; sent again it fails again.",
    401: "Get a token, or drop the one that you have: it will not become good again.",
    403: "The token is good, but not for this. Ask for one with `required_scope`.",
    404: "It is not there, or not for you; which of the two is not told.",
    405: "`Allow` lists the methods.",
    408: "Send a request without pauses: it has 30 s, and one more for each 64 KiB.",
    409: (
        "It fits the schema, but the state refuses it. Look at what the answer tells of the state "
        "and decide anew."
    ),
    412: "Somebody else changed it. Read it again, and decide anew.",
    413: "Send less; `GET /v1` tells the limits.",
    415: "Send `Content-Type: application/json`, or what the operation takes.",
    421: "It is served at another address, which `links` and the contract's `servers` tell.",
    422: "It never fits, whatever the state. `errors` says where. Mend the client, or ask again.",
    428: "Send `If-Match` with the `ETag` of what you saw.",
    429: "Wait for `Retry-After` seconds, then send it again.",
    500: "The fault is ours. Send it again once, later; then tell the host the `request_id`.",
    503: "Wait for `Retry-After` seconds, then send it again: acts and keyed creations are safe.",
}
"""What to do about a problem of a status."""


def render(document: Json) -> str:
    """Return the page for a contract."""
    parts = [INTRODUCTION]
    for status in sorted({status for status, _ in PROBLEMS.values()}):
        codes = [code for code in PROBLEMS if PROBLEMS[code][0] == status]
        rows = [f"| `{code}` | {PROBLEMS[code][1]} | {_where(document, code)} |" for code in codes]
        table = "\n".join(["| code | title | operations |", "|---|---|---|", *rows])
        parts.append(f"## {status}\n\n{ADVICE[status]}\n\n{table}\n")
    return "\n".join(parts)


def _where(document: Json, code: str) -> str:
    described = [one for _, _, one in operations(document)]
    found = [one for one in described if code in one["x-problem-codes"]]
    for words, those in (
        ("all", described),
        ("all that take a token", [one for one in described if "security" in one]),
    ):
        if found == those:
            return words
    return ", ".join(f"`{one['operationId']}`" for one in found) or "none"


if __name__ == "__main__":
    sys.stdout.write(render(spec.publish(Flask(__name__))))
