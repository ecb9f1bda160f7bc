"""Players and their tokens: made, told, changed, deleted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Row, RowMapping, bindparam, delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from service import access, lists, tokens
from service.access import Viewer
from service.engine.errors import RendezvousError
from service.lists import Page, Place
from service.store import tables
from service.store.database import Database, Instant, Statement
from service.store.personal import HOLDINGS, Holding

MAX_TOKENS: Final = 100
"""Most good tokens of a player: rate limits and streams are counted for each."""


class TooManyTokensError(RendezvousError):
    """The player has so many good tokens that they may mint no more."""

    code = "too-many-tokens"


@dataclass(frozen=True, slots=True)
class Player:
    """A player."""

    id: UUID
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token once its text is forgotten."""

    id: UUID
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    minted_by: UUID | None


_NOW: Final = select(func.now())
_TOKEN: Final = tables.tokens.c
_TOKEN_COLUMNS: Final = (
    _TOKEN.id,
    _TOKEN.scopes,
    _TOKEN.created_at,
    _TOKEN.expires_at,
    _TOKEN.revoked_at,
    _TOKEN.last_used_at,
    _TOKEN.minted_by,
)
_WHO: Final = Statement(
    select(*access.COLUMNS, tables.players.c.name, tables.players.c.created_at).select_from(
        access.with_token(tables.players, tables.players.c.id == _TOKEN.player_id)
    )
)


def register(
    connection: Connection, instant: Instant, ids: tuple[UUID, UUID], name: str, token: str
) -> Player:
    """Make a player and their first token, and return the player.

    Args:
        connection: In a transaction.
        instant: The request's.
        ids: Of the player and of the token.
        name: Shown to others; need not be unique.
        token: The token's text, of which only the fingerprint is stored.
    """
    now = instant.fix(connection.execute(_NOW).scalar_one())
    player, token_id = ids
    connection.execute(
        insert(tables.players).on_conflict_do_nothing(),
        {"id": player, "name": name, "created_at": now},
    )
    give_token(connection, now, token_id, player, token, tokens.FIRST_SCOPES, None)
    return Player(player, name, now)


def give_token(
    connection: Connection,
    now: datetime,
    token_id: UUID,
    player: UUID,
    token: str,
    scopes: tuple[str, ...],
    expires_at: datetime | None,
    minted_by: UUID | None = None,
) -> None:
    """Add a token to a player."""
    connection.execute(
        insert(tables.tokens).on_conflict_do_nothing(),
        {
            "id": token_id,
            "player_id": player,
            "hash": tokens.fingerprint(token),
            "scopes": list(scopes),
            "created_at": now,
            "expires_at": expires_at,
            "minted_by": minted_by,
        },
    )


def me(connection: Connection, instant: Instant, token: bytes | None) -> tuple[Player, Viewer]:
    """Return whose token this is, and what it is good for."""
    row = _WHO.on(connection, token=token).fetchone() or ()
    _, who = access.viewer(connection, row, token, instant)
    who = access.demand(who, *access.READ)
    name, created_at = row[len(access.COLUMNS) :]
    return Player(who.player, name, created_at), who


def list_tokens(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    *,
    limit: int,
    place: Place | None = None,
) -> Page[Token]:
    """Return a page of the viewer's tokens, newest first, revoked ones included."""
    _, who = access.read_viewer(connection, token, instant)
    who = access.demand(who, *access.READ)
    query = select(*_TOKEN_COLUMNS).where(_TOKEN.player_id == who.player)
    return lists.read(connection, query, _TOKEN.id, _as_token, limit=limit, place=place)


def exists(connection: Connection, player: UUID) -> bool:
    """Return whether there is such a player, who has not been deleted."""
    there = (tables.players.c.id == player) & tables.players.c.deleted_at.is_(None)
    query = select(func.count()).where(there)
    return bool(connection.execute(query).scalar_one())


def tokens_of(connection: Connection, player: UUID) -> list[Token]:
    """Return a player's tokens, newest first, revoked ones included."""
    query = select(*_TOKEN_COLUMNS).where(_TOKEN.player_id == player).order_by(_TOKEN.id.desc())
    return [_as_token(row) for row in connection.execute(query)]


def _as_token(row: Row[*tuple[Any, ...]]) -> Token:
    return Token(row.id, tuple(row.scopes), *row[2:])


def mint(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    *,
    token_id: UUID,
    text: str,
    scopes: tuple[str, ...],
    days: int | None,
) -> Token:
    """Give the viewer a further token, no wider and no longer good than the one they use.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        token_id: A new UUIDv7.
        text: The new token's text, of which only the fingerprint is stored.
        scopes: What it is to be good for.
        days: After how many days it is to expire, if ever.

    Raises:
        ScopeMissingError: The token that is used lacks one of the scopes.
        TooManyTokensError: The player has as many that are good as one may have.
    """
    now, who = access.read_alone(connection, token, instant)
    access.demand(who, *scopes)
    if connection.execute(_GOOD, {"player": who.player, "now": now}).scalar_one() >= MAX_TOKENS:
        raise TooManyTokensError(f"{MAX_TOKENS} good tokens are as many as a player may have")
    ends = [who.until] if who.until else []
    if days is not None:
        ends.append(now + timedelta(days=days))
    until = min(ends, default=None)
    give_token(connection, now, token_id, who.player, text, scopes, until, who.token)
    return Token(token_id, scopes, now, until, None, None, who.token)


_GOOD: Final = (
    select(func.count())
    .select_from(tables.tokens)
    .where(_TOKEN.player_id == bindparam("player"), _TOKEN.revoked_at.is_(None))
    .where(_TOKEN.expires_at.is_(None) | (_TOKEN.expires_at > bindparam("now")))
)
_REVOKE: Final = (
    update(tables.tokens)
    .where(_TOKEN.player_id == bindparam("player"))
    .values(revoked_at=func.coalesce(_TOKEN.revoked_at, bindparam("now")))
)
_MINTED: Final = (
    select(_TOKEN.id)
    .where(_TOKEN.id == bindparam("token_id"), _TOKEN.player_id == bindparam("player"))
    .cte("minted", recursive=True)
)
_AND_MINTED: Final = _MINTED.union(
    select(_TOKEN.id)
    .join(_MINTED, _TOKEN.minted_by == _MINTED.c.id)
    .where(_TOKEN.player_id == bindparam("player"))
)


def revoke(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    token_id: UUID,
    *,
    minted: bool = False,
) -> None:
    """Revoke one of the viewer's tokens, which may be the one they use; again is no error.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        token_id: The token to revoke.
        minted: Whether also those that it minted, and those that they did, and so on.

    Raises:
        NotFoundError: They have no such token.
        ScopeMissingError: It is not the one they use, which lacks a scope.
    """
    now, who = access.read_alone(connection, token, instant)
    if token_id != who.token:
        access.demand(who, *access.MANAGE)
    which = (
        _TOKEN.id.in_(select(_AND_MINTED.c.id)) if minted else _TOKEN.id == bindparam("token_id")
    )
    values = {"token_id": token_id, "player": who.player, "now": now}
    if not connection.execute(_REVOKE.where(which), values).rowcount:
        access.not_found("token")


def revoke_all(connection: Connection, instant: Instant, token: bytes | None) -> None:
    """Revoke every token of the viewer's, that which they use included; in a transaction."""
    now, who = access.read_alone(connection, token, instant)
    access.demand(who, *access.MANAGE)
    connection.execute(_REVOKE, {"player": who.player, "now": now})


def revoke_any(connection: Connection, token_id: UUID) -> bool:
    """Revoke a token whosever it is, and return whether there is one."""
    query = (
        update(tables.tokens)
        .where(_TOKEN.id == token_id)
        .values(revoked_at=func.coalesce(_TOKEN.revoked_at, func.now()))
    )
    return bool(connection.execute(query).rowcount)


def rename(
    connection: Connection, instant: Instant, token: bytes | None, name: str
) -> tuple[Player, Viewer]:
    """Give the viewer another name and return them; in a transaction.

    No game and no replay holds a name.
    """
    _, who = access.read_alone(connection, token, instant)
    access.demand(who, *access.MANAGE)
    player, who = me(connection, instant, token)
    query = update(tables.players).where(tables.players.c.id == player.id).values(name=name)
    connection.execute(query)
    return replace(player, name=name), who


def leave(connection: Connection, instant: Instant, token: bytes | None) -> None:
    """Delete the viewer; in a transaction. See :func:`forget`."""
    now, who = access.read_alone(connection, token, instant)
    access.demand(who, *access.MANAGE)
    forget(connection, now, [who.player])


def forget(connection: Connection, now: datetime, players: Sequence[UUID]) -> None:
    """Delete players: their names, tokens, imports and games in play.

    Games that have ended stay, with their replays, as those of somebody without a name.

    Args:
        connection: In a transaction that holds the players' rows.
        now: The instant.
        players: Their ids.
    """
    for holding in reversed(HOLDINGS):
        theirs = holding.owner.in_(players)
        connection.execute(delete(holding.table).where(theirs, holding.removed))
        if holding.erased:
            connection.execute(update(holding.table).where(theirs).values(**holding.erased))
    gone = tables.players.c.id.in_(players)
    connection.execute(update(tables.players).where(gone).values(deleted_at=now))


_ROWS: Final = 100


def export(database: Database, player: UUID) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all that is held of a player: tables' names and rows, a member for each told value.

    Rows are read by the hundred, each time anew: no transaction is long and memory stays flat.
    """
    for holding in HOLDINGS:
        last: tuple[Any, ...] | None = None
        while rows := database.run(partial(_rows_of, holding=holding, player=player, after=last)):
            for row in rows:
                told = {name: value for name, value in row.items() if value is not None}
                yield holding.table.name, told
            last = tuple(rows[-1][key.name] for key in holding.table.primary_key)


def _rows_of(
    connection: Connection, *, holding: Holding, player: UUID, after: tuple[Any, ...] | None
) -> Sequence[RowMapping]:
    keys = tuple(holding.table.primary_key)
    told = [holding.hidden.get(name, holding.table.c[name]).label(name) for name in holding.told]
    query = select(*told).where(holding.owner == player).order_by(*keys).limit(_ROWS)
    if after is not None:
        query = query.where(tuple_(*keys) > tuple_(*after))
    return connection.execute(query).mappings().all()
