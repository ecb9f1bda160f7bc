"""Bad input: whatever comes, the answer says what is wrong and where, and nothing is changed."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from client import Client, Contract, Person, Problem, expect, problem, unknown_id
from flask import Flask
from server import Service, running
from sqlalchemy import Row, text

from service import players, tokens
from service.app import create_app
from service.settings import Settings
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

Json = dict[str, Any]
Refused = Callable[..., Problem]

R2 = {"from": "r2"}
PLIES = 3
"""Of the game that all bad input here is about."""


@pytest.fixture(scope="module")
def somebody(app: Flask, contract: Contract) -> Person:
    """The player of the game that all bad input here is about."""
    return Client(app, contract).register("Somebody")


@pytest.fixture(scope="module")
def game(somebody: Person) -> Json:
    """A game in play, of a seed that its player gave."""
    return somebody.play(somebody.create("royal"), PLIES)


@pytest.fixture(scope="module")
def hidden(somebody: Person) -> Json:
    """A game in play whose seed is hidden."""
    return somebody.create(None)


@pytest.fixture
def refused(database: Database) -> Refused:
    """Ask for something and return the problem document, after which all is as it was before."""

    def ask(client: Client, method: str, path: str, body: Any = None, **options: Any) -> Problem:
        before = stored(database)
        answer = problem(client.ask(method, path, body, **options))
        assert stored(database) == before
        return answer

    return ask


# Any row that is added or removed changes a number of rows, and one that is written anew the
# latest writer. Only the note of a token's last use may be written by a request that is refused.
STORED = text("""
    SELECT (SELECT count(*) FROM players), (SELECT max(xmin::text::bigint) FROM players),
        (SELECT count(*) FROM games), (SELECT max(xmin::text::bigint) FROM games),
        (SELECT count(*) FROM tokens), (SELECT count(revoked_at) FROM tokens)
""")


def stored(database: Database) -> Row[Any]:
    return database.run(lambda connection: connection.execute(STORED).one())


def moves_of(game: Json) -> str:
    return f"/v1/games/{game['id']}/moves"


def move_of(entry: str) -> Json:
    """Return a log entry as a command."""
    origin, destination = entry.split(":")
    return {"from": origin, "to": destination}


def pointers(refusal: Problem) -> list[str]:
    return sorted(error["pointer"] for error in refusal.body.get("errors", []))


def batch(*moves: Any, ply: Any = PLIES, **more: Any) -> Json:
    return {"ply": ply, "moves": list(moves), **more}


NO_JSON = {
    "nothing": b"",
    "blanks": b" \r\n\t",
    "half an object": b'{"ply": 3, "moves": [',
    "a word": b"moves",
    "single quotes": b"{'ply': 3}",
    "a comma too many": b'{"ply": 3,}',
    "a comment": b'{"ply": 3} // three',
    "two values": b'{"ply": 3}{"ply": 3}',
    "a byte order mark": b'\xef\xbb\xbf{"ply": 3}',
    "UTF-16": '{"ply": 3}'.encode("utf-16"),
    "a NUL after it": b'{"ply": 3}\0',
    "a NUL in a string": b'{"ply": 3, "moves": [{"from": "r\x003"}]}',
    "a line feed in a string": b'{"ply": 3, "moves": [{"from": "r\n3"}]}',
    "invalid UTF-8": b'{"ply": 3, "moves": [{"from": "\xff"}]}',
    "overlong UTF-8": b'{"ply": 3, "moves": [{"from": "\xc0\xaf"}]}',
    "a surrogate in UTF-8": b'{"ply": 3, "moves": [{"from": "\xed\xa0\x80"}]}',
    "half a surrogate pair": rb'{"ply": 3, "moves": [{"from": "\ud800"}]}',
    "the other half": rb'{"ply": 3, "moves": [{"from": "\udc00r3"}]}',
    "a name with half a pair": rb'{"ply": 3, "\ud800": 1}',
    "an unknown escape": rb'{"ply": 3, "moves": [{"from": "\x72"}]}',
    "a name twice": b'{"ply": 3, "ply": 3, "moves": [{"from": "r2"}]}',
    "a name twice further in": b'{"ply": 3, "moves": [{"from": "r2", "from": "r2"}]}',
    "NaN": b'{"ply": NaN, "moves": [{"from": "r2"}]}',
    "Infinity": b'{"ply": Infinity, "moves": [{"from": "r2"}]}',
    "minus Infinity": b'{"ply": -Infinity, "moves": [{"from": "r2"}]}',
    "a leading zero": b'{"ply": 03, "moves": [{"from": "r2"}]}',
    "a plus": b'{"ply": +3, "moves": [{"from": "r2"}]}',
    "hexadecimal": b'{"ply": 0x3, "moves": [{"from": "r2"}]}',
    "5,000 digits": b'{"ply": ' + b"9" * 5000 + b"}",
    "deep arrays": b"[" * 30000 + b"]" * 30000,
    "deep objects": b'{"a":' * 10000 + b"1" + b"}" * 10000,
    "deep arrays without an end": b"[" * 60000,
}


@pytest.mark.parametrize("data", NO_JSON.values(), ids=NO_JSON)
def test_a_body_that_is_no_sound_json_is_malformed(
    somebody: Person, game: Json, refused: Refused, data: bytes
) -> None:
    answer = refused(somebody, "POST", moves_of(game), data=data)

    assert answer == (400, "malformed-json")


@pytest.mark.parametrize("depth", range(100, 1000, 50))
def test_nesting_is_read_or_refused_but_never_a_fault(
    somebody: Person, game: Json, refused: Refused, depth: int
) -> None:
    data = b'{"a": "\\ud83d\\ude00", "b": ' + b"[" * depth + b"]" * depth + b"}"

    answer = refused(somebody, "POST", moves_of(game), data=data)

    assert answer in [(400, "malformed-json"), (422, "invalid-request")]


PLACES: list[Any] = [
    *(None, 2, True, ["r2"], {}, "", " ", "r2 ", " r2", "r2\n", "r\0", "\0", "\uff522", "r\uff12"),
    *("R2", "r", "r0", "r17", "r02", "c0", "c5", "upper", "upper-s", "upper-X", "queen-S"),
    *("stock:waste", "r2:upper-S", "undo", "../r2", "x" * 9999),
]
CARDS: list[Any] = [
    *(None, 4, True, "", "4H ", "4H\n", "4", "H4", "4h", "10H", "1H", "--", "XX", "4♥", "🂤")
]
NUMBERS: list[Any] = [
    *(None, True, False, "3", "", 3.5, -1, -0.5, 2001, 10**9, 10**40, [], [3], {})
]
LISTS: list[Any] = [None, {}, "r2", 1, True, [], [R2] * 201]
OBJECTS: list[Any] = [None, "r2", 2, True, [], ["r2"]]

MISFITS: dict[str, tuple[Any, list[str]]] = {
    "an array": ([], [""]),
    "null": (None, [""]),
    "a number": (3, [""]),
    "true": (True, [""]),
    "a string": ("r2", [""]),
    "no members": ({}, ["/moves", "/ply"]),
    "no ply": ({"moves": [R2]}, ["/ply"]),
    "no moves": ({"ply": PLIES}, ["/moves"]),
    **{f"ply {ply!r}"[:30]: (batch(R2, ply=ply), ["/ply"]) for ply in NUMBERS},
    **{f"moves {moves!r}"[:30]: ({"ply": 3, "moves": moves}, ["/moves"]) for moves in LISTS},
    **{f"a move {move!r}": (batch(R2, move), ["/moves/1"]) for move in OBJECTS},
    **{f"from {at!r}"[:40]: (batch({"from": at}), ["/moves/0/from"]) for at in PLACES},
    **{f"to {at!r}"[:40]: (batch({**R2, "to": at}), ["/moves/0/to"]) for at in PLACES},
    **{f"card {card!r}": (batch({**R2, "card": card}), ["/moves/0/card"]) for card in CARDS},
    "a member too many": (batch(R2, think=1), ["/think"]),
    "a member too many in a move": (batch({**R2, "promote": "Q"}), ["/moves/0/promote"]),
    "names to be escaped": (batch(R2, **{"a/b~c": 1, "": 2}), ["/", "/a~1b~0c"]),
    "a member of Python": (batch(R2, __class__=1, __proto__=2), ["/__class__", "/__proto__"]),
    "names inside that are not those outside": (
        batch({"origin": "r2", "destination": "deuce-H"}),
        ["/moves/0/destination", "/moves/0/from", "/moves/0/origin"],
    ),
    "all that is wrong at once": (
        {"ply": -1, "moves": [R2, {"from": "x", "to": "y"}, {}], "more": None},
        ["/more", "/moves/1/from", "/moves/1/to", "/moves/2/from", "/ply"],
    ),
}


@pytest.mark.parametrize(("body", "places"), MISFITS.values(), ids=map(ascii, MISFITS))
def test_moves_that_do_not_fit_the_schema_are_pointed_at(
    somebody: Person, game: Json, refused: Refused, body: Any, places: list[str]
) -> None:
    answer = refused(somebody, "POST", moves_of(game), data=json.dumps(body).encode())

    assert answer == (422, "invalid-request")
    assert pointers(answer) == places


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e308", "3.0000001", "9" * 4000])
def test_numbers_beyond_all_plies_are_refused(
    somebody: Person, game: Json, refused: Refused, number: str
) -> None:
    data = b'{"moves": [{"from": "r2"}], "ply": ' + number.encode() + b"}"

    answer = refused(somebody, "POST", moves_of(game), data=data)

    assert answer == (422, "invalid-request")
    assert pointers(answer) == ["/ply"]


@pytest.mark.parametrize("number", [b"0", b"0.0", b"-0.0", b"0e7", b"0.0e-400"])
def test_a_ply_is_an_integer_as_json_schema_has_it(ada: Person, number: bytes) -> None:
    game = ada.create("royal")

    answer = ada.post(moves_of(game), data=b'{"moves": [{"from": "r2"}], "ply": ' + number + b"}")

    assert expect(answer)["ply"] == 1


def test_a_large_number_beside_an_escaped_pair_is_no_half_pair(
    somebody: Person, game: Json, refused: Refused
) -> None:
    data = b'{"moves": [{"from": "\\ud83d\\ude00"}], "ply": 99999999999999999999999}'

    answer = refused(somebody, "POST", moves_of(game), data=data)

    assert answer == (422, "invalid-request")
    assert pointers(answer) == ["/moves/0/from", "/ply"]


@pytest.mark.parametrize("what", ["undo", "resign"])
@pytest.mark.parametrize(
    ("body", "places"),
    [
        ({}, ["/ply"]),
        ([], [""]),
        ({"ply": "3"}, ["/ply"]),
        ({"ply": True}, ["/ply"]),
        ({"ply": None}, ["/ply"]),
        ({"ply": 2001}, ["/ply"]),
        ({"ply": PLIES, "moves": []}, ["/moves"]),
        ({"ply": PLIES, "sure": True}, ["/sure"]),
    ],
)
def test_acts_that_do_not_fit_the_schema_are_pointed_at(
    somebody: Person, game: Json, refused: Refused, what: str, body: Any, places: list[str]
) -> None:
    answer = refused(
        somebody, "POST", f"/v1/games/{game['id']}/{what}", data=json.dumps(body).encode()
    )

    assert answer == (422, "invalid-request")
    assert pointers(answer) == places


RULESET_NAMES: list[Any] = [
    *(None, "", 1, True, [], "royal-rendezvous-1 ", "royal-rendezvous-1\n", "royal-rendezvous-1\0"),
    *("royal-rendezvous", "royal-rendezvous-2", "ROYAL-RENDEZVOUS-1", "x" * 9999),
]
SPECS: list[Any] = [None, "", 1, "deal-2", "DEAL-1", "deal-1\n"]
SEEDS: list[Any] = [
    *(None, 7, True, [], {}, "", " ", "a b", " a", "a ", "a\n", "\ta", "x" * 65, "x" * 9999),
    *("é", "\uff17", "\0", "a\0b", "\x7f", "\x1b[0m", "\u2028", "🂡", "a\u0301"),
]

NEW_GAMES: dict[str, tuple[Any, list[str]]] = {
    "null": (None, [""]),
    "an array": ([], [""]),
    **{f"ruleset {name!r}"[:40]: ({"ruleset": name}, ["/ruleset"]) for name in RULESET_NAMES},
    **{f"deal {deal!r}": ({"deal": deal}, ["/deal"]) for deal in OBJECTS},
    **{f"spec {spec!r}": ({"deal": {"spec": spec, "seed": "7"}}, ["/deal/spec"]) for spec in SPECS},
    **{f"seed {seed!r}"[:40]: ({"deal": {"seed": seed}}, ["/deal/seed"]) for seed in SEEDS},
    "a commitment": ({"deal": {"commitment": "0" * 64}}, ["/deal/commitment"]),
    "options null": ({"options": None}, ["/options"]),
    "options an array": ({"options": []}, ["/options"]),
    "an unknown option": ({"options": {"undo": True}}, ["/options/undo"]),
    "an id of one's own": ({"id": str(uuid4())}, ["/id"]),
    "a player": ({"player": str(uuid4())}, ["/player"]),
    "all at once": (
        {"ruleset": 1, "deal": {"spec": 2, "seed": 3, "x": 4}, "options": {"y": 5}, "z": 6},
        ["/deal/seed", "/deal/spec", "/deal/x", "/options/y", "/ruleset", "/z"],
    ),
}


@pytest.mark.parametrize(("body", "places"), NEW_GAMES.values(), ids=map(ascii, NEW_GAMES))
def test_a_new_game_that_does_not_fit_the_schema_is_pointed_at(
    somebody: Person, refused: Refused, body: Any, places: list[str]
) -> None:
    answer = refused(somebody, "POST", "/v1/games", data=json.dumps(body).encode())

    assert answer == (422, "invalid-request")
    assert pointers(answer) == places


@pytest.mark.parametrize(
    "seed",
    ["royal", "-1", "+7", "7.0", "1e3", "0x7", "ms", "ms0", "MS7", "ms-7", f"ms{2**33}", "7_0"],
)
def test_a_text_that_is_no_number_is_no_seed_of_numbered_deals(
    somebody: Person, client: Client, refused: Refused, seed: str
) -> None:
    made = refused(somebody, "POST", "/v1/games", {"deal": {"spec": "pysol-1", "seed": seed}})
    escaped = seed.replace("+", "%2B")
    asked = refused(client, "GET", f"/v1/deals/pysol-1/royal-rendezvous-1?seed={escaped}")

    assert made == asked == (422, "bad-seed")
    assert pointers(made) == ["/deal/seed"]


def test_the_server_draws_no_numbered_deals(somebody: Person, refused: Refused) -> None:
    answer = refused(somebody, "POST", "/v1/games", {"deal": {"spec": "pysol-1"}})

    assert answer == (422, "seed-needed")
    assert pointers(answer) == ["/deal/seed"]


NAMES: list[Any] = [
    *(
        None,
        5,
        True,
        [],
        {},
        "",
        " ",
        "\t",
        " Ada",
        "Ada ",
        "Ada\n",
        "\tAda",
        "\u3000Ada",
        "\xa0Ada",
    ),
    *("Ada\u2003", "\ufeffAda", "\u200bAda", "\u200d", "x" * 41, "🂡" * 41, "x" * 9999, "\0"),
    *("A\0da", "A\nda", "A\rda", "A\x07da", "A\x1b[31mda", "A\x7fda", "A\x85da", "A\u2028da"),
    *("A\u2029da", "A\u202eda", "A\u2066da", "Ada\0"),
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:30])
def test_a_name_that_cannot_stand_on_one_line_is_pointed_at(
    client: Client, refused: Refused, name: Any
) -> None:
    answer = refused(client, "POST", "/v1/players", data=json.dumps({"name": name}).encode())

    assert answer == (422, "invalid-request")
    assert pointers(answer) == ["/name"]


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ({}, ["/name"]),
        ([], [""]),
        ({"name": "Ada", "scopes": ["admin"]}, ["/scopes"]),
        ({"name": "Ada", "token": "rr_0"}, ["/token"]),
        ({"name": "Ada", "id": str(uuid4())}, ["/id"]),
    ],
)
def test_a_new_player_that_does_not_fit_the_schema_is_pointed_at(
    client: Client, refused: Refused, body: Any, places: list[str]
) -> None:
    answer = refused(client, "POST", "/v1/players", data=json.dumps(body).encode())

    assert answer == (422, "invalid-request")
    assert pointers(answer) == places


POSTS = (
    "/v1/players",
    "/v1/games",
    "/v1/games/{id}/moves",
    "/v1/games/{id}/undo",
    "/v1/games/{id}/resign",
)


@pytest.mark.parametrize("path", POSTS)
class TestBodies:
    @pytest.mark.parametrize(
        "media_type",
        [
            *("", "text/plain", "text/json", "application/x-www-form-urlencoded", "application/*"),
            *("multipart/form-data; boundary=x", "application/problem+json", "application", "*/*"),
            "application/vnd.royal-rendezvous.replay+json",
        ],
    )
    def test_another_media_type_is_not_taken(
        self, somebody: Person, game: Json, refused: Refused, path: str, media_type: str
    ) -> None:
        answer = refused(
            somebody,
            "POST",
            path.format_map(game),
            data=b"{}",
            headers={"Content-Type": media_type},
        )

        assert answer == (415, "unsupported-media-type")

    def test_a_body_must_come(
        self, somebody: Person, game: Json, refused: Refused, path: str
    ) -> None:
        path = path.format_map(game)

        assert refused(somebody, "POST", path) == (415, "unsupported-media-type")
        assert refused(somebody, "POST", path, data=b"") == (400, "malformed-json")

    def test_a_huge_body_is_too_large(
        self, somebody: Person, game: Json, refused: Refused, path: str
    ) -> None:
        path = path.format_map(game)

        at_limit = refused(somebody, "POST", path, data=b"[]".ljust(1 << 16))
        beyond = refused(somebody, "POST", path, data=b"[]".ljust((1 << 16) + 1))
        far_beyond = refused(somebody, "POST", path, data=b"[]".ljust(1 << 24))

        assert at_limit == (422, "invalid-request")
        assert beyond == far_beyond == (413, "body-too-large")


@pytest.mark.parametrize(
    "media_type", ["application/json", "APPLICATION/JSON", "application/json; charset=utf-8"]
)
def test_json_may_be_named_in_any_case_and_with_parameters(client: Client, media_type: str) -> None:
    answer = client.post("/v1/players", {"name": "Ada"}, headers={"Content-Type": media_type})

    assert answer.status_code == 201


def test_a_huge_replay_is_too_large(client: Client, refused: Refused) -> None:
    path = "/v1/replays/verify"

    within = expect(client.post(path, data=b"{}".ljust(1 << 20)))
    beyond = refused(client, "POST", path, data=b"{}".ljust((1 << 20) + 1))
    other = refused(client, "POST", path, data=b"{}", headers={"Content-Type": "text/plain"})

    assert within["verdict"] == "invalid"
    assert beyond == (413, "body-too-large")
    assert other == (415, "unsupported-media-type")


@pytest.mark.parametrize("data", NO_JSON.values(), ids=NO_JSON)
def test_whatever_is_no_replay_is_judged_invalid(client: Client, data: bytes) -> None:
    verdict = expect(client.post("/v1/replays/verify", data=data))

    assert verdict["verdict"] == "invalid"
    assert verdict["levels"]["structure"] == {"state": "fail"}


class TestStates:
    """What fits the schema, but not the game as it stands."""

    @pytest.mark.parametrize("ply", [0, 1, 2, 4, 2000, 0.0, 4.0])
    def test_another_act_at_another_ply_is_stale(
        self, somebody: Person, game: Json, refused: Refused, ply: float
    ) -> None:
        move = {"from": "c4", "to": "king-S"}

        answers = [
            refused(somebody, "POST", moves_of(game), batch(move, ply=ply)),
            refused(somebody, "POST", f"/v1/games/{game['id']}/undo", {"ply": ply}),
            refused(somebody, "POST", f"/v1/games/{game['id']}/resign", {"ply": ply}),
        ]

        for answer in answers:
            assert answer == (409, "stale-ply")
            assert answer.body["ply"] == PLIES
            assert answer.body["game"] == somebody.read(game)

    @pytest.mark.parametrize(
        "move",
        [
            {"from": "c1"},
            {"from": "c1", "to": "upper-S"},
            {"from": "r1", "to": "r2"},
            {"from": "r1", "to": "stock"},
            {"from": "stock", "to": "upper-S"},
            {"from": "stock"},
            {"from": "waste", "to": "stock"},
            {"from": "upper-S"},
            {"from": "upper-S", "to": "lower-S"},
            {"from": "r1", "to": "king-S"},
            {"from": "r1", "to": "r1"},
        ],
        ids=str,
    )
    def test_a_move_that_the_ruleset_has_not_is_illegal(
        self, somebody: Person, game: Json, refused: Refused, move: Json
    ) -> None:
        answer = refused(somebody, "POST", moves_of(game), batch(move))

        assert answer == (409, "illegal-move")
        assert answer.body["reason"] == "not-a-move"
        assert answer.body["failed_index"] == 0
        assert answer.body["ply"] == PLIES
        assert answer.body["legal_moves"] == game["legal_moves"]

    def test_every_move_that_is_not_listed_as_legal_is_refused(
        self, somebody: Person, game: Json, refused: Refused
    ) -> None:
        legal = {(move["from"], move["to"]) for move in game["legal_moves"]}
        foundations = [pile["id"] for pile in game["foundations"]]
        places = [place["id"] for place in game["reserve"]]
        plays = [(place, pile) for place in [*places, "waste"] for pile in foundations]

        for origin, destination in [*plays, ("stock", "waste")]:
            if (origin, destination) not in legal:
                move = {"from": origin, "to": destination}
                answer = refused(somebody, "POST", moves_of(game), batch(move))
                assert answer == (409, "illegal-move")
                assert answer.body["reason"] in {
                    "foundation-wants-other",
                    "wrong-suit",
                    "reserve-can-play",
                    "source-empty",
                }, answer.body

    def test_another_card_than_the_one_that_moves_is_a_mismatch(
        self, somebody: Person, game: Json, refused: Refused
    ) -> None:
        move = game["legal_moves"][0]
        cards = [rank + suit for rank in "A23456789TJQK" for suit in "CDHS"]

        for card in cards:
            if card != move["card"]:
                named = {"from": move["from"], "to": move["to"], "card": card}
                answer = refused(somebody, "POST", moves_of(game), batch(named))
                assert answer == (409, "card-mismatch")
                assert answer.body["failed_index"] == 0
                assert answer.body["legal_moves"] == game["legal_moves"]

    def test_a_batch_whose_37th_move_is_illegal_is_refused_as_a_whole(
        self, ada: Person, refused: Refused
    ) -> None:
        ahead = ada.play(ada.create("royal"), 40)
        moves = [move_of(entry) for entry in ada.replay(ahead)["log"]]
        game = ada.create("royal")
        moves[36] = {"from": "r1", "to": "stock"}

        answer = refused(ada, "POST", moves_of(game), batch(*moves, ply=0))

        assert answer == (409, "illegal-move")
        assert answer.body["failed_index"] == 36
        assert answer.body["ply"] == 0
        assert answer.body["legal_moves"] == game["legal_moves"]
        assert ada.read(game) == game
        assert ada.move(game, *moves[:36])["ply"] == 36

    def test_two_hundred_moves_are_taken_and_no_more(self, ada: Person, refused: Refused) -> None:
        game = ada.create("royal")

        longest = refused(ada, "POST", moves_of(game), batch(*[R2] * 200, ply=0))
        too_long = refused(ada, "POST", moves_of(game), batch(*[R2] * 201, ply=0))

        assert longest == (409, "illegal-move")
        assert longest.body["failed_index"] == 1
        assert too_long == (422, "invalid-request")
        assert pointers(too_long) == ["/moves"]

    def test_a_batch_past_a_hidden_card_is_refused_before_anything_is_turned_up(
        self, somebody: Person, hidden: Json, refused: Refused
    ) -> None:
        first = hidden["legal_moves"][0]

        for second in ({"from": "stock", "to": "waste"}, {"from": "c1"}, first):
            answer = refused(somebody, "POST", moves_of(hidden), batch(first, second, ply=0))
            assert answer == (409, "batch-past-hidden-card")
            assert answer.body["failed_index"] == 0

    def test_nothing_is_taken_back_where_cards_are_hidden_or_no_move_was_made(
        self, ada: Person, hidden: Json, somebody: Person, refused: Refused
    ) -> None:
        fresh = ada.create("royal")

        off = refused(somebody, "POST", f"/v1/games/{hidden['id']}/undo", {"ply": 0})
        none = refused(ada, "POST", f"/v1/games/{fresh['id']}/undo", {"ply": 0})

        assert off == (409, "undo-off")
        assert none == (409, "nothing-to-undo")

    @pytest.mark.parametrize("seed", ["royal", None])
    def test_nothing_follows_a_finished_game(
        self, ada: Person, refused: Refused, seed: str | None
    ) -> None:
        game = expect(ada.act(ada.create(seed), "resign"))
        path = f"/v1/games/{game['id']}"

        moved = refused(ada, "POST", f"{path}/moves", batch(R2, ply=1))
        resigned = refused(ada, "POST", f"{path}/resign", {"ply": 1})
        undone = refused(ada, "POST", f"{path}/undo", {"ply": 1})

        assert moved == resigned == (409, "game-over")
        assert undone == (409, "game-over" if seed else "undo-off")
        assert moved.body["legal_moves"] == []


OWN = {
    "POST /v1/games": {},
    "GET /v1/games": None,
    "GET /v1/players/me": None,
    "GET /v1/tokens": None,
    "DELETE /v1/tokens/{unknown}": None,
    "GET /v1/games/{id}": None,
    "GET /v1/games/{id}/replay": None,
    "POST /v1/games/{id}/moves": batch(R2),
    "POST /v1/games/{id}/undo": {"ply": PLIES},
    "POST /v1/games/{id}/resign": {"ply": PLIES},
}
"""All that takes a token, with a body that would be accepted."""
ACTS = [what for what in OWN if "{id}/" in what and what.startswith("POST")]
NEED_TOKEN = [what for what in OWN if not what.startswith("GET /v1/games/")]


def split(what: str, game: Json) -> tuple[str, str]:
    method, path = what.split()
    return method, path.format(id=game["id"], unknown=unknown_id())


def with_token(of: Person, database: Database, *scopes: str, days: int | None = None) -> Person:
    """Return a person with another token, of these scopes, that expires in so many days."""
    token = tokens.draw()
    now = database.run(lambda connection: connection.execute(text("SELECT now()")).scalar_one())
    expires = None if days is None else now + timedelta(days=days)
    player = UUID(of.id)
    database.run(
        lambda connection: players.give_token(
            connection, now, uuid4(), player, token, scopes, expires
        )
    )
    return Person(of.app, of.contract, token, of.id)


class TestTokens:
    @pytest.mark.parametrize("what", NEED_TOKEN)
    def test_a_token_is_needed(
        self, client: Client, game: Json, refused: Refused, what: str
    ) -> None:
        answer = refused(client, *split(what, game), OWN[what])

        assert answer == (401, "token-missing")

    @pytest.mark.parametrize("what", OWN)
    def test_a_revoked_token_is_refused(
        self, somebody: Person, game: Json, database: Database, refused: Refused, what: str
    ) -> None:
        revoked = with_token(somebody, database, *tokens.FIRST_SCOPES)
        own = expect(revoked.get("/v1/players/me"))["token"]
        assert revoked.ask("DELETE", f"/v1/tokens/{own}").status_code == 204

        answer = refused(revoked, *split(what, game), OWN[what])

        assert answer == (401, "token-invalid")

    @pytest.mark.parametrize("what", OWN)
    def test_an_expired_token_is_refused(
        self, somebody: Person, game: Json, database: Database, refused: Refused, what: str
    ) -> None:
        expired = with_token(somebody, database, *tokens.SCOPES, days=-1)
        lasting = with_token(somebody, database, *tokens.SCOPES, days=1)

        answer = refused(expired, *split(what, game), OWN[what])

        assert answer == (401, "token-invalid")
        assert lasting.get("/v1/players/me").status_code == 200

    @pytest.mark.parametrize("what", OWN)
    def test_an_unknown_token_is_refused(
        self, somebody: Person, game: Json, refused: Refused, what: str
    ) -> None:
        unknown = Person(somebody.app, somebody.contract, tokens.draw())

        answer = refused(unknown, *split(what, game), OWN[what])

        assert answer == (401, "token-invalid")

    @pytest.mark.parametrize("what", OWN)
    def test_a_token_is_good_for_its_scopes_alone(
        self, somebody: Person, game: Json, database: Database, refused: Refused, what: str
    ) -> None:
        needed = "games:play" if what.startswith("POST") else "games:read"
        others = [scope for scope in tokens.SCOPES if scope != needed]
        narrow = with_token(somebody, database, *others)

        answer = refused(narrow, *split(what, game), OWN[what])

        assert answer == (403, "scope-missing")
        assert answer.body["required_scope"] == needed

    @pytest.mark.parametrize("what", ACTS)
    def test_somebody_elses_game_is_none(
        self, bea: Person, game: Json, refused: Refused, what: str
    ) -> None:
        there = refused(bea, *split(what, game), OWN[what])
        nowhere = refused(bea, *split(what, {"id": unknown_id()}), OWN[what])

        assert there == nowhere == (404, "not-found")
        assert there.body["detail"] == nowhere.body["detail"]

    def test_somebody_elses_token_cannot_be_revoked(
        self, somebody: Person, bea: Person, refused: Refused
    ) -> None:
        theirs = expect(somebody.get("/v1/players/me"))["token"]

        answer = refused(bea, "DELETE", f"/v1/tokens/{theirs}")

        assert answer == (404, "not-found")
        assert somebody.get("/v1/players/me").status_code == 200


def malformed(token: str) -> dict[str, str]:
    """Return headers that look like this token's and are none."""
    last = "0" if token[-1] != "0" else "1"
    first = "0" if token[3] != "0" else "1"
    return {
        "nothing": "",
        "a blank": " ",
        "the scheme alone": "Bearer",
        "the scheme and a blank": "Bearer ",
        "no scheme": token,
        "another scheme": f"Basic {token}",
        "two blanks": f"Bearer  {token}",
        "a tab": f"Bearer\t{token}",
        "a colon": f"Bearer: {token}",
        "twice": f"Bearer {token} {token}",
        "twice with a comma": f"Bearer {token}, Bearer {token}",
        "a parameter": f'Bearer token="{token}"',
        "quotes": f'Bearer "{token}"',
        "a letter more": f"Bearer {token}0",
        "a letter less": f"Bearer {token[:-1]}",
        "no prefix": f"Bearer {token[3:]}",
        "another prefix": f"Bearer xx_{token[3:]}",
        "another case": f"Bearer {token.swapcase()}",
        "a bad checksum": f"Bearer {token[:-1]}{last}",
        "a digit mistaken": f"Bearer {token[:3]}{first}{token[4:]}",
        "no ASCII": f"Bearer {token[:-1]}é",
        "an injection": f"Bearer {token[:-6]}' OR ''='",
    }


class TestMalformedTokens:
    @pytest.mark.parametrize("how", malformed(tokens.draw()))
    def test_a_malformed_authorization_is_refused(
        self, somebody: Person, game: Json, refused: Refused, how: str
    ) -> None:
        assert somebody.token is not None
        headers = {"Authorization": malformed(somebody.token)[how]}

        for what, body in OWN.items():
            answer = refused(somebody, *split(what, game), body, headers=headers)
            assert answer == (401, "token-invalid")

    @pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
    def test_the_scheme_may_be_in_any_case(self, somebody: Person, scheme: str) -> None:
        headers = {"Authorization": f"{scheme} {somebody.token}"}

        assert somebody.ask("GET", "/v1/players/me", headers=headers).status_code == 200

    @pytest.mark.parametrize("how", malformed(tokens.draw()))
    def test_a_token_with_a_bad_checksum_does_not_reach_the_database(
        self, away: Client, game: Json, how: str
    ) -> None:
        sound = tokens.draw()

        for what, body in OWN.items():
            request = (*split(what, game), body)
            bad = away.ask(*request, headers={"Authorization": malformed(sound)[how]})
            assert problem(bad) == (401, "token-invalid")

    def test_a_well_formed_token_is_looked_up_in_the_database(
        self, away: Client, game: Json
    ) -> None:
        headers = {"Authorization": f"Bearer {tokens.draw()}"}

        answer = problem(away.ask("GET", f"/v1/games/{game['id']}", headers=headers))

        assert answer == (503, "database-unavailable")

    def test_a_token_is_taken_from_the_header_alone(
        self, somebody: Person, client: Client, game: Json, refused: Refused
    ) -> None:
        query = f"token={somebody.token}&access_token={somebody.token}"

        in_query = refused(client, "GET", f"/v1/players/me?{query}")
        in_cookie = refused(
            client, "GET", "/v1/players/me", headers={"Cookie": f"token={somebody.token}"}
        )
        in_body = refused(client, "POST", moves_of(game), batch(R2, token=somebody.token))

        assert in_cookie == (401, "token-missing")
        assert in_query == in_body == (422, "invalid-request")


@pytest.fixture(scope="module")
def away(contract: Contract) -> Iterator[Client]:
    """A client of a service whose database cannot be reached."""
    database = Database("postgresql:///nowhere?host=/nowhere", timeout=1)
    yield Client(create_app(Settings(rate_limits="off"), database), contract)
    database.dispose()


class TestQueries:
    @pytest.mark.parametrize(
        "ply",
        [
            *("", "-1", "2001", "abc", "1.0", "1e0", "%201", "1%20", "%2B1", "%EF%BC%91", "0x1"),
            *("99999999999999999999", "true", "null", "[1]", "1,2", "1%00", "1%0A"),
        ],
    )
    def test_a_bad_ply_is_pointed_at(
        self, somebody: Person, game: Json, refused: Refused, ply: str
    ) -> None:
        answer = refused(somebody, "GET", f"/v1/games/{game['id']}?ply={ply}")

        assert answer == (422, "invalid-request")
        assert pointers(answer) == ["#query/ply"]

    @pytest.mark.parametrize("ply", [PLIES + 1, 2000])
    def test_a_ply_not_reached_is_not_found(
        self, somebody: Person, game: Json, refused: Refused, ply: int
    ) -> None:
        answer = refused(somebody, "GET", f"/v1/games/{game['id']}?ply={ply}")

        assert answer == (404, "ply-not-reached")

    @pytest.mark.parametrize(
        "limit", ["", "0", "-1", "101", "abc", "20.0", "1e1", "%2B5", "%2020", "9" * 30, "None"]
    )
    def test_a_bad_limit_is_pointed_at(
        self, somebody: Person, refused: Refused, limit: str
    ) -> None:
        answer = refused(somebody, "GET", f"/v1/games?limit={limit}")

        assert answer == (422, "invalid-request")
        assert pointers(answer) == ["#query/limit"]

    @pytest.mark.parametrize(
        "cursor", ["", "%20", "a%20b", "%C3%A9", "a.b", "a%2Bb", "a/b", "a%00", "x" * 65, "AA=="]
    )
    def test_a_cursor_of_another_form_is_pointed_at(
        self, somebody: Person, refused: Refused, cursor: str
    ) -> None:
        answer = refused(somebody, "GET", f"/v1/games?cursor={cursor}")

        assert answer == (422, "invalid-request")
        assert pointers(answer) == ["#query/cursor"]

    @pytest.mark.parametrize(
        "cursor",
        [
            *("A", "AA", "AAAA", "A" * 21, "A" * 23, "A" * 64, "A" * 21 + "B", "_" * 22, "-" * 3),
            base64.urlsafe_b64encode(b"x" * 15).decode(),
            base64.urlsafe_b64encode(b"x" * 18).decode(),
        ],
    )
    def test_a_cursor_that_no_page_gave_is_unknown(
        self, somebody: Person, refused: Refused, cursor: str
    ) -> None:
        assert refused(somebody, "GET", f"/v1/games?cursor={cursor}") == (422, "unknown-cursor")

    @pytest.mark.parametrize(
        "seed",
        ["", "%20", "a%20b", "a+b", "%00", "a%0A", "%C3%A9", "%F0%9F%82%A1", "x" * 65, "%7F"],
    )
    def test_a_bad_seed_is_pointed_at(self, client: Client, refused: Refused, seed: str) -> None:
        answer = refused(client, "GET", f"/v1/deals/deal-1/royal-rendezvous-1?seed={seed}")

        assert answer == (422, "invalid-request")
        assert pointers(answer) == ["#query/seed"]

    @pytest.mark.parametrize("query", ["seed=%FF", "seed=%C3", "seed=%ED%A0%80", "%FF=1&seed=a"])
    def test_a_query_that_is_no_utf_8_is_malformed(
        self, client: Client, refused: Refused, query: str
    ) -> None:
        answer = refused(client, "GET", f"/v1/deals/deal-1/royal-rendezvous-1?{query}")

        assert answer == (400, "malformed-request")

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("/v1/games?page=2", "page"),
            ("/v1/games?Limit=2", "Limit"),
            ("/v1/games?limit%20=2", "limit "),
            ("/v1/games?limit=2&a/b~c=1", "a~1b~0c"),
            ("/v1/games?=1", ""),
            ("/v1/games/{id}?ply=1&at=2", "at"),
            ("/v1/deals/deal-1/royal-rendezvous-1?seed=a&spec=deal-1", "spec"),
            ("/v1/games/{id}/replay?ply=3", "ply"),
            ("/v1?pretty", "pretty"),
        ],
    )
    def test_an_unknown_member_of_a_query_is_pointed_at(
        self, somebody: Person, game: Json, refused: Refused, path: str, name: str
    ) -> None:
        answer = refused(somebody, "GET", path.format_map(game))

        assert answer == (422, "invalid-request")
        assert pointers(answer) == [f"#query/{name}"]

    def test_an_act_takes_no_query(self, somebody: Person, game: Json, refused: Refused) -> None:
        answer = refused(somebody, "POST", f"{moves_of(game)}?dry_run=1", batch(R2))

        assert answer == (422, "invalid-request")
        assert pointers(answer) == ["#query/dry_run"]

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("/v1/games?limit=2&limit=2", "limit"),
            ("/v1/games?cursor=a&limit=2&cursor=a", "cursor"),
            ("/v1/games/{id}?ply=1&ply=2", "ply"),
            ("/v1/games/{id}?ply=1&%70ly=1", "ply"),
            ("/v1/deals/deal-1/royal-rendezvous-1?seed=a&seed=a", "seed"),
        ],
    )
    def test_a_member_of_a_query_that_comes_twice_is_pointed_at(
        self, somebody: Person, game: Json, refused: Refused, path: str, name: str
    ) -> None:
        answer = refused(somebody, "GET", path.format_map(game))

        assert answer == (422, "invalid-request")
        assert pointers(answer) == [f"#query/{name}"]

    def test_a_deal_needs_a_seed(self, client: Client, refused: Refused) -> None:
        answer = refused(client, "GET", "/v1/deals/deal-1/royal-rendezvous-1")

        assert answer == (422, "invalid-request")
        assert pointers(answer) == ["#query/seed"]


NO_IDS = [
    *("x", "0", "-1", "me", "null", "%00", "%20", "..", "%2e%2e", "..%2f..", "{id}", "*", "'", "é"),
    *("%FF", "%C3%A9", "%F0%9F%82%A1", "a%2Fb", "a%5Cb", "x" * 3000, "1;drop%20table%20games"),
    "00000000-0000-0000-0000-00000000000",
    "00000000-0000-0000-0000-0000000000000",
    "g0000000-0000-0000-0000-000000000000",
    "00000000000000000000000000000000",
    "%7B00000000-0000-0000-0000-000000000000%7D",
    "00000000-0000-0000-0000-000000000000%00",
    "00000000-0000-0000-0000-000000000000%0A",
    "urn:uuid:00000000-0000-0000-0000-000000000000",
]


class TestPaths:
    @pytest.mark.parametrize("wrong", NO_IDS, ids=lambda wrong: wrong[:40])
    def test_what_is_no_id_is_not_found(
        self, somebody: Person, refused: Refused, wrong: str
    ) -> None:
        answers = [
            refused(somebody, "GET", f"/v1/games/{wrong}"),
            refused(somebody, "GET", f"/v1/games/{wrong}/replay"),
            refused(somebody, "POST", f"/v1/games/{wrong}/moves", batch(R2)),
            refused(somebody, "POST", f"/v1/games/{wrong}/resign", {"ply": 0}),
        ]

        assert answers == [(404, "not-found")] * 4

    @pytest.mark.parametrize(
        "name",
        ["x", "%00", "%FF", "%20", "a%2Fb", "ROYAL-RENDEZVOUS-1", "royal-rendezvous-1%20", "é"],
    )
    def test_what_has_no_such_name_is_not_found(
        self, client: Client, refused: Refused, name: str
    ) -> None:
        answers = [
            refused(client, "GET", f"/v1/rulesets/{name}"),
            refused(client, "GET", f"/v1/deals/deal-1/{name}?seed=a"),
            refused(client, "GET", f"/v1/deals/{name}/royal-rendezvous-1?seed=a"),
            refused(client, "GET", f"/problems/{name}"),
        ]

        assert answers == [(404, "not-found")] * 4

    @pytest.mark.parametrize(
        "path",
        [
            *("/", "/v", "/v2", "/v1/x", "/v1/player", "/v1/replay", "/V1", "/v1.json"),
            *("/v1/deals", "/v1/deals/deal-1", "/v1/rulesets/royal-rendezvous-1/x"),
            *("/v1/../healthz", "/v1/%2e%2e/healthz", "/favicon.ico", "/.git/config", "/docs/x"),
            *("/%00", "/%FF", "/v1/games%00", "/v1;x=1", "/robots.txt", "/admin", "/v1/tokens/me"),
        ],
    )
    def test_an_unknown_path_is_not_found(
        self, client: Client, refused: Refused, path: str
    ) -> None:
        assert refused(client, "GET", path) == (404, "not-found")

    @pytest.mark.parametrize(
        "path",
        ["/v1", "/v1/rulesets", "/v1/games/{id}", "/v1/games", "/v1/players/me", "/v1/tokens"],
    )
    def test_a_slash_at_the_end_makes_no_difference(
        self, somebody: Person, game: Json, path: str
    ) -> None:
        path = path.format_map(game)

        assert somebody.get(f"{path}/").status_code == somebody.get(path).status_code == 200

    def test_an_id_may_be_in_upper_case_and_a_path_percent_encoded(
        self, somebody: Person, game: Json
    ) -> None:
        shouted = expect(somebody.get(f"/v1/games/{game['id'].upper()}"))
        encoded = expect(somebody.get(f"/v1/%67ames/{game['id'].replace('-', '%2D')}"))

        assert shouted == encoded == somebody.read(game)

    def test_every_operation_refuses_other_methods_and_says_which_it_has(
        self, somebody: Person, contract: Contract, game: Json, refused: Refused
    ) -> None:
        names = {
            "game_id": game["id"],
            "token_id": unknown_id(),
            "import_id": unknown_id(),
            **dict.fromkeys(
                (
                    *("tournament_id", "entry_id", "player_id", "job_id"),
                    *("invite_id", "webhook_id"),
                ),
                unknown_id(),
            ),
            "ruling": "1",
            "edition": "1",
            "number": "1",
            "name": "royal-rendezvous-1",
            "spec": "deal-1",
            "ruleset": "royal-rendezvous-1",
        }
        methods = {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"}

        for template, operations in contract.document["paths"].items():
            path = template.format_map(names)
            known = {method.upper() for method in operations if method != "parameters"}
            for method in sorted(methods - known):
                answer = refused(somebody, method, path, data=b"{}")
                assert answer == (405, "method-not-allowed"), (method, path)
                asked = somebody.ask(method, path)
                allowed = set(asked.headers["Allow"].split(", "))
                assert allowed - {"HEAD", "OPTIONS"} == known
                assert ("HEAD" in allowed) == ("GET" in known)


class TestHeaders:
    @pytest.mark.parametrize(
        "tag",
        [
            *("", '"', '""', "abc", '"abc"', 'W/"abc"', "W/", ",,,", '"a" "b"', "a b c", '"\\""'),
            *("é", "x" * 5000, '"0", ' * 500, "'", '"%00"', "**", '"*"'),
        ],
        ids=lambda tag: ascii(tag)[:20],
    )
    def test_if_none_match_may_hold_anything(self, somebody: Person, game: Json, tag: str) -> None:
        answer = somebody.get(f"/v1/games/{game['id']}", If_None_Match=tag)

        assert expect(answer)["id"] == game["id"]

    @pytest.mark.parametrize("form", ["{}", "W/{}", '"x", {}', '{}, W/"x"', "*"])
    def test_if_none_match_is_compared_weakly_and_may_hold_several(
        self, somebody: Person, game: Json, form: str
    ) -> None:
        path = f"/v1/games/{game['id']}"
        tag = somebody.get(path).headers["ETag"]

        answer = somebody.get(path, If_None_Match=form.format(tag))

        assert (answer.status_code, answer.data) == (304, b"")
        assert answer.headers["ETag"] == tag

    @pytest.mark.parametrize(
        "name", ["a b", "é", "x" * 65, "", "a/b", 'a"b', "<script>", "%0d%0aX: y", "{}"]
    )
    def test_an_unsound_request_id_is_replaced(self, client: Client, name: str) -> None:
        answer = client.get("/v1/rulesets", X_Request_Id=name)

        assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-Id"])

    @pytest.mark.parametrize("accept", ["text/html", "x", "", "*/*;q=0", "application/xml"])
    def test_json_comes_whatever_is_wished_for(self, client: Client, accept: str) -> None:
        good = client.ask("GET", "/v1/rulesets", headers={"Accept": accept})
        bad = client.ask("GET", "/v1/rulesets/x", headers={"Accept": accept})

        assert good.mimetype == "application/json"
        assert bad.mimetype == "application/problem+json"

    def test_a_method_is_not_overridden_by_a_header(
        self, somebody: Person, game: Json, refused: Refused
    ) -> None:
        headers = {"X-HTTP-Method-Override": "GET", "X-HTTP-Method": "GET"}

        answer = refused(somebody, "POST", f"/v1/games/{game['id']}", {}, headers=headers)

        assert answer == (405, "method-not-allowed")


@pytest.fixture(scope="module")
def service(postgres: EmbeddedPostgres, database: Database) -> Iterator[Service]:
    """The service as it is run."""
    assert database
    with running(postgres.url, WORKERS="1") as service:
        yield service


class TestOverTheWire:
    """What a test client cannot send."""

    @pytest.mark.parametrize(
        ("path", "limit"), [("/v1/players", 1 << 16), ("/v1/replays/verify", 1 << 20)]
    )
    def test_a_huge_body_of_untold_length_is_too_large(
        self, service: Service, database: Database, path: str, limit: int
    ) -> None:
        before = stored(database)
        json = {"Content-Type": "application/json"}

        within = service.ask("POST", path, chunks(b'{"name": 7}', limit), headers=json)
        beyond = service.ask("POST", path, chunks(b'{"name": "Ada"}', limit + 1), headers=json)

        assert within.status in {200, 422}
        assert (beyond.status, beyond.body["code"]) == (413, "body-too-large")
        assert stored(database) == before

    def test_a_connection_goes_on_after_a_refusal(self, service: Service) -> None:
        connection = service.connect()

        statuses = []
        for media_type in ("text/plain", "application/json") * 2:
            headers = {"Content-Type": media_type}
            body = b"[]".ljust(30000)
            statuses.append(
                service.ask("POST", "/v1/players", body, on=connection, headers=headers).status
            )
        connection.close()

        assert statuses == [415, 422] * 2


def chunks(head: bytes, size: int) -> Iterator[bytes]:
    yield head
    left = size - len(head)
    while left:
        step = min(left, 1000)
        yield b" " * step
        left -= step
