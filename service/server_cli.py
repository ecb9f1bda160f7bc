"""The commands that need the server's parts: serve, migrate, audit, token."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.error import URLError
from uuid import UUID

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sqlalchemy import Connection, func, select

from service import audit as audits
from service import players, tokens
from service.api.framework import new_id
from service.settings import Settings, SettingsError, listing
from service.store import schema
from service.store.database import Database, DatabaseUnavailableError, Instant
from service.store.embedded import EmbeddedPostgres, EmbeddedPostgresError
from service.store.tables import players as players_table

_READY_WITHIN: Final = 30.0
_STOP_WITHIN: Final = 30.0
_PULSE: Final = 0.5


def _settings() -> Settings:
    try:
        return Settings.from_environment()
    except SettingsError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _told() -> Iterator[None]:
    """Tell a person what the store cannot do, instead of a traceback."""
    try:
        yield
    except (schema.SchemaError, EmbeddedPostgresError, DatabaseUnavailableError) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _database() -> Iterator[Database]:
    """Give the database of the settings; an embedded one is started for as long as needed."""
    settings = _settings()
    with _told():
        if settings.database_url:
            yield Database(settings.database_url)
            return
        with EmbeddedPostgres(settings.home_folder) as postgres:
            yield Database(postgres.url)


@click.command(epilog="\b\nSettings, all from the environment:\n" + listing())
def serve() -> None:
    """Run the service until Ctrl-C.

    Without DATABASE_URL a Postgres of its own is run and brought to the schema needed. With it,
    the schema must be there: `rendezvous migrate` makes it.
    """
    settings = _settings()
    with _told():
        if settings.database_url:
            Database(settings.database_url).run(schema.check)
            _Supervisor(settings, None).run()
            return
        postgres = EmbeddedPostgres(settings.home_folder)
        launched = not postgres.running()
        postgres.start()
        try:
            database = Database(postgres.url)
            schema.upgrade(database.engine)
            database.dispose()
            _Supervisor(settings, postgres).run()
        finally:
            if launched:
                postgres.stop()


class _Supervisor:
    """Starts the server's processes, keeps them and the embedded database running, stops them."""

    def __init__(self, settings: Settings, postgres: EmbeddedPostgres | None) -> None:
        self.settings = settings
        self.postgres = postgres
        self.stopping = False
        url = postgres.url if postgres else settings.database_url
        self.environment = {**os.environ, "DATABASE_URL": url}

    def run(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        child = self._start()
        self._announce(child)
        while not self.stopping:
            if child.poll() is not None:
                if child.returncode == 0:
                    break
                click.echo(f"the server ended with {child.returncode}; starting it again", err=True)
                time.sleep(1)
                child = self._start()
            self._keep_postgres()
            time.sleep(_PULSE)
        self._end(child)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def _start(self) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C is for the supervisor, which then stops it in good order.
        return subprocess.Popen(
            [sys.executable, "-m", "service.server"], env=self.environment, start_new_session=True
        )

    def _announce(self, child: subprocess.Popen[bytes]) -> None:
        host = "127.0.0.1" if self.settings.host in {"0.0.0.0", "::"} else self.settings.host  # noqa: S104
        url = f"http://{host}:{self.settings.port}"
        until = time.monotonic() + _READY_WITHIN
        while not self.stopping and time.monotonic() < until:
            if child.poll() is not None:
                raise click.ClickException(
                    f"the server could not start on {url}; is the port taken? PORT sets another"
                )
            try:
                with urllib.request.urlopen(f"{url}/readyz", timeout=5):  # noqa: S310 - our own
                    click.echo(
                        f"Royal Rendezvous is served at {url} (docs: {url}/docs). Ctrl-C stops."
                    )
                    return
            except (URLError, OSError):
                time.sleep(0.05)

    def _keep_postgres(self) -> None:
        if self.postgres is None or self.postgres.running():
            return
        click.echo("the embedded Postgres is gone; starting it again", err=True)
        try:
            self.postgres.start()
        except EmbeddedPostgresError as error:
            click.echo(f"{error}; trying again", err=True)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        click.echo("stopping ...", err=True)
        child.terminate()
        try:
            child.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)


@click.command()
@click.option("--to", "revision", default="head", show_default=True, help="Revision to go to.")
@click.option("--down", is_flag=True, help="Go back to it; 'base' is an empty database.")
def migrate(revision: str, *, down: bool) -> None:
    """Bring the database's schema to the version that this service needs."""
    with _database() as database:
        if down:
            schema.downgrade(database.engine, revision)
        else:
            schema.upgrade(database.engine, revision)
        found = database.run(schema.current)
        click.echo(f"the schema is at {found or 'nothing'}")


@click.command()
@click.option("--quiet", is_flag=True, help="No progress bar.")
def audit(*, quiet: bool) -> None:
    """Check every stored game against its own log. Exits with 1 if any row is wrong."""
    with _database() as database:
        database.run(schema.check)
        total = database.run(audits.count)
        console = Console(stderr=True)
        checked = faults = 0
        rows = audits.audit(database)
        for _, fault in track(
            rows, "auditing", total=total, console=console, disable=quiet or not console.is_terminal
        ):
            checked += 1
            if fault is not None:
                faults += 1
                click.echo(f"{fault.game}: {fault.detail}")
    click.echo(f"{checked} games checked, {faults} at fault")
    if faults:
        sys.exit(1)


@click.group()
def token() -> None:
    """Give, list and revoke players' tokens."""


def _known(database: Database, player: UUID) -> None:
    query = select(func.count()).select_from(players_table).where(players_table.c.id == player)
    if not database.run(lambda connection: connection.execute(query).scalar_one()):
        raise click.ClickException(f"there is no player {player}")


@token.command("give")
@click.argument("player", type=click.UUID)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(tokens.SCOPES),
    help="What it is good for; may be given several times.",
)
@click.option("--days", type=click.IntRange(1, 3650), help="Days until it expires.")
def give(player: UUID, scopes: tuple[str, ...], days: int | None) -> None:
    """Give PLAYER a further token; its text is printed this once."""
    text, token_id, instant = tokens.draw(), new_id(), Instant()
    with _database() as database:
        database.run(schema.check)
        _known(database, player)

        def add(connection: Connection) -> None:
            now = instant.fix(connection.execute(select(func.now())).scalar_one())
            expires = None if days is None else now + timedelta(days=days)
            players.give_token(
                connection,
                now,
                token_id,
                player,
                text,
                tuple(dict.fromkeys(scopes)),
                expires,
            )

        database.run(add, transaction=True)
    click.echo(text)


@token.command("list")
@click.argument("player", type=click.UUID)
def list_(player: UUID) -> None:
    """List PLAYER's tokens, without their texts."""
    with _database() as database:
        database.run(schema.check)
        _known(database, player)
        found = database.run(lambda connection: players.tokens_of(connection, player))
    table = Table("token", "scopes", "made", "expires", "revoked", "last used")
    for one in found:
        times = (one.created_at, one.expires_at, one.revoked_at, one.last_used_at)
        table.add_row(str(one.id), " ".join(one.scopes), *map(_when, times))
    Console().print(table)


def _when(instant: datetime | None) -> str:
    return "" if instant is None else instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


@token.command("revoke")
@click.argument("token_id", metavar="TOKEN", type=click.UUID)
def revoke(token_id: UUID) -> None:
    """Revoke TOKEN, named by its id; it is refused from the next request on."""
    with _database() as database:
        database.run(schema.check)
        if not database.run(lambda connection: players.revoke_any(connection, token_id)):
            raise click.ClickException(f"there is no token {token_id}")
    click.echo("revoked")


COMMANDS: Final[dict[str, click.Command]] = {
    "serve": serve,
    "migrate": migrate,
    "audit": audit,
    "token": token,
}
