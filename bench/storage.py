"""Storage: what a recorded game takes, and whether moves stay within their page."""

import heapq
import multiprocessing
import random
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from bench import rig
from bench.play import RULES, SPEC, Line, long_lines, thinking_time
from service import games, players, tokens
from service.games import Command
from service.store import schema
from service.store.database import Database, Instant, new_id
from service.store.embedded import EmbeddedPostgres

_PROCESSES: Final = 2
_AT_ONCE: Final = 25
"""Games that each process has open at once."""
_SHARES: Final = 8
"""Parts in which the games are played, and so steps."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured.

    Attributes:
        played: Games played move by move.
        plies: Their mean number of moves.
        played_bytes: What each took then, the table's indexes included.
        in_page: Share of the updates that stayed within their page.
        updates: Number of updates.
        stored: Games stored in the end.
        stored_bytes: What each takes then.
        table_bytes: Of that, the table.
        row_bytes: Mean size of a row.
        fillfactor: How far pages are filled with new rows, in %.
    """

    played: int
    plies: float
    played_bytes: float
    in_page: float
    updates: int
    stored: int
    stored_bytes: float
    table_bytes: float
    row_bytes: float
    fillfactor: int


def measure(
    played: int, stored: int, step: Callable[[], None], fillfactor: int | None = None
) -> Report:
    """Play games and copy them, and look what they take.

    The games are played by the service's own function for moves, many at once, one move at a time.
    Durability is off for speed: it changes nothing in the table.

    Args:
        played: Games to play.
        stored: Games to store in the end: those played, and copies of them under new ids.
        step: Called several times; :func:`steps` says how often.
        fillfactor: Another fillfactor than the schema's, to try.
    """
    fast = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    with rig.new_home() as home, EmbeddedPostgres(home, settings=fast) as postgres:
        database = Database(postgres.url)
        schema.upgrade(database.engine)
        if fillfactor is not None:
            _ask(database, f"ALTER TABLE games SET (fillfactor = {fillfactor})")
        moves = _play_all(postgres.url, played, step)
        updates, hot, size, _ = _ask(database, _FACTS)
        _ask(database, _COPY.format(wanted=stored - played, played=played))
        _ask(database, "VACUUM ANALYZE games")
        *_, size_then, table = _ask(database, _FACTS)
        rows, mean = _ask(database, "SELECT count(*), avg(pg_column_size(games)) FROM games")
        [options] = _ask(database, _FILLFACTOR)
        database.dispose()
    return Report(
        played=played,
        plies=moves / played,
        played_bytes=size / played,
        in_page=hot / updates,
        updates=updates,
        stored=rows,
        stored_bytes=size_then / rows,
        table_bytes=table / rows,
        row_bytes=float(mean),
        fillfactor=int(options),
    )


def steps() -> int:
    """Return how many steps a measurement has."""
    return _SHARES


_FACTS: Final = """
SELECT n_tup_upd, n_tup_hot_upd, pg_total_relation_size(relid), pg_table_size(relid)
FROM pg_stat_user_tables, pg_stat_force_next_flush() WHERE relname = 'games'
"""
_FILLFACTOR: Final = """
SELECT coalesce(max(substr(option, 12)), '100') FROM pg_class, unnest(reloptions) AS option
WHERE oid = 'games'::regclass AND starts_with(option, 'fillfactor=')
"""
_COPY: Final = """
INSERT INTO games
SELECT uuidv7(), player_id, created_at, ended_at, ply, score, hidden, status, ruleset, spec, seed,
    log, times
FROM generate_series(0, ({wanted} - 1) / {played}) AS turn, (SELECT * FROM games) AS game
LIMIT {wanted}
"""


def _ask(database: Database, text: str) -> Any:
    """Return the first row that a statement gives."""

    def ask(connection: Connection) -> Any:
        found = connection.exec_driver_sql(text)
        return found.fetchone() if found.returns_rows else None

    return database.run(ask)


@dataclass(slots=True)
class _Open:
    """A game that is being played."""

    state: games.State
    line: Line
    token: bytes


def _play_all(url: str, wanted: int, step: Callable[[], None]) -> int:
    """Play games to their ends in several processes; return how many moves that took."""
    shares = [len(range(first, wanted, _SHARES)) for first in range(_SHARES)]
    with ProcessPoolExecutor(_PROCESSES, multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(_play, url, number, share) for number, share in enumerate(shares)]
        moves = 0
        for part in as_completed(parts):
            moves += part.result()
            step()
    return moves


def _play(url: str, number: int, wanted: int) -> int:
    """Play some games to their ends, some of them open at a time; return the number of moves.

    Every move comes at its time, as a person would make it, on a clock of this function's own.
    """
    database = Database(url, pool_size=1)
    chance = random.Random(number)
    lines = long_lines(f"storage-{number}")
    fingerprints = [_register(database, f"player {n}") for n in range(_AT_ONCE)]
    clock: datetime = database.now()
    due: list[tuple[datetime, int, _Open]] = []
    begun = moves = 0
    while due or begun < wanted:
        while len(due) < _AT_ONCE and begun < wanted:
            line, token = next(lines), fingerprints[begun % _AT_ONCE]
            state = _create(database, clock, token, line, hidden=begun % 2 == 1)
            heapq.heappush(due, (clock + _pause(chance), begun, _Open(state, line, token)))
            begun += 1
        clock, which, game = heapq.heappop(due)
        game.state = _move(database, clock, game)
        moves += 1
        if game.state.game.status == "playing":
            heapq.heappush(due, (clock + _pause(chance), which, game))
    database.dispose()
    return moves


def _pause(chance: random.Random) -> timedelta:
    return timedelta(milliseconds=thinking_time(chance))


def _register(database: Database, name: str) -> bytes:
    token = tokens.draw()
    register = partial(
        players.register, instant=Instant(), ids=(new_id(), new_id()), name=name, token=token
    )
    database.run(register, transaction=True)
    return tokens.fingerprint(token)


def _at(clock: datetime) -> Instant:
    instant = Instant()
    instant.fix(clock)
    return instant


def _create(
    database: Database, clock: datetime, token: bytes, line: Line, *, hidden: bool
) -> games.State:
    create = partial(
        games.create,
        instant=_at(clock),
        token=token,
        game_id=new_id(),
        ruleset=RULES.ruleset.name,
        spec=SPEC,
        seed=None if hidden else line.seed,
        drawn=line.seed,
    )
    return database.run(create)


def _move(database: Database, clock: datetime, game: _Open) -> games.State:
    ply = game.state.game.ply
    move = game.line.moves[ply]
    act = partial(
        games.move,
        instant=_at(clock),
        token=game.token,
        game_id=game.state.record.id,
        ply=ply,
        commands=[Command(move.origin, move.destination)],
    )
    return database.run(act)
