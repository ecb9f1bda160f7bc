"""The service as it runs: gunicorn's processes under a crowd, an outage, and bad clients."""

import hashlib
import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from select import select
from typing import Any

import psycopg
import pytest
from server import (
    PATIENCE,
    Answer,
    Players,
    Service,
    await_,
    children,
    libpq,
    own_postgres,
    processes,
    running,
)

from service.api.framework import MAX_BODY_BYTES
from service.engine import verify
from service.store.database import RETRY_AFTER
from service.store.embedded import EmbeddedPostgres

Json = dict[str, Any]

CROWD = 20
SLOW = 12
JSON = {"Content-Type": "application/json"}
POST = b"POST /v1/players HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One that may be stopped."""
    with own_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def service(postgres: EmbeddedPostgres) -> Iterator[Service]:
    """The service, with two workers and a player."""
    with running(postgres.url, WORKERS="2") as service:
        service.register()
        yield service


def digest(game: Json, document: Json) -> str:
    """Return the digest of a whole log as a client computes it."""
    text = json.dumps(game["header"], sort_keys=True, separators=(",", ":"))
    for entry, ms in zip(document["log"], document["times"], strict=True):
        text += f"\n{entry}@{ms}"
    return hashlib.sha256(b"royal-rendezvous/log/1\0" + text.encode()).hexdigest()


def problem(answer: Answer) -> tuple[int, str]:
    """Return status and code of a problem document."""
    assert answer.headers["Content-Type"] == "application/problem+json", answer
    assert answer.body["status"] == answer.status
    return answer.status, answer.body["code"]


def without_applied(game: Json) -> Json:
    return {name: value for name, value in game.items() if name != "applied"}


class TestCrowd:
    def test_of_twenty_at_the_same_ply_one_wins_and_all_are_told_the_truth(
        self, service: Service
    ) -> None:
        game = service.create()
        rounds = 12
        chooser = random.Random(1)
        winners = 0
        with ThreadPoolExecutor(CROWD) as crowd:
            connections = [service.connect() for _ in range(CROWD)]
            for _ in range(rounds):
                start = threading.Barrier(CROWD)
                acts = [chooser.choice(game["legal_moves"]) for _ in range(CROWD)]

                def send(
                    one: int, game: Json = game, start: Any = start, acts: Any = acts
                ) -> Answer:
                    start.wait(10)
                    return service.try_move(game, game["ply"], acts[one], on=connections[one])

                answers = list(crowd.map(send, range(CROWD)))
                after = service.read(game)
                won = [one for one in range(CROWD) if answers[one].status == 200]
                stale = [one for one in range(CROWD) if answers[one].status != 200]

                assert won
                assert len({answers[one].data for one in won}) == 1
                (winner,) = {json.dumps(acts[one]) for one in won}
                assert winner not in {json.dumps(acts[one]) for one in stale}
                for one in stale:
                    assert problem(answers[one]) == (409, "stale-ply")
                    assert answers[one].body["game"] == after
                assert without_applied(answers[won[0]].body) == after
                assert after["ply"] == game["ply"] + 1
                winners += len(won)
                game = after
            for connection in connections:
                connection.close()

        document = service.replay(game)
        assert len(document["log"]) == rounds
        assert document["times"] == sorted(document["times"])
        assert verify(document).verdict == "incomplete"
        assert digest(game, document) == game["digest"]
        assert rounds < winners < rounds * CROWD

    def test_of_twenty_that_resign_all_are_answered_alike(self, service: Service) -> None:
        game = service.move(service.create())

        with ThreadPoolExecutor(CROWD) as crowd:
            path, body = f"/v1/games/{game['id']}/resign", {"ply": 1}
            answers = list(crowd.map(lambda _: service.ask("POST", path, body), range(CROWD)))

        assert {answer.status for answer in answers} == {200}
        assert len({answer.data for answer in answers}) == 1
        assert service.read(game)["ply"] == 2
        assert verify(service.replay(game)).verdict == "valid"

    def test_overlapping_batches_leave_neither_gap_nor_double(self, service: Service) -> None:
        start = service.create()
        line = []
        game = start
        for _ in range(40):
            line.append(game["legal_moves"][0])
            game = service.move(game)
        other = service.create()

        def play(seed: int) -> None:
            """Send the same line in pieces of one's own, going on from wherever the game is."""
            chooser, ply = random.Random(seed), 0
            while ply < len(line):
                piece = line[ply : ply + chooser.randint(1, 6)]
                answer = service.try_move(other, ply, *piece)
                assert answer.status == 200 or problem(answer) == (409, "stale-ply")
                ply = ply + len(piece) if answer.status == 200 else ply
                if answer.status != 200:
                    ply = min(answer.body["ply"], ply + 1)

        with ThreadPoolExecutor(8) as crowd:
            list(crowd.map(play, range(8)))

        document = service.replay(other)
        assert document["log"] == service.replay(game)["log"]
        assert verify(document).verdict == "incomplete"


class TestProcesses:
    def test_s_17_s_34_two_services_on_one_database_know_the_same(
        self, postgres: EmbeddedPostgres, service: Service
    ) -> None:
        with running(postgres.url, WORKERS="1") as other:
            player = other.register("Bea")
            here = Service(service.port, other.token)
            me = here.ask("GET", "/v1/players/me").body
            game = here.create()
            for _ in range(5):
                game = other.move(game)
                assert here.read(game) == without_applied(game)
                game = here.move(game)
                assert other.read(game) == without_applied(game)
            first = here.try_move(game, game["ply"], game["legal_moves"][0])
            again = other.try_move(game, game["ply"], game["legal_moves"][0])
            stale = other.try_move(game, 3, {"from": "stock", "to": "waste"})
            revoked = other.ask("DELETE", f"/v1/tokens/{me['token']}")
            refused = here.ask("GET", "/v1/players/me")

        assert me["player"] == {"id": player, "name": "Bea"}
        assert first.data == again.data
        assert problem(stale) == (409, "stale-ply")
        assert stale.body["ply"] == 11
        assert revoked.status == 204
        assert problem(refused) == (401, "token-invalid")

    def test_s_17_both_workers_answer(self, postgres: EmbeddedPostgres) -> None:
        # With one thread a worker has one connection: two tell of two workers.
        with psycopg.connect(libpq(postgres.url), autocommit=True) as admin:
            before = connections(admin)
            with running(postgres.url, WORKERS="2", THREADS="1") as service:
                service.register()

                def both() -> bool:
                    with ThreadPoolExecutor(CROWD) as crowd:
                        games = list(crowd.map(lambda _: service.create(), range(CROWD)))
                    assert len({game["id"] for game in games}) == CROWD
                    return connections(admin) == before + 2

                await_(both)


class TestRestart:
    def test_s_12_s_38_a_game_goes_on_after_a_restart(self, postgres: EmbeddedPostgres) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            service, other = (Service(listener.getsockname()[1]) for _ in range(2))
            with processes(postgres.url, listener, WORKERS="1"):
                service.register()
                other.register("Bea")
                token = other.ask("GET", "/v1/players/me").body["token"]
                revoked = other.ask("DELETE", f"/v1/tokens/{token}")
                start = game = service.create()
                for _ in range(4):
                    last, game = game, service.move(game)
            with processes(postgres.url, listener, WORKERS="1"):
                again = service.try_move(last, last["ply"], last["legal_moves"][0])
                kept = service.read(game)
                refused = other.ask("GET", "/v1/players/me")
                digests = []
                for _ in range(4):
                    game = service.move(game)
                    digests.append((digest(game, service.replay(game)), game["digest"]))
                document = service.replay(game)

        assert without_applied(again.body) == kept
        assert revoked.status == 204
        assert problem(refused) == (401, "token-invalid")
        assert all(computed == told for computed, told in digests)
        assert document["header"] == start["header"]
        assert len(document["log"]) == 8
        assert verify(document).verdict == "incomplete"


def connections(admin: psycopg.Connection) -> int:
    """Return how many connections services have to the database."""
    row = admin.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rendezvous'"
    ).fetchone()
    assert row
    return int(row[0])


class TestOutage:
    def test_without_its_database_the_service_says_so_and_recovers_by_itself(
        self, postgres: EmbeddedPostgres, service: Service
    ) -> None:
        game = service.move(service.create())
        act = game["legal_moves"][0]
        token = service.token

        postgres.stop()
        try:
            refused = [
                service.try_move(game, 1, act),
                service.ask("GET", f"/v1/games/{game['id']}"),
                service.ask("POST", "/v1/players", {"name": "Bea"}),
                service.ask("GET", "/v1"),
                service.ask("GET", "/readyz"),
            ]
            alive = service.ask("GET", "/healthz")
            rules = service.ask("GET", "/v1/rulesets")
        finally:
            postgres.start()
        await_(service.ready)
        kept = service.read(game)
        again = [service.try_move(game, 1, act) for _ in range(3)]

        for answer in refused:
            assert problem(answer) == (503, "database-unavailable")
            assert answer.headers["Retry-After"] == str(RETRY_AFTER)
            assert answer.body["retry_after"] == RETRY_AFTER
            assert not re.search("psycopg|socket|connection", answer.data.decode())
        assert alive.status == rules.status == 200
        assert service.token == token
        assert kept == without_applied(game)
        assert again[0].status == 200
        assert len({answer.data for answer in again}) == 1
        assert service.read(game)["ply"] == 2

    def test_players_who_go_on_through_an_outage_lose_nothing(
        self, postgres: EmbeddedPostgres, service: Service
    ) -> None:
        with Players(service, 4) as players:
            players.await_moves(10)
            postgres.stop()
            await_(lambda: players.statuses.count(503) >= 8)
            postgres.start()
            players.await_moves(20)

        players.check()
        assert set(players.statuses) == {200, 503}

    def test_connections_that_are_ended_under_load_are_no_outage(
        self, postgres: EmbeddedPostgres, service: Service
    ) -> None:
        ended = 0
        with (
            Players(service, 6) as players,
            psycopg.connect(libpq(postgres.url), autocommit=True) as admin,
        ):
            for _ in range(10):
                players.await_moves(20)
                ended += len(admin.execute(END_ALL).fetchall())
            players.await_moves(20)

        players.check()
        assert ended >= 20
        assert set(players.statuses) <= {200, 503}
        assert players.statuses.count(503) <= 6


END_ALL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'rendezvous'"""


class TestBodies:
    def test_a_body_of_the_most_bytes_is_read(self, service: Service) -> None:
        body = json.dumps({"name": "Ada"}).encode().ljust(MAX_BODY_BYTES)

        assert service.ask("POST", "/v1/players", body, headers=JSON).status == 201

    @pytest.mark.parametrize("more", [1, 100_000])
    def test_a_longer_one_is_refused_and_the_next_request_answered(
        self, service: Service, more: int
    ) -> None:
        body = json.dumps({"name": "Ada"}).encode().ljust(MAX_BODY_BYTES + more)

        refused = service.ask("POST", "/v1/players", body, headers=JSON)

        assert problem(refused) == (413, "body-too-large")
        assert service.ask("GET", "/healthz").status == 200

    def test_one_that_is_announced_too_long_is_refused_unread(self, service: Service) -> None:
        with speak(service, POST + b"Content-Length: 99999999999\r\n\r\n{") as (line, _):
            assert line == b"HTTP/1.1 413 REQUEST ENTITY TOO LARGE"

    @pytest.mark.parametrize("chunks", [2, 70, 200])
    def test_one_in_chunks_is_held_to_the_same_limit(self, service: Service, chunks: int) -> None:
        answer = service.ask(
            "POST",
            "/v1/players",
            iter([b'{"name":', *[b" " * 1000] * chunks, b'"Ada"}']),
            headers=JSON,
        )

        if chunks == 2:
            assert answer.status == 201
        else:
            assert problem(answer) == (413, "body-too-large")

    def test_one_that_breaks_off_is_no_request(self, service: Service) -> None:
        before = service.ask("GET", "/healthz").status
        with speak(service, POST + b"Content-Length: 20\r\n\r\n{", ends=True) as (line, _):
            assert line in {b"HTTP/1.1 400 BAD REQUEST", b""}
        assert before == service.ask("GET", "/healthz").status == 200

    @pytest.mark.parametrize("chunks", [b"nonsense\r\n", b"5\r\n{}}}}}}}}\r\n0\r\n\r\n"])
    def test_chunks_that_are_none_are_the_clients_fault(
        self, service: Service, chunks: bytes
    ) -> None:
        with speak(service, POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks) as (line, rest):
            assert line == b"HTTP/1.1 400 BAD REQUEST"
            assert b'"malformed-request"' in rest

    @pytest.mark.parametrize(
        ("sent", "status"),
        [
            (b"nonsense\r\n\r\n", b"400"),
            (b"GET / HTTP/9.9\r\n\r\n", b"400"),
            (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"414"),
            (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 9000 + b"\r\n\r\n", b"431"),
            (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", b"400"),
            (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
            (POST + b"Transfer-Encoding: gzip\r\n\r\n", b"400"),
        ],
    )
    def test_what_is_no_http_is_refused_before_the_application(
        self, service: Service, sent: bytes, status: bytes
    ) -> None:
        with speak(service, sent) as (line, rest):
            assert line.split()[1] == status
            assert b"Traceback" not in rest


def converse(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE)


@contextmanager
def speak(service: Service, sent: bytes, *, ends: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """Send bytes and give the first line of what comes back, and the rest until it is closed."""
    with converse(service) as connection:
        connection.sendall(sent)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        heard = b""
        with suppress(ConnectionResetError, TimeoutError):
            while piece := connection.recv(1 << 16):
                heard += piece
                connection.settimeout(0.5)
        line, _, rest = heard.partition(b"\r\n")
        yield line, rest


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the hasty service complains."""
    return tmp_path_factory.mktemp("hasty") / "log"


@pytest.fixture(scope="module")
def hasty(postgres: EmbeddedPostgres, log: Path) -> Iterator[Service]:
    """The service, with little patience."""
    first = "import service.server as s; s._SILENCE = 1; s._REQUEST = 3"
    with log.open("w") as file, running(postgres.url, first=first, log=file) as service:
        service.register()
        yield service


class TestSlowClients:
    """More of them at once than there are threads, and others are served all the same."""

    def test_who_connects_ahead_of_need_holds_up_nobody(self, hasty: Service) -> None:
        with ExitStack() as stack:
            early = [stack.enter_context(converse(hasty)) for _ in range(SLOW)]
            time.sleep(0.1)
            start = time.monotonic()
            hasty.create()
            took = time.monotonic() - start
            for connection in early:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            heard = [connection.recv(1 << 16) for connection in early]

        assert took < 3
        assert all(one.startswith(b"HTTP/1.1 200 ") for one in heard)

    @pytest.mark.parametrize(
        "sent",
        [
            b"GET /v1 HT",
            b"GET /v1 HTTP/1.1\r\nHost: x\r\n",
            POST + b"Content-Length: 20\r\n\r\n{",
            POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        ],
        ids=["line", "headers", "body", "chunk"],
    )
    def test_who_falls_silent_holds_up_nobody_for_long(
        self, hasty: Service, log: Path, sent: bytes
    ) -> None:
        with ExitStack() as stack:
            silent = [stack.enter_context(converse(hasty)) for _ in range(SLOW)]
            for connection in silent:
                connection.sendall(sent)
            time.sleep(0.1)
            start = time.monotonic()
            game = hasty.create()
            took = time.monotonic() - start
            heard = [connection.recv(1 << 16) for connection in silent]

        assert took < 15
        assert {one[:13] for one in heard} <= {b"", b"HTTP/1.1 408 "}
        assert hasty.read(game)["ply"] == 0
        assert "Traceback" not in log.read_text()

    @pytest.mark.parametrize(
        ("sent", "drop"),
        [
            (b"GET /v1", b"x"),
            (POST + b"Content-Length: 2000\r\n\r\n", b" "),
            (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        ],
        ids=["head", "body", "chunks"],
    )
    def test_who_sends_byte_by_byte_holds_up_nobody_for_long(
        self, hasty: Service, log: Path, sent: bytes, drop: bytes
    ) -> None:
        enough = threading.Event()

        def drip(connection: socket.socket) -> bytes:
            with suppress(OSError):
                connection.sendall(sent)
                while not enough.wait(0.2):
                    connection.sendall(drop)
                    if select([connection], [], [], 0)[0]:
                        return connection.recv(1 << 16)
            return b""

        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(SLOW))
            stack.callback(enough.set)
            slow = [stack.enter_context(converse(hasty)) for _ in range(SLOW)]
            heard = [pool.submit(drip, connection) for connection in slow]
            time.sleep(0.5)
            start = time.monotonic()
            hasty.create()
            took = time.monotonic() - start
            starts = {one.result(30)[:13] for one in heard}

        assert took < 20
        assert starts <= ({b"", b"HTTP/1.1 408 "} if b"POST" in sent else {b""})
        assert "Traceback" not in log.read_text()

    def test_a_connection_that_once_was_slow_goes_on_at_its_ease(self, hasty: Service) -> None:
        with converse(hasty) as connection:
            for _ in range(2):
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
                for _ in range(5):
                    time.sleep(0.5)
                    connection.sendall(b"X: y\r\n")
                connection.sendall(b"\r\n")
                heard = b""
                while b'"ok"' not in heard:
                    heard += (piece := connection.recv(1 << 16))
                    assert piece

    def test_who_does_not_read_holds_up_nobody_for_long(self, hasty: Service, log: Path) -> None:
        with ExitStack() as stack:
            for _ in range(SLOW):
                deaf = stack.enter_context(socket.socket())
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                deaf.connect(("127.0.0.1", hasty.port))
                deaf.sendall(
                    b"GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n" * 20
                )
            time.sleep(0.1)
            start = time.monotonic()
            hasty.create()
            took = time.monotonic() - start

        assert took < 15
        assert "Traceback" not in log.read_text()

    def test_who_leaves_a_finished_connection_open_holds_up_nobody(self, hasty: Service) -> None:
        with ExitStack() as stack:
            for _ in range(SLOW):
                left = stack.enter_context(converse(hasty))
                left.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            start = time.monotonic()
            for _ in range(10):
                hasty.create()
            took = time.monotonic() - start

        assert took < 5

    @pytest.mark.parametrize("way", [b"close", b"keep-alive"])
    def test_who_is_still_sending_what_nobody_wants_hears_why(
        self, hasty: Service, way: bytes
    ) -> None:
        first, later = MAX_BODY_BYTES + 1, 5
        size = first + 1000 * later
        head = POST + b"Connection: %s\r\nContent-Length: %d\r\n\r\n" % (way, size)
        with converse(hasty) as connection:
            connection.sendall(head + b" " * first)
            for _ in range(later):
                time.sleep(0.05)
                connection.sendall(b" " * 1000)
            heard = connection.recv(1 << 16)

        assert heard.startswith(b"HTTP/1.1 413 REQUEST ENTITY TOO LARGE\r\n")
        assert heard.endswith(b"}")


class TestMethods:
    def test_a_head_is_a_get_without_the_body(self, service: Service) -> None:
        game = service.create()
        path = f"/v1/games/{game['id']}"

        get, head = service.ask("GET", path), service.ask("HEAD", path)

        assert (head.status, head.data) == (200, b"")
        varying = {"Date", "X-Request-Id"}
        assert {n: v for n, v in head.headers.items() if n not in varying} == {
            n: v for n, v in get.headers.items() if n not in varying
        }
        assert service.ask("HEAD", "/v1/games/none").status == 404

    def test_options_tell_what_is_allowed(self, service: Service) -> None:
        answer = service.ask("OPTIONS", "/v1/games")

        assert answer.status in {200, 204}
        assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS", "POST"}

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "BREW"])
    def test_what_is_not_allowed_is_refused_with_what_is(
        self, service: Service, method: str
    ) -> None:
        answer = service.ask(method, "/v1/games")

        assert problem(answer) == (405, "method-not-allowed")
        assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS", "POST"}


def test_workers_that_are_told_to_end_before_they_listen_do_so(postgres: EmbeddedPostgres) -> None:
    slowly = """
import time, service.server as s
begin = s.Worker.init_process
s.Worker.init_process = lambda self: (time.sleep(0.5), begin(self))
"""
    for _ in range(3):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with processes(postgres.url, listener, first=slowly) as master:
                await_(lambda master=master: len(children(master)) == 2)  # type: ignore[misc]
                time.sleep(0.1)
                start = time.monotonic()

            assert time.monotonic() - start < 10
