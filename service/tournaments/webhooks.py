"""Webhooks: who is sent a tournament's events, in order, and how that went.

There is no outbox beside the events: a webhook is a cursor in them. Whoever delivers holds it by a
lease, an instant until which nobody else takes it; what is written of a delivery is written only
while the lease holds. So an event may be sent twice, with the same id, but none is left out. What
hosts ask for meanwhile is written beside the lease, and whoever has it gives it up before the next
event: two never post to one webhook.
"""

import base64
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, delete, func, insert, select, text, update

from service import access, lists
from service.access import Viewer
from service.engine.errors import RendezvousError
from service.lists import Page, Place
from service.posting import Outcome
from service.store import tables
from service.store.database import Instant, new_id
from service.tournaments.feed import Happening
from service.tournaments.model import (
    DIRECTORS,
    HOLD,
    Event,
    Seen,
    WrongStateError,
    demand,
    hold,
    look_as_host,
    tell,
)

MAX_WEBHOOKS: Final = 10
"""Most webhooks of a tournament."""
GIVE_UP: Final = timedelta(days=3)
"""How long an event is tried before the webhook is disabled."""
LEASE: Final = timedelta(seconds=60)

_BACKOFF: Final = (5, 30, 120, 600, 1800, 3600, 7200, 14400)
_PREFIX: Final = "whsec_"


class TooManyWebhooksError(RendezvousError):
    """The tournament has as many webhooks as it may."""

    code = "too-many-webhooks"


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook as its tournament's hosts see it.

    Attributes:
        id: Its id.
        created_at: When it was made.
        by: The player who made it.
        url: Where events are posted.
        kinds: Which ones; None for all.
        cursor: The number of the last event that it is done with.
        failures: How often the next one has failed.
        disabled_at: When it was given up, if it was.
    """

    id: UUID
    created_at: datetime
    by: UUID
    url: str
    kinds: list[str] | None
    cursor: int
    failures: int
    disabled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event that was posted, or was to be.

    Attributes:
        id: Its id.
        number: The event's number.
        attempt: Which attempt at the event it was.
        at: When it was over.
        status: The answer's status, None where there was none.
        error: What went wrong, None where nothing did.
    """

    id: UUID
    number: int
    attempt: int
    at: datetime
    status: int | None
    error: str | None


_W: Final = tables.webhooks.c
_D: Final = tables.deliveries.c
_COLUMNS: Final = (
    *(_W.id, _W.created_at, _W.created_by, _W.url, _W.kinds, _W.cursor),
    *(_W.failures, _W.disabled_at),
)


def draw_secret() -> bytes:
    """Return a new secret."""
    return secrets.token_bytes(32)


def secret_text(secret: bytes) -> str:
    """Return a secret as receivers are told it."""
    return _PREFIX + base64.b64encode(secret).decode()


def create(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    webhook_id: UUID,
    secret: bytes,
    url: str,
    kinds: list[str] | None,
) -> Webhook:
    """Make a webhook for all that happens from now on.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        webhook_id: A new UUIDv7.
        secret: What its messages are signed with.
        url: Where to post events.
        kinds: Which ones; None for all.

    Raises:
        TooManyWebhooksError: There are as many as there may be.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    query = select(func.count()).where(_W.tournament_id == tournament_id)
    if connection.execute(query).scalar_one() >= MAX_WEBHOOKS:
        raise TooManyWebhooksError(f"a tournament may have {MAX_WEBHOOKS} webhooks")
    row = {
        "tournament_id": tournament_id,
        "id": webhook_id,
        "created_at": seen.now,
        "created_by": who.player,
        "url": url,
        "kinds": kinds,
        "secret": secret,
        "cursor": seen.tournament.events + 1,
        "failures": 0,
        "due_at": seen.now,
    }
    connection.execute(insert(tables.webhooks), row)
    _tell_hosts(connection, seen, who, "webhook-made", webhook_id)
    return _find(connection, tournament_id, webhook_id)


def _tell_hosts(
    connection: Connection, seen: Seen, who: Viewer, kind: str, webhook_id: UUID
) -> None:
    told = Event(kind, who.player, public=False, data={"webhook": str(webhook_id)})
    tell(connection, seen.tournament.id, seen.now, told)


def read(
    connection: Connection, instant: Instant, token: bytes | None, tournament_id: UUID
) -> list[Webhook]:
    """Return a tournament's webhooks, the oldest first."""
    _see(connection, instant, token, tournament_id)
    query = select(*_COLUMNS).where(_W.tournament_id == tournament_id).order_by(_W.id)
    return [Webhook(*row) for row in connection.execute(query)]


def remove(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    webhook_id: UUID,
) -> None:
    """Remove a webhook with all that is known of its deliveries.

    Raises:
        NotFoundError: There is none.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    gone = delete(tables.webhooks).where(_W.tournament_id == tournament_id, _W.id == webhook_id)
    if not connection.execute(gone).rowcount:
        access.not_found("webhook")
    _tell_hosts(connection, seen, who, "webhook-removed", webhook_id)


def deliveries(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    webhook_id: UUID,
    *,
    limit: int,
    place: Place | None,
) -> Page[Delivery]:
    """Return a page of a webhook's deliveries, the latest first.

    Raises:
        NotFoundError: There is no such webhook.
    """
    _see(connection, instant, token, tournament_id)
    _find(connection, tournament_id, webhook_id)
    query = select(_D.id, _D.number, _D.attempt, _D.at, _D.status, _D.error).where(
        _D.tournament_id == tournament_id, _D.webhook_id == webhook_id
    )
    return lists.read(
        connection, query, _D.id, lambda row: Delivery(*row), limit=limit, place=place
    )


def _see(
    connection: Connection, instant: Instant, token: bytes | None, tournament_id: UUID
) -> None:
    seen = look_as_host(connection, instant, token, tournament_id)
    demand(seen, DIRECTORS)


def _find(connection: Connection, tournament_id: UUID, webhook_id: UUID) -> Webhook:
    query = select(*_COLUMNS).where(_W.tournament_id == tournament_id, _W.id == webhook_id)
    row: Any = connection.execute(query).first()
    if row is None:
        access.not_found("webhook")
    return Webhook(*row)


def redeliver(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    webhook_id: UUID,
    first: int,
    last: int,
) -> Webhook:
    """Have events of a range posted again, before those to come; also after it was given up.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        webhook_id: The webhook.
        first: Number of the first event.
        last: Number of the last one.

    Raises:
        NotFoundError: There is no such webhook.
        WrongStateError: It is not done with any of them yet.
    """
    hold(connection, instant, token, tournament_id, DIRECTORS)
    found = _find(connection, tournament_id, webhook_id)
    if first > found.cursor:
        raise WrongStateError(f"its events from {found.cursor + 1} on are still to be delivered")
    connection.execute(
        update(tables.webhooks)
        .where(_W.tournament_id == tournament_id, _W.id == webhook_id)
        .values(
            again_next=first,
            again_last=min(last, found.cursor),
            failures=0,
            failing_since=None,
            disabled_at=None,
            due_at=func.now(),
        )
    )
    return _find(connection, tournament_id, webhook_id)


@dataclass(frozen=True, slots=True)
class Claim:
    """A webhook that nobody else delivers to until its lease is over. Holds the secret."""

    tournament: UUID
    id: UUID
    url: str
    kinds: list[str] | None
    secret: bytes
    cursor: int
    again_next: int | None
    again_last: int | None
    failures: int
    failing_since: datetime | None
    due_at: datetime
    lease: datetime


def claim(connection: Connection, most: int) -> list[Claim]:
    """Return some webhooks to which something is to be delivered, held by a lease.

    Args:
        connection: In a transaction.
        most: How many at most.
    """
    rows = connection.execute(_CLAIM, {"most": most, "lease": LEASE})
    return [Claim(*row) for row in rows]


# Whether whoever made it still hosts the tournament.
_HOSTED: Final = """(
    t.owner_id = w.created_by
    OR EXISTS (SELECT FROM tournament_roles AS r WHERE r.tournament_id = t.id
        AND r.player_id = w.created_by AND r.role = 'director')
    OR EXISTS (SELECT FROM tokens AS k WHERE k.player_id = w.created_by
        AND 'admin' = ANY(k.scopes) AND k.revoked_at IS NULL
        AND (k.expires_at IS NULL OR k.expires_at > now()))
)"""
_CLAIM: Final = text(f"""
UPDATE webhooks SET held_until = now() + :lease
FROM (
    SELECT w.tournament_id, w.id FROM webhooks AS w
    JOIN tournaments AS t ON t.id = w.tournament_id
    WHERE w.disabled_at IS NULL AND w.due_at <= now()
        AND (w.held_until IS NULL OR w.held_until <= now())
        AND (t.events > w.cursor OR w.again_next IS NOT NULL) AND {_HOSTED}
    ORDER BY w.due_at LIMIT :most FOR UPDATE OF w SKIP LOCKED
) AS due
WHERE webhooks.tournament_id = due.tournament_id AND webhooks.id = due.id
RETURNING webhooks.tournament_id, webhooks.id, url, kinds, secret, cursor, again_next, again_last,
    failures, failing_since, due_at, held_until
""")  # noqa: S608


def following(connection: Connection, held: Claim) -> tuple[Happening | None, int] | None:
    """Return what is to be posted next, None for nothing; and the number of the last event.

    None alone if nothing is to be posted on this claim any more: something else is to come first,
    or the webhook is gone, or whoever made it hosts the tournament no longer.
    """
    again = held.again_next is not None
    given = {
        "tournament": held.tournament,
        "id": held.id,
        "lease": held.lease,
        "due": held.due_at,
        "after": (held.again_next or 1) - 1 if again else held.cursor,
        "last": held.again_last if again else 2**31 - 1,
        "kinds": held.kinds,
    }
    found = connection.execute(_FOLLOWING, given).first()
    if found is None:
        return None
    events, *row = found
    return (None if row[0] is None else Happening(*row)), events


_FOLLOWING: Final = text(f"""
SELECT t.events, e.number, e.at, e.kind, e.public, e.by_player, e.entry_id, e.reason, e.data
FROM webhooks AS w JOIN tournaments AS t ON t.id = w.tournament_id LEFT JOIN LATERAL (
    SELECT * FROM tournament_events AS e
    WHERE e.tournament_id = t.id AND e.number > :after AND e.number <= :last
        AND (CAST(:kinds AS text[]) IS NULL OR e.kind = ANY(CAST(:kinds AS text[])))
    ORDER BY e.number LIMIT 1
) AS e ON true
WHERE w.tournament_id = :tournament AND w.id = :id
    AND w.held_until = :lease AND w.due_at = :due AND {_HOSTED}
""")  # noqa: S608


def record(
    connection: Connection, held: Claim, number: int, outcome: Outcome, jitter: float
) -> Claim | None:
    """Write how a delivery went; return the claim as it goes on, None where it does not.

    Args:
        connection: In a transaction.
        held: The claim.
        number: The event's number.
        outcome: How it went.
        jitter: By how much of itself a pause is longer.
    """
    failed = outcome.error is not None
    begun = connection.execute(select(func.now())).scalar_one()
    now = begun - timedelta(microseconds=begun.microsecond % 1000)
    since = held.failing_since or now
    given_up = failed and (outcome.gone or now - since >= GIVE_UP)
    if given_up:
        HOLD.on(connection, tournament=held.tournament)
    due_at = _lock(connection, held)
    if due_at is None:
        return None  # somebody else's by now, or gone
    connection.execute(
        insert(tables.deliveries),
        {
            "tournament_id": held.tournament,
            "webhook_id": held.id,
            "id": new_id(),
            "number": number,
            "attempt": held.failures + 1,
            "at": now,
            "status": outcome.status,
            "error": outcome.error,
        },
    )
    if due_at != held.due_at:
        _store(connection, held, held_until=None)
        return None
    if not failed:
        return _go_on(connection, _past(held, number), now + LEASE)
    pause = _BACKOFF[min(held.failures, len(_BACKOFF) - 1)] * (1 + jitter)
    values = {
        "failures": held.failures + 1,
        "failing_since": since,
        "due_at": now + timedelta(seconds=pause),
        "held_until": None,
    }
    if given_up:
        values["disabled_at"] = now
        data = {"webhook": str(held.id), "number": number, "error": outcome.error}
        told = Event("webhook-disabled", public=False, data=data)
        tell(connection, held.tournament, now, told)
    _store(connection, held, **values)
    return None


def _lock(connection: Connection, held: Claim) -> datetime | None:
    """Return when a webhook is due as hosts have it now, None if it is not held by this claim."""
    query = select(_W.due_at).where(
        _W.tournament_id == held.tournament, _W.id == held.id, _W.held_until == held.lease
    )
    found: datetime | None = connection.execute(query.with_for_update()).scalar_one_or_none()
    return found


def _past(held: Claim, number: int) -> Claim:
    """Return a claim that is done with all events up to one."""
    if held.again_next is None:
        return replace(held, cursor=number, failures=0)
    if number >= (held.again_last or 0):
        return replace(held, again_next=None, again_last=None, failures=0)
    return replace(held, again_next=number + 1, failures=0)


def _go_on(connection: Connection, held: Claim, until: datetime) -> Claim:
    _store(
        connection,
        held,
        cursor=held.cursor,
        again_next=held.again_next,
        again_last=held.again_last,
        failures=0,
        failing_since=None,
        held_until=until,
    )
    return replace(held, failing_since=None, lease=until)


def _store(connection: Connection, held: Claim, **values: Any) -> None:
    connection.execute(
        update(tables.webhooks)
        .where(_W.tournament_id == held.tournament, _W.id == held.id, _W.held_until == held.lease)
        .values(**values)
    )


def release(connection: Connection, held: Claim, last: int | None) -> None:
    """Leave a webhook to whoever takes it next.

    Args:
        connection: In a transaction.
        held: The claim.
        last: The number of the last event where none was left to be posted; None where some may be.
    """
    values: dict[str, Any] = {"held_until": None}
    if _lock(connection, held) == held.due_at:
        if last is not None:
            held = _past(held, held.again_last if held.again_next else last)  # type: ignore[arg-type]
        values |= {"cursor": held.cursor, "due_at": func.now()}
        values |= {"again_next": held.again_next, "again_last": held.again_last}
    _store(connection, held, **values)
