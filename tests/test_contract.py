"""The contract: what is published, what is served and what the service does are one."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import schemathesis
from client import CONTRACT, Client, Contract, expect, problem, published
from flask import Flask
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from recording import record
from schemathesis import Case, CheckContext, Config, Response
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
)
from server import PATIENCE, Service, environment, running

from service import __version__, players, tokens
from service.api.examples import METHODS, operations, recorded
from service.api.problems import PROBLEMS
from service.engine import verify
from service.store.database import Database, new_id
from service.store.embedded import EmbeddedPostgres
from service.tokens import SCOPES

Json = dict[str, Any]

PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def document() -> Json:
    """The contract as it is committed."""
    return published()


def nodes(value: Any) -> Iterator[Json]:
    """Yield every object within a value."""
    if isinstance(value, dict):
        yield value
        for member in value.values():
            yield from nodes(member)
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


def references(value: Any) -> set[str]:
    """Return the names of the schemas that a value refers to."""
    return {
        node["$ref"].removeprefix("#/components/schemas/")
        for node in nodes(value)
        if node.get("$ref", "").startswith("#/components/schemas/")
    }


class TestFile:
    def test_it_is_what_the_service_serves(self, document: Json, client: Client) -> None:
        assert expect(client.get("/openapi.json")) == document

    def test_it_is_what_the_code_prints_without_a_database(self) -> None:
        printed = subprocess.run(
            [sys.executable, "-m", "service.api.spec"],
            env=environment(DATABASE_URL="postgresql:///nowhere?host=/nowhere"),
            capture_output=True,
            text=True,
            check=True,
        )

        assert printed.stdout == CONTRACT.read_text(), "run `make openapi`"
        assert printed.stderr == ""

    def test_s_92_it_is_a_valid_openapi_3_1_document(self, document: Json) -> None:
        assert document["openapi"].startswith("3.1.")
        assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []

    def test_s_92_the_validator_finds_what_is_wrong(self, document: Json) -> None:
        broken = json.loads(json.dumps(document))
        del broken["paths"]["/v1"]["get"]["responses"]["200"]["description"]

        assert list(OpenAPIV31SpecValidator(broken).iter_errors())

    def test_its_version_is_that_of_the_service(self, document: Json, client: Client) -> None:
        told = expect(client.get("/v1"))

        assert document["info"]["version"] == __version__ == told["service"]


class TestNames:
    def test_s_110_operation_ids_are_unique_and_stay_what_they_are(self, document: Json) -> None:
        """S-110: clients are generated from these names. A name may be added, never changed."""
        assert [
            f"{operation['operationId']}: {method.upper()} {path}"
            for path, method, operation in operations(document)
        ] == [
            "getCapabilities: GET /v1",
            "listRulesets: GET /v1/rulesets",
            "getRuleset: GET /v1/rulesets/{name}",
            "getDeal: GET /v1/deals/{spec}/{ruleset}",
            "createPlayer: POST /v1/players",
            "getMe: GET /v1/players/me",
            "renamePlayer: PATCH /v1/players/me",
            "deletePlayer: DELETE /v1/players/me",
            "exportPlayer: GET /v1/players/me/export",
            "createToken: POST /v1/tokens",
            "listTokens: GET /v1/tokens",
            "revokeTokens: DELETE /v1/tokens",
            "revokeToken: DELETE /v1/tokens/{token_id}",
            "createGame: POST /v1/games",
            "listGames: GET /v1/games",
            "getGame: GET /v1/games/{game_id}",
            "makeMoves: POST /v1/games/{game_id}/moves",
            "undoMove: POST /v1/games/{game_id}/undo",
            "resignGame: POST /v1/games/{game_id}/resign",
            "watchGame: GET /v1/games/{game_id}/events",
            "getReplay: GET /v1/games/{game_id}/replay",
            "exportReplays: GET /v1/replays",
            "importReplay: POST /v1/replays",
            "verifyReplay: POST /v1/replays/verify",
            "listImports: GET /v1/imports",
            "getImport: GET /v1/replays/{import_id}",
            "deleteImport: DELETE /v1/replays/{import_id}",
            "createTournament: POST /v1/tournaments",
            "listTournaments: GET /v1/tournaments",
            "createSeries: POST /v1/tournaments/series",
            "listTemplates: GET /v1/tournament-templates",
            "getTournament: GET /v1/tournaments/{tournament_id}",
            "editTournament: PATCH /v1/tournaments/{tournament_id}",
            "publishTournament: POST /v1/tournaments/{tournament_id}/publish",
            "cancelTournament: POST /v1/tournaments/{tournament_id}/cancel",
            "freezeStandings: POST /v1/tournaments/{tournament_id}/freeze",
            "unfreezeStandings: POST /v1/tournaments/{tournament_id}/unfreeze",
            "revealRound: POST /v1/tournaments/{tournament_id}/rounds/{number}/reveal",
            "enterTournament: POST /v1/tournaments/{tournament_id}/entries",
            "getMyEntry: GET /v1/tournaments/{tournament_id}/entries/me",
            "leaveTournament: DELETE /v1/tournaments/{tournament_id}/entries/me",
            "startAttempt: POST /v1/tournaments/{tournament_id}/attempts",
            "getStandings: GET /v1/tournaments/{tournament_id}/standings",
            "getStandingsAround: GET /v1/tournaments/{tournament_id}/standings/around",
            "listTournamentEvents: GET /v1/tournaments/{tournament_id}/events",
            "verifyAttempts: POST /v1/tournaments/{tournament_id}/verifications",
            "rejudgeAttempts: POST /v1/tournaments/{tournament_id}/rejudgings",
            "getJob: GET /v1/tournaments/{tournament_id}/jobs/{job_id}",
            "applyRejudging: POST /v1/tournaments/{tournament_id}/jobs/{job_id}/apply",
            "dropRejudging: POST /v1/tournaments/{tournament_id}/jobs/{job_id}/drop",
            "finaliseTournament: POST /v1/tournaments/{tournament_id}/finalise",
            "reopenTournament: POST /v1/tournaments/{tournament_id}/reopen",
            "getResults: GET /v1/tournaments/{tournament_id}/results",
            "getResultsEdition: GET /v1/tournaments/{tournament_id}/results/{edition}",
            "exportTournamentReplays: GET /v1/tournaments/{tournament_id}/replays",
            "createRuling: POST /v1/tournaments/{tournament_id}/rulings",
            "listRulings: GET /v1/tournaments/{tournament_id}/rulings",
            "reverseRuling: POST /v1/tournaments/{tournament_id}/rulings/{ruling}/reversal",
            "listRoles: GET /v1/tournaments/{tournament_id}/roles",
            "giveRole: PUT /v1/tournaments/{tournament_id}/roles/{player_id}",
            "takeRole: DELETE /v1/tournaments/{tournament_id}/roles/{player_id}",
            "createInvite: POST /v1/tournaments/{tournament_id}/invites",
            "listInvites: GET /v1/tournaments/{tournament_id}/invites",
            "revokeInvite: DELETE /v1/tournaments/{tournament_id}/invites/{invite_id}",
            "createEntryCode: POST /v1/tournaments/{tournament_id}/entries/{entry_id}/code",
            "takeEntryOver: POST /v1/tournaments/{tournament_id}/entries/takeover",
            "getReport: GET /v1/tournaments/{tournament_id}/report",
            "watchTournament: GET /v1/tournaments/{tournament_id}/live",
            "createWebhook: POST /v1/tournaments/{tournament_id}/webhooks",
            "listWebhooks: GET /v1/tournaments/{tournament_id}/webhooks",
            "deleteWebhook: DELETE /v1/tournaments/{tournament_id}/webhooks/{webhook_id}",
            "listDeliveries: GET /v1/tournaments/{tournament_id}/webhooks/{webhook_id}/deliveries",
            "redeliver: POST /v1/tournaments/{tournament_id}/webhooks/{webhook_id}/redeliveries",
        ]

    def test_s_110_every_component_is_used(self, document: Json) -> None:
        schemas = document["components"]["schemas"]
        used: set[str] = set()
        found = references(document["paths"])
        while found - used:
            used |= found
            found = references([schemas[name] for name in used])

        assert used == set(schemas)
        used = {node["$ref"] for node in nodes(document["paths"]) if "$ref" in node}
        examples = {f"#/components/examples/{name}" for name in document["components"]["examples"]}
        assert {name for name in used if "/examples/" in name} == examples
        assert set(document["components"]) == {"schemas", "securitySchemes", "examples"}
        assert {"token"} == set(document["components"]["securitySchemes"])

    def test_every_path_that_is_served_under_v1_is_told_and_no_other(
        self, document: Json, app: Flask
    ) -> None:
        served = {
            (re.sub("<[a-z]+:([a-z_]+)>", "{\\1}", rule.rule), method.lower())
            for rule in app.url_map.iter_rules()
            for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
            if rule.rule.startswith("/v1")
        }

        assert {(path, method) for path, method, _ in operations(document)} == served


class TestForm:
    def test_s_109_absent_members_are_left_out_and_nothing_is_nullable(
        self, document: Json
    ) -> None:
        for node in nodes(document):
            assert "nullable" not in node
            assert node.get("type") != "null"
            assert "null" not in node.get("type", "")
            assert None not in node.get("enum", [])
            assert None not in node.values()
            assert not {"anyOf", "oneOf", "allOf"} & set(node)

    def test_s_109_a_reference_stands_alone(self, document: Json) -> None:
        found = [node for node in nodes(document) if "$ref" in node]

        assert len(found) > 100
        assert all(set(node) == {"$ref"} for node in found)

    def test_s_109_no_member_bears_the_name_of_its_object(self, document: Json) -> None:
        """S-109: generators take the name of the object for a variable beside its members."""
        for name, shape in document["components"]["schemas"].items():
            assert re.sub("(?<!^)([A-Z])", r"_\1", name).lower() not in shape["properties"]

    def test_every_object_is_closed(self, document: Json) -> None:
        for name, shape in document["components"]["schemas"].items():
            assert shape["type"] == "object", name
            assert shape["additionalProperties"] is False, name

    def test_every_operation_says_what_it_does(self, document: Json) -> None:
        tags = {tag["name"] for tag in document["tags"]}

        for path, method, operation in operations(document):
            assert re.fullmatch("[A-Z].{3,}[a-z]", operation["summary"]), path
            assert re.search(r"^[A-Z].{20,}[.]$", operation["description"], re.DOTALL), path
            assert set(operation["tags"]) <= tags
            assert len(operation["tags"]) == 1, (method, path)

    def test_every_parameter_is_described(self, document: Json) -> None:
        for path, item in document["paths"].items():
            parameters = list(item.get("parameters", []))
            assert {one["name"] for one in parameters} == set(re.findall("{(.*?)}", path))
            assert all(one["required"] is True for one in parameters)
            for method in METHODS & set(item):
                parameters += item[method].get("parameters", [])
            for one in parameters:
                assert len(one["description"]) > 8, (path, one["name"])
                assert one["schema"]["type"] in {"string", "integer"}

    def test_every_operation_lists_its_problems_as_problem_documents(self, document: Json) -> None:
        for path, _, operation in operations(document):
            codes = operation["x-problem-codes"]
            told = [answer["description"] for answer in operation["responses"].values()]
            assert sorted(codes) == sorted(re.findall("`([a-z-]+)`: ", " ".join(told)))
            statuses = set(operation["responses"])
            assert {"400", "500"} <= statuses
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert set(answer["content"]) == {PROBLEM}, path
                    schema = {"$ref": "#/components/schemas/Problem"}
                    assert answer["content"][PROBLEM]["schema"] == schema
                    assert answer["description"].startswith("`")
            body = "requestBody" in operation
            assert ("415" in statuses) == ("413" in statuses) == body
            assert "422" in statuses or not operation.get("parameters")
            assert ("404" in statuses) == ("{" in path)

    def test_who_needs_a_token_is_told_what_may_be_wrong_with_it(self, document: Json) -> None:
        assert document["components"]["securitySchemes"]["token"] == {
            "type": "http",
            "scheme": "bearer",
        }
        for _, _, operation in operations(document):
            asks = "security" in operation
            assert ("401" in operation["responses"]) == asks
            if asks:
                *others, needs = operation["security"]
                assert others in ([], [{}])
                assert set(needs) == {"token"}
                assert set(needs["token"]) <= set(SCOPES)
                assert "403" in operation["responses"]
                headers = operation["responses"]["401"]["headers"]
                assert set(headers) == {"WWW-Authenticate"}

    def test_its_examples_are_what_its_schemas_ask_for(self, document: Json) -> None:
        found = [node for node in nodes(document) if "example" in node and "type" in node]

        assert len(found) > 20
        for node in found:
            Draft202012Validator(node).validate(node["example"])

    def test_its_patterns_are_anchored_and_need_no_dialect(self, document: Json) -> None:
        for node in nodes(document):
            if isinstance(node.get("pattern"), str):
                pattern = node["pattern"]
                assert re.fullmatch(r"\^.*\$", pattern)
                assert "|" not in re.sub(r"\(.*\)|\[.*?\]", "", pattern)
                assert not re.search(r"\\[sSwWdDbBpPAZ]|\(\?", pattern)


UNSHOWN = {
    "request-timeout": "it takes half a minute; shown by test_live.py",
    "internal-error": "nobody knows how to bring it about",
}
"""Problems without an example, and why."""

MAKE_ONE = "add a step to tests/recording.py and run `make examples`"


class TestExamples:
    def test_s_39_the_service_answers_them_as_they_are_recorded(
        self, postgres: EmbeddedPostgres
    ) -> None:
        """S-39: the recorded session is held again, and every byte is compared."""
        told = record(postgres)

        changed = [
            f"{one['operation']}: {one['name']}"
            for one, other in zip(told, recorded(), strict=False)
            if one != other
        ]
        assert changed == [], "run `make examples`, if that is how it shall be"
        assert len(told) == len(recorded()), "run `make examples`"

    def test_s_39_every_operation_has_one_of_its_request_and_of_each_answer(
        self, document: Json
    ) -> None:
        """S-39: those of operations that are yet to be written included."""
        lacking = []
        for _, _, operation in operations(document):
            name = operation["operationId"]
            contents = {
                status: answer.get("content", {})
                for status, answer in operation["responses"].items()
                if int(status) < 400
            }
            contents["request"] = operation.get("requestBody", {}).get("content", {})
            lacking += [
                f"{name}: {what}"
                for what, content in contents.items()
                if content and not any("examples" in one for one in content.values())
            ]
            for code in set(operation["x-problem-codes"]) - set(UNSHOWN):
                answer = operation["responses"][str(PROBLEMS[code][0])]
                if code not in answer["content"][PROBLEM].get("examples", {}):
                    lacking.append(f"{name}: {code}")

        assert lacking == [], MAKE_ONE
        assert set(document["components"]["examples"]).isdisjoint(UNSHOWN)

    def test_s_39_each_fits_the_schema_beside_it(self, document: Json) -> None:
        """S-39: examples and schemas agree, also where one refers to the other."""
        seen = 0
        for node in nodes(document["paths"]):
            for example in node.get("examples", {}).values():
                name = example.get("$ref", "").removeprefix("#/components/examples/")
                found = document["components"]["examples"][name] if name else example
                whole = {**node["schema"], "components": document["components"]}
                assert set(found) <= {"summary", "description", "value"}
                Draft202012Validator(whole).validate(found["value"])
                seen += 1

        assert seen > 150

    def test_the_recorded_replay_is_sound_and_the_tampered_one_is_not(self) -> None:
        verdicts = {
            one["name"]: (verify(one["request"]["body"]).verdict, one["answer"]["body"]["verdict"])
            for one in recorded()
            if one["operation"] == "verifyReplay"
            and type(one["answer"]["body"]) is dict
            and one["answer"]["status"] == 200
        }

        assert verdicts["valid"] == ("valid", "valid")
        assert verdicts["tampered"] == ("invalid", "invalid")


EXCEPTIONS = {
    "createGame": {
        "bad-seed": "which texts are seeds depends on the deal spec, and on the size of numbers",
        "seed-needed": "the server draws seeds of the default deal spec alone",
        "idempotency-key-reused": "whether a key was sent before is in no schema",
    },
    "getDeal": {"bad-seed": "as for createGame"},
    "importReplay": {
        "replay-refused": "what a replay is worth is not for a schema to say",
        "idempotency-key-reused": "as for createGame",
    },
    "listImports": {"unknown-cursor": "as for listGames"},
    "listGames": {"unknown-cursor": "a cursor is opaque: only a page can give one"},
    "listTokens": {"unknown-cursor": "as for listGames"},
    "createTournament": {
        "bad-tournament": "instants stand in an order, and keys are chosen with sense",
        "idempotency-key-reused": "as for createGame",
    },
    "createSeries": {
        "bad-tournament": "as for createTournament",
        "idempotency-key-reused": "as for createGame",
    },
    "editTournament": {
        "bad-tournament": "as for createTournament",
        "stale-version": "a version is only ever that of something",
    },
    "listTournaments": {"unknown-cursor": "as for listGames"},
    "getStandings": {"unknown-cursor": "as for listGames"},
    "listRoles": {"unknown-cursor": "as for listGames"},
    "listInvites": {"unknown-cursor": "as for listGames"},
    "createWebhook": {"invalid-request": "what is a URL, and of a public host, no pattern tells"},
    "listDeliveries": {"unknown-cursor": "as for listGames"},
    "redeliver": {"invalid-request": "a range ends no earlier than it begins"},
    "createRuling": {
        "bad-ruling": "which members are needed depends on the kind",
        "idempotency-key-reused": "as for createGame",
    },
}
"""Refusals with 412 and 422 of what fits the schema: each is one that JSON Schema cannot tell."""


JUDGES = {"verifyReplay": "what does not fit the schema is told so by a verdict"}
"""Operations that answer whatever comes, and why."""


def excluded(case: Case[Any]) -> list[Any]:
    """Return the checks that a case is not put to."""
    judged = case.operation.definition.raw["operationId"] in JUDGES
    return [positive_data_acceptance, *([negative_data_rejection] if judged else [])]


@schemathesis.check
def acceptance_but_for_exceptions(
    context: CheckContext, response: Response, case: Case[Any]
) -> bool | None:
    """What fits the schema is accepted, but for the exceptions above."""
    allowed = EXCEPTIONS.get(case.operation.definition.raw["operationId"], {})
    if response.status_code in {412, 422} and response.json()["code"] in allowed:
        return None
    # Which years an instant may be of is in no format.
    errors = response.json().get("errors", ()) if response.status_code == 422 else ()
    if errors and all(error["detail"].startswith("not from 2000 to 9000") for error in errors):
        return None
    return positive_data_acceptance(context, response, case)


ENDING = ("deletePlayer", "revokeTokens", "revokeToken")
"""Operations after which a token may be good for nothing."""


@dataclass
class Live:
    """The service as it is run, with a player's token and some games of theirs."""

    service: Service
    player: UUID
    games: list[UUID] = field(default_factory=list)

    def steer(self, case: Case[Any]) -> None:
        """Let two of three ids, of those that may be one, be that of a game that there is."""
        try:
            given = UUID(str(case.path_parameters["game_id"]))
        except (LookupError, TypeError, ValueError):
            return
        if given.int % 3:
            case.path_parameters["game_id"] = str(self.games[given.int % len(self.games)])

    def token(self, database: Database, scopes: tuple[str, ...]) -> str:
        """Return a token of the player that has these scopes."""
        text, ids = tokens.draw(), (new_id(), self.player)
        now = database.now()
        database.run(lambda one: players.give_token(one, now, *ids, text, scopes, None))
        return text

    def options(self, case: Case[Any], token: str) -> Json:
        """Return whom to ask a case, and with what token; what ends tokens has one of its own."""
        if case.operation.definition.raw["operationId"] in ENDING:
            other = Service(self.service.port)
            other.register()
            token = other.token or ""
        return {
            "base_url": f"http://127.0.0.1:{self.service.port}",
            "headers": {"Authorization": f"Bearer {token}"},
            # A machine under load is no fault of the service.
            "timeout": 2 * PATIENCE,
        }

    def call(self, case: Case[Any]) -> Response:
        """Return the answer to a case, which must be one that the contract allows."""
        self.steer(case)
        return case.call_and_validate(
            **self.options(case, self.service.token or ""),
            additional_checks=[acceptance_but_for_exceptions],
            excluded_checks=excluded(case),
        )


@pytest.fixture(scope="session")
def live(postgres: EmbeddedPostgres, database: Database) -> Iterator[Live]:
    """The live service, against which the contract is tried."""
    assert database
    with running(postgres.url) as service:
        player = UUID(service.register())
        games = [service.create(), service.create(ruleset="royal-cotillion-1")]
        games.append(service.ask("POST", "/v1/games", {}).body)
        finished = service.create()
        service.ask("POST", f"/v1/games/{finished['id']}/resign", {"ply": 0})
        yield Live(service, player, [UUID(game["id"]) for game in [*games, finished]])


# Events are served on another port, and do not end.
fuzzed = schemathesis.openapi.from_path(
    CONTRACT,
    config=Config.from_dict(
        {
            "generation": {
                "max-examples": 60,
                "deterministic": True,
                "database": "none",
                "with-security-parameters": False,
            },
            # A missing If-Match has a status of its own (RFC 6585).
            "checks": {
                "missing_required_header": {"expected-statuses": [400, 401, 403, 415, 422, 428]}
            },
        }
    ),
).exclude(operation_id=["watchGame", "watchTournament"])


@fuzzed.parametrize()
@settings(deadline=None)
def test_s_62_the_live_service_answers_as_the_contract_says(case: Case[Any], live: Live) -> None:
    """S-62: what fits the schemas, what just fits, and what does not, for every operation."""
    live.call(case)


def sequences(
    live: Live, token: str, steps: int, wanted: set[tuple[str, int]]
) -> set[tuple[str, int]]:
    """Use what one operation answers to ask the next, and return who answered with what status.

    At least so many steps are made, and more while answers are wanted that have not come: which
    steps come depends on ids that are new each time.
    """
    asked: list[tuple[str, int]] = []
    failures: list[FailureGroup] = []

    class Sequences(fuzzed.as_state_machine()):  # type: ignore[misc]
        """Operations in sequence."""

        def get_call_kwargs(self, case: Case[Any]) -> Json:
            return live.options(case, token)

        def validate_response(self, response: Response, case: Case[Any], **options: Any) -> None:
            asked.append((case.operation.definition.raw["operationId"], response.status_code))
            try:
                case.validate_response(
                    response,
                    additional_checks=[acceptance_but_for_exceptions],
                    excluded_checks=excluded(case),
                    transport_kwargs=options.get("transport_kwargs"),
                )
            except FailureGroup as failure:
                failures.append(failure)
                raise

    for seed in range(3 * steps):
        Sequences._hypothesis_internal_use_seed = seed
        # Ids and states of the service are new each time, and with them what may be drawn next.
        with suppress(Flaky):
            Sequences.run(
                settings=settings(
                    max_examples=3,
                    stateful_step_count=15,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
            )
        if failures:
            raise failures[0]
        if len(asked) >= steps and wanted <= set(asked):
            break
    return set(asked)


@pytest.mark.parametrize("scopes", [SCOPES, *((scope,) for scope in SCOPES)], ids=" ".join)
def test_s_62_the_live_service_answers_as_the_contract_says_to_sequences(
    live: Live, database: Database, scopes: tuple[str, ...]
) -> None:
    """S-62: with a token of all scopes, and with one of each."""
    whole = len(scopes) > 1

    wanted = {("createGame", 201 if "games:play" in scopes else 403)}
    if whole:
        wanted |= {("getGame", 200), ("getReplay", 200)}

    asked = sequences(live, live.token(database, scopes), 150 if whole else 40, wanted)

    assert wanted <= asked
    assert 401 not in {status for _, status in asked}
    if whole:
        # A code may be needed, and be wrong.
        assert 403 not in {status for name, status in asked if name != "enterTournament"}
    assert (("createGame", 201) in asked) == ("games:play" in scopes)
    assert (("createGame", 403) in asked) == ("games:play" not in scopes)


def test_s_62_the_fuzzer_finds_an_answer_that_the_contract_does_not_know(live: Live) -> None:
    """S-62: the same check against a contract that forgot a status and a member."""
    document = deepcopy(published())
    document["components"]["schemas"]["GameList"]["properties"]["games"]["maxItems"] = 0
    del document["paths"]["/v1/games/{game_id}"]["get"]["responses"]["404"]
    wrong = schemathesis.openapi.from_dict(document)

    listed = wrong["/v1/games"]["GET"].Case()
    missing = wrong["/v1/games/{game_id}"]["GET"].Case(
        path_parameters={"game_id": str(UUID(int=0))}
    )

    with pytest.raises(schemathesis.errors.FailureGroup, match="more than 0 items"):
        live.call(listed)
    with pytest.raises(schemathesis.errors.FailureGroup, match="404"):
        live.call(missing)


class References(HTMLParser):
    """Collects whatever a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the values of the attributes that name a place."""
        del tag
        self.found += [
            value or ""
            for name, value in attrs
            if name in {"src", "href", "action", "data", "srcset", "content", "style"}
        ]


DIST = Path(str(files("flask_swagger_ui"))) / "dist"
OUTSIDE = [
    *("../__init__.py", "..%2f__init__.py", "%2e%2e/__init__.py", "%2e%2e%2f__init__.py"),
    *("..%5c__init__.py", "..\\__init__.py", "x/../../__init__.py", "x%2f..%2f..%2f__init__.py"),
    *("..%252f__init__.py", "....//__init__.py", ".%2e/__init__.py", "%2fetc%2fpasswd"),
    *(
        "/etc/passwd",
        "..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
        "%00",
        "x%00.css",
        "",
        ".",
        "..",
    ),
    *("%2e", "%2e%2e", "../templates/index.template.html", "file:%2f%2f%2fetc%2fpasswd", "~root/x"),
]


class TestDocs:
    def test_the_page_and_its_script_come_from_us_with_all_they_need(self, client: Client) -> None:
        with client.get("/docs") as page, client.get("/docs/docs.js") as script:
            assert (page.status_code, page.mimetype) == (200, "text/html")
            assert (script.status_code, script.mimetype) == (200, "text/javascript")
            references = References()
            references.feed(page.get_data(as_text=True))
            named = [*references.found, *re.findall('"(/[^"]*)"', script.get_data(as_text=True))]

        assert "/openapi.json" in named
        assert "/docs/assets/swagger-ui-bundle.js" in named
        for name in named:
            if name.startswith("/"):
                with client.get(name) as answer:
                    assert answer.status_code == 200, name
                    assert len(answer.get_data()) > 100

    def test_nothing_is_asked_of_another_host(self, client: Client) -> None:
        with client.get("/docs") as page, client.get("/docs/docs.js") as script:
            html, code = page.get_data(as_text=True), script.get_data(as_text=True)
        references = References()
        references.feed(html)

        for text in (html, code):
            assert not re.search(r"(?i)https?:|wss?:|ftp:|[\"'(=\s]//\w|@import|url\(", text)
        assert all(not re.match(r"(?i)[a-z]+:|//", name) for name in references.found)
        assert "validatorUrl: null" in code
        assert 'url: "/openapi.json"' in code
        assert "<style" not in html
        assert not re.search(r"<script(?![^>]* src=)", html)

    @pytest.mark.parametrize("name", sorted(path.name for path in DIST.iterdir()))
    def test_every_asset_can_be_had(self, client: Client, name: str) -> None:
        with client.get(f"/docs/assets/{name}") as answer:
            assert answer.status_code == 200
            assert answer.get_data() == (DIST / name).read_bytes()

    @pytest.mark.parametrize("name", OUTSIDE)
    def test_nothing_outside_the_assets_can_be_had(self, client: Client, name: str) -> None:
        answer = client.get(f"/docs/assets/{name}")
        if answer.status_code == 308:
            answer = client.get(answer.headers["Location"].removeprefix("http://localhost"))

        assert problem(answer) == (404, "not-found")

    @pytest.mark.parametrize("name", OUTSIDE)
    def test_nothing_outside_the_assets_can_be_had_over_the_wire(
        self, live: Live, name: str
    ) -> None:
        answer = live.service.ask("GET", f"/docs/assets/{name}")

        assert answer.status in {308, 404}
        assert b"root:" not in answer.data
        assert b"import" not in answer.data


def test_a_problem_has_the_statuses_that_the_contract_allows_it(contract: Contract) -> None:
    shape = contract.document["components"]["schemas"]["Problem"]["properties"]["status"]

    for status, _ in PROBLEMS.values():
        assert shape["minimum"] <= status <= shape["maximum"]
