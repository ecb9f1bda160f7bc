"""What a tournament comes to: attempts verified and judged again, results made final."""

import csv
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from client import Client, Contract, Json, Person, dropped, expect, problem, told, unknown_id
from documents import SIGNING_KEYS
from hall import Host, enter, finish, happened, organiser, standings, start
from sqlalchemy import Connection, text

from service import standings as stored
from service.api import framework
from service.app import create_app
from service.engine import verify as verify_replay
from service.engine.replay import commitment
from service.engine.results import digest, signed_facts
from service.engine.verify import Problem
from service.settings import Settings
from service.signatures import Checker, SigningKeys, load
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


def played(host: Host, *people: Person, **plan: Any) -> tuple[Json, list[Json]]:
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

    @pytest.mark.parametrize("settled", [False, True])
    def test_times_that_are_damaged_beyond_all_bounds_leave_all_others_their_standings(
        self, host: Host, ada: Person, bea: Person, database: Database, *, settled: bool
    ) -> None:
        """Whether it was settled before or after: it is found, and nobody is answered 500."""
        contest = host.tournament((0, 60, 2))
        for person in (ada, bea):
            enter(person, contest)
        finish(bea, contest, plies=2)
        finish(ada, contest, plies=3)
        game = ada.play(start(ada, contest, 2), 1)
        host.elapse(contest, 50)
        if settled:
            host.elapse(contest, 16)
            assert ada.read(game)["status"] == "timed-out"
        times = "UPDATE games SET times = decode(repeat('ff', 20) || '7f', 'hex') WHERE id = :id"
        change(database, times, id=game["id"])
        host.elapse(contest, 16)

        assert [name for name, _ in ranks(bea, contest)] == ["Ada", "Bea"]
        job = rejudge(host, contest)
        assert [one["game"] for one in job["findings"]["invalid"]] == [game["id"]] * settled
        expect(host.post(f"{job['links']['self']}/drop"))
        assert verify(host, contest)["state"] == "done"

        assert [row["total"]["deals"] for row in standings(host, contest)] == [1, 1]
        assert expect(host.act(contest, "finalise"))["state"] == "final"

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

    def test_a_job_that_cannot_go_on_says_so_and_lets_others_go_on(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        """A row that cannot be read, as a damaged disk may leave one: no reader is answered 500."""
        while jobs.step(database):
            pass
        contest, (game,) = played(host, ada)
        other, _ = played(host, ada)
        damaged = "UPDATE games SET ended_at = :at, deadline = :at WHERE id = :id"
        change(database, damaged, at="infinity", id=game["id"])
        job, asked = begin(host, contest), begin(host, contest, "rejudgings", reason="why")
        younger = begin(host, other)

        while jobs.step(database):
            pass

        for one, kind in ((job, "verification"), (asked, "rejudging")):
            told = expect(host.get(one["links"]["self"]))
            assert (told["state"], told["kind"], told["done"]) == ("failed", kind, 0)
            assert "finished_at" in told
        assert expect(host.get(younger["links"]["self"]))["state"] == "done"
        events = [one["kind"] for one in happened(host, contest)]
        assert events[-2:] == ["verification-failed", "rejudging-failed"]
        assert "failed" not in str(happened(ada, contest))
        again = begin(host, contest)
        assert again["id"] != job["id"]
        assert expect(host.get(again["links"]["self"]))["state"] == "failed"
        change(database, damaged, at=game["ended_at"], id=game["id"])
        assert verify(host, contest)["done"] == 1

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

    def test_s_61_how_much_it_moves_is_not_told_while_standings_are_frozen(
        self, host: Host, ada: Person, client: Client, database: Database
    ) -> None:
        """S-61: it is told with all else once they are shown again."""
        contest, (game,) = played(host, ada)
        expect(host.act(contest, "freeze"))
        before = happened(client, contest)
        change(database, "UPDATE games SET score = 50 WHERE id = :id", id=game["id"])

        expect(host.post(f"{rejudge(host, contest)['links']['self']}/apply"))

        assert happened(client, contest) == before
        assert happened(host, contest)[-1]["kind"] == "rejudging-applied"
        expect(host.act(contest, "unfreeze"))
        kinds = [one["kind"] for one in happened(client, contest)]
        assert kinds[-2:] == ["rejudging-applied", "unfrozen"]

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


@pytest.fixture
def signed(database: Database) -> Person:
    """A player of a service that has keys."""
    app = create_app(Settings(rate_limits="off"), database, SigningKeys.load(SIGNING_KEYS))
    return Client(app, Contract(app)).register("Grace")


def closed(host: Host, *people: Person, **plan: Any) -> tuple[Json, list[Json]]:
    """Return a tournament that is over, with an attempt of each, all verified."""
    contest, games = played(host, *people, **plan)
    host.elapse(contest, 606)
    verify(host, contest)
    return contest, games


def results(person: Client, contest: Json, query: str = "") -> Json:
    return expect(person.get(f"{contest['links']['self']}/results{query}"))


class TestFinal:
    def test_s_91_there_are_no_results_until_they_are_final(
        self, host: Host, ada: Person, client: Client
    ) -> None:
        """S-91: a board, frozen or not, is never given out as results."""
        contest, _ = played(host, ada)
        path = contest["links"]["self"]
        expect(host.act(contest, "freeze"))

        for form in ("", "?format=csv", "?format=ndjson"):
            assert problem(client.get(f"{path}/results{form}")) == (409, "wrong-state")
        assert problem(client.get(f"{path}/results/1")) == (404, "not-found")
        assert problem(host.act(contest, "finalise")) == (409, "wrong-state")
        host.elapse(contest, 606)
        assert problem(client.get(f"{path}/results")) == (409, "wrong-state")

    def test_s_86_what_nobody_has_verified_is_not_final(self, host: Host, ada: Person) -> None:
        """S-86: the refusal says how many attempts are missing."""
        contest, _ = played(host, ada)
        host.elapse(contest, 606)

        refused = problem(host.act(contest, "finalise"))

        assert refused == (409, "not-verified")
        assert "1 attempts" in refused.body["detail"]
        assert expect(host.get(contest["links"]["self"]))["state"] == "revealed"

    @pytest.mark.parametrize("extended", [False, True])
    def test_a_game_to_warm_up_ends_with_the_last_round_and_holds_nothing_up(
        self, host: Host, ada: Person, *, extended: bool
    ) -> None:
        """Also where that round's end was put earlier, or its extension taken back."""
        contest = host.tournament((0, 60 if extended else 6000, 1), warm_up=True)
        enter(ada, contest)
        if extended:
            body = {"kind": "extend", "round": 1, "ms": 6_000_000, "reason": "outage"}
            expect(host.act(contest, "rulings", body), 201)
        warm_up = start(ada, contest, 2)
        if extended:
            expect(host.act(contest, "rulings/1/reversal", {"reason": "no"}), 201)
        else:
            rounds = host.plan((0, 60, 1))["rounds"]
            rounds[0]["starts_at"] = contest["rounds"][0]["starts_at"]
            entry = {"closes_at": rounds[0]["ends_at"]}
            expect(host.edit(contest, rounds=rounds, entry=entry))

        host.elapse(contest, 66)

        assert ada.read(warm_up)["status"] == "timed-out"
        verify(host, contest)
        assert expect(host.act(contest, "finalise"))["state"] == "final"

    def test_s_7_finalising_is_done_once(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        """S-7: again is answered alike, with one event and one snapshot."""
        contest, _ = closed(host, ada, bea)
        expect(host.act(contest, "freeze"))

        first, again = (expect(host.act(contest, "finalise")) for _ in "ab")

        assert first == again
        assert (first["state"], first["results"]) == ("final", 1)
        assert "frozen_at" not in first
        kinds = [one["kind"] for one in happened(client, contest)]
        assert kinds.count("finalised") == 1
        told = happened(client, contest)[-1]["data"]
        found = results(client, contest)
        assert told == {"number": 1, "digest": found["digest"], "revealed": []}
        assert problem(client.get(f"{contest['links']['self']}/results/2")) == (404, "not-found")
        assert problem(ada.ask("DELETE", f"{contest['links']['self']}/entries/me")) == (
            *(409, "wrong-state"),
        )
        assert problem(host.act(contest, "verifications")) == (409, "wrong-state")

    def test_the_snapshot_is_what_the_standings_are(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        contest, games = closed(host, ada, bea)
        shown = standings(client, contest)
        expect(host.act(contest, "finalise"))

        found = results(client, contest)

        document = found["document"]
        assert found["digest"] == digest(document)
        for row, entry in zip(shown, document["entries"], strict=True):
            assert entry["id"] == row["entry"]
            for name in ("rank", "position", "status", "total", "reach"):
                assert entry[name] == row[name]
            cells = [{**cell, "verification": "valid"} for cell in entry["cells"]]
            assert cells == row["cells"]
        listed = {one["game"]: one["digest"] for e in document["entries"] for one in e["attempts"]}
        assert listed == {game["id"]: host.read(game)["digest"] for game in games}
        assert "Ada" not in str(document)

    def test_it_is_signed(self, signed: Person, database: Database) -> None:
        host = organiser(signed, database)
        contest, _ = closed(host, signed)
        expect(host.act(contest, "finalise"))

        found = results(host, contest)

        check = Checker(load(SIGNING_KEYS), required=True)
        facts = signed_facts(found["document"], found["digest"])
        assert check(found["signature"], facts) is None
        assert isinstance(check(found["signature"], facts + b" "), Problem)

    def test_s_58_a_last_move_is_in_the_results_or_refused(
        self, host: Host, ada: Person, client: Client
    ) -> None:
        """S-58: what was answered is what is written."""
        contest = host.tournament((0, 600, 1))
        enter(ada, contest)
        game = ada.play(start(ada, contest), 4)
        host.elapse(contest, 598)
        last = expect(ada.act(game, "resign"))
        host.elapse(contest, 8)
        verify(host, contest)
        expect(host.act(contest, "finalise"))

        (entry,) = results(client, contest)["document"]["entries"]

        assert [one["digest"] for one in entry["attempts"]] == [ada.read(game)["digest"]]
        assert entry["total"]["cards"] == last["score"]

    def test_standings_that_are_not_what_comes_of_the_attempts_are_not_made_final(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        contest, _ = closed(host, ada)
        query = "UPDATE tournament_standings SET key = :key WHERE tournament_id = :id AND round = 0"
        change(database, query, key=b"\x01", id=contest["id"])

        assert problem(host.act(contest, "finalise")) == (409, "not-verified")

    def test_an_undecided_rejudging_comes_first(self, host: Host, ada: Person) -> None:
        contest, _ = closed(host, ada)
        job = rejudge(host, contest)

        assert problem(host.act(contest, "finalise")) == (409, "wrong-state")
        expect(host.post(f"{job['links']['self']}/drop"))
        expect(host.act(contest, "finalise"))

    def test_what_was_not_revealed_is_revealed_by_it(
        self, host: Host, ada: Person, client: Client
    ) -> None:
        contest, games = played(host, ada, reveal="by-hand")
        host.elapse(contest, 606)
        verify(host, contest)
        path = contest["links"]["self"]
        assert told(client.get(f"{path}/replays")) == []

        expect(host.act(contest, "finalise"))

        assert happened(client, contest)[-1]["data"]["revealed"] == [1]
        (deal,) = results(client, contest)["document"]["rounds"][0]["deals"]
        assert commitment(f"{contest['id']}/1", deal["seed"]) == deal["commitment"]
        assert [one["header"]["id"] for one in told(client.get(f"{path}/replays"))] == [
            games[0]["id"]
        ]

    def test_reopened_results_stay_and_the_next_ones_have_the_next_number(
        self, host: Host, ada: Person, bea: Person, client: Client, database: Database
    ) -> None:
        contest, _ = closed(host, ada, bea)
        expect(host.act(contest, "finalise"))
        first = client.get(f"{contest['links']['self']}/results").data
        body = {"reason": "an appeal"}
        other = organiser(ada, database)
        assert problem(other.act(contest, "reopen", body)) == (403, "role-missing")

        opened = expect(host.act(contest, "reopen", body))

        assert (opened["state"], opened["results"]) == ("revealed", 1)
        assert problem(host.act(contest, "reopen", body)) == (409, "wrong-state")
        assert problem(client.get(f"{contest['links']['self']}/results")) == (409, "wrong-state")
        assert happened(client, contest)[-1]["reason"] == "an appeal"
        ada.ask("DELETE", f"{contest['links']['self']}/entries/me")
        expect(host.act(contest, "finalise"))
        assert client.get(f"{contest['links']['self']}/results/1").data == first
        second = results(client, contest)["document"]
        assert second["number"] == 2
        assert [one.get("rank") for one in second["entries"]] == [1, None]

    def test_forms_are_asked_for_by_name_or_by_accept(
        self, host: Host, client: Client, ada: Person
    ) -> None:
        formula = client.register("=1+1")
        contest, _ = closed(host, ada, formula)
        expect(host.act(contest, "finalise"))
        path = f"{contest['links']['self']}/results"
        whole = results(client, contest)

        rows = told(client.get(f"{path}?format=ndjson"))
        table = client.get(f"{path}?format=csv")

        document = {**rows[0]["document"], "entries": [row["entry"] for row in rows[1:]]}
        assert {**rows[0], "document": document} == whole
        lines = list(csv.DictReader(table.get_data(as_text=True).splitlines()))
        assert [line["entry"] for line in lines] == [one["id"] for one in document["entries"]]
        assert {line["name"] for line in lines} == {"Ada", "'=1+1"}
        assert [int(line["deal 1"]) for line in lines] == [
            one["total"]["cards"] for one in document["entries"]
        ]
        for accept, media_type in (
            ("text/csv", "text/csv"),
            ("application/x-ndjson", "application/x-ndjson"),
            ("application/json", "application/json"),
            ("*/*", "application/json"),
            ("image/png", "application/json"),
        ):
            assert client.get(path, Accept=accept).mimetype == media_type
        assert problem(client.get(f"{path}?format=xml")) == (422, "invalid-request")

    def test_an_event_that_nobody_entered_has_results_in_every_form(
        self, host: Host, client: Client
    ) -> None:
        contest = host.tournament((0, 600, 1))
        host.elapse(contest, 610)
        expect(host.act(contest, "finalise"))
        path = f"{contest['links']['self']}/results"

        document = results(client, contest)["document"]
        (row,) = told(client.get(f"{path}?format=ndjson"))
        table = client.get(f"{path}?format=csv").get_data(as_text=True)

        assert document["entries"] == []
        assert {**row["document"], "entries": []} == document
        assert len(table.splitlines()) == 1

    @pytest.mark.parametrize("form", ["json", "ndjson", "csv"])
    def test_who_takes_long_results_too_slowly_is_dropped_and_holds_one_place(
        self,
        host: Host,
        client: Client,
        ada: Person,
        bea: Person,
        monkeypatch: pytest.MonkeyPatch,
        form: str,
    ) -> None:
        contest, _ = closed(host, ada, bea)
        expect(host.act(contest, "finalise"))
        path = f"{contest['links']['self']}/results?format={form}"
        app = create_app(Settings(threads=2, rate_limits="off"), host.store)
        whole = client.get(path)

        with monkeypatch.context() as impatient:
            impatient.setattr(framework, "_TAKEN_WITHIN", 0.1)
            impatient.setattr(framework, "_PIECE", 64)
            stream = app.test_client().get(path)
            pieces = stream.iter_encoded()
            first = next(pieces)
            refused = problem(Client(app, client.contract).get(path))
            taken = first + b"".join(dropped(pieces))

        assert refused == (503, "streams-full")
        assert whole.data.startswith(taken)
        assert len(taken) < len(whole.data)
        assert stream.content_length == (None if form == "ndjson" else len(whole.data))
        assert app.test_client().get(path).data == whole.data


class TestReplays:
    def test_before_the_reveal_they_are_each_players_own(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        contest, games = played(host, ada, bea)
        path = f"{contest['links']['self']}/replays"

        for person, own in ((ada, games[0]), (bea, games[1])):
            (replay,) = told(person.get(path))
            assert replay["header"]["id"] == own["id"]
            assert "seed" not in replay
        assert told(host.get(path)) == told(client.get(path)) == []
        host.elapse(contest, 606)
        watching: list[Client] = [ada, client]
        for watcher in watching:
            found = told(watcher.get(path))
            assert [one["header"]["id"] for one in found] == [game["id"] for game in games]
            assert {verify_replay(one).verdict for one in found} == {"valid"}

    def test_they_are_read_in_chunks_and_none_is_left_out(
        self, host: Host, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("service.tournaments.results._CHUNK", 2)
        contest, games = played(host, *(client.register(f"P{n}") for n in range(5)))
        host.elapse(contest, 606)

        found = told(client.get(f"{contest['links']['self']}/replays"))

        assert [one["header"]["id"] for one in found] == [game["id"] for game in games]

    def test_an_invalid_attempt_is_told_as_such(
        self, host: Host, ada: Person, client: Client, database: Database
    ) -> None:
        contest, (game,) = played(host, ada)
        change(database, "UPDATE games SET score = 50 WHERE id = :id", id=game["id"])
        host.elapse(contest, 606)
        verify(host, contest)
        expect(host.act(contest, "finalise"))

        assert told(client.get(f"{contest['links']['self']}/replays")) == [{"broken": game["id"]}]
        (entry,) = results(client, contest)["document"]["entries"]
        assert entry["attempts"] == [{"game": game["id"], "deal": 1, "attempt": 1, "invalid": True}]
        assert entry["total"]["deals"] == 0
