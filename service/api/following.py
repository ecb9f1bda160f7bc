"""The operations by which a tournament is followed."""

from typing import Final
from uuid import UUID

from flask import Response

from service import access, tournament_view
from service.api import schemas
from service.api.framework import Blueprint, settings
from service.api.problems import BadRequestError

following = Blueprint(
    "Following", __name__, description="What happens in a tournament, told as it happens."
)

_FOUND: Final = ("not-found",)


@following.operation(
    "GET",
    "/v1/tournaments/<uuid:tournament_id>/live",
    "watchTournament",
    "Watch a tournament live",
    None,
    bearer="taken",
    needs=access.READ,
    fails=(*_FOUND, "wrong-server", "too-many-streams", "streams-full"),
    parameters=[schemas.LAST_TOURNAMENT_EVENT_ID],
    responses={"200": schemas.EVENT_STREAM},
    servers=[schemas.STREAM_SERVER],
)
def watch_tournament(tournament_id: UUID) -> Response:
    """A tournament's events as they happen (Server-Sent Events), at the URL in its `links.events`.

    That is on a port of its own: here this is answered with `wrong-server`. Who may see the
    tournament may watch it, and is told what `listTournamentEvents` would tell them.

    - `tournament`: the tournament as a read gives it. It comes first, unless `Last-Event-ID` is
      sent; and again if what the client has seen is no longer so, after a database was restored.
    - `act`: something that was done or came about, as `listTournamentEvents` gives it.
    - `end`: the tournament is final or cancelled, and the stream ends. It comes again to whoever
      connects again.

    Each `id` names a point of the tournament's events: a number, a hyphen, and the event's instant.
    Sent as `Last-Event-ID`, what happened since comes first; a number alone will do too, 0 for all
    there is. A comment comes after at most 14 s without an event. A stream that ends without `end`
    is to be connected again: the service restarts, the token was revoked, its player's part in the
    tournament was taken away, or the client was too slow.
    """
    path = f"{tournament_view.path(tournament_id)}/live"
    raise BadRequestError("wrong-server", f"live events are at {settings().events_at}{path}")
