"""A made field for trials: games by the rules, standings as from scratch, faults told."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from server import environment, libpq, new_database

from bench.field import Field, FieldError, make, steps, verify, verify_steps
from service.store import schema
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database of its own, at head."""
    with new_database(postgres) as found:
        database = Database(found)
        schema.upgrade(database.engine)
        database.dispose()
        yield found


@pytest.fixture(scope="module")
def field(url: str) -> Field:
    """A small field."""
    done: list[None] = []

    found = make(url, 12, 2, 5, lambda: done.append(None))

    assert len(done) == steps(12, 2)
    return found


def execute(url: str, query: str) -> None:
    with psycopg.connect(libpq(url)) as connection:
        connection.execute(query)


def test_all_its_games_verify_and_its_standings_are_those_from_scratch(
    url: str, field: Field
) -> None:
    done: list[None] = []

    judged = verify(url, field.tournament, lambda: done.append(None))

    assert judged == 12 * 2 + 5
    assert len(field.open) == 5
    assert len(done) == verify_steps(12)


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        (
            "UPDATE games SET score = score - 1 WHERE ended_at IS NOT NULL",
            "UPDATE games SET score = score + 1 WHERE ended_at IS NOT NULL",
        ),
        (
            "UPDATE tournament_standings SET key = key || '\\x00'",
            "UPDATE tournament_standings SET key = substr(key, 1, length(key) - 1)",
        ),
    ],
)
def test_what_does_not_follow_from_the_logs_is_told(
    url: str, field: Field, broken: str, mended: str
) -> None:
    execute(url, broken)

    with pytest.raises(FieldError):
        verify(url, field.tournament, lambda: None)

    execute(url, mended)
    verify(url, field.tournament, lambda: None)


def test_the_command_says_loudly_that_nobody_plays_these(url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.field", "--entries", "3", "--deals", "1"],
        cwd=ROOT,
        env=environment(DATABASE_URL=url),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "FOR TRIALS ONLY" in done.stderr
    assert "3 games verified" in done.stdout
