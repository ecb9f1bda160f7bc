"""Connections and transactions: one pool a process, one function that runs and retries."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import psycopg
from sqlalchemy import ClauseElement, Connection, Engine, create_engine, func, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from service.engine.errors import RendezvousError

T = TypeVar("T")

RETRY_AFTER: Final = 2
"""Seconds after which a client may ask again when the database is away."""

_ATTEMPTS: Final = 4
# Serialisation failure and deadlock: the same act may succeed the next time.
_TRY_AGAIN: Final = frozenset({"40001", "40P01"})
# The server is starting, stopping or full: it is away, as if the connection had been refused.
_AWAY: Final = frozenset({"57P01", "57P02", "57P03", "53300"})


class DatabaseUnavailableError(RendezvousError):
    """The database cannot be reached now. Whatever was acknowledged before is kept."""

    code = "database-unavailable"


class Instant:
    """The one instant of a request: the first ``now()`` that the database tells, kept over retries.

    Attributes:
        value: The instant, in UTC and whole ms.
    """

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: datetime | None = None

    def fix(self, now: datetime) -> datetime:
        """Return the request's instant, which this one becomes if it is the first."""
        if self.value is None:
            self.value = now - timedelta(microseconds=now.microsecond % 1000)
        return self.value


_DIALECT: Final = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]


class Statement:
    """A statement written in SQLAlchemy's terms, compiled once, and run by the driver itself.

    For what every request does: measured, SQLAlchemy's own execution costs more than the driver,
    the network and Postgres together.
    """

    def __init__(self, clause: ClauseElement) -> None:
        """Compile a statement all of whose parameters are bound by name."""
        compiled = clause.compile(dialect=_DIALECT)
        self.text = str(compiled)
        self.fixed = {name: value for name, value in compiled.params.items() if value is not None}

    def on(self, connection: Connection, **parameters: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run it and return the driver's cursor, whose values are the driver's own."""
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)  # noqa: S101 - for the type checker
        return driver.execute(self.text, {**self.fixed, **parameters})


class Database:
    """A pool of connections to one Postgres database."""

    def __init__(self, url: str, *, pool_size: int = 5, timeout: float = 5.0) -> None:
        """Prepare a pool; nothing is connected before it is needed.

        Args:
            url: A SQLAlchemy URL of the driver psycopg, or one that begins ``postgres://`` or
                ``postgresql://``.
            pool_size: Most connections that this process holds.
            timeout: Seconds that a connection, or a place in the pool, is waited for.
        """
        self.engine: Engine = create_engine(
            _with_driver(url),
            # Each statement is its own transaction unless one is begun: half the round trips.
            isolation_level="AUTOCOMMIT",
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=timeout,
            # Error texts would hold seeds and token hashes.
            hide_parameters=True,
            # No ping before use, which costs a round trip: a dead connection is met below.
            pool_pre_ping=False,
            connect_args={
                "connect_timeout": max(2, int(timeout)),
                "application_name": "rendezvous",
            },
        )

    def run(self, act: Callable[[Connection], T], *, transaction: bool = False) -> T:
        """Return what an act gives, tried again where that is safe and may help.

        The act may be run several times, so it must be so written that doing it twice is doing it
        once: ids are drawn before it, updates are guarded, its instant is fixed by an Instant.

        Args:
            act: Takes a connection. Never commits.
            transaction: Whether its statements form one transaction; else each is its own.

        Raises:
            DatabaseUnavailableError: The database cannot be reached.
        """
        for attempt in range(_ATTEMPTS):
            try:
                with self.engine.connect() as connection, _discarding(connection):
                    if not transaction:
                        return act(connection)
                    connection.execution_options(isolation_level="READ COMMITTED")
                    with connection.begin():
                        return act(connection)
            except PoolTimeoutError as error:
                raise DatabaseUnavailableError("all connections are busy") from error
            except (DBAPIError, psycopg.Error) as error:
                cause = error.orig if isinstance(error, DBAPIError) else error
                state = getattr(cause, "sqlstate", None)
                away = state in _AWAY or (
                    state is None and isinstance(cause, psycopg.OperationalError)
                )
                if not away and state not in _TRY_AGAIN:
                    raise
                if attempt == _ATTEMPTS - 1 or (away and attempt):
                    raise DatabaseUnavailableError("the database cannot be reached") from error
                if not away:
                    time.sleep(0.01 * 2**attempt)
        raise AssertionError("unreachable")

    def now(self) -> datetime:
        """Return the database's clock, in UTC."""
        found: datetime = self.run(lambda one: one.execute(select(func.now())).scalar_one())
        return found

    def dispose(self) -> None:
        """Close all connections that are not in use."""
        self.engine.dispose()


@contextmanager
def _discarding(connection: Connection) -> Iterator[None]:
    """Keep a connection that broke under the driver's hands out of the pool."""
    try:
        yield
    except psycopg.OperationalError as error:
        connection.invalidate(error)
        raise


def _with_driver(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if scheme in {"postgres", "postgresql"}:
        scheme = "postgresql+psycopg"
    return f"{scheme}{separator}{rest}"
