"""The examples of the contract: requests and answers as they were, recorded by `make examples`.

They are recorded from one scripted session (tests/recording.py), and a test holds the service to
them. An answer of success stands with its operation; a problem stands once, by its code, and every
operation that names the code refers to it.
"""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

import orjson

from service.api.problems import MEDIA_TYPE, PROBLEMS

Json = dict[str, Any]

FILE: Final = files(__package__) / "examples.json"
METHODS: Final = frozenset({"get", "post", "put", "patch", "delete"})

_TOLD: Final = frozenset({"Idempotency-Key", "If-None-Match", "Last-Event-ID"})


def recorded() -> list[Json]:
    """Return what is recorded, in the order in which it happened.

    Each has `operation`, `name`, `summary`, `request` (method, path, headers, body) and `answer`
    (status, media_type, headers, body); a body that is not JSON is a text.
    """
    found: list[Json] = orjson.loads(FILE.read_bytes())
    return found


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield path, method and description of every operation of a contract, in its order."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                yield path, method, operation


def include(document: Json) -> None:
    """Add the examples to a contract, where its operations have a place for them."""
    exchanges = recorded()
    problems = {one["name"]: one for one in exchanges if one["answer"]["media_type"] == MEDIA_TYPE}
    used: set[str] = set()
    for _, _, operation in operations(document):
        shown = [one for one in exchanges if one["operation"] == operation["operationId"]]
        for one in shown:
            if one["name"] not in problems:
                _show(operation, one)
        for code in operation["x-problem-codes"]:
            if code in problems:
                content = operation["responses"][str(PROBLEMS[code][0])]["content"][MEDIA_TYPE]
                reference = {"$ref": f"#/components/examples/{code}"}
                content.setdefault("examples", {})[code] = reference
                used.add(code)
    document["components"]["examples"] = {
        code: _answer(problems[code]) for code in PROBLEMS if code in used
    }


def _show(operation: Json, one: Json) -> None:
    request, answer = one["request"], one["answer"]
    if "body" in request and "requestBody" in operation:
        content = operation["requestBody"]["content"].get(request["headers"]["Content-Type"], {})
        example = {"summary": one["summary"], "value": request["body"]}
        content.setdefault("examples", {})[one["name"]] = example
    response = operation["responses"].get(str(answer["status"]), {})
    content = response.get("content", {}).get(answer["media_type"])
    if content is not None:
        content.setdefault("examples", {})[one["name"]] = _answer(one)


def _answer(one: Json) -> Json:
    request = one["request"]
    told = [f"{name}: {value}" for name, value in request["headers"].items() if name in _TOLD]
    asked = " ".join(f"`{text}`" for text in (f"{request['method']} {request['path']}", *told))
    if "body" in request:
        body = request["body"]
        text = body if isinstance(body, str) else orjson.dumps(body).decode()
        asked += f" with `{text}`" if len(text) <= 200 else " with a body"  # noqa: PLR2004
    return {"summary": one["summary"], "description": asked, "value": one["answer"]["body"]}
