"""The program ``rendezvous`` for tests: run, watched in a terminal, and its processes found."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("rendezvous")


def program(
    *arguments: str | Path, typed: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the program itself, with these variables set."""
    return subprocess.run(
        [PROGRAM, *arguments],
        input=typed,
        capture_output=True,
        env={**os.environ, "COLUMNS": "80", **environment},
        timeout=60,
        check=False,
    )


def watch(
    arguments: Sequence[str | Path], typed: bytes = b"", **environment: str
) -> tuple[str, int]:
    """Run the program in a terminal of 80 by 24; return what it wrote there and its end."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}
    }
    variables |= {"TERM": "xterm-256color", **environment}
    with subprocess.Popen(
        [PROGRAM, *arguments], stdin=its, stdout=its, stderr=its, env=variables
    ) as process:
        os.close(its)
        os.write(ours, typed)
        written = b""
        with suppress(OSError):
            while some := os.read(ours, 65536):
                written += some
        os.close(ours)
    return written.decode(), process.returncode


def judging_children(parent: int) -> list[int]:
    """Return the processes that this one started to judge documents."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something has become so."""
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
