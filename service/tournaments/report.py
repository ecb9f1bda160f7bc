"""What may point to one person behind several entries: for a human to judge, and no proof."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Integer, Uuid, bindparam, text

from service.store.database import Instant, Statement
from service.tournaments.model import Seen, look_as_host

MOST_TOLD: Final = 100
"""Most entries of a group that are told; its count is always whole."""


@dataclass(frozen=True, slots=True)
class Group:
    """Entries that have something in common.

    Attributes:
        count: How many they are, 2 or more.
        entries: Their ids; the first of them where there are many.
        deal: The deal on which they have equal logs; None where it is the address that they share.
        plies: How many entries that log has.
    """

    count: int
    entries: tuple[UUID, ...]
    deal: int | None = None
    plies: int | None = None


@dataclass(frozen=True, slots=True)
class Logs:
    """How common equal logs are on a deal.

    Attributes:
        deal: The deal's number.
        attempts: Attempts that are over, of two log entries or more.
        different: How many different logs those have.
    """

    deal: int
    attempts: int
    different: int


@dataclass(frozen=True, slots=True)
class Report:
    """What may point to one person behind several entries.

    Attributes:
        seen: The tournament.
        addresses: Groups that were made from one address each, the largest first.
        logs: Groups that have one log each on a deal, the longest logs first.
        deals: How common equal logs are.
        groups: How many groups there are of either kind, addresses first.
    """

    seen: Seen
    addresses: list[Group]
    logs: list[Group]
    deals: list[Logs]
    groups: tuple[int, int]


# Who gave up at once, or never began, has the same log as all others who did.
_SAME: Final = f"""
WITH played AS (
    SELECT game.deal_no, game.log, count(*) AS attempts,
        count(DISTINCT game.entry_id) AS entries,
        (array_agg(DISTINCT game.entry_id))[1:{MOST_TOLD}] AS ids
    FROM games AS game
    JOIN tournament_deals AS deal
        ON deal.tournament_id = game.tournament_id AND deal.number = game.deal_no AND deal.counts
    WHERE game.tournament_id = :tournament AND game.ended_at IS NOT NULL AND game.ply > 1
    GROUP BY game.deal_no, game.log
)
"""  # noqa: S608 - a number of ours


def _statement(query: str, *names: str) -> Statement:
    types: dict[str, Any] = {"tournament": Uuid(), "limit": Integer()}
    return Statement(text(query).bindparams(*(bindparam(n, type_=types[n]) for n in names)))


_LOGS: Final = _statement(
    _SAME
    + """
SELECT entries, ids, deal_no, length(log), count(*) OVER () FROM played WHERE entries > 1
ORDER BY length(log) DESC, deal_no, log LIMIT :limit
""",
    "tournament",
    "limit",
)
_DEALS: Final = _statement(
    _SAME
    + """
SELECT deal_no, CAST(sum(attempts) AS bigint), count(*) FROM played GROUP BY deal_no
ORDER BY deal_no
""",
    "tournament",
)
_ADDRESSES: Final = _statement(
    f"""
SELECT count(*), (array_agg(id ORDER BY id))[1:{MOST_TOLD}], count(*) OVER ()
FROM tournament_entries WHERE tournament_id = :tournament AND address IS NOT NULL
GROUP BY address HAVING count(*) > 1 ORDER BY count(*) DESC, min(joined_at), address LIMIT :limit
""",  # noqa: S608 - a number of ours
    "tournament",
    "limit",
)


def read(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    *,
    limit: int,
) -> Report:
    """Return the report on a tournament, which is its hosts' alone; at any time.

    It names entries: neither addresses nor what is in a log, which may be sealed.

    Args:
        connection: A connection.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        limit: Most groups of either kind.

    Raises:
        NotFoundError: There is no such tournament for this viewer.
        RoleMissingError: They do not host it.
    """
    seen = look_as_host(connection, instant, token, tournament_id)
    given = {"tournament": tournament_id, "limit": limit}
    addresses = _ADDRESSES.on(connection, **given).fetchall()
    logs = _LOGS.on(connection, **given).fetchall()
    deals = _DEALS.on(connection, tournament=tournament_id).fetchall()
    return Report(
        seen,
        [Group(count, tuple(some)) for count, some, _ in addresses],
        [Group(count, tuple(some), deal, plies) for count, some, deal, plies, _ in logs],
        [Logs(*row) for row in deals],
        (addresses[0][-1] if addresses else 0, logs[0][-1] if logs else 0),
    )
