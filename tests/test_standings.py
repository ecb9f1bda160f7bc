"""Standings: what results and rulings come to, against the plainest way to say the same."""

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.standings import (
    KEYS,
    NOTHING,
    OVERALL,
    Attempt,
    Choice,
    Cut,
    Direction,
    Entry,
    Result,
    Ruling,
    Scoring,
    judged,
    places,
    scoring_json,
    scoring_of,
    stand,
)

results = st.builds(
    Result,
    won=st.integers(0, 1),
    cards=st.integers(0, 104),
    entries=st.integers(0, 2000),
    time=st.integers(0, 2**40),
    deals=st.just(1),
)
attempts = st.lists(
    st.builds(Attempt, st.integers(1, 5), st.integers(1, 3), results),
    unique_by=lambda one: (one.deal, one.number),
    max_size=15,
)
DIRECTIONS: list[Direction] = ["more", "less"]
CHOICES: list[Choice] = ["best", "first", "last"]
FIRST: list[tuple[str, Direction]] = [("cards", "more"), ("deals", "more")]


@st.composite
def scorings(draw: st.DrawFn) -> Scoring:
    """Any scoring that makes sense."""
    first = draw(st.sampled_from(FIRST))
    others = draw(st.lists(st.sampled_from(sorted(set(KEYS) - {first[0]})), unique=True))
    directions: list[Direction] = [draw(st.sampled_from(DIRECTIONS)) for _ in others]
    keys = (first, *zip(others, directions, strict=True))
    choice: Choice = draw(st.sampled_from(CHOICES))
    return Scoring(keys, choice, draw(st.none() | st.integers(1, 5)))


def better(scoring: Scoring, one: Result, other: Result) -> bool:
    """Whether a result is better than another, key by key."""
    for name, direction in scoring.keys:
        mine, theirs = one._asdict()[name], other._asdict()[name]
        if mine != theirs:
            return bool(mine > theirs) == (direction == "more")
    return False


class TestOrder:
    @given(scorings(), results, results)
    def test_s_2_s_3_keys_are_in_the_order_of_results(
        self, scoring: Scoring, one: Result, other: Result
    ) -> None:
        """S-2 and S-3: each key has its own direction, and any chain ranks as it says."""
        assert (scoring.key(one) < scoring.key(other)) == better(scoring, one, other)
        assert (scoring.key(one) == scoring.key(other)) == (
            not better(scoring, one, other) and not better(scoring, other, one)
        )

    @given(st.dictionaries(st.uuids(), st.none() | st.binary(max_size=2), max_size=12))
    def test_s_3_s_79_a_rank_is_one_more_than_the_better_ones_and_a_position_is_its_own(
        self, keys: dict[UUID, bytes | None]
    ) -> None:
        """S-3 and S-79: ranks are shared, positions are not, and both are the same each time."""
        found = places(keys)

        assert sorted(one.entry for one in found) == sorted(keys)
        assert [one.position for one in found] == list(range(1, len(keys) + 1))
        for one in found:
            key = keys[one.entry]
            ahead = [
                other
                for other in keys.values()
                if other is not None and key is not None and other < key
            ]
            assert one.rank == (None if key is None else 1 + len(ahead))
        for one, other in pairwise(found):
            if keys[one.entry] == keys[other.entry]:
                assert one.entry < other.entry
        assert places(dict(reversed(keys.items()))) == found

    def test_two_who_share_a_rank_take_two_places(self) -> None:
        keys = {UUID(int=n): key for n, key in enumerate([b"a", b"b", b"b", b"c"])}

        assert [one.rank for one in places(keys)] == [1, 2, 2, 4]


class TestAttempts:
    @given(scorings(), attempts)
    def test_s_21_a_cell_is_one_attempt_whole(self, scoring: Scoring, made: list[Attempt]) -> None:
        """S-21: no part of a result comes from another attempt."""
        standing = stand(scoring, made)

        assert set(standing.cells.values()) <= set(made)
        assert set(standing.cells) == {one.deal for one in made}

    @given(scorings(), attempts)
    def test_s_60_s_78_the_best_is_replaced_by_a_better_one_alone(
        self, scoring: Scoring, made: list[Attempt]
    ) -> None:
        """S-60 and S-78: of equal attempts the earlier one stays."""
        for deal, cell in stand(Scoring(scoring.keys, "best"), made).cells.items():
            same = [one for one in made if one.deal == deal]
            assert not any(better(scoring, one.result, cell.result) for one in same)
            equal = [one for one in same if not better(scoring, cell.result, one.result)]
            assert cell.number == min(one.number for one in equal)

    @given(attempts)
    def test_the_first_and_the_last_are_so_by_number(self, made: list[Attempt]) -> None:
        for choice, pick in (("first", min), ("last", max)):
            standing = stand(Scoring(attempts=choice), made)  # type: ignore[arg-type]
            for deal, cell in standing.cells.items():
                assert cell.number == pick(one.number for one in made if one.deal == deal)

    @given(scorings(), attempts)
    def test_a_worse_attempt_changes_nothing(self, scoring: Scoring, made: list[Attempt]) -> None:
        scoring = Scoring(scoring.keys, "best", scoring.best)
        before = stand(scoring, made)
        for deal, cell in before.cells.items():
            again = Attempt(deal, 9, cell.result)
            assert stand(scoring, [*made, again]) == before


class TestTotals:
    @given(attempts)
    def test_all_deals_are_summed_part_by_part(self, made: list[Attempt]) -> None:
        standing = stand(Scoring(), made)

        cells = [cell.result for cell in standing.cells.values()]
        assert (
            standing.total == Result(*(sum(values) for values in zip(*cells, strict=True)))
            if cells
            else standing.total == NOTHING
        )
        assert standing.counting == set(standing.cells)

    @given(scorings(), attempts)
    def test_the_best_deals_count(self, scoring: Scoring, made: list[Attempt]) -> None:
        standing = stand(scoring, made)

        most = scoring.best or len(standing.cells)
        assert len(standing.counting) == min(most, len(standing.cells))
        out = set(standing.cells) - standing.counting
        for deal in standing.counting:
            for other in out:
                mine, theirs = standing.cells[deal].result, standing.cells[other].result
                assert not better(scoring, theirs, mine)

    @given(scorings(), attempts)
    def test_who_plays_a_further_deal_is_never_behind_for_it_alone(
        self, scoring: Scoring, made: list[Attempt]
    ) -> None:
        more = [*made, Attempt(6, 1, Result(cards=1, entries=2000, time=2**40))]
        named = {name for name, _ in scoring.keys[:1]}
        if scoring.best is None and named <= {"cards", "deals"}:
            assert stand(scoring, more).key < stand(scoring, made).key  # type: ignore[operator]

    @pytest.mark.parametrize(
        ("keys", "reason"),
        [
            ((), "each once"),
            ((("won", "more"), ("won", "more")), "each once"),
            ((("luck", "more"),), "each once"),
            ((("time", "less"),), "would be ahead"),
            ((("won", "more"), ("time", "less")), "would be ahead"),
            ((("cards", "less"),), "would be ahead"),
        ],
    )
    def test_what_would_reward_not_playing_is_refused(
        self, keys: tuple[tuple[str, Direction], ...], reason: str
    ) -> None:
        with pytest.raises(ValueError, match=reason):
            Scoring(keys)

    def test_no_deal_counting_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one"):
            Scoring(best=0)

    @given(scorings())
    def test_s_47_a_scoring_is_told_whole(self, scoring: Scoring) -> None:
        """S-47: what is published is what ranks."""
        assert scoring_of(scoring_json(scoring)) == scoring

    def test_directions_that_are_left_out_are_the_usual_ones(self) -> None:
        told = {"keys": [{"key": name} for name in ("won", "cards", "entries", "time")]}

        assert scoring_of({**told, "attempts": "best"}) == Scoring()


A, B = UUID(int=1), UUID(int=2)
PLAYED = [Attempt(1, 1, Result(0, 40, 30, 1000)), Attempt(2, 1, Result(1, 104, 90, 9000))]


class TestRulings:
    def test_a_disqualified_entry_has_no_rank_and_keeps_its_results(self) -> None:
        entry = Entry(1, withdrawn=False, attempts=PLAYED, rulings=[Ruling(1, "disqualify", A)])

        standing = entry.standings(Scoring(), [{1, 2}])[OVERALL]

        assert standing.key is None
        assert standing.total == Result(1, 144, 120, 10000, 2)

    def test_of_two_rulings_on_an_entry_the_later_one_counts(self) -> None:
        out, back = Ruling(1, "disqualify", A), Ruling(2, "reinstate", A)

        assert judged([], [out, back])[1] is False
        assert judged([], [out, back, Ruling(3, "disqualify", A)])[1] is True

    def test_an_annulled_attempt_was_never_made(self) -> None:
        found, _ = judged(PLAYED, [Ruling(1, "annul", A, 2, 1)])

        assert found == PLAYED[:1]

    def test_an_adjusted_result_is_so_in_the_parts_that_are_named(self) -> None:
        found, _ = judged(PLAYED, [Ruling(1, "adjust", A, 1, 1, {"cards": 50})])

        assert found[0] == Attempt(1, 1, Result(0, 50, 30, 1000))
        assert found[1] == PLAYED[1]

    def test_what_concerns_no_attempt_that_there_is_changes_nothing(self) -> None:
        ruled = [Ruling(1, "annul", A, 7, 1), Ruling(2, "extend", A, 1, 1), Ruling(3, "admit", A)]

        assert judged(PLAYED, ruled) == (PLAYED, False)


class TestEntries:
    def test_a_round_has_its_own_deals_and_all_together_have_all(self) -> None:
        found = Entry(2, withdrawn=False, attempts=PLAYED).standings(Scoring(), [{1}, {2}])

        assert found[1].total.cards == 40
        assert found[2].total.cards == 104
        assert found[OVERALL].total.cards == 144

    def test_a_deal_that_does_not_count_is_in_nothing(self) -> None:
        found = Entry(1, withdrawn=False, attempts=PLAYED).standings(Scoring(), [{1}])

        assert found[OVERALL].total == found[1].total == Result(0, 40, 30, 1000)

    def test_who_came_further_is_ahead_whatever_they_have(self) -> None:
        near = Entry(1, withdrawn=False, attempts=PLAYED).standings(Scoring(), [{1}, {2}])
        far = Entry(2, withdrawn=False, attempts=[]).standings(Scoring(), [{1}, {2}])

        assert far[OVERALL].key < near[OVERALL].key  # type: ignore[operator]
        assert near[2].key is None

    def test_what_was_played_beyond_the_last_round_that_one_may_play_is_not_in_the_whole(
        self,
    ) -> None:
        """As where an admission was taken back: nobody who was not admitted is behind for it."""
        near = Entry(1, withdrawn=False, attempts=PLAYED).standings(Scoring(), [{1}, {2}])
        same = Entry(1, withdrawn=False, attempts=PLAYED[:1]).standings(Scoring(), [{1}, {2}])

        assert near[OVERALL] == same[OVERALL]

    def test_s_50_who_has_left_has_no_rank(self) -> None:
        """S-50: and those behind close up, as ranks are counted."""
        gone = Entry(1, withdrawn=True, attempts=PLAYED).standings(Scoring(), [{1, 2}])
        there = Entry(1, withdrawn=False, attempts=PLAYED[:1]).standings(Scoring(), [{1, 2}])

        assert places({A: gone[OVERALL].key, B: there[OVERALL].key}) == [(B, 1, 1), (A, None, 2)]


class TestCuts:
    def test_a_shared_last_rank_goes_through(self) -> None:
        found = {UUID(int=n): stand(Scoring(), [PLAYED[n > 0]]) for n in range(3)}

        assert Cut("top", 1).through(found) == {UUID(int=1), UUID(int=2)}
        assert Cut("top", 2).through(found) == {UUID(int=1), UUID(int=2)}
        assert Cut("top", 3).through(found) == set(found)

    def test_a_threshold_is_of_the_total(self) -> None:
        found = {A: stand(Scoring(), PLAYED), B: stand(Scoring(), PLAYED[:1])}

        assert Cut("cards", 144).through(found) == {A}
        assert Cut("cards", 40).through(found) == {A, B}
        assert Cut("won", 1).through(found) == {A}

    def test_nobody_without_a_rank_goes_through(self) -> None:
        found = {A: stand(Scoring(), PLAYED, ranked=False)}

        assert Cut("top", 1).through(found) == Cut("cards", 1).through(found) == set()
