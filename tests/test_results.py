"""What a tournament comes to: attempts verified and judged again, results made final."""

from functools import partial
from uuid import UUID

import pytest
from client import Client, Json, Person, expect, problem, unknown_id
from hall import Host, enter, finish, happened, organiser, standings, start
from sqlalchemy import Connection, text

from service import standings as stored
from service.store.database import Database
from service.tournaments import jobs


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    """A player who hosts tournaments."""
    return organiser(client.register("Grace"), database)


@pytest.fixture(autouse=True)
def _seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have deals drawn that are the same each time."""
    count = iter(range(10**6))
    monkeypatch.setattr("service.api.tournaments.draw_seed", lambda: f"{next(count):064x}")


def change(database: Database, query: str, **values: object) -> None:
    """Change rows behind the service's back."""

    def run(connection: Connection) -> None:
        assert connection.execute(text(query), values).rowcount == 1

    database.run(run)


def begin(host: Host, contest: Json, what: str = "verifications", **body: str) -> Json:
    """Return a job that has just begun."""
    return expect(host.act(contest, what, body or None), 202)


def through(host: Host, job: Json) -> Json:
    """Return a job when it has judged all."""
    while (told := expect(host.get(job["links"]["self"])))["state"] == "running":
        assert told["done"] <= told["total"]
    return told


def verify(host: Host, contest: Json) -> Json:
    """Return the job by which all attempts were verified."""
    return through(host, begin(host, contest))


def rejudge(host: Host, contest: Json) -> Json:
    """Return a rejudging that is to be applied or dropped."""
    return through(host, begin(host, contest, "rejudgings", reason="it is disputed"))


def played(host: Host, *people: Person, **plan: object) -> tuple[Json, list[Json]]:
    """Return a tournament of one deal with an attempt of each, each better than the one before."""
    contest = host.tournament((0, 600, 1), **plan)
    games = []
    for n, person in enumerate(people, 1):
        enter(person, contest)
        games.append(finish(person, contest, plies=4 * n))
    return contest, games


def ranks(person: Client, contest: Json) -> list[tuple[str, int | None]]:
    return [(row["player"]["name"], row.get("rank")) for row in standings(person, contest)]


def from_scratch(database: Database, contest: Json) -> None:
    database.run(partial(stored.write, tournament=UUID(contest["id"])), transaction=True)


class TestVerification:
    def test_s_85_each_result_shows_how_far_it_is_verified(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        """S-85: pending until its log was judged, then valid."""
        contest, games = played(host, ada, bea)
        before = standings(host, contest)
        assert [row["cells"][0]["verification"] for row in before] == ["pending"] * 2

        job = verify(host, contest)

        assert (job["state"], job["done"], job["total"]) == ("done", 2, 2)
        after = standings(host, contest)
        assert [row["cells"][0]["verification"] for row in after] == ["valid"] * 2
        assert [row["total"] for row in after] == [row["total"] for row in before]
        kept: dict[str, str] = host.store.run(
            lambda one: dict(
                one.execute(
                    text(
                        "SELECT id::text, encode(verified, 'hex') FROM games WHERE id = ANY(:ids)"
                    ),
                    {"ids": [UUID(game["id"]) for game in games]},
                ).fetchall()
            )
        )
        assert kept == {game["id"]: game["digest"] for game in games}

    @pytest.mark.parametrize(
        ("damage", "why"),
        [
            ("score = score + 1", "score is"),
            ("ply = ply - 1, log = substr(log, 1, length(log) - 1)", "the times are not"),
            ("log = set_byte(log, 0, 199)", "the log does not replay"),
            ("round = 1, seed = repeat('a', 64)", "the log does not replay"),
            ("ended_at = ended_at + interval '1 s'", "ended_at is not"),
        ],
    )
    def test_s_86_what_is_not_valid_leaves_the_standings_and_hosts_are_told(
        self, host: Host, ada: Person, bea: Person, database: Database, damage: str, why: str
    ) -> None:
        """S-86: and no rank is left to what was not verified."""
        contest, (_, game) = played(host, ada, bea)
        assert ranks(host, contest) == [("Bea", 1), ("Ada", 2)]
        change(database, f"UPDATE games SET {damage} WHERE id = :id", id=game["id"])  # noqa: S608

        verify(host, contest)

        assert ranks(host, contest) == [("Ada", 1), ("Bea", 2)]
        rows = standings(host, contest)
        assert rows[1]["cells"] == []
        told = [one for one in happened(host, contest) if one["kind"] == "attempt-invalid"]
        assert [one["data"]["game"] for one in told] == [game["id"]]
        assert told[0]["data"]["why"].startswith(why)
        assert told[0]["entry"] == rows[1]["entry"]
        assert "attempt-invalid" not in {one["kind"] for one in happened(ada, contest)}
        from_scratch(database, contest)
        assert standings(host, contest) == rows

    def test_what_was_played_after_its_deadline_is_found(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        contest = host.tournament((0, 600, 1))
        enter(ada, contest)
        game = ada.play(start(ada, contest), 3)
        host.elapse(contest, 606)
        assert ada.read(game)["status"] == "timed-out"
        query = "UPDATE games SET deadline = created_at, ended_at = created_at WHERE id = :id"
        change(database, query, id=game["id"])

        verify(host, contest)

        told = [one for one in happened(host, contest) if one["kind"] == "attempt-invalid"]
        assert told[0]["data"]["why"] == "it was played after its deadline"

    def test_a_seed_that_is_not_the_sealed_one_is_found(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        contest = host.tournament((0, 600, 1))
        enter(ada, contest)
        game = finish(ada, contest)
        query = "UPDATE games SET seed = repeat('a', 64) WHERE id = :id"
        change(database, query, id=game["id"])

        verify(host, contest)

        told = [one for one in happened(host, contest) if one["kind"] == "attempt-invalid"]
        assert told[0]["data"]["why"] == "it is not of the deal that was sealed"

    def test_any_number_may_step_at_once(
        self, host: Host, client: Client, database: Database
    ) -> None:
        contest, _ = played(host, *(client.register(f"P{n}") for n in range(5)))
        job = begin(host, contest)
        path = job["links"]["self"]
        (seen,) = database.run(
            lambda one: [
                jobs.Job(*row)
                for row in one.execute(
                    text("SELECT * FROM tournament_jobs WHERE id = :id"), {"id": job["id"]}
                )
            ]
        )

        for _ in range(3):
            jobs.advance(database, seen, 2)

        assert (
            database.run(
                lambda one: one.execute(
                    text("SELECT done FROM tournament_jobs WHERE id = :id"), {"id": job["id"]}
                ).scalar_one()
            )
            == 2
        ), "the same step is written once"
        assert through(host, job)["done"] == 5
        assert happened(host, contest)[-1]["data"] == {"attempts": 5, "job": job["id"]}
        assert expect(host.get(path))["state"] == "done"

    def test_a_worker_steps_what_has_been_running_longest(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        while jobs.step(database):
            pass
        contest, _ = played(host, ada)
        job = begin(host, contest)
        assert begin(host, contest)["id"] == job["id"], "one at a time"

        assert jobs.step(database)

        assert not jobs.step(database)
        assert expect(host.get(job["links"]["self"]))["state"] == "done"
        assert begin(host, contest)["id"] != job["id"]

    def test_a_move_that_is_made_meanwhile_is_not_marked(self, host: Host, ada: Person) -> None:
        contest = host.tournament((0, 600, 2))
        enter(ada, contest)
        finish(ada, contest, 1, plies=2)
        open_game = ada.play(start(ada, contest, 2), 2)

        verify(host, contest)
        expect(ada.act(open_game, "resign"))

        cells = standings(host, contest)[0]["cells"]
        assert [cell["verification"] for cell in cells] == ["valid", "pending"]
        assert verify(host, contest)["total"] == 1

    def test_jobs_are_for_hosts(self, host: Host, ada: Person, database: Database) -> None:
        contest, _ = played(host, ada)
        job = begin(host, contest)
        other = organiser(ada, database)

        assert problem(other.get(job["links"]["self"])) == (403, "role-missing")
        assert problem(other.act(contest, "verifications")) == (403, "role-missing")
        body = {"reason": "no"}
        assert problem(other.act(contest, "rejudgings", body)) == (403, "role-missing")
        for verb in ("apply", "drop"):
            path = f"{job['links']['self']}/{verb}"
            assert problem(other.post(path)) == (403, "role-missing")
            assert problem(host.post(path)) == (409, "wrong-state")
        path = f"{contest['links']['self']}/jobs/{unknown_id()}"
        assert problem(host.get(path)) == (404, "not-found")


class TestRejudging:
    def test_s_77_what_would_move_is_shown_and_moves_in_one_step(
        self, host: Host, ada: Person, bea: Person, database: Database
    ) -> None:
        """S-77: all standings that depend on it are written anew with it."""
        contest, (_, game) = played(host, ada, bea)
        verify(host, contest)
        before = standings(host, contest)
        change(database, "UPDATE games SET score = 50 WHERE id = :id", id=game["id"])

        job = rejudge(host, contest)

        assert standings(host, contest) == before, "nothing moves by looking"
        assert job["state"] == "proposed"
        found = job["findings"]
        assert [one["game"] for one in found["invalid"]] == [game["id"]]
        assert [one["entry"] for one in found["changed"]] == [before[0]["entry"]]
        assert found["changed"][0]["before"] == before[0]["total"]
        assert found["changed"][0]["after"]["deals"] == 0
        assert {one["entry"]: (one["before"], one["after"]) for one in found["ranks"]} == {
            before[0]["entry"]: (1, 2),
            before[1]["entry"]: (2, 1),
        }
        assert found["counts"] == {"invalid": 1, "restored": 0, "changed": 1, "ranks": 2}
        assert begin(host, contest, "rejudgings", reason="again")["id"] == job["id"]

        applied = [expect(host.post(f"{job['links']['self']}/apply")) for _ in "ab"]

        assert {one["state"] for one in applied} == {"applied"}
        assert ranks(host, contest) == [("Ada", 1), ("Bea", 2)]
        after = standings(host, contest)
        from_scratch(database, contest)
        assert standings(host, contest) == after
        assert [one["kind"] for one in happened(ada, contest)][-1] == "rejudging-applied"
        assert happened(ada, contest)[-1]["reason"] == "it is disputed"

        change(
            database,
            "UPDATE games SET score = :score WHERE id = :id",
            score=game["score"],
            id=game["id"],
        )
        job = rejudge(host, contest)
        assert [one["game"] for one in job["findings"]["restored"]] == [game["id"]]
        expect(host.post(f"{job['links']['self']}/apply"))
        assert standings(host, contest) == before

    def test_s_90_standings_that_are_not_what_comes_of_the_logs_are_found_and_mended(
        self, host: Host, ada: Person, bea: Person, database: Database
    ) -> None:
        """S-90: each row is compared with what it is from scratch."""
        contest, _ = played(host, ada, bea)
        verify(host, contest)
        before = standings(host, contest)
        change(
            database,
            "UPDATE tournament_standings SET key = :key"
            " WHERE tournament_id = :id AND entry_id = :entry AND round = 0 AND NOT frozen",
            key=b"\xfe",
            id=contest["id"],
            entry=before[0]["entry"],
        )
        assert ranks(host, contest) == [("Ada", 1), ("Bea", 2)]

        job = rejudge(host, contest)

        assert [one["entry"] for one in job["findings"]["changed"]] == [before[0]["entry"]]
        expect(host.post(f"{job['links']['self']}/apply"))
        assert standings(host, contest) == before

    def test_another_log_than_the_one_that_was_verified_is_found(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        contest = host.tournament((0, 600, 1))
        enter(ada, contest)
        game = finish(ada, contest, plies=3)
        verify(host, contest)
        change(
            database,
            "UPDATE games SET times = decode('00000001', 'hex'), ended_at = created_at"
            " + interval '1 ms' WHERE id = :id",
            id=game["id"],
        )

        found = rejudge(host, contest)["findings"]

        assert [one["why"] for one in found["invalid"]] == ["it is not what was verified before"]

    def test_what_is_dropped_changes_nothing(
        self, host: Host, ada: Person, bea: Person, database: Database
    ) -> None:
        contest, (_, game) = played(host, ada, bea)
        verify(host, contest)
        before = standings(host, contest)
        change(database, "UPDATE games SET score = 50 WHERE id = :id", id=game["id"])
        job = rejudge(host, contest)
        path = job["links"]["self"]

        for _ in range(2):
            assert expect(host.post(f"{path}/drop"))["state"] == "dropped"

        assert standings(host, contest) == before
        assert problem(host.post(f"{path}/apply")) == (409, "wrong-state")
        assert rejudge(host, contest)["id"] != job["id"]

    def test_what_has_changed_since_is_not_applied(
        self, host: Host, ada: Person, bea: Person, database: Database
    ) -> None:
        contest, (_, game) = played(host, ada, bea)
        verify(host, contest)
        before = standings(host, contest)
        change(database, "UPDATE games SET score = 50 WHERE id = :id", id=game["id"])
        job = rejudge(host, contest)
        change(
            database,
            "UPDATE games SET score = :score WHERE id = :id",
            score=game["score"],
            id=game["id"],
        )

        assert problem(host.post(f"{job['links']['self']}/apply")) == (409, "wrong-state")

        assert standings(host, contest) == before

    def test_a_rejudging_verifies_what_nobody_has(self, host: Host, ada: Person) -> None:
        contest, _ = played(host, ada)

        rejudge(host, contest)

        assert standings(host, contest)[0]["cells"][0]["verification"] == "valid"
