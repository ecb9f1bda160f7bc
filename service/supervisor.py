"""What `serve` keeps running: the server's processes and, with it, the embedded Postgres.

The supervisor listens, and the server's processes inherit its socket. So a port that is taken
shows at once, and while they are started again connections wait instead of being refused.
"""

import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Final

import click

from service.settings import Settings
from service.store.embedded import EmbeddedPostgres, EmbeddedPostgresError

_PORT_WITHIN: Final = 3.0
_STOP_WITHIN: Final = 30.0
_PULSE: Final = 0.1
_BACKLOG: Final = 2048
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
    """Starts the server's processes, keeps them and the embedded Postgres running, stops them."""

    def __init__(
        self,
        settings: Settings,
        stop: StopSignal,
        listener: socket.socket,
        postgres: EmbeddedPostgres | None,
    ) -> None:
        """Prepare to run the server on a socket that listens, and on its database."""
        self.stop = stop
        self.listener = listener
        self.postgres = postgres
        url = postgres.url if postgres else settings.database_url
        self.environment = {**os.environ, "DATABASE_URL": url}
        self.host = _LOOPBACK.get(settings.host, settings.host)
        self.port: int = listener.getsockname()[1]

    def run(self) -> None:
        """Serve until told to stop; what dies is started again.

        Raises:
            ServeError: The server ended before it was ready for the first time.
        """
        child = self._start()
        ready = False
        try:
            while not self.stop.given and child.poll() != 0:
                if child.returncode is not None:
                    if not ready:
                        raise ServeError("the server ended before it was ready: see above")
                    _say(f"the server ended with {child.returncode}; starting it again")
                    time.sleep(1)
                    child = self._start()
                if not ready and self._answers():
                    ready = True
                    host = f"[{self.host}]" if ":" in self.host else self.host
                    url = f"http://{host}:{self.port}"
                    click.echo(
                        f"Royal Rendezvous is served at {url} (docs: {url}/docs). Ctrl-C stops."
                    )
                self._keep_postgres()
                time.sleep(_PULSE)
        finally:
            self._end(child)

    def _start(self) -> subprocess.Popen[bytes]:
        descriptor = self.listener.fileno()
        # -P: no folder named `service` where it is started from takes this one's place. And a
        # session of its own: Ctrl-C is for the supervisor, which then stops it in good order.
        return subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", "-m", "service.server", str(descriptor), str(os.getpid())],
            env=self.environment,
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

    def _keep_postgres(self) -> None:
        if self.postgres is None or self.postgres.running():
            return
        _say("the embedded Postgres is gone; starting it again")
        try:
            self.postgres.start()
        except EmbeddedPostgresError as error:
            _say(f"{error}; trying again")

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        self.listener.close()
        child.terminate()
        _say("stopping ...")
        try:
            child.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)


def _say(text: str) -> None:
    click.echo(text, err=True)
