"""Replay documents for the tests, made by playing, and ways to take them apart."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from service.engine import Game, deal, document, table
from service.engine.moves import ACT, HOP
from service.engine.replay import commitment, commitment_context

Json = dict[str, Any]

GAME = "01970a5b-2c00-7d3e-8f10-9a4b5c6d7e8f"
PLAYER = "01970a5b-1000-7abc-9def-0123456789ab"
TOURNAMENT = "01970a5b-4000-7e2f-a345-6789abcdef01"
ENTRY = "01970a5b-4100-7c44-b1c2-d3e4f5061728"
CREATED_AT = 1_750_000_000_000
DEADLINE = CREATED_AT + 900_000
HIDDEN_SEED = "73300871f44c168e7c949de2c750e60c2c9bb8ff530017c5a267234e9cb4db8e"

GOLDEN = Path(__file__).parent / "golden" / "replays.ndjson"

SIGNING_KEYS = GOLDEN.with_name("signing-keys.json")
"""Keys of the tests alone: the first signs, the second did so before."""


def header(ruleset: str = "royal-rendezvous-1", seed: str = "7", spec: str = "deal-1") -> Json:
    """Return the header of a practice game whose player gave the seed."""
    return {
        "id": GAME,
        "ruleset": ruleset,
        "deal": {"spec": spec, "seed": seed},
        "player": PLAYER,
        "created_at": CREATED_AT,
        "options": {},
    }


def hidden_header(
    ruleset: str = "royal-rendezvous-1", seed: str = HIDDEN_SEED, spec: str = "deal-1"
) -> Json:
    """Return the header of a game whose seed the server drew."""
    return {
        **header(ruleset),
        "deal": {"spec": spec, "commitment": commitment(GAME, seed)},
    }


def sealed_header(ruleset: str = "royal-rendezvous-1", seed: str = HIDDEN_SEED) -> Json:
    """Return the header of a tournament's game."""
    tournament = {
        "id": TOURNAMENT,
        "round": 1,
        "deal_no": 3,
        "entry": ENTRY,
        "attempt": 2,
        "deadline": DEADLINE,
    }
    head = {**header(ruleset), "tournament": tournament}
    return {
        **head,
        "deal": {"spec": "deal-1", "commitment": commitment(commitment_context(head), seed)},
    }


def new_game(head: Json, seed: str = HIDDEN_SEED) -> Game:
    """Return a game as this header tells it; ``seed`` is that of a hidden deal."""
    named = head["deal"]
    layout = deal(named["spec"], head["ruleset"], named.get("seed", seed))
    return Game(table(head["ruleset"]), layout, undo_allowed="seed" in named)


def played(
    head: Json,
    log: Sequence[str],
    *,
    times: Sequence[int] | None = None,
    seed: str = HIDDEN_SEED,
    revealed: bool = True,
    timed_out: bool = False,
) -> Json:
    """Return the document of a game with this log, without times one entry each 1.5 s."""
    game = new_game(head, seed)
    game.extend(map(game.rules.parse, log))
    times = [1500 * n for n in range(len(log))] if times is None else times
    opened = seed if revealed and "commitment" in head["deal"] else None
    return document(head, game, times, seed=opened, timed_out=timed_out)


def first_moves(head: Json, most: int = 1000, seed: str = HIDDEN_SEED) -> list[str]:
    """Return the log of a game in which the first legal move that is no hop is always made."""
    game = new_game(head, seed)
    while game.ply < most:
        moves = [move for move in game.legal_moves() if move.kind != HOP]
        if not moves:
            break
        game.enter(moves[0])
    return [entry.text for entry in game.entries if entry.kind != ACT]


def golden() -> list[Json]:
    """Return the recorded games that must stay valid for ever."""
    return [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()[:-1]]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value inside this one, at any depth, from the outside in."""
    names: list[Any] = [*value] if isinstance(value, dict) else []
    if isinstance(value, list):
        names = [*range(len(value))]
    for name in names:
        yield (*path, name)
        yield from places(value[name], (*path, name))


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at this path."""
    for name in path:
        value = value[name]
    return value


def pointer(path: tuple[str | int, ...]) -> str:
    """Return a path as a JSON Pointer; no name in it may need escaping."""
    return "".join(f"/{name}" for name in path)
