"""The store: migrations, connections, retries, and what requests may ask of Postgres."""

import ast
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from alembic.script import ScriptDirectory
from client import Client, Contract, Person
from psycopg.pq import TransactionStatus
from server import await_, libpq, new_database
from sqlalchemy import (
    CheckConstraint,
    Connection,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    bindparam,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.schema import ColumnCollectionConstraint, Constraint, Index

from service.app import create_app
from service.settings import Settings
from service.store import schema
from service.store.database import Database, DatabaseUnavailableError, Instant, Statement
from service.store.embedded import EmbeddedPostgres
from service.store.schema import SchemaError
from service.store.tables import metadata, tokens
from service.store.tables import players as players_table

HEAD = schema.head()
LETTERS = (
    """SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND conname !~ '^alembic' ORDER BY 1""",
    """SELECT indexname, indexdef FROM pg_indexes
    WHERE schemaname = 'public' AND indexname !~ '^alembic' ORDER BY 1""",
    """SELECT relname, reloptions FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname !~ '^alembic'
    ORDER BY 1""",
    """SELECT table_name, ordinal_position, column_name, udt_name, is_nullable, column_default
    FROM information_schema.columns WHERE table_schema = 'public' AND table_name !~ '^alembic'
    ORDER BY 1, 2""",
)
MORNING = datetime(2026, 11, 29, 8, 15, 30, 123456, tzinfo=UTC)


@pytest.fixture
def empty(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """A database with nothing in it, for this test alone."""
    with new_database(postgres) as url:
        database = Database(url)
        yield database
        database.dispose()


@pytest.fixture(scope="module")
def other(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """A database at head whose connections may be broken: other tests do not use it."""
    with new_database(postgres) as url:
        database = Database(url, pool_size=3, timeout=0.3)
        schema.upgrade(database.engine)
        yield database
        database.dispose()


def ask(database: Database, query: str, **values: Any) -> Any:
    """Return the one value of a query."""
    return database.run(lambda one: one.execute(text(query), values).scalar_one())


def rows(database: Database, query: str) -> list[tuple[Any, ...]]:
    return database.run(lambda one: [tuple(row) for row in one.execute(text(query))])


def tables_of(database: Database) -> set[str]:
    return set(database.run(lambda one: inspect(one).get_table_names()))


def version_of(database: Database) -> str | None:
    return database.run(schema.current)


def backend(connection: Connection) -> int:
    return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def driver(connection: Connection) -> psycopg.Connection:
    found = connection.connection.driver_connection
    assert isinstance(found, psycopg.Connection)
    return found


def terminate(database: Database, *pids: int) -> None:
    """End connections of the server as its administrator would, and wait until they are gone."""
    with psycopg.connect(libpq(database.engine.url.render_as_string()), autocommit=True) as admin:
        for pid in pids:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def add_player(database: Database, name: str = "Ada") -> UUID:
    player = uuid4()
    row = {"id": player, "name": name, "created_at": MORNING}
    database.run(lambda one: one.execute(players_table.insert(), row))
    return player


def name_of(database: Database, player: UUID) -> str:
    return str(ask(database, "SELECT name FROM players WHERE id = :id", id=player))


def rename(connection: Connection, player: UUID, name: str) -> None:
    query = update(players_table).where(players_table.c.id == player).values(name=name)
    connection.execute(query)


class TestMigrations:
    def test_they_are_one_line(self) -> None:
        scripts = ScriptDirectory.from_config(schema._config())

        assert scripts.get_heads() == [schema.head()]
        assert schema.revisions()[-1] == "0001"

    def test_every_revision_is_gone_up_and_down(self, empty: Database) -> None:
        upwards = list(reversed(schema.revisions()))
        for revision in upwards:
            schema.upgrade(empty.engine, revision)
            assert version_of(empty) == revision
        for revision in [*reversed(upwards[:-1]), "base"]:
            schema.downgrade(empty.engine, revision)
            assert version_of(empty) == (None if revision == "base" else revision)

        assert tables_of(empty) == {"alembic_version"}
        schema.upgrade(empty.engine)
        schema.differences(empty.engine)

    def test_data_stay_on_the_way_down_and_up(self, empty: Database) -> None:
        schema.upgrade(empty.engine)
        player = add_player(empty, "Grace")

        schema.upgrade(empty.engine)
        schema.downgrade(empty.engine, "0001")
        schema.upgrade(empty.engine)

        assert name_of(empty, player) == "Grace"

    def test_they_make_what_the_tables_say(self, database: Database) -> None:
        schema.differences(database.engine)

    def test_a_table_that_is_otherwise_is_found(self, empty: Database) -> None:
        schema.upgrade(empty.engine)
        empty.run(lambda one: one.execute(text("ALTER TABLE players ADD COLUMN age integer")))

        with pytest.raises(SchemaError, match="age"):
            schema.differences(empty.engine)

    def test_they_make_it_to_the_letter(self, empty: Database, database: Database) -> None:
        # What the comparison above leaves out: checks, storage parameters, columns in order.
        with empty.engine.begin() as connection:
            metadata.create_all(connection)

        for query in LETTERS:
            assert rows(empty, query) == rows(database, query)

    def test_each_name_follows_the_convention(self, database: Database) -> None:
        expected = {
            name_of_item(item) for table in metadata.tables.values() for item in named(table)
        }

        found = rows(
            database,
            """SELECT conname FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace AND contype != 'n'
            UNION SELECT indexname FROM pg_indexes WHERE schemaname = 'public'""",
        )

        assert {name for (name,) in found} == expected | {"alembic_version_pkc"}

    @pytest.mark.parametrize("revision", [None, *schema.revisions()[1:]])
    def test_a_start_refuses_a_schema_that_is_behind_and_says_what_to_run(
        self, empty: Database, revision: str | None
    ) -> None:
        if revision is not None:
            schema.upgrade(empty.engine, revision)

        with pytest.raises(SchemaError, match=f"at {revision or 'nothing'}.*`rendezvous migrate`"):
            empty.run(schema.check)

    def test_a_schema_of_a_newer_version_is_left_alone(self, empty: Database) -> None:
        schema.upgrade(empty.engine)
        empty.run(schema.check)
        empty.run(lambda one: one.execute(text("UPDATE alembic_version SET version_num = '9999'")))
        acts: list[Callable[[], None]] = [
            lambda: empty.run(schema.check),
            lambda: schema.upgrade(empty.engine),
            lambda: schema.downgrade(empty.engine, "base"),
        ]

        for act in acts:
            with pytest.raises(SchemaError, match=r"at 9999.*newer version"):
                act()

        assert "games" in tables_of(empty)

    def test_a_revision_that_is_none_changes_nothing(self, empty: Database) -> None:
        with pytest.raises(SchemaError, match="nonsense"):
            schema.upgrade(empty.engine, "nonsense")

        assert tables_of(empty) == set()

    def test_several_at_once_wait_for_each_other(self, empty: Database) -> None:
        engines = [Database(empty.engine.url.render_as_string()).engine for _ in range(4)]
        with psycopg.connect(libpq(empty.engine.url.render_as_string())) as holder:
            holder.execute("SELECT pg_advisory_xact_lock(%s)", [schema._LOCK])
            with ThreadPoolExecutor(4) as pool:
                done = [pool.submit(schema.upgrade, engine) for engine in engines]
                await_(lambda: ask(empty, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 4)
                before = tables_of(empty)
                holder.commit()
                outcomes = [one.exception(20) for one in done]

        assert before == set()
        assert outcomes == [None] * 4
        empty.run(schema.check)
        for engine in engines:
            engine.dispose()

    def test_a_table_in_use_is_not_queued_for_long(
        self, empty: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(schema, "LOCK_TIMEOUT", "50ms")
        schema.upgrade(empty.engine)
        player = add_player(empty)
        with psycopg.connect(libpq(empty.engine.url.render_as_string())) as reader:
            reader.execute("SELECT count(*) FROM players")

            with pytest.raises(SchemaError, match=r"schema is as it was.*lock timeout"):
                schema.downgrade(empty.engine, "base")

        assert version_of(empty) == HEAD
        assert name_of(empty, player) == "Ada"

    def test_they_leave_no_settings_on_a_connection(self, empty: Database) -> None:
        schema.upgrade(empty.engine)

        def look(connection: Connection) -> tuple[str, bool]:
            timeout = connection.execute(text("SHOW lock_timeout")).scalar_one()
            return timeout, driver(connection).autocommit

        assert empty.run(look) == ("0", True)


def named(table: Table) -> Iterator[Constraint | Index]:
    yield from table.constraints
    yield from table.indexes


def name_of_item(item: Constraint | Index) -> str:
    """Return the name that an item should have, spelled out from what it is."""
    table = item.table
    assert isinstance(table, Table)
    if isinstance(item, CheckConstraint):
        assert re.fullmatch(rf"ck_{table.name}_[a-z_]+", str(item.name))
        return str(item.name)
    assert isinstance(item, Index | ColumnCollectionConstraint)
    columns = "_".join(column.name for column in item.columns)
    match item:
        case PrimaryKeyConstraint():
            return f"pk_{table.name}"
        case UniqueConstraint():
            return f"uq_{table.name}_{columns}"
        case ForeignKeyConstraint():
            return f"fk_{table.name}_{columns}_{item.referred_table.name}"
        case Index():
            return f"ix_{table.name}_{columns}"
    raise AssertionError(item)


class TestAddresses:
    @pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
    def test_each_way_of_writing_the_scheme_will_do(
        self, postgres: EmbeddedPostgres, scheme: str
    ) -> None:
        database = Database(postgres.url.replace("postgresql+psycopg:", f"{scheme}:"))

        assert ask(database, "SELECT 1") == 1
        assert database.engine.driver == "psycopg"
        database.dispose()

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "sesame",
            "mysql://u:sesame@h/d",
            "sqlite:///sesame",
            "postgresql://u:sesame@h:port/d",
        ],
    )
    def test_another_one_is_refused_and_not_told_back(self, url: str) -> None:
        with pytest.raises(ValueError, match="postgresql://user:password@host:5432/name") as caught:
            Database(url)

        assert "sesame" not in str(caught.value)

    def test_nothing_is_connected_before_it_is_needed(self) -> None:
        database = Database("postgresql://nobody@127.0.0.1:1/nowhere")

        with pytest.raises(DatabaseUnavailableError, match="Connection refused"):
            ask(database, "SELECT 1")


class TestRunning:
    def test_an_act_without_a_transaction_is_kept_statement_by_statement(
        self, other: Database
    ) -> None:
        player = add_player(other)

        def act(connection: Connection) -> None:
            rename(connection, player, "Grace")
            raise RuntimeError

        with pytest.raises(RuntimeError):
            other.run(act)

        assert name_of(other, player) == "Grace"

    def test_a_transaction_is_kept_whole_or_not_at_all(self, other: Database) -> None:
        player = add_player(other)

        def act(connection: Connection, *, fails: bool) -> str:
            rename(connection, player, "Grace")
            rename(connection, player, "Katherine")
            if fails:
                raise RuntimeError
            return "done"

        with pytest.raises(RuntimeError):
            other.run(lambda one: act(one, fails=True), transaction=True)
        before = name_of(other, player)
        answer = other.run(lambda one: act(one, fails=False), transaction=True)

        assert before == "Ada"
        assert answer == "done"
        assert name_of(other, player) == "Katherine"

    def test_what_the_driver_runs_is_in_the_transaction_too(self, other: Database) -> None:
        player = add_player(other)
        query = update(players_table).where(players_table.c.id == bindparam("player"))
        statement = Statement(query.values(name=bindparam("new")))

        def act(connection: Connection) -> None:
            assert statement.on(connection, player=player, new="Grace").rowcount == 1
            raise RuntimeError

        with pytest.raises(RuntimeError):
            other.run(act, transaction=True)

        assert name_of(other, player) == "Ada"

    def test_a_transaction_is_read_committed_and_its_connection_forgets_it(
        self, other: Database
    ) -> None:
        database = Database(other.engine.url.render_as_string(), pool_size=1)

        def look(connection: Connection) -> tuple[int, bool, str, TransactionStatus]:
            level = connection.execute(text("SHOW transaction_isolation")).scalar_one()
            plain = driver(connection)
            return backend(connection), plain.autocommit, level, plain.info.transaction_status

        def fail(connection: Connection) -> None:
            connection.execute(text("SELECT 1 / 0"))

        before = database.run(look)
        inside = database.run(look, transaction=True)
        after = database.run(look)
        with pytest.raises(DBAPIError):
            database.run(fail, transaction=True)
        at_last = database.run(look)

        pid = before[0]
        assert before == (pid, True, "read committed", TransactionStatus.IDLE)
        assert inside == (pid, False, "read committed", TransactionStatus.INTRANS)
        assert after == at_last == before
        database.dispose()

    def test_an_error_in_a_statement_is_not_tried_again(self, other: Database) -> None:
        runs = []

        def act(connection: Connection) -> None:
            runs.append(1)
            connection.execute(text("SELECT 1 / 0"))

        for transaction in (False, True):
            runs.clear()
            with pytest.raises(DBAPIError, match="division by zero"):
                other.run(act, transaction=transaction)
            assert len(runs) == 1

    def test_a_deadlock_is_tried_again_and_both_acts_are_done(self, other: Database) -> None:
        pair = [add_player(other), add_player(other)]
        meeting = threading.Barrier(2)
        runs = []

        def act(connection: Connection, first: int) -> None:
            runs.append(first)
            rename(connection, pair[first], f"by {first}")
            if len(runs) <= 2:
                meeting.wait(10)
            rename(connection, pair[1 - first], f"by {first}")

        with ThreadPoolExecutor(2) as pool:
            done = [
                pool.submit(other.run, lambda one, first=first: act(one, first), transaction=True)
                for first in (0, 1)
            ]
            for one in done:
                one.result(20)

        assert sorted(runs[:2]) == [0, 1]
        assert len(runs) == 3, "neither was the victim of a deadlock"
        names = {name_of(other, player) for player in pair}
        assert names == {f"by {runs[2]}"}

    def test_a_serialisation_failure_is_tried_again_at_the_same_instant(
        self, other: Database
    ) -> None:
        player = add_player(other, "0")
        instant, instants = Instant(), []

        def act(connection: Connection) -> None:
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            now = connection.execute(text("SELECT now()")).scalar_one()
            instants.append((now, instant.fix(now)))
            if len(instants) < 3:
                other.run(lambda one: rename(one, player, str(len(instants))))
            rename(connection, player, "done")

        other.run(act, transaction=True)

        assert name_of(other, player) == "done"
        assert len({now for now, _ in instants}) == 3
        assert len({kept for _, kept in instants}) == 1

    def test_trying_again_has_an_end(self, other: Database) -> None:
        runs = []

        def act(connection: Connection) -> None:
            runs.append(1)
            raise_state = "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"
            connection.execute(text(raise_state))

        with pytest.raises(DatabaseUnavailableError, match="too many others"):
            other.run(act)

        assert len(runs) == 4

    @pytest.mark.parametrize("state", ["08006", "53300", "57P01", "57P03", "25006"])
    def test_a_server_that_cannot_now_is_tried_once_more_and_then_away(
        self, other: Database, state: str
    ) -> None:
        runs = []

        def act(connection: Connection) -> None:
            runs.append(1)
            driver(connection).execute(f"DO $$ BEGIN RAISE SQLSTATE '{state}'; END $$".encode())

        with pytest.raises(DatabaseUnavailableError):
            other.run(act)

        assert len(runs) == 2
        assert ask(other, "SELECT 1") == 1

    @pytest.mark.parametrize("transaction", [False, True])
    @pytest.mark.parametrize("by_driver", [False, True])
    def test_a_connection_that_is_ended_in_the_middle_is_replaced_and_the_act_repeated(
        self,
        other: Database,
        caplog: pytest.LogCaptureFixture,
        *,
        transaction: bool,
        by_driver: bool,
    ) -> None:
        player = add_player(other)
        pids: list[int] = []
        query = update(players_table).where(players_table.c.id == bindparam("player"))
        statement = Statement(query.values(name=bindparam("new")))

        def act(connection: Connection) -> str:
            pids.append(driver(connection).info.backend_pid)
            if len(pids) == 1:
                terminate(other, pids[0])
            if by_driver:
                statement.on(connection, player=player, new="Grace")
            else:
                rename(connection, player, "Grace")
            return "done"

        assert other.run(act, transaction=transaction) == "done"

        assert len(set(pids)) == 2
        assert not caplog.records
        assert name_of(other, player) == "Grace"

    def test_when_one_connection_is_met_broken_the_others_are_replaced_too(
        self, other: Database
    ) -> None:
        def gather(connections: list[Connection]) -> list[int]:
            """Take all connections of the pool and return the server's processes for them."""
            if len(connections) == 3:
                return [backend(connection) for connection in connections]
            return other.run(lambda one: gather([*connections, one]))

        before = gather([])
        terminate(other, *before)
        other.run(lambda one: driver(one).execute("SELECT 1"))

        after = gather([])

        assert len({*before, *after}) == 6

    def test_when_all_connections_are_busy_the_database_counts_as_away(
        self, other: Database
    ) -> None:
        def deeper(levels: int) -> None:
            other.run(lambda _: deeper(levels - 1) if levels else None)

        deeper(2)
        with pytest.raises(DatabaseUnavailableError, match="busy"):
            deeper(3)
        deeper(2)

    def test_a_thread_waits_for_a_connection_that_is_given_back(self, other: Database) -> None:
        started = threading.Barrier(4)

        def hold(_: Connection) -> None:
            started.wait(10)
            time.sleep(0.1)

        with ThreadPoolExecutor(3) as pool:
            held = [pool.submit(other.run, hold) for _ in range(3)]
            started.wait(10)
            answer = ask(other, "SELECT 1")
            for one in held:
                one.result(10)

        assert answer == 1


class TestErrors:
    def test_they_show_neither_parameters_nor_rows(self, other: Database) -> None:
        player = add_player(other)
        secret = b"sesame-sesame-sesame"
        values = {"player_id": player, "created_at": MORNING, "hash": secret, "scopes": ["sesame"]}
        insert = Statement(
            tokens.insert().values({name: bindparam(name) for name in (*values, "id")})
        )
        acts: list[Callable[[Connection], Any]] = [
            lambda one: one.execute(tokens.insert(), {"id": uuid4(), **values}),
            lambda one: insert.on(one, id=uuid4(), **values),
        ]
        other.run(acts[0])

        for act in acts:
            with pytest.raises((IntegrityError, psycopg.IntegrityError)) as caught:
                other.run(act)
            seen = f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
            assert "uq_tokens_hash" in seen
            for form in ("sesame", secret.hex()):
                assert form not in seen

    def test_the_engine_writes_no_statements_to_the_log(self, other: Database) -> None:
        assert other.engine.hide_parameters
        assert not other.engine.echo


class TestInstants:
    def test_the_first_one_is_kept_in_whole_milliseconds(self) -> None:
        instant = Instant()

        first = instant.fix(MORNING)
        later = instant.fix(MORNING + timedelta(hours=1))

        assert first == later == instant.value == MORNING.replace(microsecond=123000)

    def test_the_clock_is_the_databases(self, other: Database) -> None:
        before = ask(other, "SELECT clock_timestamp()")

        assert timedelta(0) <= other.now() - before < timedelta(seconds=5)


class TestStatements:
    def test_one_has_its_fixed_values_and_takes_the_others(self, other: Database) -> None:
        player = add_player(other, "Grace")
        query = select(players_table.c.name, bindparam("extra", "fixed")).where(
            players_table.c.id == bindparam("player")
        )
        statement = Statement(query)

        assert other.run(lambda one: statement.on(one, player=player).fetchall()) == [
            ("Grace", "fixed")
        ]
        assert other.run(lambda one: statement.on(one, player=uuid4()).fetchone()) is None

    def test_one_without_a_value_that_it_needs_is_refused(self, other: Database) -> None:
        query = select(players_table.c.name).where(players_table.c.id == bindparam("player"))

        with pytest.raises(psycopg.ProgrammingError, match="player"):
            other.run(lambda one: Statement(query).on(one))

    def test_values_are_the_drivers_own(self, other: Database) -> None:
        player = add_player(other)
        query = select(players_table.c.id, players_table.c.created_at).where(
            players_table.c.id == bindparam("player")
        )

        assert other.run(lambda one: Statement(query).on(one, player=player).fetchall()) == [
            (player, MORNING)
        ]


class TestWhatRequestsAskFor:
    @pytest.mark.parametrize(
        "query",
        [
            "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
            "SELECT relname FROM pg_class WHERE relkind = 'S'",
            "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
            "SELECT rulename FROM pg_rules WHERE schemaname = 'public'",
        ],
    )
    def test_there_are_no_triggers_sequences_functions_or_rules(
        self, database: Database, query: str
    ) -> None:
        assert rows(database, query) == []

    def test_nothing_that_a_pooler_would_lose_is_written_anywhere(self) -> None:
        session = re.compile(
            r"\b(LISTEN|NOTIFY|pg_notify|pg_advisory_lock|pg_try_advisory_lock"
            r"|SET\s+(?!LOCAL|TRANSACTION)\w+\s*(=|TO)|DECLARE|TEMP(ORARY)?\s+TABLE)"
        )
        root = Path(schema.__file__).parents[1]
        texts = [
            (path.name, re.sub(r"UPDATE\s+(\w+\s+)?SET", "", node.value))
            for path in [*root.rglob("*.py"), *schema._scripts().rglob("*.py")]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]

        assert [found for found in texts if session.search(found[1])] == []
        assert session.search("SET lock_timeout = '5s'")
        assert not session.search("SET LOCAL lock_timeout = '5s'")

    def test_an_act_on_a_game_holds_no_lock_once_it_is_answered(
        self, ada: Person, database: Database
    ) -> None:
        ada.play(ada.create("royal"), 3)

        assert ask(database, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
        open_ = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        assert ask(database, open_) == 0

    def test_an_act_on_a_game_is_two_statements_and_a_read_is_one(
        self, ada: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        game = ada.move(ada.create("royal"), {"from": "r2"})
        seen: list[str] = []
        execute = psycopg.Cursor.execute

        def note(self: Any, query: Any, *args: Any, **options: Any) -> Any:
            seen.append(str(query).split()[0])
            return execute(self, query, *args, **options)

        monkeypatch.setattr(psycopg.Cursor, "execute", note)
        ada.read(game)
        ada.move(game, {"from": "r6"})

        assert seen == ["SELECT", "SELECT", "UPDATE"]

    def test_updates_of_games_in_play_stay_within_their_pages(self, empty: Database) -> None:
        schema.upgrade(empty.engine)
        app = create_app(Settings(rate_limits="off"), empty)
        ada = Client(app, Contract(app)).register()
        played = 0
        while played < 200:
            played += ada.play(ada.create("royal"), 40)["ply"]
        # A connection tells what it did after a while, or at its end.
        empty.dispose()
        await_(lambda: updates(empty)[0] >= played)

        all_, hot = updates(empty)

        assert all_ == played
        assert hot / all_ > 0.95


def updates(database: Database) -> tuple[int, int]:
    """Return how many rows of games were updated, and how many of them within their page."""
    ((all_, hot),) = rows(
        database, "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'games'"
    )
    return all_, hot
