"""The examples of the contract: a scripted session against the service, and what it was answered.

Ids, tokens and seeds are drawn from a fixed sequence, and the database's clock is one that is set,
so that the same session gives the same bytes. Run as a program it writes the examples anew.
"""

import asyncio
import logging
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import gettempdir
from typing import Any, LiteralString
from unittest.mock import patch
from uuid import UUID

import httpx
import orjson
import psycopg
from client import NDJSON, Client, Contract
from documents import SIGNING_KEYS
from flask import Flask
from server import libpq, new_database
from starlette.applications import Starlette
from werkzeug.wrappers import Response

from service.api.problems import PROBLEMS
from service.app import create_app
from service.settings import Settings
from service.signatures import SigningKeys
from service.store import schema
from service.store.database import Database
from service.store.embedded import EmbeddedPostgres
from service.stream import Hub
from service.stream import create_app as create_streams

Json = dict[str, Any]

FILE = Path(__file__).parents[1] / "service/api/examples.json"
BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)
STEP = timedelta(milliseconds=1520)
KEPT_HEADERS = ("ETag", "Link", "Location", "Retry-After", "WWW-Authenticate")

CLOCK = """
    CREATE SCHEMA clock;
    CREATE TABLE clock.instant (value timestamptz NOT NULL);
    INSERT INTO clock.instant VALUES ('{begin}');
    CREATE FUNCTION clock.now() RETURNS timestamptz STABLE LANGUAGE sql
        RETURN (SELECT value FROM clock.instant);
    CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
        RETURN (SELECT value FROM clock.instant);
    DO $$ BEGIN EXECUTE format(
        'ALTER DATABASE %I SET search_path = clock, pg_catalog, public', current_database()
    ); END $$;
"""


@contextmanager
def determined() -> Iterator[None]:
    """Have all that is drawn come from a fixed sequence."""
    source = Random("examples")
    count = iter(range(1_000_000))

    def uuid7() -> UUID:
        ms = int(BEGIN.timestamp() * 1000) + next(count)
        return UUID(int=ms << 80 | 7 << 76 | source.getrandbits(12) << 64 | 2 << 62 | next(count))

    with (
        patch("service.store.database.uuid7", uuid7),
        patch.object(secrets, "token_bytes", lambda size=32: source.randbytes(size)),
        patch.object(secrets, "choice", source.choice),
    ):
        yield


@contextmanager
def clocked(postgres: EmbeddedPostgres) -> Iterator[str]:
    """Give the URL of a database of its own whose clock stands until it is set."""
    with new_database(postgres) as url:
        database = Database(url)
        schema.upgrade(database.engine)
        database.dispose()
        with psycopg.connect(libpq(url), autocommit=True) as connection:
            connection.execute(CLOCK.format(begin=BEGIN.isoformat()).encode())
        yield url


@dataclass
class Session:
    """Somebody who asks the service, and keeps some of the answers."""

    app: Flask
    contract: Contract
    admin: psycopg.Connection[Any]
    exchanges: list[Json] = field(default_factory=list)
    token: str | None = None
    asked: int = 0
    skipped: timedelta = timedelta()

    def change(self, statement: LiteralString, *values: Any) -> None:
        """Change a row behind the service's back."""
        self.admin.execute(statement, values)

    def show(self, name: str, summary: str, *request: Any, **options: Any) -> Any:
        """Ask what succeeds, keep it as an example of this name, and return the answer's value."""
        status, value = self._keep(name, summary, *request, **options)
        assert status < 300, value
        return value

    def refuse(self, code: str, *request: Any, **options: Any) -> None:
        """Ask what is refused, and keep the exchange as the example of the problem."""
        status, value = self._keep(code, PROBLEMS[code][1], *request, **options)
        assert (status, value["code"]) == (PROBLEMS[code][0], code), value

    def _keep(self, name: str, summary: str, *request: Any, **options: Any) -> tuple[int, Any]:
        method, path = request[:2]
        answer, sent = self._ask(*request, **options)
        media_type = answer.mimetype or ""
        value: Any = answer.get_data(as_text=True)
        if media_type.endswith("json") and not media_type.endswith("ndjson"):
            value = orjson.loads(answer.data)
        asked: Json = {"method": method, "path": path, "headers": sent}
        if (body := _body(*request[2:], **options)) is not None:
            asked["body"] = body
        headers = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
        told: Json = {
            "status": answer.status_code,
            "media_type": media_type,
            "headers": headers,
            "body": value,
        }
        operation = self.contract.operation(method, path)
        assert operation, (method, path)
        exchange = {
            "operation": operation["operationId"],
            "name": name,
            "summary": summary,
            "request": asked,
            "answer": told,
        }
        self.exchanges.append(exchange)
        return answer.status_code, value

    def ask(self, *request: Any, **options: Any) -> Any:
        """Ask, and return the answer's value."""
        answer, _ = self._ask(*request, **options)
        assert answer.status_code < 300, answer.data
        return orjson.loads(answer.data)

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        data: bytes | None = None,
        token: str | None = "",
        headers: Mapping[str, str] = {},
        of: Flask | Starlette | None = None,
    ) -> tuple[Response, dict[str, str]]:
        self.asked += 1
        self.change("UPDATE clock.instant SET value = %s", BEGIN + self.asked * STEP + self.skipped)
        sent = {"X-Request-Id": f"example-{self.asked}", **headers}
        token = self.token if token == "" else token
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if body is not None or data is not None:
            sent.setdefault("Content-Type", "application/json")
        if isinstance(of, Starlette):
            return self._hear(of, path, sent), sent
        client = Client(of or self.app, self.contract)
        return client.ask(method, path, body, data=data, headers=sent), sent

    def _hear(self, streams: Starlette, path: str, headers: Mapping[str, str]) -> Response:
        """Ask the streams for the events of what has ended."""

        async def hear() -> httpx.Response:
            transport = httpx.ASGITransport(streams)
            async with httpx.AsyncClient(transport=transport, base_url="http://streams") as client:
                return await client.get(path, headers=headers)

        heard = asyncio.run(hear())
        answer = Response(heard.content, heard.status_code, list(heard.headers.items()))
        if answer.is_json:
            self.contract.hold("GET", path, answer)
        return answer


def _body(body: Any = None, *, data: bytes | None = None, **_: Any) -> Any:
    return body if data is None else data[:80].decode()


def rules(session: Session) -> None:
    """What the service offers."""
    show = session.show
    show("offers", "What this service offers", "GET", "/v1")
    show("rulesets", "All rulesets", "GET", "/v1/rulesets")
    name = "royal-rendezvous-1"
    show("default-ruleset", "The default ruleset", "GET", f"/v1/rulesets/{name}")
    show("royal-deal", "The deal of a seed", "GET", f"/v1/deals/deal-1/{name}?seed=royal")
    numbered = "/v1/deals/pysol-1/royal-rendezvous-pysol-1?seed=123456"
    show("numbered-deal", "A numbered deal of PySolFC", "GET", numbered)


def players(session: Session) -> None:
    """Becoming a player; whose token it is from then on; what else a player may do."""
    show, refuse = session.show, session.refuse
    made = show("ada", "A new player", "POST", "/v1/players", {"name": "Ada"})
    session.token = made["token"]
    show("ada", "Whose token it is", "GET", "/v1/players/me")
    show("one-token", "The first token", "GET", "/v1/tokens")
    bot = {"scopes": ["games:read", "games:play"], "days": 90}
    minted = show("for-a-bot", "A token for a bot", "POST", "/v1/tokens", bot)
    wide = {"scopes": ["games:read", "admin"]}
    refuse("scope-missing", "POST", "/v1/tokens", wide)
    show("two-tokens", "A token and one that it minted", "GET", "/v1/tokens")
    family = f"/v1/tokens/{minted['id']}?minted=true"
    show("with-minted", "A token and what it minted are revoked", "DELETE", family)
    name = {"name": "Ada Lovelace"}
    show("other-name", "Another name", "PATCH", "/v1/players/me", name)
    show("all-rows", "A player without games", "GET", "/v1/players/me/export")
    other = session.ask("POST", "/v1/players", {"name": "Bea"})["token"]
    spare = session.ask("GET", "/v1/tokens", token=other)["tokens"][0]["id"]
    show("gone", "A token is revoked", "DELETE", f"/v1/tokens/{spare}", token=other)
    refuse("token-invalid", "GET", "/v1/players/me", token=other)
    other = session.ask("POST", "/v1/players", {"name": "Cy"})["token"]
    show("all-gone", "All tokens are revoked", "DELETE", "/v1/tokens", token=other)
    other = session.ask("POST", "/v1/players", {"name": "Di"})["token"]
    show("deleted", "A player is deleted", "DELETE", "/v1/players/me", token=other)


def games(session: Session) -> None:
    """A practice game from its first move to its replay, and one with a hidden deal."""
    show, refuse = session.show, session.refuse
    new = {"deal": {"seed": "royal"}}
    path = "/v1/games/" + show("practice", "A game of a seed", "POST", "/v1/games", new)["id"]
    first = {"ply": 0, "moves": [{"from": "r2"}, {"from": "r8", "to": "upper-H"}]}
    show("two-moves", "Two moves", "POST", f"{path}/moves", first)
    named = {"ply": 2, "moves": [{"from": "r6", "to": "lower-D", "card": "3D"}]}
    show("named-card", "A move that names its card", "POST", f"{path}/moves", named)
    show("take-back", "The move is taken back", "POST", f"{path}/undo", {"ply": 3})
    show("now", "A game as it stands", "GET", path)
    show("earlier", "The game as it was after one move", "GET", f"{path}?ply=1")

    stock = {"from": "r1", "to": "stock"}
    refuse("illegal-move", "POST", f"{path}/moves", {"ply": 4, "moves": [stock]})
    other = {"from": "r6", "to": "lower-D", "card": "KH"}
    refuse("card-mismatch", "POST", f"{path}/moves", {"ply": 4, "moves": [other]})
    refuse("stale-ply", "POST", f"{path}/moves", {"ply": 1, "moves": [{"from": "r1"}]})
    refuse("ply-not-reached", "GET", f"{path}?ply=40")

    key = {"Idempotency-Key": "8e03978e-40d5-43dd-bc93-6894a57f9324"}
    create = ("POST", "/v1/games")
    hidden = show("hidden", "A game with a hidden deal", *create, {}, headers=key)
    refuse("idempotency-key-reused", *create, new, headers=key)
    unknown = f"/v1/games/{hidden['id']}"
    batch = {"ply": 0, "moves": [*hidden["legal_moves"][:1], {"from": "r1"}]}
    refuse("batch-past-hidden-card", "POST", f"{unknown}/moves", batch)
    refuse("undo-off", "POST", f"{unknown}/undo", {"ply": 0})

    show("given-up", "The game is given up", "POST", f"{path}/resign", {"ply": 4})
    show("ended-and-playing", "One's games", "GET", "/v1/games")
    show("first-page", "A page of one game", "GET", "/v1/games?limit=1")
    refuse("game-over", "POST", f"{path}/resign", {"ply": 5})
    refuse("unknown-cursor", "GET", "/v1/games?cursor=x")

    replay = show("given-up", "A game's replay", "GET", f"{path}/replay", token=None)
    verify = ("POST", "/v1/replays/verify")
    show("valid", "A sound document", *verify, replay, token=None)
    tampered = {**replay, "result": {**replay["result"], "score": 104}}
    show("tampered", "Another score", *verify, tampered, token=None)
    bulk(session, replay, tampered)

    fresh = "/v1/games/" + session.ask("POST", "/v1/games", new)["id"]
    refuse("nothing-to-undo", "POST", f"{fresh}/undo", {"ply": 0})
    session.ask("POST", f"{fresh}/moves", {"ply": 0, "moves": [{"from": "r2"}]})
    session.change(
        "UPDATE games SET ply = 1999, times = decode(repeat('00', 1999), 'hex'), log = decode("
        "repeat(encode(log, 'hex') || 'ff', 999) || encode(log, 'hex'), 'hex') WHERE id = %s",
        fresh[-36:],
    )
    refuse("log-full", "POST", f"{fresh}/undo", {"ply": 1999})
    session.change("UPDATE games SET log = '\\xfc' || substr(log, 2) WHERE id = %s", fresh[-36:])
    refuse("broken-log", "GET", fresh)


def bulk(session: Session, replay: Json, tampered: Json) -> None:
    """Replays one a line, and one that is brought in."""
    show, refuse = session.show, session.refuse
    many = {"data": b"{}\n" + b'{"end": true, "count": 1}\n', "headers": {"Content-Type": NDJSON}}
    show("one-line", "Documents one a line", "POST", "/v1/replays/verify", token=None, **many)
    show("one-game", "A game that has ended", "GET", "/v1/replays?status=resigned")

    bring = ("POST", "/v1/replays")
    made = show("given-up", "A replay is imported", *bring, replay)
    refuse("replay-refused", *bring, tampered)
    show("one-import", "One's imported replays", "GET", "/v1/imports")
    show("given-up", "The replay as it was imported", "GET", made["links"]["self"])
    show("forgotten", "An imported replay is forgotten", "DELETE", made["links"]["self"])
    session.change(
        "INSERT INTO imports (id, player_id, created_at, ruleset, status, score, digest, document)"
        " SELECT gen_random_uuid(), %s, now(), 'royal-rendezvous-1', 'lost', 12,"
        " int4send(n), '{}' FROM generate_series(1, 1000) AS n",
        replay["header"]["player"],
    )
    refuse("imports-full", *bring, replay)
    session.change("DELETE FROM imports")


def doubles(session: Session) -> None:
    """A card that fits two foundations."""
    for seed in range(50):
        game = session.ask("POST", "/v1/games", {"deal": {"seed": str(seed)}})
        moves = f"/v1/games/{game['id']}/moves"
        while game["status"] == "playing":
            places = [move["from"] for move in game["legal_moves"]]
            double = next((place for place in places if places.count(place) > 1), None)
            if double:
                body = {"ply": game["ply"], "moves": [{"from": double}]}
                session.refuse("ambiguous-move", "POST", moves, body)
                return
            first = {"ply": game["ply"], "moves": game["legal_moves"][:1]}
            game = session.ask("POST", moves, first)


def at(session: Session, minutes: int) -> str:
    """Return an instant so many minutes from now."""
    instant = BEGIN + session.asked * STEP + session.skipped + timedelta(minutes=minutes)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def another(session: Session, name: str, *scopes: str) -> str:
    """Return the token of a further player, with further scopes."""
    token = str(session.ask("POST", "/v1/players", {"name": name}, token=None)["token"])
    found = session.ask("GET", "/v1/players/me", token=token)["token"]
    session.change("UPDATE tokens SET scopes = scopes || %s WHERE id = %s", list(scopes), found)
    return token


def tournaments(session: Session) -> None:
    """A tournament of two rounds from its draft to its end, and what it refuses."""
    ada = session.token or ""
    session.token = another(session, "Grace", "tournaments:organise")
    plan, path = hosting(session)
    playing(session, path, ada)
    coded = {**plan, "entry": {"by": "code", "opens_at": at(session, 0)}}
    coded["rounds"] = [{"starts_at": at(session, 60), "ends_at": at(session, 120), "deals": 10}]
    path = session.ask("POST", "/v1/tournaments", coded)["links"]["self"]
    session.ask("POST", f"{path}/publish")
    code = {"code": "7K2QF-9XW4M-ABCDE-23456"}
    session.refuse("invite-invalid", "POST", f"{path}/entries", code, token=ada)
    deciding(session, ada)
    session.token = ada


def deciding(session: Session, ada: str) -> None:
    """What hosts rule on a tournament under way, and what they take back."""
    show, refuse = session.show, session.refuse
    now = {"starts_at": at(session, 0), "ends_at": at(session, 60), "deals": 1}
    plan = {"title": "A judged evening", "rounds": [now], "warm_up": True}
    path = session.ask("POST", "/v1/tournaments", plan)["links"]["self"]
    session.ask("POST", f"{path}/publish")
    entry = session.ask("POST", f"{path}/entries", {}, token=ada)["id"]
    game = session.ask("POST", f"{path}/attempts", {"deal": 1}, token=ada)
    rule = ("POST", f"{path}/rulings")
    longer = {"kind": "extend", "round": 1, "ms": 60_000, "reason": "the network was down"}
    key = {"Idempotency-Key": "one-more-minute"}
    show("more-time", "A round goes on for a minute more", *rule, longer, headers=key)
    session.ask("POST", f"{game['links']['self']}/resign", {"ply": 0}, token=ada)
    attempt = {"entry": entry, "deal": 1, "attempt": 1}
    terms = {"terms": {"cards": 3}, "reason": "three cards were moved on paper"}
    show("other-result", "A result is adjusted", *rule, {"kind": "adjust", **attempt, **terms})
    back = {"reason": "it was another player's paper"}
    show("taken-back", "A ruling is taken back", "POST", f"{path}/rulings/2/reversal", back)
    out = {"kind": "disqualify", "entry": entry, "reason": "two players at one screen"}
    show("out", "An entry is disqualified", *rule, out)
    refuse("bad-ruling", *rule, {**out, "kind": "admit"})
    show("three-and-one-back", "Rulings", "GET", f"{path}/rulings", token=None)
    sharing(session, path, entry, ada)


def sharing(session: Session, path: str, entry: str, ada: str) -> None:
    """Who else hosts it, who may enter, and an entry that changes hands."""
    show, refuse = session.show, session.refuse
    bea = another(session, "Bea")
    who = session.ask("GET", "/v1/players/me", token=bea)["player"]["id"]
    part = f"{path}/roles/{who}"
    show("director", "A director", "PUT", part, {"role": "director"})
    show("one-director", "Who hosts it", "GET", f"{path}/roles")
    with patch("service.tournaments.roles.MAX_ROLES", 1):
        cy = session.ask("GET", "/v1/players/me", token=another(session, "Cy"))["player"]["id"]
        refuse("too-many-roles", "PUT", f"{path}/roles/{cy}", {"role": "viewer"})
    show("no-director", "A part is taken", "DELETE", part)
    code = {"uses": 40, "days": 2}
    made = show("for-forty", "A code for forty players", "POST", f"{path}/invites", code)
    show("one-code", "Invites", "GET", f"{path}/invites")
    with patch("service.tournaments.invites.MAX_INVITES", 1):
        refuse("too-many-invites", "POST", f"{path}/invites", code)
    show("no-code", "A code is revoked", "DELETE", f"{path}/invites/{made['id']}")
    lost = {"reason": "the player's phone is lost"}
    given = show("for-ada", "A code for an entry", "POST", f"{path}/entries/{entry}/code", lost)
    take = ("POST", f"{path}/entries/takeover", {"code": given["code"]})
    refuse("already-entered", *take, token=ada)
    show("taken-over", "An entry as its new player's", *take, token=bea)
    session.ask("POST", f"{path}/entries", {}, token=ada)
    show("one-hall", "Entries from one address", "GET", f"{path}/report")


def hosting(session: Session) -> tuple[Json, str]:
    """A draft that becomes public; returns its plan and path."""
    show, refuse = session.show, session.refuse
    made = ("POST", "/v1/tournaments")
    first = {"starts_at": at(session, 60), "ends_at": at(session, 120), "deals": 2}
    final = {
        "starts_at": at(session, 130),
        "ends_at": at(session, 190),
        "deals": 1,
        "cut": {"by": "top", "value": 1},
    }
    plan = {"title": "Thursday's deals", "limit_ms": 1_200_000, "rounds": [first, final]}
    key = {"Idempotency-Key": "thursday"}
    path = show("two-rounds", "A tournament of two rounds", *made, plan, headers=key)["links"][
        "self"
    ]
    refuse("bad-tournament", *made, {**plan, "rounds": [final]})
    show("own-draft", "A draft", "GET", path)
    seen = {"If-Match": session.exchanges[-1]["answer"]["headers"]["ETag"]}
    change = {"entry": {"capacity": 2}, "reveal": "by-hand"}
    show("more-of-it", "A draft is changed", "PATCH", path, change, headers=seen)
    refuse("stale-version", "PATCH", path, change, headers=seen)
    refuse("precondition-needed", "PATCH", path, change)
    show("published", "Deals are sealed", "POST", f"{path}/publish")
    show("public", "Public tournaments", "GET", "/v1/tournaments", token=None)
    return plan, path


def playing(session: Session, path: str, ada: str) -> None:
    """Two entries, of which one plays a deal and one is late."""
    show, refuse = session.show, session.refuse
    join = ("POST", f"{path}/entries")
    refuse("not-entered", "GET", f"{path}/entries/me", token=ada)
    show("entered", "An entry", *join, {}, token=ada)
    bea = another(session, "Bea")
    session.ask(*join, {}, token=bea)
    refuse("tournament-full", *join, {}, token=another(session, "Cy"))
    start = ("POST", f"{path}/attempts", {"deal": 1})
    refuse("deal-closed", *start, token=ada)
    session.skipped += timedelta(minutes=70)
    game = show("started", "An attempt at a sealed deal", *start, token=ada)
    play = f"{game['links']['self']}/moves"
    game = session.ask("POST", play, {"ply": 0, "moves": game["legal_moves"][:1]}, token=ada)
    end = f"{game['links']['self']}/resign"
    session.ask("POST", end, {"ply": game["ply"]}, token=ada)
    refuse("attempts-used", *start, token=ada)
    show("one-played", "One's entry", "GET", f"{path}/entries/me", token=ada)
    show("overall", "Standings overall", "GET", f"{path}/standings", token=None)
    show("around-me", "Standings around one's entry", "GET", f"{path}/standings/around", token=ada)
    show("frozen", "The standings are frozen", "POST", f"{path}/freeze")
    refuse("role-missing", "GET", f"{path}/standings?view=live", token=bea)
    show("unfrozen", "And shown again", "POST", f"{path}/unfreeze")
    late = session.ask("POST", f"{path}/attempts", {"deal": 2}, token=bea)
    refuse("wrong-state", "POST", f"{path}/rounds/1/reveal")
    session.skipped += timedelta(minutes=60)
    first_move = {"ply": 0, "moves": late["legal_moves"][:1]}
    refuse("deadline-passed", "POST", f"{late['links']['self']}/moves", first_move, token=bea)
    refuse("not-through", "POST", f"{path}/attempts", {"deal": 3}, token=bea)
    refuse("entry-closed", *join, {}, token=another(session, "Di"))
    show("first-round", "A round's deals are revealed", "POST", f"{path}/rounds/1/reveal")
    show("all", "What was done, for its hosts", "GET", f"{path}/events")
    show("left", "An entry is withdrawn", "DELETE", f"{path}/entries/me", token=bea)
    show("off", "It is called off", "POST", f"{path}/cancel", {"reason": "the hall is closed"})


def series_of_three(session: Session) -> None:
    """A league of three weeks, from a template."""
    ada, session.token = session.token, another(session, "Hedy", "tournaments:organise")
    session.show("all-templates", "All templates", "GET", "/v1/tournament-templates")
    league: Json = {"template": "league-week", "at": "06:00", "zone": "Europe/Berlin"}
    league |= {"first": "2026-03-15", "every": "week", "count": 3}
    made = ("POST", "/v1/tournaments/series")
    session.show("three-weeks", "A league across the change of clocks", *made, league)
    session.token = ada


def judging(session: Session) -> None:
    """A tournament of one deal whose attempts are verified and judged again."""
    ada = session.token or ""
    session.token = another(session, "Hana", "tournaments:organise")
    show, refuse = session.show, session.refuse
    first = {"starts_at": at(session, 10), "ends_at": at(session, 40), "deals": 1}
    plan = {"title": "A short one", "rounds": [first]}
    path = session.ask("POST", "/v1/tournaments", plan)["links"]["self"]
    session.ask("POST", f"{path}/publish")
    session.ask("POST", f"{path}/entries", {}, token=ada)
    session.skipped += timedelta(minutes=12)
    game = session.ask("POST", f"{path}/attempts", {"deal": 1}, token=ada)
    session.ask("POST", f"{game['links']['self']}/resign", {"ply": 0}, token=ada)
    job = show("begun", "Attempts are verified", "POST", f"{path}/verifications")
    show("done", "A verification is done", "GET", job["links"]["self"])
    refuse("wrong-state", "POST", f"{job['links']['self']}/apply")
    again = ("POST", f"{path}/rejudgings", {"reason": "an attempt is disputed"})
    job = show("rejudging", "Attempts are judged again", *again)
    session.change("UPDATE games SET score = 104 WHERE id = %s", game["id"])
    show("found", "What would move", "GET", job["links"]["self"])
    show("applied", "It is applied", "POST", f"{job['links']['self']}/apply")
    job = session.ask("POST", f"{path}/rejudgings", {"reason": "another look"})
    show("dropped", "It is dropped", "POST", f"{job['links']['self']}/drop")
    session.change("UPDATE games SET score = 0, verified = NULL WHERE id = %s", game["id"])
    session.skipped += timedelta(minutes=30)
    refuse("not-verified", "POST", f"{path}/finalise")
    job = session.ask("POST", f"{path}/verifications")
    session.ask("GET", job["links"]["self"])
    show("final", "Results are final", "POST", f"{path}/finalise")
    show("final-results", "The results", "GET", f"{path}/results", token=None)
    show("first-results", "The first results", "GET", f"{path}/results/1", token=None)
    show("all-replays", "All attempts", "GET", f"{path}/replays", token=None)
    show("reopened", "They are final no more", "POST", f"{path}/reopen", {"reason": "a ruling"})
    session.token = ada


def following(session: Session) -> None:
    """A webhook, what was posted to it, and its end."""
    show, refuse = session.show, session.refuse
    ada, session.token = session.token, another(session, "Heidi", "tournaments:organise")
    now = {"starts_at": at(session, 0), "ends_at": at(session, 60), "deals": 1}
    plan = {"title": "A watched evening", "rounds": [now]}
    path = session.ask("POST", "/v1/tournaments", plan)["links"]["self"]
    make = ("POST", f"{path}/webhooks")
    wanted = {"url": "https://example.org/rendezvous", "kinds": ["published", "result", "cut"]}
    made = show("results", "Some events are posted", *make, wanted)["webhook"]
    with patch("service.tournaments.webhooks.MAX_WEBHOOKS", 1):
        refuse("too-many-webhooks", *make, wanted)
    session.ask("POST", f"{path}/publish")
    session.change(
        "INSERT INTO webhook_deliveries SELECT tournament_id, id, id, 2, 1, created_at, 503,"
        " 'answered 503' FROM webhooks"
    )
    show("one", "A tournament's webhooks", "GET", make[1])
    show("failed", "One that failed", "GET", made["links"]["deliveries"])
    again = {"from": 1, "to": 1}
    show("first", "The first event again", "POST", made["links"]["redeliveries"], again)
    show("removed", "A webhook is removed", "DELETE", made["links"]["self"])
    session.token = ada


def events(session: Session, url: str) -> None:
    """The live events of what has ended, for one who has seen all but the end."""
    game = next(
        one
        for one in session.ask("GET", "/v1/games?limit=100")["games"]
        if one["status"] == "resigned"
    )
    path = f"{game['links']['self']}/events"
    database = Database(url)

    def of(settings: Settings = Settings()) -> Starlette:  # noqa: B008 - it cannot change
        return create_streams(Hub(settings, database))

    seen = {"Last-Event-ID": str(game["ply"] - 1)}
    session.show("end", "What was missed, and the end", "GET", path, headers=seen, of=of())
    session.refuse("wrong-server", "GET", path)
    tournament = next(
        one
        for one in session.ask("GET", "/v1/tournaments?limit=100")["tournaments"]
        if one["state"] == "cancelled"
    )
    live = f"{tournament['links']['self']}/live"
    acts = session.ask("GET", f"{tournament['links']['self']}/events?limit=100")["events"]
    seen = {"Last-Event-ID": str(acts[-2]["number"])}
    session.show("end", "What was missed, and the end", "GET", live, headers=seen, of=of())
    session.refuse("too-many-streams", "GET", path, of=of(Settings(streams_per_token=0)))
    session.refuse("streams-full", "GET", path, of=of(Settings(streams=0)))
    database.dispose()


def requests(session: Session, url: str) -> None:
    """What is wrong with a request, whatever it asks for."""
    refuse = session.refuse
    refuse("token-missing", "GET", "/v1/players/me", token=None)
    refuse("not-found", "GET", f"/v1/games/{UUID(int=0)}")
    refuse("malformed-request", "GET", "/v1/games?limit=%ff")
    refuse("malformed-json", "POST", "/v1/games", data=b'{"deal": ')
    refuse("invalid-request", "POST", "/v1/games", {"ruleset": "chess", "seed": "royal"})
    number = {"deal": {"spec": "pysol-1", "seed": "twelve"}}
    refuse("bad-seed", "POST", "/v1/games", number)
    refuse("seed-needed", "POST", "/v1/games", {"deal": {"spec": "pysol-1"}})
    text = {"Content-Type": "text/plain"}
    refuse("unsupported-media-type", "POST", "/v1/games", data=b"royal", headers=text)
    refuse("body-too-large", "POST", "/v1/games", data=b" " * 70_000)

    database = Database(url)
    closed = create_app(Settings(registration="closed"), database)
    full = create_app(Settings(games_in_play=1), database)
    refuse("too-many-games", "POST", "/v1/games", {}, of=full)
    refuse("registration-closed", "POST", "/v1/players", {"name": "Cy"}, token=None, of=closed)
    with patch("service.players.MAX_TOKENS", 1):
        refuse("too-many-tokens", "POST", "/v1/tokens", {"scopes": ["games:read"]})
    limited = create_app(Settings(rate_anonymous="1 per minute"), database)
    limited.test_client().get("/v1/rulesets")
    refuse("rate-limited", "GET", "/v1/rulesets", token=None, of=limited)
    database.dispose()
    away = Database("postgresql:///nowhere?host=/nowhere", timeout=1)
    refuse("database-unavailable", "GET", "/v1", token=None, of=create_app(Settings(), away))
    away.dispose()


def record(postgres: EmbeddedPostgres) -> list[Json]:
    """Return what the scripted session asks and is answered."""
    with clocked(postgres) as url, psycopg.connect(libpq(url), autocommit=True) as admin:
        database = Database(url)
        app = create_app(Settings(), database, SigningKeys.load(SIGNING_KEYS))
        session = Session(app, Contract(app), admin)
        with determined():
            rules(session)
            players(session)
            games(session)
            doubles(session)
            tournaments(session)
            series_of_three(session)
            judging(session)
            following(session)
            events(session, url)
            requests(session, url)
        database.dispose()
    return session.exchanges


def main() -> None:
    """Write the examples anew."""
    logging.disable()
    home = Path(gettempdir()) / f"rendezvous-examples-{secrets.token_hex(4)}"
    postgres = EmbeddedPostgres(home)
    postgres.start()
    try:
        exchanges = record(postgres)
    finally:
        postgres.stop()
        shutil.rmtree(home)
    lines = ",\n".join(orjson.dumps(one).decode() for one in exchanges)
    FILE.write_text(f"[\n{lines}\n]\n")
    sys.stdout.write(f"{len(exchanges)} examples\n")


if __name__ == "__main__":
    main()
