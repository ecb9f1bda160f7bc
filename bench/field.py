"""`python -m bench.field`: a tournament with a whole field of made entries. FOR TRIALS ONLY.

Players, entries and games are made up: every log is a game that a simple player played by the rules
at the tournament's own deals, every instant is plausible, and nobody was ever there. All of it is
written past the service, in bulk, and then verified from the logs. No real event's database is the
place for it.
"""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import click
import psycopg
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sqlalchemy import Connection, insert, make_url, select, text

from bench.play import PLAYERS, RULES, SPEC, play_out, thinking_time
from service import standings, tokens
from service.audit import judge
from service.engine import Game, deal, table
from service.engine.moves import RESIGN
from service.engine.replay import pack_times
from service.engine.standings import (
    OVERALL,
    Attempt,
    Entry,
    Result,
    Scoring,
    places,
    scoring_of,
)
from service.games import COLUMNS, SOURCE, Record, draw_seed
from service.store import schema
from service.store.database import Database, Instant, new_id
from service.store.embedded import EmbeddedPostgres, default_home
from service.store.tables import entries, games, players
from service.store.tables import standings as kept
from service.store.tables import tokens as token_rows
from service.tokens import SCOPES
from service.tournaments import hosting
from service.tournaments.model import Plan, Stage, look

Step = Callable[[], None]

LINES: Final = 200
"""Different games at a deal; entries share them, each in its own time."""
ATTEMPTS: Final = 3
PROCESSES: Final = max(2, os.cpu_count() or 2)

_CHUNK: Final = 250
_RESIGNED: Final = 0.1
"""Share of the games that are given up somewhere on the way."""
_BEGAN: Final = timedelta(hours=6)
"""How long ago the only round began; all of the field's games are over by now."""
_ARRIVING: Final = 3600
"""Seconds after its beginning within which the field begins to play."""
_EARLY: Final = timedelta(hours=1)
_OPEN_FOR: Final = timedelta(days=2)


class Log(NamedTuple):
    """A game at a deal: its log, how it ended, and its score."""

    codes: bytes
    status: str
    score: int


@dataclass(frozen=True, slots=True)
class Open:
    """An attempt that waits for its last move, and a token of its player.

    Attributes:
        game: Its id.
        token: The token's text.
        ply: Where it stands: two moves before its end.
        moves: Those two, as texts.
    """

    game: UUID
    token: str
    ply: int
    moves: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """What was made.

    Attributes:
        tournament: The tournament's id.
        host: A token of its owner's.
        entries: How many entries it has.
        deals: How many deals.
        open: Attempts that are about to end.
    """

    tournament: UUID
    host: str
    entries: int
    deals: int
    open: tuple[Open, ...]


def make(url: str, count: int, deals: int, waiting: int, step: Step) -> Field:
    """Make a tournament in which all entries have played all deals once.

    Args:
        url: The database, at head.
        count: Entries.
        deals: Deals, all of one round that is still open.
        waiting: Further attempts that wait for their last two moves: one an entry first, then a
            second one.
        step: Called now and then; :func:`steps` says how often.
    """
    chance = random.Random(count * 1000 + deals)
    database = Database(url)
    try:
        tournament, host, seeds, ends = publish(database, deals)
        context = get_context("spawn")
        with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
            logs = []
            for of_deal in pool.map(_logs, seeds, [min(LINES, count)] * deals):
                logs.append(of_deal)
                step()
            began = database.now() - _BEGAN
            found: list[Open] = []
            chunks = [
                (begin, min(_CHUNK, count - begin), _share(waiting, begin, count))
                for begin in range(0, count, _CHUNK)
            ]
            write = partial(_write, url, tournament, (began, ends), seeds, logs)
            for some in pool.map(write, chunks, [chance.random() for _ in chunks]):
                found += some
                step()
        database.run(partial(_tell, tournament=tournament), transaction=True)
        database.run(partial(standings.write, tournament=tournament), transaction=True)
        database.run(lambda one: one.execute(text("ANALYZE")))
        step()
    finally:
        database.dispose()
    chance.shuffle(found)
    return Field(tournament, host, count, deals, tuple(found))


def steps(count: int, deals: int) -> int:
    """Return how many steps it takes to make a field."""
    return deals + -(-count // _CHUNK) + 1


def _share(waiting: int, begin: int, count: int) -> list[int]:
    """Return for each entry of a chunk how many attempts wait for their end."""
    return [
        waiting // count + (number < waiting % count)
        for number in range(begin, min(count, begin + _CHUNK))
    ]


def publish(database: Database, deals: int) -> tuple[UUID, str, list[str], datetime]:
    """Make it as its host does; return its id, the host's token, the seeds, its round's end."""
    player, token, tournament = new_id(), tokens.draw(), new_id()
    fingerprint, now = tokens.fingerprint(token), database.now()
    seeds = [draw_seed() for _ in range(deals)]

    def plan(now: datetime) -> Plan:
        return Plan(
            title=f"MADE FOR TRIALS: nobody played this, {now:%Y-%m-%d %H:%M}",
            about="Made by bench.field: players, entries and games are made up.",
            ruleset=RULES.ruleset.name,
            visibility="unlisted",
            entry_by="open",
            capacity=None,
            entry_opens_at=now,
            entry_closes_at=now + _OPEN_FOR,
            attempts=ATTEMPTS,
            limit=None,
            scoring=Scoring(),
            warm_up=False,
            reveal="closing",
            stages=(Stage(now, now + _OPEN_FOR, deals),),
        )

    def act(connection: Connection) -> datetime:
        _register(connection, [(player, "Trial host", fingerprint)], now, SCOPES)
        hosting.create(connection, Instant(), fingerprint, plan, tournament_id=tournament)
        hosting.publish(connection, Instant(), fingerprint, tournament, seeds)
        for query in _EARLIER:
            connection.execute(text(query), {"id": tournament, "span": _BEGAN + _EARLY})
        seen = look(connection, Instant(), fingerprint, tournament)
        return seen.tournament.course.rounds[0].ends_at

    return tournament, token, seeds, database.run(act, transaction=True)


# It was made, and its round began, a while before the first entry came.
_EARLIER: Final = (
    """UPDATE tournaments SET created_at = created_at - :span, told_at = told_at - :span,
        published_at = published_at - :span, entry_opens_at = entry_opens_at - :span
    WHERE id = :id""",
    "UPDATE tournament_events SET at = at - :span WHERE tournament_id = :id",
    "UPDATE tournament_rounds SET starts_at = starts_at - :span WHERE tournament_id = :id",
)


def _register(
    connection: Connection,
    whose: Sequence[tuple[UUID, str, bytes]],
    now: datetime,
    scopes: Sequence[str],
) -> None:
    connection.execute(
        insert(players), [{"id": one, "created_at": now, "name": name} for one, name, _ in whose]
    )
    connection.execute(
        insert(token_rows),
        [
            {
                "id": new_id(),
                "player_id": one,
                "created_at": now,
                "hash": fingerprint,
                "scopes": list(scopes),
            }
            for one, _, fingerprint in whose
        ],
    )


def _logs(seed: str, count: int) -> list[Log]:
    """Return different games at a deal, as simple players play it."""
    rules = table(RULES.ruleset.name)
    layout = deal(SPEC, rules.ruleset.name, seed)
    found = []
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")
        game = Game(rules, layout, undo_allowed=False)
        play_out(game, PLAYERS[number % len(PLAYERS)], chance)
        if chance.random() < _RESIGNED and game.ply > 2:
            short = Game(rules, layout, undo_allowed=False)
            short.extend(game.entries[: chance.randrange(2, game.ply)])
            game = short
        if game.status == "playing":
            game.enter(RESIGN)
        found.append(Log(game.log, game.status, game.position.score))
    return found


def _write(
    url: str,
    tournament: UUID,
    window: tuple[datetime, datetime],
    seeds: Sequence[str],
    logs: Sequence[Sequence[Log]],
    chunk: tuple[int, int, list[int]],
    luck: float,
) -> list[Open]:
    """Write some entries with their games; return the attempts that wait for their end."""
    begin, count, waiting = chunk
    chance = random.Random(luck)
    made = _Rows(tournament, *window, seeds)
    for number in range(count):
        name = f"Trial {begin + number + 1}"
        made.enter(name, logs, waiting[number], chance)
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as one:
        for name, columns, rows in made.tables():
            listed = ", ".join(columns)
            with one.cursor().copy(f"COPY {name} ({listed}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
    return made.open


_GAME: Final = (
    *("id", "player_id", "created_at", "ended_at", "ply", "score", "hidden", "status"),
    *("ruleset", "spec", "seed", "log", "times"),
    *("tournament_id", "entry_id", "round", "deal_no", "attempt", "deadline"),
)


class _Rows:
    """The rows of some entries."""

    def __init__(
        self, tournament: UUID, began: datetime, ends: datetime, seeds: Sequence[str]
    ) -> None:
        self.tournament = tournament
        self.began = began
        self.ends = ends
        self.seeds = seeds
        self.players: list[tuple[Any, ...]] = []
        self.tokens: list[tuple[Any, ...]] = []
        self.entries: list[tuple[Any, ...]] = []
        self.games: list[tuple[Any, ...]] = []
        self.open: list[Open] = []

    def tables(self) -> Iterator[tuple[str, Sequence[str], list[tuple[Any, ...]]]]:
        """Yield tables, the columns that are written, and the rows; each after what it needs."""
        yield "players", ("id", "created_at", "name"), self.players
        yield "tokens", ("id", "player_id", "created_at", "hash", "scopes"), self.tokens
        columns = ("tournament_id", "id", "player_id", "joined_at", "version", "reach")
        yield "tournament_entries", columns, self.entries
        yield "games", _GAME, self.games

    def enter(
        self, name: str, logs: Sequence[Sequence[Log]], waiting: int, chance: random.Random
    ) -> None:
        """Add an entry that has played all deals, and has further attempts under way."""
        player, entry = new_id(), new_id()
        at = self.began + timedelta(milliseconds=chance.randrange(_ARRIVING * 1000))
        joined = at - timedelta(milliseconds=chance.randrange(1000, 600_000))
        self.players.append((player, joined, name))
        self.entries.append((self.tournament, entry, player, joined, 1, 1))
        order = list(range(len(logs)))
        chance.shuffle(order)
        for n in order:
            at = self._play(player, entry, n, 1, chance.choice(logs[n]), at, chance)
        if waiting:
            token = tokens.draw()
            fingerprint = tokens.fingerprint(token)
            scopes = ["games:read", "games:play", "tournaments:join"]
            self.tokens.append((new_id(), player, joined, fingerprint, scopes))
            for n in range(waiting):
                deal_, number = order[n % len(order)], 2 + n // len(order)
                log = chance.choice(logs[deal_])
                self._wait(player, entry, deal_, number, log, token, at, chance)

    def _play(
        self,
        player: UUID,
        entry: UUID,
        n: int,
        number: int,
        log: Log,
        at: datetime,
        chance: random.Random,
    ) -> datetime:
        """Add a game that was played from an instant on; return when the next one begins."""
        times = _times(len(log.codes), chance)
        ended = at + timedelta(milliseconds=times[-1])
        end = (ended, len(times), log.score, True, log.status)
        self._add(new_id(), player, at, end, n, log.codes, times, entry, number)
        return ended + timedelta(milliseconds=chance.randrange(5_000, 60_000))

    def _wait(
        self,
        player: UUID,
        entry: UUID,
        n: int,
        number: int,
        log: Log,
        token: str,
        at: datetime,
        chance: random.Random,
    ) -> None:
        ply = len(log.codes) - 2
        game, times = new_id(), _times(ply, chance)
        rules = table(RULES.ruleset.name)
        played = Game.replay(
            rules, deal(SPEC, rules.ruleset.name, self.seeds[n]), log.codes, undo_allowed=False
        )
        before, last = (one.text for one in played.entries[-2:])
        self.open.append(Open(game, token, ply, (before, last)))
        end = (None, ply, None, True, None)
        self._add(game, player, at, end, n, log.codes[:ply], times, entry, number)

    def _add(
        self,
        game: UUID,
        player: UUID,
        at: datetime,
        end: tuple[Any, ...],
        n: int,
        codes: bytes,
        times: Sequence[int],
        entry: UUID,
        number: int,
    ) -> None:
        dealt = (RULES.ruleset.name, SPEC, self.seeds[n], codes, pack_times(times))
        attempt = (self.tournament, entry, 1, n + 1, number, self.ends)
        self.games.append((game, player, at, *end, *dealt, *attempt))


def _times(count: int, chance: random.Random) -> list[int]:
    ms, times = 0, []
    for _ in range(count):
        ms += thinking_time(chance)
        times.append(ms)
    return times


def _tell(connection: Connection, tournament: UUID) -> None:
    """Write the events of what was made, and count it."""
    for query in _EVENTS:
        connection.execute(text(query), {"id": tournament})


_EVENTS: Final = (
    # In the order in which things happened.
    """INSERT INTO tournament_events
        (tournament_id, number, at, kind, public, by_player, entry_id, data)
    SELECT one.id, one.events + row_number() OVER (ORDER BY told.at, told.entry_id),
        told.at, told.kind, true, told.player_id, told.entry_id, told.data
    FROM tournaments AS one, LATERAL (
        SELECT joined_at AS at, 'joined' AS kind, player_id, id AS entry_id, '{}'::jsonb AS data
        FROM tournament_entries WHERE tournament_id = one.id
        UNION ALL
        SELECT ended_at, 'result', player_id, entry_id, jsonb_build_object(
            'deal', deal_no, 'attempt', attempt, 'won', (status = 'won')::int, 'cards', score,
            'entries', ply,
            'time', (extract(epoch FROM ended_at - created_at) * 1000)::bigint)
        FROM games WHERE tournament_id = one.id AND ended_at IS NOT NULL
    ) AS told
    WHERE one.id = :id""",
    """UPDATE tournaments SET
        entries = (SELECT count(*) FROM tournament_entries WHERE tournament_id = :id),
        (events, told_at) =
            (SELECT max(number), max(at) FROM tournament_events WHERE tournament_id = :id)
    WHERE id = :id""",
)


class FieldError(Exception):
    """What was made is not as it should be."""


def verify(url: str, tournament: UUID, step: Step) -> int:
    """Verify every game from its log, and all standings from scratch; return how many games.

    By several processes, and by nothing but the engine and the rows.

    Args:
        url: The database.
        tournament: The tournament's id; it has one round and no rulings.
        step: Called now and then; :func:`verify_steps` says how often.

    Raises:
        FieldError: Something does not follow from the logs.
    """
    database = Database(url)
    try:
        found = database.run(partial(_stored, tournament=tournament))
        scoring, deals, ids = found
        chunks = [ids[begin : begin + _CHUNK] for begin in range(0, len(ids), _CHUNK)]
        check = partial(_check, url, tournament, scoring, frozenset(range(1, deals + 1)))
        games_, keys = 0, {}
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            for judged, some in pool.map(check, chunks):
                games_ += judged
                keys.update(some)
                step()
        order = [(one.entry, one.rank) for one in places(keys)]
        told = database.run(partial(_ranked, tournament=tournament))
        if told != order:
            raise FieldError("the stored order is not that of the standings from scratch")
    finally:
        database.dispose()
    return games_


def verify_steps(count: int) -> int:
    """Return how many steps it takes to verify a field of so many entries."""
    return -(-count // _CHUNK)


def _stored(connection: Connection, tournament: UUID) -> tuple[Scoring, int, list[UUID]]:
    of = entries.c
    ids = connection.execute(
        select(of.id).where(of.tournament_id == tournament).order_by(of.id)
    ).scalars()
    row = connection.execute(
        text("""SELECT scoring, (SELECT count(*) FROM tournament_deals WHERE tournament_id = :id)
        FROM tournaments WHERE id = :id"""),
        {"id": tournament},
    ).one()
    return scoring_of(row[0]), row[1], list(ids)


def _ranked(connection: Connection, tournament: UUID) -> list[tuple[UUID, int | None]]:
    """Return all entries with their ranks in the order in which they are stored."""
    query = text("""SELECT entry_id, rank() OVER (ORDER BY key), key FROM tournament_standings
        WHERE tournament_id = :id AND NOT frozen AND round = :round ORDER BY key, entry_id""")
    rows = connection.execute(query, {"id": tournament, "round": OVERALL})
    return [(entry, None if key == standings.UNRANKED else rank) for entry, rank, key in rows]


def _check(
    url: str, tournament: UUID, scoring: Scoring, deals: frozenset[int], ids: list[UUID]
) -> tuple[int, dict[UUID, bytes | None]]:
    """Judge the games of some entries; return how many, and the keys that come of them."""
    database = Database(url)
    records = database.run(partial(_records, tournament=tournament, ids=ids))
    kept_keys = database.run(partial(_keys, tournament=tournament, ids=ids))
    database.dispose()
    attempts: dict[UUID, list[Attempt]] = {one: [] for one in ids}
    for record in records:
        if (detail := judge(record)) is not None:
            raise FieldError(f"game {record.id}: {detail}")
        if record.status is None or record.entry is None:
            continue
        won = int(record.status == "won")
        result = Result(won, record.score or 0, record.ply, record.instants()[-1])
        attempt = Attempt(record.deal_no or 0, record.attempt or 0, result)
        attempts[record.entry].append(attempt)
    keys = {}
    for entry, played in attempts.items():
        standing = Entry(1, withdrawn=False, attempts=played).standings(scoring, [deals])
        keys[entry] = standing[OVERALL].key
        if keys[entry] != kept_keys[entry]:
            raise FieldError(f"entry {entry} does not stand as its games have it")
    return len(records), keys


def _records(connection: Connection, tournament: UUID, ids: list[UUID]) -> list[Record]:
    query = (
        select(*COLUMNS)
        .select_from(SOURCE)
        .where(games.c.tournament_id == tournament, games.c.entry_id.in_(ids))
        .order_by(games.c.entry_id, games.c.deal_no, games.c.attempt)
    )
    return [Record(*row) for row in connection.execute(query)]


def _keys(connection: Connection, tournament: UUID, ids: list[UUID]) -> dict[UUID, bytes]:
    of = kept.c
    query = select(of.entry_id, of.key).where(
        of.tournament_id == tournament,
        ~of.frozen,
        of.round == OVERALL,
        of.entry_id.in_(ids),
    )
    return {entry: bytes(key) for entry, key in connection.execute(query)}


@click.command()
@click.option("--entries", "count", type=click.IntRange(1, 100_000), default=10_000)
@click.option("--deals", type=click.IntRange(1, 100), default=10)
@click.option("--open", "waiting", type=click.IntRange(0), default=0, help="Attempts under way.")
def main(count: int, deals: int, waiting: int) -> None:
    """Make a tournament with a whole field of made entries, FOR TRIALS ONLY, and verify it.

    Written into the database of DATABASE_URL, or into the embedded one of RENDEZVOUS_HOME.
    """
    given = os.environ.get("DATABASE_URL", "")
    click.secho("FOR TRIALS ONLY: nobody plays these games.", fg="red", bold=True, err=True)
    if given:
        _run(given, count, deals, waiting)
        return
    home = Path(os.environ.get("RENDEZVOUS_HOME") or default_home())
    with EmbeddedPostgres(home).shared() as postgres:
        _run(postgres.url, count, deals, waiting)


def _run(url: str, count: int, deals: int, waiting: int) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        making = progress.add_task("made", total=steps(count, deals))
        verifying = progress.add_task("verified", total=verify_steps(count))
        database = Database(url)
        schema.upgrade(database.engine)
        database.dispose()
        field = make(url, count, deals, waiting, lambda: progress.advance(making))
        judged = verify(url, field.tournament, lambda: progress.advance(verifying))
    click.echo(f"tournament {field.tournament}: {judged} games verified")
    click.echo(f"its host's token: {field.host}")


if __name__ == "__main__":
    main(prog_name="python -m bench.field")
