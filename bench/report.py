"""The report: what was measured, beside what it should be, as a page of the docs."""

import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.bulk import Report as Bulk
from bench.costs import Profile
from bench.engine import Report as Engine
from bench.load import Outcome
from bench.rig import THREADS, WORKERS
from bench.start import Report as Start
from bench.storage import Report as Storage
from bench.streams import Report as Streams
from bench.tournaments import AROUND, FIRST, KINDS, LAST, MIDDLE, READS, RESULTS
from bench.tournaments import Report as Tournaments
from bench.web import (
    BARE,
    BATCH,
    BATCH_MOVES,
    CONNECTIONS,
    LATE,
    MOVE,
    MOVE_BY_HAND,
    READ_LATE,
)
from bench.web import Report as Http

PAGE: Final = Path(__file__).parents[1] / "docs" / "bench.md"

_FUNCTIONS: Final = 14
_PARTS: Final = 12


@dataclass(frozen=True, slots=True)
class Results:
    """What was measured; None for what was not."""

    engine: Engine | None = None
    http: Http | None = None
    streams: Streams | None = None
    storage: Storage | None = None
    bulk: Bulk | None = None
    start: Start | None = None
    tournaments: Tournaments | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One number and what it should be.

    Attributes:
        what: What was measured.
        measured: The number.
        bound: What it should not pass.
        at_least: Whether the bound is the least that will do, rather than the most.
        form: How the numbers are written.
        by_time: The number by processor time instead of requests a second, where it has one.
    """

    what: str
    measured: float
    bound: float
    at_least: bool
    form: str
    by_time: float | None = None

    @property
    def met(self) -> bool:
        """Whether it is as it should be."""
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    def row(self) -> list[str]:
        """Return the target as a row of a table."""
        bound = f"{'at least' if self.at_least else 'at most'} {self.form.format(self.bound)}"
        return [
            self.what,
            bound,
            self.form.format(self.measured),
            "" if self.by_time is None else self.form.format(self.by_time),
            "yes" if self.met else "**no**",
        ]


def _at_least(
    what: str, measured: float, bound: float, form: str, by_time: float | None = None
) -> Target:
    return Target(what, measured, bound, at_least=True, form=form, by_time=by_time)


def _at_most(what: str, measured: float, bound: float, form: str) -> Target:
    return Target(what, measured, bound, at_least=False, form=form)


def _beside(http: Http, what: str, kind: str, to: str, bound: float, times: int = 1) -> Target:
    ratio, by_time = times * http.ratio(kind, to), times * http.cost_ratio(kind, to)
    return _at_least(what, ratio, bound, "{:.1f} x" if times > 1 else "{:.2f} x", by_time)


def targets(results: Results) -> list[Target]:
    """Return the targets of what was measured."""
    found = []
    if results.engine:
        ratio = results.engine.ratio
        found.append(_at_most("Verifying a finished game, per deal alone", ratio, 3.5, "{:.2f} x"))
        slowest = min(results.engine.family_ratio.values())
        what = "Moves verified/s in the slowest ruleset, per the default's"
        found.append(_at_least(what, slowest, 0.7, "{:.2f} x"))
    if http := results.http:
        found += [
            _beside(http, "Moves/s, per bare route", MOVE, BARE, 0.18),
            _beside(http, "Moves/s, per hand-written route", MOVE, MOVE_BY_HAND, 0.6),
            _at_most("Moves at half load, p99 per p50", http.tail(MOVE), 10, "{:.1f} x"),
            _beside(http, "Reads/s of a late game, per bare route", READ_LATE, BARE, 0.28),
            _beside(
                http, "Moves/s in batches of 50, per single ones", BATCH, MOVE, 20, BATCH_MOVES
            ),
        ]
    if watched := results.streams:
        what = f"Moves at half load, p95 with {watched.watchers} watchers per p95 without"
        found.append(_at_most(what, watched.ratio, 1.1, "{:.2f} x"))
    if kept := results.storage:
        found += [
            _at_most("A recorded game, indexes included", kept.stored_bytes, 1200, "{:.0f} B"),
            _at_most("The same just after playing", kept.played_bytes, 1200, "{:.0f} B"),
            _at_least("Updates within their page", 100 * kept.in_page, 95, "{:.1f} %"),
        ]
    if bulk := results.bulk:
        what = f"Memory that an export of {bulk.exported:,} replays takes"
        found += [
            _at_most(what, bulk.export_growth / 1e6, 40, "{:.1f} MB"),
            _at_most("The same of 32 MiB verified", bulk.verify_growth / 1e6, 40, "{:.1f} MB"),
        ]
    if begun := results.start:
        found += [
            _at_most("Start to ready, new home", median(begun.fresh), 3, "{:.2f} s"),
            _at_most("Start to ready, existing home", median(begun.existing), 3, "{:.2f} s"),
        ]
    if field := results.tournaments:
        what = f"A page of standings of {field.entries:,} entries, p95 with {RESULTS} results/s"
        found += [
            _at_most(what, field.slowest(FIRST, MIDDLE, LAST), 20, "{:.1f} ms"),
            _at_most("The same around an entry", field.slowest(AROUND), 20, "{:.1f} ms"),
            Target(
                "The move that ends an attempt, per other move",
                field.ratio,
                1.5,
                at_least=False,
                form="{:.2f} x",
                by_time=field.cost_ratio,
            ),
            _at_most(f"{field.verified:,} attempts verified again", field.job, 120, "{:.0f} s"),
        ]
    return found


def render(results: Results) -> str:
    """Return the report in Markdown."""
    head = ["what", "target", "measured", "by processor time", "met"]
    parts = [
        "# Speed and size",
        _prose("""
            Written by `make bench`. On a shared machine requests a second vary from run to run:
            each ratio is taken within one round of one run, and the median over the rounds is
            told. Processor time varies least; by it is told what the ratio of requests/s would be
            if nothing but the service and Postgres took any.
        """),
        machine(),
        _table(head, [target.row() for target in targets(results)]),
    ]
    if results.engine:
        parts += _engine(results.engine)
    if results.http:
        parts += _http(results.http)
    if results.streams:
        parts += _streams(results.streams)
    if results.storage:
        parts += _storage(results.storage)
    if results.bulk:
        parts += _bulk(results.bulk)
    if results.start:
        parts += _start(results.start)
    if results.tournaments:
        parts += _tournaments(results.tournaments)
    return "\n\n".join(parts) + "\n"


def machine() -> str:
    """Return one line on where it was measured."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and (named := re.search(r"model name\s*: (.+)", cpuinfo.read_text())):
        model = named[1]
    return (
        f"Measured on {os.cpu_count()} processors ({model}), {platform.system()}, "
        f"Python {platform.python_version()}."
    )


def _prose(text: str) -> str:
    """Return a text as one line."""
    return " ".join(text.split())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _engine(found: Engine) -> list[str]:
    rows = [
        ("A deal", found.deal),
        ("A finished game verified, from memory", found.verify),
        ("The same from its document's text", found.verify_text),
        ("A stored log replayed", found.replay),
        ("One move of it", found.move),
        ("One move entered by itself", found.careful_move),
        ("All legal moves of a position", found.legal_moves),
    ]
    return [
        "## Engine",
        _prose(f"""
            {found.games} finished games of three simple players, {found.won} of them won,
            {found.plies:.0f} moves on average; processor time, plain Python. Verified means: the
            document's form, the deal from its seed, every move's legality, the outcome, the
            digest.
        """),
        _table(["what", "µs"], [[what, f"{cost:.2f}"] for what, cost in rows]),
        _prose("""
            Every ruleset: as many games each, played by one simple player; verification from
            memory, deal and digest included, for each move; and how many moves are verified in
            the time that one of the default ruleset takes.
        """),
        _table(
            ["ruleset", "moves a game", "µs a move", "per the default"],
            [
                [f"`{name}`", f"{plies:.0f}", f"{cost:.2f}", f"{found.family_ratio[name]:.2f}"]
                for name, (plies, cost) in found.family.items()
            ],
        ),
    ]


def _http(found: Http) -> list[str]:
    full_head = ["request", "requests/s", "per bare", "workers µs", "Postgres µs", "per bare"]
    half_head = ["request", "requests/s", "p50 ms", "p99 ms", "p99 per p50"]
    half_head += ["delayed by the machine", "p99 ms of all"]
    generator = median(
        sample.outcome.cost / sample.outcome.requests * 1e6 for sample in found.full[BARE]
    )
    parts = [
        "## HTTP",
        _prose(f"""
            `rendezvous serve` with {WORKERS} workers of {THREADS} threads and its embedded
            Postgres as it comes (fsync and all); {CONNECTIONS} connections that are kept, shared
            out evenly over the workers. Every move is the next of a game being played: its token
            looked up, the log replayed, the move judged, written durably, and the new position
            answered with its digest and legal moves. The late game has {LATE} entries. The *bare
            route* is one of Flask that returns a word. *By hand* is Flask, a pool of psycopg and
            orjson with our two statements, but without schemas, replay, judgement and digest: its
            answers are real ones, made in advance. All run at once on the same gunicorn settings
            and are loaded in turn. The load generator takes {generator:.0f} µs of the same
            processors for a bare request; other programs took
            {100 * found.others:.0f} % of them meanwhile.
        """),
        "At full load; the last column is the bare route's processor time over this one's:",
        _table([*full_head, "p50 ms", "p99 ms"], [_full(found, kind) for kind in found.full]),
        _prose(f"""
            Beside the hand-written route a move has {found.ratio(MOVE, MOVE_BY_HAND):.2f} of the
            requests/s; by processor time it would be
            {found.cost_ratio(MOVE, MOVE_BY_HAND):.2f}.
        """),
        _prose("""
            At half of each rate, sent at fixed intervals, latency counted from the instant at
            which a request was due. The machine itself stands nearly still now and then: a piece
            of work that is always the same, timed meanwhile, then takes more than four times as
            long. Requests that were under way then, or waited for those, are left out of all
            columns but the last:
        """),
        _table(half_head, [_half(found, kind) for kind in found.half]),
        f"The two statements of a move, on {WORKERS * THREADS} connections at once:",
        _table(["how", "a second", "Postgres µs"], _statements(found)),
        "## Where a request's time goes",
        _prose("""
            Samples of the stack while the application runs alone in one process, without gunicorn.
            The standard library counts for what called it; the driver's C code, libpq and the
            system's calls count for psycopg.
        """),
    ]
    for kind, profile in found.profiles.items():
        parts += _profile(kind, profile)
    return parts


def _full(found: Http, kind: str) -> list[str]:
    samples = found.full[kind]
    return [
        kind,
        f"{found.rate(kind):,.0f}",
        f"{found.ratio(kind, BARE):.2f}",
        f"{median(sample.workers for sample in samples):,.0f}",
        f"{median(sample.database for sample in samples):,.0f}",
        f"{found.cost_ratio(kind, BARE):.2f}",
        f"{median(sample.outcome.percentile(0.5) for sample in samples):.1f}",
        f"{median(sample.outcome.percentile(0.99) for sample in samples):.1f}",
    ]


def _half(found: Http, kind: str) -> list[str]:
    outcomes = [sample.outcome for sample in found.half[kind]]
    return [
        kind,
        f"{median(outcome.rate for outcome in outcomes):,.0f}",
        f"{median(outcome.percentile(0.5, steady=True) for outcome in outcomes):.2f}",
        f"{median(outcome.percentile(0.99, steady=True) for outcome in outcomes):.2f}",
        f"{found.tail(kind):.1f}",
        f"{100 * median(outcome.delayed for outcome in outcomes):.1f} %",
        f"{median(outcome.percentile(0.99) for outcome in outcomes):.2f}",
    ]


def _statements(found: Http) -> list[list[str]]:
    rows = [["by pgbench", f"{median(found.sql):,.0f}", f"{median(found.sql_cost):,.0f}"]]
    for kind in (MOVE_BY_HAND, MOVE):
        database = median(sample.database for sample in found.full[kind])
        rows.append([kind, f"{found.rate(kind):,.0f}", f"{database:,.0f}"])
    return rows


def _profile(kind: str, found: Profile) -> list[str]:
    def rows(counts: Counter[str], most: int, form: str) -> list[list[str]]:
        shares = [(name, count / found.samples) for name, count in counts.most_common(most)]
        return [
            [form.format(name), f"{100 * share:.0f} %", f"{found.cost * share:.0f}"]
            for name, share in shares
        ]

    return [
        f"**A {kind}**: {found.cost:.0f} µs, {found.samples} samples of {found.requests} requests.",
        _table(["runs in", "share", "µs"], rows(found.parts, _PARTS, "{}")),
        _table(
            ["with all that it calls", "share", "µs"], rows(found.functions, _FUNCTIONS, "`{}`")
        ),
    ]


def _streams(found: Streams) -> list[str]:
    def row(what: str, outcomes: list[Outcome]) -> list[str]:
        shares = [
            f"{median(one.percentile(share, steady=True) for one in outcomes):.2f}"
            for share in (0.5, 0.95, 0.99)
        ]
        return [what, f"{median(one.rate for one in outcomes):,.0f}", *shares]

    return [
        "## Streams",
        _prose(f"""
            Moves at half of the full rate as above, in turn without watchers and while
            {found.watchers:,} clients watch as many other games in which nothing happens. The
            process that streams takes {100 * found.share:.1f} % of a processor meanwhile, and
            {found.bytes / 2**20:.0f} MB of memory; {found.idle_bytes / 2**20:.0f} MB before
            anybody watched, so {(found.bytes - found.idle_bytes) / found.watchers / 1024:.0f} kB
            for each.
        """),
        _table(
            ["moves", "requests/s", "p50 ms", "p95 ms", "p99 ms"],
            [
                row("without watchers", found.alone),
                row(f"with {found.watchers:,} watchers", found.watched),
            ],
        ),
    ]


def _storage(found: Storage) -> list[str]:
    rows = [
        ("A game, the table and its indexes", f"{found.stored_bytes:.0f} B"),
        ("of that the table", f"{found.table_bytes:.0f} B"),
        ("its row alone", f"{found.row_bytes:.0f} B"),
        ("A game when all had just been played", f"{found.played_bytes:.0f} B"),
        ("Updates within their page", f"{100 * found.in_page:.2f} % of {found.updates:,}"),
    ]
    return [
        "## Storage",
        _prose(f"""
            {found.played:,} games of {found.plies:.0f} moves on average, played by the service's
            own function one move at a time, 50 of them open at once, 1 to 6 s between moves by the
            clock that the games see, seeds of 64 digits; then copied to {found.stored:,} games.
            New rows fill {found.fillfactor} % of a page.
        """),
        _table(["what", "measured"], rows),
    ]


def _bulk(found: Bulk) -> list[str]:
    rows = [
        [
            what,
            f"{replays:,}",
            f"{size / 1e6:.0f}",
            f"{replays / seconds:,.0f}",
            f"{growth / 1e6:.1f}",
        ]
        for what, replays, size, seconds, growth in (
            (
                "exported",
                found.exported,
                found.export_bytes,
                found.export_seconds,
                found.export_growth,
            ),
            (
                "verified",
                found.verified,
                found.verify_bytes,
                found.verify_seconds,
                found.verify_growth,
            ),
        )
    ]
    return [
        "## Bulk",
        _prose("""
            One player's ended games of about 130 moves with hidden deals, exported with their
            signatures by one request, and as many of them as a request may hold verified by
            another, signatures included. Memory is that by which a worker grew at most.
        """),
        _table(["replays", "number", "MB", "replays/s", "memory MB"], rows),
    ]


def _start(found: Start) -> list[str]:
    rows = [
        [what, f"{median(times):.2f}", f"{max(times):.2f}"]
        for what, times in (("new home", found.fresh), ("existing home", found.existing))
    ]
    return [
        "## Start",
        "From `rendezvous serve` to the first 200 of `/readyz`; on a new home a database is made.",
        _table(["start on", "median s", "most s"], rows),
    ]


def _tournaments(found: Tournaments) -> list[str]:
    rows = [
        [
            kind,
            *(
                f"{median(one.percentile(share, steady=True) for one in outcomes[kind]):.1f}"
                for outcomes in (found.quiet, found.busy)
                for share in (0.5, 0.95)
            ),
            f"{median(one.percentile(0.95) for one in found.busy[kind]):.1f}",
            f"{median(found.read_cost[kind]):,.0f}",
        ]
        for kind in KINDS
    ]
    coming = found.results
    return [
        "## Tournaments",
        _prose(f"""
            One tournament of {found.entries:,} entries, each of which has played {found.deals}
            deals: made games, played by simple players by the rules, {found.verified:,} attempts
            in all. Made in {found.made:.0f} s. Reads of 20 rows, or 10 on either side, sent at
            {READS} a second; results by {median(one.rate for one in coming):.0f} moves a second
            that end attempts, each of which took
            {median(one.percentile(0.5) for one in coming):.1f} ms (p50). Latency as above, without
            what the machine delayed but in the column of all; processor time is that of the
            service's workers and of Postgres.
        """),
        _table(
            [
                *("standings", "p50 ms", "p95 ms", "busy p50 ms", "busy p95 ms"),
                *("busy p95 ms of all", "processor time µs"),
            ],
            rows,
        ),
        _prose(f"""
            The last two moves of {len(found.moved):,} attempts, one after the other: the last one,
            which ends the attempt and writes its standings and its event, takes
            {median(found.ended):.2f} ms, the one before it {median(found.moved):.2f} ms (medians);
            {found.end_cost:,.0f} and {found.move_cost:,.0f} µs of processor time.
            All attempts verified by the worker process, and all standings written anew:
            {found.job:.0f} s. Verified and compared from scratch by code of its own, with
            processes: {found.scratch:.0f} s.
        """),
    ]
