r"""The move tables: their order and codes are frozen, since stored logs are read by them.

``golden/move-tables.json`` holds each ruleset's table and ``golden/rulesets.json`` its parameters.
Both are only added to. A new ruleset's entries are written by::

    python -c "import json; from dataclasses import asdict; from service.engine import *; \
        print(json.dumps(table('NAME').codes()), json.dumps(asdict(RULESETS['NAME'])))"
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from service.engine import DEFAULT_RULESET, RULESETS, Table, table
from service.engine.cards import CARDS, EMPTY, SUITS
from service.engine.errors import NotAMoveError, UnknownRulesetError
from service.engine.moves import (
    ACT,
    ACTS,
    DRAW,
    FILL,
    HINT,
    HOP,
    PLAY,
    REDEAL,
    RESIGN,
    STOCK,
    UNDO,
    Move,
)

GOLDEN = Path(__file__).parent / "golden"
MOVE_TABLES: dict[str, list[dict[str, str | int]]] = json.loads(
    (GOLDEN / "move-tables.json").read_text("utf-8")
)
PARAMETERS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "rulesets.json").read_text("utf-8"))


@pytest.fixture(params=RULESETS)
def rules(request: pytest.FixtureRequest) -> Table:
    """The table of each ruleset in turn."""
    return table(request.param)


def moves(rules: Table) -> list[Move]:
    """All moves of a ruleset, acts aside, in the order of the table."""
    return [move for move in rules.by_text.values() if move.kind != ACT]


def test_every_published_ruleset_is_frozen_here() -> None:
    """S-96, S-76: a change of a ruleset is a new ruleset, and fails here until it has a name."""
    assert list(RULESETS) == list(MOVE_TABLES) == list(PARAMETERS)
    assert next(iter(RULESETS)) == DEFAULT_RULESET == "royal-rendezvous-1"


@pytest.mark.parametrize("ruleset", MOVE_TABLES)
def test_the_move_table_is_as_it_was_published(ruleset: str) -> None:
    """S-96, S-76: stored logs mean what they meant."""
    assert table(ruleset).codes() == MOVE_TABLES[ruleset]


def holds(found: Any, published: Any) -> bool:
    """Whether these parameters are as published; parameters that came later stand beside them."""
    if isinstance(published, dict):
        return all(holds(found[name], value) for name, value in published.items())
    if isinstance(published, list):
        return len(found) == len(published) and all(map(holds, found, published))
    return bool(found == published)


@pytest.mark.parametrize("ruleset", PARAMETERS)
def test_the_parameters_are_as_they_were_published(ruleset: str) -> None:
    """S-96, S-76: a published ruleset never changes its meaning."""
    assert holds(asdict(RULESETS[ruleset]), PARAMETERS[ruleset])


def test_codes_are_bytes_and_the_last_three_are_the_acts(rules: Table) -> None:
    codes = [int(row["code"]) for row in rules.codes()]

    assert codes == [*range(len(codes) - 3), 253, 254, 255]
    assert [row.get("act") for row in rules.codes()[-3:]] == ["hint", "resign", "undo"]
    assert (HINT.code, RESIGN.code, UNDO.code) == (253, 254, 255)
    assert rules.by_code.keys() == set(codes)


def test_the_codes_are_listed_as_places_and_families(rules: Table) -> None:
    families = {family.name for family in rules.ruleset.families}

    for row in rules.codes()[:-3]:
        move = rules.by_code[int(row["code"])][0]
        assert row["from"] == move.origin
        if move.kind == PLAY:
            assert row["to"] in families
            assert move.destination == f"{row['to']}-C"
        else:
            assert row["to"] == move.destination


def test_every_move_is_read_from_its_own_text(rules: Table) -> None:
    for move in (*moves(rules), *ACTS):
        assert rules.parse(move.text) is move
    for move in moves(rules):
        assert move.text == f"{move.origin}:{move.destination}"


def test_a_code_and_the_suit_of_the_card_give_the_move(rules: Table) -> None:
    for move in moves(rules):
        by_suit = rules.by_code[move.code]
        if move.kind == PLAY:
            assert by_suit["CDHS".index(move.destination[-1])] is move
        else:
            assert by_suit == (move,) * 4


def test_moves_that_share_a_code_differ_in_suit_alone(rules: Table) -> None:
    for code, by_suit in rules.by_code.items():
        assert {move.code for move in by_suit} == {code}
        assert len({move.kind for move in by_suit}) == 1
        if by_suit[0].kind == PLAY:
            family = by_suit[0].destination[:-1]
            assert [move.destination for move in by_suit] == [family + suit for suit in SUITS]
            assert len({move.origin for move in by_suit}) == 1


def test_the_table_is_in_the_order_of_legal_moves(rules: Table) -> None:
    """Plays by place and family, fills by place, the draw, the redeal, hops by where they leave."""
    listed = moves(rules)
    kinds = [move.kind for move in listed]
    origins = [*rules.places, *rules.foundations]
    plays = [move for move in listed if move.kind == PLAY]
    fills = [move for move in listed if move.kind == FILL]
    hops = [move for move in listed if move.kind == HOP]

    assert sorted(kinds, key=[PLAY, FILL, DRAW, REDEAL, HOP].index) == kinds
    assert sorted(plays, key=lambda move: (move.source, move.target)) == plays
    assert sorted(hops, key=lambda move: (move.source, move.target)) == hops
    assert [move.target for move in fills] == sorted(move.target for move in fills)
    assert [move.origin for move in fills] == ["waste", "stock"] * (len(fills) // 2)
    assert [move.code for move in listed] == sorted(move.code for move in listed)
    assert [origins.index(move.origin) for move in plays] == [move.source for move in plays]


def test_every_place_plays_to_every_foundation(rules: Table) -> None:
    plays = {move.text for move in moves(rules) if move.kind == PLAY}

    assert plays == {f"{place}:{name}" for place in rules.places for name in rules.foundations}


@pytest.mark.parametrize(
    ("ruleset", "fills", "redeals", "hops"),
    [
        ("royal-rendezvous-1", 0, 0, 0),
        ("royal-rendezvous-relaxed-1", 0, 0, 0),
        ("royal-rendezvous-open-1", 32, 0, 0),
        ("royal-rendezvous-solsuite-1", 0, 0, 0),
        ("royal-rendezvous-till-dawn-1", 0, 0, 0),
        ("royal-rendezvous-pysol-1", 0, 0, 24),
        ("royal-cotillion-1", 0, 0, 0),
        ("royal-cotillion-pysol-1", 0, 0, 8),
        ("odd-and-even-1", 0, 1, 0),
        ("odd-and-even-pysol-1", 0, 1, 8),
    ],
)
def test_only_some_rulesets_have_fills_redeals_or_hops(
    ruleset: str, fills: int, redeals: int, hops: int
) -> None:
    kinds = [move.kind for move in moves(table(ruleset))]

    assert kinds.count(DRAW) == 1
    assert (kinds.count(FILL), kinds.count(REDEAL), kinds.count(HOP)) == (fills, redeals, hops)


@pytest.mark.parametrize("suit", SUITS)
def test_hops_go_only_between_piles_that_share_ranks(suit: str) -> None:
    hops = {move.text for move in moves(table("royal-rendezvous-pysol-1")) if move.kind == HOP}

    pairs = [("upper", "lower"), ("upper", "deuce"), ("upper", "king")]
    there_and_back = {
        f"{a}-{suit}:{b}-{suit}" for one, other in pairs for a, b in ((one, other), (other, one))
    }

    assert {text for text in hops if text.partition(":")[0].endswith(suit)} == there_and_back


def test_homes_of_a_card_are_the_foundations_whose_chain_holds_it(rules: Table) -> None:
    for number, homes in enumerate(rules.homes):
        expected = [f for f, chain in enumerate(rules.chains) if number in chain]
        assert list(homes) == expected
        assert len(homes) <= 2

    assert rules.homes[EMPTY] == ()
    assert len(rules.homes) == len(CARDS) + 1


def test_the_moves_that_leave_a_place_for_foundations_are_its_exits(rules: Table) -> None:
    for origin in (*rules.places, *rules.foundations, "stock"):
        expected = [
            move for move in moves(rules) if move.origin == origin and move.kind in {PLAY, HOP}
        ]
        assert list(rules.exits.get(origin, ())) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "r1", "r1:", ":upper-C", "r1:upper", "r1:upper-X", "r0:upper-C", "r01:upper-C"),
        *("r17:upper-C", "R1:upper-C", "r1:Upper-C", " r1:upper-C", "r1:upper-C ", "r1:upper-C\n"),
        *("c1:upper-C", "stock:stock", "stock:waste:stock", "waste:stock", "upper-C:lower-C"),
        *("r1:king-C", "r1:ace-C", "undo ", "UNDO", "undo:", "r1-upper-C", "r1: upper-C"),
    ],
)
def test_what_no_position_has_is_not_a_move(text: str) -> None:
    with pytest.raises(NotAMoveError) as error:
        table("royal-rendezvous-1").parse(text)

    assert error.value.refusal.reason == "not-a-move"
    assert error.value.code == "illegal-move"
    assert repr(text) in error.value.refusal.detail


def test_a_table_is_made_once(rules: Table) -> None:
    assert table(rules.ruleset.name) is rules


def test_an_unknown_ruleset_is_refused() -> None:
    with pytest.raises(UnknownRulesetError, match="there are royal-rendezvous-1, ") as error:
        table("royal-rendezvous-2")

    assert error.value.code == "unknown-ruleset"


def test_moves_are_told_apart_by_identity_and_cannot_be_changed(rules: Table) -> None:
    draw = rules.parse("stock:waste")

    assert draw.source == STOCK
    assert draw != Move(draw.code, DRAW, STOCK, draw.target, draw.text, "stock", "waste")
    with pytest.raises(AttributeError):
        draw.code = 0  # type: ignore[misc]
