"""Watching games: what is new to somebody who saw one at some point of its log.

Nothing is announced that is not stored: what changed is asked of the database, for all watched
games by one statement, again and again. So a watcher may be served by any process, whichever wrote.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    SmallInteger,
    Text,
    Uuid,
    and_,
    bindparam,
    cast,
    column,
    func,
    not_,
    select,
)
from sqlalchemy.types import TypeEngine

from service import games
from service.games import Record, State
from service.store import tables
from service.store.database import Statement

NEVER: Final = -1
"""A ply that no game is at."""

_MARK: Final = re.compile(r"([0-9]{1,4})(?:-([0-9a-f]{16}))?")
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of a game's log, as the id of an event names it.

    Attributes:
        ply: Number of entries so far.
        digest: The first 16 digits of the game's digest there; empty in a mark that was made of
            a ply alone.
    """

    ply: int
    digest: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the mark of a text: ``12-0f3a...`` or, from somebody who knows no more, ``12``.

        Raises:
            ValueError: It is none.
        """
        found = _MARK.fullmatch(text)
        if found is None:
            raise ValueError("not the id of an event: a ply, or a ply, a hyphen and 16 hex digits")
        return cls(int(found[1]), found[2] or "")

    @classmethod
    def of(cls, state: State) -> Self:
        """Return the mark of a game as it stands."""
        return cls(state.game.ply, state.digest[:_DIGITS])

    def __str__(self) -> str:
        return f"{self.ply}-{self.digest}"

    def lies_in(self, state: State) -> bool:
        """Whether this game, as it is stored, went through this point.

        It did not if the database was restored to an earlier state, and the game then went on
        otherwise or not at all.
        """
        if self.ply > state.game.ply:
            return False
        return not self.digest or state.digest_at(self.ply).startswith(self.digest)


def news(record: Record, seen: Mark | None) -> State | None:
    """Return what is new to somebody who saw a game at some point.

    Returns:
        The game as it stands: with what was ``applied`` since then if it only went on; without,
        if they saw nothing of it yet or what they saw is no longer so. None if nothing is new.

    Raises:
        BrokenLogError: The row is damaged.
    """
    if seen is None:
        return games.since(record, record.ply).without_applied()
    state = games.since(record, seen.ply)
    if not seen.lies_in(state):
        return state.without_applied()
    return state if seen.ply < record.ply else None


@dataclass(frozen=True, slots=True)
class Change:
    """What a look at a watched game gave.

    Attributes:
        game: The game's id.
        token: The id of the token that watches it.
        allowed: Whether the token that watches it is still good.
        record: The game, None if it is there no more.
    """

    game: UUID
    token: UUID
    allowed: bool
    record: Record | None


class Watched:
    """What a look asks about, in the form that the database reads: made once, for many looks.

    Three arrays of thousands of values cost the driver far more time than Postgres takes for all
    the rest.
    """

    __slots__ = ("_parameters", "pairs")

    def __init__(self, watched: Sequence[tuple[UUID, int, UUID]]) -> None:
        """Prepare to ask about games.

        Args:
            watched: For each its id, the ply that is known, and the id of the token that watches
                it.
        """
        self.pairs = [(game, token) for game, _, token in watched]
        columns = ([str(one[n]) for one in watched] for n in range(3))
        ids, plies, tokens = ("{" + ",".join(values) + "}" for values in columns)
        self._parameters = {"ids": ids, "plies": plies, "tokens": tokens}

    def changes(self, connection: Connection) -> list[Change]:
        """Return which games are at another ply than is known, and whose token is gone.

        Args:
            connection: One statement is made.
        """
        found = _CHANGES.on(connection, **self._parameters)
        changes = []
        for index, allowed, *row in found:
            game, token = self.pairs[index - 1]
            changes.append(Change(game, token, allowed, Record(*row) if row[0] else None))
        return changes


def _array(name: str, of: TypeEngine[Any]) -> ColumnElement[Any]:
    return cast(bindparam(name, type_=Text), ARRAY(of))


_WATCHED: Final = (
    func.unnest(_array("ids", Uuid()), _array("plies", SmallInteger()), _array("tokens", Uuid()))
    .table_valued(
        column("game", Uuid),
        column("ply", SmallInteger),
        column("token", Uuid),
        with_ordinality="place",
    )
    .render_derived(name="watched")
)
_TOKEN: Final = tables.tokens.c
_ALLOWED: Final = and_(
    _TOKEN.id.is_not(None),
    _TOKEN.revoked_at.is_(None),
    func.coalesce(_TOKEN.expires_at > func.now(), True),
)
_CHANGES: Final = Statement(
    select(_WATCHED.c.place, _ALLOWED, *games.COLUMNS)
    .select_from(
        _WATCHED.outerjoin(tables.tokens, _TOKEN.id == _WATCHED.c.token).outerjoin(
            games.SOURCE, tables.games.c.id == _WATCHED.c.game
        )
    )
    # A deadline ends a game without an entry in its log, once somebody settles it.
    .where(
        tables.games.c.ply.is_distinct_from(_WATCHED.c.ply)
        | tables.games.c.ended_at.is_not(None)
        | games.OVERDUE
        | not_(_ALLOWED)
    )
)
