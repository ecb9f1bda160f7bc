"""The audit: every stored game against its own log."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, func, select

from service.engine.errors import EngineError
from service.engine.replay import unpack_times
from service.games import Record
from service.store.database import Database
from service.store.tables import games

_PAGE: Final = 500


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
    while records := database.run(partial(_page, after=last)):
        for record in records:
            detail = judge(record)
            yield record.id, None if detail is None else Fault(record.id, detail)
        last = records[-1].id


def _page(connection: Connection, *, after: UUID | None) -> list[Record]:
    query = select(games).order_by(games.c.id).limit(_PAGE)
    if after is not None:
        query = query.where(games.c.id > after)
    return [Record(*row) for row in connection.execute(query)]


def judge(record: Record) -> str | None:
    """Return what is wrong with a row, None if all that it holds follows from its deal and log."""
    try:
        game = record.replay()
    except EngineError as error:
        return f"the log does not replay: {error}"
    times = unpack_times(record.times)
    if len(times) != game.ply:
        return f"{len(times)} instants for {game.ply} entries"
    playing = game.status == "playing"
    ended_at = None if playing else record.created_at + timedelta(milliseconds=times[-1])
    expected = {
        "ply": game.ply,
        "status": None if playing else game.status,
        "score": None if playing else game.position.score,
        "ended_at": ended_at,
    }
    for name, value in expected.items():
        if getattr(record, name) != value:
            return f"{name} is {getattr(record, name)}, the log gives {value}"
    return None
