"""When a tournament is where: its states, as functions of stored instants and the clock alone.

Nothing has to happen for a state to come about. An instant at a start is in, one at an end is out,
but a move made at the very deadline counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

State = Literal[
    "draft",
    "upcoming",
    "entry-open",
    "running",
    "closing",
    "revealed",
    "final",
    "cancelled",
]
RoundState = Literal["upcoming", "open", "closing", "closed", "revealed"]

STATES: Final[tuple[State, ...]] = (
    "draft",
    "upcoming",
    "entry-open",
    "running",
    "closing",
    "revealed",
    "final",
    "cancelled",
)
ROUND_STATES: Final[tuple[RoundState, ...]] = ("upcoming", "open", "closing", "closed", "revealed")

CLOSING: Final = timedelta(seconds=5)
"""How long after its deadline an attempt is settled: acts of before may be written until then."""


@dataclass(frozen=True, slots=True)
class Round:
    """A round's instants.

    Attributes:
        number: From 1.
        starts_at: From when on attempts may be started.
        ends_at: From when on none may, and at which those under way end.
        closes_at: The last deadline of an attempt: the end, unless a ruling extends one.
        reveals_at: From when on its seeds may be known; None for not yet told when.
    """

    number: int
    starts_at: datetime
    ends_at: datetime
    closes_at: datetime
    reveals_at: datetime | None

    def state(self, now: datetime) -> RoundState:
        """Return where it is at an instant."""
        if now < self.starts_at:
            return "upcoming"
        if now < self.ends_at:
            return "open"
        if now < self.settles_at:
            return "closing"
        if self.reveals_at is None or now < self.reveals_at:
            return "closed"
        return "revealed"

    @property
    def settles_at(self) -> datetime:
        """From when on nothing played in it can change any more."""
        return self.closes_at + CLOSING

    def deadline(self, start: datetime, limit: timedelta | None) -> datetime:
        """Return until when an attempt may be played that is started at an instant."""
        return self.ends_at if limit is None else min(start + limit, self.ends_at)


@dataclass(frozen=True, slots=True)
class Course:
    """A tournament's instants and stored acts.

    Attributes:
        entry_opens_at: From when on players may enter.
        entry_closes_at: From when on they may not.
        published_at: When it was published, None for not yet.
        cancelled_at: When it was called off, if it was.
        finalised_at: When its results were made final, if they are.
        rounds: Its rounds, one or more, in order.
    """

    entry_opens_at: datetime
    entry_closes_at: datetime
    published_at: datetime | None
    cancelled_at: datetime | None
    finalised_at: datetime | None
    rounds: Sequence[Round]

    def state(self, now: datetime) -> State:
        """Return where it is at an instant."""
        if self.cancelled_at is not None:
            return "cancelled"
        if self.published_at is None:
            return "draft"
        if self.finalised_at is not None:
            return "final"
        if now < self.rounds[0].starts_at:
            return "entry-open" if self.entry_is_open(now) else "upcoming"
        if now < self.rounds[-1].ends_at:
            return "running"
        revealed = all(one.state(now) == "revealed" for one in self.rounds)
        return "revealed" if revealed else "closing"

    def entry_is_open(self, now: datetime) -> bool:
        """Whether players may enter at an instant."""
        return (
            self.published_at is not None
            and self.cancelled_at is None
            and self.finalised_at is None
            and self.entry_opens_at <= now < self.entry_closes_at
        )
