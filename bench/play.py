"""Games to measure with: whole games, made up in advance by simple players."""

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from service.engine import DEFAULT_RULESET, Game, Move, Position, Table, deal, table
from service.engine.deals import DEFAULT_SPEC
from service.engine.moves import HOP, PLAY

RULES: Final = table(DEFAULT_RULESET)
SPEC: Final = DEFAULT_SPEC

Choice = Callable[[random.Random, Position, Sequence[Move]], Move]
"""A player: which of the legal moves it makes."""


@dataclass(frozen=True, slots=True)
class Line:
    """A finished game: a seed, and moves that are legal one after the other.

    Attributes:
        seed: Of the deal.
        moves: From the deal to the end.
        status: How it ended.
        rules: What is played.
    """

    seed: str
    moves: tuple[Move, ...]
    status: str
    rules: Table = RULES

    def game(self, ply: int = 0) -> Game:
        """Return the game after its first entries."""
        game = Game(self.rules, deal(SPEC, self.rules.ruleset.name, self.seed), undo_allowed=True)
        game.extend(self.moves[:ply])
        return game


def _random(chance: random.Random, _: Position, moves: Sequence[Move]) -> Move:
    return chance.choice(moves)


def _greedy(chance: random.Random, _: Position, moves: Sequence[Move]) -> Move:
    return chance.choice([move for move in moves if move.kind == PLAY] or moves)


def _low(_: random.Random, position: Position, moves: Sequence[Move]) -> Move:
    """Play the lowest card that fits."""
    plays = [move for move in moves if move.kind == PLAY]
    return min(plays, key=lambda move: position.tops[move.source] % 13, default=moves[0])


PLAYERS: Final[tuple[Choice, ...]] = (_greedy, _low, _random)


def play_out(game: Game, choose: Choice, chance: random.Random) -> None:
    """Play a game on until it ends, or could go on by cards taken off foundations alone."""
    while moves := [move for move in game.legal_moves() if move.kind != HOP]:
        game.enter(choose(chance, game.position, moves))


def lines(name: str, players: Sequence[Choice] = PLAYERS, rules: Table = RULES) -> Iterator[Line]:
    """Yield finished games without end, the same ones for the same name.

    Nobody takes a card off a foundation, so that every game ends; one that could go on by that
    alone is not finished and left out.

    Args:
        name: A word from which the seeds are made, 64 hex digits each as the server draws them.
        players: Who plays, in turn.
        rules: What is played.
    """
    for number, choose in enumerate(cycle(players)):
        seed = hashlib.sha256(f"{name}-{number}".encode()).hexdigest()
        chance = random.Random(seed)
        game = Line(seed, (), "playing", rules).game()
        play_out(game, choose, chance)
        if game.status != "playing":
            yield Line(seed, tuple(game.entries), game.status, rules)


def long_lines(name: str, low: int = 125, high: int = 145) -> Iterator[Line]:
    """Yield finished games of about 130 moves: those that good players play to the end."""
    return (line for line in lines(name, (_greedy, _low)) if low <= len(line.moves) <= high)


def thinking_time(chance: random.Random) -> int:
    """Return how long a person takes over a move, in ms: 1 to 6 s."""
    return chance.randint(1000, 6000)
