"""Jobs: a tournament's attempts verified or judged again, some at a time, by whoever comes by.

A step reads and judges without holding anything, and writes what it found in one short transaction
if nobody else has written the same step meanwhile. So any number may step at once, and one that is
killed loses its step alone.

A step that cannot be done, such as one that meets a row that cannot be read, ends its job and keeps
no other waiting: that it has failed is its state, and hosts are told.

A verification marks attempts that nobody has judged. A rejudging judges all of them, and of what
would move standings it writes nothing: that is its findings, applied or dropped as a whole.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import Connection, func, insert, select, update

from service import access, standings
from service.engine.standings import OVERALL, places
from service.store import tables
from service.store.database import Database, DatabaseUnavailableError, Instant
from service.tournaments import verifying
from service.tournaments.model import (
    DIRECTORS,
    GAME,
    HOLD,
    Event,
    Json,
    Seen,
    WrongStateError,
    hold,
    look_as_host,
    tell,
)
from service.tournaments.verifying import Judged

Kind = Literal["verification", "rejudging"]

STEP: Final = 100
"""Entries whose attempts are judged at once by a worker ..."""
SMALL_STEP: Final = 20
"""... and by a request that asks how far it is."""

MAX_TOLD: Final = 1000
"""Most moved entries that findings name; all are counted."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is stored.

    Attributes:
        state: ``running``; ``done``, of a verification; ``proposed``, of a rejudging that is to be
            applied or dropped; ``applied``; ``dropped``; ``failed``, of one that could not go on.
        total: Attempts that there were when it began, or more that came.
        done: How many are judged.
        findings: ``invalid`` and ``restored`` attempts, ``changed`` entries, ``ranks``.
    """

    tournament: UUID
    id: UUID
    kind: Kind
    by: UUID
    reason: str | None
    started_at: datetime
    total: int
    done: int
    cursor: UUID | None
    state: str
    findings: Json
    finished_at: datetime | None


_J: Final = tables.jobs.c
_EMPTY: Final[Json] = {"invalid": [], "restored": [], "changed": []}


def start(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    job_id: UUID,
    kind: Kind,
    reason: str | None = None,
) -> Job:
    """Begin a job and return it; one of its kind that is not over yet is returned instead.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        job_id: A new UUIDv7.
        kind: What it does.
        reason: Why, for those who take part.

    Raises:
        WrongStateError: The results are final, or there are none.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    _demand_open(seen)
    query = select(tables.jobs).where(
        _J.tournament_id == tournament_id, _J.kind == kind, _J.state.in_(("running", "proposed"))
    )
    there = connection.execute(query).first()
    if there is not None:
        return Job(*there)
    counted = select(func.count()).where(
        GAME.tournament_id == tournament_id, GAME.ended_at.is_not(None)
    )
    if kind == "verification":
        counted = counted.where(GAME.verified.is_(None))
    made = {
        "tournament_id": tournament_id,
        "id": job_id,
        "kind": kind,
        "by_player": who.player,
        "reason": reason,
        "started_at": seen.now,
        "total": connection.execute(counted).scalar_one(),
        "done": 0,
        "state": "running",
        "findings": _EMPTY,
    }
    connection.execute(insert(tables.jobs), made)
    told = Event(f"{kind}-started", who.player, reason=reason, public=False)
    tell(connection, tournament_id, seen.now, told)
    return _read(connection, tournament_id, job_id)


def _demand_open(seen: Seen) -> None:
    if seen.state in {"draft", "final", "cancelled"}:
        raise WrongStateError(f"the tournament is {seen.state}")


def _read(connection: Connection, tournament: UUID, job: UUID) -> Job:
    query = select(tables.jobs).where(_J.tournament_id == tournament, _J.id == job)
    row = connection.execute(query).first()
    if row is None:
        access.not_found("job")
    return Job(*row)


def read(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    job_id: UUID,
) -> Job:
    """Return a job; it is its hosts' to know.

    Raises:
        NotFoundError: There is no such tournament for this viewer, or it has no such job.
        RoleMissingError: The viewer does not host it.
    """
    look_as_host(connection, instant, token, tournament_id)
    return _read(connection, tournament_id, job_id)


def step(database: Database) -> bool:
    """Advance the job that has been running longest by a step; return whether there was one."""
    query = select(tables.jobs).where(_J.state == "running").order_by(_J.started_at, _J.id).limit(1)
    row = database.run(lambda connection: connection.execute(query).first())
    if row is None:
        return False
    advance(database, Job(*row), STEP)
    return True


def advance(database: Database, job: Job, size: int) -> None:
    """Judge the attempts of the next entries of a running job, and write what is found.

    If that cannot be done the job has failed, which is written, and why is logged.

    Args:
        database: The database.
        job: The job, as it was read.
        size: How many entries.
    """
    if job.state != "running":
        return
    which = database.run(partial(_next, job=job, size=size))
    try:
        pending = job.kind == "verification"
        judged = database.run(
            partial(verifying.ended, tournament=job.tournament, which=which, pending=pending)
        )
        act = partial(_write, job=job, which=which, judged=judged, last=len(which) < size)
        database.run(act, transaction=True)
    except DatabaseUnavailableError:
        raise
    # Whatever is wrong with one job, nobody is to wait for it, nor meet it whenever they ask.
    except Exception:  # noqa: BLE001
        _log.exception("the %s %s has failed", job.kind, job.id)
        database.run(partial(_fail, job=job), transaction=True)


def _next(connection: Connection, *, job: Job, size: int) -> list[UUID]:
    of = tables.entries.c
    query = select(of.id).where(of.tournament_id == job.tournament).order_by(of.id).limit(size)
    if job.cursor is not None:
        query = query.where(of.id > job.cursor)
    return list(connection.execute(query).scalars())


def _claim(connection: Connection, job: Job, **values: Any) -> bool:
    """Write of a running job; return whether nobody else has taken it further since."""
    HOLD.on(connection, tournament=job.tournament)
    claimed = connection.execute(
        update(tables.jobs)
        .where(_J.tournament_id == job.tournament, _J.id == job.id, _J.state == "running")
        .where(_J.cursor.is_not_distinct_from(job.cursor))
        .values(**values)
    )
    return claimed.rowcount > 0


def _fail(connection: Connection, *, job: Job) -> None:
    if not _claim(connection, job, state="failed", finished_at=func.now()):
        return
    now = connection.execute(select(func.now())).scalar_one()
    told = Event(f"{job.kind}-failed", job.by, public=False, data={"job": str(job.id)})
    tell(connection, job.tournament, now, told)


def _write(
    connection: Connection,
    *,
    job: Job,
    which: Sequence[UUID],
    judged: Sequence[Judged],
    last: bool,
) -> None:
    done = job.done + len(judged)
    total = done if last else max(done, job.total)
    if not _claim(
        connection, job, cursor=which[-1] if which else job.cursor, done=done, total=total
    ):
        return
    now = connection.execute(select(func.now())).scalar_one()
    if job.kind == "verification":
        _verify(connection, job.tournament, now, judged)
        if last:
            _end(connection, job, now, "done", {})
            data = {"job": str(job.id), "attempts": done}
            told = Event("verified", job.by, public=False, data=data)
            tell(connection, job.tournament, now, told)
        return
    _mark_pending(connection, job.tournament, judged)
    findings = _read(connection, job.tournament, job.id).findings
    found = _compare(connection, job.tournament, which, judged)
    findings = {name: [*findings[name], *found[name]] for name in _EMPTY}
    if last:
        findings = {**findings, "ranks": _ranks(connection, job.tournament, findings["changed"])}
        _end(connection, job, now, "proposed", findings)
        data = {"job": str(job.id), **_counts(findings)}
        told = Event("rejudged", job.by, reason=job.reason, public=False, data=data)
        tell(connection, job.tournament, now, told)
    elif any(found.values()):
        _store(connection, job, findings=findings)


def _store(connection: Connection, job: Job, **values: Any) -> None:
    connection.execute(
        update(tables.jobs)
        .where(_J.tournament_id == job.tournament, _J.id == job.id)
        .values(**values)
    )


def _end(
    connection: Connection, job: Job, now: datetime, state: str, findings: Mapping[str, Any]
) -> None:
    values = {"findings": findings} if findings else {}
    _store(connection, job, state=state, finished_at=now, **values)


def _verify(
    connection: Connection, tournament: UUID, now: datetime, judged: Sequence[Judged]
) -> None:
    """Mark attempts that nobody has judged, write the standings, and tell of what is not valid."""
    touched = verifying.mark(connection, tournament, judged)
    if touched:
        standings.write(connection, tournament, sorted(touched))
    _tell_invalid(connection, tournament, now, [_named(one) for one in judged if not one.sound])


def _mark_pending(connection: Connection, tournament: UUID, judged: Sequence[Judged]) -> None:
    """Mark sound attempts that nobody has judged: no result moves by it."""
    fresh = [one for one in judged if one.sound and one.record.verified is None]
    touched = verifying.mark(connection, tournament, fresh)
    if touched:
        standings.write(connection, tournament, sorted(touched))


def _tell_invalid(
    connection: Connection, tournament: UUID, now: datetime, invalid: Sequence[Json]
) -> None:
    told = [
        Event("attempt-invalid", None, UUID(one["entry"]), public=False, data=one)
        for one in invalid
    ]
    if told:
        tell(connection, tournament, now, *told)


def _named(one: Judged) -> Json:
    return {
        "game": str(one.record.id),
        "entry": str(one.record.entry),
        "deal": one.attempt.deal,
        "attempt": one.attempt.number,
        **({"digest": one.digest.hex()} if one.sound else {"why": one.why}),
    }


def _compare(
    connection: Connection, tournament: UUID, which: Sequence[UUID], judged: Sequence[Judged]
) -> Json:
    """Return which attempts change from valid or to it, and the entries whose standings would."""
    found: Json = {name: [] for name in _EMPTY}
    verdicts: dict[UUID | None, list[Judged]] = {}
    for one in judged:
        if one.sound != (one.record.verified != b""):
            found["restored" if one.sound else "invalid"].append(_named(one))
            verdicts.setdefault(one.record.entry, []).append(one)
    kept = tables.standings.c
    stored: dict[UUID, dict[int, tuple[bytes, Json]]] = {}
    query = select(kept.entry_id, kept.round, kept.key, kept.told).where(
        kept.tournament_id == tournament, ~kept.frozen, kept.entry_id.in_(which)
    )
    for entry, number, key, told in connection.execute(query):
        stored.setdefault(entry, {})[number] = (bytes(key), told)
    for known in standings.facts(connection, tournament, which):
        changes = [(one.attempt, one.sound) for one in verdicts.get(known.id, ())]
        rows = {number: (key, told) for number, key, told in known.with_verdicts(changes).rows()}
        before = stored.get(known.id, {})
        if rows != before:
            found["changed"].append(
                {
                    "entry": str(known.id),
                    "key": rows[OVERALL][0].hex(),
                    **({"before": before[OVERALL][1]["total"]} if OVERALL in before else {}),
                    "after": rows[OVERALL][1]["total"],
                }
            )
    return found


def _ranks(connection: Connection, tournament: UUID, changed: Sequence[Json]) -> Json:
    """Return whose ranks overall would move."""
    kept = tables.standings.c
    query = select(kept.entry_id, kept.key).where(
        kept.tournament_id == tournament, ~kept.frozen, kept.round == OVERALL
    )
    before = {entry: _ranked(bytes(key)) for entry, key in connection.execute(query)}
    after = {
        **before,
        **{UUID(one["entry"]): _ranked(bytes.fromhex(one["key"])) for one in changed},
    }
    old, new = ({one.entry: one.rank for one in places(keys)} for keys in (before, after))
    moved = [
        {
            "entry": str(entry),
            **{
                name: ranks[entry]
                for name, ranks in (("before", old), ("after", new))
                if ranks.get(entry) is not None
            },
        }
        for entry in new
        if old.get(entry) != new[entry]
    ]
    return {"moved": len(moved), "entries": moved[:MAX_TOLD]}


def _ranked(key: bytes) -> bytes | None:
    return None if key == standings.UNRANKED else key


def _counts(findings: Json) -> Json:
    return {
        **{name: len(findings[name]) for name in _EMPTY},
        "moved": findings["ranks"]["moved"],
    }


def apply(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    job_id: UUID,
) -> Job:
    """Write what a rejudging found, and all standings from scratch; again is no error.

    Raises:
        NotFoundError: There is no such job.
        WrongStateError: There is nothing to be applied.
    """
    seen, who, job = _decide(connection, instant, token, tournament_id, job_id, "applied")
    if job.state == "applied":
        return job
    _demand_open(seen)
    found = job.findings
    named = {one["game"]: one for name in ("invalid", "restored") for one in found[name]}
    which = sorted({UUID(one["entry"]) for one in named.values()})
    judged = [
        one
        for one in verifying.ended(connection, tournament_id, which, pending=False)
        if str(one.record.id) in named
    ]
    if {str(one.record.id): _named(one) for one in judged} != named:
        raise WrongStateError("attempts have changed since they were judged: drop it, judge anew")
    verifying.mark(connection, tournament_id, judged)
    standings.write(connection, tournament_id)
    _tell_invalid(connection, tournament_id, seen.now, found["invalid"])
    data = {"job": str(job.id), **_counts(found)}
    public = seen.tournament.frozen_at is None
    told = Event("rejudging-applied", who.player, reason=job.reason, public=public, data=data)
    tell(connection, tournament_id, seen.now, told)
    _end(connection, job, seen.now, "applied", {})
    return _read(connection, tournament_id, job_id)


def drop(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    job_id: UUID,
) -> Job:
    """Have a rejudging change nothing, whether it is through or not; again is no error.

    Raises:
        NotFoundError: There is no such job.
        WrongStateError: It was applied, or is no rejudging.
    """
    seen, who, job = _decide(connection, instant, token, tournament_id, job_id, "dropped")
    if job.state == "dropped":
        return job
    told = Event("rejudging-dropped", who.player, public=False, data={"job": str(job.id)})
    tell(connection, tournament_id, seen.now, told)
    _end(connection, job, seen.now, "dropped", {})
    return _read(connection, tournament_id, job_id)


def _decide(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    job_id: UUID,
    state: str,
) -> tuple[Seen, Any, Job]:
    """Return a rejudging that may get a state, or has it."""
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    job = _read(connection, tournament_id, job_id)
    allowed = {"proposed", state} | ({"running"} if state == "dropped" else set())
    if job.kind != "rejudging" or job.state not in allowed:
        raise WrongStateError(f"the {job.kind} is {job.state}")
    return seen, who, job
