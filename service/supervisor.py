"""The command `serve`: it keeps the server's processes running and with them the embedded Postgres.

The supervisor listens, and the server's processes inherit its socket. So a port that is taken
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
from contextlib import suppress
from typing import Final, Self

import click
import gunicorn  # noqa: F401 - without it there is nothing to run

from service.settings import Settings, SettingsError, listing
from service.store.embedded import EmbeddedPostgres, EmbeddedPostgresError

_PORT_WITHIN: Final = 3.0
_STOP_WITHIN: Final = 30.0
_PULSE: Final = 0.1
_BACKLOG: Final = 2048
TOLD: Final = os.EX_CONFIG
"""The server's exit code when it cannot start and has said why."""

_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


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


def listen(settings: Settings, stop: StopSignal) -> socket.socket:
    """Return a socket that listens at the address of the settings.

    A port that is taken is waited for a little: a server that was killed lets go of it in seconds.

    Raises:
        ServeError: One cannot listen there.
    """
    host, port = settings.host, settings.port
    until = time.monotonic() + _PORT_WITHIN
    while True:
        try:
            return socket.create_server(
                (host, port),
                family=socket.AF_INET6 if ":" in host else socket.AF_INET,
                backlog=_BACKLOG,
                dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
            )
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ServeError(f"cannot listen: {error.strerror}") from error
            if stop.given or time.monotonic() > until:
                raise ServeError(f"port {port} of {host} is taken; PORT sets another") from error
        time.sleep(_PULSE)


class Supervisor:
    """Starts the server's processes, keeps them and the embedded Postgres running, stops them.

    As a context manager it starts the first server, which only gets ready, and at the end stops
    whatever runs.
    """

    def __init__(self, settings: Settings, stop: StopSignal, listener: socket.socket) -> None:
        """Prepare to run the server on a socket that listens."""
        self.settings = settings
        self.stop = stop
        self.listener = listener
        self.host = _LOOPBACK.get(settings.host, settings.host)
        self.port: int = listener.getsockname()[1]
        self.environment = dict(os.environ)
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._child = self._start("check" if self.settings.database_url else "upgrade")
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, postgres: EmbeddedPostgres | None) -> None:
        """Serve until told to stop; what dies is started again.

        Args:
            postgres: The database, running, unless the settings name one.

        Raises:
            ServeError: The server ended before it was ready for the first time.
            SystemExit: It did so and has said why.
        """
        database = postgres.url if postgres else self.settings.database_url
        child = self._child or self._start("leave")
        if not self.stop.given:  # one that waits to be told ends at once
            _tell(child, database)
        ready = False
        while not self.stop.given and child.poll() != 0:
            if child.returncode is not None:
                if child.returncode == TOLD:
                    sys.exit(1)
                if not ready:
                    raise ServeError("the server ended before it was ready: see above")
                _say(f"the server ended with {child.returncode}; starting it again")
                time.sleep(1)
                child = self._child = self._start("leave")
                _tell(child, database)
            if not ready and self._answers():
                ready = True
                host = f"[{self.host}]" if ":" in self.host else self.host
                url = f"http://{host}:{self.port}"
                click.echo(f"Royal Rendezvous is served at {url} (docs: {url}/docs). Ctrl-C stops.")
            self._keep(postgres)
            time.sleep(_PULSE)
        _say("stopping ...")
        self._end()  # while the database is still there

    def _start(self, schema: str) -> subprocess.Popen[bytes]:
        """Start the server; it will `check` the database's schema, `upgrade` it, or `leave` it."""
        descriptor = self.listener.fileno()
        # -P: no folder named `service` where it is started from takes this one's place. And a
        # session of its own: Ctrl-C is for the supervisor, which then stops it in good order.
        return subprocess.Popen(  # noqa: S603 - our own program
            [
                *(sys.executable, "-P", "-m", "service.server"),
                *(schema, str(descriptor), str(os.getpid())),
            ],
            env=self.environment,
            stdin=subprocess.PIPE,
            pass_fds=[descriptor],
            start_new_session=True,
        )

    def _answers(self) -> bool:
        """Whether the server is ready. Not by urllib, which would ask a proxy."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=1)
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
        self.listener.close()
        if self._child is None or self._child.poll() is not None:
            return
        self._child.terminate()
        try:
            self._child.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(self._child.pid, signal.SIGKILL)


def _tell(server: subprocess.Popen[bytes], database: str) -> None:
    """Tell a server its database, which it waits for."""
    if server.stdin is not None:
        with suppress(BrokenPipeError), server.stdin as pipe:  # its end is noticed soon enough
            pipe.write(f"{database}\n".encode())


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
        with listen(settings, stop) as listener, Supervisor(settings, stop, listener) as supervisor:
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
