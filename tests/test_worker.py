"""The process that does what is due when nobody asks, and that nothing depends on it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from client import Client, Contract, Json, Person, expect
from documents import SIGNING_KEYS
from hall import Host, enter, finish, happened, organiser, start
from server import PATIENCE, await_, own_postgres, working
from sqlalchemy import text

from service.app import create_app
from service.settings import Settings
from service.signatures import SigningKeys
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres
from service.tournaments import settling
from service.worker import Worker

CUT = {"by": "top", "value": 1}
HASTY = "import service.worker as w; w.LOOK_EVERY = 0.05"


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    """A player who hosts tournaments."""
    return organiser(client.register("Grace"), database)


def stored(database: Database, tournament: Json) -> list[tuple[str, int]]:
    """Return kinds and numbers of the events that are stored, asking nobody who settles."""
    query = text(
        "SELECT kind, number FROM tournament_events WHERE tournament_id = :id ORDER BY number"
    )
    found = database.run(lambda one: one.execute(query, {"id": tournament["id"]}).fetchall())
    return [(kind, number) for kind, number in found]


def kinds(database: Database, tournament: Json) -> list[str]:
    return [kind for kind, _ in stored(database, tournament)]


def test_s_8_what_is_due_is_written_though_nobody_asks(
    host: Host, ada: Person, database: Database
) -> None:
    """S-8: an attempt that is overdue ends, and the cut that follows is made, once."""
    tournament = host.tournament((0, 600, 1), (700, 900, 1, CUT))
    enter(ada, tournament)
    start(ada, tournament)
    worker = Worker(database)
    worker.step()
    before = kinds(database, tournament)

    host.elapse(tournament, 620)
    worker.step()
    after = stored(database, tournament)
    worker.step()

    assert before == ["created", "published", "joined"]
    assert [kind for kind, _ in after][3:] == ["result", "cut"]
    assert stored(database, tournament) == after
    assert [number for _, number in after] == [1, 2, 3, 4, 5]


def test_a_cut_alone_is_made_too(host: Host, ada: Person, database: Database) -> None:
    tournament = host.tournament((0, 600, 1), (700, 900, 1, CUT))
    enter(ada, tournament)
    finish(ada, tournament)
    host.elapse(tournament, 604)
    worker = Worker(database)
    worker.step()
    early = kinds(database, tournament)
    host.elapse(tournament, 2)
    worker.step()

    assert "cut" not in early
    assert kinds(database, tournament) == [*early, "cut"]


def test_s_8_what_was_missed_is_caught_up_by_whoever_reads(
    host: Host, ada: Person, database: Database
) -> None:
    """S-8: no worker ran at all; one that comes later finds nothing to do."""
    tournament = host.tournament((0, 600, 1), (700, 900, 1, CUT))
    enter(ada, tournament)
    start(ada, tournament)
    host.elapse(tournament, 620)

    seen = [event["kind"] for event in happened(ada, tournament)]
    Worker(database).step()

    assert seen[-2:] == ["result", "cut"]
    assert [event["kind"] for event in happened(ada, tournament)] == seen


def test_one_that_cannot_be_settled_does_not_keep_the_others_waiting(
    host: Host,
    ada: Person,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken, sound = (host.tournament((0, 600, 1)) for _ in range(2))
    for one in (broken, sound):
        enter(ada, one)
        start(ada, one)
        host.elapse(one, 620)
    settle = settling.settle

    def fail(store: Database, tournament: UUID) -> None:
        assert str(tournament) != broken["id"], "as broken as can be"
        settle(store, tournament)

    worker = Worker(database)
    with monkeypatch.context() as patched:
        patched.setattr(settling, "settle", fail)
        worker.step()
        worker.step()
    between = kinds(database, broken), kinds(database, sound)
    worker.step()

    assert (between[0][-1], between[1][-1]) == ("joined", "result")
    assert kinds(database, broken)[-1] == "result"
    assert caplog.text.count("is left as it is") == 1


@pytest.fixture(scope="module")
def mortal() -> Iterator[EmbeddedPostgres]:
    """A Postgres that may be stopped."""
    with own_postgres() as server:
        yield server


class Hall:
    """A host and a player of a database that may be stopped."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self.database = Database(postgres.url)
        app = create_app(Settings(rate_limits="off"), self.database, SigningKeys.load(SIGNING_KEYS))
        client = Client(app, Contract(app))
        self.host = organiser(client.register("Grace"), self.database)
        self.ada = client.register("Ada")

    def overdue(self) -> Json:
        """Return a tournament in which an attempt is overdue."""
        tournament = self.host.tournament()
        enter(self.ada, tournament)
        start(self.ada, tournament)
        self.host.elapse(tournament, 620)
        return tournament

    def settled(self, tournament: Json) -> bool:
        return kinds(self.database, tournament).count("result") > 0


@pytest.fixture
def hall(mortal: EmbeddedPostgres) -> Iterator[Hall]:
    found = Hall(mortal)
    yield found
    found.database.dispose()


def test_two_at_once_write_each_thing_once(mortal: EmbeddedPostgres, hall: Hall) -> None:
    many = [hall.overdue() for _ in range(6)]

    with working(mortal.url, first=HASTY), working(mortal.url, first=HASTY):
        await_(lambda: all(hall.settled(one) for one in many))

    for one in many:
        assert [number for _, number in stored(hall.database, one)] == [1, 2, 3, 4]
        assert kinds(hall.database, one).count("result") == 1


def test_it_waits_while_the_database_is_away_and_says_so_once(
    mortal: EmbeddedPostgres, hall: Hall, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("w") as kept, working(mortal.url, first=HASTY, log=kept, LOG="json"):
        first = hall.overdue()
        await_(lambda: hall.settled(first))
        hall.database.dispose()
        mortal.stop()
        try:
            await_(lambda: "what is due waits" in log.read_text())
        finally:
            mortal.start()
        second = hall.overdue()
        await_(lambda: hall.settled(second))

    lines = log.read_text().splitlines()
    assert len(lines) == 1
    assert '"level":"warning"' in lines[0]


def test_it_ends_with_the_process_that_started_it(mortal: EmbeddedPostgres) -> None:
    outer = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-P", "-m", "service.worker", str(os.getpid())],
    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
child.stdin.write(sys.argv[1].encode() + b"\\n")
child.stdin.close()
print(child.pid)
"""
    done = subprocess.run(
        [sys.executable, "-c", outer, mortal.url],
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    pid = int(done.stdout)

    await_(lambda: not running(pid))


def running(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_one_that_is_told_no_database_ends_without_a_word() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "service.worker", str(os.getpid())],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_job_is_brought_to_its_end_though_nobody_asks(
    host: Host, ada: Person, database: Database
) -> None:
    tournament = host.tournament()
    enter(ada, tournament)
    finish(ada, tournament)
    path = f"{tournament['links']['self']}/verifications"
    begun = expect(host.post(path), 202)
    worker = Worker(database)

    await_(lambda: not worker.step())
    query = text("SELECT state FROM tournament_jobs WHERE id = :id")
    state = database.run(lambda one: one.execute(query, {"id": begun["id"]}).scalar_one())

    assert begun["state"] == "running"
    assert state == "done"
