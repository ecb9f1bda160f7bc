"""What is measured, running: the service as `rendezvous serve` runs it, and what it is held to."""

import http.client
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import psutil  # type: ignore[import-untyped]

from service.settings import RATES
from service.store.embedded import EmbeddedPostgres

HOST: Final = "127.0.0.1"
WORKERS: Final = 2
THREADS: Final = 4

RENDEZVOUS: Final = Path(sys.executable).with_name("rendezvous")
# Requests are counted as ever, but never too many.
_WIDE: Final = {f"RATE_{name.upper()}": "999999999 per day" for name in RATES}
_READY_WITHIN: Final = 60.0
_STOP_WITHIN: Final = 60.0


@contextmanager
def new_home() -> Iterator[Path]:
    """Give a home that is not there yet; at the end its Postgres is stopped and all is removed."""
    path = Path(tempfile.gettempdir()).resolve() / f"rendezvous-bench-{secrets.token_hex(4)}"
    try:
        yield path
    finally:
        EmbeddedPostgres(path).stop()
        shutil.rmtree(path, ignore_errors=True)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def wait_for(what: str, done: Callable[[], bool], seconds: float, pause: float = 0.01) -> None:
    """Return once something is so.

    Raises:
        TimeoutError: It is not so in time.
    """
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(pause)


def answers(port: int, path: str) -> bool:
    """Whether a GET is answered with 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Program:
    """A program of ours on a port of its own, with the processes that answer requests.

    Attributes:
        port: The port.
        ready_at: When it was ready, on the monotonic clock.
    """

    def __init__(
        self, command: list[str | Path], port: int, ready: str, **environment: str
    ) -> None:
        """Start it and wait until it is ready.

        Args:
            command: The program.
            port: The port that it is told.
            ready: Path that answers 200 once it is ready.
            **environment: Variables set for it.
        """
        self.port = port
        given = {"HOST": HOST, "WORKERS": str(WORKERS), "THREADS": str(THREADS), **environment}
        self.child = subprocess.Popen(
            command,
            env={**os.environ, "PORT": str(port), **given},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_for(f"{command[0]} to be ready", lambda: self._is_ready(ready), _READY_WITHIN)
            self.ready_at = time.monotonic()
            wait_for("all workers", self.complete, _READY_WITHIN)
        except BaseException:
            self.stop()
            raise

    def _is_ready(self, path: str) -> bool:
        if self.child.poll() is not None:
            raise RuntimeError(f"it ended with {self.child.returncode} before it was ready")
        return answers(self.port, path)

    def stop(self) -> None:
        """End it in good order; by force if that takes too long."""
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def processes(self) -> list[psutil.Process]:
        """Return its processes, the first one first."""
        first = psutil.Process(self.child.pid)
        return [first, *first.children(recursive=True)]

    def workers(self) -> list[psutil.Process]:
        """Return the processes that answer requests: the children of gunicorn's master."""
        masters = [one for one in self.processes() if _serves(one) and not _serves(one.parent())]
        return [worker for master in masters for worker in master.children() if _serves(worker)]

    def complete(self) -> bool:
        """Whether all workers are there."""
        return len(self.workers()) == WORKERS


def _serves(process: psutil.Process | None) -> bool:
    try:
        words = process.cmdline() if process else []
    except psutil.Error:
        return False
    return any(word in {"service.server", "bench.baselines"} for word in words)


class Service(Program):
    """The service, with its embedded Postgres."""

    def __init__(self, home: Path, port: int | None = None, **environment: str) -> None:
        """Start it on a home, whether or not that exists, and wait until it is ready."""
        self.home = home
        self.postgres = EmbeddedPostgres(home)
        super().__init__(
            [RENDEZVOUS, "serve"],
            port or free_port(),
            "/readyz",
            RENDEZVOUS_HOME=str(home),
            DATABASE_URL="",
            STREAM_PORT="0",
            **_WIDE,
            GAMES_IN_PLAY="0",
            **environment,
        )

    def streams(self) -> psutil.Process:
        """Return the process that streams live events, once it is there."""
        wait_for("the streams", lambda: bool(self._streams()), _READY_WITHIN)
        return self._streams()[0]

    def _streams(self) -> list[psutil.Process]:
        return [one for one in self.processes() if "service.stream" in one.cmdline()]

    def database(self) -> list[psutil.Process]:
        """Return the processes of its Postgres, the first one first."""
        return postgres_processes(self.postgres)


def baselines(database_url: str) -> Program:
    """Start the routes that ours are held to, on the same gunicorn settings."""
    return Program(
        [sys.executable, "-m", "bench.baselines"], free_port(), "/bare", DATABASE_URL=database_url
    )


def postgres_processes(postgres: EmbeddedPostgres) -> list[psutil.Process]:
    """Return the processes of a running embedded Postgres, the first one first."""
    number = int((postgres.data / "postmaster.pid").read_text().split()[0])
    first = psutil.Process(number)
    if first.name() != "postgres":
        raise RuntimeError(f"process {number} is no Postgres")
    return [first, *first.children(recursive=True)]


def cpu_of_machine() -> tuple[float, float]:
    """Return the processor time that was used on this machine so far, and all that there was."""
    times = psutil.cpu_times()
    whole = time.monotonic() * psutil.cpu_count()
    idle = times.idle + getattr(times, "iowait", 0.0)
    return whole - idle, whole


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """Return the processor time of these processes so far, with that of their ended children."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
