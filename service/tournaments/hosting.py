"""What hosts do: make, edit, publish, call off, freeze, reveal; and lists of tournaments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import (
    Connection,
    Row,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from service import access, lists, repeats
from service.engine.standings import scoring_json
from service.lists import Page, Place
from service.repeats import Key
from service.schedule import State
from service.store import tables
from service.store.database import Instant
from service.tournaments.model import (
    COURSE,
    DEALS,
    DIRECTORS,
    GAME,
    KEPT_BACK,
    ORGANISE,
    OWNERS,
    TOURNAMENT,
    BadTournamentError,
    Event,
    Json,
    Plan,
    Seen,
    Stage,
    StaleVersionError,
    Tournament,
    WrongStateError,
    hold,
    look,
    parse,
    reveals_at,
    store,
    tell,
)


def create(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    plan: Callable[[datetime], Plan],
    *,
    tournament_id: UUID,
    series: UUID | None = None,
    key: Key | None = None,
) -> Seen:
    """Make a tournament, a draft that only its owner sees, and return it.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        plan: Gives what it is to be, from the request's instant.
        tournament_id: A new UUIDv7.
        series: What it has in common with others that were made together.
        key: What the client sent so that it may ask again.

    Raises:
        BadTournamentError: The plan makes no sense.
        KeyReusedError: The key was sent with another request.
    """
    now, who = access.read_viewer(connection, token, instant)
    who = access.demand(who, *ORGANISE)
    if key is not None:
        known = repeats.claim(connection, now, who.player, key, tournament_id)
        if known != tournament_id:
            return look(connection, instant, token, known, ORGANISE)
    planned = plan(now)
    planned.check()
    row = {
        "id": tournament_id,
        "owner_id": who.player,
        "created_at": now,
        "series_id": series,
        "version": 1,
        "told_at": now,
        "cut": planned.reach,
        **dict.fromkeys(("entries", "events", "rulings", "results"), 0),
        **_values(planned),
    }
    connection.execute(insert(tables.tournaments), row)
    _write_rounds(connection, tournament_id, planned)
    tell(connection, tournament_id, now, Event("created", who.player, public=False))
    return look(connection, instant, token, tournament_id, ORGANISE)


def create_series(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    plans: Mapping[date, Callable[[datetime], Plan]],
    *,
    ids: Sequence[UUID],
    series: UUID,
    key: Key | None = None,
) -> tuple[UUID, list["Summary"]]:
    """Make a tournament of each plan, all of one series or none; return its id and them all.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        plans: What each is to be, by its date, in their order.
        ids: For each a new UUIDv7, rising.
        series: A new UUIDv7.
        key: What the client sent so that it may ask again.

    Raises:
        BadTournamentError: A plan makes no sense on its date.
        KeyReusedError: The key was sent with another request.
    """
    now, who = access.read_viewer(connection, token, instant)
    who = access.demand(who, *ORGANISE)
    made = series
    if key is not None:
        made = repeats.claim(connection, now, who.player, key, series)
    if made == series:
        for (on, plan), tournament_id in zip(plans.items(), ids, strict=True):
            try:
                create(connection, instant, token, plan, tournament_id=tournament_id, series=series)
            except BadTournamentError as error:
                where = error.pointer.removesuffix("_at")
                raise BadTournamentError(where, f"on {on}: {error.detail}") from error
    query = select(*_LISTED).where(TOURNAMENT.series_id == made).order_by(TOURNAMENT.id)
    return made, [_summary(row, now) for row in connection.execute(query)]


def _values(plan: Plan) -> Json:
    return {
        **{
            name: getattr(plan, name)
            for name in (
                *("title", "about", "ruleset", "visibility", "entry_by", "capacity"),
                *("entry_opens_at", "entry_closes_at", "attempts", "warm_up", "reveal"),
            )
        },
        "limit_ms": None if plan.limit is None else plan.limit // timedelta(milliseconds=1),
        "scoring": scoring_json(plan.scoring),
    }


def _write_rounds(connection: Connection, tournament: UUID, plan: Plan) -> None:
    """Write a draft's rounds and deals in place of those that it has."""
    for gone in (tables.deals, tables.rounds):
        connection.execute(delete(gone).where(gone.c.tournament_id == tournament))
    rounds = [
        {
            "tournament_id": tournament,
            "number": number,
            "starts_at": stage.starts_at,
            "ends_at": stage.ends_at,
            "closes_at": stage.ends_at,
            "reveals_at": reveals_at(plan, stage.ends_at),
            "cut_by": stage.cut.by if stage.cut else None,
            "cut_value": stage.cut.value if stage.cut else None,
        }
        for number, stage in enumerate(plan.stages, 1)
    ]
    connection.execute(insert(tables.rounds), rounds)
    dealt = [
        (number, True) for number, stage in enumerate(plan.stages, 1) for _ in range(stage.deals)
    ]
    if plan.warm_up:
        dealt.append((1, False))
    connection.execute(
        insert(tables.deals),
        [
            {"tournament_id": tournament, "number": number, "round": of, "counts": counts}
            for number, (of, counts) in enumerate(dealt, 1)
        ],
    )


PINNED: Final = ("ruleset", "attempts", "limit", "scoring", "warm_up", "reveal")
"""What nobody changes any more once a tournament is published."""


def edit(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    version: int,
    change: Callable[[Plan], Plan],
    reason: str | None,
) -> Seen:
    """Change what a tournament is to be and return it.

    Once it is published, what attempts depend on stays. Instants of rounds may move as long as
    nothing that has happened is undone by it: a start that has been, or an end before now. Open
    attempts then end when they would if they had been started under the new end.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        version: The version that the client saw.
        change: Makes the new plan of the old one.
        reason: Why, for those who take part.

    Raises:
        StaleVersionError: It has changed since.
        WrongStateError: It cannot be changed so any more.
        BadTournamentError: The new plan makes no sense.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    old, now = seen.tournament, seen.now
    if old.version != version:
        raise StaleVersionError(f"the tournament is at version {old.version}, not at {version}")
    if seen.state in {"final", "cancelled"}:
        raise WrongStateError(f"the tournament is {seen.state}")
    plan = change(old.plan)
    plan.check()
    if old.course.published_at is None:
        connection.execute(
            update(tables.tournaments)
            .where(TOURNAMENT.id == tournament_id)
            .values(cut=plan.reach, **_values(plan))
        )
        _write_rounds(connection, tournament_id, plan)
    else:
        _check_published(old, plan, now)
        connection.execute(
            update(tables.tournaments).where(TOURNAMENT.id == tournament_id).values(**_values(plan))
        )
        for round_, stage in zip(old.course.rounds, plan.stages, strict=True):
            if (round_.starts_at, round_.ends_at) != (stage.starts_at, stage.ends_at):
                _move_round(connection, tournament_id, plan, round_.number, stage, now)
    changed = [name for name in _SHOWN if getattr(plan, name) != getattr(old.plan, name)]
    data = {"changed": sorted({_SHOWN[name] for name in changed})}
    public = old.course.published_at is not None
    told = Event("edited", who.player, reason=reason, public=public, data=data)
    tell(connection, tournament_id, now, told, version=True)
    edited = look(connection, instant, token, tournament_id, ORGANISE)
    check_pauses(edited.tournament)
    return edited


_SHOWN: Final = {
    **{name: name for name in Plan.__slots__ if not name.startswith("entry_")},
    **{name: "entry" for name in Plan.__slots__ if name.startswith("entry_")},
    "capacity": "entry",
    "limit": "limit_ms",
    "stages": "rounds",
}


def _check_published(old: Tournament, plan: Plan, now: datetime) -> None:
    for name in PINNED:
        if getattr(plan, name) != getattr(old.plan, name):
            raise WrongStateError(f"{name} is fixed since the tournament was published")
    if plan.capacity is not None and plan.capacity < old.entries:
        raise WrongStateError(f"there are {old.entries} entries already")
    same = [(one.deals, one.cut) for one in plan.stages]
    if same != [(one.deals, one.cut) for one in old.plan.stages]:
        raise WrongStateError("rounds, deals and cuts are fixed since the tournament was published")
    for n, (before, after) in enumerate(zip(old.plan.stages, plan.stages, strict=True)):
        if before.starts_at != after.starts_at and min(before.starts_at, after.starts_at) <= now:
            raise WrongStateError(f"round {n + 1} has started, or would have before now")
        if before.ends_at != after.ends_at:
            if before.ends_at <= now:
                raise WrongStateError(f"round {n + 1} has ended")
            if after.ends_at <= now:
                raise WrongStateError(f"round {n + 1} would have ended before now")


def _move_round(
    connection: Connection,
    tournament: UUID,
    plan: Plan,
    number: int,
    stage: Stage,
    now: datetime,
) -> None:
    """Write a round's new instants, and the deadlines of its open attempts by the same rule."""
    move_deadlines(connection, tournament, plan, number, stage.ends_at, now)
    write_closing(connection, tournament, plan, number, stage.starts_at, stage.ends_at)


def check_pauses(tournament: Tournament) -> None:
    """Return if all that may still be played before a cut is over when the round with it begins.

    Raises:
        BadTournamentError: An attempt that was extended may last longer.
    """
    rounds = tournament.course.rounds
    for n, stage in enumerate(tournament.plan.stages):
        settles_at = max((one.settles_at for one in rounds[:n]), default=stage.starts_at)
        if stage.cut is not None and stage.starts_at < settles_at:
            until = settles_at.isoformat(timespec="milliseconds")
            detail = f"not before {until}: until then what is played before its cut may change"
            raise BadTournamentError(f"/rounds/{n}/starts_at", detail)


def move_deadlines(
    connection: Connection,
    tournament: UUID,
    plan: Plan,
    number: int,
    ends_at: datetime,
    now: datetime,
) -> None:
    """Write the deadlines that a round's open attempts have by its end and the rulings that hold.

    What extends a round gives those attempts more time that were open then, and what extends an
    attempt goes beyond the round's end. What warms up may go on until the last round ends. No
    deadline is put before now, unless it was there.
    """
    connection.execute(
        _MOVE_DEADLINES,
        {
            "tournament": tournament,
            "number": number,
            "ends_at": ends_at,
            "limit": plan.limit,
            "now": now,
        },
    )
    last = ends_at if number == len(plan.stages) else plan.stages[-1].ends_at
    connection.execute(_END_WARM_UP, {"tournament": tournament, "last": last})


def write_closing(
    connection: Connection,
    tournament: UUID,
    plan: Plan,
    number: int,
    starts_at: datetime,
    ends_at: datetime,
) -> None:
    """Write a round's instants, with the last deadline of its attempts and the reveal after it."""
    counting = select(_D.number).where(
        _D.tournament_id == tournament, _D.round == number, _D.counts
    )
    latest = connection.execute(
        select(func.max(GAME.deadline)).where(
            GAME.tournament_id == tournament,
            GAME.deal_no.in_(counting),
            GAME.ended_at.is_(None),
        )
    ).scalar_one()
    closes_at = ends_at if latest is None else max(latest, ends_at)
    connection.execute(
        update(tables.rounds)
        .where(tables.rounds.c.tournament_id == tournament, tables.rounds.c.number == number)
        .values(
            starts_at=starts_at,
            ends_at=ends_at,
            closes_at=closes_at,
            reveals_at=reveals_at(plan, closes_at),
        )
    )


_D: Final = tables.deals.c
# The clock is read for each game, once it is had: moves are made meanwhile, and none is to lie
# after a deadline that it was made before.
_MOVE_DEADLINES: Final = text("""
WITH open AS (
    SELECT game.id, game.created_at, game.deadline,
        coalesce(sum(CAST(one.terms->>'ms' AS bigint)) FILTER (WHERE one.round IS NOT NULL), 0)
            * interval '1 ms' AS wide,
        coalesce(sum(CAST(one.terms->>'ms' AS bigint)) FILTER (WHERE one.round IS NULL), 0)
            * interval '1 ms' AS own
    FROM games AS game
    JOIN tournament_deals AS deal
        ON deal.tournament_id = game.tournament_id AND deal.number = game.deal_no AND deal.counts
    LEFT JOIN tournament_rulings AS one
        ON one.tournament_id = game.tournament_id AND one.kind = 'extend'
        AND one.reversed_by IS NULL
        AND (
            (one.round = game.round AND one.at >= game.created_at)
            OR (one.entry_id = game.entry_id AND one.deal_no = game.deal_no
                AND one.attempt = game.attempt)
        )
    WHERE game.tournament_id = :tournament AND game.round = :number AND game.ended_at IS NULL
    GROUP BY game.id
)
UPDATE games SET deadline = greatest(
    least(open.deadline, date_trunc('milliseconds', clock_timestamp())),
    least(open.created_at + CAST(:limit AS interval) + open.wide, :ends_at) + open.own
)
FROM open WHERE games.id = open.id AND games.ended_at IS NULL AND open.deadline >= :now
""")
_END_WARM_UP: Final = text("""
UPDATE games SET deadline =
    least(games.deadline, greatest(:last, date_trunc('milliseconds', clock_timestamp())))
FROM tournament_deals AS deal
WHERE games.tournament_id = :tournament AND games.ended_at IS NULL AND games.deadline > :last
    AND deal.tournament_id = games.tournament_id AND deal.number = games.deal_no
    AND NOT deal.counts
""")


def publish(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    seeds: Sequence[str],
) -> Seen:
    """Publish a draft: its deals are drawn, and what it commits to is public from now on.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        seeds: At least MAX_DEALS + 1 new seeds.

    Raises:
        WrongStateError: It is published already, or its first round would be over.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    tournament = seen.tournament
    if tournament.course.published_at is not None:
        return seen
    if seen.state != "draft":
        raise WrongStateError(f"the tournament is {seen.state}")
    if tournament.course.rounds[0].ends_at <= seen.now:
        raise WrongStateError("its first round would be over: move it first")
    connection.execute(
        update(tables.deals)
        .where(tables.deals.c.tournament_id == tournament_id)
        .where(tables.deals.c.number == bindparam("of"))
        .values(seed=bindparam("drawn")),
        [{"of": one.number, "drawn": seed} for one, seed in zip(tournament.deals, seeds)],  # noqa: B905
    )
    store(connection, tournament_id, published_at=seen.now)
    published = look(connection, instant, token, tournament_id, ORGANISE).tournament
    data = {"commitments": [published.commitment(deal) for deal in published.deals]}
    told = Event("published", who.player, data=data)
    tell(connection, tournament_id, seen.now, told, version=True)
    return look(connection, instant, token, tournament_id, ORGANISE)


def cancel(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    reason: str,
) -> Seen:
    """Call a tournament off, whatever has been played; again is no error.

    Raises:
        WrongStateError: Its results are final.
    """
    seen, who = hold(connection, instant, token, tournament_id, OWNERS)
    if seen.state == "cancelled":
        return seen
    if seen.state == "final":
        raise WrongStateError("its results are final: reopen it first")
    store(connection, tournament_id, cancelled_at=seen.now)
    public = seen.state != "draft"
    told = Event("cancelled", who.player, reason=reason, public=public)
    tell(connection, tournament_id, seen.now, told, version=True)
    return look(connection, instant, token, tournament_id, ORGANISE)


def freeze(
    connection: Connection, instant: Instant, token: bytes | None, tournament_id: UUID
) -> Seen:
    """Keep the standings that others see as they are now, until unfrozen; again is no error.

    Raises:
        WrongStateError: There are no standings to freeze, or they are final.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    if seen.tournament.frozen_at is not None:
        return seen
    if seen.state in {"draft", "final", "cancelled"}:
        raise WrongStateError(f"the tournament is {seen.state}")
    connection.execute(_FREEZE, {"tournament": tournament_id})
    store(connection, tournament_id, frozen_at=seen.now)
    tell(connection, tournament_id, seen.now, Event("frozen", who.player), version=True)
    return look(connection, instant, token, tournament_id, ORGANISE)


_FREEZE: Final = text("""
INSERT INTO tournament_standings (tournament_id, frozen, round, entry_id, key, told)
SELECT tournament_id, true, round, entry_id, key, told FROM tournament_standings
WHERE tournament_id = :tournament AND NOT frozen
""")


def unfreeze(
    connection: Connection, instant: Instant, token: bytes | None, tournament_id: UUID
) -> Seen:
    """Show the standings as they are again; again is no error."""
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    if seen.tournament.frozen_at is None:
        return seen
    drop_frozen(connection, tournament_id)
    tell(connection, tournament_id, seen.now, Event("unfrozen", who.player), version=True)
    return look(connection, instant, token, tournament_id, ORGANISE)


def drop_frozen(connection: Connection, tournament: UUID) -> None:
    """Forget the standings that were kept, and tell what was kept back meanwhile.

    In a transaction that holds the tournament.
    """
    events = tables.events.c
    connection.execute(
        update(tables.events)
        .where(events.tournament_id == tournament, ~events.public)
        .where(events.kind.in_(KEPT_BACK))
        .values(public=True)
    )
    kept = tables.standings
    connection.execute(delete(kept).where(kept.c.tournament_id == tournament, kept.c.frozen))
    store(connection, tournament, frozen_at=None)


def reveal(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    number: int,
) -> Seen:
    """Let everybody know the seeds of a round; again is no error.

    Raises:
        NotFoundError: It has no such round.
        WrongStateError: What is played in the round may still change, or nothing is sealed yet.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    if seen.state == "draft":
        raise WrongStateError("the tournament is draft")
    rounds = seen.tournament.course.rounds
    if not 1 <= number <= len(rounds):
        access.not_found("round")
    state = rounds[number - 1].state(seen.now)
    if state == "revealed":
        return seen
    if state != "closed":
        raise WrongStateError(
            f"round {number} is {state}: its deals are revealed once it is closed"
        )
    connection.execute(
        update(tables.rounds)
        .where(tables.rounds.c.tournament_id == tournament_id, tables.rounds.c.number == number)
        .values(reveals_at=seen.now)
    )
    told = Event("revealed", who.player, data={"round": number})
    tell(connection, tournament_id, seen.now, told, version=True)
    return look(connection, instant, token, tournament_id, ORGANISE)


@dataclass(frozen=True, slots=True)
class Summary:
    """A tournament as lists tell it."""

    id: UUID
    title: str
    ruleset: str
    state: State
    entries: int
    capacity: int | None
    starts_at: datetime
    ends_at: datetime


def list_tournaments(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    *,
    limit: int,
    place: Place | None = None,
    which: Literal["public", "hosted", "entered"] = "public",
    **filters: Any,
) -> Page[Summary]:
    """Return a page of tournaments, newest first.

    Args:
        connection: A connection.
        instant: The request's.
        token: The fingerprint of the request's token.
        limit: Most tournaments.
        place: Where the page lies.
        which: Those that are public, or that the viewer has a part in hosting, or has entered.
        filters: ``ruleset``, ``series``; ``ends_after`` and ``starts_before``, instants.
    """
    now, who = access.read_viewer(connection, token, instant)
    if who is not None:
        access.demand(who, *access.READ)
    query = select(*_LISTED)
    if which == "public":
        query = query.where(TOURNAMENT.visibility == "public", TOURNAMENT.published_at.is_not(None))
    else:
        player = access.demand(who).player
        if which == "entered":
            of = tables.entries.c
            query = query.where(
                exists().where(of.tournament_id == TOURNAMENT.id, of.player_id == player)
            )
        else:
            part = tables.roles.c
            query = query.where(
                or_(
                    TOURNAMENT.owner_id == player,
                    exists().where(part.tournament_id == TOURNAMENT.id, part.player_id == player),
                )
            )
    for name, value in filters.items():
        query = query.where(_FILTERS[name](value))
    return lists.read(
        connection, query, TOURNAMENT.id, partial(_summary, now=now), limit=limit, place=place
    )


_LISTED: Final = (*TOURNAMENT, COURSE.label("course"), DEALS.label("dealt"))
_R: Final = tables.rounds.c
_FILTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "ruleset": lambda name: TOURNAMENT.ruleset == name,
    "series": lambda series: TOURNAMENT.series_id == series,
    "ends_after": lambda instant: exists().where(
        _R.tournament_id == TOURNAMENT.id, _R.ends_at > instant
    ),
    "starts_before": lambda instant: exists().where(
        _R.tournament_id == TOURNAMENT.id, _R.starts_at < instant
    ),
}


def _summary(row: Row[*tuple[Any, ...]], now: datetime) -> Summary:
    stored = dict(row._mapping)  # noqa: SLF001 - the documented way to the row as a mapping
    one = parse(stored, stored["course"], stored["dealt"])
    rounds = one.course.rounds
    return Summary(
        one.id,
        one.plan.title,
        one.plan.ruleset,
        one.course.state(now),
        one.entries,
        one.plan.capacity,
        rounds[0].starts_at,
        rounds[-1].ends_at,
    )
