"""What is held of a person: every column of every table, who is told it and what deletion does."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Table, case, false, null, true

from service.store.tables import games, idempotency_keys, imports, metadata, players, tokens


@dataclass(frozen=True, slots=True)
class Holding:
    """A table whose rows are each of one player.

    Attributes:
        table: The table.
        owner: The column that names the player.
        told: The columns that the player's export tells.
        withheld: Those that it does not, each with the reason.
        hidden: Of those told, what is told in a column's place.
        removed: Which rows go when the player does.
        erased: What is then written into the rows that stay. Whatever else is in them is nobody's
            any more once the player has no name and no token.
    """

    table: Table
    owner: Column[Any]
    told: tuple[str, ...]
    withheld: Mapping[str, str] = field(default_factory=dict)
    hidden: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)
    removed: ColumnElement[bool] = field(default_factory=true)
    erased: Mapping[str, Any] = field(default_factory=dict)


HOLDINGS: Final = (
    Holding(
        players,
        players.c.id,
        told=("id", "created_at", "name"),
        withheld={"deleted_at": "no player who can ask has it"},
        # Games that stay name it in their headers, which never change.
        removed=false(),
        erased={"name": ""},
    ),
    Holding(
        tokens,
        tokens.c.player_id,
        told=(
            *("id", "player_id", "created_at", "expires_at", "revoked_at", "last_used_at"),
            *("scopes", "minted_by"),
        ),
        withheld={"hash": "it is good for nothing but to find the token"},
    ),
    Holding(
        games,
        games.c.player_id,
        told=(
            *("id", "player_id", "created_at", "ended_at", "ply", "score", "hidden", "status"),
            *("ruleset", "spec", "seed", "log", "times"),
        ),
        # A seed that is kept from the player of a game in play is kept from them here too.
        hidden={
            "seed": case((games.c.hidden & games.c.ended_at.is_(None), null()), else_=games.c.seed)
        },
        # A game in play is its player's alone: nobody could ever read it or end it.
        removed=games.c.ended_at.is_(None),
    ),
    Holding(
        imports,
        imports.c.player_id,
        told=(
            *("id", "player_id", "created_at", "ruleset", "status", "score", "digest"),
            "document",
        ),
    ),
    Holding(
        idempotency_keys,
        idempotency_keys.c.player_id,
        told=("player_id", "key", "created_at", "request_hash", "made_id"),
    ),
)
"""Every table that holds something of a person. A table or column of which nothing is said here
cannot be added: a test compares."""


def unclassified() -> Iterator[str]:
    """Yield the columns of which nothing is said here, as ``table.column``."""
    said = {
        (holding.table.name, name)
        for holding in HOLDINGS
        for name in (*holding.told, *holding.withheld)
    }
    for table in metadata.tables.values():
        for column in table.c:
            if (table.name, column.name) not in said:
                yield f"{table.name}.{column.name}"
