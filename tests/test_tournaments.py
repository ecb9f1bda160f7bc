"""Tournaments: from the draft to the reveal."""

import hmac
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
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
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from service import standings as stored
from service.engine import verify
from service.engine.replay import commitment
from service.store.database import Database
from service.tournaments import pages


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    """A player who hosts tournaments."""
    return organiser(client.register("Grace"), database)


@pytest.fixture(autouse=True)
def _seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have deals drawn that are the same each time."""
    count = iter(range(10**6))
    monkeypatch.setattr("service.api.tournaments.draw_seed", lambda: f"{next(count):064x}")


@pytest.fixture
def cy(client: Client) -> Person:
    """A third player."""
    return client.register("Cy")


def ranks(person: Client, tournament: Json, query: str = "") -> list[tuple[str, int | None]]:
    """Return names and ranks in the order of the standings."""
    rows = standings(person, tournament, query)
    return [(row["player"]["name"], row.get("rank")) for row in rows]


class TestDrafts:
    def test_a_draft_is_its_hosts_alone(self, host: Host, ada: Person, client: Client) -> None:
        draft = host.draft()
        path = draft["links"]["self"]

        assert (draft["state"], draft["role"]) == ("draft", "owner")
        assert expect(host.get(path)) == draft
        assert problem(ada.get(path)) == (404, "not-found")
        assert problem(client.get(path)) == (404, "not-found")
        assert draft["id"] not in str(expect(ada.get("/v1/tournaments")))
        assert problem(ada.post(f"{path}/entries", {})) == (404, "not-found")

    def test_who_may_not_organise_makes_none(self, ada: Person, host: Host) -> None:
        assert problem(ada.post("/v1/tournaments", host.plan())) == (403, "scope-missing")

    def test_it_may_be_changed_in_all(self, host: Host) -> None:
        draft = host.draft((60, 600, 2), attempts=2)

        changed = expect(
            host.edit(
                draft,
                title="Another evening",
                ruleset="royal-cotillion-1",
                rounds=host.plan((100, 200, 3), (300, 700, 1, {"by": "top", "value": 4}))["rounds"],
                entry={"capacity": 8, "by": "code"},
                limit_ms=90_000,
            )
        )

        assert changed["version"] == draft["version"] + 1
        assert changed["title"] == "Another evening"
        assert changed["ruleset"] == "royal-cotillion-1"
        assert [len(one["deals"]) for one in changed["rounds"]] == [3, 1]
        assert changed["rounds"][1]["cut"] == {"by": "top", "value": 4}
        assert (changed["entry"]["capacity"], changed["limit_ms"]) == (8, 90_000)
        assert changed["attempts"] == 2
        none = expect(host.edit(draft, entry={"capacity": 0}, limit_ms=0))
        assert "capacity" not in none["entry"]
        assert "limit_ms" not in none

    def test_s_18_a_change_of_what_has_changed_since_is_refused(self, host: Host) -> None:
        """S-18: the version that was seen comes with the change."""
        draft = host.draft()
        path = draft["links"]["self"]
        tag = host.get(path).headers["ETag"]
        expect(host.edit(draft, title="First"))

        late = host.ask("PATCH", path, {"title": "Second"}, headers={"If-Match": tag})

        assert problem(late) == (412, "stale-version")
        assert expect(host.get(path))["title"] == "First"
        assert problem(host.ask("PATCH", path, {"title": "x"})) == (428, "precondition-needed")
        odd = host.ask("PATCH", path, {"title": "x"}, headers={"If-Match": '"abc"'})
        assert problem(odd) == (422, "invalid-request")

    @pytest.mark.parametrize(
        ("change", "pointer"),
        [
            ({"rounds": [(10, 10, 1)]}, "/rounds/0/ends_at"),
            ({"rounds": [(10, 20, 1), (15, 30, 1)]}, "/rounds/1/starts_at"),
            ({"rounds": [(10, 20, 1, {"by": "top", "value": 1})]}, "/rounds/0/cut"),
            (
                {"rounds": [(10, 20, 1), (24, 30, 1, {"by": "top", "value": 1})]},
                "/rounds/1/starts_at",
            ),
            ({"rounds": [(10, 20, 60), (30, 40, 60)]}, "/rounds"),
            ({"scoring": {"keys": [{"key": "time"}]}}, "/scoring/keys"),
        ],
    )
    def test_what_makes_no_sense_is_pointed_at(
        self, host: Host, change: Json, pointer: str
    ) -> None:
        rounds = change.pop("rounds", [(10, 20, 1)])

        refused = problem(host.post("/v1/tournaments", host.plan(*rounds, **change)))

        assert refused == (422, "bad-tournament")
        assert [one["pointer"] for one in refused.body["errors"]] == [pointer]

    def test_the_same_key_makes_it_once(self, host: Host) -> None:
        body, key = host.plan(), {"Idempotency-Key": unknown_id()}

        first, again = (expect(host.post("/v1/tournaments", body, headers=key), 201) for _ in "ab")

        assert first["id"] == again["id"]
        other = host.post("/v1/tournaments", {**body, "title": "Other"}, headers=key)
        assert problem(other) == (422, "idempotency-key-reused")


class TestPublishing:
    def test_commitments_are_public_and_fixed_and_the_seeds_open_them(
        self, host: Host, client: Client
    ) -> None:
        draft = host.draft((0, 60, 2), (100, 200, 1), warm_up=True)
        assert all("commitment" not in deal for one in draft["rounds"] for deal in one["deals"])

        first = expect(host.act(draft, "publish"))
        again = expect(host.act(draft, "publish"))

        deals = [deal for one in first["rounds"] for deal in one["deals"]]
        assert sorted((deal["number"], deal["counts"]) for deal in deals) == [
            *((1, True), (2, True)),
            *((3, True), (4, False)),
        ]
        assert len({deal["commitment"] for deal in deals}) == 4
        assert again["rounds"] == first["rounds"]
        assert "seed" not in str(first)
        host.elapse(first, 206)
        opened = expect(client.get(first["links"]["self"]))
        assert opened["state"] == "revealed"
        for deal in (deal for one in opened["rounds"] for deal in one["deals"]):
            context = f"{first['id']}/{deal['number']}"
            assert commitment(context, deal["seed"]) == deal["commitment"]

    def test_s_74_what_attempts_depend_on_is_fixed(self, host: Host) -> None:
        """S-74: nobody plays under conditions that are changed later."""
        contest = host.tournament((60, 600, 2), (700, 900, 1, {"by": "top", "value": 9}))
        told = ("starts_at", "ends_at", "cut")
        rounds = [
            {"deals": len(one["deals"]), **{name: one[name] for name in told if name in one}}
            for one in contest["rounds"]
        ]

        for change in (
            {"rounds": [rounds[0], {**rounds[1], "cut": {"by": "top", "value": 8}}]},
            {"rounds": rounds[:1]},
            *({"ruleset": "royal-cotillion-1"}, {"attempts": 3}, {"limit_ms": 60_000}),
            *({"warm_up": True}, {"reveal": "by-hand"}),
            {"scoring": {"keys": [{"key": "cards"}]}},
            {"rounds": [{**rounds[0], "deals": 3}, rounds[1]]},
        ):
            assert problem(host.edit(contest, **change)) == (409, "wrong-state")
        assert expect(host.edit(contest, title="Renamed", rounds=rounds))["title"] == "Renamed"

    def test_a_tournament_whose_first_round_would_be_over_is_not_published(
        self, host: Host
    ) -> None:
        draft = host.draft((-100, -50, 1))

        assert problem(host.act(draft, "publish")) == (409, "wrong-state")

    def test_who_sees_it_depends_on_its_visibility(
        self, host: Host, ada: Person, client: Client
    ) -> None:
        for visibility, listed, seen in (
            ("public", True, True),
            ("unlisted", False, True),
            ("private", False, False),
        ):
            contest = host.tournament(visibility=visibility)
            found = expect(client.get("/v1/tournaments?limit=100"))["tournaments"]
            assert (contest["id"] in {one["id"] for one in found}) is listed
            assert (ada.get(contest["links"]["self"]).status_code == 200) is seen
            own = expect(host.get("/v1/tournaments?which=hosted"))["tournaments"]
            assert own[0]["id"] == contest["id"]


class TestEntering:
    def test_an_entry_is_made_once(self, host: Host, ada: Person) -> None:
        contest = host.tournament()

        first, again = enter(ada, contest), enter(ada, contest)

        assert first == again
        shown = expect(ada.get(contest["links"]["self"]))
        assert shown["entry"]["entries"] == 1
        assert shown["own_entry"] == first["id"]
        assert [one["kind"] for one in happened(ada, contest)].count("joined") == 1
        mine = expect(ada.get("/v1/tournaments?which=entered"))["tournaments"]
        assert [one["id"] for one in mine] == [contest["id"]]

    def test_s_46_what_would_refuse_one_is_listed_beforehand(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        """S-46: each condition with a verdict, and the refusal is the first that is not met."""
        contest = host.tournament((60, 600, 1), entry={"capacity": 1})
        path = contest["links"]["self"]

        def verdicts(person: Person) -> Json:
            return {one["name"]: one["met"] for one in expect(person.get(path))["conditions"]}

        assert verdicts(ada) == {"entry-open": True, "place-left": True}
        enter(ada, contest)
        assert verdicts(bea) == {"entry-open": True, "place-left": False}
        assert problem(bea.post(f"{path}/entries", {})) == (409, "tournament-full")
        host.elapse(contest, 600)
        assert verdicts(bea) == {"entry-open": False, "place-left": False}
        assert problem(bea.post(f"{path}/entries", {})) == (409, "entry-closed")

    def test_who_leaves_frees_a_place_and_may_come_back(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        contest = host.tournament(entry={"capacity": 1})
        path = f"{contest['links']['self']}/entries"
        mine = enter(ada, contest)

        for _ in range(2):
            assert ada.ask("DELETE", f"{path}/me").status_code == 204
        assert ranks(host, contest) == [("Ada", None)]
        enter(bea, contest)
        assert problem(ada.post(path, {})) == (409, "tournament-full")
        bea.ask("DELETE", f"{path}/me")
        assert enter(ada, contest)["id"] == mine["id"]
        assert ranks(host, contest) == [("Ada", 1), ("Bea", None)]

    def test_without_an_entry_nothing_is_played(self, host: Host, ada: Person) -> None:
        contest = host.tournament()

        assert problem(try_to_start(ada, contest)) == (409, "not-entered")
        assert problem(ada.get(f"{contest['links']['self']}/entries/me")) == (409, "not-entered")
        enter(ada, contest)
        ada.ask("DELETE", f"{contest['links']['self']}/entries/me")
        assert problem(try_to_start(ada, contest)) == (409, "not-entered")


class TestAttempts:
    def test_all_play_the_same_cards_and_see_no_seed(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        contest = host.tournament()
        for person in (ada, bea):
            enter(person, contest)

        one, other = start(ada, contest), start(bea, contest)

        assert one["reserve"] == other["reserve"]
        assert one["deal"] == other["deal"]
        deal = contest["rounds"][0]["deals"][0]
        assert one["deal"]["commitment"] == deal["commitment"]
        assert one["header"]["tournament"]["entry"] != other["header"]["tournament"]["entry"]
        assert problem(ada.act(one, "undo")) == (409, "undo-off")

    def test_s_82_s_87_attempts_are_counted_when_they_start_and_an_open_one_is_returned(
        self, host: Host, ada: Person
    ) -> None:
        """S-82: allowed, started, finished and left are told, and mean what they say."""
        contest = host.tournament(attempts=2)
        enter(ada, contest)

        first = start(ada, contest)
        assert start(ada, contest)["id"] == first["id"]
        expect(ada.act(first, "resign"))
        second = start(ada, contest)

        assert second["header"]["tournament"]["attempt"] == 2
        mine = expect(ada.get(f"{contest['links']['self']}/entries/me"))["deals"][0]
        assert mine["attempts"] == {"allowed": 2, "started": 2, "finished": 1, "left": 0}
        assert [one["status"] for one in mine["games"]] == ["resigned", "playing"]
        expect(ada.act(second, "resign"))
        assert problem(try_to_start(ada, contest)) == (409, "attempts-used")

    def test_a_round_is_played_while_it_is_open(self, host: Host, ada: Person) -> None:
        contest = host.tournament((10, 100, 1), (200, 300, 1))
        enter(ada, contest)

        assert problem(try_to_start(ada, contest)) == (409, "deal-closed")
        host.elapse(contest, 10)
        start(ada, contest)
        assert problem(try_to_start(ada, contest, 2)) == (409, "deal-closed")
        host.elapse(contest, 190)
        start(ada, contest, 2)
        assert problem(try_to_start(ada, contest)) == (409, "deal-closed")
        assert problem(try_to_start(ada, contest, 9)) == (404, "not-found")

    def test_a_warm_up_never_counts(self, host: Host, ada: Person) -> None:
        contest = host.tournament((600, 900, 1), warm_up=True)
        enter(ada, contest)

        for _ in range(2):
            finish(ada, contest, 2, plies=5)

        (row,) = standings(ada, contest)
        assert (row["cells"], row["total"]["deals"]) == ([], 0)
        assert [one["kind"] for one in happened(ada, contest)].count("result") == 0

    def test_s_49_an_unfinished_attempt_counts_as_it_stands(
        self, host: Host, ada: Person, client: Client
    ) -> None:
        """S-49: its deadline is stored at its start, and ends it; nobody has to come and do so."""
        contest = host.tournament((0, 600, 1), limit_ms=60_000)
        enter(ada, contest)
        game = ada.play(start(ada, contest), 4)
        tournament = game["header"]["tournament"]
        assert tournament["deadline"] == game["header"]["created_at"] + 60_000

        host.elapse(contest, 62)
        late = ada.try_moves(game, 4, game["legal_moves"][0])
        assert problem(late) == (409, "deadline-passed")
        assert late.get_json()["game"]["status"] == "playing"
        host.elapse(contest, 4)
        assert problem(ada.act(game, "resign")) == (409, "deadline-passed")

        ended = ada.read(game)
        assert (ended["status"], ended["score"]) == ("timed-out", game["score"])
        assert ended["legal_moves"] == []
        assert "seed" not in ended
        (row,) = standings(ada, contest)
        assert row["total"] == {
            "won": 0,
            "cards": game["score"],
            "entries": 4,
            "deals": 1,
            "time": ada.replay(game)["times"][-1],
        }
        again = ada.try_moves(game, 3, ada.read(game, 3)["legal_moves"][0])
        assert again.status_code == 200, "a repeat is answered whatever came since"
        host.elapse(contest, 600)
        replay = expect(client.get(f"/v1/games/{game['id']}/replay"))
        assert replay["result"]["status"] == "timed-out"
        assert replay["seed"]
        assert verify(replay).verdict == "valid"

    def test_a_sealed_game_is_its_players_until_the_reveal(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        contest = host.tournament()
        enter(ada, contest)
        game = finish(ada, contest, plies=3)
        path = f"/v1/games/{game['id']}"

        assert "seed" not in game
        for person in (bea, client, host):
            assert problem(person.get(path)) == (404, "not-found")
            assert problem(person.get(f"{path}/replay")) == (404, "not-found")
        host.elapse(contest, 606)
        for person in (bea, client, host):
            assert expect(person.get(path))["seed"] == expect(ada.get(path))["seed"]


class TestStandings:
    def test_a_result_moves_its_entry(
        self, host: Host, ada: Person, bea: Person, cy: Person
    ) -> None:
        contest = host.tournament()
        for person in (ada, bea, cy):
            enter(person, contest)
        assert [rank for _, rank in ranks(host, contest)] == [1, 1, 1]

        finish(bea, contest, plies=6)
        finish(ada, contest, plies=2)

        rows = standings(host, contest)
        assert [(row["player"]["name"], row["rank"]) for row in rows] == [
            *(("Bea", 1), ("Ada", 2)),
            ("Cy", 3),
        ]
        assert rows[0]["cells"][0]["verification"] == "pending"
        keys = [one["key"] for one in board(host, contest)["scoring"]["keys"]]
        assert keys == ["won", "cards", "entries", "time"]

    def test_pages_lead_on_and_back(self, host: Host, client: Client) -> None:
        contest = host.tournament()
        people = [client.register(f"P{n}") for n in range(7)]
        for n, person in enumerate(people):
            enter(person, contest)
            if n % 2:
                finish(person, contest, plies=n)
        whole = standings(host, contest)

        pages, backs = [], []
        path = f"{contest['links']['self']}/standings?limit=3"
        while path:
            answer = host.get(path)
            pages.append(expect(answer)["rows"])
            links = answer.headers.get("Link", "")
            found = {part[-5:-1]: part[1 : part.index(">")] for part in links.split(", ") if part}
            path = found.get("next", "")
            if "prev" in found:
                backs.append(expect(host.get(found["prev"]))["rows"])

        assert [row for page in pages for row in page] == whole
        assert backs == pages[: len(backs)]
        assert len(pages) == 3

    @pytest.mark.parametrize("page", ["_PAGE_FIRST", "_PAGE_AFTER", "_PAGE_BEFORE", "_PAGE_AROUND"])
    def test_no_page_reads_all_standings(self, database: Database, page: str) -> None:
        """The plan that Postgres keeps for any page goes by indexes, however many entries."""
        text_ = getattr(pages, page).text
        names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text_)))
        numbered = text_ % {name: f"${n}" for n, name in enumerate(names, 1)}
        many = """INSERT INTO tournament_standings
            SELECT :id, false, n % 2, gen_random_uuid(), decode(md5(n::text), 'hex'),
                to_json(repeat('told ', 100))
            FROM generate_series(1, 20000) AS n"""

        with database.engine.connect() as one:
            one.execution_options(isolation_level="READ COMMITTED")
            one.execute(text(many), {"id": unknown_id()})
            one.execute(text("ANALYZE tournament_standings"))
            driver = one.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            lines = driver.execute(f"EXPLAIN (GENERIC_PLAN) {numbered}".encode()).fetchall()
            one.rollback()

        found = "\n".join(row[0] for row in lines)
        assert "Index Only Scan using ix_tournament_standings" in found
        assert "Seq Scan on tournament_standings" not in found
        assert "Bitmap Heap Scan on tournament_standings" not in found

    def test_s_11_around_me_is_that_part_of_the_whole(
        self, host: Host, client: Client, ada: Person
    ) -> None:
        """S-11: from the first place to the last, shared ones and one without a rank included."""
        contest = host.tournament()
        people = [client.register(f"P{n}") for n in range(7)]
        for n, person in enumerate(people):
            enter(person, contest)
            if n < 4:
                finish(person, contest, plies=2 * n)
        people[0].ask("DELETE", f"{contest['links']['self']}/entries/me")
        whole = standings(host, contest)
        assert [row.get("rank") for row in whole] == [1, 2, 3, 4, 4, 4, None]
        path = f"{contest['links']['self']}/standings/around"

        by_id = {person.id: person for person in people}
        for n, row in enumerate(whole):
            person = by_id[row["player"]["id"]]
            for each in range(9):
                found = expect(person.get(f"{path}?each={each}"))["rows"]
                assert found == whole[max(0, n - each) : n + each + 1]
        assert expect(people[3].get(path))["rows"] == whole[:6]
        entry = whole[0]["entry"]
        assert expect(client.get(f"{path}?each=0&entry={entry}"))["rows"] == whole[:1]
        assert problem(ada.get(path)) == (409, "not-entered")
        assert problem(client.get(path)) == (401, "token-missing")
        assert problem(client.get(f"{path}?entry={unknown_id()}")) == (404, "not-found")

    def test_a_cut_decides_who_plays_on(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        contest = host.tournament((0, 60, 1), (70, 200, 1, {"by": "top", "value": 1}))
        for person in (ada, bea):
            enter(person, contest)
        game = ada.play(start(ada, contest), 6)
        finish(bea, contest, plies=2)

        host.elapse(contest, 72)

        assert problem(try_to_start(bea, contest, 2)) == (409, "not-through")
        finish(ada, contest, 2, plies=1)
        assert ranks(client, contest) == [("Ada", 1), ("Bea", 2)]
        assert ranks(client, contest, "?round=2") == [("Ada", 1), ("Bea", None)]
        kinds = [one["kind"] for one in happened(client, contest)]
        assert kinds[-4:] == ["result", "result", "cut", "result"]
        assert ada.read(game)["status"] == "timed-out"
        assert problem(client.get(f"{contest['links']['standings']}?round=3")) == (404, "not-found")

    def test_s_61_a_frozen_board_is_the_same_bytes_until_it_is_shown_again(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        """S-61: whatever is played meanwhile; its hosts see through it."""
        contest = host.tournament()
        for entrant in (ada, bea):
            enter(entrant, contest)
        finish(ada, contest, plies=1)
        path = contest["links"]["standings"]
        expect(host.act(contest, "freeze"))
        frozen = client.get(path).data
        assert expect(client.get(path))["view"] == "frozen"

        finish(bea, contest, plies=9)
        late = client.register("Di")
        enter(late, contest)

        watching: list[Client] = [client, ada, bea, host]
        for person in watching:
            assert person.get(path).data == frozen
        assert problem(late.get(f"{path}/around")) == (404, "not-found")
        assert problem(ada.get(f"{path}?view=live")) == (403, "role-missing")
        assert ranks(host, contest, "?view=live")[0] == ("Bea", 1)
        assert [one for one in happened(ada, contest) if one["kind"] == "result"][1:] == []
        expect(host.act(contest, "freeze"))
        expect(host.act(contest, "unfreeze"))
        assert ranks(client, contest)[0] == ("Bea", 1)

    def test_what_is_stored_is_what_comes_of_the_logs(
        self, host: Host, ada: Person, bea: Person, database: Database
    ) -> None:
        contest = host.tournament(attempts=2)
        for person in (ada, bea):
            enter(person, contest)
            finish(person, contest, plies=3)
            finish(person, contest, plies=5)
            finish(person, contest, 2)
        before = standings(host, contest)

        database.run(lambda one: stored.write(one, UUID(contest["id"])), transaction=True)

        assert standings(host, contest) == before


class TestActs:
    def test_others_do_not_act(self, host: Host, ada: Person, database: Database) -> None:
        contest = host.tournament()
        other = organiser(ada, database)

        for verb, body in (
            *(("publish", None), ("freeze", None), ("unfreeze", None)),
            *(("cancel", {"reason": "no"}), ("rounds/1/reveal", None)),
        ):
            assert problem(other.act(contest, verb, body)) == (403, "role-missing")
        assert problem(other.edit(contest, title="mine")) == (403, "role-missing")
        assert problem(replace(host, token=ada.token).act(contest, "freeze")) == (
            *(403, "scope-missing"),
        )

    def test_a_round_is_revealed_by_hand_once_it_is_closed(
        self, host: Host, client: Client
    ) -> None:
        contest = host.tournament((0, 60, 1), reveal="by-hand")

        assert problem(host.act(contest, "rounds/1/reveal")) == (409, "wrong-state")
        host.elapse(contest, 66)
        path = contest["links"]["self"]
        assert "seed" not in expect(client.get(path))["rounds"][0]["deals"][0]
        shown = [expect(host.act(contest, "rounds/1/reveal")) for _ in range(2)]
        assert shown[0]["rounds"] == shown[1]["rounds"]
        assert expect(client.get(path))["rounds"][0]["deals"][0]["seed"]
        assert problem(host.act(contest, "rounds/2/reveal")) == (404, "not-found")

    def test_a_draft_has_nothing_to_reveal(self, host: Host) -> None:
        draft = host.draft((-100, -50, 1), (-40, 600, 1), reveal="by-hand")

        assert problem(host.act(draft, "rounds/1/reveal")) == (409, "wrong-state")

    def test_what_is_called_off_is_not_played(self, host: Host, ada: Person) -> None:
        contest = host.tournament()
        enter(ada, contest)

        for _ in range(2):
            expect(host.act(contest, "cancel", {"reason": "the hall is closed"}))

        assert problem(try_to_start(ada, contest)) == (409, "deal-closed")
        told = happened(ada, contest)[-1]
        assert (told["kind"], told["reason"]) == ("cancelled", "the hall is closed")
        assert "by" not in told
        assert happened(host, contest)[-1]["by"] == host.id

    def test_s_18_a_moved_end_moves_deadlines_by_the_same_rule(
        self, host: Host, ada: Person
    ) -> None:
        """S-18: open attempts end when they would had they been started under the new end."""
        contest = host.tournament((0, 60, 1), limit_ms=300_000)
        enter(ada, contest)
        game = start(ada, contest)
        started = game["header"]["created_at"]
        plan = host.plan((0, 600, 1))["rounds"]
        plan[0]["starts_at"] = contest["rounds"][0]["starts_at"]

        moved = expect(host.edit(contest, rounds=plan, reason="the network was down"))

        assert moved["rounds"][0]["ends_at"] == plan[0]["ends_at"]
        assert ada.read(game)["header"]["tournament"]["deadline"] == started + 300_000
        told = happened(ada, contest)[-1]
        assert (told["kind"], told["reason"]) == ("edited", "the network was down")
        assert told["data"] == {"changed": ["rounds"]}

    def test_s_93_events_are_numbered_without_gaps_and_never_go_back(
        self, host: Host, ada: Person
    ) -> None:
        """S-93: in the order in which they were written."""
        contest = host.tournament()
        enter(ada, contest)
        finish(ada, contest)

        told = happened(host, contest)

        assert [one["number"] for one in told] == list(range(1, len(told) + 1))
        assert [one["at"] for one in told] == sorted(one["at"] for one in told)
        assert [one["kind"] for one in told] == ["created", "published", "joined", "result"]
        path = f"{contest['links']['self']}/events"
        assert expect(ada.get(f"{path}?after=2"))["events"][0]["number"] == 3

    @pytest.mark.parametrize(
        ("table", "change"),
        [
            ("games", "deadline = created_at - interval '1 ms'"),
            ("games", "ended_at = created_at - interval '1 ms'"),
            ("games", "ended_at = deadline + interval '1 ms'"),
            ("tournament_rounds", "ends_at = starts_at"),
            ("tournament_rounds", "closes_at = ends_at - interval '1 ms'"),
            ("tournament_rounds", "reveals_at = closes_at"),
        ],
    )
    def test_s_93_the_database_takes_no_end_before_its_start(
        self, host: Host, ada: Person, table: str, change: str
    ) -> None:
        """S-93: instants of a row that cannot be are refused, whoever writes them."""
        contest = host.tournament()
        enter(ada, contest)
        finish(ada, contest)
        query = text(f"UPDATE {table} SET {change} WHERE tournament_id = :id")  # noqa: S608

        with pytest.raises(IntegrityError):
            host.store.run(lambda one: one.execute(query, {"id": contest["id"]}))


class TestAddresses:
    def test_what_is_kept_of_an_address_tells_who_shares_it_and_no_more(
        self, host: Host, ada: Person, bea: Person, database: Database
    ) -> None:
        contests = [host.tournament(), host.tournament()]
        for contest in contests:
            enter(ada, contest)
            enter(bea, contest)

        query = text("SELECT address FROM tournament_entries WHERE tournament_id = :id")

        def addresses(contest: Json) -> list[bytes]:
            found = database.run(lambda one: one.execute(query, {"id": contest["id"]}).scalars())
            return [bytes(one) for one in found]

        kept = [addresses(contest) for contest in contests]

        assert [(len(one), len(set(one))) for one in kept] == [(2, 1), (2, 1)]
        assert kept[0] != kept[1]
        plain = b"".join((UUID(contests[0]["id"]).bytes, b"127.0.0.1"))
        assert kept[0][0] != hmac.digest(b"", plain, "sha256")[:16]


class TestEdges:
    """What a review found: each was wrong once."""

    def test_who_was_cut_off_stays_so(self, host: Host, ada: Person, bea: Person) -> None:
        for cut in ({"by": "cards", "value": 1}, {"by": "top", "value": 2}):
            contest = host.tournament(
                *((0, 60, 1), (70, 130, 1, {"by": "top", "value": 1})),
                (140, 200, 1, cut),
            )
            for person in (ada, bea):
                enter(person, contest)
            finish(ada, contest, plies=2)

            host.elapse(contest, 142)

            start(ada, contest, 3)
            assert problem(try_to_start(bea, contest, 3)) == (409, "not-through")

    def test_a_repeated_entry_tells_the_attempts_made(self, host: Host, ada: Person) -> None:
        contest = host.tournament()
        enter(ada, contest)
        finish(ada, contest)

        mine = expect(ada.get(f"{contest['links']['self']}/entries/me"))

        assert enter(ada, contest) == mine
        assert mine["deals"][0]["attempts"]["left"] == 0

    @pytest.mark.parametrize(
        ("name", "instant"),
        [
            ("ends_at", "9999-12-31T23:59:59.999Z"),
            ("ends_at", "9999-12-31T23:59:59-12:00"),
            ("starts_at", "0001-01-01T00:00:00+14:00"),
            ("starts_at", "0001-06-01T00:00:00Z"),
        ],
    )
    def test_instants_far_away_are_refused(self, host: Host, name: str, instant: str) -> None:
        plan = host.plan()
        plan["rounds"][0][name] = instant

        refused = problem(host.post("/v1/tournaments", plan))

        assert refused == (422, "invalid-request")
        assert refused.body["errors"][0]["pointer"] == f"/rounds/0/{name}"

    def test_instants_are_of_whole_ms_so_that_what_is_told_can_be_sent_back(
        self, host: Host
    ) -> None:
        plan = host.plan((60, 600, 1))
        plan["rounds"][0]["starts_at"] = plan["rounds"][0]["starts_at"][:-1] + "789Z"
        draft = expect(host.post("/v1/tournaments", plan), 201)
        expect(host.act(draft, "publish"))
        host.elapse(draft, 61)
        told = expect(host.get(draft["links"]["self"]))["rounds"][0]
        rounds = [{**plan["rounds"][0], "starts_at": told["starts_at"], "ends_at": told["ends_at"]}]

        assert (
            expect(host.edit(draft, rounds=rounds))["rounds"][0]["starts_at"] == told["starts_at"]
        )

    def test_a_draft_that_is_called_off_stays_its_hosts_alone(
        self, host: Host, ada: Person
    ) -> None:
        draft = host.draft()
        expect(host.act(draft, "cancel", {"reason": "a mistake"}))

        assert problem(ada.get(draft["links"]["self"])) == (404, "not-found")

    def test_a_limit_of_less_than_a_second_is_refused(self, host: Host) -> None:
        draft = host.draft()

        refused = problem(host.edit(draft, limit_ms=999))

        assert refused == (422, "bad-tournament")
        assert refused.body["errors"][0]["pointer"] == "/limit_ms"

    def test_a_code_tells_nothing_of_what_is_private(self, host: Host, ada: Person) -> None:
        contest = host.tournament(visibility="private", entry={"by": "code"})
        path = f"{contest['links']['self']}/entries"

        assert problem(ada.post(path, {"code": "AAAAA-AAAAA"})) == (404, "not-found")
        assert problem(ada.post(path, {})) == (404, "not-found")

    def test_a_token_that_may_not_organise_sees_what_others_see(
        self, host: Host, database: Database
    ) -> None:
        contest = host.tournament()
        reader = organiser(host, database, "games:read")
        expect(host.act(contest, "freeze"))

        path = contest["links"]["self"]
        assert "role" not in expect(reader.get(path))
        assert problem(reader.get(f"{path}/standings?view=live")) == (403, "role-missing")
        assert "created" not in {one["kind"] for one in happened(reader, contest)}
        assert problem(reader.get(host.draft()["links"]["self"])) == (404, "not-found")

    def test_what_a_freeze_kept_back_is_told_afterwards(self, host: Host, ada: Person) -> None:
        contest = host.tournament()
        enter(ada, contest)
        expect(host.act(contest, "freeze"))
        finish(ada, contest)
        entry = expect(ada.get(contest["links"]["self"]))["own_entry"]
        ruling = {"kind": "disqualify", "entry": entry, "reason": "two hands at once"}
        expect(host.act(contest, "rulings", ruling), 201)
        assert {one["kind"] for one in happened(ada, contest)} == {"published", "joined", "frozen"}

        expect(host.act(contest, "unfreeze"))

        kinds = [one["kind"] for one in happened(ada, contest)]
        assert kinds == ["published", "joined", "frozen", "result", "ruling", "unfrozen"]

    def test_entry_that_has_closed_is_not_told_to_be_open(self, host: Host) -> None:
        closes = host.plan((60, 600, 1), entry={"closes_at": rfc(host.store.now())})
        closes["entry"]["opens_at"] = rfc(host.store.now() - timedelta(hours=1))
        contest = expect(host.post("/v1/tournaments", closes), 201)
        host.elapse(contest, 1)

        assert expect(host.act(contest, "publish"))["state"] == "upcoming"

    def test_who_waited_for_the_lock_is_judged_by_the_instant_at_which_they_had_it(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        """A round that ended meanwhile, whose seeds may be known, is not opened again."""
        contest = host.tournament((-10, 2, 1))
        enter(ada, contest)
        path, plan = contest["links"]["self"], host.plan((0, 600, 1))["rounds"]
        plan[0]["starts_at"] = contest["rounds"][0]["starts_at"]
        tag = host.get(path).headers["ETag"]
        with ThreadPoolExecutor(1) as pool:
            engine = database.engine.execution_options(isolation_level="READ COMMITTED")
            with engine.begin() as other:
                query = text("SELECT id FROM tournaments WHERE id = :id FOR UPDATE")
                other.execute(query, {"id": contest["id"]})
                body, match = {"rounds": plan}, {"If-Match": tag}
                late = pool.submit(lambda: host.ask("PATCH", path, body, headers=match))
                other.execute(text("SELECT pg_sleep(2.5)"))
            refused = late.result()

        assert problem(refused) == (409, "wrong-state")

    def test_a_deadline_that_has_passed_does_not_move(self, host: Host, ada: Person) -> None:
        contest = host.tournament((0, 600, 1), limit_ms=60_000)
        enter(ada, contest)
        game = start(ada, contest)
        host.elapse(contest, 61)
        before = ada.read(game)["header"]["tournament"]["deadline"]
        plan = host.plan((0, 900, 1))["rounds"]
        plan[0]["starts_at"] = expect(host.get(contest["links"]["self"]))["rounds"][0]["starts_at"]

        expect(host.edit(contest, rounds=plan))

        assert ada.read(game)["header"]["tournament"]["deadline"] == before

    @pytest.mark.parametrize("frozen", [False, True])
    def test_s_61_a_page_that_is_read_beside_a_freeze_is_of_one_side_of_it(
        self,
        host: Host,
        ada: Person,
        client: Client,
        monkeypatch: pytest.MonkeyPatch,
        *,
        frozen: bool,
    ) -> None:
        """S-61: neither results of after it marked live, nor an empty board."""
        contest = host.tournament(attempts=2)
        enter(ada, contest)
        if frozen:
            expect(host.act(contest, "freeze"))
        path = contest["links"]["standings"]
        see = pages._see
        done: list[bool] = []

        def between(*args: Any, **options: Any) -> Any:
            found = see(*args, **options)
            if not done:
                done.append(True)
                expect(host.act(contest, "unfreeze" if frozen else "freeze"))
                finish(ada, contest)
            return found

        monkeypatch.setattr(pages, "_see", between)

        told = expect(client.get(path))

        assert told["view"] == ("live" if frozen else "frozen")
        assert [row["total"]["deals"] for row in told["rows"]] == [int(frozen)]

    def test_who_finds_a_tournament_being_settled_waits_without_a_connection(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        contest = host.tournament((0, 60, 1))
        enter(ada, contest)
        start(ada, contest)
        host.elapse(contest, 70)
        engine = database.engine.execution_options(isolation_level="READ COMMITTED")
        used = database.in_use()
        with ThreadPoolExecutor(1) as pool:
            with engine.begin() as other:
                query = text("SELECT id FROM tournaments WHERE id = :id FOR UPDATE")
                other.execute(query, {"id": contest["id"]})
                reading = pool.submit(standings, ada, contest)
                seen = []
                for _ in range(40):
                    time.sleep(0.01)
                    seen.append(database.in_use() - used - 1)
            (row,) = reading.result()

        assert min(seen) == 0
        assert sum(seen) <= len(seen) // 2
        assert row["total"]["deals"] == 1
