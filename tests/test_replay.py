"""Replay documents: their bytes, their schema, their description, and the games kept for ever."""

import hashlib
import hmac
import json
import random
import re
import struct
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from importlib import import_module
from importlib.resources import files
from itertools import accumulate, combinations
from pathlib import Path
from typing import Any

import naive
import pytest
import rfc8785
from documents import (
    CREATED_AT,
    GAME,
    GOLDEN,
    HIDDEN_SEED,
    TOURNAMENT,
    Json,
    at,
    first_moves,
    golden,
    header,
    hidden_header,
    new_game,
    places,
    played,
    sealed_header,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from service.engine import DEAL_SPECS, RULESETS, Position, table, verify
from service.engine.replay import (
    FORMAT,
    MEDIA_TYPE,
    canonical,
    commitment,
    commitment_context,
    digest,
    document,
    pack_times,
    result,
    unpack_times,
)

ROOT = Path(__file__).parent.parent
QUIET = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
VERIFIER = import_module("service.engine.verify")
SOURCE = sorted((ROOT / "service").rglob("*.py"))


# Canonical header and digest.

numbers = st.integers(0, 2**53 - 1)
ordinals = st.integers(1, 2**53 - 1)
uuids = st.uuids().map(str)
seeds = st.text("".join(map(chr, range(0x21, 0x7F))), min_size=1, max_size=64)
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)
specs = st.sampled_from(DEAL_SPECS)
headers: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {
        "id": uuids,
        "ruleset": st.sampled_from(list(RULESETS)),
        "deal": st.fixed_dictionaries({"spec": specs, "seed": seeds})
        | st.fixed_dictionaries({"spec": specs, "commitment": hashes}),
        "player": uuids,
        "created_at": numbers,
        "options": st.just({}),
    },
    optional={
        "tournament": st.fixed_dictionaries(
            {
                "id": uuids,
                "round": ordinals,
                "deal_no": ordinals,
                "entry": uuids,
                "attempt": ordinals,
                "deadline": numbers,
            }
        )
    },
)
instants = st.lists(st.integers(0, 10) | st.integers(0, 2**45), max_size=50).map(
    lambda gaps: list(accumulate(gaps))
)


def told_digest(head: Json, log: Iterable[str], times: Iterable[int]) -> str:
    """The digest as the description tells it."""
    told = hashlib.sha256(b"royal-rendezvous/log/1")
    told.update(b"\0")
    told.update(rfc8785.dumps(head))
    for text, ms in zip(log, times, strict=True):
        told.update(b"\n" + text.encode() + b"@" + str(ms).encode())
    return told.hexdigest()


def told_hash(*parts: str) -> str:
    return hashlib.sha256(b"\0".join(part.encode("ascii") for part in parts)).hexdigest()


@QUIET
@given(headers)
def test_a_canonical_header_is_rfc_8785_json(head: Json) -> None:
    assert canonical(head) == rfc8785.dumps(head)
    assert canonical(dict(reversed(head.items()))) == canonical(head)


@QUIET
@given(headers, instants, st.data())
def test_the_digest_is_the_one_described(head: Json, times: list[int], data: st.DataObject) -> None:
    texts = st.sampled_from(sorted(table(head["ruleset"]).by_text))
    log = data.draw(st.lists(texts, min_size=len(times), max_size=len(times)))

    assert digest(canonical(head), log, times) == told_digest(head, log, times)


@QUIET
@given(st.data())
def test_no_two_games_have_one_digest(data: st.DataObject) -> None:
    texts = st.sampled_from(["undo", "hint", "r1:upper-S", "r11:upper-S"])
    entries = st.lists(st.tuples(texts, st.integers(0, 30)), max_size=4)
    games = data.draw(st.lists(st.tuples(headers, entries), min_size=2, max_size=6))

    told = {
        digest(canonical(head), [text for text, _ in log], [ms for _, ms in log])
        for head, log in games
    }

    assert len(told) == len({json.dumps(game) for game in games})


# Commitments and labels.


def test_a_commitment_binds_a_seed_to_its_game_or_to_its_deal_of_a_tournament() -> None:
    label = "royal-rendezvous/commit/1"

    assert commitment_context(hidden_header()) == GAME
    assert commitment_context(sealed_header()) == f"{TOURNAMENT}/3"
    assert commitment(GAME, HIDDEN_SEED) == told_hash(label, GAME, HIDDEN_SEED)
    assert sealed_header()["deal"]["commitment"] == told_hash(label, f"{TOURNAMENT}/3", HIDDEN_SEED)


def labels() -> list[str]:
    return [
        label
        for path in SOURCE
        for label in re.findall(r"royal-rendezvous/[a-z-]+/[0-9]+", path.read_text("utf-8"))
    ]


def test_each_use_of_a_hash_has_a_label_of_its_own() -> None:
    """Row S-107: what is published of a seed must not decide the deal."""
    uses = {"commit", "deal", "log", "token"}

    assert uses <= {label.split("/")[1] for label in labels()}
    assert [label for label, times in Counter(labels()).items() if times > 1] == []
    assert not [(a, b) for a, b in combinations(labels(), 2) if a.startswith(b) or b.startswith(a)]


@pytest.mark.parametrize("seed", ["7", HIDDEN_SEED])
@pytest.mark.parametrize("context", ["", GAME, f"{TOURNAMENT}/3"])
def test_a_commitment_is_no_other_hash_of_its_seed(context: str, seed: str) -> None:
    """Row S-107: in particular not the key that shuffles the cards."""
    others = {told_hash(*parts) for label in labels() for parts in [(label, seed)]}
    others |= {told_hash(seed), told_hash(context, seed), told_hash("", context, seed)}
    others |= {told_hash(label, context, seed) for label in labels() if "/commit/" not in label}
    key = naive._Deal1Words(seed).key.hex()

    assert key in others
    assert commitment(context, seed) not in others
    assert digest(seed.encode(), [], []) != commitment(context, seed)


def test_nothing_is_ever_pickled() -> None:
    """Row S-103: what is kept is JSON of a named format, or plain columns."""
    pickling = re.compile(
        r"^\s*(?:from|import)\s.*\b(?:pickle|cPickle|marshal|shelve|dill|cloudpickle|jsonpickle)\b",
        re.MULTILINE,
    )

    assert len(SOURCE) > 10
    assert pickling.search("    from pickle import loads")
    assert [path for path in SOURCE if pickling.search(path.read_text("utf-8"))] == []
    assert played(header(), ["resign"])["format"] == FORMAT == "replay-1"
    assert FORMAT in (ROOT / "docs" / "replay-1.md").read_text("utf-8")


# Times.


@QUIET
@given(instants)
def test_packed_times_unpack_to_themselves(times: list[int]) -> None:
    packed = pack_times(times)

    assert unpack_times(packed) == times
    assert len(packed) >= len(times)


@pytest.mark.parametrize(
    ("gap", "packed"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8100"),
        (1_520, "8b70"),
        (16_383, "ff7f"),
        (16_384, "818000"),
        (2_097_151, "ffff7f"),
        (2**45, "88808080808000"),
    ],
)
def test_a_usual_gap_takes_two_bytes(gap: int, packed: str) -> None:
    assert pack_times([gap]).hex() == packed
    assert pack_times([gap, gap, 2 * gap]).hex() == packed + "00" + packed
    assert unpack_times(bytes.fromhex(packed) * 3) == [gap, 2 * gap, 3 * gap]


# Documents and results.


def test_a_document_tells_a_game_and_shares_nothing_with_it() -> None:
    head = header()
    game = new_game(head)
    game.extend([game.rules.parse("r4:upper-S"), game.rules.parse("hint")])

    told = document(head, game, [5, 9])
    game.extend([game.rules.parse("resign")])

    assert told == {
        "format": "replay-1",
        "header": head,
        "log": ["r4:upper-S", "hint"],
        "times": [5, 9],
        "result": {
            "status": "playing",
            "score": 13,
            "ply": 2,
            "undos": 0,
            "hints": 1,
            "position": "AAA2/AAAA/2222 4HQHTDJC2D7S9D7S/JD3HQSTCTCJS5HKC - - 75",
        },
        "digest": told_digest(head, ["r4:upper-S", "hint"], [5, 9]),
    }


def test_the_result_of_a_game_ended_by_its_deadline_tells_that_deadline() -> None:
    game = new_game(sealed_header())

    told = result(game, created_at=CREATED_AT, times=[], deadline=CREATED_AT + 7)
    open_still = result(game, created_at=CREATED_AT, times=[])

    assert (told["status"], told["ended_at"]) == ("timed-out", CREATED_AT + 7)
    assert open_still["status"] == "playing"
    assert "ended_at" not in open_still


def test_a_game_over_before_its_deadline_did_not_time_out() -> None:
    game = new_game(sealed_header())
    game.extend([game.rules.parse("resign")])

    told = result(game, created_at=CREATED_AT, times=[3], deadline=CREATED_AT + 7)

    assert (told["status"], told["ended_at"]) == ("resigned", CREATED_AT + 3)


# The schema and the verifier.

SCHEMA: Json = json.loads((files("service.engine") / "replay-1.schema.json").read_text("utf-8"))


def whole_pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    """Read ``^`` and ``$`` as JSON Schema does: Python's ``$`` lets a line feed follow."""
    if isinstance(value, str) and not re.fullmatch(pattern[1:-1], value):
        yield ValidationError(f"{value!r} does not match {pattern}")


VALIDATOR: Validator = extend(Draft202012Validator, {"pattern": whole_pattern})(SCHEMA)  # type: ignore[no-untyped-call]

CODE_ALONE = (
    "not as many instants as log entries",
    "instants are integers up to 9007199254740991 and never fall",
    "the deadline is before the game",
)
"""What the verifier finds at the structure level and the schema cannot say. And it takes no 1.0."""


def objects(schema: Any) -> Iterator[Json]:
    for path in [(), *places(schema)]:
        value = at(schema, path)
        if isinstance(value, dict) and value.get("type") == "object":
            yield value


def test_the_schema_is_one_and_tells_of_every_member() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    patterns = [at(SCHEMA, path) for path in places(SCHEMA) if path[-1] == "pattern"]

    assert len(list(objects(SCHEMA))) == 7
    for schema in objects(SCHEMA):
        assert schema["additionalProperties"] is False
        assert {"title", "description"} <= schema.keys()
        assert set(schema["required"]) <= schema["properties"].keys()
        for member in schema["properties"].values():
            assert "description" in member
    assert len(patterns) > 5
    assert all(pattern[0] == "^" and pattern[-1] == "$" for pattern in patterns)


def samples() -> list[Json]:
    sealed, hidden = sealed_header(), hidden_header()
    return [
        played(header(), ["r4:upper-S", "undo", "hint", "r10:lower-H", "resign"]),
        played(header(), ["r4:upper-S"]),
        played(hidden, [*first_moves(hidden, 5), "resign"]),
        played(sealed, [*first_moves(sealed, 2), "resign"]),
        played(sealed, first_moves(sealed, 2), revealed=False),
        played(sealed, [], timed_out=True),
        {
            **played(header("odd-and-even-1", "1", "pysol-1"), ["stock:waste", "resign"]),
            "signature": "e30.e30.AA",
            "extra": {"note": [None, 1.5]},
        },
    ]


SAMPLES = samples()


@pytest.mark.parametrize("value", [*SAMPLES, *golden()])
def test_sound_documents_fit_the_schema(value: Json) -> None:
    assert list(VALIDATOR.iter_errors(value)) == []


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


def near(value: Any) -> st.SearchStrategy[Any]:
    """Values like this one, most of them a little wrong."""
    if isinstance(value, str):
        return st.sampled_from(
            [value + "0", value[:-1], value.upper(), f"{value}\n", f" {value}", "", value * 70]
        )
    if isinstance(value, int):
        others: list[Any] = [value + 1, value - 1, -value, 2**53, float(value), value + 0.5]
        return st.sampled_from([*others, bool(value), str(value), 0, 105, 2001])
    if isinstance(value, list):
        rest = value[:1]
        return st.sampled_from([value + rest, value[1:], value[::-1], rest * 2001, [value], {}])
    if not isinstance(value, dict):
        return st.booleans()
    names = st.sampled_from(["seed", "commitment", "tournament", "ended_at", "extra", "x"])
    return st.tuples(names, json_values).map(lambda member: {**value, member[0]: member[1]})


@st.composite
def damaged(draw: st.DrawFn) -> Json:
    value = deepcopy(draw(st.sampled_from(SAMPLES)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(value))))
        holder = at(value, path[:-1])
        if draw(st.integers(0, 3)) == 0:
            del holder[path[-1]]
        else:
            holder[path[-1]] = draw(near(holder[path[-1]]) | json_values)
    return value


@pytest.mark.no_cover
@settings(QUIET, max_examples=1000)
@given(damaged())
def test_schema_and_verifier_agree_on_what_a_document_is(value: Json) -> None:
    verdict = verify(value)
    state, _ = verdict.levels["structure"]
    fits = VALIDATOR.is_valid(value)

    if state == "pass":
        assert fits, next(VALIDATOR.iter_errors(value))
    elif fits and state == "fail":
        assert verdict.problem is not None
        path = [
            int(name) if name.isdigit() else name
            for name in str(verdict.problem.pointer).split("/")[1:]
        ]
        assert verdict.problem.detail in CODE_ALONE or type(at(value, tuple(path))) is float


BOUNDS: list[tuple[tuple[str | int, ...], int, int]] = [
    (("header", "created_at"), 0, 2**53 - 1),
    (("header", "tournament", "round"), 1, 2**53 - 1),
    (("header", "tournament", "deal_no"), 1, 2**53 - 1),
    (("header", "tournament", "attempt"), 1, 2**53 - 1),
    (("header", "tournament", "deadline"), 0, 2**53 - 1),
    (("times", 2), 1500, 2**53 - 1),
    (("result", "score"), 0, 104),
    (("result", "ply"), 0, 2000),
    (("result", "undos"), 0, 2000),
    (("result", "hints"), 0, 2000),
    (("result", "ended_at"), 0, 2**53 - 1),
]


@pytest.mark.parametrize(("path", "low", "high"), BOUNDS)
def test_schema_and_verifier_have_the_same_bounds(
    path: tuple[str | int, ...], low: int, high: int
) -> None:
    value = deepcopy(SAMPLES[3])
    value["header"]["created_at"] = 0
    value["header"]["tournament"]["deadline"] = 2**53 - 1

    for number in (low - 1, low, high, high + 1):
        at(value, path[:-1])[path[-1]] = number
        taken = verify(value).levels["structure"][0] == "pass"
        assert taken == (low <= number <= high)
        assert VALIDATOR.is_valid(value) == (taken or (path == ("times", 2) and number <= high))


def test_schema_and_verifier_refuse_the_same_members_together() -> None:
    seed_twice = {**SAMPLES[0], "seed": "7"}
    late = deepcopy(SAMPLES[0])
    late["result"]["status"] = "timed-out"
    both = deepcopy(SAMPLES[2])
    both["header"]["deal"]["seed"] = "7"
    open_deal = deepcopy(SAMPLES[3])
    open_deal["header"]["deal"] = {"spec": "deal-1", "seed": open_deal.pop("seed")}

    for value in (seed_twice, late, both, open_deal):
        assert verify(value).levels["structure"][0] == "fail"
        assert not VALIDATOR.is_valid(value)


@pytest.mark.parametrize(
    ("path", "longest"),
    [
        (("header", "ruleset"), "a" * 64),
        (("header", "deal", "seed"), "~" * 64),
        (("log", 0), f"{'a' * 16}-C:{'b' * 16}"),
        (("result", "position"), "A" * 1000),
        (("signature",), "A" * 4096),
    ],
)
def test_schema_and_verifier_have_the_same_longest_texts(
    path: tuple[str | int, ...], longest: str
) -> None:
    value = deepcopy(SAMPLES[0])

    for text in (longest, longest + longest[-1]):
        at(value, path[:-1])[path[-1]] = text
        taken = verify(value).levels["structure"][0] != "fail"
        assert taken == VALIDATOR.is_valid(value) == (text is longest)


@QUIET
@given(damaged())
def test_what_the_verifiers_short_way_takes_its_long_way_takes_too(value: Json) -> None:
    short = VERIFIER._usual_header(value)

    if short is not None:
        VERIFIER._MEMBERS(value)
        assert short == rfc8785.dumps(value["header"])


def short_patterns() -> re.Pattern[bytes]:
    """The short way's pattern with shorter texts, which are faster to make up."""
    pattern: bytes = VERIFIER._USUAL.__self__.pattern
    return re.compile(re.sub(rb"{(\d),\d{2,}}", rb"{\1,3}", pattern))


@settings(QUIET, max_examples=50)
@given(st.from_regex(short_patterns(), fullmatch=True))
def test_all_that_the_short_way_could_take_has_the_form_of_a_document(text: bytes) -> None:
    value = {**json.loads(text), "log": [], "times": []}

    VERIFIER._MEMBERS(value)
    assert VERIFIER._usual_header(value) == canonical(value["header"])


@pytest.mark.parametrize("value", [*SAMPLES[:-1], *golden()[:30]])
def test_usual_documents_take_the_short_way(value: Json) -> None:
    assert VERIFIER._usual_header(value) is not None


# Games kept for ever.

KEPT = 34
KEPT_SHA256 = "4232a9b9200497e27ebbce565feefa26ecfd4dfc9a996587a3b810f1c60fcb7e"


def test_the_kept_games_are_only_added_to() -> None:
    """Rows S-76 and S-96: what was valid once stays so. New games go before the last line."""
    *lines, end = GOLDEN.read_bytes().splitlines()

    assert json.loads(end) == {"end": True, "count": len(lines)}
    assert hashlib.sha256(b"\n".join(lines[:KEPT])).hexdigest() == KEPT_SHA256


@pytest.mark.parametrize("kept", golden())
def test_a_kept_game_is_valid_with_the_same_digest(kept: Json) -> None:
    """Rows S-76 and S-96: no change of the rules or of the format can pass unseen."""
    verdict = verify(kept)

    assert verdict.verdict == "valid"
    assert verdict.result == kept["result"]
    assert told_digest(kept["header"], kept["log"], kept["times"]) == kept["digest"]


@pytest.mark.parametrize("kept", golden())
def test_a_kept_game_ends_as_a_naive_engine_says(kept: Json) -> None:
    head, told = kept["header"], kept["result"]
    named = head["deal"]
    seed = named.get("seed") or kept["seed"]
    line: list[str] = []
    for entry in kept["log"]:
        if entry == "undo":
            line.pop()
        elif ":" in entry:
            line.append(entry)

    game = naive.deal(head["ruleset"], named["spec"], seed)
    for move in line:
        game.apply(move)

    assert game.score() == told["score"]
    assert len(game.stock) == int(told["position"].split(" ")[4].split("+")[0])
    assert ("".join(game.waste) or "-") == told["position"].split(" ")[3]
    cut_short = kept["log"][-1] == "resign" or told["status"] == "timed-out"
    assert game.status() == ("playing" if cut_short else told["status"])


def test_the_kept_games_are_of_every_ruleset_deal_spec_and_kind() -> None:
    kept = golden()

    rulesets = Counter(game["header"]["ruleset"] for game in kept)
    whole = {
        game["header"]["ruleset"] for game in kept if game["result"]["status"] in {"won", "lost"}
    }
    acts = Counter(entry for game in kept for entry in game["log"])
    assert rulesets.keys() == whole == RULESETS.keys()
    assert min(rulesets.values()) >= 3
    for ruleset in RULESETS:
        deals = [g["header"]["deal"] for g in kept if g["header"]["ruleset"] == ruleset]
        assert {deal["spec"] for deal in deals} == set(DEAL_SPECS)
        assert any("commitment" in deal for deal in deals)
    assert min(acts[entry] for entry in ("undo", "hint", "resign", "waste:stock")) >= 5
    assert {game["result"]["status"] for game in kept} == {"won", "lost", "resigned", "timed-out"}
    assert sum("tournament" in game["header"] for game in kept) >= 5


# The description.

PAGE = (ROOT / "docs" / "replay-1.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(.*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)


def block(name: str, n: int = 0) -> str:
    """Return the page's block number n of this name."""
    return str([text for title, text in BLOCKS if title == name][n])


def rows(title: str) -> list[list[str]]:
    """Return the rows of the table whose first row begins so."""
    _, _, rest = PAGE.partition(f"| {title} |")
    lines = rest.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def run(script: str) -> bytes:
    """Run the example as far as the hash, and return what would be hashed."""
    printing, hashing = script.rsplit("|", 1)
    assert hashing.strip() == "sha256sum"
    return subprocess.run(["/bin/sh", "-c", printing], capture_output=True, check=True).stdout


def test_the_described_example_is_valid_and_fits_the_schema() -> None:
    example = json.loads(block("json document"))

    assert verify(example).verdict == "valid"
    assert VALIDATOR.is_valid(example)
    assert block("json header").strip() == rfc8785.dumps(example["header"]).decode()
    rules = table(example["header"]["ruleset"])
    assert Position(rules, new_game(example["header"]).layout).render() == (
        block("text position").strip()
    )


def test_the_described_bytes_give_the_described_digest() -> None:
    example = json.loads(block("json document"))
    lines = block("text bytes").splitlines()

    data = bytes.fromhex("".join(line[6:53] for line in lines))

    assert [int(line[:4], 16) for line in lines] == list(range(0, len(data), 16))
    assert f"The same {len(data)} bytes" in PAGE
    assert run(block("sh digest")) == data
    assert hashlib.sha256(data).hexdigest() == example["digest"] == block("text sha256").strip()


@pytest.mark.parametrize("n", [0, 1])
def test_the_described_commitments_are_right(n: int) -> None:
    told = block("text sha256", n + 1).strip()

    data = run(block("sh commitment", n))

    _, context, seed = data.decode("ascii").split("\0")
    assert hashlib.sha256(data).hexdigest() == commitment(context, seed) == told


def test_the_described_members_are_those_of_the_schema() -> None:
    head, told = SCHEMA["properties"]["header"]["properties"], SCHEMA["properties"]["result"]

    names = {name for row in rows("member") for name in re.findall(r"`([a-z_.]+)`", row[0])}
    assert names == SCHEMA["properties"].keys() | {f"header.{name}" for name in head}
    cells = {row[0]: row[1] for row in rows("member")}
    for name in head["tournament"]["properties"]:
        assert f"`{name}`" in cells["`header.tournament`"]
    for name in told["properties"]:
        assert f"`{name}`" in cells["`result`"]
    for status in told["properties"]["status"]["enum"]:
        assert f"`{status}`" in PAGE
    assert MEDIA_TYPE in PAGE


def test_the_described_levels_are_those_of_the_verifier() -> None:
    assert [row[0].strip("`") for row in rows("level")] == list(VERIFIER.LEVELS)
    assert {row[0].strip("`") for row in rows("verdict")} == {
        "valid",
        "invalid",
        "incomplete",
        "unsupported",
    }


def test_the_described_shuffle_of_deal_1_is_right() -> None:
    told = dict(line.split(None, 1) for line in block("text deal-1").splitlines())
    key = hashlib.sha256(b"royal-rendezvous/deal/1\x007").digest()
    first = hmac.digest(key, bytes(8), "sha256")
    words = struct.unpack(">8I", first)
    cards = naive.pack("royal-rendezvous-1", "deal-1")
    steps = []
    for i, word in zip((91, 90, 89), words, strict=False):
        j = word % (i + 1)
        steps.append([i, word, 2**32 // (i + 1) * (i + 1), j, f"{cards[i]} and {cards[j]}"])
        cards[i], cards[j] = cards[j], cards[i]

    assert told == {"key": key.hex(), "block": first.hex(), "words": " ".join(map(str, words))}
    assert rows("i") == [[str(cell) for cell in step] for step in steps]
    reserve = naive.deal("royal-rendezvous-1", "deal-1", "7").reserve
    assert f"the reserve is `{''.join(map(str, reserve))}`" in PAGE


def test_the_described_draws_of_pysol_1_are_right() -> None:
    state, cards, steps = 1, naive.pack("royal-rendezvous-1", "pysol-1"), []
    for n in (103, 102, 101):
        state = (state * 214013 + 2531011) % 2**32
        output = state // 2**16 % 2**15
        j = output % (n + 1)
        steps.append([n, state, output, j, f"{cards[n]} and {cards[j]}"])
        cards[n], cards[j] = cards[j], cards[n]
    twister = random.Random(32000)
    a, b = twister.getrandbits(32), twister.getrandbits(32)
    u = ((a >> 5) * 2**26 + (b >> 6)) / 2**53

    assert rows("n") == [[str(cell) for cell in step] for step in steps]
    reserve = naive.deal("royal-rendezvous-1", "pysol-1", "1").reserve
    assert f"reserve is `{''.join(map(str, reserve))}`" in PAGE
    assert f"begins with u = {u!r}, so the first index is {int(u * 104)}." in PAGE
