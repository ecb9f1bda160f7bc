"""Start: how long `rendezvous serve` takes until it is ready to answer."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bench import rig


@dataclass(frozen=True, slots=True)
class Report:
    """Seconds from the command to the first 200 of `/readyz`, round by round.

    Attributes:
        fresh: Without any data: a database is made first.
        existing: With the data of an earlier run.
    """

    fresh: list[float]
    existing: list[float]


def measure(rounds: int, step: Callable[[], None]) -> Report:
    """Start the service on a new home, and again on the same.

    Args:
        rounds: How many new homes.
        step: Called after each start, so twice in a round.
    """
    report = Report([], [])
    for _ in range(rounds):
        with rig.new_home() as home:
            for times in (report.fresh, report.existing):
                begin = time.monotonic()
                with rig.Service(home) as service:
                    times.append(service.ready_at - begin)
                step()
    return report
