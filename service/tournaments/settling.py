"""What deadlines and cuts bring about, written by whoever comes first after them."""

import logging
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Boolean,
    Connection,
    SmallInteger,
    Uuid,
    bindparam,
    func,
    select,
    text,
    update,
)

from service import standings
from service.engine.errors import BrokenLogError
from service.engine.standings import OVERALL, Attempt, Result, Standing
from service.games import COLUMNS, SOURCE, Record
from service.schedule import CLOSING
from service.store import tables
from service.store.database import Database, Instant, Statement
from service.tournaments.model import (
    GAME,
    TOURNAMENT,
    Event,
    Tournament,
    find,
    find_held,
    reach_of,
    store,
    tell,
)

_SETTLED_AT_ONCE: Final = 200
_PATIENCE: Final = 200
_PAUSE: Final = 0.05
_TRY: Final = Statement(
    select(TOURNAMENT.id)
    .where(TOURNAMENT.id == bindparam("tournament"))
    .with_for_update(key_share=True, skip_locked=True)
)

_log = logging.getLogger(__name__)


def is_due(
    connection: Connection, instant: Instant, token: bytes | None, tournament_id: UUID
) -> bool:
    """Return whether something is due in a tournament, whoever may see it."""
    _, seen = find(connection, instant, token, tournament_id)
    return seen is not None and seen.due


def settle(database: Database, tournament_id: UUID) -> None:
    """Write what deadlines and cuts have brought about, whoever asks; some at a time.

    Attempts whose deadline and 5 s have passed end as they stand. When all of a round's have, and
    the next one has a cut, it is written down who plays on.
    """
    tries = 0
    while True:
        patient = tries >= _PATIENCE
        more = database.run(
            partial(_settle, tournament_id=tournament_id, patient=patient), transaction=True
        )
        if more is False:
            return
        # Whoever else holds the tournament may be settling it for long: no connection waits.
        if more is None:
            tries += 1
            time.sleep(_PAUSE)


def settle_held(connection: Connection, tournament_id: UUID) -> None:
    """Write all that is due in a tournament, in a transaction that holds it."""
    while _settle(connection, tournament_id, patient=True):
        pass


def settle_overdue(database: Database, player: UUID) -> None:
    """Settle all tournaments in which a player has attempts that are overdue."""
    query = _OVERDUE.where(GAME.player_id == player)
    for tournament in database.run(lambda one: one.execute(query).scalars().all()):
        settle(database, tournament)


def due(connection: Connection) -> list[UUID]:
    """Return the tournaments of which something is to be settled."""
    return list(connection.execute(_OVERDUE.union(_UNCUT)).scalars())


_OVERDUE: Final = (
    select(GAME.tournament_id)
    .distinct()
    .where(GAME.tournament_id.is_not(None), GAME.ended_at.is_(None))
    .where(GAME.deadline <= func.now() - CLOSING)
)
# As Tournament.due_cut tells it of one.
_NEXT: Final = tables.rounds.alias()
_UNCUT: Final = (
    select(TOURNAMENT.id)
    .join(tables.rounds)
    .join(
        _NEXT,
        (_NEXT.c.tournament_id == TOURNAMENT.id) & (_NEXT.c.number == TOURNAMENT.cut + 1),
    )
    .where(TOURNAMENT.published_at.is_not(None), TOURNAMENT.cancelled_at.is_(None))
    .where(tables.rounds.c.number <= TOURNAMENT.cut)
    .group_by(TOURNAMENT.id)
    .having(func.max(tables.rounds.c.closes_at) <= func.now() - CLOSING)
)


def _settle(connection: Connection, tournament_id: UUID, *, patient: bool) -> bool | None:
    """Settle some attempts, or else a cut; return whether there may be more.

    None if others hold the tournament now, unless this one is patient and waits.
    """
    instant = Instant()
    _, seen = find(connection, instant, None, tournament_id)
    if seen is None or not seen.due:
        return False
    if not patient and _TRY.on(connection, tournament=tournament_id).fetchone() is None:
        return None
    _, seen = find_held(connection, instant, None, tournament_id)
    if seen is None or not seen.due:
        return False
    tournament, now = seen.tournament, seen.now
    query = (
        select(*COLUMNS)
        .select_from(SOURCE)
        .where(GAME.tournament_id == tournament_id, GAME.ended_at.is_(None))
        .where(GAME.deadline <= now - CLOSING)
        .order_by(GAME.deadline, GAME.id)
        .limit(_SETTLED_AT_ONCE)
    )
    overdue = [Record(*row) for row in connection.execute(query)]
    if overdue:
        return _time_out(connection, tournament, now, overdue)
    number = tournament.due_cut(now)
    if number is not None:
        _cut(connection, tournament, now, number)
    return number is not None


def _time_out(
    connection: Connection, tournament: Tournament, now: datetime, overdue: Sequence[Record]
) -> bool:
    results = [_result(record) for record in overdue]
    ended = set(
        _TIME_OUT.on(
            connection,
            ids=[record.id for record in overdue],
            scores=[result.cards if result else 0 for result in results],
            plies=[record.ply for record in overdue],
            sounds=[result is not None for result in results],
        ).fetchall()
    )
    written = [one for one in zip(overdue, results, strict=True) if (one[0].id,) in ended]
    which = sorted({record.entry for record, _ in written if record.entry is not None})
    standings.write(connection, tournament.id, which)
    counting = {deal.number for deal in tournament.deals if deal.counts}
    told = []
    for record, result in written:
        if result is not None and record.deal_no in counting:
            over = Attempt(record.deal_no, record.attempt or 0, result)
            data = {**standings.told(over), "timed_out": True}
            public = tournament.frozen_at is None
            told.append(Event("result", None, record.entry, public=public, data=data))
    if told:
        tell(connection, tournament.id, now, *told)
    return True


def _result(record: Record) -> Result | None:
    """Return what an attempt comes to as it stands, None if its record is damaged."""
    try:
        times, game = record.instants(), record.replay()
    except BrokenLogError as error:
        why = str(error)
    else:
        last = times[-1] if times else 0
        if not record.is_late(last):
            return Result(0, game.position.score, record.ply, last)
        why = "it was played after its deadline"
    _log.error("attempt %s cannot be scored, and counts nothing: %s", record.id, why)
    return None


# An act of before the deadline that was still being written has added to the ply.
_TIME_OUT: Final = Statement(
    text("""
UPDATE games SET status = 'timed-out', score = one.score, ended_at = deadline,
    verified = CASE WHEN one.sound THEN NULL ELSE ''::bytea END
FROM unnest(:ids, :scores, :plies, :sounds) AS one (id, score, ply, sound)
WHERE games.id = one.id AND games.ply = one.ply AND ended_at IS NULL
RETURNING games.id
""").bindparams(
        bindparam("ids", type_=ARRAY(Uuid)),
        bindparam("scores", type_=ARRAY(SmallInteger)),
        bindparam("plies", type_=ARRAY(SmallInteger)),
        bindparam("sounds", type_=ARRAY(Boolean)),
    )
)


def _cut(connection: Connection, tournament: Tournament, now: datetime, number: int) -> None:
    """Write down who plays a round, and those after it up to the next cut."""
    cuts = [stage.cut for stage in tournament.plan.stages]
    cut = cuts[number - 1]
    reach = reach_of(cuts, number)
    kept = tables.standings
    query = select(kept.c.entry_id, kept.c.key, kept.c.told["total"]).where(
        kept.c.tournament_id == tournament.id,
        ~kept.c.frozen,
        kept.c.round == OVERALL,
        # Whom an earlier cut has stopped no later one lets through.
        kept.c.told["reach"].as_integer() >= number - 1,
    )
    found = {
        entry: Standing(
            None if bytes(key) == standings.UNRANKED else bytes(key),
            Result(**total),
            {},
            frozenset(),
        )
        for entry, key, total in connection.execute(query)
    }
    through = sorted(cut.through(found) if cut else found)
    of = tables.entries
    connection.execute(
        update(of)
        .where(of.c.tournament_id == tournament.id)
        .where(of.c.id == func.any(bindparam("through", through, type_=ARRAY(Uuid))))
        .values(reach=reach)
    )
    store(connection, tournament.id, cut=reach)
    standings.write(connection, tournament.id, through)
    data = {"round": number, "through": [str(entry) for entry in through]}
    public = tournament.frozen_at is None
    told = Event("cut", None, public=public, data=data)
    tell(connection, tournament.id, now, told, version=True)
