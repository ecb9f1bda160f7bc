"""What is held of a person: every column of every table, who is told it and what deletion does."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Table, case, exists, false, func, null, true

from service.store.tables import (
    entries,
    events,
    games,
    idempotency_keys,
    imports,
    invites,
    jobs,
    metadata,
    players,
    roles,
    rounds,
    rulings,
    tokens,
    tournaments,
    webhooks,
)


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


# A sealed seed is kept from its player, too, until its round is revealed.
_REVEALED: Final = games.c.tournament_id.is_(None) | exists().where(
    rounds.c.tournament_id == games.c.tournament_id,
    rounds.c.number == games.c.round,
    rounds.c.reveals_at <= func.now(),
)

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
            *("tournament_id", "entry_id", "round", "deal_no", "attempt", "deadline"),
            *("verified", "named_player_id"),
        ),
        # A seed that is kept from the player of a game is kept from them here too.
        hidden={
            "seed": case(
                (games.c.hidden & (games.c.ended_at.is_(None) | ~_REVEALED), null()),
                else_=games.c.seed,
            )
        },
        # A game in play is its player's alone: nobody could ever read it or end it. But an attempt
        # counts as it stands at its deadline.
        removed=games.c.ended_at.is_(None) & games.c.tournament_id.is_(None),
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
    Holding(
        tournaments,
        tournaments.c.owner_id,
        told=(
            *("id", "owner_id", "created_at", "version", "title", "about"),
            *("ruleset", "visibility", "entry_by", "capacity", "entry_opens_at", "entry_closes_at"),
            *("attempts", "limit_ms", "scoring", "warm_up", "reveal", "series_id"),
            *("published_at", "cancelled_at", "frozen_at", "finalised_at", "entries", "events"),
            *("told_at", "rulings", "results", "cut"),
        ),
        # Others take part in it.
        removed=false(),
    ),
    Holding(
        roles,
        roles.c.player_id,
        told=("tournament_id", "player_id", "role", "given_at"),
    ),
    Holding(
        invites,
        invites.c.created_by,
        told=(
            *("tournament_id", "id", "created_at", "created_by", "expires_at", "revoked_at"),
            *("uses", "used"),
        ),
        withheld={"hash": "it is good for nothing but to find the code"},
        removed=false(),
    ),
    Holding(
        entries,
        entries.c.player_id,
        told=(
            *("tournament_id", "id", "player_id", "joined_at", "withdrawn_at", "version"),
            *("reach", "invite_id", "address", "code_expires_at"),
        ),
        withheld={"code_hash": "it is good for nothing but to find the code"},
        # Standings stay whole.
        removed=false(),
        erased={"address": null(), "code_hash": null(), "code_expires_at": null()},
    ),
    Holding(
        rulings,
        rulings.c.by_player,
        told=(
            *("tournament_id", "number", "at", "by_player", "kind", "entry_id"),
            *("deal_no", "attempt", "round", "terms", "reason", "reversed_by"),
        ),
        removed=false(),
    ),
    Holding(
        events,
        events.c.by_player,
        told=(
            *("tournament_id", "number", "at", "kind", "public", "by_player"),
            *("entry_id", "reason", "data"),
        ),
        removed=false(),
    ),
    Holding(
        jobs,
        jobs.c.by_player,
        told=(
            *("tournament_id", "id", "kind", "by_player", "reason", "started_at", "total"),
            *("done", "cursor", "state", "finished_at"),
        ),
        withheld={"findings": "it is about the entries of others"},
        removed=false(),
    ),
    Holding(
        webhooks,
        webhooks.c.created_by,
        told=(
            *("tournament_id", "id", "created_at", "created_by", "url", "kinds", "cursor"),
            *("again_next", "again_last", "failures", "failing_since", "due_at", "held_until"),
            "disabled_at",
        ),
        withheld={"secret": "it is told once, when the webhook is made"},
    ),
)
"""Every table that holds something of a person. A table or column of which nothing is said here
cannot be added: a test compares."""


IMPERSONAL: Final = frozenset(
    {
        "acts",
        "tournament_rounds",
        "tournament_deals",
        "tournament_standings",
        "tournament_results",
        "webhook_deliveries",
    }
)
"""Tables that name no person: of acts, tournaments and entries, whose player another one names."""


def unclassified() -> Iterator[str]:
    """Yield the columns of which nothing is said here, as ``table.column``."""
    said = {
        (holding.table.name, name)
        for holding in HOLDINGS
        for name in (*holding.told, *holding.withheld)
    }
    for table in metadata.tables.values():
        for column in table.c if table.name not in IMPERSONAL else ():
            if (table.name, column.name) not in said:
                yield f"{table.name}.{column.name}"
