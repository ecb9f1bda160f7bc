"""The contract against that of the last release: what breaks clients is named in the change log."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client import published, read_yaml
from compatibility import breaks

from service import __version__

Json = dict[str, Any]

ROOT = Path(__file__).parents[1]
CHANGES = (ROOT / "CHANGELOG.md").read_text()


def version(text: str) -> tuple[int, ...]:
    """Return a version's numbers."""
    return tuple(map(int, text.split(".")))


RELEASES = {
    version(file.stem.removeprefix("openapi-")): file
    for file in (ROOT / "docs/releases").glob("openapi-*.yaml")
}


@pytest.fixture(scope="module")
def released() -> Json:
    """The contract of the last release."""
    return read_yaml(RELEASES[max(RELEASES)])


@pytest.fixture(scope="module")
def document() -> Json:
    """The contract as it is committed."""
    return published()


def section(of: str) -> str:
    """Return what the change log says of a version."""
    found = re.search(rf"^## {re.escape(of)}\b.*?(?=^## |\Z)", CHANGES, re.MULTILINE | re.DOTALL)
    assert found, f"CHANGELOG.md says nothing of {of}"
    return found[0]


def test_s_14_what_breaks_clients_is_named_in_the_change_log(
    released: Json, document: Json
) -> None:
    """S-14: and nothing is named there that does not."""
    found = breaks(released, document)
    named = re.findall(r"^- Breaking: `(.+?)`", section(__version__), re.MULTILINE)

    assert [line for line in found if line not in named] == []
    assert [line for line in named if line not in found] == []


def test_s_39_the_version_moves_with_the_contract(released: Json, document: Json) -> None:
    """S-39: a contract that is not the last release's has a higher version of its own."""
    assert released["info"]["version"] == ".".join(map(str, max(RELEASES)))
    assert document["info"]["version"] == __version__
    assert re.findall(r"^## (\S+)", CHANGES, re.MULTILINE)[0] == __version__
    if document["paths"] != released["paths"]:
        assert version(__version__) > max(RELEASES)


def test_the_package_has_the_version_of_the_service() -> None:
    told = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    assert told
    assert told[1] == __version__


Change = Callable[[Json], Any]


def operation(document: Json, path: str, method: str) -> Json:
    """Return an operation."""
    found: Json = document["paths"][path][method]
    return found


def shape(document: Json, name: str) -> Json:
    """Return a schema."""
    found: Json = document["components"]["schemas"][name]
    return found


MOVES = "/v1/games/{game_id}/moves"
BREAKING: dict[str, Change] = {
    "undoMove: POST /v1/games/{game_id}/undo removed": lambda one: one["paths"].pop(
        "/v1/games/{game_id}/undo"
    ),
    "makeMoves: operationId is move": lambda one: operation(one, MOVES, "post").update(
        operationId="move"
    ),
    "getCapabilities: a token is needed": lambda one: operation(one, "/v1", "get").update(
        security=[{"token": []}]
    ),
    "listGames: parameter cursor removed": lambda one: operation(one, "/v1/games", "get").update(
        parameters=operation(one, "/v1/games", "get")["parameters"][:1]
    ),
    "listGames: parameter page required": lambda one: operation(one, "/v1/games", "get")[
        "parameters"
    ].append({"name": "page", "in": "query", "required": True, "schema": {"type": "integer"}}),
    "listGames: parameter limit has maximum 50": lambda one: operation(one, "/v1/games", "get")[
        "parameters"
    ][0]["schema"].update(maximum=50),
    "makeMoves: 409 removed": lambda one: operation(one, MOVES, "post")["responses"].pop("409"),
    "createGame: 201 header Location removed": lambda one: operation(one, "/v1/games", "post")[
        "responses"
    ]["201"].pop("headers"),
    "makeMoves: request application/json removed": lambda one: operation(one, MOVES, "post")[
        "requestBody"
    ].update(content={"text/plain": {}}),
    "makeMoves: request reason required": lambda one: shape(one, "Moves")["required"].append(
        "reason"
    ),
    "makeMoves: request moves has maxItems 100": lambda one: shape(one, "Moves")["properties"][
        "moves"
    ].update(maxItems=100),
    "makeMoves: request moves [] card removed": lambda one: shape(one, "Command")["properties"].pop(
        "card"
    ),
    "makeMoves: request moves [] card has another pattern": lambda one: shape(one, "Command")[
        "properties"
    ]["card"].update(pattern="^[AK]H$"),
    "createGame: request deal spec is no longer pysol-1": lambda one: shape(one, "NewDeal")[
        "properties"
    ]["spec"]["enum"].remove("pysol-1"),
    "createPlayer: request name is integer": lambda one: shape(one, "NewPlayer")["properties"][
        "name"
    ].update(type="integer"),
    "getGame: 200 stock removed": lambda one: shape(one, "Game")["properties"].pop("stock"),
    "getGame: 200 score optional": lambda one: shape(one, "Game")["required"].remove("score"),
    "getGame: 200 score is string": lambda one: shape(one, "Game")["properties"]["score"].update(
        type="string"
    ),
    "makeMoves: 409 game foundations [] top removed": lambda one: shape(one, "Foundation")[
        "properties"
    ].pop("top"),
}
SOUND: dict[str, Change] = {
    "an operation more": lambda one: one["paths"].update({"/v1/x": {"get": {}}}),
    "a status more": lambda one: operation(one, "/v1", "get")["responses"].update({"418": {}}),
    "an optional member of a request": lambda one: shape(one, "NewGame")["properties"].update(
        x={"type": "string"}
    ),
    "a member more of an answer": lambda one: shape(one, "Game")["properties"].update(x={}),
    "a value more that is taken": lambda one: shape(one, "NewDeal")["properties"]["spec"][
        "enum"
    ].append("deal-2"),
    "a status of games more": lambda one: shape(one, "Game")["properties"]["status"]["enum"].append(
        "annulled"
    ),
    "a longer batch": lambda one: shape(one, "Moves")["properties"]["moves"].update(maxItems=400),
    "another text": lambda one: operation(one, "/v1", "get").update(summary="x", description="y"),
}


@pytest.mark.parametrize("line", BREAKING)
def test_what_breaks_is_found(released: Json, line: str) -> None:
    new = json.loads(json.dumps(released))
    BREAKING[line](new)

    assert line in breaks(released, new)


def test_a_scope_that_is_needed_from_now_on_is_found(document: Json) -> None:
    new = json.loads(json.dumps(document))
    operation(new, MOVES, "post")["security"][-1]["token"].append("admin")

    assert breaks(document, new) == ["makeMoves: the scope admin is needed"]


def test_a_member_of_a_line_that_goes_is_found(document: Json) -> None:
    new = json.loads(json.dumps(document))
    shape(new, "ExportLine")["properties"].pop("table")

    assert breaks(document, new) == ["exportPlayer: 200 table removed"]


@pytest.mark.parametrize("what", SOUND)
def test_what_breaks_nothing_is_not_found(released: Json, what: str) -> None:
    new = json.loads(json.dumps(released))
    SOUND[what](new)

    assert new != released
    assert breaks(released, new) == []
