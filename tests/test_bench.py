"""The measurements run, and a short or partial run leaves the page in the docs alone."""

import subprocess
import sys
from pathlib import Path

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
