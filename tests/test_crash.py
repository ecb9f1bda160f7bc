"""Nothing that was acknowledged is lost when processes end in mid-load, killed or stopped."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_was_acknowledged_outlives_workers_postgres_and_the_whole_service() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.crash", "--rounds", "1", "--seconds", "0.3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for line in (
        "a worker killed",
        "Postgres killed",
        "Postgres stopped",
        "the service stopped",
        "all killed",
        "attempts, and its standings",
        "0 at fault",
        "Nothing was lost.",
    ):
        assert line in done.stdout
