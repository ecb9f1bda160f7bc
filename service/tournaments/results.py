"""Final results: immutable, numbered snapshots of a tournament, and the replays behind them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Uuid, bindparam, func, insert, select, tuple_, update

from service import access, standings
from service.engine.deals import DEFAULT_SPEC
from service.engine.errors import BrokenLogError, RendezvousError
from service.engine.replay import Json, canonical
from service.engine.results import FORMAT, digest_of_text, places_of, signed_facts
from service.engine.standings import OVERALL, scoring_json
from service.games import COLUMNS, SOURCE, Record, replay_of, to_ms
from service.schedule import RoundState
from service.store import tables
from service.store.database import Database, Instant, Statement
from service.tournaments import settling
from service.tournaments.hosting import drop_frozen
from service.tournaments.model import (
    DIRECTORS,
    GAME,
    ORGANISE,
    OWNERS,
    Event,
    Seen,
    Tournament,
    WrongStateError,
    hold,
    look,
    store,
    tell,
)

_CHUNK: Final = 200
_OVER: Final[frozenset[RoundState]] = frozenset({"closed", "revealed"})


class NotVerifiedError(RendezvousError):
    """Attempts are not verified, so results cannot be final."""

    code = "not-verified"


@dataclass(frozen=True, slots=True)
class Results:
    """Results as they were made final.

    Attributes:
        number: Which ones they are, from 1.
        at: When they were.
        digest: Of the document.
        text: The document, canonical JSON.
        signature: A compact JWS, None where the service has no keys.
    """

    number: int
    at: datetime
    digest: bytes
    text: str
    signature: str | None


def finalise(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    sign: Callable[[bytes], str] | None,
) -> Seen:
    """Make a tournament's results final; again is no error.

    The snapshot is computed from games and rulings alone and must be what is stored. Seeds that are
    not known yet are revealed by it, and frozen standings shown.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        sign: Signs facts.

    Raises:
        WrongStateError: Something may still change, or a rejudging is to be decided.
        NotVerifiedError: Not all attempts are verified, or stored standings are not what comes of
            them.
    """
    seen, who = hold(connection, instant, token, tournament_id, DIRECTORS)
    if seen.state == "final":
        return seen
    if seen.state in {"draft", "cancelled"}:
        raise WrongStateError(f"the tournament is {seen.state}")
    for one in seen.tournament.course.rounds:
        state = one.state(seen.now)
        if state not in _OVER:
            raise WrongStateError(f"round {one.number} is {state}")
    settling.settle_held(connection, tournament_id)
    tournament = look(connection, instant, token, tournament_id, ORGANISE).tournament
    _demand_decided(connection, tournament_id)
    _demand_verified(connection, tournament_id)
    number = tournament.results + 1
    text = canonical(_document(connection, tournament, number, seen.now))
    digest = digest_of_text(text)
    named = {"format": FORMAT, "tournament": str(tournament_id), "number": number}
    made = {
        "tournament_id": tournament_id,
        "number": number,
        "at": seen.now,
        "digest": bytes.fromhex(digest),
        "document": text.decode("ascii"),
        "signature": sign(signed_facts(named, digest)) if sign else None,
    }
    connection.execute(insert(tables.results), made)
    revealed = [one.number for one in tournament.course.rounds if one.state(seen.now) == "closed"]
    rounds = tables.rounds
    connection.execute(
        update(rounds)
        .where(rounds.c.tournament_id == tournament_id, rounds.c.number.in_(revealed))
        .values(reveals_at=seen.now)
    )
    drop_frozen(connection, tournament_id)
    store(connection, tournament_id, finalised_at=seen.now, results=number)
    data = {"number": number, "digest": digest, "revealed": revealed}
    told = Event("finalised", who.player, data=data)
    tell(connection, tournament_id, seen.now, told, version=True)
    return look(connection, instant, token, tournament_id, ORGANISE)


def _demand_decided(connection: Connection, tournament: UUID) -> None:
    of = tables.jobs.c
    query = select(of.id, of.state).where(
        of.tournament_id == tournament,
        of.kind == "rejudging",
        of.state.in_(("running", "proposed")),
    )
    undecided = connection.execute(query).first()
    if undecided is not None:
        raise WrongStateError(
            f"the rejudging {undecided.id} is {undecided.state}: apply or drop it first"
        )


def _demand_verified(connection: Connection, tournament: UUID) -> None:
    played = select(func.count()).where(GAME.tournament_id == tournament)
    if count := connection.execute(played.where(GAME.ended_at.is_(None))).scalar_one():
        raise WrongStateError(f"{count} attempts are not over")
    pending = played.where(GAME.ended_at.is_not(None), GAME.verified.is_(None))
    if count := connection.execute(pending).scalar_one():
        raise NotVerifiedError(f"{count} attempts are not verified: have them verified first")


def _document(connection: Connection, tournament: Tournament, number: int, now: datetime) -> Json:
    """Return the document of results, places included.

    Raises:
        NotVerifiedError: It is not what is stored.
    """
    document: Json = {
        "format": FORMAT,
        "tournament": str(tournament.id),
        "number": number,
        "at": to_ms(now),
        "ruleset": tournament.plan.ruleset,
        "scoring": scoring_json(tournament.plan.scoring),
        "attempts": tournament.plan.attempts,
        "rounds": _rounds(tournament),
        "rulings": _rulings(connection, tournament.id),
        "entries": _entries(connection, tournament.id),
    }
    facts = {entry["id"]: entry for entry in document["entries"]}
    entries = [{**facts[place.entry], **place.told} for place in places_of(document)]
    kept = tables.standings.c
    query = select(kept.entry_id, kept.key, kept.told["total"]).where(
        kept.tournament_id == tournament.id, ~kept.frozen, kept.round == OVERALL
    )
    stored = {
        str(entry): (bytes(key).hex(), total) for entry, key, total in connection.execute(query)
    }
    unranked = standings.UNRANKED.hex()
    if stored != {one["id"]: (one.get("key", unranked), one["total"]) for one in entries}:
        raise NotVerifiedError(
            "stored standings are not what comes of the attempts: judge them again"
        )
    return {**document, "entries": entries}


def _rounds(tournament: Tournament) -> list[Json]:
    return [
        {
            "number": one.number,
            "starts_at": to_ms(one.starts_at),
            "ends_at": to_ms(one.ends_at),
            **(
                {} if stage.cut is None else {"cut": {"by": stage.cut.by, "value": stage.cut.value}}
            ),
            "deals": [
                {
                    "number": deal.number,
                    "counts": deal.counts,
                    "spec": DEFAULT_SPEC,
                    "commitment": tournament.commitment(deal),
                    "seed": deal.seed,
                }
                for deal in tournament.deals
                if deal.round == one.number
            ],
        }
        for one, stage in zip(tournament.course.rounds, tournament.plan.stages, strict=True)
    ]


def _rulings(connection: Connection, tournament: UUID) -> list[Json]:
    """Return the rulings that hold; why is told by events, in words that are never signed."""
    of = tables.rulings.c
    query = (
        select(of.number, of.kind, of.entry_id, of.deal_no, of.attempt, of.round, of.terms)
        .where(of.tournament_id == tournament, of.reversed_by.is_(None), of.kind != "reverse")
        .order_by(of.number)
    )
    found = []
    for number, kind, entry, deal, attempt, round_, terms in connection.execute(query):
        places = {
            "entry": None if entry is None else str(entry),
            "deal": deal,
            "attempt": attempt,
            "round": round_,
            "values": terms if kind == "adjust" else None,
        }
        told = {name: value for name, value in places.items() if value is not None}
        found.append({"number": number, "kind": kind, **told})
    return found


def _entries(connection: Connection, tournament: UUID) -> list[Json]:
    """Return all entries with their attempts, without their places."""
    of = tables.entries.c
    query = (
        select(of.id, of.player_id, of.reach, of.withdrawn_at.is_not(None))
        .where(of.tournament_id == tournament)
        .order_by(of.id)
    )
    found: dict[UUID, Json] = {
        entry: {
            "id": str(entry),
            "player": str(player),
            "reach": reach,
            "withdrawn": withdrawn,
            "attempts": [],
        }
        for entry, player, reach, withdrawn in connection.execute(query)
    }
    for game, entry, deal, attempt, status, score, ply, lasted, times, verified in _PLAYED.on(
        connection, tournament=tournament
    ):
        named = {"game": str(game), "deal": deal, "attempt": attempt}
        if verified:
            result = {
                "status": status,
                "won": int(status == "won"),
                "cards": score,
                "entries": ply,
                "time": standings.time_of(lasted, times),
                "digest": verified.hex(),
            }
            found[entry]["attempts"].append({**named, **result})
        else:
            found[entry]["attempts"].append({**named, "invalid": True})
    return list(found.values())


_PLAYED: Final = Statement(
    select(
        *(GAME.id, GAME.entry_id, GAME.deal_no, GAME.attempt),
        *(GAME.status, GAME.score, GAME.ply, standings.LASTED, standings.TIMES, GAME.verified),
    )
    .where(GAME.tournament_id == bindparam("tournament", type_=Uuid))
    .order_by(GAME.entry_id, GAME.deal_no, GAME.attempt)
)


def reopen(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    reason: str,
) -> Seen:
    """Have a tournament's results be not final any more; those that were stay on record.

    Raises:
        WrongStateError: They are not final.
    """
    seen, who = hold(connection, instant, token, tournament_id, OWNERS)
    if seen.state != "final":
        raise WrongStateError(f"the tournament is {seen.state}")
    store(connection, tournament_id, finalised_at=None)
    told = Event("reopened", who.player, reason=reason, data={"number": seen.tournament.results})
    tell(connection, tournament_id, seen.now, told, version=True)
    return look(connection, instant, token, tournament_id, ORGANISE)


def read(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    number: int | None,
) -> Results:
    """Return final results.

    Args:
        connection: A connection.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        number: Which ones; None for those that are final now.

    Raises:
        NotFoundError: There is no such tournament for this viewer, or none of this number.
        WrongStateError: No results are final now.
    """
    seen = look(connection, instant, token, tournament_id)
    if number is None:
        if seen.state != "final":
            raise WrongStateError(f"results are not final: the tournament is {seen.state}")
        number = seen.tournament.results
    of = tables.results.c
    query = select(of.number, of.at, of.digest, of.document, of.signature).where(
        of.tournament_id == tournament_id, of.number == number
    )
    row = connection.execute(query).first()
    if row is None:
        access.not_found("results of this number")
    return Results(*row)


def names(connection: Connection, tournament: UUID) -> dict[str, str]:
    """Return the names of players by the ids of their entries; empty for one who is gone."""
    query = (
        select(tables.entries.c.id, tables.players.c.name)
        .join(tables.players, tables.players.c.id == tables.entries.c.player_id)
        .where(tables.entries.c.tournament_id == tournament)
    )
    return {str(entry): name for entry, name in connection.execute(query)}


@dataclass(frozen=True, slots=True)
class Export:
    """A tournament's replays as they are read.

    Attributes:
        seen: The tournament.
        documents: By entry, deal and attempt. In place of the document of an attempt that is
            invalid or damaged comes ``{"broken": id}``.
    """

    seen: Seen
    documents: Iterator[Json]


def export(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    tournament_id: UUID,
    database: Database,
) -> Export:
    """Return the attempts that are over and revealed, or the viewer's own, as replay documents.

    They are read in chunks, each by a statement of its own.

    Args:
        connection: A connection.
        instant: The request's.
        token: The fingerprint of the request's token.
        tournament_id: The tournament.
        database: Where further chunks are read.

    Raises:
        NotFoundError: There is no such tournament for this viewer.
        DatabaseUnavailableError: The database cannot be reached, while documents are taken.
    """
    seen = look(connection, instant, token, tournament_id)
    first = _chunk(connection, seen=seen)

    def documents() -> Iterator[Json]:
        chunk = first
        while chunk:
            yield from map(_replay, chunk)
            if len(chunk) < _CHUNK:
                break
            chunk = database.run(partial(_chunk, seen=seen, after=chunk[-1]))

    return Export(seen, documents())


def _chunk(connection: Connection, *, seen: Seen, after: Record | None = None) -> Sequence[Record]:
    known = tables.rounds.c.reveals_at <= seen.now
    if seen.own is not None:
        known |= GAME.entry_id == seen.own.id
    query = (
        select(*COLUMNS)
        .select_from(SOURCE)
        .where(GAME.tournament_id == seen.tournament.id, GAME.ended_at.is_not(None), known)
    )
    place: Any = tuple_(GAME.entry_id, GAME.deal_no, GAME.attempt)
    if after is not None:
        query = query.where(place > (after.entry, after.deal_no, after.attempt))
    query = query.order_by(GAME.entry_id, GAME.deal_no, GAME.attempt).limit(_CHUNK)
    return [Record(*row) for row in connection.execute(query)]


def _replay(record: Record) -> Json:
    if record.verified == b"":
        return {"broken": str(record.id)}
    try:
        return replay_of(record)
    except BrokenLogError:
        return {"broken": str(record.id)}
