"""The commands that look after the database and the keys; `serve` is the supervisor's."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

import click
from rich.console import Console
from rich.progress import track

from service import audit as audits
from service import players, retention, signatures, tokens
from service.settings import Settings, SettingsError
from service.store import backup as backups
from service.store import schema
from service.store.backup import BackupError
from service.store.database import Database, DatabaseUnavailableError, new_id
from service.store.embedded import EmbeddedPostgres, EmbeddedPostgresError


def _settings() -> Settings:
    try:
        return Settings.from_environment()
    except SettingsError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _told() -> Iterator[None]:
    """Tell a person what cannot be done, instead of a traceback."""
    try:
        yield
    except (
        BackupError,
        signatures.KeysError,
        schema.SchemaError,
        EmbeddedPostgresError,
        DatabaseUnavailableError,
    ) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _embedded(settings: Settings) -> Iterator[EmbeddedPostgres | None]:
    """Give the embedded Postgres, running; None where another database is set."""
    if settings.database_url:
        yield None
    else:
        with EmbeddedPostgres(settings.home_folder).shared() as postgres:
            yield postgres


@contextmanager
def _open(settings: Settings, postgres: EmbeddedPostgres | None) -> Iterator[Database]:
    try:
        url = postgres.url if postgres else settings.database_url
        database = Database(url, prepare=settings.prepares)
    except ValueError as error:
        raise click.ClickException(f"DATABASE_URL is {error}") from error
    try:
        yield database
    finally:
        database.dispose()


@contextmanager
def _database() -> Iterator[Database]:
    """Give the database of the settings."""
    settings = _settings()
    with _told(), _embedded(settings) as postgres, _open(settings, postgres) as database:
        yield database


@click.command()
@click.option("--to", "revision", help="Revision to go to.  [default: the one needed]")
@click.option("--down", is_flag=True, help="Go back to it; `base` is an empty database.")
def migrate(revision: str | None, *, down: bool) -> None:
    """Bring the database's schema to the version that this service needs.

    With --down what the later revisions added is lost.
    """
    if down and revision is None:
        raise click.UsageError("--down needs --to.")
    with _database() as database:
        if down and revision is not None:
            schema.downgrade(database.engine, revision)
        else:
            schema.upgrade(database.engine, revision or "head")
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


@click.command()
@click.option("--dry-run", is_flag=True, help="Tell what would go, and change nothing.")
def tidy(*, dry_run: bool) -> None:
    """Delete what nobody needs any more, also while the service runs.

    Players who are RETENTION_DAYS old, used no token after their first day and have no part in a
    tournament go as if they had asked for it: games that have ended stay. So do idempotency keys
    older than a day, and tokens that were revoked or expired and what was posted to webhooks more
    than 30 days ago.
    """
    settings = _settings()
    with _database() as database:
        database.run(schema.check)
        gone = retention.tidy(database, settings.retention_days, dry=dry_run)
    for number, what in (
        (gone.players, "players that never came back"),
        (gone.games, "games in play, of those and of players deleted before"),
        (gone.rows, "rows of players deleted before, of whom nothing is left"),
        (gone.keys, "idempotency keys older than a day"),
        (gone.tokens, "tokens revoked or expired more than 30 days ago"),
        (gone.deliveries, "attempts to post to webhooks made more than 30 days ago"),
    ):
        click.echo(f"{number} {what} {'would go' if dry_run else 'deleted'}")


@click.group()
def token() -> None:
    """Give, list and revoke players' tokens."""


@contextmanager
def _database_with(player: UUID) -> Iterator[Database]:
    with _database() as database:
        database.run(schema.check)
        if not database.run(partial(players.exists, player=player)):
            raise click.ClickException(f"there is no player {player}")
        yield database


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
    text, token_id, scopes = tokens.draw(), new_id(), tuple(dict.fromkeys(scopes))
    with _database_with(player) as database:
        now = database.now()
        expires = None if days is None else now + timedelta(days=days)
        database.run(
            lambda connection: players.give_token(
                connection, now, token_id, player, text, scopes, expires
            )
        )
    click.echo(text)


@token.command("list")
@click.argument("player", type=click.UUID)
def list_(player: UUID) -> None:
    """List PLAYER's tokens, without their texts."""
    with _database_with(player) as database:
        found = database.run(partial(players.tokens_of, player=player))
    # Plain lines: an id that is wrapped or cut could not be copied.
    click.echo(_line("token", ("made", "expires", "revoked", "last used"), "scopes"))
    for one in found:
        times = (one.created_at, one.expires_at, one.revoked_at, one.last_used_at)
        click.echo(_line(str(one.id), tuple(map(_when, times)), " ".join(one.scopes)))


def _line(token_id: str, times: tuple[str, ...], scopes: str) -> str:
    return "  ".join((f"{token_id:36}", *(f"{time:16}" for time in times), scopes))


def _when(instant: datetime | None) -> str:
    return "-" if instant is None else instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


@token.command("revoke")
@click.argument("token_id", metavar="TOKEN", type=click.UUID)
def revoke(token_id: UUID) -> None:
    """Revoke TOKEN, named by its id; it is refused from the next request on."""
    with _database() as database:
        database.run(schema.check)
        if not database.run(lambda connection: players.revoke_any(connection, token_id)):
            raise click.ClickException(f"there is no token {token_id}")
    click.echo("revoked")


@click.group()
def keys() -> None:
    """Make, rotate and show the keys that sign results.

    They are in the file SIGNING_KEYS; with the embedded database that is signing-keys.json in
    RENDEZVOUS_HOME unless told otherwise.
    """


def _keys_file() -> Path:
    file = _settings().signing_keys_file
    if file is None:
        raise click.ClickException("SIGNING_KEYS names the file; with DATABASE_URL it must be set")
    return file


@keys.command("make")
def make() -> None:
    """Make the file with a new key, unless it is there."""
    file = _keys_file()
    with _told():
        made = signatures.make(file)
    click.echo(f"{file}: {'made' if made else 'is there already'}")


@keys.command("rotate")
def rotate() -> None:
    """Put a new key first, which signs once the service is started again.

    The old ones stay published, so that what they signed can still be checked.
    """
    file = _keys_file()
    with _told():
        signatures.rotate(file)
    click.echo(f"{file}: a new key is first")


@keys.command("show")
def show() -> None:
    """Print the public keys as a JWK set, the one that signs first; for `verify --keys`."""
    with _told():
        published = signatures.SigningKeys.load(_keys_file()).published
    click.echo(json.dumps(published, indent=2))


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def backup(file: Path) -> None:
    """Write a snapshot of the database to FILE, also while the service runs."""
    with _database() as database:
        database.run(schema.check)
        backups.backup(database, file)
    click.echo(f"{file}: {file.stat().st_size} bytes")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def restore(file: Path) -> None:
    """Fill an empty database from FILE, a snapshot that `backup` wrote; wholly or not at all."""
    with _database() as database:
        backups.restore(database, file)
        found = database.run(schema.current)
    click.echo(f"restored; the schema is at {found}")


COMMANDS: Final[dict[str, click.Command]] = {
    "migrate": migrate,
    "audit": audit,
    "tidy": tidy,
    "token": token,
    "keys": keys,
    "backup": backup,
    "restore": restore,
}
