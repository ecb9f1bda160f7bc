"""A load generator: a few connections that are kept, requests made in advance, one thread.

It costs a small part of what it measures, and the numbers of one run share that part. Every answer
must be 200; anything else ends the measurement.
"""

import gc
import re
import select
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Final

import psutil  # type: ignore[import-untyped]

from bench.rig import HOST

_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: *(\d+)")
_CHUNK: Final = 1 << 18
_PATIENCE: Final = 10.0
"""Seconds after which an answer is missed."""
_TRIES: Final = 40
"""Connections opened at most, for each one that is wanted."""
_SLOW: Final = 4.0
"""The machine is slow when work that is always the same takes so many times its median."""
_AROUND: Final = 0.01
"""Seconds before and after an instant at which it was slow that count as slow too."""


class LoadError(RuntimeError):
    """An answer that is not 200, or none."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a load gave.

    Attributes:
        requests: Requests answered.
        rate: Requests answered a second, while all connections were busy.
        latencies: Of each request, in ms, sorted.
        steady: Of those alone that the machine did not delay; of all where that is not told.
        cost: Processor time of the generator itself, in seconds.
    """

    requests: int
    rate: float
    latencies: list[float]
    steady: list[float]
    cost: float

    def percentile(self, share: float, *, steady: bool = False) -> float:
        """Return the latency in ms that this share of the requests did not exceed.

        Args:
            share: The share.
            steady: Whether to leave out what the machine delayed, unless it delayed all.
        """
        found = (steady and self.steady) or self.latencies
        return found[min(len(found) - 1, int(share * len(found)))]

    @property
    def delayed(self) -> float:
        """The share of the requests that the machine delayed."""
        return 1 - len(self.steady) / len(self.latencies)


def request(method: str, path: str, token: str = "", body: bytes | None = None) -> bytes:
    """Return the bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class Connection:
    """A connection that is kept, with at most one request under way.

    Attributes:
        number: By which select knows it.
        since: When that request was sent, or was due.
    """

    __slots__ = ("_got", "_socket", "_wanted", "number", "since")

    def __init__(self, port: int) -> None:
        """Connect."""
        self.since = 0.0
        self._got = b""
        self._wanted = 0
        self._socket = socket.create_connection((HOST, port), _PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = self._socket.fileno()

    @property
    def own_port(self) -> int:
        """The port at this end."""
        return int(self._socket.getsockname()[1])

    def send(self, data: bytes) -> None:
        """Send a request."""
        self._got, self._wanted = b"", 0
        self._socket.sendall(data)

    def receive(self) -> bytes | None:
        """Return the answer once it is complete, head and body, else None.

        Raises:
            LoadError: It is not 200 or 201.
        """
        data = self._socket.recv(_CHUNK)
        if not data:
            raise LoadError("the server closed a connection")
        self._got = data = self._got + data if self._got else data
        if not self._wanted:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                return None
            length = _LENGTH.search(data, 0, end)
            if data[9:12] not in {b"200", b"201"} or length is None:
                raise LoadError(f"not the answer expected: {data[:2000]!r}")
            self._wanted = end + 4 + int(length[1])
        return data if len(data) >= self._wanted else None

    def ask(self, data: bytes) -> bytes:
        """Send a request and return the answer's body."""
        self.send(data)
        while (answer := self.receive()) is None:
            pass
        return answer.partition(b"\r\n\r\n")[2]

    def close(self) -> None:
        """Close it."""
        self._socket.close()


@contextmanager
def connections(
    port: int, workers: Sequence[psutil.Process], count: int, hello: bytes
) -> Iterator[list[Connection]]:
    """Give connections of which every worker process has an equal share.

    Which worker takes a connection is chance; some may else get none, and a rate would be that of
    one process alone. So more are opened than wanted, and those over a share are closed.

    Args:
        port: The server's.
        workers: Its worker processes.
        count: Connections wanted, a multiple of the workers' number.
        hello: A request that any state of the server answers with 200.
    """
    share = count // len(workers)
    kept: dict[int, list[Connection]] = {worker.pid: [] for worker in workers}
    surplus: list[Connection] = []
    try:
        for _ in range(count * _TRIES):
            connection = Connection(port)
            connection.ask(hello)
            owner = kept[_owner(workers, connection)]
            (owner if len(owner) < share else surplus).append(connection)
            if all(len(own) == share for own in kept.values()):
                break
        else:
            raise LoadError("some worker takes no connections")
        for connection in surplus:
            connection.close()
        # One of each worker in turn, so that requests under way are spread from the start.
        yield [connection for turn in zip(*kept.values(), strict=True) for connection in turn]
    finally:
        for connection in (*surplus, *(one for own in kept.values() for one in own)):
            connection.close()


def _owner(workers: Sequence[psutil.Process], connection: Connection) -> int:
    for worker in workers:
        if any(
            peer.raddr and peer.raddr.port == connection.own_port
            for peer in worker.net_connections("tcp")
        ):
            return int(worker.pid)
    raise LoadError("no worker has taken a connection")


@contextmanager
def _undisturbed() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def flood(
    open_: Sequence[Connection], requests: Sequence[Iterator[bytes]], seconds: float
) -> Outcome:
    """Keep every connection busy, until the time is over or some connection's requests are.

    Args:
        open_: The connections.
        requests: For each connection its requests.
        seconds: How long.
    """
    next_of = dict(zip(open_, requests, strict=True))
    latencies: list[float] = []
    in_time = 0
    clock = time.perf_counter
    with _undisturbed():
        cost, start = time.process_time(), clock()
        until = start + seconds
        busy = {connection.number: connection for connection in open_}
        for connection in open_:
            connection.since = clock()
            connection.send(next(next_of[connection]))
        while busy:
            for connection in _answered(busy, _PATIENCE):
                now = clock()
                latencies.append((now - connection.since) * 1e3)
                data = None
                if now < until:
                    in_time += 1
                    data = next(next_of[connection], None)
                if data is None:
                    until = min(until, now)
                    del busy[connection.number]
                else:
                    connection.since = now
                    connection.send(data)
        spent = time.process_time() - cost
    latencies.sort()
    return Outcome(len(latencies), in_time / (until - start), latencies, latencies, spent)


def _answered(busy: dict[int, Connection], wait: float) -> list[Connection]:
    """Return the connections whose answers are complete, after some time at the latest."""
    ready, _, _ = select.select(list(busy), (), (), wait)
    if not ready and wait == _PATIENCE:
        raise LoadError(f"no answer within {_PATIENCE:.0f} s")
    return [connection for number in ready if (connection := busy[number]).receive()]


def pace(
    open_: Sequence[Connection], requests: Sequence[Iterator[bytes]], rate: float, seconds: float
) -> Outcome:
    """Send requests at a fixed rate, whatever the answers do, while there are any.

    A latency counts from the instant at which a request was due, so that what queues up shows.

    A virtual machine may run ten times slower for some 50 ms, all its processors at once, which
    its clocks tell as processor time of whoever runs. So the same small piece of work is timed
    again and again. Where it takes far longer than else, the machine was slow, and what was asked
    from then on until the last answer was given is told apart.

    Args:
        open_: The connections; a request waits if all are busy.
        requests: For each connection its requests.
        rate: Requests a second.
        seconds: How long.
    """
    spans: list[tuple[float, float]] = []
    work: list[tuple[float, float]] = []
    clock = time.perf_counter
    next_of = dict(zip(open_, requests, strict=True))
    idle = deque(open_)
    busy: dict[int, Connection] = {}
    total = int(rate * seconds)
    sent = 0
    with _undisturbed():
        cost, start = time.process_time(), clock()
        while sent < total or busy:
            now = clock()
            while sent < total and idle and start + sent / rate <= now:
                connection = idle.popleft()
                data = next(next_of[connection], None)
                if data is None:
                    total = sent
                    break
                connection.since = start + sent / rate
                connection.send(data)
                busy[connection.number] = connection
                sent += 1
            work.append((now, _work()))
            wait = max(0.0, start + sent / rate - clock()) if sent < total and idle else _PATIENCE
            for connection in _answered(busy, wait):
                spans.append((connection.since, clock()))
                del busy[connection.number]
                idle.append(connection)
        end, spent = clock(), time.process_time() - cost
    steady = _undelayed(spans, work)
    return Outcome(len(spans), len(spans) / (end - start), _latencies(spans), steady, spent)


def _work() -> float:
    """Return the processor time that a piece of work takes, always the same, in seconds."""
    begin = time.thread_time()
    sum(range(1000))
    return time.thread_time() - begin


def _undelayed(spans: list[tuple[float, float]], work: list[tuple[float, float]]) -> list[float]:
    """Return the latencies of the requests in whose time the machine was never slow.

    Their time is all that in which some request was under way without a break: what waits for a
    delayed request is delayed too.
    """
    usual = median(cost for _, cost in work)
    slow = deque(when for when, cost in work if cost > _SLOW * usual)
    steady: list[tuple[float, float]] = []
    for begin, end, together in _without_break(sorted(spans)):
        while slow and slow[0] < begin - _AROUND:
            slow.popleft()
        if not slow or slow[0] > end + _AROUND:
            steady += together
    return _latencies(steady)


def _without_break(
    spans: Iterable[tuple[float, float]],
) -> Iterator[tuple[float, float, list[tuple[float, float]]]]:
    """Yield the times in which some request was under way, with the requests of each."""
    together: list[tuple[float, float]] = []
    last = 0.0
    for span in spans:
        if together and span[0] > last:
            yield together[0][0], last, together
            together = []
        together.append(span)
        last = max(last, span[1])
    if together:
        yield together[0][0], last, together


def _latencies(spans: Iterable[tuple[float, float]]) -> list[float]:
    return sorted((end - begin) * 1e3 for begin, end in spans)
