"""The report of entries that may be one person's: told to hosts alone, and never what is sealed."""

import pytest
from client import Client, Json, Person, expect, problem
from hall import Host, enter, finish, organiser, start
from werkzeug.test import TestResponse

from service.store.database import Database


@pytest.fixture
def host(client: Client, database: Database) -> Host:
    """A player who hosts tournaments."""
    return organiser(client.register("Grace"), database)


@pytest.fixture(autouse=True)
def _seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have deals drawn that are the same each time."""
    count = iter(range(10**6))
    monkeypatch.setattr("service.api.tournaments.draw_seed", lambda: f"{next(count):064x}")


def enter_from(person: Person, contest: Json, address: str) -> str:
    """Return the id of a person's new entry that is made from an address."""
    answer: TestResponse = person.app.test_client().post(
        f"{contest['links']['self']}/entries",
        json={},
        headers={"Authorization": f"Bearer {person.token}"},
        environ_overrides={"REMOTE_ADDR": address},
    )
    return str(expect(answer, 201)["id"])


def report(host: Person, contest: Json, query: str = "") -> Json:
    """Return the report on a tournament."""
    return expect(host.get(f"{contest['links']['self']}/report{query}"))


def test_s_99_who_shares_an_address_is_told_and_the_address_is_not(
    host: Host, client: Client
) -> None:
    """S-99: second accounts cannot be told for sure; what points to them is told to the hosts."""
    contest = host.tournament()
    people = [client.register(f"P{n}") for n in range(6)]
    places = [*("192.0.2.7", "192.0.2.8", "192.0.2.7", "192.0.2.9", "192.0.2.8", "192.0.2.7")]
    ids = [enter_from(*one) for one in zip(people, [contest] * 6, places, strict=True)]

    found = report(host, contest)

    assert [one["entries"] for one in found["addresses"]] == [
        [ids[0], ids[2], ids[5]],
        [ids[1], ids[4]],
    ]
    assert [one["count"] for one in found["addresses"]] == [3, 2]
    assert found["groups"] == {"addresses": 2, "logs": 0}
    assert "192.0.2" not in str(found)
    first = report(host, contest, "?limit=1")
    assert (len(first["addresses"]), first["groups"]["addresses"]) == (1, 2)


def test_s_99_equal_logs_are_told_by_entries_alone_the_longest_first(
    host: Host, ada: Person, bea: Person, client: Client
) -> None:
    """S-99: with how many there are to compare with; equal logs are no proof."""
    contest = host.tournament(attempts=2, warm_up=True)
    cy, di = client.register("Cy"), client.register("Di")
    ids = {one.id: enter(one, contest)["id"] for one in (ada, bea, cy, di)}
    for person, plies in ((ada, 5), (bea, 5), (cy, 2), (cy, 2), (di, 0)):
        finish(person, contest, plies=plies)
    for person in (ada, bea, cy):
        finish(person, contest, 2, plies=7)
        finish(person, contest, 3, plies=4)
    finish(di, contest, plies=0)
    start(di, contest, 2)

    found = report(host, contest)

    assert [(one["deal"], one["plies"], one["count"]) for one in found["logs"]] == [
        (2, 8, 3),
        (1, 6, 2),
    ]
    assert found["logs"][1]["entries"] == sorted((ids[ada.id], ids[bea.id]))
    assert found["deals"] == [
        {"deal": 1, "attempts": 4, "different": 2},
        {"deal": 2, "attempts": 3, "different": 1},
    ]
    assert set(found["logs"][0]) == {"deal", "plies", "count", "entries"}


def test_it_is_its_hosts_alone(host: Host, ada: Person, client: Client, database: Database) -> None:
    contest = host.tournament()
    enter(ada, contest)
    path = f"{contest['links']['self']}/report"

    assert problem(ada.get(path)) == (403, "scope-missing")
    assert problem(organiser(ada, database).get(path)) == (403, "role-missing")
    assert problem(client.get(path)) == (401, "token-missing")
    draft = host.draft()
    assert report(host, draft)["groups"] == {"addresses": 0, "logs": 0}
