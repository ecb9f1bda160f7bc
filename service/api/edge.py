"""What every request and answer passes: its id, headers for browsers and caches, log and metrics.

From the outside in: `Edge`, a WSGI layer that adds the headers which are always the same, and
notes how a request went; a proxy's headers; Flask with its request ids; CORS, where it is set.
"""

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from queue import Full, Queue
from typing import Any, Final

import orjson
import secure
from flask import Flask, Response, g, request
from flask_cors import CORS
from secure import ContentSecurityPolicy as Policy
from werkzeug.middleware.proxy_fix import ProxyFix

from service import metrics
from service.api.problems import request_id
from service.settings import Settings
from service.store.database import Database

Environment = dict[str, Any]
Headers = list[tuple[str, str]]
Answer = Callable[[Environment, Callable[..., Any]], Iterable[bytes]]

_SEEN: Final = "rendezvous.seen"
_OK: Final = 200
_HEALTH: Final = frozenset({"/healthz", "/readyz"})
_MOST_LINES: Final = 10_000
_LAST_LINES: Final = 1.0
_log = logging.getLogger(__name__)
CORS_HOLDS: Final = 3600
"""Seconds for which a browser need not ask again whether it may ask."""
CORS_ASKED: Final = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-None-Match",
    "If-Match",
    "Last-Event-ID",
    "X-Request-Id",
)
CORS_SHOWN: Final = ("ETag", "Link", "Location", "Retry-After", "X-Request-Id", "WWW-Authenticate")
"""Headers that pages of other origins may send and read."""

_NOTHING: Final = (
    Policy()
    .default_src("'none'")
    .base_uri("'none'")
    .form_action("'none'")
    .frame_ancestors("'none'")
)
_DOCS: Final = (
    Policy()
    .default_src("'none'")
    .script_src("'self'")
    # Swagger UI sets styles on its elements.
    .style_src("'self'", "'unsafe-inline'")
    .img_src("'self'", "data:")
    .connect_src("'self'")
    .base_uri("'none'")
    .form_action("'none'")
    .frame_ancestors("'none'")
)


def browser_headers(policy: Policy = _NOTHING, hsts_seconds: int = 0) -> Headers:
    """Return the headers that tell browsers what not to do with an answer.

    Args:
        policy: What a page may load.
        hsts_seconds: How long they must come by HTTPS.
    """
    found = secure.Secure(
        csp=policy,
        hsts=secure.StrictTransportSecurity().max_age(hsts_seconds) if hsts_seconds else None,
        referrer=secure.ReferrerPolicy().no_referrer(),
        xcto=secure.XContentTypeOptions().nosniff(),
    )
    return list(found.header_items())


class Edge:
    """The outermost layer."""

    def __init__(self, inner: Answer, settings: Settings, database: Database) -> None:
        """Prepare to pass requests on."""
        self._inner = inner
        self._plain = browser_headers(_NOTHING, settings.hsts_seconds)
        self._docs = browser_headers(_DOCS, settings.hsts_seconds)
        self._database = database
        self._logs = settings.log == "json"
        self._counts = settings.metrics_port > 0

    def __call__(self, environ: Environment, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        added = self._docs if environ.get("PATH_INFO", "").startswith("/docs") else self._plain
        if not (self._logs or self._counts):
            return self._inner(
                environ,
                lambda status, headers, *info: start_response(status, headers + added, *info),
            )
        passage = _Passage(environ)

        def start(status: str, headers: Headers, *info: Any) -> Any:
            passage.begin(status, headers)
            return start_response(status, headers + added, *info)

        body = self._inner(environ, start)
        if passage.length is None:
            return _Counted(body, passage, self._note)
        self._note(passage)
        return body

    def _note(self, passage: "_Passage") -> None:
        seen = passage.environ.get(_SEEN, {})
        seconds = time.perf_counter() - passage.began
        method = passage.environ["REQUEST_METHOD"]
        if self._counts:
            metrics.count_request(
                method, seen.get("route", ""), passage.status, seconds, seen.get("problem", "")
            )
            metrics.connections.set(self._database.in_use())
        well = passage.status == _OK and seen.get("route") in _HEALTH
        if self._logs and not well:  # they are asked every few seconds, and are mostly well
            address = passage.environ.get("REMOTE_ADDR", "")
            log_request(seen, method, passage.status, seconds, passage.length, address)


def log_request(
    seen: Mapping[str, str],
    method: str,
    status: int,
    seconds: float,
    length: int | None,
    address: str,
    write: Callable[[bytes], object] | None = None,
) -> None:
    """Write a request's line.

    Args:
        seen: `request_id` and, as far as there are, `route`, `player` and `problem`.
        method: Its method.
        status: The answer's status.
        seconds: Time taken.
        length: Bytes of the answer's body.
        address: Of the client; told where there is no player.
        write: Writes it, if not to standard error, for whose reader this waits.
    """
    line = {
        "time": now(),
        "level": "info",
        **seen,
        "method": method[:16],
        "status": status,
        "ms": round(1000 * seconds, 2),
        "bytes": length,
    }
    if "player" not in seen:
        line["address"] = address
    (write or _write)(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def _write(line: bytes) -> None:
    # One call: lines of several processes do not mix.
    # And who reads them may be gone: that is nothing to a request.
    with suppress(OSError):
        os.write(sys.stderr.fileno(), line)


class Scribe:
    """Writes lines to standard error; whoever gives it one waits for no reader of the log.

    What does not fit into its queue is lost, and how much that was is logged later. For a process
    that answers all its clients in one thread.
    """

    def __init__(self) -> None:
        """Begin to write."""
        self._lines: Queue[bytes | None] = Queue(_MOST_LINES)
        self._lost = 0
        self._counting = threading.Lock()
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def take(self, line: bytes) -> None:
        """Write a line, later."""
        try:
            self._lines.put_nowait(line)
        except Full:
            with self._counting:
                self._lost += 1

    def write(self, text: str) -> None:
        """Do so as what a handler of logging writes to."""
        self.take(text.encode(errors="replace"))

    def flush(self) -> None:
        """Do nothing: it is on its way."""

    def end(self) -> None:
        """Return when all is written, or nobody reads it."""
        with suppress(Full):
            self._lines.put(None, timeout=_LAST_LINES)
            self._thread.join(_LAST_LINES)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            _write(line)
            if self._lost and self._lines.empty():  # so that this line is not lost too
                with self._counting:
                    lost, self._lost = self._lost, 0
                _log.warning("%d lines of this log are lost: they were not read in time", lost)


class _Passage:
    """A request under way, and what its answer turned out to be."""

    __slots__ = ("began", "environ", "length", "status")

    def __init__(self, environ: Environment) -> None:
        self.began = time.perf_counter()
        self.environ = environ
        self.status = 500
        self.length: int | None = None

    def begin(self, status: str, headers: Headers) -> None:
        self.status = int(status[:3])
        empty = self.environ["REQUEST_METHOD"] == "HEAD" or self.status in {204, 304}
        told = "0" if empty else dict(headers).get("Content-Length")
        self.length = None if told is None else int(told)


class _Counted:
    """A body of a length that is not told before."""

    def __init__(
        self, body: Iterable[bytes], passage: _Passage, note: Callable[[_Passage], None]
    ) -> None:
        self._body = body
        self._passage = passage
        self._note = note

    def __iter__(self) -> Iterator[bytes]:
        self._passage.length = 0
        for part in self._body:
            self._passage.length += len(part)
            yield part

    def close(self) -> None:
        """End it, complete or not; only now is it known how it went."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._note(self._passage)


def now() -> str:
    """Return the time as logs tell it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonLines(logging.Formatter):
    """Log records as JSON, one a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        line = {
            "time": now(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


LOGGING: Final[dict[str, Any]] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": JsonLines}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"level": "WARNING", "handlers": ["stderr"]},
    "loggers": {"gunicorn.error": {"level": "WARNING", "handlers": ["stderr"], "propagate": False}},
}
"""How all else is logged where requests are: as JSON, too."""


def logging_by(scribe: Scribe) -> dict[str, Any]:
    """Return the same for a process that has a scribe."""
    handlers = {"stderr": {**LOGGING["handlers"]["stderr"], "stream": scribe}}
    return {**LOGGING, "handlers": handlers}


def register(app: Flask, settings: Settings, database: Database) -> None:
    """Have an app's requests pass all of this."""
    origins = settings.origins
    varies = bool(origins) and "*" not in origins
    noted = settings.log == "json" or settings.metrics_port > 0

    def begin() -> None:
        g.request_id = request_id(request.headers.get("X-Request-Id", ""))

    def end(response: Response) -> Response:
        headers = response.headers
        headers["X-Request-Id"] = g.get("request_id", "")
        if "Cache-Control" not in headers:
            headers["Cache-Control"] = "no-store"
        if varies:
            headers.add("Vary", "Origin")
        if noted:
            request.environ[_SEEN] = _seen()
        return response

    app.before_request(begin)
    app.after_request(end)
    if origins:
        CORS(
            app,
            # It takes what has brackets, as addresses of IPv6 have, for a pattern of its own.
            origins=[one if one == "*" else re.compile(rf"{re.escape(one)}\Z") for one in origins],
            methods=["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE"],
            allow_headers=list(CORS_ASKED),
            expose_headers=list(CORS_SHOWN),
            max_age=CORS_HOLDS,
            send_wildcard=True,
            always_send="*" in origins,
            # Added above to every answer: also those to requests of no origin may be kept.
            vary_header=False,
            allow_private_network=False,
        )
    if settings.trusted_proxies:
        count = settings.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=count, x_proto=count, x_host=count)  # type: ignore[method-assign]
    app.wsgi_app = Edge(app.wsgi_app, settings, database)  # type: ignore[method-assign]


def _seen() -> dict[str, str]:
    """Return what is known of a request only within it; nothing that a client could hide in it."""
    found = {"request_id": g.get("request_id", "")}
    if request.url_rule is not None:
        found["route"] = _template(request.url_rule.rule)
    for name in ("player", "problem"):
        if (value := g.get(name)) is not None:
            found[name] = str(value)
    return found


@lru_cache(maxsize=256)
def _template(rule: str) -> str:
    """Return a route as the contract writes it."""
    return re.sub("<(?:[a-z]+:)?([a-z_]+)>", r"{\1}", rule)
