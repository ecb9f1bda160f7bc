"""Players and their tokens."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert

from service import access, tokens
from service.access import Viewer
from service.store import tables
from service.store.database import Instant, Statement


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


_NOW: Final = select(func.now())
_TOKEN: Final = tables.tokens.c
_TOKEN_COLUMNS: Final = (
    _TOKEN.id,
    _TOKEN.scopes,
    _TOKEN.created_at,
    _TOKEN.expires_at,
    _TOKEN.revoked_at,
    _TOKEN.last_used_at,
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
        },
    )


def me(connection: Connection, instant: Instant, token: bytes | None) -> tuple[Player, Viewer]:
    """Return whose token this is, and what it is good for."""
    row = _WHO.on(connection, token=token).fetchone() or ()
    _, who = access.viewer(connection, row, token, instant)
    who = access.demand(who, "games:read")
    name, created_at = row[len(access.COLUMNS) :]
    return Player(who.player, name, created_at), who


def list_tokens(connection: Connection, instant: Instant, token: bytes | None) -> list[Token]:
    """Return the viewer's tokens, newest first, revoked ones included."""
    _, who = me(connection, instant, token)
    return tokens_of(connection, who.player)


def exists(connection: Connection, player: UUID) -> bool:
    """Return whether there is such a player."""
    query = select(func.count()).where(tables.players.c.id == player)
    return bool(connection.execute(query).scalar_one())


def tokens_of(connection: Connection, player: UUID) -> list[Token]:
    """Return a player's tokens, newest first, revoked ones included."""
    query = select(*_TOKEN_COLUMNS).where(_TOKEN.player_id == player).order_by(_TOKEN.id.desc())
    return [Token(row.id, tuple(row.scopes), *row[2:]) for row in connection.execute(query)]


_REVOKE: Final = (
    update(tables.tokens)
    .where(_TOKEN.id == bindparam("token_id"), _TOKEN.player_id == bindparam("player"))
    .values(revoked_at=func.coalesce(_TOKEN.revoked_at, bindparam("now")))
)


def revoke(connection: Connection, instant: Instant, token: bytes | None, token_id: UUID) -> None:
    """Revoke one of the viewer's tokens, which may be the one they use; again is no error.

    Raises:
        NotFoundError: They have no such token.
    """
    now, who = access.read_viewer(connection, token, instant)
    who = access.demand(who, "games:read")
    found = connection.execute(
        _REVOKE, {"token_id": token_id, "player": who.player, "now": now}
    ).rowcount
    if not found:
        access.not_found("token")


def revoke_any(connection: Connection, token_id: UUID) -> bool:
    """Revoke a token whosever it is, and return whether there is one."""
    query = (
        update(tables.tokens)
        .where(_TOKEN.id == token_id)
        .values(revoked_at=func.coalesce(_TOKEN.revoked_at, func.now()))
    )
    return bool(connection.execute(query).rowcount)
