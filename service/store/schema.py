"""The schema's version: which one a database has, which one this code needs, and the way there."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

LOCK_TIMEOUT: Final = "5s"
# One migration at a time, whoever starts it; any number, but always this one.
_LOCK: Final = 7_265_120


class SchemaError(RuntimeError):
    """The database's schema is not the one that this code needs."""


def _scripts() -> Path:
    packaged = Path(__file__).parents[1] / "migrations"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "migrations"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_scripts()).replace("%", "%%"))
    return config


@cache
def revisions() -> tuple[str, ...]:
    """Return the revisions that this code knows, the one that it needs first."""
    scripts = ScriptDirectory.from_config(_config())
    return tuple(script.revision for script in scripts.walk_revisions())


def head() -> str:
    """Return the revision that this code needs."""
    return revisions()[0]


def current(connection: Connection) -> str | None:
    """Return the revision that a database has, or None if it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def check(connection: Connection) -> None:
    """Return if the database's schema is at head.

    Raises:
        SchemaError: It is not; the text says what to run.
    """
    found = _known(connection)
    if found != head():
        raise SchemaError(
            f"the database's schema is at {found or 'nothing'}, this version needs {head()}: "
            "run `rendezvous migrate`"
        )


def _known(connection: Connection) -> str | None:
    """Return the revision that a database has, which must be one of this code's."""
    found = current(connection)
    if found is not None and found not in revisions():
        raise SchemaError(
            f"the database's schema is at {found}, which this version does not know: it is of a "
            "newer version of the service; run that one, or downgrade the schema with it first"
        )
    return found


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the schema to a revision, or to this code's. Several at once wait for each other.

    Raises:
        SchemaError: There is no such revision, the database has one that this code lacks, or it
            refuses; nothing has changed.
    """
    _run(engine, lambda config: command.upgrade(config, revision))


def downgrade(engine: Engine, revision: str) -> None:
    """Take the schema back to a revision; ``base`` is an empty database. Raises as :func:`upgrade`.

    What a later revision added is lost.
    """
    _run(engine, lambda config: command.downgrade(config, revision))


def differences(engine: Engine) -> None:
    """Return if the schema at head is what the tables say.

    Raises:
        SchemaError: It is not; the text says where.
    """
    _run(engine, command.check)


def _run(engine: Engine, act: Callable[[Config], Any]) -> None:
    config = _config()
    manual = engine.execution_options(isolation_level="READ COMMITTED")
    try:
        with manual.begin() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            _known(connection)
            config.attributes["connection"] = connection
            act(config)
    except CommandError as error:
        raise SchemaError(str(error)) from error
    except DBAPIError as error:
        raise SchemaError(f"the schema is as it was: {error.orig}") from error
