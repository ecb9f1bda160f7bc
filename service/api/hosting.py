"""The operations by which hosts rule, and have others take part in hosting or playing."""

from typing import Final
from uuid import UUID

from flask import Response

from service import access, hosting_view
from service.api import hosting_schemas as shapes
from service.api import tournament_schemas
from service.api.framework import Blueprint, answer, given_key
from service.api.tournaments import acted, settled
from service.engine.replay import canonical
from service.tournaments import rulings
from service.tournaments.model import ORGANISE, STAFF
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
