"""Connections and transactions: one pool a process, one function that runs and retries."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

import orjson
import psycopg
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import set_json_dumps, set_json_loads
from sqlalchemy import (
    URL,
    Boolean,
    ClauseElement,
    Connection,
    Engine,
    Uuid,
    bindparam,
    create_engine,
    event,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import QueuePool
from uuid_utils.compat import uuid7

from service.engine.errors import RendezvousError

T = TypeVar("T")

RETRY_AFTER: Final = 2
"""Seconds after which a client may ask again when the database is away."""

_ATTEMPTS: Final = 4
# Serialisation failure and deadlock: the same act may succeed the next time.
_TRY_AGAIN: Final = frozenset({"40001", "40P01"})
# How the states begin that say nothing of the act: the connection broke, the server is full, it
# is starting or stopping, it is a replica that takes no writes.
_AWAY: Final = ("08", "53", "57P", "25006")


class DatabaseUnavailableError(RendezvousError):
    """The database cannot be reached now. Whatever was acknowledged before is kept."""

    code = "database-unavailable"


def new_id() -> UUID:
    """Return a new UUIDv7; ids grow with time."""
    return UUID(bytes=uuid7().bytes)


class Instant:
    """The one instant of a request: the first ``now()`` that the database tells, kept over retries.

    Attributes:
        value: The instant, in UTC and whole ms.
        player: Whose request it is, once its token was found good.
    """

    __slots__ = ("player", "value")

    def __init__(self) -> None:
        self.value: datetime | None = None
        self.player: UUID | None = None

    def renew(self, now: datetime) -> None:
        """Take a later instant, that at which a lock was had: what was before may have changed."""
        self.value = None
        self.fix(now)

    def fix(self, now: datetime) -> datetime:
        """Return the request's instant, which this one becomes if it is the first."""
        if self.value is None:
            self.value = now - timedelta(microseconds=now.microsecond % 1000)
        return self.value


# Standings are JSON that is read and written by the page.
set_json_loads(orjson.loads)
set_json_dumps(orjson.dumps)

_UTC: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z"})
_DRIVER: Final = "postgresql+psycopg"
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

    def __init__(
        self, url: str, *, pool_size: int = 5, timeout: float = 5.0, prepare: bool = True
    ) -> None:
        """Prepare a pool; nothing is connected before it is needed.

        Args:
            url: A SQLAlchemy URL of the driver psycopg, or one that begins ``postgres://`` or
                ``postgresql://``.
            pool_size: Most connections that this process holds.
            timeout: Seconds that a connection, or a place in the pool, is waited for.
            prepare: Whether the server may keep statements prepared. A PgBouncer in transaction
                mode hands each statement to another of its connections, so before its version
                1.21 it must not.

        Raises:
            ValueError: It is no URL of a Postgres database.
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
                # A server whose machine is gone is met in seconds, not when TCP gives up.
                "tcp_user_timeout": int(1000 * max(2, timeout)),
                **({} if prepare else {"prepare_threshold": None}),
            },
        )

        event.listen(self.engine, "connect", _tell_in_utc)

    def run(self, act: Callable[[Connection], T], *, transaction: bool = False) -> T:
        """Return what an act gives, tried again where that is safe and may help.

        The act may be run several times, with one instant, that of its Instant. A transaction is
        done once all the same: where the connection broke at its commit, it is found out whether it
        was done, and what is returned is what it gave then. Without one, doing it twice must be
        doing it once: ids are drawn before it, updates are guarded.

        Args:
            act: Takes a connection. Never commits.
            transaction: Whether its statements form one transaction; else each is its own.

        Raises:
            DatabaseUnavailableError: The database cannot be reached.
        """
        last: Exception | None = None
        mark, given = new_id(), None
        for attempt in range(_ATTEMPTS):
            try:
                with self.engine.connect() as connection, _discarding(connection):
                    if not transaction:
                        return act(connection)
                    connection.execution_options(isolation_level="READ COMMITTED")
                    with connection.begin():
                        # Waits for the commit that broke, if it is still under way.
                        if given is not None and not _mark(connection, mark, again=True):
                            return given[0]
                        found = act(connection)
                        if given is None:
                            _mark(connection, mark, again=False)
                        given = (found,)
                    return found
            except PoolTimeoutError as error:
                raise DatabaseUnavailableError("all connections are busy") from error
            except (DBAPIError, psycopg.Error) as error:
                cause = error.orig if isinstance(error, DBAPIError) else error
                state = getattr(cause, "sqlstate", None)
                if _is_away(cause):
                    # What ended this connection has most likely ended the others too.
                    self.engine.dispose()
                    if attempt:
                        raise DatabaseUnavailableError(
                            f"the database cannot be reached: {cause}"
                        ) from error
                elif state in _TRY_AGAIN:
                    last = error
                    time.sleep(0.01 * 2**attempt)
                else:
                    _leave_out_row(error, cause)
                    raise
        raise DatabaseUnavailableError("too many others change the same rows") from last

    def now(self) -> datetime:
        """Return the database's clock, in UTC."""
        found: datetime = self.run(lambda one: one.execute(select(func.now())).scalar_one())
        return found

    def in_use(self) -> int:
        """Return how many connections are in use now."""
        pool = self.engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    def dispose(self) -> None:
        """Close all connections that are not in use."""
        self.engine.dispose()


def _mark(connection: Connection, mark: UUID, *, again: bool) -> bool:
    """Write the mark of an act, by which it is found to be done; return whether it was not there.

    Args:
        connection: In the act's transaction.
        mark: A UUIDv7 of the act's own.
        again: Whether the act is yet to be done again; else it is not marked if it wrote nothing.
    """
    old = UUID(int=mark.int - _MARKS_KEPT)
    return _MARK.on(connection, mark=mark, again=again, old=old).fetchone() is not None


# A day, as the ms of which a UUIDv7 begins: a mark is asked for within seconds.
_MARKS_KEPT: Final = 24 * 60 * 60 * 1000 << 80
# Each takes some old ones with it, so that they never pile up.
_MARK: Final = Statement(
    text("""
WITH cleared AS (
    DELETE FROM acts WHERE id IN (
        SELECT id FROM acts WHERE id < :old ORDER BY id LIMIT 4 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO acts (id) SELECT :mark
WHERE :again OR pg_current_xact_id_if_assigned() IS NOT NULL
ON CONFLICT DO NOTHING RETURNING id
""").bindparams(
        bindparam("old", type_=Uuid()),
        bindparam("mark", type_=Uuid()),
        bindparam("again", type_=Boolean()),
    )
)


class _InUtc(TimestamptzLoader):
    """Instants in UTC: arithmetic in a zone with clock changes is that of its wall clocks."""

    def load(self, data: Any) -> Any:
        return super().load(data).astimezone(UTC)


def _tell_in_utc(driver: psycopg.Connection[Any], _: object) -> None:
    if driver.info.parameter_status("TimeZone") not in _UTC:
        driver.adapters.register_loader("timestamptz", _InUtc)


@contextmanager
def _discarding(connection: Connection) -> Iterator[None]:
    """Keep a connection that broke under the driver's hands out of the pool."""
    try:
        yield
    except psycopg.Error as error:
        if _is_away(error):
            connection.invalidate(error)
        raise


def _is_away(error: BaseException | None) -> bool:
    """Whether an error of the driver tells that the database is away, not that the act is wrong."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return str(state).startswith(_AWAY)


def _leave_out_row(*errors: BaseException | None) -> None:
    """Cut texts to their first line: after it Postgres shows the row, and that holds a seed."""
    for error in errors:
        if isinstance(error, Exception) and error.args:
            error.args = (str(error.args[0]).partition("\n")[0], *error.args[1:])


def _with_driver(url: str) -> URL:
    scheme, _, rest = url.partition("://")
    try:
        if scheme in {"postgres", "postgresql", _DRIVER}:
            return make_url(f"{_DRIVER}://{rest}")
    except (ArgumentError, ValueError):
        pass
    # It is not told back: it may hold a password.
    raise ValueError("not of the form postgresql://user:password@host:5432/name")
