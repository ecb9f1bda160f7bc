"""Runs the migrations: on the connection given, or on the database of ``DATABASE_URL``."""

from alembic import context
from sqlalchemy import Connection

from service.store.schema import LOCK_TIMEOUT
from service.store.tables import metadata


def run(connection: Connection) -> None:
    # Better to fail than to queue every request behind a lock that waits.
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    context.configure(connection=connection, target_metadata=metadata, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
