"""Rulings: what hosts decide on entries, attempts and rounds, as facts beside the games.

A ruling is added, with its author and reason, and never changed; one that is taken back stays, and
a further one says so. The games stay as they are: standings follow from them and from the rulings
that hold.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy.orm import aliased

from service import access, repeats, standings
from service.engine.standings import RulingKind
from service.repeats import Key
from service.store import tables
from service.store.database import Instant
from service.tournaments.hosting import check_pauses, move_deadlines, write_closing
from service.tournaments.model import (
    DIRECTORS,
    GAME,
    ORGANISE,
    STAFF,
    BadRulingError,
    BadTournamentError,
    Event,
    Json,
    Seen,
    Tournament,
    WrongStateError,
    hold,
    look,
    reach_of,
    store,
    store_entry,
    tell,
)

NEEDED: Final[Mapping[str, tuple[frozenset[str], ...]]] = {
    "disqualify": (frozenset({"entry"}),),
    "reinstate": (frozenset({"entry"}),),
    "annul": (frozenset({"entry", "deal", "attempt"}),),
    "adjust": (frozenset({"entry", "deal", "attempt", "terms"}),),
    "extend": (frozenset({"round", "ms"}), frozenset({"entry", "deal", "attempt", "ms"})),
    "admit": (frozenset({"entry", "round"}),),
}
"""What must be told of each kind, and nothing else."""

_MOVING: Final = ("disqualify", "reinstate", "annul", "adjust", "reverse")
"""Kinds that say something of the standings, which may be frozen."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A ruling as it is asked for.

    Attributes:
        kind: What it does; see ``engine.standings.Ruling``.
        reason: Why.
        entry: The entry, where it is about one.
        deal: The deal's number, where it is about an attempt.
        attempt: The attempt's.
        round: The round, where it is about one.
        terms: What ``adjust`` puts in place of which part of the result.
        ms: By how much ``extend`` puts off deadlines.
    """

    kind: RulingKind
    reason: str
    entry: UUID | None = None
    deal: int | None = None
    attempt: int | None = None
    round: int | None = None
    terms: Mapping[str, int] = field(default_factory=dict)
    ms: int | None = None

    def check(self) -> None:
        """Return if all is told that its kind needs, and nothing else.

        Raises:
            BadRulingError: It is not.
        """
        names = ("entry", "deal", "attempt", "round", "ms")
        told = {name for name in names if getattr(self, name) is not None}
        if self.terms:
            told.add("terms")
        choices = NEEDED[self.kind]
        if told in choices:
            return
        wanted = " or of ".join(", ".join(sorted(one)) for one in choices)
        nearest = min(choices, key=lambda one: len(one ^ told))
        odd = min(nearest ^ told)
        raise BadRulingError(f"/{odd}", f"{self.kind} is told with all of {wanted}, and no more")


@dataclass(frozen=True, slots=True)
class Ruling:
    """A ruling as it is stored.

    Attributes:
        number: From 1, in their order.
        at: When it was made.
        by: Who made it.
        kind: What it does; ``reverse`` takes another one back.
        entry: The entry, where it is about one.
        deal: The deal's number, where it is about an attempt.
        attempt: The attempt's.
        round: The round, where it is about one.
        terms: What else it says; by kind.
        reason: Why.
        reversed_by: The number of the ruling that takes it back, if one does.
        reversed_at: When that was made.
    """

    number: int
    at: datetime
    by: UUID
    kind: str
    entry: UUID | None
    deal: int | None
    attempt: int | None
    round: int | None
    terms: Json
    reason: str
    reversed_by: int | None = None
    reversed_at: datetime | None = None


_R: Final = tables.rulings
_BACK: Final = aliased(_R)
_QUERY: Final = (
    select(
        *(_R.c.number, _R.c.at, _R.c.by_player, _R.c.kind, _R.c.entry_id, _R.c.deal_no),
        *(_R.c.attempt, _R.c.round, _R.c.terms, _R.c.reason, _R.c.reversed_by, _BACK.c.at),
    )
    .select_from(_R)
    .outerjoin(
        _BACK,
        (_BACK.c.tournament_id == _R.c.tournament_id) & (_BACK.c.number == _R.c.reversed_by),
    )
    .order_by(_R.c.number)
)


def _read(connection: Connection, tournament: UUID, *conditions: Any) -> list[Ruling]:
    query = _QUERY.where(_R.c.tournament_id == tournament, *conditions)
    rows: list[Any] = list(connection.execute(query))
    return [Ruling(*row) for row in rows]


def make(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    asked: Asked,
    key: Key | None = None,
) -> tuple[Seen, Ruling]:
    """Make a ruling and return it, with the tournament as it is then.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        asked: The ruling.
        key: What the client sent so that it may ask again.

    Raises:
        BadRulingError: It is not told whole.
        NotFoundError: There is no such entry, attempt or round.
        WrongStateError: It would change nothing, or it is too late, or too early for it.
        KeyReusedError: The key was sent with another request.
    """
    asked.check()
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    number = seen.tournament.rulings + 1
    if key is not None:
        made = repeats.claim(connection, seen.now, who.player, key, UUID(int=number)).int
        if made != number:
            (before,) = _read(connection, tournament_id, _R.c.number == made)
            return seen, before
    _check_open(seen)
    terms = _PREPARE[asked.kind](connection, seen, asked)
    ruling = Ruling(
        *(number, seen.now, who.player, asked.kind, asked.entry, asked.deal, asked.attempt),
        *(asked.round, terms, asked.reason),
    )
    _write(connection, tournament_id, ruling)
    _carry_out(connection, seen, ruling, 1)
    _announce(connection, seen, ruling)
    after = look(connection, instant, token, tournament_id, ORGANISE)
    with _moving_first():
        check_pauses(after.tournament)
    return after, ruling


def reverse(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    number: int,
    reason: str,
) -> tuple[Seen, Ruling]:
    """Take a ruling back, by a ruling of its own; return that, and the tournament as it is then.

    Raises:
        NotFoundError: There is no such ruling.
        WrongStateError: It is taken back already, or takes one back itself; or the round of what
            it extends has closed; or the tournament is final.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    _check_open(seen)
    if not 1 <= number <= seen.tournament.rulings:
        access.not_found("ruling")
    (back,) = _read(connection, tournament_id, _R.c.number == number)
    if back.kind == "reverse":
        raise WrongStateError(f"ruling {number} takes another one back: make that one anew")
    if back.reversed_by is not None:
        raise WrongStateError(f"ruling {back.reversed_by} has taken it back already")
    ruling = Ruling(
        *(seen.tournament.rulings + 1, seen.now, who.player, "reverse", back.entry, back.deal),
        *(back.attempt, back.round, {"reverses": number}, reason),
    )
    if back.kind == "extend":
        _check_unsettled(seen, _round_of(seen.tournament, back))
    _write(connection, tournament_id, ruling)
    connection.execute(
        update(_R)
        .where(_R.c.tournament_id == tournament_id, _R.c.number == number)
        .values(reversed_by=ruling.number)
    )
    _carry_out(connection, seen, back, -1)
    _announce(connection, seen, ruling)
    return look(connection, instant, token, tournament_id, ORGANISE), ruling


def read(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    after: int,
    limit: int,
) -> tuple[Seen, list[Ruling]]:
    """Return the next rulings after one, by its number, that the viewer may know of.

    While the standings are frozen, what was ruled on them since is known to the hosts, and to the
    player whom it is about.

    Raises:
        NotFoundError: There is no such tournament for this viewer.
    """
    seen = look(connection, instant, token, tournament_id)
    query = _QUERY.where(_R.c.tournament_id == tournament_id, _R.c.number > after).limit(limit)
    frozen = seen.tournament.frozen_at
    if frozen is None or seen.role in STAFF:
        rows: list[Any] = list(connection.execute(query))
        return seen, [Ruling(*row) for row in rows]
    own = None if seen.own is None else seen.own.id
    told = or_(_R.c.kind.not_in(_MOVING), _R.c.at < frozen, _R.c.entry_id == own)
    rows = list(connection.execute(query.where(told)))
    return seen, [
        replace(one, reversed_by=None)
        if one.reversed_at and one.reversed_at >= frozen and one.entry != own
        else one
        for one in (Ruling(*row) for row in rows)
    ]


def _check_open(seen: Seen) -> None:
    if seen.state in {"draft", "final", "cancelled"}:
        raise WrongStateError(f"the tournament is {seen.state}")


def _write(connection: Connection, tournament: UUID, ruling: Ruling) -> None:
    connection.execute(
        insert(_R),
        {
            "tournament_id": tournament,
            "number": ruling.number,
            "at": ruling.at,
            "by_player": ruling.by,
            "kind": ruling.kind,
            "entry_id": ruling.entry,
            "deal_no": ruling.deal,
            "attempt": ruling.attempt,
            "round": ruling.round,
            "terms": ruling.terms,
            "reason": ruling.reason,
        },
    )
    store(connection, tournament, rulings=ruling.number)


def _announce(connection: Connection, seen: Seen, ruling: Ruling) -> None:
    named = ("number", "kind", "deal", "attempt", "round")
    data = {name: value for name in named if (value := getattr(ruling, name)) is not None}
    data |= {name: ruling.terms[name] for name in _TOLD if name in ruling.terms}
    event = Event(
        "ruling",
        ruling.by,
        ruling.entry,
        ruling.reason,
        public=seen.tournament.frozen_at is None or ruling.kind not in _MOVING,
        data=data,
    )
    tell(connection, seen.tournament.id, seen.now, event, version=True)


_TOLD: Final = ("won", "cards", "entries", "time", "ms", "reverses")
"""What is told of a ruling's terms."""


def _holding(connection: Connection, seen: Seen, asked: Asked, *kinds: str) -> list[Ruling]:
    """Return the rulings of these kinds on the same entry that hold."""
    return _read(
        connection,
        seen.tournament.id,
        _R.c.entry_id == asked.entry,
        _R.c.kind.in_(kinds),
        _R.c.reversed_by.is_(None),
    )


def _prepare_status(connection: Connection, seen: Seen, asked: Asked) -> Json:
    _entry_reach(connection, seen, asked)
    last = _holding(connection, seen, asked, "disqualify", "reinstate")[-1:]
    out = bool(last) and last[0].kind == "disqualify"
    if out == (asked.kind == "disqualify"):
        raise WrongStateError(f"the entry is {'' if out else 'not '}disqualified")
    return {}


def _prepare_result(connection: Connection, seen: Seen, asked: Asked) -> Json:
    ended_at, _ = _attempt(connection, seen, asked)
    if ended_at is None:
        raise WrongStateError("the attempt is not over")
    named = (asked.deal, asked.attempt)
    annulled = _holding(connection, seen, asked, "annul")
    if any((one.deal, one.attempt) == named for one in annulled):
        raise WrongStateError("the attempt is annulled")
    return dict(asked.terms)


def _prepare_extension(connection: Connection, seen: Seen, asked: Asked) -> Json:
    if asked.round is None:
        ended_at, deadline = _attempt(connection, seen, asked)
        # Nobody may have written yet that it is over.
        if ended_at is not None or deadline < seen.now:
            raise WrongStateError("the attempt is over")
    _check_unsettled(seen, _round_of(seen.tournament, asked))
    return {"ms": asked.ms}


def _prepare_admission(connection: Connection, seen: Seen, asked: Asked) -> Json:
    reach = _entry_reach(connection, seen, asked)
    stages = seen.tournament.plan.stages
    number = asked.round or 0
    if number > len(stages):
        access.not_found("round")
    if number > seen.tournament.cut:
        raise WrongStateError(f"it is not settled yet who plays round {number}")
    if reach >= number:
        raise WrongStateError(f"the entry plays round {number} already")
    state = seen.tournament.course.rounds[number - 1].state(seen.now)
    if state not in {"upcoming", "open"}:
        raise WrongStateError(f"round {number} is {state}")
    return {"from": reach, "to": reach_of([stage.cut for stage in stages], number)}


_PREPARE: Final = {
    "disqualify": _prepare_status,
    "reinstate": _prepare_status,
    "annul": _prepare_result,
    "adjust": _prepare_result,
    "extend": _prepare_extension,
    "admit": _prepare_admission,
}
"""What looks whether a ruling of a kind can be made, and returns its terms."""


def _entry_reach(connection: Connection, seen: Seen, asked: Asked) -> int:
    of = tables.entries.c
    query = select(of.reach).where(of.tournament_id == seen.tournament.id, of.id == asked.entry)
    reach: int | None = connection.execute(query).scalar_one_or_none()
    if reach is None:
        access.not_found("entry")
    return reach


def _attempt(connection: Connection, seen: Seen, asked: Asked) -> tuple[datetime | None, datetime]:
    """Return when an attempt at a deal that counts ended, and its deadline."""
    query = select(GAME.ended_at, GAME.deadline).where(
        GAME.tournament_id == seen.tournament.id,
        GAME.entry_id == asked.entry,
        GAME.deal_no == asked.deal,
        GAME.attempt == asked.attempt,
    )
    row = connection.execute(query).first()
    if row is None:
        access.not_found("attempt")
    if not any(one.number == asked.deal and one.counts for one in seen.tournament.deals):
        raise WrongStateError(f"deal {asked.deal} never counts")
    return row[0], row[1]


def _round_of(tournament: Tournament, about: Asked | Ruling) -> int:
    if about.round is not None:
        return about.round
    return next(one.round for one in tournament.deals if one.number == about.deal)


def _check_unsettled(seen: Seen, number: int) -> None:
    rounds = seen.tournament.course.rounds
    if number > len(rounds):
        access.not_found("round")
    state = rounds[number - 1].state(seen.now)
    if state not in {"open", "closing"}:
        raise WrongStateError(f"round {number} is {state}")


def _carry_out(connection: Connection, seen: Seen, ruling: Ruling, way: int) -> None:
    """Write what follows from a ruling that is stored.

    Args:
        connection: In a transaction that holds the tournament.
        seen: The tournament as it was before.
        ruling: The ruling.
        way: 1 as it is made, -1 as it is taken back.
    """
    if ruling.kind == "extend":
        _extend(connection, seen, ruling, timedelta(milliseconds=way * ruling.terms["ms"]))
        return
    assert ruling.entry is not None  # noqa: S101 - for the type checker
    if ruling.kind == "admit":
        reach = ruling.terms["to"] if way > 0 else _reach_without(connection, seen, ruling)
        if reach is not None:
            store_entry(connection, seen.tournament.id, ruling.entry, reach=reach)
    standings.write(connection, seen.tournament.id, [ruling.entry])


def _extend(connection: Connection, seen: Seen, ruling: Ruling, by: timedelta) -> None:
    """Have the deadlines of open attempts be what they are by the rulings that hold now."""
    tournament, now = seen.tournament, seen.now
    number = _round_of(tournament, ruling)
    round_ = tournament.course.rounds[number - 1]
    ends_at = round_.ends_at
    if ruling.round is not None:
        # What is past is not taken back.
        ends_at = max(ends_at + by, min(ends_at, now))
        _check_plan(tournament, number, ends_at)
    move_deadlines(connection, tournament.id, tournament.plan, number, ends_at, now)
    write_closing(connection, tournament.id, tournament.plan, number, round_.starts_at, ends_at)


def _check_plan(tournament: Tournament, number: int, ends_at: datetime) -> None:
    stages: Sequence[Any] = [
        replace(stage, ends_at=ends_at) if n == number else stage
        for n, stage in enumerate(tournament.plan.stages, 1)
    ]
    with _moving_first():
        replace(tournament.plan, stages=tuple(stages)).check()


@contextmanager
def _moving_first() -> Iterator[None]:
    try:
        yield
    except BadTournamentError as error:
        raise WrongStateError(f"move what comes after first: {error}") from error


def _reach_without(connection: Connection, seen: Seen, ruling: Ruling) -> int | None:
    """Return how far an entry may play without an admission; None where a later one decides."""
    made = _read(
        connection,
        seen.tournament.id,
        _R.c.entry_id == ruling.entry,
        _R.c.kind == "admit",
    )
    holding = [one.number for one in made if one.reversed_by is None]
    if holding and holding[-1] > ruling.number:
        return None
    # Those that it came after, and that were taken back since, have no part in it any more.
    gone = [
        one.terms["from"]
        for one in made
        if one.number > (holding[-1] if holding else 0)
        and one.number <= ruling.number
        and (one.reversed_by or 0) >= ruling.number
    ]
    return int(min(gone))
