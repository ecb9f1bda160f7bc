"""The service as it is run: gunicorn's processes, on a port of this machine."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

READY_WITHIN = 30.0


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(database_url: str, **settings: str) -> Iterator[str]:
    """Run the service on this database and give its address, `http://127.0.0.1:...`.

    Args:
        database_url: A database at head.
        settings: Further variables of its environment, such as `REGISTRATION`.
    """
    port = free_port()
    given = {"DATABASE_URL": database_url, "HOST": "127.0.0.1", "PORT": str(port), **settings}
    process = subprocess.Popen(
        [sys.executable, "-m", "service.server"], env={**os.environ, **given}
    )
    try:
        address = f"http://127.0.0.1:{port}"
        _await(process, address)
        yield address
    finally:
        process.terminate()
        process.wait(READY_WITHIN)


def _await(process: subprocess.Popen[bytes], address: str) -> None:
    until = time.monotonic() + READY_WITHIN
    while process.poll() is None and time.monotonic() < until:
        try:
            if httpx.get(f"{address}/readyz", timeout=READY_WITHIN).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError(f"no service at {address}; its exit code: {process.returncode}")
