"""Rate limits: what is counted for whom, what is told, and that nothing else changes."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from client import Client, Contract, Person, expect, problem
from flask import Flask
from redis import ConnectionError as RedisGoneError
from werkzeug.test import TestResponse

from service import tokens
from service.api.limits import Limits, RateLimitedError
from service.app import create_app
from service.settings import Settings
from service.store.database import Database

Json = dict[str, Any]
Make = Callable[..., Client]


def wide(**given: Any) -> Settings:
    """Return settings with these limits, and wide ones else."""
    names = ("moves", "reads", "writes", "codes", "players", "anonymous")
    all_: dict[str, Any] = {f"rate_{name}": "100000 per hour" for name in names}
    return Settings(**{**all_, **given})


@pytest.fixture
def make(database: Database) -> Make:
    """Makes somebody without a token, at a service with these limits and wide ones else."""

    def made(**given: Any) -> Client:
        app = create_app(wide(**given), database)
        return Client(app, Contract(app))

    return made


def limited(response: TestResponse, window: int) -> Json:
    """Return the problem, which must tell when to come again."""
    told = problem(response)
    assert told == (429, "rate-limited")
    assert 1 <= told.body["retry_after"] <= window
    assert response.headers["Retry-After"] == str(told.body["retry_after"])
    return told.body


def ask_from(client: Client, address: str, path: str = "/v1/rulesets") -> TestResponse:
    """Return the answer to a GET from an address."""
    sent = {"Authorization": f"Bearer {client.token}"} if client.token else {}
    answer = client.app.test_client().get(
        path, headers=sent, environ_overrides={"REMOTE_ADDR": address}
    )
    client.contract.hold("GET", path, answer)
    return answer


def test_s_16_beyond_its_limit_an_operation_is_refused_and_says_for_how_long(make: Make) -> None:
    ada = make(rate_reads="3 per minute").register()

    assert [ada.get("/v1/players/me").status_code for _ in range(3)] == [200] * 3
    told = limited(ada.get("/v1/players/me"), 60)
    assert told["detail"] == "reads: at most 3 in 60 s for each token"


def test_s_16_the_contract_says_of_every_operation_what_it_counts_for(contract: Contract) -> None:
    counted = {
        operation["operationId"]: operation["responses"]["429"]["description"]
        for item in contract.document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    }

    assert {name for name, told in counted.items() if told.endswith("one of `moves`")} == {
        "makeMoves",
        "undoMove",
        "resignGame",
    }
    assert counted["createPlayer"].endswith("one of `players`")
    assert counted["createGame"].endswith("one of `writes`")
    assert counted["getGame"].endswith("one of `reads`")
    assert all("`rate-limited`" in told for told in counted.values())


def test_s_42_the_limits_are_told_before_they_are_met(make: Make) -> None:
    rates = expect(make(rate_moves="50 per 10 seconds").get("/v1"))["limits"]["rates"]

    assert [rate["name"] for rate in rates] == [
        *("moves", "reads", "writes", "codes", "players", "anonymous"),
    ]
    assert rates[0] == {
        "name": "moves",
        "per": "token",
        "amount": 50,
        "window_ms": 10_000,
        "shared": False,
    }
    assert [rate["per"] for rate in rates[3:]] == ["token", "address", "address"]


def test_s_42_it_is_told_that_redis_makes_them_one_for_all_processes(make: Make) -> None:
    together = make(redis_url="redis://127.0.0.1:1/0")

    rates = expect(together.get("/v1"))["limits"]["rates"]

    assert {rate["shared"] for rate in rates} == {True}


def test_s_42_it_is_told_that_there_are_none(make: Make) -> None:
    free = make(rate_limits="off", rate_anonymous="1 per hour")

    assert [expect(free.get("/v1"))["limits"]["rates"] for _ in range(3)] == [[]] * 3


def test_s_69_two_players_behind_one_address_are_counted_apart(make: Make) -> None:
    client = make(rate_reads="2 per hour")
    ada, bea = client.register(), client.register()

    for _ in range(2):
        expect(ada.get("/v1/players/me"))
    limited(ada.get("/v1/players/me"), 3600)

    for _ in range(2):
        expect(bea.get("/v1/players/me"))
    limited(bea.get("/v1/players/me"), 3600)


def test_s_69_a_token_is_counted_as_itself_from_wherever_it_comes(make: Make) -> None:
    ada = make(rate_reads="2 per hour").register()

    assert ask_from(ada, "192.0.2.1").status_code == 200
    assert ask_from(ada, "192.0.2.2").status_code == 200
    limited(ask_from(ada, "192.0.2.3"), 3600)


def test_s_69_who_has_no_token_does_not_use_up_what_players_may_ask(make: Make) -> None:
    client = make(rate_anonymous="3 per hour")
    ada, bea = client.register(), client.register()
    expect(ada.get("/v1/players/me"))

    for _ in range(3):
        expect(client.get("/v1/rulesets"))
    limited(client.get("/v1/rulesets"), 3600)

    expect(ada.get("/v1/players/me"))
    expect(bea.get("/v1/players/me"))


def test_without_a_token_each_address_is_counted_apart(make: Make) -> None:
    client = make(rate_anonymous="1 per hour")

    assert ask_from(client, "192.0.2.1").status_code == 200
    assert ask_from(client, "192.0.2.2").status_code == 200
    limited(ask_from(client, "192.0.2.1"), 3600)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "192.0.2.1", False),
    ],
)
def test_a_client_has_one_address_of_ipv4_or_a_whole_network_of_ipv6(
    make: Make, first: str, second: str, *, same: bool
) -> None:
    client = make(rate_anonymous="1 per hour")

    assert ask_from(client, first).status_code == 200
    assert (ask_from(client, second).status_code == 429) == same


@pytest.mark.parametrize("path", ["/v1/games", "/v1/replays", "/v1/players/me/export"])
def test_whatever_a_token_asks_first_it_is_known_from_then_on(make: Make, path: str) -> None:
    ada = make(rate_anonymous="1 per hour").register()

    statuses = [ask_from(ada, "192.0.2.1", path).status_code for _ in range(3)]

    assert statuses == [200] * 3


def test_tokens_that_are_made_up_count_for_the_address_that_made_them_up(make: Make) -> None:
    client = make(rate_anonymous="3 per hour")
    ada = client.register()
    expect(ada.get("/v1/players/me"))

    def invent() -> TestResponse:
        return Client(client.app, client.contract, tokens.draw()).get("/v1/players/me")

    assert [invent().status_code for _ in range(2)] == [401] * 2
    limited(invent(), 3600)
    expect(ada.get("/v1/players/me"))


def test_a_revoked_token_counts_for_its_address_again(make: Make) -> None:
    ada = make(rate_anonymous="3 per hour").register()
    mine = expect(ada.get("/v1/players/me"))["token"]
    assert ada.ask("DELETE", f"/v1/tokens/{mine}").status_code == 204

    answers = [ada.get("/v1/players/me") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [401, 401, 401, 429]


@pytest.mark.parametrize("header", ["Bearer rr_nonsense", "Basic YTpi", "", "rr_"])
def test_what_is_no_token_counts_for_the_address(make: Make, header: str) -> None:
    client = make(rate_anonymous="2 per hour")

    answers = [client.get("/v1/players/me", Authorization=header).status_code for _ in range(3)]

    assert answers == [401, 401, 429]


def test_moves_are_counted_apart_from_all_else(make: Make) -> None:
    client = make(rate_moves="3 per hour", rate_writes="1 per hour", rate_reads="1 per hour")
    ada = client.register()
    game = ada.create()

    limited(ada.post("/v1/games", {}), 3600)
    ada.read(game)
    limited(ada.get(f"/v1/games/{game['id']}"), 3600)
    moved = ada.move(game, game["legal_moves"][0])
    assert ada.act(moved, "undo").status_code == 200
    moved = expect(ada.try_moves(game, 2, game["legal_moves"][0]))
    limited(ada.act(moved, "undo"), 3600)
    limited(ada.act(moved, "resign"), 3600)


def test_a_limited_request_changes_nothing(make: Make) -> None:
    ada = make(rate_moves="1 per hour").register()
    game = ada.create()
    moved = ada.move(game, game["legal_moves"][0])

    limited(ada.try_moves(moved, 1, moved["legal_moves"][0]), 3600)
    limited(ada.act(moved, "resign"), 3600)

    assert ada.read(game)["ply"] == 1


def test_a_limited_request_does_not_ask_the_database() -> None:
    app = create_app(
        wide(rate_anonymous="1 per hour"),
        Database("postgresql:///nowhere?host=/nowhere"),
    )
    nobody = Client(app, Contract(app))

    assert problem(nobody.get("/v1")) == (503, "database-unavailable")
    limited(nobody.get("/v1"), 3600)


def test_players_are_counted_by_address_whatever_token_comes_with_them(make: Make) -> None:
    client = make(rate_players="2 per hour")
    ada = client.register()
    client.register()

    limited(client.post("/v1/players", {"name": "Cid"}), 3600)
    limited(ada.post("/v1/players", {"name": "Cid"}), 3600)


def test_health_docs_and_preflight_requests_are_not_counted(make: Make) -> None:
    client = make(rate_anonymous="1 per hour")

    for _ in range(3):
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert client.get(path).status_code == 200
        assert client.app.test_client().options("/v1/games").status_code == 200


def test_limits_end_with_their_window(make: Make) -> None:
    client = make(rate_anonymous="1 per second")

    expect(client.get("/v1/rulesets"))
    wait = limited(client.get("/v1/rulesets"), 1)["retry_after"]
    time.sleep(wait)
    expect(client.get("/v1/rulesets"))


def test_the_address_is_the_one_that_a_trusted_proxy_tells(make: Make) -> None:
    behind = make(rate_anonymous="1 per hour", trusted_proxies=1)
    open_ = make(rate_anonymous="1 per hour")

    def ask(client: Client, *told: str) -> list[int]:
        return [client.get("/v1/rulesets", X_Forwarded_For=one).status_code for one in told]

    assert ask(behind, "192.0.2.1", "192.0.2.2", "192.0.2.1") == [200, 200, 429]
    assert ask(behind, "203.0.113.9, 192.0.2.2") == [429]
    assert ask(open_, "192.0.2.1", "192.0.2.2") == [200, 429]


def test_of_many_at_once_as_many_are_taken_as_may_be() -> None:
    limits = Limits(wide(rate_reads="500 per hour"))
    token, refused = b"t" * 32, []
    limits.note(token, good=True)

    def ask() -> None:
        for _ in range(200):
            try:
                limits.count("reads", token, "")
            except RateLimitedError as error:
                refused.append(error)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(refused) == 5 * 200 - 500


def test_counters_whose_window_is_over_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(wide(rate_anonymous="1 per second"))
    now = time.time()
    for number in range(1000):
        limits.count("reads", None, f"host{number}")
    assert len(limits._alone._counters) == 1000

    monkeypatch.setattr("service.api.limits.time.time", lambda: now + 61)
    limits.count("reads", None, "another")

    assert len(limits._alone._counters) == 1


class TestRedisAway:
    """Redis' own part is tested with a real one: `make redis`."""

    @pytest.fixture
    def app(self, database: Database) -> Flask:
        given = {"rate_anonymous": "2 per hour", "redis_url": "redis://127.0.0.1:1/0"}
        return create_app(wide(**given), database)

    def test_requests_are_counted_here_then_and_that_is_said_once(
        self, app: Flask, caplog: pytest.LogCaptureFixture
    ) -> None:
        client = Client(app, Contract(app))

        answers = [client.get("/v1/rulesets").status_code for _ in range(4)]

        assert answers == [200, 200, 429, 429]
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 1
        assert said[0].startswith("Redis is away, each process counts rates for itself")

    def test_it_is_asked_again_from_time_to_time_and_taken_back(
        self, app: Flask, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limits: Limits = app.extensions["limits"]
        redis = limits._together
        assert redis is not None
        asked = []

        def gone(*_: object) -> int:
            raise RedisGoneError

        def check() -> bool:
            asked.append(time.monotonic())
            return len(asked) > 1

        monkeypatch.setattr(redis, "check", check)
        monkeypatch.setattr(redis, "incr", gone)
        limits.count("reads", None, "a")
        limits.count("reads", None, "a")
        assert asked == []

        limits._ask_at = 0.0
        limits.count("reads", None, "b")
        limits.count("reads", None, "b")
        assert len(asked) == 1

        monkeypatch.setattr(redis, "incr", lambda *_: 1)
        limits._ask_at = 0.0
        for _ in range(5):
            limits.count("reads", None, "a")
        assert len(asked) == 2
        assert [record.getMessage()[:13] for record in caplog.records] == [
            "Redis is away",
            "Redis is back",
        ]


def test_a_player_has_room_for_a_game_at_full_speed(database: Database) -> None:
    app = create_app(Settings(), database)
    ada: Person = Client(app, Contract(app)).register()

    for _ in range(3):
        assert ada.play(ada.create())["status"] != "playing"


@pytest.mark.parametrize("media_type", ["application/json", "application/x-ndjson"])
def test_what_is_long_to_verify_counts_by_its_size(make: Make, media_type: str) -> None:
    client = make(rate_anonymous="12 per hour")
    ada = make(rate_writes="12 per hour").register()

    def verify(who: Client, size: int) -> TestResponse:
        headers = {"Content-Type": media_type}
        return who.ask("POST", "/v1/replays/verify", data=b" " * size, headers=headers)

    for who in (client, ada):
        assert [verify(who, 640 * 1024).status_code, verify(who, 1).status_code] == [200, 200]
        limited(verify(who, 1), 3600)


def test_what_counts_for_more_than_is_left_is_not_refused_but_what_follows(make: Make) -> None:
    client = make(rate_anonymous="2 per hour")
    headers = {"Content-Type": "application/json"}

    answers = [
        client.ask("POST", "/v1/replays/verify", data=b" " * (1 << 20), headers=headers).status_code
        for _ in range(2)
    ]

    assert answers == [200, 429]
