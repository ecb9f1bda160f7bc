"""The log of requests: what stands in it, and above all what does not."""

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from client import Client, Contract, Person, unknown_id
from server import Service, await_, dumped, new_database, running, serve, streaming

from service import tokens
from service.app import create_app
from service.settings import Settings
from service.store import schema
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres
from service.stream import Hub
from service.stream import create_app as create_streams

Json = dict[str, Any]
FAULT = """
from service import games
def broken(*_, **__):
    raise RuntimeError("a fault of ours")
games.list_own = broken
"""


@pytest.fixture
def logged(database: Database) -> Client:
    """Somebody without a token, at a service that logs."""
    app = create_app(Settings(rate_limits="off", log="json", trusted_proxies=1), database)
    return Client(app, Contract(app))


def lines(text: str) -> list[Json]:
    return [orjson.loads(line) for line in text.splitlines()]


def test_each_request_is_a_line_that_says_what_was_asked_and_how_it_went(
    logged: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    ada = logged.register()
    game = ada.create()
    capfd.readouterr()

    answer = ada.get(f"/v1/games/{game['id']}?ply=0", X_Request_Id="mine-1")

    (line,) = lines(capfd.readouterr().err)
    assert datetime.fromisoformat(line.pop("time")).tzinfo
    assert 0 < line.pop("ms") < 10_000
    assert line == {
        "level": "info",
        "request_id": "mine-1",
        "method": "GET",
        "route": "/v1/games/{game_id}",
        "status": 200,
        "bytes": len(answer.data),
        "player": ada.id,
    }


def test_who_has_no_token_is_told_by_address_and_a_problem_by_its_code(
    logged: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    logged.get("/v1/players/me", X_Forwarded_For="192.0.2.7")

    (line,) = lines(capfd.readouterr().err)
    assert line["address"] == "192.0.2.7"
    assert (line["status"], line["problem"]) == (401, "token-missing")
    assert "player" not in line


def test_a_path_that_is_no_route_is_not_told(
    logged: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    logged.get("/v1/players/rr_secret?token=rr_secret")

    (line,) = lines(capfd.readouterr().err)
    assert "route" not in line
    assert "secret" not in str(line)
    assert line["status"] == 404


def test_what_is_sent_in_pieces_is_counted_when_it_has_ended(
    logged: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    ada = logged.register()
    capfd.readouterr()

    for path in ("/docs/assets/swagger-ui.css", "/v1/players/me", "/v1/replays"):
        with ada.get(path) as answer:
            size = len(answer.get_data())
        (line,) = lines(capfd.readouterr().err)
        assert line["bytes"] == size
        assert line.get("player") == (ada.id if path.startswith("/v1") else None)
    answer = ada.ask("HEAD", "/v1/players/me")
    (line,) = lines(capfd.readouterr().err)
    assert (line["method"], line["bytes"]) == ("HEAD", 0)


def test_that_all_is_well_is_not_told_every_few_seconds(
    logged: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    logged.get("/healthz")
    logged.get("/readyz")
    assert capfd.readouterr().err == ""

    away = create_app(Settings(log="json"), Database("postgresql:///nowhere?host=/nowhere"))
    Client(away, Contract(away)).get("/readyz")
    assert '"route":"/readyz","problem":"database-unavailable"' in capfd.readouterr().err


def test_that_nobody_reads_the_log_stops_no_request(
    logged: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken:
        monkeypatch.setattr(sys, "stderr", broken)
        answer = logged.get("/v1/rulesets")
        monkeypatch.undo()

    assert answer.status_code == 200


def test_nothing_is_told_where_it_is_off(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    client.get("/v1/rulesets")

    assert capfd.readouterr().err == ""


@pytest.fixture
def live(postgres: EmbeddedPostgres, tmp_path: Path) -> Iterator[tuple[Service, str, Path]]:
    """A service of a database of its own that logs to a file, and one of whose lists is broken."""
    log = tmp_path / "log"
    with new_database(postgres) as url:
        database = Database(url)
        schema.upgrade(database.engine)
        database.dispose()
        with (
            log.open("w") as file,
            running(url, first=FAULT, log=file, LOG="json", WORKERS="2") as service,
        ):
            yield service, url, log


def test_s_56_neither_the_log_nor_the_database_holds_a_token(
    live: tuple[Service, str, Path], tmp_path: Path
) -> None:
    """S-56: given, used, refused, minted, revoked, sent where none belongs."""
    service, url, log = live
    service.register()
    first = str(service.token)
    me = service.ask("GET", "/v1/players/me").body
    second = service.ask("POST", "/v1/tokens", {"scopes": ["games:read"]}).body["token"]
    third, made_up = Service(service.port), tokens.draw()
    third.register("Bea")
    texts = [first, second, str(third.token), made_up]

    for text in texts:
        asked = Service(service.port, text)
        asked.ask("GET", "/v1/players/me", headers={"X-Request-Id": text})
        asked.ask("GET", f"/v1/games?cursor={text}")
        asked.ask("GET", f"/v1/games/{text}?token={text}")
        asked.ask("POST", f"/v1/{text}", {"token": text})
        asked.ask("POST", "/v1/games", {"deal": {"seed": text}, "token": text})
        asked.ask("DELETE", f"/v1/tokens/{text}")
        asked.ask("GET", "/v1/games")  # which is broken
        asked.ask("GET", "/v1/players/me", headers={"Authorization": f"Basic {text}"})
    assert service.ask("DELETE", f"/v1/tokens/{me['token']}").status == 204
    assert service.ask("GET", "/v1/players/me").status == 401

    told, kept = log.read_bytes(), dumped(url, tmp_path)
    assert len(told.splitlines()) > 30
    assert b"a fault of ours" in told
    for text in texts:
        for secret in (text.encode(), text.encode()[3:43]):
            assert secret not in told
            assert secret not in kept
    assert b"rr_" not in told


def test_s_56_the_log_holds_no_seed_and_a_request_not_more_than_its_line(
    live: tuple[Service, str, Path],
) -> None:
    service, url, log = live
    service.register("Ada Lovelace")
    hidden = service.ask("POST", "/v1/games", {}).body
    given = service.create("a-seed-of-mine")
    for game in (hidden, given):
        moved = service.move(game)
        service.try_move(moved, 0, {"from": "r1", "to": "r1"})
        service.ask("GET", f"/v1/games/{game['id']}/replay")
    service.ask("GET", "/v1/deals/deal-1/royal-rendezvous-1?seed=another-seed")
    service.ask("POST", "/v1/games", {"deal": {"spec": "deal-1", "seed": "a bad seed"}})

    database = Database(url)
    with database.engine.connect() as connection:
        seeds = connection.exec_driver_sql("SELECT seed FROM games WHERE hidden").scalars().all()
    database.dispose()
    assert len(seeds) == 1

    text = log.read_text()
    for secret in (*seeds, "a-seed-of-mine", "another-seed", "a bad seed", "Lovelace"):
        assert secret not in text
    for game in (hidden, given):
        assert game["id"] not in text


def test_a_fault_of_ours_is_told_with_the_requests_id_and_where_it_was(
    live: tuple[Service, str, Path],
) -> None:
    service, _, log = live
    service.register()

    answer = service.ask("GET", "/v1/games", headers={"X-Request-Id": "broken-1"})

    assert answer.status == 500
    assert b"a fault of ours" not in answer.data
    told = [line for line in lines(log.read_text()) if line["level"] == "error"]
    assert len(told) == 1
    assert told[0]["message"] == "internal error in request broken-1"
    assert "RuntimeError: a fault of ours" in told[0]["traceback"]
    noted = [line for line in lines(log.read_text()) if line.get("request_id") == "broken-1"]
    assert [(line["status"], line["problem"]) for line in noted] == [(500, "internal-error")]


def test_whatever_is_logged_is_a_line_of_json(live: tuple[Service, str, Path]) -> None:
    service, _, log = live
    service.register()
    service.ask("GET", "/v1/games")

    found = lines(log.read_text())

    assert {"info", "error"} <= {line["level"] for line in found}
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z", line["time"]) for line in found)


def test_a_stream_of_events_has_its_line_when_it_ends(
    database: Database, ada: Person, capfd: pytest.CaptureFixture[str]
) -> None:
    game = ada.create()
    ada.act(game, "resign")
    streams = create_streams(Hub(Settings(log="json"), database))

    async def ask(path: str, **headers: str) -> httpx.Response:
        transport = httpx.ASGITransport(streams)
        async with httpx.AsyncClient(transport=transport, base_url="http://streams") as client:
            return await client.get(path, headers=headers)

    token = {"Authorization": f"Bearer {ada.token}", "X-Request-Id": str(ada.token)}
    heard = asyncio.run(ask(f"/v1/games/{game['id']}/events", **token))
    refused = asyncio.run(ask(f"/v1/games/{unknown_id()}/events"))
    asyncio.run(ask("/healthz"))

    first, second = lines(capfd.readouterr().err)
    route = "/v1/games/{game_id}/events"
    assert (first["route"], first["status"], first["player"]) == (route, 200, ada.id)
    assert first["bytes"] == len(heard.content)
    assert first["request_id"] == heard.headers["X-Request-Id"] != ada.token
    assert (second["route"], second["problem"]) == (route, "not-found")
    assert second["request_id"] == refused.json()["request_id"]
    assert "player" not in second


def test_serve_tells_a_person_what_it_did_before(database: Database, tmp_path: Path) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    with serve(tmp_path, LOG="json", DATABASE_URL=url) as served:
        service = served.announced()
        service.ask("GET", "/v1/rulesets")
        assert served.end() == 0

    assert [line[:29] for line in served.said] == ["Royal Rendezvous is served at"]
    *told, last = served.complained
    assert last == "stopping ...\n"
    assert [line["route"] for line in lines("".join(told)) if "route" in line] == ["/v1/rulesets"]


def test_streams_go_on_though_nobody_reads_the_log_and_say_what_is_lost(database: Database) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    for size in (1024, 1):
        with suppress(BlockingIOError):
            while True:
                os.write(write, b"." * size)
    os.set_blocking(write, True)
    url = database.engine.url.render_as_string(hide_password=False)
    few = "from service.api import edge; edge._MOST_LINES = 5"

    with os.fdopen(write, "w") as log, streaming(url, first=few, log=log, LOG="json") as streams:
        service = Service(streams.port)
        await_(service.healthy)
        assert {service.ask("GET", "/nothing").status for _ in range(20)} == {404}
        heard = b""
        while b"are lost" not in heard:
            heard += os.read(read, 1 << 16)
        assert service.ask("GET", "/nothing").status == 404
    while piece := os.read(read, 1 << 16):
        heard += piece
    os.close(read)

    told = lines(heard.decode().lstrip("."))
    lost = [int(line["message"].split()[0]) for line in told if line["level"] == "warning"]
    assert sum(lost) + sum(line["level"] == "info" for line in told) == 21
    assert 13 <= sum(lost) <= 15
