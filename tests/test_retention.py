"""What goes when nobody needs it any more, and how many games a player may have in play."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from client import Client, Contract, Json, Person, expect, problem
from flask import Flask
from hall import organiser
from server import new_database, rendezvous
from sqlalchemy import Connection, text
from test_accounts import listed, mint
from test_players import own_token

from service import retention
from service.app import create_app
from service.engine import verify
from service.retention import Tidied, tidy
from service.settings import Settings
from service.store import schema
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

NOTHING = Tidied(0, 0, 0, 0, 0, 0)


@contextmanager
def service(postgres: EmbeddedPostgres, **settings: Any) -> Iterator[tuple[Client, Database, str]]:
    """Give a client of a service on a database of its own."""
    with new_database(postgres) as url:
        database = Database(url)
        schema.upgrade(database.engine)
        app = create_app(Settings(rate_limits="off", **settings), database)
        yield Client(app, Contract(app)), database, url
        database.dispose()


def change(database: Database, query: str, **values: Any) -> list[Any]:
    return list(
        database.run(lambda connection: connection.execute(text(query), values).scalars().all())
    )


def aged(person: Person, database: Database, *, days: float, used: float) -> Person:
    """Return a player who registered so many days ago and used their token so many days later."""
    change(
        database,
        "UPDATE players SET created_at = now() - :days WHERE id = :id RETURNING id",
        days=timedelta(days=days),
        id=person.id,
    )
    change(
        database,
        "UPDATE tokens SET last_used_at = now() - :ago WHERE player_id = :id RETURNING id",
        ago=timedelta(days=days - used),
        id=person.id,
    )
    return person


def known(database: Database) -> dict[str, bool]:
    """Return the ids of players whose rows there are, and whether they have a name."""
    query = "SELECT id || '=' || name FROM players"
    found = (one.partition("=") for one in change(database, query))
    return {player: bool(name) for player, _, name in found}


class TestPlayersThatNeverCameBack:
    @pytest.mark.parametrize(
        ("days", "used", "goes"),
        [
            (366, 0, True),
            (366, 0.9, True),
            (3660, 0, True),
            (366, 1.1, False),
            (366, 365, False),
            (364, 0, False),
            (0, 0, False),
        ],
    )
    def test_they_are_old_and_used_no_token_after_their_first_day(
        self, postgres: EmbeddedPostgres, days: float, used: float, *, goes: bool
    ) -> None:
        with service(postgres) as (client, database, _):
            ada = client.register("Ada")
            ada.create("royal")
            aged(ada, database, days=days, used=used)

            found = tidy(database, 365)

            assert found == (Tidied(1, 1, 0, 0, 0, 0) if goes else NOTHING)
            assert ada.get("/v1/players/me").status_code == (401 if goes else 200)
            assert known(database) == {ada.id: not goes}
            assert tidy(database, 365) == NOTHING

    def test_any_token_that_was_used_later_keeps_them(self, postgres: EmbeddedPostgres) -> None:
        with service(postgres) as (client, database, _):
            ada = client.register("Ada")
            made = expect(ada.post("/v1/tokens", {"scopes": ["games:read"]}), 201)
            aged(ada, database, days=400, used=0)
            other = replace(ada, token=made["token"])
            change(
                database,
                "UPDATE tokens SET last_used_at = NULL WHERE minted_by IS NOT NULL RETURNING id",
            )
            assert tidy(database, 365, dry=True).players == 1

            assert other.get("/v1/players/me").status_code == 200

            assert tidy(database, 365) == NOTHING

    def test_games_that_ended_stay_and_verify_and_those_in_play_go(
        self, postgres: EmbeddedPostgres
    ) -> None:
        with service(postgres) as (client, database, _):
            ada, bea = client.register("Ada"), client.register("Bea")
            ended = expect(ada.act(ada.create("royal"), "resign"))
            in_play, hers = ada.create("royal"), bea.create("royal")
            before = ada.replay(ended)
            aged(ada, database, days=400, used=0)

            assert tidy(database, 365) == Tidied(1, 1, 0, 0, 0, 0)

            after = expect(client.get(f"/v1/games/{ended['id']}/replay"))
            assert after == before
            assert verify(after).verdict == "valid"
            assert change(database, "SELECT id::text FROM games ORDER BY id") == [
                ended["id"],
                hers["id"],
            ]
            assert in_play["id"] not in str(after)
            assert known(database) == {ada.id: False, bea.id: True}

    def test_with_0_days_they_are_kept(self, postgres: EmbeddedPostgres) -> None:
        with service(postgres) as (client, database, _):
            aged(client.register("Ada"), database, days=4000, used=0)

            assert tidy(database, 0) == NOTHING

    def test_more_than_a_batch_of_them_go(
        self, postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retention, "_BATCH", 2)
        with service(postgres) as (client, database, _):
            for number in range(5):
                person = aged(client.register(f"P{number}"), database, days=400, used=0)
                person.create("royal")
                aged(person, database, days=400, used=0)
            kept = client.register("Kept")

            assert tidy(database, 365) == Tidied(5, 5, 0, 0, 0, 0)
            assert [one for one, named in known(database).items() if named] == [kept.id]


class TestLeftovers:
    def test_the_row_of_a_deleted_player_goes_a_day_later_if_nothing_of_theirs_is_left(
        self, postgres: EmbeddedPostgres
    ) -> None:
        with service(postgres) as (client, database, _):
            ada, bea, cy = (client.register(name) for name in ("Ada", "Bea", "Cy"))
            expect(bea.act(bea.create("royal"), "resign"))
            for person in (ada, bea):
                assert person.ask("DELETE", "/v1/players/me").status_code == 204
            assert tidy(database, 365) == NOTHING
            change(
                database,
                "UPDATE players SET deleted_at = deleted_at - interval '25 hours' "
                "WHERE deleted_at IS NOT NULL RETURNING id",
            )

            assert tidy(database, 365) == Tidied(0, 0, 1, 0, 0, 0)

            assert known(database) == {bea.id: False, cy.id: True}

    def test_what_was_added_while_a_player_was_deleted_goes_too(
        self, postgres: EmbeddedPostgres
    ) -> None:
        with service(postgres) as (client, database, _):
            ada, bea = client.register("Ada"), client.register("Bea")
            expect(bea.act(bea.create("royal"), "resign"))
            stray = [person.create("royal")["id"] for person in (ada, bea)]
            ada.post("/v1/games", {}, headers={"Idempotency-Key": "stray"})
            change(
                database,
                "UPDATE players SET name = '', deleted_at = now() - interval '25 hours' "
                "RETURNING id",
            )

            assert tidy(database, 365).games == 3

            assert not set(stray) & set(change(database, "SELECT id::text FROM games"))
            assert known(database) == {bea.id: False}

    def test_keys_go_after_a_day(self, postgres: EmbeddedPostgres) -> None:
        with service(postgres) as (client, database, _):
            ada = client.register("Ada")
            for key in ("old", "young"):
                ada.post("/v1/games", {}, headers={"Idempotency-Key": key})
            change(
                database,
                "UPDATE idempotency_keys SET created_at = created_at - interval '24 hours' "
                "WHERE key = 'old' RETURNING key",
            )

            assert tidy(database, 365) == Tidied(0, 0, 0, 1, 0, 0)

            assert change(database, "SELECT key FROM idempotency_keys") == ["young"]

    def test_they_go_some_at_a_time_and_what_is_in_use_is_left(
        self, postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retention, "_BATCH", 2)
        with service(postgres) as (client, database, _):
            ada = client.register("Ada")
            expect(ada.act(ada.create("royal"), "resign"))
            for number in range(5):
                ada.post("/v1/games", {}, headers={"Idempotency-Key": str(number)})
            change(
                database,
                "UPDATE idempotency_keys SET created_at = created_at - interval '25 hours' "
                "RETURNING key",
            )
            change(
                database, "UPDATE players SET deleted_at = now() - interval '25 hours' RETURNING 1"
            )
            most: list[int] = []
            run = database.run

            def noted(act: Callable[[Connection], Any], **options: Any) -> Any:
                found = run(act, **options)
                if isinstance(found, int):
                    most.append(found)
                return found

            monkeypatch.setattr(database, "run", noted)
            with database.engine.connect() as other:
                other.execution_options(isolation_level="READ COMMITTED")
                with other.begin():
                    held = "SELECT key FROM idempotency_keys WHERE key = '3' FOR UPDATE"
                    other.execute(text(held))
                    assert tidy(database, 365) == Tidied(0, 5, 0, 5, 0, 0)

            assert max(most) == 2
            assert change(database, "SELECT key FROM idempotency_keys") == ["3"]
            assert change(database, "SELECT status FROM games") == ["resigned"]


class TestTokens:
    @pytest.mark.parametrize("way", ["revoked_at", "expires_at"])
    def test_they_go_30_days_after_they_were_good(
        self, postgres: EmbeddedPostgres, way: str
    ) -> None:
        with service(postgres) as (client, database, _):
            ada = client.register("Ada")
            made = [mint(ada, "games:read") for _ in range(3)]
            old, young, _ = (own_token(one) for one in made)
            since(database, old, way, 30.1)
            since(database, young, way, 29.9)

            assert tidy(database, 365, dry=True) == tidy(database, 365) == Tidied(0, 0, 0, 0, 1, 0)

            assert {own_token(ada), young, own_token(made[2])} == set(listed(ada))
            assert tidy(database, 365) == NOTHING

    def test_what_stands_between_two_that_are_listed_stays(
        self, postgres: EmbeddedPostgres
    ) -> None:
        with service(postgres) as (client, database, _):
            ada = client.register("Ada")
            one = mint(ada, "games:read")
            two = mint(one, "games:read")
            three = mint(two, "games:read")
            four = mint(three, "games:read")
            first, second, third, fourth = map(own_token, (one, two, three, four))
            last = own_token(mint(ada, "games:read"))
            since(database, second, "revoked_at", 40)
            since(database, fourth, "revoked_at", 40)

            assert tidy(database, 365) == Tidied(0, 0, 0, 0, 1, 0)

            assert set(listed(ada)) == {own_token(ada), first, second, third, last}
            assert ada.ask("DELETE", f"/v1/tokens/{first}?minted=true").status_code == 204
            assert problem(three.get("/v1/players/me")) == (401, "token-invalid")
            for token in (first, third):
                since(database, token, "revoked_at", 40)
            assert tidy(database, 365, dry=True) == tidy(database, 365) == Tidied(0, 0, 0, 0, 3, 0)
            assert set(listed(ada)) == {own_token(ada), last}

    def test_that_which_was_used_last_stays_for_it_tells_that_its_player_came_back(
        self, postgres: EmbeddedPostgres
    ) -> None:
        with service(postgres) as (client, database, _):
            ada = client.register("Ada")
            aged(ada, database, days=400, used=100)
            kept, unused = own_token(ada), own_token(mint(ada, "games:read"))
            aged(ada, database, days=400, used=100)
            change(
                database,
                "UPDATE tokens SET last_used_at = NULL WHERE id = :id RETURNING id",
                id=unused,
            )
            for token in (kept, unused):
                since(database, token, "revoked_at", 40)

            assert tidy(database, 365) == Tidied(0, 0, 0, 0, 1, 0)

            assert change(database, "SELECT id::text FROM tokens") == [kept]
            assert tidy(database, 365) == NOTHING
            assert known(database) == {ada.id: True}

    def test_those_of_players_that_go_are_not_counted_beside_them(
        self, postgres: EmbeddedPostgres
    ) -> None:
        with service(postgres) as (client, database, _):
            ada = client.register("Ada")
            since(database, own_token(mint(ada, "games:read")), "revoked_at", 40)
            aged(ada, database, days=400, used=0)

            assert tidy(database, 365, dry=True) == tidy(database, 365) == Tidied(1, 0, 0, 0, 0, 0)

            assert change(database, "SELECT id FROM tokens") == []


def since(database: Database, token: str, way: str, days: float) -> None:
    """Have a token be good no more for so many days."""
    query = f"UPDATE tokens SET {way} = now() - :ago WHERE id = :id RETURNING id"  # noqa: S608
    assert change(database, query, ago=timedelta(days=days), id=token)


def test_what_was_posted_to_webhooks_goes_after_30_days(postgres: EmbeddedPostgres) -> None:
    with service(postgres) as (client, database, _):
        host = organiser(client.register("Grace"), database)
        body = {"url": "https://hooks.example/"}
        webhook = expect(host.act(host.tournament(), "webhooks", body), 201)["webhook"]
        for days in (29, 31, 31):
            change(
                database,
                "INSERT INTO webhook_deliveries SELECT tournament_id, id, gen_random_uuid(), "
                ":days, 1, now() - :ago, 200, NULL FROM webhooks RETURNING id",
                days=days,
                ago=timedelta(days=days),
            )

        assert tidy(database, 365, dry=True) == tidy(database, 365) == Tidied(0, 0, 0, 0, 0, 2)

        left = expect(host.get(webhook["links"]["deliveries"]))["deliveries"]
        assert [one["number"] for one in left] == [29]
        assert expect(host.get(f"{webhook['links']['self'].rpartition('/')[0]}"))["webhooks"]


class TestCommand:
    def test_a_dry_run_tells_what_would_go_and_changes_nothing(
        self, postgres: EmbeddedPostgres
    ) -> None:
        with service(postgres) as (client, database, url):
            ada = client.register("Ada")
            ada.create("royal")
            aged(ada, database, days=40, used=0)
            settings = {"DATABASE_URL": url, "RETENTION_DAYS": "30"}

            dry = rendezvous("tidy", "--dry-run", **settings)
            assert known(database) == {ada.id: True}
            kept = rendezvous("tidy", DATABASE_URL=url)
            assert known(database) == {ada.id: True}
            done = rendezvous("tidy", **settings)
            assert known(database) == {ada.id: False}

        assert dry.returncode == kept.returncode == done.returncode == 0
        assert dry.stdout.splitlines() == [
            "1 players that never came back would go",
            "1 games in play, of those and of players deleted before would go",
            "0 rows of players deleted before, of whom nothing is left would go",
            "0 idempotency keys older than a day would go",
            "0 tokens revoked or expired more than 30 days ago would go",
            "0 attempts to post to webhooks made more than 30 days ago would go",
        ]
        assert done.stdout == dry.stdout.replace("would go", "deleted")
        assert kept.stdout.startswith("0 players that never came back deleted\n0 games")

    def test_an_older_schema_is_refused(self, postgres: EmbeddedPostgres) -> None:
        with new_database(postgres) as url:
            refused = rendezvous("tidy", DATABASE_URL=url)

        assert refused.returncode == 1
        assert "rendezvous migrate" in refused.stderr


@pytest.fixture
def capped(database: Database) -> Flask:
    """A service at which a player may have three games in play."""
    return create_app(Settings(rate_limits="off", games_in_play=3), database)


class TestGamesInPlay:
    def test_beyond_the_most_there_is_a_refusal_until_one_ends(
        self, ada: Person, bea: Person, capped: Flask
    ) -> None:
        ada, bea = replace(ada, app=capped), replace(bea, app=capped)
        games = [ada.create("royal"), ada.create(None), ada.create("royal")]

        refused = [problem(ada.post("/v1/games", body)) for body in ({}, {"deal": {"seed": "x"}})]

        assert refused == [(409, "too-many-games")] * 2
        assert len(expect(ada.get("/v1/games"))["games"]) == 3
        assert bea.create("royal")["ply"] == 0
        assert ada.move(games[0], games[0]["legal_moves"][0])["ply"] == 1
        ada.act(games[2], "resign")
        assert ada.create("royal")["ply"] == 0
        assert problem(ada.post("/v1/games", {})) == (409, "too-many-games")

    def test_games_that_ended_do_not_count(self, ada: Person, capped: Flask) -> None:
        ada = replace(ada, app=capped)

        for _ in range(6):
            expect(ada.act(ada.create("royal"), "resign"))

        assert ada.create("royal")["ply"] == 0

    def test_what_was_made_is_given_again_though_there_is_no_room_for_more(
        self, ada: Person, capped: Flask
    ) -> None:
        ada = replace(ada, app=capped)
        headers = {"Idempotency-Key": "one"}
        first = expect(ada.post("/v1/games", {}, headers=headers), 201)
        ada.create("royal")
        ada.create("royal")

        assert expect(ada.post("/v1/games", {}, headers=headers), 201) == first

    def test_a_key_that_was_refused_for_want_of_room_is_good_once_there_is(
        self, ada: Person, capped: Flask
    ) -> None:
        ada = replace(ada, app=capped)
        games = [ada.create("royal") for _ in range(3)]
        headers = {"Idempotency-Key": "one"}
        assert problem(ada.post("/v1/games", {}, headers=headers)) == (409, "too-many-games")

        ada.act(games[0], "resign")

        assert ada.post("/v1/games", {}, headers=headers).status_code == 201

    def test_the_most_is_told_where_there_is_one(
        self, client: Client, capped: Flask, database: Database
    ) -> None:
        unlimited = create_app(Settings(rate_limits="off", games_in_play=0), database)

        def told(app: Flask) -> Json:
            limits: Json = expect(replace(client, app=app).get("/v1"))["limits"]
            return limits

        assert told(capped)["games_in_play"] == 3
        assert told(client.app)["games_in_play"] == 1000
        assert "games_in_play" not in told(unlimited)

    def test_with_0_there_may_be_any_number(self, ada: Person, database: Database) -> None:
        ada = replace(ada, app=create_app(Settings(rate_limits="off", games_in_play=0), database))

        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(ada.create, map(str, range(30))))

        assert len({game["id"] for game in made}) == 30
