"""The service as it is run: processes of its own, and databases of a test's own."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, Self
from urllib.parse import urlsplit

import orjson
import psycopg
from documents import SIGNING_KEYS
from psycopg.sql import SQL, Identifier

from service.engine import verify
from service.settings import Settings
from service.store import schema
from service.store.backup import backup
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres, program

Json = dict[str, Any]

PATIENCE = 30.0
RENDEZVOUS = (sys.executable, "-P", "-c", "from service.cli import main; main()")


def libpq(url: str) -> str:
    """Return a URL as libpq reads it."""
    return url.replace("+psycopg", "")


@contextmanager
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """Run a Postgres that nobody else uses, its database at head."""
    home = Path(tempfile.gettempdir()).resolve() / f"rendezvous-tests-{token_hex(4)}"
    with EmbeddedPostgres(home) as server:
        database = Database(server.url)
        schema.upgrade(database.engine)
        database.dispose()
        yield server
    shutil.rmtree(home)


@contextmanager
def new_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """Give the URL of an empty database, which goes away with the block."""
    name = f"test_{token_hex(4)}"
    with psycopg.connect(libpq(postgres.url), autocommit=True) as admin:
        admin.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        yield postgres.url.replace("/postgres?", f"/{name}?")
        admin.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def await_(condition: Callable[[], Any], within: float = PATIENCE) -> None:
    """Return when the condition holds."""
    until = time.monotonic() + within
    while not condition():
        assert time.monotonic() < until, "in vain"
        time.sleep(0.02)


@dataclass(frozen=True)
class Answer:
    """An answer as it came over the wire."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def body(self) -> Json:
        """Its JSON."""
        value: Json = orjson.loads(self.data)
        return value


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    id: str
    name: str
    value: Json

    @property
    def game(self) -> Json:
        """The game in it, as a read gives it."""
        return {name: value for name, value in self.value.items() if name != "applied"}


class Stream:
    """An answer of server-sent events, read as it comes.

    Attributes:
        status: Its status.
        headers: Its headers.
        comments: The comments that were met so far.
        fields: All lines that were met so far.
    """

    def __init__(self, url: str, **headers: str) -> None:
        """Ask for it."""
        parts = urlsplit(url)
        assert parts.hostname
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request("GET", parts.path, headers=named)
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.headers = self.response.headers
        self.comments: list[str] = []
        self.fields: list[str] = []

    def __enter__(self) -> Self:
        """Begin to read it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it, read or not."""
        self.response.close()
        self.connection.close()

    def line(self) -> str | None:
        """Return its next line, None at its end."""
        try:
            line = self.response.readline().decode()
        except (http.client.HTTPException, ConnectionError):
            return None
        if line:
            self.fields.append(line)
        if line.startswith(":"):
            self.comments.append(line)
        return line.removesuffix("\n") if line else None

    def __iter__(self) -> Iterator[Event]:
        """Yield its events, each of which must come in time; comments do not count."""
        found: dict[str, str] = {}
        until = time.monotonic() + PATIENCE
        while (line := self.line()) is not None:
            assert time.monotonic() < until, "no event comes"
            name, _, value = line.partition(": ")
            if line:
                found[name] = value
            elif "data" in found:
                yield Event(found["id"], found["event"], orjson.loads(found["data"]))
                found, until = {}, time.monotonic() + PATIENCE

    def event(self) -> Event:
        """Return its next event."""
        return next(iter(self))

    def rest(self) -> list[Event]:
        """Return its events from now on, once it has ended."""
        return list(self)


@dataclass
class Service:
    """A service that listens on a port of this machine."""

    port: int
    token: str | None = None

    def connect(self) -> http.client.HTTPConnection:
        """Return a new connection to it."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        on: http.client.HTTPConnection | None = None,
        headers: Mapping[str, str] = {},
    ) -> Answer:
        """Return the answer to a request, on a connection of its own unless one is given."""
        sent = dict(headers)
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        data = body
        if isinstance(body, dict):
            data = orjson.dumps(body)
            sent.setdefault("Content-Type", "application/json")
        connection = on or self.connect()
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Answer(response.status, dict(response.headers), response.read())
        finally:
            if on is None:
                connection.close()

    def register(self, name: str = "Ada") -> str:
        """Become a player, whose token is used from now on, and return the player's id."""
        made = self.ask("POST", "/v1/players", {"name": name}).body
        self.token = made["token"]
        return str(made["player"]["id"])

    def create(self, seed: str = "royal", ruleset: str = "royal-rendezvous-1") -> Json:
        """Return a new game."""
        answer = self.ask("POST", "/v1/games", {"ruleset": ruleset, "deal": {"seed": seed}})
        assert answer.status == 201, answer
        return answer.body

    def try_move(self, game: Json, ply: int, *moves: Json, **options: Any) -> Answer:
        """Return the answer to moves."""
        body = {"ply": ply, "moves": list(moves)}
        return self.ask("POST", f"/v1/games/{game['id']}/moves", body, **options)

    def move(self, game: Json, *moves: Json) -> Json:
        """Return a game after moves; without any, after its first legal one."""
        answer = self.try_move(game, game["ply"], *(moves or game["legal_moves"][:1]))
        assert answer.status == 200, answer
        return answer.body

    def read(self, game: Json) -> Json:
        """Return a game as it stands."""
        answer = self.ask("GET", f"/v1/games/{game['id']}")
        assert answer.status == 200, answer
        return answer.body

    def replay(self, game: Json) -> Json:
        """Return a game's replay document."""
        answer = self.ask("GET", f"/v1/games/{game['id']}/replay")
        assert answer.status == 200, answer
        return answer.body

    def watch(self, game: Json, seen: str = "", **headers: str) -> Stream:
        """Return a game's live events, from a point on."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if seen:
            sent["Last_Event_ID"] = seen
        return Stream(game["links"]["events"], **sent, **headers)

    def healthy(self) -> bool:
        """Whether it answers at all."""
        with suppress(OSError, http.client.HTTPException):
            return self.ask("GET", "/healthz").status == 200
        return False

    def ready(self) -> bool:
        """Whether it says that it is ready."""
        with suppress(OSError, http.client.HTTPException):
            return self.ask("GET", "/readyz").status == 200
        return False


class Players:
    """Some who play game after game, and send a move again until it is answered."""

    def __init__(self, service: Service, count: int) -> None:
        """Prepare to play; a game each to begin with."""
        self.service = service
        self.statuses: list[int] = []
        self.played: list[tuple[Json, list[str]]] = []
        self._games = [self._begin() for _ in range(count)]
        self._done = threading.Event()
        self._pool = ThreadPoolExecutor(count)

    def __enter__(self) -> Self:
        """Have them play."""
        self._playing = [self._pool.submit(self._play, *game) for game in self._games]
        return self

    def __exit__(self, *_: object) -> None:
        """Have them finish the move they are at."""
        self._done.set()
        self._pool.shutdown()

    def _begin(self) -> tuple[Json, list[str]]:
        self.played.append((self.service.create(), []))
        return self.played[-1]

    def _play(self, game: Json, acknowledged: list[str]) -> None:
        while not self._done.is_set():
            try:
                answer = self.service.try_move(game, game["ply"], game["legal_moves"][0])
            except (OSError, http.client.HTTPException):
                answer = Answer(0, {}, b"")
            self.statuses.append(answer.status)
            if answer.status == http.client.OK:
                game = answer.body
                acknowledged += [entry["move"] for entry in game["applied"]]
                if game["status"] != "playing":
                    game, acknowledged = self._begin()
            else:
                time.sleep(0.05)

    @property
    def moves(self) -> int:
        """How many moves were acknowledged."""
        return self.statuses.count(http.client.OK)

    def await_moves(self, more: int) -> None:
        """Return when so many moves more are acknowledged."""
        enough = self.moves + more
        await_(lambda: self.moves >= enough)

    def check(self) -> None:
        """Fail unless each log is what was acknowledged, and maybe a move whose answer was lost."""
        for playing in self._playing:
            playing.result()
        for game, acknowledged in self.played:
            document = self.service.replay(game)
            assert document["log"][: len(acknowledged)] == acknowledged
            assert len(document["log"]) <= len(acknowledged) + 1
            assert verify(document).verdict in {"incomplete", "valid"}


def dumped(url: str, folder: Path) -> bytes:
    """Return a whole database as text, as `pg_dump` and `pg_restore` give it."""
    file = folder / "dump"
    database = Database(url)
    backup(database, file)
    database.dispose()
    done = subprocess.run(
        [program("pg_restore"), "--file=-", str(file)], capture_output=True, check=True
    )
    assert b"COPY public.tokens" in done.stdout
    return done.stdout


@contextmanager
def processes(
    url: str,
    listener: socket.socket,
    *,
    first: str = "",
    log: IO[str] | None = None,
    **settings: str,
) -> Iterator[int]:
    """Run gunicorn with its workers on a socket, and give the number of its master.

    Args:
        url: The database.
        listener: The socket, which outlives them.
        first: Python that is run before.
        log: Where they write what they complain of.
        settings: Variables of their environment.
    """
    code = f"{first}\nfrom service.server import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "leave", str(listener.fileno()), str(os.getpid())],
        env=environment(**{"SIGNING_KEYS": str(SIGNING_KEYS), **settings}),
        stdin=subprocess.PIPE,
        pass_fds=[listener.fileno()],
        stderr=log,
    )
    assert process.stdin
    with process.stdin as pipe:
        pipe.write(f"{url}\n".encode())
    try:
        yield process.pid
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process in good order; one that is told to before it has begun ends by that."""
    process.terminate()
    assert process.wait(PATIENCE) in {0, -signal.SIGTERM}


@contextmanager
def running(
    url: str, *, first: str = "", log: IO[str] | None = None, **settings: str
) -> Iterator[Service]:
    """Run gunicorn with its workers, and give the service once it is ready."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        service = Service(listener.getsockname()[1])
        with processes(url, listener, first=first, log=log, **settings):
            await_(service.ready)
            yield service


@dataclass
class Streams:
    """The process that streams live events, by itself."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    def stop(self) -> None:
        """End it in good order."""
        end(self.process)


@contextmanager
def streaming(
    url: str, *, first: str = "", log: IO[str] | None = None, **settings: str
) -> Iterator[Streams]:
    """Run the process that streams live events, on a port of its own; see `processes`."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", f"{first}\nfrom service.stream import main; main()"),
                *(str(listener.fileno()), str(os.getpid())),
            ],
            env=environment(**{"STREAM_URL": f"http://127.0.0.1:{port}", **settings}),
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            stderr=log,
        )
        assert process.stdin
        with process.stdin as pipe:
            pipe.write(f"{url}\n".encode())
        streams = Streams(port, process)
        listener.close()  # else nobody would hear that it has stopped
        try:
            yield streams
        finally:
            if process.poll() is None:
                streams.stop()


@contextmanager
def working(
    url: str, *, first: str = "", log: IO[str] | None = None, **settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the process that does what is due; see `processes`."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", f"{first}\nfrom service.worker import main; main()"),
            str(os.getpid()),
        ],
        env=environment(**settings),
        stdin=subprocess.PIPE,
        stderr=log,
    )
    assert process.stdin
    with process.stdin as pipe:
        pipe.write(f"{url}\n".encode())
    try:
        yield process
    finally:
        if process.poll() is None:
            end(process)


@dataclass
class Rendezvous:
    """`rendezvous serve` as a process, with what it says."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)
    complained: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin to listen to it."""
        self._ears = [
            threading.Thread(target=self._hear, args=pair, daemon=True)
            for pair in (
                (self.process.stdout, self.said),
                (self.process.stderr, self.complained),
            )
        ]
        for ear in self._ears:
            ear.start()

    @staticmethod
    def _hear(stream: Any, lines: list[str]) -> None:
        with stream:
            lines.extend(stream)

    def __str__(self) -> str:
        return f"out: {self.said}, err: {self.complained}, code: {self.process.poll()}"

    def announced(self) -> Service:
        """Return the service once it says that it is served."""
        until = time.monotonic() + PATIENCE
        while not self.said:
            assert time.monotonic() < until, self
            assert self.process.poll() is None, self
            time.sleep(0.02)
        found = re.search(r"http://\S+:(\d+) ", self.said[0])
        assert found, self
        return Service(int(found[1]))

    def end(self, number: int = signal.SIGINT) -> int:
        """Send it a signal and return its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Return its exit code when it has ended."""
        code = self.process.wait(PATIENCE)
        for ear in self._ears:
            ear.join(PATIENCE)
        return code


@contextmanager
def serve(home: Path, *, cwd: Path | None = None, **settings: str) -> Iterator[Rendezvous]:
    """Run `rendezvous serve` with a home, on a free port unless told otherwise."""
    keys = {"SIGNING_KEYS": str(SIGNING_KEYS)} if "DATABASE_URL" in settings else {}
    process = subprocess.Popen(
        [*RENDEZVOUS, "serve"],
        cwd=cwd,
        env=environment(RENDEZVOUS_HOME=str(home), **{"PORT": "0", **keys, **settings}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    rendezvous = Rendezvous(process)
    try:
        yield rendezvous
    finally:
        if process.poll() is None:
            rendezvous.end()


def rendezvous(*args: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*RENDEZVOUS, *args],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def environment(**settings: str) -> dict[str, str]:
    """Return this process's environment with no settings of the service but these.

    Requests are not limited unless they are by these: tests ask more than clients may.
    """
    ours = {one.metadata["variable"] for one in fields(Settings)}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "RATE_LIMITS": "off", "STREAM_PORT": "0", **settings}


def children(parent: int) -> list[int]:
    """Return the numbers of a process's children."""
    return [pid for pid, (its_parent, _) in table().items() if its_parent == parent]


def table() -> dict[int, tuple[int, str]]:
    """Return all processes by their number: their parent's number and their command line."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat=,args="],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(None, 3) for line in listed.stdout.splitlines()]
    return {int(row[0]): (int(row[1]), row[3]) for row in rows if "Z" not in row[2]}
