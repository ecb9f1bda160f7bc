"""Playing over HTTP: creating, reading, moving, repeating, ending."""

import hashlib
import json
import random
import re
from typing import Any

import pytest
from client import Client, Person, expect, problem, unknown_id
from sqlalchemy import select

from service.engine import RULESETS, verify
from service.store.database import Database
from service.store.tables import games

Json = dict[str, Any]

DRAW = {"from": "stock", "to": "waste"}


def recompute(game: Json, entries: list[tuple[str, int]]) -> str:
    """Return the digest as a client computes it from the published text alone."""
    header = json.dumps(game["header"], sort_keys=True, separators=(",", ":"))
    lines = "".join(f"\n{text}@{ms}" for text, ms in entries)
    return hashlib.sha256(b"royal-rendezvous/log/1\0" + (header + lines).encode()).hexdigest()


@pytest.mark.parametrize("ruleset", RULESETS)
@pytest.mark.parametrize("seed", ["royal", None])
def test_a_whole_game_is_played_and_its_replay_verified(
    ada: Person, client: Client, ruleset: str, seed: str | None
) -> None:
    chooser = random.Random(7)
    game = ada.create(seed, ruleset)
    entries: list[tuple[str, int]] = []
    assert game["digest"] == recompute(game, entries)

    while game["status"] == "playing":
        plays = [move for move in game["legal_moves"] if "-" not in move["from"]]
        if not plays or game["ply"] > 300:
            game = expect(ada.act(game, "resign"))
        else:
            game = ada.move(game, chooser.choice(plays))
        entries += [(one["move"], one["ms"]) for one in game["applied"]]
        assert game["digest"] == recompute(game, entries)
        assert game["ply"] == len(entries)
    document = client.get(f"/v1/games/{game['id']}/replay").get_json()
    verdict = expect(client.post("/v1/replays/verify", document))

    assert document["log"] == [text for text, _ in entries]
    assert document["times"] == [ms for _, ms in entries]
    assert verdict["verdict"] == "valid"
    assert verdict["result"]["score"] == game["score"]
    assert verify(document).verdict == "valid"
    assert game["legal_moves"] == []


def test_a_new_game_shows_the_deal_and_nothing_of_the_stock(ada: Person) -> None:
    game = ada.create("royal")

    layout = expect(ada.get("/v1/deals/deal-1/royal-rendezvous-1?seed=royal"))

    assert [place["card"] for place in game["reserve"]] == layout["reserve"]
    assert game["stock"] == len(layout["stock"]) == 76
    assert game["score"] == 12
    assert game["ply"] == 0
    assert game["status"] == "playing"
    assert game["foundations"][0] == {"id": "upper-C", "cards": 1, "top": "AC", "wants": "2C"}
    assert game["header"]["deal"] == game["deal"] == {"spec": "deal-1", "seed": "royal"}


def test_the_default_is_royal_rendezvous_with_a_hidden_deal(ada: Person) -> None:
    game = expect(ada.post("/v1/games", {}), 201)

    assert game["ruleset"] == "royal-rendezvous-1"
    assert set(game["deal"]) == {"spec", "commitment"}
    assert "seed" not in game


def test_a_created_game_is_where_its_location_says(ada: Person) -> None:
    answer = ada.post("/v1/games", {})

    assert answer.headers["Location"] == f"/v1/games/{answer.get_json()['id']}"
    assert ada.get(answer.headers["Location"]).get_json() == answer.get_json()


def test_legal_moves_can_be_sent_as_they_are(ada: Person) -> None:
    game = ada.create("royal")

    for move in game["legal_moves"]:
        fresh = ada.create("royal")
        assert ada.try_moves(fresh, 0, move).status_code == 200


def test_a_move_tells_its_card_and_what_followed(ada: Person) -> None:
    game = ada.create("royal")
    stock = expect(ada.get("/v1/deals/deal-1/royal-rendezvous-1?seed=royal"))["stock"]

    game = ada.move(game, {"from": "r2"})

    assert game["applied"] == [
        {
            "ply": 0,
            "ms": game["applied"][0]["ms"],
            "move": "r2:deuce-H",
            "card": "4H",
            "effects": [{"move": "stock:r2", "card": stock[0]}],
        }
    ]
    assert game["reserve"][1] == {"id": "r2", "card": stock[0]}


def test_a_numbered_deal_is_stored_without_its_leading_zeros(ada: Person) -> None:
    game = ada.create("000007", spec="pysol-1")

    assert game["deal"] == {"spec": "pysol-1", "seed": "7"}


def test_the_server_draws_no_numbered_deals(ada: Person) -> None:
    answer = problem(ada.post("/v1/games", {"deal": {"spec": "pysol-1"}}))

    assert answer == (422, "seed-needed")


class TestReading:
    def test_an_earlier_ply_reads_as_it_was_then(self, ada: Person) -> None:
        game = ada.create("royal")
        seen = [game]
        for _ in range(12):
            game = ada.move(game, game["legal_moves"][-1])
            seen.append(game)

        for ply, then in enumerate(seen):
            earlier = ada.read(game, ply)
            then.pop("applied", None)
            assert earlier == then

    def test_a_ply_that_is_not_reached_is_not_found(self, ada: Person) -> None:
        game = ada.create("royal")

        assert problem(ada.get(f"/v1/games/{game['id']}?ply=1")) == (404, "ply-not-reached")

    def test_an_unchanged_game_is_not_sent_again(self, ada: Person) -> None:
        game = ada.create("royal")
        path = f"/v1/games/{game['id']}"
        tag = ada.get(path).headers["ETag"]

        again = ada.get(path, If_None_Match=tag)
        ada.move(game, DRAW | {"from": "r2", "to": "deuce-H"})
        changed = ada.get(path, If_None_Match=tag)

        assert re.fullmatch('"[0-9a-f]{32}"', tag)
        assert (again.status_code, again.data) == (304, b"")
        assert again.headers["ETag"] == tag
        assert changed.status_code == 200
        assert changed.headers["ETag"] != tag

    def test_a_game_in_play_is_its_players_alone(
        self, ada: Person, bea: Person, client: Client
    ) -> None:
        game = ada.create("royal")
        paths = [f"/v1/games/{game['id']}", f"/v1/games/{game['id']}/replay"]

        for path in paths:
            for stranger in (bea, client):
                refused = stranger.get(path)
                unknown = stranger.get(path.replace(game["id"], unknown_id()))
                assert problem(refused) == (404, "not-found")
                assert problem(refused).body["detail"] == problem(unknown).body["detail"]

    def test_a_finished_game_is_anybodys_who_knows_its_id(
        self, ada: Person, bea: Person, client: Client
    ) -> None:
        game = expect(ada.act(ada.create("royal"), "resign"))

        for reader in (ada, bea, client):
            assert expect(reader.get(f"/v1/games/{game['id']}"))["status"] == "resigned"
            assert reader.get(f"/v1/games/{game['id']}/replay").status_code == 200

    def test_personal_answers_are_kept_by_nobody_else(self, ada: Person) -> None:
        game = ada.create("royal")

        read = ada.get(f"/v1/games/{game['id']}")

        assert read.headers["Cache-Control"] == "private, no-cache"
        assert read.headers["Vary"] == "Authorization"
        for path in ("/v1/games", "/v1/players/me", "/v1/tokens"):
            assert ada.get(path).headers["Cache-Control"] == "private, no-store"


class TestRepeating:
    def test_s_55_the_same_acts_at_the_same_ply_answer_as_the_first_time(self, ada: Person) -> None:
        game = ada.create("royal")

        first = ada.try_moves(game, 0, {"from": "r2"}, {"from": "r6"})
        again = ada.try_moves(game, 0, {"from": "r2", "to": "deuce-H"}, {"from": "r6"})
        later = ada.move(expect(first), ada.read(game)["legal_moves"][0])
        after = ada.try_moves(game, 0, {"from": "r2"}, {"from": "r6"})

        assert first.data == again.data == after.data
        assert later["ply"] == 3

    def test_a_repeat_may_be_batched_otherwise(self, ada: Person) -> None:
        start = ada.create("royal")
        moves = []
        game = start
        for _ in range(6):
            moves.append(game["legal_moves"][0])
            game = ada.move(game, moves[-1])

        for cut in range(1, 6):
            head = expect(ada.try_moves(start, 0, *moves[:cut]))
            tail = expect(ada.try_moves(start, cut, *moves[cut:]))
            assert head["ply"] == cut
            assert {**head, "applied": None} == {**ada.read(start, cut), "applied": None}
            assert {**tail, "applied": None} == {**game, "applied": None}
            assert [one["ply"] for one in tail["applied"]] == list(range(cut, 6))

    def test_a_repeat_that_goes_on_beyond_the_log_is_stale(self, ada: Person) -> None:
        start = ada.create("royal")
        game = ada.move(start, {"from": "r2"})

        answer = problem(ada.try_moves(start, 0, {"from": "r2"}, game["legal_moves"][0]))

        assert answer == (409, "stale-ply")

    def test_s_15_s_24_another_act_at_an_old_ply_is_stale_and_shows_the_game(
        self, ada: Person
    ) -> None:
        start = ada.create("royal")
        game = ada.move(start, {"from": "r2"})
        game.pop("applied")

        stale = problem(ada.try_moves(start, 0, {"from": "r6"}))
        ahead = problem(ada.try_moves(start, 5, {"from": "r6"}))

        for answer in (stale, ahead):
            assert answer == (409, "stale-ply")
            assert answer.body["game"] == game
            assert answer.body["ply"] == 1

    def test_a_repeat_is_answered_after_the_end_and_after_an_undo(self, ada: Person) -> None:
        start = ada.create("royal")
        moved = ada.try_moves(start, 0, {"from": "r2"})
        undone = ada.act(expect(moved), "undo")
        resigned = ada.act(expect(undone), "resign")

        assert ada.try_moves(start, 0, {"from": "r2"}).data != b""
        assert expect(ada.try_moves(start, 0, {"from": "r2"})) == expect(moved)
        assert expect(ada.act(start, "undo", 1)) == expect(undone)
        assert expect(ada.act(start, "resign", 2)) == expect(resigned)
        assert problem(ada.act(start, "undo", 0)) == (409, "stale-ply")
        assert problem(ada.act(start, "resign", 1)) == (409, "stale-ply")
        assert problem(ada.act(start, "resign", 3)) == (409, "game-over")

    def test_a_repeat_in_a_hidden_game_may_go_past_cards_that_are_known_now(
        self, ada: Person
    ) -> None:
        start = game = ada.create(None)
        moves: list[Json] = []
        while len(moves) < 8:
            moves.append(game["legal_moves"][0])
            game = ada.move(game, moves[-1])

        again = expect(ada.try_moves(start, 0, *moves))

        assert again["ply"] == 8
        assert again["digest"] == game["digest"]


class TestBatches:
    def test_a_batch_is_made_whole_or_not_at_all(self, ada: Person) -> None:
        start = game = ada.create("royal")
        moves = []
        for _ in range(50):
            moves.append(game["legal_moves"][0])
            game = ada.move(game, moves[-1])
        other = ada.create("royal")

        refused = problem(ada.try_moves(other, 0, *moves[:36], {"from": "waste", "to": "r1"}))
        whole = expect(ada.try_moves(other, 0, *moves))

        assert refused == (409, "illegal-move")
        assert refused.body["failed_index"] == 36
        assert refused.body["ply"] == 0
        assert refused.body["legal_moves"] == start["legal_moves"]
        assert whole["ply"] == 50
        assert len(whole["applied"]) == 50
        assert whole["waste"] == game["waste"]

    def test_a_batch_in_a_hidden_game_turns_up_a_card_by_its_last_move_only(
        self, ada: Person
    ) -> None:
        game = ada.create(None)
        plays = [move for move in game["legal_moves"] if move["from"] != "stock"]
        first = plays[0] if plays else DRAW

        refused = problem(ada.try_moves(game, 0, first, DRAW))
        taken = ada.try_moves(game, 0, first)

        assert refused == (409, "batch-past-hidden-card")
        assert refused.body["failed_index"] == 0
        assert expect(taken)["ply"] == 1

    def test_a_batch_in_a_hidden_game_may_hold_moves_that_turn_up_nothing(
        self, ada: Person
    ) -> None:
        chooser = random.Random(3)
        for _ in range(40):
            game = ada.play(ada.create(None), 40, choose=-1)
            visible = [
                move
                for move in game["legal_moves"]
                if move["from"] != "stock" and (move["from"] == "waste" or game["waste"])
            ]
            if visible and game["status"] == "playing":
                first = chooser.choice(visible)
                answer = ada.try_moves(game, game["ply"], first, DRAW)
                assert problem_code(answer) in {"", "illegal-move"}
                if answer.status_code == 200:
                    return
        pytest.fail("no such position was met")


def problem_code(response: Any) -> str:
    return "" if response.status_code == 200 else problem(response).code


class TestRefusals:
    def test_s_25_an_illegal_move_says_which_rule_and_what_is_legal(self, ada: Person) -> None:
        game = ada.create("royal")

        drawn = problem(ada.try_moves(game, 0, DRAW))
        wrong = problem(ada.try_moves(game, 0, {"from": "r1", "to": "upper-C"}))
        never = problem(ada.try_moves(game, 0, {"from": "r1", "to": "r2"}))
        elsewhere = problem(ada.try_moves(game, 0, {"from": "c1"}))

        assert drawn == wrong == never == elsewhere == (409, "illegal-move")
        assert drawn.body["reason"] == "reserve-can-play"
        assert wrong.body["reason"] == "foundation-wants-other"
        assert never.body["reason"] == elsewhere.body["reason"] == "not-a-move"
        assert drawn.body["legal_moves"] == game["legal_moves"]
        assert drawn.body["failed_index"] == 0

    def test_a_card_that_fits_two_foundations_needs_a_destination(self, ada: Person) -> None:
        for seed in map(str, range(50)):
            game = ada.create(seed)
            doubles: list[str] = []
            while not doubles and game["status"] == "playing":
                game = ada.move(game, game["legal_moves"][0])
                places = [move["from"] for move in game["legal_moves"]]
                doubles = [place for place in places if places.count(place) > 1]
            if doubles:
                break

        refused = problem(ada.try_moves(game, game["ply"], {"from": doubles[0]}))
        targets = [move["to"] for move in game["legal_moves"] if move["from"] == doubles[0]]
        taken = ada.move(game, {"from": doubles[0], "to": targets[1]})

        assert refused == (409, "ambiguous-move")
        assert refused.body["targets"] == targets
        assert taken["applied"][0]["move"] == f"{doubles[0]}:{targets[1]}"

    def test_a_card_that_is_named_must_be_the_one_that_moves(self, ada: Person) -> None:
        game = ada.create("royal")

        other = problem(ada.try_moves(game, 0, {"from": "r2", "card": "5H"}))
        same = ada.try_moves(game, 0, {"from": "r2", "card": "4H"})

        assert other == (409, "card-mismatch")
        assert same.status_code == 200

    def test_the_card_on_a_hidden_stock_can_not_be_guessed(self, ada: Person) -> None:
        game = ada.create(None, "royal-rendezvous-relaxed-1")
        ranks, suits = "A23456789TJQK", "CDHS"
        answers = {
            ada.try_moves(game, 0, {**DRAW, "card": rank + suit}).get_json()["detail"]
            for rank in ranks
            for suit in suits
        }

        assert DRAW in game["legal_moves"]
        assert len(answers) == 1
        assert ada.read(game)["ply"] == 0

    def test_somebody_elses_game_cannot_be_acted_on(self, ada: Person, bea: Person) -> None:
        game = ada.create("royal")

        for what in ("undo", "resign"):
            assert problem(bea.act(game, what)) == (404, "not-found")
        assert problem(bea.try_moves(game, 0, {"from": "r2"})) == (404, "not-found")
        assert ada.read(game)["ply"] == 0

    def test_nothing_follows_a_finished_game(self, ada: Person) -> None:
        game = expect(ada.act(ada.create("royal"), "resign"))

        assert problem(ada.try_moves(game, 1, {"from": "r2"})) == (409, "game-over")
        assert problem(ada.act(game, "undo")) == (409, "game-over")
        assert problem(ada.act(game, "resign")) == (409, "game-over")
        assert ada.read(game)["ply"] == 1


class TestUndoing:
    def test_s_31_an_undo_takes_back_a_move_with_its_effects_and_stays_in_the_log(
        self, ada: Person
    ) -> None:
        start = ada.create("royal")

        undone = expect(ada.act(ada.move(start, {"from": "r2"}), "undo"))
        document = ada.replay(undone)

        assert undone["ply"] == 2
        assert undone["undos"] == 1
        assert undone["reserve"] == start["reserve"]
        assert undone["stock"] == start["stock"]
        assert document["log"] == ["r2:deuce-H", "undo"]
        assert verify(document).verdict == "incomplete"

    def test_nothing_is_undone_at_the_start(self, ada: Person) -> None:
        assert problem(ada.act(ada.create("royal"), "undo")) == (409, "nothing-to-undo")

    def test_nothing_is_undone_in_a_hidden_game(self, ada: Person) -> None:
        game = ada.create(None)
        game = ada.move(game, game["legal_moves"][0])

        assert problem(ada.act(game, "undo")) == (409, "undo-off")
        assert ada.read(game)["ply"] == 1

    def test_a_lost_game_is_in_play_again_after_an_undo(
        self, ada: Person, client: Client, database: Database
    ) -> None:
        lost = ada.play(ada.create("royal"))
        assert lost["status"] == "lost"
        assert client.get(f"/v1/games/{lost['id']}").status_code == 200

        undone = expect(ada.act(lost, "undo"))

        assert undone["status"] == "playing"
        assert "ended_at" not in undone
        assert problem(client.get(f"/v1/games/{lost['id']}")) == (404, "not-found")
        ended = database.run(
            lambda connection: connection.execute(
                games.select().where(games.c.id == lost["id"])
            ).one()
        )
        assert (ended.status, ended.score, ended.ended_at) == (None, None, None)
        again = ada.play(undone)
        assert again["status"] == "lost"
        assert verify(ada.replay(again)).verdict == "valid"


def test_a_long_game_takes_only_a_resignation_at_the_end_of_its_log(
    ada: Person, database: Database
) -> None:
    """Its first 1980 entries, a move and its undo over and over, are stored as they would be."""
    game = ada.create("royal")
    pair = [game["legal_moves"][0]]
    game = expect(ada.act(ada.move(game, *pair), "undo"))
    this = games.c.id == game["id"]
    log = database.run(lambda connection: connection.scalars(select(games.c.log).where(this)).one())
    longer = games.update().where(this).values(log=log * 990, times=bytes(1980), ply=1980)
    database.run(lambda connection: connection.execute(longer))
    game = ada.read(game)
    for _ in range(9):
        game = expect(ada.act(ada.move(game, *pair), "undo"))
    game = ada.move(game, *pair)
    assert game["ply"] == 1999

    moved = problem(ada.try_moves(game, 1999, {"from": "r6"}))
    undone = problem(ada.act(game, "undo"))
    resigned = expect(ada.act(game, "resign"))

    assert moved == undone == (409, "log-full")
    assert game["legal_moves"] == []
    assert resigned["ply"] == 2000
    assert verify(ada.replay(resigned)).verdict == "valid"


def test_s_72_a_finished_game_needs_no_submitting(ada: Person, database: Database) -> None:
    game = ada.play(ada.create("royal"))

    row = database.run(
        lambda connection: connection.execute(games.select().where(games.c.id == game["id"])).one()
    )

    assert (row.status, row.score) == (game["status"], game["score"])
    assert row.ended_at is not None


def test_a_request_id_comes_back(client: Client) -> None:
    given = client.get("/v1", X_Request_Id="abc-1")
    drawn = client.get("/v1", X_Request_Id="not a sound one")

    assert given.headers["X-Request-Id"] == "abc-1"
    assert re.fullmatch("[0-9a-f]{32}", drawn.headers["X-Request-Id"])
