"""What goes when nobody needs it any more: players that never came back, and leftovers."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    tuple_,
)

from service.games import EPOCH
from service.players import forget
from service.repeats import KEPT
from service.store.database import Database
from service.store.tables import (
    deliveries,
    entries,
    games,
    idempotency_keys,
    players,
    tokens,
    tournaments,
)

TOKENS_KEPT: Final = timedelta(days=30)
"""How long a token is still told of after it was revoked or has expired."""
DELIVERIES_KEPT: Final = timedelta(days=30)
"""How long what was posted to a webhook is told, and how that went."""

# A tournament's attempt counts as it stands at its deadline, whoever is gone.
_ABANDONED: Final = games.c.ended_at.is_(None) & games.c.tournament_id.is_(None)
_DAY: Final = timedelta(days=1)
_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class Tidied:
    """How much went, or would go.

    Attributes:
        players: Players that never came back.
        games: Games in play, of theirs and of players deleted before.
        rows: Rows of players deleted before, of whom no game is left.
        keys: Idempotency keys that stand for nothing any more.
        tokens: Tokens that were revoked or expired long ago, beside those of such players.
        deliveries: Attempts to post to webhooks that were made long ago.
    """

    players: int
    games: int
    rows: int
    keys: int
    tokens: int
    deliveries: int


def tidy(database: Database, days: int, *, dry: bool = False) -> Tidied:
    """Delete what nobody needs any more, by small transactions, and return how much that was.

    Players never came back who are some days old and used no token after their first day. They are
    deleted as if they had asked for it: games that have ended stay.

    Args:
        database: The database, which may be in use.
        days: So old a player must be; 0 to keep them all.
        dry: Whether to count only.
    """
    now = database.now()
    gone, empty = _never_came_back(now, days), _nothing_left(now)
    stray, old = _stray_games(now), idempotency_keys.c.created_at <= now - KEPT
    useless, posted = _useless_tokens(now), deliveries.c.at < now - DELIVERIES_KEPT
    stays = tokens.c.player_id.not_in(select(players.c.id).where(gone))
    theirs = games.c.player_id.in_(select(players.c.id).where(gone)) & _ABANDONED
    counted = (
        select(func.count()).select_from(players).where(gone),
        select(func.count()).select_from(games).where(theirs | stray),
        select(func.count()).select_from(players).where(empty),
        select(func.count()).select_from(idempotency_keys).where(old),
        select(func.count()).select_from(tokens).where(useless & stays),
        select(func.count()).select_from(deliveries).where(posted),
    )

    def count(connection: Connection) -> Tidied:
        return Tidied(*(connection.execute(query).scalar_one() for query in counted))

    found = database.run(count)
    if not dry:
        _delete_all(database, games, stray)
        _delete_all(database, idempotency_keys, old)
        _forget_all(database, now, gone)
        _forget_all(database, now, empty, wholly=True)
        _delete_all(database, tokens, useless)
        _delete_all(database, deliveries, posted)
    return found


def _never_came_back(now: datetime, days: int) -> ColumnElement[bool]:
    used_later = exists().where(
        tokens.c.player_id == players.c.id, tokens.c.last_used_at >= players.c.created_at + _DAY
    )
    if not days:
        return players.c.id.is_(None)
    return (
        players.c.deleted_at.is_(None)
        & (players.c.created_at < now - timedelta(days=days))
        & ~used_later
    )


def _deleted(now: datetime) -> ColumnElement[bool]:
    # A day after a deletion no request is under way any more that could still add something.
    return players.c.deleted_at < now - _DAY


def _nothing_left(now: datetime) -> ColumnElement[bool]:
    stays = (
        exists().where(games.c.player_id == players.c.id, ~_ABANDONED),
        exists().where(entries.c.player_id == players.c.id),
        exists().where(tournaments.c.owner_id == players.c.id),
    )
    return _deleted(now) & ~or_(*stays)


def _stray_games(now: datetime) -> ColumnElement[bool]:
    """Return which games were being created while their player was deleted."""
    deleted = select(players.c.id).where(_deleted(now))
    return games.c.player_id.in_(deleted) & _ABANDONED


def _useless_tokens(now: datetime) -> ColumnElement[bool]:
    """Return which tokens were revoked or expired long ago and tell nothing any more.

    The one that a player used last tells whether they came back. And whoever revokes a token with
    what it minted reaches that through all that stand between.
    """
    of, other, above = tokens.c, tokens.alias("other").c, tokens.alias("above").c
    ended = or_(of.revoked_at < now - TOKENS_KEPT, of.expires_at < now - TOKENS_KEPT)
    used = tuple_(func.coalesce(of.last_used_at, EPOCH), of.id)
    used_later = exists().where(
        other.player_id == of.player_id,
        tuple_(func.coalesce(other.last_used_at, EPOCH), other.id) > used,
    )
    spent = func.coalesce(ended, false()) & used_later
    minters = select(of.minted_by.label("id")).where(of.minted_by.is_not(None), ~spent)
    between = minters.cte(recursive=True)
    further = select(above.minted_by).where(above.id == between.c.id, above.minted_by.is_not(None))
    return spent & of.id.not_in(select(between.union(further).c.id))


def _delete_all(database: Database, table: Table, which: ColumnElement[bool]) -> None:
    """Delete these rows, some at a time; what others are at work with is left to the next time."""
    key = tuple_(*table.primary_key)
    some = select(*table.primary_key).where(which).limit(_BATCH).with_for_update(skip_locked=True)
    query = delete(table).where(key.in_(some))
    while database.run(lambda connection: connection.execute(query).rowcount):
        pass


def _forget_all(
    database: Database, now: datetime, which: ColumnElement[bool], *, wholly: bool = False
) -> None:
    query = select(players.c.id).where(which).limit(_BATCH).with_for_update(skip_locked=True)

    def some(connection: Connection) -> int:
        ids: list[UUID] = list(connection.execute(query).scalars())
        forget(connection, now, ids)
        if wholly:
            connection.execute(delete(players).where(players.c.id.in_(ids)))
        return len(ids)

    while database.run(some, transaction=True):
        pass
