"""The operations by which hosts rule, and have others take part in hosting or playing."""

from typing import Final
from uuid import UUID

from flask import Response

from service import access, hosting_view, tournament_view, view
from service.api import hosting_schemas as shapes
from service.api import tournament_schemas
from service.api.framework import Blueprint, answer, given_key, guessing, run
from service.api.lists import linked, place
from service.api.schemas import PageQuery
from service.api.tournaments import acted, address, settled
from service.engine.replay import canonical
from service.store.database import new_id
from service.tournaments import entering, invites, report, roles, rulings
from service.tournaments.model import JOIN, ORGANISE, STAFF, InviteInvalidError
from service.view import Json

hosting = Blueprint(
    "Hosting", __name__, description="Rulings, roles, invites, and what else hosts have to do."
)

_FOUND: Final = ("not-found",)
_HOSTS: Final = (*_FOUND, "role-missing", "wrong-state")


@hosting.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/rulings",
    "createRuling",
    "Make a ruling",
    shapes.Ruling,
    status=201,
    body=shapes.NewRuling,
    bearer="needed",
    needs=ORGANISE,
    keyed=True,
    fails=(*_HOSTS, "bad-ruling"),
)
def create_ruling(body: Json, tournament_id: UUID) -> Response:
    """Decide on an entry, an attempt or a round, until the results are final.

    A ruling is a fact beside the games, which stay as they are; the standings follow from both at
    once, but for those that are frozen. One that would change nothing is refused.

    - `disqualify` (`entry`): it loses its rank and starts no more attempts. `reinstate` (`entry`)
      puts it back.
    - `annul` (`entry`, `deal`, `attempt`): an attempt that is over counts as never made; it stays
      used.
    - `adjust` (`entry`, `deal`, `attempt`, `terms`): parts of its result are replaced.
    - `extend`: an attempt in play ends later by `ms` (`entry`, `deal`, `attempt`), whenever its
      round ends; or a round does (`round`), and with it all attempts that are in play. Only until
      nothing played in the round can change any more. `closes_at` and the reveal follow. **The
      header of an extended attempt tells the new deadline, so its digest changes.**
    - `admit` (`entry`, `round`): the entry plays this round and those after it up to the next cut,
      as if it had come through. Only once it is settled who plays the round, and until it ends.

    With an `Idempotency-Key` it is safe to repeat.
    """
    given = dict(body)
    if "entry" in given:
        given["entry"] = UUID(given["entry"])
    key = given_key("createRuling", canonical({"tournament": str(tournament_id), **body}))
    _, made = acted(tournament_id, rulings.make, rulings.Asked(**given), key)
    return answer(hosting_view.ruling(made, hosts=True), 201)


@hosting.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/rulings",
    "listRulings",
    "Rulings",
    shapes.RulingList,
    query=shapes.RulingQuery,
    bearer="taken",
    needs=access.READ,
    fails=_FOUND,
)
def list_rulings(query: Json, tournament_id: UUID) -> Response:
    """All rulings with their reasons, in order; who made them is told to the hosts alone.

    While the standings are frozen, what was ruled on them since is told to the hosts, and to the
    player whose entry it is about.
    """
    seen, found = settled(tournament_id, rulings.read, after=query["after"], limit=query["limit"])
    hosts = seen.role in STAFF
    return answer({"rulings": [hosting_view.ruling(one, hosts=hosts) for one in found]})


@hosting.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/rulings/<int:ruling>/reversal",
    "reverseRuling",
    "Take a ruling back",
    shapes.Ruling,
    status=201,
    body=tournament_schemas.WithReason,
    bearer="needed",
    needs=ORGANISE,
    fails=_HOSTS,
)
def reverse_ruling(body: Json, tournament_id: UUID, ruling: int) -> Response:
    """Take a ruling back by one of its own, of the kind `reverse`, until the results are final.

    What holds then is what would hold if it had not been made, but that no deadline is put before
    now, and no round's end that has passed is moved. An extension can be taken back until its round
    has closed. A reversal is not taken back: make the ruling anew.
    """
    _, made = acted(tournament_id, rulings.reverse, ruling, body["reason"])
    return answer(hosting_view.ruling(made, hosts=True), 201)


@hosting.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/roles",
    "listRoles",
    "Who hosts it",
    shapes.RoleList,
    headers=("Link",),
    query=PageQuery,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_FOUND, "role-missing", "unknown-cursor"),
)
def list_roles(query: Json, tournament_id: UUID) -> Response:
    """The directors and viewers of a tournament, told to those who host it."""
    page = run(roles.read, tournament_id, limit=query["limit"], place=place())
    return linked(answer({"roles": [hosting_view.role(one) for one in page.items]}), page)


@hosting.operation(
    "PUT",
    "/v1/tournaments/<uuid:tournament_id>/roles/<uuid:player_id>",
    "giveRole",
    "Give a part in hosting",
    shapes.CoHost,
    body=shapes.NewRole,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_HOSTS, "too-many-roles"),
)
def give_role(body: Json, tournament_id: UUID, player_id: UUID) -> Response:
    """Have a player be a director or a viewer, in place of what they were. Safe to repeat.

    Only the owner gives parts. To act, a director needs a token with the scope as well. A viewer
    sees through a freeze, and all that is the hosts' alone to know, but no seed.
    """
    made = acted(tournament_id, roles.give, player_id, body["role"])
    return answer(hosting_view.role(made))


@hosting.operation(
    "DELETE",
    "/v1/tournaments/<uuid:tournament_id>/roles/<uuid:player_id>",
    "takeRole",
    "Take a part in hosting",
    None,
    status=204,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_FOUND, "role-missing"),
)
def take_role(tournament_id: UUID, player_id: UUID) -> Response:
    """Take a player's part from them; it holds from their next request on."""
    acted(tournament_id, roles.take, player_id)
    return Response(status=204)


@hosting.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/invites",
    "createInvite",
    "Make an invite code",
    shapes.NewInviteCode,
    status=201,
    body=shapes.NewInvite,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_HOSTS, "too-many-invites"),
)
def create_invite(body: Json, tournament_id: UUID) -> Response:
    """Make a code by which players may enter; it also lets them into a private tournament.

    It is shown this once. If the answer is lost, make another one and revoke that one: an
    `Idempotency-Key` is ignored here, since the code is kept nowhere to be told again.
    """
    code = entering.draw_code()
    given = {"uses": body["uses"], "days": body.get("days")}
    made = acted(tournament_id, invites.invite, invite_id=new_id(), code=code, **given)
    return answer({**hosting_view.invite(made), "code": code}, 201)


@hosting.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/invites",
    "listInvites",
    "Invites",
    shapes.InviteList,
    headers=("Link",),
    query=PageQuery,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_FOUND, "role-missing", "unknown-cursor"),
)
def list_invites(query: Json, tournament_id: UUID) -> Response:
    """A tournament's invites, newest first, never their codes; told to those who host it."""
    page = run(invites.read, tournament_id, limit=query["limit"], place=place())
    return linked(answer({"invites": [hosting_view.invite(one) for one in page.items]}), page)


@hosting.operation(
    "DELETE",
    "/v1/tournaments/<uuid:tournament_id>/invites/<uuid:invite_id>",
    "revokeInvite",
    "Revoke an invite code",
    None,
    status=204,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_FOUND, "role-missing"),
)
def revoke_invite(tournament_id: UUID, invite_id: UUID) -> Response:
    """Have a code be good for nobody any more; who entered by it stays. Safe to repeat."""
    acted(tournament_id, invites.revoke, invite_id)
    return Response(status=204)


@hosting.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/entries/<uuid:entry_id>/code",
    "createEntryCode",
    "Make a code for an entry",
    shapes.EntryCode,
    status=201,
    body=tournament_schemas.WithReason,
    bearer="needed",
    needs=ORGANISE,
    fails=_HOSTS,
)
def create_entry_code(body: Json, tournament_id: UUID, entry_id: UUID) -> Response:
    """Make a code by which another player takes an entry over: for one who has lost their token.

    It is shown this once, good for 24 hours and for one use; a code that the entry had before is
    good no more. Give it to nobody but the person whose entry it is.
    """
    code = entering.draw_code()
    until = acted(tournament_id, invites.give_code, entry_id, code=code, reason=body["reason"])
    told = {"entry": str(entry_id), "code": code, "expires_at": view.instant(until)}
    return answer(told, 201)


@hosting.operation(
    "POST",
    "/v1/tournaments/<uuid:tournament_id>/entries/takeover",
    "takeEntryOver",
    "Take an entry over",
    tournament_schemas.Entry,
    body=shapes.TakingOver,
    bearer="needed",
    needs=JOIN,
    fails=(*_FOUND, "invite-invalid", "already-entered", "wrong-state"),
)
def take_entry_over(body: Json, tournament_id: UUID) -> Response:
    """Make the entry of a code one's own, with its games; what is in play goes on.

    Games that were begun before go on naming in their header the player who began them: a header
    is fixed, and digests stay what they were. Wrong codes count for the rate limit `codes`.
    """
    with guessing(InviteInvalidError):
        found = acted(
            tournament_id,
            invites.take_over,
            code=body["code"].upper(),
            address=address(tournament_id),
        )
    return answer(tournament_view.entry(*found))


@hosting.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/report",
    "getReport",
    "Entries that may be one person's",
    shapes.Report,
    query=shapes.ReportQuery,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_FOUND, "role-missing"),
)
def get_report(query: Json, tournament_id: UUID) -> Response:
    """Entries that were made from one address, or have equal logs on a deal; told to hosts, always.

    It is for a human to judge and no proof. A hall, a school or a family has one address; of an
    entry that was taken over it is the one from which that was done. **Equal logs are common**:
    short ones most of all, and whoever plays well plays alike; `deals` tells how many different
    logs there are to compare with. The longest logs come first. Neither addresses nor what is in a
    log is told.
    """
    return answer(hosting_view.report(settled(tournament_id, report.read, limit=query["limit"])))
