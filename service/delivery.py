"""Events of tournaments, posted to webhooks: some webhooks at once, each in the order of events."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from random import uniform
from typing import Final

import orjson

from service import posting, tournament_view, view
from service.store.database import Database, DatabaseUnavailableError
from service.tournaments import webhooks
from service.tournaments.feed import Happening, Mark
from service.tournaments.webhooks import Claim

AT_ONCE: Final = 8
"""Webhooks that a process delivers to at once."""
TURN: Final = 20.0
"""Seconds after which one leaves its place to another."""
_JITTER: Final = 0.2


def message(held: Claim, event: Happening) -> tuple[str, bytes]:
    """Return the id and the body of the message that tells an event.

    The id has the event's instant, too: after a database was restored another one may have its
    number.
    """
    told = {
        "type": f"tournament.{event.kind}",
        "timestamp": view.instant(event.at),
        "data": {
            "tournament": str(held.tournament),
            **tournament_view.happening(event, hosts=True),
        },
    }
    return f"{held.tournament}-{Mark.of(event.number, event.at)}", orjson.dumps(told)


class Deliverer:
    """Delivers what is due by threads of its own."""

    def __init__(self, database: Database, *, private: bool, failed: Callable[[str], None]) -> None:
        """Prepare to deliver.

        Args:
            database: The database.
            private: Whether to deliver to any address.
            failed: Is told, while an error is handled, what could not be done.
        """
        self._database = database
        self._private = private
        self._failed = failed
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._under_way: set[Future[None]] = set()
        self._ending = False

    def step(self) -> int:
        """Begin to deliver to webhooks for which something is due; return to how many."""
        self._under_way = {one for one in self._under_way if not one.done()}
        free = AT_ONCE - len(self._under_way)
        if not free:
            return 0
        claims = self._database.run(partial(webhooks.claim, most=free), transaction=True)
        self._under_way |= {self._pool.submit(self._deliver, one) for one in claims}
        return len(claims)

    def wait(self) -> None:
        """Return when what is under way is done."""
        for one in self._under_way:
            one.result()

    def end(self) -> None:
        """Deliver no more, and return when what is being sent is through."""
        self._ending = True
        self._pool.shutdown()

    def _deliver(self, held: Claim) -> None:
        try:
            self._take_turn(held)
        except DatabaseUnavailableError:
            return  # the next step meets the same, and tells it
        # Whatever is wrong with one webhook, its lease ends and the others are served.
        except Exception:  # noqa: BLE001
            self._failed(f"webhook {held.id}")

    def _take_turn(self, held: Claim) -> None:
        until = time.monotonic() + TURN
        last: int | None = None
        while not self._ending and time.monotonic() < until:
            found = self._database.run(partial(webhooks.following, held=held))
            if found is None:
                break
            event, last = found
            if event is None:
                break
            name, body = message(held, event)
            outcome = posting.post(
                held.url, held.secret, name, datetime.now(UTC), body, private=self._private
            )
            write = partial(
                webhooks.record,
                held=held,
                number=event.number,
                outcome=outcome,
                jitter=uniform(0, _JITTER),  # noqa: S311
            )
            goes_on = self._database.run(write, transaction=True)
            if goes_on is None:
                return
            held, last = goes_on, None
        self._database.run(partial(webhooks.release, held=held, last=last), transaction=True)
