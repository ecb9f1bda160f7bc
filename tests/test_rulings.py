"""Rulings: what hosts decide, what follows from it, and what is taken back."""

import time
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from client import Client, Json, Person, expect, problem, unknown_id
from hall import (
    Host,
    board,
    enter,
    finish,
    happened,
    organiser,
    rfc,
    standings,
    start,
    try_to_start,
)

from service import standings as stored
from service.engine import verify
from service.store.database import Database
from service.tournaments import hosting


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    """A player who hosts tournaments."""
    return organiser(client.register("Grace"), database)


@pytest.fixture(autouse=True)
def _seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have deals drawn that are the same each time."""
    count = iter(range(10**6))
    monkeypatch.setattr("service.api.tournaments.draw_seed", lambda: f"{next(count):064x}")


@pytest.fixture(autouse=True)
def _as_from_scratch(host: Host) -> Any:
    """After each test the stored standings are what comes of the games and the rulings."""
    yield
    made = expect(host.get("/v1/tournaments?which=hosted"))["tournaments"]
    for one in made:
        contest = {"links": {"standings": f"{one['links']['self']}/standings", **one["links"]}}
        before = standings(host, contest, "?view=live")
        write = lambda connection: stored.write(connection, UUID(one["id"]))  # noqa: B023, E731
        host.store.run(write, transaction=True)
        assert standings(host, contest, "?view=live") == before


def rule(host: Person, tournament: Json, kind: str, **about: Any) -> Json:
    """Return a new ruling."""
    return expect(try_to_rule(host, tournament, kind, **about), 201)


def try_to_rule(host: Person, tournament: Json, kind: str, **about: Any) -> Any:
    """Return the answer to a ruling that is asked for."""
    body = {"kind": kind, "reason": "as the rules say", **about}
    return host.post(f"{tournament['links']['self']}/rulings", body)


def take_back(host: Person, tournament: Json, ruling: Json) -> Any:
    """Return the answer to a ruling's reversal."""
    path = f"{tournament['links']['self']}/rulings/{ruling['number']}/reversal"
    return host.post(path, {"reason": "it was wrong"})


def rulings(person: Client, tournament: Json, query: str = "") -> list[Json]:
    """Return the rulings that somebody is told."""
    found = expect(person.get(f"{tournament['links']['self']}/rulings{query}"))
    told: list[Json] = found["rulings"]
    return told


def ranks(person: Client, tournament: Json, query: str = "") -> list[tuple[str, int | None]]:
    """Return names and ranks in the order of the standings."""
    rows = standings(person, tournament, query)
    return [(row["player"]["name"], row.get("rank")) for row in rows]


def deadline(person: Person, game: Json) -> int:
    """Return a game's deadline."""
    found: int = person.read(game)["header"]["tournament"]["deadline"]
    return found


class TestEntries:
    def test_s_50_who_is_disqualified_keeps_the_row_and_loses_the_rank_at_once(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        """S-50: and whoever is behind closes up; the reinstatement puts all back."""
        contest = host.tournament()
        mine = enter(ada, contest)
        enter(bea, contest)
        finish(ada, contest, plies=6)
        assert ranks(host, contest) == [("Ada", 1), ("Bea", 2)]

        rule(host, contest, "disqualify", entry=mine["id"])

        assert ranks(host, contest) == [("Bea", 1), ("Ada", None)]
        assert standings(host, contest)[1]["status"] == "disqualified"
        assert len(standings(host, contest)[1]["cells"]) == 1
        assert problem(try_to_start(ada, contest, 2)) == (409, "not-entered")
        own = expect(ada.get(f"{contest['links']['self']}/entries/me"))
        assert own["status"] == "disqualified"

        back = rule(host, contest, "reinstate", entry=mine["id"])
        assert ranks(host, contest) == [("Ada", 1), ("Bea", 2)]
        expect(take_back(host, contest, back), 201)
        assert ranks(host, contest) == [("Bea", 1), ("Ada", None)]

    def test_what_would_change_nothing_is_refused(self, host: Host, ada: Person) -> None:
        contest = host.tournament()
        entry = enter(ada, contest)["id"]

        assert problem(try_to_rule(host, contest, "reinstate", entry=entry)) == (409, "wrong-state")
        rule(host, contest, "disqualify", entry=entry)
        again = try_to_rule(host, contest, "disqualify", entry=entry)
        assert problem(again) == (409, "wrong-state")
        nobody = try_to_rule(host, contest, "disqualify", entry=unknown_id())
        assert problem(nobody) == (404, "not-found")
        assert len(rulings(host, contest)) == 1


class TestAttempts:
    def test_an_annulled_attempt_counts_as_never_made(self, host: Host, ada: Person) -> None:
        contest = host.tournament(attempts=2)
        entry = enter(ada, contest)["id"]
        finish(ada, contest, plies=2)
        finish(ada, contest, plies=9)
        first, best = 1, 2
        assert standings(host, contest)[0]["cells"][0]["attempt"] == best

        made = rule(host, contest, "annul", entry=entry, deal=1, attempt=best)

        assert standings(host, contest)[0]["cells"][0]["attempt"] == first
        again = try_to_rule(host, contest, "annul", entry=entry, deal=1, attempt=best)
        assert problem(again) == (409, "wrong-state")
        assert problem(try_to_start(ada, contest)) == (409, "attempts-used")
        expect(take_back(host, contest, made), 201)
        assert standings(host, contest)[0]["cells"][0]["attempt"] == best

    def test_an_adjusted_result_is_marked_and_the_game_stays_as_it_is(
        self, host: Host, ada: Person
    ) -> None:
        contest = host.tournament()
        entry = enter(ada, contest)["id"]
        game = finish(ada, contest, plies=6)
        (before,) = standings(host, contest)[0]["cells"]
        named = {"entry": entry, "deal": 1, "attempt": 1}

        made = rule(host, contest, "adjust", **named, terms={"cards": 0, "time": 5})

        (cell,) = standings(host, contest)[0]["cells"]
        assert cell == {**before, "cards": 0, "time": 5, "adjusted": True}
        assert ada.read(game)["score"] == game["score"]
        second = rule(host, contest, "adjust", **named, terms={"cards": 3})
        (cell,) = standings(host, contest)[0]["cells"]
        assert (cell["cards"], cell["time"]) == (3, 5)
        for one in (made, second):
            expect(take_back(host, contest, one), 201)
        assert standings(host, contest)[0]["cells"] == [before]

    def test_only_an_attempt_that_is_over_and_counts_is_judged(
        self, host: Host, ada: Person
    ) -> None:
        contest = host.tournament((0, 600, 1), warm_up=True)
        entry = enter(ada, contest)["id"]
        start(ada, contest)
        finish(ada, contest, 2)

        for deal, attempt, refused in (
            (1, 1, (409, "wrong-state")),
            (2, 1, (409, "wrong-state")),
            (1, 2, (404, "not-found")),
            (9, 1, (404, "not-found")),
        ):
            named = {"entry": entry, "deal": deal, "attempt": attempt}
            assert problem(try_to_rule(host, contest, "annul", **named)) == refused
            adjusted = try_to_rule(host, contest, "adjust", **named, terms={"won": 1})
            assert problem(adjusted) == refused


class TestExtensions:
    def test_an_attempt_is_extended_beyond_its_round_and_the_reveal_waits_for_it(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        contest = host.tournament((0, 60, 1))
        entry = enter(ada, contest)["id"]
        enter(bea, contest)
        game, other = start(ada, contest), start(bea, contest)
        before = deadline(ada, game)
        digest = game["digest"]

        made = rule(host, contest, "extend", entry=entry, deal=1, attempt=1, ms=100_000)

        assert made["ms"] == 100_000
        assert deadline(ada, game) == before + 100_000
        assert deadline(bea, other) == before
        assert ada.read(game)["digest"] != digest
        (round_,) = expect(client.get(contest["links"]["self"]))["rounds"]
        assert round_["ends_at"] == contest["rounds"][0]["ends_at"]
        assert round_["closes_at"] > round_["ends_at"]
        assert round_["reveals_at"] > round_["closes_at"]
        host.elapse(contest, 70)
        assert "seed" not in str(expect(client.get(contest["links"]["self"])))
        game = ada.play(ada.read(game), 3)
        assert bea.read(other)["status"] == "timed-out"
        expect(ada.act(game, "resign"))
        host.elapse(contest, 100)
        replay = expect(client.get(f"/v1/games/{game['id']}/replay"))
        assert verify(replay).verdict == "valid"
        assert standings(host, contest)[0]["cells"][0]["entries"] == 4

    def test_a_round_is_extended_with_all_that_is_in_play(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        contest = host.tournament((0, 60, 2), (400, 500, 1), limit_ms=30_000)
        for person in (ada, bea):
            enter(person, contest)
        game = start(ada, contest)
        before = deadline(ada, game)

        rule(host, contest, "extend", round=1, ms=100_000)

        assert deadline(ada, game) == before + 100_000
        later = start(bea, contest)
        assert deadline(bea, later) == later["header"]["created_at"] + 30_000
        shown = expect(host.get(contest["links"]["self"]))["rounds"][0]
        assert shown["ends_at"] == shown["closes_at"] > contest["rounds"][0]["ends_at"]
        refused = problem(try_to_rule(host, contest, "extend", round=1, ms=300_000))
        assert refused == (409, "wrong-state")
        assert "rounds/1" in refused.body["detail"]

    def test_an_attempt_whose_deadline_has_passed_is_not_extended(
        self, host: Host, ada: Person
    ) -> None:
        """Though nobody has written yet that it is over: no deadline that has passed moves."""
        contest = host.tournament((0, 600, 1), limit_ms=60_000)
        entry = enter(ada, contest)["id"]
        start(ada, contest)
        host.elapse(contest, 62)

        late = try_to_rule(host, contest, "extend", entry=entry, deal=1, attempt=1, ms=100_000)

        assert problem(late) == (409, "wrong-state")
        assert rulings(host, contest) == []

    def test_a_cut_is_made_of_all_that_is_extended_before_its_round_begins(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        contest = host.tournament(
            (0, 60, 1), (60, 120, 1), (130, 300, 1, {"by": "top", "value": 1})
        )
        entry = enter(ada, contest)["id"]
        enter(bea, contest)
        finish(bea, contest, plies=2)
        game = start(ada, contest)
        named = {"entry": entry, "deal": 1, "attempt": 1}

        refused = problem(try_to_rule(host, contest, "extend", **named, ms=66_000))
        assert refused == (409, "wrong-state")
        assert "rounds/2" in refused.body["detail"]
        rule(host, contest, "extend", **named, ms=64_000)

        plan = expect(host.get(contest["links"]["self"]))["rounds"]
        told = ("starts_at", "ends_at", "cut")
        rounds = [{"deals": 1, **{name: one[name] for name in told if name in one}} for one in plan]
        starts_at = datetime.fromisoformat(rounds[2]["starts_at"])
        rounds[2]["starts_at"] = rfc(starts_at - timedelta(seconds=2))
        refused = problem(host.edit(contest, rounds=rounds))
        assert refused == (422, "bad-tournament")
        assert [one["pointer"] for one in refused.body["errors"]] == ["/rounds/2/starts_at"]

        host.elapse(contest, 123)
        ada.play(ada.read(game), 6)
        expect(host.edit(contest, title="Another"))
        host.elapse(contest, 3)
        assert [one["kind"] for one in happened(host, contest)][-1] == "edited"
        host.elapse(contest, 6)
        assert ranks(host, contest, "?round=3") == [("Ada", 1), ("Bea", None)]

    def test_an_extension_outlives_a_change_of_the_rounds_end(
        self, host: Host, ada: Person
    ) -> None:
        contest = host.tournament((0, 60, 1))
        entry = enter(ada, contest)["id"]
        game = start(ada, contest)
        rule(host, contest, "extend", entry=entry, deal=1, attempt=1, ms=7_000)
        plan = host.plan((0, 300, 1))["rounds"]
        plan[0]["starts_at"] = contest["rounds"][0]["starts_at"]

        moved = expect(host.edit(contest, rounds=plan))

        ends = expect(host.get(contest["links"]["self"]))["rounds"][0]
        assert ends["closes_at"] > moved["rounds"][0]["ends_at"] == plan[0]["ends_at"]
        first = expect(ada.get(f"{contest['links']['self']}/entries/me"))["deals"][0]["games"][0]
        assert first["deadline"] == ends["closes_at"]
        assert deadline(ada, game) > 0

    def test_one_that_is_taken_back_ends_as_before_but_not_before_now(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        contest = host.tournament((0, 60, 1))
        entries = [enter(person, contest)["id"] for person in (ada, bea)]
        game, late = start(ada, contest), start(bea, contest)
        before = deadline(ada, game)
        made = [
            rule(host, contest, "extend", entry=entry, deal=1, attempt=1, ms=100_000)
            for entry in entries
        ]

        expect(take_back(host, contest, made[0]), 201)
        assert deadline(ada, game) == before
        host.elapse(contest, 90)
        expect(take_back(host, contest, made[1]), 201)

        now = host.store.now()
        assert abs(deadline(bea, late) - now.timestamp() * 1000) < 5000
        (round_,) = expect(host.get(contest["links"]["self"]))["rounds"]
        assert round_["state"] == "closing"

    def test_a_move_that_is_made_while_an_extension_is_taken_back_is_within_the_deadline(
        self, host: Host, ada: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        contest = host.tournament((0, 60, 1))
        entry = enter(ada, contest)["id"]
        game = start(ada, contest)
        made = rule(host, contest, "extend", entry=entry, deal=1, attempt=1, ms=100_000)
        host.elapse(contest, 70)
        move_deadlines = hosting.move_deadlines

        def between(*args: Any) -> None:
            time.sleep(0.05)
            ada.play(ada.read(game), 1)
            move_deadlines(*args)

        monkeypatch.setattr("service.tournaments.rulings.move_deadlines", between)

        expect(take_back(host, contest, made), 201)

        host.elapse(contest, 10)
        job = expect(host.act(contest, "verifications"), 202)
        assert expect(host.get(job["links"]["self"]))["state"] == "done"
        (cell,) = standings(host, contest)[0]["cells"]
        assert (cell["entries"], cell["verification"]) == (1, "valid")

    def test_a_round_that_has_closed_is_not_extended_nor_its_extension_taken_back(
        self, host: Host, ada: Person
    ) -> None:
        contest = host.tournament((0, 60, 1), (300, 400, 1))
        enter(ada, contest)
        upcoming = try_to_rule(host, contest, "extend", round=2, ms=1000)
        assert problem(upcoming) == (409, "wrong-state")
        assert problem(try_to_rule(host, contest, "extend", round=3, ms=1)) == (404, "not-found")
        made = rule(host, contest, "extend", round=1, ms=20_000)

        host.elapse(contest, 86)

        assert problem(try_to_rule(host, contest, "extend", round=1, ms=1)) == (409, "wrong-state")
        assert problem(take_back(host, contest, made)) == (409, "wrong-state")


class TestAdmission:
    def test_an_entry_is_admitted_against_the_cut(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        contest = host.tournament((0, 60, 1), (70, 600, 1, {"by": "top", "value": 1}))
        enter(ada, contest)
        entry = enter(bea, contest)["id"]
        finish(ada, contest, plies=6)
        early = try_to_rule(host, contest, "admit", entry=entry, round=2)
        assert problem(early) == (409, "wrong-state")
        host.elapse(contest, 72)
        assert problem(try_to_start(bea, contest, 2)) == (409, "not-through")

        made = rule(host, contest, "admit", entry=entry, round=2)

        finish(bea, contest, 2, plies=9)
        assert ranks(host, contest, "?round=2") == [("Bea", 1), ("Ada", 2)]
        again = try_to_rule(host, contest, "admit", entry=entry, round=2)
        assert problem(again) == (409, "wrong-state")
        assert problem(try_to_rule(host, contest, "admit", entry=entry, round=3)) == (
            *(404, "not-found"),
        )
        assert [row["total"]["deals"] for row in standings(host, contest)] == [1, 1]
        expect(take_back(host, contest, made), 201)
        assert [row["total"]["deals"] for row in standings(host, contest)] == [1, 0]
        assert ranks(host, contest, "?round=2") == [("Ada", 1), ("Bea", None)]
        assert problem(try_to_start(bea, contest, 2)) == (409, "not-through")

    def test_whom_a_cut_has_stopped_no_later_cut_lets_through(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        contest = host.tournament(
            (0, 60, 1),
            (70, 130, 1, {"by": "top", "value": 1}),
            (140, 600, 1, {"by": "top", "value": 5}),
        )
        for person, plies in ((ada, 6), (bea, 1)):
            enter(person, contest)
            finish(person, contest, plies=plies)

        host.elapse(contest, 75)
        assert ranks(host, contest, "?round=2") == [("Ada", 1), ("Bea", None)]
        host.elapse(contest, 70)

        assert ranks(host, contest, "?round=3") == [("Ada", 1), ("Bea", None)]

    def test_admissions_are_taken_back_in_any_order(self, host: Host, ada: Person) -> None:
        cut = {"by": "won", "value": 1}
        contest = host.tournament((0, 60, 1), (70, 130, 1, cut), (140, 600, 1, cut))
        entry = enter(ada, contest)["id"]
        host.elapse(contest, 75)
        first = rule(host, contest, "admit", entry=entry, round=2)
        host.elapse(contest, 70)
        second = rule(host, contest, "admit", entry=entry, round=3)

        def reach() -> int:
            found: int = standings(host, contest)[0]["reach"]
            return found

        assert reach() == 3
        expect(take_back(host, contest, first), 201)
        assert reach() == 3
        expect(take_back(host, contest, second), 201)
        assert reach() == 1
        third = rule(host, contest, "admit", entry=entry, round=3)
        assert reach() == 3
        expect(take_back(host, contest, third), 201)
        assert reach() == 1


class TestRecords:
    def test_rulings_are_numbered_and_told_with_their_reasons(
        self, host: Host, ada: Person, client: Client
    ) -> None:
        contest = host.tournament()
        entry = enter(ada, contest)["id"]
        finish(ada, contest)
        rule(host, contest, "disqualify", entry=entry)
        made = rule(host, contest, "adjust", entry=entry, deal=1, attempt=1, terms={"cards": 9})
        back = expect(take_back(host, contest, made), 201)

        told = rulings(host, contest)

        assert [one["number"] for one in told] == [1, 2, 3]
        assert [one["kind"] for one in told] == ["disqualify", "adjust", "reverse"]
        assert told[1] == {**made, "reversed_by": 3}
        assert (told[2], back["reverses"]) == (back, 2)
        assert {one["by"] for one in told} == {host.id}
        for person in (client, ada):
            others = rulings(person, contest)
            assert others == [{k: v for k, v in one.items() if k != "by"} for one in told]
        assert rulings(client, contest, "?after=1&limit=1") == others[1:2]
        acts = [one for one in happened(host, contest) if one["kind"] == "ruling"]
        assert [(one["by"], one["entry"]) for one in acts] == [(host.id, entry)] * 3
        assert acts[1]["data"] == {
            "number": 2,
            "kind": "adjust",
            "deal": 1,
            "attempt": 1,
            "cards": 9,
        }

    def test_one_is_taken_back_once_and_a_reversal_never(self, host: Host, ada: Person) -> None:
        contest = host.tournament()
        made = rule(host, contest, "disqualify", entry=enter(ada, contest)["id"])
        back = expect(take_back(host, contest, made), 201)

        assert problem(take_back(host, contest, made)) == (409, "wrong-state")
        assert problem(take_back(host, contest, back)) == (409, "wrong-state")
        for number in (0, 3, 10**30):
            path = f"{contest['links']['self']}/rulings/{number}/reversal"
            assert problem(host.post(path, {"reason": "x"})) == (404, "not-found")

    @pytest.mark.parametrize(
        ("kind", "about", "pointer"),
        [
            ("disqualify", {}, "/entry"),
            ("disqualify", {"entry": unknown_id(), "deal": 1}, "/deal"),
            ("annul", {"entry": unknown_id(), "deal": 1}, "/attempt"),
            ("adjust", {"entry": unknown_id(), "deal": 1, "attempt": 1}, "/terms"),
            ("adjust", {"entry": unknown_id(), "deal": 1, "attempt": 1, "terms": {}}, "/terms"),
            ("extend", {"round": 1}, "/ms"),
            ("extend", {"round": 1, "ms": 1, "entry": unknown_id()}, "/entry"),
            ("admit", {"round": 1}, "/entry"),
        ],
    )
    def test_what_is_not_told_whole_is_pointed_at(
        self, host: Host, kind: str, about: Json, pointer: str
    ) -> None:
        contest = host.tournament()

        refused = problem(try_to_rule(host, contest, kind, **about))

        assert refused == (422, "bad-ruling")
        assert [one["pointer"] for one in refused.body["errors"]] == [pointer]

    def test_without_a_reason_nothing_is_ruled(self, host: Host) -> None:
        contest = host.tournament()
        path = f"{contest['links']['self']}/rulings"

        for reason in ({}, {"reason": ""}, {"reason": " "}):
            body = {"kind": "extend", "round": 1, "ms": 1, **reason}
            assert problem(host.post(path, body)) == (422, "invalid-request")
        assert rulings(host, contest) == []

    def test_the_same_key_rules_once(self, host: Host) -> None:
        contest, other = host.tournament(), host.tournament()
        body = {"kind": "extend", "round": 1, "ms": 1000, "reason": "down"}
        key = {"Idempotency-Key": unknown_id()}
        path = f"{contest['links']['self']}/rulings"

        first, again = (expect(host.post(path, body, headers=key), 201) for _ in "ab")

        assert first == again
        assert len(rulings(host, contest)) == 1
        elsewhere = host.post(f"{other['links']['self']}/rulings", body, headers=key)
        assert problem(elsewhere) == (422, "idempotency-key-reused")

    def test_s_61_a_frozen_board_and_its_rulings_tell_nothing_of_what_is_ruled_since(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        """S-61: byte for byte; the player whom it is about is told."""
        contest = host.tournament()
        mine, other = enter(ada, contest)["id"], enter(bea, contest)["id"]
        finish(ada, contest, plies=4)
        old = rule(host, contest, "disqualify", entry=other)
        expect(host.act(contest, "freeze"))
        path = contest["links"]["standings"]
        frozen, events = client.get(path).data, happened(client, contest)
        before = rulings(client, contest)

        rule(host, contest, "disqualify", entry=mine)
        expect(take_back(host, contest, old), 201)

        assert client.get(path).data == frozen
        assert happened(client, contest) == events
        assert rulings(client, contest) == before
        assert [one["kind"] for one in rulings(ada, contest)] == ["disqualify"] * 2
        assert [one["kind"] for one in rulings(bea, contest)] == ["disqualify", "reverse"]
        rule(host, contest, "extend", round=1, ms=1000)
        assert rulings(client, contest)[-1]["kind"] == "extend"
        assert board(host, contest, "?view=live")["rows"][0]["player"]["name"] == "Bea"
        expect(host.act(contest, "unfreeze"))
        assert len(rulings(client, contest)) == 4

    def test_before_it_is_published_and_after_it_is_called_off_nothing_is_ruled(
        self, host: Host
    ) -> None:
        draft = host.draft()
        assert problem(try_to_rule(host, draft, "extend", round=1, ms=1)) == (409, "wrong-state")
        expect(host.act(draft, "publish"))
        made = rule(host, draft, "extend", round=1, ms=1)
        expect(host.act(draft, "cancel", {"reason": "no"}))

        assert problem(try_to_rule(host, draft, "extend", round=1, ms=1)) == (409, "wrong-state")
        assert problem(take_back(host, draft, made)) == (409, "wrong-state")
