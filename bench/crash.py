"""`python -m bench.crash`: kill the service in mid-load; what it acknowledged must be there.

Clients play games over HTTP, each act repeated until it is answered. Meanwhile a worker, Postgres,
and all there is are killed with SIGKILL in turn, and Postgres and the service are stopped in good
order and started again. At the end the acts that were acknowledged, and no others, must be in the
games, once each, at the same instants and so with the same digests; and the audit must find no
fault. Some play in a tournament, whose standings must be those from scratch. What ends here is
processes: the disk and its caches live on.
"""

import http.client
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import click
import psutil  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table
from sqlalchemy import Connection, text

from bench import field as fields
from bench import rig
from bench.play import RULES, SPEC
from service.engine import Game, Move, deal, digest, verify
from service.engine.moves import UNDO
from service.engine.replay import canonical
from service.store.database import Database

_CLIENTS: Final = 6
_ENTRANTS: Final = 3
_DEALS: Final = 10
_GAMES_EACH: Final = 3
"""Games that a client has open at once."""
_BATCH: Final = 3
_UNDO_SHARE: Final = 0.03
_RESIGN_SHARE: Final = 0.1
_PATIENCE: Final = 60.0
"""Seconds within which every act must be answered, whatever is killed meanwhile."""
_ANSWER_WITHIN: Final = 10.0
_PAUSE: Final = 0.02
_READ_BACK: Final = 3000
"""Most positions that are read again over HTTP; digests are compared for all."""


@dataclass(slots=True)
class Played:
    """A game as its client knows it: what was acknowledged, nothing else.

    Attributes:
        path: Where the service has it.
        header: Its header, as canonical JSON.
        game: The game.
        times: Instants of its entries, as they were answered.
        seen: Digests that were answered, by ply.
    """

    path: str
    header: bytes
    game: Game
    times: list[int] = field(default_factory=list)
    seen: dict[int, str] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """The log's entries."""
        return [entry.text for entry in self.game.entries]


class Faults:
    """What is not as it should be."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def expect(self, what: str, *, holds: bool) -> None:
        """Note a fault unless something holds."""
        if not holds:
            self.found.append(what)


class Caller:
    """One client's connection; what gets no answer is sent again."""

    def __init__(self, port: int, faults: Faults) -> None:
        self.port = port
        self.faults = faults
        self.token = ""
        self.repeats = 0
        self._connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer's JSON, however often that needs asking.

        Raises:
            TimeoutError: There was none in time.
        """
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            try:
                status, answer = self._try(method, path, body)
            except (OSError, http.client.HTTPException):
                self.close()
            else:
                if status in {200, 201}:
                    return answer
                self.faults.expect(f"{method} {path} answered {answer}", holds=status == 503)
            self.repeats += 1
            time.sleep(_PAUSE)
        raise TimeoutError(f"{method} {path}: no answer within {_PATIENCE:.0f} s")

    def _try(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                rig.HOST, self.port, timeout=_ANSWER_WITHIN
            )
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        """End the connection; the next call makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(slots=True)
class Attempt:
    """An attempt in a tournament as its player knows it: what was acknowledged."""

    path: str
    header: bytes
    texts: list[str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    digest: str = ""
    over: bool = False


class Entrant(threading.Thread):
    """Plays sealed deals one after the other until told to stop, or all attempts are used."""

    def __init__(
        self, number: int, port: int, stop: threading.Event, faults: Faults, tournament: UUID
    ) -> None:
        super().__init__(name=f"entrant {number}", daemon=True)
        self.caller = Caller(port, faults)
        self.faults = faults
        self.stop = stop
        self.chance = random.Random(number)
        self.path = f"/v1/tournaments/{tournament}"
        self.attempts: list[Attempt] = []

    def run(self) -> None:
        """Enter and play."""
        try:
            named = {"name": self.name}
            self.caller.token = self.caller.call("POST", "/v1/players", named)["token"]
            self.caller.call("POST", f"{self.path}/entries", {})
            for _ in range(fields.ATTEMPTS):
                for deal_no in range(1, _DEALS + 1):
                    if self.stop.is_set():
                        return
                    self._attempt(deal_no)
        except Exception as error:  # noqa: BLE001 - one that ends early is a fault, whyever
            self.faults.expect(f"{self.name} ended: {error!r}", holds=False)
        finally:
            self.caller.close()

    def _attempt(self, deal_no: int) -> None:
        answer = self.caller.call("POST", f"{self.path}/attempts", {"deal": deal_no})
        attempt = Attempt(answer["links"]["self"], canonical(answer["header"]))
        self.attempts.append(attempt)
        while not (attempt.over or self.stop.is_set()):
            moves, ply = answer["legal_moves"], len(attempt.texts)
            if self.chance.random() < _RESIGN_SHARE or not moves:
                answer = self.caller.call("POST", f"{attempt.path}/resign", {"ply": ply})
            else:
                move = self.chance.choice(moves)
                body = {"ply": ply, "moves": [{"from": move["from"], "to": move["to"]}]}
                answer = self.caller.call("POST", f"{attempt.path}/moves", body)
            attempt.texts += [one["move"] for one in answer["applied"]]
            attempt.times += [one["ms"] for one in answer["applied"]]
            attempt.digest = answer["digest"]
            attempt.over = answer["status"] != "playing"
            same = digest(attempt.header, attempt.texts, attempt.times) == attempt.digest
            self.faults.expect(f"{attempt.path}: another digest", holds=same)

    def compare(self) -> None:
        """Compare the service's attempts with what was acknowledged."""
        caller = Caller(self.caller.port, self.faults)
        caller.token = self.caller.token
        expect = self.faults.expect
        for one in self.attempts:
            game, document = (caller.call("GET", one.path + of) for of in ("", "/replay"))
            same = (document["log"], document["times"]) == (one.texts, one.times)
            expect(f"{one.path}: another log than was answered", holds=same)
            expect(f"{one.path} is {game['status']}", holds=one.over == ("ended_at" in game))
        mine = caller.call("GET", f"{self.path}/entries/me")
        known = {one.path for one in self.attempts}
        told = {one["links"]["self"] for of in mine["deals"] for one in of["games"]}
        expect(f"{self.name} has other attempts than were answered", holds=told == known)
        caller.close()


class Client(threading.Thread):
    """Plays games until told to stop, and keeps what was acknowledged."""

    def __init__(self, number: int, port: int, stop: threading.Event, faults: Faults) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.caller = Caller(port, faults)
        self.faults = faults
        self.stop = stop
        self.chance = random.Random(number)
        self.games: list[Played] = []
        self.acts = 0
        self.last_answer = 0.0

    def run(self) -> None:
        """Play."""
        try:
            named = {"name": self.name}
            self.caller.token = self.caller.call("POST", "/v1/players", named)["token"]
            open_: list[Played] = []
            while not self.stop.is_set():
                while len(open_) < _GAMES_EACH:
                    open_.append(self._create())
                played = self.chance.choice(open_)
                if not self._act(played):
                    open_.remove(played)
        except Exception as error:  # noqa: BLE001 - a client that ends early is a fault, whyever
            self.faults.expect(f"{self.name} ended: {error!r}", holds=False)
        finally:
            self.caller.close()

    def _create(self) -> Played:
        seed = secrets.token_hex(8)
        name = RULES.ruleset.name
        body = {"ruleset": name, "deal": {"spec": SPEC, "seed": seed}}
        answer = self.caller.call("POST", "/v1/games", body)
        game = Game(RULES, deal(SPEC, name, seed), undo_allowed=True)
        played = Played(answer["links"]["self"], canonical(answer["header"]), game)
        self.games.append(played)
        self._note(played, answer, [])
        return played

    def _act(self, played: Played) -> bool:
        """Do something in a game, and return whether it goes on."""
        game = played.game
        before = game.ply
        if game.standing() and self.chance.random() < _UNDO_SHARE:
            game.enter(UNDO)
            answer = self.caller.call("POST", f"{played.path}/undo", {"ply": before})
        else:
            for _ in range(self.chance.randint(1, _BATCH)):
                moves = game.legal_moves()
                if moves:
                    game.enter(self.chance.choice(moves))
            if game.ply == before:
                return False
            body = {"ply": before, "moves": list(map(_command, game.entries[before:]))}
            answer = self.caller.call("POST", f"{played.path}/moves", body)
        self._note(played, answer, answer["applied"])
        return game.status == "playing"

    def _note(self, played: Played, answer: Any, applied: list[Any]) -> None:
        played.times += [one["ms"] for one in applied]
        ply = played.game.ply
        expected = digest(played.header, played.texts, played.times)
        self.faults.expect(
            f"{played.path} is at {answer['ply']}, not {ply}", holds=answer["ply"] == ply
        )
        self.faults.expect(
            f"{played.path} at {ply}: another digest", holds=answer["digest"] == expected
        )
        played.seen[ply] = answer["digest"]
        self.acts += 1
        self.last_answer = time.monotonic()


def _command(move: Move) -> dict[str, str]:
    return {"from": move.origin, "to": move.destination}


@dataclass(frozen=True, slots=True)
class Ending:
    """What was ended, and what followed.

    Attributes:
        what: What was ended, and how.
        processes: How many processes got the signal.
        seconds: How long until every client had an answer again.
        repeats: Requests without an answer, or with 503, until then.
    """

    what: str
    processes: int
    seconds: float
    repeats: int


class Trial:
    """The service under load, and what is done to it."""

    def __init__(self, service: rig.Service) -> None:
        """Prepare to let clients play on a running service."""
        self.service = service
        self.faults = Faults()
        self.stop = threading.Event()
        self.endings: list[Ending] = []
        self.clients = [
            Client(number, service.port, self.stop, self.faults) for number in range(_CLIENTS)
        ]

        database = Database(service.postgres.url)
        self.tournament = fields.publish(database, _DEALS)[0]
        database.dispose()
        self.entrants = [
            Entrant(number, service.port, self.stop, self.faults, self.tournament)
            for number in range(_ENTRANTS)
        ]

    def begin(self) -> None:
        """Let the clients play; return once each has been answered."""
        for client in (*self.clients, *self.entrants):
            client.start()
        self._wait_for_answers(time.monotonic())

    def kill_worker(self) -> None:
        """Kill one of the processes that answer requests."""
        self._end("a worker killed", signal.SIGKILL, lambda: self.service.workers()[:1])
        rig.wait_for("a new worker", self.service.complete, _PATIENCE)

    def kill_postgres(self) -> None:
        """Kill the first process of Postgres, whose others end with it."""
        self._end("Postgres killed", signal.SIGKILL, lambda: self.service.database()[:1])

    def stop_postgres(self) -> None:
        """Have Postgres end all transactions and stop, as ``pg_ctl stop`` does."""
        self._end("Postgres stopped", signal.SIGINT, lambda: self.service.database()[:1])

    def stop_service(self) -> None:
        """Have the service stop as it does when it is deployed anew, and start it again."""
        first = [psutil.Process(self.service.child.pid)]
        self._end("the service stopped", signal.SIGTERM, lambda: first, again=True)

    def kill_all(self) -> None:
        """Kill every process of the service and of Postgres, and start it again."""
        every = [*self.service.processes(), *self.service.database()]
        self._end("all killed", signal.SIGKILL, lambda: every, again=True)

    def _end(
        self,
        what: str,
        how: signal.Signals,
        victims: Callable[[], list[psutil.Process]],
        *,
        again: bool = False,
    ) -> None:
        repeats = self._repeats()
        processes = victims()
        begin = time.monotonic()
        for process in processes:
            _send(process, how)
        if again:
            self.service.child.wait()
            self.service = rig.Service(self.service.home, self.service.port)
        self._wait_for_answers(time.monotonic())
        self.endings.append(
            Ending(what, len(processes), time.monotonic() - begin, self._repeats() - repeats)
        )

    def _wait_for_answers(self, since: float) -> None:
        """Wait until every client has been answered."""
        rig.wait_for(
            "answers for all clients",
            lambda: (
                bool(self.faults.found)
                or all(client.last_answer > since for client in self.clients)
            ),
            _PATIENCE,
        )

    def _repeats(self) -> int:
        return sum(client.caller.repeats for client in self.clients)

    def play(self, seconds: float) -> None:
        """Let the clients play undisturbed."""
        time.sleep(seconds)

    def end(self) -> None:
        """Let every client have its last answer, and stop."""
        self.stop.set()
        for client in (*self.clients, *self.entrants):
            client.join(_PATIENCE + _ANSWER_WITHIN)
            self.faults.expect(f"{client.name} does not end", holds=not client.is_alive())

    def games(self) -> list[tuple[Client, Played]]:
        """Return all games, with whose they are."""
        return [(client, played) for client in self.clients for played in client.games]

    def compare(self) -> int:
        """Compare the service's games with what was acknowledged; return positions read again."""
        games = self.games()
        seen = sum(len(played.seen) for _, played in games)
        every = max(1, -(-seen // _READ_BACK))
        with ThreadPoolExecutor(_CLIENTS) as pool:
            return sum(pool.map(lambda one: self._compare(one[0], one[1], every), games))

    def judge(self) -> int:
        """Compare the tournament with what was acknowledged; return how many attempts it has.

        Its standings must be those from scratch, its events without a gap, and as many results
        told as attempts were ended.
        """
        for entrant in self.entrants:
            entrant.compare()
        over = sum(one.over for entrant in self.entrants for one in entrant.attempts)
        url = self.service.postgres.url
        try:
            count = fields.verify(url, self.tournament, lambda: None)
        except fields.FieldError as error:
            count = 0
            self.faults.expect(f"standings: {error}", holds=False)
        database = Database(url)
        events, last, results = database.run(self._events)
        database.dispose()
        self.faults.expect(f"{events} events up to {last}", holds=events == last)
        self.faults.expect(f"{results} results of {over}", holds=results == over)
        return count

    def _events(self, connection: Connection) -> tuple[int, int, int]:
        query = text("""SELECT count(*), max(number), count(*) FILTER (WHERE kind = 'result')
            FROM tournament_events WHERE tournament_id = :id""")
        events, last, results = connection.execute(query, {"id": self.tournament}).one()
        return events, last, results

    def _compare(self, client: Client, played: Played, every: int) -> int:
        caller = Caller(self.service.port, self.faults)
        caller.token = client.caller.token
        document = caller.call("GET", f"{played.path}/replay")
        log, times = document["log"], document["times"]
        expect = self.faults.expect
        expect(f"{played.path}: other entries than were answered", holds=log == played.texts)
        expect(f"{played.path}: other instants than were answered", holds=times == played.times)
        verdict = verify(document).verdict
        expect(f"{played.path} is {verdict}", holds=verdict in {"valid", "incomplete"})
        for ply, answered in played.seen.items():
            found = digest(played.header, log[:ply], times[:ply])
            expect(f"{played.path} at {ply}: another digest now", holds=found == answered)
        again = list(played.seen.items())[::every]
        for ply, answered in again:
            found = caller.call("GET", f"{played.path}?ply={ply}")["digest"]
            expect(f"{played.path} at {ply}: another digest read", holds=found == answered)
        caller.close()
        return len(again)


def _send(process: psutil.Process, how: signal.Signals) -> None:
    # It may have ended with one that was killed before.
    with suppress(psutil.NoSuchProcess):
        process.send_signal(how)


@click.command()
@click.option("--rounds", type=click.IntRange(1, 100), default=2, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 600),
    default=3.0,
    show_default=True,
    help="Play before each ending.",
)
def main(rounds: int, seconds: float) -> None:
    """End parts of the service in mid-load, by force and in good order, then all there is.

    Exits with 1 if anything acknowledged is lost, or anything else is not as it should be.
    """
    with rig.new_home() as home:
        trial = Trial(rig.Service(home))
        again = judged = 0
        try:
            trial.begin()
            for _ in range(rounds):
                for end in (
                    trial.kill_worker,
                    trial.kill_postgres,
                    trial.stop_postgres,
                    trial.stop_service,
                    trial.kill_all,
                ):
                    trial.play(seconds)
                    end()
                    click.echo(f"{trial.endings[-1].what}, and all goes on", err=True)
            trial.play(seconds)
            trial.end()
            again = trial.compare()
            judged = trial.judge()
        except TimeoutError as error:
            trial.faults.expect(str(error), holds=False)
        finally:
            trial.stop.set()
            trial.service.stop()
        audit = subprocess.run(
            [rig.RENDEZVOUS, "audit", "--quiet"],
            env={**os.environ, "RENDEZVOUS_HOME": str(home), "DATABASE_URL": ""},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    trial.faults.expect(f"the audit says: {audit.stdout}{audit.stderr}", holds=not audit.returncode)
    _tell(trial, again, judged, audit.stdout.strip())
    sys.exit(bool(trial.faults.found))


def _tell(trial: Trial, again: int, judged: int, audit: str) -> None:
    table = Table("ended", "signals sent", "all clients answered again after", "requests repeated")
    for one in trial.endings:
        table.add_row(one.what, str(one.processes), f"{one.seconds:.2f} s", str(one.repeats))
    console = Console()
    console.print(table)
    games = trial.games()
    acts = sum(client.acts for client in trial.clients)
    entries = sum(played.game.ply for _, played in games)
    click.echo(f"{acts} answers acknowledged {entries} entries of {len(games)} games.")
    click.echo(f"Compared: every log, instant and digest; {again} positions read again.")
    click.echo(f"A tournament: {judged} attempts, and its standings, from scratch.")
    click.echo(f"Audit: {audit}.")
    for fault in _first(trial.faults.found):
        click.echo(f"FAULT: {fault}")
    click.echo("Nothing was lost." if not trial.faults.found else "This must not be.")


def _first(faults: Iterable[str], most: int = 20) -> list[str]:
    return list(faults)[:most]


if __name__ == "__main__":
    main(prog_name="python -m bench.crash")
