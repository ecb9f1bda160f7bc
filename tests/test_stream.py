"""Live events: what a watcher is told, by processes of their own, whatever happens to them."""

import asyncio
import hashlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.client import HTTPMessage
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from client import published, published_schema
from hypothesis import given, settings
from hypothesis import strategies as st
from server import (
    Event,
    Service,
    Stream,
    Streams,
    await_,
    environment,
    libpq,
    own_postgres,
    running,
    streaming,
)

from service import games, players, stream, tokens
from service.engine import RULESETS, deals
from service.games import Record
from service.settings import Settings
from service.store.database import Database, Instant
from service.store.embedded import EmbeddedPostgres
from service.stream import Hub, Watcher
from service.watch import Change, Mark, Watched

Json = dict[str, Any]

HASTY = """
import service.stream as s
s.LOOK_EVERY, s.KEEP_ALIVE, s.SILENCE, s._SEND_BUFFER = 0.02, 0.2, 1, 4096
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One that may be stopped."""
    with own_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def live(postgres: EmbeddedPostgres) -> Iterator[Service]:
    """The service with streams and a player."""
    with (
        streaming(postgres.url, STREAMS_PER_TOKEN="4") as streams,  # noqa: S106
        running(postgres.url, WORKERS="1", STREAM_URL=streams.url) as service,
    ):
        service.register()
        yield service


@pytest.fixture
def service(live: Service) -> Service:
    """The same with a player of the test's own, whose places for streams are all free."""
    own = Service(live.port)
    own.register()
    return own


@pytest.fixture
def admin(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    """What changes rows behind the service's back."""
    with psycopg.connect(libpq(postgres.url), autocommit=True) as connection:
        yield connection


def resign(service: Service, game: Json) -> Json:
    answer = service.ask("POST", f"/v1/games/{game['id']}/resign", {"ply": game["ply"]})
    assert answer.status == 200
    return answer.body


def mark(game: Json) -> str:
    return f"{game['ply']}-{game['digest'][:16]}"


def without_applied(game: Json) -> Json:
    return {name: value for name, value in game.items() if name != "applied"}


class TestEvents:
    def test_s_45_first_the_game_then_each_change_as_the_player_was_answered_then_the_end(
        self, service: Service
    ) -> None:
        game = start = service.create()
        answered = []
        heard = []
        with service.watch(game) as watching:
            first = watching.event()
            for _ in range(4):
                game = service.move(game)
                answered.append(game)
                heard.append(watching.event())
            last = resign(service, game)
            *rest, end = watching.rest()
        kept = service.read(game)

        assert (first.name, first.id, first.value) == ("game", mark(start), start)
        assert [one.value for one in (*heard, *rest)] == [*answered, last]
        assert [one.name for one in (*heard, *rest)] == ["change"] * 5
        assert [one.id for one in (*heard, *rest)] == [mark(one) for one in (*answered, last)]
        assert end == Event(
            mark(last),
            "end",
            {
                "id": game["id"],
                "ply": 5,
                "status": "resigned",
                "score": last["score"],
                "ended_at": kept["ended_at"],
            },
        )
        assert rest[-1].game == kept

    def test_moves_made_together_are_one_event(self, service: Service) -> None:
        game = service.create()
        with service.watch(game) as watching:
            watching.event()
            answer = service.move(game, {"from": "r2"}, {"from": "r8", "to": "upper-H"})
            heard = watching.event()

        assert heard.value == answer
        assert [one["ply"] for one in heard.value["applied"]] == [0, 1]

    def test_who_comes_back_after_the_end_hears_of_it_again(self, service: Service) -> None:
        game = service.move(service.create())
        last = resign(service, game)

        with service.watch(game, mark(last)) as again:
            assert [one.name for one in again.rest()] == ["end"]
        with service.watch(game, mark(game)) as later:
            assert [one.name for one in later.rest()] == ["change", "end"]
        with service.watch(game) as anew:
            assert [one.name for one in anew.rest()] == ["game", "end"]

    def test_a_lost_game_that_is_taken_up_again_can_be_watched_again(
        self, service: Service
    ) -> None:
        game = service.create()
        while game["status"] == "playing":
            game = service.move(game)
        assert game["status"] == "lost"
        with service.watch(game) as over:
            end = over.rest()[-1]
        undone = service.ask("POST", f"/v1/games/{game['id']}/undo", {"ply": game["ply"]}).body
        with service.watch(game, end.id) as again:
            heard = again.event()

        assert end.value["status"] == "lost"
        assert heard.value == undone
        assert undone["status"] == "playing"

    def test_that_it_is_taken_up_again_nobody_else_is_shown(
        self, postgres: EmbeddedPostgres, service: Service
    ) -> None:
        """Not even who takes the end so slowly that the undo comes before it is through."""
        game = service.create()
        while game["status"] == "playing":
            game = service.move(game)
        other = Service(service.port)
        other.register()
        database = Database(postgres.url)
        hub = Hub(Settings(), database)
        told: list[bytes] = []

        async def send(message: Any) -> None:
            told.append(message.get("body", b""))
            if len(told) == 2:
                undo = {"ply": game["ply"]}
                assert service.ask("POST", f"/v1/games/{game['id']}/undo", undo).status == 200
                await hub._look()

        async def receive() -> Json:
            return await asyncio.Future()

        async def watch() -> None:
            scope = {
                "type": "http",
                "method": "GET",
                "path": f"/v1/games/{game['id']}/events",
                "query_string": b"",
                "headers": [(b"authorization", f"Bearer {other.token}".encode())],
            }
            await asyncio.wait_for(stream.create_app(hub)(scope, receive, send), 5)

        asyncio.run(watch())
        database.dispose()

        events = re.findall("event: (.*)", b"".join(told).decode())
        assert events == ["game", "end"]

    def test_an_ended_game_may_be_watched_without_a_token(self, service: Service) -> None:
        game = resign(service, service.create())
        with Stream(game["links"]["events"]) as anybody:
            heard = anybody.rest()

        assert heard[0].value == service.read(game)
        assert [one.name for one in heard] == ["game", "end"]

    def test_every_event_holds_to_the_contract(self, service: Service) -> None:
        game = service.create(ruleset="royal-cotillion-1")
        with service.watch(game) as watching:
            heard = [watching.event()]
            game = service.move(game)
            heard.append(watching.event())
            resign(service, game)
            heard += watching.rest()[:-1]

        assert len(heard) == 3
        for event in heard:
            published_schema("Game").validate(event.value)
        assert watching.headers["Content-Type"] == "text/event-stream"
        assert watching.headers["Cache-Control"] == "no-store"
        assert watching.headers["X-Accel-Buffering"] == "no"
        assert watching.fields[0] == "retry: 2000\n"

    def test_a_head_has_the_headers_and_no_events(self, service: Service) -> None:
        game = service.create()
        at = Service(int(game["links"]["events"].split(":")[2].split("/")[0]), service.token)

        head = at.ask("HEAD", f"/v1/games/{game['id']}/events")

        assert (head.status, head.data) == (200, b"")
        assert head.headers["Content-Type"] == "text/event-stream"


@dataclass
class Played:
    """A game with what its player was answered, ply by ply."""

    service: Service
    states: list[Json]


@pytest.fixture(scope="module")
def played(live: Service) -> Played:
    """A game of 40 entries, undos among them."""
    own = Service(live.port)
    own.register()
    chooser = random.Random(27)
    game = own.create()
    states = [game]
    while game["ply"] < 40:
        if game["undos"] < 5 and game["ply"] and not chooser.randrange(5):
            path = f"/v1/games/{game['id']}/undo"
            game = own.ask("POST", path, {"ply": game["ply"]}).body
        else:
            game = own.move(game, chooser.choice(game["legal_moves"]))
        states.append(game)
    return Played(own, states)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_s_27_after_a_resumption_the_client_is_where_the_game_is(
    played: Played, data: st.DataObject
) -> None:
    """S-27: from whatever event on, by its id or by its ply alone."""
    ply = data.draw(st.integers(0, len(played.states) - 2))
    seen = data.draw(st.sampled_from([mark(played.states[ply]), str(ply)]))
    now = played.service.read(played.states[0])

    with played.service.watch(now, seen) as resumed:
        heard = resumed.event()

    assert heard.name == "change"
    assert heard.game == now
    assert heard.value["applied"] == [
        one for state in played.states[ply + 1 :] for one in state["applied"]
    ]


def test_s_27_who_has_seen_all_is_told_nothing_until_there_is_more(service: Service) -> None:
    game = service.move(service.create())
    with service.watch(game, mark(game)) as resumed:
        later = service.move(game)
        heard = resumed.event()

    assert heard.value == later


class TestHidden:
    def test_s_30_a_hidden_seed_shows_with_the_end_and_not_before(
        self, service: Service, admin: psycopg.Connection
    ) -> None:
        game = service.ask("POST", "/v1/games", {}).body
        row = admin.execute("SELECT seed FROM games WHERE id = %s", [game["id"]]).fetchone()
        assert row
        with service.watch(game) as watching:
            watching.event()
            for _ in range(6):
                game = service.move(game, game["legal_moves"][-1])
                assert watching.event().value == game
            before = "".join(watching.fields)
            resign(service, game)
            after = watching.rest()

        assert row[0] not in before
        assert after[0].value["seed"] == row[0]

    @pytest.mark.parametrize("ruleset", RULESETS)
    def test_s_30_events_are_the_same_whatever_the_unseen_cards_are(
        self, ruleset: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S-30: the rest of the stock is dealt in another order behind the service's back."""
        record = hidden_record(ruleset, 12)
        rules = record.replay().rules
        unseen = len(record.replay().position.stock)
        shuffle = deals._SPECS["deal-1"][1]
        cards = shuffle(rules, record.seed)
        told = [stream._events(record, seen, "")[0] for seen in (None, Mark(3, ""), Mark(11, ""))]

        other = cards[:-unseen] + bytes(reversed(cards[-unseen:]))
        spec = (deals._SPECS["deal-1"][0], lambda *_: other)
        monkeypatch.setitem(deals._SPECS, "deal-1", spec)
        games._layout.cache_clear()
        again = [stream._events(record, seen, "")[0] for seen in (None, Mark(3, ""), Mark(11, ""))]
        games._layout.cache_clear()

        assert unseen > 4
        assert other != cards
        assert told == again


def hidden_record(ruleset: str, plies: int) -> Record:
    """Return the row of a game of a hidden deal after so many random moves."""
    chooser = random.Random(ruleset)
    record = Record(
        id=UUID(int=1),
        player=UUID(int=2),
        created_at=datetime(2026, 1, 31, tzinfo=UTC),
        ended_at=None,
        ply=0,
        score=None,
        hidden=True,
        status=None,
        ruleset=ruleset,
        spec="deal-1",
        seed=f"{chooser.getrandbits(256):064x}",
        log=b"",
        times=b"",
    )
    game = record.replay()
    while game.ply < plies:
        game.enter(chooser.choice(game.legal_moves()))
    return replace(record, ply=game.ply, log=game.log, times=bytes(game.ply))


class TestManyProcesses:
    def test_s_34_moves_come_through_whoever_took_them_and_whoever_streams(
        self, postgres: EmbeddedPostgres, service: Service
    ) -> None:
        """S-34: two servers take moves, two processes stream, and they share only the database."""
        game = service.create()
        with (
            running(postgres.url, WORKERS="1") as other,
            streaming(postgres.url) as more,
        ):
            other.token = service.token
            there = {"links": {"events": f"{more.url}/v1/games/{game['id']}/events"}}
            with service.watch(game) as one, service.watch(there) as two:
                one.event()
                two.event()
                for turn in range(6):
                    game = (service, other)[turn % 2].move(game)
                    heard = one.event(), two.event()
                    assert [event.id for event in heard] == [mark(game)] * 2
                    assert heard[0].value["applied"] == game["applied"]

    def test_s_37_what_is_announced_can_be_read(self, service: Service) -> None:
        game = service.create()
        with service.watch(game) as watching:
            watching.event()
            for _ in range(10):
                service.move(game)
                heard = watching.event()
                game = service.read(game)
                assert heard.game == game

    def test_s_37_what_is_not_committed_is_not_announced(
        self, service: Service, postgres: EmbeddedPostgres
    ) -> None:
        """S-37: a writer that dies between its write and its commit leaves no event behind."""
        game = service.create()
        longer = "UPDATE games SET log = '\\x00', times = '\\x00', ply = 1 WHERE id = %s"
        with service.watch(game) as watching, psycopg.connect(libpq(postgres.url)) as writer:
            watching.event()
            writer.execute(longer, [game["id"]])
            time.sleep(4 * stream.LOOK_EVERY)
            admin_kill(postgres, writer.info.backend_pid)
            time.sleep(2 * stream.LOOK_EVERY)
            moved = service.move(game, {"from": "r2"}, {"from": "r8", "to": "upper-H"})
            heard = watching.event()
            with pytest.raises(psycopg.OperationalError):
                writer.commit()
            writer.close()

        assert heard.value == moved
        assert len(watching.fields) == 2 + 2 * 4


def admin_kill(postgres: EmbeddedPostgres, backend: int) -> None:
    with psycopg.connect(libpq(postgres.url), autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", [backend])


class TestRestarts:
    def test_s_38_a_stream_goes_on_where_it_was_when_its_process_is_another(
        self, postgres: EmbeddedPostgres, service: Service
    ) -> None:
        """S-38: the digests go on unbroken over both."""
        game = service.create()
        heard: list[Event] = []
        for _ in range(2):
            with streaming(postgres.url) as streams:
                at = {"links": {"events": f"{streams.url}/v1/games/{game['id']}/events"}}
                seen = heard[-1].id if heard else ""
                with service.watch(at, seen) as watching:
                    heard += [] if seen else [watching.event()]
                    for _ in range(3):
                        game = service.move(game)
                        heard.append(watching.event())
                    os.kill(streams.pid, signal.SIGTERM)
                    rest = watching.rest()
                assert rest == []
            game = service.move(game)

        assert [one.name for one in heard] == ["game", *["change"] * 6]
        plies = [entry["ply"] for one in heard for entry in one.value.get("applied", [])]
        assert plies == list(range(7))
        entries = [entry for one in heard for entry in one.value.get("applied", [])]
        log = "".join(f"\n{entry['move']}@{entry['ms']}" for entry in entries)
        header = json.dumps(game["header"], sort_keys=True, separators=(",", ":"))
        assert heard[-1].value["digest"] == sha256(f"royal-rendezvous/log/1\0{header}{log}")

    def test_when_it_stops_all_streams_end_whole_and_soon(
        self, postgres: EmbeddedPostgres, service: Service
    ) -> None:
        game = service.create()
        with ExitStack() as stack:
            with streaming(postgres.url) as streams:
                at = {"links": {"events": f"{streams.url}/v1/games/{game['id']}/events"}}
                watching = [stack.enter_context(service.watch(at)) for _ in range(10)]
                for one in watching:
                    one.event()
                start = time.monotonic()
                streams.stop()
                took = time.monotonic() - start
            # The last chunk came: else the client would be told of an answer cut off.
            heard = [one.response.read() for one in watching]

        assert heard == [b""] * 10
        assert took < 5

    def test_without_who_started_it_it_ends(self, postgres: EmbeddedPostgres) -> None:
        start = f"""
            import subprocess, sys, os
            child = subprocess.Popen([sys.executable, "-P", "-m", "service.stream", sys.argv[1],
                str(os.getpid())], stdin=subprocess.PIPE, pass_fds=[int(sys.argv[1])])
            child.stdin.write(b"{postgres.url}\\n"); child.stdin.close()
            print(child.pid)
        """
        code = "\n".join(line.strip() for line in start.strip().splitlines()).replace(",\n", ",")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            done = subprocess.run(
                [sys.executable, "-c", code, str(listener.fileno())],
                env=environment(),
                pass_fds=[listener.fileno()],
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            )
        await_(lambda: not Path(f"/proc/{int(done.stdout)}").exists())


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Hasty:
    """The service, and its streams, which have little patience."""

    service: Service
    streams: Streams
    log: Path

    @property
    def threads(self) -> int:
        """How many threads the streams' process has."""
        return len(list(Path(f"/proc/{self.streams.pid}/task").iterdir()))


@pytest.fixture(scope="module")
def hasty(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hasty]:
    """The service whose streams have little patience."""
    log = tmp_path_factory.mktemp("hasty") / "log"
    with (
        log.open("w") as file,
        streaming(postgres.url, first=HASTY, log=file, STREAMS_PER_TOKEN="300") as streams,  # noqa: S106
        running(postgres.url, WORKERS="1", THREADS="1", STREAM_URL=streams.url) as service,
    ):
        service.register()
        yield Hasty(service, streams, log)


class TestQuiet:
    def test_s_45_comments_keep_a_quiet_stream_open_and_events_go_on_after_them(
        self, hasty: Hasty
    ) -> None:
        """S-45: several times the interval, which is 14 s where nobody patched it."""
        game = hasty.service.create()
        with hasty.service.watch(game) as watching:
            watching.event()
            while len(watching.comments) < 3:
                assert watching.line() is not None
            moved = hasty.service.move(game)
            heard = watching.event()

        assert heard.value == moved
        assert stream.KEEP_ALIVE <= 15

    def test_s_67_idle_watchers_take_neither_threads_nor_the_server(self, hasty: Hasty) -> None:
        """S-67: more of them than the server has threads by far, and than its process has."""
        game = hasty.service.create()
        with ExitStack() as stack:
            before = hasty.threads
            watching = [stack.enter_context(hasty.service.watch(game)) for _ in range(200)]
            for one in watching:
                one.event()
            during = hasty.threads
            moved = hasty.service.move(game)
            heard = {one.event().id for one in watching}

        assert during <= before + stream._OPENERS
        assert heard == {mark(moved)}

    def test_who_sends_nothing_is_dropped(self, hasty: Hasty) -> None:
        for sent in (b"", b"GET /v1/games", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"):
            with socket.create_connection(("127.0.0.1", hasty.streams.port), timeout=10) as silent:
                silent.sendall(sent)
                with suppress(ConnectionResetError):
                    assert silent.recv(1 << 16) == b""

    def test_who_does_not_read_is_dropped_and_nobody_waits_for_them(self, hasty: Hasty) -> None:
        game = hasty.service.create()
        path = game["links"]["events"].partition("/v1/")[2]
        with socket.socket() as deaf, hasty.service.watch(game) as other:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.settimeout(10)
            deaf.connect(("127.0.0.1", hasty.streams.port))
            deaf.sendall(
                f"GET /v1/{path} HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: Bearer {hasty.service.token}\r\n\r\n".encode()
            )
            other.event()
            for _ in range(60):
                game = hasty.service.move(game)
                assert other.event().id == mark(game)
            time.sleep(1.5)
            heard, until = b"", time.monotonic() + 10
            with suppress(ConnectionResetError):
                while piece := deaf.recv(1 << 16):
                    assert time.monotonic() < until, "it is still being sent to"
                    heard += piece

        assert heard.startswith(b"HTTP/1.1 200 ")
        assert mark(game).encode() not in heard
        assert not heard.endswith(b"0\r\n\r\n")
        assert "Traceback" not in hasty.log.read_text()


class TestRestored:
    """What a client saw may be no longer so when a database comes back from a backup."""

    @pytest.mark.parametrize("seen", ["5-0123456789abcdef", "0-0123456789abcdef", "6", "1999"])
    def test_s_89_a_point_that_the_game_never_went_through_gives_the_whole_game(
        self, played: Played, service: Service, seen: str
    ) -> None:
        game = service.create()
        for _ in range(5):
            game = service.move(game)
        assert played

        with service.watch(game, seen) as resumed:
            heard = resumed.event()

        assert (heard.name, heard.id, heard.value) == ("game", mark(game), service.read(game))

    def test_s_89_a_game_that_goes_back_while_it_is_watched_is_told_anew(
        self, service: Service, admin: psycopg.Connection
    ) -> None:
        game = service.create()
        for _ in range(3):
            game = service.move(game)
        with service.watch(game) as watching:
            watching.event()
            admin.execute(
                "UPDATE games SET ply = 1, log = substr(log, 1, 1), times = '\\x00' WHERE id = %s",
                [game["id"]],
            )
            heard = watching.event()
            kept = service.read(game)

        assert kept["ply"] == 1
        assert (heard.name, heard.value) == ("game", kept)

    def test_s_89_after_an_outage_nothing_that_was_known_is_trusted(
        self, postgres: EmbeddedPostgres, service: Service, admin: psycopg.Connection
    ) -> None:
        """S-89: the same ply, but other moves: told by the digest."""
        game = service.move(service.create())
        same = service.create()
        token = UUID(service.ask("GET", "/v1/players/me").body["token"])
        database = Database(postgres.url)
        hub = Hub(Settings(), database)
        fingerprint = tokens.fingerprint(service.token or "")

        async def look() -> tuple[bytes, bytes, bytes]:
            watchers = []
            for one in (game, same):
                record, _ = await hub.open(UUID(one["id"]), fingerprint, "127.0.0.1")
                watchers.append(Watcher(record.id, token, Mark(one["ply"], one["digest"][:16])))
                hub.join(watchers[-1], record)
            admin.execute("UPDATE games SET times = '\\x7f' WHERE id = %s", [game["id"]])
            await hub._look()
            unaware = hub.feeds[UUID(game["id"])].events(watchers[0].seen, "")[0]
            hub._doubt()
            await hub._look()
            told = [hub.feeds[one.game].events(one.seen, "")[0] for one in watchers]
            return unaware, told[0], told[1]

        unaware, told, nothing = asyncio.run(look())
        database.dispose()

        assert unaware == nothing == b""
        assert b"event: game\n" in told


def test_a_look_takes_back_nothing_that_a_new_watcher_brought_meanwhile(
    postgres: EmbeddedPostgres, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = service.create()
    token = UUID(service.ask("GET", "/v1/players/me").body["token"])
    fingerprint = tokens.fingerprint(service.token or "")
    database = Database(postgres.url)
    hub = Hub(Settings(), database)
    look = Watched.changes

    async def watched() -> Record:
        record, _ = await hub.open(UUID(game["id"]), fingerprint, "127.0.0.1")
        feed = hub.join(Watcher(record.id, token, None), record)
        moved = service.move(game)

        def slowly(*args: Any) -> list[Change]:
            found = look(*args)
            service.move(moved)
            newer = database.run(lambda one: games.look(one, Instant(), fingerprint, record.id))[0]
            hub.join(Watcher(record.id, token, None), newer)
            return found

        monkeypatch.setattr(Watched, "changes", slowly)
        await hub._look()
        return feed.record

    found = asyncio.run(watched())
    database.dispose()

    assert found.ply == 2


class TestTokens:
    def test_a_token_that_is_revoked_ends_its_streams_and_no_others(self, service: Service) -> None:
        game = service.create()
        minted = service.ask("POST", "/v1/tokens", {"scopes": ["games:read"]}).body
        reader = Service(service.port, minted["token"])
        with service.watch(game) as mine, reader.watch(game) as theirs:
            mine.event()
            theirs.event()
            start = time.monotonic()
            gone = service.ask("DELETE", f"/v1/tokens/{minted['id']}")
            rest = theirs.rest()
            took = time.monotonic() - start
            moved = service.move(game)
            heard = mine.event()

        assert gone.status == 204
        assert rest == []
        assert took < 3
        assert heard.value == moved

    def test_a_token_that_expires_ends_its_streams(
        self, service: Service, admin: psycopg.Connection
    ) -> None:
        game = service.create()
        token = service.ask("GET", "/v1/players/me").body["token"]
        with service.watch(game) as watching:
            watching.event()
            admin.execute(
                "UPDATE tokens SET expires_at = now() + interval '1 second' WHERE id = %s", [token]
            )
            moved = service.move(game)
            heard = watching.event()
            rest = watching.rest()

        assert heard.value == moved
        assert rest == []

    def test_a_game_that_is_removed_ends_its_streams(
        self, service: Service, admin: psycopg.Connection
    ) -> None:
        game = service.create()
        with service.watch(game) as watching:
            watching.event()
            admin.execute("DELETE FROM games WHERE id = %s", [game["id"]])
            assert watching.rest() == []


@dataclass
class Refused:
    """A problem document of the streams."""

    status: int
    code: str
    headers: HTTPMessage
    body: Json


def refused(watching: Stream) -> Refused:
    with watching:
        assert watching.status >= 400
        body = json.loads(watching.response.read())
    operation = published()["paths"]["/v1/games/{game_id}/events"]["get"]
    published_schema("Problem").validate(body)
    assert watching.headers["Content-Type"] == "application/problem+json"
    assert body["status"] == watching.status
    assert body["request_id"] == watching.headers["X-Request-Id"]
    if watching.status != 405:
        assert body["code"] in operation["x-problem-codes"]
    return Refused(watching.status, body["code"], watching.headers, body)


class TestRefusals:
    def test_a_game_in_play_is_its_players_alone(self, live: Service, service: Service) -> None:
        game = service.create()
        for stranger in (None, live.token):
            found = refused(Service(service.port, stranger).watch(game))
            assert (found.status, found.code) == (404, "not-found")

    def test_a_token_that_is_none(self, service: Service) -> None:
        game = service.create()
        for token in ("rr_x", tokens.draw()):
            found = refused(Service(service.port, token).watch(game))
            assert (found.status, found.code) == (401, "token-invalid")
            assert found.headers["WWW-Authenticate"] == 'Bearer realm="royal-rendezvous"'

    def test_a_token_for_other_things(self, service: Service, postgres: EmbeddedPostgres) -> None:
        game, text = service.create(), tokens.draw()
        player = service.ask("GET", "/v1/players/me").body["player"]["id"]
        database = Database(postgres.url)
        database.run(
            lambda connection: players.give_token(
                connection, database.now(), UUID(int=30), UUID(player), text, ("games:play",), None
            )
        )
        database.dispose()
        found = refused(Service(service.port, text).watch(game))

        assert (found.status, found.code) == (403, "scope-missing")
        assert found.body["required_scope"] == "games:read"

    @pytest.mark.parametrize("seen", ["x", "-1", "12345", "1-", "1-xyz", "1-0123456789ABCDEF", "٣"])
    def test_an_id_of_an_event_that_is_none(self, service: Service, seen: str) -> None:
        found = refused(service.watch(service.create(), seen.encode().decode("latin-1")))

        assert (found.status, found.code) == (422, "invalid-request")
        assert found.body["errors"][0]["pointer"] == "#header/Last-Event-ID"

    def test_a_query(self, service: Service) -> None:
        game = service.create()
        streams = at(game, service)
        answer = streams.ask("GET", f"/v1/games/{game['id']}/events?ply=1")

        assert (answer.status, answer.body["code"]) == (422, "invalid-request")
        assert answer.body["errors"] == [{"pointer": "#query/ply", "detail": "not known"}]

    def test_what_is_not_there(self, service: Service) -> None:
        streams = at(service.create(), service)

        for path in ("/", "/v1/games/none/events", "/v1/games", "/v1/games//events"):
            answer = streams.ask("GET", path)
            assert (answer.status, answer.body["code"]) == (404, "not-found")
        found = streams.ask("POST", f"/v1/games/{UUID(int=0)}/events", {})
        assert (found.status, found.body["code"]) == (405, "method-not-allowed")
        assert set(found.headers["allow"].split(", ")) == {"GET", "HEAD"}
        assert streams.ask("GET", "/healthz").status == 200

    def test_the_servers_own_port_tells_where_events_are(self, service: Service) -> None:
        game = service.create()
        answer = service.ask("GET", f"/v1/games/{game['id']}/events")

        assert (answer.status, answer.body["code"]) == (421, "wrong-server")
        assert game["links"]["events"] in answer.body["detail"]

    def test_a_request_id_is_taken_over(self, service: Service) -> None:
        with service.watch(service.create(), X_Request_Id="mine-1") as watching:
            assert watching.headers["X-Request-Id"] == "mine-1"

    def test_a_damaged_game(self, service: Service, admin: psycopg.Connection) -> None:
        game = service.create()
        admin.execute(
            "UPDATE games SET ply = 1, log = '\\xfc', times = '\\x00' WHERE id = %s", [game["id"]]
        )
        found = refused(service.watch(game))

        assert (found.status, found.code) == (500, "broken-log")


def at(game: Json, service: Service) -> Service:
    """Return the streams' own port, to be asked plainly."""
    port = re.search(r":(\d+)/", game["links"]["events"])
    assert port
    return Service(int(port[1]), service.token)


class TestLimits:
    def test_a_token_has_so_many_streams_and_has_one_more_when_one_ends(
        self, service: Service
    ) -> None:
        game = service.create()
        with ExitStack() as stack:
            watching = [stack.enter_context(service.watch(game)) for _ in range(4)]
            found = refused(service.watch(game))
            watching[0].__exit__()

            def taken() -> bool:
                with service.watch(game) as another:
                    return another.status == 200

            await_(taken)

        assert (found.status, found.code) == (429, "too-many-streams")
        assert found.headers["Retry-After"] == str(found.body["retry_after"]) == "5"

    def test_all_together_have_so_many(self, postgres: EmbeddedPostgres, service: Service) -> None:
        game = service.create()
        with streaming(postgres.url, STREAMS="2") as streams:
            there = {"links": {"events": f"{streams.url}/v1/games/{game['id']}/events"}}
            with service.watch(there), service.watch(there):
                found = refused(service.watch(there))

        assert (found.status, found.code) == (503, "streams-full")
        assert found.headers["Retry-After"] == "5"

    def test_opening_counts_as_reading(self, postgres: EmbeddedPostgres, service: Service) -> None:
        game = service.create()
        with streaming(postgres.url, RATE_LIMITS="on", RATE_READS="2 per hour") as streams:
            there = {"links": {"events": f"{streams.url}/v1/games/{game['id']}/events"}}
            for _ in range(2):
                with service.watch(there) as watching:
                    watching.event()
            found = refused(service.watch(there))

        assert (found.status, found.code) == (429, "rate-limited")


def test_streams_outlive_an_outage_and_new_ones_are_told_of_it(
    postgres: EmbeddedPostgres, hasty: Hasty
) -> None:
    game = hasty.service.create()
    with hasty.service.watch(game) as watching:
        watching.event()
        postgres.stop()
        try:
            comments = len(watching.comments)
            while len(watching.comments) < comments + 3:
                assert watching.line() is not None
            found = refused(hasty.service.watch(game))
        finally:
            postgres.start()
        await_(hasty.service.ready)
        moved = hasty.service.move(game)
        heard = watching.event()

    assert (found.status, found.code) == (503, "database-unavailable")
    assert found.headers["Retry-After"]
    assert heard.value == moved
    assert hasty.log.read_text().count("watching nothing") == 1


def test_the_mark_of_an_event_is_what_its_text_says() -> None:
    for text in ("0-0123456789abcdef", "1999-fedcba9876543210"):
        assert str(Mark.parse(text)) == text
    assert Mark.parse("12") == Mark(12, "")
