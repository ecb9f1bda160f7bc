r"""Positions: their text, what they refuse and why, and how moves change them.

``golden/perft.json`` holds positions with the number of ways to make 1, 2, 3, … moves from each. It
is only added to. The counts of another position are written by::

    PYTHONPATH=tests python -c "from service.engine import *; from test_position import perft; \
        position = Position.parse(table('RULESET'), 'TEXT'); \
        print([perft(position, depth) for depth in range(1, 8)])"
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.engine import RULESETS, Layout, Move, Position, deal, table
from service.engine.cards import CARDS, EMPTY, TEXTS
from service.engine.errors import (
    AmbiguousMoveError,
    BadPositionError,
    IllegalMoveError,
    NotAMoveError,
)
from service.engine.moves import HINT, RESIGN

PERFT: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "golden" / "perft.json").read_text("utf-8")
)

DEFAULT = "royal-rendezvous-1"
OPEN = "royal-rendezvous-open-1"
SOLSUITE = "royal-rendezvous-solsuite-1"
TILL_DAWN = "royal-rendezvous-till-dawn-1"
PYSOL = "royal-rendezvous-pysol-1"
COTILLION = "royal-cotillion-1"
ODD_AND_EVEN = "odd-and-even-1"
ODD_AND_EVEN_PYSOL = "odd-and-even-pysol-1"

KINGS = "KCKDKHKSKCKDKHKS"
QUEENS = "QCQDQHQSQCQDQHQS"
ROWS = f"{KINGS}/{QUEENS}"
NINE = "KCKDKHKS/QCQDQHQSKC"
COLUMNS = "JCTCTC/JDTDTD/--/JSTSTS"


def at(ruleset: str, text: str) -> Position:
    return Position.parse(table(ruleset), text)


def move(position: Position, text: str) -> Move:
    return position.rules.parse(text)


def state(position: Position) -> tuple[object, ...]:
    """All that a move may change, as values."""
    return (
        position.render(stock=True),
        bytes(position.tops),
        tuple(position.wants),
        bytes(position._wanted),
        position.redeals,
    )


def perft(position: Position, depth: int) -> int:
    """Return the number of ways to make this many moves."""
    moves = position.legal_moves()
    if depth == 1:
        return len(moves)
    ways = 0
    for chosen in moves:
        after = position.copy()
        after.apply(chosen)
        ways += perft(after, depth - 1)
    return ways


# Perft.


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{row['ruleset']}-{n}") for n, row in enumerate(PERFT)]
)
def test_there_are_as_many_ways_to_go_on_as_there_were(row: dict[str, Any]) -> None:
    """S-96, S-76: a ruleset that plays otherwise than it did fails here."""
    position = at(row["ruleset"], row["position"])

    counts = [perft(position, depth) for depth in range(1, len(row["counts"]) + 1)]

    assert counts == row["counts"]
    assert position.render(stock=True) == row["position"]


def test_every_ruleset_has_counted_positions() -> None:
    assert {row["ruleset"] for row in PERFT} == set(RULESETS)


# Refusals.

REFUSALS = [
    (DEFAULT, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - - -", "r1:upper-C", "source-empty"),
    (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 9C", "waste:upper-C", "source-empty"),
    (COTILLION, f"AAAA/2222 {ROWS} {COLUMNS} - 9C", "c3:ace-C", "source-empty"),
    (PYSOL, f"AAAA/AAAA/2222/---- {ROWS} - 9C 9D", "king-C:upper-C", "source-empty"),
    (OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - - 9C", "waste:r1", "source-empty"),
    (OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - - -", "stock:r1", "source-empty"),
    (ODD_AND_EVEN, f"----/---- {NINE} - - -+1", "waste:stock", "source-empty"),
    (DEFAULT, f"QAAA/AAAA/2222 {ROWS} - - 9C", "r2:upper-C", "wrong-suit"),
    (DEFAULT, f"KAAA/AAAA/2222 {ROWS} - - 9C", "r2:upper-C", "wrong-suit"),
    (DEFAULT, f"KAAA/AAAA/2222 {ROWS} - - 9C", "r1:upper-C", "foundation-complete"),
    (PYSOL, f"KAAA/AAAA/2222/K--- {ROWS} - 9C 9D", "king-C:upper-C", "foundation-complete"),
    (SOLSUITE, f"QAAA/AAAA/2222 {ROWS} - - 9C", "r1:upper-C", "foundation-waits"),
    (SOLSUITE, f"QAAA/AAAA/2222 3C{KINGS[2:]}/{QUEENS} - - 9C", "r1:upper-C", "foundation-waits"),
    (TILL_DAWN, f"AAAA/AAAA/2222/---- {ROWS} - - 9C", "r1:king-C", "foundation-waits"),
    (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 3C 9C", "waste:upper-C", "foundation-wants-other"),
    (PYSOL, f"2AAA/AAAA/2222/---- {ROWS} - 9C 9D", "deuce-C:upper-C", "foundation-wants-other"),
    (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 9C -", "stock:waste", "stock-empty"),
    (DEFAULT, f"AAAA/AAAA/2222 2C{KINGS[2:]}/{QUEENS} - - -", "stock:waste", "stock-empty"),
    (DEFAULT, f"AAAA/AAAA/2222 2C{KINGS[2:]}/{QUEENS} - - 9C", "stock:waste", "reserve-can-play"),
    (OPEN, f"AAAA/AAAA/2222 {ROWS} - 9C 9D", "waste:r1", "place-occupied"),
    (OPEN, f"AAAA/AAAA/2222 {ROWS} - 9C 9D", "stock:r1", "place-occupied"),
    (OPEN, f"AAAA/AAAA/2222 {ROWS} - - -", "waste:r1", "place-occupied"),
    (OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - 9C 9D", "stock:r1", "waste-first"),
    (OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - 9C -", "stock:r1", "waste-first"),
    (ODD_AND_EVEN, f"----/---- {NINE} - 9C 9D+1", "waste:stock", "stock-not-empty"),
    (ODD_AND_EVEN, f"----/---- {NINE} - 9C -+0", "waste:stock", "no-redeal-left"),
    (ODD_AND_EVEN, f"----/---- {NINE} - - 9C+0", "waste:stock", "no-redeal-left"),
]


@pytest.mark.parametrize(("ruleset", "text", "refused", "reason"), REFUSALS)
def test_a_refused_move_has_its_reason_and_changes_nothing(
    ruleset: str, text: str, refused: str, reason: str
) -> None:
    """S-25: each refused move is refused with a reason of its own."""
    position = at(ruleset, text)
    before = state(position)

    refusal = position.refusal(move(position, refused))
    with pytest.raises(IllegalMoveError) as error:
        position.apply(move(position, refused))

    assert refusal is not None
    assert refusal.reason == reason
    assert error.value.refusal == refusal
    assert str(error.value) == refusal.detail
    assert not position.is_legal(move(position, refused))
    assert state(position) == before


@pytest.mark.parametrize(
    ("ruleset", "text", "refused", "detail"),
    [
        (
            TILL_DAWN,
            f"AAAA/AAAA/2222/---- {ROWS} - - 9C",
            "r1:king-C",
            "king-C takes KC only after lower-C is complete",
        ),
        (
            DEFAULT,
            f"AAAA/AAAA/2222 {ROWS} - - 9C",
            "r2:upper-C",
            "upper-C is built in its own suit, KD is of another",
        ),
        (
            PYSOL,
            f"2AAA/AAAA/2222/---- {ROWS} - 9C 9D",
            "deuce-C:upper-C",
            "upper-C wants 3C, not 2C",
        ),
        (COTILLION, f"AAAA/2222 {ROWS} {COLUMNS} - 9C", "c3:ace-C", "c3 is empty"),
        (
            DEFAULT,
            f"AAAA/AAAA/2222 {KINGS}/2C{QUEENS[2:-2]}3S - - 9C",
            "stock:waste",
            "drawing waits until no reserve card can go to a foundation: r9, r16 can",
        ),
    ],
)
def test_the_detail_tells_what_is_in_the_way(
    ruleset: str, text: str, refused: str, detail: str
) -> None:
    """S-25: the reason can be understood by a person."""
    position = at(ruleset, text)

    refusal = position.refusal(move(position, refused))

    assert refusal is not None
    assert refusal.detail == detail


def test_the_reason_of_a_legal_move_is_none() -> None:
    position = at(DEFAULT, f"AAAA/AAAA/2222 2C{KINGS[2:]}/{QUEENS} - - 9C")

    assert position.is_legal(move(position, "r1:upper-C"))
    assert position.refusal(move(position, "r1:upper-C")) is None


# Moves that name no destination.


def test_the_one_foundation_that_fits_is_found() -> None:
    position = at(COTILLION, f"AAAA/2222 {ROWS} TC3C/4D/--/JS 4H 9C")

    assert position.resolve("c1").text == "c1:ace-C"
    assert position.resolve("c2").text == "c2:deuce-D"
    assert position.resolve("waste").text == "waste:deuce-H"


def test_a_hop_needs_no_destination_where_one_foundation_fits() -> None:
    position = at(PYSOL, f"AAAA/AAAA/2222/---- {ROWS} - 9C 9D")

    assert position.resolve("deuce-C").text == "deuce-C:upper-C"
    with pytest.raises(IllegalMoveError) as empty:
        position.resolve("king-C")

    assert empty.value.refusal.reason == "source-empty"


def test_foundations_that_fit_are_named_in_the_order_of_legal_moves() -> None:
    position = at(PYSOL, f"QAAA/AAAA/2222/---- {ROWS} - 9C 9D")

    with pytest.raises(AmbiguousMoveError, match="KC on r1 fits upper-C and king-C") as error:
        position.resolve("r1")

    assert error.value.targets == ("upper-C", "king-C")
    assert error.value.code == "ambiguous-move"


@pytest.mark.parametrize(
    ("origin", "reason"), [("r1", "source-empty"), ("r2", "no-foundation-fits")]
)
def test_a_place_that_has_no_card_to_play_is_told(origin: str, reason: str) -> None:
    """S-25: a move that names no destination is refused with a reason as well."""
    position = at(DEFAULT, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - - -")

    with pytest.raises(IllegalMoveError) as error:
        position.resolve(origin)

    assert error.value.refusal.reason == reason
    assert origin in error.value.refusal.detail


@pytest.mark.parametrize(
    "origin", ["", "stock", "r17", "c1", "upper-C", "king-C", "undo", "r1:upper-C"]
)
def test_a_place_that_nothing_leaves_for_foundations_is_no_origin(origin: str) -> None:
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 9C")

    with pytest.raises(NotAMoveError) as error:
        position.resolve(origin)

    assert error.value.refusal.reason == "not-a-move"


def test_a_named_destination_is_taken_as_it_is_legal_or_not() -> None:
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 9C")

    assert position.resolve("r1", "upper-C") is move(position, "r1:upper-C")
    assert position.resolve("stock", "waste") is move(position, "stock:waste")
    with pytest.raises(NotAMoveError):
        position.resolve("r1", "waste")
    with pytest.raises(NotAMoveError):
        position.resolve("r1", "")


# The text.


def test_a_position_is_written_as_foundations_reserve_columns_waste_and_stock() -> None:
    layout = deal("deal-1", DEFAULT, "1")
    position = Position(table(DEFAULT), layout)
    text = "AAAA/AAAA/2222 JH3HJD2S3H7D8C8S/9S6STC7C9SJS5H5H - - 76"

    assert position.render() == text
    stock = "".join(CARDS[number] for number in layout.stock)
    assert position.render(stock=True) == text[:-2] + stock


@pytest.mark.parametrize(
    ("ruleset", "text"),
    [
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - -"),
        (DEFAULT, f"KQ3A/K79A/Q268 --{KINGS[2:-2]}--/{QUEENS[:-2]}-- - 9C9D9H TSTH"),
        (DEFAULT, f"KKKK/KKKK/QQQQ {'--' * 8}/{'--' * 8} - - -"),
        (OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - 9C 9D9H"),
        (SOLSUITE, f"QQQK/JKAK/2222 {ROWS} - 9C 9D9H"),
        (TILL_DAWN, f"QQQA/JKAK/2222/--KK {ROWS} - 9C 9D9H"),
        (PYSOL, f"-2AK/-A3J/-246/-K-K {ROWS} - 9C 9D9H"),
        (COTILLION, f"A3KQ/2QAK {ROWS} {COLUMNS} 9C 9D9H"),
        (COTILLION, f"A3KQ/2QAK {ROWS} --/--/--/-- - 9D9H"),
        ("royal-cotillion-pysol-1", f"-3KQ/-QAK {ROWS} {COLUMNS} 9C 9D9H"),
        (ODD_AND_EVEN, f"-3KQ/-QAK {NINE} - 9C 9D9H+1"),
        (ODD_AND_EVEN, f"-3KQ/-QAK {NINE} - - -+0"),
        (ODD_AND_EVEN_PYSOL, f"-3KQ/-QAK --{NINE[2:]} - 9C 9D9H+0"),
    ],
)
def test_a_position_is_read_from_its_own_text(ruleset: str, text: str) -> None:
    position = at(ruleset, text)

    assert position.render(stock=True) == text
    assert position.render().rpartition(" ")[2].partition("+")[0] == str(len(position.stock))


@pytest.mark.parametrize(
    ("ruleset", "text"),
    [
        (DEFAULT, ""),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - -"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - - -"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - - "),
        (DEFAULT, f"AAAA/AAAA/2222  {ROWS} - - -"),
        (DEFAULT, f"AAAA/AAAA/222 {ROWS} - - -"),
        (DEFAULT, f"AAAA/AAAA/2222/---- {ROWS} - - -"),
        (DEFAULT, f"AAAA/AAAA/2223 {ROWS} - - -"),
        (DEFAULT, f"AAAA/AAA2/2222 {ROWS} - - -"),
        (TILL_DAWN, f"KAAA/AAAA/2222/---- {ROWS} - - -"),
        (DEFAULT, f"AAAA/AAAA/2222 {KINGS}/{QUEENS[2:]} - - -"),
        (DEFAULT, f"AAAA/AAAA/2222 {KINGS}/{QUEENS[1:]} - - -"),
        (DEFAULT, f"AAAA/AAAA/2222 {KINGS}KC/{QUEENS} - - -"),
        (DEFAULT, f"AAAA/AAAA/2222 {KINGS}/{QUEENS[:-2]}1C - - -"),
        (DEFAULT, f"AAAA/AAAA/2222 {KINGS}/{QUEENS[:-2]}qc - - -"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 9 -"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - XX -"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 9X"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 76"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 9C+1"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} {COLUMNS} - -"),
        (COTILLION, f"AAAA/2222 {ROWS} - - -"),
        (COTILLION, f"AAAA/2222 {ROWS} 9C/9D/9H - -"),
        (COTILLION, f"AAAA/2222 {ROWS} 9C/9D/9H/9S/9C - -"),
        (ODD_AND_EVEN, f"----/---- {NINE} - - -+2"),
        (ODD_AND_EVEN, f"----/---- {NINE} - - -+x"),
    ],
)
def test_what_is_no_position_of_the_ruleset_is_refused(ruleset: str, text: str) -> None:
    with pytest.raises(BadPositionError) as error:
        at(ruleset, text)

    assert error.value.code == "bad-position"


@pytest.mark.parametrize(
    ("ruleset", "text"),
    [
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS[:-2]} KC - -"),
        (DEFAULT, f"AAAAA/AAA/2222 {ROWS} - - -"),
        (DEFAULT, f"AAAA/AAAA/2222 {KINGS}{QUEENS} - - -"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 9C-- -"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 9C+0"),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 9C+-1"),
        (ODD_AND_EVEN, f"----/---- {NINE} - - -"),
        (ODD_AND_EVEN, f"----/---- {NINE} - - -+ 1"),
    ],
)
def test_a_text_that_no_position_renders_is_refused(ruleset: str, text: str) -> None:
    with pytest.raises(BadPositionError):
        at(ruleset, text)


# What a position tells.


def test_heights_and_score_count_the_cards_on_foundations() -> None:
    position = at(PYSOL, f"-2AK/-A3J/-246/-K-- {ROWS} - 9C 9D")

    assert position.heights == [0, 2, 1, 13, 0, 1, 2, 6, 0, 1, 2, 3, 0, 1, 0, 0]
    assert position.score == sum(position.heights)


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("r1:deuce-C", "4C"),
        ("waste:upper-C", "9D"),
        ("stock:waste", "9H"),
        ("upper-D:lower-D", "JD"),
        ("king-C:upper-C", "--"),
    ],
)
def test_the_card_that_a_move_would_move_is_told(text: str, moved: str) -> None:
    position = at(PYSOL, f"AJAA/AAAA/2222/---- 4C{KINGS[2:]}/{QUEENS} - 9C9D 9H9S")

    number = position.moved_card(move(position, text))

    assert TEXTS[number] == moved


def test_a_redeal_moves_no_single_card() -> None:
    position = at(ODD_AND_EVEN, f"----/---- {NINE} - 9C -+1")

    assert position.moved_card(move(position, "waste:stock")) == EMPTY


@pytest.mark.parametrize(
    ("ruleset", "text", "asked", "uncovers"),
    [
        # Drawing always does while the stock was never seen.
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 9C", "stock:waste", True),
        (ODD_AND_EVEN, f"----/---- {NINE} - - 9C+1", "stock:waste", True),
        (ODD_AND_EVEN, f"----/---- {NINE} - - 9C+0", "stock:waste", False),
        # A play from the reserve does if the stock fills the place.
        (DEFAULT, f"AAAA/AAAA/2222 2C{KINGS[2:]}/{QUEENS} - - 9C", "r1:upper-C", True),
        (DEFAULT, f"AAAA/AAAA/2222 2C{KINGS[2:]}/{QUEENS} - 9D 9C", "r1:upper-C", False),
        (DEFAULT, f"AAAA/AAAA/2222 2C{KINGS[2:]}/{QUEENS} - - -", "r1:upper-C", False),
        (ODD_AND_EVEN, f"----/---- AC{NINE[2:]} - - 9C+0", "r1:ace-C", False),
        # One from elsewhere does not, where an empty waste stays empty.
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 2C 9C", "waste:upper-C", False),
        (COTILLION, f"AAAA/2222 {ROWS} 3C/9D/9H/9S - 9C", "c1:ace-C", False),
        # Where it turns a card, the play that takes the last one from it does.
        (PYSOL, f"AAAA/AAAA/2222/---- {ROWS} - 2C 9C", "waste:upper-C", True),
        (PYSOL, f"AAAA/AAAA/2222/---- {ROWS} - 9D2C 9C", "waste:upper-C", False),
        (PYSOL, f"AAAA/AAAA/2222/---- {ROWS} - 2C -", "waste:upper-C", False),
        (PYSOL, f"AAAA/AAAA/2222/---- {ROWS} - 9D 9C", "r1:king-C", True),
        (PYSOL, f"AAAA/AAAA/2222/---- {ROWS} - 9D9H 9C", "r1:king-C", False),
        (PYSOL, f"AAAA/AAAA/2222/---- {ROWS} - 9D 9C", "deuce-C:upper-C", False),
        # The player's own fills do if they come from the stock.
        (OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - - 9C", "stock:r1", True),
        (OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - 9D 9C", "waste:r1", False),
        (OPEN, f"AAAA/AAAA/2222 2C{KINGS[2:]}/{QUEENS} - - 9C", "r1:upper-C", False),
        # A redeal shows only what has been seen.
        (ODD_AND_EVEN_PYSOL, f"----/---- {NINE} - 9C9D -+1", "waste:stock", False),
    ],
)
def test_a_move_uncovers_what_comes_from_a_stock_that_nobody_has_seen(
    ruleset: str, text: str, asked: str, *, uncovers: bool
) -> None:
    position = at(ruleset, text)

    assert position.is_legal(move(position, asked))
    assert position.uncovers(move(position, asked)) is uncovers


# Changing.


def test_a_copy_shares_nothing_that_changes() -> None:
    position = at(COTILLION, f"AAAA/2222 3C{KINGS[2:]}/{QUEENS} 9C3D/9D/9H/9S 4H 9C9H")
    before = state(position)
    copy = position.copy()

    assert state(copy) == before
    for text in ("r1:ace-C", "c1:ace-D", "stock:waste"):
        copy.apply(move(copy, text))
    assert state(position) == before
    changed = state(copy)
    position.apply(move(position, "waste:deuce-H"))

    assert state(copy) == changed
    assert copy.rules is position.rules


def test_a_copy_of_a_turned_waste_shares_nothing_that_changes() -> None:
    position = at(ODD_AND_EVEN, f"----/---- {NINE} - 9C9D -+1")
    copy = position.copy()

    copy.apply(move(copy, "waste:stock"))

    assert position.render(stock=True) == f"----/---- {NINE} - 9C9D -+1"
    assert copy.render(stock=True) == f"----/---- {NINE} - - 9C9D+0"


def test_a_copy_keeps_the_effects_of_the_latest_move() -> None:
    position = at(DEFAULT, f"AAAA/AAAA/2222 2C{KINGS[2:]}/{QUEENS} - 9C 9D")
    effects = position.apply(move(position, "r1:upper-C"))

    assert [effect.text for effect in position.copy().effects] == ["waste:r1"]
    assert position.copy().effects is effects


def test_effects_name_the_places_where_cards_came() -> None:
    position = at(PYSOL, f"AAAA/AAAA/2222/---- {KINGS}/{QUEENS} - 9C 9D9H")

    effects = position.apply(move(position, "r3:king-H"))

    assert [(effect.text, CARDS[position.tops[effect.place]]) for effect in effects] == [
        ("waste:r3", "9C"),
        ("stock:waste", "9D"),
    ]
    assert position.effects == effects


def test_a_run_carries_out_moves_up_to_the_first_act() -> None:
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 2C 9C9D")
    entries = [move(position, "waste:upper-C"), move(position, "stock:waste"), HINT, RESIGN]
    left = iter(entries)
    done: list[Move] = []

    stopped_at = position.run(left, done)

    assert stopped_at is HINT
    assert done == entries[:2]
    assert list(left) == [RESIGN]
    assert position.render(stock=True) == f"2AAA/AAAA/2222 {ROWS} - 9C 9D"


def test_a_run_without_acts_carries_out_all() -> None:
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 2C 9C9D")
    entries = [move(position, text) for text in ("waste:upper-C", "stock:waste", "stock:waste")]
    done: list[Move] = []

    assert position.run(entries, done) is None

    assert done == entries
    assert position.run([], done) is None
    assert position.effects == ()


def test_a_run_takes_each_move_when_those_before_it_are_carried_out() -> None:
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 2C 9C9D")
    seen: list[str] = []

    def entries() -> Iterator[Move]:
        for text in ("waste:upper-C", "stock:waste"):
            seen.append(position.render(stock=True))
            yield move(position, text)

    position.run(entries(), [])

    assert seen == [
        f"AAAA/AAAA/2222 {ROWS} - 2C 9C9D",
        f"2AAA/AAAA/2222 {ROWS} - - 9C9D",
    ]


@pytest.mark.parametrize(
    ("ruleset", "text", "moves", "carried_out"),
    [
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 9C9D", "stock:waste " * 3, 2),
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 2C 9C", "waste:upper-C waste:upper-C", 1),
        (DEFAULT, f"2AAA/AAAA/2222 {ROWS} - 4C3C 9C", "waste:upper-C stock:waste r1:upper-C", 2),
        # After draws a play from the waste lets a reserve card play, which bars the next draw.
        (
            DEFAULT,
            f"AAAA/AAAA/2222 6C{KINGS[2:]}/{QUEENS} - - 9C4C9H",
            "stock:waste stock:waste waste:deuce-C stock:waste",
            3,
        ),
        # A fill brings such a card to the reserve.
        (
            DEFAULT,
            f"AAAA/AAAA/2222 6C{KINGS[2:]}/{QUEENS} - 2D 4C9C",
            "stock:waste waste:deuce-C r1:deuce-C stock:waste",
            3,
        ),
        # A fill takes the last card of the stock, and with it the draw that was legal before it.
        (
            DEFAULT,
            f"AAAA/3AAA/2222 3C{KINGS[2:]}/{QUEENS} - - 2C9C",
            "stock:waste waste:upper-C r1:upper-C stock:waste",
            3,
        ),
        (
            OPEN,
            f"AAAA/AAAA/2222 ----{KINGS[4:]}/{QUEENS} - - 9C9D",
            "stock:waste waste:r1 stock:r2 stock:waste",
            3,
        ),
        (OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - 9C 9D", "waste:r1 waste:r1", 1),
        (ODD_AND_EVEN, f"----/---- {NINE} - 9C -+1", "waste:stock waste:stock", 1),
        (
            PYSOL,
            f"AAAA/AAAA/2222/---- {ROWS} - 9C -",
            "deuce-C:upper-C deuce-C:upper-C",
            1,
        ),
    ],
)
def test_a_run_stops_before_the_first_move_that_is_not_legal(
    ruleset: str, text: str, moves: str, carried_out: int
) -> None:
    position, stepwise = at(ruleset, text), at(ruleset, text)
    entries = [move(position, name) for name in moves.split()]
    done: list[Move] = []

    with pytest.raises(IllegalMoveError) as error:
        position.run(entries, done)
    for entry in entries[:carried_out]:
        stepwise.apply(entry)

    assert done == entries[:carried_out]
    assert position.render(stock=True) == stepwise.render(stock=True)
    assert error.value.refusal == stepwise.refusal(entries[carried_out])


@pytest.mark.parametrize("end", [HINT, "waste:upper-D"])
def test_the_effects_of_the_latest_move_are_kept_where_a_run_stops(end: Move | str) -> None:
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS[:-2]}2C - 9C 9D")
    stop = end if isinstance(end, Move) else move(position, end)

    try:
        position.run([move(position, "r16:upper-C"), stop], [])
    except IllegalMoveError as error:
        assert error.refusal.reason == "source-empty"  # noqa: PT017

    assert [effect.text for effect in position.effects] == ["waste:r16"]


@pytest.mark.parametrize(
    ("ruleset", "text", "last", "opened"),
    [
        (SOLSUITE, f"QAAA/JAAA/2222 {ROWS} - - 9C", "r1:lower-C", "r5:upper-C"),
        (SOLSUITE, f"JAAA/KAAA/2222 {KINGS}/{QUEENS} - - 9C", "r9:upper-C", "r1:upper-C"),
        (TILL_DAWN, f"AAAA/JAAA/2222/---- {ROWS} - - 9C", "r1:lower-C", "r5:king-C"),
    ],
)
def test_a_waiting_foundation_opens_when_the_awaited_one_is_complete(
    ruleset: str, text: str, last: str, opened: str
) -> None:
    position = at(ruleset, text)
    assert opened not in [found.text for found in position.legal_moves()]

    position.apply(move(position, last))

    assert opened in [found.text for found in position.legal_moves()]
    assert state(at(ruleset, position.render(stock=True))) == state(position)


def test_a_layout_turns_its_first_card_where_the_ruleset_says_so() -> None:
    layout = Layout(bytes(range(16)), (), bytes([20, 21, 22]))

    assert Position(table(DEFAULT), layout).render(stock=True).endswith(" - - 8D9DTD")
    assert Position(table(PYSOL), layout).render(stock=True).endswith(" - 8D 9DTD")
