"""Codes: those by which players enter, and the one by which an entry changes hands."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from client import Client, Contract, Json, Person, expect, problem, unknown_id
from hall import Host, enter, finish, happened, organiser, standings, start, with_token
from sqlalchemy import text
from test_limits import limited, wide

from service.app import create_app
from service.engine import verify
from service.store.database import Database


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    """A player who hosts tournaments."""
    return organiser(client.register("Grace"), database)


@pytest.fixture(autouse=True)
def _seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have deals drawn that are the same each time."""
    count = iter(range(10**6))
    monkeypatch.setattr("service.api.tournaments.draw_seed", lambda: f"{next(count):064x}")


def invite(host: Person, tournament: Json, **about: Any) -> Json:
    """Return a new invite with its code."""
    return expect(host.post(f"{tournament['links']['self']}/invites", about), 201)


def try_to_enter(person: Person, tournament: Json, code: str | None) -> Any:
    """Return the answer to somebody who enters by a code."""
    body = {} if code is None else {"code": code}
    return person.post(f"{tournament['links']['self']}/entries", body)


def take_over(person: Person, tournament: Json, code: str) -> Any:
    """Return the answer to somebody who takes an entry over."""
    return person.post(f"{tournament['links']['self']}/entries/takeover", {"code": code})


def give_code(host: Person, tournament: Json, entry: str) -> Json:
    """Return a new code for an entry."""
    path = f"{tournament['links']['self']}/entries/{entry}/code"
    return expect(host.post(path, {"reason": "the phone is lost"}), 201)


class TestInvites:
    def test_a_code_lets_so_many_in_and_no_more(self, host: Host, ada: Person, bea: Person) -> None:
        contest = host.tournament(entry={"by": "code"})
        made = invite(host, contest)

        assert problem(try_to_enter(ada, contest, None)) == (403, "invite-invalid")
        enter(ada, contest, made["code"].lower())
        enter(ada, contest, made["code"])
        assert problem(try_to_enter(bea, contest, made["code"])) == (403, "invite-invalid")

        (told,) = expect(host.get(f"{contest['links']['self']}/invites"))["invites"]
        assert told == {**{k: v for k, v in made.items() if k != "code"}, "used": 1}

    def test_who_comes_back_needs_no_second_code(self, host: Host, ada: Person) -> None:
        contest = host.tournament(entry={"by": "code"})
        mine = enter(ada, contest, invite(host, contest)["code"])
        ada.ask("DELETE", f"{contest['links']['self']}/entries/me")

        assert enter(ada, contest)["id"] == mine["id"]

    def test_a_private_tournament_is_entered_by_its_code_alone(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        contest = host.tournament(visibility="private", entry={"by": "code"})
        code = invite(host, contest, uses=2)["code"]
        path = contest["links"]["self"]

        assert problem(ada.get(path)) == (404, "not-found")
        assert problem(try_to_enter(ada, contest, None)) == (404, "not-found")
        enter(ada, contest, code)
        assert expect(ada.get(path))["own_entry"]
        assert problem(bea.get(path)) == (404, "not-found")

    def test_revoked_and_expired_codes_are_good_for_nothing(self, host: Host, ada: Person) -> None:
        contest = host.tournament((0, 90_000, 1), entry={"by": "code"})
        revoked, short, good = (
            invite(host, contest),
            invite(host, contest, days=1),
            invite(host, contest, days=2),
        )
        path = f"{contest['links']['self']}/invites"

        for _ in range(2):
            assert host.ask("DELETE", f"{path}/{revoked['id']}").status_code == 204
        assert problem(host.ask("DELETE", f"{path}/{unknown_id()}")) == (404, "not-found")
        host.elapse(contest, 86_400)

        for one in (revoked, short):
            assert problem(try_to_enter(ada, contest, one["code"])) == (403, "invite-invalid")
        enter(ada, contest, good["code"])
        listed = expect(host.get(path))["invites"]
        assert [one["id"] for one in listed] == [good["id"], short["id"], revoked["id"]]
        assert "revoked_at" in listed[2]
        kinds = [one["kind"] for one in happened(host, contest)]
        assert (kinds.count("invite-made"), kinds.count("invite-revoked")) == (3, 1)
        assert not {"invite-made", "invite-revoked"} & {
            one["kind"] for one in happened(ada, contest)
        }

    def test_a_code_is_shown_once_and_kept_nowhere(self, host: Host, database: Database) -> None:
        contest = host.tournament(entry={"by": "code"})
        code = invite(host, contest)["code"]

        assert code not in str(happened(host, contest))
        assert code not in host.get(f"{contest['links']['self']}/invites").get_data(as_text=True)
        query = text("SELECT hash FROM tournament_invites WHERE tournament_id = :id")
        ids = {"id": contest["id"]}
        (kept,) = database.run(lambda one: one.execute(query, ids).scalars().all())
        assert len(kept) == 32
        assert code.encode() not in bytes(kept)

    def test_codes_are_counted_and_there_is_a_most(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("service.tournaments.invites.MAX_INVITES", 2)
        contest = host.tournament()
        path = f"{contest['links']['self']}/invites"
        first = invite(host, contest)
        invite(host, contest)

        assert problem(host.post(path, {})) == (409, "too-many-invites")
        host.ask("DELETE", f"{path}/{first['id']}")
        invite(host, contest)

    def test_s_22_of_twenty_who_enter_at_once_by_a_code_for_three_three_are_in(
        self, host: Host, client: Client
    ) -> None:
        """S-22: whoever is too late is refused, and nothing of theirs is written."""
        contest = host.tournament(entry={"by": "code"})
        code = invite(host, contest, uses=3)["code"]
        people = [client.register(f"P{n}") for n in range(20)]

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda one: try_to_enter(one, contest, code), people))

        assert sorted(one.status_code for one in answers) == [201] * 3 + [403] * 17
        assert len(standings(host, contest)) == 3
        assert expect(host.get(contest["links"]["self"]))["entry"]["entries"] == 3
        (told,) = expect(host.get(f"{contest['links']['self']}/invites"))["invites"]
        assert (told["uses"], told["used"]) == (3, 3)


class TestGuessing:
    @pytest.fixture
    def guesser(self, database: Database, ada: Person) -> Person:
        """A player at a service that lets a token try two wrong codes."""
        app = create_app(wide(rate_codes="2 per minute"), database)
        return replace(ada, app=app, contract=Contract(app))

    def test_s_52_wrong_codes_are_refused_as_such_and_counted(
        self, host: Host, guesser: Person, bea: Person
    ) -> None:
        """S-52: 403, and beyond the limit 429 for the right one as well; others are not limited."""
        contest = host.tournament(entry={"by": "code"})
        code = invite(host, contest, uses=5)["code"]
        entry = enter(bea, contest, code)["id"]

        wrong = try_to_enter(guesser, contest, "22222-22222-22222-22222")
        assert problem(wrong) == (403, "invite-invalid")
        wrong = take_over(guesser, contest, "22222-22222-22222-22222")
        assert problem(wrong) == (403, "invite-invalid")

        limited(try_to_enter(guesser, contest, code), 60)
        limited(take_over(guesser, contest, give_code(host, contest, entry)["code"]), 60)
        other = replace(guesser.register("Cy"))
        enter(other, contest, code)

    def test_right_codes_are_not_counted(self, host: Host, guesser: Person) -> None:
        for _ in range(4):
            contest = host.tournament(entry={"by": "code"})
            enter(guesser, contest, invite(host, contest)["code"])


class TestTakingOver:
    def test_an_entry_goes_on_as_another_players_with_all_its_games(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        contest = host.tournament((0, 600, 2))
        mine = enter(ada, contest)
        ended, game = finish(ada, contest, plies=3), ada.play(start(ada, contest, 2), 2)
        digests = [ada.read(one)["digest"] for one in (ended, game)]
        before = standings(host, contest)

        given = give_code(host, contest, mine["id"])
        taken = expect(take_over(bea, contest, given["code"].lower()))

        assert taken["id"] == mine["id"]
        assert [one["attempts"]["started"] for one in taken["deals"]] == [1, 1]
        assert [bea.read(one)["digest"] for one in (ended, game)] == digests
        assert bea.read(game)["header"]["player"] == ada.id
        assert problem(ada.get(f"/v1/games/{game['id']}")) == (404, "not-found")
        assert problem(ada.act(game, "resign")) == (404, "not-found")
        over = expect(bea.act(bea.play(bea.read(game), 1), "resign"))
        (row,) = standings(host, contest)
        assert row["player"] == {"id": bea.id, "name": "Bea"}
        assert row["total"]["deals"] == 2
        assert before[0]["cells"][0] == row["cells"][0]
        assert problem(ada.get(f"{contest['links']['self']}/entries/me")) == (409, "not-entered")
        host.elapse(contest, 606)
        replay = expect(client.get(f"/v1/games/{over['id']}/replay"))
        assert verify(replay).verdict == "valid"
        acts = {one["kind"]: one for one in happened(host, contest)}
        assert acts["entry-code"]["reason"] == "the phone is lost"
        assert acts["entry-code"]["by"] == host.id
        assert acts["taken-over"]["data"] == {"from": ada.id}
        assert not {"entry-code", "taken-over"} & {one["kind"] for one in happened(client, contest)}

    def test_a_code_is_good_once_for_a_day_and_until_there_is_another(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        contest = host.tournament((0, 90_000, 1))
        entry = enter(ada, contest)["id"]
        cy, di = client.register("Cy"), client.register("Di")

        old, new = (give_code(host, contest, entry)["code"] for _ in range(2))
        assert problem(take_over(bea, contest, old)) == (403, "invite-invalid")
        expect(take_over(bea, contest, new))
        assert problem(take_over(cy, contest, new)) == (403, "invite-invalid")
        late = give_code(host, contest, entry)["code"]
        host.elapse(contest, 86_400)
        assert problem(take_over(di, contest, late)) == (403, "invite-invalid")
        assert standings(host, contest)[0]["player"]["name"] == "Bea"

    def test_who_has_an_entry_takes_no_other_one_over(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        contest = host.tournament()
        entry = enter(ada, contest)["id"]
        enter(bea, contest)
        code = give_code(host, contest, entry)["code"]

        assert problem(take_over(bea, contest, code)) == (409, "already-entered")
        assert problem(take_over(ada, contest, code)) == (409, "already-entered")
        assert len(standings(host, contest)) == 2

    def test_it_is_taken_over_in_a_private_tournament_but_not_in_one_that_is_off(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        contest = host.tournament(visibility="private", entry={"by": "code"})
        entry = enter(ada, contest, invite(host, contest)["code"])["id"]
        expect(take_over(bea, contest, give_code(host, contest, entry)["code"]))
        code = give_code(host, contest, entry)["code"]
        expect(host.act(contest, "cancel", {"reason": "no"}))

        assert problem(take_over(client.register("Cy"), contest, code)) == (409, "wrong-state")
        path = f"{contest['links']['self']}/entries/{entry}/code"
        assert problem(host.post(path, {"reason": "x"})) == (409, "wrong-state")

    def test_the_one_who_lost_it_may_be_its_next_player_again(
        self, host: Host, ada: Person, bea: Person, database: Database
    ) -> None:
        contest = host.tournament()
        entry = enter(ada, contest)["id"]
        game = start(ada, contest)
        expect(take_over(bea, contest, give_code(host, contest, entry)["code"]))

        other = with_token(ada, organiser(ada, database).token or "")
        expect(take_over(other, contest, give_code(host, contest, entry)["code"]))

        assert ada.read(game)["header"]["player"] == ada.id
        assert problem(bea.get(f"/v1/games/{game['id']}")) == (404, "not-found")
        missing = f"{contest['links']['self']}/entries/{unknown_id()}/code"
        assert problem(host.post(missing, {"reason": "x"})) == (404, "not-found")
