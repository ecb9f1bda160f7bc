"""A client for tests. Whatever it is answered it holds to the published contract."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import yaml
from flask import Flask
from jsonschema_rs import Draft202012Validator
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse
from werkzeug.wrappers import Response

Json = dict[str, Any]

NDJSON = "application/x-ndjson"
CONTRACT = Path(__file__).parents[1] / "openapi.yaml"


def read_yaml(file: Path) -> Json:
    """Return a contract that is kept in a file."""
    read: Json = yaml.load(file.read_bytes(), yaml.CSafeLoader)
    return read


@cache
def published() -> Json:
    """Return the contract as it is committed; it is read once, and not to be changed."""
    return read_yaml(CONTRACT)


@cache
def published_schema(name: str) -> Draft202012Validator:
    """Return what checks a value against a schema of the committed contract."""
    components = published()["components"]
    return Draft202012Validator({**components["schemas"][name], "components": components})


class Contract:
    """The published contract, to which answers are held."""

    def __init__(self, app: Flask) -> None:
        self.document: Json = app.extensions["contract"]
        self.app = app
        self._validators: dict[str, Draft202012Validator] = {}

    def hold(self, method: str, path: str, response: Response) -> None:
        """Fail unless the operation may answer so. What is no operation is not held to anything."""
        hold_headers(response)
        operation = self.operation(method, path)
        if operation is None:
            return
        name = operation["operationId"]
        answers = operation["responses"]
        assert str(response.status_code) in answers, f"{name} answers {response.status_code}"
        content = answers[str(response.status_code)].get("content")
        if response.mimetype == NDJSON and "x-bulk" in operation:
            content = {NDJSON: operation["x-bulk"]}
        if response.mimetype == "text/csv" and "x-table" in operation:
            return
        if content is None:
            assert not response.data, f"{name} answers {response.status_code} with a body"
            return
        media_type = response.mimetype
        assert media_type in content, f"{name} answers {response.status_code} as {media_type}"
        shape = content[media_type]
        lines = [response.data]
        if media_type == NDJSON:
            shape, lines = {"schema": shape["x-item-schema"]}, response.data.splitlines()
        validator = self._validator(f"{name} {response.status_code} {media_type}", shape["schema"])
        for value in map(orjson.loads, lines):
            errors = [error.message for error in validator.iter_errors(value)]
            assert not errors, f"{name} {response.status_code}: {errors[:3]} in {value}"
            assert None not in _values(value), f"{name} answers with a null"

    def operation(self, method: str, path: str) -> Json | None:
        """Return what the contract says of the operation that a request is for, if there is one."""
        bound = self.app.url_map.bind("localhost")
        try:
            rule, _ = bound.match(path.partition("?")[0], method=method, return_rule=True)
        except HTTPException:
            return None
        template = rule.rule
        for argument in rule.arguments:
            for converter in ("string", "uuid", "int"):
                template = template.replace(f"<{converter}:{argument}>", f"{{{argument}}}")
        found: Json | None = self.document["paths"].get(template, {}).get(method.lower())
        return found

    def _validator(self, name: str, shape: Json) -> Draft202012Validator:
        if name not in self._validators:
            whole = {**shape, "components": self.document["components"]}
            self._validators[name] = Draft202012Validator(whole)
        return self._validators[name]


def hold_headers(response: Response) -> None:
    """Fail unless an answer has what every answer has, and nothing that none may have."""
    headers = response.headers
    assert "Set-Cookie" not in headers
    assert headers["X-Request-Id"]
    assert headers["Cache-Control"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def _values(value: Any) -> list[Any]:
    if isinstance(value, dict):
        # What players bring in is theirs.
        return [leaf for name in value if name != "extra" for leaf in _values(value[name])]
    if isinstance(value, list):
        return [leaf for member in value for leaf in _values(member)]
    return [value]


@dataclass
class Client:
    """Somebody who asks the service, with a token or without."""

    app: Flask
    contract: Contract
    token: str | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] = {},
    ) -> TestResponse:
        """Return the answer to a request, held to the contract."""
        sent = dict(headers)
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None:
            data = orjson.dumps(body)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        response = self.app.test_client().open(path, method=method, data=data, headers=sent)
        self.contract.hold(method, path, response)
        return response

    def get(self, path: str, **headers: str) -> TestResponse:
        """Return the answer to a GET."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("GET", path, headers=named)

    def post(self, path: str, body: Any = None, **options: Any) -> TestResponse:
        """Return the answer to a POST."""
        return self.ask("POST", path, body, **options)

    def register(self, name: str = "Ada") -> "Person":
        """Return a new player."""
        answer = self.post("/v1/players", {"name": name})
        assert answer.status_code == 201
        made = answer.get_json()
        return Person(self.app, self.contract, made["token"], made["player"]["id"])


@dataclass
class Person(Client):
    """A player."""

    id: str = ""

    def create(self, seed: str | None = "royal", ruleset: str | None = None, **deal: str) -> Json:
        """Return a new game: of a seed, or hidden where that is None."""
        named = {**deal, **({} if seed is None else {"seed": seed})}
        body = {"deal": named, **({} if ruleset is None else {"ruleset": ruleset})}
        return expect(self.post("/v1/games", body), 201)

    def read(self, game: Json, ply: int | None = None) -> Json:
        """Return a game as it stands, or stood."""
        query = "" if ply is None else f"?ply={ply}"
        return expect(self.get(f"/v1/games/{game['id']}{query}"))

    def try_moves(self, game: Json, ply: int, *moves: Json) -> TestResponse:
        """Return the answer to some moves."""
        return self.post(f"/v1/games/{game['id']}/moves", {"ply": ply, "moves": list(moves)})

    def move(self, game: Json, *moves: Json) -> Json:
        """Return a game after moves from where it stands."""
        return expect(self.try_moves(game, game["ply"], *moves))

    def act(self, game: Json, what: str, ply: int | None = None) -> TestResponse:
        """Return the answer to an undo or a resignation."""
        seen = game["ply"] if ply is None else ply
        return self.post(f"/v1/games/{game['id']}/{what}", {"ply": seen})

    def play(self, game: Json, plies: int = 2000, choose: int = 0) -> Json:
        """Return a game after so many first (or last) legal moves, or at its end."""
        for _ in range(plies):
            if game["status"] != "playing":
                break
            game = self.move(game, game["legal_moves"][choose])
        return game

    def replay(self, game: Json) -> Json:
        """Return a game's replay document."""
        return expect(self.get(f"/v1/games/{game['id']}/replay"))


def expect(response: TestResponse, status: int = 200) -> Json:
    """Return an answer's value, which must have this status."""
    assert response.status_code == status, response.get_data(as_text=True)
    value: Json = orjson.loads(response.data)
    return value


def told(response: TestResponse) -> list[Json]:
    """Return the lines of a stream before its last, which must tell that it is whole."""
    assert response.status_code == 200, response.get_data(as_text=True)
    assert response.mimetype == NDJSON
    *values, end = map(orjson.loads, response.get_data().splitlines())
    assert end == {"end": True, "count": len(values)}
    return values


def dropped(pieces: Iterable[bytes]) -> list[bytes]:
    """Return what comes of an answer that is taken slowly, until it must be broken off for that."""
    taken = []
    try:
        for piece in pieces:
            taken.append(piece)
            time.sleep(0.3)
    except BlockingIOError as error:
        assert "too slowly" in str(error)  # noqa: PT017 - what comes before it is wanted, too
        return taken
    raise AssertionError("the answer was given whole")


@dataclass
class Problem:
    """A problem document, for short assertions."""

    status: int
    code: str
    body: Json = field(repr=False)

    def __eq__(self, other: object) -> bool:
        return (self.status, self.code) == other

    __hash__ = None  # type: ignore[assignment]


def problem(response: TestResponse) -> Problem:
    """Return an answer as the problem document that it must be."""
    assert response.mimetype == "application/problem+json", response.get_data(as_text=True)
    body = orjson.loads(response.data)
    assert body["status"] == response.status_code
    assert body["type"] == f"/problems/{body['code']}"
    assert body["request_id"] == response.headers["X-Request-Id"]
    return Problem(response.status_code, body["code"], body)


def unknown_id() -> str:
    """Return an id that nothing has."""
    return str(uuid4())
