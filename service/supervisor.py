"""The command `serve`: it keeps the server's processes running and with them the embedded Postgres.

The supervisor listens, and the server's processes inherit its sockets. So a port that is taken
shows at once, and while they are started again connections wait instead of being refused.

Here nothing of the server is imported, which takes most of a second. The server's own process
does that, beside the start of Postgres; it is told the database when that can be reached.
"""

import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Final, Self

import click
import gunicorn  # noqa: F401 - without it there is nothing to run

from service import child
from service.settings import Settings, SettingsError, listing
from service.store.embedded import EmbeddedPostgres, EmbeddedPostgresError

_STOP_WITHIN: Final = 30.0
_PULSE: Final = 0.1
TOLD: Final = os.EX_CONFIG
"""The server's exit code when it cannot start and has said why."""


class ServeError(RuntimeError):
    """The service cannot start; the text says why."""


class StopSignal:
    """Whether a signal has asked this process to stop.

    It only takes note: what is under way, such as the start of a Postgres, is not left half done.
    """

    def __init__(self) -> None:
        """Take note from now on."""
        self.given = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # nohup has it outlive its terminal.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._give)

    def _give(self, *_: object) -> None:
        self.given = True


def listen(host: str, port: int, variable: str, stop: StopSignal) -> socket.socket:
    """Return a socket that listens at an address; see :func:`service.child.listen`.

    Args:
        host: The host.
        port: The port; 0 for any that is free.
        variable: Which variable of the environment sets the port.
        stop: Whether to stop waiting.

    Raises:
        ServeError: One cannot listen there.
    """
    try:
        return child.listen(host, port, lambda: stop.given)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise ServeError(f"cannot listen: {error.strerror}") from error
        raise ServeError(f"port {port} of {host} is taken; {variable} sets another") from error


class Child:
    """A process of ours; one that listens does so on a socket that the supervisor holds."""

    def __init__(
        self, module: str, listener: socket.socket | None, environment: dict[str, str]
    ) -> None:
        """Prepare to run a module of the service."""
        self._module = module
        self._descriptors = [] if listener is None else [listener.fileno()]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> None:
        """Start it; it waits to be told the database.

        Args:
            words: Its first arguments. The socket and our number follow.
        """
        # -P: no folder named `service` where it is started from takes this one's place. And a
        # session of its own: Ctrl-C is for the supervisor, which then stops it in good order.
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [
                *(sys.executable, "-P", "-m", self._module),
                *(*words, *map(str, self._descriptors), str(os.getpid())),
            ],
            env=self._environment,
            stdin=subprocess.PIPE,
            pass_fds=self._descriptors,
            start_new_session=True,
        )

    def tell(self, database: str) -> None:
        """Tell it its database."""
        if self._process is not None and self._process.stdin is not None:
            # If it has ended, that is noticed soon enough.
            with suppress(BrokenPipeError), self._process.stdin as pipe:
                pipe.write(f"{database}\n".encode())

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs, or was never started."""
        return None if self._process is None else self._process.poll()

    def ask_to_end(self) -> None:
        """Ask it to end in good order."""
        if self._process is not None and self.code is None:
            self._process.terminate()

    def end(self) -> None:
        """Return when it has ended; what does not in time is made to."""
        self.ask_to_end()
        if self._process is not None:
            try:
                self._process.wait(_STOP_WITHIN)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)


class Supervisor:
    """Starts the server's processes, keeps them and the embedded Postgres running, stops them.

    As a context manager it starts the first server, which only gets ready, and at the end stops
    whatever runs.
    """

    def __init__(
        self,
        settings: Settings,
        stop: StopSignal,
        listener: socket.socket,
        stream_listener: socket.socket,
    ) -> None:
        """Prepare to run the server and the streams, each on a socket that listens."""
        self.settings = replace(settings, stream_port=stream_listener.getsockname()[1])
        self.stop = stop
        self.port: int = listener.getsockname()[1]
        self._listeners = (listener, stream_listener)
        self.environment = {**os.environ, "STREAM_URL": self.settings.events_at}
        self._server = Child("service.server", listener, self.environment)
        # What runs beside the server once that is ready, by what it is called when it dies.
        self._beside = {
            ("the streams", "them"): Child("service.stream", stream_listener, self.environment)
        }
        if settings.worker == "on":
            self._beside["the worker", "it"] = Child("service.worker", None, self.environment)

    def __enter__(self) -> Self:
        self._server.start("check" if self.settings.database_url else "upgrade")
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, postgres: EmbeddedPostgres | None) -> None:
        """Serve, once entered, until told to stop; what dies is started again.

        Args:
            postgres: The database, running, unless the settings name one.

        Raises:
            ServeError: The server ended before it was ready for the first time.
            SystemExit: It did so and has said why.
        """
        database = postgres.url if postgres else self.settings.database_url
        if not self.stop.given:  # one that waits to be told ends at once
            self._server.tell(database)
        ready = False
        while not self.stop.given and self._server.code != 0:
            if self._server.code is not None:
                if self._server.code == TOLD:
                    sys.exit(1)
                if not ready:
                    raise ServeError("the server ended before it was ready: see above")
                _say(f"the server ended with {self._server.code}; starting it again")
                time.sleep(1)
                self._server.start("leave")
                self._server.tell(database)
            for (name, them), one in self._beside.items():
                if one.code is not None:
                    _say(f"{name} ended with {one.code}; starting {them} again")
                    time.sleep(1)
                    one.start()
                    one.tell(database)
            if not ready and self._answers():
                ready = True
                # Only now: those that start at once take longer. Who comes early waits in line.
                for one in self._beside.values():
                    one.start()
                    one.tell(database)
                url = f"http://{self.settings.reached_at}:{self.port}"
                click.echo(f"Royal Rendezvous is served at {url} (docs: {url}/docs). Ctrl-C stops.")
            self._keep(postgres)
            time.sleep(_PULSE)
        _say("stopping ...")
        self._end()  # while the database is still there

    def _answers(self) -> bool:
        """Whether the server is ready. Not by urllib, which would ask a proxy."""
        connection = http.client.HTTPConnection(
            self.settings.reached_at.strip("[]"), self.port, timeout=1
        )
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _keep(self, postgres: EmbeddedPostgres | None) -> None:
        if postgres is None or postgres.running():
            return
        _say("the embedded Postgres is gone; starting it again")
        try:
            postgres.start()
        except EmbeddedPostgresError as error:
            _say(f"{error}; trying again")

    def _end(self) -> None:
        for listener in self._listeners:
            listener.close()
        everybody = (self._server, *self._beside.values())
        for one in everybody:
            one.ask_to_end()
        for one in everybody:
            one.end()


@contextmanager
def _metrics_folder(settings: Settings) -> Iterator[None]:
    """Have a new folder in which the server's processes count, if they do."""
    if not settings.metrics_port:
        yield
        return
    with TemporaryDirectory(prefix="rendezvous-metrics-", ignore_cleanup_errors=True) as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # where prometheus_client looks
        yield


def _say(text: str) -> None:
    click.echo(text, err=True)


@click.command(epilog="\b\nSettings, all from the environment:\n" + listing())
def serve() -> None:
    """Run the service until Ctrl-C.

    Without DATABASE_URL a Postgres of its own is run and brought to the schema needed. With it,
    the schema must be there: `rendezvous migrate` makes it.
    """
    stop = StopSignal()
    try:
        settings = Settings.from_environment()
        with (
            _metrics_folder(settings),
            listen(settings.host, settings.port, "PORT", stop) as listener,
            listen(settings.host, settings.stream_port, "STREAM_PORT", stop) as streams,
            Supervisor(settings, stop, listener, streams) as supervisor,
        ):
            if settings.database_url:
                supervisor.run(None)
            else:
                with EmbeddedPostgres(settings.home_folder).shared() as postgres:
                    supervisor.run(postgres)
    except (SettingsError, ServeError, EmbeddedPostgresError) as error:
        # Ctrl-C reaches the programs that start Postgres too, and they fail of it.
        if not stop.given:
            raise click.ClickException(str(error)) from error


COMMANDS: Final[dict[str, click.Command]] = {"serve": serve}
