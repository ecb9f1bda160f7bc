"""Standings from scratch, written plainly from the rules of tournaments alone, to compare with.

From the replays of the games that are over, verified by the engine's verifier, and the rulings that
hold. None of the code that keeps standings is used.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from client import Client, expect
from sqlalchemy import Connection, select, text

from service import games
from service.engine import verify
from service.games import COLUMNS, SOURCE, Record
from service.store import tables
from service.store.database import Database

Json = dict[str, Any]

PARTS = ("won", "cards", "entries", "time")
NEXT = re.compile(r'<([^>]+)>; rel="next"')


def from_scratch(database: Database, tournament: str, number: int = 0) -> list[Json]:
    """Return the rows of the standings of a round, or of all, without players' names."""
    return database.run(partial(_from_scratch, tournament=UUID(tournament), number=number))


def _from_scratch(connection: Connection, tournament: UUID, number: int) -> list[Json]:
    (scoring,) = connection.execute(
        text("SELECT scoring FROM tournaments WHERE id = :id"), {"id": tournament}
    ).one()
    dealt = {
        deal: (round_, counts)
        for deal, round_, counts in connection.execute(
            text("SELECT number, round, counts FROM tournament_deals WHERE tournament_id = :id"),
            {"id": tournament},
        )
    }
    entries = connection.execute(
        text("""SELECT id, reach, withdrawn_at IS NOT NULL AS withdrawn FROM tournament_entries
        WHERE tournament_id = :id"""),
        {"id": tournament},
    ).fetchall()
    rulings = connection.execute(
        text("""SELECT kind, entry_id, deal_no, attempt, terms FROM tournament_rulings
        WHERE tournament_id = :id AND reversed_by IS NULL ORDER BY number"""),
        {"id": tournament},
    ).fetchall()
    played = _played(connection, tournament)
    standing = []
    for entry, reach, withdrawn in entries:
        in_it = {
            deal
            for deal, (round_, counts) in dealt.items()
            if counts and (round_ == number or (number == 0 and round_ <= reach))
        }
        attempts = {
            (deal, attempt): dict(one)
            for (whose, deal, attempt), one in played.items()
            if whose == entry and deal in in_it
        }
        out, adjusted = _rule(attempts, [one for one in rulings if one.entry_id == entry])
        cells, total, value = _sum(scoring, attempts)
        ranked = not (out or withdrawn) and (number == 0 or number <= reach)
        for cell in cells:
            if (cell["deal"], cell["attempt"]) in adjusted:
                cell["adjusted"] = True
        row = {
            "entry": str(entry),
            "status": "disqualified" if out else "withdrawn" if withdrawn else "active",
            "reach": reach,
            "total": total,
            "cells": cells,
        }
        order = ((-reach,) if number == 0 else (0,)) + value
        standing.append((not ranked, order if ranked else (), entry, row))
    standing.sort(key=lambda one: one[:3])
    rows = []
    for position, (unranked, order, _, row) in enumerate(standing, 1):
        better = sum(1 for one in standing if not one[0] and one[1] < order)
        rank = {} if unranked else {"rank": 1 + better}
        rows.append({**row, **rank, "position": position})
    return rows


def _played(connection: Connection, tournament: UUID) -> dict[Any, Json]:
    """Return what each attempt that is over came to, by entry, deal and attempt."""
    found = {}
    query = select(*COLUMNS).select_from(SOURCE).where(tables.games.c.tournament_id == tournament)
    for record in (Record(*row) for row in connection.execute(query)):
        if record.ended_at is None or record.verified == b"":
            continue
        replay = games.replay_of(record)
        if replay["header"]["deal"].get("commitment"):
            replay["seed"] = record.seed
        verdict = verify(replay)
        assert verdict.verdict == "valid", verdict
        result = replay["result"]
        found[record.entry, record.deal_no, record.attempt] = {
            "deal": record.deal_no,
            "attempt": record.attempt,
            "won": int(result["status"] == "won"),
            "cards": result["score"],
            "entries": result["ply"],
            "time": replay["times"][-1] if replay["times"] else 0,
            "verification": "pending" if record.verified is None else "valid",
        }
    return found


def _rule(attempts: dict[Any, Json], rulings: list[Any]) -> tuple[bool, set[tuple[int, int]]]:
    """Change attempts as rulings say; return whether the entry is out, and what was adjusted."""
    out, adjusted = False, set()
    for kind, _, deal, attempt, terms in rulings:
        if kind in {"disqualify", "reinstate"}:
            out = kind == "disqualify"
        elif kind == "annul":
            attempts.pop((deal, attempt), None)
        elif kind == "adjust" and (deal, attempt) in attempts:
            attempts[deal, attempt].update({part: terms[part] for part in PARTS if part in terms})
            adjusted.add((deal, attempt))
    return out, adjusted


def _sum(scoring: Json, attempts: Mapping[Any, Json]) -> tuple[list[Json], Json, tuple[int, ...]]:
    """Return the cells, the total, and numbers that are less for the better of two totals."""

    def value(result: Json) -> tuple[int, ...]:
        return tuple(
            -result[one["key"]] if one["better"] == "more" else result[one["key"]]
            for one in scoring["keys"]
        )

    cells = []
    for deal in sorted({deal for deal, _ in attempts}):
        own = [attempts[named] for named in sorted(attempts) if named[0] == deal]
        chosen = own[-1] if scoring["attempts"] == "last" else own[0]
        if scoring["attempts"] == "best":
            chosen = min(own, key=lambda one: value({**one, "deals": 1}))
        cells.append(dict(chosen))
    best = sorted(cells, key=lambda one: (value({**one, "deals": 1}), one["deal"]))
    counting = [one["deal"] for one in best[: scoring.get("best")]]
    for cell in cells:
        cell["counts"] = cell["deal"] in counting
    told = [cell for cell in cells if cell["counts"]]
    total = {part: sum(cell[part] for cell in told) for part in PARTS}
    total["deals"] = len(told)
    return cells, total, value(total)


def whole(person: Client, tournament: Json, query: str = "", limit: int = 100) -> list[Json]:
    """Return all rows of standings, put together from pages."""
    path = f"{tournament['links']['standings']}?limit={limit}{query}"
    rows: list[Json] = []
    while path:
        answer = person.get(path)
        rows += expect(answer)["rows"]
        found = NEXT.search(answer.headers.get("Link", ""))
        path = found[1] if found else ""
    return rows


def check(person: Client, database: Database, tournament: Json, limit: int = 100) -> None:
    """Fail unless a host is shown the standings from scratch, and events without gaps.

    Args:
        person: Who hosts it.
        database: The service's.
        tournament: The tournament.
        limit: Rows of a page.
    """
    for number in range(len(tournament["rounds"]) + 1):
        rows = whole(person, tournament, f"&view=live&round={number}", limit)
        shown = [{name: row[name] for name in row if name != "player"} for row in rows]
        assert shown == from_scratch(database, tournament["id"], number), number
    numbers = database.run(partial(_numbers, tournament=UUID(tournament["id"])))
    events = [number for number, _ in numbers]
    assert events == list(range(1, len(events) + 1))
    assert [at for _, at in numbers] == sorted(at for _, at in numbers)


def _numbers(connection: Connection, tournament: UUID) -> list[tuple[int, Any]]:
    query = text("""SELECT number, at FROM tournament_events WHERE tournament_id = :id
        ORDER BY number""")
    return [(number, at) for number, at in connection.execute(query, {"id": tournament})]
