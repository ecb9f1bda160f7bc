"""Random acts in a tournament: standings as from scratch, events without gaps, nothing lost."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from client import Client, Json, Person, expect
from hall import Host, organiser, rfc
from scratch import check, whole
from sqlalchemy import Connection, text

from service.store.database import Database
from service.tournaments import jobs

SCORINGS: list[Json] = [
    {},
    {"scoring": {"keys": [{"key": "cards"}, {"key": "time"}], "attempts": "last"}},
    {"scoring": {"keys": [{"key": "won"}, {"key": "cards"}], "attempts": "first", "best": 1}},
    {"scoring": {"keys": [{"key": "deals"}, {"key": "entries"}], "attempts": "best", "best": 2}},
]


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    """A player who hosts tournaments."""
    return organiser(client.register("Grace"), database)


class Walk:
    """A tournament in which anything may happen next."""

    def __init__(self, host: Host, client: Client, seed: int) -> None:
        self.chance = random.Random(seed)
        self.host = host
        self.client = client
        self.contest = host.tournament(
            (0, 400, 2),
            (410, 800, 1, {"by": "top", "value": 3}),
            attempts=2,
            limit_ms=100_000,
            warm_up=True,
            **SCORINGS[seed % len(SCORINGS)],
        )
        self.path = self.contest["links"]["self"]
        self.people = [client.register(f"P{n}") for n in range(6)]
        self.entries: dict[str, str] = {}
        self.games: list[tuple[Person, Json]] = []
        self.frozen: list[tuple[str, bytes]] = []
        self.ended: dict[str, Any] = {}
        self.done: Counter[str] = Counter()

    def step(self) -> None:
        """Do something, and hold what is stored and shown to what must be."""
        name, act = self.chance.choice(list(self.acts()))
        if act():
            self.done[name] += 1
        self.look()

    def acts(self) -> Iterator[tuple[str, Callable[[], bool]]]:
        """Yield what may be done, often things more than once."""
        for name in ("join", "start", "start", "play", "play", "play", "resign", "resign"):
            yield name, getattr(self, name)
        for name in ("leave", "elapse", "freeze", "verify", "rejudge", "damage", "reverse"):
            yield name, getattr(self, name)
        yield from (("move", self.move), ("extend-round", self.extend_round))
        for kind in ("disqualify", "reinstate", "annul", "adjust", "extend", "admit"):
            yield kind, partial(self.rule, kind)

    def someone(self) -> Person:
        return self.chance.choice(self.people)

    def join(self) -> bool:
        person = self.someone()
        answer = person.post(f"{self.path}/entries", {})
        if answer.status_code == 201:
            self.entries[person.id] = expect(answer, 201)["id"]
        return answer.status_code == 201

    def leave(self) -> bool:
        return self.someone().ask("DELETE", f"{self.path}/entries/me").status_code == 204

    def start(self) -> bool:
        person = self.someone()
        answer = person.post(f"{self.path}/attempts", {"deal": self.chance.randint(1, 4)})
        if answer.status_code != 201:
            return False
        game = expect(answer, 201)
        if all(one["id"] != game["id"] for _, one in self.games):
            self.games.append((person, game))
        return True

    def play(self) -> bool:
        if not self.games:
            return False
        person, game = self.chance.choice(self.games)
        game, before = person.read(game), self.chance.randint(1, 5)
        for _ in range(before):
            if not game["legal_moves"]:
                return False
            answer = person.try_moves(game, game["ply"], self.chance.choice(game["legal_moves"]))
            if answer.status_code != 200:
                return False
            game = expect(answer)
        return True

    def resign(self) -> bool:
        if not self.games:
            return False
        person, game = self.chance.choice(self.games)
        game = person.read(game)
        return person.act(game, "resign").status_code == 200

    def elapse(self) -> bool:
        boards = self.boards()
        self.host.elapse(self.contest, self.chance.choice([5, 20, 60, 105]))
        if self.frozen:
            # Instants alone have moved.
            assert [board["rows"] for _, board in self.boards()] == [
                board["rows"] for _, board in boards
            ]
            self.frozen = self.shown()
        return True

    def freeze(self) -> bool:
        act = "unfreeze" if self.frozen else "freeze"
        expect(self.host.act(self.contest, act))
        self.frozen = [] if self.frozen else self.shown()
        return True

    def shown(self) -> list[tuple[str, bytes]]:
        """Return what anybody is shown of standings, byte by byte."""
        paths = [f"{self.contest['links']['standings']}?round={n}&limit=4" for n in range(3)]
        return [(path, self.client.get(path).data) for path in paths]

    def boards(self) -> list[tuple[str, Json]]:
        return [(path, expect(self.client.get(path))) for path, _ in self.shown()]

    def rule(self, kind: str) -> bool:
        if not self.entries:
            return False
        about: Json = {"entry": self.chance.choice(sorted(self.entries.values()))}
        if kind in {"annul", "adjust", "extend"}:
            about |= {"deal": self.chance.randint(1, 3), "attempt": self.chance.randint(1, 2)}
        if kind == "adjust":
            about["terms"] = {"cards": self.chance.randint(0, 104)}
        elif kind == "extend":
            about["ms"] = 30_000
        elif kind == "admit":
            about["round"] = 2
        body = {"kind": kind, "reason": "as it comes", **about}
        return self.accepted(self.host.post(f"{self.path}/rulings", body))

    def move(self) -> bool:
        """Have a round begin or end at another instant, if that still can be."""
        rounds = []
        for one in expect(self.host.get(self.path))["rounds"]:
            counting = sum(deal["counts"] for deal in one["deals"])
            rounds.append({"deals": counting, **({"cut": one["cut"]} if "cut" in one else {})})
            for name in ("starts_at", "ends_at"):
                by = timedelta(seconds=self.chance.choice([-60, -7, 0, 0, 7, 60]))
                rounds[-1][name] = rfc(datetime.fromisoformat(one[name]) + by)
        answer = self.host.edit(self.contest, rounds=rounds)
        assert answer.status_code in {200, 409, 422}, answer.get_data(as_text=True)
        return answer.status_code == 200

    def extend_round(self) -> bool:
        body = {"kind": "extend", "round": self.chance.randint(1, 2), "ms": 20_000, "reason": "?"}
        return self.accepted(self.host.post(f"{self.path}/rulings", body))

    def reverse(self) -> bool:
        made = expect(self.host.get(f"{self.path}/rulings?limit=100"))["rulings"]
        if not made:
            return False
        number = self.chance.choice(made)["number"]
        path = f"{self.path}/rulings/{number}/reversal"
        return self.accepted(self.host.post(path, {"reason": "it was wrong"}))

    def accepted(self, answer: Any) -> bool:
        assert answer.status_code in {201, 404, 409}, answer.get_data(as_text=True)
        return bool(answer.status_code == 201)

    def verify(self) -> bool:
        expect(self.host.post(f"{self.path}/verifications"), 202)
        self.work()
        return True

    def rejudge(self) -> bool:
        """Judge all again: nothing moves by it, applied or dropped."""
        return self.judge(self.chance.choice(["apply", "drop"]))

    def judge(self, verdict: str) -> bool:
        job = expect(self.host.post(f"{self.path}/rejudgings", {"reason": "disputed"}), 202)
        self.work()
        expect(self.host.post(f"{job['links']['self']}/{verdict}"))
        return True

    def work(self) -> None:
        while jobs.step(self.host.store):
            pass

    def damage(self) -> bool:
        """Change what is stored of an attempt, which then is out, or mend the one that is out."""
        query = text("""UPDATE games SET score = score + CASE WHEN verified = '' THEN -1 ELSE 1 END
            WHERE id = (
                SELECT id FROM games WHERE tournament_id = :id AND ended_at IS NOT NULL
                ORDER BY coalesce(verified = '', false) DESC, id LIMIT 1
            )""")
        changed = self.host.store.run(partial(_rows, query=query, id=self.contest["id"]))
        return self.judge("apply") and changed > 0

    def look(self) -> None:
        """Fail unless all is as it must be."""
        check(self.host, self.host.store, self.contest, limit=4)
        entered = set(self.entries.values())
        for number in range(3):
            rows = whole(self.host, self.contest, f"&view=live&round={number}")
            assert {row["entry"] for row in rows} == entered
        for path, data in self.frozen:
            assert self.client.get(path).data == data
        ended = self.host.store.run(partial(_ended, id=self.contest["id"]))
        assert {game: ended.get(game) for game in self.ended} == self.ended
        self.ended = ended
        assert len(self.games) == self.host.store.run(partial(_count, id=self.contest["id"]))
        assert self.host.store.run(partial(_beyond, id=self.contest["id"])) == 0


def _rows(connection: Connection, query: Any, **values: Any) -> int:
    return connection.execute(query, values).rowcount


def _ended(connection: Connection, **values: Any) -> dict[str, Any]:
    """Return the logs of all attempts that are over."""
    query = text("""SELECT id::text, log, times, status FROM games
        WHERE tournament_id = :id AND ended_at IS NOT NULL""")
    return {row[0]: tuple(map(_plain, row[1:])) for row in connection.execute(query, values)}


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview | bytes) else value


def _count(connection: Connection, **values: Any) -> int:
    query = text("SELECT count(*) FROM games WHERE tournament_id = :id")
    return int(connection.execute(query, values).scalar_one())


def _beyond(connection: Connection, **values: Any) -> int:
    """Return how many attempts that count may be played after their round is told to close."""
    query = text("""SELECT count(*) FROM games JOIN tournament_deals AS deal
            ON deal.tournament_id = games.tournament_id AND deal.number = deal_no AND deal.counts
        JOIN tournament_rounds AS round
            ON round.tournament_id = games.tournament_id AND round.number = games.round
        WHERE games.tournament_id = :id AND ended_at IS NULL AND deadline > closes_at""")
    return int(connection.execute(query, values).scalar_one())


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_done_the_standings_are_those_from_scratch(
    host: Host, client: Client, seed: int
) -> None:
    """No row is lost, frozen boards stay the same bytes, pages together are the whole."""
    walk = Walk(host, client, seed)
    for _ in range(4):
        walk.join()
    while sum(walk.done.values()) < 60:
        walk.step()
    # What time brings about as well: the cut, and the last deadlines.
    for _ in range(4):
        host.elapse(walk.contest, 250)
        if walk.frozen:
            walk.frozen = walk.shown()
        walk.look()
    assert len(walk.done) > 10, walk.done
