"""Bulk: replays exported and verified a second over HTTP, and what memory that takes."""

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle, islice
from tempfile import TemporaryFile
from typing import IO, Any, Final
from uuid import UUID

import psutil  # type: ignore[import-untyped]
from sqlalchemy import Connection, insert

from bench import rig
from bench.play import RULES, SPEC, Line, long_lines, thinking_time
from service.engine.replay import pack_times
from service.store.database import Database, new_id
from service.store.tables import games

_KINDS: Final = 200
"""Different games, which are then repeated."""
_CHUNK: Final = 2000
_BODY: Final = 1 << 25
_PIECE: Final = 1 << 20
_PAUSE: Final = 0.1
_AGO: Final = timedelta(days=30)
"""When the first of the games began."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured.

    Attributes:
        exported: Replays in the export.
        export_bytes: Its size.
        export_seconds: Its time.
        export_growth: Bytes by which the process that sent it grew at most.
        verified: Replays that were verified by one request.
        verify_bytes: Its size.
        verify_seconds: Its time.
        verify_growth: Bytes by which the process that verified grew at most.
    """

    exported: int
    export_bytes: int
    export_seconds: float
    export_growth: int
    verified: int
    verify_bytes: int
    verify_seconds: float
    verify_growth: int


def steps() -> int:
    """Return the number of steps that a measurement takes."""
    return 3


def measure(replays: int, step: Callable[[], None]) -> Report:
    """Export so many replays, and verify as many of them as one request may hold."""
    with rig.new_home() as home, rig.Service(home) as service, TemporaryFile() as file:
        player, token = _register(service.port)
        database = Database(service.postgres.url)
        _fill(database, player, replays)
        database.dispose()
        step()
        _warm(service.port, token)
        headers = {"Authorization": f"Bearer {token}"}
        with _growth(service) as export_growth:
            begun = time.monotonic()
            _ask(service.port, "GET", "/v1/replays", None, headers, file)
            export_seconds = time.monotonic() - begun
        end = _last(file)
        if end.get("count") != replays:
            raise RuntimeError(f"the export ends with {end}")
        export_bytes = file.tell()
        step()
        verified = _cut(file)
        file.seek(0)
        headers["Content-Type"] = "application/x-ndjson"
        with _growth(service) as verify_growth, TemporaryFile() as verdicts:
            begun = time.monotonic()
            _ask(service.port, "POST", "/v1/replays/verify", file, headers, verdicts)
            verify_seconds = time.monotonic() - begun
            end = _last(verdicts)
        if end.get("valid") != verified:
            raise RuntimeError(f"the verdicts end with {end}")
        step()
        file.seek(0, 2)
        return Report(
            replays,
            export_bytes,
            export_seconds,
            max(export_growth),
            verified,
            file.tell(),
            verify_seconds,
            max(verify_growth),
        )


def _register(port: int) -> tuple[UUID, str]:
    connection = http.client.HTTPConnection(rig.HOST, port, timeout=30)
    body, headers = json.dumps({"name": "Ada"}), {"Content-Type": "application/json"}
    connection.request("POST", "/v1/players", body, headers)
    made = json.loads(connection.getresponse().read())
    connection.close()
    return UUID(made["player"]["id"]), str(made["token"])


def _fill(database: Database, player: UUID, replays: int) -> None:
    """Store so many finished games of a player."""
    now = database.now() - _AGO
    kinds = [_row(line) for line in islice(long_lines("bulk"), _KINDS)]
    rows: list[dict[str, Any]] = []
    for number, kind in zip(range(replays), cycle(kinds), strict=False):
        began = now + number * timedelta(seconds=1)
        times = {"created_at": began, "ended_at": began + kind["spent"]}
        rest = {name: value for name, value in kind.items() if name != "spent"}
        rows.append({"id": new_id(), "player_id": player, **times, **rest})
        if len(rows) == _CHUNK or number == replays - 1:
            database.run(partial(_store, rows=rows), transaction=True)
            rows = []


def _store(connection: Connection, rows: list[dict[str, Any]]) -> None:
    connection.execute(insert(games), rows)


def _row(line: Line) -> dict[str, Any]:
    chance, ms, times = random.Random(line.seed), 0, []
    for _ in line.moves:
        ms += thinking_time(chance)
        times.append(ms)
    game = line.game(len(line.moves))
    return {
        "ply": len(times),
        "hidden": True,
        "status": game.status,
        "score": game.position.score,
        "ruleset": RULES.ruleset.name,
        "spec": SPEC,
        "seed": line.seed,
        "log": game.log,
        "times": pack_times(times),
        "spent": timedelta(milliseconds=ms),
    }


def _warm(port: int, token: str) -> None:
    """Have every worker do some of both, so that what it loads once is loaded."""
    until = (datetime.now(UTC) - _AGO + timedelta(minutes=15)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for _ in range(8):
        with TemporaryFile() as file:
            headers = {"Authorization": f"Bearer {token}"}
            _ask(port, "GET", f"/v1/replays?until={until}", None, headers, file)
            file.seek(0)
            headers["Content-Type"] = "application/x-ndjson"
            with TemporaryFile() as verdicts:
                _ask(port, "POST", "/v1/replays/verify", file, headers, verdicts)


def _ask(
    port: int,
    method: str,
    path: str,
    body: IO[bytes] | None,
    headers: dict[str, str],
    to: IO[bytes],
) -> None:
    """Write the answer to a request into a file, piece by piece."""
    connection = http.client.HTTPConnection(rig.HOST, port, timeout=120)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{path}: {answer.status} {answer.read()[:500]!r}")
    while piece := answer.read(_PIECE):
        to.write(piece)
    connection.close()


def _last(file: IO[bytes]) -> dict[str, object]:
    """Return the closing line of a stream in a file."""
    file.seek(0, 2)
    file.seek(max(0, file.tell() - 300))
    found: dict[str, object] = json.loads(file.read().splitlines()[-1])
    return found


def _cut(file: IO[bytes]) -> int:
    """Cut a file to as many lines as one request may hold, close it by a line, return how many."""
    file.seek(0)
    count = size = 0
    for line in file:
        if b'"end":true' in line[:20] or size + len(line) > _BODY - 100:
            break
        count += 1
        size += len(line)
    file.seek(size)
    file.truncate()
    file.write(json.dumps({"end": True, "count": count}).encode())
    return count


@contextmanager
def _growth(service: rig.Service) -> Iterator[list[int]]:
    """Give a list of bytes by which one worker has grown since the block began."""
    workers = service.workers()
    begun = {worker.pid: _resident(worker) for worker in workers}
    grown, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(_PAUSE):
            grown.extend(_resident(worker) - begun[worker.pid] for worker in workers)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield grown
    finally:
        done.set()
        watcher.join()


def _resident(process: psutil.Process) -> int:
    return int(process.memory_info().rss)
