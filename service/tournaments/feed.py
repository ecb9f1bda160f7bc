"""The events of a tournament, in their order: what is audited, and told live."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Connection,
    Integer,
    Uuid,
    bindparam,
    select,
    text,
)

from service.store import tables
from service.store.database import Instant, Statement
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
    hosts = seen.role in STAFF
    return seen, after_number(connection, tournament_id, after, limit=limit, hosts=hosts)


def after_number(
    connection: Connection, tournament: UUID, number: int, *, limit: int, hosts: bool
) -> list[Happening]:
    """Return the next events after one.

    Args:
        connection: One statement is made.
        tournament: The tournament's id.
        number: The one's number.
        limit: Most events.
        hosts: Whether to tell also what is the hosts' alone.
    """
    query = (
        select(*_COLUMNS)
        .where(_E.tournament_id == tournament, _E.number > number)
        .order_by(_E.number)
        .limit(limit)
    )
    if not hosts:
        query = query.where(_E.public)
    rows: list[Any] = list(connection.execute(query))
    return [Happening(*row) for row in rows]


_ROWS_AT_ONCE: Final = 500
_MARK: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,15}))?")


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of a tournament's events, as the id of a live event names it.

    Attributes:
        number: The number of the last event so far.
        at: Its instant, in ms since 1970; None in a mark that was made of a number alone.
    """

    number: int
    at: int | None

    @classmethod
    def parse(cls, written: str) -> Self:
        """Return the mark of a text: ``57-1769865337440`` or, from who knows no more, ``57``.

        Raises:
            ValueError: It is none.
        """
        found = _MARK.fullmatch(written)
        if found is None:
            raise ValueError(
                "not the id of an event: a number, or a number, a hyphen and an instant"
            )
        return cls(int(found[1]), int(found[2]) if found[2] else None)

    @classmethod
    def of(cls, number: int, at: datetime) -> Self:
        """Return the mark of the event of this number and instant."""
        return cls(number, (at - _EPOCH) // _MILLISECOND)

    def __str__(self) -> str:
        return f"{self.number}-{self.at}"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def went_through(connection: Connection, tournament: UUID, mark: Mark) -> bool:
    """Return whether a tournament's events, as they are stored, went through this point.

    They did not if the database was restored to an earlier state, whatever has happened since.
    """
    if mark.number == 0:
        return True
    query = select(_E.at).where(_E.tournament_id == tournament, _E.number == mark.number)
    at = connection.execute(query).scalar_one_or_none()
    return at is not None and mark.at in {None, Mark.of(mark.number, at).at}


@dataclass(frozen=True, slots=True)
class Watch:
    """Who watches a tournament, and what is known of it.

    Attributes:
        tournament: The tournament's id.
        mark: Its last event, as far as is known.
        token: The id of the token that watches; None for somebody without one.
        hosts: Whether they are told what is the hosts' alone.
    """

    tournament: UUID
    mark: Mark
    token: UUID | None
    hosts: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at a watched tournament gave.

    Attributes:
        watch: What was asked.
        allowed: Whether whoever watches may go on.
        mark: The tournament's last event; None if it is there no more.
        over: ``final`` or ``cancelled``, None while it is neither.
    """

    watch: Watch
    allowed: bool
    mark: Mark | None
    over: str | None


def moved(
    connection: Connection, watched: Sequence[Watch]
) -> tuple[list[Found], dict[UUID, tuple[Mark, list[Happening]]]]:
    """Return what has changed of what is watched.

    Args:
        connection: One statement is made for all, and a second one if some have new events.
        watched: What is watched; of the same tournament with the same mark.

    Returns:
        For which of these anything is not as it is known, or whoever watches may not go on; and of
        each tournament that has moved on where it is, and its events from the known one on, that
        one included: without it in its place the database was restored to an earlier state.
    """
    found = _changes(connection, watched)
    marks = {one.watch.tournament: (one.watch.mark, one.mark) for one in found}
    known = {one: before for one, (before, after) in marks.items() if after not in {None, before}}
    rows = _since(connection, known) if known else {}
    return found, {one: (marks[one][1] or known[one], rows[one]) for one in known}


def _changes(connection: Connection, watched: Sequence[Watch]) -> list[Found]:
    found = _CHANGES.on(
        connection,
        tournaments=[one.tournament for one in watched],
        numbers=[one.mark.number for one in watched],
        ats=[one.mark.at for one in watched],
        tokens=[one.token for one in watched],
        hosts=[one.hosts for one in watched],
    )
    return [
        Found(
            watched[place - 1],
            bool(allowed),
            None if number is None else Mark.of(number, at),
            over,
        )
        for place, allowed, number, at, over in found
    ]


# The same that model.look asks of a viewer.
_CHANGES: Final = Statement(
    text("""
SELECT place, allowed, events, told_at, over FROM (
    SELECT place, known, known_at, t.events, t.told_at,
        CASE WHEN t.cancelled_at IS NOT NULL THEN 'cancelled'
            WHEN t.finalised_at IS NOT NULL THEN 'final' END AS over,
        (w.token IS NULL OR (k.id IS NOT NULL AND k.revoked_at IS NULL
            AND coalesce(k.expires_at > now(), true)))
        AND CASE
            WHEN t.owner_id = k.player_id OR 'admin' = ANY(k.scopes)
                OR EXISTS (SELECT FROM tournament_roles AS r
                    WHERE r.tournament_id = t.id AND r.player_id = k.player_id)
            THEN true
            WHEN w.hosts OR t.published_at IS NULL AND t.cancelled_at IS NULL THEN false
            ELSE t.visibility <> 'private' OR EXISTS (SELECT FROM tournament_entries AS e
                WHERE e.tournament_id = t.id AND e.player_id = k.player_id)
        END AS allowed
    FROM unnest(:tournaments, :numbers, :ats, :tokens, :hosts) WITH ORDINALITY
        AS w (tournament, known, known_at, token, hosts, place)
    LEFT JOIN tournaments AS t ON t.id = w.tournament
    LEFT JOIN tokens AS k ON k.id = w.token
) AS seen
WHERE over IS NOT NULL OR allowed IS NOT true OR events <> known
    OR floor(extract(epoch FROM told_at) * 1000) <> known_at
""").bindparams(
        bindparam("tournaments", type_=ARRAY(Uuid)),
        bindparam("numbers", type_=ARRAY(Integer)),
        bindparam("ats", type_=ARRAY(BigInteger)),
        bindparam("tokens", type_=ARRAY(Uuid)),
        bindparam("hosts", type_=ARRAY(Boolean)),
    )
)


def _since(connection: Connection, marks: Mapping[UUID, Mark]) -> dict[UUID, list[Happening]]:
    rows = _SINCE.on(
        connection,
        tournaments=list(marks),
        numbers=[mark.number for mark in marks.values()],
        limit=_ROWS_AT_ONCE,
    )
    found: dict[UUID, list[Happening]] = {tournament: [] for tournament in marks}
    for tournament, *row in rows:
        found[tournament].append(Happening(*row))
    return found


_SINCE: Final = Statement(
    text("""
SELECT w.tournament, e.number, e.at, e.kind, e.public, e.by_player, e.entry_id, e.reason, e.data
FROM unnest(:tournaments, :numbers) AS w (tournament, known)
CROSS JOIN LATERAL (
    SELECT * FROM tournament_events
    WHERE tournament_id = w.tournament AND number >= w.known ORDER BY number LIMIT :limit
) AS e
""").bindparams(
        bindparam("tournaments", type_=ARRAY(Uuid)),
        bindparam("numbers", type_=ARRAY(Integer)),
        bindparam("limit", type_=Integer()),
    )
)
