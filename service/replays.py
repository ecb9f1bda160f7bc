"""Replays beyond a single game: exported in bulk, and those of games that were played elsewhere."""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, bindparam, delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from service import access, lists
from service.engine.errors import BrokenLogError, RendezvousError
from service.engine.replay import Json
from service.engine.verify import Problem, SignatureCheck, Verdict, read, verify_text
from service.games import COLUMNS, EPOCH, SOURCE, Record, conditions, replay_of
from service.lists import Page, Place
from service.repeats import Key, claim
from service.store.database import Database, Instant
from service.store.tables import games, imports

OVERLAP: Final = timedelta(minutes=2)
"""How far an incremental copy goes back behind the one before.

A game's end is the instant at which its last act began to be judged, and the row shows it a little
later: by WRITTEN_WITHIN and the time that a commit takes, at most.
"""

MAX_IMPORTS: Final = 1000
"""Most imported replays of a player."""

MAX_IMPORT_BYTES: Final = 1 << 18
"""Longest document that is imported. A full log of 2,000 entries takes less than half of it."""

MAX_IMPORTED_BYTES: Final = 1 << 26
"""Most bytes of all imported replays of a player."""

_CHUNK: Final = 200

_log = logging.getLogger(__name__)


class ReplayRefusedError(RendezvousError):
    """The replay is not imported: it is not valid, or not of a finished game.

    Attributes:
        verdict: What the verifier says of it.
    """

    code = "replay-refused"

    def __init__(self, verdict: Verdict) -> None:
        problem = verdict.problem
        told = (
            f"{problem.pointer or ''} {problem.detail}" if problem else "the game is not finished"
        )
        super().__init__(f"{verdict.verdict}: {told.strip()}")
        self.verdict = verdict


class ImportsFullError(RendezvousError):
    """The player has as many imported replays as they may."""

    code = "imports-full"


@dataclass(frozen=True, slots=True)
class Export:
    """Replays as they are read.

    Attributes:
        documents: In the order in which the games ended. In place of the document of a game whose
            row is damaged comes `{"broken": id}`.
        next: The `since` by which another export has all that this one does not have.
    """

    documents: Iterator[Json]
    next: datetime


def export(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    database: Database,
    filters: Mapping[str, Any],
) -> Export:
    """Return the viewer's own games that have ended, as replay documents.

    They are read in chunks, each by a statement of its own, the first of them here: what is wrong
    with the request is known when this returns. Games that end meanwhile are left to the next
    export; one that was lost, taken up again by an undo and ended anew is exported anew.

    Args:
        connection: A connection.
        instant: The request's.
        token: The fingerprint of the request's token.
        database: Where further chunks are read, on whichever connection is free then.
        filters: Which of the games, by the names of ``games.FILTERS``.

    Raises:
        DatabaseUnavailableError: The database cannot be reached, while documents are taken.
    """
    now, who = access.read_viewer(connection, token, instant)
    player = access.demand(who, *access.READ).player
    first = _ended(connection, player, filters, now)

    def documents() -> Iterator[Json]:
        chunk = first
        while chunk:
            yield from map(_document, chunk)
            after = (chunk[-1].ended_at, chunk[-1].id)
            if len(chunk) < _CHUNK:
                break
            chunk = database.run(
                partial(_ended, player=player, filters=filters, now=now, after=after)
            )

    following = now - OVERLAP
    if "until" in filters:
        following = max(EPOCH, min(filters["until"], following)).astimezone(UTC)
    return Export(documents(), following)


def _ended(
    connection: Connection,
    player: UUID,
    filters: Mapping[str, Any],
    now: datetime,
    after: tuple[datetime | None, UUID] | None = None,
) -> list[Record]:
    """Return the next games of a player that had ended by then."""
    query = (
        select(*COLUMNS)
        .select_from(SOURCE)
        .where(games.c.player_id == player, games.c.ended_at <= now)
    )
    query = query.where(*conditions(filters))
    place = tuple_(games.c.ended_at, games.c.id)
    if after is not None:
        query = query.where(place > after)
    query = query.order_by(games.c.ended_at, games.c.id).limit(_CHUNK)
    return [Record(*row) for row in connection.execute(query)]


def _document(record: Record) -> Json:
    try:
        return replay_of(record)
    except BrokenLogError as error:
        _log.error("game %s cannot be exported: %s", record.id, error)
        return {"broken": str(record.id)}


@dataclass(frozen=True, slots=True)
class Import:
    """An imported replay, its document aside."""

    id: UUID
    created_at: datetime
    ruleset: str
    status: str
    score: int
    digest: bytes


_COLUMNS: Final = (
    imports.c.id,
    imports.c.created_at,
    imports.c.ruleset,
    imports.c.status,
    imports.c.score,
    imports.c.digest,
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A replay that may be imported.

    Attributes:
        text: The document, canonical JSON.
        size: Its bytes in UTF-8.
        digest: Its digest.
        facts: What its log gives.
        ruleset: Its ruleset.
    """

    text: str
    size: int
    digest: bytes
    facts: Json
    ruleset: str


def judge(text: bytes, check: SignatureCheck | None) -> Judged:
    """Return a replay that may be imported.

    Args:
        text: The document's text.
        check: What checks its signature.

    Raises:
        ReplayRefusedError: It is not valid, or its game is not finished, or it cannot be kept.
    """
    verdict = verify_text(text, check)
    if verdict.verdict != "valid" or verdict.result is None:
        raise ReplayRefusedError(verdict)
    value = read(text)
    try:
        kept = json.dumps(
            value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
        )
        size = len(kept.encode())
    except (ValueError, RecursionError):
        # Only what is in `extra` is not judged: a number that is read as infinite, half a pair.
        raise _cannot_keep(verdict, "it cannot be written again") from None
    if size > MAX_IMPORT_BYTES:
        # And only there numbers may be written shorter than they are kept.
        raise _cannot_keep(verdict, f"it has {size} bytes as it is kept, over {MAX_IMPORT_BYTES}")
    digest = bytes.fromhex(value["digest"])
    return Judged(kept, size, digest, verdict.result, value["header"]["ruleset"])


def _cannot_keep(verdict: Verdict, why: str) -> ReplayRefusedError:
    problem = Problem("structure", "malformed", why, "/extra")
    return ReplayRefusedError(Verdict(levels=verdict.levels, problem=problem))


def add_import(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    judged: Judged,
    import_id: UUID,
    key: Key | None,
) -> Import:
    """Keep a replay of elsewhere and return it; the same one again is the one that is there.

    Args:
        connection: In a transaction.
        instant: The request's.
        token: The fingerprint of the request's token.
        judged: The replay.
        import_id: A new UUIDv7.
        key: The request's key, if it has one.

    Raises:
        ImportsFullError: The player has MAX_IMPORTS, or MAX_IMPORTED_BYTES of them.
        KeyReusedError: The key was sent before with another replay.
    """
    # One at a time, so that they are counted truly and none is kept twice.
    now, who = access.read_alone(connection, token, instant)
    player = access.demand(who, *access.PLAY).player
    query = select(*_COLUMNS).where(
        imports.c.player_id == player, imports.c.digest == judged.digest
    )
    row = connection.execute(query).one_or_none()
    if key is not None:
        # Equal requests have equal digests, which alone say what was made.
        claim(connection, now, player, key, import_id if row is None else row.id)
    if row is not None:
        return Import(*row)
    count, size = connection.execute(_HELD, {"player": player}).one()
    if count >= MAX_IMPORTS or size + judged.size > MAX_IMPORTED_BYTES:
        most = f"{MAX_IMPORTS} imported replays and {MAX_IMPORTED_BYTES >> 20} MiB of them"
        raise ImportsFullError(f"a player keeps at most {most}")
    facts = judged.facts
    made = Import(import_id, now, judged.ruleset, facts["status"], facts["score"], judged.digest)
    values = {name: getattr(made, name) for name in made.__slots__}
    connection.execute(insert(imports), {**values, "player_id": player, "document": judged.text})
    return made


# Postgres knows the length of a text without reading it.
_HELD: Final = select(
    func.count(), func.coalesce(func.sum(func.octet_length(imports.c.document)), 0)
).where(imports.c.player_id == bindparam("player"))


def list_imports(
    connection: Connection,
    instant: Instant,
    token: bytes | None,
    *,
    limit: int,
    place: Place | None,
) -> Page[Import]:
    """Return a page of the viewer's imported replays."""
    _, who = access.read_viewer(connection, token, instant)
    query = select(*_COLUMNS).where(imports.c.player_id == access.demand(who, *access.READ).player)
    return lists.read(
        connection, query, imports.c.id, lambda row: Import(*row), limit=limit, place=place
    )


def read_import(
    connection: Connection, instant: Instant, token: bytes | None, import_id: UUID
) -> str:
    """Return the document of one of the viewer's imported replays, canonical JSON.

    Raises:
        NotFoundError: They have no such replay.
    """
    _, who = access.read_viewer(connection, token, instant)
    player = access.demand(who, *access.READ).player
    query = select(imports.c.document).where(
        imports.c.id == import_id, imports.c.player_id == player
    )
    found: str | None = connection.execute(query).scalar_one_or_none()
    if found is None:
        access.not_found("imported replay")
    return found


def remove_import(
    connection: Connection, instant: Instant, token: bytes | None, import_id: UUID
) -> None:
    """Forget one of the viewer's imported replays.

    Raises:
        NotFoundError: They have no such replay.
    """
    _, who = access.read_viewer(connection, token, instant)
    player = access.demand(who, *access.PLAY).player
    query = delete(imports).where(imports.c.id == import_id, imports.c.player_id == player)
    if not connection.execute(query).rowcount:
        access.not_found("imported replay")
