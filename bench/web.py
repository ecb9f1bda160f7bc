"""HTTP: moves, reads and batches beside a bare route and hand-written ones, in one run."""

import json
import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count, cycle, islice, repeat
from pathlib import Path
from statistics import median
from typing import Any, Final

import psutil  # type: ignore[import-untyped]
from sqlalchemy import make_url

from bench import rig
from bench.baselines import APPEND, READ
from bench.costs import Profile, environment, profile
from bench.load import Connection, Outcome, connections, flood, pace, request
from bench.play import RULES, SPEC, Line, long_lines
from service import tokens
from service.app import create_app
from service.games import WRITTEN_WITHIN
from service.settings import Settings
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres, program

BARE: Final = "bare route"
MOVE_BY_HAND: Final = "move, by hand"
MOVE: Final = "move"
READ_BY_HAND: Final = "read of a late game, by hand"
READ_LATE: Final = "read of a late game"
BATCH: Final = "batch of 50 moves"
KINDS: Final = (BARE, MOVE_BY_HAND, MOVE, READ_BY_HAND, READ_LATE, BATCH)

CONNECTIONS: Final = 16
BATCH_MOVES: Final = 50
LATE: Final = 115
"""Ply of the late game."""

_PLAYERS: Final = 16
_SQL_GAMES: Final = 50
_SQL_PLY: Final = 65
_RESERVE: Final = 1.3
"""Requests made in advance, as a multiple of those expected."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One kind of request under load in one round.

    Attributes:
        outcome: What the generator saw.
        workers: Processor time of the workers for each request, in µs.
        database: That of Postgres.
        others: Share of the machine's processor time that other programs took meanwhile.
    """

    outcome: Outcome
    workers: float
    database: float
    others: float


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured.

    Attributes:
        full: For each kind its samples at full load, round by round.
        half: For each kind its samples at half of that.
        sql: Transactions a second of the two statements by pgbench, round by round.
        sql_cost: Postgres's processor time for each, in µs.
        profiles: Where the time of a move, a read and a batch goes.
    """

    full: dict[str, list[Sample]]
    half: dict[str, list[Sample]]
    sql: list[float]
    sql_cost: list[float]
    profiles: dict[str, Profile]

    def rate(self, kind: str) -> float:
        """Return the median of a kind's requests a second."""
        return median(sample.outcome.rate for sample in self.full[kind])

    def ratio(self, kind: str, to: str) -> float:
        """Return the median over rounds of one kind's rate as a multiple of another's."""
        return median(
            one.outcome.rate / other.outcome.rate
            for one, other in zip(self.full[kind], self.full[to], strict=True)
        )

    def tail(self, kind: str) -> float:
        """Return the median over rounds of p99 over p50 at half load, undelayed requests alone."""
        return median(
            sample.outcome.percentile(0.99, steady=True)
            / sample.outcome.percentile(0.5, steady=True)
            for sample in self.half[kind]
        )

    @property
    def others(self) -> float:
        """The median share of the machine that other programs took."""
        kinds = (*self.full.values(), *self.half.values())
        return median(sample.others for samples in kinds for sample in samples)

    def cost_ratio(self, kind: str, to: str) -> float:
        """Return the median over rounds of another kind's processor time over this one's."""
        return median(
            (other.workers + other.database) / (one.workers + one.database)
            for one, other in zip(self.full[kind], self.full[to], strict=True)
        )


def measure(rounds: int, seconds: float, step: Callable[[], None]) -> Report:
    """Measure all kinds of request, everything once in each round.

    Args:
        rounds: Rounds.
        seconds: How long each kind is measured in a round.
        step: Called now and then; :func:`steps` says how often.
    """
    with rig.new_home() as home, rig.Service(home) as service:
        stage = Stage(service)
        with rig.baselines(service.postgres.url) as baselines, ExitStack() as stack:
            ours = stack.enter_context(open_(service, "/healthz"))
            theirs = stack.enter_context(open_(baselines, "/bare"))
            stage.open = dict.fromkeys(KINDS, ours)
            stage.open |= dict.fromkeys((BARE, MOVE_BY_HAND, READ_BY_HAND), theirs)
            for kind in KINDS:  # pools fill, and the rates show how many requests are needed
                stage.flood(kind, min(1.0, seconds))
            full: dict[str, list[Sample]] = {kind: [] for kind in KINDS}
            half: dict[str, list[Sample]] = {BARE: [], MOVE_BY_HAND: [], MOVE: []}
            sql, sql_cost = [], []
            for _ in range(rounds):
                for kind in KINDS:
                    full[kind].append(stage.flood(kind, seconds))
                rate, cost = stage.pgbench(seconds)
                sql.append(rate)
                sql_cost.append(cost)
                step()
            for _ in range(rounds):
                for kind, samples in half.items():
                    rate = median(sample.outcome.rate for sample in full[kind]) / 2
                    samples.append(stage.pace(kind, rate, seconds))
                step()
        profiles = {}
        for kind in (MOVE, READ_LATE, BATCH):
            profiles[kind] = stage.profile(kind, rounds * seconds / 2)
            step()
    return Report(full, half, sql, sql_cost, profiles)


def steps(rounds: int) -> int:
    """Return how many steps a measurement has."""
    return 2 * rounds + 3


_Open = tuple[list[psutil.Process], list[Connection]]
"""A program's workers, and connections to them."""


@contextmanager
def open_(program: rig.Program, hello: str) -> Iterator[_Open]:
    """Give a program's workers, and connections shared out evenly over them."""
    workers = program.workers()
    with connections(program.port, workers, CONNECTIONS, request("GET", hello)) as found:
        yield workers, found


class Stage:
    """The running service with players and games on it."""

    def __init__(self, service: rig.Service) -> None:
        self.service = service
        self.open: dict[str, _Open] = {}
        self.rates: dict[str, float] = {}
        self.lines = list(islice(long_lines("http"), 100))
        self.client = Connection(service.port)
        self.tokens = [
            str(self._ask("POST", "/v1/players", "", {"name": f"player {n}"})["token"])
            for n in range(_PLAYERS)
        ]
        self.numbers = count()
        self.late = [self._late() for _ in range(_PLAYERS)]

    def _ask(self, method: str, path: str, token: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        return json.loads(self.client.ask(request(method, path, token, data)))

    def _create(self) -> tuple[str, str, Line]:
        """Make a game; return its path, a token of its player and how it will be played."""
        number = next(self.numbers)
        line, token = self.lines[number % len(self.lines)], self.tokens[number % _PLAYERS]
        body = {"ruleset": RULES.ruleset.name, "deal": {"spec": SPEC, "seed": line.seed}}
        game = self._ask("POST", "/v1/games", token, body)
        return game["links"]["self"], token, line

    def _late(self, ply: int = LATE) -> tuple[str, str]:
        """Make a game and play it on in one batch; return its path and a token of its player."""
        path, token, line = self._create()
        self._ask("POST", f"{path}/moves", token, _body(line, 0, ply))
        return path, token

    def watched(self) -> tuple[str, str]:
        """Make a game; return the URL of its events and a token of its player."""
        token = self.tokens[next(self.numbers) % _PLAYERS]
        game = self._ask("POST", "/v1/games", token, {"deal": {"seed": "royal"}})
        return game["links"]["events"], token

    def requests(self, kind: str, wanted: float) -> list[Iterator[bytes]]:
        """Return for each connection its requests, that many together at the least."""
        if kind == BARE:
            return [repeat(request("GET", "/bare")) for _ in range(CONNECTIONS)]
        if kind in {READ_LATE, READ_BY_HAND}:
            made = [request("GET", path, token) for path, token in self.late]
            return [cycle(made[n:] + made[:n]) for n in range(CONNECTIONS)]
        size = BATCH_MOVES if kind == BATCH else 1
        games: deque[list[bytes]] = deque()
        ready = 0
        while ready < wanted or len(games) < CONNECTIONS:
            path, token, line = self._create()
            games.append(
                [
                    request("POST", f"{path}/moves", token, json.dumps(body).encode())
                    for body in _bodies(line, size)
                ]
            )
            ready += len(games[-1])
        return [_turns(games) for _ in range(CONNECTIONS)]

    def _load(self, kind: str, wanted: float, act: Callable[..., Outcome], *args: float) -> Sample:
        workers, own = self.open[kind]
        ready = self.requests(kind, wanted)
        before = self._times(workers)
        outcome = act(own, ready, *args)
        after = self._times(workers)
        mine, database, machine, whole = (b - a for a, b in zip(before, after, strict=True))
        return Sample(
            outcome,
            workers=mine / outcome.requests * 1e6,
            database=database / outcome.requests * 1e6,
            others=max(0.0, machine - mine - database - outcome.cost) / whole,
        )

    def _times(self, workers: list[psutil.Process]) -> tuple[float, float, float, float]:
        """Return processor time so far: of the workers, of Postgres, of all, and all there was."""
        database = rig.cpu_seconds(self.service.database())
        return rig.cpu_seconds(workers), database, *rig.cpu_of_machine()

    def flood(self, kind: str, seconds: float) -> Sample:
        """Return a sample of a kind of request at full load."""
        wanted = self.rates.get(kind, 1000.0) * seconds * _RESERVE
        sample = self._load(kind, wanted, flood, seconds)
        self.rates[kind] = sample.outcome.rate
        return sample

    def pace(self, kind: str, rate: float, seconds: float) -> Sample:
        """Return a sample of a kind of request at a fixed rate."""
        return self._load(kind, rate * seconds + CONNECTIONS, pace, rate, seconds)

    def pgbench(self, seconds: float) -> tuple[float, float]:
        """Return transactions a second of our two statements, and Postgres's µs for each."""
        games = [self._late(_SQL_PLY) for _ in range(_SQL_GAMES)]
        clients = rig.WORKERS * rig.THREADS
        before = rig.cpu_seconds(self.service.database())
        rate, done = _pgbench(self.service.postgres, games, clients, seconds)
        spent = rig.cpu_seconds(self.service.database()) - before
        return rate, spent / done * 1e6

    def profile(self, kind: str, seconds: float) -> Profile:
        """Return where the time goes, in this process."""
        made = self._environments(kind, int(2000 * seconds))
        database = Database(self.service.postgres.url, pool_size=1)
        app = create_app(Settings(rate_limits="off", games_in_play=0), database)
        try:
            return profile(app, made, seconds)
        finally:
            database.dispose()

    def _environments(self, kind: str, wanted: int) -> list[dict[str, Any]]:
        if kind == READ_LATE:
            late = cycle(self.late)
            return [environment("GET", *next(late)) for _ in range(wanted)]
        made: list[dict[str, Any]] = []
        while len(made) < wanted:
            path, token, line = self._create()
            for body in _bodies(line, BATCH_MOVES if kind == BATCH else 1):
                data = json.dumps(body).encode()
                made.append(environment("POST", f"{path}/moves", token, data))
        return made


def _turns(games: deque[list[bytes]]) -> Iterator[bytes]:
    """Yield the requests of one game after the other, each taken by whoever asks first."""
    while games:
        yield from games.popleft()


def _bodies(line: Line, size: int) -> list[Any]:
    """Return the bodies that play a game in batches of this size, a smaller rest left out."""
    return [_body(line, ply, size) for ply in range(0, len(line.moves) - size + 1, size)]


def _body(line: Line, ply: int, size: int) -> Any:
    moves = [{"from": move.origin, "to": move.destination} for move in line.moves[ply : ply + size]]
    return {"ply": ply, "moves": moves}


def _pgbench(
    postgres: EmbeddedPostgres, games: Sequence[tuple[str, str]], clients: int, seconds: float
) -> tuple[float, int]:
    """Run the two statements of a move by pgbench; return its rate and number of transactions."""
    with tempfile.TemporaryDirectory() as folder:
        scripts = []
        for number, (path, token) in enumerate(games):
            script = Path(folder, f"{number}.sql")
            script.write_text(_script(path.rpartition("/")[2], token))
            scripts.append(f"--file={script}")
        done = subprocess.run(
            [
                program("pgbench"),
                "--no-vacuum",
                "--protocol=prepared",
                f"--client={clients}",
                "--jobs=1",
                f"--time={max(1, round(seconds))}",
                *scripts,
                f"--host={make_url(postgres.url).query['host']}",
                "--username=postgres",
                "postgres",
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=seconds + 60,
        )
    rate = re.search(r"tps = ([\d.]+)", done.stdout)
    number_ = re.search(r"actually processed: (\d+)", done.stdout)
    if rate is None or number_ is None:
        raise RuntimeError(f"pgbench says {done.stdout!r}")
    return float(rate[1]), int(number_[1])


def _script(game: str, token: str) -> str:
    """Return the statements of a move as a script of pgbench; the ply read is the one written."""
    given = {
        **{name: _literal(value) for name, value in {**READ.fixed, **APPEND.fixed}.items()},
        "judged": "now()",
        "within": _literal(WRITTEN_WITHIN),
        "token": _bytea(tokens.fingerprint(token)),
        "game": f"'{game}'",
        "seen": ":ply",
        "ply": ":next",
        "codes": _bytea(b"\1"),
        "gaps": _bytea(b"\x9c\x10"),
        "status": "NULL",
        "score": "NULL",
        "ended_at": "NULL",
    }
    return f"{READ.text % given} \\gset\n\\set next :ply + 1\n{APPEND.text % given};\n"


def _literal(value: Any) -> str:
    if isinstance(value, timedelta):
        return f"interval '{value.total_seconds()} s'"
    return f"'{value}'"


def _bytea(value: bytes) -> str:
    return f"'\\x{value.hex()}'"
