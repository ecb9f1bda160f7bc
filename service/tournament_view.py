"""What a client sees of a tournament: JSON-ready values in which sealed seeds have no place."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from service.engine.standings import Scoring, scoring_json, scoring_of
from service.games import Record
from service.standings import CELL
from service.tournaments.entering import Condition
from service.tournaments.feed import Happening
from service.tournaments.hosting import Summary
from service.tournaments.jobs import MAX_TOLD, Job
from service.tournaments.model import MAX_ATTEMPTS, Own, Seen, Tournament
from service.tournaments.pages import Board, Row
from service.tournaments.results import Results
from service.tournaments.templates import Template
from service.tournaments.webhooks import Delivery, Webhook
from service.view import ROOT, Json, instant

CSV: Final = "text/csv"

_MILLISECOND: Final = timedelta(milliseconds=1)


def path(tournament: Any) -> str:
    """Return the path of a tournament, given by its id."""
    return f"{ROOT}/tournaments/{tournament}"


def tournament(seen: Seen, conditions: Sequence[Condition], events_at: str) -> Json:
    """Return a tournament as its viewer sees it.

    Args:
        seen: The tournament.
        conditions: What has to be so for the viewer to enter.
        events_at: The URL below which live events are.
    """
    one, plan = seen.tournament, seen.tournament.plan
    at = path(one.id)
    acts = {
        "published_at": one.course.published_at,
        "frozen_at": one.frozen_at,
        "finalised_at": one.course.finalised_at,
        "cancelled_at": one.course.cancelled_at,
    }
    return {
        "id": str(one.id),
        "version": one.version,
        "state": seen.state,
        "title": plan.title,
        **({"about": plan.about} if plan.about else {}),
        "owner": {"id": str(one.owner), "name": seen.owner},
        "created_at": instant(one.created_at),
        **{name: instant(value) for name, value in acts.items() if value is not None},
        **({} if one.series is None else {"series": str(one.series)}),
        "ruleset": plan.ruleset,
        "visibility": plan.visibility,
        "entry": {
            "by": plan.entry_by,
            "opens_at": instant(plan.entry_opens_at),
            "closes_at": instant(plan.entry_closes_at),
            **({} if plan.capacity is None else {"capacity": plan.capacity}),
            "entries": one.entries,
        },
        "attempts": plan.attempts,
        **({} if plan.limit is None else {"limit_ms": plan.limit // _MILLISECOND}),
        "scoring": scoring_json(plan.scoring),
        "warm_up": plan.warm_up,
        "reveal": plan.reveal,
        "rounds": _rounds(seen),
        "results": one.results,
        "conditions": [
            {"name": one.name, "met": one.met, "detail": one.detail} for one in conditions
        ],
        **({} if seen.role is None else {"role": seen.role}),
        **({} if seen.own is None else {"own_entry": str(seen.own.id)}),
        "links": {
            "self": at,
            "entries": f"{at}/entries",
            "attempts": f"{at}/attempts",
            "standings": f"{at}/standings",
            "acts": f"{at}/events",
            "events": f"{events_at}{at}/live",
        },
    }


def _rounds(seen: Seen) -> list[Json]:
    one = seen.tournament
    return [
        {
            "number": of.number,
            "state": of.state(seen.now),
            "starts_at": instant(of.starts_at),
            "ends_at": instant(of.ends_at),
            "closes_at": instant(of.closes_at),
            **({} if of.reveals_at is None else {"reveals_at": instant(of.reveals_at)}),
            **(
                {} if stage.cut is None else {"cut": {"by": stage.cut.by, "value": stage.cut.value}}
            ),
            "deals": [_deal(seen, one, deal) for deal in one.deals if deal.round == of.number],
        }
        for of, stage in zip(one.course.rounds, one.plan.stages, strict=True)
    ]


def _deal(seen: Seen, one: Tournament, deal: Any) -> Json:
    commitment, seed = one.commitment(deal), one.revealed(deal, seen.now)
    return {
        "number": deal.number,
        "counts": deal.counts,
        **({} if commitment is None else {"commitment": commitment}),
        **({} if seed is None else {"seed": seed}),
    }


def summary(one: Summary) -> Json:
    """Return a tournament as lists give it."""
    return {
        "id": str(one.id),
        "title": one.title,
        "ruleset": one.ruleset,
        "state": one.state,
        "entries": one.entries,
        **({} if one.capacity is None else {"capacity": one.capacity}),
        "starts_at": instant(one.starts_at),
        "ends_at": instant(one.ends_at),
        "links": {"self": path(one.id)},
    }


def template(name: str, of: Template) -> Json:
    """Return a template, with all that a tournament of it is unless told otherwise."""
    plan = {"attempts": 1, "warm_up": False, "reveal": "closing", **of.plan}
    scoring = scoring_of(plan["scoring"]) if "scoring" in plan else Scoring()
    return {
        "name": name,
        **plan,
        "scoring": scoring_json(scoring),
        "rounds": [
            {"starts": one.starts._asdict(), "ends": one.ends._asdict(), "deals": one.deals}
            for one in of.parts
        ],
    }


def entry(seen: Seen, own: Own, attempts: Sequence[Record]) -> Json:
    """Return the viewer's own entry, with what it has played and may still play."""
    one = seen.tournament
    by_deal: dict[int, list[Record]] = {deal.number: [] for deal in one.deals}
    for record in attempts:
        by_deal[record.deal_no or 0].append(record)
    return {
        "id": str(own.id),
        "tournament": str(one.id),
        "joined_at": instant(own.joined_at),
        **({} if own.withdrawn_at is None else {"withdrawn_at": instant(own.withdrawn_at)}),
        "status": (
            "disqualified" if own.disqualified else "withdrawn" if own.withdrawn_at else "active"
        ),
        "plays_up_to_round": own.reach,
        "deals": [
            {
                "number": deal.number,
                "round": deal.round,
                "attempts": _counts(seen, deal.counts, by_deal[deal.number]),
                "games": [_attempt(record) for record in by_deal[deal.number]],
            }
            for deal in one.deals
        ],
        "links": {"self": f"{path(one.id)}/entries/me"},
    }


def _counts(seen: Seen, counts: bool, made: Sequence[Record]) -> Json:  # noqa: FBT001
    allowed = seen.tournament.plan.attempts if counts else MAX_ATTEMPTS
    finished = sum(1 for record in made if record.ended_at is not None)
    return {
        "allowed": allowed,
        "started": len(made),
        "finished": finished,
        "left": max(0, allowed - len(made)),
    }


def _attempt(record: Record) -> Json:
    return {
        "id": str(record.id),
        "attempt": record.attempt,
        "status": record.status or "playing",
        **({} if record.score is None else {"score": record.score}),
        "created_at": instant(record.created_at),
        **({} if record.deadline is None else {"deadline": instant(record.deadline)}),
        **({} if record.ended_at is None else {"ended_at": instant(record.ended_at)}),
        "links": {"self": f"{ROOT}/games/{record.id}"},
    }


def board(of: Board) -> Json:
    """Return a part of the standings."""
    return {
        "tournament": str(of.seen.tournament.id),
        "round": of.round,
        "view": "frozen" if of.frozen else "live",
        "as_of": instant(of.as_of if not of.frozen else of.seen.tournament.frozen_at or of.as_of),
        **({} if of.frozen else {"event": of.event}),
        "scoring": scoring_json(of.seen.tournament.plan.scoring),
        "rows": [_row(row) for row in of.page.items],
    }


_TOTAL: Final = ("won", "cards", "entries", "time", "deals")


def _row(row: Row) -> Json:
    told = row.told
    return {
        "entry": str(row.entry),
        "player": {"id": str(row.player), "name": row.name},
        **({} if row.rank is None else {"rank": row.rank}),
        "position": row.position,
        "status": told["status"],
        "reach": told["reach"],
        "total": told["total"],
        "cells": [dict(zip(CELL, one, strict=False)) for one in told["cells"]],
    }


def happening(of: Happening, *, hosts: bool) -> Json:
    """Return an event.

    Args:
        of: The event.
        hosts: Whether the viewer hosts the tournament: who else did something is theirs to know.
    """
    return {
        "number": of.number,
        "at": instant(of.at),
        "kind": of.kind,
        **({"public": of.public} if hosts else {}),
        **({} if of.by is None or not hosts else {"by": str(of.by)}),
        **({} if of.entry is None else {"entry": str(of.entry)}),
        **({} if of.reason is None else {"reason": of.reason}),
        **({"data": of.data} if of.data else {}),
    }


def job(of: Job) -> Json:
    """Return a job, for hosts."""
    found = of.findings
    return {
        "id": str(of.id),
        "tournament": str(of.tournament),
        "kind": of.kind,
        "by": str(of.by),
        **({} if of.reason is None else {"reason": of.reason}),
        "state": of.state,
        "started_at": instant(of.started_at),
        **({} if of.finished_at is None else {"finished_at": instant(of.finished_at)}),
        "total": of.total,
        "done": of.done,
        **({} if "ranks" not in found else {"findings": _findings(found)}),
        "links": {"self": f"{path(of.tournament)}/jobs/{of.id}"},
    }


def _findings(found: Json) -> Json:
    lists = ("invalid", "restored", "changed")
    told = {name: found[name][:MAX_TOLD] for name in lists}
    for one in told["changed"]:
        del one["key"]
    return {
        **told,
        "ranks": found["ranks"]["entries"],
        "counts": {**{name: len(found[name]) for name in lists}, "ranks": found["ranks"]["moved"]},
    }


def results_text(of: Results) -> list[bytes]:
    """Return the parts of the text of final results as JSON."""
    signature = "" if of.signature is None else f',"signature":"{of.signature}"'
    return [
        f'{{"digest":"{of.digest.hex()}","document":'.encode(),
        of.text.encode(),
        f"{signature}}}".encode(),
    ]


def results_lines(of: Results) -> Iterator[Json]:
    """Yield final results as lines: all but the entries, then these."""
    document, entries = _opened(of.text)
    signature = {} if of.signature is None else {"signature": of.signature}
    yield {"document": document, "digest": of.digest.hex(), **signature}
    for one in entries:
        yield {"entry": one}


def _opened(text: str) -> tuple[Json, Iterator[Json]]:
    """Return a document of results without its entries, and these, read one by one.

    All at once they take several times the text's memory, and hold up every other thread.

    Args:
        text: Canonical JSON, in which nothing but numbers comes before the entries, and after them
            the format.
    """
    begin, end = text.index(_ENTRIES), text.rindex(_AFTER_ENTRIES)

    def entries() -> Iterator[Json]:
        at = begin + len(_ENTRIES)
        while at < end:
            entry, at = _decode(text, at)
            yield entry
            at += len(",")

    return json.loads(text[:begin] + text[end + len("],") :]), entries()


_decode: Final = json.JSONDecoder().raw_decode
_ENTRIES: Final = '"entries":['
_AFTER_ENTRIES: Final = '],"format":'


def results_table(of: Results, names: Mapping[str, str]) -> str:
    """Return final results as a table in CSV, a line an entry, with cards by deal.

    Args:
        of: The results.
        names: The players' names by the ids of their entries.
    """
    document, entries = _opened(of.text)
    deals = sorted(
        deal["number"] for one in document["rounds"] for deal in one["deals"] if deal["counts"]
    )
    written = io.StringIO()
    table = csv.writer(written)
    columns = ("rank", "position", "entry", "player", "name", "status", *_TOTAL)
    table.writerow([*columns, *(f"deal {number}" for number in deals)])
    for one in entries:
        cards = {cell["deal"]: cell["cards"] for cell in one["cells"]}
        table.writerow(
            [
                *(one.get("rank", ""), one["position"], one["id"], one["player"]),
                *(_cell(names.get(one["id"], "")), one["status"]),
                *(one["total"][name] for name in _TOTAL),
                *(cards.get(number, "") for number in deals),
            ]
        )
    return written.getvalue()


def _cell(name: str) -> str:
    """Return a name as a cell that no spreadsheet takes for a formula."""
    return f"'{name}" if name[:1] in set("=+-@\t\r") else name


def webhook(tournament: UUID, of: Webhook) -> Json:
    """Return a webhook, without its secret."""
    at = f"{path(tournament)}/webhooks/{of.id}"
    return {
        "id": str(of.id),
        "tournament": str(tournament),
        "created_at": instant(of.created_at),
        "by": str(of.by),
        "url": of.url,
        **({} if of.kinds is None else {"kinds": of.kinds}),
        "done": of.cursor,
        "failures": of.failures,
        **({} if of.disabled_at is None else {"disabled_at": instant(of.disabled_at)}),
        "links": {
            "self": at,
            "deliveries": f"{at}/deliveries",
            "redeliveries": f"{at}/redeliveries",
        },
    }


def delivery(of: Delivery) -> Json:
    """Return how a delivery went."""
    return {
        "id": str(of.id),
        "number": of.number,
        "attempt": of.attempt,
        "at": instant(of.at),
        **({} if of.status is None else {"status": of.status}),
        **({} if of.error is None else {"error": of.error}),
    }
