"""Deals and games made elsewhere: the vectors of both deal specs, and games that PySolFC recorded.

``vectors/deal-1.json`` was computed from the rules' text alone; ``vectors/pysol-1.json`` and
``vectors/pysol-games.json`` come from PySolFC itself. What their members mean stands in each file's
``_about``.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from service.engine import Game, Move, Position, canonical_seed, deal, table
from service.engine.cards import EMPTY, TEXTS, render_cards
from service.engine.errors import NotAMoveError
from service.engine.moves import HOP

Json = dict[str, Any]

VECTORS = Path(__file__).parent / "vectors"
DEAL_1: Json = json.loads((VECTORS / "deal-1.json").read_text("utf-8"))
PYSOL_1: Json = json.loads((VECTORS / "pysol-1.json").read_text("utf-8"))
PYSOL_GAMES: Json = json.loads((VECTORS / "pysol-games.json").read_text("utf-8"))

RULESETS = {
    "royal_rendezvous": "royal-rendezvous-pysol-1",
    "royal_cotillion": "royal-cotillion-pysol-1",
    "odd_and_even": "odd-and-even-pysol-1",
}
"""Rulesets by PySolFC's games as the files name them."""


def named(rows: list[Json], *names: str) -> list[Any]:
    return [pytest.param(row, id="-".join(str(row[name]) for name in names)) for row in rows]


PYSOL_DEALS = [
    pytest.param(ruleset, row, id=f"{game}-{row['game_number']}")
    for game, ruleset in RULESETS.items()
    for row in PYSOL_1[game]
]
RECORDED = [
    pytest.param(ruleset, row, id=f"{rows}-{row['game_number']}-{row['policy']}")
    for game, ruleset in RULESETS.items()
    for rows, recorded in (
        (game, PYSOL_GAMES[game]),
        (f"{game}_with_hops", PYSOL_GAMES["with_hops"][f"{game}_with_hops"]),
        ("large_ms", PYSOL_GAMES["large_ms"] if game == "royal_rendezvous" else []),
    )
    for row in recorded
]
PROBES = named(PYSOL_GAMES["legality_probes"], "game", "game_number")


def test_no_vector_is_left_out() -> None:
    assert len(DEAL_1["deals"]) == 26
    assert len(DEAL_1["sister_games"]) == 15
    assert len(PYSOL_DEALS) == 9
    assert len(RECORDED) == 19
    assert len(PROBES) == 4
    assert set(DEAL_1) == {"_about", "deals", "sister_games"}
    assert set(PYSOL_1) == {"_about", *RULESETS}
    assert set(PYSOL_GAMES) == {"_about", *RULESETS, "legality_probes", "with_hops", "large_ms"}


@pytest.mark.parametrize("row", named(DEAL_1["deals"], "seed"))
def test_a_seed_gives_the_deal_of_the_vectors(row: Json) -> None:
    """S-102: the same seed gives the same deal, here and everywhere."""
    layout = deal("deal-1", "royal-rendezvous-1", row["seed"])

    reserve, stock = render_cards(layout.reserve), render_cards(layout.stock)
    digest = hashlib.sha256(" ".join([*reserve, *stock]).encode("ascii")).hexdigest()

    assert (reserve, stock) == (row["reserve"], row["stock"])
    assert digest == row["sha256"]


@pytest.mark.parametrize("row", named(DEAL_1["sister_games"], "ruleset", "seed"))
def test_a_seed_gives_the_position_of_the_vectors_in_other_rulesets(row: Json) -> None:
    """S-102: the same seed gives the same deal, here and everywhere."""
    rules = table(row["ruleset"])
    position = Position(rules, deal("deal-1", row["ruleset"], row["seed"]))

    assert render_cards(position.tops[: rules.reserve]) == row["reserve"]
    assert [render_cards(column) for column in position.columns] == row.get("columns", [])
    assert render_cards(position.waste) == row["waste"]
    assert render_cards(position.stock[::-1]) == row["stock"]


@pytest.mark.parametrize(("ruleset", "row"), PYSOL_DEALS)
def test_a_game_number_gives_the_deal_of_pysolfc(ruleset: str, row: Json) -> None:
    """S-102: the same number gives the same deal, here and in PySolFC."""
    layout = deal("pysol-1", ruleset, row["game_number"])

    assert render_cards(layout.reserve) == row["reserve"]
    assert render_cards(layout.stock) == row["stock"]
    assert [render_cards(column) for column in layout.columns] == row.get(
        "left_wing_columns_bottom_to_top", []
    )


@pytest.mark.parametrize(("ruleset", "row"), RECORDED)
def test_the_number_as_pysolfc_shows_it_gives_the_same_deal(ruleset: str, row: Json) -> None:
    """S-102: a number as typed and as shown, with leading zeros or ``ms``, is the same deal."""
    shown, typed = row["number_as_shown"], row["game_number"]

    assert deal("pysol-1", ruleset, shown) == deal("pysol-1", ruleset, typed)
    assert canonical_seed("pysol-1", shown).removeprefix("ms") == typed.removeprefix("ms")


def piles(position: Position) -> Json:
    """What lies where, in the files' own form."""
    rules = position.rules
    reserve = position.tops[: rules.reserve]
    return {
        "foundation_cards": {
            name: render_cards(chain[:height])
            for name, chain, height in zip(
                rules.foundations, rules.chains, position.heights, strict=True
            )
        },
        "foundations": dict(zip(rules.foundations, position.heights, strict=True)),
        "reserve": [None if number == EMPTY else TEXTS[number] for number in reserve],
        "waste": render_cards(position.waste),
        "stock": len(position.stock),
    }


@pytest.mark.parametrize(("ruleset", "row"), RECORDED)
def test_a_recorded_game_starts_as_in_pysolfc(ruleset: str, row: Json) -> None:
    rules = table(ruleset)
    position = Position(rules, deal("pysol-1", ruleset, row["game_number"]))

    found = piles(position)

    assert found["foundation_cards"] == row["foundations_initial"]
    assert found["reserve"] == row["reserve_initial"]
    assert found["waste"] == row["waste_initial"]
    assert render_cards(position.stock[::-1]) == row["stock"]
    columns = {f"c{n}": render_cards(column) for n, column in enumerate(position.columns, 1)}
    assert columns == row.get("columns_initial", {})


@pytest.mark.parametrize(("ruleset", "row"), RECORDED)
def test_a_recorded_game_goes_as_in_pysolfc(ruleset: str, row: Json) -> None:
    rules = table(ruleset)
    layout = deal("pysol-1", ruleset, row["game_number"])
    game = Game(rules, layout, undo_allowed=True)

    for named_move, card, events, counts in zip(
        row["moves"], row["moved_cards"], row["events"], row["counts_after"], strict=True
    ):
        move = read(game.position, named_move)
        # Of a redeal the file names the waste's top.
        moved = game.position.tops[-1] if move.text == "waste:stock" else game.moved_card(move)
        assert move in game.legal_moves()
        assert TEXTS[moved] == card

        effects = game.enter(move)

        position = game.position
        assert [effect.text for effect in effects] == [f"{e['from']}:{e['to']}" for e in events]
        assert [position.score, len(position.waste), len(position.stock)] == counts

    final = row["final"]
    columns = {f"c{n}": render_cards(column) for n, column in enumerate(game.position.columns, 1)}
    assert {**piles(game.position), **({"columns": columns} if columns else {})} == final
    assert (game.status == "won") == row["won"]
    assert row["won"] or {move.kind for move in game.legal_moves()} <= {HOP}
    again = Game.replay(rules, layout, game.log, undo_allowed=False)
    assert again.position.render(stock=True) == game.position.render(stock=True)


def read(position: Position, named_move: Json) -> Move:
    """Return the move of a file's ``from`` and ``to``."""
    return position.resolve(named_move["from"], named_move["to"])


def probed(probe: Json) -> Position:
    """Return the position of a probe; which cards the stock has does not matter to it."""
    rules = table(RULESETS[probe["game"]])
    given = probe["position"]
    reserve, row = [card or "--" for card in given["reserve"]], rules.ruleset.reserve[0]
    tops = "".join((given["foundations"][name] or ["-"])[-1][0] for name in rules.foundations)
    return Position.parse(
        rules,
        " ".join(
            (
                # The rank of a whole pile's top tells its height, since no rank occurs twice in it.
                "/".join(tops[n : n + 4] for n in range(0, len(tops), 4)),
                "".join(reserve[:row]) + "/" + "".join(reserve[row:]),
                "/".join("".join(column) or "--" for column in given.get("columns", {}).values())
                or "-",
                "".join(given["waste"]) or "-",
                "9C" * given["stock"] + ("+1" if rules.ruleset.redeals else ""),
            )
        ),
    )


@pytest.mark.parametrize("probe", PROBES)
def test_what_pysolfc_accepts_is_legal_and_nothing_else(probe: Json) -> None:
    position = probed(probe)
    accepted = {f"{move['from']}:{move['to']}" for move in probe["accepted"] + probe["hops"]}

    assert piles(position)["foundation_cards"] == probe["position"]["foundations"]
    assert {move.text for move in position.legal_moves()} == accepted


@pytest.mark.parametrize("probe", PROBES)
def test_what_pysolfc_refuses_is_no_move_or_refused_with_its_reason(probe: Json) -> None:
    """S-25: whatever is refused is refused with a reason."""
    position = probed(probe)
    reasons = set()
    for named_move in probe["refused_sample"] + probe["hops_refused_sample"]:
        try:
            refusal = position.refusal(read(position, named_move))
        except NotAMoveError as error:
            refusal = error.refusal

        assert refusal is not None, named_move
        assert refusal.detail
        reasons.add(refusal.reason)

    assert {"not-a-move", "foundation-wants-other"} <= reasons
    assert reasons <= {
        *("not-a-move", "foundation-wants-other", "foundation-complete", "wrong-suit"),
        *("source-empty", "stock-not-empty"),
    }
