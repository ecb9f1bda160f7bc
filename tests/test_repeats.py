"""Creating twice is creating once: keys, and what was made under them."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from client import Client, Json, Person, expect, problem
from server import await_, running
from sqlalchemy import Connection, text
from test_players import give
from werkzeug.test import TestResponse

from service import repeats
from service.repeats import Key, KeyReusedError
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

BODY: Json = {"deal": {"seed": "royal"}}


def create(person: Client, key: str, body: Json = BODY) -> TestResponse:
    return person.post("/v1/games", body, headers={"Idempotency-Key": key})


def count(database: Database, table: str, player: str) -> int:
    query = text(f"SELECT count(*) FROM {table} WHERE player_id = :player")  # noqa: S608
    found: int = database.run(
        lambda connection: connection.execute(query, {"player": player}).scalar_one()
    )
    return found


def age(database: Database, player: str, hours: float) -> None:
    """Make a player's keys older."""
    query = text("UPDATE idempotency_keys SET created_at = created_at - :by WHERE player_id = :id")
    values = {"by": timedelta(hours=hours), "id": player}
    database.run(lambda connection: connection.execute(query, values))


class TestGames:
    @pytest.mark.parametrize("seed", [{"seed": "royal"}, {}])
    def test_the_same_request_with_the_same_key_gives_the_same_game(
        self, ada: Person, database: Database, seed: Json
    ) -> None:
        answers = [create(ada, "one", {"deal": seed}) for _ in range(3)]

        first = expect(answers[0], 201)
        assert all(expect(again, 201) == first for again in answers[1:])
        assert {again.headers["Location"] for again in answers} == {f"/v1/games/{first['id']}"}
        assert count(database, "games", ada.id) == 1

    def test_what_is_given_again_is_the_game_as_it_now_stands(self, ada: Person) -> None:
        game = expect(create(ada, "one"), 201)
        ada.move(game, game["legal_moves"][0])

        again = expect(create(ada, "one"), 201)

        assert again["ply"] == 1
        assert again == ada.read(game)

    def test_a_token_that_may_create_may_create_again_though_it_may_not_read(
        self, ada: Person, database: Database
    ) -> None:
        narrow = give(ada, database, "games:play")

        assert expect(create(narrow, "one"), 201) == expect(create(narrow, "one"), 201)

    def test_bodies_that_mean_the_same_are_the_same_request(
        self, ada: Person, database: Database
    ) -> None:
        whole = {"options": {}, "deal": {"seed": "royal", "spec": "deal-1"}}

        first = expect(create(ada, "one"), 201)

        assert expect(create(ada, "one", whole), 201) == first
        assert count(database, "games", ada.id) == 1

    @pytest.mark.parametrize(
        "other",
        [
            {},
            {"deal": {"seed": "Royal"}},
            {"deal": {"seed": "royal"}, "ruleset": "royal-cotillion-1"},
            {"deal": {"seed": "1", "spec": "pysol-1"}},
        ],
    )
    def test_another_request_with_the_same_key_is_refused_and_changes_nothing(
        self, ada: Person, database: Database, other: Json
    ) -> None:
        first = expect(create(ada, "one"), 201)

        assert problem(create(ada, "one", other)) == (422, "idempotency-key-reused")

        assert count(database, "games", ada.id) == 1
        assert expect(create(ada, "one"), 201) == first

    def test_a_game_that_was_damaged_since_is_no_fault_of_the_player(
        self, ada: Person, database: Database
    ) -> None:
        game = expect(create(ada, "one"), 201)
        damage = text("UPDATE games SET log = '\\xfc', ply = 1, times = '\\x00' WHERE id = :id")
        database.run(lambda connection: connection.execute(damage, {"id": game["id"]}))

        assert problem(create(ada, "one")) == (500, "broken-log")

    def test_another_key_makes_another_game_and_so_does_none(
        self, ada: Person, database: Database
    ) -> None:
        made = [create(ada, "one"), create(ada, "One"), ada.post("/v1/games", BODY)]

        assert len({expect(one, 201)["id"] for one in made}) == 3
        assert count(database, "idempotency_keys", ada.id) == 2

    def test_a_key_is_its_players_own(self, ada: Person, bea: Person) -> None:
        hers, other = expect(create(ada, "one"), 201), expect(create(bea, "one", {}), 201)

        assert hers["id"] != other["id"]
        assert other["header"]["player"] == bea.id

    def test_what_was_refused_leaves_the_key_free(self, ada: Person, database: Database) -> None:
        wrong = {"deal": {"seed": "x", "spec": "pysol-1"}}

        assert problem(create(ada, "one", wrong)) == (422, "bad-seed")
        assert count(database, "idempotency_keys", ada.id) == 0

        assert create(ada, "one").status_code == 201

    @pytest.mark.parametrize(
        "key", ["a", "!", "~" * 255, "a key", '"8e0-x"', "a" + " " * 253 + "b"]
    )
    def test_a_key_is_1_to_255_printable_characters(self, ada: Person, key: str) -> None:
        assert expect(create(ada, key), 201) == expect(create(ada, key), 201)

    @pytest.mark.parametrize("key", ["", "x" * 256, "é", "a\tb", "a\x7f"])
    def test_any_other_key_is_refused_where_it_stands(
        self, ada: Person, database: Database, key: str
    ) -> None:
        refused = problem(create(ada, key))

        assert refused == (422, "invalid-request")
        assert [one["pointer"] for one in refused.body["errors"]] == ["#header/Idempotency-Key"]
        assert count(database, "games", ada.id) == 0

    def test_where_a_secret_is_shown_a_key_is_ignored(self, client: Client) -> None:
        headers = {"Idempotency-Key": "one"}

        made = [client.post("/v1/players", {"name": "Ada"}, headers=headers) for _ in range(2)]

        assert len({expect(one, 201)["token"] for one in made}) == 2


class TestAge:
    def test_after_24_hours_a_key_stands_for_nothing(self, ada: Person, database: Database) -> None:
        first = expect(create(ada, "one"), 201)
        age(database, ada.id, 23.9)
        assert expect(create(ada, "one"), 201) == first

        age(database, ada.id, 0.1)
        later = expect(create(ada, "one", {}), 201)

        assert later["id"] != first["id"]
        assert expect(create(ada, "one", {}), 201) == later
        assert problem(create(ada, "one")) == (422, "idempotency-key-reused")

    def test_old_keys_go_when_new_ones_come(
        self, ada: Person, bea: Person, database: Database
    ) -> None:
        for number in range(8):
            create(ada, f"old {number}")
        age(database, ada.id, 25)
        create(ada, "young")

        for number in range(3):
            create(bea, f"new {number}")

        assert count(database, "idempotency_keys", ada.id) == 1
        assert count(database, "idempotency_keys", bea.id) == 3
        assert count(database, "games", ada.id) == 9


@contextmanager
def begun(database: Database) -> Iterator[Connection]:
    with database.engine.connect() as connection:
        connection.execution_options(isolation_level="READ COMMITTED")
        yield connection


class TestAtOnce:
    @pytest.mark.parametrize("body", [BODY, {}])
    def test_of_20_at_once_one_creates_and_all_are_answered_alike(
        self, ada: Person, database: Database, body: Json
    ) -> None:
        together = threading.Barrier(20)

        def ask(_: int) -> Json:
            together.wait()
            return expect(create(ada, "one", body), 201)

        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(ask, range(20)))

        assert all(answer == answers[0] for answer in answers)
        assert count(database, "games", ada.id) == 1

    def test_of_two_requests_under_one_key_at_once_one_is_refused(
        self, ada: Person, database: Database
    ) -> None:
        together = threading.Barrier(20)

        def ask(number: int) -> tuple[int, str]:
            together.wait()
            answer = create(ada, "one", {"deal": {"seed": f"seed-{number % 2}"}})
            return answer.status_code, answer.get_json().get("code", "")

        with ThreadPoolExecutor(20) as pool:
            found = Counter(pool.map(ask, range(20)))

        assert found == {(201, ""): 10, (422, "idempotency-key-reused"): 10}
        assert count(database, "games", ada.id) == 1

    def test_two_processes_create_once_between_them(
        self, postgres: EmbeddedPostgres, ada: Person, database: Database
    ) -> None:
        headers = {"Idempotency-Key": "one"}
        together = threading.Barrier(20)
        with (
            running(postgres.url, WORKERS="1", THREADS="10") as one,
            running(postgres.url, WORKERS="1", THREADS="10") as other,
        ):
            one.token = other.token = ada.token

            def ask(number: int) -> tuple[int, Any]:
                service = (one, other)[number % 2]
                together.wait()
                answer = service.ask("POST", "/v1/games", BODY, headers=headers)
                return answer.status, answer.body

            with ThreadPoolExecutor(20) as pool:
                answers = list(pool.map(ask, range(20)))

        assert all(answer == answers[0] for answer in answers)
        assert answers[0][0] == 201
        assert count(database, "games", ada.id) == 1

    @pytest.mark.parametrize("kept", [True, False])
    def test_a_repeat_waits_for_the_first_and_takes_over_if_that_fails(
        self, ada: Person, database: Database, *, kept: bool
    ) -> None:
        player, key = UUID(ada.id), Key.of("one", "makeThing", b"{}")
        first, second = uuid4(), uuid4()
        now = database.now()
        waiting = text(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND query LIKE '%idempotency_keys%' AND datname = current_database()"
        )

        def again() -> UUID:
            return database.run(
                lambda connection: repeats.claim(connection, now, player, key, second),
                transaction=True,
            )

        with ThreadPoolExecutor(1) as pool, begun(database) as connection:
            transaction = connection.begin()
            assert repeats.claim(connection, now, player, key, first) == first
            found = pool.submit(again)
            await_(lambda: database.run(lambda one: one.execute(waiting).scalar_one()) == 1)
            assert not found.done()
            if kept:
                transaction.commit()
            else:
                transaction.rollback()
            assert found.result() == (first if kept else second)

    def test_what_was_made_before_the_connection_broke_is_found_by_its_own_id(
        self, ada: Person, database: Database
    ) -> None:
        player, key, made = UUID(ada.id), Key.of("one", "makeThing", b"{}"), uuid4()
        now = database.now()

        found = [
            database.run(
                lambda connection: repeats.claim(connection, now, player, key, made),
                transaction=True,
            )
            for _ in range(2)
        ]

        assert found == [made, made]

    def test_the_same_body_sent_to_another_operation_is_another_request(
        self, ada: Person, database: Database
    ) -> None:
        now = database.now()

        def claim(operation: str) -> UUID:
            key = Key.of("one", operation, b"{}")
            return database.run(
                lambda connection: repeats.claim(connection, now, UUID(ada.id), key, uuid4()),
                transaction=True,
            )

        made = claim("makeThing")

        assert claim("makeThing") == made
        with pytest.raises(KeyReusedError):
            claim("makeOther")
