"""The engine: deals, moves, replays and the verification of finished games."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from statistics import median
from typing import Any, Final
from uuid import UUID

from bench.play import PLAYERS, RULES, SPEC, Line, lines, thinking_time
from service.engine import RULESETS, Game, Layout, deal, document, table, verify, verify_text

_CREATED: Final = 1_760_000_000_000


@dataclass(frozen=True, slots=True)
class Report:
    """What the engine costs, in µs of processor time unless told otherwise; medians over rounds.

    Attributes:
        games: Games measured with.
        won: How many of them were won.
        plies: Their mean number of moves.
        deal: One deal.
        replay: One stored log replayed from its deal.
        move: One move of those.
        careful_move: One move entered by itself, its effects returned.
        legal_moves: All legal moves of one position.
        verify: One finished game verified from memory.
        verify_text: The same from the text of its document.
        ratio: Median over rounds of verification over deal.
        family: For each ruleset the moves of its games, and what verification costs for each.
        family_ratio: For each the default ruleset's cost over this one's, median over rounds.
    """

    games: int
    won: int
    plies: float
    deal: float
    replay: float
    move: float
    careful_move: float
    legal_moves: float
    verify: float
    verify_text: float
    ratio: float
    family: dict[str, tuple[float, float]]
    family_ratio: dict[str, float]


def measure(games: int, rounds: int, step: Callable[[], None]) -> Report:
    """Measure the engine, everything once in each round.

    Args:
        games: Finished games to measure with.
        rounds: Rounds.
        step: Called after each round.
    """
    found = list(islice(lines("engine"), games))
    documents = [_document(line) for line in found]
    texts = [json.dumps(value) for value in documents]
    _verify_all(documents)
    name = RULES.ruleset.name
    logs = [
        (deal(SPEC, name, line.seed), bytes(move.code for move in line.moves)) for line in found
    ]
    positions = [line.game(ply) for line in found for ply in range(0, len(line.moves), 16)]
    plies = sum(len(line.moves) for line in found)
    acts: dict[str, tuple[Callable[[], Any], int]] = {
        "deal": (lambda: [deal(SPEC, name, line.seed) for line in found], games),
        "verify": (lambda: [verify(value) for value in documents], games),
        "verify_text": (lambda: [verify_text(text) for text in texts], games),
        "replay": (lambda: [_replay(layout, log) for layout, log in logs], games),
        "careful_move": (
            lambda: [
                _enter_all(layout, line) for (layout, _), line in zip(logs, found, strict=True)
            ],
            plies,
        ),
        "legal_moves": (lambda: [game.legal_moves() for game in positions], len(positions)),
    }
    family = {ruleset: _family(ruleset, games) for ruleset in RULESETS}
    family_plies = {key: sum(len(one["log"]) for one in values) for key, values in family.items()}
    for key, values in family.items():
        acts[key] = partial(_verify_all, values), family_plies[key]
    costs: dict[str, list[float]] = {key: [] for key in acts}
    for _ in range(rounds):
        for key, (act, count) in acts.items():
            costs[key].append(_cost(act) / count)
        step()
    middle = {key: median(values) for key, values in costs.items()}
    default = costs[RULES.ruleset.name]
    return Report(
        games=games,
        won=sum(line.status == "won" for line in found),
        plies=plies / games,
        move=middle["replay"] * games / plies,
        ratio=median(v / d for v, d in zip(costs["verify"], costs["deal"], strict=True)),
        family={key: (family_plies[key] / games, middle.pop(key)) for key in family},
        family_ratio={
            key: median(d / c for d, c in zip(default, costs[key], strict=True)) for key in family
        },
        **middle,
    )


def _family(ruleset: str, games: int) -> list[Any]:
    """Return documents of finished games that one simple player plays in a ruleset."""
    return [_document(line) for line in islice(lines("family", PLAYERS[:1], table(ruleset)), games)]


def _verify_all(documents: list[Any]) -> None:
    for value in documents:
        if verify(value).verdict != "valid":
            raise RuntimeError("a finished game does not verify")


def _cost(act: Callable[[], Any]) -> float:
    """Return the processor time of an act in µs: other programs disturb it least."""
    start = time.process_time()
    act()
    return (time.process_time() - start) * 1e6


def _replay(layout: Layout, log: bytes) -> Game:
    return Game.replay(RULES, layout, log, undo_allowed=True)


def _enter_all(layout: Layout, line: Line) -> Game:
    game = Game(RULES, layout, undo_allowed=True)
    for move in line.moves:
        game.enter(move)
    return game


def _document(line: Line) -> Any:
    """Return the replay document of a line, as it is read from JSON."""
    chance = random.Random(line.seed)
    times, ms = [], 0
    for _ in line.moves:
        ms += thinking_time(chance)
        times.append(ms)
    header = {
        "id": str(UUID(int=chance.getrandbits(128))),
        "ruleset": line.rules.ruleset.name,
        "deal": {"spec": SPEC, "seed": line.seed},
        "player": str(UUID(int=chance.getrandbits(128))),
        "created_at": _CREATED,
        "options": {},
    }
    return json.loads(json.dumps(document(header, line.game(len(line.moves)), times)))
