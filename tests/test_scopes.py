"""Every operation with every kind of token: what the contract says of scopes is what happens."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from client import Client, Person, expect, problem, published, unknown_id
from documents import header, played
from flask import Flask
from hall import enter, organiser
from werkzeug.test import TestResponse

from service import players, tokens
from service.access import MANAGE, PLAY, READ
from service.api.examples import operations
from service.app import create_app
from service.settings import Settings
from service.store.database import Database
from service.tokens import FIRST_SCOPES, SCOPES
from service.tournaments.model import JOIN, ORGANISE

OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, method, operation in operations(published())
    # What is served at another address is tried there: see test_stream.py.
    if "security" in operation and "servers" not in operation
}
TOKENS: dict[str, tuple[str, ...]] = {
    "none": (),
    **{scope: (scope,) for scope in SCOPES},
    "those of a first token": FIRST_SCOPES,
    **{f"all but {scope}": tuple(one for one in SCOPES if one != scope) for scope in SCOPES},
    "all": SCOPES,
}
OVER = ("finaliseTournament", "reopenTournament", "getResults", "getResultsEdition")
"""Operations on what is over, all but the first on what is final."""
BY_REQUEST = {
    "createToken": "each scope that is asked for",
    "revokeToken": "none to revoke itself, all of a first token to revoke another",
}
"""Operations that need scopes, or none, by what is asked of them; see test_accounts.py."""


def needed(name: str) -> list[str]:
    """Return the scopes that an operation needs, as the contract says."""
    scopes: list[str] = OPERATIONS[name][2]["security"][-1]["token"]
    return scopes


@dataclass
class Holder:
    """A player with a token of some scopes."""

    owner: Person
    person: Person
    token: UUID
    scopes: tuple[str, ...]
    database: Database

    def ask(self, name: str, client: Client | None = None) -> TestResponse:
        """Return the answer to a request that would succeed with a token that is good for it."""
        method, path, operation = OPERATIONS[name]
        game = self.owner.create("royal")
        if name == "undoMove":
            game = self.owner.move(game, game["legal_moves"][0])
        ids = {"game_id": game["id"], "token_id": str(self.token)}
        if "{tournament_id}" in path:
            ids["tournament_id"] = self.owner_of_one(name)
            ids["number"] = ids["ruling"] = ids["edition"] = "1"
            ids |= self.made_there(name, path, ids["tournament_id"])
        if "{import_id}" in path:
            ids["import_id"] = imported(self.owner)
        for parameter in re.findall("{(.*?)}", path):
            path = path.replace(f"{{{parameter}}}", ids.get(parameter) or unknown_id())
        body: Any = None
        kind = "application/json"
        if name == "takeEntryOver":
            body = {"code": ids["code"]}
        elif name == "createToken":
            body = {"scopes": self.scopes or FIRST_SCOPES}
        elif name in {"undoMove", "resignGame"}:
            body = {"ply": game["ply"]}
        elif "requestBody" in operation:
            contents = operation["requestBody"]["content"].items()
            kind, content = next(one for one in contents if "examples" in one[1])
            body = next(iter(content["examples"].values()))["value"]
        headers = {"Content-Type": kind}
        if name == "editTournament":
            # The path of what is edited is what its host reads.
            host = organiser(self.owner, self.database)
            headers["If-Match"] = host.get(path).headers["ETag"]
        return (client or self.person).ask(method, path, body, headers=headers)

    def owner_of_one(self, name: str) -> str:
        """Return the id of a tournament of the owner's that is private, and under way."""
        host = organiser(self.owner, self.database)
        # Its hosts are not let in by that alone.
        seen = "public" if name == "enterTournament" else "private"
        plan = host.draft((0, 600, 1), (700, 800, 1), visibility=seen)
        if name == "editTournament":
            return str(plan["id"])
        host.act(plan, "publish")
        if name not in {"enterTournament", "takeEntryOver"}:
            enter(host, plan)
        if name == "revealRound":
            host.elapse(plan, 650)
        if name == "reverseRuling":
            ruled = {"kind": "extend", "round": 1, "ms": 1, "reason": "to be taken back"}
            expect(host.act(plan, "rulings", ruled), 201)
        if name in OVER:
            host.elapse(plan, 850)
        if name in OVER[1:]:
            expect(host.act(plan, "finalise"))
        return str(plan["id"])

    def made_there(self, name: str, template: str, tournament: str) -> dict[str, str]:
        """Return what an operation on a tournament is about, by names of its path's parameters."""
        if "{job_id}" in template:
            return {"job_id": self.rejudged(tournament)}
        host, path = organiser(self.owner, self.database), f"/v1/tournaments/{tournament}"
        if "{webhook_id}" in template:
            made = expect(host.post(f"{path}/webhooks", {"url": "https://example.org/"}), 201)
            return {"webhook_id": made["webhook"]["id"]}
        if name in {"giveRole", "takeRole"}:
            other = self.owner.register("Bea").id
            expect(host.ask("PUT", f"{path}/roles/{other}", {"role": "viewer"}))
            return {"player_id": other}
        if name == "createEntryCode":
            return {"entry_id": expect(host.get(f"{path}/entries/me"))["id"]}
        if name not in {"revokeInvite", "takeEntryOver"}:
            return {}
        invite = expect(host.post(f"{path}/invites", {}), 201)
        if name == "revokeInvite":
            return {"invite_id": invite["id"]}
        entry = enter(self.owner.register("Bea"), {"links": {"self": path}}, invite["code"])["id"]
        given = host.post(f"{path}/entries/{entry}/code", {"reason": "a trial"})
        return {"code": expect(given, 201)["code"]}

    def rejudged(self, tournament: str) -> str:
        """Return the id of a rejudging that may be applied."""
        host, path = organiser(self.owner, self.database), f"/v1/tournaments/{tournament}"
        job = expect(host.post(f"{path}/rejudgings", {"reason": "a trial"}), 202)
        assert expect(host.get(job["links"]["self"]))["state"] == "proposed"
        return str(job["id"])


def imported(who: Person) -> str:
    """Return the id of a replay that was imported."""
    document = played(header(), ["resign"])
    return str(expect(who.post("/v1/replays", document), 201)["id"])


def holder(ada: Person, database: Database, scopes: tuple[str, ...]) -> Holder:
    text, token = tokens.draw(), uuid4()
    now = database.now()
    database.run(
        lambda connection: players.give_token(
            connection, now, token, UUID(ada.id), text, scopes, None
        )
    )
    return Holder(ada, replace(ada, token=text), token, scopes, database)


@pytest.fixture(scope="module")
def away() -> Iterator[Flask]:
    """A service whose database is away."""
    database = Database("postgresql:///nowhere?host=/nowhere", timeout=1)
    yield create_app(Settings(rate_limits="off"), database)
    database.dispose()


@pytest.mark.parametrize("held", TOKENS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_token_is_good_for_what_the_contract_says_and_for_nothing_else(
    ada: Person, database: Database, name: str, held: str
) -> None:
    scopes = TOKENS[held]
    lacking = [scope for scope in needed(name) if scope not in scopes]
    if name == "createToken" and not scopes:
        lacking = list(FIRST_SCOPES)

    answer = holder(ada, database, scopes).ask(name)

    if lacking:
        refused = problem(answer)
        assert refused == (403, "scope-missing")
        assert refused.body["required_scope"] == lacking[0]
    else:
        assert answer.status_code in {200, 201, 202, 204}, answer.get_data(as_text=True)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_revoked_token_is_good_for_nothing(ada: Person, database: Database, name: str) -> None:
    revoked = holder(ada, database, SCOPES)
    ada.ask("DELETE", f"/v1/tokens/{revoked.token}")

    assert problem(revoked.ask(name)) == (401, "token-invalid")


@pytest.mark.parametrize("name", OPERATIONS)
def test_without_a_token_nothing_is_had_that_needs_one(
    ada: Person, client: Client, database: Database, name: str
) -> None:
    answer = holder(ada, database, SCOPES).ask(name, client)

    if name == "verifyReplay":
        assert expect(answer)["verdict"] == "valid"
    elif name == "listTournaments":
        assert answer.status_code == 200
    elif {} in OPERATIONS[name][2]["security"]:
        # The game is in play, the tournament private.
        assert problem(answer) == (404, "not-found")
    else:
        assert problem(answer) == (401, "token-missing")


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_mistyped_token_is_refused_without_asking_the_database(
    ada: Person, database: Database, away: Flask, name: str
) -> None:
    held = holder(ada, database, SCOPES)
    text = held.person.token
    assert text is not None
    mistyped = text[:-1] + ("0" if text[-1] != "0" else "1")

    refused = held.ask(name, replace(held.person, app=away, token=mistyped))
    looked_up = held.ask(name, replace(held.person, app=away))

    assert problem(refused) == (401, "token-invalid")
    assert problem(looked_up) == (503, "database-unavailable")


def test_the_contract_says_in_words_too_which_scopes_a_token_needs() -> None:
    for name, (_, _, operation) in OPERATIONS.items():
        told = re.search(r"Scopes? of the token: (.*)\.$", operation["description"])
        found = re.findall("`(.*?)`", told[1]) if told else []
        assert found == needed(name)
        assert bool(found) != (name in BY_REQUEST)
        assert tuple(found) in {READ, PLAY, MANAGE, JOIN, ORGANISE, ()}
