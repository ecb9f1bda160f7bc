"""A tournament's live events: what each viewer is told, in order, whatever happens meanwhile."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import UUID

import orjson
import psycopg
import pytest
from client import Client, Contract, Json, Person, expect, problem, published, published_schema
from documents import SIGNING_KEYS
from flask import Flask
from hall import Host, enter, finish, happened, organiser, start
from server import Event, Stream, Streams, libpq, own_postgres, streaming
from sqlalchemy import text

from service import tokens
from service.app import create_app
from service.settings import Settings
from service.signatures import SigningKeys
from service.store.database import Database, Statement
from service.store.embedded import EmbeddedPostgres
from service.stream import LOOK_EVERY, Hub, Onlooker
from service.tournaments.feed import Mark
from service.tournaments.model import HOLD, tell
from service.tournaments.model import Event as Happening


@pytest.fixture(scope="module")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One of which rows are changed behind the service's back."""
    with own_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def database(postgres: EmbeddedPostgres) -> Iterator[Database]:
    found = Database(postgres.url)
    yield found
    found.dispose()


@pytest.fixture(scope="module")
def streams(postgres: EmbeddedPostgres) -> Iterator[Streams]:
    """The process that streams."""
    with streaming(postgres.url, STREAMS_PER_TOKEN="3") as found:  # noqa: S106
        yield found


@pytest.fixture(scope="module")
def app(streams: Streams, database: Database) -> Flask:
    """The service, which knows where events are."""
    settings = Settings(rate_limits="off", stream_url=streams.url)
    return create_app(settings, database, SigningKeys.load(SIGNING_KEYS))


@pytest.fixture(scope="module")
def contract(app: Flask) -> Contract:
    return Contract(app)


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    return organiser(client.register("Grace"), database)


def watch(person: Client, tournament: Json, seen: str = "") -> Stream:
    """Return a tournament's live events, from a point on."""
    sent = {"Authorization": f"Bearer {person.token}"} if person.token else {}
    if seen:
        sent["Last_Event_ID"] = seen
    return Stream(tournament["links"]["events"], **sent)


def change(database: Database, query: str, **values: Any) -> None:
    """Change rows behind the service's back."""
    database.run(lambda one: one.execute(text(query), values))


def add(database: Database, tournament: Json, count: int, *, public: bool) -> None:
    """Have something happen so many times."""
    one, now = UUID(tournament["id"]), database.now()

    def act(connection: Any) -> None:
        HOLD.on(connection, tournament=one)
        told = [Happening("edited", public=public, data={"n": n}) for n in range(count)]
        tell(connection, one, now.replace(microsecond=0), *told)

    database.run(act, transaction=True)


def acts(events: list[Event]) -> list[Json]:
    """Return what acts tell."""
    return [one.value for one in events if one.name == "act"]


class TestEvents:
    def test_first_the_tournament_then_what_happens_then_the_end(
        self, host: Host, ada: Person
    ) -> None:
        tournament = host.tournament()
        with watch(ada, tournament) as watching:
            first = watching.event()
            kept = expect(ada.get(tournament["links"]["self"]))
            enter(ada, tournament)
            finish(ada, tournament, plies=2)
            host.act(tournament, "cancel", {"reason": "rain"})
            heard = watching.rest()
        listed = happened(ada, tournament)

        assert (first.name, first.value) == ("tournament", kept)
        assert first.id.partition("-")[0] == "2"
        assert acts(heard) == listed[1:]
        assert [one["kind"] for one in listed] == ["published", "joined", "result", "cancelled"]
        assert heard[-1].name == "end"
        assert heard[-1].value == {"id": tournament["id"], "state": "cancelled"}
        assert heard[-1].id == heard[-2].id
        published_schema("Tournament").validate(first.value)
        for one in acts(heard):
            published_schema("Happening").validate(one)

    def test_s_93_numbers_and_instants_never_fall(self, host: Host, ada: Person) -> None:
        tournament = host.tournament()
        with watch(host, tournament, "0") as watching:
            enter(ada, tournament)
            finish(ada, tournament)
            finish(ada, tournament, deal=2)
            host.act(tournament, "cancel", {"reason": "rain"})
            heard = acts(watching.rest())

        numbers = [one["number"] for one in heard]
        assert numbers == list(range(1, len(numbers) + 1))
        assert [one["at"] for one in heard] == sorted(one["at"] for one in heard)

    def test_from_any_event_on_one_is_told_the_rest(self, host: Host, ada: Person) -> None:
        tournament = host.tournament()
        enter(ada, tournament)
        finish(ada, tournament, plies=1)
        host.act(tournament, "freeze")
        finish(ada, tournament, deal=2)
        host.act(tournament, "cancel", {"reason": "rain"})
        with watch(host, tournament, "0") as all_of_it:
            whole = all_of_it.rest()
        for person in (host, ada):
            listed = happened(person, tournament)
            for event in whole:
                for seen in (event.id, event.id.partition("-")[0]):
                    with watch(person, tournament, seen) as resumed:
                        heard = resumed.rest()
                    number = event.value.get("number", whole[-2].value["number"])
                    assert acts(heard) == [one for one in listed if one["number"] > number]
                    assert [one.name for one in heard][-1] == "end"
                    assert "tournament" not in {one.name for one in heard}

    def test_what_is_the_hosts_alone_nobody_else_is_told(
        self, host: Host, ada: Person, client: Client
    ) -> None:
        tournament = host.tournament()
        enter(ada, tournament)
        with (
            watch(host, tournament) as hosts,
            watch(ada, tournament) as player,
            watch(client, tournament) as anybody,
        ):
            for one in (hosts, player, anybody):
                one.event()
            host.act(tournament, "freeze")
            finish(ada, tournament)
            seen = [hosts.event(), hosts.event()]
            # One look serves all: the others have passed the result by.
            host.act(tournament, "unfreeze")
            host.act(tournament, "cancel", {"reason": "rain"})
            rest = [acts(one.rest()) for one in (hosts, player, anybody)]
            heard = [[*acts(seen), *rest[0]], *rest[1:]]

        assert [one["kind"] for one in heard[0]] == ["frozen", "result", "unfrozen", "cancelled"]
        assert [one["kind"] for one in heard[1]] == ["frozen", "unfrozen", "cancelled"]
        assert heard[1] == heard[2]
        assert all("by" in one for one in heard[0] if one["kind"] != "result")
        assert not any("by" in one or "public" in one for one in heard[1])

    def test_what_was_kept_back_is_told_to_whoever_goes_on_from_before_it(
        self, host: Host, ada: Person, client: Client
    ) -> None:
        """Also by a process that has passed it by for others."""
        tournament = host.tournament()
        enter(ada, tournament)
        with watch(ada, tournament) as player, watch(host, tournament) as hosts:
            for one in (player, hosts):
                one.event()
            host.act(tournament, "freeze")
            finish(ada, tournament)
            frozen = player.event()
            kinds = [hosts.event().value["kind"] for _ in range(2)]
            host.act(tournament, "unfreeze")
            told = player.event()
            with watch(client, tournament, frozen.id) as late:
                later = [late.event().value for _ in range(2)]

        assert kinds == ["frozen", "result"]
        assert told.value["kind"] == "unfrozen"
        assert [one["kind"] for one in later] == ["result", "unfrozen"]
        assert later == happened(client, tournament)[-2:]

    def test_a_seed_is_told_by_none_before_its_round_is_revealed(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        tournament = host.tournament()
        query = text("SELECT seed FROM tournament_deals WHERE tournament_id = :id")
        found = database.run(lambda one: one.execute(query, {"id": tournament["id"]}).scalars())
        seeds = list(found)
        with watch(host, tournament) as watching:
            watching.event()
            enter(ada, tournament)
            start(ada, tournament)
            game = finish(ada, tournament)
            host.act(tournament, "cancel", {"reason": "rain"})
            watching.rest()

        assert game["status"] == "resigned"
        assert len(seeds) == 2
        assert not any(seed in "".join(watching.fields) for seed in seeds)

    def test_a_long_history_is_told_in_pieces_and_whole(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        tournament = host.tournament()
        add(database, tournament, 1100, public=False)
        add(database, tournament, 1100, public=True)
        with watch(host, tournament, "1") as hosts, watch(ada, tournament, "1") as player:
            time.sleep(2 * LOOK_EVERY)
            add(database, tournament, 1100, public=True)
            host.act(tournament, "cancel", {"reason": "rain"})
            heard = acts(hosts.rest()), acts(player.rest())

        assert [one["number"] for one in heard[0]] == list(range(2, 3304))
        assert [one["number"] for one in heard[1]] == [2, *range(1103, 3304)]

    def test_many_who_watch_are_told_alike(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        tournament = host.tournament()
        people = [ada, bea, client, client]
        watching = [watch(one, tournament) for one in people]
        for one in watching:
            one.event()
        enter(ada, tournament)
        finish(ada, tournament)
        host.act(tournament, "cancel", {"reason": "rain"})
        heard = [one.rest() for one in watching]
        for one in watching:
            one.__exit__()

        assert len(heard[0]) == 4
        assert all(one == heard[0] for one in heard)

    def test_what_is_due_is_written_before_the_first_event(self, host: Host, ada: Person) -> None:
        tournament = host.tournament((0, 600, 1), (700, 900, 1, {"by": "top", "value": 1}))
        enter(ada, tournament)
        start(ada, tournament)
        host.elapse(tournament, 620)
        with watch(ada, tournament) as watching:
            first = watching.event()

        assert first.id.partition("-")[0] == "5"
        assert [one["kind"] for one in happened(ada, tournament)][-2:] == ["result", "cut"]


def test_s_37_what_is_not_committed_is_not_announced(
    host: Host, ada: Person, postgres: EmbeddedPostgres
) -> None:
    """S-37: an act that is rolled back leaves neither an event nor a gap."""
    tournament = host.tournament()
    with watch(ada, tournament) as watching, psycopg.connect(libpq(postgres.url)) as writer:
        watching.event()
        writer.execute(
            "UPDATE tournaments SET events = events + 1 WHERE id = %s", [tournament["id"]]
        )
        writer.execute(
            "INSERT INTO tournament_events SELECT tournament_id, number + 1, at, 'lie', true,"
            " NULL, NULL, NULL, '{}' FROM tournament_events WHERE tournament_id = %s"
            " ORDER BY number DESC LIMIT 1",
            [tournament["id"]],
        )
        time.sleep(3 * LOOK_EVERY)
        writer.rollback()
        enter(ada, tournament)
        heard = watching.event()

    assert (heard.value["number"], heard.value["kind"]) == (3, "joined")


class TestRestored:
    """What a client was told may be no longer so when a database comes back from a backup."""

    def test_s_89_a_point_that_there_never_was_gives_the_tournament_anew(
        self, host: Host, ada: Person
    ) -> None:
        tournament = host.tournament()
        for seen in ("3", "2-1", "999999999-1", "3-1769865337440"):
            with watch(ada, tournament, seen) as resumed:
                first = resumed.event()
            assert (first.name, first.id.partition("-")[0]) == ("tournament", "2")
            assert first.value == expect(ada.get(tournament["links"]["self"]))

    @pytest.mark.parametrize("since", [0, 2])
    def test_s_89_one_that_goes_back_while_it_is_watched_is_told_anew(
        self, host: Host, ada: Person, database: Database, since: int
    ) -> None:
        """S-89: to fewer events; and to fewer from which it went on otherwise before a look."""
        tournament = host.tournament()
        enter(ada, tournament)
        with watch(ada, tournament) as watching:
            first = watching.event()
            database.run(
                partial(_go_back, tournament=tournament["id"], since=since), transaction=True
            )
            heard = watching.event()
            host.act(tournament, "cancel", {"reason": "rain"})
            rest = watching.rest()

        assert first.id.partition("-")[0] == "3"
        assert (heard.name, heard.id.partition("-")[0]) == ("tournament", str(2 + since))
        assert [one["kind"] for one in acts(rest)] == ["cancelled"]


def _go_back(connection: Any, tournament: str, since: int) -> None:
    given = {"id": tournament, "since": since}
    connection.execute(
        text("DELETE FROM tournament_events WHERE tournament_id = :id AND number = 3"), given
    )
    connection.execute(
        text(
            "INSERT INTO tournament_events SELECT tournament_id, number + n,"
            " at + interval '1 hour', 'other', true, NULL, NULL, NULL, '{}'"
            " FROM tournament_events, generate_series(1, :since) AS n"
            " WHERE tournament_id = :id AND number = 2"
        ),
        given,
    )
    connection.execute(
        text(
            "UPDATE tournaments SET events = 2 + :since, told_at = (SELECT max(at)"
            " FROM tournament_events WHERE tournament_id = :id) WHERE id = :id"
        ),
        given,
    )


class TestWho:
    def test_a_token_that_is_revoked_ends_its_streams_and_no_others(
        self, host: Host, ada: Person, bea: Person
    ) -> None:
        tournament = host.tournament()
        with watch(ada, tournament) as mine, watch(bea, tournament) as theirs:
            mine.event()
            theirs.event()
            assert bea.ask("DELETE", "/v1/tokens").status_code == 204
            rest = theirs.rest()
            enter(ada, tournament)
            heard = mine.event()

        assert rest == []
        assert heard.value["kind"] == "joined"

    def test_who_hosts_no_longer_is_told_no_more_as_a_host(
        self, host: Host, ada: Person, database: Database
    ) -> None:
        tournament = host.tournament()
        change(
            database,
            "INSERT INTO tournament_roles VALUES (:id, :player, 'viewer', now())",
            id=tournament["id"],
            player=ada.id,
        )
        with watch(organiser(ada, database), tournament) as watching:
            first = watching.event()
            change(database, "DELETE FROM tournament_roles WHERE player_id = :one", one=ada.id)
            rest = watching.rest()
        with watch(ada, tournament, first.id) as again:
            enter(ada, tournament)
            heard = again.event()

        assert first.value["role"] == "viewer"
        assert rest == []
        assert "public" not in heard.value

    def test_one_that_becomes_private_ends_for_who_has_no_part_in_it(
        self, host: Host, ada: Person, bea: Person, client: Client
    ) -> None:
        tournament = host.tournament()
        enter(ada, tournament)
        with (
            watch(ada, tournament) as player,
            watch(bea, tournament) as stranger,
            watch(client, tournament) as anybody,
        ):
            for one in (player, stranger, anybody):
                one.event()
            expect(host.edit(tournament, visibility="private"))
            rest = stranger.rest(), anybody.rest()
            heard = player.event()

        assert all(acts(one) in ([], [heard.value]) for one in rest)
        assert "end" not in {event.name for one in rest for event in one}
        assert heard.value["kind"] == "edited"
        assert refused(watch(bea, tournament)) == (404, "not-found")

    def test_a_draft_is_its_hosts_alone(self, host: Host, ada: Person, client: Client) -> None:
        draft = host.draft()
        with watch(host, draft) as watching:
            first = watching.event()
            expect(host.act(draft, "publish"))
            heard = watching.event()

        assert first.value["state"] == "draft"
        assert heard.value["kind"] == "published"
        other = host.draft()
        for stranger in (ada, client):
            assert refused(watch(stranger, other)) == (404, "not-found")


def refused(watching: Stream) -> tuple[int, str]:
    """Return how a stream is refused."""
    with watching:
        body = orjson.loads(watching.response.read())
    published_schema("Problem").validate(body)
    operation = published()["paths"]["/v1/tournaments/{tournament_id}/live"]["get"]
    assert body["code"] in operation["x-problem-codes"]
    assert body["status"] == watching.status
    return watching.status, body["code"]


class TestRefusals:
    def test_a_token_that_is_none(self, host: Host, client: Client) -> None:
        tournament = host.tournament()
        for token in ("rr_x", tokens.draw()):
            stranger = Client(client.app, client.contract, token)
            assert refused(watch(stranger, tournament)) == (401, "token-invalid")

    @pytest.mark.parametrize("seen", ["x", "-1", "1234567890", "1-", "1-a", "1-1234567890123456"])
    def test_an_id_of_an_event_that_is_none(self, host: Host, seen: str) -> None:
        assert refused(watch(host, host.tournament(), seen)) == (422, "invalid-request")

    def test_a_token_has_so_many_streams_of_games_and_tournaments_together(
        self, host: Host, ada: Person
    ) -> None:
        tournament, game = host.tournament(), ada.create()
        game["links"]["events"] = game["links"]["events"].replace("/live", "/events")
        with watch(ada, tournament), watch(ada, tournament), watch(ada, game):
            assert refused(watch(ada, tournament)) == (429, "too-many-streams")

    def test_the_servers_own_port_tells_where_they_are(self, host: Host) -> None:
        tournament = host.tournament()
        found = problem(host.get(f"{tournament['links']['self']}/live"))

        assert found == (421, "wrong-server")
        assert tournament["links"]["events"] in found.body["detail"]


def test_one_statement_asks_for_all_that_is_watched(
    host: Host, ada: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [host.tournament() for _ in range(5)]
    asked: list[str] = []
    on = Statement.on

    def noted(self: Statement, *args: Any, **given: Any) -> Any:
        asked.append(self.text)
        return on(self, *args, **given)

    async def look() -> list[int]:
        hub = Hub(Settings(), database)
        for one in many:
            for person in (host, ada, None):
                token = tokens.fingerprint(person.token or "") if person else None
                opened = hub.tournaments.open(UUID(one["id"]), token, None)
                hub.join_tournament(Onlooker(opened.watch(opened.mark)), opened)
        counts = []
        monkeypatch.setattr(Statement, "on", noted)
        for news in (False, True):
            if news:
                monkeypatch.setattr(Statement, "on", on)
                enter(ada, many[0])
                enter(ada, many[1])
                monkeypatch.setattr(Statement, "on", noted)
            asked.clear()
            await hub.tournaments.look(hub._looks)
            counts.append(len(asked))
        told = [scene.after(2, hosts=True) for scene in hub.tournaments.scenes.values()]
        assert [one is not None and b"joined" in one[0] for one in told] == [
            *(True, True),
            *(False, False, False),
        ]
        return counts

    assert asyncio.run(look()) == [1, 2]


def test_the_mark_of_an_event_is_what_its_text_says() -> None:
    for written in ("0-0", "57-1769865337440"):
        assert str(Mark.parse(written)) == written
    assert Mark.parse("12") == Mark(12, None)
