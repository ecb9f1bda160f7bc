"""What is counted for Prometheus, and the port at which it is told.

Each process that answers requests counts in files of its own; whichever of them is asked adds all
up. The files are in a folder that `PROMETHEUS_MULTIPROC_DIR` names, which `rendezvous serve` makes.
"""

import os
import socket
import threading
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SILENCE: Final = 5
_PULSE: Final = 0.5

_requests: Final = Counter(
    "rendezvous_requests", "Requests answered", ["method", "route", "status"]
)
_seconds: Final = Histogram(
    "rendezvous_request_seconds", "Time to their answers", ["method", "route"], buckets=_BUCKETS
)
_problems: Final = Counter("rendezvous_problems", "Problem documents answered", ["code"])
limited: Final = Counter("rendezvous_rate_limited", "Requests beyond a rate limit", ["rate"])
created: Final = Counter("rendezvous_games_created", "Games created", ["ruleset"])
acts: Final = Counter("rendezvous_acts", "Moves, undos and resignations, repeats left out", ["act"])
ended: Final = Counter("rendezvous_games_ended", "Games ended by an act", ["ruleset", "status"])
connections: Final = Gauge(
    "rendezvous_database_connections",
    "Database connections in use when a process last answered a request",
    multiprocess_mode="livesum",
)

streams_open: Final = Gauge(
    "rendezvous_streams_open",
    "Streams of live events that are open",
    # One process has them all; of those before it what they counted last is no longer so.
    multiprocess_mode="livemostrecent",
)
streams: Final = Counter("rendezvous_streams", "Streams asked for, by the answer", ["status"])
events: Final = Counter("rendezvous_stream_events", "Live events sent to watchers")


def count_request(method: str, route: str, status: int, seconds: float, problem: str) -> None:
    """Count a request.

    Args:
        method: Its method.
        route: The route's template; nothing where there is none.
        status: The answer's status.
        seconds: Time taken.
        problem: The problem's code if it is one.
    """
    # Clients can make up methods, and each would be a series of its own.
    number, time_taken = _series(method if method in _METHODS else "other", route or "none", status)
    number.inc()
    time_taken.observe(seconds)
    if problem:
        _problems.labels(problem).inc()


@lru_cache(maxsize=4096)
def _series(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    return _requests.labels(method, route, str(status)), _seconds.labels(method, route)


def tell(listener: socket.socket) -> None:
    """Answer at a socket that other processes may answer at too, until our parent is gone."""
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    threading.Thread(target=_Server(listener, registry).run, daemon=True).start()


def forget(process: int) -> None:
    """Forget what only a living process has; what it has counted stays."""
    multiprocess.mark_process_dead(process)  # type: ignore[no-untyped-call]


class _Server(HTTPServer):
    timeout = _PULSE

    def __init__(self, listener: socket.socket, registry: CollectorRegistry) -> None:
        listener.settimeout(0)  # another process may be the one to answer
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.registry = registry

    def run(self) -> None:
        """Answer until our parent is gone; then let go of the port for the next server."""
        parent = os.getppid()
        while os.getppid() == parent:
            self.handle_request()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    timeout = _SILENCE
    server: _Server

    def do_GET(self) -> None:
        """Tell what was counted."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = generate_latest(self.server.registry)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: it is asked every few seconds."""
