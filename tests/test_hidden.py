"""Hidden cards: no answer, header, error or log line tells of what lies face down.

Cards are exchanged behind the service's back: for one stored row, the same id, instants, commitment
and log, the unseen cards are dealt in another order. An answer that stays the same to the byte
cannot have told of them. Nothing else about the service is changed.
"""

import base64
import hashlib
import logging
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from client import Client, Contract, Person, expect, problem
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from server import new_database
from sqlalchemy import text

from service import games
from service.app import create_app
from service.engine import RULESETS, Game, Table, deals, table, verify
from service.engine.cards import CARDS, render_cards
from service.engine.replay import pack_times
from service.settings import Settings
from service.store import schema, tables
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

Json = dict[str, Any]
Request = tuple[str, str, Json | None]

DRAW = {"from": "stock", "to": "waste"}


class Dealer:
    """Shuffles as deal-1 does, but for seeds whose cards have been arranged otherwise."""

    def __init__(self) -> None:
        self.shuffle: Callable[[Table, str], bytes] = deals._SPECS["deal-1"][1]
        self.arranged: dict[tuple[str, str], bytes] = {}

    def __call__(self, rules: Table, seed: str) -> bytes:
        return self.arranged.get((rules.ruleset.name, seed)) or self.shuffle(rules, seed)

    def arrange(self, ruleset: str, seed: str, cards: bytes) -> None:
        """Have a seed deal these cards from now on."""
        self.arranged[ruleset, seed] = cards
        for kept in vars(games).values():
            if hasattr(kept, "cache_clear"):
                kept.cache_clear()


@pytest.fixture(scope="module")
def dealer() -> Iterator[Dealer]:
    """What shuffles the service's cards while these tests run."""
    dealer = Dealer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(deals._SPECS, "deal-1", (deals._SPECS["deal-1"][0], dealer))
        yield dealer


@pytest.fixture(scope="module")
def player(app: Flask, contract: Contract) -> Person:
    """The player of the hidden games."""
    return Client(app, contract).register("Hidden")


@dataclass
class Row:
    """A stored hidden game, with what only the server knows of it."""

    player: Person
    database: Database
    dealer: Dealer
    id: str
    ruleset: str
    seed: str
    game: Game
    cards: bytes
    values: Json = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        player: Person,
        database: Database,
        dealer: Dealer,
        ruleset: str,
        plies: int,
        chooser: random.Random,
    ) -> "Row":
        """Store a hidden game after so many random moves, or fewer: some cards are unseen.

        It is made an hour ahead of the clock, so that every entry has the same instant: its start.
        """
        made = player.create(None, ruleset)
        seed = f"{chooser.getrandbits(256):064x}"
        rules = table(ruleset)
        game = Game(rules, deals.deal("deal-1", ruleset, seed), undo_allowed=False)
        while game.ply < plies and len(game.position.stock) > 4:
            game.enter(chooser.choice(game.legal_moves()))
        cards = dealer.shuffle(rules, seed)
        row = cls(player, database, dealer, made["id"], ruleset, seed, game, cards)
        row.values = {
            "seed": seed,
            "created_at": datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1),
            "ply": game.ply,
            "log": game.log,
            "times": pack_times([0] * game.ply),
            "status": None,
            "score": None,
            "ended_at": None,
        }
        row.restore()
        return row

    @property
    def unseen(self) -> int:
        """The number of cards that nobody has seen."""
        return len(self.game.position.stock)

    @property
    def path(self) -> str:
        return f"/v1/games/{self.id}"

    def restore(self) -> None:
        """Store the row as it was made."""
        query = tables.games.update().where(tables.games.c.id == self.id).values(self.values)
        self.database.run(lambda connection: connection.execute(query))

    def exchange(self, order: list[int]) -> None:
        """Have the unseen cards lie in this order of their places."""
        seen = len(self.cards) - self.unseen
        unseen = self.cards[seen:]
        cards = self.cards[:seen] + bytes(unseen[place] for place in order)
        self.dealer.arrange(self.ruleset, self.seed, cards)

    def answers(self, requests: list[Request]) -> list[tuple[int, list[tuple[str, str]], bytes]]:
        """Return status, headers and body of each answer, each given by the row as it was made."""
        client = self.player.app.test_client()
        headers = {"Authorization": f"Bearer {self.player.token}", "X-Request-Id": "same"}
        found = []
        for method, path, body in requests:
            answer = client.open(path, method=method, json=body, headers=headers)
            found.append((answer.status_code, sorted(answer.headers), answer.data))
            if method == "POST" and answer.status_code == 200:
                self.restore()
        return found

    def turned_up(self, answer: tuple[int, list[tuple[str, str]], bytes]) -> bool:
        """Whether an answer is to an act that turned up an unseen card."""
        status, _, body = answer
        stock = re.search(rb'"stock":([0-9]+),.*"applied"', body)
        return status == 200 and stock is not None and int(stock[1]) < self.unseen


def reads(row: Row) -> list[Request]:
    """Return every way to read the game, and its list."""
    plies = [("GET", f"{row.path}?ply={ply}", None) for ply in range(0, row.game.ply + 2, 3)]
    others = [row.path, f"{row.path}/replay", "/v1/games?limit=100", "/v1/games?limit=1"]
    return [*plies, *[("GET", path, None) for path in others]]


def moves(row: Row, ply: int, *commands: Json) -> Request:
    return ("POST", f"{row.path}/moves", {"ply": ply, "moves": list(commands)})


def command(entry: str, **more: str) -> Json:
    origin, _, destination = entry.partition(":")
    return {"from": origin, "to": destination, **more}


def all_commands(row: Row) -> list[Json]:
    """Return every move of the ruleset and of others, with its destination and without."""
    entries = [entry for entry in row.game.rules.by_text if ":" in entry]
    origins = dict.fromkeys([*row.game.rules.places, *row.game.rules.foundations, "stock", "c1"])
    return [*map(command, entries), *[{"from": origin} for origin in origins]]


def acts(row: Row) -> list[Request]:
    """Return acts that are not moves, at this ply and others."""
    ply = row.game.ply
    return [
        ("POST", f"{row.path}/{act}", {"ply": at})
        for act in ("undo", "resign")
        for at in {0, max(ply - 1, 0), ply, ply + 1}
    ]


def guesses(row: Row) -> list[Request]:
    """Return moves that name a card: each one for a move from the stock, some for others."""
    legal = [move.text for move in row.game.legal_moves()][:3]
    named = {
        **dict.fromkeys([*legal, "waste:stock", "stock:r1", "r1:r2"], CARDS[::9]),
        "stock:waste": CARDS,
    }
    return [
        moves(row, row.game.ply, command(entry, card=card))
        for entry, cards in named.items()
        for card in cards
    ]


def batches(row: Row) -> list[Request]:
    """Return each pair of legal moves, and each followed by what a turned-up card might do."""
    legal = [move.text for move in row.game.legal_moves()][:6]
    sources = dict.fromkeys(entry.partition(":")[0] for entry in legal)
    after = [{"from": origin} for origin in [*sources, "waste", "stock"]]
    named = [{"from": "waste", "card": card} for card in CARDS[::9]]
    return [
        moves(row, row.game.ply, command(first), second)
        for first in legal
        for second in [*map(command, legal), *after, *named]
    ]


def repeats(row: Row) -> list[Request]:
    """Return acts at earlier plies: those of the log, and what goes on beyond it."""
    log = [entry.text for entry in row.game.entries]
    ply = row.game.ply
    found = []
    for start in {0, ply // 2, ply - 1}:
        if 0 <= start < ply:
            again = [command(entry) for entry in log[start:]][:198]
            found += [
                moves(row, start, *again),
                moves(row, start, *again, DRAW),
                moves(row, start, *again, DRAW, {"from": "waste"}),
                moves(row, start, DRAW, {"from": "waste"}),
                *[moves(row, start, {**again[0], "card": card}) for card in CARDS[::5]],
                *[
                    moves(row, start, *again, {**DRAW, "card": card})
                    for card in CARDS[start % 3 :: 3]
                ],
                *[
                    moves(row, start, *again, command(move.text), {"from": "waste"})
                    for move in row.game.legal_moves()[:5]
                ],
            ]
    return found


@pytest.mark.no_cover
@pytest.mark.parametrize("ruleset", RULESETS)
def test_s_28_s_29_every_answer_is_the_same_whatever_lies_face_down(
    player: Person, database: Database, dealer: Dealer, ruleset: str
) -> None:
    """S-28 and S-29, hundreds of requests of every kind on one position of each ruleset."""
    row = Row.make(player, database, dealer, ruleset, 45, random.Random(ruleset))
    requests = [
        *reads(row),
        *acts(row),
        *[moves(row, row.game.ply, one) for one in all_commands(row)[::2]],
        *[moves(row, row.game.ply + 1, one) for one in all_commands(row)[::19]],
        *guesses(row),
        *batches(row),
        *repeats(row),
    ]
    order = list(range(row.unseen))

    first = row.answers(requests)
    row.exchange(order[::-1])
    second = row.answers(requests)

    told = 0
    for request, one, other in zip(requests, first, second, strict=True):
        if row.turned_up(one):
            told += one != other
            assert (one[0], row.turned_up(other)) == (other[0], True)
        else:
            assert one == other, request
    next_cards = row.cards[-row.unseen], row.cards[-1]
    # What turns up a card shows that the cards were exchanged indeed.
    assert told or next_cards[0] == next_cards[1] or not any(map(row.turned_up, first))


@pytest.mark.no_cover
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_s_28_unseen_cards_in_any_order_give_equal_answers(
    player: Person, database: Database, dealer: Dealer, data: st.DataObject
) -> None:
    """S-28, some of the requests on any position and any order of the cards."""
    ruleset = data.draw(st.sampled_from(list(RULESETS)), "ruleset")
    chooser = data.draw(st.randoms(use_true_random=False), "chooser")
    plies = data.draw(st.integers(0, 150), "plies")
    row = Row.make(player, database, dealer, ruleset, plies, chooser)
    kinds: list[list[Request]] = [
        reads(row),
        acts(row),
        [moves(row, row.game.ply, one) for one in all_commands(row)],
        guesses(row),
        batches(row),
        repeats(row),
    ]
    requests = [request for kind in kinds for request in chooser.sample(kind, k=min(len(kind), 8))]
    order = data.draw(st.permutations(range(row.unseen)), "order")

    first = row.answers(requests)
    row.exchange(order)
    second = row.answers(requests)

    for request, one, other in zip(requests, first, second, strict=True):
        if not row.turned_up(one):
            assert one == other, request


def test_a_card_turned_up_shows_that_the_cards_were_exchanged(
    player: Person, database: Database, dealer: Dealer
) -> None:
    row = Row.make(player, database, dealer, "royal-rendezvous-relaxed-1", 30, random.Random(1))
    draw = [moves(row, row.game.ply, DRAW)]
    cards = row.cards[-row.unseen :]

    shown = set()
    for place in range(row.unseen):
        row.exchange([place, *[other for other in range(row.unseen) if other != place]])
        [(status, _, body)] = row.answers(draw)
        assert status == 200
        shown |= set(re.findall(rb'"move":"stock:waste","card":"(..)"', body))

    assert shown == {card.encode() for card in render_cards(cards)}


def test_an_exchange_of_seen_cards_is_noticed(
    player: Person, database: Database, dealer: Dealer
) -> None:
    row = Row.make(player, database, dealer, "royal-rendezvous-1", 0, random.Random(1))
    before = row.answers(reads(row))

    dealer.arrange(row.ruleset, row.seed, row.cards[::-1])

    assert row.answers(reads(row)) != before


def seed_of(database: Database, game: Json) -> str:
    query = text("SELECT seed FROM games WHERE id = :id")
    found: str = database.run(
        lambda connection: connection.execute(query, {"id": game["id"]}).scalar_one()
    )
    return found


def disguises(seed: str) -> list[bytes]:
    """Return what a seed might be told as: as it is, in parts, and encoded."""
    raw = bytes.fromhex(seed)
    key = hashlib.sha256(b"royal-rendezvous/deal/1\0" + seed.encode()).digest()
    return [
        seed[:16].encode(),
        seed[-16:].encode(),
        seed[24:40].encode(),
        raw,
        base64.b64encode(raw)[:40],
        base64.urlsafe_b64encode(raw)[:40],
        base64.b64encode(seed.encode())[:40],
        hashlib.sha256(seed.encode()).hexdigest().encode(),
        key.hex().encode(),
        str(int(seed, 16)).encode(),
    ]


@dataclass
class Listener:
    """Asks as a player does and keeps every byte of the answers."""

    player: Person
    heard: list[bytes] = field(default_factory=list)

    def ask(self, method: str, path: str, body: Any = None) -> Json:
        """Return an answer's value."""
        headers = {"Authorization": f"Bearer {self.player.token}"}
        client = self.player.app.test_client()
        answer = client.open(path, method=method, json=body, headers=headers)
        self.heard += [answer.status.encode(), str(answer.headers).encode(), answer.data]
        value: Json = answer.get_json(force=True)
        return value


def act(listener: Listener, game: Json, chooser: random.Random) -> Json:
    """Return the game after some request, sound or not: mostly a legal move."""
    path = f"/v1/games/{game['id']}"
    kind = chooser.randrange(12)
    ply, legal = game["ply"], game["legal_moves"]
    if kind == 0:
        listener.ask("GET", f"{path}?ply={chooser.randrange(ply + 1)}")
    elif kind == 1:
        listener.ask("GET", f"{path}/replay")
        listener.ask("GET", "/v1/games")
        listener.ask("GET", "/v1/tokens")
    elif kind == 2:
        card = chooser.choice(CARDS)
        listener.ask("POST", f"{path}/moves", {"ply": ply, "moves": [{**DRAW, "card": card}]})
    elif kind == 3:
        listener.ask("POST", f"{path}/undo", {"ply": ply})
    elif kind == 4:
        listener.ask("POST", f"{path}/moves", {"ply": ply, "moves": [*legal[:1], DRAW, DRAW]})
    elif kind == 5:
        stale = {"ply": max(ply - 1, 0), "moves": [{"from": "r1", "to": "r2"}]}
        listener.ask("POST", f"{path}/moves", stale)
    elif kind == 6:
        listener.ask("POST", f"{path}/moves", {"ply": ply, "moves": [{"from": "nowhere"}]})
    chosen = chooser.choice(legal)
    return listener.ask("POST", f"{path}/moves", {"ply": ply, "moves": [chosen]})


@pytest.mark.parametrize("ruleset", RULESETS)
def test_s_28_s_35_s_106_the_seed_is_in_no_byte_before_the_end_and_opens_the_commitment_after(
    ada: Person,
    client: Client,
    database: Database,
    caplog: pytest.LogCaptureFixture,
    ruleset: str,
) -> None:
    """S-28, S-35 and S-106: a whole game, its answers, their headers, and all that is logged."""
    caplog.set_level(logging.DEBUG)
    for name in ("sqlalchemy", "sqlalchemy.engine", "sqlalchemy.pool", "psycopg", "flask"):
        caplog.set_level(logging.DEBUG, logger=name)
    listener, chooser = Listener(ada), random.Random(ruleset)
    game = listener.ask("POST", "/v1/games", {"ruleset": ruleset})
    seed = seed_of(database, game)
    caplog.clear()
    assert problem(client.get(f"/v1/games/{game['id']}/replay")) == (404, "not-found")

    while game["ply"] < 170:
        following = act(listener, game, chooser)
        if following["status"] != "playing":
            del listener.heard[-3:]
            break
        game = following
    ended = ada.read(game)
    if ended["status"] == "playing":
        ended = expect(ada.act(ended, "resign"))
    document = expect(client.get(f"/v1/games/{game['id']}/replay"))

    heard, logged = b"\n".join(listener.heard), caplog.text.encode()
    for told in disguises(seed):
        assert told not in heard
        assert told not in logged
    assert game["id"].encode() in heard
    assert b"games.player_id" in logged
    assert ada.token is not None
    assert ada.token.encode() not in heard + logged
    assert ended["seed"] == document["seed"] == seed
    assert document["header"]["deal"] == {
        "spec": "deal-1",
        "commitment": committed(game["id"], seed),
    }
    assert verify(document).verdict == "valid"
    assert verify({**document, "seed": "0" * 64}).verdict == "invalid"


def committed(game: str, seed: str) -> str:
    """Return the commitment as anybody computes it."""
    text = f"royal-rendezvous/commit/1\0{game}\0{seed}"
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def test_s_36_server_seeds_are_256_random_bits_and_never_equal(
    ada: Person, database: Database
) -> None:
    seeds = []
    for _ in range(30):
        random.seed(0)
        seeds.append(seed_of(database, ada.create(None)))
    drawn = {games.draw_seed() for _ in range(2000)}

    assert len({*seeds, *drawn}) == 2030
    for seed in (*seeds, *drawn):
        assert re.fullmatch("[0-9a-f]{64}", seed)
    # Of 512,000 coin tosses the share of heads is off by seven standard deviations never.
    ones = sum(int(seed, 16).bit_count() for seed in drawn)
    assert abs(ones - 256_000) < 7 * 358
    for place in range(64):
        assert len({seed[place] for seed in drawn}) == 16


def test_s_107_a_commitment_is_no_hash_that_decides_anything(
    ada: Person, database: Database
) -> None:
    """S-107: the same seed under each label, and without one, gives another hash."""
    game = ada.create(None)
    seed = seed_of(database, game).encode()
    commitment = game["deal"]["commitment"]
    labels = ("deal", "log", "token", "etag", "commit")

    others = [
        hashlib.sha256(prefix + seed).hexdigest()
        for prefix in (b"", *(f"royal-rendezvous/{label}/1\0".encode() for label in labels))
    ]

    assert commitment == committed(game["id"], seed.decode())
    assert commitment not in others
    assert len({*others, commitment, game["digest"]}) == len(others) + 2


def test_s_107_games_of_one_seed_have_commitments_of_their_own(
    ada: Person, database: Database
) -> None:
    """S-107: whoever has seen a seed opened does not recognise it in another game."""
    one, other = ada.create(None), ada.create(None)
    same = tables.games.update().where(tables.games.c.id == other["id"])
    seed = seed_of(database, one)
    database.run(lambda connection: connection.execute(same.values(seed=seed)))

    read = ada.read(other)

    assert read["reserve"] == ada.read(one)["reserve"]
    assert read["deal"]["commitment"] == committed(other["id"], seed)
    assert read["deal"]["commitment"] != one["deal"]["commitment"]


@pytest.fixture
def failing(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """A database of its own, in which things may be broken."""
    with new_database(postgres) as url:
        found = Database(url)
        schema.upgrade(found.engine)
        yield found
        found.dispose()


FAILURES = {
    "a row is refused": "ALTER TABLE games ADD CHECK (log = '' AND seed = '') NOT VALID",
    "a column is gone": "ALTER TABLE games DROP COLUMN times",
    "a table is gone": "DROP TABLE games",
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_s_35_the_seed_is_in_no_answer_and_no_log_line_when_the_database_fails(
    failing: Database, caplog: pytest.LogCaptureFixture, failure: str
) -> None:
    """S-35: Postgres has whole rows at hand when it complains of one."""
    caplog.set_level(logging.DEBUG)
    app = create_app(Settings(rate_limits="off"), failing)
    ada = Client(app, Contract(app)).register("Ada")
    game = ada.create(None)
    seed = seed_of(failing, game)
    failing.run(lambda connection: connection.exec_driver_sql(failure))
    caplog.clear()

    moved = ada.try_moves(game, 0, game["legal_moves"][0])
    made = ada.post("/v1/games", {})

    assert problem(made) == (500, "internal-error")
    assert problem(moved).status == 500
    assert "internal error in request" in caplog.text
    for told in disguises(seed):
        assert told not in moved.data
        assert told not in caplog.text.encode()
    assert not re.search("[0-9a-f]{64}", caplog.text)
    assert ada.token is not None
    assert ada.token not in caplog.text
