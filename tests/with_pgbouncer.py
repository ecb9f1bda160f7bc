"""The service behind a real PgBouncer in transaction mode: `make pgbouncer`.

Not collected by `make test`, which needs nothing that pip does not install. PgBouncer has fewer
connections to Postgres than the service has to it, so that statements of one of the service's
connections go out on several.
"""

import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from server import PATIENCE, Players, Service, Streams, await_, libpq, running, streaming

from service.engine import verify
from service.store import schema
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

Json = dict[str, Any]

POOL = 3


class PgBouncer:
    """A PgBouncer of a test's own, before a Postgres that only its own account may enter."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        found = re.search(r"host=([^&]+)&port=(\d+)", postgres.url)
        assert found
        self.folder = Path(tempfile.mkdtemp(prefix="rendezvous-pgbouncer-"))
        self.folder.chmod(0o755)
        (self.folder / "pgbouncer.ini").write_text(f"""
            [databases]
            * = host={found[1].replace("%2F", "/")} port={found[2]} user=postgres
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {self.port}
            unix_socket_dir =
            auth_type = any
            pool_mode = transaction
            default_pool_size = {POOL}
            max_client_conn = 200
            server_login_retry = 1
        """)
        self.owner = postgres.data.stat()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.start()

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        program = shutil.which("pgbouncer")
        assert program, "pgbouncer is needed: `make pgbouncer` says how"
        self.process = subprocess.Popen(
            [program, "-q", str(self.folder / "pgbouncer.ini")],
            user=self.owner.st_uid,
            group=self.owner.st_gid,
            extra_groups=[],
        )
        await_(self.answers)

    def answers(self) -> bool:
        """Whether it takes connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(PATIENCE)

    @property
    def version(self) -> tuple[int, ...]:
        """Its version."""
        told = subprocess.run(
            ["pgbouncer", "--version"],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
        )
        found = re.search(r"PgBouncer (\d+)\.(\d+)", told.stdout)
        assert found
        return int(found[1]), int(found[2])


@pytest.fixture(scope="module")
def bouncer(postgres: EmbeddedPostgres) -> Iterator[PgBouncer]:
    server = PgBouncer(postgres)
    yield server
    server.stop()
    shutil.rmtree(server.folder)


@pytest.fixture(scope="module")
def streams(bouncer: PgBouncer) -> Iterator[Streams]:
    """The streams, and through PgBouncer a database at head."""
    database = Database(bouncer.url, prepare=False)
    schema.upgrade(database.engine)
    database.run(schema.check)
    database.dispose()
    with streaming(bouncer.url, DATABASE_PREPARE="off") as found:
        yield found


@pytest.fixture(scope="module")
def services(bouncer: PgBouncer, streams: Streams) -> Iterator[list[Service]]:
    """Two services of two processes each, of one player."""
    with ExitStack() as stack:
        found = [
            stack.enter_context(
                running(bouncer.url, WORKERS="2", STREAM_URL=streams.url, DATABASE_PREPARE="off")
            )
            for _ in range(2)
        ]
        found[0].register()
        found[1].token = found[0].token
        yield found


def play(services: list[Service], game: Json, plies: int) -> Json:
    """Return a game after moves that come to the services in turn."""
    for turn in range(plies):
        game = services[turn % len(services)].move(game)
    return game


def test_games_are_played_by_all_processes_at_once(services: list[Service]) -> None:
    with Players(services[0], 5) as some, Players(services[1], 5) as others:
        some.await_moves(300)
        others.await_moves(300)

    for players in (some, others):
        players.check()
        assert set(players.statuses) == {200}


def test_there_are_fewer_connections_to_postgres_than_to_pgbouncer(
    services: list[Service], postgres: EmbeddedPostgres
) -> None:
    with (
        Players(services[0], 8) as players,
        psycopg.connect(libpq(postgres.url), autocommit=True) as admin,
    ):
        players.await_moves(50)
        found = admin.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rendezvous'"
        ).fetchone()

    assert found
    assert 1 <= found[0] <= POOL


def test_a_game_that_goes_from_process_to_process_is_watched_and_verifies(
    services: list[Service],
) -> None:
    game = services[0].create()
    with services[0].watch(game) as watching:
        heard = [watching.event()]
        for _ in range(20):
            game = play(services, game, 2)
            while heard[-1].value["ply"] < game["ply"]:
                heard.append(watching.event())
    last = play(services, game, 3)
    with services[1].watch(last, heard[-1].id) as resumed:
        missed = resumed.event()

    entries = [entry["ply"] for one in heard for entry in one.value.get("applied", [])]
    assert entries == list(range(40))
    assert missed.game == services[0].read(last)
    assert verify(services[1].replay(last)).verdict in {"valid", "incomplete"}


def test_an_outage_of_pgbouncer_is_one_of_the_database(
    services: list[Service], bouncer: PgBouncer
) -> None:
    game = services[0].create()
    with services[0].watch(game) as watching:
        watching.event()
        with Players(services[1], 3) as players:
            players.await_moves(20)
            bouncer.stop()
            await_(lambda: players.statuses.count(503) >= 6)
            bouncer.start()
            players.await_moves(30)
        await_(services[0].ready)
        moved = services[0].move(game)
        heard = watching.event()

    players.check()
    assert set(players.statuses) == {200, 503}
    assert heard.value == moved


def test_before_version_1_21_prepared_statements_must_be_off(bouncer: PgBouncer) -> None:
    """What the tests above would meet without the setting; last, for it leaves some prepared."""
    with running(bouncer.url, WORKERS="2") as service, ThreadPoolExecutor(8) as crowd:
        service.register()
        statuses = [
            answer.status
            for answer in crowd.map(lambda _: service.ask("GET", "/v1/games"), range(200))
        ]

    assert (set(statuses) == {200}) == (bouncer.version >= (1, 21))
