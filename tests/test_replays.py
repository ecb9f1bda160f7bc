"""Replays in bulk: exported, verified, imported."""

import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from client import NDJSON, Client, Contract, Person, dropped, expect, problem
from documents import GOLDEN, SIGNING_KEYS, golden, header, played
from flask import Flask
from jsonschema import Draft202012Validator
from server import new_database
from sqlalchemy import func, insert, select, text, update
from werkzeug.test import TestResponse

from service import replays, tokens
from service.api import framework
from service.app import create_app
from service.engine import verify
from service.engine.replay import MEDIA_TYPE, pack_times
from service.games import WRITTEN_WITHIN, State
from service.games import resign as resign_
from service.replay_files import find, judge
from service.replays import MAX_IMPORT_BYTES, MAX_IMPORTED_BYTES, MAX_IMPORTS, OVERLAP
from service.settings import Settings
from service.signatures import SigningKeys
from service.store import schema
from service.store.database import Database, DatabaseUnavailableError, Instant, new_id
from service.store.embedded import EmbeddedPostgres
from service.store.tables import games, imports, players

Json = dict[str, Any]

KEYS = SigningKeys.load(SIGNING_KEYS)
LONG_AGO = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SCHEMA = json.loads(files("service.engine").joinpath("replay-1.schema.json").read_text())


def streamed(answer: TestResponse) -> tuple[list[Json], Json]:
    """Return the lines of a stream and its closing line."""
    assert answer.status_code == 200, answer.get_data(as_text=True)
    assert answer.mimetype == NDJSON
    *values, end = map(orjson.loads, answer.get_data().splitlines())
    assert (end["end"], end["count"]) == (True, len(values))
    return values, end


def export(who: Client, **query: Any) -> list[str]:
    """Return the ids of the games that an export has, in its order."""
    named = "&".join(f"{name}={value}" for name, value in query.items())
    documents, _ = streamed(who.get(f"/v1/replays?{named}"))
    return [document["header"]["id"] for document in documents]


def put(database: Database, player: str, *ends: datetime, **changed: Any) -> list[str]:
    """Add rows of games that were given up then, at their only entry, and return their ids."""
    rows = [
        {
            "id": new_id(),
            "player_id": UUID(player),
            "created_at": end - SECOND,
            "ended_at": end,
            "ply": 1,
            "hidden": False,
            "status": "resigned",
            "score": 12,
            "ruleset": "royal-rendezvous-1",
            "spec": "deal-1",
            "seed": "7",
            "log": b"\xfe",
            "times": pack_times([1000]),
            **changed,
        }
        for end in ends
    ]
    database.run(lambda connection: connection.execute(insert(games), rows), transaction=True)
    return [str(row["id"]) for row in rows]


def ended(who: Person, seed: str | None = "royal", ruleset: str | None = None) -> Json:
    """Return a game that was given up after a move."""
    game = who.play(who.create(seed, ruleset), 1)
    return expect(who.act(game, "resign"))


class NeverRead(io.RawIOBase):
    """A body that nobody may read."""

    def readable(self) -> bool:
        """Return that it could be."""
        return True

    def readinto(self, _: Any) -> int:
        """Fail."""
        raise AssertionError("it was read")


class TestExport:
    def test_it_has_the_replays_of_ones_own_ended_games_as_they_are_given_singly(
        self, ada: Person, bea: Person
    ) -> None:
        played_ = [ended(ada), ended(ada, None), ended(ada, "3", "odd-and-even-pysol-1")]
        ada.create()
        ended(bea)

        documents, _ = streamed(ada.get("/v1/replays"))

        assert documents == [ada.replay(game) for game in played_]
        assert [verify(one, KEYS.check).levels["signature"][0] for one in documents] == ["pass"] * 3

    def test_a_file_of_it_is_verified_whole(self, ada: Person, tmp_path: Path) -> None:
        ended(ada)
        file = tmp_path / "mine.ndjson"

        file.write_bytes(ada.get("/v1/replays").get_data())

        assert [one.verdict.verdict for one in judge(find(str(file)))] == ["valid"]
        file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
        assert [one.of_file for one in judge(find(str(file)))] == [False, True]

    def test_without_a_game_that_has_ended_it_is_empty_and_complete(self, ada: Person) -> None:
        ada.create()

        documents, end = streamed(ada.get("/v1/replays"))

        assert documents == []
        assert set(end) == {"end", "count", "next"}

    def test_s_41_however_many_there_are_none_is_left_out(
        self, ada: Person, database: Database
    ) -> None:
        """S-41: over several chunks, and where all end in the same instant."""
        put_ = put(database, ada.id, *[LONG_AGO] * 450)
        later = put(database, ada.id, *[LONG_AGO + n * SECOND for n in range(450, 0, -1)])

        documents, end = streamed(ada.get("/v1/replays"))

        assert [one["header"]["id"] for one in documents] == [*sorted(put_), *reversed(later)]
        assert end["count"] == 900
        assert len({one["header"]["id"] for one in documents}) == 900

    def test_s_41_filters_leave_out_what_does_not_match_and_nothing_else(
        self, ada: Person, database: Database
    ) -> None:
        """S-41: of many games few match, the first of them far behind."""
        put(database, ada.id, *[LONG_AGO] * 300)
        cotillion = {"ruleset": "royal-cotillion-1", "score": 8}
        (other,) = put(database, ada.id, LONG_AGO + 8 * SECOND, **cotillion)
        lost = put(database, ada.id, *[LONG_AGO + 9 * SECOND] * 2, status="lost", score=40)

        assert export(ada, ruleset="royal-cotillion-1") == [other]
        assert export(ada, status="lost") == sorted(lost)
        assert export(ada, min_score=13) == sorted(lost)
        assert export(ada, max_score=11) == [other]
        assert export(ada, min_score=8, max_score=8) == [other]
        assert export(ada, min_score=41) == []
        assert export(ada, status="lost", ruleset="royal-cotillion-1") == []

    def test_a_range_of_time_has_its_beginning_and_not_its_end(
        self, ada: Person, database: Database
    ) -> None:
        rows = put(database, ada.id, *[LONG_AGO + n * SECOND for n in range(4)])

        def stamp(n: int) -> str:
            return f"2026-01-31T12:00:0{n}.000Z"

        assert export(ada, since=stamp(1)) == rows[1:]
        assert export(ada, until=stamp(3)) == rows[:3]
        assert export(ada, since=stamp(1), until=stamp(3)) == rows[1:3]
        assert export(ada, since="2026-01-31T13:00:01%2b01:00") == rows[1:]
        assert export(ada, since="2026-01-31t12:00:00.9999z") == rows[1:]
        assert export(ada, since="0001-01-01T00:00:00%2b23:59") == rows
        assert export(ada, until="0001-01-01T00:00:00%2b23:59") == []

    @pytest.mark.parametrize(
        ("query", "where"),
        [
            ("since=yesterday", "since"),
            ("since=2026-01-31", "since"),
            ("since=2026-02-30T00:00:00Z", "since"),
            ("since=2026-01-31T00:00:61Z", "since"),
            ("until=2026-01-31T00:00:00", "until"),
            ("since=", "since"),
            ("status=playing", "status"),
            ("ruleset=chess", "ruleset"),
            ("min_score=-1", "min_score"),
            ("max_score=105", "max_score"),
            ("limit=5", "limit"),
        ],
    )
    def test_what_is_no_filter_is_refused_before_anything_is_sent(
        self, ada: Person, query: str, where: str
    ) -> None:
        refused = problem(ada.get(f"/v1/replays?{query}"))

        assert refused == (422, "invalid-request")
        assert refused.body["errors"][0]["pointer"] == f"#query/{where}"

    def test_the_next_export_begins_where_this_one_is_sure_to_be_complete(
        self, ada: Person, database: Database
    ) -> None:
        before = database.now()

        _, whole = streamed(ada.get("/v1/replays"))
        _, past = streamed(ada.get("/v1/replays?until=2026-01-31T12:00:00Z"))

        following = datetime.fromisoformat(whole["next"])
        assert before - OVERLAP <= following + SECOND
        assert following <= database.now() - OVERLAP
        assert past["next"] == "2026-01-31T12:00:00.000Z"

    def test_nothing_is_skipped_that_ends_while_it_is_read(
        self, ada: Person, database: Database
    ) -> None:
        now = database.now()
        rows = put(database, ada.id, *[now - timedelta(seconds=100)] * 250)
        token = tokens.fingerprint(ada.token or "")
        first = database.run(lambda one: replays.export(one, Instant(), token, database, {}))
        seen = [str(next(first.documents)["header"]["id"]) for _ in range(150)]
        # One is written late, with an end that this export has passed; one ends just now.
        late = put(database, ada.id, now - timedelta(seconds=110))
        new = put(database, ada.id, now + timedelta(seconds=5))
        seen += [str(one["header"]["id"]) for one in first.documents]

        second = database.run(
            lambda one: replays.export(one, Instant(), token, database, {"since": first.next})
        )
        then = {str(one["header"]["id"]) for one in second.documents}

        assert seen == sorted(rows)
        assert set(late) <= then
        assert not set(new) & then

    def test_an_act_that_was_held_up_for_long_is_refused_and_not_written_into_the_past(
        self, ada: Person, database: Database
    ) -> None:
        game = ada.create()
        token, id_ = tokens.fingerprint(ada.token or ""), UUID(game["id"])

        def resign(ago: timedelta) -> State:
            instant = Instant()
            instant.fix(database.now() - ago)
            return database.run(lambda one: resign_(one, instant, token, id_, 0))

        with pytest.raises(DatabaseUnavailableError):
            resign(WRITTEN_WITHIN + SECOND)
        assert expect(ada.get(f"/v1/games/{game['id']}"))["status"] == "playing"
        assert resign(WRITTEN_WITHIN - 10 * SECOND).game.status == "resigned"
        assert WRITTEN_WITHIN * 2 <= OVERLAP

    def test_a_lost_game_that_went_on_comes_again_as_it_ended(self, ada: Person) -> None:
        lost = ada.play(ada.create("7"))
        first = export(ada)
        again = expect(ada.act(lost, "undo"))
        between = export(ada)

        expect(ada.act(again, "resign"))

        assert first == [lost["id"]]
        assert between == []
        (document,) = streamed(ada.get("/v1/replays"))[0]
        assert document["result"]["status"] == "resigned"

    def test_a_damaged_game_is_told_in_its_place_and_the_others_still_come(
        self, ada: Person, database: Database
    ) -> None:
        rows = put(database, ada.id, *[LONG_AGO + n * SECOND for n in range(3)])
        database.run(
            lambda connection: connection.execute(
                update(games).where(games.c.id == UUID(rows[1])).values(log=b"\x00")
            )
        )

        documents, end = streamed(ada.get("/v1/replays"))

        assert documents[1] == {"broken": rows[1]}
        assert [one["header"]["id"] for one in documents[::2]] == rows[::2]
        assert end["count"] == 3
        assert verify(documents[1]).verdict == "invalid"

    def test_s_29_a_line_has_no_member_that_is_not_published(self, ada: Person) -> None:
        """S-29: of games with a deal that was hidden too, and of their rows nothing else."""
        ended(ada)
        ended(ada, None)

        documents, _ = streamed(ada.get("/v1/replays"))

        for document in documents:
            Draft202012Validator(SCHEMA).validate(document)

    def test_where_the_database_breaks_it_breaks_off_without_the_closing_line(
        self, postgres: EmbeddedPostgres, contract: Contract
    ) -> None:
        with new_database(postgres) as url:
            database = Database(url, timeout=1)
            schema.upgrade(database.engine)
            ada = Client(create_app(Settings(rate_limits="off"), database), contract).register()
            put(database, ada.id, *[LONG_AGO] * 1000)
            answer = ada.app.test_client().get(
                "/v1/replays", headers={"Authorization": f"Bearer {ada.token}"}
            )
            stream = answer.iter_encoded()
            lines = [next(stream)]
            database.dispose()
            database.engine = Database("postgresql:///gone?host=/nowhere", timeout=1).engine

            with pytest.raises(DatabaseUnavailableError):
                lines.extend(stream)

        assert 50 < len(lines) < 1000
        assert not any(b'"end"' in line for line in lines)

    def test_long_answers_leave_threads_to_others(self, ada: Person, database: Database) -> None:
        put(database, ada.id, *[LONG_AGO] * 300)
        app = create_app(Settings(threads=3, rate_limits="off"), database)
        other = replace(ada, app=app)
        headers = {"Authorization": f"Bearer {ada.token}"}
        stream = app.test_client().get("/v1/replays", headers=headers)
        assert next(stream.iter_encoded())

        refused = problem(other.get("/v1/replays"))
        unread = NeverRead()
        response = app.test_client().post(
            "/v1/replays/verify",
            content_type=NDJSON,
            environ_overrides={"wsgi.input": unread, "CONTENT_LENGTH": "1"},
        )
        read = other.get("/v1/games")
        stream.close()

        assert refused == problem(response) == (503, "streams-full")
        assert refused.body["retry_after"] > 0
        assert read.status_code == 200
        assert len(streamed(other.get("/v1/replays"))[0]) == 300
        assert problem(Client(app, ada.contract).get("/v1/replays")) == (401, "token-missing")
        long = app.test_client().post(
            "/v1/replays/verify", content_length=1 << 26, content_type=NDJSON
        )
        assert problem(long) == (401, "token-missing")
        head = other.ask("HEAD", "/v1/replays")
        head.close()
        assert len(streamed(other.get("/v1/replays"))[0]) == 300


def bulk(who: Client, *texts: bytes | str | Json, **options: Any) -> tuple[list[Json], Json]:
    """Return the verdicts on lines and the line that counts them."""
    texts = tuple(one.encode() if isinstance(one, str) else one for one in texts)
    answer = who.ask(
        "POST",
        "/v1/replays/verify",
        data=b"\n".join(one if isinstance(one, bytes) else orjson.dumps(one) for one in texts),
        headers={"Content-Type": NDJSON},
        **options,
    )
    return streamed(answer)


def closing(count: int) -> str:
    return json.dumps({"end": True, "count": count})


VALID = played(header(), ["r4:upper-S", "resign"])
PLAYING = played(header(), ["r4:upper-S"])
WRONG = {**VALID, "digest": "0" * 64}
STRANGE = {**VALID, "format": "replay-9"}


class TestVerifyingInBulk:
    def test_each_line_has_its_verdict_in_order(self, client: Client) -> None:
        documents = [VALID, WRONG, PLAYING, STRANGE, VALID]

        verdicts, end = bulk(client, *documents, closing(5))

        assert verdicts == [
            {"line": n, **expect(client.post("/v1/replays/verify", document))}
            for n, document in enumerate(documents, 1)
        ]
        assert end == {
            "end": True,
            "count": 5,
            "valid": 2,
            "invalid": 1,
            "incomplete": 1,
            "unsupported": 1,
            "complete": True,
        }

    def test_an_export_is_verified_as_it_came(self, ada: Person) -> None:
        ended(ada)
        ended(ada, None)

        verdicts, end = bulk(ada, ada.get("/v1/replays").get_data())

        assert [one["levels"]["signature"] for one in verdicts] == [{"state": "pass"}] * 2
        assert (end["valid"], end["complete"]) == (2, True)

    @pytest.mark.parametrize(
        "line",
        [b"{", b"\xff\xfe", b"[]", b"7", b'{"a": 1, "a": 2}', b"[" * 100_000, b'{"broken": "x"}'],
    )
    def test_a_line_that_is_no_replay_is_a_verdict_too(self, client: Client, line: bytes) -> None:
        verdicts, end = bulk(client, VALID, line, VALID, closing(3))

        assert [one["verdict"] for one in verdicts] == ["valid", "invalid", "valid"]
        assert verdicts[1]["problem"]["code"] == "malformed"
        assert end["complete"]

    def test_lines_are_numbered_as_they_stand(self, client: Client) -> None:
        verdicts, end = bulk(client, b"", orjson.dumps(VALID) + b"\r", b"  ", VALID, closing(2))

        assert [one["line"] for one in verdicts] == [2, 4]
        assert end["complete"]

    @pytest.mark.parametrize(
        "lines", [[VALID], [VALID, closing(2)], [closing(1)], [], [VALID, closing(1), VALID]]
    )
    def test_a_part_is_not_taken_for_the_whole(self, client: Client, lines: list[Any]) -> None:
        verdicts, end = bulk(client, *lines)

        assert len(verdicts) == lines.count(VALID) == end["valid"]
        assert end["complete"] is False

    def test_a_line_longer_than_a_document_may_be_is_invalid(self, ada: Person) -> None:
        long = {**VALID, "extra": "x" * (1 << 20)}

        verdicts, _ = bulk(ada, long, VALID, closing(2))

        assert [one["verdict"] for one in verdicts] == ["invalid", "valid"]
        assert "longer than" in verdicts[0]["problem"]["detail"]

    def test_as_much_as_the_limit_is_taken_and_no_more(self, client: Client, ada: Person) -> None:
        limits = expect(client.get("/v1"))["limits"]
        fits = b"\n" * (limits["bulk_lines"] - 1)
        fits = b" " * (limits["bulk_bytes"] - len(fits)) + fits

        def code(data: bytes) -> int:
            headers = {"Content-Type": NDJSON}
            return ada.ask("POST", "/v1/replays/verify", data=data, headers=headers).status_code

        assert code(fits) == 200
        assert code(fits + b" ") == 413
        assert code(b"\n" * (limits["bulk_lines"] + 1)) == 413

    @pytest.mark.parametrize("known", [True, False])
    def test_a_body_of_untold_length_is_held_to_the_limit_too(
        self, app: Flask, ada: Person, *, known: bool
    ) -> None:
        limits = expect(ada.get("/v1"))["limits"]
        most = limits["bulk_bytes" if known else "anonymous_bulk_bytes"]
        bearer = {"Authorization": f"Bearer {ada.token}"} if known else {}

        def status(size: int) -> int:
            answer = app.test_client().post(
                "/v1/replays/verify",
                input_stream=io.BytesIO(b" " * size),
                headers={"Content-Type": NDJSON, "Transfer-Encoding": "chunked", **bearer},
                environ_overrides={"wsgi.input_terminated": True},
            )
            answer.get_data()
            return answer.status_code

        assert status(most) == 200
        assert status(most + 1) == (413 if known else 401)

    def test_without_a_token_a_mebibyte_is_the_most(self, client: Client, ada: Person) -> None:
        most = expect(client.get("/v1"))["limits"]["anonymous_bulk_bytes"]
        headers = {"Content-Type": NDJSON}
        padding = b" " * (most - len(orjson.dumps(VALID)) - 1) + b"\n"

        fits = bulk(client, orjson.dumps(VALID) + padding)
        refused = client.ask(
            "POST", "/v1/replays/verify", data=b"%b{}\n" % padding * 2, headers=headers
        )

        assert fits[1]["valid"] == 1
        assert problem(refused) == (401, "token-missing")
        assert bulk(ada, padding * 2, VALID)[1]["valid"] == 1

    def test_whoever_takes_an_answer_too_slowly_is_dropped(
        self, ada: Person, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(framework, "_TAKEN_WITHIN", 0.1)
        put(database, ada.id, *[LONG_AGO] * 300)
        app = create_app(Settings(threads=2, rate_limits="off"), database)
        other = replace(ada, app=app)

        stream = app.test_client().get(
            "/v1/replays", headers={"Authorization": f"Bearer {ada.token}"}
        )
        taken = dropped(stream.iter_encoded())

        assert len(taken) < 4
        assert not any(b'"end"' in line for line in taken)
        assert len(streamed(other.get("/v1/replays"))[0]) == 300

    def test_other_media_types_are_refused(self, client: Client) -> None:
        for mime in ("text/plain", "application/jsonl", ""):
            headers = {"Content-Type": mime}
            refused = client.ask("POST", "/v1/replays/verify", data=b"{}", headers=headers)
            assert problem(refused) == (415, "unsupported-media-type")


def bring(who: Client, document: Json | bytes, **headers: str) -> TestResponse:
    """Return the answer to an import."""
    data = document if isinstance(document, bytes) else orjson.dumps(document)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {"Content-Type": MEDIA_TYPE, **named}
    return who.ask("POST", "/v1/replays", data=data, headers=sent)


def kept(database: Database, who: Person) -> int:
    query = select(func.count()).select_from(imports).where(imports.c.player_id == UUID(who.id))
    return int(database.run(lambda connection: connection.execute(query).scalar_one()))


def other(n: int) -> Json:
    """Return one of many valid replays."""
    return played(header(seed=str(n)), ["resign"])


class TestImport:
    def test_a_replay_of_elsewhere_is_kept_and_given_back(self, ada: Person) -> None:
        document = {**VALID, "extra": {"note": "Grüße\u0000\U0001f600", "n": [1.5, None]}}

        answer = bring(ada, document)

        made = expect(answer, 201)
        assert made["imported"] is True
        assert (made["ruleset"], made["status"], made["score"]) == (
            "royal-rendezvous-1",
            "resigned",
            13,
        )
        assert made["digest"] == VALID["digest"]
        assert answer.headers["Location"] == made["links"]["self"] == f"/v1/replays/{made['id']}"
        given = ada.ask("GET", made["links"]["self"])
        assert given.mimetype == MEDIA_TYPE
        assert given.get_json(force=True) == document

    def test_s_64_replays_of_every_earlier_release_are_taken(self, ada: Person) -> None:
        """S-64: each of the recorded games that has ended, and comes back as it was."""
        taken = 0
        for document in golden():
            if verify(document).verdict == "valid":
                made = expect(bring(ada, document), 201)
                assert expect(ada.get(made["links"]["self"])) == document
                taken += 1

        assert taken == len(GOLDEN.read_bytes().splitlines()) - 1

    def test_a_game_of_ones_own_may_be_imported_and_is_its_own_thing(self, ada: Person) -> None:
        game = ended(ada)

        made = expect(bring(ada, ada.replay(game)), 201)

        assert made["id"] != game["id"]
        assert [one["id"] for one in expect(ada.get("/v1/games"))["games"]] == [game["id"]]
        assert export(ada) == [game["id"]]

    @pytest.mark.parametrize(
        ("document", "verdict", "pointer"),
        [
            (WRONG, "invalid", "/digest"),
            ({**VALID, "result": {**VALID["result"], "score": 104}}, "invalid", "/result/score"),
            (PLAYING, "incomplete", None),
            (STRANGE, "unsupported", "/format"),
            ({}, "invalid", ""),
            (KEYS.signed(VALID) | {"signature": "e30.e30.AA"}, "invalid", "/signature"),
        ],
    )
    def test_what_is_not_valid_and_finished_is_refused_with_the_verdict(
        self,
        ada: Person,
        database: Database,
        document: Json,
        verdict: str,
        pointer: str | None,
    ) -> None:
        refused = problem(bring(ada, document))

        assert refused == (422, "replay-refused")
        assert refused.body["verdict"]["verdict"] == verdict
        assert refused.body["verdict"].get("problem", {}).get("pointer") == pointer
        assert kept(database, ada) == 0

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"{",
            b"\xff",
            b"[" * 90_000,
            orjson.dumps(VALID)[:-1] + b',"extra": 1e400}',
            orjson.dumps(VALID)[:-1] + b',"extra": [-1e999]}',
        ],
    )
    def test_what_cannot_be_read_or_written_again_is_refused(
        self, ada: Person, database: Database, text: bytes
    ) -> None:
        assert problem(bring(ada, text)) == (422, "replay-refused")
        assert kept(database, ada) == 0

    def test_the_same_replay_again_is_the_one_that_is_there(
        self, ada: Person, bea: Person, database: Database
    ) -> None:
        first = expect(bring(ada, VALID), 201)

        again = expect(bring(ada, {**KEYS.signed(VALID), "extra": 1}), 201)

        assert again == first
        assert expect(ada.get(first["links"]["self"])) == VALID
        assert expect(bring(bea, VALID), 201)["id"] != first["id"]
        assert (kept(database, ada), kept(database, bea)) == (1, 1)

    def test_of_many_at_once_one_is_kept(self, ada: Person, database: Database) -> None:
        with ThreadPoolExecutor(5) as pool:
            made = list(pool.map(lambda _: expect(bring(ada, VALID), 201)["id"], range(10)))

        assert len(set(made)) == 1
        assert kept(database, ada) == 1

    def test_they_are_counted_one_at_a_time(self, ada: Person, database: Database) -> None:
        with ThreadPoolExecutor(1) as pool, database.engine.connect() as connection:
            connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                row = select(players.c.id).where(players.c.id == UUID(ada.id))
                connection.execute(row.with_for_update(key_share=True))
                answer = pool.submit(bring, ada, VALID)
                with pytest.raises(TimeoutError):
                    answer.result(0.5)

        assert answer.result().status_code == 201

    def test_a_key_stands_for_one_replay(self, ada: Person, database: Database) -> None:
        key = {"Idempotency_Key": "one"}
        first = expect(bring(ada, VALID, **key), 201)

        again = expect(bring(ada, VALID, **key), 201)
        refused = bring(ada, other(1), **key)

        assert again == first
        assert problem(refused) == (422, "idempotency-key-reused")
        assert kept(database, ada) == 1
        assert ada.ask("DELETE", first["links"]["self"]).status_code == 204
        assert expect(bring(ada, VALID, **key), 201)["digest"] == first["digest"]

    def test_what_is_kept_is_no_longer_than_what_is_taken(
        self, ada: Person, database: Database
    ) -> None:
        room = MAX_IMPORT_BYTES - len(orjson.dumps({**VALID, "extra": ""}))
        note = "é" * (room // 2)

        made = expect(bring(ada, {**VALID, "extra": note}), 201)
        query = select(func.octet_length(imports.c.document)).where(
            imports.c.player_id == UUID(ada.id)
        )
        size = database.run(lambda connection: connection.execute(query).scalar_one())

        assert expect(ada.get(made["links"]["self"]))["extra"] == note
        assert size <= MAX_IMPORT_BYTES

    def test_what_would_be_longer_as_it_is_kept_is_refused(
        self, ada: Person, database: Database
    ) -> None:
        numbers = b"[%b1]" % (b"1e15," * (MAX_IMPORT_BYTES // 10))
        document = orjson.dumps({**VALID, "extra": 0}).replace(b'"extra":0', b'"extra":' + numbers)
        assert len(document) < MAX_IMPORT_BYTES

        refused = problem(bring(ada, document))

        assert refused == (422, "replay-refused")
        assert refused.body["verdict"]["problem"]["pointer"] == "/extra"
        assert kept(database, ada) == 0

    @pytest.mark.parametrize("extra", ['"\\ud800"', '{"\\udfff": 1}', "1e999"])
    def test_what_cannot_be_written_again_is_refused(self, ada: Person, extra: str) -> None:
        document = orjson.dumps(VALID)[:-1] + f',"extra":{extra}}}'.encode()

        assert problem(bring(ada, document)) == (422, "replay-refused")

    def test_a_player_keeps_so_many_bytes_and_no_more(
        self, ada: Person, database: Database
    ) -> None:
        first = expect(bring(ada, VALID), 201)
        fill = (
            "INSERT INTO imports (id, player_id, created_at, ruleset, status, score, digest,"
            " document) VALUES (gen_random_uuid(), :id, now(), 'royal-rendezvous-1', 'won', 104,"
            " 'x', repeat('x', :size))"
        )
        size = MAX_IMPORTED_BYTES - 2 * len(json.dumps(VALID)) + 100
        database.run(lambda one: one.execute(text(fill), {"id": ada.id, "size": size}))

        assert problem(bring(ada, other(1))) == (409, "imports-full")
        assert ada.ask("DELETE", first["links"]["self"]).status_code == 204
        assert bring(ada, other(1)).status_code == 201
        assert expect(ada.get("/v1"))["limits"]["imported_bytes"] == MAX_IMPORTED_BYTES

    def test_a_player_keeps_so_many_and_no_more(self, ada: Person, database: Database) -> None:
        first = expect(bring(ada, VALID), 201)
        rows = [
            {
                "id": new_id(),
                "player_id": UUID(ada.id),
                "created_at": LONG_AGO,
                "ruleset": "royal-rendezvous-1",
                "status": "won",
                "score": 104,
                "digest": n.to_bytes(32),
                "document": "{}",
            }
            for n in range(MAX_IMPORTS - 2)
        ]
        database.run(lambda connection: connection.execute(insert(imports), rows), transaction=True)

        with ThreadPoolExecutor(4) as pool:
            statuses = list(pool.map(lambda n: bring(ada, other(n)).status_code, range(4)))

        assert sorted(statuses) == [201, 409, 409, 409]
        assert problem(bring(ada, other(9))) == (409, "imports-full")
        assert expect(bring(ada, VALID), 201) == first
        assert ada.ask("DELETE", first["links"]["self"]).status_code == 204
        assert bring(ada, other(9)).status_code == 201
        assert kept(database, ada) == MAX_IMPORTS == expect(ada.get("/v1"))["limits"]["imports"]

    def test_they_are_listed_page_by_page(self, ada: Person, bea: Person) -> None:
        made = [expect(bring(ada, other(n)), 201) for n in range(5)]
        expect(bring(bea, VALID), 201)

        found, path = [], "/v1/imports?limit=2"
        for _ in range(3):
            answer = ada.get(path)
            found += expect(answer)["imports"]
            link = re.search('<([^>]*)>; rel="next"', answer.headers.get("Link", ""))
            path = link[1] if link else ""

        assert found == made[::-1]
        assert path == ""
        assert problem(ada.get("/v1/imports?cursor=x")) == (422, "unknown-cursor")

    def test_they_are_their_importers_alone(
        self, ada: Person, bea: Person, database: Database
    ) -> None:
        made = expect(bring(ada, VALID), 201)["links"]["self"]

        assert problem(bea.get(made)) == (404, "not-found")
        assert problem(bea.ask("DELETE", made)) == (404, "not-found")
        assert problem(Client(ada.app, ada.contract).get(made)) == (401, "token-missing")
        assert kept(database, ada) == 1

    def test_one_that_is_forgotten_is_gone(self, ada: Person, database: Database) -> None:
        made = expect(bring(ada, VALID), 201)["links"]["self"]

        assert ada.ask("DELETE", made).status_code == 204

        assert problem(ada.ask("DELETE", made)) == (404, "not-found")
        assert problem(ada.get(made)) == (404, "not-found")
        assert kept(database, ada) == 0

    def test_a_long_one_is_refused(self, ada: Person) -> None:
        room = MAX_IMPORT_BYTES - len(orjson.dumps({**VALID, "extra": ""}))

        assert bring(ada, {**VALID, "extra": "x" * room}).status_code == 201
        assert problem(bring(ada, {**VALID, "extra": "x" * (room + 1)})) == (413, "body-too-large")

    def test_it_must_come_as_a_replay(self, ada: Person) -> None:
        answer = bring(ada, VALID, Content_Type=NDJSON)

        assert problem(answer) == (415, "unsupported-media-type")
        assert bring(ada, VALID, Content_Type="application/json").status_code == 201
