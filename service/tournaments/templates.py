"""Templates: plans of which no more need be said than when; and dates that come again.

A series is told in wall-clock time of a zone, since that is what people keep: 19:00 stays 19:00
when the clocks are changed, and a day then has 23 or 25 hours. A time that a change leaves out is
taken by the offset of before it, one that comes twice is its first (as RFC 5545, 3.3.5, has it).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any, Final, Literal, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

Json = dict[str, Any]

MAX_SERIES: Final = 60
"""Most tournaments that are made at once."""

EVERY: Final[Mapping[str, timedelta]] = {"day": timedelta(days=1), "week": timedelta(days=7)}
"""How far apart the dates of a series are."""


class After(NamedTuple):
    """How long after a template's start something is.

    Attributes:
        days: Calendar days: the same time of the day, so many days later.
        minutes: Minutes after that.
    """

    days: int
    minutes: int = 0


class Part(NamedTuple):
    """A round of a template.

    Attributes:
        starts: When it starts.
        ends: When it ends.
        deals: How many deals it has.
    """

    starts: After
    ends: After
    deals: int


@dataclass(frozen=True, slots=True)
class Template:
    """A plan without instants.

    Attributes:
        plan: What a request for a tournament may have, but for rounds and instants.
        parts: The rounds.
    """

    plan: Json
    parts: tuple[Part, ...]

    def rounds(self, after: Callable[[After], datetime]) -> list[Json]:
        """Return the rounds as a request has them, given when something is."""
        return [
            {"starts_at": after(one.starts), "ends_at": after(one.ends), "deals": one.deals}
            for one in self.parts
        ]


TEMPLATES: Final[Mapping[str, Template]] = {
    "daily-deal": Template(
        {
            "title": "Deal of the day",
            "about": "One deal, one attempt, one hour; today.",
            "limit_ms": 3_600_000,
        },
        (Part(After(0), After(1), 1),),
    ),
    "ten-deal-match": Template(
        {
            "title": "Ten deals",
            "about": "Ten deals in three hours, each at most half an hour; all of them count.",
            "limit_ms": 1_800_000,
            "warm_up": True,
        },
        (Part(After(0), After(0, 180), 10),),
    ),
    "league-week": Template(
        {
            "title": "League week",
            "about": "Two deals a day for a week, of which the best ten count.",
            "limit_ms": 3_600_000,
            "scoring": {
                "keys": [{"key": one} for one in ("cards", "won", "deals", "entries", "time")],
                "attempts": "best",
                "best": 10,
            },
        },
        tuple(Part(After(day), After(day + 1), 2) for day in range(7)),
    ),
}


def after_instant(start: datetime) -> Callable[[After], datetime]:
    """Return what tells when something is after an instant; a day has 24 hours."""
    return lambda one: start + timedelta(days=one.days, minutes=one.minutes)


def dates(first: date, every: Literal["day", "week"], count: int) -> list[date]:
    """Return the dates of a series."""
    return [first + n * EVERY[every] for n in range(count)]


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def zone(name: str) -> ZoneInfo:
    """Return the zone of an IANA name.

    Raises:
        ValueError: There is none of this name.
    """
    if name not in _zones():
        raise ValueError(f"no time zone is named {name}: one is named such as Europe/Berlin")
    return ZoneInfo(name)


@dataclass(frozen=True, slots=True)
class Calendar:
    """A date in a zone, from which wall-clock times are told.

    Attributes:
        date: The date.
        zone: The zone.
    """

    date: date
    zone: ZoneInfo

    def at(self, day: int, clock: time) -> datetime:
        """Return the instant, in UTC, at which clocks there show a time, so many days later."""
        on = self.date + timedelta(days=day)
        return datetime.combine(on, clock, tzinfo=self.zone).astimezone(UTC)

    def after(self, clock: time) -> Callable[[After], datetime]:
        """Return what tells when something is after a time on the date."""
        return lambda one: self.at(one.days, clock) + timedelta(minutes=one.minutes)
