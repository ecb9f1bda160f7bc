"""What the supervisor and its processes have in common: ports, and how those begin and end."""

import errno
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

_PORT_WITHIN: Final = 3.0
_PORT_PULSE: Final = 0.1
_PULSE: Final = 0.5
_BACKLOG: Final = 2048


def listen(host: str, port: int, stopped: Callable[[], bool] = lambda: False) -> socket.socket:
    """Return a socket that listens at an address.

    A port that is taken is waited for a little: a server that was killed lets go of it in seconds.

    Args:
        host: The host.
        port: The port; 0 for any that is free.
        stopped: Whether to wait no longer.

    Raises:
        OSError: One cannot listen there.
    """
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
            if error.errno != errno.EADDRINUSE or stopped() or time.monotonic() > until:
                raise
        time.sleep(_PORT_PULSE)


def begin(parent: int) -> str:
    """Return the database's URL once it is told; from now on end when the parent has.

    Args:
        parent: The number of the process that started this one, which may be gone before this one
            can ask for it. It writes one line to this one's standard input: the database's URL,
            once that can be reached.

    Raises:
        SystemExit: It has ended, or given up, without a word.
    """
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    url = sys.stdin.readline().strip()
    if not url:
        sys.exit(0)
    return url


def _end_with(parent: int) -> None:
    """End this process in an orderly way when the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(_PULSE)
    os.kill(os.getpid(), signal.SIGTERM)
