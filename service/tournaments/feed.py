"""The events of a tournament, in their order: what is audited, and told live."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, select

from service.store import tables
from service.store.database import Instant
from service.tournaments.model import STAFF, Json, Seen, look


@dataclass(frozen=True, slots=True)
class Happening:
    """An event as it is stored."""

    number: int
    at: datetime
    kind: str
    public: bool
    by: UUID | None
    entry: UUID | None
    reason: str | None
    data: Json


_E: Final = tables.events.c
_COLUMNS: Final = (
    *(_E.number, _E.at, _E.kind, _E.public, _E.by_player, _E.entry_id, _E.reason, _E.data),
)


def read(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    after: int,
    limit: int,
) -> tuple[Seen, list[Happening]]:
    """Return the next events after one, by its number, that the viewer may know of.

    Numbers are left out where an event is the hosts' alone.

    Raises:
        NotFoundError: There is no such tournament for this viewer.
    """
    seen = look(connection, instant, token, tournament_id)
    query = (
        select(*_COLUMNS)
        .where(_E.tournament_id == tournament_id, _E.number > after)
        .order_by(_E.number)
        .limit(limit)
    )
    if seen.role not in STAFF:
        query = query.where(_E.public)
    rows: list[Any] = list(connection.execute(query))
    return seen, [Happening(*row) for row in rows]
