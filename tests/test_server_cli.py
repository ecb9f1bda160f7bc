"""The server's commands as processes: serve under every kind of death, migrate, token."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from secrets import token_hex

import pytest
from click.testing import CliRunner, Result
from client import Client, Person, expect, problem
from server import (
    PATIENCE,
    Players,
    Rendezvous,
    Service,
    await_,
    children,
    new_database,
    rendezvous,
    serve,
    table,
)
from sqlalchemy import select, update

from service import tokens
from service.cli import main as command_line
from service.settings import Settings
from service.store import schema
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres
from service.store.tables import tokens as tokens_table
from service.supervisor import ServeError, StopSignal, Supervisor, listen

UNKNOWN = "019aca00-0000-7000-8000-000000000000"


@contextmanager
def new_home() -> Iterator[Path]:
    """A home that is not there yet; pytest's own folders would be closed to Postgres."""
    path = Path(tempfile.gettempdir()).resolve() / f"rendezvous-serve-{token_hex(4)}"
    yield path
    EmbeddedPostgres(path).stop()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home that tests share, since making data takes longest."""
    with new_home() as path:
        yield path


@pytest.fixture
def fresh() -> Iterator[Path]:
    """A home of the test's own."""
    with new_home() as path:
        yield path


@pytest.fixture
def at_head(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The URL of a database at head."""
    with new_database(postgres) as url:
        database = Database(url)
        schema.upgrade(database.engine)
        database.dispose()
        yield url


@pytest.fixture
def empty(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database."""
    with new_database(postgres) as url:
        yield url


def gone(*pids: int) -> bool:
    return not {*pids} & {*table()}


def postmaster(home: Path) -> int:
    return int((home / "postgres" / "postmaster.pid").read_text().split()[0])


def refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[Rendezvous]:
    """A service with a database of its own, which these tests kill parts of."""
    with serve(home, WORKERS="2") as running:
        running.announced()
        yield running


@pytest.fixture
def service(running: Rendezvous) -> Service:
    """The same, with a player, when all is well."""
    service = running.announced()
    await_(service.ready)
    service.register()
    return service


def master(running: Rendezvous) -> int:
    """Return the number of gunicorn's master, once all that the supervisor runs is there."""
    await_(lambda: len(children(running.process.pid)) == 3)
    return child(running, "service.server")


def child(running: Rendezvous, module: str) -> int:
    """Return the number of the supervisor's child that runs a module."""
    (found,) = (
        pid
        for pid, (parent, command) in table().items()
        if parent == running.process.pid and f"-m {module} " in command
    )
    return found


def workers(running: Rendezvous) -> list[int]:
    """Return the numbers of its two workers, once there are two."""
    await_(lambda: len(children(master(running))) == 2)
    return children(master(running))


@contextmanager
def heeded(number: int) -> Iterator[None]:
    """Have programs that are started heed a signal, also where nohup has these tests ignore it."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


class TestServing:
    def test_it_announces_itself_when_ready_and_stops_without_a_trace(self, fresh: Path) -> None:
        with serve(fresh) as running:
            service = running.announced()
            ready = service.ask("GET", "/readyz")
            service.register()
            game = service.move(service.create())
            everybody = [
                *(postmaster(fresh), master(running), child(running, "service.stream")),
                *(child(running, "service.worker"), *workers(running)),
            ]
            code = running.end(signal.SIGINT)
        stopped = not EmbeddedPostgres(fresh).running()
        with serve(fresh) as later:
            kept = Service(later.announced().port, service.token).read(game)
            later_code = later.end(signal.SIGTERM)

        url = f"http://127.0.0.1:{service.port}"
        assert running.said == [
            f"Royal Rendezvous is served at {url} (docs: {url}/docs). Ctrl-C stops.\n"
        ]
        assert running.complained == ["stopping ...\n"]
        assert ready.status == 200
        assert code == later_code == 0
        assert gone(*everybody)
        assert stopped
        assert refused(service.port)
        assert kept["digest"] == game["digest"]

    def test_it_runs_without_a_worker_where_that_is_off(self, at_head: str, home: Path) -> None:
        with serve(home, DATABASE_URL=at_head, WORKER="off") as running:
            running.announced()
            await_(lambda: len(children(running.process.pid)) == 2)
            time.sleep(0.5)
            found = [command for parent, command in table().values()]
            mine = [one for one in found if f" {running.process.pid}" in one]
            code = running.end()

        assert code == 0
        assert any("-m service.stream" in one for one in mine)
        assert not any("-m service.worker" in one for one in mine)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_it_can_be_stopped_before_it_is_ready(self, fresh: Path, number: int) -> None:
        with heeded(signal.SIGHUP), serve(fresh) as running:
            await_(fresh.exists)
            code = running.end(number)

        assert code == 0
        assert running.said == []
        assert not EmbeddedPostgres(fresh).running()

    def test_a_request_under_way_is_finished_when_it_stops(self, at_head: str, home: Path) -> None:
        nowhere = "http://127.0.0.1:1"  # it asks no proxy whether it is ready
        with serve(home, DATABASE_URL=at_head, HOST="::", http_proxy=nowhere) as running:
            service = running.announced()
            with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as slow:
                slow.sendall(
                    b"POST /v1/players HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    b"Expect: 100-continue\r\nContent-Length: 15\r\n\r\n"
                )
                begun = slow.recv(1 << 16)
                running.process.send_signal(signal.SIGTERM)
                await_(lambda: running.complained)
                time.sleep(0.5)
                waited = running.process.poll() is None
                slow.sendall(b'{"name": "Ada"}')
                answer = slow.recv(1 << 16)
            code = running.wait()

        assert f"at http://[::1]:{service.port} " in running.said[0]
        assert begun == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert waited
        assert answer.startswith(b"HTTP/1.1 201 ")
        assert code == 0

    def test_a_folder_named_service_where_it_starts_is_not_taken_for_it(
        self, at_head: str, home: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "service").mkdir()
        (tmp_path / "service" / "__init__.py").write_text("raise SystemExit('a stranger')")
        with serve(home, DATABASE_URL=at_head, cwd=tmp_path, HOST="localhost") as running:
            service = running.announced()
            code = running.end()

        assert f"at http://localhost:{service.port} " in running.said[0]
        assert code == 0


class TestDeaths:
    def test_a_worker_that_is_killed_is_replaced(
        self, running: Rendezvous, service: Service
    ) -> None:
        before = workers(running)

        with Players(service, 3) as players:
            players.await_moves(5)
            os.kill(before[0], signal.SIGKILL)
            await_(lambda: before[0] not in workers(running))
            players.await_moves(20)

        players.check()
        assert before[1] in workers(running)
        assert set(players.statuses) <= {200, 0}

    def test_a_master_that_is_killed_is_started_again_and_nobody_is_turned_away(
        self, running: Rendezvous, service: Service
    ) -> None:
        old = [master(running), *workers(running)]

        with Players(service, 3) as players:
            players.await_moves(5)
            os.kill(old[0], signal.SIGKILL)
            await_(lambda: old[0] not in children(running.process.pid))
            await_(lambda: gone(*old))
            players.await_moves(20)

        players.check()
        assert players.statuses.count(0) <= 3
        assert set(players.statuses) <= {200, 0}
        assert not {*old} & {master(running), *workers(running)}
        assert "the server ended with -9; starting it again\n" in running.complained

    def test_streams_that_are_killed_are_started_again(
        self, running: Rendezvous, service: Service
    ) -> None:
        game = service.create()
        old = child(running, "service.stream")
        with service.watch(game) as before:
            first = before.event()
            os.kill(old, signal.SIGKILL)
            rest = before.rest()
        service.move(game)
        with service.watch(game, first.id) as after:
            missed = after.event()

        assert rest == []
        assert missed.name == "change"
        assert missed.game == service.read(game)
        assert "the streams ended with -9; starting them again\n" in running.complained
        assert child(running, "service.stream") != old

    def test_the_worker_that_is_killed_is_started_again(
        self, running: Rendezvous, service: Service
    ) -> None:
        assert master(running)
        old = child(running, "service.worker")

        os.kill(old, signal.SIGKILL)
        await_(lambda: old not in children(running.process.pid))

        assert service.ready()
        assert master(running)
        assert "the worker ended with -9; starting it again\n" in running.complained
        assert child(running, "service.worker") != old

    def test_a_postgres_that_is_killed_is_started_again(
        self, running: Rendezvous, service: Service, home: Path
    ) -> None:
        before = postmaster(home)

        with Players(service, 3) as players:
            players.await_moves(5)
            os.kill(before, signal.SIGKILL)
            await_(lambda: EmbeddedPostgres(home).running() and postmaster(home) != before)
            players.await_moves(20)

        players.check()
        assert set(players.statuses) <= {200, 503}
        assert "the embedded Postgres is gone; starting it again\n" in running.complained

    def test_when_serve_is_killed_the_next_one_takes_all_over(self, fresh: Path) -> None:
        with serve(fresh) as killed:
            service = killed.announced()
            service.register()
            game = service.move(service.create())
            orphans = [master(killed), *workers(killed)]
            left = service.connect()
            service.ask("GET", "/healthz", on=left)
            killed.process.kill()
            code = killed.wait()
        with serve(fresh, PORT=str(service.port)) as running:
            running.announced()
            kept = service.read(game)
            went = gone(*orphans)
            postgres = postmaster(fresh)
            end = running.end()
        left.close()

        assert code == -signal.SIGKILL
        assert kept["digest"] == game["digest"]
        assert went
        assert end == 0
        assert gone(postgres)


class TestSharing:
    def test_a_second_one_joins_the_same_database_and_the_last_one_stops_it(
        self, fresh: Path
    ) -> None:
        live = "https://live.example.org"
        with (
            serve(fresh, STREAM_URL=live) as first,
            serve(fresh, STREAM_URL=live) as second,
        ):
            here, there = first.announced(), second.announced()
            postgres = postmaster(fresh)
            here.register()
            there.token = here.token
            game = here.create()
            player = here.ask("GET", "/v1/players/me").body["player"]["id"]
            with Players(there, 2) as players:
                players.await_moves(5)
                listed = rendezvous("token", "list", player, RENDEZVOUS_HOME=str(fresh))
                code = first.end()
                players.await_moves(20)
            same = postmaster(fresh)
            kept = there.read(game)
            players.check()
            second_code = second.end()

        assert listed.returncode == code == second_code == 0
        assert set(players.statuses) == {200}
        assert kept == game
        assert same == postgres
        assert gone(postgres)
        assert second.complained == ["stopping ...\n"]


class TestRefusing:
    def test_a_port_that_is_taken(self, at_head: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = run("serve", DATABASE_URL=at_head, PORT=str(port))

        assert done.exit_code == 1
        assert done.stdout == ""
        assert done.stderr == f"Error: port {port} of 127.0.0.1 is taken; PORT sets another\n"

    def test_a_port_for_streams_that_is_taken(self, at_head: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = run("serve", DATABASE_URL=at_head, PORT="0", STREAM_PORT=str(port))

        assert done.exit_code == 1
        assert done.stderr == (
            f"Error: port {port} of 127.0.0.1 is taken; STREAM_PORT sets another\n"
        )

    def test_a_port_that_is_let_go_of_in_time_is_taken_over(self) -> None:
        other = socket.create_server(("127.0.0.1", 0))
        port = other.getsockname()[1]
        threading.Timer(0.3, other.close).start()

        with handlers_kept(), listen("127.0.0.1", port, "PORT", StopSignal()) as listener:
            assert listener.getsockname()[1] == port

    @pytest.mark.parametrize(
        ("host", "told"),
        [
            ("203.0.113.7", "Cannot assign requested address"),
            ("no such host", "Name or service not known"),
        ],
    )
    def test_a_host_that_is_none_of_this_machine(self, host: str, told: str) -> None:
        done = run("serve", HOST=host, PORT="0", RENDEZVOUS_HOME="/nonexistent")

        assert done.exit_code == 1
        assert done.stderr.startswith(f"Error: cannot listen: {told}")

    def test_a_database_that_is_away(self) -> None:
        url = "postgresql://ada:sesame@127.0.0.1:1/games"
        for command in ("serve", "migrate", "audit"):
            done = rendezvous(command, DATABASE_URL=url, PORT="0")

            assert done.returncode == 1
            assert done.stderr.startswith("Error: ")
            assert "Connection refused" in done.stderr
            assert "sesame" not in done.stderr

    @pytest.mark.parametrize(
        ("variable", "value", "told"),
        [
            ("PORT", "abc", "PORT is a number, not 'abc'"),
            ("WORKERS", "0", "WORKERS and THREADS are 1 or more"),
            ("REGISTRATION", "maybe", "REGISTRATION is open or closed, not 'maybe'"),
            (
                "DATABASE_URL",
                "mysql://u:sesame@h/d",
                "DATABASE_URL is not of the form postgresql://user:password@host:5432/name",
            ),
        ],
    )
    def test_settings_that_cannot_be(self, variable: str, value: str, told: str) -> None:
        settings = {"PORT": "0", "DATABASE_URL": "postgresql://127.0.0.1:1/d", variable: value}

        done = rendezvous("serve", **settings)

        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"Error: {told}\n"


def test_a_server_that_cannot_start_ends_the_attempt(at_head: str) -> None:
    settings = Settings(database_url=at_head)
    with handlers_kept():
        stop = StopSignal()
        listeners = [listen("127.0.0.1", 0, "PORT", stop) for _ in range(2)]
        with listeners[0], listeners[1]:
            supervisor = Supervisor(settings, stop, *listeners)
            supervisor.environment["PYTHONHOME"] = "/nonexistent"

            with supervisor, pytest.raises(ServeError, match="before it was ready: see above"):
                supervisor.run(None)


@pytest.mark.parametrize("words", [("service.server", "upgrade"), ("service.stream",)])
def test_a_process_that_is_told_no_database_ends_without_a_word(words: tuple[str, ...]) -> None:
    """Whoever started it was killed before it could be told, say."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = subprocess.run(
            [sys.executable, "-m", *words, str(listener.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_help_lists_every_setting() -> None:
    done = run("serve", "--help")

    assert done.exit_code == 0
    for one in fields(Settings):
        assert f"\n  {one.metadata['variable']} " in done.stdout


class TestMigrating:
    def test_serve_refuses_an_empty_database_until_it_is_migrated(
        self, empty: str, home: Path
    ) -> None:
        refused = rendezvous("serve", DATABASE_URL=empty, PORT="0")
        migrated = run("migrate", DATABASE_URL=empty)
        with serve(home, DATABASE_URL=empty) as running:
            service = running.announced()
            service.register()
            code = running.end()

        assert refused.returncode == 1
        assert refused.stderr == (
            "Error: the database's schema is at nothing, this version needs "
            f"{schema.head()}: run `rendezvous migrate`\n"
        )
        assert migrated.exit_code == 0
        assert migrated.stdout == f"the schema is at {schema.head()}\n"
        assert code == 0

    def test_it_goes_to_a_revision_and_back(self, empty: str) -> None:
        up = run("migrate", "--to", "0001", DATABASE_URL=empty)
        again = run("migrate", "--to", "0001", DATABASE_URL=empty)
        down = run("migrate", "--down", "--to", "base", DATABASE_URL=empty)

        assert up.stdout == again.stdout == "the schema is at 0001\n"
        assert down.stdout == "the schema is at nothing\n"

    def test_going_back_needs_to_be_told_where(self, at_head: str) -> None:
        done = run("migrate", "--down", DATABASE_URL=at_head)

        assert done.exit_code == 2
        assert "--down needs --to" in done.stderr
        assert run("migrate", DATABASE_URL=at_head).stdout == f"the schema is at {schema.head()}\n"

    def test_a_revision_that_is_none_is_refused(self, at_head: str) -> None:
        for args in (["--to", "nonsense"], ["--down", "--to", "nonsense"]):
            done = run("migrate", *args, DATABASE_URL=at_head)

            assert done.exit_code == 1
            assert done.stderr.startswith("Error: ")
            assert "nonsense" in done.stderr

    def test_the_embedded_database_is_used_and_stopped_again(self, fresh: Path) -> None:
        done = run("migrate", RENDEZVOUS_HOME=str(fresh))

        assert done.exit_code == 0
        assert done.stdout == f"the schema is at {schema.head()}\n"
        assert not EmbeddedPostgres(fresh).running()


class TestTokens:
    def test_one_is_good_for_its_scopes_over_http(
        self, ada: Person, client: Client, postgres: EmbeddedPostgres
    ) -> None:
        given = run(
            "token", "give", ada.id, "--scope", "games:read", "--scope", "admin",
            "--scope", "admin", DATABASE_URL=postgres.url,
        )  # fmt: skip
        client.token = given.stdout.strip()

        assert given.exit_code == 0
        assert tokens.is_well_formed(client.token)
        assert expect(client.get("/v1/players/me"))["scopes"] == ["games:read", "admin"]
        assert problem(client.post("/v1/games", {})) == (403, "scope-missing")

    def test_one_may_expire(
        self, ada: Person, client: Client, postgres: EmbeddedPostgres, database: Database
    ) -> None:
        given = run(
            "token", "give", ada.id, "--scope", "games:read", "--days", "7",
            DATABASE_URL=postgres.url,
        )  # fmt: skip
        client.token = given.stdout.strip()
        me = expect(client.get("/v1/players/me"))
        mine = tokens_table.c.id == me["token"]

        expires = database.run(
            lambda one: one.execute(select(tokens_table.c.expires_at).where(mine)).scalar_one()
        )
        week = expires - database.now()
        past = update(tokens_table).where(mine).values(expires_at=database.now())
        database.run(lambda one: one.execute(past))

        assert timedelta(days=6, hours=23) < week <= timedelta(days=7)
        assert problem(client.get("/v1/players/me")) == (401, "token-invalid")

    def test_they_are_listed_on_whole_lines_without_their_texts(
        self, ada: Person, postgres: EmbeddedPostgres
    ) -> None:
        given = run("token", "give", ada.id, "--scope", "admin", DATABASE_URL=postgres.url)
        ada.get("/v1/players/me")

        listed = run("token", "list", ada.id, DATABASE_URL=postgres.url, COLUMNS="40")

        header, newest, first = listed.stdout.splitlines()
        minute = r"\d{4}-\d\d-\d\d \d\d:\d\d"
        scopes = " ".join(tokens.FIRST_SCOPES)
        assert header.split() == ["token", "made", "expires", "revoked", "last", "used", "scopes"]
        assert re.fullmatch(rf"[-0-9a-f]{{36}}  {minute}  - +- +- +admin", newest)
        assert re.fullmatch(rf"[-0-9a-f]{{36}}  {minute}  - +- +{minute}  {scopes}", first)
        assert given.stdout.strip() not in listed.stdout

    def test_one_that_is_revoked_is_refused_from_the_next_request_on(
        self, ada: Person, postgres: EmbeddedPostgres
    ) -> None:
        token = expect(ada.get("/v1/players/me"))["token"]

        done = [run("token", "revoke", token, DATABASE_URL=postgres.url) for _ in range(2)]
        listed = run("token", "list", ada.id, DATABASE_URL=postgres.url)

        assert [one.stdout for one in done] == ["revoked\n"] * 2
        assert problem(ada.get("/v1/players/me")) == (401, "token-invalid")
        assert len(re.findall(r"\d\d:\d\d", listed.stdout)) == 3

    @pytest.mark.parametrize(
        ("args", "code", "told"),
        [
            (["give", UNKNOWN, "--scope", "admin"], 1, f"there is no player {UNKNOWN}"),
            (["list", UNKNOWN], 1, f"there is no player {UNKNOWN}"),
            (["revoke", UNKNOWN], 1, f"there is no token {UNKNOWN}"),
            (["give", "ada", "--scope", "admin"], 2, "'ada' is not a valid UUID"),
            (["give", UNKNOWN], 2, "Missing option '--scope'"),
            (["give", UNKNOWN, "--scope", "all"], 2, "'all' is not one of"),
            (["give", UNKNOWN, "--scope", "admin", "--days", "0"], 2, "0 is not in the range"),
        ],
    )
    def test_what_is_unknown_is_named(
        self, postgres: EmbeddedPostgres, database: Database, args: list[str], code: int, told: str
    ) -> None:
        assert database.run(schema.current) == schema.head()

        done = run("token", *args, DATABASE_URL=postgres.url)

        assert (done.exit_code, done.stdout) == (code, "")
        assert told in done.stderr

    def test_a_player_who_was_deleted_gets_none(
        self, ada: Person, postgres: EmbeddedPostgres
    ) -> None:
        ada.ask("DELETE", "/v1/players/me")

        done = run("token", "give", ada.id, "--scope", "admin", DATABASE_URL=postgres.url)

        assert (done.exit_code, done.stdout) == (1, "")
        assert f"there is no player {ada.id}" in done.stderr

    def test_they_need_the_schema(self, empty: str) -> None:
        for args in (["list", UNKNOWN], ["revoke", UNKNOWN]):
            done = run("token", *args, DATABASE_URL=empty)

            assert done.exit_code == 1
            assert "rendezvous migrate" in done.stderr


def run(name: str, *args: str, **settings: str) -> Result:
    """Run a command within this process."""
    with handlers_kept():
        return CliRunner().invoke(command_line, [name, *args], env={"DATABASE_URL": "", **settings})


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Leave this process's handlers of signals as they are."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
