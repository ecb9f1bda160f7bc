"""The verifier in JavaScript, written from the docs alone, beside ours: they must agree."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from documents import (
    DEADLINE,
    HIDDEN_SEED,
    SIGNING_KEYS,
    golden,
    header,
    hidden_header,
    new_game,
    sealed_header,
)

from service import signatures
from service.engine import DEAL_SPECS, RULESETS, document, verify_text
from service.engine.moves import HINT, HOP, RESIGN, UNDO
from service.engine.replay import canonical, commitment, commitment_context, digest
from service.signatures import Checker, SigningKeys

pytestmark = pytest.mark.no_cover

Json = dict[str, Any]

PROGRAM = Path(__file__).parents[1] / "examples" / "verify.mjs"
NODE = Path(sys.executable).with_name("node")
REPLAYS = 1000
KEYS = SigningKeys.load(SIGNING_KEYS)
STRANGER = SigningKeys({"keys": [signatures._new_key()]})


def head_of(chance: random.Random, ruleset: str) -> tuple[Json, str]:
    """Return a header of any kind, and the seed."""
    spec = chance.choice(DEAL_SPECS)
    numbers = [chance.randrange(32000), chance.randrange(32000, 2**31), chance.randrange(2**200)]
    seed = str(chance.choice(numbers))
    if spec == "pysol-1" and chance.random() < 0.4:
        seed = f"ms{chance.choice([chance.randrange(1, 2**31), chance.randrange(2**31, 2**33)])}"
    kind = chance.randrange(4)
    if kind == 0:
        return hidden_header(ruleset), HIDDEN_SEED
    if kind == 1:
        return sealed_header(ruleset), HIDDEN_SEED
    return header(ruleset, seed, spec), seed


def made(chance: random.Random, ruleset: str) -> Json:
    """Return the replay of a game played at random, with hints, undos and any end."""
    head, seed = head_of(chance, ruleset)
    game = new_game(head, seed)
    plies = chance.choice([0, 3, 30, 200, 1000])
    while game.ply < plies:
        moves = [move for move in game.legal_moves() if move.kind != HOP or chance.random() < 0.1]
        if game.undo_allowed and game.ply and chance.random() < 0.05 and game.status != "won":
            act = UNDO if any(entry.kind < HINT.kind for entry in game.entries) else HINT
        else:
            act = HINT
        if not moves and game.status != "playing":
            break
        if not moves or chance.random() < 0.05:
            try:
                game.enter(act)
            except ValueError:
                break
            continue
        game.enter(chance.choice(moves[:3]))
    if game.status == "playing" and chance.random() < 0.6:
        game.enter(RESIGN)
    times = sorted(chance.randrange(0, 800_000) for _ in range(game.ply))
    timed_out = "tournament" in head and game.status == "playing" and chance.random() < 0.7
    hidden = "commitment" in head["deal"]
    revealed = seed if hidden and chance.random() < 0.9 else None
    made_ = document(head, game, times, seed=revealed, timed_out=timed_out)
    return dict(KEYS.signed(made_)) if chance.random() < 0.5 else made_


def anew(value: Json) -> Json:
    """Return a document with the digest that its header, log and times have now."""
    return {
        **value,
        "digest": digest(canonical(value["header"]), value["log"], value["times"]),
    }


ENTRIES = [
    *("undo", "hint", "resign", "stock:waste", "waste:stock", "r1:upper-S", "waste:r1", "r3:r4"),
    *("upper-H:lower-H", "c1:ace-S", "r99:upper-S", "nowhere:nothing", "stock:r2"),
]


def other_log(chance: random.Random, value: Json) -> Json:
    log = list(value["log"])
    n = chance.randrange(len(log) + 1)
    entry = chance.choice(ENTRIES)
    what = chance.randrange(3)
    if what == 0 or not log:
        log.insert(n, entry)
    elif what == 1:
        del log[min(n, len(log) - 1)]
    else:
        log[min(n, len(log) - 1)] = entry
    times = value["times"]
    later = [*times, times[-1] if times else 0]
    return anew({**value, "log": log, "times": later[: len(log)]})


def other_beginning(chance: random.Random, value: Json) -> Json:
    log = [chance.choice(["stock:waste", "hint", "undo", "stock:r1"]), *value["log"]][:2000]
    return anew({**value, "log": log, "times": [0, *value["times"]][: len(log)]})


def other_result(chance: random.Random, value: Json) -> Json:
    name = chance.choice(["score", "ply", "undos", "hints", "ended_at", "status", "position"])
    told = dict(value["result"])
    if name == "status":
        told[name] = chance.choice(["won", "lost", "resigned", "playing"])
    elif name == "position":
        told[name] = told[name].replace(chance.choice("A2345"), "K", 1)
    else:
        told[name] = (told.get(name, 0) + chance.choice([1, 2])) % 104
    return {**value, "result": told}


def other_header(chance: random.Random, value: Json) -> Json:
    head = json.loads(json.dumps(value["header"]))
    what = chance.randrange(6)
    if what == 0:
        head["ruleset"] = chance.choice(list(RULESETS))
    elif what == 1:
        head["created_at"] += 1
    elif what == 2:
        head["deal"]["spec"] = chance.choice([*DEAL_SPECS, "deal-2"])
    elif what == 3 and "seed" in head["deal"]:
        head["deal"]["seed"] = chance.choice(["8", "07", "ms0", "ms8589934592", "x y", "é", "ms7"])
    elif what == 4:
        head["options"] = {"speed": 1}
    else:
        head["player"] = head["player"].upper()
    changed = {**value, "header": head}
    return anew(changed) if chance.random() < 0.5 else changed


def other_members(chance: random.Random, value: Json) -> Json:
    changed: Json = json.loads(json.dumps(value))
    what = chance.randrange(8)
    if what == 0:
        del changed[chance.choice(sorted(changed))]
    elif what == 1:
        changed[chance.choice(["note", "__proto__", "seed", "toString"])] = "7"
    elif what == 2:
        changed["format"] = chance.choice(["replay-2", "Replay 1", 1, None])
    elif what == 3:
        changed["times"] = [ms + 0.5 for ms in changed["times"]] or [0]
    elif what == 4:
        changed["times"] = [*changed["times"][::-1], chance.randrange(9)]
    elif what == 5:
        changed["extra"] = {"any": [None, 1.5, "é"]}
    elif what == 6:
        changed["result"]["score"] = chance.choice(["12", True, None, -1, 105, 2**53])
    else:
        changed["log"] = chance.choice([{}, "resign", [1], [["undo"]], ["Undo"], [""]])
    return changed


def other_times(chance: random.Random, value: Json) -> Json:
    times = list(value["times"]) or [0]
    times[-1] += chance.choice([1, DEADLINE])
    changed = {**value, "times": times[: len(value["log"])]}
    return anew(changed) if chance.random() < 0.7 else changed


def other_seed(chance: random.Random, value: Json) -> Json:
    head = json.loads(json.dumps(value["header"]))
    if "commitment" not in head["deal"]:
        return {**value, "seed": "7"}
    seed = chance.choice(["0" * 64, HIDDEN_SEED.upper(), "7"])
    if chance.random() < 0.4:
        head["deal"]["commitment"] = commitment(commitment_context(head), seed)
    return anew({**value, "header": head, "seed": seed})


def other_signature(chance: random.Random, value: Json) -> Json:
    bare = {name: member for name, member in value.items() if name != "signature"}
    what = chance.randrange(5)
    if what == 0:
        return STRANGER.signed(bare)
    if what == 1:
        changed: Json = json.loads(json.dumps(KEYS.signed(bare)))
        changed["header"]["id"] = changed["header"]["player"]
        return anew(changed)
    text = KEYS.signed(bare).get("signature", "e30.e30.AA")
    if what == 2:
        text = text[:-5] + ("A" if text[-5] != "A" else "B") + text[-4:]
    elif what == 3:
        text = text.partition(".")[2]
    else:
        text = "eyJhbGciOiJub25lIn0." + text.split(".")[1] + "."
    return {**bare, "signature": text}


TAMPERINGS: tuple[Callable[[random.Random, Json], Json], ...] = (
    other_log,
    other_beginning,
    other_result,
    other_header,
    other_members,
    other_times,
    other_seed,
    other_signature,
)


def tampered_text(chance: random.Random, text: str) -> str:
    """Return a document's text with something of its bytes changed."""
    what = chance.randrange(5)
    if what == 0:
        return text[: chance.randrange(len(text))]
    if what == 1:
        return text.replace('"log"', '"ply": 1, "ply": 2, "log"', 1)
    if what == 2:
        return text.replace('"created_at": 1750000000000', '"created_at": 1750000000000.0')
    if what == 3:
        return text.replace('"undos": 0', '"undos": -0').replace('"hints": 0', '"hints": 0e0')
    return text.replace('"score": ', '"score": 00', 1)


@pytest.fixture(scope="module")
def replays() -> list[str]:
    """The texts of many replays, of which every second one is tampered with."""
    return list(written())


def written() -> Iterator[str]:
    chance = random.Random("replays")
    names = list(RULESETS)
    for n in range(REPLAYS):
        value = made(chance, names[n // 2 % len(names)])
        if n % 2 == 0:
            yield json.dumps(value)
        elif n % 16 == 1:
            yield tampered_text(chance, json.dumps(value))
        else:
            yield json.dumps(chance.choice(TAMPERINGS)(chance, value))


@pytest.fixture(scope="module")
def judged(replays: list[str]) -> list[tuple[str, str | None]]:
    """What ours says of them, signatures aside."""
    return [judged_here(text) for text in replays]


def judged_there(texts: list[str], *options: str, program: Path = PROGRAM) -> list[Json]:
    """Return what the program says of each line."""
    done = subprocess.run(
        [str(NODE), str(program), *options],
        input="\n".join(texts).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def judged_here(text: str, check: Checker | None = None) -> tuple[str, str | None]:
    verdict = verify_text(text, check)
    level = verdict.problem.level if verdict.problem and verdict.verdict == "invalid" else None
    return verdict.verdict, level


def test_it_is_short_and_needs_nothing_but_node() -> None:
    source = PROGRAM.read_text()

    assert len(source.splitlines()) < 300
    imported = {line.split('"')[1] for line in source.splitlines() if line.startswith("import ")}
    assert imported == {"node:crypto", "node:fs", "node:readline"}


def test_it_agrees_on_a_thousand_replays_of_which_half_are_tampered_with(
    replays: list[str],
) -> None:
    there = judged_there(replays, "--keys", str(SIGNING_KEYS))

    here = [judged_here(text, KEYS.check) for text in replays]
    assert len(there) == REPLAYS
    assert [
        (n, replays[n][:300], ours, theirs)
        for n, (ours, theirs) in enumerate(zip(here, there, strict=True))
        if ours != (theirs["verdict"], theirs.get("level"))
    ] == []
    kinds = Counter(here)
    assert not any(verdict == "invalid" for verdict, _ in here[::2])
    for level in ("structure", "deal", "rules", "outcome", "digest", "signature"):
        assert kinds["invalid", level] >= 5, kinds
    assert kinds["valid", None] > 300
    assert kinds["incomplete", None] > 20
    assert kinds["unsupported", None] >= 3
    assert sum(theirs.get("signature") == "good" for theirs in there) > 100


def test_it_agrees_on_the_recorded_games() -> None:
    texts = [json.dumps(one) for one in golden()]

    there = judged_there(texts)

    assert [one["verdict"] for one in there] == [judged_here(text)[0] for text in texts]


def test_the_replays_are_of_every_kind(replays: list[str]) -> None:
    values = [json.loads(text) for text in replays[::2]]

    assert {one["header"]["ruleset"] for one in values} == set(RULESETS)
    assert {one["header"]["deal"]["spec"] for one in values} == set(DEAL_SPECS)
    assert {one["result"]["status"] for one in values} >= {"lost", "resigned", "timed-out"}
    assert sum(one["result"]["undos"] > 0 for one in values) > 30
    assert sum(one["result"]["hints"] > 0 for one in values) > 50
    assert sum("seed" in one for one in values) > 50
    assert sum("tournament" in one["header"] for one in values) > 50
    seeds = [one["header"]["deal"].get("seed", "") for one in values]
    assert sum(seed.startswith("ms") for seed in seeds) > 20


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('["upper", ALL]', '["upper", EVEN]'),
        ("redeals: 1", "redeals: 2"),
        ('family("lower", "A3579J"', 'family("lower", "A3579K"'),
        ("2531011n", "2531012n"),
        ("1566083941", "1566083940"),
        ("ply < 1999", "ply < 30"),
        ("blocked: true", "blocked: false"),
    ],
)
def test_a_verifier_that_is_wrong_is_found_out(
    replays: list[str], judged: list[tuple[str, str | None]], tmp_path: Path, right: str, wrong: str
) -> None:
    copy = tmp_path / "verify.mjs"
    source = PROGRAM.read_text()
    assert right in source
    copy.write_text(source.replace(right, wrong))
    there = judged_there(replays, program=copy)

    assert [(one["verdict"], one.get("level")) for one in there] != judged
