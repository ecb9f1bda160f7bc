"""The processes that answer requests: gunicorn's master and its workers."""

import errno
import logging
import os
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.http.errors import ParseException
from gunicorn.http.unreader import SocketUnreader
from gunicorn.workers.gthread import _DEFER, TConn, ThreadWorker
from werkzeug.exceptions import RequestTimeout

from service import child, metrics, signatures
from service.api.edge import LOGGING
from service.app import create_app
from service.settings import Settings
from service.signatures import KeysError, SigningKeys
from service.store import schema
from service.store.database import Database, DatabaseUnavailableError

_ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})

_SILENCE: Final = 20
"""Seconds that a client may be silent within a request, or take nothing of its answer."""

_REQUEST: Final = 30.0
"""Seconds that a whole request may take to come, from its first byte on ..."""

_SLOWEST: Final = 1 << 16
"""... and one more for each so many bytes of it."""

_LEFTOVERS: Final = 1.0
"""Seconds for the rest of a body that nobody wants, before its connection ends ..."""

_LEFTOVER_BYTES: Final = 1 << 20
"""... and its most bytes."""


class Worker(ThreadWorker):  # type: ignore[misc] # gunicorn is untyped
    """gunicorn's worker, held up by nobody for long.

    gunicorn keeps a thread for a client that connects and sends nothing yet; waits without end
    for one that is gone in the middle of a request, or sends it byte by byte; and to end a
    connection it waits, in the one loop that all connections need, for the client to end it too.
    """

    signalled: "SimpleQueue[int]"
    """The signals that came to this process before it listened to any."""

    def init_process(self) -> None:
        """Leave clients that fell silent out of the log of errors."""
        self.log.error_log.addFilter(_is_no_silence)
        super().init_process()

    def init_signals(self) -> None:
        """Listen to signals; one to end that came since the fork was met by gunicorn's ears."""
        super().init_signals()
        with suppress(Empty):
            while True:
                if self.signalled.get_nowait() in _ENDING:
                    self.alive = False

    def handle(self, conn: TConn) -> Any:
        """Answer a request and return whether its connection goes on."""
        if not conn.initialized:
            if not conn.wait_for_data(0):
                return _DEFER
            limit = struct.pack("ll", _SILENCE, 0)
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            conn.init()
            conn.parser.unreader = _Unreader(conn.sock)
        conn.parser.unreader.begin()
        goes_on = super().handle(conn)
        if not goes_on:
            _end(conn)
        return goes_on


class _Unreader(SocketUnreader):  # type: ignore[misc]
    """Reads requests from a socket, each of which has to come in time."""

    _waits = 0.0

    def begin(self) -> None:
        """Have a request come from now on."""
        self.until = time.monotonic() + _REQUEST
        self._wait(_SILENCE)

    def _wait(self, seconds: float) -> None:
        """Wait so long for what comes next."""
        if seconds != self._waits:
            self._waits = seconds
            limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6) + 1)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Return what comes next.

        Raises:
            BlockingIOError: It does not come in time.
        """
        left = self.until - time.monotonic()
        if left <= 0:
            raise BlockingIOError(errno.EAGAIN, "the request is too slow")
        self._wait(min(left, _SILENCE))
        found: bytes = super().chunk(size_hint)
        self.until += len(found) / _SLOWEST
        return found


def _is_no_silence(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], BlockingIOError))


def _end(conn: TConn) -> None:
    """Close both ways; what came and nobody read goes first, or it would cut off the answer."""
    with suppress(Exception):  # whatever is wrong with it, it is over
        conn.parser.finish_body(time.monotonic() + _LEFTOVERS, _LEFTOVER_BYTES)
        conn.sock.recv(1 << 16, socket.MSG_DONTWAIT)
    with suppress(OSError):
        conn.sock.shutdown(socket.SHUT_RDWR)


class Server(BaseApplication):  # type: ignore[misc]
    """gunicorn, configured by our settings alone."""

    def __init__(
        self,
        settings: Settings,
        listener: int | None = None,
        signing: SigningKeys | None = None,
        counted: socket.socket | None = None,
    ) -> None:
        """Prepare to serve.

        Args:
            settings: The settings.
            listener: Descriptor of a socket that listens already; without it the address of the
                settings is bound when the server runs.
            signing: Keys that sign results, the same ones in every worker.
            counted: Socket at which they tell what they count, if they do.
        """
        self.settings = settings
        self.signing = signing
        self.counted = counted
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.address = f"{host}:{settings.port}" if listener is None else f"fd://{listener}"
        super().__init__()

    def load_config(self) -> None:
        """Set what differs from gunicorn's defaults."""
        settings = self.settings
        options: dict[str, Any] = {
            "bind": [self.address],
            "workers": settings.workers,
            "threads": settings.threads,
            "worker_class": Worker,
            # Clients keep their connections; proxies in front close theirs earlier.
            "keepalive": 75,
            "graceful_timeout": 20,
            "timeout": 60,
            "preload_app": True,
            # It waits without end for a client that does not read.
            "sendfile": False,
            # Its socket in the home folder collides between two servers.
            "control_socket_disable": True,
            "loglevel": "warning",
            "forwarded_allow_ips": "*" if settings.trusted_proxies else "127.0.0.1,::1",
            "post_fork": self._begin_worker,
        }
        if settings.log == "json":
            options["logconfig_dict"] = LOGGING
        if self.counted is not None:
            options["child_exit"] = self._forget_worker
        for name, value in options.items():
            self.cfg.set(name, value)

    def _begin_worker(self, arbiter: Any, worker: Worker) -> None:
        worker.signalled = arbiter.SIG_QUEUE
        if self.counted is not None:
            metrics.tell(self.counted)

    def _forget_worker(self, _arbiter: Any, worker: Any) -> None:
        metrics.forget(worker.pid)

    def load(self) -> Flask:
        """Return the application; connections are made by each worker when it first needs one."""
        settings = self.settings
        database = Database(
            settings.database_url, pool_size=settings.threads, prepare=settings.prepares
        )
        app = create_app(settings, database, self.signing)
        inner = app.wsgi_app

        def outer(environ: dict[str, Any], start_response: Any) -> Any:
            environ["wsgi.input"] = _Body(environ["wsgi.input"])
            return inner(environ, start_response)

        app.wsgi_app = outer  # type: ignore[method-assign]
        return app


class _Body:
    """A request's body. What is wrong with it is an error of reading, not of ours."""

    def __init__(self, body: Any) -> None:
        self.body = body

    def read(self, size: int = -1) -> bytes:
        try:
            found: bytes = self.body.read(size)
        except BlockingIOError as error:
            raise RequestTimeout("it did not come in time") from error
        except ParseException as error:
            raise OSError(str(error)) from error
        return found


def _prepare(settings: Settings, schema_is_to: str) -> None:
    """Bring the database's schema to head, or see that it is there, or leave that to others.

    Raises:
        ValueError: The database's URL is none.
        SchemaError: The schema is not at head, or cannot be brought there.
        DatabaseUnavailableError: The database cannot be reached.
    """
    try:
        database = Database(settings.database_url, prepare=settings.prepares)
    except ValueError as error:
        raise ValueError(f"DATABASE_URL is {error}") from error
    try:
        if schema_is_to == "upgrade":
            schema.upgrade(database.engine)
        elif schema_is_to == "check":
            database.run(schema.check)
    finally:
        database.dispose()


def _signing_keys(settings: Settings) -> SigningKeys:
    """Return the keys that sign; those of the embedded database are made once.

    Raises:
        KeysError: There are none, and none to be made.
    """
    file = settings.signing_keys_file
    if file is None:
        raise KeysError(
            "results are signed, and with DATABASE_URL all processes must share the keys: "
            "set SIGNING_KEYS to a file; `rendezvous keys make` makes it"
        )
    if not settings.signing_keys:
        signatures.make(file)
    return SigningKeys.load(file)


def _metrics_port(settings: Settings) -> socket.socket | None:
    """Return a socket that listens for those who ask what is counted, if there is to be one.

    Raises:
        OSError: One cannot listen there.
    """
    host, port = settings.metrics_host, settings.metrics_port
    if not port:
        return None
    try:
        return child.listen(host, port)
    except OSError as error:
        raise OSError(
            f"cannot listen at METRICS_PORT {port} of {host}: {error.strerror}"
        ) from error


def main() -> None:
    """Serve until told to stop, or until the process that started this one is gone.

    Arguments: what to do first about the database's schema, `upgrade`, `check` or `leave`; the
    descriptor of a socket that listens; and the number of the process that started this one. See
    :func:`service.child.begin`. Exits with `EX_CONFIG` if it cannot start and has said why.
    """
    schema_is_to, listener, parent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.argv = ["rendezvous"]
    url = child.begin(parent)
    given = Settings.from_environment()
    settings = replace(given, database_url=url)
    try:
        _prepare(settings, schema_is_to)
        signing = _signing_keys(given)
        counted = _metrics_port(given)
    except (ValueError, OSError, KeysError, schema.SchemaError, DatabaseUnavailableError) as error:
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(os.EX_CONFIG)
    Server(settings, listener, signing, counted).run()


if __name__ == "__main__":
    main()
