"""Players and their tokens: made, shown once, listed, noted, revoked."""

import hashlib
import logging
import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from client import Client, Contract, Person, expect, problem
from flask import Flask
from hypothesis import example, given, settings
from hypothesis import strategies as st
from server import running
from sqlalchemy import Connection, text

from service import players, tokens
from service.app import create_app
from service.settings import Settings
from service.store import tables
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres

Json = dict[str, Any]


def own_token(person: Person) -> str:
    """Return the id of the token that a person uses."""
    return str(expect(person.get("/v1/players/me"))["token"])


def give(
    person: Person, database: Database, *scopes: str, expires: datetime | None = None
) -> Person:
    """Return the same player with a further token."""
    token = tokens.draw()

    def add(connection: Connection) -> None:
        now = connection.execute(text("SELECT now()")).scalar_one()
        players.give_token(connection, now, uuid4(), UUID(person.id), token, scopes, expires)

    database.run(add)
    return Person(person.app, person.contract, token, person.id)


class TestRegistering:
    def test_a_new_player_gets_an_id_and_a_token(self, client: Client) -> None:
        answer = client.post("/v1/players", {"name": "Ada"})

        made = expect(answer, 201)
        assert set(made) == {"player", "token"}
        assert made["player"] == {"id": made["player"]["id"], "name": "Ada"}
        assert UUID(made["player"]["id"]).version == 7
        assert tokens.is_well_formed(made["token"])
        assert answer.headers["Cache-Control"] == "private, no-store"

    def test_one_is_whom_the_token_says(self, ada: Person) -> None:
        me = expect(ada.get("/v1/players/me"))

        assert me["player"] == {"id": ada.id, "name": "Ada"}
        assert me["scopes"] == ["games:read", "games:play", "tournaments:join"]
        assert me["token"] == expect(ada.get("/v1/tokens"))["tokens"][0]["id"]

    def test_a_name_may_be_had_twice(self, client: Client) -> None:
        one, other = client.register("Ada"), client.register("Ada")

        assert one.id != other.id
        assert one.token != other.token

    @pytest.mark.parametrize(
        "name",
        [
            *("A", "7", "Ada Lovelace", "Ada  Lovelace", "Zoë", "Zoe\u0308", "Ælfgifu", "Ødegård"),
            *(
                "Ленин",
                "孔夫子",
                "こまち",
                "أبو",
                "\u200fأبو"[1:],
                "नमस्ते",
                "ไทย",
                "עדה",
                "Ada\xa0L",
                "ß",
            ),
            *(
                "🂡",
                "👩‍👩‍👧",
                "🏴‍☠️",
                "🇮🇸",
                "Ada 🃏",
                "x" * 40,
                "é" * 40,
                "🂡" * 40,
                "x" + " " * 38 + "x",
            ),
            *(
                "<b>Ada</b>",
                "'; DROP TABLE players; --",
                "%s %(name)s",
                "\\u0000",
                '"',
                "{}",
                "null",
            ),
        ],
    )
    def test_a_name_is_kept_as_it_was_given(
        self, client: Client, database: Database, name: str
    ) -> None:
        person = client.register(name)

        query = tables.players.select().where(tables.players.c.id == person.id)
        row = database.run(lambda connection: connection.execute(query).one())

        assert expect(person.get("/v1/players/me"))["player"]["name"] == name
        assert row.name == name

    @settings(max_examples=60, deadline=None)
    @given(name=st.text(max_size=45))
    @example(name="Ada\u200b")
    @example(name="\u202eAda")
    @example(name="a\x85b")
    def test_a_name_is_one_line_of_1_to_40_characters_without_space_at_its_ends(
        self, app: Flask, contract: Contract, name: str
    ) -> None:
        client = Client(app, contract)

        answer = client.post("/v1/players", {"name": name})

        assert answer.status_code == (201 if is_a_name(name) else 422)
        if answer.status_code == 201:
            assert expect(answer, 201)["player"]["name"] == name

    def test_registration_can_be_closed(
        self, database: Database, contract: Contract, ada: Person
    ) -> None:
        closed = create_app(Settings(registration="closed", rate_limits="off"), database)
        before = number_of_players(database)

        refused = problem(Client(closed, contract).post("/v1/players", {"name": "Eve"}))
        told = expect(Client(closed, contract).get("/v1"))
        known = Person(closed, contract, ada.token, ada.id)

        assert refused == (403, "registration-closed")
        assert number_of_players(database) == before
        assert told["registration"] == "closed"
        assert known.create("royal")["ply"] == 0

    def test_registration_is_open_unless_it_is_closed(self, client: Client) -> None:
        assert expect(client.get("/v1"))["registration"] == "open"


def is_a_name(name: str) -> bool:
    """Whether a text may be a name, by what Unicode says of its characters."""
    invisible = {"\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\ufeff"}
    turning = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    return (
        1 <= len(name) <= 40
        and not any(unicodedata.category(one) in {"Cc", "Zl", "Zp"} for one in name)
        and not any(unicodedata.bidirectional(one) in turning for one in name)
        and not any(
            unicodedata.category(one) == "Zs" or one in invisible for one in (name[0], name[-1])
        )
    )


def number_of_players(database: Database) -> int:
    query = text("SELECT count(*) FROM players")
    found: int = database.run(lambda connection: connection.execute(query).scalar_one())
    return found


class TestListing:
    def test_ones_tokens_are_listed_newest_first_without_their_texts(
        self, ada: Person, bea: Person, database: Database
    ) -> None:
        narrow = give(ada, database, "games:read")
        late = datetime(2100, 1, 31, 12, tzinfo=UTC)
        expiring = give(ada, database, "games:read", "admin", expires=late)
        give(bea, database, "admin")

        listed = expect(ada.get("/v1/tokens"))["tokens"]

        assert [token["scopes"] for token in listed] == [
            scopes
            for _, scopes in sorted(
                [
                    (own_token(ada), ["games:read", "games:play", "tournaments:join"]),
                    (own_token(narrow), ["games:read"]),
                    (own_token(expiring), ["games:read", "admin"]),
                ],
                reverse=True,
            )
        ]
        assert [token.get("expires_at") for token in listed if "admin" in token["scopes"]] == [
            "2100-01-31T12:00:00.000Z"
        ]
        assert all("revoked_at" not in token for token in listed)

    def test_a_revoked_token_stays_in_the_list(self, ada: Person, database: Database) -> None:
        other = own_token(give(ada, database, "games:read"))

        assert ada.ask("DELETE", f"/v1/tokens/{other}").status_code == 204
        listed = {token["id"]: token for token in expect(ada.get("/v1/tokens"))["tokens"]}

        assert listed[other]["revoked_at"] >= listed[other]["created_at"]
        assert "revoked_at" not in listed[own_token(ada)]


class TestRevoking:
    def test_a_revoked_token_is_refused_from_the_next_request_on(self, ada: Person) -> None:
        answer = ada.ask("DELETE", f"/v1/tokens/{own_token(ada)}")

        assert (answer.status_code, answer.data) == (204, b"")
        assert problem(ada.get("/v1/players/me")) == (401, "token-invalid")
        assert problem(ada.post("/v1/games", {})) == (401, "token-invalid")

    def test_the_other_tokens_of_a_player_stay_good(self, ada: Person, database: Database) -> None:
        other = give(ada, database, "games:read")

        ada.ask("DELETE", f"/v1/tokens/{own_token(ada)}")

        assert other.get("/v1/players/me").status_code == 200

    def test_revoking_again_is_no_error_and_changes_nothing(
        self, ada: Person, database: Database
    ) -> None:
        path = f"/v1/tokens/{own_token(give(ada, database, 'games:read'))}"
        ada.ask("DELETE", path)
        before = expect(ada.get("/v1/tokens"))

        again = ada.ask("DELETE", path)

        assert again.status_code == 204
        assert expect(ada.get("/v1/tokens")) == before

    @pytest.mark.parametrize("whose", ["somebody else's", "nobody's"])
    def test_only_ones_own_tokens_can_be_revoked(
        self, ada: Person, bea: Person, whose: str
    ) -> None:
        token = own_token(bea) if whose == "somebody else's" else str(uuid4())

        answer = problem(ada.ask("DELETE", f"/v1/tokens/{token}"))

        assert answer == (404, "not-found")
        assert bea.get("/v1/players/me").status_code == 200

    def test_s_12_tokens_and_revocations_survive_a_restart(
        self, postgres: EmbeddedPostgres, contract: Contract, ada: Person, database: Database
    ) -> None:
        """S-12: a new app on new connections knows what the one before it was told."""
        revoked = give(ada, database, "games:read")
        assert revoked.get("/v1/players/me").status_code == 200
        ada.ask("DELETE", f"/v1/tokens/{own_token(revoked)}")

        anew = Database(postgres.url)
        app = create_app(Settings(rate_limits="off"), anew)
        good = Person(app, contract, ada.token).get("/v1/players/me")
        bad = Person(app, contract, revoked.token).get("/v1/players/me")
        anew.dispose()

        assert expect(good)["player"]["id"] == ada.id
        assert problem(bad) == (401, "token-invalid")

    def test_s_12_s_17_s_34_a_token_revoked_here_is_refused_by_every_other_process(
        self, postgres: EmbeddedPostgres, ada: Person
    ) -> None:
        """S-12, S-17 and S-34: no process keeps tokens in memory."""
        with running(postgres.url, WORKERS="2") as service:
            service.token = ada.token
            before = {service.ask("GET", "/v1/players/me").status for _ in range(20)}
            ada.ask("DELETE", f"/v1/tokens/{own_token(ada)}")
            after = {service.ask("GET", "/v1/players/me").status for _ in range(20)}
            bea = service.register("Bea")
            here = expect(Person(ada.app, ada.contract, service.token).get("/v1/players/me"))

        assert (before, after) == ({200}, {401})
        assert here["player"] == {"id": bea, "name": "Bea"}


LAST_USE = text("UPDATE tokens SET last_used_at = now() - :ago WHERE id = :id")
READ_USE = text("SELECT last_used_at, now() AS now FROM tokens WHERE id = :id")


class TestLastUse:
    def noted(self, database: Database, token: str) -> timedelta | None:
        """Return how long ago a token's latest use was noted."""
        row = database.run(lambda connection: connection.execute(READ_USE, {"id": token}).one())
        return None if row.last_used_at is None else row.now - row.last_used_at

    def set_back(self, database: Database, token: str, ago: timedelta) -> None:
        values = {"id": token, "ago": ago}
        database.run(lambda connection: connection.execute(LAST_USE, values))

    def test_the_first_use_is_noted(self, ada: Person, database: Database) -> None:
        other = give(ada, database, "games:read")

        before = expect(ada.get("/v1/tokens"))["tokens"]
        used = own_token(other)
        after = expect(ada.get("/v1/tokens"))["tokens"]

        assert [one["id"] for one in before if "last_used_at" not in one] == [used]
        assert [one["id"] for one in after if "last_used_at" not in one] == []
        ago = self.noted(database, used)
        assert ago is not None
        assert ago < timedelta(seconds=30)

    @pytest.mark.parametrize("seconds", [61, 3600, 10**7])
    def test_a_use_is_noted_when_the_latest_was_a_minute_ago(
        self, ada: Person, database: Database, seconds: int
    ) -> None:
        token, game = own_token(ada), ada.create("royal")

        for method, path, body in (
            ("GET", "/v1/players/me", None),
            ("GET", "/v1/games", None),
            ("GET", f"/v1/games/{game['id']}", None),
            ("POST", f"/v1/games/{game['id']}/moves", {"ply": 0, "moves": [{"from": "r2"}]}),
            ("POST", "/v1/games", {}),
        ):
            self.set_back(database, token, timedelta(seconds=seconds))
            assert ada.ask(method, path, body).status_code < 300
            ago = self.noted(database, token)
            assert ago is not None
            assert ago < timedelta(seconds=30)

    def test_a_use_within_a_minute_of_the_latest_is_not_noted(
        self, ada: Person, database: Database
    ) -> None:
        token = own_token(ada)
        self.set_back(database, token, timedelta(seconds=20))

        ada.create("royal")
        ada.get("/v1/games")

        ago = self.noted(database, token)
        assert ago is not None
        assert ago >= timedelta(seconds=20)

    def test_what_is_refused_for_its_token_is_no_use(self, ada: Person, database: Database) -> None:
        expired = give(ada, database, "games:read", expires=datetime(2000, 1, 1, tzinfo=UTC))

        assert problem(expired.get("/v1/players/me")) == (401, "token-invalid")
        newest = expect(ada.get("/v1/tokens"))["tokens"]

        assert [one for one in newest if "expires_at" in one and "last_used_at" in one] == []


TOKENS = st.builds(tokens.draw)
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class TestTexts:
    def test_a_token_is_a_prefix_40_random_letters_and_a_checksum(self) -> None:
        drawn = [tokens.draw() for _ in range(500)]

        for token in drawn:
            assert re.fullmatch("rr_[0-9A-Za-z]{46}", token)
            assert tokens.is_well_formed(token)
        assert len({token[3:23] for token in drawn}) == 500
        for place in range(3, 43):
            assert len({token[place] for token in drawn}) > 50

    @given(token=TOKENS, place=st.integers(3, 48), letter=st.sampled_from(LETTERS))
    def test_one_mistyped_letter_is_noticed(self, token: str, place: int, letter: str) -> None:
        typed = token[:place] + letter + token[place + 1 :]

        assert tokens.is_well_formed(typed) == (typed == token)

    @given(token=TOKENS, place=st.integers(3, 47))
    def test_two_letters_in_the_wrong_order_are_noticed(self, token: str, place: int) -> None:
        typed = token[:place] + token[place + 1] + token[place] + token[place + 2 :]

        assert tokens.is_well_formed(typed) == (typed == token)

    @given(token=TOKENS, data=st.data())
    def test_a_letter_too_many_or_too_few_is_noticed(self, token: str, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, 48))
        more = token[:place] + data.draw(st.sampled_from(LETTERS)) + token[place:]
        fewer = token[:place] + token[place + 1 :]

        assert not tokens.is_well_formed(more)
        assert not tokens.is_well_formed(fewer)

    @given(token=TOKENS, around=st.sampled_from([" ", "\n", "\t", "\0", "=", ".", "é"]))
    def test_nothing_may_stand_around_it(self, token: str, around: str) -> None:
        assert not tokens.is_well_formed(token + around)
        assert not tokens.is_well_formed(around + token)

    @given(text=st.text() | st.from_regex(r"rr_[0-9A-Za-z]{46}", fullmatch=True))
    def test_any_other_text_is_none(self, text: str) -> None:
        assert not tokens.is_well_formed(text)

    @given(token=TOKENS)
    def test_its_fingerprint_is_a_hash_under_a_label(self, token: str) -> None:
        labelled = b"royal-rendezvous/token/1\0" + token.encode()

        assert tokens.fingerprint(token) == hashlib.sha256(labelled).digest()
        assert tokens.fingerprint(token) != hashlib.sha256(token.encode()).digest()


COLUMNS = text("""
    SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = 'public' ORDER BY table_name, ordinal_position
""")


def cells(database: Database) -> Iterator[tuple[str, bytes]]:
    """Yield every column of every table, with all that is in it."""
    for table, column in database.run(lambda connection: connection.execute(COLUMNS).all()):
        query = text(f'SELECT "{column}" FROM "{table}"')  # noqa: S608
        values = database.run(lambda connection: connection.execute(query).scalars().all())  # noqa: B023
        yield (
            f"{table}.{column}",
            b"\n".join(
                value if isinstance(value, bytes) else str(value).encode() for value in values
            ),
        )


class TestSecrecy:
    def test_s_33_a_token_is_in_no_answer_but_the_first(self, ada: Person, client: Client) -> None:
        """S-33: nor is the part of it that would do to find it."""
        game = ada.create("royal")
        path = f"/v1/games/{game['id']}"
        asked = [
            *[ada.get(one) for one in ("/v1/players/me", "/v1/tokens", "/v1/games", path, "/v1")],
            ada.get(f"{path}/replay"),
            ada.get(f"/v1/games/{uuid4()}"),
            ada.try_moves(game, 7, {"from": "r2"}),
            ada.try_moves(game, 0, {"from": "r1", "to": "stock"}),
            ada.post("/v1/games", {"token": ada.token}),
            ada.ask("PUT", path),
            client.ask("GET", path, headers={"Authorization": f"Basic {ada.token}"}),
            ada.ask("DELETE", f"/v1/tokens/{own_token(ada)}"),
            ada.get("/v1/players/me"),
        ]

        assert ada.token is not None
        for answer in asked:
            told = str(answer.headers) + answer.get_data(as_text=True)
            assert ada.token[3:] not in told
            assert tokens.fingerprint(ada.token).hex() not in told

    def test_a_tokens_text_is_stored_nowhere(self, ada: Person, database: Database) -> None:
        ada.create(None)
        assert ada.token is not None
        secret = ada.token.removeprefix("rr_").encode()

        found = dict(cells(database))

        assert {"tokens.hash", "players.name", "games.log"} <= set(found)
        for column, content in found.items():
            for part in (secret, secret[:12], secret[-12:], secret.hex().encode()):
                assert part not in content, column
        assert tokens.fingerprint(ada.token) in found["tokens.hash"]
        assert b"Ada" in found["players.name"]

    def test_a_tokens_text_is_never_logged(
        self, app: Flask, contract: Contract, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        for name in ("sqlalchemy", "sqlalchemy.engine", "sqlalchemy.pool", "psycopg", "flask"):
            caplog.set_level(logging.DEBUG, logger=name)
        away = Database("postgresql:///nowhere?host=/nowhere", timeout=1)

        ada = Client(app, contract).register("Ada")
        ada.create(None)
        ada.get("/v1/tokens")
        failed = Person(create_app(Settings(rate_limits="off"), away), contract, ada.token).get(
            "/v1/tokens"
        )
        ada.ask("DELETE", f"/v1/tokens/{own_token(ada)}")
        ada.get("/v1/tokens")
        away.dispose()

        assert problem(failed) == (503, "database-unavailable")
        assert "INSERT INTO tokens" in caplog.text
        assert "database-unavailable" in caplog.text
        assert ada.token is not None
        assert ada.token[3:] not in caplog.text
        assert tokens.fingerprint(ada.token).hex() not in caplog.text
