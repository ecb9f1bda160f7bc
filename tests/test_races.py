"""Tournaments when many act at once, on two live processes: counts, deadlines, standings exact."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import psycopg
import pytest
from client import Client, Json, Person, expect, problem
from hall import Host, enter, happened, organiser, start, try_to_start
from scratch import check, from_scratch, whole
from server import PATIENCE, Answer, Service, libpq, running

from service.schedule import CLOSING
from service.store.database import Database, Statement
from service.store.embedded import EmbeddedPostgres

T = TypeVar("T")


@pytest.fixture(scope="module")
def live(postgres: EmbeddedPostgres, database: Database) -> Iterator[Service]:
    """Two processes that serve the tests' database."""
    assert database.now()
    with running(postgres.url, WORKERS="2", THREADS="8") as service:
        yield service


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    """A player who hosts tournaments."""
    return organiser(client.register("Grace"), database)


def at_once(acts: Sequence[Callable[[], T]]) -> list[T]:
    """Return what acts give that begin at the same moment, each in a thread of its own."""
    barrier = threading.Barrier(len(acts))

    def act(one: Callable[[], T]) -> T:
        barrier.wait(PATIENCE)
        return one()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act, acts))


def post(live: Service, person: Person, path: str, body: Json | None = None) -> Answer:
    """Return a live process's answer to a person."""
    return Service(live.port, person.token).ask("POST", path, {} if body is None else body)


def resign(live: Service, person: Person, game: Json) -> Answer:
    return post(live, person, f"/v1/games/{game['id']}/resign", {"ply": game["ply"]})


def codes(answers: Sequence[Answer]) -> Counter[str]:
    """Return how often each answer came, by its problem's code or its status."""
    return Counter(str(one.body.get("code", one.status)) for one in answers)


def crowd(client: Client, contest: Json, count: int) -> list[Person]:
    """Return players who have entered."""
    people = [client.register(f"P{n}") for n in range(count)]
    for person in people:
        enter(person, contest)
    return people


class TestEntering:
    def test_s_23_fifty_who_join_at_once_for_ten_places_are_exactly_ten(
        self, live: Service, host: Host, client: Client, database: Database
    ) -> None:
        contest = host.tournament(entry={"capacity": 10})
        people = [client.register(f"P{n}") for n in range(50)]
        path = contest["links"]["entries"]

        answers = at_once([partial(post, live, person, path) for person in people])

        assert codes(answers) == {"201": 10, "tournament-full": 40}
        joined = {one.body["id"] for one in answers if one.status == 201}
        assert {row["entry"] for row in whole(host, contest)} == joined
        told = [one["entry"] for one in happened(host, contest) if one["kind"] == "joined"]
        assert len(told) == 10
        assert set(told) == joined
        assert expect(client.get(contest["links"]["self"]))["entry"]["entries"] == 10
        check(host, database, contest)

    def test_s_23_who_joins_ten_times_at_once_has_one_entry(
        self, live: Service, host: Host, ada: Person
    ) -> None:
        contest = host.tournament()

        answers = at_once([partial(post, live, ada, contest["links"]["entries"])] * 10)

        assert codes(answers) == {"201": 10}
        assert len({one.body["id"] for one in answers}) == 1
        assert expect(ada.get(contest["links"]["self"]))["entry"]["entries"] == 1

    def test_places_are_counted_right_while_players_come_and_go(
        self, live: Service, host: Host, client: Client, database: Database
    ) -> None:
        contest = host.tournament(entry={"capacity": 4})
        path = contest["links"]["entries"]

        def come_and_go(person: Person) -> int:
            own = Service(live.port, person.token)
            joined = 0
            for _ in range(6):
                answer = own.ask("POST", path, {})
                assert codes([answer]).keys() <= {"201", "tournament-full"}
                if answer.status == 201:
                    joined += 1
                    assert own.ask("DELETE", f"{path}/me").status == 204
            return joined

        came = at_once([partial(come_and_go, client.register(f"P{n}")) for n in range(8)])

        assert sum(came) >= 4
        assert expect(client.get(contest["links"]["self"]))["entry"]["entries"] == 0
        check(host, database, contest)


class TestStarting:
    def test_s_87_twenty_starts_at_once_are_one_game(
        self, live: Service, host: Host, ada: Person
    ) -> None:
        contest = host.tournament(attempts=3)
        enter(ada, contest)
        path = contest["links"]["attempts"]

        answers = at_once([partial(post, live, ada, path, {"deal": 1})] * 20)

        assert codes(answers) == {"201": 20}
        assert len({one.body["id"] for one in answers}) == 1

    def test_s_87_starts_and_ends_at_once_give_as_many_attempts_as_there_are(
        self, live: Service, host: Host, ada: Person, database: Database
    ) -> None:
        """S-87: with three left, twenty who start and give up again and again give three."""
        contest = host.tournament(attempts=3)
        enter(ada, contest)

        def use_up() -> set[str]:
            found: set[str] = set()
            while True:
                answer = post(live, ada, contest["links"]["attempts"], {"deal": 1})
                if answer.status != 201:
                    assert codes([answer]) == {"attempts-used": 1}
                    return found
                found.add(answer.body["id"])
                # Of those who give the same game up one does, and the others repeat it.
                assert resign(live, ada, {**answer.body, "ply": 0}).status == 200

        found = at_once([use_up] * 20)

        assert len(set().union(*found)) == 3
        mine = expect(ada.get(f"{contest['links']['entries']}/me"))["deals"][0]
        assert mine["attempts"] == {"allowed": 3, "started": 3, "finished": 3, "left": 0}
        assert [one["attempt"] for one in mine["games"]] == [1, 2, 3]
        ended = [one for one in happened(host, contest) if one["kind"] == "result"]
        assert [one["data"]["attempt"] for one in ended] == [1, 2, 3]
        check(host, database, contest)

    def test_s_5_attempts_count_however_long_ago_they_were_made(
        self, host: Host, ada: Person
    ) -> None:
        """S-5: nothing of an attempt expires; what is left follows from the games alone."""
        year = 365 * 86_400
        contest = host.tournament((0, 3 * year, 1), attempts=2, limit_ms=60_000)
        enter(ada, contest)

        for used in (1, 2):
            start(ada, contest)
            host.elapse(contest, year)
            mine = expect(ada.get(f"{contest['links']['entries']}/me"))["deals"][0]["attempts"]
            assert mine == {"allowed": 2, "started": used, "finished": used, "left": 2 - used}

        assert problem(try_to_start(ada, contest)) == (409, "attempts-used")


class TestDeadlines:
    def test_s_58_acts_around_a_deadline_count_if_their_instant_is_before_it(
        self, live: Service, host: Host, client: Client, database: Database
    ) -> None:
        """S-58: whoever is answered that it counts finds it stored, and nobody else does."""
        contest = host.tournament(limit_ms=2000)
        people = crowd(client, contest, 12)
        games = at_once([partial(start, person, contest) for person in people])
        acts: list[tuple[float, float, bool]] = []

        def act(person: Person, game: Json, *, ends: bool) -> tuple[Json, list[int]]:
            """Act until refused; return the game as it was last answered, and all instants."""
            deadline = game["header"]["tournament"]["deadline"] / 1000
            own = Service(live.port, person.token)
            instants: list[int] = []
            time.sleep(max(0.0, deadline - 0.3 - time.time()))
            while True:
                if ends and time.time() > deadline - 0.02:
                    body: Json = {"ply": game["ply"]}
                    sent, answer = time.time(), own.ask("POST", _at(game, "resign"), body)
                else:
                    body = {"ply": game["ply"], "moves": game["legal_moves"][:1]}
                    sent, answer = time.time(), own.ask("POST", _at(game, "moves"), body)
                acts.append((sent - deadline, time.time() - deadline, answer.status == 200))
                if answer.status != 200:
                    assert codes([answer]) == {"deadline-passed": 1}
                    assert answer.body["game"]["ply"] == game["ply"]
                    return game, instants
                game = answer.body
                instants += [one["ms"] for one in game["applied"]]
                if game["status"] != "playing":
                    return game, instants

        found = at_once(
            [
                partial(act, person, game, ends=n % 2 == 0)
                for n, (person, game) in enumerate(zip(people, games, strict=True))
            ]
        )

        # The clock of this machine is the database's.
        assert all(counted for _, answered, counted in acts if answered < 0)
        assert not any(counted for sent, _, counted in acts if sent > 0.001)
        assert any(-0.05 < sent < 0.05 for sent, _, _ in acts)
        host.elapse(contest, 10)
        for person, (last, instants) in zip(people, found, strict=True):
            replay, stored = person.replay(last), person.read(last)
            assert replay["times"] == instants
            assert all(ms <= 2000 for ms in instants)
            assert (stored["ply"], stored["score"]) == (last["ply"], last["score"])
            gone = last["status"] == "playing"
            assert stored["status"] == ("timed-out" if gone else last["status"])
        assert {last["status"] for last, _ in found} >= {"playing"}
        check(host, database, contest)

    def test_who_joins_and_starts_around_the_end_is_in_if_it_was_before_it(
        self, live: Service, host: Host, client: Client, database: Database
    ) -> None:
        people = [client.register(f"P{n}") for n in range(48)]
        contest = host.tournament((0, 3, 1))
        ends = datetime.fromisoformat(contest["rounds"][0]["ends_at"])
        asked: list[tuple[float, Person, bool, bool]] = []

        def come(some: list[Person]) -> None:
            time.sleep(max(0.0, ends.timestamp() - 0.3 - time.time()))
            for person in some:
                sent = time.time() - ends.timestamp()
                joined = post(live, person, contest["links"]["entries"])
                begun = post(live, person, contest["links"]["attempts"], {"deal": 1})
                assert codes([joined]).keys() <= {"201", "entry-closed"}
                assert codes([begun]).keys() <= {"201", "deal-closed", "not-entered"}
                asked.append((sent, person, joined.status == 201, begun.status == 201))

        at_once([partial(come, people[n::6]) for n in range(6)])

        assert not any(joined or begun for sent, _, joined, begun in asked if sent >= 0)
        assert any(joined for _, _, joined, _ in asked)
        for _, person, joined, begun in asked:
            mine = person.get(f"{contest['links']['entries']}/me")
            if not joined:
                assert problem(mine) == (409, "not-entered")
                continue
            entry = expect(mine)
            games = entry["deals"][0]["games"]
            assert datetime.fromisoformat(entry["joined_at"]) < ends
            assert len(games) == begun
            assert all(datetime.fromisoformat(one["created_at"]) < ends for one in games)
        host.elapse(contest, 10)
        check(host, database, contest)

    def test_s_58_an_act_that_is_held_up_beyond_the_settling_is_refused(
        self,
        live: Service,
        host: Host,
        ada: Person,
        bea: Person,
        database: Database,
        postgres: EmbeddedPostgres,
    ) -> None:
        """S-58: what it was when it came does not count any more, and it is not said to."""
        contest = host.tournament()
        for person in (ada, bea):
            enter(person, contest)
        mine, other = start(ada, contest), start(bea, contest)
        move = {"ply": 0, "moves": mine["legal_moves"][:1]}

        with ThreadPoolExecutor(2) as pool, holding(postgres, contest, mine):
            moved = pool.submit(post, live, ada, _at(mine, "moves"), move)
            ended = pool.submit(resign, live, bea, other)
            time.sleep(CLOSING.total_seconds() + 0.5)
            assert not moved.done()
            assert not ended.done()

        assert codes([moved.result(), ended.result()]) == {"database-unavailable": 2}
        assert ada.read(mine)["ply"] == bea.read(other)["ply"] == 0
        assert resign(live, bea, other).status == 200
        check(host, database, contest)


@contextmanager
def holding(postgres: EmbeddedPostgres, contest: Json, game: Json) -> Iterator[None]:
    """Hold a tournament's row, and a game's as whoever changes it does."""
    with psycopg.connect(libpq(postgres.url)) as connection:
        connection.execute("SELECT FROM tournaments WHERE id = %s FOR UPDATE", [contest["id"]])
        connection.execute("UPDATE games SET verified = NULL WHERE id = %s", [game["id"]])
        yield


def _at(game: Json, act: str) -> str:
    return f"/v1/games/{game['id']}/{act}"


class TestResults:
    def test_deals_that_an_entry_ends_at_once_are_all_in_its_standings(
        self, live: Service, host: Host, client: Client, database: Database
    ) -> None:
        contest = host.tournament((0, 600, 8))
        people = crowd(client, contest, 3)
        games = [
            (person, person.play(start(person, contest, deal), deal))
            for person in people
            for deal in range(1, 9)
        ]

        answers = at_once([partial(resign, live, *game) for game in games])

        assert codes(answers) == {"200": 24}
        assert [len(row["cells"]) for row in whole(host, contest)] == [8, 8, 8]
        told = [one for one in happened_all(host, contest) if one["kind"] == "result"]
        assert len({(one["entry"], one["data"]["deal"]) for one in told}) == len(told) == 24
        check(host, database, contest)

    def test_a_board_is_frozen_and_shown_while_results_come_in(
        self, live: Service, host: Host, client: Client, database: Database
    ) -> None:
        contest = host.tournament((0, 600, 3))
        people = crowd(client, contest, 8)
        games = [
            (person, person.play(start(person, contest, deal), 3 + deal))
            for person in people
            for deal in (1, 2, 3)
        ]
        path = contest["links"]["standings"]
        frozen: list[set[bytes]] = []
        done = threading.Event()

        def freeze_and_show() -> None:
            while not done.is_set():
                assert post(live, host, f"{contest['links']['self']}/freeze").status == 200
                frozen.append({Service(live.port).ask("GET", path).data for _ in range(3)})
                assert post(live, host, f"{contest['links']['self']}/unfreeze").status == 200

        with ThreadPoolExecutor(1) as pool:
            toggling = pool.submit(freeze_and_show)
            for begin in range(0, len(games), 6):
                answers = at_once([partial(resign, live, *one) for one in games[begin : begin + 6]])
                assert codes(answers) == {"200": 6}
            done.set()
            toggling.result(PATIENCE)

        assert [len(boards) for boards in frozen] == [1] * len(frozen)
        # What was kept back is told once the board is shown again.
        told = [one for one in happened_all(host, contest) if one["kind"] == "result"]
        assert [one["public"] for one in told] == [True] * len(games)
        assert whole(client, contest) == whole(host, contest, "&view=live")
        check(host, database, contest)

    def test_s_1_a_worse_result_leaves_the_order_as_it_is(
        self, host: Host, client: Client, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S-1: ranks are read from the stored standings, which only a better result changes."""
        monkeypatch.setattr("service.api.tournaments.draw_seed", lambda: f"{1:064x}")
        contest = host.tournament((0, 600, 1), attempts=3)
        people = crowd(client, contest, 4)
        for n, person in enumerate(people):
            end(person, contest, 5 + 5 * n)
        before = whole(host, contest)
        cards = [row["total"]["cards"] for row in before]
        assert len(set(cards)) == 4

        for person in people:
            assert end(person, contest, 0)["score"] < min(cards)
            assert whole(host, contest) == before

        last = next(one for one in people if one.id == before[-1]["player"]["id"])
        end(last, contest, 60)
        assert whole(host, contest)[0]["entry"] == before[-1]["entry"]
        assert from_scratch(database, contest["id"])[0]["entry"] == before[-1]["entry"]
        check(host, database, contest)

    def test_s_73_the_move_that_ends_an_attempt_takes_one_statement_more_than_another(
        self, host: Host, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S-73: three, however many there are to be ranked; nothing is left to be waited for."""
        contest = host.tournament((0, 600, 1))
        made: list[Statement] = []
        plain = Statement.on

        def noted(self: Statement, *args: Any, **options: Any) -> Any:
            made.append(self)
            return plain(self, *args, **options)

        for count in (1, 9):
            person = crowd(client, contest, count)[-1]
            game = start(person, contest)
            with monkeypatch.context() as patch:
                patch.setattr(Statement, "on", noted)
                moved = person.move(game, game["legal_moves"][0])
                assert len(made) == 2
                expect(person.act(moved, "resign"))
                assert len(made) == 2 + 3
            made.clear()


def end(person: Person, contest: Json, plies: int) -> Json:
    """Return an attempt that is given up after some moves."""
    return expect(person.act(person.play(start(person, contest), plies), "resign"))


def happened_all(host: Host, contest: Json) -> list[Json]:
    """Return all events of a tournament."""
    found: list[Json] = []
    path = f"{contest['links']['self']}/events"
    while page := expect(host.get(f"{path}?limit=100&after={len(found)}"))["events"]:
        found += page
    return found


class TestFinal:
    def test_s_7_who_finalises_and_leaves_at_once_finds_one_snapshot_that_is_whole(
        self, live: Service, host: Host, client: Client, database: Database
    ) -> None:
        """S-7: each who leaves is told so and has no rank in it, or is refused and has one."""
        contest = host.tournament((0, 600, 1))
        people = crowd(client, contest, 8)
        for n, person in enumerate(people):
            end(person, contest, n)
        host.elapse(contest, 606)
        verified(host, contest)
        path = contest["links"]["self"]

        def leave(person: Person) -> Answer:
            return Service(live.port, person.token).ask("DELETE", f"{path}/entries/me")

        acts = [partial(leave, person) for person in people]
        acts += [partial(post, live, host, f"{path}/finalise") for _ in range(4)]
        answers = at_once(acts)

        left, final = answers[:8], answers[8:]
        assert codes(final) == {"200": 4}
        assert {one.body["results"] for one in final} == {1}
        assert {one.status for one in left} <= {204, 409}
        kinds = [one["kind"] for one in happened_all(host, contest)]
        assert kinds.count("finalised") == 1
        assert kinds[-1] == "finalised", "nothing that counts comes after it"
        document = expect(client.get(f"{path}/results"))["document"]
        told = {one["player"]: one for one in document["entries"]}
        for person, answer in zip(people, left, strict=True):
            assert told[person.id]["withdrawn"] is (answer.status == 204)
            assert ("rank" in told[person.id]) is (answer.status != 204)
        check(host, database, contest)

    def test_s_7_a_last_act_that_is_held_up_is_in_the_results_or_refused(
        self, live: Service, host: Host, ada: Person, database: Database, postgres: EmbeddedPostgres
    ) -> None:
        """S-7: what is final is what the logs give, whoever comes first."""
        contest = host.tournament((0, 3, 1))
        enter(ada, contest)
        game = start(ada, contest)
        path = contest["links"]["self"]

        with ThreadPoolExecutor(2) as pool, holding(postgres, contest, game):
            ended = pool.submit(resign, live, ada, game)
            time.sleep(3 + CLOSING.total_seconds() + 0.5)
            final = pool.submit(post, live, host, f"{path}/finalise")
            assert not ended.done()

        assert codes([ended.result()]).keys() <= {"database-unavailable", "deadline-passed"}
        assert codes([final.result()]) == {"not-verified": 1}
        verified(host, contest)
        expect(host.act(contest, "finalise"))
        (entry,) = expect(ada.get(f"{path}/results"))["document"]["entries"]
        (attempt,) = entry["attempts"]
        replay = ada.replay(game)
        assert (attempt["status"], attempt["entries"]) == ("timed-out", 0)
        assert attempt["digest"] == replay["digest"]
        check(host, database, contest)


def verified(host: Host, contest: Json) -> None:
    """Have all attempts verified."""
    job = expect(host.act(contest, "verifications"), 202)
    while expect(host.get(job["links"]["self"]))["state"] == "running":
        pass
