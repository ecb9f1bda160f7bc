r"""Games: the log with its acts, taking back, and replaying.

``golden/games.json`` is a corpus of finished games that is only added to. A row is written by::

    python -c "import json; from service.engine import *; \
        game = Game.replay(table('RULESET'), deal('SPEC', 'RULESET', 'SEED'), \
            bytes.fromhex('LOG'), undo_allowed=True); \
        print(json.dumps({'ruleset': 'RULESET', 'spec': 'SPEC', 'seed': 'SEED', 'log': 'LOG', \
            'position': game.position.render(stock=True), 'score': game.position.score, \
            'status': game.status, 'undos': game.undos, 'hints': game.hints}))"
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from service.engine import RULESETS, Game, Move, Position, deal, table
from service.engine.cards import EMPTY
from service.engine.errors import (
    BrokenLogError,
    EngineError,
    GameOverError,
    IllegalMoveError,
    LogFullError,
    NothingToUndoError,
    UndoOffError,
)
from service.engine.game import LOG_LIMIT, standing
from service.engine.moves import ACT, DRAW, FILL, HINT, HOP, PLAY, REDEAL, RESIGN, UNDO

GAMES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "golden" / "games.json").read_text("utf-8")
)
QUIET = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)

DEFAULT = "royal-rendezvous-1"
OPEN = "royal-rendezvous-open-1"
PYSOL = "royal-rendezvous-pysol-1"
ODD_AND_EVEN = "odd-and-even-1"

PREFERENCES = {PLAY: 20, FILL: 5, DRAW: 2, REDEAL: 2, HOP: 1}


def new(ruleset: str = DEFAULT, seed: str = "7", *, undo_allowed: bool = True) -> Game:
    return Game(table(ruleset), deal("deal-1", ruleset, seed), undo_allowed=undo_allowed)


def enter(game: Game, *texts: str) -> None:
    enter_all(game, [game.rules.parse(text) for text in texts])


def enter_all(game: Game, entries: list[Move]) -> None:
    for entry in entries:
        game.enter(entry)


def state(game: Game) -> tuple[object, ...]:
    """All that an entry may change, as values."""
    position = game.position
    return (
        game.log,
        game.undos,
        game.hints,
        game.resigned,
        position.render(stock=True),
        tuple(position.wants),
        bytes(position._wanted),
    )


def unchanged(game: Game, entry: Move, error: type[EngineError]) -> EngineError:
    """Enter what is refused with this error and changes nothing; return the error."""
    before, effects = state(game), game.position.effects
    with pytest.raises(error) as refused:
        game.enter(entry)
    assert refused.type is error
    assert (state(game), game.position.effects) == (before, effects)
    return refused.value


def finished(ruleset: str, end: str) -> Game:
    """Return a game that random play has won or lost, or that was resigned."""
    for seed in range(1000):
        game = new(ruleset, str(seed))
        chance = random.Random(seed)
        while game.ply < 400 and (moves := game.legal_moves()):
            if end == "resigned" and game.ply == 5:
                game.enter(RESIGN)
            else:
                weights = [PREFERENCES[move.kind] for move in moves]
                game.enter(chance.choices(moves, weights)[0])
        if game.status == end:
            return game
    raise AssertionError(f"no game of {ruleset} is {end}")


# The corpus.


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{row['ruleset']}-{n}") for n, row in enumerate(GAMES)]
)
def test_a_recorded_game_comes_out_as_it_did(row: dict[str, Any]) -> None:
    """S-96, S-76: old logs keep their meaning, so that a change of a ruleset fails here."""
    layout = deal(row["spec"], row["ruleset"], row["seed"])
    log = bytes.fromhex(row["log"])

    game = Game.replay(table(row["ruleset"]), layout, log, undo_allowed=True)

    assert game.position.render(stock=True) == row["position"]
    assert (game.position.score, game.status) == (row["score"], row["status"])
    assert (game.undos, game.hints) == (row["undos"], row["hints"])
    assert game.log == log


def test_the_corpus_has_every_end_of_every_ruleset() -> None:
    ends = Counter((row["ruleset"], row["status"]) for row in GAMES)

    assert set(ends) == {
        (ruleset, end) for ruleset in RULESETS for end in ("won", "lost", "resigned")
    }
    assert all(sum(ends[ruleset, end] for end in ("won", "lost")) >= 4 for ruleset in RULESETS)
    assert all(row["undos"] + row["hints"] for row in GAMES if row["status"] == "resigned")


# The log.


def test_a_fresh_game_is_at_ply_0() -> None:
    """Words: "the deal is ply 0, and ply never falls"."""
    game = new()

    assert (game.ply, game.log, game.entries, game.status) == (0, b"", [], "playing")
    assert (game.undos, game.hints, game.resigned) == (0, 0, False)
    assert game.position.effects == ()


def test_every_entry_adds_one_to_the_ply() -> None:
    """Words.

    "*ply* (number of entries in the game's log so far: moves, undos, a resignation; the deal is ply
    0, and ply never falls)".
    """
    game = new()
    first = game.legal_moves()[0].text
    plies = []
    for text in (first, "hint", "undo", first, "undo", "resign"):
        enter(game, text)
        plies.append(game.ply)

    assert plies == [1, 2, 3, 4, 5, 6]
    assert [entry.text for entry in game.entries[1:3]] == ["hint", "undo"]
    assert game.log == bytes(entry.code for entry in game.entries)
    assert (game.undos, game.hints) == (2, 1)


def test_a_refused_move_leaves_the_game_as_it_is() -> None:
    """S-25: the refusal has its reason."""
    game = new()
    bad = game.rules.parse("r1:upper-C")

    error = unchanged(game, bad, IllegalMoveError)

    assert isinstance(error, IllegalMoveError)
    assert error.refusal == game.position.refusal(bad)


def test_a_hint_changes_the_log_alone() -> None:
    game = new()
    before = game.position.render(stock=True)

    effects = game.enter(HINT)

    assert effects == ()
    assert (game.hints, game.ply) == (1, 1)
    assert game.position.render(stock=True) == before
    assert game.standing() == []


def test_the_card_that_an_entry_would_move_is_told() -> None:
    game = new()
    draw = game.rules.parse("stock:waste")

    assert game.moved_card(draw) == game.layout.stock[0]
    assert {game.moved_card(act) for act in (HINT, RESIGN, UNDO)} == {EMPTY}


# Taking back.


@pytest.mark.parametrize("ruleset", RULESETS)
def test_taking_back_restores_each_position_exactly(ruleset: str) -> None:
    game = finished(ruleset, "lost")
    expected = Position(game.rules, game.layout)
    positions = [expected.copy()]
    for move in game.entries[:-1]:
        expected.apply(move)
        positions.append(expected.copy())
    plies = game.ply

    for before in reversed(positions):
        assert game.enter(UNDO) == ()
        assert game.position.render(stock=True) == before.render(stock=True)
        assert game.position._wanted == before._wanted
        assert game.position.wants == before.wants
        assert game.position.effects == before.effects
        assert game.legal_moves() == before.legal_moves()

    assert (game.ply, game.undos) == (2 * plies, plies)
    unchanged(game, UNDO, NothingToUndoError)


def test_taking_back_takes_the_effects_back() -> None:
    game = new(PYSOL)
    before = state(game)[4:]
    play = next(move for move in game.legal_moves() if move.origin == "r1")

    effects = game.enter(play)
    game.enter(UNDO)

    assert [effect.text for effect in effects] == ["waste:r1", "stock:waste"]
    assert state(game)[4:] == before


def test_taking_back_passes_over_hints() -> None:
    game = new()
    start = game.position.render()
    game.enter(game.legal_moves()[0])
    game.enter(HINT)

    game.enter(UNDO)

    assert game.position.render() == start
    assert game.hints == 1
    unchanged(game, UNDO, NothingToUndoError)


def test_play_goes_on_from_where_a_move_was_taken_back() -> None:
    game = new()
    first, second = game.legal_moves()[:2]
    game.enter(first)
    game.enter(UNDO)
    game.enter(second)

    again = new()
    again.enter(second)

    assert game.position.render(stock=True) == again.position.render(stock=True)
    assert game.standing() == [second]
    assert [entry.text for entry in game.entries] == [first.text, "undo", second.text]


def test_a_lost_game_is_played_on_when_a_move_is_taken_back() -> None:
    game = finished(DEFAULT, "lost")
    last = game.entries[-1]
    assert game.legal_moves() == []

    game.enter(UNDO)
    assert (game.status, game.legal_moves()) == ("playing", [last])
    game.enter(last)

    assert (game.status, game.legal_moves()) == ("lost", [])


@pytest.mark.parametrize("end", ["won", "resigned"])
def test_nothing_is_taken_back_after_a_win_or_a_resignation(end: str) -> None:
    game = finished(DEFAULT, end)

    error = unchanged(game, UNDO, GameOverError)

    assert str(error) == f"the game is over: {end}"


@pytest.mark.parametrize("end", ["playing", "won", "lost", "resigned"])
def test_nothing_is_taken_back_where_undo_is_off(end: str) -> None:
    game = new() if end == "playing" else finished(DEFAULT, end)
    if end == "playing":
        game.enter(game.legal_moves()[0])
    game.undo_allowed = False

    error = unchanged(game, UNDO, UndoOffError)

    assert error.code == "undo-off"


def test_there_is_nothing_to_take_back_at_the_deal() -> None:
    game = new()

    error = unchanged(game, UNDO, NothingToUndoError)

    assert error.code == "nothing-to-undo"
    game.enter(game.legal_moves()[0])
    game.enter(UNDO)
    unchanged(game, UNDO, NothingToUndoError)


def test_an_undo_is_an_entry_of_the_log_that_replays() -> None:
    """S-31: undo is a record in the chain; replay with undo verifies."""
    game = new()
    for _ in range(6):
        game.enter(game.legal_moves()[-1])
        game.enter(game.legal_moves()[0])
        game.enter(UNDO)

    again = Game.replay(game.rules, game.layout, game.log, undo_allowed=True)

    assert game.log.count(UNDO.code) == game.undos == 6
    assert state(again) == state(game)


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        ("", ""),
        ("a b c", "a b c"),
        ("a b undo", "a"),
        ("a b undo undo", ""),
        ("a undo b undo c", "c"),
        ("a b undo c undo d", "a d"),
        ("a hint b hint undo hint", "a"),
        ("a b resign", "a b"),
        ("hint", ""),
    ],
)
def test_moves_that_are_not_taken_back_stand(entries: str, line: str) -> None:
    acts = {"undo": UNDO, "hint": HINT, "resign": RESIGN}
    moves = dict(zip("abcd", table(DEFAULT).by_code[0], strict=True))

    assert standing({**acts, **moves}[name] for name in entries.split()) == [
        moves[name] for name in line.split()
    ]


# The end.


@pytest.mark.parametrize("ruleset", RULESETS)
@pytest.mark.parametrize("end", ["won", "lost", "resigned"])
def test_nothing_follows_the_end_but_an_undo_of_what_was_lost(ruleset: str, end: str) -> None:
    game = finished(ruleset, end)

    for move in (*game.rules.by_text.values(), HINT, RESIGN):
        if move is not UNDO:
            error = unchanged(game, move, GameOverError)
            assert str(error) == f"the game is over: {end}"

    assert game.legal_moves() == []
    with pytest.raises(GameOverError):
        game.check_open()


def test_a_resignation_ends_the_game_where_it_stands() -> None:
    game = new()
    game.enter(game.legal_moves()[0])
    before = game.position.render(stock=True)

    assert game.enter(RESIGN) == ()

    assert (game.status, game.resigned, game.ply) == ("resigned", True, 2)
    assert game.position.render(stock=True) == before
    assert game.position.legal_moves()


# The limit.


def hops(number: int) -> list[Move]:
    """Moves of a game that never ends: a deuce goes to and fro."""
    rules = table(PYSOL)
    there_and_back = [rules.parse("deuce-C:upper-C"), rules.parse("upper-C:deuce-C")]
    return (there_and_back * number)[:number]


def filled(number: int) -> Game:
    game = new(PYSOL)
    game.extend(hops(number))
    return game


def test_at_1999_entries_only_a_resignation_fits() -> None:
    game = filled(1998)
    game.check_open()
    game.enter(hops(1)[0])

    assert game.ply == LOG_LIMIT - 1 == 1999
    assert game.legal_moves() == []
    assert game.status == "playing"
    with pytest.raises(LogFullError):
        game.check_open()
    for entry in (*hops(2), UNDO, HINT, game.rules.parse("stock:waste")):
        error = unchanged(game, entry, LogFullError)
        assert error.code == "log-full"
    game.enter(RESIGN)

    assert (game.ply, game.status) == (2000, "resigned")
    unchanged(game, RESIGN, GameOverError)


def test_a_log_of_2000_entries_replays() -> None:
    game = filled(1999)
    game.enter(RESIGN)

    again = Game.replay(game.rules, game.layout, game.log, undo_allowed=False)

    assert state(again) == state(game)
    assert again.status == "resigned"


def test_a_log_of_undos_reaches_the_limit_as_well() -> None:
    game = new()
    draw = game.legal_moves()[-1]
    for _ in range(999):
        game.enter(draw)
        game.enter(UNDO)
    game.enter(draw)

    unchanged(game, UNDO, LogFullError)
    game.enter(RESIGN)

    again = Game.replay(game.rules, game.layout, game.log, undo_allowed=True)
    assert state(again) == state(game)


def test_a_game_that_ends_at_1999_entries_is_over_and_not_full() -> None:
    game = finished(DEFAULT, "won")
    last = game.entries[-1]
    start = [entry for entry in game.entries[:-1] if entry.kind != ACT]
    game = Game(game.rules, game.layout, undo_allowed=True)
    game.extend(start)
    while game.ply < 1998:
        game.enter(HINT)
    game.enter(last)

    assert (game.ply, game.status) == (1999, "won")
    unchanged(game, RESIGN, GameOverError)
    unchanged(game, HINT, GameOverError)


@pytest.mark.parametrize(
    ("number", "end"),
    [
        (2000, []),
        (2004, []),
        (1999, [HINT]),
        (2000, [HINT]),
        (1999, [UNDO]),
        (2000, [UNDO]),
        (2000, [RESIGN]),
        (2004, [RESIGN]),
        (1999, [table(PYSOL).parse("r1:king-S")]),
        (2003, [table(PYSOL).parse("r1:king-S")]),
        (1999, [RESIGN, HINT]),
    ],
)
def test_entries_past_the_limit_are_refused_however_they_are_entered(
    number: int, end: list[Move]
) -> None:
    together, singly = new(PYSOL), new(PYSOL)
    entries = hops(number) + end

    with pytest.raises(EngineError) as refused:
        together.extend(entries)
    with pytest.raises(EngineError) as expected:
        enter_all(singly, entries)

    assert singly.ply == 1999 + (end[:1] == [RESIGN] and number == 1999)
    assert state(together) == state(singly)
    assert refused.type is expected.type


@pytest.mark.parametrize("end", [[], [RESIGN], [HINT], [UNDO]])
@pytest.mark.parametrize("number", [2000, 2004])
def test_a_stored_log_past_the_limit_is_broken_at_its_1999th_ply(
    number: int, end: list[Move]
) -> None:
    game = new(PYSOL)
    log = bytes(entry.code for entry in hops(number) + end)

    with pytest.raises(BrokenLogError) as broken:
        Game.replay(game.rules, game.layout, log, undo_allowed=True)

    assert broken.value.ply == 1999
    assert isinstance(broken.value.__cause__, LogFullError)


# Stored logs that do not replay.


def after(change: Callable[[bytes], bytes], *, undo_allowed: bool = True) -> BrokenLogError:
    """Replay a changed log of a short game: two draws, a hint, an undo."""
    game = new("royal-rendezvous-relaxed-1", undo_allowed=True)
    enter(game, "stock:waste", "stock:waste", "hint", "undo")
    with pytest.raises(BrokenLogError) as broken:
        Game.replay(game.rules, game.layout, change(game.log), undo_allowed=undo_allowed)
    assert broken.value.code == "broken-log"
    assert str(broken.value).startswith(f"entry {broken.value.ply}: code ")
    return broken.value


@pytest.mark.parametrize("code", [52, 100, 200, 252])
def test_an_unknown_code_breaks_a_log(code: int) -> None:
    broken = after(lambda log: log + bytes([code]))

    assert broken.ply == 4
    assert f"code {code} " in str(broken)
    assert isinstance(broken.__cause__, LookupError)


def test_a_move_that_is_not_legal_breaks_a_log() -> None:
    broken = after(lambda log: log[:1] + bytes([table(DEFAULT).parse("r1:upper-C").code]) + log)

    assert broken.ply == 1
    assert isinstance(broken.__cause__, IllegalMoveError)


def test_a_play_from_an_empty_place_breaks_a_log() -> None:
    broken = after(lambda log: bytes([table(DEFAULT).parse("waste:upper-C").code]) + log)

    assert broken.ply == 0


def test_an_undo_breaks_a_log_where_undo_is_off() -> None:
    """S-31: a replay allows the undo where the game did."""
    broken = after(lambda log: log, undo_allowed=False)

    assert broken.ply == 3
    assert isinstance(broken.__cause__, UndoOffError)


def test_an_undo_too_many_breaks_a_log() -> None:
    broken = after(lambda log: log + bytes([UNDO.code] * 3))

    assert broken.ply == 5
    assert isinstance(broken.__cause__, NothingToUndoError)


@pytest.mark.parametrize("entry", [HINT, RESIGN, UNDO, table(DEFAULT).parse("stock:waste")])
def test_an_entry_after_a_resignation_breaks_a_log(entry: Move) -> None:
    broken = after(lambda log: log + bytes([RESIGN.code, entry.code]))

    assert broken.ply == 5
    assert isinstance(broken.__cause__, GameOverError)


@pytest.mark.parametrize("end", ["won", "lost"])
def test_an_entry_after_the_end_breaks_a_log(end: str) -> None:
    game = finished(DEFAULT, end)

    for entry in (HINT, RESIGN, game.rules.parse("stock:waste")):
        with pytest.raises(BrokenLogError) as broken:
            Game.replay(game.rules, game.layout, game.log + bytes([entry.code]), undo_allowed=True)

        assert broken.value.ply == game.ply
        assert isinstance(broken.value.__cause__, GameOverError)


@pytest.mark.parametrize("ruleset", RULESETS)
def test_the_log_of_one_deal_does_not_fit_another(ruleset: str) -> None:
    game = finished(ruleset, "lost")
    other = deal("deal-1", ruleset, "another")

    with pytest.raises(BrokenLogError):
        Game.replay(game.rules, other, game.log + bytes([RESIGN.code] * 2), undo_allowed=True)


# Many entries at once.


def choices(game: Game, chance: random.Random, number: int) -> list[Move]:
    """Enter entries of all kinds into the game, mostly legal moves; return them."""
    entries = []
    for _ in range(number):
        moves = game.legal_moves()
        wanted = chance.choices(
            [*moves, HINT, UNDO], [*(PREFERENCES[move.kind] for move in moves), 2, 3]
        )[0]
        try:
            game.enter(wanted)
        except EngineError:
            continue
        entries.append(wanted)
    return entries


@pytest.mark.parametrize("ruleset", RULESETS)
@pytest.mark.parametrize("undo_allowed", [True, False])
def test_many_entries_at_once_are_what_they_are_one_by_one(
    ruleset: str, *, undo_allowed: bool
) -> None:
    statuses = set()
    for seed in range(12):
        chance = random.Random(seed)
        live = new(ruleset, str(seed), undo_allowed=undo_allowed)
        entries = choices(live, chance, chance.choice([10, 60, 250]))
        if chance.random() < 0.3 and live.status == "playing":
            live.enter(RESIGN)
            entries.append(RESIGN)
        statuses.add(live.status)

        together = new(ruleset, str(seed), undo_allowed=undo_allowed)
        together.extend(entries)
        replayed = Game.replay(live.rules, live.layout, live.log, undo_allowed=undo_allowed)

        cut = chance.randrange(len(entries) + 1)
        in_two = new(ruleset, str(seed), undo_allowed=undo_allowed)
        in_two.extend(entries[:cut])
        in_two.extend(entries[cut:])
        for game in (together, replayed, in_two):
            assert game.entries == live.entries == entries
            assert state(game) == state(live)
            assert game.status == live.status
            assert game.standing() == live.standing()

    assert len(statuses) > 1


@pytest.mark.parametrize("ruleset", RULESETS)
def test_many_entries_are_entered_up_to_the_first_that_does_not_fit(ruleset: str) -> None:
    """S-25: the error is that of the entry at which it stopped."""
    every = [*table(ruleset).by_text.values()]
    errors = set()
    for seed in range(40):
        chance = random.Random(seed)
        live = new(ruleset, str(seed), undo_allowed=bool(seed % 3))
        entries = choices(live, chance, chance.choice([0, 3, 30, 300]))
        if seed % 4 == 0 and live.status == "playing":
            live.enter(RESIGN)
            entries.append(RESIGN)
        bad = chance.choice([UNDO, HINT, RESIGN, *chance.sample(every, 20)])
        expected = None
        while expected is None:
            try:
                live.enter(bad)
                entries.append(bad)
                bad = chance.choice(every)
            except EngineError as error:
                expected = error

        together = new(ruleset, str(seed), undo_allowed=bool(seed % 3))
        with pytest.raises(EngineError) as refused:
            together.extend([*entries, bad, *entries])

        assert refused.type is type(expected)
        assert str(refused.value) == str(expected)
        assert state(together) == state(live)
        errors.add(refused.type)

    assert {IllegalMoveError, GameOverError} <= errors


@QUIET
@given(st.sampled_from(list(RULESETS)), st.binary(max_size=40), st.booleans())
def test_any_bytes_replay_or_break_at_the_first_entry_that_does_not_fit(
    ruleset: str,
    log: bytes,
    undo_allowed: bool,  # noqa: FBT001 - given by position
) -> None:
    layout = deal("deal-1", ruleset, "7")
    rules = table(ruleset)

    try:
        game = Game.replay(rules, layout, log, undo_allowed=undo_allowed)
    except BrokenLogError as broken:
        ply = broken.ply
        game = Game.replay(rules, layout, log[:ply], undo_allowed=undo_allowed)
        assert game.ply == ply
        with pytest.raises(BrokenLogError):
            Game.replay(rules, layout, log[: ply + 1], undo_allowed=undo_allowed)
    else:
        assert game.log == log


# A machine that plays.


class Player(RuleBasedStateMachine):
    """Plays a game beside a model: the texts of the positions that can be gone back to."""

    game: Game

    @initialize(
        ruleset=st.sampled_from(list(RULESETS)),
        seed=st.integers(0, 99),
        undo_allowed=st.sampled_from([True, True, False]),
    )
    def start(self, ruleset: str, seed: int, *, undo_allowed: bool) -> None:
        self.game = new(ruleset, str(seed), undo_allowed=undo_allowed)
        self.line = [self.game.position.render(stock=True)]
        self.moves: list[Move] = []
        self.plies = self.hints = self.undos = 0
        self.resigned = False

    def expected_status(self) -> str:
        if self.resigned:
            return "resigned"
        position = Position.parse(self.game.rules, self.line[-1])
        if position.score == 104:
            return "won"
        return "playing" if position.legal_moves() else "lost"

    def move(self, move: Move) -> None:
        position = Position.parse(self.game.rules, self.line[-1])
        effects = self.game.enter(move)
        assert effects == position.apply(move)
        self.line.append(position.render(stock=True))
        self.moves.append(move)
        self.plies += 1

    @precondition(lambda self: self.game.legal_moves())
    @rule(choice=st.integers(0, 200))
    def play(self, choice: int) -> None:
        moves = self.game.legal_moves()
        self.move(moves[choice % len(moves)])

    @precondition(lambda self: self.game.legal_moves())
    @rule(number=st.integers(1, 80), chance=st.randoms(use_true_random=False))
    def play_on(self, number: int, chance: random.Random) -> None:
        for _ in range(number):
            if moves := self.game.legal_moves():
                weights = [PREFERENCES[move.kind] for move in moves]
                self.move(chance.choices(moves, weights)[0])

    @rule(times=st.integers(1, 5))
    def undo(self, times: int) -> None:
        for _ in range(times):
            status = self.expected_status()
            if not self.game.undo_allowed:
                unchanged(self.game, UNDO, UndoOffError)
            elif status in {"won", "resigned"}:
                unchanged(self.game, UNDO, GameOverError)
            elif not self.moves:
                unchanged(self.game, UNDO, NothingToUndoError)
            else:
                self.game.enter(UNDO)
                self.line.pop()
                self.moves.pop()
                self.undos += 1
                self.plies += 1

    @rule()
    def hint(self) -> None:
        if self.expected_status() == "playing":
            self.game.enter(HINT)
            self.hints += 1
            self.plies += 1
        else:
            unchanged(self.game, HINT, GameOverError)

    @rule(sure=st.integers(0, 9))
    def resign(self, sure: int) -> None:
        if self.expected_status() != "playing":
            unchanged(self.game, RESIGN, GameOverError)
        elif sure == 0:
            self.game.enter(RESIGN)
            self.resigned = True
            self.plies += 1

    @rule(choice=st.integers(0, 400))
    def try_any_move(self, choice: int) -> None:
        every = [move for move in self.game.rules.by_text.values() if move.kind != ACT]
        move = every[choice % len(every)]
        if self.expected_status() != "playing":
            unchanged(self.game, move, GameOverError)
        elif move not in self.game.legal_moves():
            unchanged(self.game, move, IllegalMoveError)

    @rule()
    def replay(self) -> None:
        game = self.game
        again = Game.replay(game.rules, game.layout, game.log, undo_allowed=game.undo_allowed)

        assert state(again) == state(game)
        assert again.status == game.status

    @invariant()
    def the_game_is_as_the_model(self) -> None:
        if not hasattr(self, "game"):
            return
        game = self.game
        assert game.position.render(stock=True) == self.line[-1]
        assert game.standing() == self.moves
        assert (game.ply, game.undos, game.hints) == (self.plies, self.undos, self.hints)
        assert game.status == self.expected_status()
        assert bool(game.legal_moves()) == (game.status == "playing")


TestPlayer = Player.TestCase
TestPlayer.settings = settings(QUIET, max_examples=60, stateful_step_count=30)
