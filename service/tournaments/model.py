"""What a tournament is: its plan, its row as a viewer sees it, and the events that number its acts.

Every act is one transaction under the tournament's row, which numbers it: an event with who, when
and why. Only acts are stored: where a tournament is follows from instants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import (
    ARRAY,
    Connection,
    Integer,
    Text,
    Uuid,
    bindparam,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB

from service import access
from service.access import Viewer
from service.engine.errors import RendezvousError
from service.engine.replay import commitment
from service.engine.standings import Cut, Scoring, scoring_of
from service.schedule import CLOSING, Course, Round, State
from service.store import tables
from service.store.database import Instant, Statement

Json = dict[str, Any]
Role = Literal["owner", "director", "viewer", "admin"]

ORGANISE: Final = ("tournaments:organise",)
JOIN: Final = ("tournaments:join",)

LEAST_LIMIT: Final = timedelta(seconds=1)
"""Least time for an attempt."""
MAX_ROUNDS: Final = 20
"""Most rounds that a tournament may be told to have."""
MAX_DEALS: Final = 100
"""Most deals of a tournament, all rounds together."""
MAX_ATTEMPTS: Final = 20
"""Most attempts that a tournament may allow at a deal; as many as all may make to warm up."""

STAFF: Final[tuple[Role, ...]] = ("owner", "director", "viewer", "admin")
DIRECTORS: Final[tuple[Role, ...]] = ("owner", "director", "admin")
OWNERS: Final[tuple[Role, ...]] = ("owner", "admin")


class RoleMissingError(RendezvousError):
    """The viewer's part in the tournament does not let them do this."""

    code = "role-missing"


class WrongStateError(RendezvousError):
    """The tournament is not where this can be done."""

    code = "wrong-state"


class StaleVersionError(RendezvousError):
    """The tournament has changed since the client saw it."""

    code = "stale-version"


class BadTournamentError(RendezvousError):
    """What the tournament is to be makes no sense.

    Attributes:
        pointer: Where, as a JSON Pointer into the request's body.
        detail: Why.
    """

    code = "bad-tournament"

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(f"{pointer}: {detail}")
        self.pointer = pointer
        self.detail = detail


class BadRulingError(BadTournamentError):
    """A ruling is not told whole, or with more than its kind needs."""

    code = "bad-ruling"


class EntryClosedError(RendezvousError):
    """Nobody can enter now."""

    code = "entry-closed"


class TournamentFullError(RendezvousError):
    """All places are taken."""

    code = "tournament-full"


class InviteInvalidError(RendezvousError):
    """The code is none that lets the viewer in."""

    code = "invite-invalid"


class NotEnteredError(RendezvousError):
    """The viewer has no entry, or none that may play."""

    code = "not-entered"


class DealClosedError(RendezvousError):
    """The deal cannot be played now."""

    code = "deal-closed"


class NotThroughError(RendezvousError):
    """The entry is not among those who play this round."""

    code = "not-through"


class AttemptsUsedError(RendezvousError):
    """The entry has made all the attempts at this deal that it may."""

    code = "attempts-used"


@dataclass(frozen=True, slots=True)
class Stage:
    """A round as its host describes it.

    Attributes:
        starts_at: From when on attempts may be started.
        ends_at: From when on none may, and at which those under way end.
        deals: How many deals it has.
        cut: Who may play it; None for all.
    """

    starts_at: datetime
    ends_at: datetime
    deals: int
    cut: Cut | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A tournament as its host describes it.

    Attributes:
        title: Shown to others.
        about: Shown to others, may be empty.
        ruleset: Which game is played.
        visibility: ``public``: listed, for all to see; ``unlisted``: for whoever has the id;
            ``private``: for those who take part, or host it.
        entry_by: ``open``, or ``code`` for those who have one.
        capacity: Most entries; None for any number.
        entry_opens_at: From when on players may enter.
        entry_closes_at: From when on they may not.
        attempts: How many attempts each may make at a deal.
        limit: How long an attempt may take; None for until the round ends.
        scoring: How results are compared.
        warm_up: Whether there is a deal to warm up with, which never counts.
        reveal: ``closing``: seeds may be known as soon as nothing played in their round can change
            any more; ``by-hand``: when the host says so.
        stages: The rounds.
    """

    title: str
    about: str
    ruleset: str
    visibility: str
    entry_by: str
    capacity: int | None
    entry_opens_at: datetime
    entry_closes_at: datetime
    attempts: int
    limit: timedelta | None
    scoring: Scoring
    warm_up: bool
    reveal: str
    stages: tuple[Stage, ...]

    def check(self) -> None:
        """Return if it makes sense.

        Raises:
            BadTournamentError: It does not.
        """
        if sum(stage.deals for stage in self.stages) > MAX_DEALS:
            raise BadTournamentError("/rounds", f"at most {MAX_DEALS} deals, all rounds together")
        if self.limit is not None and self.limit < LEAST_LIMIT:
            raise BadTournamentError("/limit_ms", "1,000 ms at least")
        before: Stage | None = None
        for n, stage in enumerate(self.stages):
            if stage.ends_at <= stage.starts_at:
                raise BadTournamentError(f"/rounds/{n}/ends_at", "a round ends after it starts")
            pause = CLOSING if stage.cut else timedelta()
            if before is None and stage.cut is not None:
                raise BadTournamentError(f"/rounds/{n}/cut", "there is no round before the first")
            if before is not None and stage.starts_at < before.ends_at + pause:
                after = " and 5 s, for its last results" if stage.cut else ""
                raise BadTournamentError(
                    f"/rounds/{n}/starts_at", f"not before the round before it has ended{after}"
                )
            before = stage
        if self.entry_closes_at <= self.entry_opens_at:
            raise BadTournamentError("/entry/closes_at", "entry closes after it opens")
        if self.entry_closes_at > self.stages[-1].ends_at:
            raise BadTournamentError("/entry/closes_at", "not after the last round ends")

    @property
    def reach(self) -> int:
        """The last round that everybody may play."""
        return reach_of([stage.cut for stage in self.stages], 0)


def reach_of(cuts: Sequence[Cut | None], through: int) -> int:
    """Return the last round that those may play who are through to one, numbered from 1."""
    last = max(1, through)
    while last < len(cuts) and cuts[last] is None:
        last += 1
    return last


@dataclass(frozen=True, slots=True)
class Deal:
    """A deal of a tournament. Holds the seed.

    Attributes:
        number: From 1.
        round: The round in which it is played.
        counts: False for the deal to warm up with.
        seed: None until the tournament is published.
    """

    number: int
    round: int
    counts: bool
    seed: str | None


@dataclass(frozen=True, slots=True)
class Tournament:
    """What is stored of a tournament. Holds the seeds: never given to a client as it is."""

    id: UUID
    owner: UUID
    created_at: datetime
    version: int
    plan: Plan
    course: Course
    deals: tuple[Deal, ...]
    series: UUID | None
    frozen_at: datetime | None
    entries: int
    events: int
    told_at: datetime
    rulings: int
    results: int
    cut: int

    def commitment(self, deal: Deal) -> str | None:
        """Return the commitment to a deal's seed, None before there is one."""
        if deal.seed is None:
            return None
        return commitment(f"{self.id}/{deal.number}", deal.seed)

    def revealed(self, deal: Deal, now: datetime) -> str | None:
        """Return a deal's seed if it may be known."""
        reveals_at = self.course.rounds[deal.round - 1].reveals_at
        return deal.seed if reveals_at is not None and reveals_at <= now else None

    def due_cut(self, now: datetime) -> int | None:
        """Return the number of the round of which it can be settled now who plays it."""
        dead = self.course.published_at is None or self.course.cancelled_at is not None
        if dead or self.cut >= len(self.course.rounds):
            return None
        settled = all(one.settles_at <= now for one in self.course.rounds[: self.cut])
        return self.cut + 1 if settled else None


@dataclass(frozen=True, slots=True)
class Own:
    """The viewer's own entry."""

    id: UUID
    joined_at: datetime
    withdrawn_at: datetime | None
    reach: int
    disqualified: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """A tournament as a viewer may see it.

    Attributes:
        now: The request's instant.
        who: The viewer, None without a token.
        tournament: The tournament.
        role: The viewer's part in hosting it, None for none.
        own: Their entry, None for none.
        owner: The owner's name.
        due: Whether something has to be settled before anything is told.
    """

    now: datetime
    who: Viewer | None
    tournament: Tournament
    role: Role | None
    own: Own | None
    owner: str
    due: bool

    @property
    def state(self) -> State:
        """Where the tournament is."""
        return self.tournament.course.state(self.now)


TOURNAMENT: Final = tables.tournaments.c
COURSE: Final = (
    select(
        func.jsonb_agg(
            func.jsonb_build_array(
                tables.rounds.c.number,
                tables.rounds.c.starts_at,
                tables.rounds.c.ends_at,
                tables.rounds.c.closes_at,
                tables.rounds.c.reveals_at,
                tables.rounds.c.cut_by,
                tables.rounds.c.cut_value,
            )
        )
    )
    .where(tables.rounds.c.tournament_id == TOURNAMENT.id)
    .scalar_subquery()
)
DEALS: Final = (
    select(
        func.jsonb_agg(
            func.jsonb_build_array(
                tables.deals.c.number,
                tables.deals.c.round,
                tables.deals.c.counts,
                tables.deals.c.seed,
            )
        )
    )
    .where(tables.deals.c.tournament_id == TOURNAMENT.id)
    .scalar_subquery()
)
GAME: Final = tables.games.c
# The first of them, which the index has: asked whether there is any, Postgres supposes that many
# are and looks for one through all games.
_DUE: Final = (
    select(func.min(GAME.deadline))
    .where(GAME.tournament_id == TOURNAMENT.id, GAME.ended_at.is_(None))
    .scalar_subquery()
) <= func.now() - CLOSING
_OWN: Final = (
    tables.entries.c.id,
    tables.entries.c.joined_at,
    tables.entries.c.withdrawn_at,
    tables.entries.c.reach,
    (
        select(tables.rulings.c.kind == "disqualify")
        .where(
            tables.rulings.c.tournament_id == tables.entries.c.tournament_id,
            tables.rulings.c.entry_id == tables.entries.c.id,
            or_(tables.rulings.c.kind == "disqualify", tables.rulings.c.kind == "reinstate"),
            tables.rulings.c.reversed_by.is_(None),
        )
        .order_by(tables.rulings.c.number.desc())
        .limit(1)
        .scalar_subquery()
    ),
)
_VIEWER: Final = tables.tokens.c.player_id
_READ: Final = Statement(
    select(
        *access.COLUMNS,
        *TOURNAMENT,
        COURSE,
        DEALS,
        tables.players.c.name,
        tables.roles.c.role,
        _DUE,
        *_OWN,
    ).select_from(
        access.with_token(tables.tournaments, TOURNAMENT.id == bindparam("tournament"))
        .outerjoin(tables.players, tables.players.c.id == TOURNAMENT.owner_id)
        .outerjoin(
            tables.roles,
            (tables.roles.c.tournament_id == TOURNAMENT.id) & (tables.roles.c.player_id == _VIEWER),
        )
        .outerjoin(
            tables.entries,
            (tables.entries.c.tournament_id == TOURNAMENT.id)
            & (tables.entries.c.player_id == _VIEWER),
        )
    )
)
_AT: Final = len(access.COLUMNS)
_NAMES: Final = tuple(column.name for column in TOURNAMENT)


def look(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    scopes: Sequence[str] = access.READ,
) -> Seen:
    """Return a tournament that the viewer may see, by one statement.

    Args:
        connection: A connection.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        scopes: What the token must be good for, if there is one.

    Raises:
        NotFoundError: There is no such tournament for this viewer.
    """
    who, seen = find(connection, instant, token, tournament_id)
    if who is not None:
        access.demand(who, *scopes)
    return visible(seen)


def look_with_token(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    scopes: Sequence[str],
) -> Seen:
    """Return what :func:`look` does, to somebody with a token that is good for these scopes."""
    who, seen = find(connection, instant, token, tournament_id)
    access.demand(who, *scopes)
    return visible(seen)


def visible(seen: Seen | None) -> Seen:
    """Return a tournament if its viewer may see it.

    Raises:
        NotFoundError: There is none, or not for them.
    """
    if seen is None:
        access.not_found("tournament")
    hidden = seen.tournament.course.published_at is None or (
        seen.tournament.plan.visibility == "private" and seen.own is None
    )
    if hidden and seen.role is None:
        access.not_found("tournament")
    return seen


def find(
    connection: Connection, instant: Instant, token: bytes | None, tournament_id: UUID
) -> tuple[Viewer | None, Seen | None]:
    """Return the viewer and a tournament, whoever may see it; None if there is none."""
    row = _READ.on(connection, token=token, tournament=tournament_id).fetchone() or ()
    now, who = access.viewer(connection, row, token, instant)
    stored = dict(zip(_NAMES, row[_AT:], strict=False))
    if stored["id"] is None:
        return who, None
    course, dealt, owner, role, overdue, *own = row[_AT + len(_NAMES) :]
    tournament = parse(stored, course, dealt)
    if who is None or ORGANISE[0] not in who.scopes:
        role = None
    elif who.player == tournament.owner:
        role = "owner"
    if role is None and who is not None and access.ADMIN[0] in who.scopes:
        role = "admin"
    return who, Seen(
        now,
        who,
        tournament,
        role,
        None if own[0] is None else Own(own[0], own[1], own[2], own[3], bool(own[4])),
        owner,
        overdue or tournament.due_cut(now) is not None,
    )


def parse(stored: Mapping[str, Any], course: list[Any], dealt: list[Any]) -> Tournament:
    """Return a tournament from its row, its rounds and its deals."""
    rounds, stages = [], []
    deals = tuple(Deal(*one) for one in sorted(dealt, key=lambda one: one[0]))
    for number, *instants, by, value in sorted(course, key=lambda one: one[0]):
        starts, ends, closes = map(datetime.fromisoformat, instants[:3])
        reveals = None if instants[3] is None else datetime.fromisoformat(instants[3])
        rounds.append(Round(number, starts, ends, closes, reveals))
        count = sum(1 for deal in deals if deal.round == number and deal.counts)
        stages.append(Stage(starts, ends, count, None if by is None else Cut(by, value)))
    limit = stored["limit_ms"]
    plan = Plan(
        stages=tuple(stages),
        limit=None if limit is None else timedelta(milliseconds=limit),
        scoring=scoring_of(stored["scoring"]),
        **{
            name: stored[name]
            for name in (
                *("title", "about", "ruleset", "visibility", "entry_by", "capacity"),
                *("entry_opens_at", "entry_closes_at", "attempts", "warm_up", "reveal"),
            )
        },
    )
    return Tournament(
        id=stored["id"],
        owner=stored["owner_id"],
        created_at=stored["created_at"],
        version=stored["version"],
        plan=plan,
        course=Course(
            plan.entry_opens_at,
            plan.entry_closes_at,
            stored["published_at"],
            stored["cancelled_at"],
            stored["finalised_at"],
            rounds,
        ),
        deals=deals,
        series=stored["series_id"],
        frozen_at=stored["frozen_at"],
        **{
            name: stored[name]
            for name in ("entries", "events", "told_at", "rulings", "results", "cut")
        },
    )


HOLD: Final = Statement(
    select(TOURNAMENT.id)
    .where(TOURNAMENT.id == bindparam("tournament"))
    .with_for_update(key_share=True)
)


def hold(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    roles: Sequence[Role] = (),
    scopes: Sequence[str] = ORGANISE,
) -> tuple[Seen, Viewer]:
    """Return a tournament that nobody else changes until the transaction is over.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        roles: One of which the viewer must have; none for anybody.
        scopes: What the token must be good for.

    Raises:
        NotFoundError: There is no such tournament for this viewer.
        RoleMissingError: They may see it, but not do this.
    """
    who, found = find_held(connection, instant, token, tournament_id)
    access.demand(who, *scopes)
    seen = visible(found)
    return seen, demand(seen, roles, scopes)


def find_held(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    how: Statement = HOLD,
) -> tuple[Viewer | None, Seen | None]:
    """Return what :func:`find` does, once a lock is had; the request's instant is that of then.

    Whoever waited long must not be judged by where the tournament was before.
    """
    how.on(connection, tournament=tournament_id)
    (now,) = _CLOCK.on(connection).fetchone() or ()
    instant.renew(now)
    return find(connection, instant, token, tournament_id)


_CLOCK: Final = Statement(select(func.clock_timestamp()))


def demand(seen: Seen, roles: Sequence[Role], scopes: Sequence[str] = ORGANISE) -> Viewer:
    """Return the viewer if they have one of these roles, if any is asked for, and the scopes."""
    who = access.demand(seen.who, *scopes)
    if roles and seen.role not in roles:
        raise RoleMissingError(f"this is for the tournament's {' or '.join(roles[:-1])}")
    return who


def look_as_host(
    connection: Connection, instant: Instant, token: bytes | None, tournament_id: UUID
) -> Seen:
    """Return a tournament that the viewer has a part in hosting.

    Raises:
        NotFoundError: There is no such tournament for this viewer.
        RoleMissingError: They may see it, but have no part in it.
    """
    seen = look_with_token(connection, instant, token, tournament_id, ORGANISE)
    demand(seen, STAFF)
    return seen


KINDS: Final = (
    *("created", "edited", "published", "cancelled", "frozen", "unfrozen", "revealed"),
    *("finalised", "reopened", "joined", "withdrew", "result", "cut", "ruling"),
    *("role-given", "role-taken", "invite-made", "invite-revoked", "entry-code", "taken-over"),
    *("verification-started", "verification-failed", "verified", "attempt-invalid"),
    *("rejudging-started", "rejudging-failed", "rejudged", "rejudging-applied"),
    *("rejudging-dropped", "webhook-made", "webhook-removed", "webhook-disabled"),
)
"""All kinds of events."""
KEPT_BACK: Final = ("result", "cut", "ruling", "rejudging-applied")
"""Events that a freeze keeps from all but hosts, until the standings are shown again ..."""
SHOWN_AGAIN: Final = ("unfrozen", "finalised")
"""... and those with which they are."""


@dataclass(frozen=True, slots=True)
class Event:
    """What happened in a tournament.

    Attributes:
        kind: What it was, one of KINDS.
        by: The player who did it, None where nobody did.
        entry: The entry that it is about, None for none.
        reason: Why, as whoever did it says.
        public: Whether anybody may know of it who may see the tournament.
        data: What else there is to say.
    """

    kind: str
    by: UUID | None = None
    entry: UUID | None = None
    reason: str | None = None
    public: bool = True
    data: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Check the kind: webhooks can ask for no other.

        Raises:
            ValueError: It is none.
        """
        if self.kind not in KINDS:
            raise ValueError(f"no kind of event: {self.kind}")


def tell(
    connection: Connection, tournament: UUID, now: datetime, *told: Event, version: bool = False
) -> None:
    """Number events and write them, in a transaction that holds the tournament.

    Args:
        connection: In that transaction.
        tournament: The tournament's id.
        now: When they happened.
        told: The events.
        version: Whether what is told of the tournament itself has changed.
    """
    _TELL.on(
        connection,
        tournament=tournament,
        now=now,
        count=len(told),
        grown=int(version),
        kinds=[one.kind for one in told],
        publics=[one.public for one in told],
        bys=[one.by for one in told],
        entries=[one.entry for one in told],
        reasons=[one.reason for one in told],
        datas=[Jsonb(dict(one.data or {})) for one in told],
    )


_TELL: Final = Statement(
    text("""
WITH counted AS (
    UPDATE tournaments SET events = events + :count, told_at = greatest(told_at, :now),
        version = version + :grown
    WHERE id = :tournament
    RETURNING events - :count AS before, told_at
)
INSERT INTO tournament_events
    (tournament_id, number, at, kind, public, by_player, entry_id, reason, data)
SELECT :tournament, before + n, told_at, kind, public, by, entry, reason, data
FROM counted, unnest(:kinds, :publics, :bys, :entries, :reasons, :datas) WITH ORDINALITY
    AS one (kind, public, by, entry, reason, data, n)
""").bindparams(
        bindparam("tournament", type_=Uuid()),
        bindparam("now", type_=TOURNAMENT.told_at.type),
        bindparam("count", type_=Integer()),
        bindparam("grown", type_=Integer()),
        bindparam("kinds", type_=ARRAY(Text)),
        bindparam("publics", type_=ARRAY(tables.events.c.public.type)),
        bindparam("bys", type_=ARRAY(Uuid)),
        bindparam("entries", type_=ARRAY(Uuid)),
        bindparam("reasons", type_=ARRAY(Text)),
        bindparam("datas", type_=ARRAY(JSONB)),
    )
)


def store(connection: Connection, tournament: UUID, **values: Any) -> None:
    """Write columns of a tournament's row, in a transaction that holds it."""
    connection.execute(
        update(tables.tournaments).where(TOURNAMENT.id == tournament).values(**values)
    )


def store_entry(connection: Connection, tournament: UUID, entry: UUID, **values: Any) -> None:
    """Write columns of an entry's row, in a transaction that holds its tournament."""
    of = tables.entries
    connection.execute(
        update(of).where(of.c.tournament_id == tournament, of.c.id == entry).values(**values)
    )


def reveals_at(plan: Plan, closes_at: datetime) -> datetime | None:
    """Return from when on the seeds of a round that closes then may be known, if that is told."""
    return closes_at + CLOSING if plan.reveal == "closing" else None
