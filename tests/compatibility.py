"""What a new contract breaks for the clients of an old one, as docs/compatibility.md has it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from service.api.examples import operations

Json = dict[str, Any]
Way = Literal["sent", "answered"]

LOWER = ("minimum", "minLength", "minItems", "exclusiveMinimum")
UPPER = ("maximum", "maxLength", "maxItems", "exclusiveMaximum")


def breaks(old: Json, new: Json) -> list[str]:
    """Return what breaks, a line each, that begins with the operation's id."""
    both = _Both(old, new)
    later = {(path, method): (path, one) for path, method, one in operations(new)}
    found: list[str] = []
    for path, method, before in operations(old):
        name = before["operationId"]
        if (path, method) not in later:
            found.append(f"{name}: {method.upper()} {path} removed")
            continue
        after = later[path, method][1]
        found += [f"{name}: {line}" for line in both.operation(path, before, after)]
    return list(dict.fromkeys(found))


@dataclass
class _Both:
    """The two contracts."""

    old: Json
    new: Json

    def operation(self, path: str, old: Json, new: Json) -> Iterator[str]:
        """Yield what breaks in an operation."""
        if old["operationId"] != new["operationId"]:
            yield f"operationId is {new['operationId']}"
        if _needs_token(new) and not _needs_token(old):
            yield "a token is needed"
        for scope in sorted(_scopes(new) - _scopes(old)) if _scopes(old) else ():
            yield f"the scope {scope} is needed"
        yield from self._parameters(
            {one["name"]: one for one in _parameters(self.old, path, old)},
            {one["name"]: one for one in _parameters(self.new, path, new)},
        )
        yield from self._body(old.get("requestBody"), new.get("requestBody"))
        for status, before in old["responses"].items():
            if status not in new["responses"]:
                yield f"{status} removed"
                continue
            after = new["responses"][status]
            for header in set(before.get("headers", {})) - set(after.get("headers", {})):
                yield f"{status} header {header} removed"
            yield from self._content(
                f"{status} ", before.get("content", {}), after.get("content", {}), "answered"
            )

    def _parameters(self, old: dict[str, Json], new: dict[str, Json]) -> Iterator[str]:
        for name, after in new.items():
            if after.get("required") and not old.get(name, {}).get("required"):
                yield f"parameter {name} required"
        for name, before in old.items():
            if name not in new:
                yield f"parameter {name} removed"
            else:
                at = f"parameter {name}"
                yield from self._schema(at, before["schema"], new[name]["schema"], "sent")

    def _body(self, old: Json | None, new: Json | None) -> Iterator[str]:
        if new and new.get("required") and not (old and old.get("required")):
            yield "request required"
        if old:
            after = new["content"] if new else {}
            yield from self._content("request ", old["content"], after, "sent")

    def _content(self, at: str, old: Json, new: Json, way: Way) -> Iterator[str]:
        for kind, before in old.items():
            if kind not in new:
                yield f"{at}{kind} removed"
                continue
            # The second is that of a line, where there is one value a line.
            for word in ("schema", "x-item-schema"):
                if word in before:
                    shape = new[kind].get(word, {})
                    yield from self._schema(at.strip(), before[word], shape, way)

    def _schema(
        self, at: str, old: Json, new: Json, way: Way, within: tuple[str, ...] = ()
    ) -> Iterator[str]:
        if "$ref" in old:
            if old["$ref"] in within:
                return
            within = (*within, old["$ref"])
        old, new = _resolved(self.old, old), _resolved(self.new, new)
        before, after = _types(old), _types(new)
        if not (before <= after if way == "sent" else after <= before):
            yield f"{at} is {' or '.join(sorted(after))}"
            return
        for word in ("format", "pattern"):
            # What is taken may lose a condition, what is answered may gain one.
            kept = new if way == "sent" else old
            if word in kept and old.get(word) != new.get(word):
                yield f"{at} has another {word}"
        if way == "sent":
            yield from _narrowed(at, old, new)
        yield from self._members(at, old, new, way, within)
        if "items" in old:
            yield from self._schema(f"{at} []", old["items"], new.get("items", {}), way, within)

    def _members(
        self, at: str, old: Json, new: Json, way: Way, within: tuple[str, ...]
    ) -> Iterator[str]:
        had, has = old.get("properties", {}), new.get("properties", {})
        needed, needs = set(old.get("required", [])), set(new.get("required", []))
        for name, before in had.items():
            if name in has:
                yield from self._schema(f"{at} {name}", before, has[name], way, within)
            elif way == "answered" or new.get("additionalProperties") is False:
                yield f"{at} {name} removed"
        if way == "sent":
            yield from (f"{at} {name} required" for name in sorted(needs - needed))
        else:
            gone = (needed - needs) & set(has)
            yield from (f"{at} {name} optional" for name in sorted(gone))


def _needs_token(operation: Json) -> bool:
    needs = operation.get("security", [])
    return bool(needs) and {} not in needs


def _scopes(operation: Json) -> set[str]:
    needs = operation.get("security", [])
    return {scope for one in needs for scopes in one.values() for scope in scopes}


def _parameters(document: Json, path: str, operation: Json) -> list[Json]:
    return [*document["paths"][path].get("parameters", []), *operation.get("parameters", [])]


def _resolved(document: Json, shape: Json) -> Json:
    if "$ref" not in shape:
        return shape
    found: Json = document["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
    return found


def _types(shape: Json) -> set[str]:
    kinds = shape.get("type")
    if kinds is None:
        return {"array", "boolean", "number", "integer", "object", "string"}
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _narrowed(at: str, old: Json, new: Json) -> Iterator[str]:
    """Yield where fewer values are taken than before."""
    if "enum" in new:
        gone = set(old["enum"]) - set(new["enum"]) if "enum" in old else {"any other"}
        for value in sorted(gone):
            yield f"{at} is no longer {value}"
    for words, sign in ((LOWER, 1), (UPPER, -1)):
        for word in words:
            if word in new and (word not in old or sign * (new[word] - old[word]) > 0):
                yield f"{at} has {word} {new[word]}"
