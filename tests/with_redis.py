"""Rates that several processes count together, in a real Redis: `make redis`.

Not collected by `make test`, which needs nothing that pip does not install.
"""

import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from server import PATIENCE, Answer, Service, await_, running

from service.store import schema
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

READS = 40
PLAYERS = 12


class Redis:
    """A Redis of a test's own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.folder = folder
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = shutil.which("redis-server")
        assert program, "redis-server is needed: `make redis` says how"
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
        )
        await_(self.answers)

    def client(self) -> Any:
        """Return a client of it, whose types are those of two kinds of clients at once."""
        return redis.Redis.from_url(self.url, socket_timeout=1)

    def answers(self) -> bool:
        """Whether it answers."""
        try:
            return bool(self.client().ping())
        except redis.RedisError:
            return False

    def stop(self) -> None:
        """End it, also if it stands still."""
        self.process.kill()
        self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def nothing_counted(store: Redis) -> None:
    """Begin with an empty Redis."""
    store.client().flushall()


@pytest.fixture(scope="module")
def services(postgres: EmbeddedPostgres, store: Redis) -> Iterator[list[Service]]:
    """Two services of two processes each, on one database and one Redis."""
    database = Database(postgres.url)
    schema.upgrade(database.engine)
    database.dispose()
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                running(
                    postgres.url,
                    RATE_LIMITS="on",
                    RATE_READS=f"{READS} per hour",
                    RATE_PLAYERS=f"{PLAYERS} per hour",
                    REDIS_URL=store.url,
                    WORKERS="2",
                )
            )
            for _ in range(2)
        ]


def ask(services: list[Service], token: str, times: int) -> list[Answer]:
    """Return the answers to reads, which come to all services at once."""

    def one(number: int) -> Answer:
        service = services[number % len(services)]
        return service.ask("GET", "/v1/players/me", headers={"Authorization": f"Bearer {token}"})

    with ThreadPoolExecutor(8) as crowd:
        return list(crowd.map(one, range(times)))


def statuses(answers: list[Answer]) -> Counter[int]:
    return Counter(answer.status for answer in answers)


def test_of_all_processes_together_as_many_are_taken_as_may_be(services: list[Service]) -> None:
    services[0].register()
    services[1].register()
    first, second = (str(service.token) for service in services)

    answers = ask(services, first, 3 * READS)

    assert statuses(answers) == {200: READS, 429: 2 * READS}
    for answer in answers:
        if answer.status == 429:
            assert answer.body["code"] == "rate-limited"
            assert 3500 < int(answer.headers["Retry-After"]) <= 3600
    # Another player behind the same address has a count of their own.
    assert statuses(ask(services, second, READS)) == {200: READS}


def test_addresses_are_counted_together_too(services: list[Service]) -> None:
    def register(number: int) -> Answer:
        return services[number % 2].ask("POST", "/v1/players", {"name": "Ada"})

    with ThreadPoolExecutor(8) as crowd:
        answers = list(crowd.map(register, range(2 * PLAYERS)))

    assert statuses(answers) == {201: PLAYERS, 429: PLAYERS}


def test_every_service_says_so(services: list[Service]) -> None:
    for service in services:
        rates = service.ask("GET", "/v1").body["limits"]["rates"]
        assert {rate["shared"] for rate in rates} == {True}


def test_redis_is_told_no_token_and_forgets_by_itself(
    services: list[Service], store: Redis
) -> None:
    services[0].register()
    ask(services, str(services[0].token), 4)

    client = store.client()
    keys = [key.decode() for key in client.scan_iter()]

    assert any("reads/" in key for key in keys)
    assert all("rr_" not in key for key in keys)
    assert all(0 < client.ttl(key) <= 3600 for key in keys)


def test_while_redis_is_away_each_process_counts_and_then_all_together_again(
    services: list[Service], store: Redis
) -> None:
    services[0].register()
    services[1].register()
    token, probe = (str(service.token) for service in services)
    assert statuses(ask(services, token, READS + 8))[429] == 8

    store.stop()
    away = statuses(ask(services, token, 6 * READS))
    assert set(away) == {200, 429}
    assert away[200] <= 4 * READS  # two services of two processes

    store.start()  # empty

    def together() -> bool:
        def counted() -> int:
            return sum(
                int(store.client().get(key)) for key in store.client().scan_iter("*:reads/*")
            )

        before = counted()
        ask(services, probe, 8)
        return counted() == before + 8

    await_(together)
    assert statuses(ask(services, token, 2 * READS)) == {200: READS, 429: READS}


def test_a_redis_that_stands_still_holds_nobody_up_for_long(
    services: list[Service], store: Redis
) -> None:
    services[0].register()
    token = str(services[0].token)

    store.process.send_signal(signal.SIGSTOP)
    slow = []
    for _ in range(20):
        began = time.monotonic()
        assert ask(services, token, 1)[0].status == 200
        slow.append(time.monotonic() - began)

    store.process.send_signal(signal.SIGCONT)
    assert max(slow) < 3
    assert sum(taken > 0.2 for taken in slow) <= 8  # each process once, and once more to ask again
