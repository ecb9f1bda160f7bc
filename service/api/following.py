"""The operations by which a tournament is followed."""

from typing import Final
from uuid import UUID

from flask import Response

from service import access, posting, tournament_view
from service.api import schemas
from service.api import tournament_schemas as shapes
from service.api.framework import Blueprint, answer, run, settings
from service.api.lists import linked, place
from service.api.problems import BadRequestError, misfit
from service.api.schemas import PageQuery
from service.store.database import new_id
from service.tournaments import webhooks
from service.tournaments.model import ORGANISE
from service.view import Json

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

    What a freeze kept back is not sent when it ends, since its numbers have passed; whoever wants
    it asks `listTournamentEvents` for what came after `frozen`.

    Each `id` names a point of the tournament's events: a number, a hyphen, and the event's instant.
    Sent as `Last-Event-ID`, what happened since comes first; a number alone will do too, 0 for all
    there is. A comment comes after at most 14 s without an event. A stream that ends without `end`
    is to be connected again: the service restarts, the token was revoked, its player's part in the
    tournament was taken away, or the client was too slow.
    """
    path = f"{tournament_view.path(tournament_id)}/live"
    raise BadRequestError("wrong-server", f"live events are at {settings().events_at}{path}")


_WEBHOOKS: Final = "/v1/tournaments/<uuid:tournament_id>/webhooks"
_ROLE: Final = (*_FOUND, "role-missing")


@following.operation(
    "POST",
    _WEBHOOKS,
    "createWebhook",
    "Have events posted",
    shapes.MadeWebhook,
    status=201,
    body=shapes.NewWebhook,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_ROLE, "too-many-webhooks"),
)
def create_webhook(body: Json, tournament_id: UUID) -> Response:
    """Have all that happens from now on posted to a URL, as its hosts are told it.

    Messages are those of Standard Webhooks (standardwebhooks.com): the body is `type`, which is
    `tournament.` and the event's kind, `timestamp` and `data`, the event; `webhook-id` is the same
    whenever an event is sent again; `webhook-signature` is made with the secret, which is told in
    this answer alone.

    Events come in order. One that is not answered by 2xx within 10 s is tried again, after 5 s to
    4 h, and those behind it wait. After 3 days, or at once if it is answered by 410, the webhook is
    given up, which its hosts are told by an event. Redirects are not followed.
    """
    try:
        posting.split(body["url"], private=settings().webhook_private == "allow")
    except posting.BadUrlError as error:
        raise misfit("/url", str(error)) from error
    secret = webhooks.draw_secret()
    made = run(
        webhooks.create,
        tournament_id,
        webhook_id=new_id(),
        secret=secret,
        url=body["url"],
        kinds=sorted(set(body["kinds"])) if "kinds" in body else None,
        transaction=True,
    )
    told = tournament_view.webhook(tournament_id, made)
    return answer({"webhook": told, "secret": webhooks.secret_text(secret)}, 201)


@following.operation(
    "GET",
    _WEBHOOKS,
    "listWebhooks",
    "Webhooks",
    shapes.WebhookList,
    bearer="needed",
    needs=ORGANISE,
    fails=_ROLE,
)
def list_webhooks(tournament_id: UUID) -> Response:
    """A tournament's webhooks and how far each is; at most ten."""
    found = run(webhooks.read, tournament_id)
    return answer({"webhooks": [tournament_view.webhook(tournament_id, one) for one in found]})


@following.operation(
    "DELETE",
    f"{_WEBHOOKS}/<uuid:webhook_id>",
    "deleteWebhook",
    "Remove a webhook",
    None,
    status=204,
    bearer="needed",
    needs=ORGANISE,
    fails=_ROLE,
)
def delete_webhook(tournament_id: UUID, webhook_id: UUID) -> Response:
    """Remove a webhook, with all that is known of its deliveries."""
    run(webhooks.remove, tournament_id, webhook_id, transaction=True)
    return Response(status=204)


@following.operation(
    "GET",
    f"{_WEBHOOKS}/<uuid:webhook_id>/deliveries",
    "listDeliveries",
    "Deliveries",
    shapes.DeliveryList,
    headers=("Link",),
    query=PageQuery,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_ROLE, "unknown-cursor"),
)
def list_deliveries(query: Json, tournament_id: UUID, webhook_id: UUID) -> Response:
    """What was posted to a webhook, the latest first: each attempt, and how it went.

    They are kept for 30 days at least; events are kept for good.

    `Link: <...>; rel="next"` leads on to older ones and `rel="prev"` back, while there are any.
    """
    page = run(webhooks.deliveries, tournament_id, webhook_id, limit=query["limit"], place=place())
    told = {"deliveries": [tournament_view.delivery(one) for one in page.items]}
    return linked(answer(told), page)


@following.operation(
    "POST",
    f"{_WEBHOOKS}/<uuid:webhook_id>/redeliveries",
    "redeliver",
    "Have events posted again",
    shapes.Webhook,
    status=202,
    body=shapes.Redelivery,
    bearer="needed",
    needs=ORGANISE,
    fails=(*_ROLE, "wrong-state"),
)
def redeliver(body: Json, tournament_id: UUID, webhook_id: UUID) -> Response:
    """Have the events of a range posted again, before those to come, with the ids that they had.

    A range that is under way is given up for it. A webhook that was given up goes on where it
    stopped.
    """
    if body["last"] < body["first"]:
        raise misfit("/to", "not before `from`")
    found = run(
        webhooks.redeliver,
        tournament_id,
        webhook_id,
        body["first"],
        body["last"],
        transaction=True,
    )
    return answer(tournament_view.webhook(tournament_id, found), 202)
