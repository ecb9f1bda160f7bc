"""The audit: every stored game against its own log."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DataError

from service.engine import Game, canonical_seed
from service.engine.deals import DEFAULT_SPEC
from service.engine.errors import EngineError
from service.engine.replay import pack_times, unpack_times
from service.games import COLUMNS, SOURCE, TIMED_OUT, Record
from service.store.database import Database
from service.store.tables import games

_PAGE: Final = 500
_DRAWN: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that is not what its log gives.

    Attributes:
        game: The game's id.
        detail: What is wrong.
    """

    game: UUID
    detail: str


def count(connection: Connection) -> int:
    """Return the number of stored games."""
    return int(connection.execute(select(func.count()).select_from(games)).scalar_one())


def audit(database: Database) -> Iterator[tuple[UUID, Fault | None]]:
    """Yield every stored game's id, oldest first, with what is wrong with its row if anything is.

    Reads page by page, so that no transaction is long and memory stays flat.
    """
    last: UUID | None = None
    while page := database.run(partial(_page, after=last)):
        for game, record in page:
            detail = "the row cannot be read" if record is None else judge(record)
            yield game, None if detail is None else Fault(game, detail)
        last = page[-1][0]


def _page(connection: Connection, *, after: UUID | None) -> list[tuple[UUID, Record | None]]:
    """Return the next rows and their ids; None for a row that holds what cannot be read."""
    query = select(*COLUMNS).select_from(SOURCE).order_by(games.c.id).limit(_PAGE)
    if after is not None:
        query = query.where(games.c.id > after)
    try:
        return [(row.id, Record(*row)) for row in connection.execute(query)]
    except DataError:
        ids = connection.execute(query.with_only_columns(games.c.id)).scalars().all()
        return [(game, _record(connection, game)) for game in ids]


def _record(connection: Connection, game: UUID) -> Record | None:
    try:
        return Record(
            *connection.execute(
                select(*COLUMNS).select_from(SOURCE).where(games.c.id == game)
            ).one()
        )
    except DataError:
        return None


@dataclass(frozen=True, slots=True)
class Examined:
    """A row as its deal and log have it.

    Attributes:
        fault: What is wrong with it, None if nothing is.
        game: The game that its log gives, if it gives one.
        times: The instants of its entries.
    """

    fault: str | None
    game: Game | None
    times: list[int]


def judge(record: Record) -> str | None:
    """Return what is wrong with a row, None if nothing is; see :func:`examine`."""
    return examine(record).fault


def examine(record: Record) -> Examined:
    """Say whether all that a row holds follows from its deal and log.

    What follows from nothing cannot be judged: whose game it is, how its time is spread over its
    entries, when it began as long as it has not ended, and whether another log, or another seed,
    led to the same end.
    """
    times = unpack_times(record.times)
    try:
        if canonical_seed(record.spec, record.seed) != record.seed:
            return Examined("the seed is not in the form that is stored", None, times)
        game = record.replay()
    except EngineError as error:
        return Examined(f"the log does not replay: {error}", None, times)
    return Examined(_compare(record, game, times), game, times)


def _compare(record: Record, game: Game, times: list[int]) -> str | None:
    if record.hidden and not (record.spec == DEFAULT_SPEC and _DRAWN.fullmatch(record.seed)):
        return "the deal is hidden, but its seed is none that the server draws"
    if len(times) != game.ply or pack_times(times) != record.times:
        return f"the times are not those of {game.ply} entries"
    playing = game.status == "playing"
    timed_out = playing and record.status == TIMED_OUT
    status = TIMED_OUT if timed_out else None if playing else game.status
    expected = {
        "ply": game.ply,
        "status": status,
        "score": None if status is None else game.position.score,
    }
    for name, value in expected.items():
        if getattr(record, name) != value:
            return f"{name} is {getattr(record, name)}, the log gives {value}"
    if timed_out and record.ended_at != record.deadline:
        return "the deadline ended it, but not at its deadline"
    if (
        record.ended_at is not None
        and not timed_out
        and _ms(record.ended_at - record.created_at) != times[-1]
    ):
        return "ended_at is not the instant of the last entry"
    return None


def _ms(span: timedelta) -> float:
    """Return a span in ms; times may be damaged so far that they are no span any more."""
    return span / timedelta(milliseconds=1)
