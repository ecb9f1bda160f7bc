"""Backup and restore, of a database with games in it."""

from pathlib import Path

import pytest
from client import Client, Contract, Person
from server import libpq, new_database, rendezvous

from service.app import create_app
from service.settings import Settings
from service.store import backup as backups
from service.store import schema
from service.store.backup import BackupError
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres


def test_a_restored_database_serves_on(
    postgres: EmbeddedPostgres, ada: Person, contract: Contract, tmp_path: Path
) -> None:
    game = ada.play(ada.create("royal"), 30)
    file = tmp_path / "games.dump"

    with new_database(postgres) as url:
        made = rendezvous("backup", str(file), DATABASE_URL=postgres.url)
        restored = rendezvous("restore", str(file), DATABASE_URL=url)
        audited = rendezvous("audit", DATABASE_URL=url)
        other = Database(url)
        app = create_app(Settings(rate_limits="off"), other)
        again = Person(app, contract, ada.token, ada.id)
        went_on = again.move(again.read(game), again.read(game)["legal_moves"][0])
        other.dispose()

    assert made.returncode == restored.returncode == audited.returncode == 0
    assert "0 at fault" in audited.stdout
    assert went_on["ply"] == game["ply"] + 1
    assert ada.read(game)["ply"] == game["ply"]


def test_a_database_with_tables_is_not_restored_into(
    database: Database, client: Client, tmp_path: Path
) -> None:
    client.register()
    file = tmp_path / "games.dump"
    backups.backup(database, file)

    with pytest.raises(BackupError, match="not empty"):
        backups.restore(database, file)


def test_a_broken_snapshot_leaves_the_database_empty(
    postgres: EmbeddedPostgres, database: Database, client: Client, tmp_path: Path
) -> None:
    client.register()
    file = tmp_path / "games.dump"
    backups.backup(database, file)
    file.write_bytes(file.read_bytes()[:-200])

    with new_database(postgres) as url:
        empty = Database(url)
        with pytest.raises(BackupError, match="pg_restore failed"):
            backups.restore(empty, file)
        assert empty.run(schema.current) is None
        empty.dispose()


def test_a_backup_that_fails_leaves_no_file(postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    file = tmp_path / "games.dump"
    nowhere = Database(libpq(postgres.url).replace("/postgres?", "/nowhere?"))

    with pytest.raises(BackupError, match="pg_dump failed"):
        backups.backup(nowhere, file)

    assert list(tmp_path.iterdir()) == []
