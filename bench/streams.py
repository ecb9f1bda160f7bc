"""Streams: what a thousand idle watchers cost those who play, in one run."""

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Final
from urllib.parse import urlsplit

from bench import rig
from bench.load import Outcome, request
from bench.web import MOVE, Stage, open_

WATCHERS: Final = 1000
_FILES: Final = 3 * WATCHERS + 500
_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured.

    Attributes:
        watchers: How many there were.
        alone: Moves at half of the full rate, without watchers, round by round.
        watched: The same while so many watch other games, in which nothing happens.
        idle_bytes: Memory of the streams' process before anybody watched.
        bytes: And while they did.
        share: Share of one processor that it took then, Postgres's part not included.
    """

    watchers: int
    alone: list[Outcome]
    watched: list[Outcome]
    idle_bytes: int
    bytes: int
    share: float

    @property
    def ratio(self) -> float:
        """The median over rounds of p95 with watchers over p95 without, undelayed moves alone."""
        return median(
            with_.percentile(_SHARE, steady=True) / without.percentile(_SHARE, steady=True)
            for with_, without in zip(self.watched, self.alone, strict=True)
        )


def measure(rounds: int, seconds: float, watchers: int, step: Callable[[], None]) -> Report:
    """Measure moves without and with watchers, both once in each round.

    Args:
        rounds: Rounds.
        seconds: How long moves are measured each time.
        watchers: How many watch.
        step: Called after each round.
    """
    _allow_files()
    alone, watched, shares, sizes = [], [], [], []
    with (
        rig.new_home() as home,
        rig.Service(home, STREAMS_PER_TOKEN=str(watchers)) as service,
    ):
        stage = Stage(service)
        with open_(service, "/healthz") as ours:
            stage.open[MOVE] = ours
            rate = stage.flood(MOVE, min(1.0, seconds)).outcome.rate / 2
            games = [stage.watched() for _ in range(watchers)]
            streams = service.streams()
            idle = streams.memory_info().rss
            for _ in range(rounds):
                alone.append(stage.pace(MOVE, rate, seconds).outcome)
                with _watching(games):
                    before = rig.cpu_seconds([streams])
                    watched.append(stage.pace(MOVE, rate, seconds).outcome)
                    shares.append((rig.cpu_seconds([streams]) - before) / seconds)
                    sizes.append(streams.memory_info().rss)
                step()
    return Report(watchers, alone, watched, idle, max(sizes), median(shares))


@contextmanager
def _watching(games: list[tuple[str, str]]) -> Iterator[None]:
    """Watch games, each given by its URL and a token, and hear the first event of each."""
    watching: list[socket.socket] = []
    try:
        for url, token in games:
            parts = urlsplit(url)
            one = socket.create_connection((parts.hostname, parts.port), 10)
            watching.append(one)
            one.sendall(request("GET", parts.path, token))
        for one in watching:
            heard = b""
            while b"event: game\n" not in heard:
                piece = one.recv(1 << 16)
                if not piece:
                    raise RuntimeError(f"a stream ended: {heard[:200]!r}")
                heard += piece
        yield
    finally:
        for one in watching:
            one.close()


def _allow_files() -> None:
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        wanted = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
