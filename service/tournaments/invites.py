"""Codes: those that let players enter, and the one by which a player takes an entry over.

A code is shown once and stored as a labelled hash, by which it is found: how long that takes tells
nothing of it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, func, insert, or_, select, update

from service import access, lists
from service.engine.errors import RendezvousError
from service.games import Record
from service.lists import Page, Place
from service.store import tables
from service.store.database import Instant
from service.tournaments import entering
from service.tournaments.entering import code_hash
from service.tournaments.model import (
    DIRECTORS,
    GAME,
    JOIN,
    Event,
    InviteInvalidError,
    Own,
    Seen,
    WrongStateError,
    find_held,
    hold,
    look_as_host,
    store_entry,
    tell,
)

MAX_INVITES: Final = 1000
"""Most good codes of a tournament."""
MAX_USES: Final = 100_000
CODE_KEPT: Final = timedelta(hours=24)
"""How long the code for an entry is good."""


class TooManyInvitesError(RendezvousError):
    """The tournament has as many good codes as it may."""

    code = "too-many-invites"


class AlreadyEnteredError(RendezvousError):
    """The viewer has an entry, and a player has one at most."""

    code = "already-entered"


@dataclass(frozen=True, slots=True)
class Invite:
    """What is known of a code once its text is forgotten.

    Attributes:
        id: Its id.
        created_at: When it was made.
        expires_at: Until when it is good; None for as long as players may enter.
        revoked_at: When it was revoked.
        uses: How many may enter by it.
        used: How many have.
    """

    id: UUID
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    uses: int
    used: int


_I: Final = tables.invites
_COLUMNS: Final = (
    *(_I.c.id, _I.c.created_at, _I.c.expires_at, _I.c.revoked_at, _I.c.uses, _I.c.used),
)


def invite(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    invite_id: UUID,
    code: str,
    uses: int,
    days: int | None,
) -> Invite:
    """Make a code by which players may enter.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        invite_id: A new UUIDv7.
        code: The code's text, of which only the hash is stored.
        uses: How many may enter by it.
        days: After how many days it expires, if ever.

    Raises:
        WrongStateError: The results are final, or it was called off.
        TooManyInvitesError: There are as many good ones as there may be.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    _check_on(seen)
    good = (
        select(func.count())
        .where(_I.c.tournament_id == tournament_id, _I.c.revoked_at.is_(None))
        .where(or_(_I.c.expires_at.is_(None), _I.c.expires_at > seen.now), _I.c.used < _I.c.uses)
    )
    if connection.execute(good).scalar_one() >= MAX_INVITES:
        raise TooManyInvitesError(f"{MAX_INVITES} good codes are as many as there may be")
    until = None if days is None else seen.now + timedelta(days=days)
    row = {
        "tournament_id": tournament_id,
        "id": invite_id,
        "created_at": seen.now,
        "created_by": who.player,
        "expires_at": until,
        "hash": code_hash(code),
        "uses": uses,
        "used": 0,
    }
    connection.execute(insert(_I), row)
    data = {"invite": str(invite_id), "uses": uses}
    event = Event("invite-made", who.player, public=False, data=data)
    tell(connection, tournament_id, seen.now, event)
    return Invite(invite_id, seen.now, until, None, uses, 0)


def read(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    limit: int,
    place: Place | None = None,
) -> Page[Invite]:
    """Return a page of invites, the newest first, those included that are not good any more.

    Raises:
        NotFoundError: There is no such tournament for this viewer.
        RoleMissingError: They do not host it.
    """
    look_as_host(connection, instant, token, tournament_id)
    query = select(*_COLUMNS).where(_I.c.tournament_id == tournament_id)

    def made(row: Any) -> Invite:
        return Invite(*row)

    return lists.read(connection, query, _I.c.id, made, limit=limit, place=place)


def revoke(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    invite_id: UUID,
) -> None:
    """Have a code be good for nobody any more; who entered by it stays. Again is no error.

    Raises:
        NotFoundError: There is none of this id.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    this = (_I.c.tournament_id == tournament_id) & (_I.c.id == invite_id)
    found = connection.execute(select(_I.c.revoked_at).where(this)).first()
    if found is None:
        access.not_found("invite")
    if found.revoked_at is not None:
        return
    connection.execute(update(_I).where(this).values(revoked_at=seen.now))
    event = Event("invite-revoked", who.player, public=False, data={"invite": str(invite_id)})
    tell(connection, tournament_id, seen.now, event)


def give_code(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    entry: UUID,
    *,
    code: str,
    reason: str,
) -> datetime:
    """Make a code by which another player may take an entry over, and return until when it is good.

    One that the entry has already is good no more.

    Raises:
        NotFoundError: There is no such entry.
        WrongStateError: The results are final, or it was called off.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    _check_on(seen)
    of = tables.entries.c
    there = select(of.id).where(of.tournament_id == tournament_id, of.id == entry)
    if connection.execute(there).first() is None:
        access.not_found("entry")
    until = seen.now + CODE_KEPT
    kept = {"code_hash": code_hash(code), "code_expires_at": until}
    store_entry(connection, tournament_id, entry, **kept)
    event = Event("entry-code", who.player, entry, reason, public=False)
    tell(connection, tournament_id, seen.now, event)
    return until


def take_over(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    code: str,
    address: bytes | None,
) -> tuple[Seen, Own, list[Record]]:
    """Make the entry whose code this is the viewer's, with its games, and return it.

    Headers of its games go on naming the player who began them, so that digests stay.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        code: The code.
        address: Keyed hash of the address from which they ask.

    Raises:
        NotFoundError: There is no such tournament.
        AlreadyEnteredError: The viewer has an entry there.
        InviteInvalidError: It is no code for an entry that is good.
        WrongStateError: The results are final, or it was called off.
    """
    who, seen = find_held(connection, instant, token, tournament_id)
    who = access.demand(who, *JOIN)
    if seen is None or seen.state == "draft":
        access.not_found("tournament")
    if seen.own is not None:
        raise AlreadyEnteredError("there is an entry of yours")
    of = tables.entries.c
    found = connection.execute(
        select(of.id, of.player_id).where(
            of.tournament_id == tournament_id,
            of.code_hash == code_hash(code),
            of.code_expires_at > seen.now,
        )
    ).first()
    if found is None:
        raise InviteInvalidError("the code is none that is good for an entry")
    _check_on(seen)
    entry, before = found
    mine = {"player_id": who.player, "address": address}
    used = {"code_hash": None, "code_expires_at": None}
    store_entry(connection, tournament_id, entry, **mine, **used)
    connection.execute(
        update(tables.games)
        .where(GAME.tournament_id == tournament_id, GAME.entry_id == entry)
        .values(
            named_player_id=func.coalesce(GAME.named_player_id, GAME.player_id),
            player_id=who.player,
        )
    )
    event = Event("taken-over", who.player, entry, public=False, data={"from": str(before)})
    tell(connection, tournament_id, seen.now, event)
    return entering.read_own(connection, instant, token, tournament_id, JOIN)


def _check_on(seen: Seen) -> None:
    if seen.state in {"final", "cancelled"}:
        raise WrongStateError(f"the tournament is {seen.state}")
