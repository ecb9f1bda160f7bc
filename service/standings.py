"""Stored standings: each entry's rows, written in the transaction of whatever changes them.

They are what `engine.standings` gives from the entry's games and the rulings on it, and nothing
else: whoever changes one of these computes the rows anew from all of them. Who does so at the same
time finds the entry's version changed, and does it again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import orjson
from psycopg.types.json import Jsonb
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Connection,
    Integer,
    Interval,
    Text,
    Uuid,
    bindparam,
    case,
    cast,
    func,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from service.engine.replay import unpack_times
from service.engine.standings import (
    Attempt,
    Entry,
    Result,
    Ruling,
    Scoring,
    Standing,
    judged,
    scoring_of,
)
from service.store.database import Statement
from service.store.tables import deals, entries, games, rulings, tournaments

Json = dict[str, Any]

UNRANKED: Final = b"\xff"
"""The key of an entry without a rank: above all others."""

CELL: Final = (
    *("deal", "attempt", "won", "cards", "entries", "time"),
    *("counts", "verification", "adjusted"),
)
"""What the values of a stored cell are, in their order; the last is there if it is true.

With a name beside each value a page of rows with ten deals took half as long again.
"""

PENDING, VALID, INVALID = "pending", "valid", "invalid"
"""How far an attempt is verified."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What an entry's standings follow from, as it is stored.

    Attributes:
        id: The entry's id.
        version: Its version when this was read.
        player: Whose it is.
        scoring: How the tournament's results are compared.
        rounds: For each round the numbers of its deals that count.
        entry: The facts themselves; attempts that were found invalid are left out.
        verified: How far each attempt is verified, by deal and number.
    """

    id: UUID
    version: int
    player: UUID
    scoring: Scoring
    rounds: tuple[frozenset[int], ...]
    entry: Entry
    verified: Mapping[tuple[int, int], str]

    def with_attempt(self, attempt: Attempt) -> "Facts":
        """Return them with a further attempt, which nobody has verified yet."""
        named = (attempt.deal, attempt.number)
        others = [one for one in self.entry.attempts if (one.deal, one.number) != named]
        return replace(
            self,
            entry=replace(self.entry, attempts=[*others, attempt]),
            verified={**self.verified, named: PENDING},
        )

    def with_verdicts(self, verdicts: Iterable[tuple[Attempt, bool]]) -> "Facts":
        """Return them with attempts judged again: those that are invalid are out, others in."""
        attempts = {(one.deal, one.number): one for one in self.entry.attempts}
        verified = dict(self.verified)
        for attempt, sound in verdicts:
            named = (attempt.deal, attempt.number)
            verified[named] = VALID if sound else INVALID
            if sound:
                attempts[named] = attempt
            else:
                attempts.pop(named, None)
        return replace(
            self, entry=replace(self.entry, attempts=list(attempts.values())), verified=verified
        )

    def rows(self, deal: int | None = None) -> Iterator[tuple[int, bytes, Json]]:
        """Yield the rows of its standings: the round, the key, and what is told.

        Args:
            deal: Only of those that attempts at this deal are in; None for all.
        """
        _, disqualified = judged(self.entry.attempts, self.entry.rulings)
        status = (
            "disqualified" if disqualified else "withdrawn" if self.entry.withdrawn else "active"
        )
        adjusted = {(one.deal, one.attempt) for one in self.entry.rulings if one.kind == "adjust"}
        for number, standing in self.entry.standings(self.scoring, self.rounds, deal).items():
            yield (
                number,
                UNRANKED if standing.key is None else standing.key,
                {
                    "status": status,
                    "reach": self.entry.reach,
                    "total": standing.total._asdict(),
                    "cells": [self._cell(one, standing, adjusted) for one in _by_deal(standing)],
                },
            )

    def _cell(
        self,
        attempt: Attempt,
        standing: Standing,
        adjusted: Collection[tuple[int | None, int | None]],
    ) -> list[Any]:
        """Return a cell as it is stored: the values of :data:`CELL` in their order."""
        named, result = (attempt.deal, attempt.number), attempt.result
        return [
            *named,
            *(result.won, result.cards, result.entries, result.time),
            attempt.deal in standing.counting,
            self.verified.get(named, PENDING),
            *((True,) if named in adjusted else ()),
        ]


def _by_deal(standing: Standing) -> Iterator[Attempt]:
    for deal in sorted(standing.cells):
        yield standing.cells[deal]


LASTED: Final = cast(
    1000 * func.extract("epoch", games.c.ended_at - games.c.created_at), BigInteger
)
TIMES: Final = case((games.c.status == "timed-out", games.c.times))
"""A deadline ends a game at another instant than that of its last entry."""


def time_of(lasted: int, times: bytes | None) -> int:
    """Return the ms of the last entry of a game that is over, from :data:`LASTED` and these."""
    if times is None:
        return lasted
    unpacked = unpack_times(times)
    # Nobody may have found yet that they are damaged, and without bounds.
    return min(unpacked[-1], lasted) if unpacked else 0


_GAMES: Final = (
    select(
        func.jsonb_agg(
            func.jsonb_build_array(
                games.c.deal_no,
                games.c.attempt,
                games.c.status,
                games.c.score,
                games.c.ply,
                LASTED,
                func.encode(TIMES, "hex"),
                func.length(games.c.verified),
            )
        )
    )
    .where(
        games.c.tournament_id == entries.c.tournament_id,
        games.c.entry_id == entries.c.id,
        games.c.ended_at.is_not(None),
    )
    .scalar_subquery()
)
_RULINGS: Final = (
    select(
        func.jsonb_agg(
            func.jsonb_build_array(
                rulings.c.number,
                rulings.c.kind,
                rulings.c.deal_no,
                rulings.c.attempt,
                rulings.c.terms,
            )
        )
    )
    .where(
        rulings.c.tournament_id == entries.c.tournament_id,
        rulings.c.entry_id == entries.c.id,
        rulings.c.reversed_by.is_(None),
    )
    .scalar_subquery()
)
_DEALS: Final = (
    select(func.jsonb_agg(func.jsonb_build_array(deals.c.round, deals.c.number, deals.c.counts)))
    .where(deals.c.tournament_id == tournaments.c.id)
    .scalar_subquery()
)
_FACTS: Final = (
    select(
        entries.c.id,
        entries.c.version,
        entries.c.player_id,
        entries.c.reach,
        entries.c.withdrawn_at.is_not(None),
        tournaments.c.scoring,
        _DEALS,
        _GAMES,
        _RULINGS,
    )
    .select_from(tournaments)
    .join(entries, entries.c.tournament_id == tournaments.c.id)
    .where(tournaments.c.id == bindparam("tournament"))
)
# Postgres keeps a plan for one, where for any number it makes a plan each time.
_OF_ONE: Final = Statement(_FACTS.where(entries.c.id == bindparam("entry")))
_OF_SOME: Final = Statement(
    _FACTS.where(entries.c.id == func.any(bindparam("entries", type_=ARRAY(Uuid))))
)


def facts(connection: Connection, tournament: UUID, which: Sequence[UUID]) -> list[Facts]:
    """Return what the standings of entries follow from, by one statement."""
    if len(which) == 1:
        found = _OF_ONE.on(connection, tournament=tournament, entry=which[0])
    else:
        found = _OF_SOME.on(connection, tournament=tournament, entries=list(which))
    return [_facts(*row) for row in found]


def _facts(
    entry: UUID,
    version: int,
    player: UUID,
    reach: int,
    withdrawn: bool,  # noqa: FBT001
    scoring: Json,
    dealt: list[tuple[int, int, bool]],
    played: list[tuple[int, int, str, int, int, int, str | None, int | None]] | None,
    ruled: list[tuple[int, Any, int | None, int | None, Json]] | None,
) -> Facts:
    attempts, verified = [], {}
    for deal, number, status, score, ply, lasted, packed, digest in played or ():
        verified[deal, number] = PENDING if digest is None else VALID if digest else INVALID
        if digest != 0:
            time = time_of(lasted, None if packed is None else bytes.fromhex(packed))
            result = Result(int(status == "won"), score, ply, time)
            attempts.append(Attempt(deal, number, result))
    rounds: list[set[int]] = []
    for number, deal, counts in sorted(dealt):
        while len(rounds) < number:
            rounds.append(set())
        if counts:
            rounds[number - 1].add(deal)
    on_it = [
        Ruling(number, kind, entry, deal, attempt, values)
        for number, kind, deal, attempt, values in sorted(ruled or (), key=lambda one: one[0])
    ]
    return Facts(
        entry,
        version,
        player,
        scoring_of(scoring),
        tuple(map(frozenset, rounds)),
        Entry(reach, withdrawn, attempts, on_it),
        verified,
    )


def finish(
    connection: Connection,
    tournament: UUID,
    entry: UUID,
    attempt: Attempt,
    moved: Mapping[str, Any],
) -> bool:
    """Write the last act of an attempt, with the standings and the event that come of it.

    Two statements, the second of which writes all or nothing.

    Args:
        connection: Each statement may be its own transaction.
        tournament: The tournament's id.
        entry: The entry's id.
        attempt: The attempt as it ends.
        moved: The parameters of what a game's row becomes: those of any act's statement.

    Returns:
        Whether it is written. If not, somebody else wrote meanwhile or it is too late.
    """
    while True:
        (known,) = facts(connection, tournament, [entry])
        rows = known.with_attempt(attempt).rows(attempt.deal)
        counts = any(attempt.deal in dealt for dealt in known.rounds)
        written = _FINISH.on(
            connection,
            **moved,
            tournament=tournament,
            entry=entry,
            version=known.version,
            player=known.player,
            counts=counts,
            data=Jsonb(told(attempt)),
            rows=_rows((entry, *row) for row in rows),
        ).fetchone()
        entered, ended = written or (0, 0)
        if entered:
            return bool(ended)


def told(attempt: Attempt) -> Json:
    """Return an attempt that is over as events tell it."""
    result = attempt.result._asdict()
    del result["deals"]
    return {"deal": attempt.deal, "attempt": attempt.number, **result}


def _rows(rows: Iterable[tuple[UUID, int, bytes, Json]]) -> str:
    """Return rows as one JSON text: as arrays they take the driver six times as long."""
    return orjson.dumps(
        [
            {"entry": entry, "round": number, "key": key.hex(), "told": told}
            for entry, number, key, told in rows
        ]
    ).decode()


# The tournament's row is held first, as by every act that touches it, so that none waits for
# another in a circle. Whoever freezes or finalises it comes wholly before this or wholly after.
_FINISH: Final = Statement(
    text("""
WITH held AS (
    SELECT id, frozen_at FROM tournaments WHERE id = :tournament FOR NO KEY UPDATE
), entered AS (
    UPDATE tournament_entries SET version = version + 1
    WHERE tournament_id = :tournament AND id = :entry AND version = :version
        AND EXISTS (SELECT FROM held)
    RETURNING id
), ended AS (
    UPDATE games SET log = log || :codes, times = times || :gaps, ply = :ply,
        status = :status, score = :score, ended_at = :ended_at
    WHERE id = :game AND ply = :seen AND ended_at IS NULL AND deadline >= :judged
        AND clock_timestamp() - :judged < :within AND EXISTS (SELECT FROM entered)
    RETURNING id
), counted AS (
    UPDATE tournaments SET events = events + 1, told_at = greatest(told_at, :ended_at)
    WHERE id = :tournament AND :counts AND EXISTS (SELECT FROM ended)
    RETURNING events, told_at
), told AS (
    INSERT INTO tournament_events
        (tournament_id, number, at, kind, public, by_player, entry_id, data)
    SELECT :tournament, events, told_at, 'result', frozen_at IS NULL, :player, :entry, :data
    FROM counted, held
), stood AS (
    INSERT INTO tournament_standings (tournament_id, frozen, round, entry_id, key, told)
    SELECT :tournament, false, one.round, :entry, decode(one.key, 'hex'), one.told
    FROM ended, json_to_recordset(CAST(:rows AS json))
        AS one (round smallint, key text, told json)
    ON CONFLICT (tournament_id, frozen, round, entry_id)
        DO UPDATE SET key = excluded.key, told = excluded.told
        WHERE tournament_standings.key <> excluded.key
            OR tournament_standings.told::text <> excluded.told::text
)
SELECT (SELECT count(*) FROM entered), (SELECT count(*) FROM ended)
""").bindparams(
        *(
            bindparam(name, type_=games.c[of].type)
            for name, of in (
                ("codes", "log"),
                ("gaps", "times"),
                ("ply", "ply"),
                ("status", "status"),
                ("score", "score"),
                ("ended_at", "ended_at"),
                ("game", "id"),
                ("seen", "ply"),
                ("judged", "ended_at"),
                ("tournament", "id"),
                ("entry", "id"),
                ("player", "id"),
            )
        ),
        bindparam("within", type_=Interval()),
        bindparam("version", type_=Integer()),
        bindparam("counts", type_=Boolean()),
        bindparam("data", type_=JSONB()),
        bindparam("rows", type_=Text()),
    )
)


def write(connection: Connection, tournament: UUID, which: Sequence[UUID] | None = None) -> int:
    """Compute the standings of entries anew and write them; all entries' if not told which.

    Args:
        connection: In a transaction that holds the tournament's row.
        tournament: The tournament's id.
        which: The entries' ids.

    Returns:
        How many entries that is.
    """
    ids: Sequence[UUID] = which if which is not None else _all(connection, tournament)
    for begin in range(0, len(ids), _CHUNK):
        some = ids[begin : begin + _CHUNK]
        _GROW.on(connection, tournament=tournament, entries=list(some))
        known = facts(connection, tournament, some)
        rows = _rows((one.id, *row) for one in known for row in one.rows())
        _WRITE.on(connection, tournament=tournament, rows=rows)
    return len(ids)


_CHUNK: Final = 500


def _all(connection: Connection, tournament: UUID) -> Sequence[UUID]:
    query = select(entries.c.id).where(entries.c.tournament_id == tournament).order_by(entries.c.id)
    return connection.execute(query).scalars().all()


# Who ends an attempt has read the entry without holding it, and is to find that it has changed.
_GROW: Final = Statement(
    text("""
UPDATE tournament_entries SET version = version + 1
WHERE tournament_id = :tournament AND id = ANY(:entries)
""").bindparams(bindparam("tournament", type_=Uuid()), bindparam("entries", type_=ARRAY(Uuid)))
)
_WRITE: Final = Statement(
    text("""
INSERT INTO tournament_standings (tournament_id, frozen, round, entry_id, key, told)
SELECT :tournament, false, one.round, one.entry, decode(one.key, 'hex'), one.told
FROM json_to_recordset(CAST(:rows AS json))
    AS one (entry uuid, round smallint, key text, told json)
ON CONFLICT (tournament_id, frozen, round, entry_id)
    DO UPDATE SET key = excluded.key, told = excluded.told
    WHERE tournament_standings.key <> excluded.key
        OR tournament_standings.told::text <> excluded.told::text
""").bindparams(
        bindparam("tournament", type_=Uuid()),
        bindparam("rows", type_=Text()),
    )
)
