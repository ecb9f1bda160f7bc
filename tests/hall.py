"""Tournaments for tests: a host, rounds told in seconds from now, and time that passes at once."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from client import Person, expect
from sqlalchemy import Connection, TextClause, text
from werkzeug.test import TestResponse

from service import players, tokens
from service.store.database import Database, new_id
from service.tokens import SCOPES

Json = dict[str, Any]

INSTANTS = {
    "tournaments": (
        *("created_at", "entry_opens_at", "entry_closes_at", "published_at", "cancelled_at"),
        *("frozen_at", "finalised_at", "told_at"),
    ),
    "tournament_rounds": ("starts_at", "ends_at", "closes_at", "reveals_at"),
    "tournament_entries": ("joined_at", "withdrawn_at", "code_expires_at"),
    "tournament_invites": ("created_at", "expires_at", "revoked_at"),
    "tournament_roles": ("given_at",),
    "tournament_rulings": ("at",),
    "tournament_events": ("at",),
    "webhooks": ("created_at", "failing_since", "due_at", "held_until", "disabled_at"),
    "webhook_deliveries": ("at",),
    "tournament_jobs": ("started_at", "finished_at"),
    "tournament_results": ("at",),
    "games": ("created_at", "deadline", "ended_at"),
}
"""Every instant that is stored of a tournament, by table."""


def rfc(instant: datetime) -> str:
    """Return an instant as a request has it."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def organiser(person: Person, database: Database, *scopes: str) -> "Host":
    """Return a person with a further token, of these scopes or of all but `admin`."""
    given = scopes or tuple(scope for scope in SCOPES if scope != "admin")
    drawn, now = tokens.draw(), database.now()
    database.run(
        lambda one: players.give_token(one, now, new_id(), UUID(person.id), drawn, given, None)
    )
    return Host(person.app, person.contract, drawn, person.id, database)


@dataclass
class Host(Person):
    """A player who hosts tournaments."""

    database: Database | None = None

    @property
    def store(self) -> Database:
        """The service's database."""
        assert self.database is not None
        return self.database

    def plan(self, *rounds: Any, **plan: Any) -> Json:
        """Return the body of a new tournament.

        Args:
            rounds: For each the seconds from now until its start and its end, its number of deals,
                and its cut if it has one.
            plan: Further members.
        """
        now = self.store.now()
        told = []
        for starts, ends, deals, *cut in rounds or ((0, 600, 2),):
            instants = {
                "starts_at": rfc(now + timedelta(seconds=starts)),
                "ends_at": rfc(now + timedelta(seconds=ends)),
            }
            told.append({**instants, "deals": deals, **({"cut": cut[0]} if cut else {})})
        return {"title": "An evening", "rounds": told, **plan}

    def draft(self, *rounds: Any, **plan: Any) -> Json:
        """Return a new draft."""
        return expect(self.post("/v1/tournaments", self.plan(*rounds, **plan)), 201)

    def tournament(self, *rounds: Any, **plan: Any) -> Json:
        """Return a new tournament that is published."""
        return expect(self.act(self.draft(*rounds, **plan), "publish"))

    def act(self, tournament: Json, what: str, body: Any = None) -> TestResponse:
        """Return the answer to an act on a tournament."""
        return self.post(f"{tournament['links']['self']}/{what}", body)

    def edit(self, tournament: Json, **change: Any) -> TestResponse:
        """Return the answer to a change of a tournament as it stands."""
        path = tournament["links"]["self"]
        tag = self.get(path).headers["ETag"]
        return self.ask("PATCH", path, change, headers={"If-Match": tag})

    def elapse(self, tournament: Json, seconds: float) -> None:
        """Have time pass: all that is stored of a tournament lies so much further back."""
        span = timedelta(seconds=seconds)
        for table, columns in INSTANTS.items():
            key = "id" if table == "tournaments" else "tournament_id"
            moved = ", ".join(f"{column} = {column} - :span" for column in columns)
            query = text(f"UPDATE {table} SET {moved} WHERE {key} = :id")  # noqa: S608
            self.store.run(partial(_execute, query, span=span, id=tournament["id"]))


def _execute(query: TextClause, connection: Connection, **values: Any) -> None:
    connection.execute(query, values)


def enter(person: Person, tournament: Json, code: str | None = None) -> Json:
    """Return a person's new entry."""
    body = {} if code is None else {"code": code}
    return expect(person.post(f"{tournament['links']['self']}/entries", body), 201)


def start(person: Person, tournament: Json, deal: int = 1) -> Json:
    """Return the game of a person's attempt at a deal."""
    return expect(try_to_start(person, tournament, deal), 201)


def try_to_start(person: Person, tournament: Json, deal: int = 1) -> TestResponse:
    """Return the answer to the start of an attempt."""
    return person.post(f"{tournament['links']['self']}/attempts", {"deal": deal})


def finish(person: Person, tournament: Json, deal: int = 1, plies: int = 0) -> Json:
    """Return an attempt at a deal that is given up after some moves, or ended before."""
    game = person.play(start(person, tournament, deal), plies)
    if game["status"] != "playing":
        return game
    return expect(person.act(game, "resign"))


def standings(person: Any, tournament: Json, query: str = "") -> list[Json]:
    """Return a page of standings."""
    found: list[Json] = board(person, tournament, query)["rows"]
    return found


def board(person: Any, tournament: Json, query: str = "") -> Json:
    """Return a page of standings with what is told of it."""
    return expect(person.get(f"{tournament['links']['self']}/standings{query}"))


def happened(person: Any, tournament: Json) -> list[Json]:
    """Return a tournament's events."""
    found: list[Json] = expect(person.get(f"{tournament['links']['self']}/events"))["events"]
    return found


def with_token(person: Person, token: str) -> Person:
    """Return a person who uses another token."""
    return replace(person, token=token)
