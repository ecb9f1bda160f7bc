"""Who else has a part in hosting a tournament: directors, who act, and viewers, who see all."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from service import access, lists
from service.engine.errors import RendezvousError
from service.lists import Page, Place
from service.store import tables
from service.store.database import Instant
from service.tournaments.model import (
    OWNERS,
    Event,
    WrongStateError,
    hold,
    look_as_host,
    tell,
)

MAX_ROLES: Final = 100
"""Most players who have a part in hosting a tournament, beside its owner."""

Part = Literal["director", "viewer"]


class TooManyRolesError(RendezvousError):
    """As many players have a part in the tournament as may."""

    code = "too-many-roles"


@dataclass(frozen=True, slots=True)
class Holder:
    """A player who has a part in hosting.

    Attributes:
        player: Their id.
        name: Their name; empty for one who is gone.
        role: Their part.
        given_at: Since when.
    """

    player: UUID
    name: str
    role: str
    given_at: datetime


_R: Final = tables.roles
_QUERY: Final = (
    select(_R.c.player_id, tables.players.c.name, _R.c.role, _R.c.given_at)
    .select_from(_R)
    .join(tables.players, tables.players.c.id == _R.c.player_id)
)


def give(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    player: UUID,
    role: Part,
) -> Holder:
    """Give a player a part, in place of the one that they have; again is no error.

    Raises:
        NotFoundError: There is no such player.
        WrongStateError: It is the owner's tournament.
        TooManyRolesError: As many as may have one.
    """
    seen, who = hold(connection, instant, token, tournament_id, OWNERS)
    name = connection.execute(
        select(tables.players.c.name)
        .where(tables.players.c.id == player, tables.players.c.deleted_at.is_(None))
        # A player who is just being deleted is waited for.
        .with_for_update(read=True, key_share=True)
    ).scalar_one_or_none()
    if name is None:
        access.not_found("player")
    if player == seen.tournament.owner:
        raise WrongStateError("the tournament is this player's own")
    of_it = _R.c.tournament_id == tournament_id
    old = connection.execute(_QUERY.where(of_it, _R.c.player_id == player)).first()
    if old is not None and old.role == role:
        return Holder(*old)
    others = connection.execute(select(func.count()).select_from(_R).where(of_it)).scalar_one()
    if old is None and others >= MAX_ROLES:
        raise TooManyRolesError(f"{MAX_ROLES} players are as many as may have a part")
    row = {"tournament_id": tournament_id, "player_id": player, "role": role, "given_at": seen.now}
    connection.execute(
        insert(_R)
        .values(row)
        .on_conflict_do_update(
            index_elements=["tournament_id", "player_id"],
            set_={"role": role, "given_at": seen.now},
        )
    )
    data = {"player": str(player), "role": role}
    event = Event("role-given", who.player, public=False, data=data)
    tell(connection, tournament_id, seen.now, event)
    return Holder(player, name, role, seen.now)


def take(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    player: UUID,
) -> None:
    """Take a player's part from them.

    Raises:
        NotFoundError: They have none.
    """
    seen, who = hold(connection, instant, token, tournament_id, OWNERS)
    gone = connection.execute(
        delete(_R).where(_R.c.tournament_id == tournament_id, _R.c.player_id == player)
    )
    if not gone.rowcount:
        access.not_found("role")
    event = Event("role-taken", who.player, public=False, data={"player": str(player)})
    tell(connection, tournament_id, seen.now, event)


def read(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    limit: int,
    place: Place | None = None,
) -> Page[Holder]:
    """Return a page of those who have a part, those who became players last first.

    Raises:
        NotFoundError: There is no such tournament for this viewer.
        RoleMissingError: They do not host it.
    """
    look_as_host(connection, instant, token, tournament_id)
    query = _QUERY.where(_R.c.tournament_id == tournament_id)

    def holder(row: Any) -> Holder:
        return Holder(*row)

    return lists.read(connection, query, _R.c.player_id, holder, limit=limit, place=place)
