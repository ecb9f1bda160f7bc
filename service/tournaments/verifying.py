"""Verification: attempts that are over, judged by their logs and by the deals that were sealed."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Boolean,
    Connection,
    LargeBinary,
    SmallInteger,
    Uuid,
    bindparam,
    select,
    text,
)

from service.audit import examine
from service.engine.replay import canonical, digest
from service.engine.standings import Attempt, Result
from service.games import COLUMNS, SOURCE, Record
from service.store import tables
from service.store.database import Statement
from service.tournaments.model import GAME, TOURNAMENT

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Judged:
    """An attempt that was judged.

    Attributes:
        record: Its row, as it was then.
        attempt: What it came to as the row tells.
        digest: The digest at which it is sound; empty if it is not.
        why: What is wrong with it, without a word of its cards; empty if nothing is.
    """

    record: Record
    attempt: Attempt
    digest: bytes
    why: str

    @property
    def sound(self) -> bool:
        """Whether it follows from its deal and its log."""
        return bool(self.digest)


def ended(
    connection: Connection, tournament: UUID, which: Sequence[UUID], *, pending: bool
) -> list[Judged]:
    """Read and judge attempts of entries that are over, by one statement.

    Args:
        connection: A connection; nothing is held while it is judged.
        tournament: The tournament's id.
        which: The entries' ids.
        pending: Whether to leave out what was judged before.
    """
    rows = list(_ENDED.on(connection, tournament=tournament, entries=list(which), pending=pending))
    return [_judge(Record(*row[:-3]), row[-3:]) for row in rows]


_ENDED: Final = Statement(
    select(*COLUMNS, tables.deals.c.seed, tables.deals.c.round, TOURNAMENT.ruleset)
    .select_from(
        SOURCE.join(tables.tournaments, TOURNAMENT.id == GAME.tournament_id).outerjoin(
            tables.deals,
            (tables.deals.c.tournament_id == GAME.tournament_id)
            & (tables.deals.c.number == GAME.deal_no),
        )
    )
    .where(
        GAME.tournament_id == bindparam("tournament"),
        GAME.entry_id == bindparam("entries", type_=ARRAY(Uuid)).any_(),
        GAME.ended_at.is_not(None),
        GAME.verified.is_(None) | ~bindparam("pending", type_=Boolean),
    )
    .order_by(GAME.entry_id, GAME.deal_no, GAME.attempt)
)


def _judge(record: Record, sealed: Sequence[Any]) -> Judged:
    examined = examine(record)
    why, game, times = examined.fault or "", examined.game, examined.times
    if not why and (record.seed, record.round, record.ruleset) != tuple(sealed):
        why = "it is not of the deal that was sealed"
    last = times[-1] if times else 0
    if not why and (record.deadline is None or record.is_late(last)):
        why = "it was played after its deadline"
    found = b""
    if not why and game is not None:
        log = [entry.text for entry in game.entries]
        found = bytes.fromhex(digest(canonical(record.header()), log, times))
        if record.verified and bytes(record.verified) != found:
            why, found = "it is not what was verified before", b""
    if why:
        _log.error("attempt %s is not valid: %s", record.id, why)
    result = Result(int(record.status == "won"), record.score or 0, record.ply, last)
    attempt = Attempt(record.deal_no or 0, record.attempt or 0, result)
    # What is wrong with a log may tell of cards that nobody is to know yet.
    return Judged(record, attempt, found, why.partition(":")[0])


def mark(connection: Connection, tournament: UUID, judged: Sequence[Judged]) -> set[UUID]:
    """Write what was found of attempts, in a transaction that holds the tournament.

    What has changed since it was judged is left as it is.

    Returns:
        The entries of which something was written, whose standings are to be written anew.
    """
    found = _MARK.on(
        connection,
        tournament=tournament,
        ids=[one.record.id for one in judged],
        digests=[one.digest for one in judged],
        plies=[one.record.ply for one in judged],
        ends=[one.record.ended_at for one in judged],
        deadlines=[one.record.deadline for one in judged],
    )
    return {entry for (entry,) in found}


_MARK: Final = Statement(
    text("""
UPDATE games SET verified = one.digest
FROM unnest(:ids, :digests, :plies, :ends, :deadlines)
    AS one (id, digest, ply, ended_at, deadline)
WHERE games.id = one.id AND games.tournament_id = :tournament AND games.ply = one.ply
    AND games.ended_at = one.ended_at AND games.deadline = one.deadline
    AND games.verified IS DISTINCT FROM one.digest
RETURNING games.entry_id
""").bindparams(
        bindparam("tournament", type_=Uuid()),
        bindparam("ids", type_=ARRAY(Uuid)),
        bindparam("digests", type_=ARRAY(LargeBinary)),
        bindparam("plies", type_=ARRAY(SmallInteger)),
        bindparam("ends", type_=ARRAY(GAME.ended_at.type)),
        bindparam("deadlines", type_=ARRAY(GAME.deadline.type)),
    )
)
