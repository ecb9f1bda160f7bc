"""What every answer has for browsers and caches, and what no answer has."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from client import Client, Contract, Person, expect, hold_headers, problem, unknown_id
from flask import Flask
from werkzeug.test import TestResponse
from werkzeug.wrappers import Response

from service.app import create_app
from service.settings import Settings
from service.store.database import Database
from service.stream import Hub
from service.stream import create_app as create_streams

PLAY = "https://play.example"
OTHER = "https://other.example"
ASKED = "authorization, content-type, idempotency-key, if-none-match, last-event-id"

Make = Callable[..., Client]


@pytest.fixture
def make(database: Database) -> Make:
    """Makes somebody at a service with these settings."""

    def made(**given: Any) -> Client:
        app = create_app(Settings(rate_limits="off", **given), database)
        return Client(app, Contract(app))

    return made


def preflight(client: Client, path: str = "/v1/games", **headers: str) -> TestResponse:
    """Return the answer to what a browser asks before it sends a POST."""
    sent = {
        "Origin": PLAY,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": ASKED,
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return client.app.test_client().options(path, headers=sent)


def cors(response: TestResponse) -> dict[str, str]:
    return {name: value for name, value in response.headers if name.startswith("Access-Control-")}


class TestCors:
    def test_without_a_setting_no_page_of_another_origin_may_read(self, client: Client) -> None:
        assert cors(client.get("/v1/rulesets", Origin=PLAY)) == {}
        assert cors(preflight(client)) == {}

    def test_a_page_of_an_origin_that_is_set_may_ask_all_there_is(self, make: Make) -> None:
        answer = preflight(make(cors_origins=f"{OTHER} {PLAY}"))

        assert answer.status_code == 200
        assert answer.headers["Access-Control-Allow-Origin"] == PLAY
        allowed = answer.headers["Access-Control-Allow-Headers"].lower().split(", ")
        assert allowed == ASKED.split(", ")
        methods = answer.headers["Access-Control-Allow-Methods"].split(", ")
        assert {"GET", "POST", "PATCH", "DELETE"} <= set(methods)
        assert int(answer.headers["Access-Control-Max-Age"]) > 0

    def test_it_may_read_what_clients_need(self, make: Make) -> None:
        client = make(cors_origins=PLAY)
        answer = client.get("/v1/rulesets", Origin=PLAY)

        shown = set(answer.headers["Access-Control-Expose-Headers"].split(", "))
        assert shown >= {"ETag", "Link", "Location", "Retry-After", "X-Request-Id"}

    @pytest.mark.parametrize(
        "path", ["/v1/players/me", "/v1/nothing", "/v1/games?limit=0", "/v1/rulesets/chess"]
    )
    def test_it_may_read_errors_too(self, make: Make, path: str) -> None:
        answer = make(cors_origins=PLAY).get(path, Origin=PLAY)

        assert answer.status_code >= 400
        assert answer.headers["Access-Control-Allow-Origin"] == PLAY

    def test_it_may_read_that_nothing_has_changed(self, make: Make) -> None:
        client = make(cors_origins=PLAY)
        tag = client.get("/v1/rulesets").headers["ETag"]

        answer = client.get("/v1/rulesets", Origin=PLAY, If_None_Match=tag)

        assert answer.status_code == 304
        assert answer.headers["Access-Control-Allow-Origin"] == PLAY

    @pytest.mark.parametrize(
        "origin", [OTHER, "null", "http://play.example", f"{PLAY}.evil.example", f"{PLAY}:444"]
    )
    def test_a_page_of_another_origin_may_not(self, make: Make, origin: str) -> None:
        client = make(cors_origins=PLAY)

        assert cors(client.get("/v1/rulesets", Origin=origin)) == {}
        assert cors(preflight(client, Origin=origin)) == {}

    def test_an_origin_may_be_an_address_and_is_then_no_pattern(self, make: Make) -> None:
        local = "http://[::1]:3000"
        client = make(cors_origins=local)

        answer = client.get("/v1/rulesets", Origin=local)
        other = client.get("/v1/rulesets", Origin="http://1:30001")

        assert answer.headers["Access-Control-Allow-Origin"] == local
        assert cors(other) == {}

    def test_what_is_kept_is_kept_for_each_origin_apart(self, make: Make) -> None:
        client = make(cors_origins=PLAY)

        for headers in ({}, {"Origin": PLAY}, {"Origin": OTHER}):
            answer = client.get("/v1/rulesets", **headers)
            assert "Origin" in answer.headers["Vary"]

    def test_all_origins_may_be_let_in(self, make: Make) -> None:
        client = make(cors_origins="*")

        assert client.get("/v1/rulesets").headers["Access-Control-Allow-Origin"] == "*"
        answer = preflight(client, Origin=OTHER)
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Vary" not in client.get("/v1/rulesets").headers

    def test_no_page_may_send_cookies(self, make: Make) -> None:
        for origins in ("*", PLAY):
            for answer in (
                make(cors_origins=origins).get("/v1/rulesets", Origin=PLAY),
                preflight(make(cors_origins=origins)),
            ):
                assert "Access-Control-Allow-Credentials" not in answer.headers


class TestStreams:
    """Browsers read live events from another port, by the same rules."""

    def ask(self, database: Database, method: str, path: str, **headers: str) -> httpx.Response:
        streams = create_streams(Hub(Settings(cors_origins=PLAY), database))

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(streams)
            async with httpx.AsyncClient(transport=transport, base_url="http://streams") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(asked())

    def test_a_page_of_an_origin_that_is_set_may_ask_and_read(
        self, database: Database, ada: Person
    ) -> None:
        game = ada.create()
        ada.act(game, "resign")
        path = f"/v1/games/{game['id']}/events"
        wish = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": ASKED}

        asked = self.ask(database, "OPTIONS", path, Origin=PLAY, **wish)
        heard = self.ask(database, "GET", path, Origin=PLAY)
        refused = self.ask(database, "GET", f"/v1/games/{unknown_id()}/events", Origin=PLAY)
        strange = self.ask(database, "GET", path, Origin=OTHER)

        assert (asked.status_code, heard.status_code, refused.status_code) == (200, 200, 404)
        for answer in (asked, heard, refused):
            assert answer.headers["Access-Control-Allow-Origin"] == PLAY
            assert "Access-Control-Allow-Credentials" not in answer.headers
        assert "last-event-id" in asked.headers["Access-Control-Allow-Headers"].lower()
        assert "Access-Control-Allow-Origin" not in strange.headers
        for answer in (heard, refused):
            hold_headers(Response(headers=list(answer.headers.items())))


class TestSecurity:
    @pytest.mark.parametrize(
        "path",
        ["/v1", "/healthz", "/openapi.json", "/docs", "/docs/docs.js", "/nothing", "/v1/games"],
    )
    def test_every_answer_tells_browsers_what_not_to_do_with_it(
        self, client: Client, path: str
    ) -> None:
        with client.get(path) as answer:
            hold_headers(answer)

    def test_so_does_one_of_a_fault_of_ours(self, database: Database) -> None:
        app = create_app(Settings(rate_limits="off"), database)

        def broken() -> str:
            raise ZeroDivisionError

        app.view_functions["pages.healthz"] = broken

        answer = Client(app, Contract(app)).get("/healthz")

        assert problem(answer) == (500, "internal-error")
        hold_headers(answer)

    def test_nothing_may_be_loaded_by_an_answer_of_the_api(self, client: Client) -> None:
        policy = client.get("/v1").headers["Content-Security-Policy"]

        assert policy.split("; ")[0] == "default-src 'none'"
        assert "'self'" not in policy

    def test_the_docs_page_may_load_its_own_and_nothing_else(self, client: Client) -> None:
        with client.get("/docs") as page:
            policy = page.headers["Content-Security-Policy"]

        parts = dict(part.split(" ", 1) for part in policy.split("; "))
        assert parts["default-src"] == "'none'"
        assert parts["script-src"] == "'self'"
        assert parts["connect-src"] == "'self'"
        assert not re.search(r"https?:|\*|'unsafe-eval'", policy)

    def test_https_is_demanded_only_where_it_is_set(self, make: Make) -> None:
        assert "Strict-Transport-Security" not in make().get("/v1").headers
        answer = make(hsts_seconds=3600).get("/v1")
        assert answer.headers["Strict-Transport-Security"] == "max-age=3600"

    @pytest.mark.parametrize("path", ["/healthz", "/nothing", "/v1/games/{id}/events"])
    def test_that_holds_for_the_streams_too(self, database: Database, path: str) -> None:
        def told(settings: Settings) -> str | None:
            streams = create_streams(Hub(settings, database))

            async def ask() -> httpx.Response:
                transport = httpx.ASGITransport(streams)
                async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                    return await client.get(path.format(id=unknown_id()))

            found: str | None = asyncio.run(ask()).headers.get("Strict-Transport-Security")
            return found

        assert told(Settings()) is None
        assert told(Settings(hsts_seconds=3600)) == "max-age=3600"

    def test_a_token_sent_as_the_requests_id_is_not_told_back(self, ada: Person) -> None:
        answer = ada.get("/v1/players/me", X_Request_Id=str(ada.token))

        assert str(ada.token) not in str(answer.headers)
        assert ada.get("/v1/players/me", X_Request_Id="mine-7").headers["X-Request-Id"] == "mine-7"


class TestCaches:
    def test_s_65_what_a_player_sees_is_kept_by_no_cache_between(self, ada: Person) -> None:
        game = ada.create()
        answers = [
            ada.get("/v1/players/me"),
            ada.get("/v1/games"),
            ada.get("/v1/tokens"),
            ada.get(f"/v1/games/{game['id']}"),
            ada.get(f"/v1/games/{game['id']}/replay"),
            ada.try_moves(game, 0, game["legal_moves"][0]),
            ada.try_moves(game, 0, {"from": "r1", "to": "r1"}),
        ]

        for answer in answers:
            control = answer.headers["Cache-Control"]
            assert re.fullmatch("private, no-(store|cache)|no-store", control)
            if "no-store" not in control:
                assert "Authorization" in answer.headers["Vary"]

    def test_s_65_a_tag_of_ones_own_view_shows_it_to_nobody_else(
        self, ada: Person, bea: Person, client: Client
    ) -> None:
        path = f"/v1/games/{ada.create()['id']}"
        tag = ada.get(path).headers["ETag"]

        assert ada.get(path, If_None_Match=tag).status_code == 304
        for other in (bea, client):
            assert problem(other.get(path, If_None_Match=tag)) == (404, "not-found")
            assert problem(other.get(path, If_None_Match="*")) == (404, "not-found")

    def test_s_65_a_tag_changes_with_what_is_shown(self, ada: Person) -> None:
        game = ada.create()
        path = f"/v1/games/{game['id']}"
        tag = ada.get(path).headers["ETag"]

        ada.move(game, game["legal_moves"][0])

        answer = ada.get(path, If_None_Match=tag)
        assert answer.status_code == 200
        assert expect(answer)["ply"] == 1

    @pytest.mark.parametrize(
        "path",
        [
            "/v1/rulesets",
            "/v1/rulesets/royal-rendezvous-1",
            "/v1/deals/deal-1/royal-rendezvous-1?seed=royal",
            "/openapi.json",
            "/problems/not-found",
        ],
    )
    def test_what_is_the_same_for_all_may_be_kept(self, client: Client, path: str) -> None:
        answer = client.get(path)

        assert answer.headers["Cache-Control"] == "public, max-age=3600"
        assert client.get(path, If_None_Match=answer.headers["ETag"]).status_code == 304

    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1", "/nothing"])
    def test_what_holds_only_now_may_not(self, client: Client, path: str) -> None:
        assert "no-store" in client.get(path).headers["Cache-Control"]


def test_a_cookie_that_is_sent_is_nothing_to_us(client: Client, ada: Person) -> None:
    for header in (f"token={ada.token}", f"Authorization=Bearer {ada.token}", "session=1"):
        assert problem(client.get("/v1/players/me", Cookie=header)) == (401, "token-missing")


def test_answers_have_no_cookies(app: Flask, ada: Person) -> None:
    assert app.secret_key is None
    for answer in (ada.get("/v1/players/me"), ada.post("/v1/games", {}), ada.get("/v1/nothing")):
        assert "Set-Cookie" not in answer.headers
