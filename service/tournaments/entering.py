"""What players do: enter, leave, start attempts."""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from service import access, games, standings
from service.engine.deals import DEFAULT_SPEC
from service.engine.errors import RendezvousError
from service.games import COLUMNS, SOURCE, Record
from service.store import tables
from service.store.database import Instant, Statement
from service.tournaments.model import (
    GAME,
    JOIN,
    MAX_ATTEMPTS,
    TOURNAMENT,
    AttemptsUsedError,
    Deal,
    DealClosedError,
    EntryClosedError,
    Event,
    InviteInvalidError,
    NotEnteredError,
    NotThroughError,
    Own,
    Seen,
    TournamentFullError,
    WrongStateError,
    find_held,
    hold,
    look,
    look_with_token,
    store,
    store_entry,
    tell,
    visible,
)

_CODE_LABEL: Final = b"royal-rendezvous/code/1\0"


@dataclass(frozen=True, slots=True)
class Condition:
    """What has to be so for the viewer to enter.

    Attributes:
        name: Which condition it is.
        met: Whether it is met.
        detail: What it is, as things stand.
        error: What is raised where it is not met.
    """

    name: str
    met: bool
    detail: str
    error: Callable[[str], RendezvousError]


def conditions(seen: Seen) -> list[Condition]:
    """Return all that has to be so for the viewer to enter, in the order in which it is checked."""
    plan, now = seen.tournament.plan, seen.now
    left = None if plan.capacity is None else plan.capacity - seen.tournament.entries
    found = [
        Condition(
            "entry-open",
            seen.tournament.course.entry_is_open(now),
            f"the tournament is {seen.state}, and players may enter from its entry window's start "
            "to its end",
            EntryClosedError,
        )
    ]
    if left is not None:
        full = f"{max(0, left)} of {plan.capacity} places are left"
        found.append(Condition("place-left", left > 0, full, TournamentFullError))
    if plan.entry_by == "code":
        needed = "a code is needed: its host gives it"
        found.append(Condition("code", met=False, detail=needed, error=InviteInvalidError))
    return found


def join(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    entry_id: UUID,
    code: str | None,
    address: bytes | None,
) -> tuple[Seen, Own, list[Record]]:
    """Enter the viewer, and return what :func:`read_own` does; again is no error.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        entry_id: A new UUIDv7.
        code: The invite code that they have, if they have one.
        address: Keyed hash of the address from which they enter.

    Raises:
        NotFoundError: There is no such tournament for this viewer; a code that is good lets them
            see it.
        EntryClosedError: Nobody can enter now.
        TournamentFullError: All places are taken.
        InviteInvalidError: A code is needed, and this is none that is good.
    """
    who, seen = find_held(connection, instant, token, tournament_id)
    who = access.demand(who, *JOIN)
    if seen is None or (seen.tournament.course.published_at is None and seen.role is None):
        access.not_found("tournament")
    own, plan, now = seen.own, seen.tournament.plan, seen.now
    if own is not None and own.withdrawn_at is None:
        return seen, own, _attempts(connection, tournament_id, own.id)
    invite = None if code is None else _invite(connection, tournament_id, code, now)
    if plan.visibility == "private" and invite is None and own is None and seen.role is None:
        access.not_found("tournament")
    for condition in conditions(seen):
        met = invite is not None or own is not None if condition.name == "code" else condition.met
        if not met:
            raise condition.error(condition.detail)
    if invite is not None and own is None:
        used = tables.invites
        connection.execute(
            update(used)
            .where(used.c.tournament_id == tournament_id, used.c.id == invite)
            .values(used=used.c.used + 1)
        )
    if own is None:
        connection.execute(
            insert(tables.entries),
            {
                "tournament_id": tournament_id,
                "id": entry_id,
                "player_id": who.player,
                "joined_at": now,
                "version": 1,
                "reach": plan.reach,
                "invite_id": invite,
                "address": address,
            },
        )
    else:
        entry_id = own.id
        store_entry(connection, tournament_id, own.id, withdrawn_at=None)
    store(connection, tournament_id, entries=TOURNAMENT.entries + 1)
    standings.write(connection, tournament_id, [entry_id])
    tell(connection, tournament_id, now, Event("joined", who.player, entry_id))
    seen = look(connection, instant, token, tournament_id, JOIN)
    assert seen.own is not None  # noqa: S101 - it was just made
    return seen, seen.own, _attempts(connection, tournament_id, entry_id)


def read_own(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    scopes: Sequence[str] = access.READ,
) -> tuple[Seen, Own, list[Record]]:
    """Return the viewer's entry, and its attempts by deal and number.

    Raises:
        NotEnteredError: They have none.
    """
    seen = look_with_token(connection, instant, token, tournament_id, scopes)
    if seen.own is None:
        raise NotEnteredError("there is no entry of yours")
    return seen, seen.own, _attempts(connection, tournament_id, seen.own.id)


def leave(
    connection: Connection, instant: Instant, token: bytes | None, tournament_id: UUID
) -> Seen:
    """Withdraw the viewer's entry, which keeps its games and loses its rank; again is no error.

    Raises:
        NotEnteredError: They have none.
        WrongStateError: The results are final.
    """
    seen, who = hold(connection, instant, token, tournament_id, scopes=JOIN)
    if seen.own is None:
        raise NotEnteredError("there is no entry of yours")
    if seen.own.withdrawn_at is not None:
        return seen
    if seen.state in {"final", "cancelled"}:
        raise WrongStateError(f"the tournament is {seen.state}")
    store_entry(connection, tournament_id, seen.own.id, withdrawn_at=seen.now)
    store(connection, tournament_id, entries=TOURNAMENT.entries - 1)
    standings.write(connection, tournament_id, [seen.own.id])
    tell(connection, tournament_id, seen.now, Event("withdrew", who.player, seen.own.id))
    return look(connection, instant, token, tournament_id, JOIN)


def start(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    deal_no: int,
    game_id: UUID,
) -> games.State:
    """Start an attempt at a deal and return its game; the one that is open, if there is one.

    An attempt that was started counts, however little of it is played.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        deal_no: The deal's number.
        game_id: A new UUIDv7.

    Raises:
        NotFoundError: There is no such tournament for this viewer, or it has no such deal.
        NotEnteredError: The viewer has no entry, or it was withdrawn or disqualified.
        DealClosedError: The deal's round is not open.
        NotThroughError: The entry does not play that round.
        AttemptsUsedError: None is left.
    """
    # Starts go on side by side, but not beside an act that moves their round.
    who, found = find_held(connection, instant, token, tournament_id, _SHARE)
    who = access.demand(who, *JOIN)
    seen = visible(found)
    tournament, now, own = seen.tournament, seen.now, seen.own
    deal = next((one for one in tournament.deals if one.number == deal_no), None)
    if deal is None:
        access.not_found("deal")
    if own is None or own.withdrawn_at is not None or own.disqualified:
        raise NotEnteredError(
            "this is for those who have entered, and have not left or been removed"
        )
    _HOLD_ENTRY.on(connection, tournament=tournament_id, entry=own.id)
    made = _attempts(connection, tournament_id, own.id, deal_no)
    if made and made[-1].ended_at is None and now <= (made[-1].deadline or now):
        return games.state_of(made[-1])
    deadline = _deadline(seen, deal, own)
    allowed = tournament.plan.attempts if deal.counts else MAX_ATTEMPTS
    if len(made) >= allowed:
        raise AttemptsUsedError(f"all {allowed} attempts at deal {deal_no} are used")
    values = {
        "id": game_id,
        "player_id": who.player,
        "created_at": now,
        "ply": 0,
        "hidden": True,
        "ruleset": tournament.plan.ruleset,
        "spec": DEFAULT_SPEC,
        "seed": deal.seed,
        "log": b"",
        "times": b"",
        "tournament_id": tournament_id,
        "entry_id": own.id,
        "round": deal.round,
        "deal_no": deal.number,
        "attempt": len(made) + 1,
        "deadline": deadline,
    }
    connection.execute(insert(tables.games), values)
    return games.state_of(_attempts(connection, tournament_id, own.id, deal_no)[-1])


_SHARE: Final = Statement(
    select(TOURNAMENT.id).where(TOURNAMENT.id == bindparam("tournament")).with_for_update(read=True)
)
_HOLD_ENTRY: Final = Statement(
    select(tables.entries.c.id)
    .where(
        tables.entries.c.tournament_id == bindparam("tournament"),
        tables.entries.c.id == bindparam("entry"),
    )
    .with_for_update(key_share=True)
)


def _attempts(
    connection: Connection, tournament: UUID, entry: UUID, deal_no: int | None = None
) -> list[Record]:
    """Return an entry's attempts, at a deal or at all of them, in their order."""
    query = (
        select(*COLUMNS)
        .select_from(SOURCE)
        .where(GAME.tournament_id == tournament, GAME.entry_id == entry)
        .order_by(GAME.deal_no, GAME.attempt)
    )
    if deal_no is not None:
        query = query.where(GAME.deal_no == deal_no)
    return [Record(*row) for row in connection.execute(query)]


def _deadline(seen: Seen, deal: Deal, own: Own) -> datetime:
    """Return the deadline of an attempt at a deal that is started now.

    Raises:
        DealClosedError: It cannot be.
        NotThroughError: Nor by this entry.
    """
    tournament, now = seen.tournament, seen.now
    rounds = tournament.course.rounds
    if seen.state in {"final", "cancelled"}:
        raise DealClosedError(f"the tournament is {seen.state}")
    if not deal.counts:
        whole = replace(rounds[0], ends_at=rounds[-1].ends_at)
        if now >= whole.ends_at:
            raise DealClosedError("the last round is over")
        return (
            rounds[0].deadline(now, tournament.plan.limit)
            if now < rounds[0].ends_at
            else (whole.deadline(now, tournament.plan.limit))
        )
    round_ = rounds[deal.round - 1]
    state = round_.state(now)
    if state != "open":
        raise DealClosedError(f"round {deal.round} is {state}")
    if own.reach < deal.round:
        raise NotThroughError(f"this entry plays up to round {own.reach}")
    return round_.deadline(now, tournament.plan.limit)


def code_hash(code: str) -> bytes:
    """Return the labelled SHA-256 of a code."""
    return hashlib.sha256(_CODE_LABEL + code.encode()).digest()


def draw_code() -> str:
    """Return a new code: 20 characters that are not mistaken for each other, 100 random bits."""
    return "-".join(
        "".join(secrets.choice("23456789ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(5))
        for _ in range(4)
    )


def _invite(connection: Connection, tournament: UUID, code: str, now: datetime) -> UUID | None:
    """Return the id of the invite whose code this is, None if there is none that is good."""
    of = tables.invites.c
    query = select(of.id).where(
        of.tournament_id == tournament,
        of.hash == code_hash(code),
        of.revoked_at.is_(None),
        or_(of.expires_at.is_(None), of.expires_at > now),
        of.used < of.uses,
    )
    found: UUID | None = connection.execute(query).scalar_one_or_none()
    return found
