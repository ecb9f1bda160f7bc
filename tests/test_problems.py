"""Problem documents: every error has a code and a status, and none tells what is inside."""

import ast
import importlib
import logging
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from client import Client, Contract, Person, expect, problem, unknown_id
from flask import Flask, abort
from server import new_database
from sqlalchemy import text

import service
from service import tokens
from service.api.errors import render
from service.api.problems import PROBLEMS, BadRequestError
from service.app import create_app
from service.engine.errors import RendezvousError
from service.settings import Settings
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

Json = dict[str, Any]

UNNAMED = {
    "method-not-allowed": "no operation answers to a method that it has not",
    "schema-behind": "told by /readyz, which is no operation",
    "unknown-ruleset": "the schema has the names of all rulesets and refuses others first",
    "unknown-deal-spec": "the schema has the names of all deal specs and refuses others first",
    "bad-position": "no operation reads positions",
}
"""Codes that no operation of the contract names, and why."""


def errors() -> list[type[RendezvousError]]:
    """Return the leaves of the tree of errors, of every module there is."""
    for module in pkgutil.walk_packages(service.__path__, "service."):
        importlib.import_module(module.name)

    def leaves(kind: type[RendezvousError]) -> Iterator[type[RendezvousError]]:
        if not kind.__subclasses__():
            yield kind
        for below in kind.__subclasses__():
            yield from leaves(below)

    return [kind for kind in leaves(RendezvousError) if kind.__module__.startswith("service.")]


def bad_requests() -> set[str]:
    """Return the codes that are given to BadRequestError where it is raised."""
    found = set()
    for file in Path(service.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "BadRequestError":
                assert isinstance(node.args[0], ast.Constant)
                found.add(str(node.args[0].value))
    return found


def named(contract: Contract) -> set[str]:
    """Return the codes that some operation of the contract names."""
    return {
        code
        for path in contract.document["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
        for answer in operation["responses"].values()
        for code in re.findall("`([a-z-]+)`: ", answer["description"])
    }


class TestCodes:
    def test_every_leaf_of_the_tree_of_errors_has_one(self) -> None:
        found = errors()

        assert len(found) > 15
        for kind in found:
            if kind is not BadRequestError:
                assert kind.code in PROBLEMS, kind

    def test_every_bad_request_has_one_of_4xx(self) -> None:
        found = bad_requests()

        assert "invalid-request" in found
        assert {PROBLEMS[code][0] // 100 for code in found} == {4}

    def test_they_are_lower_case_words_with_hyphens(self) -> None:
        for code, (status, title) in PROBLEMS.items():
            assert re.fullmatch("[a-z]+(-[a-z]+)*", code)
            assert HTTPStatus(status) >= 400
            assert re.fullmatch("[A-Z].*[a-zA-Z]", title)

    def test_each_is_named_by_an_operation_or_there_is_a_reason(self, contract: Contract) -> None:
        assert set(PROBLEMS) - named(contract) == set(UNNAMED)
        assert named(contract) - set(PROBLEMS) == set()

    def test_each_status_of_an_operation_is_that_of_the_codes_it_names(
        self, contract: Contract
    ) -> None:
        for path in contract.document["paths"].values():
            for method, operation in path.items():
                for status, answer in (
                    operation["responses"].items() if method != "parameters" else ()
                ):
                    for code in re.findall("`([a-z-]+)`: ", answer["description"]):
                        assert PROBLEMS[code][0] == int(status)

    def test_the_page_on_them_is_what_the_code_prints(self, contract: Contract) -> None:
        page = (Path(__file__).parents[1] / "docs/errors.md").read_text()

        assert page == render(contract.document), "run `make openapi`"
        assert all(f"| `{code}` | {title} |" in page for code, (_, title) in PROBLEMS.items())

    @pytest.mark.parametrize("code", PROBLEMS)
    def test_its_type_leads_to_what_it_means(self, client: Client, code: str) -> None:
        status, title = PROBLEMS[code]

        assert expect(client.get(f"/problems/{code}")) == {
            "code": code,
            "status": status,
            "title": title,
        }


def test_a_problem_document_says_what_and_where_and_which_request(client: Client) -> None:
    answer = client.get("/v1/rulesets/x", X_Request_Id="abc-1")

    assert answer.get_json(force=True) == {
        "type": "/problems/not-found",
        "title": "There is no such thing, or not for you",
        "status": 404,
        "detail": "no ruleset has this name; see /v1/rulesets",
        "code": "not-found",
        "request_id": "abc-1",
    }
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["//v1//games", "/v1//games", "/v1/games//", "//", "/docs//x"])
def test_a_path_with_an_empty_part_leads_nowhere(client: Client, path: str) -> None:
    answer = client.app.test_client().get(
        path, base_url="http://localhost", environ_overrides={"PATH_INFO": path, "SCRIPT_NAME": ""}
    )

    assert problem(answer) == (404, "not-found")


def test_whoever_needs_a_token_is_told_of_the_scheme(client: Client) -> None:
    missing = client.get("/v1/players/me")
    invalid = client.get("/v1/players/me", Authorization="Bearer x")

    for answer in (missing, invalid):
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="royal-rendezvous"'


DAMAGE = {
    "an unknown code": "log = '\\xfcfcfc'",
    "a move that is not legal": "log = '\\x2d2d2d'",
    "an undo of nothing": "log = '\\xffffff'",
    "an act after a resignation": "log = '\\xfefefe'",
    "no instants": "times = ''",
    "an instant too many": "times = times || '\\x00'",
    "an instant without an end": "times = '\\x0000ff'",
    "another ruleset": "ruleset = 'odd-and-even-1'",
    "an unknown ruleset": "ruleset = 'royal-rendezvous-99'",
    "an unknown deal spec": "spec = 'deal-99'",
    "another deal": "seed = 'another'",
    "what is no seed": "seed = ''",
}


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_stored_game_that_does_not_replay_is_our_fault_and_shows_nothing_inside(
    ada: Person,
    database: Database,
    caplog: pytest.LogCaptureFixture,
    damage: str,
    hidden: bool,  # noqa: FBT001
) -> None:
    start = ada.create(None if hidden else "royal")
    game = ada.play(start, 3)
    path = f"/v1/games/{game['id']}"
    query = text(f"UPDATE games SET {damage} WHERE id = :id RETURNING seed, log, times")  # noqa: S608
    values = {"id": game["id"]}
    before = database.run(lambda connection: connection.execute(query, values).one())

    answers = [
        ada.get(path),
        ada.get(f"{path}?ply=3"),
        ada.get(f"{path}/replay"),
        ada.try_moves(game, 3, game["legal_moves"][0]),
        ada.try_moves(game, 2, game["legal_moves"][0]),
        ada.act(game, "undo"),
        ada.act(game, "resign"),
    ]

    for answer in answers:
        found = problem(answer)
        assert found == (500, "broken-log")
        assert found.body["detail"] == "A stored game is damaged"
        assert set(found.body) == {"type", "title", "status", "detail", "code", "request_id"}
    row = text("SELECT seed, log, times FROM games WHERE id = :id")
    assert database.run(lambda connection: connection.execute(row, values).one()) == before
    assert "BrokenLogError" in caplog.text
    if before.seed and hidden:
        assert before.seed not in caplog.text


@pytest.fixture
def faulty(database: Database) -> Flask:
    """A service with further paths, which are at fault."""
    app = create_app(Settings(rate_limits="off"), database)

    def fault(kind: str) -> Any:
        secret = "postgresql://rendezvous:hunter2@db/games"  # noqa: S105
        if kind == "error":
            raise RuntimeError(secret)
        if kind == "lookup":
            return dict[str, str]()[secret]
        if kind == "assertion":
            raise AssertionError(secret)
        return abort(int(kind), secret)

    app.add_url_rule("/fault/<kind>", view_func=fault)
    return app


class TestFaults:
    @pytest.mark.parametrize("kind", ["error", "lookup", "assertion", "500", "501", "503"])
    def test_what_nobody_expected_is_an_internal_error_without_inner_detail(
        self, faulty: Flask, contract: Contract, caplog: pytest.LogCaptureFixture, kind: str
    ) -> None:
        answer = Client(faulty, contract).get(f"/fault/{kind}", X_Request_Id="the-fault")

        found = problem(answer)
        assert found == (500, "internal-error")
        assert set(found.body) == {"type", "title", "status", "detail", "code", "request_id"}
        for inner in (b"hunter2", b"Traceback", b"service/", b"Error", b".py"):
            assert inner not in answer.data
        if not kind.isdigit():
            assert "internal error in request the-fault" in caplog.text
            assert "Traceback" in caplog.text

    @pytest.mark.parametrize("status", ["400", "406", "411", "414", "418", "422", "431"])
    def test_other_errors_of_the_framework_are_malformed_requests(
        self, faulty: Flask, contract: Contract, status: str
    ) -> None:
        answer = Client(faulty, contract).get(f"/fault/{status}")

        assert problem(answer) == (400, "malformed-request")


@pytest.fixture
def away(contract: Contract) -> Iterator[Client]:
    """A client of a service whose database cannot be reached."""
    database = Database("postgresql:///nowhere?host=/nowhere", timeout=1)
    yield Client(create_app(Settings(rate_limits="off"), database), contract, tokens.draw())
    database.dispose()


NEEDS_DATABASE = {
    "GET /v1": None,
    "POST /v1/players": {"name": "Ada"},
    "GET /v1/players/me": None,
    "GET /v1/tokens": None,
    "DELETE /v1/tokens/{id}": None,
    "POST /v1/games": {},
    "GET /v1/games": None,
    "GET /v1/games/{id}": None,
    "GET /v1/games/{id}/replay": None,
    "POST /v1/games/{id}/moves": {"ply": 0, "moves": [{"from": "r2"}]},
    "POST /v1/games/{id}/undo": {"ply": 0},
    "POST /v1/games/{id}/resign": {"ply": 0},
    "GET /readyz": None,
}
NEEDS_NONE = (
    *("/healthz", "/openapi.json", "/problems/not-found", "/v1/rulesets", "/schemas/replay-1.json"),
    *("/v1/rulesets/royal-rendezvous-1", "/v1/deals/deal-1/royal-rendezvous-1?seed=royal"),
    *("/docs", "/docs/docs.js", "/docs/assets/swagger-ui.css"),
)


class TestDatabaseAway:
    @pytest.mark.parametrize("what", NEEDS_DATABASE)
    def test_the_client_is_told_when_to_try_again_and_nothing_else(
        self, away: Client, caplog: pytest.LogCaptureFixture, what: str
    ) -> None:
        method, path = what.format(id=uuid4()).split()

        answer = away.ask(method, path, NEEDS_DATABASE[what])

        found = problem(answer)
        assert found == (503, "database-unavailable")
        assert answer.headers["Retry-After"] == str(found.body["retry_after"]) == "2"
        assert found.body["detail"] == "The database cannot be reached"
        assert b"nowhere" not in answer.data
        assert "database-unavailable" in caplog.text

    @pytest.mark.parametrize("path", NEEDS_NONE)
    def test_what_needs_no_database_is_still_answered(self, away: Client, path: str) -> None:
        with away.get(path) as answer:
            assert answer.status_code == 200

    def test_bad_input_is_still_told_apart(self, away: Client) -> None:
        game = f"/v1/games/{unknown_id()}"

        assert problem(away.post("/v1/players", {})) == (422, "invalid-request")
        assert problem(away.post(f"{game}/moves", data=b"{")) == (400, "malformed-json")
        assert problem(away.ask("PUT", game)) == (405, "method-not-allowed")

    def test_replays_are_still_verified_but_for_who_claims_to_be_somebody(
        self, away: Client, ada: Person
    ) -> None:
        replay = ada.replay(ada.play(ada.create("royal"), 10))

        verdict = expect(replace(away, token=None).post("/v1/replays/verify", replay))

        assert verdict["verdict"] == "incomplete"
        unsure = away.post("/v1/replays/verify", replay)
        assert problem(unsure) == (503, "database-unavailable")


def test_an_empty_database_is_not_ready_and_the_operator_is_told_what_to_run(
    postgres: EmbeddedPostgres, contract: Contract
) -> None:
    with new_database(postgres) as url:
        database = Database(url)
        client = Client(create_app(Settings(rate_limits="off"), database), contract)

        answer = problem(client.get("/readyz"))
        database.dispose()

    assert answer == (503, "schema-behind")
    assert "rendezvous migrate" in answer.body["detail"]


def test_faults_are_logged_once_and_refusals_not_at_all(
    ada: Person, faulty: Flask, contract: Contract, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="service")
    game = ada.create("royal")

    problem(ada.try_moves(game, 0, {"from": "r1", "to": "stock"}))
    problem(ada.try_moves(game, 7, {"from": "r2"}))
    problem(ada.get(f"/v1/games/{unknown_id()}"))
    quiet = [record for record in caplog.records if record.levelno >= logging.WARNING]
    problem(Client(faulty, contract).get("/fault/error"))
    loud = [record for record in caplog.records if record.levelno >= logging.WARNING]

    assert (len(quiet), len(loud)) == (0, 1)
