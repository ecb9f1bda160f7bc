"""Tournaments with a whole field: standings read while results come in, ends, verification."""

import http.client
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from statistics import median
from typing import Any, Final
from uuid import UUID

import psutil  # type: ignore[import-untyped]
from sqlalchemy import Connection as Database_
from sqlalchemy import text

from bench import field, rig
from bench.field import Field, Open
from bench.load import Connection, Outcome, connections, pace, request
from service import tokens
from service.store.database import Database, Instant, new_id
from service.tournaments import jobs

FIRST: Final = "the first page"
MIDDLE: Final = "a page in the middle"
LAST: Final = "the last page"
AROUND: Final = "around an entry"
KINDS: Final = (FIRST, MIDDLE, LAST, AROUND)

RESULTS: Final = 200
"""Results a second that come in while standings are read."""
READS: Final = 50
"""Reads a second."""

_CONNECTIONS: Final = 8
_BLOCK: Final = 100
"""Moves of a kind in a row: enough that clocks of processor time tell them."""
_VERIFIED_WITHIN: Final = 1800.0
_NEXT: Final = re.compile(r'<([^>]+)>; rel="next"')


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured.

    Attributes:
        entries: Entries of the tournament.
        deals: Deals that each has played.
        made: Seconds that it took to make it.
        moved: Latencies of moves in its attempts, in ms, one after the other.
        ended: Latencies of the moves that ended these attempts.
        move_cost: Processor time of the workers and of Postgres for each of those moves, in µs.
        end_cost: The same for each that ended an attempt.
        read_cost: The same for each kind of read while nothing else happens, round by round.
        quiet: For each kind of read its samples while nothing else happens, round by round.
        busy: The same while results come in.
        results: The results that came in meanwhile.
        verified: Attempts that were verified, by a job and from scratch.
        job: Seconds that the job took, all standings written anew.
        scratch: Seconds that all took from scratch, by processes that know nothing of the job.
    """

    entries: int
    deals: int
    made: float
    moved: list[float]
    ended: list[float]
    move_cost: float
    end_cost: float
    read_cost: dict[str, list[float]]
    quiet: dict[str, list[Outcome]]
    busy: dict[str, list[Outcome]]
    results: list[Outcome]
    verified: int
    job: float
    scratch: float

    @property
    def ratio(self) -> float:
        """What the end of an attempt takes, as a multiple of another move: medians."""
        return median(self.ended) / median(self.moved)

    @property
    def cost_ratio(self) -> float:
        """The same by processor time."""
        return self.end_cost / self.move_cost

    def slowest(self, *kinds: str) -> float:
        """Return the p95 in ms of the slowest of some kinds, while results come in."""
        return max(
            median(one.percentile(0.95, steady=True) for one in self.busy[kind]) for kind in kinds
        )


def steps(rounds: int) -> int:
    """Return the number of steps that a measurement takes."""
    return 4 + rounds * len(KINDS)


def measure(
    entries: int, deals: int, pairs: int, rounds: int, seconds: float, step: Callable[[], None]
) -> Report:
    """Make a field, and measure.

    Args:
        entries: Entries of the tournament.
        deals: Its deals.
        pairs: Attempts of which the last two moves are timed.
        rounds: How often each kind of read is measured.
        seconds: How long each time.
        step: Called now and then; :func:`steps` says how often.
    """
    each = int(RESULTS * seconds) + _CONNECTIONS
    waiting = pairs + rounds * len(KINDS) * each
    with rig.new_home() as home, rig.Service(home) as service:
        url = service.postgres.url
        begun = time.monotonic()
        made = field.make(url, entries, deals, waiting, lambda: None)
        made_in = time.monotonic() - begun
        step()
        stage = Stage(service, made)
        stage.warm()
        (moved, move_cost), (ended, end_cost) = stage.end(made.open[:pairs])
        step()
        ready = iter(made.open[pairs:])
        quiet: dict[str, list[Outcome]] = {kind: [] for kind in KINDS}
        busy: dict[str, list[Outcome]] = {kind: [] for kind in KINDS}
        costs: dict[str, list[float]] = {kind: [] for kind in KINDS}
        results = []
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            for _ in range(rounds):
                for kind in KINDS:
                    before = stage.spent()
                    quiet[kind].append(stage.read(kind, seconds / 2))
                    spent = stage.spent() - before
                    costs[kind].append(spent / quiet[kind][-1].requests * 1e6)
                    some = stage.prepare([one for one, _ in zip(ready, range(each), strict=False)])
                    coming = pool.submit(_send, service.port, stage.pids, some, seconds + 1)
                    time.sleep(0.5)
                    busy[kind].append(stage.read(kind, seconds))
                    results.append(coming.result())
                    step()
        job = _verify(url, made)
        step()
        begun = time.monotonic()
        verified = field.verify(url, made.tournament, lambda: None)
        scratch = time.monotonic() - begun
        step()
    return Report(
        entries,
        deals,
        made_in,
        moved,
        ended,
        move_cost,
        end_cost,
        costs,
        quiet,
        busy,
        results,
        verified,
        job,
        scratch,
    )


class Stage:
    """The running service, and what is asked of it."""

    def __init__(self, service: rig.Service, made: Field) -> None:
        self.service = service
        self.made = made
        self.pids = [worker.pid for worker in service.workers()]
        self.standings = f"/v1/tournaments/{made.tournament}/standings"
        pages = self._pages()
        self.paths = {
            FIRST: [self.standings],
            MIDDLE: pages[len(pages) // 2 :][:3],
            LAST: pages[-1:],
            AROUND: [f"{self.standings}/around"],
        }
        self.tokens = [one.token for one in made.open[:100]]

    def _pages(self) -> list[str]:
        """Return the paths of all pages."""
        connection = http.client.HTTPConnection(rig.HOST, self.service.port, timeout=30)
        found, path = [], f"{self.standings}?limit=100"
        while path:
            found.append(path)
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            link = _NEXT.search(answer.headers.get("Link", ""))
            path = link[1] if link else ""
        connection.close()
        # Of the usual length, each from where one of those begins.
        return [one.replace("limit=100", "limit=20") for one in found]

    def warm(self) -> None:
        """Have every worker do some of all, so that what is prepared once is prepared."""
        for kind in KINDS:
            self.read(kind, 1.0)

    def spent(self) -> float:
        """Return the processor time of the workers and of Postgres so far, in seconds."""
        workers = [psutil.Process(pid) for pid in self.pids]
        return rig.cpu_seconds([*workers, *self.service.database()])

    def end(self, attempts: Sequence[Open]) -> list[tuple[list[float], float]]:
        """Make the last two moves of attempts, some at a time, one request after the other.

        Returns:
            For the moves before the last, and for the last ones: their latencies in ms, and the
            processor time of each in µs.
        """
        connection = Connection(self.service.port)
        latencies: tuple[list[float], list[float]] = ([], [])
        costs = [0.0, 0.0]
        for begin in range(0, len(attempts), _BLOCK):
            for n in (0, 1):
                sent = [_move(one, n) for one in attempts[begin : begin + _BLOCK]]
                before = self.spent()
                for data in sent:
                    begun = time.perf_counter()
                    connection.ask(data)
                    latencies[n].append((time.perf_counter() - begun) * 1e3)
                costs[n] += self.spent() - before
        connection.close()
        each = len(attempts) / 1e6
        return [(latencies[n], costs[n] / each) for n in (0, 1)]

    def prepare(self, attempts: Sequence[Open]) -> list[bytes]:
        """Make all moves but the last of attempts; return the requests that end them."""
        connection = Connection(self.service.port)
        for one in attempts:
            connection.ask(_move(one, 0))
        connection.close()
        return [_move(one, 1) for one in attempts]

    def read(self, kind: str, seconds: float) -> Outcome:
        """Read some part of the standings again and again, at a fixed rate."""
        paths = cycle(self.paths[kind])
        asked = cycle(request("GET", next(paths), token) for token in self.tokens)
        with _open(self.service.port, self.pids) as found:
            return pace(found, [asked for _ in found], READS, seconds)


def _open(port: int, pids: Sequence[int]) -> Any:
    workers = [psutil.Process(pid) for pid in pids]
    return connections(port, workers, _CONNECTIONS, request("GET", "/healthz"))


def _send(port: int, pids: Sequence[int], sent: list[bytes], seconds: float) -> Outcome:
    """Send results at their rate; in a process of its own, so that nothing waits for it."""
    queue = iter(sent)

    def each() -> Iterator[bytes]:
        yield from queue

    with _open(port, pids) as found:
        return pace(found, [each() for _ in found], RESULTS, min(seconds, len(sent) / RESULTS))


def _move(one: Open, n: int) -> bytes:
    body: dict[str, Any] = {"ply": one.ply + n}
    act = "resign" if one.moves[n] == "resign" else "moves"
    if act == "moves":
        origin, _, destination = one.moves[n].partition(":")
        body["moves"] = [{"from": origin, "to": destination}]
    return request("POST", f"/v1/games/{one.game}/{act}", one.token, json.dumps(body).encode())


def _verify(url: str, made: Field) -> float:
    """Have the service's worker verify all attempts; return the seconds that it took."""
    database = Database(url)
    token = tokens.fingerprint(made.host)
    begun = time.monotonic()
    start = partial(_start_job, token=token, tournament=made.tournament)
    job = database.run(start, transaction=True)
    rig.wait_for(
        "the job to be done",
        lambda: database.run(partial(_state, job=job)) == "done",
        _VERIFIED_WITHIN,
        0.2,
    )
    spent = time.monotonic() - begun
    left = database.run(partial(_left, tournament=made.tournament))
    database.dispose()
    if left:
        raise RuntimeError(f"{left} attempts are not valid")
    return spent


def _start_job(connection: Database_, *, token: bytes, tournament: UUID) -> UUID:
    return jobs.start(
        connection, Instant(), token, tournament, job_id=new_id(), kind="verification"
    ).id


def _state(connection: Database_, *, job: UUID) -> str:
    query = text("SELECT state FROM tournament_jobs WHERE id = :id")
    return str(connection.execute(query, {"id": job}).scalar_one())


def _left(connection: Database_, *, tournament: UUID) -> int:
    query = text("""SELECT count(*) FROM games WHERE tournament_id = :id
        AND ended_at IS NOT NULL AND coalesce(length(verified), 0) = 0""")
    return int(connection.execute(query, {"id": tournament}).scalar_one())
