"""What Prometheus is told: exact over several processes, whichever of them is asked."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import pytest
from documents import SIGNING_KEYS
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families
from server import (
    PATIENCE,
    Service,
    Stream,
    await_,
    children,
    processes,
    rendezvous,
    running,
    serve,
    streaming,
)

from service import metrics
from service.store.database import Database

READS = 60


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@dataclass
class Metrics:
    """What is told at a port."""

    port: int

    def ask(self, path: str = "/metrics") -> tuple[int, str]:
        """Return status and text of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of a name that have these labels."""
        status, text = self.ask()
        assert status == 200
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


@pytest.fixture
def counted(database: Database, tmp_path: Path) -> Iterator[tuple[Service, Metrics]]:
    """A service of two processes that count."""
    port = free_port()
    with running(
        stored(database)["DATABASE_URL"],
        WORKERS="2",
        METRICS_PORT=str(port),
        PROMETHEUS_MULTIPROC_DIR=str(tmp_path),
        RATE_LIMITS="on",
        RATE_ANONYMOUS="100000 per hour",
        RATE_WRITES="8 per hour",
    ) as service:
        yield service, Metrics(port)


def test_what_two_processes_count_adds_up_exactly(counted: tuple[Service, Metrics]) -> None:
    service, told = counted
    service.register()
    games = [service.create() for _ in range(4)]

    def read(number: int) -> int:
        return service.ask("GET", f"/v1/games/{games[number % 4]['id']}").status

    with ThreadPoolExecutor(8) as crowd:
        assert set(crowd.map(read, range(READS))) == {200}
    for _ in range(3):
        service.ask("GET", "/v1/nothing/of/that/name")
    service.ask("FROWN", "/v1")

    requests, route = "rendezvous_requests_total", "/v1/games/{game_id}"
    for _ in range(4):  # whichever process answers
        assert told.value(requests, method="GET", route=route, status="200") == READS
        assert told.value("rendezvous_request_seconds_count", route=route) == READS
        assert told.value("rendezvous_request_seconds_bucket", route=route, le="+Inf") == READS
        assert told.value(requests, route="none", status="404") == 3
        assert told.value(requests, method="other") == 1
        assert told.value(requests, method="POST", status="201") == 5
        assert told.value("rendezvous_games_created_total") == 4
        assert told.value("rendezvous_problems_total", code="not-found") == 3
    assert 0 < told.value("rendezvous_request_seconds_sum", route=route) < 60 * READS
    assert told.value("rendezvous_database_connections") <= 8
    assert games[0]["id"] not in told.ask()[1]


def test_acts_are_counted_once_however_often_they_are_sent(
    counted: tuple[Service, Metrics],
) -> None:
    service, told = counted
    service.register()
    game = service.create()

    moved = service.move(game)
    assert service.move(game) == moved
    service.move(moved, *moved["legal_moves"][:1])
    path = f"/v1/games/{game['id']}"
    service.try_move(game, 0, {"from": "r1", "to": "r1"})
    assert service.ask("POST", f"{path}/undo", {"ply": 2}).status == 200
    for _ in range(2):
        assert service.ask("POST", f"{path}/resign", {"ply": 3}).status == 200
    key = {"Idempotency-Key": "once"}
    for _ in range(2):
        assert service.ask("POST", "/v1/games", {"deal": {}}, headers=key).status == 201

    acts, ended = "rendezvous_acts_total", "rendezvous_games_ended_total"
    assert told.value(acts, act="move") == 2
    assert told.value(acts, act="undo") == told.value(acts, act="resign") == 1
    assert told.value(ended) == told.value(ended, status="resigned") == 1
    assert told.value("rendezvous_games_created_total", ruleset="royal-rendezvous-1") == 2


def test_what_is_refused_for_its_rate_is_counted_by_its_limit(
    counted: tuple[Service, Metrics],
) -> None:
    service, told = counted
    service.register()

    answers = [service.ask("POST", "/v1/games", {}).status for _ in range(40)]

    refused = answers.count(429)
    assert refused >= 40 - 2 * 8
    assert told.value("rendezvous_rate_limited_total", rate="writes") == refused
    assert told.value("rendezvous_problems_total", code="rate-limited") == refused


def told_of(pid: int, folder: Path) -> bool:
    """Whether a process, if it is still there, has a folder in its environment."""
    environment = Path(f"/proc/{pid}/environ")
    return environment.exists() and os.fsencode(folder) in environment.read_bytes()


def test_what_a_killed_process_counted_stays(
    counted: tuple[Service, Metrics], tmp_path: Path
) -> None:
    service, told = counted
    asked = "rendezvous_requests_total"
    for _ in range(20):
        service.ask("GET", "/v1/rulesets")
    assert told.value(asked, route="/v1/rulesets") == 20
    (master,) = (pid for pid in children(os.getpid()) if told_of(pid, tmp_path))
    dead = children(master)[0]

    os.kill(dead, signal.SIGKILL)
    await_(lambda: len(children(master)) == 2 and dead not in children(master))
    service.ask("GET", "/v1/rulesets")

    assert told.value(asked, route="/v1/rulesets") == 21
    assert list(tmp_path.glob(f"counter_{dead}.db"))
    assert not list(tmp_path.glob(f"gauge_*_{dead}.db"))


def test_only_metrics_are_told_there_and_nothing_of_the_api(
    counted: tuple[Service, Metrics],
) -> None:
    service, told = counted

    assert told.ask("/v1/rulesets")[0] == 404
    assert told.ask("/")[0] == 404
    assert service.ask("GET", "/metrics").status == 404


def test_a_client_that_says_nothing_keeps_nobody_from_it(
    counted: tuple[Service, Metrics],
) -> None:
    _, told = counted

    silent = [socket.create_connection(("127.0.0.1", told.port)) for _ in range(2)]

    assert told.ask()[0] == 200
    for one in silent:
        one.close()


def stored(database: Database) -> dict[str, str]:
    """Return the settings of a service upon a database."""
    url = database.engine.url.render_as_string(hide_password=False)
    return {"DATABASE_URL": url, "SIGNING_KEYS": str(SIGNING_KEYS)}


def test_serve_makes_the_folder_and_takes_it_away(database: Database, tmp_path: Path) -> None:
    port = free_port()
    given = {"METRICS_PORT": str(port), "TMPDIR": str(tmp_path), **stored(database)}
    with serve(tmp_path / "home", cwd=None, PORT="0", **given) as served:
        served.announced().ask("GET", "/v1/rulesets")
        assert Metrics(port).value("rendezvous_requests_total", route="/v1/rulesets") == 1
        assert [file.name[:18] for file in tmp_path.glob("rendezvous-*")] == ["rendezvous-metrics"]
        assert served.end() == 0
    assert list(tmp_path.glob("rendezvous-*")) == []


def test_a_port_that_is_taken_is_said_and_nothing_is_served(database: Database) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = rendezvous("serve", PORT="0", METRICS_PORT=port, **stored(database))

    assert ended.returncode == 1
    assert f"cannot listen at METRICS_PORT {port}" in ended.stderr


def test_the_next_server_has_the_port_though_the_last_one_was_killed(
    database: Database, tmp_path: Path
) -> None:
    port, heard = free_port(), []

    def server(listener: socket.socket, folder: str) -> AbstractContextManager[int]:
        (tmp_path / folder).mkdir()
        return processes(
            stored(database)["DATABASE_URL"],
            listener,
            METRICS_PORT=str(port),
            PROMETHEUS_MULTIPROC_DIR=str(tmp_path / folder),
        )

    with socket.create_server(("127.0.0.1", 0)) as listener:
        service = Service(listener.getsockname()[1])
        with suppress(AssertionError), server(listener, "first") as master:  # it is killed
            await_(service.ready)
            service.ask("GET", "/v1/rulesets")
            heard.append(asked(port))
            os.kill(master, signal.SIGKILL)
        assert heard == [1]
        with server(listener, "second"):
            await_(lambda: asked(port) == 0)


def asked(port: int) -> float:
    """Return how often the list of rulesets was asked for; -1 if nobody tells."""
    try:
        return Metrics(port).value("rendezvous_requests_total", route="/v1/rulesets")
    except OSError:
        return -1


def test_the_page_on_operations_lists_what_is_told() -> None:
    page = (Path(__file__).parents[1] / "docs/operations.md").read_text()
    table = re.findall(r"^\| `(rendezvous_\w+)` \|([^|]*)\|", page, re.MULTILINE)

    told = {
        family.name + ("_total" if family.type == "counter" else ""): set(metric._labelnames)
        for metric, family in (
            (metric, family)
            for metric in vars(metrics).values()
            if isinstance(metric, Counter | Gauge | Histogram)
            for family in metric.collect()
        )
    }
    assert {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in table} == told


def test_streams_are_counted_by_their_answers_with_what_they_are_sent(
    counted: tuple[Service, Metrics], database: Database, tmp_path: Path
) -> None:
    service, told = counted
    service.register()
    game = service.create()
    url, folder = stored(database)["DATABASE_URL"], str(tmp_path)
    path, bearer = f"/v1/games/{game['id']}/events", f"Bearer {service.token}"

    with streaming(url, PROMETHEUS_MULTIPROC_DIR=folder) as streams:
        one, two = (Stream(streams.url + path, Authorization=bearer) for _ in range(2))
        with one, two:
            assert {one.event().name, two.event().name} == {"game"}
            service.move(game)
            assert {one.event().name, two.event().name} == {"change"}
            assert told.value("rendezvous_streams_open") == 2
        with Stream(streams.url + path) as refused, Stream(f"{streams.url}/healthz") as health:
            assert (refused.status, health.status) == (404, 200)
        await_(lambda: told.value("rendezvous_streams_open") == 0)
        with Stream(streams.url + path, Authorization=bearer) as cut_off:
            cut_off.event()
            assert told.value("rendezvous_streams_open") == 1
            streams.process.kill()
            streams.process.wait()

    with streaming(url, PROMETHEUS_MULTIPROC_DIR=folder) as streams:
        await_(Service(streams.port).healthy)
        assert told.value("rendezvous_streams_open") == 0
    assert told.value("rendezvous_streams_total", status="200") == 3
    assert told.value("rendezvous_streams_total") == 4
    assert told.value("rendezvous_stream_events_total") == 5
