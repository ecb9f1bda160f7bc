"""The measurements run, and a short or partial run leaves the page in the docs alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.load import _undelayed

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "bench.md"


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_quick_run_prints_the_report_and_writes_nothing() -> None:
    before = PAGE.read_bytes() if PAGE.exists() else None

    done = bench("--quick", "--only", "engine")

    assert done.returncode == 0, done.stderr
    assert "Verifying a finished game, per deal alone" in done.stdout
    assert "A stored log replayed" in done.stdout
    assert "HTTP" not in done.stdout
    assert (PAGE.read_bytes() if PAGE.exists() else None) == before


def test_a_part_that_is_none_is_a_usage_error() -> None:
    done = bench("--only", "engine,weather")

    assert done.returncode == 2
    assert "weather" in done.stderr


@pytest.mark.parametrize(
    ("slow_at", "kept"),
    [
        ([], [2, 3, 10, 4, 5]),
        # Two under way together: what waits for a delayed request is delayed too.
        ([1.012], [2, 3, 4, 5]),
        ([2.001], [2, 3, 10, 5]),
        # Just before, just after, and when nothing was under way.
        ([1.992], [2, 3, 10, 5]),
        ([2.013], [2, 3, 10, 5]),
        ([1.5], [2, 3, 10, 4, 5]),
        ([1.012, 2.001, 3.0], [2, 3]),
    ],
)
def test_requests_that_the_machine_delayed_are_told_apart(
    slow_at: list[float], kept: list[int]
) -> None:
    spans = [(0.1, 0.102), (0.2, 0.203), (1.0, 1.01), (2.0, 2.004), (3.0, 3.005)]
    spans += [(1.005, 1.015)] * (1.012 in slow_at)
    work = [(second / 10, 20e-6) for second in range(40)] + [(when, 90e-6) for when in slow_at]

    found = _undelayed(spans, sorted(work))

    assert found == pytest.approx(sorted(kept))
