"""Backup and restore, of a database with games in it."""

from dataclasses import replace
from pathlib import Path

import pytest
from client import Client, Contract, Json, Person, expect, problem
from hall import Host, enter, finish, organiser, start
from server import libpq, new_database, rendezvous

from service.app import create_app
from service.engine.replay import commitment
from service.settings import Settings
from service.store import backup as backups
from service.store import schema
from service.store.backup import BackupError
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres


def test_a_restored_database_serves_on(
    postgres: EmbeddedPostgres, contract: Contract, tmp_path: Path
) -> None:
    file = tmp_path / "games.dump"

    # Both are of this test's own: others damage games in the one that they share.
    with new_database(postgres) as url, new_database(postgres) as empty:
        first = Database(url)
        schema.upgrade(first.engine)
        ada = Client(create_app(Settings(rate_limits="off"), first), contract).register("Ada")
        game = ada.play(ada.create("royal"), 30)
        made = rendezvous("backup", str(file), DATABASE_URL=url)
        restored = rendezvous("restore", str(file), DATABASE_URL=empty)
        audited = rendezvous("audit", DATABASE_URL=empty)
        other = Database(empty)
        app = create_app(Settings(rate_limits="off"), other)
        again = Person(app, contract, ada.token, ada.id)
        went_on = again.move(again.read(game), again.read(game)["legal_moves"][0])
        left = ada.read(game)
        first.dispose()
        other.dispose()

    assert made.returncode == restored.returncode == audited.returncode == 0
    assert audited.stdout == "1 games checked, 0 at fault\n"
    assert went_on["ply"] == game["ply"] + 1
    assert left["ply"] == game["ply"]


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


def test_an_event_goes_on_from_a_snapshot_that_was_taken_while_it_was_played(
    postgres: EmbeddedPostgres,
    database: Database,
    client: Client,
    ada: Person,
    bea: Person,
    tmp_path: Path,
) -> None:
    host = organiser(client.register("Grace"), database)
    contest = host.tournament((0, 600, 2), limit_ms=300_000)
    for person in (ada, bea):
        enter(person, contest)
    finish(bea, contest, plies=6)
    acknowledged = ada.play(start(ada, contest), 5)
    file = tmp_path / "event.dump"

    backups.backup(database, file)
    before = seen(contest, acknowledged, client, ada, bea, host)
    went_on = ada.play(acknowledged, 3)
    lost = [command(one) for one in ada.replay(went_on)["log"][acknowledged["ply"] :]]
    finish(bea, contest, 2)
    enter(client.register("Late"), contest)
    expect(host.act(contest, "freeze"))

    with new_database(postgres) as url:
        other = Database(url)
        backups.restore(other, file)
        app = create_app(Settings(rate_limits="off"), other)
        moved: Json = {"app": app, "contract": Contract(app)}
        client, ada, bea = replace(client, **moved), replace(ada, **moved), replace(bea, **moved)
        host = replace(host, **moved, database=other)
        assert seen(contest, acknowledged, client, ada, bea, host) == before

        # A client that saw more is told where the game is, and sends again what was lost.
        stale = ada.try_moves(went_on, went_on["ply"], went_on["legal_moves"][0])
        assert problem(stale) == (409, "stale-ply")
        assert stale.get_json()["ply"] == acknowledged["ply"]
        again = acknowledged
        for one in lost:
            again = ada.move(again, one)
        assert again["reserve"] == went_on["reserve"]

        # The clock went on meanwhile, and what it took can be given back.
        host.elapse(contest, 200)
        deadline = ada.read(again)["header"]["tournament"]["deadline"]
        outage = {"kind": "extend", "round": 1, "ms": 200_000, "reason": "the machine was down"}
        expect(host.act(contest, "rulings", outage), 201)
        assert ada.read(again)["header"]["tournament"]["deadline"] == deadline + 200_000
        assert enter(client.register("Later"), contest)
        host.elapse(contest, 1000)
        opened = expect(client.get(contest["links"]["self"]))["rounds"][0]["deals"]
        for deal in opened:
            context = f"{contest['id']}/{deal['number']}"
            assert commitment(context, deal["seed"]) == deal["commitment"]
        assert [one["commitment"] for one in opened] == [
            one["commitment"] for one in contest["rounds"][0]["deals"]
        ]
        other.dispose()


def seen(
    contest: Json, game: Json, client: Client, ada: Person, bea: Person, host: Host
) -> list[Json]:
    """Return what everybody sees of an event, but for the instant at which they do."""
    at = contest["links"]["self"]
    asked = [
        *((client, at), (ada, at), (host, at), (client, f"{at}/standings")),
        *((ada, f"{at}/entries/me"), (bea, f"{at}/entries/me")),
        *((host, f"{at}/events?limit=100"), (ada, game["links"]["self"])),
    ]
    return [
        {name: value for name, value in expect(person.get(path)).items() if name != "as_of"}
        for person, path in asked
    ]


def command(entry: str) -> Json:
    """Return an entry of a log as a command."""
    origin, _, destination = entry.partition(":")
    return {"from": origin, "to": destination}
