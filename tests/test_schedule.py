"""Where a tournament is, around each of its instants to the millisecond."""

from datetime import UTC, datetime, timedelta

import pytest

from service.schedule import CLOSING, Course, Round

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MS = timedelta(milliseconds=1)
HOUR = timedelta(hours=1)


def at(hours: float) -> datetime:
    return NOON + hours * HOUR


def course(**changes: datetime | None) -> Course:
    """Return a course: entry from 1 to 3, rounds from 2 to 3 and from 4 to 5, in hours."""
    rounds = [
        Round(1, at(2), at(3), at(3), at(3) + CLOSING),
        Round(2, at(4), at(5), at(5), at(5) + CLOSING),
    ]
    acts: dict[str, datetime | None] = {
        "published_at": at(0),
        "cancelled_at": None,
        "finalised_at": None,
        **changes,
    }
    return Course(at(1), at(3), rounds=rounds, **acts)


class TestStates:
    @pytest.mark.parametrize(
        ("instant", "before", "state"),
        [
            (at(1), "upcoming", "entry-open"),
            (at(2), "entry-open", "running"),
            (at(5), "running", "closing"),
            (at(5) + CLOSING, "closing", "revealed"),
        ],
    )
    def test_s_4_s_6_a_state_begins_at_its_instant_and_not_a_ms_earlier(
        self, instant: datetime, before: str, state: str
    ) -> None:
        """S-4 and S-6: a function of what is stored and the clock; nobody has to do anything."""
        assert course().state(instant - MS) == before
        assert course().state(instant) == course().state(instant + MS) == state

    def test_it_runs_between_its_rounds(self) -> None:
        assert course().state(at(3.5)) == "running"

    @pytest.mark.parametrize("hours", [-1, 1.5, 2.5, 9])
    def test_what_was_done_comes_before_the_clock(self, hours: float) -> None:
        assert course(published_at=None).state(at(hours)) == "draft"
        assert course(cancelled_at=at(2)).state(at(hours)) == "cancelled"
        assert course(finalised_at=at(6)).state(at(hours)) == "final"

    def test_it_is_not_revealed_before_all_rounds_are(self) -> None:
        one = course()
        one.rounds[0] = Round(1, at(2), at(3), at(3), None)  # type: ignore[index]

        assert one.state(at(100)) == "closing"


class TestEntry:
    @pytest.mark.parametrize(("hours", "is_open"), [(1, True), (3, False)])
    def test_s_6_entry_opens_and_closes_at_its_instants(self, hours: float, is_open: bool) -> None:  # noqa: FBT001
        """S-6: an instant at a start is in, one at an end is out."""
        assert course().entry_is_open(at(hours)) is is_open
        assert course().entry_is_open(at(hours) - MS) is not is_open

    def test_nobody_enters_what_is_not_public_or_over(self) -> None:
        assert not course(published_at=None).entry_is_open(at(2))
        assert not course(cancelled_at=at(1)).entry_is_open(at(2))
        assert not course(finalised_at=at(1)).entry_is_open(at(2))


class TestRounds:
    @pytest.mark.parametrize(
        ("instant", "before", "state"),
        [
            (at(2), "upcoming", "open"),
            (at(3), "open", "closing"),
            (at(3) + CLOSING, "closing", "revealed"),
        ],
    )
    def test_s_6_its_states_begin_at_their_instants(
        self, instant: datetime, before: str, state: str
    ) -> None:
        """S-6: to the millisecond."""
        one = course().rounds[0]

        assert one.state(instant - MS) == before
        assert one.state(instant) == state

    def test_an_extended_attempt_keeps_it_closing(self) -> None:
        one = Round(1, at(2), at(3), at(3.5), at(3.5) + CLOSING)

        assert one.state(at(3.5)) == "closing"
        assert one.state(at(3.5) + CLOSING - MS) == "closing"
        assert one.state(at(3.5) + CLOSING) == "revealed"

    def test_by_hand_it_is_closed_until_it_is_revealed(self) -> None:
        assert Round(1, at(2), at(3), at(3), None).state(at(9)) == "closed"
        assert Round(1, at(2), at(3), at(3), at(8)).state(at(9)) == "revealed"

    @pytest.mark.parametrize(
        ("start", "limit", "deadline"),
        [(2, None, 3), (2, 0.5, 2.5), (2.5, 0.5, 3), (2.75, 0.5, 3), (2, 5, 3)],
    )
    def test_s_49_s_94_an_attempt_ends_by_its_limit_or_with_its_round(
        self, start: float, limit: float | None, deadline: float
    ) -> None:
        """S-49 and S-94: whichever comes first."""
        one = course().rounds[0]

        assert one.deadline(at(start), None if limit is None else limit * HOUR) == at(deadline)
