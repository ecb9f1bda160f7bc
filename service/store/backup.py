"""Backup and restore of the whole database, by Postgres' own programs."""

import os
import shutil
import subprocess
from pathlib import Path

from sqlalchemy import inspect

from service.store.database import Database
from service.store.embedded import EmbeddedPostgresError, program


class BackupError(RuntimeError):
    """The backup could not be made or restored; the text says why."""


def backup(database: Database, file: Path) -> None:
    """Write a consistent snapshot of the database to a file, while it is in use.

    Raises:
        BackupError: There is no `pg_dump`, or it failed; no file is left.
    """
    part = file.with_name(file.name + ".part")
    try:
        _run(database, "pg_dump", "--format=custom", "--no-owner", f"--file={part}")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def restore(database: Database, file: Path) -> None:
    """Fill an empty database from a snapshot, wholly or not at all.

    Raises:
        BackupError: The database is not empty, there is no `pg_restore`, or it failed.
    """
    tables = database.run(lambda connection: inspect(connection).get_table_names())
    if tables:
        raise BackupError(f"the database is not empty: it has the tables {', '.join(tables)}")
    options = ("--single-transaction", "--exit-on-error", "--no-owner")
    _run(database, "pg_restore", *options, str(file))


def _run(database: Database, name: str, *arguments: str) -> None:
    try:
        found: Path | str | None = program(name)
    except EmbeddedPostgresError:
        found = shutil.which(name)
    if found is None:
        raise BackupError(f"{name} is needed: install Postgres' client programs")
    url = database.engine.url
    target = url.set(drivername="postgresql", password=None).render_as_string()
    # Others on the machine can read command lines, but not the environment.
    secret = {} if url.password is None else {"PGPASSWORD": url.password}
    done = subprocess.run(  # noqa: S603
        [found, f"--dbname={target}", *arguments],
        env={**os.environ, **secret},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BackupError(f"{name} failed: {done.stderr.strip()}")
