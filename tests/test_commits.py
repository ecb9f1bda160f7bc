"""An act whose commit nobody heard of is done once, and answered as if nothing had happened.

Each operation that writes is asked for three times, of places that were prepared alike: as it is,
with a connection that breaks after the commit, and with one that breaks before it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from client import Client, Contract, Json, Person, expect
from hall import enter, finish, happened, organiser, start
from sqlalchemy import text
from werkzeug.test import TestResponse

from service.store.database import Database

WHY = {"reason": "it is disputed"}
_DRAWN = re.compile(
    r"'time', \d+|\b\d{13}\b|rr_[0-9A-Za-z]+|whsec_[^\"]+"
    r"|[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{64}\b|\d{4}-\d\d-\d\dT[0-9:.]+Z|([2-9A-Z]{5}-){3}[2-9A-Z]{5}"
)


@contextmanager
def breaking(database: Database, how: str) -> Iterator[list[str]]:
    """Have the next commit's connection break ``before``, ``during`` or ``after`` it, or not."""
    commit = database.engine.dialect.do_commit
    broken: list[str] = []
    left: list[Any] = []

    def do_commit(connection: Any) -> None:
        if broken:
            commit(connection)
            return
        broken.append(how)
        if how == "during":
            left.append(connection)  # once nobody has it any more, what is under way ends
            connection.driver_connection.pgconn.send_query(b"SELECT pg_sleep(0.3); COMMIT")
        elif how != "before":
            commit(connection)
        if not how:
            return
        if how != "during":
            connection.driver_connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with patch.object(database.engine.dialect, "do_commit", do_commit):
        yield broken


class Scene:
    """A tournament with its host, players, and what else an operation needs.

    Attributes:
        by: Who asks for the operation.
    """

    def __init__(self, client: Client, database: Database) -> None:
        self.host = organiser(client.register("Grace"), database)
        self.ada, self.bea = client.register("Ada"), client.register("Bea")
        self.by: Person = self.host
        self.contest: Json | None = None

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}
    ) -> TestResponse:
        return self.by.ask(method, path, body, headers=headers)

    def draft(self, **plan: Any) -> str:
        self.contest = self.host.draft(**plan)
        return str(self.contest["links"]["self"])

    def running(self, **plan: Any) -> str:
        self.contest = self.host.tournament(**plan)
        return str(self.contest["links"]["self"])

    @property
    def there(self) -> Json:
        assert self.contest is not None
        return self.contest

    def closed(self, **plan: Any) -> str:
        """Return the path of a tournament in which an attempt was made and nothing changes."""
        path = self.running(**plan)
        enter(self.ada, self.there)
        finish(self.ada, self.there)
        self.host.elapse(self.there, 700)
        return path

    def job(self, what: str, body: Json | None = None, *, over: bool = True) -> str:
        found = expect(self.host.act(self.there, what, body), 202)
        while over and found["state"] == "running":
            found = expect(self.host.get(found["links"]["self"]))
        return str(found["links"]["self"])

    def final(self) -> str:
        path = self.closed()
        self.job("verifications")
        expect(self.host.act(self.there, "finalise"))
        return path

    def hook(self) -> Json:
        body = {"url": "https://hooks.example/"}
        made: Json = expect(self.host.act(self.there, "webhooks", body), 201)["webhook"]
        return made


Asked = tuple[Any, ...]


def rulings(scene: Scene, *bodies: Json) -> str:
    path = scene.running()
    enter(scene.ada, scene.there)
    start(scene.ada, scene.there)
    for body in bodies:
        expect(scene.host.act(scene.there, "rulings", body), 201)
    return f"{path}/rulings"


EXTEND = {"kind": "extend", "round": 1, "ms": 60_000, "reason": "outage"}
KEY = {"Idempotency-Key": "one"}
SERIES = {
    "template": "daily-deal",
    "first": "2030-03-01",
    "every": "day",
    "count": 2,
    "zone": "Europe/Berlin",
    "at": "19:00",
}


def edit(scene: Scene) -> Asked:
    path = scene.running()
    tag = scene.host.get(path).headers["ETag"]
    return "PATCH", path, {"title": "Another evening"}, {"If-Match": tag}


def join(scene: Scene) -> Asked:
    path = scene.running(entry={"by": "code"})
    code = expect(scene.host.act(scene.there, "invites", {"uses": 1}), 201)["code"]
    scene.by = scene.ada
    return "POST", f"{path}/entries", {"code": code}


def leave(scene: Scene) -> Asked:
    path = scene.running()
    enter(scene.ada, scene.there)
    scene.by = scene.ada
    return "DELETE", f"{path}/entries/me"


def attempt(scene: Scene) -> Asked:
    path = scene.running()
    enter(scene.ada, scene.there)
    scene.by = scene.ada
    return "POST", f"{path}/attempts", {"deal": 1}


def judged(verb: str) -> Callable[[Scene], Asked]:
    def prepare(scene: Scene) -> Asked:
        scene.closed()
        return "POST", f"{scene.job('rejudgings', WHY)}/{verb}"

    return prepare


def advance(scene: Scene) -> Asked:
    scene.closed()
    return "GET", scene.job("verifications", over=False)


def finalise(scene: Scene) -> Asked:
    path = scene.closed()
    scene.job("verifications")
    return "POST", f"{path}/finalise"


def role(scene: Scene, method: str, *body: Json) -> Asked:
    path = f"{scene.running()}/roles/{scene.bea.id}"
    if not body:
        expect(scene.host.ask("PUT", path, {"role": "viewer"}))
    return method, path, *body


def revoke_invite(scene: Scene) -> Asked:
    path = scene.running()
    made = expect(scene.host.act(scene.there, "invites", {}), 201)
    return "DELETE", f"{path}/invites/{made['id']}"


def code_for(scene: Scene) -> str:
    path = scene.running()
    return f"{path}/entries/{enter(scene.ada, scene.there)['id']}/code"


def take_over(scene: Scene) -> Asked:
    code = expect(scene.host.post(code_for(scene), WHY), 201)["code"]
    scene.by = scene.bea
    return "POST", f"{scene.there['links']['self']}/entries/takeover", {"code": code}


def unhook(scene: Scene) -> Asked:
    scene.running()
    return "DELETE", scene.hook()["links"]["self"]


def redeliver(scene: Scene) -> Asked:
    scene.running()
    return "POST", scene.hook()["links"]["redeliveries"], {"from": 1, "to": 2}


def own_token(scene: Scene) -> Asked:
    return "DELETE", f"/v1/tokens/{expect(scene.host.get('/v1/players/me'))['token']}"


def thawed(scene: Scene) -> Asked:
    path = scene.running()
    expect(scene.host.act(scene.there, "freeze"))
    return "POST", f"{path}/unfreeze"


def replay(scene: Scene) -> Json:
    game = scene.ada.play(scene.ada.create("royal"), 3)
    scene.by = scene.ada
    return scene.ada.replay(expect(scene.ada.act(game, "resign")))


def forget(scene: Scene) -> Asked:
    document = {**replay(scene), "extra": {"by": "another program"}}
    imported = scene.ada.post("/v1/replays", document)
    return "DELETE", imported.headers["Location"]


OPERATIONS: dict[str, Callable[[Scene], Asked]] = {
    "createPlayer": lambda _: ("POST", "/v1/players", {"name": "Hedy"}),
    "renamePlayer": lambda _: ("PATCH", "/v1/players/me", {"name": "Hedy"}),
    "deletePlayer": lambda _: ("DELETE", "/v1/players/me"),
    "createToken": lambda _: ("POST", "/v1/tokens", {"scopes": ["games:read"]}),
    "revokeToken": own_token,
    "revokeTokens": lambda _: ("DELETE", "/v1/tokens"),
    "importReplay": lambda scene: ("POST", "/v1/replays", replay(scene)),
    "deleteImport": forget,
    "createGame": lambda _: ("POST", "/v1/games", {"deal": {"seed": "5e"}}, KEY),
    "createTournament": lambda scene: ("POST", "/v1/tournaments", scene.host.plan()),
    "createSeries": lambda _: ("POST", "/v1/tournaments/series", SERIES),
    "editTournament": edit,
    "publishTournament": lambda scene: ("POST", f"{scene.draft()}/publish"),
    "cancelTournament": lambda scene: ("POST", f"{scene.running()}/cancel", WHY),
    "freezeStandings": lambda scene: ("POST", f"{scene.running()}/freeze"),
    "unfreezeStandings": thawed,
    "revealRound": lambda scene: ("POST", f"{scene.closed(reveal='by-hand')}/rounds/1/reveal"),
    "enterTournament": join,
    "leaveTournament": leave,
    "startAttempt": attempt,
    "verifyAttempts": lambda scene: ("POST", f"{scene.closed()}/verifications"),
    "rejudgeAttempts": lambda scene: ("POST", f"{scene.closed()}/rejudgings", WHY),
    "getJob": advance,
    "applyRejudging": judged("apply"),
    "dropRejudging": judged("drop"),
    "finaliseTournament": finalise,
    "reopenTournament": lambda scene: ("POST", f"{scene.final()}/reopen", WHY),
    "createRuling": lambda scene: ("POST", rulings(scene), EXTEND),
    "reverseRuling": lambda scene: ("POST", f"{rulings(scene, EXTEND)}/1/reversal", WHY),
    "giveRole": lambda scene: role(scene, "PUT", {"role": "director"}),
    "takeRole": lambda scene: role(scene, "DELETE"),
    "createInvite": lambda scene: ("POST", f"{scene.running()}/invites", {"uses": 3}),
    "revokeInvite": revoke_invite,
    "createEntryCode": lambda scene: ("POST", code_for(scene), WHY),
    "takeEntryOver": take_over,
    "createWebhook": lambda scene: (
        *("POST", f"{scene.running()}/webhooks"),
        {"url": "https://hooks.example/"},
    ),
    "deleteWebhook": unhook,
    "redeliver": redeliver,
}
"""What has each operation done, by its id; `getJob` takes a job further."""
ALONE = {"makeMoves", "undoMove", "resignGame", "verifyReplay"}
"""Operations that write by one statement, which done twice is done once, or write nothing."""


def plain(answer: TestResponse) -> tuple[int, str, str | None]:
    """Return an answer without what is drawn anew each time."""
    location = answer.headers.get("Location")
    return (
        answer.status_code,
        _DRAWN.sub("…", answer.get_data(as_text=True)),
        None if location is None else _DRAWN.sub("…", location),
    )


def done(scene: Scene) -> list[Any]:
    """Return what was told of a scene's tournament, without what is drawn anew each time."""
    if scene.contest is None:
        return []
    return [
        (one["kind"], _DRAWN.sub("…", str(sorted(one.get("data", {}).items()))))
        for one in happened(scene.host, scene.contest)
    ]


@pytest.fixture
def _seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all tournaments be of the same deals."""
    monkeypatch.setattr("service.api.tournaments.draw_seed", lambda: "5e" * 32)


@pytest.mark.usefixtures("_seeds")
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_act_is_done_once_and_answered_as_such_where_its_commit_broke(
    client: Client, database: Database, name: str
) -> None:
    seen = []
    for how in ("", "after", "before"):
        scene = Scene(client, database)
        asked = OPERATIONS[name](scene)
        with breaking(database, how) as broken:
            answer = scene.ask(*asked)
        assert broken == [how]
        assert answer.status_code < 300, answer.get_data(as_text=True)
        seen.append((plain(answer), done(scene)))

    assert seen[1] == seen[0]
    assert seen[2] == seen[0]


def test_a_commit_that_is_still_under_way_is_waited_for(ada: Person, database: Database) -> None:
    rename = text("UPDATE players SET name = name || '!' WHERE id = :id RETURNING name")

    with breaking(database, "during") as broken:
        found = database.run(
            lambda one: one.execute(rename, {"id": ada.id}).scalar_one(), transaction=True
        )

    assert broken == ["during"]
    assert found == "Ada!"
    assert expect(ada.get("/v1/players/me"))["player"]["name"] == "Ada!"


def test_every_operation_that_writes_is_tried(contract: Contract) -> None:
    writes = {
        operation["operationId"]
        for path in contract.document["paths"].values()
        for method, operation in path.items()
        if method in {"post", "put", "patch", "delete"}
    }

    assert writes == {*OPERATIONS, *ALONE} - {"getJob"}


def test_marks_of_acts_do_not_pile_up(ada: Person, database: Database) -> None:
    def count() -> int:
        query = text("SELECT count(*) FROM acts WHERE id < '01000000-0000-7000-8000-000000000000'")
        return int(database.run(lambda one: one.execute(query).scalar_one()))

    old = text(
        "INSERT INTO acts SELECT CAST('00000000-0000-7000-8000-' || lpad(n::text, 12, '0') AS uuid)"
        " FROM generate_series(1, 6) AS n"
    )
    database.run(lambda one: one.execute(old))
    before = count()

    for _ in "ab":
        expect(ada.ask("PATCH", "/v1/players/me", {"name": "Ada"}))

    assert (before, count()) == (6, 0)


def test_what_writes_nothing_is_not_marked(database: Database) -> None:
    def count() -> int:
        query = text("SELECT count(*) FROM acts")
        return int(database.run(lambda one: one.execute(query).scalar_one()))

    before = count()
    database.run(lambda one: one.execute(text("SELECT 1")).scalar_one(), transaction=True)

    assert count() == before
