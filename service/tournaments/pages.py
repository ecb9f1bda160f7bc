"""Pages of standings: any part of the order, with ranks exact as of one instant.

Each page is one statement, so all of it is of one state of the database: rows, ranks, the number of
the tournament's last event and the instant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    Boolean,
    Connection,
    Integer,
    LargeBinary,
    SmallInteger,
    TextClause,
    Uuid,
    bindparam,
    text,
)
from sqlalchemy.types import TypeEngine

from service import access
from service.lists import Page, Place
from service.standings import UNRANKED
from service.store.database import Instant, Statement
from service.tournaments.model import STAFF, Json, NotEnteredError, RoleMissingError, Seen, look


@dataclass(frozen=True, slots=True)
class Row:
    """An entry's place.

    Attributes:
        entry: The entry's id.
        player: The player's id.
        name: The player's name; empty for one who is gone.
        rank: Shared by equal ones; None for an entry without one.
        position: Its own, from 1.
        told: Total and cells, as ``service.standings`` writes them.
    """

    entry: UUID
    player: UUID
    name: str
    rank: int | None
    position: int
    told: Json


@dataclass(frozen=True, slots=True)
class Board:
    """A part of the standings.

    Attributes:
        seen: The tournament.
        round: The round, or 0 for all together.
        frozen: Whether they are as they were when the tournament was frozen.
        as_of: The instant at which they were so.
        event: Number of the last event that is in them.
        page: The rows.
    """

    seen: Seen
    round: int
    frozen: bool
    as_of: datetime
    event: int
    page: Page[Row]


_FIRST: Final = """
SELECT entry_id, key, told FROM kept ORDER BY key, entry_id LIMIT :limit
"""
_AFTER: Final = """
SELECT entry_id, key, told FROM kept WHERE (key, entry_id) > (:key, :entry)
ORDER BY key, entry_id LIMIT :limit
"""
_BEFORE: Final = """
SELECT entry_id, key, told FROM kept WHERE (key, entry_id) < (:key, :entry)
ORDER BY key DESC, entry_id DESC LIMIT :limit
"""
_AROUND: Final = """
(
    SELECT entry_id, key, told FROM kept
    WHERE (key, entry_id) >= (SELECT key, entry_id FROM kept WHERE entry_id = :entry)
    ORDER BY key, entry_id LIMIT :limit + 1
) UNION ALL (
    SELECT entry_id, key, told FROM kept
    WHERE (key, entry_id) < (SELECT key, entry_id FROM kept WHERE entry_id = :entry)
    ORDER BY key DESC, entry_id DESC LIMIT :limit
)
"""


# Measured with 10,000 entries: counting by pairs of key and id takes four times as long as by the
# key, and its equals apart; a plan kept for any limit reads all entries unless each row asks for
# its own; and of keys below one that is not known yet Postgres supposes a third of all, for which
# it reads the whole table, but of keys between two a few, for which it goes by the index.
_PAGE: Final = """
WITH kept AS NOT MATERIALIZED (
    SELECT entry_id, key, told FROM tournament_standings
    WHERE tournament_id = :tournament AND frozen = :frozen AND round = :round
), page AS MATERIALIZED (
    ROWS
), first AS (
    SELECT key, entry_id FROM page ORDER BY key, entry_id LIMIT 1
)
SELECT page.entry_id, page.key, page.told, whose.player_id, whose.name,
    (SELECT count(*) FROM kept WHERE key >= '' AND key < (SELECT key FROM first)),
    (SELECT count(*) FROM kept
        WHERE key = (SELECT key FROM first) AND entry_id < (SELECT entry_id FROM first)),
    (SELECT frozen_at FROM tournaments WHERE id = :tournament),
    (SELECT events FROM tournaments WHERE id = :tournament), now()
FROM page, LATERAL (
    SELECT entry.player_id, player.name
    FROM tournament_entries AS entry JOIN players AS player ON player.id = entry.player_id
    WHERE entry.tournament_id = :tournament AND entry.id = page.entry_id LIMIT 1
) AS whose
ORDER BY page.key, page.entry_id
"""


def _statement(rows: str) -> Statement:
    return Statement(_typed(text(_PAGE.replace("ROWS", rows))))


def _typed(written: TextClause) -> TextClause:
    types: dict[str, TypeEngine[Any]] = {
        "tournament": Uuid(),
        "frozen": Boolean(),
        "round": SmallInteger(),
        "key": LargeBinary(),
        "entry": Uuid(),
        "limit": Integer(),
    }
    named = [bindparam(name, type_=of) for name, of in types.items() if f":{name}" in written.text]
    return written.bindparams(*named)


_PAGE_FIRST: Final = _statement(_FIRST)
_PAGE_AFTER: Final = _statement(_AFTER)
_PAGE_BEFORE: Final = _statement(_BEFORE)
_PAGE_AROUND: Final = _statement(_AROUND)


def board(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    number: int,
    live: bool,
    limit: int,
    place: Place | None,
) -> Board:
    """Return a page of standings, the best first.

    Args:
        connection: Two statements are made.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        number: The round, or 0 for all together.
        live: Whether to see them as they are though they are frozen.
        limit: Most rows.
        place: Beside which row the page lies; None for the first page.

    Raises:
        NotFoundError: There is no such tournament for this viewer, or it has no such round.
        RoleMissingError: Only those who host it see through a freeze.
    """
    better = place is not None and place.newer

    def page_of(_: Seen, frozen: bool) -> Sequence[Any]:  # noqa: FBT001
        given = {"tournament": tournament_id, "frozen": frozen, "round": number, "limit": limit + 1}
        if place is None:
            return _PAGE_FIRST.on(connection, **given).fetchall()
        beside = _PAGE_BEFORE if better else _PAGE_AFTER
        return beside.on(connection, **given, key=place.key, entry=place.item).fetchall()

    see = partial(_see, connection, instant, token, tournament_id, number, live=live)
    seen, frozen, found = _agreeing(see, page_of)
    more = len(found) > limit
    # Of one too many the one that is farthest from the place goes.
    drop = 1 if more and better else 0
    rows, event, as_of = _rows(seen, found)
    rows, found = rows[drop : drop + limit], found[drop : drop + limit]
    before, after = (more, True) if better else (place is not None, more)
    page = Page(
        rows,
        _place(found[0], newer=True) if rows and before else None,
        _place(found[-1], newer=False) if rows and after else None,
    )
    return Board(seen, number, frozen, as_of, event, page)


def around(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    number: int,
    live: bool,
    each: int,
    entry: UUID | None,
) -> Board:
    """Return an entry's place with those before and after it; raises as :func:`board`.

    Args:
        connection: Two statements are made.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        number: The round, or 0 for all together.
        live: Whether to see them as they are though they are frozen.
        each: Most rows on either side.
        entry: The entry; None for the viewer's own.

    Raises:
        NotEnteredError: The viewer has none.
    """

    def page_of(seen: Seen, frozen: bool) -> Sequence[Any]:  # noqa: FBT001
        whose = entry
        if whose is None:
            access.demand(seen.who)
            if seen.own is None:
                raise NotEnteredError("there is no entry of yours")
            whose = seen.own.id
        given = {"tournament": tournament_id, "frozen": frozen, "round": number}
        return _PAGE_AROUND.on(connection, **given, entry=whose, limit=each).fetchall()

    see = partial(_see, connection, instant, token, tournament_id, number, live=live)
    seen, frozen, found = _agreeing(see, page_of)
    if not found:
        access.not_found("entry in these standings")
    rows, event, as_of = _rows(seen, found)
    return Board(seen, number, frozen, as_of, event, Page(rows, None, None))


def _see(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    number: int,
    *,
    live: bool,
) -> tuple[Seen, bool]:
    """Return the tournament, and whether its kept standings are to be shown."""
    seen = look(connection, instant, token, tournament_id)
    if live and seen.role not in STAFF:
        raise RoleMissingError("only those who host the tournament see through a freeze")
    if not 0 <= number <= len(seen.tournament.course.rounds):
        access.not_found("round")
    return seen, seen.tournament.frozen_at is not None and not live


def _agreeing(
    see: Callable[[], tuple[Seen, bool]], page_of: Callable[[Seen, bool], Sequence[Any]]
) -> tuple[Seen, bool, Sequence[Any]]:
    """Return the tournament, whether its kept standings are shown, and a page of just those.

    Nobody froze it, or showed it again, between the two statements: else both are read anew.
    """
    seen, frozen = see()
    while True:
        found = page_of(seen, frozen)
        again, showing = (seen, frozen) if found else see()
        frozen_at = found[0][_FROZEN_AT] if found else again.tournament.frozen_at
        if frozen_at == seen.tournament.frozen_at:
            return seen, frozen, found
        seen, frozen = see() if found else (again, showing)


_FROZEN_AT: Final = 7


def _rows(seen: Seen, found: Sequence[Any]) -> tuple[list[Row], int, datetime]:
    rows: list[Row] = []
    event, as_of = found[0][-2:] if found else (seen.tournament.events, seen.now)
    last: bytes | None = None
    rank = 0
    for n, (entry, key, told, player, name, better, equal, *_) in enumerate(found):
        position = better + equal + n + 1
        if key != last:
            rank = position if n else better + 1
        last = key
        rows.append(Row(entry, player, name, None if key == UNRANKED else rank, position, told))
    return rows, event, as_of


def _place(row: Any, *, newer: bool) -> Place:
    return Place(row[0], newer=newer, key=bytes(row[1]))
