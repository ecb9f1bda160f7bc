"""Random games, played by the engine and by the naive engine of lists side by side.

``ORACLE_GAMES`` is the number of games in each ruleset. The whole check is::

    ORACLE_GAMES=10000 pytest tests/test_oracle.py -n auto

Half of the games choose among all legal moves alike; the others prefer plays, so that more of them
reach the end. Where foundation tops may hop a game need not end: none is played on for ever.
"""

import os
import random
from collections.abc import Iterator
from itertools import islice

import naive
import pytest

from service.engine import RULESETS, Game, Move, Position, deal, table
from service.engine.cards import CARDS, EMPTY, render_cards
from service.engine.errors import IllegalMoveError
from service.engine.moves import ACT, DRAW, FILL, HOP, PLAY, REDEAL

pytestmark = pytest.mark.no_cover

GAMES = int(os.environ.get("ORACLE_GAMES", "60"))
CHUNK = 250
MOST_PLIES = 400
PREFERENCES = {PLAY: 20, FILL: 5, DRAW: 2, REDEAL: 2, HOP: 1}

CHUNKS = [
    pytest.param(ruleset, range(start, min(start + CHUNK, GAMES)), id=f"{ruleset}-{start}")
    for start in range(0, GAMES, CHUNK)
    for ruleset in RULESETS
]


def spec_and_seed(number: int) -> tuple[str, str]:
    """Return the deal of this game: texts, and numbers of each of PySolFC's generators."""
    return (
        ("deal-1", str(number)),
        ("pysol-1", str(number)),
        ("deal-1", f"oracle-{number}"),
        ("pysol-1", f"ms{2**31 + number * 600_011}"),
        ("deal-1", f"{number:064x}"),
        ("pysol-1", str(10**19 + number)),
    )[number % 6]


def choose(moves: list[Move], chance: random.Random, *, eager: bool) -> Move:
    if eager:
        return chance.choices(moves, [PREFERENCES[move.kind] for move in moves])[0]
    return chance.choice(moves)


def written(game: naive.NaiveGame) -> str:
    """Return the naive game's position in the engine's notation, its stock included."""
    tops = [(pile or ["-"])[-1][0] for pile in game.foundations.values()]
    families = ["".join(tops[n : n + 4]) for n in range(0, len(tops), 4)]
    reserve = [card or "--" for card in game.reserve]
    first = 4 if len(reserve) == 9 else 8
    return " ".join(
        (
            "/".join(families),
            "".join(reserve[:first]) + "/" + "".join(reserve[first:]),
            "/".join("".join(column) or "--" for column in game.columns) or "-",
            "".join(game.waste) or "-",
            ("".join(game.stock) or "-") + (f"+{game.redeals_left}" if first == 4 else ""),
        )
    )


def play_side_by_side(ruleset: str, number: int) -> str:
    """Play one random game with both engines, compare them at each ply, and return its status."""
    spec, seed = spec_and_seed(number)
    rules = table(ruleset)
    layout = deal(spec, ruleset, seed)
    position, game = Position(rules, layout), naive.deal(ruleset, spec, seed)
    chance = random.Random(number)
    log = bytearray()
    while True:
        moves = position.legal_moves()
        assert [move.text for move in moves] == game.legal_moves()
        assert position.render(stock=True) == written(game)
        assert position.score == game.score()
        if not moves or len(log) == MOST_PLIES:
            break
        assert position.outcome == "playing"

        move = choose(moves, chance, eager=number % 2 == 0)
        log.append(move.code)
        effects = position.apply(move)

        came = [(effect.text, CARDS[position.tops[effect.place]]) for effect in effects]
        assert came == game.carry_out(move.text)
    replayed = Game.replay(rules, layout, bytes(log), undo_allowed=False)
    assert replayed.position.render(stock=True) == written(game)
    assert replayed.status == position.outcome == game.status()
    assert {
        name: render_cards(chain[:height])
        for name, chain, height in zip(
            rules.foundations, rules.chains, position.heights, strict=True
        )
    } == game.foundations
    return game.status()


@pytest.mark.parametrize(("ruleset", "numbers"), CHUNKS)
def test_random_games_go_as_in_the_naive_engine(ruleset: str, numbers: range) -> None:
    statuses = set()
    for number in numbers:
        try:
            statuses.add(play_side_by_side(ruleset, number))
        except AssertionError as error:
            error.add_note(f"{ruleset}, game {number}: {spec_and_seed(number)}")
            raise

    # The first games of each ruleset are known to hold both ends.
    assert numbers.start or len(numbers) < 60 or {"won", "lost"} <= statuses


# Everything a position can be asked, in random positions.


def random_positions(ruleset: str, number: int) -> Iterator[tuple[Position, random.Random]]:
    """Yield some positions of a few random games, from first to last."""
    for seed in range(number):
        chance = random.Random(seed)
        spec, text = spec_and_seed(seed)
        position = Position(table(ruleset), deal(spec, ruleset, text))
        for ply in range(MOST_PLIES):
            if ply % 7 == seed % 7:
                yield position.copy(), chance
            moves = position.legal_moves()
            if not moves:
                yield position.copy(), chance
                break
            position.apply(choose(moves, chance, eager=seed % 4 > 0))


def state(position: Position) -> tuple[object, ...]:
    """All that a move may change, as values."""
    return (
        position.render(stock=True),
        bytes(position.tops),
        tuple(position.wants),
        bytes(position._wanted),
        position.redeals,
    )


def moves_of(ruleset: str) -> list[Move]:
    return [move for move in table(ruleset).by_text.values() if move.kind != ACT]


@pytest.mark.parametrize("ruleset", RULESETS)
def test_judge_reason_and_act_agree_on_every_move(ruleset: str) -> None:
    """S-25: a move is legal, or it has a reason and changes nothing."""
    every = moves_of(ruleset)
    judged = 0
    for position, _ in random_positions(ruleset, 6):
        before, effects = state(position), position.effects
        legal = position.legal_moves()
        assert legal == [move for move in every if position.is_legal(move)]
        assert bool(legal) == (position.outcome == "playing")
        for move in every:
            judged += 1
            refusal = position.refusal(move)
            assert (refusal is None) == (move in legal)
            if refusal is None:
                position.copy().apply(move)
                continue
            with pytest.raises(IllegalMoveError) as error:
                position.apply(move)
            assert error.value.refusal == refusal
            assert (state(position), position.effects) == (before, effects)

    assert judged > 1000


@pytest.mark.parametrize("ruleset", RULESETS)
def test_a_run_of_any_moves_goes_as_far_as_the_judge_allows(ruleset: str) -> None:
    """The shortcuts of a run, such as that draws follow draws, never take what is not legal."""
    every = moves_of(ruleset)
    draw = table(ruleset).parse("stock:waste")
    lengths = set()
    for position, chance in random_positions(ruleset, 12):
        stepwise = position.copy()
        moves: list[Move] = []
        for _ in range(30):
            legal = stepwise.legal_moves()
            # Mostly draws, some legal moves, and now and then whatever comes.
            move = chance.choice([draw, draw, draw, *(legal[:1]), chance.choice(every)])
            moves.append(move)
            if move not in legal:
                break
            stepwise.apply(move)
        else:
            moves.append(next(move for move in every if not stepwise.is_legal(move)))
        done: list[Move] = []

        with pytest.raises(IllegalMoveError) as error:
            position.run(moves, done)

        assert done == moves[:-1]
        assert error.value.refusal == stepwise.refusal(moves[-1])
        assert state(position) == state(stepwise)
        lengths.add(len(done))

    assert len(lengths) > 3


@pytest.mark.parametrize("ruleset", RULESETS)
def test_a_run_leaves_what_single_moves_leave(ruleset: str) -> None:
    for position, chance in random_positions(ruleset, 6):
        stepwise = position.copy()
        moves: list[Move] = []
        while len(moves) < 40 and (legal := stepwise.legal_moves()):
            moves.append(chance.choice(legal))
            stepwise.apply(moves[-1])

        done: list[Move] = []
        assert position.run(moves, done) is None

        assert done == moves
        assert state(position) == state(stepwise)
        if moves:
            assert position.effects == stepwise.effects


@pytest.mark.parametrize("ruleset", RULESETS)
def test_a_move_uncovers_a_card_as_it_turns_out(ruleset: str) -> None:
    answers = set()
    for position, chance in random_positions(ruleset, 10):
        seen = position.redeals < table(ruleset).ruleset.redeals
        shuffled = position.copy()
        chance.shuffle(shuffled.stock)
        for move in position.legal_moves():
            after = position.copy()
            after.apply(move)
            turned = len(after.stock) < len(position.stock)

            assert position.uncovers(move) == (turned and not seen)
            assert shuffled.uncovers(move) == position.uncovers(move)
            answers.add((move.kind, position.uncovers(move)))

    assert {(DRAW, True), (PLAY, False)} <= answers


@pytest.mark.parametrize("ruleset", RULESETS)
def test_nothing_that_is_told_depends_on_the_cards_of_the_stock(ruleset: str) -> None:
    """S-28: reasons, legal moves and the position as told are the same whatever lies hidden."""
    every = moves_of(ruleset)
    for position, chance in random_positions(ruleset, 4):
        shuffled = position.copy()
        chance.shuffle(shuffled.stock)

        assert shuffled.render() == position.render()
        assert shuffled.outcome == position.outcome
        assert shuffled.legal_moves() == position.legal_moves()
        assert [shuffled.refusal(move) for move in every] == [
            position.refusal(move) for move in every
        ]


@pytest.mark.parametrize("ruleset", RULESETS)
def test_the_moved_card_is_the_one_that_comes_to_lie_where_the_move_goes(ruleset: str) -> None:
    kinds = set()
    for position, _ in random_positions(ruleset, 6):
        for move in position.legal_moves():
            number = position.moved_card(move)
            after = position.copy()
            after.apply(move)
            kinds.add(move.kind)

            if move.kind in {PLAY, HOP}:
                assert after._head(move.target) == number
                assert number in after.rules.chains[move.target]
            elif move.kind == REDEAL:
                assert number == EMPTY
            else:
                assert after.tops[move.target] == number

    assert {PLAY, DRAW} <= kinds


@pytest.mark.parametrize("ruleset", RULESETS)
def test_a_copy_and_its_original_change_apart(ruleset: str) -> None:
    for position, chance in random_positions(ruleset, 6):
        before = state(position)
        copy = position.copy()
        assert state(copy) == before
        for _ in range(20):
            if legal := copy.legal_moves():
                copy.apply(chance.choice(legal))
        assert state(position) == before
        changed = state(copy)

        for move in islice(position.legal_moves(), 1):
            position.apply(move)

        assert state(copy) == changed


@pytest.mark.parametrize("ruleset", RULESETS)
def test_a_position_is_read_from_its_own_text(ruleset: str) -> None:
    for position, _ in random_positions(ruleset, 12):
        text = position.render(stock=True)

        read = Position.parse(table(ruleset), text)

        assert state(read) == state(position)
        assert read.effects == ()
        assert read.columns == position.columns
        assert read.legal_moves() == position.legal_moves()
        assert (read.outcome, read.score) == (position.outcome, position.score)


@pytest.mark.parametrize("ruleset", RULESETS)
def test_what_is_computed_once_is_what_it_would_be_computed_to_be(ruleset: str) -> None:
    for position, _ in random_positions(ruleset, 8):
        rules = position.rules

        assert position._wanted == rules.count_wanted(position.wants)
        assert position.score == sum(position.heights)
        assert position.tops[-1] == (position.waste[-1] if position.waste else EMPTY)
        for place, column in enumerate(position.columns, rules.reserve):
            assert position.tops[place] == (column[-1] if column else EMPTY)
