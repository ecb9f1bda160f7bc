"""The verifier: what it says of sound documents, of each kind of fault, and of any other input."""

import json
import string
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from documents import (
    CREATED_AT,
    DEADLINE,
    HIDDEN_SEED,
    Json,
    at,
    first_moves,
    header,
    hidden_header,
    new_game,
    places,
    played,
    pointer,
    sealed_header,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.engine import DEAL_SPECS, RULESETS, verify, verify_text
from service.engine.replay import canonical, digest
from service.engine.verify import LEVELS, Problem, Verdict

QUIET = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
WON = "3"
"""A seed with which the first legal moves win ``royal-rendezvous-1``."""
LOST = "7"

Change = Callable[[Json], object]


def problem(verdict: Verdict) -> Problem:
    assert verdict.problem is not None
    return verdict.problem


def states(verdict: Verdict) -> dict[str, str]:
    return {level: state for level, (state, _) in verdict.levels.items()}


def redigested(document: Json) -> Json:
    """Return the document with the digest that its header, log and times now have."""
    head = canonical(document["header"])
    return {**document, "digest": digest(head, document["log"], document["times"])}


def set_at(document: Json, path: tuple[str | int, ...], value: Any) -> Json:
    """Return a copy with another value at this path."""
    changed = deepcopy(document)
    at(changed, path[:-1])[path[-1]] = value
    return changed


def practice(*log: str) -> Json:
    return played(header(), log)


def resigned() -> Json:
    return practice("r4:upper-S", "undo", "hint", "r10:lower-H", "resign")


def revealed() -> Json:
    head = hidden_header()
    return played(head, [*first_moves(head, 12), "hint", "resign"])


def tournament() -> Json:
    head = sealed_header()
    return played(head, [*first_moves(head, 12), "resign"])


def timed_out(*, last: int = DEADLINE - CREATED_AT) -> Json:
    head = sealed_header()
    return played(head, first_moves(head, 3), times=[0, 10, last], timed_out=True)


SOUND = [resigned, revealed, tournament, timed_out]


# Sound documents.


def test_a_game_that_was_won_is_valid() -> None:
    document = played(header(seed=WON), first_moves(header(seed=WON)))

    verdict = verify(document)

    assert verdict.as_json() == {
        "verdict": "valid",
        "levels": {
            "structure": {"state": "pass"},
            "deal": {"state": "pass"},
            "rules": {"state": "pass"},
            "outcome": {"state": "pass"},
            "digest": {"state": "pass"},
            "signature": {"state": "skipped", "reason": "not signed"},
        },
        "result": document["result"],
    }
    assert document["result"]["status"] == "won"
    assert document["result"]["score"] == 104
    assert document["result"]["ended_at"] == CREATED_AT + document["times"][-1]


@pytest.mark.parametrize(
    ("document", "status"),
    [
        (played(header(seed=LOST), first_moves(header(seed=LOST))), "lost"),
        (practice("resign"), "resigned"),
        (revealed(), "resigned"),
        (tournament(), "resigned"),
        (timed_out(), "timed-out"),
        (played(sealed_header(), [], timed_out=True), "timed-out"),
    ],
)
def test_a_game_that_ended_otherwise_is_valid(document: Json, status: str) -> None:
    verdict = verify(document)

    assert verdict.verdict == "valid"
    assert verdict.result == document["result"]
    assert document["result"]["status"] == status


@pytest.mark.parametrize("spec", DEAL_SPECS)
@pytest.mark.parametrize("ruleset", RULESETS)
def test_a_whole_game_of_every_ruleset_from_either_deal_spec_is_valid(
    ruleset: str, spec: str
) -> None:
    head = header(ruleset, seed="638", spec=spec)
    log = first_moves(head)
    game = new_game(head)
    game.extend(map(game.rules.parse, log))

    whole = verify(played(head, [*log, *["resign"] * (game.status == "playing")]))
    begun = verify(played(head, [*log[:40], "undo", "undo", "hint"]))

    assert len(log) > 80
    assert whole.verdict == "valid"
    assert begun.verdict == "incomplete"


def test_undone_moves_count_in_the_log_and_nowhere_else() -> None:
    document = practice("r4:upper-S", "r10:lower-H", "undo", "undo", "r4:upper-S", "hint", "resign")

    assert verify(document).result == {
        "status": "resigned",
        "score": 13,
        "ply": 7,
        "undos": 2,
        "hints": 1,
        "position": "AAA2/AAAA/2222 4HQHTDJC2D7S9D7S/JD3HQSTCTCJS5HKC - - 75",
        "ended_at": CREATED_AT + 9000,
    }


def test_a_lost_game_may_be_taken_back_and_played_on() -> None:
    lost = first_moves(header(seed=LOST))

    assert verify(played(header(seed=LOST), [*lost, "undo"])).verdict == "incomplete"
    assert verify(played(header(seed=LOST), [*lost, "undo", lost[-1]])).verdict == "valid"


def test_a_log_of_two_thousand_entries_is_valid_if_the_last_one_resigns() -> None:
    head = header("odd-and-even-1")

    verdict = verify(played(head, [*["stock:waste", "undo"] * 999, "hint", "resign"]))

    assert verdict.verdict == "valid"


def test_a_member_called_extra_may_hold_anything() -> None:
    document = {**resigned(), "extra": {"note": "Grüße", "list": [None, 1.5, True, {"extra": []}]}}

    assert verify(document).verdict == "valid"
    assert verify_text(json.dumps(document)).verdict == "valid"


def test_a_signature_is_left_to_those_who_have_keys() -> None:
    verdict = verify({**resigned(), "signature": "e30.e30.AA"})

    assert verdict.verdict == "valid"
    assert verdict.levels["signature"] == ("skipped", "no keys were given to check it with")


def test_order_white_space_and_escapes_of_the_text_do_not_matter() -> None:
    document = resigned()
    text = json.dumps(dict(reversed(document.items())), indent=3).replace("resign", "r\\u0065sign")

    assert "r\\u0065sign" in text
    assert verify_text(text).verdict == "valid"
    assert verify_text(text.encode()).verdict == "valid"


# Incomplete and unsupported ones.


def test_a_game_still_played_is_incomplete() -> None:
    document = practice("r4:upper-S", "hint")

    verdict = verify(document)

    assert verdict.verdict == "incomplete"
    assert verdict.result == document["result"]
    assert states(verdict) == {**dict.fromkeys(LEVELS, "pass"), "signature": "skipped"}
    assert "ended_at" not in document["result"]


@pytest.mark.parametrize("head", [hidden_header(), sealed_header()])
def test_a_deal_not_yet_revealed_is_incomplete(head: Json) -> None:
    document = played(head, [*first_moves(head, 3), "resign"], revealed=False)

    verdict = verify(document)

    assert verdict.verdict == "incomplete"
    assert verdict.result is None
    reason = ("skipped", "the deal's seed is not revealed")
    assert verdict.levels == {
        "structure": ("pass", ""),
        "deal": reason,
        "rules": reason,
        "outcome": reason,
        "digest": ("pass", ""),
        "signature": ("skipped", "not signed"),
    }


def test_a_change_shows_also_before_the_deal_is_revealed() -> None:
    document = played(hidden_header(), ["resign"], revealed=False)

    verdict = verify({**document, "times": [1]})

    assert verdict.verdict == "invalid"
    assert problem(verdict).code == "digest-mismatch"


@pytest.mark.parametrize(
    ("path", "name", "code"),
    [
        (("format",), "replay-2", "unsupported-format"),
        (("format",), "hanabi", "unsupported-format"),
        (("header", "ruleset"), "royal-rendezvous-2", "unsupported-ruleset"),
        (("header", "deal", "spec"), "deal-2", "unsupported-deal-spec"),
    ],
)
def test_unknown_names_are_unsupported_and_said_to_be_so(
    path: tuple[str, ...], name: str, code: str
) -> None:
    verdict = verify(redigested(set_at(resigned(), path, name)))

    assert verdict.verdict == "unsupported"
    assert (problem(verdict).code, problem(verdict).pointer) == (code, pointer(path))
    assert repr(name) in problem(verdict).detail
    assert states(verdict) == dict.fromkeys(LEVELS, "skipped")


def test_a_later_format_is_unsupported_whatever_members_it_has() -> None:
    assert verify({"format": "replay-2", "moves": []}).verdict == "unsupported"
    assert verify({"moves": []}).verdict == "invalid"


# Faults, level by level.


@pytest.mark.parametrize("make", SOUND)
def test_every_member_is_needed(make: Callable[[], Json]) -> None:
    document = make()
    optional = {("header", "tournament"), ("seed",), ("result", "ended_at")}

    for path in places(document):
        name = path[-1]
        if isinstance(name, int) or path in optional:
            continue
        changed = deepcopy(document)
        del at(changed, path[:-1])[name]
        fault = problem(verify(changed))
        hidden = path == ("header", "deal", "commitment")
        missing = "seed" if hidden else name
        assert (fault.level, fault.code) == ("structure", "malformed")
        assert fault.detail == f"the member {missing!r} is missing"
        assert fault.pointer == pointer(path[:-1])


@pytest.mark.parametrize("make", SOUND)
def test_members_of_other_names_are_refused_in_every_object(make: Callable[[], Json]) -> None:
    document = make()

    for path in [(), *places(document)]:
        if isinstance(at(document, path), dict):
            fault = problem(verify(set_at(document, (*path, "a/b~c"), 1)))
            assert (fault.level, fault.code) == ("structure", "malformed")
            assert fault.pointer == f"{pointer(path)}/a~1b~0c"


OTHERS: list[Any] = [
    None,
    True,
    False,
    -1,
    2**53,
    10**5000,
    1.0,
    "",
    "\ud800",
    "\u0660",
    "7\n",
    " _",
    [],
    ["x"],
    {},
    {"x": []},
]


@pytest.mark.parametrize("make", SOUND)
def test_a_value_of_another_type_is_refused_at_its_own_place(make: Callable[[], Json]) -> None:
    document = make()

    for path in places(document):
        value = at(document, path)
        for other in OTHERS:
            if path == ("header", "options") and other == {}:
                continue
            if isinstance(other, list) and path in {("log",), ("times",)}:
                continue
            fault = problem(verify(set_at(document, path, other)))
            assert (fault.level, fault.code) == ("structure", "malformed")
            assert str(fault.pointer).startswith(pointer(path))
            assert isinstance(value, list | dict) or fault.pointer == pointer(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), "Replay-1"),
        (("header", "id"), "01970A5B-2C00-7D3E-8F10-9A4B5C6D7E8F"),
        (("header", "id"), "01970a5b2c007d3e8f109a4b5c6d7e8f"),
        (("header", "player"), "ada"),
        (("header", "ruleset"), "Royal Rendezvous"),
        (("header", "ruleset"), "royal--rendezvous-1"),
        (("header", "ruleset"), "a" * 200),
        (("header", "deal", "seed"), "a b"),
        (("header", "deal", "seed"), "é"),
        (("header", "deal", "seed"), "7" * 65),
        (("log", 0), "r4"),
        (("log", 0), "r4:upper-X"),
        (("log", 0), "Undo"),
        (("log", 0), "undo\n"),
        (("log", 0), "a" * 100 + ":waste"),
        (("log", 0), ["r4:upper-S"]),
        (("log", 0), {}),
        (("log", 4), 5),
        (("times", 1), -1),
        (("times", 1), 1e3),
        (("times", 4), 4499),
        (("times", 4), 2**53),
        (("result", "status"), "forfeited"),
        (("result", "score"), 105),
        (("result", "ply"), 2001),
        (("result", "position"), "x"),
        (("result", "position"), "A" * 1001),
        (("digest",), "A" * 64),
        (("digest",), "a" * 63),
    ],
)
def test_a_value_of_another_form_is_refused_at_its_own_place(
    path: tuple[str | int, ...], value: Any
) -> None:
    verdict = verify(set_at(practice(*["hint"] * 4, "resign"), path, value))

    assert verdict.verdict == "invalid"
    assert (problem(verdict).level, problem(verdict).code) == ("structure", "malformed")
    assert problem(verdict).pointer == pointer(path)
    assert len(problem(verdict).detail) < 200
    assert states(verdict) == {**dict.fromkeys(LEVELS, "skipped"), "structure": "fail"}
    assert verdict.levels["digest"] == ("skipped", "structure failed")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"times": [0]}, "/times"),
        ({"log": [], "times": []}, None),
        ({"log": ["hint"] * 2001, "times": [0] * 2001}, "/log"),
        ({"times": [0] * 2001}, "/times"),
        ({"seed": "7"}, "/seed"),
        ({"signature": "no JWS"}, "/signature"),
        ({"signature": "x" * 4097}, "/signature"),
    ],
)
def test_members_that_do_not_go_together_are_refused(change: Json, place: str | None) -> None:
    fault = problem(verify({**practice("hint", "resign"), **change}))

    if place is None:
        assert fault.level == "outcome"
    else:
        assert (fault.level, fault.pointer) == ("structure", place)


def test_only_a_game_of_a_tournament_can_time_out() -> None:
    fault = problem(verify(set_at(practice("hint"), ("result", "status"), "timed-out")))

    assert (fault.level, fault.pointer) == ("structure", "/result/status")


def test_a_tournaments_deal_is_a_commitment() -> None:
    document = tournament()
    document["header"]["deal"] = {"spec": "deal-1", "seed": document.pop("seed")}

    fault = problem(verify(redigested(document)))

    assert (fault.level, fault.pointer) == ("structure", "/header/deal/seed")


def test_a_deadline_is_not_before_the_game() -> None:
    created_at, path = tournament()["header"]["created_at"], ("header", "tournament", "deadline")
    before, at_once = (
        verify(redigested(set_at(tournament(), path, created_at - early))) for early in (1, 0)
    )

    assert problem(before).pointer == "/header/tournament/deadline"
    assert problem(before).level == "structure"
    assert problem(at_once).level == "outcome"


def test_a_deal_names_its_seed_or_a_commitment_and_not_both() -> None:
    named = {**header()["deal"], **hidden_header()["deal"]}

    fault = problem(verify(set_at(resigned(), ("header", "deal"), named)))

    assert (fault.level, fault.pointer) == ("structure", "/header/deal/seed")


@pytest.mark.parametrize("head", [hidden_header(), sealed_header()])
@pytest.mark.parametrize("other", ["7", HIDDEN_SEED[::-1], HIDDEN_SEED[:-1], HIDDEN_SEED.upper()])
def test_a_seed_that_does_not_open_the_commitment_is_refused(head: Json, other: str) -> None:
    document = played(head, [*first_moves(head, 3), "resign"])

    verdict = verify({**document, "seed": other})

    assert problem(verdict).as_json() == {
        "level": "deal",
        "code": "commitment-mismatch",
        "detail": "the seed does not open the commitment",
        "pointer": "/seed",
    }
    assert states(verdict) == {
        "structure": "pass",
        "deal": "fail",
        "rules": "skipped",
        "outcome": "skipped",
        "digest": "pass",
        "signature": "skipped",
    }
    assert verdict.result is None


@pytest.mark.parametrize(
    "path", [("header", "id"), ("header", "tournament", "id"), ("header", "tournament", "deal_no")]
)
def test_a_commitment_is_bound_to_its_game_or_to_its_deal_of_a_tournament(
    path: tuple[str, ...],
) -> None:
    document = tournament() if "tournament" in path else revealed()
    value = at(document, path)
    other = value + 1 if isinstance(value, int) else value.replace("5b", "b5")

    fault = problem(verify(redigested(set_at(document, path, other))))

    assert (fault.code, fault.pointer) == ("commitment-mismatch", "/seed")


@pytest.mark.parametrize("seed", ["x7", "ms0", "ms8589934592", "-1", "1e3", "ms"])
def test_a_text_that_is_no_seed_of_the_deal_spec_is_refused(seed: str) -> None:
    document = played(header(spec="pysol-1"), ["resign"])

    fault = problem(verify(redigested(set_at(document, ("header", "deal", "seed"), seed))))

    assert (fault.level, fault.code, fault.pointer) == ("deal", "bad-seed", "/header/deal/seed")


@pytest.mark.parametrize("seed", ["007", "ms01"])
def test_a_number_with_leading_zeros_is_no_seed_of_a_record(seed: str) -> None:
    document = played(header(seed=seed, spec="pysol-1"), ["resign"])

    fault = problem(verify(document))

    assert (fault.level, fault.code, fault.pointer) == ("deal", "bad-seed", "/header/deal/seed")
    assert verify(played(header(seed=seed), ["resign"])).verdict == "valid"  # in deal-1 another


def test_a_revealed_seed_that_is_none_of_the_deal_spec_is_refused_where_it_stands() -> None:
    document = revealed()
    document["header"] = hidden_header(spec="pysol-1")

    fault = problem(verify(redigested(document)))

    assert (fault.level, fault.code, fault.pointer) == ("deal", "bad-seed", "/seed")


LOST_LOG = first_moves(header(seed=LOST))
WON_LOG = first_moves(header(seed=WON))
BAD_LOGS = [
    (LOST, ["r1:upper-S"], 0, "illegal-move"),
    (LOST, ["stock:waste"], 0, "illegal-move"),
    (LOST, ["r4:upper-S", "r4:upper-S", "resign"], 1, "illegal-move"),
    (LOST, ["hint", "waste:stock"], 1, "illegal-move"),
    (LOST, ["r4:upper-S", "undo", "r17:upper-S", "resign"], 2, "illegal-move"),
    (LOST, ["r4:king-S"], 0, "illegal-move"),
    (LOST, ["undo"], 0, "nothing-to-undo"),
    (LOST, ["r4:upper-S", "undo", "hint", "undo"], 3, "nothing-to-undo"),
    (LOST, ["resign", "resign"], 1, "game-over"),
    (LOST, ["resign", "undo"], 1, "game-over"),
    (LOST, ["resign", "r4:upper-S"], 1, "game-over"),
    (LOST, [*LOST_LOG, "hint"], len(LOST_LOG), "game-over"),
    (LOST, [*LOST_LOG, "resign"], len(LOST_LOG), "game-over"),
    (LOST, [*LOST_LOG, "stock:waste"], len(LOST_LOG), "game-over"),
    (WON, [*WON_LOG, "undo"], len(WON_LOG), "game-over"),
    (WON, [*WON_LOG, "stock:waste"], len(WON_LOG), "game-over"),
    (LOST, ["hint"] * 2000, 1999, "log-full"),
    (LOST, [*["r4:upper-S", "undo"] * 1000], 1999, "log-full"),
]


@pytest.mark.parametrize(("seed", "log", "ply", "code"), BAD_LOGS)
def test_the_first_entry_that_may_not_stand_where_it_does_is_named(
    seed: str, log: list[str], ply: int, code: str
) -> None:
    document = {**played(header(seed=seed), ["resign"]), "log": log, "times": [5] * len(log)}

    verdict = verify(redigested(document))

    fault = problem(verdict)
    assert (fault.level, fault.code) == ("rules", code)
    assert (fault.pointer, fault.ply) == (f"/log/{ply}", ply)
    assert fault.detail.startswith(f"{log[ply]}: ")
    assert verdict.verdict == "invalid"
    assert verdict.result is None
    assert states(verdict)["deal"] == "pass"
    assert verdict.levels["outcome"] == ("skipped", "rules failed")
    assert states(verdict)["digest"] == "pass"


def test_nothing_is_taken_back_where_cards_were_hidden() -> None:
    document = revealed()
    document["log"][-2] = "undo"

    fault = problem(verify(redigested(document)))

    assert (fault.level, fault.code, fault.pointer) == ("rules", "undo-off", "/log/12")
    assert fault.ply == 12


@pytest.mark.parametrize("make", SOUND)
def test_every_member_of_the_result_is_computed_anew(make: Callable[[], Json]) -> None:
    document = make()

    for name, value in document["result"].items():
        others = {"status": "lost", "position": f"{value}0"}
        other = others.get(name) or value + 1
        verdict = verify(set_at(document, ("result", name), other))

        fault = problem(verdict)
        assert (fault.level, fault.code) == ("outcome", "result-mismatch")
        assert fault.pointer == f"/result/{name}"
        assert fault.detail == f"{name}: the log gives {value!r}, the document {other!r}" or (
            value == "timed-out"
        )
        assert states(verdict)["rules"] == "pass"
        assert verdict.result is None


def test_an_end_is_told_if_and_only_if_the_game_has_ended() -> None:
    ended, begun = practice("hint", "resign"), practice("hint")
    del ended["result"]["ended_at"]
    begun["result"]["ended_at"] = CREATED_AT

    for document in (ended, begun):
        fault = problem(verify(document))
        assert (fault.code, fault.pointer) == ("result-mismatch", "/result/ended_at")


def test_an_unfinished_game_is_not_to_be_told_as_lost_or_timed_out() -> None:
    head = sealed_header()
    log = [*first_moves(head, 3), "resign"]

    fault = problem(verify(set_at(played(head, log), ("result", "status"), "timed-out")))

    assert (fault.code, fault.pointer) == ("result-mismatch", "/result/status")
    assert fault.detail == "status: the log gives 'resigned', the document 'timed-out'"


def test_an_entry_at_the_deadline_counts_and_one_after_it_does_not() -> None:
    limit = DEADLINE - CREATED_AT

    assert verify(timed_out(last=limit)).verdict == "valid"
    fault = problem(verify(timed_out(last=limit + 1)))

    assert (fault.level, fault.code) == ("outcome", "deadline-passed")
    assert (fault.pointer, fault.ply) == ("/times/2", 2)


def test_a_game_that_ended_after_its_deadline_is_refused_at_its_first_late_entry() -> None:
    limit = DEADLINE - CREATED_AT
    head = sealed_header()
    log = [*first_moves(head, 3), "resign"]

    fault = problem(verify(played(head, log, times=[0, limit, limit + 1, limit + 1])))

    assert (fault.code, fault.pointer, fault.ply) == ("deadline-passed", "/times/2", 2)


def test_another_digest_is_refused_and_leaves_the_other_levels_alone() -> None:
    verdict = verify({**resigned(), "digest": "0" * 64})

    assert verdict.verdict == "invalid"
    assert (problem(verdict).code, problem(verdict).pointer) == ("digest-mismatch", "/digest")
    assert states(verdict)["outcome"] == "pass"
    assert verdict.result == resigned()["result"]


def test_the_first_of_several_faults_is_the_one_told() -> None:
    document = {**set_at(resigned(), ("result", "score"), 20), "digest": "0" * 64}

    verdict = verify(document)

    assert problem(verdict).code == "result-mismatch"
    assert states(verdict)["digest"] == "fail"


@pytest.mark.parametrize("make", SOUND)
def test_every_member_of_the_header_is_covered_by_the_digest(make: Callable[[], Json]) -> None:
    """Row S-97: the header is complete, and none of it can be exchanged."""
    document = make()
    changes: list[Json] = []

    for path in places(document["header"]):
        value = at(document["header"], path)
        if isinstance(value, str):
            changes += [
                set_at(document, ("header", *path), value.replace(old, new))
                for old, new in zip("157deo", "268efi", strict=True)
                if old in value
            ]
        elif isinstance(value, int):
            changes.append(set_at(document, ("header", *path), value + 1))

    assert len(changes) > 10
    assert not [c for c in changes if verify(c).verdict in {"valid", "incomplete"}]


# Text that is no document.

BAD_TEXTS: list[tuple[str | bytes, str]] = [
    ("", "not JSON: Expecting value"),
    (b"", "not JSON: Expecting value"),
    (" \n", "not JSON: Expecting value"),
    ("\0", "not JSON"),
    (b'{"format": "replay-1\0"}', "not JSON: Invalid control character"),
    ("\ufeff{}", "not JSON"),
    (b"\xef\xbb\xbf{}", "not JSON"),
    (b"\xff\xfe{\0}\0", "not UTF-8 at byte 0"),
    (b'{"format": "\xc3\x28"}', "not UTF-8 at byte 12"),
    (b'{"format": "\xed\xa0\x80"}', "not UTF-8 at byte 12"),
    ("{} {}", "not JSON: Extra data"),
    ("{'format': 1}", "not JSON"),
    ('{"format": 1,}', "not JSON"),
    ('{"format": 01}', "not JSON"),
    ('{"format": +1}', "not JSON"),
    ('{"format": \u0661}', "not JSON"),
    ('{"format": .5}', "not JSON"),
    ('{"format": "\\x41"}', "not JSON: Invalid \\escape"),
    ("NaN", "NaN is not JSON"),
    ('{"extra": NaN}', "NaN is not JSON"),
    ('{"extra": [Infinity]}', "Infinity is not JSON"),
    ('{"extra": -Infinity}', "-Infinity is not JSON"),
    ('{"log": [], "log": []}', "the name 'log' stands twice in one object"),
    ('{"l\\u006fg": [], "log": []}', "the name 'log' stands twice in one object"),
    ('{"extra": {"\\ud800": 1, "\\ud800": 1}}', "the name '\\ud800' stands twice in one object"),
    ("[" * 100_000, "nested too deeply"),
    ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    ("9" * 5000, "an integer of thousands of digits"),
    ('{"times": [' + "9" * 5000 + "]}", "an integer of thousands of digits"),
    (" " * (1 << 20) + "{}", "longer than 1048576 bytes"),
    (b" " * (1 << 20) + b"{}", "longer than 1048576 bytes"),
]


@pytest.mark.parametrize(("text", "detail"), BAD_TEXTS)
def test_text_that_is_not_strict_json_is_malformed(text: str | bytes, detail: str) -> None:
    verdict = verify_text(text)

    assert verdict.verdict == "invalid"
    assert (problem(verdict).level, problem(verdict).code) == ("structure", "malformed")
    assert problem(verdict).pointer == ""
    assert problem(verdict).detail.startswith(detail)
    assert states(verdict) == {**dict.fromkeys(LEVELS, "skipped"), "structure": "fail"}


@pytest.mark.parametrize("text", ["null", "true", "1", "1e400", '"replay-1"', "[]", '["format"]'])
def test_json_that_is_no_object_is_malformed(text: str) -> None:
    verdict = verify_text(text)

    assert problem(verdict).as_json() == {
        "level": "structure",
        "code": "malformed",
        "detail": "not an object",
        "pointer": "",
    }


@pytest.mark.parametrize("number", ["1500.0", "1.5e3", "15E2", "1500.5", "true", '"1500"'])
def test_a_number_is_written_without_point_and_exponent(number: str) -> None:
    text = json.dumps(practice("hint", "resign")).replace("[0, 1500]", f"[0, {number}]")

    assert problem(verify_text(text)).pointer == "/times/1"


def test_minus_zero_is_zero() -> None:
    text = json.dumps(practice("hint", "resign"))

    assert verify_text(text.replace("[0, 1500]", "[-0, 1500]")).verdict == "valid"
    assert verify_text(text.replace("[0, 1500]", "[-0.0, 1500]")).verdict == "invalid"


def test_a_name_that_stands_twice_among_very_many_is_found_at_once() -> None:
    names = ",".join(f'"{n}":0' for n in range(100_000))
    began = time.process_time()

    verdict = verify_text(f'{{{names},"99999":1}}')

    assert problem(verdict).detail == "the name '99999' stands twice in one object"
    assert time.process_time() - began < 5


@pytest.mark.parametrize("make", SOUND)
def test_a_lone_surrogate_in_any_text_or_name_is_refused_in_text_that_can_be_sent(
    make: Callable[[], Json],
) -> None:
    document = make()
    changed = [
        set_at(document, path, at(document, path) + "\ud800")
        for path in places(document)
        if isinstance(at(document, path), str)
    ]
    changed += [
        set_at(document, (*path, "\ud800"), 1)
        for path in [(), *places(document)]
        if isinstance(at(document, path), dict)
    ]

    for value in changed:
        text = json.dumps(value)
        for verdict in (verify(value), verify_text(text), verify_text(text.encode("ascii"))):
            assert problem(verdict).level == "structure"
            assert json.dumps(verdict.as_json(), ensure_ascii=False).encode("utf-8")


# Anything at all.

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
document_like = st.fixed_dictionaries(
    {
        "format": st.sampled_from(["replay-1", "replay-2"]) | json_values,
        "header": st.dictionaries(st.sampled_from(list(sealed_header())), json_values)
        | json_values,
        "log": st.lists(st.sampled_from(["undo", "hint", "stock:waste"]) | json_values)
        | json_values,
        "times": st.lists(st.integers()) | json_values,
        "result": json_values,
        "digest": json_values,
    },
    optional={"seed": json_values, "signature": json_values, "extra": json_values},
)


def is_told_as_json(verdict: Verdict) -> bool:
    text = json.dumps(verdict.as_json(), ensure_ascii=False, allow_nan=False)
    return bool(text.encode("utf-8"))


@QUIET
@given(json_values | document_like)
def test_no_value_makes_the_verifier_raise_or_say_valid(value: Any) -> None:
    verdict = verify(value)

    assert verdict.verdict in {"invalid", "unsupported"}
    assert is_told_as_json(verdict)


@QUIET
@given(
    st.text(st.characters(codec=None))
    | st.text('{}[]":,.0123456789eE+-\\ufalsn \ud800')
    | st.binary()
    | json_values.map(json.dumps)
)
def test_no_text_makes_the_verifier_raise_or_say_valid(text: str | bytes) -> None:
    verdict = verify_text(text)

    assert verdict.verdict in {"invalid", "unsupported"}
    assert is_told_as_json(verdict)


@QUIET
@given(st.data())
def test_no_cut_or_splice_of_documents_makes_the_verifier_raise(data: st.DataObject) -> None:
    texts = [json.dumps(make()).encode() for make in SOUND]
    first, second = data.draw(st.sampled_from(texts)), data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(first)))
    end = data.draw(st.integers(0, len(second)))

    spliced = first[:start] + second[end:]

    verdict = verify_text(spliced)
    assert verdict.verdict != "valid" or json.loads(spliced) in [make() for make in SOUND]
    assert is_told_as_json(verdict)


# Every change of one character.


def compact(document: Json) -> str:
    return json.dumps(document, separators=(",", ":"))


def same(text: str, document: Json) -> bool:
    """Whether the text gives this document, types included."""
    return json.dumps(json.loads(text), sort_keys=True) == json.dumps(document, sort_keys=True)


def changes(text: str, place: int, others: str) -> list[str]:
    """Return the text with one character deleted, exchanged by each other one, and inserted."""
    before, after = text[:place], text[place + 1 :]
    return [
        before + after,
        *(before + other + after for other in others if other != text[place]),
        *(before + other + text[place:] for other in '0a "\\,'),
    ]


def undone() -> Json:
    return practice("r4:upper-S", "r10:lower-H", "undo", "hint", "undo", "r1:deuce-H", "resign")


@pytest.mark.no_cover
@pytest.mark.parametrize("make", [resigned, revealed, tournament, undone, timed_out])
def test_every_change_of_one_character_is_caught(make: Callable[[], Json]) -> None:
    document = make()
    text = compact(document)
    alphabet = "".join(sorted({*text, *string.digits, *"abcdef CDHS+-.eE\\\0\né"}))

    assert verify_text(text).verdict == "valid"
    tried = passed = 0
    for place in range(len(text)):
        for changed in changes(text, place, alphabet):
            tried += 1
            if verify_text(changed).verdict == "valid":
                passed += 1
                assert same(changed, document), changed

    assert tried > 50 * len(text)
    assert 0 < passed < tried / 100  # spaces between values, no more


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("head", "log"),
    [
        (header(seed=WON), WON_LOG),
        (header("royal-rendezvous-pysol-1", "638", "pysol-1"), None),
        (sealed_header(), None),
    ],
)
def test_every_place_of_a_whole_game_is_watched(head: Json, log: list[str] | None) -> None:
    document = played(head, [*(log or [*first_moves(head, 130), "resign"])])
    text = compact(document)
    turns = {True: string.digits, False: "".join(sorted({*text} - {*string.digits}))}

    assert verify_text(text).verdict == "valid"
    for place, character in enumerate(text):
        turn = turns[character.isdigit()]
        others = "".join(turn[(place * 7 + n * 5) % len(turn)] for n in range(3))
        for changed in changes(text, place, others)[:4]:
            assert verify_text(changed).verdict != "valid" or same(changed, document), changed
