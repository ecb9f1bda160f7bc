"""The process that streams live events of games and tournaments, to many watchers at little cost.

One thread serves all of them. A few times a second the database is asked, by one statement for all
watched games and one for all tournaments, what has changed; whoever watches is woken, and writes
what is new to their own client. Nothing is queued: a watcher knows the point that its client has
seen, and what is new is made from the row as it is when the client can take more. So a slow client
gets fewer events of a game, of more moves each, and none can make this process grow.
"""

import asyncio
import logging
import logging.config
import resource
import signal
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from random import uniform
from typing import Any, Final, TypeVar
from uuid import UUID

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from service import access, child, games, metrics, tournament_view, view, watch
from service.access import TokenInvalidError, Viewer
from service.api import edge, problems
from service.api.limits import Limits
from service.api.problems import (
    Problem,
    StreamsFullError,
    TooManyStreamsError,
    misfit,
    request_id,
)
from service.engine.errors import RendezvousError
from service.engine.verify import escape
from service.games import Record
from service.settings import Settings
from service.store.database import Database, DatabaseUnavailableError, Instant
from service.tournaments import entering, settling
from service.tournaments.feed import Happening, Watch, after_number, moved, went_through
from service.tournaments.feed import Mark as Point
from service.tournaments.model import SHOWN_AGAIN, STAFF, Seen, look
from service.watch import Change, Mark, Watched

T = TypeVar("T")
Write = Callable[[bytes], object]

LOOK_EVERY: Final = 0.25
"""Seconds between two looks at the watched games."""
KEEP_ALIVE: Final = 14.0
"""Seconds after which a stream without events sends a comment, or a little less."""
SILENCE: Final = 20.0
"""Seconds that a client may take for its request, or take nothing of what it is sent."""

_RECONNECT_MS: Final = 2000
_OPENERS: Final = 4
_SEND_BUFFER: Final = 1 << 17
_STOP_WITHIN: Final = 10
_SEEN: Final = "rendezvous.seen"
_ROUTE: Final = "/v1/games/{game_id:uuid}/events"
_TOURNAMENT_ROUTE: Final = "/v1/tournaments/{tournament_id:uuid}/live"
_ROWS_AT_ONCE: Final = 500
_ROWS_KEPT: Final = 2000
_HEALTH: Final = "/healthz"
_EVENT: Final = b"\nevent: "
_COMMENT: Final = b": still here\n\n"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "X-Accel-Buffering": "no",
}

_log = logging.getLogger(__name__)


class Watcher:
    """A client that watches a game.

    Attributes:
        game: The game's id.
        token: The id of the token that watches; None where the game has ended.
        seen: Up to where the client has been told; None for nothing.
        wake: Set when there may be something to do.
        over: Whether the stream is to end.
    """

    __slots__ = ("game", "over", "seen", "token", "wake")

    def __init__(self, game: UUID, token: UUID | None, seen: Mark | None) -> None:
        self.game = game
        self.token = token
        self.seen = seen
        self.wake = asyncio.Event()
        self.over = False

    def end(self) -> None:
        """End the stream when what is being written is written."""
        self.over = True
        self.wake.set()


class Onlooker:
    """A client that watches a tournament.

    Attributes:
        watch: Who they are; its mark is the point up to which they have been told.
        wake: Set when there may be something to do.
        over: Whether the stream is to end.
        anew: Whether what they have been told is no longer so.
    """

    __slots__ = ("anew", "over", "wake", "watch")

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.anew = False
        self.wake = asyncio.Event()
        self.over = False

    def end(self) -> None:
        """End the stream when what is being written is written."""
        self.over = True
        self.wake.set()


class Scene:
    """A watched tournament: its last events, and who watches.

    Attributes:
        mark: Its last event, as far as is known.
        over: ``final`` or ``cancelled`` once it is and all events are known.
        onlookers: Who watches.
    """

    __slots__ = ("_rows", "mark", "onlookers", "over")

    def __init__(self, mark: Point) -> None:
        self.mark = mark
        self.over: str | None = None
        self.onlookers: set[Onlooker] = set()
        self._rows: deque[tuple[Happening, dict[bool, bytes]]] = deque(maxlen=_ROWS_KEPT)

    def add(self, rows: Sequence[Happening]) -> None:
        """Add events that follow the last one."""
        if any(row.kind in SHOWN_AGAIN for row in rows):
            self._rows.clear()  # what was kept back is for all to know now
        self._rows += [(row, {}) for row in rows]
        self.mark = _point(rows[-1])

    def start_over(self, mark: Point) -> None:
        """Forget all that is known: the database was restored to an earlier state."""
        self._rows.clear()
        self.mark = mark
        for onlooker in self.onlookers:
            onlooker.anew = True
            onlooker.wake.set()

    def after(self, number: int, *, hosts: bool) -> tuple[bytes, Point] | None:
        """Return the events after one and the point reached by them; None if not all are kept."""
        if not self._rows or self._rows[0][0].number > number + 1:
            return None
        first = number + 1 - self._rows[0][0].number
        found = []
        for row, made in islice(self._rows, first, None):
            if hosts not in made:
                made[hosts] = _acts([row], hosts=hosts) if hosts or row.public else b""
            found.append(made[hosts])
        return b"".join(found), self.mark


def _point(row: Happening) -> Point:
    return Point.of(row.number, row.at)


def _acts(rows: Sequence[Happening], *, hosts: bool) -> bytes:
    return b"".join(
        _event("act", _point(row), tournament_view.happening(row, hosts=hosts)) for row in rows
    )


@dataclass(frozen=True, slots=True)
class Opened:
    """A tournament as it was when somebody began to watch it.

    Attributes:
        seen: The tournament.
        known: Whether its events went through the point up to which its viewer had been told.
    """

    seen: Seen
    known: bool

    @property
    def mark(self) -> Point:
        """Its last event."""
        return Point.of(self.seen.tournament.events, self.seen.tournament.told_at)

    @property
    def over(self) -> str | None:
        """``final`` or ``cancelled``, None while it is neither."""
        return self.seen.state if self.seen.state in {"final", "cancelled"} else None

    def watch(self, mark: Point) -> Watch:
        """Return who watches it and has been told all up to a point."""
        who, hosts = self.seen.who, self.seen.role in STAFF
        return Watch(self.seen.tournament.id, mark, who.token if who else None, hosts)


class Tournaments:
    """All watched tournaments of this process."""

    def __init__(self, database: Database, events_at: str) -> None:
        self.scenes: dict[UUID, Scene] = {}
        self._database = database
        self._events_at = events_at

    def open(self, tournament: UUID, token: bytes | None, seen: Point | None) -> Opened:
        """Return a tournament for a viewer once all that is due is written, by some statements.

        Raises:
            NotFoundError: There is no such tournament for this viewer.
        """
        instant = Instant()
        found = self._database.run(lambda one: look(one, instant, token, tournament))
        if found.due:
            settling.settle(self._database, tournament)
            found = self._database.run(lambda one: look(one, Instant(), token, tournament))
        known = seen is not None and self._database.run(
            lambda one: went_through(one, tournament, seen)
        )
        return Opened(found, known=known)

    def state(self, opened: Opened) -> bytes:
        """Return a tournament as its viewer sees it, as an event."""
        shown = tournament_view.tournament(
            opened.seen, entering.conditions(opened.seen), self._events_at
        )
        return _event("tournament", opened.mark, shown)

    def join(self, onlooker: Onlooker, opened: Opened) -> Scene:
        """Add an onlooker, who has just read the tournament, and return what they watch."""
        tournament = onlooker.watch.tournament
        if tournament not in self.scenes:
            self.scenes[tournament] = Scene(opened.mark)
            self.scenes[tournament].over = opened.over
        scene = self.scenes[tournament]
        scene.onlookers.add(onlooker)
        return scene

    def leave(self, onlooker: Onlooker) -> None:
        """Remove an onlooker."""
        tournament = onlooker.watch.tournament
        scene = self.scenes[tournament]
        scene.onlookers.discard(onlooker)
        if not scene.onlookers:
            del self.scenes[tournament]

    def close(self) -> None:
        """End all streams."""
        for scene in self.scenes.values():
            for onlooker in scene.onlookers:
                onlooker.end()

    async def look(self, pool: ThreadPoolExecutor) -> None:
        """Ask what has changed, and wake whom it concerns."""
        known = dict(self.scenes)
        pairs = {
            (tournament, scene.mark, onlooker.watch.token, onlooker.watch.hosts)
            for tournament, scene in known.items()
            for onlooker in scene.onlookers
        }
        watched = [Watch(*pair) for pair in pairs]
        if not watched:
            return
        found, grown = await _in(pool, lambda: self._database.run(partial(moved, watched=watched)))
        for tournament, (mark, rows) in grown.items():
            scene = known[tournament]
            if not rows or _point(rows[0]) != scene.mark:
                scene.start_over(mark)
            else:
                scene.add(rows[1:])
        for one in found:
            scene = known[one.watch.tournament]
            allowed = one.allowed and one.mark is not None
            if one.mark is not None and one.mark.number <= scene.mark.number:
                scene.over = one.over
            for onlooker in scene.onlookers:
                who = (onlooker.watch.token, onlooker.watch.hosts)
                if allowed:
                    onlooker.wake.set()
                elif who == (one.watch.token, one.watch.hosts):
                    onlooker.end()

    def read(self, watch: Watch, until: Point) -> tuple[bytes, Point]:
        """Return some of the events that an onlooker has not been told, and the point reached.

        Args:
            watch: The onlooker.
            until: The last event, as far as is known.
        """
        rows = self._database.run(
            lambda one: after_number(
                one, watch.tournament, watch.mark.number, limit=_ROWS_AT_ONCE, hosts=watch.hosts
            )
        )
        point = _point(rows[-1]) if rows else until
        # The last ones may be the hosts' alone.
        if len(rows) < _ROWS_AT_ONCE and point.number < until.number:
            point = until
        return _acts(rows, hosts=watch.hosts), point


class Feed:
    """A watched game: its row as last seen, and who watches.

    Attributes:
        record: The row.
        watchers: Who watches.
    """

    __slots__ = ("_made", "record", "watchers")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.watchers: set[Watcher] = set()
        self._made: tuple[Record, Mark | None, bytes, Mark | None] | None = None

    def events(self, seen: Mark | None, events_at: str) -> tuple[bytes, Mark | None]:
        """Return what is new since a point, as the bytes of events, and the point reached by them.

        Those who have seen the same, as most have, get the same bytes, made once.
        """
        made = self._made
        if made is None or made[0] is not self.record or made[1] != seen:
            made = self._made = (self.record, seen, *_events(self.record, seen, events_at))
        return made[2], made[3]


def _events(record: Record, seen: Mark | None, events_at: str) -> tuple[bytes, Mark | None]:
    found, mark = b"", seen
    state = watch.news(record, seen)
    if state is not None:
        mark = Mark.of(state)
        name = "game" if state.applied is None else "change"
        found = _event(name, mark, view.game(state, events_at))
    if record.ended_at is not None:
        found += _event("end", mark, view.outcome(record))
    return found, mark


def _event(name: str, mark: Mark | Point | None, value: Any) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (
        str(mark).encode(),
        name.encode(),
        orjson.dumps(value),
    )


class Hub:
    """All streams of this process."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Prepare to watch; :meth:`watching` does it."""
        self.settings = settings
        self.feeds: dict[UUID, Feed] = {}
        self.tournaments = Tournaments(database, settings.events_at)
        self.closing = False
        self._database = database
        self._open: Counter[bytes | None] = Counter()
        metrics.streams_open.set(0)
        self._limits = Limits(settings)
        self._sure = True
        # What a look asks about; None when that has changed since.
        self._asked: Watched | None = None
        # Whoever comes anew, in whatever numbers, does not keep the looks waiting.
        self._looks = ThreadPoolExecutor(1)
        self._opens = ThreadPoolExecutor(_OPENERS)

    @contextmanager
    def place(self, token: bytes | None) -> Iterator[None]:
        """Hold one of the places for streams.

        Raises:
            StreamsFullError: All are taken.
            TooManyStreamsError: All that a token may have.
        """
        most, each = self.settings.streams, self.settings.streams_per_token
        if self._open.total() >= most:
            raise StreamsFullError(f"{most} streams are open")
        if token is not None and self._open[token] >= each:
            raise TooManyStreamsError(f"a token may have {each} streams at once")
        self._open[token] += 1
        metrics.streams_open.set(self._open.total())
        try:
            yield
        finally:
            self._open[token] -= 1
            self._open += Counter()  # forgets those that have none left
            metrics.streams_open.set(self._open.total())

    async def open(
        self, game: UUID, token: bytes | None, address: str
    ) -> tuple[Record, Viewer | None]:
        """Return a game's row and who may watch it, as :meth:`asked`.

        Raises:
            NotFoundError: There is no such game for this viewer.
        """
        instant = Instant()
        return await self.asked(
            token,
            address,
            lambda sound: self._database.run(lambda one: games.look(one, instant, sound, game)),
        )

    async def asked(
        self, token: bytes | None, address: str, read: Callable[[bytes | None], T]
    ) -> T:
        """Return what somebody who comes anew asks to read, not keeping others waiting.

        Raises:
            RateLimitedError: There were too many requests.
            TokenInvalidError: The token is none of ours.
        """

        def act() -> T:
            self._limits.count("reads", token or None, address)
            try:
                found = read(access.sound(token))
            except TokenInvalidError:
                self._limits.note(token or b"", good=False)
                raise
            if token is not None:
                self._limits.note(token, good=True)
            return found

        return await self.soon(act)

    async def soon(self, act: Callable[[], T]) -> T:
        """Return what is read from the database for one watcher, not keeping others waiting."""
        return await _in(self._opens, act)

    def join(self, watcher: Watcher, record: Record) -> Feed:
        """Add a watcher, who has just read the game's row, and return what they are to be told."""
        feed = self.feeds.setdefault(watcher.game, Feed(record))
        if record.ply > feed.record.ply:
            self._renew(feed, record)
        feed.watchers.add(watcher)
        self._asked = None
        if self.closing:
            watcher.end()
        return feed

    def join_tournament(self, onlooker: Onlooker, opened: Opened) -> Scene:
        """Add an onlooker, who has just read the tournament, and return what they watch."""
        scene = self.tournaments.join(onlooker, opened)
        if self.closing:
            onlooker.end()
        return scene

    def leave(self, watcher: Watcher) -> None:
        """Remove a watcher."""
        feed = self.feeds[watcher.game]
        feed.watchers.discard(watcher)
        self._asked = None
        if not feed.watchers:
            del self.feeds[watcher.game]

    def close(self) -> None:
        """End all streams, and those that are just beginning."""
        self.closing = True
        for feed in self.feeds.values():
            for watcher in feed.watchers:
                watcher.end()
        self.tournaments.close()

    @asynccontextmanager
    async def watching(self, _: Starlette) -> AsyncIterator[None]:
        """Look at what is watched for as long as this is entered."""
        looking = asyncio.create_task(self._look_always())
        yield
        looking.cancel()
        self._looks.shutdown()
        self._opens.shutdown()

    async def _look_always(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self._look()
                await self.tournaments.look(self._looks)
            except DatabaseUnavailableError as error:
                if self._sure:
                    _log.warning("watching nothing: %s", error)
                self._doubt()
            # Streams outlive whatever is done to the database meanwhile.
            except Exception:  # noqa: BLE001
                if self._sure:
                    _log.exception("watching nothing")
                self._doubt()

    async def _look(self) -> None:
        """Ask what has changed, and wake whom it concerns."""
        known = {game: feed.record for game, feed in self.feeds.items()}
        watched = self._asked = self._asked or self._watched()
        if watched is None:
            return
        found = await _in(self._looks, lambda: self._database.run(watched.changes))
        await self._settle(found)
        if not self._sure:
            self._sure, self._asked = True, None
        for change in found:
            feed = self.feeds.get(change.game)
            if feed is None:
                continue
            if not change.allowed or change.record is None:
                for watcher in feed.watchers:
                    if watcher.token == change.token:
                        watcher.end()
            # A newer row than this look's may have come with a new watcher meanwhile.
            elif feed.record is known.get(change.game):
                self._renew(feed, change.record)

    async def _settle(self, found: Sequence[Change]) -> None:
        """Have it written which games their deadlines have ended; the next look finds it."""
        for tournament in {
            one.record.tournament for one in found if one.record and one.record.overdue
        }:
            if tournament is not None:
                await _in(self._opens, partial(settling.settle, self._database, tournament))

    def _doubt(self) -> None:
        """Note that the database was away: if it came back from a backup, no known ply holds."""
        self._sure, self._asked = False, None

    def _watched(self) -> Watched | None:
        """Return what to ask about; None for nothing."""
        pairs = {
            (game, watcher.token): feed.record.ply if self._sure else watch.NEVER
            for game, feed in self.feeds.items()
            for watcher in feed.watchers
            if watcher.token is not None
        }
        return (
            Watched([(game, ply, token) for (game, token), ply in pairs.items()]) if pairs else None
        )

    def _renew(self, feed: Feed, record: Record) -> None:
        feed.record = record
        self._asked = None
        for watcher in feed.watchers:
            watcher.wake.set()


async def _in(pool: ThreadPoolExecutor, act: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(pool, act)


class Events:
    """`GET /v1/games/{game_id}/events`: an answer that goes on for as long as the game does."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = _request(scope)
        seen = _seen(request.headers, Mark.parse)
        token = access.read_bearer(request.headers.get("Authorization"))
        with self._hub.place(token):
            game = scope["path_params"]["game_id"]
            address = _address(request, self._hub.settings.trusted_proxies)
            record, who = await self._hub.open(game, token, address)
            if who is not None:
                scope[_SEEN]["player"] = str(who.player)
            watcher = Watcher(game, who.token if who else None, seen)
            if record.ended_at is not None:
                # Whoever it is: that a lost game is taken up again is its player's alone to see.
                await self._answer(scope, send, Feed(record), watcher)
                return
            feed = self._hub.join(watcher, record)
            gone = asyncio.create_task(_end_when_gone(receive, watcher))
            try:
                await self._answer(scope, send, feed, watcher)
            finally:
                gone.cancel()
                self._hub.leave(watcher)

    async def _answer(self, scope: Scope, send: Send, feed: Feed, watcher: Watcher) -> None:
        """Send what the client has not seen, then what comes, until the game or the stream ends."""
        chunk, watcher.seen = feed.events(watcher.seen, self._hub.settings.events_at)
        await _begin(scope, send, chunk)
        while not watcher.over and feed.record.ended_at is None and scope["method"] != "HEAD":
            await _send(send, await self._next(feed, watcher))
        await send({"type": "http.response.body"})

    async def _next(self, feed: Feed, watcher: Watcher) -> bytes:
        """Return what comes next: events, or a comment when there are none for long."""
        if not await _woken(watcher.wake):
            return _COMMENT
        found, watcher.seen = feed.events(watcher.seen, self._hub.settings.events_at)
        return found


class TournamentEvents:
    """`GET /v1/tournaments/{tournament_id}/live`: an answer that goes on until the end of it."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._tournaments = hub.tournaments

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = _request(scope)
        seen = _seen(request.headers, Point.parse)
        token = access.read_bearer(request.headers.get("Authorization"))
        with self._hub.place(token):
            tournament = scope["path_params"]["tournament_id"]
            address = _address(request, self._hub.settings.trusted_proxies)
            opened = await self._hub.asked(
                token, address, lambda sound: self._tournaments.open(tournament, sound, seen)
            )
            if opened.seen.who is not None:
                scope[_SEEN]["player"] = str(opened.seen.who.player)
            told = seen if seen is not None and opened.known else None
            onlooker = Onlooker(opened.watch(told or opened.mark))
            scene = self._hub.join_tournament(onlooker, opened)
            gone = asyncio.create_task(_end_when_gone(receive, onlooker))
            try:
                await _begin(scope, send, b"" if told else self._tournaments.state(opened))
                while not onlooker.over and scope["method"] != "HEAD":
                    await _send(send, await self._next(scene, onlooker, token))
                await send({"type": "http.response.body"})
            finally:
                gone.cancel()
                self._tournaments.leave(onlooker)

    async def _next(self, scene: Scene, onlooker: Onlooker, token: bytes | None) -> bytes:
        """Return what comes next: events, or a comment when there are none for long."""
        if onlooker.anew:
            onlooker.anew = False
            return await self._anew(onlooker, token)
        watch = onlooker.watch
        if watch.mark.number < scene.mark.number:
            found = scene.after(watch.mark.number, hosts=watch.hosts)
            if found is None:
                until = scene.mark
                found = await self._hub.soon(lambda: self._tournaments.read(watch, until))
            onlooker.watch = replace(watch, mark=found[1])
            return found[0]
        if scene.over is not None:
            onlooker.end()
            ending = {"id": str(watch.tournament), "state": scene.over}
            return _event("end", watch.mark, ending)
        return b"" if await _woken(onlooker.wake) else _COMMENT

    async def _anew(self, onlooker: Onlooker, token: bytes | None) -> bytes:
        """Return the tournament as it is now, since what was told of it is no longer so."""
        tournament = onlooker.watch.tournament
        try:
            opened = await self._hub.soon(lambda: self._tournaments.open(tournament, token, None))
        except RendezvousError:
            onlooker.end()  # who connects again is told why not
            return b""
        onlooker.watch = opened.watch(opened.mark)
        return self._tournaments.state(opened)


def _request(scope: Scope) -> Request:
    """Return a request that has no query.

    Raises:
        BadRequestError: It has one.
    """
    request = Request(scope)
    if request.url.query:
        name = next(iter(request.query_params), "")
        raise misfit(f"#query/{escape(name)}", "not known")
    return request


async def _begin(scope: Scope, send: Send, chunk: bytes) -> None:
    """Begin an answer with its first events."""
    headers = {
        **scope["app"].state.headers,
        "Content-Type": "text/event-stream",
        "X-Request-Id": scope[_SEEN]["request_id"],
    }
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": 200, "headers": raw})
    await _send(send, b"retry: %d\n\n" % _RECONNECT_MS + chunk)


async def _woken(wake: asyncio.Event) -> bool:
    """Wait until there may be something to do; return whether there may, or it took too long."""
    try:
        # Those who came together are not all written to at once again and again.
        async with asyncio.timeout(KEEP_ALIVE * uniform(0.7, 1)):  # noqa: S311
            await wake.wait()
    except TimeoutError:
        return False
    wake.clear()
    return True


async def _send(send: Send, chunk: bytes) -> None:
    if chunk:  # an empty one would be the last
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if number := chunk.count(_EVENT):
            metrics.events.inc(number)


async def _end_when_gone(receive: Receive, watcher: Watcher | Onlooker) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    watcher.end()


def _address(request: Request, proxies: int) -> str:
    """Return the client's address, as so many proxies in front tell it."""
    told = ",".join(request.headers.getlist("X-Forwarded-For")).split(",")
    if proxies and len(told) >= proxies and told[-proxies].strip():
        return told[-proxies].strip()
    return request.client.host if request.client else ""


def _seen(headers: Headers, parse: Callable[[str], T]) -> T | None:
    text = headers.get("Last-Event-ID")
    if not text:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise misfit("#header/Last-Event-ID", str(error)) from error


class Passing:
    """Gives each request its id, counts it, and has its line written when it is over."""

    def __init__(self, app: ASGIApp, settings: Settings, write: Write | None) -> None:
        self._app = app
        self._settings = settings
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        seen = {"request_id": request_id(request.headers.get("X-Request-Id", ""))}
        scope[_SEEN] = seen
        began, status, length = time.perf_counter(), 500, 0

        async def sent(message: Message) -> None:
            nonlocal status, length
            if "status" in message:
                status = message["status"]
                _count(scope, status)
            elif "body" in message:
                length += len(message["body"])
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception:
            _count(scope, status)
            raise
        finally:
            if _is_stream(scope):
                route = _ROUTE if "game_id" in scope["path_params"] else _TOURNAMENT_ROUTE
                seen["route"] = route.replace(":uuid", "")
            if self._settings.log == "json" and request.url.path != _HEALTH:
                seconds = time.perf_counter() - began
                address = _address(request, self._settings.trusted_proxies)
                edge.log_request(
                    seen, scope["method"], status, seconds, length, address, self._write
                )


def _is_stream(scope: Scope) -> bool:
    return bool(scope.get("path_params"))


def _count(scope: Scope, status: int) -> None:
    if _is_stream(scope):
        metrics.streams.labels(str(status)).inc()


def _problem(request: Request, problem: Problem) -> Response:
    seen = request.scope[_SEEN]
    seen["problem"] = problem.code
    number = seen["request_id"]
    return Response(
        problem.document(number),
        problem.status,
        {**request.app.state.headers, **problem.headers, "X-Request-Id": number},
        problems.MEDIA_TYPE,
    )


def _from_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RendezvousError)  # noqa: S101 - for the type checker
    return _problem(request, problems.explain(error))


def _from_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    return _problem(request, problems.explain_http(error.status_code, "", error.headers or {}))


def _from_fault(request: Request, error: Exception) -> Response:
    del error  # it is raised again, and logged by the server
    return _problem(request, problems.FAULT)


def _healthz(request: Request) -> Response:
    headers = request.app.state.headers
    return Response(b'{"status":"ok"}', headers=headers, media_type="application/json")


def create_app(hub: Hub, write: Write | None = None) -> Starlette:
    """Return the streams as an ASGI application.

    Args:
        hub: The streams.
        write: Writes the lines of the log; see :func:`service.api.edge.log_request`.
    """
    settings = hub.settings
    passing = Middleware(Passing, settings=settings, write=write)
    cors = Middleware(
        CORSMiddleware,
        allow_origins=settings.origins,
        allow_methods=["GET", "HEAD"],
        allow_headers=edge.CORS_ASKED,
        expose_headers=edge.CORS_SHOWN,
        max_age=edge.CORS_HOLDS,
    )
    app = Starlette(
        middleware=[passing, cors] if settings.origins else [passing],
        routes=[
            Route(_ROUTE, Events(hub), methods=["GET"]),
            Route(_TOURNAMENT_ROUTE, TournamentEvents(hub), methods=["GET"]),
            Route(_HEALTH, _healthz, methods=["GET"]),
        ],
        exception_handlers={
            RendezvousError: _from_error,
            HTTPException: _from_http,
            Exception: _from_fault,
        },
        lifespan=hub.watching,
    )
    browser = edge.browser_headers(hsts_seconds=settings.hsts_seconds)
    app.state.headers = {**_HEADERS, **dict(browser)}
    return app


class Connection(H11Protocol):
    """uvicorn's connection, held up by nobody: not by who sends nothing, nor by who reads nothing.

    uvicorn waits without end for both.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._timers = {"request": self._abort_later()}

    def _abort_later(self) -> asyncio.TimerHandle:
        return self.loop.call_later(SILENCE, self.transport.abort)

    def _calm(self, about: str) -> None:
        timer = self._timers.pop(about, None)
        if timer is not None:
            timer.cancel()

    def handle_events(self) -> None:
        """Read what came."""
        super().handle_events()
        if self.cycle is not None:
            self._calm("request")

    def pause_writing(self) -> None:
        """Note that the client takes less than it is sent."""
        super().pause_writing()
        self._timers.setdefault("reading", self._abort_later())

    def resume_writing(self) -> None:
        """Note that it has caught up."""
        super().resume_writing()
        self._calm("reading")

    def on_response_complete(self) -> None:
        """Give the client some time to take the rest."""
        super().on_response_complete()
        self._timers.setdefault("rest", self._abort_later())

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        super().connection_lost(exc)
        for about in list(self._timers):
            self._calm(about)


class Server(uvicorn.Server):
    """uvicorn, which ends all streams when it is told to stop."""

    def __init__(self, hub: Hub, write: Write) -> None:
        super().__init__(
            uvicorn.Config(
                create_app(hub, write),
                http=Connection,
                loop="asyncio",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_STOP_WITHIN,
            )
        )
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Have clients connect again, to whoever takes this one's place."""
        self._hub.close()
        await super().shutdown(sockets)


def _allow_many_connections() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    """Stream until told to stop, or until the process that started this one is gone.

    Arguments: the descriptor of a socket that listens; and the number of the process that started
    this one. See :func:`service.child.begin`.
    """
    listener, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    url = child.begin(parent)
    settings = Settings.from_environment()
    scribe = edge.Scribe()
    if settings.log == "json":
        logging.config.dictConfig(edge.logging_by(scribe))
    else:
        logging.basicConfig(
            level=logging.WARNING,
            format="%(levelname)s: %(message)s",
            handlers=[logging.StreamHandler(scribe)],
        )
    # uvicorn stops in good order, then sends itself the signal again; and that is then no more.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    # What one client does not take is kept in the system's memory, as little as will do.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    _allow_many_connections()
    database = Database(url, pool_size=_OPENERS + 1, prepare=settings.prepares)
    Server(Hub(settings, database), scribe.take).run([listener])
    database.dispose()
    scribe.end()


if __name__ == "__main__":
    main()
