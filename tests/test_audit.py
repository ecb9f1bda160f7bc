"""The audit: it finds every kind of damage to a stored game, and none in sound ones."""

import re
import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from client import Client, Contract, Person, expect
from server import new_database
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from service import audit as audits
from service.app import create_app
from service.audit import audit
from service.engine import RULESETS
from service.server_cli import COMMANDS
from service.settings import Settings
from service.store import schema
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres
from service.store.tables import games

Json = dict[str, Any]


@pytest.fixture(scope="module")
def database(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """A database of these tests' own: damage in it harms no others."""
    with new_database(postgres) as url:
        database = Database(url)
        schema.upgrade(database.engine)
        yield database
        database.dispose()


@pytest.fixture(scope="module")
def ada(database: Database) -> Person:
    """A player in it."""
    app = create_app(Settings(rate_limits="off"), database)
    return Client(app, Contract(app)).register("Ada")


@pytest.fixture(autouse=True)
def _no_games(database: Database) -> None:
    database.run(lambda one: one.execute(games.delete()))


def faults(database: Database) -> dict[str, str]:
    """Return what the audit finds, by the game's id."""
    found = {}
    for game, fault in audit(database):
        if fault is not None:
            assert fault.game == game
            found[str(game)] = fault.detail
    return found


def damage(database: Database, game: Json, change: str) -> None:
    """Change a row behind the service's back."""
    query = text(f"UPDATE games SET {change} WHERE id = :id")  # noqa: S608
    assert database.run(lambda one: one.execute(query, {"id": game["id"]})).rowcount == 1


def resigned(ada: Person) -> Json:
    return expect(ada.act(in_play(ada), "resign"))


def in_play(ada: Person, seed: str = "royal") -> Json:
    return ada.play(ada.create(seed), 2)


def run(database: Database, *args: str, **settings: str) -> Result:
    url = database.engine.url.render_as_string()
    return CliRunner().invoke(COMMANDS["audit"], args, env={"DATABASE_URL": url, **settings})


def test_sound_games_are_sound(ada: Person, database: Database) -> None:
    for ruleset in RULESETS:
        for seed in ("royal", None):
            ada.create(seed, ruleset)
            game = ada.play(ada.create(seed, ruleset), 5, choose=-1)
            if seed:
                game = expect(ada.act(game, "undo"))
            expect(ada.act(ada.move(game, game["legal_moves"][0]), "resign"))
    lost = ada.play(ada.create("royal"))
    ada.create("0007", spec="pysol-1")

    result = run(database)

    assert lost["status"] == "lost"
    assert faults(database) == {}
    assert result.exit_code == 0
    assert result.stdout == f"{len(RULESETS) * 4 + 2} games checked, 0 at fault\n"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("log = set_byte(log, 0, 255)", "does not replay"),
        ("log = set_byte(log, 0, get_byte(log, 1))", "does not replay"),
        ("log = substr(log, 2), ply = ply - 1", "times are not those of 2"),
        ("log = substr(log, 1, 2), ply = 2", "times are not those of 2"),
        (r"log = substr(log, 1, 2), ply = 2, times = '\x0000'", "status is resigned"),
        ("log = log || substr(log, 3), ply = 4", "does not replay"),
        ("status = 'won'", "status is won, the log gives resigned"),
        ("status = 'timed-out'", "status is timed-out, the log gives resigned"),
        ("score = score + 1", r"score is \d+, the log gives \d+"),
        ("score = -1", r"score is -1, the log gives \d+"),
        ("status = NULL, score = NULL, ended_at = NULL", "status is None, the log gives resigned"),
        ("ended_at = ended_at + interval '1 millisecond'", "ended_at is not the instant"),
        ("ended_at = ended_at + interval '1 microsecond'", "ended_at is not the instant"),
        ("ended_at = created_at + interval '7000 years'", "ended_at is not"),
        ("ended_at = 'infinity'", "cannot be read"),
        ("created_at = created_at - interval '1 second'", "ended_at is not the instant"),
        ("created_at = '-infinity'", "cannot be read"),
        ("times = ''", "times are not those of 3"),
        ("times = substr(times, 2)", "times are not those of 3"),
        (r"times = times || '\x05'", "times are not those of 3"),
        (r"times = times || '\x80'", "times are not those of 3"),
        (r"times = '\x80' || times", "times are not those of 3"),
        (r"times = decode(repeat('ff', 400), 'hex')", "times are not those of 3"),
        (r"times = '\x0000' || decode(repeat('ff', 4000), 'hex') || '\x7f'", "ended_at is not"),
        ("seed = 'regal'", "does not replay"),
        ("seed = ''", "does not replay"),
        ("seed = 'a seed'", "does not replay"),
        ("spec = 'pysol-1'", "does not replay"),
        ("spec = 'deal-2'", "does not replay.*deal-2"),
        ("spec = 'pysol-1', seed = '007'", "not in the form"),
        ("ruleset = 'whist-1'", "does not replay.*whist-1"),
        ("ruleset = 'blockade-1'", "does not replay"),
        ("hidden = true", "none that the server draws"),
        ("hidden = true, seed = repeat('AB', 32)", "does not replay|none that the server draws"),
    ],
)
def test_damage_to_a_finished_game_is_found(
    ada: Person, database: Database, change: str, told: str
) -> None:
    game, _, _ = resigned(ada), resigned(ada), in_play(ada)
    assert faults(database) == {}

    damage(database, game, change)

    found = faults(database)
    assert list(found) == [game["id"]]
    assert re.search(told, found[game["id"]])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("log = set_byte(log, 1, get_byte(log, 0))", "does not replay"),
        ("log = substr(log, 1, 1), ply = 1", "times are not those of 1"),
        ("status = 'lost', score = 14, ended_at = now()", "status is lost, the log gives None"),
        ("times = times || times", "times are not those of 2"),
        ("hidden = true", "none that the server draws"),
        ("seed = 'regal'", "does not replay"),
    ],
)
def test_damage_to_a_game_in_play_is_found(
    ada: Person, database: Database, change: str, told: str
) -> None:
    game, _ = in_play(ada), resigned(ada)

    damage(database, game, change)

    found = faults(database)
    assert list(found) == [game["id"]]
    assert re.search(told, found[game["id"]])


def test_an_undo_in_a_game_that_is_said_to_be_hidden_is_found(
    ada: Person, database: Database
) -> None:
    game = expect(ada.act(in_play(ada, "ab" * 32), "undo"))

    damage(database, game, "hidden = true")

    assert "does not replay" in faults(database)[game["id"]]


@pytest.mark.parametrize(
    "change",
    [
        "ply = ply + 1",
        "log = log || '\\x00'",
        "log = ''",
        "ended_at = created_at - interval '1 second'",
        "ended_at = NULL",
        "status = NULL",
        "score = NULL",
        "status = 'paused'",
        "player_id = gen_random_uuid()",
        "times = NULL",
    ],
)
def test_what_makes_no_sense_is_refused_by_the_table(
    ada: Person, database: Database, change: str
) -> None:
    game = resigned(ada)

    with pytest.raises(IntegrityError):
        damage(database, game, change)

    assert faults(database) == {}


class TestCommand:
    def test_it_lists_the_faults_and_ends_with_1(self, ada: Person, database: Database) -> None:
        games = [resigned(ada) for _ in range(3)]
        damage(database, games[0], "score = 99")
        damage(database, games[2], "ended_at = 'infinity'")

        result = run(database)

        assert result.exit_code == 1
        assert result.stdout.splitlines() == [
            f"{games[0]['id']}: score is 99, the log gives {games[0]['score']}",
            f"{games[2]['id']}: the row cannot be read",
            "3 games checked, 2 at fault",
        ]

    def test_progress_is_shown_where_somebody_watches(
        self, ada: Person, database: Database
    ) -> None:
        resigned(ada)

        shown = run(database, FORCE_COLOR="1")
        quiet = run(database, "--quiet", FORCE_COLOR="1")
        unwatched = run(database)

        assert "auditing" in shown.stderr
        assert "100%" in shown.stderr
        assert quiet.stderr == unwatched.stderr == ""
        assert shown.stdout == quiet.stdout == "1 games checked, 0 at fault\n"

    def test_it_needs_the_schema(self, postgres: EmbeddedPostgres) -> None:
        with new_database(postgres) as url:
            result = CliRunner().invoke(COMMANDS["audit"], env={"DATABASE_URL": url})

        assert result.exit_code == 1
        assert "rendezvous migrate" in result.stderr


class TestPages:
    def test_every_game_is_judged_once_oldest_first(
        self, ada: Person, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = [resigned(ada)["id"] for _ in range(8)]
        damage(database, {"id": made[4]}, "ended_at = 'infinity'")

        for size in (1, 3, 4, 8, 9):
            monkeypatch.setattr(audits, "_PAGE", size)
            seen = list(audit(database))
            assert [str(game) for game, _ in seen] == made
            assert [str(game) for game, fault in seen if fault] == [made[4]]

    def test_memory_stays_flat(
        self, ada: Person, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(audits, "_PAGE", 20)
        resigned(ada)

        def peak(copies: int) -> int:
            query = text("""INSERT INTO games SELECT gen_random_uuid(), player_id, created_at,
                ended_at, ply, score, hidden, status, ruleset, spec, seed, log, times
                FROM games, generate_series(1, :copies)""")
            database.run(lambda one: one.execute(query, {"copies": copies}))
            tracemalloc.start()
            judged = sum(1 for _ in audit(database))
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert judged > copies
            return most

        peak(20)
        few, many = peak(1), peak(20)

        assert many < 2 * few

    def test_games_being_played_are_no_faults(self, ada: Person, database: Database) -> None:
        found: list[dict[str, str]] = []
        game = ada.create("royal")
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                found.append(faults(database))

        watcher = threading.Thread(target=watch)
        watcher.start()
        ada.play(game)
        done.set()
        watcher.join()

        assert len(found) > 3
        assert not any(found)
