"""The process that does what is due when nobody asks: overdue attempts, cuts, jobs, webhooks.

But for webhooks, which nobody else serves, nothing depends on it. Whoever reads a tournament or
acts on it first writes what is due there; this process does the same for those at which nobody
looks, so that who watches them is told in time. Any number of such processes may run on one
database: each thing due is written once, under the lock of its tournament, and a webhook is held by
a lease.
"""

import logging
import logging.config
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final

from service import child
from service.api import edge
from service.delivery import AT_ONCE, Deliverer
from service.settings import Settings
from service.store.database import Database, DatabaseUnavailableError
from service.tournaments import jobs, settling

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at what is due."""

_log = logging.getLogger(__name__)


class Worker:
    """What there is to do, each kind by itself: a fault of one does not keep the others waiting."""

    def __init__(self, database: Database, *, private: bool = False) -> None:
        """Prepare to do it.

        Args:
            database: The database.
            private: Whether webhooks may lead to any address.
        """
        self._database = database
        self.deliverer = Deliverer(
            database, private=private, failed=lambda what: _log.exception("%s waits", what)
        )
        self._failing: set[str] = set()
        self._away = False

    def step(self) -> bool:
        """Do some of what is due now, and return whether there may be more of it."""
        try:
            self._try("what is due", self._settle)
            self._try("webhooks", self.deliverer.step)
            more = self._try("the next job", lambda: jobs.step(self._database))
        except DatabaseUnavailableError as error:
            if not self._away:
                _log.warning("what is due waits: %s", error)
            self._away = True
            return False
        self._away = False
        return bool(more)

    def _settle(self) -> None:
        for tournament in self._database.run(settling.due):
            self._try(
                f"tournament {tournament}",
                lambda one=tournament: settling.settle(self._database, one),  # type: ignore[misc]
            )

    def _try(self, what: str, act: Callable[[], object]) -> object:
        """Return what an act gives; that it fails is logged once, until it succeeds again."""
        try:
            done = act()
        except DatabaseUnavailableError:
            raise
        # Whatever is wrong with one thing, the others are due as well.
        except Exception:  # noqa: BLE001
            if what not in self._failing:
                _log.exception("%s is left as it is", what)
            self._failing.add(what)
        else:
            self._failing.discard(what)
            return done
        return None


def main() -> None:
    """Work until told to stop, or until the process that started this one is gone.

    The argument is the number of the process that started this one. See
    :func:`service.child.begin`.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    url = child.begin(int(sys.argv[1]))
    settings = Settings.from_environment()
    if settings.log == "json":
        logging.config.dictConfig(edge.LOGGING)
    else:
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    database = Database(url, pool_size=AT_ONCE + 1, prepare=settings.prepares)
    worker = Worker(database, private=settings.webhook_private == "allow")
    more = False
    while not stop.wait(0 if more else LOOK_EVERY):
        more = worker.step()
    worker.deliverer.end()
    database.dispose()


if __name__ == "__main__":
    main()
