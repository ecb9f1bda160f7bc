"""Templates, and series that are told in wall-clock time of a zone."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from client import Client, Json, Person, expect, problem, unknown_id
from hall import Host, organiser, rfc
from hypothesis import given, settings
from hypothesis import strategies as st

from service.store.database import Database
from service.tournaments.templates import MAX_SERIES, TEMPLATES, Calendar

MINUTE = timedelta(minutes=1)
EVENING: Json = {
    "title": "An evening",
    "rounds": [{"starts": {"time": "19:00"}, "ends": {"time": "21:30"}, "deals": 2}],
    "zone": "Europe/Berlin",
    "first": "2026-10-24",
    "every": "day",
    "count": 3,
}
TEMPLATE = {name: EVENING[name] for name in ("zone", "first", "every", "count")}


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    """A player who hosts tournaments."""
    return organiser(client.register("Grace"), database)


def series(host: Host, **change: object) -> Json:
    """Return a series that was made."""
    return expect(host.post("/v1/tournaments/series", {**EVENING, **change}), 201)


def windows(host: Host, **change: object) -> list[tuple[str, str]]:
    """Return from when until when the tournaments of a series are played, to the minute."""
    made = series(host, **change)["tournaments"]
    return [(one["starts_at"][:16], one["ends_at"][:16]) for one in made]


def played(starts: str, ends: str, ends_day: int = 0) -> list[Json]:
    """Return the rounds of a tournament of one."""
    return [
        {"starts": {"time": starts}, "ends": {"time": ends, "day": ends_day}, "deals": 1},
    ]


class TestTemplates:
    @pytest.mark.parametrize("name", TEMPLATES)
    def test_a_template_needs_no_more_than_when_it_starts(self, host: Host, name: str) -> None:
        start = host.store.now().replace(microsecond=0) + timedelta(days=1)
        (told,) = (
            one
            for one in expect(host.get("/v1/tournament-templates"))["templates"]
            if one["name"] == name
        )

        made = expect(
            host.post("/v1/tournaments", {"template": name, "starts_at": rfc(start)}), 201
        )

        for member in ("title", "about", "attempts", "scoring", "warm_up", "reveal", "limit_ms"):
            assert made[member] == told[member]
        deals = [sum(deal["counts"] for deal in one["deals"]) for one in made["rounds"]]
        assert deals == [one["deals"] for one in told["rounds"]]
        assert made["rounds"][0]["starts_at"] == rfc(start)
        for one, of in zip(made["rounds"], told["rounds"], strict=True):
            span = timedelta(days=of["ends"]["days"], minutes=of["ends"]["minutes"])
            assert one["ends_at"] == rfc(start + span)
        assert expect(host.act(made, "publish"))["state"] == "entry-open"

    def test_what_is_told_goes_before_the_template(self, host: Host) -> None:
        plan = host.plan((60, 600, 3))

        made = expect(
            host.post("/v1/tournaments", {"template": "league-week", **plan, "limit_ms": 5000}), 201
        )

        assert (made["title"], made["limit_ms"]) == ("An evening", 5000)
        assert [len(one["deals"]) for one in made["rounds"]] == [3]
        assert made["scoring"]["best"] == 10

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({}, "/title"),
            ({"title": "x"}, "/rounds"),
            ({"title": "x", "starts_at": "2030-01-01T00:00:00Z"}, "/rounds"),
            ({"template": "daily-deal"}, "/starts_at"),
        ],
    )
    def test_what_is_missing_is_pointed_at(self, host: Host, body: Json, pointer: str) -> None:
        refused = problem(host.post("/v1/tournaments", body))

        assert refused == (422, "bad-tournament")
        assert [one["pointer"] for one in refused.body["errors"]] == [pointer]

    def test_rounds_say_themselves_when_they_start(self, host: Host) -> None:
        body = {**host.plan(), "starts_at": rfc(host.store.now())}

        refused = problem(host.post("/v1/tournaments", body))

        assert refused == (422, "bad-tournament")
        assert refused.body["errors"][0]["pointer"] == "/starts_at"


class TestSeries:
    def test_its_tournaments_are_drafts_that_are_published_one_by_one(
        self, host: Host, ada: Person
    ) -> None:
        first = (host.store.now() + timedelta(days=2)).date()
        made = series(host, first=first.isoformat(), every="week", count=4)
        listed = f"/v1/tournaments?series={made['series']}"
        drafts = [expect(host.get(one["links"]["self"])) for one in made["tournaments"]]

        assert {one["state"] for one in drafts} == {"draft"}
        assert {one["series"] for one in drafts} == {made["series"]}
        assert expect(ada.get(listed))["tournaments"] == []
        published = [expect(host.act(one, "publish")) for one in drafts[:2]]
        found = expect(ada.get(listed))["tournaments"]
        assert [one["id"] for one in found] == [one["id"] for one in published[::-1]]
        commitments = {
            deal["commitment"] for one in published for deal in one["rounds"][0]["deals"]
        }
        assert len(commitments) == 4
        expect(host.edit(drafts[3], title="The last one"))
        titles = [one["title"] for one in expect(host.get(f"{listed}&which=hosted"))["tournaments"]]
        assert titles == ["The last one", *["An evening"] * 3]

    def test_the_same_key_makes_it_once(self, host: Host) -> None:
        key = {"Idempotency-Key": unknown_id()}

        first, again = (
            expect(host.post("/v1/tournaments/series", EVENING, headers=key), 201) for _ in "ab"
        )

        assert first == again
        assert len(expect(host.get("/v1/tournaments?which=hosted"))["tournaments"]) == 3
        other = host.post("/v1/tournaments/series", {**EVENING, "count": 2}, headers=key)
        assert problem(other) == (422, "idempotency-key-reused")

    def test_all_of_it_is_made_or_nothing(self, host: Host) -> None:
        """On the last date alone the clocks go on from 2 to 3, and it would end as it starts."""
        rounds = played("02:15", "03:15")

        refused = problem(
            host.post(
                "/v1/tournaments/series", {**EVENING, "first": "2026-03-27", "rounds": rounds}
            )
        )

        assert refused == (422, "bad-tournament")
        assert refused.body["errors"][0]["pointer"] == "/rounds/0/ends"
        assert "2026-03-29" in refused.body["detail"]
        assert expect(host.get("/v1/tournaments?which=hosted"))["tournaments"] == []

    @pytest.mark.parametrize(
        ("change", "pointer"),
        [
            ({"zone": "Europe/Atlantis"}, "/zone"),
            ({"zone": "../../etc/passwd"}, "/zone"),
            ({"zone": "Europe"}, "/zone"),
            ({"first": "2026-02-30"}, "/first"),
            ({"at": "19:00"}, "/at"),
            ({"rounds": played("19:00", "18:00")}, "/rounds/0/ends"),
            ({"entry": {"closes": {"time": "23:00"}}}, "/entry/closes"),
            (
                {"scoring": {"keys": [{"key": "entries"}], "attempts": "best"}},
                "/scoring/keys",
            ),
        ],
    )
    def test_what_makes_no_sense_is_pointed_at(
        self, host: Host, change: Json, pointer: str
    ) -> None:
        refused = problem(host.post("/v1/tournaments/series", {**EVENING, **change}))

        # A path is no zone's name, and no text of the form of one.
        assert refused.status == 422
        assert [one["pointer"] for one in refused.body["errors"]] == [pointer]

    @pytest.mark.parametrize(
        ("change", "pointer"),
        [({"template": "daily-deal"}, "/at"), ({}, "/title"), ({"title": "x"}, "/rounds")],
    )
    def test_what_is_missing_is_pointed_at(self, host: Host, change: Json, pointer: str) -> None:
        refused = problem(host.post("/v1/tournaments/series", {**TEMPLATE, **change}))

        assert refused == (422, "bad-tournament")
        assert [one["pointer"] for one in refused.body["errors"]] == [pointer]

    def test_its_length_is_limited(self, host: Host) -> None:
        for count in (0, MAX_SERIES + 1):
            answer = host.post("/v1/tournaments/series", {**EVENING, "count": count})
            assert problem(answer) == (422, "invalid-request")
        assert len(series(host, count=MAX_SERIES)["tournaments"]) == MAX_SERIES

    @pytest.mark.parametrize(
        ("told", "titles"),
        [
            ({"title": "{date}: ten deals"}, ("2026-10-24: ten deals", "2026-10-25: ten deals")),
            ({"title": "{Date} {}"}, ("{Date} {}", "{Date} {}")),
            (
                {"title": None, "template": "daily-deal", "at": "23:30", "rounds": None},
                ("Deal of the day, 2026-10-24", "Deal of the day, 2026-10-25"),
            ),
        ],
    )
    def test_each_title_has_its_date(self, host: Host, told: Json, titles: tuple[str, str]) -> None:
        """That of the zone."""
        body = {**EVENING, "zone": "Asia/Tokyo", "count": 2, **told}
        given = {name: value for name, value in body.items() if value is not None}

        made = expect(host.post("/v1/tournaments/series", given), 201)

        assert tuple(one["title"] for one in made["tournaments"]) == titles

    def test_a_title_is_no_longer_with_its_date_than_without(self, host: Host) -> None:
        for length in (120, 121):
            title = "{date}".rjust(length - 4, "x")
            answer = host.post("/v1/tournaments/series", {**EVENING, "title": title})
            if length == 120:
                assert len(expect(answer, 201)["tournaments"][0]["title"]) == 120
            else:
                assert problem(answer) == (422, "bad-tournament")
                assert problem(answer).body["errors"][0]["pointer"] == "/title"

    def test_entry_opens_and_closes_by_the_same_clocks(self, host: Host) -> None:
        rules = {"opens": {"day": -3, "time": "08:00"}, "closes": {"time": "20:00"}, "capacity": 9}
        made = series(host, entry=rules, first="2026-10-25", count=1)

        one = expect(host.get(made["tournaments"][0]["links"]["self"]))["entry"]

        assert (one["opens_at"][:16], one["closes_at"][:16]) == (
            *("2026-10-22T06:00", "2026-10-25T19:00"),
        )
        assert one["capacity"] == 9


class TestClocks:
    def test_s_51_an_evening_stays_an_evening_when_clocks_are_changed(self, host: Host) -> None:
        """S-51: once for each date, at the time that clocks there show; on the wire in UTC."""
        assert windows(host) == [
            ("2026-10-24T17:00", "2026-10-24T19:30"),
            ("2026-10-25T18:00", "2026-10-25T20:30"),
            ("2026-10-26T18:00", "2026-10-26T20:30"),
        ]
        assert windows(host, first="2026-03-28") == [
            ("2026-03-28T18:00", "2026-03-28T20:30"),
            ("2026-03-29T17:00", "2026-03-29T19:30"),
            ("2026-03-30T17:00", "2026-03-30T19:30"),
        ]
        weekly = windows(host, first="2026-03-26", every="week", count=2)
        assert [starts for starts, _ in weekly] == ["2026-03-26T18:00", "2026-04-02T17:00"]

    def test_s_51_a_day_is_as_long_as_it_is(self, host: Host) -> None:
        """S-51: daily deals follow each other without a gap and without overlap."""
        body = {**TEMPLATE, "template": "daily-deal", "at": "06:00"}

        made = expect(host.post("/v1/tournaments/series", body), 201)["tournaments"]

        days = [(one["starts_at"][:16], one["ends_at"][:16]) for one in made]
        assert days == [
            ("2026-10-24T04:00", "2026-10-25T05:00"),
            ("2026-10-25T05:00", "2026-10-26T05:00"),
            ("2026-10-26T05:00", "2026-10-27T05:00"),
        ]

    @pytest.mark.parametrize(
        ("zone", "first", "rounds", "found"),
        [
            # 02:30 does not exist: the clocks go from 02:00 to 03:00.
            (
                *("America/New_York", "2027-03-14", played("02:30", "05:00")),
                ("2027-03-14T07:30", "2027-03-14T09:00"),
            ),
            # 01:30 comes twice: it is the first.
            (
                *("America/New_York", "2026-11-01", played("01:30", "02:00")),
                ("2026-11-01T05:30", "2026-11-01T07:00"),
            ),
            # Half an hour, in the south: 02:15 does not exist, 01:45 comes twice.
            (
                *("Australia/Lord_Howe", "2026-10-04", played("02:15", "03:00")),
                ("2026-10-03T15:45", "2026-10-03T16:00"),
            ),
            (
                *("Australia/Lord_Howe", "2027-04-04", played("01:45", "02:00")),
                ("2027-04-03T14:45", "2027-04-03T15:30"),
            ),
            # Without changes, and by quarters of an hour.
            (
                *("Asia/Kathmandu", "2026-10-25", played("23:00", "00:30", 1)),
                ("2026-10-25T17:15", "2026-10-25T18:45"),
            ),
            # A date on which it is still the day before in UTC, and one already after it.
            (
                *("Pacific/Kiritimati", "2026-12-31", played("10:00", "11:00")),
                ("2026-12-30T20:00", "2026-12-30T21:00"),
            ),
            (
                *("Pacific/Honolulu", "2026-12-31", played("20:00", "21:00")),
                ("2027-01-01T06:00", "2027-01-01T07:00"),
            ),
        ],
    )
    def test_s_51_times_that_do_not_exist_or_come_twice(
        self, host: Host, zone: str, first: str, rounds: list[Json], found: tuple[str, str]
    ) -> None:
        """S-51: by the offset of before, and the first, as calendars elsewhere have it."""
        assert windows(host, zone=zone, first=first, rounds=rounds, count=1) == [found]

    @settings(deadline=None)
    @given(
        zone=st.sampled_from(sorted(available_timezones())).map(ZoneInfo),
        on=st.dates(date(2010, 1, 1), date(2040, 1, 1)),
        clock=st.times().map(lambda one: one.replace(second=0, microsecond=0)),
    )
    def test_s_51_clocks_show_what_was_asked_for(
        self, zone: ZoneInfo, on: date, clock: time
    ) -> None:
        """S-51: the first instant at which they do, found by going through a day's minutes."""
        asked = datetime.combine(on, clock)
        noon = datetime.combine(on, time(12), tzinfo=UTC)
        minutes = (noon + n * MINUTE for n in range(-36 * 60, 36 * 60))
        shown = [one for one in minutes if one.astimezone(zone).replace(tzinfo=None) == asked]

        instant = Calendar(on, zone).at(0, clock)

        assert instant.tzinfo is UTC
        if shown:
            assert instant == shown[0]
        else:
            assert instant.astimezone(zone).replace(tzinfo=None) > asked
