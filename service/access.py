"""Who asks: the token of a request, read in the same statement as what the request is about."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn
from uuid import UUID

from sqlalchemy import Connection, FromClause, bindparam, func, literal, select, update

from service import tokens as texts
from service.engine.errors import RendezvousError
from service.store.database import Instant, Statement
from service.store.tables import players, tokens
from service.tokens import FIRST_SCOPES

_USE_NOTED_EVERY: Final = timedelta(minutes=1)


class TokenMissingError(RendezvousError):
    """The request carries no token and needs one."""

    code = "token-missing"


class TokenInvalidError(RendezvousError):
    """The token is not, or no longer, one of ours."""

    code = "token-invalid"


class ScopeMissingError(RendezvousError):
    """The token is good but not for this.

    Attributes:
        scope: What it would need.
    """

    code = "scope-missing"

    def __init__(self, scope: str) -> None:
        super().__init__(f"this needs a token with the scope {scope}")
        self.scope = scope


class NotFoundError(RendezvousError):
    """It does not exist, or not for the viewer."""

    code = "not-found"


@dataclass(frozen=True, slots=True)
class Viewer:
    """Whose token it is.

    Attributes:
        player: The player's id.
        token: The token's id.
        scopes: What the token is good for.
        until: When the token expires.
    """

    player: UUID
    token: UUID
    scopes: tuple[str, ...]
    until: datetime | None


def read_bearer(header: str | None) -> bytes | None:
    """Return the fingerprint of the token in an Authorization header.

    None without a header; nothing, of length 0, where it has no token of ours.
    """
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not texts.is_well_formed(token):
        return b""
    return texts.fingerprint(token)


def sound(token: bytes | None) -> bytes | None:
    """Return what :func:`read_bearer` gave, if it is no token or one of ours.

    Raises:
        TokenInvalidError: The header has no token of ours; the database need not be asked.
    """
    if token == b"":
        raise TokenInvalidError("Authorization holds no token of this service")
    return token


COLUMNS: Final = (
    func.now().label("now"),
    tokens.c.id.label("token_id"),
    tokens.c.player_id.label("viewer_id"),
    tokens.c.scopes,
    tokens.c.expires_at,
    tokens.c.revoked_at,
    tokens.c.last_used_at,
)
"""What every first statement reads, beside its own columns."""

_ONE: Final = select(literal(1).label("one")).subquery("one")


def with_token(to: FromClause | None = None, on: Any = None) -> FromClause:
    """Return what every first statement reads from: one row, whether or not anything matches.

    Args:
        to: A table joined to it, if any.
        on: The condition on that table.

    The parameter ``token`` is the token's fingerprint, or None.
    """
    source = _ONE.outerjoin(tokens, tokens.c.hash == bindparam("token"))
    return source if to is None else source.outerjoin(to, on)


def viewer(
    connection: Connection, row: Sequence[Any], fingerprint: bytes | None, instant: Instant
) -> tuple[datetime, Viewer | None]:
    """Return the request's instant and whose token its first statement found, None without one.

    Raises:
        TokenInvalidError: The token is unknown, revoked or expired.
    """
    now, token, player, scopes, expires_at, revoked_at, last_used_at = row[: len(COLUMNS)]
    now = instant.fix(now)
    if fingerprint is None:
        return now, None
    if token is None or revoked_at is not None:
        raise TokenInvalidError("the token is unknown or revoked")
    if expires_at is not None and expires_at <= now:
        raise TokenInvalidError("the token has expired")
    if last_used_at is None or now - last_used_at >= _USE_NOTED_EVERY:
        _NOTE_USE.on(connection, token=token, now=now, before=now - _USE_NOTED_EVERY)
    instant.player = player
    return now, Viewer(player, token, tuple(scopes), expires_at)


def read_viewer(
    connection: Connection, fingerprint: bytes | None, instant: Instant
) -> tuple[datetime, Viewer | None]:
    """Return the request's instant and whose token it is, by a statement of its own."""
    row = _TOKEN.on(connection, token=fingerprint).fetchone() or ()
    return viewer(connection, row, fingerprint, instant)


def read_alone(
    connection: Connection, fingerprint: bytes | None, instant: Instant
) -> tuple[datetime, Viewer]:
    """Return the instant and the viewer, whom nobody else deletes or gives tokens meanwhile.

    So that what revokes all revokes also what is just being minted, and nothing is added to
    somebody who is just being deleted. In a transaction, until the end of which it holds.
    """
    _HOLD.on(connection, token=fingerprint)
    now, who = read_viewer(connection, fingerprint, instant)
    return now, demand(who)


# By a statement of its own, for the next one to see what those before it did.
_HOLD: Final = Statement(
    select(players.c.id)
    .join(tokens)
    .where(tokens.c.hash == bindparam("token"))
    .with_for_update(of=players)
)
_TOKEN: Final = Statement(select(*COLUMNS).select_from(with_token()))
_NOTE_USE: Final = Statement(
    update(tokens)
    .where(tokens.c.id == bindparam("token"))
    .where((tokens.c.last_used_at.is_(None)) | (tokens.c.last_used_at <= bindparam("before")))
    .values(last_used_at=bindparam("now"))
)


READ: Final = ("games:read",)
PLAY: Final = ("games:play",)
ADMIN: Final = ("admin",)
MANAGE: Final = FIRST_SCOPES
"""What acts on one's account need: all that a first token has, so that a narrower one, which may
be in other hands, can neither lock its owner out nor delete them."""


def demand(who: Viewer | None, *scopes: str) -> Viewer:
    """Return the viewer if their token has these scopes.

    Raises:
        TokenMissingError: There is no token.
        ScopeMissingError: It lacks a scope.
    """
    if who is None:
        raise TokenMissingError("this needs a token: Authorization: Bearer ...")
    for scope in scopes:
        if scope not in who.scopes:
            raise ScopeMissingError(scope)
    return who


def not_found(what: str) -> NoReturn:
    """Raise that there is no such thing, in the same words for whatever reason."""
    raise NotFoundError(f"there is no such {what}, or not for you")
