"""Lists: pages that stay what they are, filters, and links that lead on and back."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from client import Json, Person, expect, problem, published, unknown_id
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from test_players import give
from werkzeug.test import TestResponse

from service.api.examples import operations
from service.store.database import Database

LISTS = {"/v1/games": "games", "/v1/tokens": "tokens"}


def links(answer: TestResponse) -> dict[str, str]:
    """Return where an answer's links lead, by their relations."""
    found = re.findall(r'<([^>]*)>; rel="([a-z]+)"(?:, |$)', answer.headers.get("Link", ""))
    assert len(found) == answer.headers.get("Link", "").count("rel=")
    return {relation: path for path, relation in found}


def ids(answer: TestResponse) -> list[str]:
    (items,) = expect(answer).values()
    return [item["id"] for item in items]


def walk(person: Person, page: TestResponse, way: str = "next") -> list[TestResponse]:
    """Return a page and those that follow from it."""
    found = [page]
    while way in links(found[-1]):
        found.append(person.get(links(found[-1])[way]))
    return found


def pages(person: Person, path: str) -> list[list[str]]:
    """Return the ids on the pages from a path on."""
    return [ids(page) for page in walk(person, person.get(path))]


def made(person: Person, path: str, count: int) -> list[str]:
    """Return a player's items, newest first, after so many were added."""
    for number in range(count):
        if path == "/v1/games":
            person.create(f"seed-{number}")
        else:
            person.post("/v1/tokens", {"scopes": ["games:read"]})
    return [one for page in pages(person, f"{path}?limit=100") for one in page]


@pytest.mark.parametrize("path", LISTS)
class TestPages:
    @pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8, 100])
    def test_s_71_pages_hold_every_item_once_and_no_more_than_asked_for(
        self, ada: Person, path: str, limit: int
    ) -> None:
        every = made(ada, path, 7 - (path == "/v1/tokens"))

        found = pages(ada, f"{path}?limit={limit}")

        assert [one for page in found for one in page] == every
        assert len(every) == 7
        assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
        assert len(found) == -(-7 // limit)

    @pytest.mark.parametrize("limit", [1, 2, 3, 6])
    def test_s_9_next_and_then_prev_gives_the_same_page(
        self, ada: Person, path: str, limit: int
    ) -> None:
        made(ada, path, 7)
        trail = walk(ada, ada.get(f"{path}?limit={limit}"), "next")
        assert "prev" not in links(trail[0])

        for before, after in pairwise(trail):
            back = ada.get(links(after)["prev"])
            assert back.data == before.data
            assert ids(ada.get(links(back)["next"])) == ids(after)
        back_again = walk(ada, trail[-1], "prev")

        assert len(trail) > 1
        assert [ids(page) for page in back_again] == [ids(page) for page in reversed(trail)]

    def test_s_9_pages_stay_what_they_are_while_items_are_added(
        self, ada: Person, path: str
    ) -> None:
        before = made(ada, path, 7)
        first = ada.get(f"{path}?limit=3")
        second = ada.get(links(first)["next"])
        more = made(ada, path, 4)[: -len(before)]

        third = ada.get(links(second)["next"])
        back = ada.get(links(ada.get(links(third)["prev"]))["prev"])
        newer = ada.get(links(back)["prev"])
        newest = ada.get(links(newer)["prev"])

        assert len(more) == 4
        assert ids(first) + ids(second) + ids(third) == before[:9]
        assert ids(back) == ids(first)
        assert ids(newest) + ids(newer) == more
        assert ids(ada.get(links(newer)["next"])) == ids(first)
        assert "prev" not in links(newest)

    def test_s_71_without_a_limit_there_is_one(self, ada: Person, path: str) -> None:
        made(ada, path, 22)

        assert len(ids(ada.get(path))) == 20

    @pytest.mark.parametrize("limit", ["0", "101", "-1", "1.0", "", "all", "1e1", "9" * 20])
    def test_s_71_a_limit_is_1_to_100(self, ada: Person, path: str, limit: str) -> None:
        refused = problem(ada.get(f"{path}?limit={limit}"))

        assert refused == (422, "invalid-request")
        assert [one["pointer"] for one in refused.body["errors"]] == ["#query/limit"]

    def test_the_limit_may_change_from_page_to_page(self, ada: Person, path: str) -> None:
        every = made(ada, path, 7)
        on = links(ada.get(f"{path}?limit=2"))["next"]

        assert ids(ada.get(on.replace("limit=2", "limit=3"))) == every[2:5]

    def test_a_cursor_leads_on_though_its_item_is_gone(
        self, ada: Person, path: str, database: Database
    ) -> None:
        every = made(ada, path, 7)
        on = links(ada.get(f"{path}?limit=3"))["next"]
        table = LISTS[path]
        delete = text(f"DELETE FROM {table} WHERE id = :id")  # noqa: S608
        database.run(lambda connection: connection.execute(delete, {"id": every[2]}))

        answer = ada.get(on)

        assert ids(answer) == every[3:6]
        assert ids(ada.get(links(answer)["prev"])) == every[:2]

    def test_a_cursor_is_good_for_its_own_list_alone(self, ada: Person, path: str) -> None:
        made(ada, path, 3)
        cursor = parse_qs(urlsplit(links(ada.get(f"{path}?limit=1"))["next"]).query)["cursor"][0]
        (other,) = set(LISTS) - {path}

        assert ada.get(f"{path}?cursor={cursor}").status_code == 200
        assert problem(ada.get(f"{other}?cursor={cursor}")) == (422, "unknown-cursor")

    def test_a_cursor_that_was_tampered_with_is_unknown(self, ada: Person, path: str) -> None:
        made(ada, path, 3)
        cursor = parse_qs(urlsplit(links(ada.get(f"{path}?limit=1"))["next"]).query)["cursor"][0]
        wrong = [
            *(cursor[:-1], cursor + "A", cursor + "AAAA", cursor[4:], "", "A" * 32, "_" * 32),
            *(f"C{cursor[1:]}", f"{cursor[:-1]}{'A' if cursor[-1] != 'A' else 'B'}"),
        ]

        for one in wrong:
            code = "unknown-cursor" if one else "invalid-request"
            assert problem(ada.get(f"{path}?cursor={one}")) == (422, code)

    def test_somebody_elses_items_are_on_no_page(self, ada: Person, bea: Person, path: str) -> None:
        theirs = made(bea, path, 3)
        on = links(bea.get(f"{path}?limit=1"))["next"]

        mine = made(ada, path, 3)

        assert set(theirs).isdisjoint(mine)
        assert set(ids(ada.get(on))) <= set(mine)


def test_s_71_every_list_in_the_contract_has_a_limit_with_default_and_maximum() -> None:
    """S-71: what answers with an array of things that can grow is paged."""
    found = {}
    for path, method, operation in operations(published()):
        if method == "get" and operation["operationId"].startswith("list"):
            named = {one["name"]: one["schema"] for one in operation.get("parameters", [])}
            found[path] = named.get("limit", {})
    assert found.pop("/v1/rulesets") == {}, "rulesets are ten, and part of the code"
    assert found.pop("/v1/tournament-templates") == {}, "templates are part of the code"
    assert found.pop("/v1/tournaments/{tournament_id}/webhooks") == {}, "a tournament has ten"
    assert set(found) >= set(LISTS)
    for path, limit in found.items():
        assert limit.get("default") == 20, path
        assert (limit["minimum"], limit["maximum"]) == (1, 100), path


RULESETS = ("royal-rendezvous-1", "royal-cotillion-1", "odd-and-even-1")
ENDS = (("won", 104), ("lost", 40), ("lost", 77), ("resigned", 12), ("timed-out", 40))


@dataclass
class Shelf:
    """A player and their games, newest first, as lists tell them."""

    person: Person
    games: list[Json]


@pytest.fixture(scope="module")
def shelf(app: Any, contract: Any, database: Database) -> Shelf:
    """Games of several rulesets and ends, a day apart."""
    person = Person(app, contract).register("Shelf")
    for number in range(24):
        game = person.create(f"seed-{number}", RULESETS[number % 3])
        values: Json = {"id": game["id"], "day": number + 1}
        instant = "make_timestamptz(2020, 1, :day, 12, 0, 0, 'UTC')"
        change = f"created_at = {instant}"
        if number % 4:
            values["status"], values["score"] = ENDS[number % 5]
            change += f", ended_at = {instant}, status = :status, score = :score"
        query = text(f"UPDATE games SET {change} WHERE id = :id")  # noqa: S608
        database.run(lambda connection: connection.execute(query, values))  # noqa: B023
    return Shelf(person, expect(person.get("/v1/games?limit=100"))["games"])


def fits(game: Json, filters: Json) -> bool:
    """Whether a game fits filters, said by hand."""
    score = game.get("score")
    return (
        filters.get("ruleset", game["ruleset"]) == game["ruleset"]
        and filters.get("status", game["status"]) == game["status"]
        and filters.get("created_after", "") <= game["created_at"]
        and game["created_at"] < filters.get("created_before", "9")
        and ("min_score" not in filters or (score is not None and score >= filters["min_score"]))
        and ("max_score" not in filters or (score is not None and score <= filters["max_score"]))
    )


INSTANTS = st.integers(1, 25).map(lambda day: f"2020-01-{day:02}T12:00:00.000Z")
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "ruleset": st.sampled_from(RULESETS),
        "status": st.sampled_from(["playing", "won", "lost", "resigned", "timed-out"]),
        "created_after": INSTANTS,
        "created_before": INSTANTS,
        "min_score": st.sampled_from([0, 12, 13, 40, 77, 104]),
        "max_score": st.sampled_from([0, 12, 39, 40, 77, 104]),
    },
)


class TestFilters:
    @settings(max_examples=150, deadline=None)
    @given(filters=FILTERS, limit=st.integers(1, 8))
    def test_s_41_filters_come_before_the_limit(
        self, shelf: Shelf, filters: Json, limit: int
    ) -> None:
        """S-41: every page but the last is full, and together they are all that fits."""
        query = "".join(f"&{name}={quote(str(value))}" for name, value in filters.items())
        expected = [game["id"] for game in shelf.games if fits(game, filters)]

        found = pages(shelf.person, f"/v1/games?limit={limit}{query}")

        assert [one for page in found for one in page] == expected
        assert all(len(page) == limit for page in found[:-1])

    def test_each_filter_alone_keeps_some_and_leaves_some_out(self, shelf: Shelf) -> None:
        each: list[Json] = [
            *[{"ruleset": one} for one in RULESETS],
            *[{"status": one} for one in ("playing", "won", "lost", "resigned", "timed-out")],
            {"created_after": "2020-01-12T12:00:00.000Z"},
            {"created_before": "2020-01-12T12:00:00.000Z"},
            {"min_score": 40},
            {"max_score": 40},
        ]

        for filters in each:
            assert 0 < sum(fits(game, filters) for game in shelf.games) < len(shelf.games)

    def test_s_9_with_filters_too_prev_leads_back(self, shelf: Shelf) -> None:
        trail = walk(shelf.person, shelf.person.get("/v1/games?status=lost&limit=2"))

        back = walk(shelf.person, trail[-1], "prev")

        assert len(trail) > 2
        assert [ids(page) for page in back] == [ids(page) for page in reversed(trail)]

    @pytest.mark.parametrize("other", ["", "&status=won", "&status=lost&ruleset=odd-and-even-1"])
    def test_a_cursor_is_good_for_its_own_filters_alone(self, shelf: Shelf, other: str) -> None:
        on = links(shelf.person.get("/v1/games?limit=1&status=lost"))["next"]

        refused = shelf.person.get(on.replace("&status=lost", other))

        assert problem(refused) == (422, "unknown-cursor")
        assert shelf.person.get(on).status_code == 200

    @pytest.mark.parametrize(
        "instant",
        [
            "2020-01-12T12:00:00Z",
            "2020-01-12T12:00:00.000000Z",
            "2020-01-12T12:00:00.000000000Z",
            "2020-01-12t12:00:00z",
            "2020-01-12T13:30:00%2B01:30",
            "2020-01-11T22:00:00-14:00",
        ],
    )
    def test_an_instant_may_be_told_in_any_form_of_rfc_3339(
        self, shelf: Shelf, instant: str
    ) -> None:
        after = shelf.person.get(f"/v1/games?limit=100&created_after={instant}")
        before = shelf.person.get(f"/v1/games?limit=100&created_before={instant}")

        assert len(ids(after)) == 13
        assert len(ids(before)) == 11

    @pytest.mark.parametrize(
        "instant", ["0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00"]
    )
    def test_the_ends_of_time_are_instants(self, shelf: Shelf, instant: str) -> None:
        found = ids(shelf.person.get(f"/v1/games?limit=100&created_after={instant}"))

        assert len(found) == (24 if instant.startswith("0001") else 0)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ruleset", "chess"),
            ("ruleset", ""),
            ("status", "playing,won"),
            ("status", "Won"),
            ("player", "me"),
            ("player", "x" * 36),
            *(("created_after", one) for one in ("", "2020-01-12", "2020-01-12T12:00:00", "0")),
            *(("created_before", one) for one in ("2020-02-30T12:00:00Z", "2020-01-12T12:00:00+1")),
            ("created_before", "2020-01-12T25:00:00Z"),
            ("created_before", "٢٠٢٠-01-12T12:00:00Z"),
            *(("min_score", one) for one in ("-1", "105", "12.0", "", "x")),
            ("max_score", "1e2"),
        ],
    )
    def test_a_value_that_does_not_fit_is_pointed_at(
        self, shelf: Shelf, name: str, value: str
    ) -> None:
        refused = problem(shelf.person.get(f"/v1/games?{name}={value}"))

        assert refused == (422, "invalid-request")
        assert [one["pointer"] for one in refused.body["errors"]] == [f"#query/{name}"]


class TestPlayers:
    def test_ones_own_games_are_listed_by_ones_id_too(self, shelf: Shelf) -> None:
        path = f"/v1/games?limit=100&player={shelf.person.id.upper()}"

        assert expect(shelf.person.get(path))["games"] == shelf.games

    def test_another_players_games_are_listed_for_administrators_alone(
        self, shelf: Shelf, ada: Person, database: Database
    ) -> None:
        path = f"/v1/games?limit=100&player={shelf.person.id}"

        refused = problem(ada.get(path))
        allowed = give(ada, database, "games:read", "admin").get(path)

        assert refused == (403, "scope-missing")
        assert refused.body["required_scope"] == "admin"
        assert expect(allowed)["games"] == shelf.games

    def test_whether_there_is_such_a_player_is_not_told(self, ada: Person, bea: Person) -> None:
        there = problem(ada.get(f"/v1/games?player={bea.id}"))
        nowhere = problem(ada.get(f"/v1/games?player={unknown_id()}"))

        assert there == nowhere == (403, "scope-missing")
        assert there.body["detail"] == nowhere.body["detail"]
