"""Who may do what with a tournament: every operation, every part in it, every kind of token."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from client import Client, Json, Person, expect, problem, published, unknown_id
from hall import Host, enter, finish, happened, organiser, start
from werkzeug.test import TestResponse

from service.api.examples import operations
from service.store.database import Database
from service.tokens import SCOPES

OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, method, operation in operations(published())
    if path.startswith("/v1/tournaments/{") and "servers" not in operation
}
"""Every operation on a tournament."""

OWNER = frozenset({"owner", "admin"})
DIRECTORS = OWNER | {"director"}
STAFF = DIRECTORS | {"viewer"}
ALL = STAFF | {"player", "stranger"}
PARTS = ("owner", "director", "viewer", "admin", "player", "stranger")


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    """A player who hosts tournaments."""
    return organiser(client.register("Grace"), database)


@dataclass
class Hall:
    """A public tournament under way, and somebody of each part in it.

    Attributes:
        host: Its owner.
        people: By part, each with a token of all scopes; `admin` of the administrator's alone.
        contest: The tournament.
        entry: The id of the player's entry, one of whose attempts is over and one in play.
        made: Ids of what was made for an operation, by the names of paths' parameters.
    """

    host: Host
    people: dict[str, Host]
    contest: Json
    entry: str
    made: Json

    def act(self, what: str, body: Any = None, status: int = 200) -> Json:
        """Return what the host is answered."""
        return expect(self.host.act(self.contest, what, body), status)


def nothing(hall: Hall) -> None:
    """Prepare nothing."""


def ruled(hall: Hall) -> None:
    """Have there be a ruling."""
    hall.act("rulings", {"kind": "extend", "round": 1, "ms": 1, "reason": "x"}, 201)


def invited(hall: Hall) -> None:
    """Have there be an invite."""
    hall.made["invite_id"] = hall.act("invites", {}, 201)["id"]


def followed(hall: Hall) -> None:
    """Have there be a webhook."""
    made = hall.act("webhooks", {"url": "https://example.org/rendezvous"}, 201)
    hall.made["webhook_id"] = made["webhook"]["id"]


def rejudged(hall: Hall) -> None:
    """Have there be a rejudging that may be applied or dropped."""
    job = hall.act("rejudgings", {"reason": "x"}, 202)
    hall.made["job_id"] = job["id"]
    assert expect(hall.host.get(job["links"]["self"]))["state"] == "proposed"


def verified(hall: Hall) -> None:
    """Have it be over, and all attempts be verified."""
    hall.host.elapse(hall.contest, 850)
    job = hall.act("verifications", None, 202)
    while expect(hall.host.get(job["links"]["self"]))["state"] == "running":
        pass


def final(hall: Hall) -> None:
    """Have its results be final."""
    verified(hall)
    hall.act("finalise")


def over(hall: Hall) -> None:
    """Have the first round be over."""
    hall.host.elapse(hall.contest, 650)


@dataclass(frozen=True)
class Case:
    """How an operation is asked, and who may.

    Attributes:
        parts: Those whom it does not refuse for their part.
        body: Of the request.
        prepare: What is done before.
        refusal: What those are told who may see the tournament and not do it.
        query: Of the request.
    """

    parts: frozenset[str]
    body: Any = None
    prepare: Callable[[Hall], None] = nothing
    refusal: tuple[int, str] = (403, "role-missing")
    query: str = ""


REASON = {"reason": "x"}
NOT_IN = (409, "not-entered")
CASES = {
    "getTournament": Case(ALL),
    "editTournament": Case(DIRECTORS, {"title": "Other"}),
    "publishTournament": Case(DIRECTORS),
    "cancelTournament": Case(OWNER, REASON),
    "freezeStandings": Case(DIRECTORS),
    "unfreezeStandings": Case(DIRECTORS),
    "revealRound": Case(DIRECTORS, prepare=over),
    "enterTournament": Case(ALL, {}),
    "getMyEntry": Case(frozenset({"player"}), refusal=NOT_IN),
    "leaveTournament": Case(frozenset({"player"}), refusal=NOT_IN),
    "startAttempt": Case(frozenset({"player"}), {"deal": 2}, refusal=NOT_IN),
    "getStandings": Case(STAFF, query="?view=live"),
    "getStandingsAround": Case(STAFF, query="?view=live&entry={entry}"),
    "listTournamentEvents": Case(ALL),
    "verifyAttempts": Case(DIRECTORS),
    "rejudgeAttempts": Case(DIRECTORS, REASON),
    "getJob": Case(STAFF, prepare=rejudged),
    "applyRejudging": Case(DIRECTORS, prepare=rejudged),
    "dropRejudging": Case(DIRECTORS, prepare=rejudged),
    "finaliseTournament": Case(DIRECTORS, prepare=verified),
    "reopenTournament": Case(OWNER, REASON, final),
    "getResults": Case(ALL, prepare=final),
    "getResultsEdition": Case(ALL, prepare=final),
    "exportTournamentReplays": Case(ALL, prepare=over),
    "createRuling": Case(DIRECTORS, {"kind": "extend", "round": 1, "ms": 1, **REASON}),
    "listRulings": Case(ALL),
    "reverseRuling": Case(DIRECTORS, REASON, ruled),
    "listRoles": Case(STAFF),
    "giveRole": Case(OWNER, {"role": "viewer"}),
    "takeRole": Case(OWNER),
    "createInvite": Case(DIRECTORS, {}),
    "listInvites": Case(STAFF),
    "revokeInvite": Case(DIRECTORS, prepare=invited),
    "getReport": Case(STAFF),
    "createEntryCode": Case(DIRECTORS, REASON),
    "createWebhook": Case(DIRECTORS, {"url": "https://example.org/rendezvous"}),
    "listWebhooks": Case(DIRECTORS),
    "deleteWebhook": Case(DIRECTORS, prepare=followed),
    "listDeliveries": Case(DIRECTORS, prepare=followed),
    "redeliver": Case(DIRECTORS, {"from": 1, "to": 1}, followed),
    "takeEntryOver": Case(
        frozenset(), {"code": "22222-22222-22222-22222"}, refusal=(403, "invite-invalid")
    ),
}
"""Every operation on a tournament: what is added to the contract is added here."""


@pytest.fixture
def hall(client: Client, host: Host, database: Database) -> Hall:
    """A tournament under way with somebody of each part."""
    wide = tuple(scope for scope in SCOPES if scope != "admin")
    plain = {part: client.register(part) for part in PARTS if part != "owner"}
    people = {
        part: organiser(person, database, *(SCOPES if part == "admin" else wide))
        for part, person in plain.items()
    }
    people["owner"] = host
    contest = host.tournament((0, 600, 2), (700, 800, 1), reveal="by-hand")
    for part in ("director", "viewer"):
        path = f"{contest['links']['self']}/roles/{people[part].id}"
        expect(host.ask("PUT", path, {"role": part}))
    entry = enter(plain["player"], contest)["id"]
    finish(plain["player"], contest)
    start(plain["player"], contest, 2)
    made = {
        "tournament_id": contest["id"],
        "entry_id": entry,
        "player_id": people["viewer"].id,
        "number": "1",
        "ruling": "1",
        "edition": "1",
    }
    return Hall(host, people, contest, entry, made)


def ask(hall: Hall, name: str, person: Person) -> TestResponse:
    """Return the answer to an operation that somebody asks."""
    method, path, _ = OPERATIONS[name]
    for parameter in re.findall("{(.*?)}", path):
        path = path.replace(f"{{{parameter}}}", hall.made.get(parameter) or unknown_id())
    case = CASES[name]
    headers = {}
    if name == "editTournament":
        headers["If-Match"] = hall.host.get(hall.contest["links"]["self"]).headers["ETag"]
    path += case.query.format(entry=hall.entry)
    return person.ask(method, path, case.body, headers=headers)


def test_every_operation_on_tournaments_is_in_the_table() -> None:
    assert set(CASES) == set(OPERATIONS)


@pytest.mark.parametrize("name", CASES)
def test_a_part_is_good_for_what_it_is_good_for_and_a_token_must_be_too(
    hall: Hall, name: str, database: Database
) -> None:
    case = CASES[name]
    case.prepare(hall)
    needed = OPERATIONS[name][2]["security"][-1]["token"]
    (scope,) = needed
    done = False
    # Those who are refused come first: what is done may not be done twice.
    for part in sorted(PARTS, key=lambda part: part in case.parts):
        person = hall.people[part]
        narrow = organiser(person, database, *(one for one in SCOPES if one != scope))
        lacking = problem(ask(hall, name, narrow))
        assert lacking == (403, "scope-missing"), part
        assert lacking.body["required_scope"] == scope
        answer = ask(hall, name, person)
        if (name, part) in EXCEPTIONS:
            assert problem(answer) == EXCEPTIONS[name, part], part
        elif part not in case.parts:
            assert problem(answer) == case.refusal, part
        elif name in ONCE and done:
            assert answer.status_code == ONCE[name], part
        else:
            done = answer.status_code in {200, 201, 202, 204}
            assert done, (part, answer.get_data(as_text=True))


ONCE = {"takeRole": 404, "deleteWebhook": 404, "reverseRuling": 409, "reopenTournament": 409}
"""Operations that a second one with the right part finds done, and how it is told so."""
EXCEPTIONS = {
    ("takeEntryOver", "player"): (409, "already-entered"),
}
"""What somebody is told for another reason."""


class TestRoles:
    def test_parts_are_given_told_and_taken_at_once(
        self, host: Host, ada: Person, bea: Person, database: Database
    ) -> None:
        contest = host.tournament(visibility="private")
        path = f"{contest['links']['self']}/roles"
        other = organiser(ada, database)
        assert problem(other.get(contest["links"]["self"])) == (404, "not-found")

        first, again = (
            expect(host.ask("PUT", f"{path}/{ada.id}", {"role": "viewer"})) for _ in "ab"
        )

        assert first == again
        assert first["player"] == {"id": ada.id, "name": "Ada"}
        assert expect(other.get(contest["links"]["self"]))["role"] == "viewer"
        assert problem(other.act(contest, "freeze")) == (403, "role-missing")
        expect(host.ask("PUT", f"{path}/{ada.id}", {"role": "director"}))
        expect(other.act(contest, "freeze"))
        hosted = expect(other.get("/v1/tournaments?which=hosted"))["tournaments"]
        assert [one["id"] for one in hosted] == [contest["id"]]
        told = expect(other.get(path))["roles"]
        assert [(one["player"]["name"], one["role"]) for one in told] == [("Ada", "director")]
        assert host.ask("DELETE", f"{path}/{ada.id}").status_code == 204
        assert problem(other.get(contest["links"]["self"])) == (404, "not-found")
        assert problem(host.ask("DELETE", f"{path}/{ada.id}")) == (404, "not-found")
        kinds = [one["kind"] for one in happened(host, contest)]
        assert (kinds.count("role-given"), kinds.count("role-taken")) == (2, 1)
        for player in (unknown_id(), bea.id):
            if player == bea.id:
                assert bea.ask("DELETE", "/v1/players/me").status_code == 204
            gone = host.ask("PUT", f"{path}/{player}", {"role": "viewer"})
            assert problem(gone) == (404, "not-found")
        own = host.ask("PUT", f"{path}/{host.id}", {"role": "viewer"})
        assert problem(own) == (409, "wrong-state")

    def test_there_are_not_too_many(
        self, host: Host, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("service.tournaments.roles.MAX_ROLES", 3)
        contest = host.tournament()
        path = f"{contest['links']['self']}/roles"
        people = [client.register(f"P{n}") for n in range(4)]
        for person in people[:3]:
            expect(host.ask("PUT", f"{path}/{person.id}", {"role": "viewer"}))

        refused = host.ask("PUT", f"{path}/{people[3].id}", {"role": "viewer"})

        assert problem(refused) == (409, "too-many-roles")
        expect(host.ask("PUT", f"{path}/{people[0].id}", {"role": "director"}))
        first = host.get(f"{path}?limit=2")
        second = first.headers["Link"].split(">")[0][1:]
        names = [
            one["player"]["name"]
            for page in (expect(first), expect(host.get(second)))
            for one in page["roles"]
        ]
        assert names == ["P2", "P1", "P0"]
