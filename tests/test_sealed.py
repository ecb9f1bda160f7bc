"""Nothing sealed leaks: every operation of the contract, asked by everybody, before the reveal.

Two proofs. No byte of any answer, header or log line is a seed, however it is written. And where
the cards that somebody has not seen are exchanged behind the service's back, nothing changes that
they are answered: for who does not play, all cards of all deals.
"""

import asyncio
import hashlib
import logging
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import orjson
import pytest
from client import Client, Json, Person, expect, problem, published, unknown_id
from hall import Host, enter, finish, organiser, start, try_to_start, with_token
from sqlalchemy import text
from test_hidden import (
    Dealer,
    Row,
    acts,
    all_commands,
    batches,
    disguises,
    guesses,
    moves,
    reads,
    repeats,
)

from service.api.examples import operations
from service.engine import Game, deals, table
from service.engine.replay import commitment, pack_times
from service.settings import Settings
from service.store.database import Database
from service.stream import Hub
from service.stream import create_app as create_streams

RULESET = "royal-rendezvous-1"
Heard = tuple[int, list[tuple[str, str]], bytes]

OPERATIONS = [
    (operation["operationId"], method.upper(), path, operation)
    for path, method, operation in operations(published())
]
ENDING = {
    "deletePlayer": "who asks would be gone",
    "revokeTokens": "their token would be good for nothing",
    "leaveTournament": "their entry would be gone",
    "cancelTournament": "the tournament would be over",
}
"""Operations that are left to those whom they are refused, and why."""

FLOWING = re.compile(rb'"(as_of|time|next|last_used_at)":"[^"]*"')
"""What is told of the clock."""


@pytest.fixture(scope="module")
def dealer() -> Iterator[Dealer]:
    """What shuffles the service's cards while these tests run."""
    dealer = Dealer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(deals._SPECS, "deal-1", (deals._SPECS["deal-1"][0], dealer))
        yield dealer


@pytest.fixture(autouse=True)
def _seeds(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Have deals drawn that are the same each time, and others for each test."""
    drawn = (f"{request.node.name} {number}".encode() for number in range(10**6))
    monkeypatch.setattr(
        "service.api.tournaments.draw_seed", lambda: hashlib.sha256(next(drawn)).hexdigest()
    )


@dataclass(frozen=True)
class Request:
    """A request by somebody.

    Attributes:
        operation: The operation's name.
        method: The method.
        path: The path.
        data: The body, None for none.
    """

    operation: str
    method: str
    path: str
    data: bytes | None = None


@dataclass
class Hall:
    """A tournament under way, and everybody who may ask about it.

    Attributes:
        contest: The tournament: two deals of its first round are played, the third is not.
        people: Everybody, by the part that they have in it.
        games: Ada's attempts at the first two deals, the first of which is open, and Bea's.
        seeds: The seeds, by the deal's number.
    """

    contest: Json
    people: dict[str, Client]
    games: list[Json]
    seeds: dict[int, str]
    ids: dict[str, list[str]] = field(default_factory=dict)

    def paths(self, template: str) -> list[str]:
        """Return a path with each of the values that its parameters may have here."""
        found = [template]
        for name in re.findall("{(.*?)}", template):
            values = self.ids.get(name) or [unknown_id()]
            found = [path.replace(f"{{{name}}}", value) for path in found for value in values]
        return found

    def requests(self, part: str) -> list[Request]:
        """Return what somebody asks: each read, and each act in several ways."""
        found = []
        for name, method, template, operation in OPERATIONS:
            if name in ENDING and part not in ENDING_PARTS[name]:
                continue
            bodies: list[bytes | None] = [None]
            if "requestBody" in operation:
                examples = [
                    example["value"]
                    for content in operation["requestBody"]["content"].values()
                    for example in content.get("examples", {}).values()
                ]
                sent = [*examples[:2], {}, {"no": 1}]
                bodies = [*map(orjson.dumps, sent), b'{"']
            for path in self.paths(template):
                found += [Request(name, method, path, body) for body in bodies]
        at = self.contest["links"]["self"]
        queries = (
            *(f"{at}/standings?round={number}&limit=1" for number in (0, 1, 2)),
            *(f"{at}/standings?view=live", f"{at}/standings/around?each=50"),
            *(f"{at}/events?limit=100", "/v1/tournaments?which=entered"),
            *("/v1/tournaments?which=hosted", "/v1/games?limit=100"),
            *(f"{game['links']['self']}?ply=1" for game in self.games),
        )
        return [*found, *(Request("", "GET", path) for path in queries)]

    def ask(self, part: str, request: Request) -> Heard:
        """Return status, headers and body of the answer."""
        person = self.people[part]
        headers = {"X-Request-Id": "same"}
        if person.token is not None:
            headers["Authorization"] = f"Bearer {person.token}"
        if request.data is not None:
            headers["Content-Type"] = "application/json"
        answer = person.app.test_client().open(
            request.path, method=request.method, data=request.data, headers=headers
        )
        kept = [one for one in answer.headers if one[0] not in {"ETag", "Content-Length"}]
        told = FLOWING.sub(rb'"\1"', answer.data)
        return answer.status_code, sorted(kept), told


ENDING_PARTS: dict[str, tuple[str, ...]] = {
    "deletePlayer": ("nobody",),
    "revokeTokens": ("nobody",),
    "leaveTournament": ("nobody", "stranger"),
    "cancelTournament": ("nobody", "stranger", "ada", "viewer"),
}


def give_role(host: Host, contest: Json, person: Person, role: str) -> None:
    query = text("INSERT INTO tournament_roles VALUES (:of, :player, :role, now())")
    values = {"of": contest["id"], "player": person.id, "role": role}
    host.store.run(lambda one: one.execute(query, values))


def all_scopes(person: Person, database: Database) -> Person:
    """Return a person with a token that is good for all but what admins do."""
    return with_token(person, organiser(person, database).token or "")


@pytest.fixture
def hall(client: Client, database: Database, dealer: Dealer) -> Hall:
    """A public tournament in its first round."""
    assert dealer
    host = organiser(client.register("Grace"), database)
    contest = host.tournament(
        (0, 600, 3), (700, 1300, 2, {"by": "top", "value": 1}), ruleset=RULESET, warm_up=True
    )
    director, viewer, stranger, ada, bea = (
        all_scopes(client.register(name), database)
        for name in ("Director", "Viewer", "Stranger", "Ada", "Bea")
    )
    admin = organiser(client.register("Admin"), database, "games:read", "admin")
    give_role(host, contest, director, "director")
    give_role(host, contest, viewer, "viewer")
    for person in (ada, bea):
        enter(person, contest)
    opened = ada.play(start(ada, contest, 1), 5)
    games = [opened, finish(ada, contest, 2, plies=7), finish(bea, contest, 1, plies=9)]
    entry = expect(ada.get(f"{contest['links']['self']}/entries/me"))["id"]
    return Hall(
        contest,
        {
            "owner": host,
            "director": director,
            "viewer": viewer,
            "admin": admin,
            "stranger": stranger,
            "nobody": client,
            "ada": ada,
        },
        games,
        sealed(database, contest),
        {
            "tournament_id": [contest["id"]],
            "game_id": [game["id"] for game in games],
            "entry_id": [entry],
            "player_id": [ada.id],
            "number": ["1"],
            "ruling": ["1"],
            "name": [RULESET],
            "spec": ["deal-1"],
            "ruleset": [RULESET],
        },
    )


def live(hall: Hall, part: str, *paths: str) -> bytes:
    """Return what somebody hears who would watch something that has ended."""
    streams = create_streams(Hub(Settings(), hall_database(hall)))
    token = hall.people[part].token
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def hear() -> bytes:
        transport = httpx.ASGITransport(streams)
        async with httpx.AsyncClient(transport=transport, base_url="http://streams") as client:
            answers = [await client.get(path, headers=headers) for path in paths]
            return b"\n".join(str(one.headers).encode() + one.content for one in answers)

    return asyncio.run(hear())


def hall_database(hall: Hall) -> Database:
    host = hall.people["owner"]
    assert isinstance(host, Host)
    return host.store


def told_of(answers: list[Heard]) -> bytes:
    """Return all that was told, in one."""
    return b"\n".join(str((status, headers)).encode() + data for status, headers, data in answers)


@pytest.mark.no_cover
def test_s_28_s_35_no_byte_tells_a_seed_before_the_reveal(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    """S-28 and S-35: nor does a log line. After the reveal they are found, and open commitments."""
    caplog.set_level(logging.DEBUG)
    host = hall.people["owner"]
    assert isinstance(host, Host)
    asked: set[str] = set()
    heard: list[bytes] = []
    ended = [f"{game['links']['self']}/events" for game in hall.games[1:]]

    for part in hall.people:
        requests = hall.requests(part)
        heard += [told_of([hall.ask(part, one) for one in requests]), live(hall, part, *ended)]
        asked |= {one.operation for one in requests}

    assert asked >= {name for name, *_ in OPERATIONS}
    everything, logged = b"\n".join(heard), caplog.text.encode()
    for seed in hall.seeds.values():
        for told in disguises(seed):
            assert told not in everything
            assert told not in logged
    assert hall.contest["rounds"][0]["deals"][0]["commitment"].encode() in everything
    for seconds in (606, 700):
        host.elapse(hall.contest, seconds)
    opened = expect(hall.people["nobody"].get(hall.contest["links"]["self"]))
    for one in (deal for of in opened["rounds"] for deal in of["deals"]):
        assert one["seed"] == hall.seeds[one["number"]]
        assert commitment(f"{opened['id']}/{one['number']}", one["seed"]) == one["commitment"]
    assert disguises(hall.seeds[1])[0] in str(opened).encode()


@pytest.mark.no_cover
def test_s_30_s_35_who_watches_a_tournament_hears_no_seed_before_the_reveal(hall: Hall) -> None:
    """S-30 and S-35: what happened, as each may know of it, up to an end before its time."""
    host = hall.people["owner"]
    assert isinstance(host, Host)
    expect(host.act(hall.contest, "cancel", {"reason": "the hall is closed"}))

    heard = [live(hall, part, f"{hall.contest['links']['self']}/live") for part in hall.people]

    for one in heard:
        assert b"event: end" in one
        for seed in hall.seeds.values():
            assert not [told for told in disguises(seed) if told in one]


def rearrange(dealer: Dealer, hall: Hall, unseen: dict[int, int]) -> None:
    """Have the last so many cards of each deal lie in another order, all where none is named."""
    chooser = random.Random("rearranged")
    for number, seed in hall.seeds.items():
        cards = bytearray(dealer.shuffle(table(RULESET), seed))
        seen = len(cards) - unseen.get(number, len(cards))
        hidden = list(cards[seen:])
        chooser.shuffle(hidden)
        cards[seen:] = bytes(hidden)
        dealer.arrange(RULESET, seed, bytes(cards))


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "part", ["owner", "director", "viewer", "admin", "stranger", "nobody", "ada"]
)
def test_s_28_what_somebody_is_told_does_not_depend_on_cards_that_they_have_not_seen(
    hall: Hall, dealer: Dealer, part: str
) -> None:
    """S-28: every read and every refusal, while the deals are sealed."""
    requests = hall.requests(part)
    # What succeeds has changed something by then, and is not asked again.
    again = [one for one in requests if hall.ask(part, one)[0] >= 300 or one.method == "GET"]
    first = [hall.ask(part, one) for one in again]

    if part == "ada":
        rearrange(dealer, hall, {1: hall.games[0]["stock"], 2: hall.games[1]["stock"]})
    else:
        rearrange(dealer, hall, {})
    second = [hall.ask(part, one) for one in again]

    assert {request.method for request in again} >= {"GET", "POST"}
    for request, one, other in zip(again, first, second, strict=True):
        assert one == other, request
        assert one[0] < 500, request


@pytest.mark.no_cover
def test_s_28_a_player_learns_nothing_of_a_sealed_deal_but_by_playing_it(
    hall: Hall, dealer: Dealer
) -> None:
    """S-28: hundreds of requests on one attempt, its unseen cards in one order and in another."""
    ada = hall.people["ada"]
    assert isinstance(ada, Person)
    row = attempt(hall, ada, dealer)
    requests = [
        *reads(row),
        *(one for one in acts(row) if one[1].endswith("undo")),
        *[moves(row, row.game.ply, one) for one in all_commands(row)[::2]],
        *guesses(row),
        *batches(row),
        *repeats(row),
    ]

    first = row.answers(requests)
    row.exchange(list(range(row.unseen))[::-1])
    second = row.answers(requests)

    for request, one, other in zip(requests, first, second, strict=True):
        if not row.turned_up(one):
            assert one == other, request
    assert any(one != other for one, other in zip(first, second, strict=True))


def attempt(hall: Hall, ada: Person, dealer: Dealer) -> Row:
    """Return Ada's open attempt after some more moves, an hour ahead of the clock."""
    seed, chooser = hall.seeds[1], random.Random("attempt")
    game = Game(table(RULESET), deals.deal("deal-1", RULESET, seed), undo_allowed=False)
    # Where the stock may be turned, so that some of what is asked turns up a card.
    while game.ply < 30 or "stock:waste" not in [move.text for move in game.legal_moves()]:
        game.enter(chooser.choice(game.legal_moves()))
    cards = dealer.shuffle(table(RULESET), seed)
    found = hall.games[0]["id"]
    row = Row(ada, hall_database(hall), dealer, found, RULESET, seed, game, cards)
    ahead = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    row.values = {
        "created_at": ahead,
        "deadline": ahead + timedelta(hours=1),
        "ply": game.ply,
        "log": game.log,
        "times": pack_times([0] * game.ply),
        "status": None,
        "score": None,
        "ended_at": None,
    }
    row.restore()
    return row


def sealed(database: Database, contest: Json) -> dict[int, str]:
    query = text("SELECT number, seed FROM tournament_deals WHERE tournament_id = :id")
    rows = database.run(lambda one: one.execute(query, {"id": contest["id"]}).fetchall())
    return dict(rows)


def test_s_100_a_sealed_deal_is_never_drawn_anew(hall: Hall) -> None:
    """S-100: whatever is done to the tournament, its deals are those that were committed to."""
    host = hall.people["owner"]
    assert isinstance(host, Host)
    contest, database = hall.contest, host.store
    rounds = host.plan((0, 900, 3), (1000, 1300, 2, {"by": "top", "value": 1}))["rounds"]
    rounds[0]["starts_at"] = contest["rounds"][0]["starts_at"]
    annulled = {"kind": "annul", "deal": 2, "attempt": 1, "reason": "it cannot be won"}
    annulled["entry"] = hall.ids["entry_id"][0]

    assert expect(host.act(contest, "publish"))["rounds"] == contest["rounds"]
    expect(host.edit(contest, title="Another", rounds=rounds, reason="a late start"))
    expect(host.act(contest, "rulings", annulled), 201)
    fewer = host.edit(contest, rounds=host.plan((0, 900, 2), (1000, 1300, 2))["rounds"])
    assert problem(fewer) == (409, "wrong-state")
    host.elapse(contest, 1400)
    expect(host.act(contest, "cancel", {"reason": "enough"}))

    assert sealed(database, contest) == hall.seeds
    opened = expect(host.get(contest["links"]["self"]))["rounds"]
    for one, of in zip(opened, contest["rounds"], strict=True):
        assert [deal["commitment"] for deal in one["deals"]] == [
            deal["commitment"] for deal in of["deals"]
        ]


def test_s_99_who_knows_a_sealed_deal_has_played_it_within_the_window(
    hall: Hall, client: Client
) -> None:
    """S-99: no seed can be had to try it, one attempt is one, and both end with the window."""
    host, ada = hall.people["owner"], hall.people["ada"]
    assert isinstance(host, Host)
    assert isinstance(ada, Person)
    second = client.register("Ada's other account")
    opened, ended, _ = hall.games
    limits = (Path(__file__).parents[1] / "docs/hosting.md").read_text()

    assert problem(second.get(ended["links"]["self"])) == (404, "not-found")
    assert problem(second.get(f"{ended['links']['self']}/replay")) == (404, "not-found")
    assert problem(try_to_start(second, hall.contest, 1)) == (409, "not-entered")
    assert problem(try_to_start(ada, hall.contest, 2)) == (409, "attempts-used")
    host.elapse(hall.contest, 606)
    assert ada.read(opened)["status"] == "timed-out"
    entered = second.post(f"{hall.contest['links']['self']}/entries", {})
    assert problem(entered) == (409, "entry-closed")
    assert "**second accounts and second attempts**" in limits
