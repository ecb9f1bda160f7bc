"""What the supervisor's processes have in common: they are told the database, and end with it."""

import os
import signal
import sys
import threading
import time
from typing import Final

_PULSE: Final = 0.5


def begin(parent: int) -> str:
    """Return the database's URL once it is told; from now on end when the parent has.

    Args:
        parent: The number of the process that started this one, which may be gone before this one
            can ask for it. It writes one line to this one's standard input: the database's URL,
            once that can be reached.
    """
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    return sys.stdin.readline().strip()


def _end_with(parent: int) -> None:
    """End this process in an orderly way when the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(_PULSE)
    os.kill(os.getpid(), signal.SIGTERM)
