"""A whole public event over HTTP, from the draft to results verified offline, on each game."""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean
from uuid import UUID

import orjson
import pytest
from client import Client, Json, Person, expect, problem
from hall import (
    Host,
    board,
    enter,
    organiser,
    start,
    try_to_start,
)
from server import rendezvous
from sqlalchemy import text

from service import standings
from service.engine import verify
from service.engine.replay import commitment
from service.store.database import Database

ENTRANTS = 40
THROUGH = 12
DEALS = 5
"""Deals of each of the two rounds."""
ACTS = 10
"""Moves of an attempt, at most."""

Choice = Callable[[Json, random.Random], Json]


def some(game: Json, chooser: random.Random) -> Json:
    """Choose any move."""
    move: Json = chooser.choice(game["legal_moves"])
    return move


def greedy(game: Json, chooser: random.Random) -> Json:
    """Choose a move to a foundation, if there is one."""
    up = [one for one in game["legal_moves"] if "-" in one["to"]]
    move: Json = chooser.choice(up or game["legal_moves"])
    return move


def ahead(game: Json, chooser: random.Random) -> Json:
    """Choose, of the moves to foundations, one after whose card another that lies open may follow.

    A deck has one card of each rank and suit, so what follows in the suit is a neighbour in rank or
    next to one.
    """
    up = [one for one in game["legal_moves"] if "-" in one["to"]]
    lying = {one["card"] for one in game["reserve"] if "card" in one} | set(game["waste"][-1:])
    ranks = "A23456789TJQK"

    def follow(move: Json) -> int:
        rank, suit = ranks.index(move["card"][0]), move["card"][-1]
        near = {ranks[(rank + step) % 13] + suit for step in (-2, -1, 1, 2)}
        return len(near & (lying - {move["card"]}))

    if up:
        most = max(map(follow, up))
        up = [one for one in up if follow(one) == most]
    move: Json = chooser.choice(up or game["legal_moves"])
    return move


SKILLS: Sequence[Choice] = (some, greedy, ahead)


@dataclass
class Bot:
    """A player who chooses by a skill; how, follows from its number alone."""

    person: Person
    number: int
    entry: Json = field(default_factory=dict)
    games: list[Json] = field(default_factory=list)

    @property
    def skill(self) -> Choice:
        """How it chooses."""
        return SKILLS[self.number % len(SKILLS)]

    def play(self, contest: Json, deal: int, *, leave: bool = False) -> Json:
        """Make an attempt at a deal, and give it up in the end or leave it as it stands."""
        chooser = random.Random(f"{self.number}/{deal}")
        game = start(self.person, contest, deal)
        for _ in range(ACTS):
            if game["status"] != "playing" or not game["legal_moves"]:
                break
            game = self.person.move(game, self.skill(game, chooser))
        if game["status"] == "playing" and not leave:
            game = expect(self.person.act(game, "resign"))
        self.games.append(game)
        return game


@dataclass
class Evening:
    """The event as it goes on."""

    host: Host
    client: Client
    contest: Json
    bots: list[Bot]

    @property
    def path(self) -> str:
        """The tournament's path."""
        path: str = self.contest["links"]["self"]
        return path

    def now(self) -> Json:
        """Return the tournament as somebody without a token sees it."""
        return expect(self.client.get(self.path))

    def board(self, person: Client | None = None, query: str = "") -> Json:
        """Return the standings of all."""
        limited = f"?limit={ENTRANTS + 1}{query}"
        return board(person or self.client, self.contest, limited)


def announce(host: Host, client: Client, ruleset: str) -> Evening:
    """A draft is made, published, and its places are filled."""
    plan = host.plan(
        (60, 660, DEALS),
        (670, 1270, DEALS, {"by": "top", "value": THROUGH}),
        title="A public evening",
        ruleset=ruleset,
        entry={"capacity": ENTRANTS, "by": "code"},
        limit_ms=300_000,
        reveal="by-hand",
        warm_up=True,
    )
    contest = expect(host.post("/v1/tournaments", plan), 201)
    contest = expect(host.act(contest, "publish"))
    bots = [Bot(client.register(f"Bot {n}"), n) for n in range(ENTRANTS)]
    codes = [
        expect(host.act(contest, "invites", {"uses": uses}), 201)["code"]
        for uses in (ENTRANTS // 2, ENTRANTS)
    ]
    at = f"{contest['links']['self']}/entries"
    assert problem(bots[0].person.post(at, {})) == (403, "invite-invalid")
    for bot in bots:
        bot.entry = enter(bot.person, contest, codes[bot.number >= ENTRANTS // 2])
    late = client.register("Late")
    assert problem(late.post(at, {"code": codes[1]})) == (409, "tournament-full")
    assert problem(late.post(at, {"code": "A" * 20})) == (409, "tournament-full")
    return Evening(host, client, contest, bots)


def first_round(evening: Evening) -> None:
    """All play five deals; the last attempts of some are ended by their deadline."""
    warm_up = 2 * DEALS + 1
    evening.bots[0].play(evening.contest, warm_up)
    evening.bots[0].games.clear()
    assert problem(try_to_start(evening.bots[0].person, evening.contest)) == (409, "deal-closed")
    evening.host.elapse(evening.contest, 60)
    assert evening.now()["state"] == "running"
    for bot in evening.bots:
        for deal in range(1, DEALS + 1):
            leave = deal == DEALS and bot.number % 4 == 0
            bot.play(evening.contest, deal, leave=leave)
    cards = {
        skill: mean(
            game["score"] for bot in evening.bots if bot.skill is skill for game in bot.games
        )
        for skill in SKILLS
    }
    assert cards[some] < min(cards[greedy], cards[ahead])


def disqualify(evening: Evening) -> Bot:
    """Whoever leads is disqualified: the row stays, its rank goes, and all others close up."""
    before = evening.board()["rows"]
    leader = before[0]
    ruling = {"kind": "disqualify", "entry": leader["entry"], "reason": "two accounts"}
    made = expect(evening.host.act(evening.contest, "rulings", ruling), 201)
    assert made["number"] == 1
    rows = evening.board()["rows"]
    assert [row["entry"] for row in rows] == [
        *(row["entry"] for row in before[1:]),
        leader["entry"],
    ]
    assert "rank" not in rows[-1]
    assert rows[0]["rank"] == 1
    assert (rows[-1]["status"], rows[-1]["total"]) == ("disqualified", leader["total"])
    gone = next(bot for bot in evening.bots if bot.entry["id"] == leader["entry"])
    assert problem(try_to_start(gone.person, evening.contest)) == (409, "not-entered")
    return gone


def cut(evening: Evening) -> list[Bot]:
    """The first round settles, and its best play on: those who are ranked so, ties included."""
    evening.host.elapse(evening.contest, 611)
    rows = evening.board()["rows"]
    through = {row["player"]["id"] for row in rows if row.get("rank", 99) <= THROUGH}
    assert THROUGH <= len(through) < ENTRANTS
    assert {row["player"]["id"] for row in rows if row["reach"] == 2} == through
    for bot in evening.bots:
        mine = expect(bot.person.get(f"{evening.path}/entries/me"))
        assert mine["deals"][DEALS - 1]["games"][0]["status"] != "playing"
    out = next(bot for bot in evening.bots if bot.person.id not in through)
    refused = try_to_start(out.person, evening.contest, DEALS + 1)
    assert problem(refused) == (409, "not-through")
    return [bot for bot in evening.bots if bot.person.id in through]


def second_round(evening: Evening, through: Sequence[Bot]) -> None:
    """Those who are through play on behind a frozen board, as the host alone sees."""
    for deal in range(DEALS + 1, 2 * DEALS):
        for bot in through:
            bot.play(evening.contest, deal)
    expect(evening.host.act(evening.contest, "freeze"))
    frozen = evening.client.get(evening.contest["links"]["standings"]).data
    before = evening.board()
    for bot in through:
        bot.play(evening.contest, 2 * DEALS)
        assert bot.person.get(evening.contest["links"]["standings"]).data == frozen
    live = evening.board(evening.host, "&view=live")
    assert all(row["total"]["deals"] < 2 * DEALS for row in before["rows"])
    assert sum(row["total"]["deals"] == 2 * DEALS for row in live["rows"]) == len(through)
    expect(evening.host.act(evening.contest, "unfreeze"))
    assert evening.board()["rows"] == live["rows"]


def close(evening: Evening) -> None:
    """The last round settles; nothing is final before all is verified."""
    early = evening.host.act(evening.contest, "finalise")
    assert problem(early) == (409, "wrong-state")
    evening.host.elapse(evening.contest, 606)
    early = evening.host.act(evening.contest, "finalise")
    assert problem(early) == (409, "not-verified")
    assert problem(evening.client.get(f"{evening.path}/results")) == (409, "wrong-state")


def rejudge(evening: Evening) -> Json:
    """Return what a rejudging of all attempts finds, and proposes."""
    reason = {"reason": "the result of an attempt is disputed"}
    job = expect(evening.host.act(evening.contest, "rejudgings", reason), 202)
    while job["state"] == "running":
        job = expect(evening.host.get(job["links"]["self"]))
    assert (job["state"], job["done"]) == ("proposed", job["total"])
    return job


def dispute(evening: Evening, bot: Bot) -> None:
    """A result that its log does not bear out goes as all attempts are judged again."""
    store, game = evening.host.store, bot.games[0]

    def change(score: int) -> None:
        values = {"id": game["id"], "score": score}
        query = text("UPDATE games SET score = :score WHERE id = :id")
        store.run(lambda one: one.execute(query, values))
        contest = UUID(evening.contest["id"])
        store.run(partial(standings.write, tournament=contest), transaction=True)

    honest = evening.board()["rows"]
    change(100)
    assert evening.board()["rows"][0]["entry"] == bot.entry["id"]
    job = rejudge(evening)
    assert [one["game"] for one in job["findings"]["invalid"]] == [game["id"]]
    expect(evening.host.post(f"{job['links']['self']}/apply"))
    rows = {row["entry"]: row for row in evening.board()["rows"]}
    assert rows[bot.entry["id"]]["cells"][0]["deal"] == 2
    change(game["score"])
    job = rejudge(evening)
    assert [one["game"] for one in job["findings"]["restored"]] == [game["id"]]
    expect(evening.host.post(f"{job['links']['self']}/apply"))
    assert [plain(row) for row in evening.board()["rows"]] == [plain(row) for row in honest]


def plain(row: Json) -> Json:
    """Return a row without how far its cells are verified."""
    cells = [{name: one[name] for name in one if name != "verification"} for one in row["cells"]]
    return {**row, "cells": cells}


def reveal(evening: Evening) -> None:
    """Once nothing can change any more the host opens the deals, as they were committed to."""
    assert "seed" not in str(evening.now())
    for number in (1, 2):
        expect(evening.host.act(evening.contest, f"rounds/{number}/reveal"))
    opened = evening.now()
    assert opened["state"] == "revealed"
    for one, of in zip(opened["rounds"], evening.contest["rounds"], strict=True):
        for deal, sealed in zip(one["deals"], of["deals"], strict=True):
            assert deal["commitment"] == sealed["commitment"]
            assert (
                commitment(f"{opened['id']}/{deal['number']}", deal["seed"]) == deal["commitment"]
            )
    for bot in evening.bots:
        document = expect(evening.client.get(f"/v1/games/{bot.games[-1]['id']}/replay"))
        assert verify(document).verdict == "valid"


def finalise(evening: Evening) -> Json:
    """Return the final results: once all is verified and revealed they are fixed."""
    job = expect(evening.host.act(evening.contest, "verifications"), 202)
    while job["state"] == "running":
        job = expect(evening.host.get(job["links"]["self"]))
    final = expect(evening.host.act(evening.contest, "finalise"))
    assert (final["state"], final["results"]) == ("final", 1)
    late = {"kind": "reinstate", "entry": evening.bots[0].entry["id"], "reason": "too late"}
    assert problem(evening.host.act(evening.contest, "rulings", late)) == (409, "wrong-state")
    results = expect(evening.client.get(f"{evening.path}/results"))
    entries = results["document"]["entries"]
    rows = evening.board()["rows"]
    assert [(one["id"], one.get("rank")) for one in entries] == [
        (row["entry"], row.get("rank")) for row in rows
    ]
    return results


def export(evening: Evening, folder: Path) -> list[Path]:
    """Return files with the results, all replays and the public keys: all that a verifier needs."""
    asked = {
        "results.json": f"{evening.path}/results",
        "replays.ndjson": f"{evening.path}/replays",
        "keys.json": "/.well-known/jwks.json",
    }
    for name, path in asked.items():
        answer = evening.client.get(path)
        assert answer.status_code == 200
        (folder / name).write_bytes(answer.data)
    return [folder / name for name in asked]


def check(files: Sequence[Path]) -> None:
    """The export is sound to somebody who has no service at hand; another score in it is found."""
    results, replays, keys = map(str, files)
    command = ("results", "verify", "--keys", keys, results)
    sound = rendezvous(*command, replays)
    assert (sound.returncode, sound.stderr) == (0, ""), sound.stdout
    assert sound.stdout.splitlines()[-1].startswith("valid, ")
    lines = Path(replays).read_bytes().splitlines(keepends=True)
    fewer = files[1].with_name("fewer.ndjson")
    end = orjson.dumps({"end": True, "count": len(lines) - 2})
    fewer.write_bytes(b"".join([*lines[:-2], end]))
    assert rendezvous(*command, str(fewer)).returncode == 1


def told(evening: Evening) -> None:
    """What happened is told in order, and each entry stands where its logs put it."""
    kinds: list[str] = []
    path = f"{evening.path}/events?limit=100"
    while page := expect(evening.client.get(path))["events"]:
        kinds += [one["kind"] for one in page]
        path = f"{evening.path}/events?limit=100&after={page[-1]['number']}"
    assert kinds[:2] == ["published", "joined"]
    assert kinds.count("joined") == ENTRANTS
    assert kinds.count("cut") == 1
    assert kinds.count("rejudging-applied") == 2
    assert kinds[-4:] == ["rejudging-applied", "revealed", "revealed", "finalised"]
    rows = {row["entry"]: row for row in evening.board()["rows"]}
    for bot in evening.bots:
        row = rows[bot.entry["id"]]
        results = [verify(bot.person.replay(game)).result for game in bot.games]
        assert row["total"]["cards"] == sum(one["score"] for one in results if one)
        assert row["total"]["entries"] == sum(one["ply"] for one in results if one)


@pytest.mark.no_cover
@pytest.mark.parametrize("ruleset", ["royal-rendezvous-1", "royal-cotillion-1", "odd-and-even-1"])
def test_a_whole_event(
    client: Client,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ruleset: str,
) -> None:
    drawn = (f"{ruleset} {number}".encode() for number in range(10**6))
    monkeypatch.setattr(
        "service.api.tournaments.draw_seed", lambda: hashlib.sha256(next(drawn)).hexdigest()
    )
    host = organiser(client.register("Grace"), database)

    evening = announce(host, client, ruleset)
    first_round(evening)
    gone = disqualify(evening)
    through = cut(evening)
    assert gone not in through
    second_round(evening, through)
    close(evening)
    dispute(evening, through[0])
    reveal(evening)
    finalise(evening)
    told(evening)
    check(export(evening, tmp_path))
