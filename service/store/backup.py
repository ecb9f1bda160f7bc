"""Backup and restore of the whole database, by Postgres' own programs."""

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
        _run("pg_dump", "--format=custom", "--no-owner", f"--file={part}", _url(database))
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
    target = f"--dbname={_url(database)}"
    _run("pg_restore", "--single-transaction", "--exit-on-error", "--no-owner", target, str(file))


def _url(database: Database) -> str:
    url = database.engine.url.set(drivername="postgresql")
    return url.render_as_string(hide_password=False)


def _run(name: str, *arguments: str) -> None:
    try:
        found: Path | str | None = program(name)
    except EmbeddedPostgresError:
        found = shutil.which(name)
    if found is None:
        raise BackupError(f"{name} is needed: install Postgres' client programs")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise BackupError(f"{name} failed: {done.stderr.strip()}")
