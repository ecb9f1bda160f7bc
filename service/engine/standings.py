"""Standings: what the results of attempts and the rulings on them come to.

Pure functions of facts, for the service and for whoever judges its results again. A result is one
tuple of numbers, compared and replaced as a whole. Each key of a comparison has its own direction;
from the keys comes one text of bytes whose order is the order of the ranks, so that whatever sorts
bytes, a database's index as well, ranks as this module does.
"""

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import add
from typing import Any, Final, Literal, NamedTuple, Self
from uuid import UUID

Direction = Literal["more", "less"]
Choice = Literal["best", "first", "last"]
CutBy = Literal["top", "cards", "won"]

OVERALL: Final = 0
"""The number that stands for all rounds together where a round is named."""
LAST_ROUND: Final = 50
"""No round has a higher number: keys begin with how far an entry is from it (``results-1``)."""

_MOST: Final = 2**63 - 1


class Result(NamedTuple):
    """What an attempt came to, or what several of them come to together.

    Attributes:
        won: Attempts won.
        cards: Cards on foundations.
        entries: Log entries.
        time: Instants of the last entries, in ms since the attempts' starts.
        deals: Deals of which something counts.
    """

    won: int = 0
    cards: int = 0
    entries: int = 0
    time: int = 0
    deals: int = 1

    def plus(self, other: Self) -> "Result":
        """Return both together."""
        return Result(*map(add, self, other))


NOTHING: Final = Result(deals=0)
"""The result of no attempt at all."""

KEYS: Final[Mapping[str, Direction]] = {
    "won": "more",
    "cards": "more",
    "deals": "more",
    "entries": "less",
    "time": "less",
}
"""What results can be compared by, each with the direction that it has unless told otherwise."""

_SAFE: Final = frozenset({"cards", "deals"})


@dataclass(frozen=True, slots=True)
class Scoring:
    """How results are compared and put together.

    Attributes:
        keys: What is compared, one after the other, and which of two values is better.
        attempts: Which of several attempts at a deal counts: the best one, of equal ones the
            earliest; the first; or the last.
        best: How many deals count, the best ones; None for all.
    """

    keys: tuple[tuple[str, Direction], ...] = (
        ("won", "more"),
        ("cards", "more"),
        ("entries", "less"),
        ("time", "less"),
    )
    attempts: Choice = "best"
    best: int | None = None

    def __post_init__(self) -> None:
        """Refuse what would reward whoever does not play.

        Raises:
            ValueError: A key is not known or named twice; or less of something is better although
                neither more cards nor more deals were asked for before.
        """
        names = [name for name, _ in self.keys]
        if not names or len(set(names)) < len(names) or not set(names) <= set(KEYS):
            raise ValueError(f"keys are some of {', '.join(KEYS)}, each once")
        for name, direction in self.keys:
            if direction == "more" and name in _SAFE:
                break
            if direction == "less":
                raise ValueError(
                    f"less {name} cannot be better before more cards or more deals are: whoever "
                    "does not play would be ahead"
                )
        if self.best is not None and self.best < 1:
            raise ValueError("at least one deal counts")

    def key(self, result: Result) -> bytes:
        """Return bytes that are less for the better of two results, equal for equally good ones."""
        pack, parts = _packing(self.keys)
        return pack(*[_MOST - result[n] if more else result[n] for n, more in parts])


@lru_cache(maxsize=256)
def _packing(
    keys: tuple[tuple[str, Direction], ...],
) -> tuple[Callable[..., bytes], tuple[tuple[int, bool], ...]]:
    """Return what packs the values of keys, and for each which part of a result it compares."""
    parts = tuple((Result._fields.index(name), better == "more") for name, better in keys)
    return struct.Struct(f">{len(keys)}Q").pack, parts


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a deal that is over.

    Attributes:
        deal: The deal's number, from 1.
        number: Which attempt at this deal it is, from 1.
        result: What it came to.
    """

    deal: int
    number: int
    result: Result


@dataclass(frozen=True, slots=True)
class Standing:
    """How an entry stands in a round, or overall.

    Attributes:
        key: Less for the better of two; None for an entry that has no rank.
        total: What its counting deals come to.
        cells: For each deal of which something counts its counting attempt, by the deal's number.
        counting: The numbers of the deals that are in the total.
    """

    key: bytes | None
    total: Result
    cells: Mapping[int, Attempt]
    counting: frozenset[int]


def stand(
    scoring: Scoring, attempts: Iterable[Attempt], *, reach: int = 0, ranked: bool = True
) -> Standing:
    """Return how an entry stands with these attempts.

    Args:
        scoring: How they are compared.
        attempts: Those that are over and not annulled, in any order.
        reach: The last round that the entry may play: who came further is ahead.
        ranked: Whether it has a rank.
    """
    cells: dict[int, Attempt] = {}
    for attempt in sorted(attempts, key=lambda one: (one.deal, one.number)):
        other = cells.get(attempt.deal)
        if (
            other is None
            or scoring.attempts == "last"
            or (
                scoring.attempts == "best"
                and scoring.key(attempt.result) < scoring.key(other.result)
            )
        ):
            cells[attempt.deal] = attempt
    counting = sorted(cells)
    if scoring.best is not None:
        counting.sort(key=lambda deal: scoring.key(cells[deal].result))
        del counting[scoring.best :]
    total = NOTHING
    for deal in counting:
        total = total.plus(cells[deal].result)
    key = bytes([LAST_ROUND - reach]) + scoring.key(total) if ranked else None
    return Standing(key, total, cells, frozenset(counting))


class Place(NamedTuple):
    """Where an entry is among the others.

    Attributes:
        entry: Its id.
        rank: One more than the number of entries that are better, shared by equal ones; None for
            an entry that has no rank.
        position: From 1, of its own: equal ones by their ids, those without a rank last.
    """

    entry: UUID
    rank: int | None
    position: int


def places(keys: Mapping[UUID, bytes | None]) -> list[Place]:
    """Return the places of entries, in order, from the keys of their standings."""
    found: list[Place] = []
    last: bytes | None = None
    rank: int | None = 0
    order = sorted(keys.items(), key=lambda one: (one[1] is None, one[1] or b"", one[0]))
    for position, (entry, key) in enumerate(order, 1):
        if key is None:
            rank = None
        elif key != last:
            rank = position
        last = key
        found.append(Place(entry, rank, position))
    return found


@dataclass(frozen=True, slots=True)
class Cut:
    """Who may play a round: by their standings overall before it.

    Attributes:
        by: ``top`` for the rank, else what the total must have.
        value: The last rank, shared ones included; or the least that the total must have.
    """

    by: CutBy
    value: int

    def through(self, standings: Mapping[UUID, Standing]) -> set[UUID]:
        """Return which entries go on."""
        if self.by == "top":
            ranks = places({entry: one.key for entry, one in standings.items()})
            return {one.entry for one in ranks if one.rank is not None and one.rank <= self.value}
        return {
            entry
            for entry, one in standings.items()
            if one.key is not None and getattr(one.total, self.by) >= self.value
        }


RulingKind = Literal["disqualify", "reinstate", "annul", "adjust", "extend", "admit", "reverse"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision on an entry or an attempt: a fact beside the games, which stay as they are.

    Attributes:
        number: Rulings are numbered as they are made.
        kind: ``disqualify`` takes an entry out of the ranking and ``reinstate`` puts it back, the
            later one counts; ``annul`` has an attempt count as never made; ``adjust`` replaces
            parts of its result; ``extend`` and ``admit`` change when or what may be played;
            ``reverse`` has another one not hold.
        entry: The entry's id; None where it concerns all.
        deal: The number of the deal.
        attempt: The number of the attempt.
        values: What ``adjust`` puts in place of which part of the result.
    """

    number: int
    kind: RulingKind
    entry: UUID | None
    deal: int | None = None
    attempt: int | None = None
    values: Mapping[str, int] = field(default_factory=dict)


def judged(attempts: Iterable[Attempt], rulings: Sequence[Ruling]) -> tuple[list[Attempt], bool]:
    """Return an entry's attempts as rulings have them, and whether it is disqualified.

    Args:
        attempts: Those that are over.
        rulings: Those on this entry that hold, in their order: reversed ones are left out.
    """
    found = {(one.deal, one.number): one for one in attempts}
    disqualified = False
    for ruling in rulings:
        if ruling.kind in {"disqualify", "reinstate"}:
            disqualified = ruling.kind == "disqualify"
            continue
        named = (ruling.deal or 0, ruling.attempt or 0)
        attempt = found.get(named)
        if attempt is None:
            continue
        if ruling.kind == "annul":
            del found[named]
        elif ruling.kind == "adjust":
            result = attempt.result._replace(**ruling.values)
            found[named] = Attempt(attempt.deal, attempt.number, result)
    return list(found.values()), disqualified


@dataclass(frozen=True, slots=True)
class Entry:
    """All that an entry's standings follow from.

    Attributes:
        reach: The last round that it may play: what is of later ones is not in the whole.
        withdrawn: Whether it has left.
        attempts: Those that are over and not found invalid.
        rulings: Those on it that hold, in their order.
    """

    reach: int
    withdrawn: bool
    attempts: Sequence[Attempt]
    rulings: Sequence[Ruling] = ()

    def standings(
        self,
        scoring: Scoring,
        rounds: Sequence[Collection[int]],
        deal: int | None = None,
    ) -> dict[int, Standing]:
        """Return how it stands: overall by OVERALL, and in each round by its number.

        Args:
            scoring: How results are compared.
            rounds: For each round the numbers of its deals that count.
            deal: Of the rounds only that of this deal is wanted; None for all.
        """
        attempts, disqualified = judged(self.attempts, self.rulings)
        ranked = not (disqualified or self.withdrawn)
        # An admission may have been taken back once the round was played.
        counting = {deal for deals in rounds[: self.reach] for deal in deals}
        found = {
            OVERALL: stand(
                scoring,
                [one for one in attempts if one.deal in counting],
                reach=self.reach,
                ranked=ranked,
            )
        }
        for number, deals in enumerate(rounds, 1):
            if deal is not None and deal not in deals:
                continue
            found[number] = stand(
                scoring,
                [one for one in attempts if one.deal in deals],
                ranked=ranked and number <= self.reach,
            )
        return found


def scoring_of(value: Mapping[str, Any]) -> Scoring:
    """Return the scoring that JSON of the form of :func:`scoring_json` tells.

    Raises:
        ValueError: It makes no sense; see :class:`Scoring`.
    """
    return Scoring(
        tuple((one["key"], one.get("better", KEYS[one["key"]])) for one in value["keys"]),
        value["attempts"],
        value.get("best"),
    )


def scoring_json(scoring: Scoring) -> dict[str, Any]:
    """Return a scoring as JSON."""
    return {
        "keys": [{"key": name, "better": direction} for name, direction in scoring.keys],
        "attempts": scoring.attempts,
        **({} if scoring.best is None else {"best": scoring.best}),
    }
