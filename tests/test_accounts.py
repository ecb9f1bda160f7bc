"""What players do with their accounts: mint and revoke tokens, take a name, export, leave."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.client import IncompleteRead
from secrets import token_hex
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from client import Client, Contract, Json, Person, expect, problem, told, unknown_id
from documents import header, played
from hall import enter, finish, organiser
from server import await_, libpq, new_database, running
from sqlalchemy import Column, Table, Text, select, text
from test_players import cells, give, own_token
from werkzeug.test import TestResponse

from service import audit, players, tokens
from service.app import create_app
from service.engine import verify
from service.settings import Settings
from service.store import personal, schema, tables
from service.store.database import Database, Instant
from service.store.embedded import EmbeddedPostgres

FIRST = ["games:read", "games:play", "tournaments:join"]


def mint(person: Person, *scopes: str, **more: Any) -> Person:
    """Return the same player with a token that they minted."""
    made = expect(person.post("/v1/tokens", {"scopes": list(scopes), **more}), 201)
    return replace(person, token=made["token"])


def listed(person: Person) -> dict[str, Json]:
    """Return a player's tokens by their ids."""
    return {one["id"]: one for one in expect(person.get("/v1/tokens"))["tokens"]}


def rows(database: Database, query: str, **values: Any) -> Sequence[Any]:
    return database.run(lambda connection: connection.execute(text(query), values).all())


class TestMinting:
    def test_a_minted_token_is_shown_once_and_works(self, ada: Person) -> None:
        answer = ada.post("/v1/tokens", {"scopes": ["games:read"]})

        made = expect(answer, 201)
        assert set(made) == {"token", "id", "scopes", "created_at", "minted_by"}
        assert tokens.is_well_formed(made["token"])
        assert answer.headers["Cache-Control"] == "private, no-store"
        assert made["minted_by"] == own_token(ada)
        me = expect(replace(ada, token=made["token"]).get("/v1/players/me"))
        assert me == {
            "player": {"id": ada.id, "name": "Ada"},
            "scopes": ["games:read"],
            "token": made["id"],
        }
        found = listed(ada)[made["id"]]
        assert found.pop("last_used_at")
        assert {**found, "token": made["token"]} == made

    def test_a_player_has_only_so_many_good_tokens(
        self, ada: Person, bea: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(players, "MAX_TOKENS", 3)
        scopes = {"scopes": ["games:read"]}
        second = expect(ada.post("/v1/tokens", scopes), 201)
        third = replace(ada, token=expect(ada.post("/v1/tokens", scopes), 201)["token"])

        refused = [problem(one.post("/v1/tokens", scopes)) for one in (ada, third)]
        others = bea.post("/v1/tokens", scopes)
        assert ada.ask("DELETE", f"/v1/tokens/{second['id']}").status_code == 204
        again = ada.post("/v1/tokens", scopes)

        assert refused == [(409, "too-many-tokens")] * 2
        assert others.status_code == again.status_code == 201
        assert problem(ada.post("/v1/tokens", scopes)) == (409, "too-many-tokens")

    @pytest.mark.parametrize("scopes", [FIRST, FIRST[1:], ["tournaments:join"]])
    def test_a_token_mints_one_that_is_as_wide_or_narrower(
        self, ada: Person, scopes: list[str]
    ) -> None:
        assert expect(ada.post("/v1/tokens", {"scopes": scopes}), 201)["scopes"] == scopes

    @pytest.mark.parametrize(
        ("held", "asked", "lacking"),
        [
            (FIRST, ["games:read", "admin"], "admin"),
            (FIRST, ["tournaments:organise"], "tournaments:organise"),
            (["games:read"], ["games:read", "games:play"], "games:play"),
            (["admin"], ["games:read"], "games:read"),
        ],
    )
    def test_a_token_does_not_mint_a_wider_one(
        self, ada: Person, database: Database, held: list[str], asked: list[str], lacking: str
    ) -> None:
        before = len(listed(ada))
        narrow = give(ada, database, *held)

        refused = problem(narrow.post("/v1/tokens", {"scopes": asked}))

        assert refused == (403, "scope-missing")
        assert refused.body["required_scope"] == lacking
        assert len(listed(ada)) == before + 1

    def test_what_is_minted_mints_no_wider_one_either(self, ada: Person) -> None:
        narrow = mint(mint(ada, "games:read", "games:play"), "games:read")

        assert problem(narrow.post("/v1/tokens", {"scopes": ["games:play"]})) == (
            403,
            "scope-missing",
        )
        assert mint(narrow, "games:read").get("/v1/players/me").status_code == 200

    def test_a_scope_that_is_asked_for_twice_is_held_once(self, ada: Person) -> None:
        made = expect(ada.post("/v1/tokens", {"scopes": ["games:read"] * 2}), 201)

        assert made["scopes"] == ["games:read"]

    def test_a_token_may_be_minted_for_some_days(self, ada: Person, database: Database) -> None:
        made = expect(ada.post("/v1/tokens", {"scopes": ["games:read"], "days": 7}), 201)

        ends = datetime.fromisoformat(made["expires_at"])
        assert ends - datetime.fromisoformat(made["created_at"]) == timedelta(days=7)
        other = replace(ada, token=made["token"])
        assert other.get("/v1/players/me").status_code == 200
        rows(
            database,
            "UPDATE tokens SET expires_at = now() WHERE id = :id RETURNING id",
            id=made["id"],
        )
        assert problem(other.get("/v1/players/me")) == (401, "token-invalid")

    @pytest.mark.parametrize(("days", "lasts"), [(None, 3), (2, 2), (3650, 3)])
    def test_what_is_minted_never_outlives_what_mints_it(
        self, ada: Person, database: Database, days: int | None, lasts: int
    ) -> None:
        until = database.now() + timedelta(days=3)
        brief = give(ada, database, "games:read", expires=until)

        body = {"scopes": ["games:read"], **({} if days is None else {"days": days})}
        made = expect(brief.post("/v1/tokens", body), 201)

        ends = datetime.fromisoformat(made["expires_at"])
        assert abs(ends - database.now() - timedelta(days=lasts)) < timedelta(minutes=1)
        assert ends <= until

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({}, "/scopes"),
            ({"scopes": []}, "/scopes"),
            ({"scopes": "games:read"}, "/scopes"),
            ({"scopes": ["games:read", "games:write"]}, "/scopes/1"),
            ({"scopes": [None]}, "/scopes/0"),
            ({"scopes": ["games:read"], "days": 0}, "/days"),
            ({"scopes": ["games:read"], "days": 3651}, "/days"),
            ({"scopes": ["games:read"], "days": 1.5}, "/days"),
            ({"scopes": ["games:read"], "expires_at": "2100-01-01"}, "/expires_at"),
        ],
    )
    def test_a_request_that_does_not_fit_is_refused_where_it_does_not(
        self, ada: Person, body: Json, pointer: str
    ) -> None:
        refused = problem(ada.post("/v1/tokens", body))

        assert refused == (422, "invalid-request")
        assert [one["pointer"] for one in refused.body["errors"]] == [pointer]
        assert len(listed(ada)) == 1

    def test_its_text_is_stored_nowhere_and_told_once(
        self, ada: Person, database: Database
    ) -> None:
        minted = mint(ada, *FIRST)
        assert minted.token is not None
        secret = minted.token.removeprefix("rr_")

        for path in ("/v1/tokens", "/v1/players/me", "/v1/players/me/export"):
            for person in (ada, minted):
                assert secret not in person.get(path).get_data(as_text=True)
        for column, content in cells(database):
            assert secret.encode() not in content, column

    def test_a_key_is_ignored_since_a_secret_is_shown(self, ada: Person) -> None:
        headers = {"Idempotency-Key": "one"}
        body = {"scopes": ["games:read"]}

        made = [ada.post("/v1/tokens", body, headers=headers) for _ in range(2)]

        assert len({expect(one, 201)["token"] for one in made}) == 2


class TestRevoking:
    """S-84: what a revocation revokes is told and tested: one, what came of one, all."""

    def family(self, ada: Person) -> dict[str, Person]:
        """Return a player's tokens, of which one came of another and a third of that."""
        bot = mint(ada, "games:read", "games:play")
        part = mint(bot, "games:read")
        return {
            "own": ada,
            "bot": bot,
            "part": part,
            "part of part": mint(part, "games:read"),
            "other": mint(ada, *FIRST),
        }

    def good(self, family: dict[str, Person]) -> set[str]:
        return {
            name
            for name, person in family.items()
            if person.get("/v1/players/me").status_code == 200
        }

    def test_s_84_one_is_revoked_and_no_other(self, ada: Person) -> None:
        family = self.family(ada)

        answer = ada.ask("DELETE", f"/v1/tokens/{own_token(family['bot'])}")

        assert (answer.status_code, answer.data) == (204, b"")
        assert self.good(family) == set(family) - {"bot"}

    def test_s_84_with_one_goes_what_came_of_it_if_that_is_asked_for(self, ada: Person) -> None:
        family = self.family(ada)

        answer = ada.ask("DELETE", f"/v1/tokens/{own_token(family['bot'])}?minted=true")

        assert answer.status_code == 204
        assert self.good(family) == {"own", "other"}

    def test_s_84_what_came_of_one_goes_though_that_was_revoked_before(self, ada: Person) -> None:
        family = self.family(ada)
        path = f"/v1/tokens/{own_token(family['bot'])}"
        ada.ask("DELETE", path)
        before = listed(ada)[path[-36:]]

        ada.ask("DELETE", f"{path}?minted=true")

        assert self.good(family) == {"own", "other"}
        assert listed(ada)[path[-36:]] == before

    def test_s_84_all_are_revoked_and_nobody_elses(self, ada: Person, bea: Person) -> None:
        family = self.family(ada)

        answer = family["other"].ask("DELETE", "/v1/tokens")

        assert (answer.status_code, answer.data) == (204, b"")
        assert self.good(family) == set()
        assert bea.get("/v1/players/me").status_code == 200

    def test_s_84_s_13_every_process_refuses_them_from_the_next_request_on(
        self, ada: Person, postgres: EmbeddedPostgres
    ) -> None:
        """S-13 and S-84: whichever process hears of it, all know."""
        family = self.family(ada)
        with running(postgres.url, WORKERS="2") as service:

            def statuses(person: Person) -> set[int]:
                service.token = person.token
                return {service.ask("GET", "/v1/players/me").status for _ in range(12)}

            assert statuses(family["part"]) == statuses(ada) == {200}
            path = f"/v1/tokens/{own_token(family['bot'])}?minted=true"
            service.token = ada.token
            assert service.ask("DELETE", path).status == 204
            assert statuses(family["part"]) == statuses(family["bot"]) == {401}
            assert statuses(ada) == {200}
            assert service.ask("DELETE", "/v1/tokens").status == 204
            assert statuses(ada) == statuses(family["other"]) == {401}

    @pytest.mark.parametrize("scope", tokens.SCOPES)
    def test_a_token_may_revoke_itself_and_what_it_minted(
        self, ada: Person, database: Database, scope: str
    ) -> None:
        narrow = give(ada, database, scope)
        made = expect(narrow.post("/v1/tokens", {"scopes": [scope]}), 201)

        answer = narrow.ask("DELETE", f"/v1/tokens/{made['minted_by']}?minted=true")

        assert answer.status_code == 204
        assert set(listed(ada)) == {own_token(ada), made["id"], made["minted_by"]}
        assert all("revoked_at" in listed(ada)[one] for one in (made["id"], made["minted_by"]))
        assert "revoked_at" not in listed(ada)[own_token(ada)]

    @pytest.mark.parametrize("missing", FIRST)
    def test_a_narrower_token_can_not_lock_its_owner_out(
        self, ada: Person, database: Database, missing: str
    ) -> None:
        narrow = give(ada, database, *(set(tokens.SCOPES) - {missing}))

        answers = [
            narrow.ask("DELETE", f"/v1/tokens/{own_token(ada)}"),
            narrow.ask("DELETE", "/v1/tokens"),
            narrow.ask("DELETE", "/v1/players/me"),
            narrow.ask("PATCH", "/v1/players/me", {"name": "Eve"}),
        ]

        for answer in answers:
            assert problem(answer) == (403, "scope-missing")
            assert answer.get_json()["required_scope"] == missing
        assert expect(ada.get("/v1/players/me"))["player"]["name"] == "Ada"

    @pytest.mark.parametrize("minted", ["", "?minted=true"])
    def test_nobody_elses_tokens_are_revoked(self, ada: Person, bea: Person, minted: str) -> None:
        for token in (own_token(bea), unknown_id()):
            answer = problem(ada.ask("DELETE", f"/v1/tokens/{token}{minted}"))
            assert answer == (404, "not-found")
        assert bea.get("/v1/players/me").status_code == 200

    @pytest.mark.parametrize("minted", ["", "1", "True", "yes"])
    def test_how_far_it_goes_is_true_or_false(self, ada: Person, minted: str) -> None:
        path = f"/v1/tokens/{own_token(ada)}?minted={minted}"

        refused = problem(ada.ask("DELETE", path))

        assert refused == (422, "invalid-request")
        assert [one["pointer"] for one in refused.body["errors"]] == ["#query/minted"]
        assert ada.get("/v1/players/me").status_code == 200

    def test_what_is_being_minted_while_all_are_revoked_is_revoked_too(
        self, ada: Person, database: Database
    ) -> None:
        assert ada.token is not None
        fingerprint = tokens.fingerprint(ada.token)

        def revoke_all() -> None:
            database.run(
                lambda connection: players.revoke_all(connection, Instant(), fingerprint),
                transaction=True,
            )

        with ThreadPoolExecutor(1) as pool, database.engine.connect() as connection:
            connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                players.mint(
                    connection,
                    Instant(),
                    fingerprint,
                    token_id=uuid4(),
                    text=tokens.draw(),
                    scopes=("games:read",),
                    days=None,
                )
                revoked = pool.submit(revoke_all)
                waiting = (
                    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                    "AND query LIKE '%FOR UPDATE OF players%'"
                )
                await_(lambda: rows(database, waiting))
            revoked.result()

        query = "SELECT revoked_at IS NULL FROM tokens WHERE player_id = :id"
        assert rows(database, query, id=ada.id) == [(False,), (False,)]


class TestRenaming:
    def test_a_player_takes_another_name_and_keeps_games_and_tokens(
        self, ada: Person, database: Database
    ) -> None:
        game = ada.create("royal")
        ended = expect(ada.act(ada.create("royal"), "resign"))
        other = give(ada, database, "games:read")
        before = (ada.read(game), ada.read(ended), ada.replay(ended), ada.get("/v1/games").data)

        renamed = expect(ada.ask("PATCH", "/v1/players/me", {"name": "Ada Lovelace"}))

        assert renamed == expect(ada.get("/v1/players/me"))
        assert renamed["player"] == {"id": ada.id, "name": "Ada Lovelace"}
        after = (ada.read(game), ada.read(ended), ada.replay(ended), ada.get("/v1/games").data)
        assert after == before
        assert expect(other.get("/v1/players/me"))["player"]["name"] == "Ada Lovelace"
        assert ada.move(game, game["legal_moves"][0])["ply"] == 1

    @pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": " Ada"}, {"name": 1}, {"id": "x"}])
    def test_a_name_that_does_not_fit_is_refused(self, ada: Person, body: Json) -> None:
        assert problem(ada.ask("PATCH", "/v1/players/me", body)) == (422, "invalid-request")
        assert expect(ada.get("/v1/players/me"))["player"]["name"] == "Ada"


@pytest.fixture
def countess(client: Client, database: Database) -> Person:
    """A player of whom every table holds something, marked by their name."""
    person = client.register(name := f"Countess {token_hex(8)}")
    person.post("/v1/games", {"deal": {"seed": "a"}}, headers={"Idempotency-Key": f"key-{name}"})
    person.create(None)
    expect(person.act(person.create("royal"), "resign"))
    expect(person.act(person.create(None), "resign"))
    mint(person, "games:read")
    rows(
        database,
        "INSERT INTO imports (id, player_id, created_at, ruleset, status, score, digest, document)"
        " VALUES (:id, :player, now(), 'royal-cotillion-1', 'won', 104,"
        " convert_to(:name, 'UTF8'), :name) RETURNING id",
        id=uuid4(),
        player=person.id,
        name=name,
    )
    host = organiser(person, database)
    contest = host.tournament()
    entry = enter(person, contest)
    finish(person, contest)
    expect(host.act(contest, "webhooks", {"url": f"https://example.org/{token_hex(4)}"}), 201)
    ids = {"tournament": contest["id"], "player": person.id, "entry": entry["id"], "id": uuid4()}
    for table, columns, values in (
        (
            "roles",
            "tournament_id, player_id, role, given_at",
            ":tournament, :player, 'viewer', now()",
        ),
        (
            "invites",
            "tournament_id, id, created_at, created_by, hash, uses, used",
            ":tournament, :id, now(), :player, 'x', 3, 1",
        ),
        (
            "rulings",
            "tournament_id, number, at, by_player, kind, entry_id, terms, reason",
            ":tournament, 1, now(), :player, 'reinstate', :entry, '{}', 'so'",
        ),
        (
            "jobs",
            "tournament_id, id, kind, by_player, started_at, total, done, state, findings",
            ":tournament, :id, 'verification', :player, now(), 0, 0, 'done', '{}'",
        ),
    ):
        statement = f"INSERT INTO tournament_{table} ({columns}) VALUES ({values}) RETURNING 1"  # noqa: S608
        rows(database, statement, **ids)
    return person


def exported(person: Person) -> list[tuple[str, Json]]:
    return [(line["table"], line["row"]) for line in told(person.get("/v1/players/me/export"))]


class TestExport:
    def test_s_19_s_54_it_tells_every_row_of_every_table_that_holds_something_personal(
        self, countess: Person, ada: Person, database: Database
    ) -> None:
        """S-19 and S-54: compared with the database itself, column by column."""
        ada.create("royal")

        lines = exported(countess)

        for holding in personal.HOLDINGS:
            name, owner = holding.table.name, holding.owner.name
            query = f"SELECT * FROM {name} WHERE {owner} = :id"  # noqa: S608
            stored = [row._mapping for row in rows(database, query, id=countess.id)]
            assert stored, name
            keys = [column.name for column in holding.table.primary_key]
            found = {
                tuple(str(row[key]) for key in keys): row for table, row in lines if table == name
            }
            assert len(found) == len(stored)
            for row in stored:
                line = found[tuple(str(row[key]) for key in keys)]
                withheld = {column for column, value in row.items() if value is None}
                withheld |= set(holding.withheld)
                sealed = name == "games" and row["tournament_id"] is not None
                if sealed or (name == "games" and row["hidden"] and row["ended_at"] is None):
                    withheld |= {"seed"}
                assert set(line) == set(row) - withheld
                for column in line:
                    assert line[column] == as_told(row[column]), (name, column)
        assert len(lines) == sum(
            1 for table, _ in lines if table in {one.table.name for one in personal.HOLDINGS}
        )

    @pytest.mark.usefixtures("countess")
    def test_s_54_it_tells_nothing_of_others(self, ada: Person) -> None:
        ada.create("royal")
        mine = [row for _, row in exported(ada)]

        assert {row.get("player_id", row["id"]) for row in mine} == {ada.id}
        assert len(mine) == 3
        assert "Countess" not in str(mine)

    def test_what_is_kept_from_the_player_is_kept_from_the_export(
        self, countess: Person, database: Database
    ) -> None:
        answer = countess.get("/v1/players/me/export").get_data()

        query = (
            "SELECT seed, ended_at IS NULL, tournament_id IS NOT NULL FROM games"
            " WHERE hidden AND player_id = :id ORDER BY 2, 3"
        )
        seeds = rows(database, query, id=countess.id)
        assert [(in_play, sealed) for _, in_play, sealed in seeds] == [
            *((False, False), (False, True)),
            (True, False),
        ]
        for seed, in_play, sealed in seeds:
            assert (seed.encode() in answer) == (not in_play and not sealed)
        assert countess.token is not None
        assert countess.token[3:].encode() not in answer
        assert tokens.fingerprint(countess.token).hex().encode() not in answer

    def test_many_rows_are_told_once_each(
        self, ada: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        games = {ada.create(str(number))["id"] for number in range(7)}
        keys = [f"key {number}" for number in range(7)]
        for key in keys:
            ada.post("/v1/games", {}, headers={"Idempotency-Key": key})
        monkeypatch.setattr(players, "_ROWS", 3)

        lines = exported(ada)

        found = [row["id"] for table, row in lines if table == "games"]
        assert len(found) == len(set(found)) == 14
        assert games < set(found)
        assert [row["key"] for table, row in lines if table == "idempotency_keys"] == keys

    def test_s_41_an_export_that_breaks_off_lacks_its_last_line(
        self, postgres: EmbeddedPostgres, contract: Contract
    ) -> None:
        """S-41: nobody takes a part for the whole."""
        with new_database(postgres) as url:
            database = Database(url)
            schema.upgrade(database.engine)
            ada = Client(create_app(Settings(), database), contract).register("Ada")
            for number in range(5):
                ada.create(str(number))
            database.dispose()
            first = "from service import players; players._ROWS = 2"
            with running(url, first=first, WORKERS="1") as service:
                service.token = ada.token
                whole = service.ask("GET", "/v1/players/me/export")
                assert whole.data.endswith(b'{"end":true,"count":7}\n')
                with psycopg.connect(libpq(url), autocommit=True) as admin:
                    admin.execute("ALTER TABLE games RENAME COLUMN spec TO other")
                with pytest.raises(IncompleteRead) as broken:
                    service.ask("GET", "/v1/players/me/export")
        assert b'"table":"tokens"' in broken.value.partial
        assert b'"end"' not in broken.value.partial

    @pytest.mark.parametrize("kind", ["table", "column"])
    def test_s_54_a_table_or_column_of_which_nothing_is_said_is_noticed(
        self, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        """S-54: the schema cannot grow without somebody saying what is personal in it."""
        assert list(personal.unclassified()) == []

        grown = type(tables.metadata)()
        for table in tables.metadata.tables.values():
            table.to_metadata(grown)
        if kind == "table":
            Table("friends", grown, Column("note", Text))
        else:
            grown.tables["players"].append_column(Column("e_mail", Text))
        monkeypatch.setattr(personal, "metadata", grown)

        missing = {"table": ["friends.note"], "column": ["players.e_mail"]}
        assert list(personal.unclassified()) == missing[kind]

    def test_s_54_what_is_said_is_said_of_columns_that_there_are(self) -> None:
        for holding in personal.HOLDINGS:
            said = [*holding.told, *holding.withheld]
            assert sorted(said) == sorted(column.name for column in holding.table.c)
            assert set(holding.hidden) <= set(holding.told)
            assert all(len(reason) > 10 for reason in holding.withheld.values())


def as_told(value: Any) -> Any:
    """Return a stored value as an export tells it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, UUID) else value


class TestLeaving:
    def test_s_19_nothing_personal_is_left_and_ended_games_still_verify(
        self, countess: Person, client: Client, database: Database
    ) -> None:
        """S-19: name, tokens, imports, keys and games in play go; ended games stay as they were."""
        games = expect(countess.get("/v1/games"))["games"]
        ended = [game for game in games if game["status"] != "playing"]
        in_play = [game for game in games if game["status"] == "playing"]
        before = {game["id"]: countess.replay(game) for game in ended}
        held = {line["id"] for table, line in exported(countess) if table in {"tokens", "imports"}}
        assert (len(ended), len(in_play)) == (3, 2)
        assert len(held) == 4
        name = expect(countess.get("/v1/players/me"))["player"]["name"]

        answer = countess.ask("DELETE", "/v1/players/me")

        assert (answer.status_code, answer.data) == (204, b"")
        gone = {name, f"key-{name}", *held, *(game["id"] for game in in_play)}
        for column, content in cells(database):
            assert [one for one in gone if one.encode() in content] == [], column
        # What is sealed was its player's alone.
        for game in (one for one in ended if "tournament" not in before[one["id"]]["header"]):
            assert expect(client.get(f"/v1/games/{game['id']}"))["id"] == game["id"]
            replay = expect(client.get(f"/v1/games/{game['id']}/replay"))
            assert replay == before[game["id"]]
            assert verify(replay).verdict == "valid"
            assert replay["header"]["player"] == countess.id
        (row,) = rows(database, "SELECT * FROM players WHERE id = :id", id=countess.id)
        assert (row.name, str(row.id)) == ("", countess.id)
        assert row.deleted_at is not None

    @pytest.mark.parametrize("act", ["rename", "import", "create", "create by key"])
    def test_s_19_nothing_is_added_to_somebody_who_is_just_being_deleted(
        self, ada: Person, database: Database, act: str
    ) -> None:
        """S-19: what was under way when they left finds that they are gone."""

        def ask() -> TestResponse:
            if act == "rename":
                return ada.ask("PATCH", "/v1/players/me", {"name": "Still Here"})
            if act == "import":
                return ada.post("/v1/replays", played(header(seed="1"), ["resign"]))
            key = {"Idempotency-Key": "one"} if act == "create by key" else {}
            return ada.post("/v1/games", {}, headers=key)

        expect(ada.get("/v1/players/me"))  # for a minute no use of the token is noted again
        with ThreadPoolExecutor(1) as pool, database.engine.connect() as connection:
            connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                row = select(tables.players.c.id).where(tables.players.c.id == UUID(ada.id))
                connection.execute(row.with_for_update())
                answer = pool.submit(ask)
                with pytest.raises(TimeoutError):
                    answer.result(0.5)
                players.forget(connection, datetime.now(UTC), [UUID(ada.id)])

        assert problem(answer.result()) == (401, "token-invalid")
        (found,) = rows(database, "SELECT name FROM players WHERE id = :id", id=ada.id)
        assert found.name == ""
        for table in (tables.imports, tables.games, tables.idempotency_keys):
            theirs = select(table).where(table.c.player_id == UUID(ada.id))
            assert database.run(lambda one, query=theirs: one.execute(query).all()) == []  # type: ignore[misc]

    def test_no_token_of_theirs_is_good_any_more(self, ada: Person) -> None:
        other = mint(ada, *FIRST)

        other.ask("DELETE", "/v1/players/me")

        for person in (ada, other):
            assert problem(person.get("/v1/players/me")) == (401, "token-invalid")
            assert problem(person.post("/v1/games", {})) == (401, "token-invalid")

    def test_others_keep_what_is_theirs(self, ada: Person, countess: Person) -> None:
        before = exported(countess)

        ada.ask("DELETE", "/v1/players/me")

        assert exported(countess) == before

    def test_the_audit_finds_nothing_wrong_with_what_stays(
        self, postgres: EmbeddedPostgres, contract: Contract
    ) -> None:
        with new_database(postgres) as url:
            database = Database(url)
            schema.upgrade(database.engine)
            ada = Client(create_app(Settings(), database), contract).register("Ada")
            expect(ada.act(ada.create("royal"), "resign"))
            ada.create("royal")
            ada.ask("DELETE", "/v1/players/me")
            found = list(audit.audit(database))
            database.dispose()
        assert [fault for _, fault in found] == [None]


def test_times_are_told_in_utc_whatever_the_database_is_set_to(
    postgres: EmbeddedPostgres, contract: Contract
) -> None:
    with new_database(postgres) as url:
        with psycopg.connect(libpq(url), autocommit=True) as admin:
            name = admin.info.dbname
            admin.execute(f"ALTER DATABASE {name} SET timezone = 'Asia/Kolkata'".encode())
        database = Database(url)
        schema.upgrade(database.engine)
        ada = Client(create_app(Settings(), database), contract).register("Ada")
        game, now = ada.create("royal"), datetime.now(UTC)
        asked = [
            expect(ada.get("/v1"))["time"],
            game["created_at"],
            ada.read(game)["created_at"],
            *(token["created_at"] for token in listed(ada).values()),
            *(row["created_at"] for _, row in exported(ada)),
        ]
        database.dispose()
    assert len(asked) == 7
    for told_as in asked:
        assert abs(datetime.fromisoformat(told_as) - now) < timedelta(minutes=1)
