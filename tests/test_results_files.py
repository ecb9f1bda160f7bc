"""Final results verified offline: a whole event's files, and each of their parts tampered with."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from client import Client, Contract, Json, expect, told
from documents import SIGNING_KEYS
from hall import enter, finish, organiser, start
from jsonschema import Draft202012Validator
from programs import PROGRAM, judging_children, program, wait_until, watch
from sqlalchemy import Connection, text

from service import standings
from service.app import create_app
from service.cli import main
from service.engine.replay import canonical
from service.engine.results import FORMAT, LEVELS, Judging, digest, read_replay, signed_facts
from service.results_files import MOST_TOLD
from service.settings import Settings
from service.signatures import SigningKeys
from service.store.database import Database

SCHEMA = json.loads((files("service.engine") / "results-1.schema.json").read_text("utf-8"))
KEYS = SigningKeys.load(SIGNING_KEYS)


@dataclass
class Files:
    """A tournament's results and replays, as they were downloaded."""

    results: Json
    lines: list[Json]
    replays: list[Json]
    folder: Path

    def copy(self) -> "Files":
        return Files(deepcopy(self.results), self.lines, deepcopy(self.replays), self.folder)

    @property
    def document(self) -> Json:
        found: Json = self.results["document"]
        return found

    def resign(self) -> None:
        """Have digest and signature fit the document again, as an operator could."""
        self.results["digest"] = digest(self.document)
        facts = signed_facts(self.document, self.results["digest"])
        self.results["signature"] = KEYS.sign(facts)

    def verify(self, *options: str, replays: bool = True) -> Result:
        """Return how the command ends on them."""
        results = self.folder / "results.json"
        results.write_text(json.dumps(self.results))
        return run(results, *([self.write_replays()] if replays else []), *options)

    def write_replays(self) -> Path:
        end = {"end": True, "count": len(self.replays)}
        file = self.folder / "replays.ndjson"
        file.write_text("".join(json.dumps(one) + "\n" for one in [*self.replays, end]))
        return file

    def verdict(self, *options: str) -> Json:
        """Return the verdict on them."""
        found: Json = json.loads(self.verify("--json", *options).stdout)
        return found


def run(*args: Path | str) -> Result:
    return CliRunner().invoke(main, ["results", "verify", *map(str, args)])


@pytest.fixture(scope="module")
def event(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """An event of two rounds with a cut, a warm-up, rulings, an invalid attempt and ties."""
    app = create_app(Settings(rate_limits="off"), database, KEYS)
    client = Client(app, Contract(app))
    host = organiser(client.register("Grace"), database)
    people = [client.register(f"P{n}") for n in range(6)]
    cut = {"by": "top", "value": 5}
    contest = host.tournament((0, 600, 2), (700, 900, 1, cut), warm_up=True, attempts=2)
    path = contest["links"]["self"]
    entries = [enter(person, contest) for person in people]
    games = []
    for n, person in enumerate(people[:5]):
        games.append(finish(person, contest, 1, plies=3 * n))
        finish(person, contest, 2, plies=2)
    finish(people[0], contest, 1, plies=9)
    finish(people[0], contest, 4)
    start(people[1], contest, 1)
    host.elapse(contest, 710)
    finish(people[4], contest, 3, plies=5)
    people[3].ask("DELETE", f"{path}/entries/me")
    host.elapse(contest, 300)
    tournament = UUID(contest["id"])

    def damage(connection: Connection) -> None:
        query = "UPDATE games SET score = 50 WHERE id = :id"
        connection.execute(text(query), {"id": games[2]["id"]})
        ruled = [
            (1, "adjust", entries[1]["id"], 1, 1, {"cards": 30}),
            (2, "disqualify", entries[2]["id"], None, None, {}),
            (3, "annul", entries[0]["id"], 2, 1, {}),
        ]
        for number, kind, entry, deal, attempt, terms in ruled:
            connection.execute(
                text(
                    "INSERT INTO tournament_rulings (tournament_id, number, at, by_player, kind,"
                    " entry_id, deal_no, attempt, terms, reason)"
                    " VALUES (:id, :number, now(), :by, :kind, :entry, :deal, :attempt,"
                    " CAST(:terms AS jsonb), 'x')"
                ),
                {
                    "id": tournament,
                    "number": number,
                    "by": host.id,
                    "kind": kind,
                    "entry": entry,
                    "deal": deal,
                    "attempt": attempt,
                    "terms": json.dumps(terms),
                },
            )
        standings.write(connection, tournament)

    database.run(damage, transaction=True)
    job = expect(host.act(contest, "verifications"), 202)["links"]["self"]
    while expect(host.get(job))["state"] == "running":
        pass
    expect(host.act(contest, "finalise"))
    return Files(
        expect(client.get(f"{path}/results")),
        told(client.get(f"{path}/results?format=ndjson")),
        told(client.get(f"{path}/replays")),
        tmp_path_factory.mktemp("event"),
    )


def test_an_event_verifies_from_its_files_alone(event: Files) -> None:
    files = event.copy()

    ended = files.verify("--keys", str(SIGNING_KEYS))
    found = files.verdict("--keys", str(SIGNING_KEYS))

    assert ended.exit_code == 0, ended.output
    assert ended.output.splitlines()[-1] == f"valid, {len(files.replays)} replays"
    assert found["verdict"] == "valid"
    assert {level["state"] for level in found["levels"].values()} == {"pass"}
    assert found["faults"] == []
    document = files.document
    assert {one["status"] for one in document["entries"]} == {
        *("active", "withdrawn", "disqualified"),
    }
    assert {one["reach"] for one in document["entries"]} == {1, 2}
    assert any("adjusted" in cell for one in document["entries"] for cell in one["cells"])
    assert any("invalid" in one for entry in document["entries"] for one in entry["attempts"])
    assert {"broken"} in [one.keys() for one in files.replays]


def test_results_verify_as_lines_too(event: Files, tmp_path: Path) -> None:
    lines = [*event.lines, {"end": True, "count": len(event.lines)}]
    file = tmp_path / "results.ndjson"
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    replays = event.copy().write_replays()

    assert run(file, replays, "--keys", SIGNING_KEYS).exit_code == 0
    for cut in (lines[:-1], lines[:-2] + lines[-1:], lines[:1]):
        file.write_text("".join(json.dumps(one) + "\n" for one in cut))
        assert run(file, replays).exit_code == 1


def test_without_replays_it_is_not_decided(event: Files) -> None:
    ended = event.copy().verify("--keys", str(SIGNING_KEYS), replays=False)

    assert ended.exit_code == 3
    assert "no replays were given" in ended.output


def test_it_is_of_the_form_that_is_published(event: Files, client: Client) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    validator = Draft202012Validator(SCHEMA)

    assert [error.message for error in validator.iter_errors(event.results)] == []
    with client.get("/schemas/results-1.json") as served:
        assert json.loads(served.data) == SCHEMA
    assert event.document["format"] == FORMAT
    assert event.results["digest"] == digest(event.document)
    assert canonical(event.document).isascii()


def entry(files: Files, n: int = 0) -> Json:
    found: Json = files.document["entries"][n]
    return found


def sound(files: Files) -> Json:
    """Return an attempt that is valid."""
    attempts = (one for each in files.document["entries"] for one in each["attempts"])
    return next(one for one in attempts if "digest" in one)


def missing(files: Files) -> None:
    """Leave a replay out."""
    del files.replays[0]


def doubled(files: Files) -> None:
    """Give a replay twice."""
    files.replays.append(deepcopy(files.replays[0]))


def unlisted(files: Files) -> None:
    """Leave an attempt out of the results, though there is its replay."""
    for one in files.document["entries"]:
        if one["attempts"]:
            one["attempts"].pop()
            return


def swapped(files: Files) -> None:
    """Have two entries change places."""
    first, second = files.document["entries"][:2]
    for name in ("rank", "position", "key", "total", "cells"):
        first[name], second[name] = second[name], first[name]
    files.document["entries"][:2] = second, first


def reruled(files: Files) -> None:
    """Forget a ruling."""
    del files.document["rulings"][0]


def exchanged(files: Files) -> None:
    """Give an attempt to another entry."""
    first, second = [one for one in files.document["entries"] if len(one["attempts"]) > 2][:2]
    first["attempts"][0], second["attempts"][0] = second["attempts"][0], first["attempts"][0]


def set_(place: Callable[[Files], Json], name: str, value: Any) -> Callable[[Files], None]:
    """Return what sets a member."""

    def tamper(files: Files) -> None:
        there = place(files)
        assert there[name] != value
        there[name] = value

    return tamper


def replay(files: Files) -> Json:
    found: Json = files.replays[0]
    return found


# What is changed, the level that finds it as it is, and the one that finds it though the operator
# has signed it anew; None where nobody can.
TAMPERED: dict[str, tuple[Callable[[Files], None], str, str | None]] = {
    "digest": (set_(lambda f: f.results, "digest", "0" * 64), "digest", None),
    "signature": (set_(lambda f: f.results, "signature", "a.b.c"), "signature", None),
    "tournament": (
        set_(lambda f: f.document, "tournament", str(UUID(int=7))),
        *("digest", "deals"),
    ),
    "ruleset": (
        set_(lambda f: f.document, "ruleset", "royal-cotillion-1"),
        *("digest", "replays"),
    ),
    "scoring": (
        set_(lambda f: f.document["scoring"], "attempts", "last"),
        *("digest", "standings"),
    ),
    "keys": (
        set_(lambda f: f.document["scoring"]["keys"][2], "better", "more"),
        *("digest", "standings"),
    ),
    "commitment": (
        set_(lambda f: f.document["rounds"][0]["deals"][0], "commitment", "0" * 64),
        *("digest", "deals"),
    ),
    "seed": (
        set_(lambda f: f.document["rounds"][0]["deals"][0], "seed", "0" * 64),
        *("digest", "deals"),
    ),
    "counts": (
        set_(lambda f: f.document["rounds"][0]["deals"][0], "counts", False),  # noqa: FBT003
        *("digest", "standings"),
    ),
    "ruling": (reruled, "digest", "standings"),
    "rank": (set_(entry, "rank", 7), "digest", "standings"),
    "position": (set_(entry, "position", 7), "digest", "standings"),
    "key": (set_(entry, "key", "00"), "digest", "standings"),
    "status": (set_(entry, "status", "withdrawn"), "digest", "standings"),
    "withdrawn": (set_(entry, "withdrawn", True), "digest", "standings"),  # noqa: FBT003
    "reach": (set_(entry, "reach", 1), "digest", "standings"),
    "total": (set_(lambda f: entry(f)["total"], "cards", 104), "digest", "standings"),
    "cell": (set_(lambda f: entry(f)["cells"][0], "cards", 104), "digest", "standings"),
    "places": (swapped, "digest", "standings"),
    "attempt's digest": (set_(sound, "digest", "0" * 64), "digest", "replays"),
    "attempt's cards": (set_(sound, "cards", 104), "digest", "replays"),
    "attempt's time": (set_(sound, "time", 1), "digest", "replays"),
    "attempt's status": (set_(sound, "status", "won"), "digest", "replays"),
    "attempt's number": (set_(sound, "attempt", 9), "digest", "replays"),
    "attempt's entry": (exchanged, "digest", "replays"),
    "no such attempt": (unlisted, "digest", "replays"),
    "missing replay": (missing, "replays", "replays"),
    "replay twice": (doubled, "replays", "replays"),
    "replay's log": (lambda f: replay(f)["log"].insert(0, "hint"), "replays", "replays"),
    "replay's times": (lambda f: replay(f)["times"].append(10**9), "replays", "replays"),
    "replay's header": (
        set_(lambda f: replay(f)["header"]["tournament"], "attempt", 2),
        *("replays", "replays"),
    ),
    "replay's signature": (set_(replay, "signature", "a.b.c"), "replays", "replays"),
    "replay's seed": (set_(replay, "seed", "0" * 64), "replays", "replays"),
    "broken": (
        lambda f: f.replays.__setitem__(0, {"broken": replay(f)["header"]["id"]}),
        *("replays", "replays"),
    ),
    "a member more": (lambda f: f.document.__setitem__("x", 1), "structure", "structure"),
}


@pytest.mark.parametrize("part", TAMPERED)
def test_whatever_is_tampered_with_is_found(event: Files, part: str) -> None:
    tamper, level, though_signed = TAMPERED[part]
    files = event.copy()
    tamper(files)

    for expected in (level, though_signed):
        if expected is None:
            continue
        found = files.verdict("--keys", str(SIGNING_KEYS))
        assert found["verdict"] == "invalid"
        assert found["levels"][expected]["state"] == "fail", found
        assert found["problem"]["level"] == expected
        assert list(found["levels"]) == list(LEVELS)
        assert files.verify("--keys", str(SIGNING_KEYS)).exit_code == 1
        files.resign()


def test_what_is_not_signed_does_not_pass_where_keys_are_given(event: Files) -> None:
    files = event.copy()
    del files.results["signature"]

    assert files.verdict("--keys", str(SIGNING_KEYS))["levels"]["signature"]["state"] == "fail"
    assert files.verdict()["levels"]["signature"] == {"state": "skipped", "reason": "not signed"}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff", b'{"document": 1}\n{}', b'{"a": 1}\n{"b": 2}']
)
def test_what_is_no_results_is_told_so(event: Files, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "results.json"
    file.write_bytes(content)

    ended = run(file, event.copy().write_replays(), "--json")

    assert ended.exit_code == 1
    assert json.loads(ended.stdout)["verdict"] == "invalid"


def test_a_truncated_export_is_not_taken_for_the_whole(event: Files) -> None:
    files = event.copy()
    file = files.write_replays()
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    results = files.folder / "results.json"
    results.write_text(json.dumps(files.results))

    ended = run(results, file)

    assert ended.exit_code == 1
    assert "closing line" in ended.output


def damaged(event: Files, times: int = 1) -> tuple[Path, Path]:
    """Return files of results, and of replays so many times that are wrong in many ways."""
    files = event.copy()
    replays = files.replays
    doubled(files)
    replays[1]["log"].insert(0, "hint")
    replays[2]["header"]["tournament"]["attempt"] = 2
    replays[3:3] = [{"broken": replays[3]["header"]["id"]}, {"broken": 7}, {}]
    files.replays *= times
    results = files.folder / "damaged.json"
    results.write_text(json.dumps(files.results))
    file = files.write_replays()
    file.write_text(f"{{\n{file.read_text()}{json.dumps(replays[0])}\n")
    return results, file


def test_any_number_of_processes_says_the_same(event: Files) -> None:
    results, sound = event.folder / "sound.json", event.copy().write_replays()
    results.write_text(json.dumps(event.results))
    sound = sound.rename(event.folder / "sound.ndjson")

    for given, code, faults in (((results, sound), 0, 0), (damaged(event, 30), 1, MOST_TOLD)):
        said = [
            program("results", "verify", "--json", "--keys", SIGNING_KEYS, *given, "--jobs", jobs)
            for jobs in ("1", "2", "5")
        ]
        assert [one.returncode for one in said] == [code] * 3
        assert len(json.loads(said[0].stdout)["faults"]) == faults, said[0].stdout
        assert {one.stdout for one in said} == {said[0].stdout}
        assert {one.stderr for one in said} == {b""}


def test_replays_may_come_by_standard_input(event: Files) -> None:
    files = event.copy()
    results, replays = files.folder / "results.json", files.write_replays()
    results.write_text(json.dumps(files.results))

    done = program("results", "verify", results, "-", typed=replays.read_bytes())

    assert done.returncode == 0
    assert done.stdout.decode().endswith(f"valid, {len(files.replays)} replays\n")


def test_replays_of_results_that_are_none_are_not_waited_for(event: Files) -> None:
    files = event.copy()
    files.document["format"] = "results-2"
    results = files.folder / "results.json"
    results.write_text(json.dumps(files.results))

    with subprocess.Popen(
        [PROGRAM, "results", "verify", results, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.wait(30) == 3


def test_long_verifying_shows_how_far_it_is(event: Files, tmp_path: Path) -> None:
    results, replays = damaged(event)
    pipe = tmp_path / "replays.ndjson"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("w", encoding="ascii") as file:
            for line in replays.read_text().splitlines(keepends=True):
                file.write(line)
                file.flush()
                time.sleep(0.2)

    writing = threading.Thread(target=write)
    writing.start()
    written, code = watch(["results", "verify", results, pipe])
    writing.join()

    assert code == 1
    shown, _, found = written.partition("structure")
    assert re.search("[0-9]+ verified, [1-9] bad", shown)
    assert "verified" not in found


@pytest.mark.skipif(sys.platform != "linux", reason="children are listed in /proc")
@pytest.mark.parametrize(
    ("jobs", "code", "said"),
    [
        (2, 1, "Error: stopped: a process that verified was killed\n"),
        (0, 130, "\nStopped after [1-9][0-9]* replays?\\.\n"),
    ],
)
def test_what_is_cut_short_has_no_verdict(event: Files, jobs: int, code: int, said: str) -> None:
    files = event.copy()
    results, replays = files.folder / "results.json", files.write_replays().read_bytes()
    results.write_text(json.dumps(files.results))
    with subprocess.Popen(
        [PROGRAM, "results", "verify", results, "-", *(["--jobs", f"{jobs}"] if jobs else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin
        process.stdin.write(replays * 30)
        process.stdin.flush()
        if jobs:
            wait_until(lambda: len(judging_children(process.pid)) == jobs)
            for child in judging_children(process.pid):
                os.kill(child, signal.SIGKILL)
        else:
            process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=30)

    assert process.returncode == code
    assert told == b""
    assert re.fullmatch(said, errors.decode())


def test_an_unknown_format_is_not_judged(event: Files) -> None:
    files = event.copy()
    files.document["format"] = "results-2"
    files.resign()

    found = files.verdict()

    assert found["verdict"] == "unsupported"
    assert files.verify().exit_code == 3


def test_the_document_says_which_results_it_signs(event: Files) -> None:
    files = event.copy()
    files.document["number"] = 2
    files.results["digest"] = digest(files.document)

    assert files.verdict("--keys", str(SIGNING_KEYS))["problem"]["level"] == "signature"


ODD: list[Any] = [None, True, -1, 1.5, 2**63, "x", "0" * 64, [], {}, [[]], {"a": 1}, 10**6]


def test_no_results_whatever_make_it_raise(event: Files) -> None:
    source = Random(1)
    verdicts = set()
    for _ in range(400):
        files = event.copy()
        node: Any = {"results": files.results}
        while True:
            key = source.choice(list(node) if isinstance(node, dict) else range(len(node)))
            if not isinstance(node[key], dict | list) or not node[key] or source.random() < 0.05:
                break
            node = node[key]
        node[key] = source.choice(ODD)
        judging = Judging()
        judging.open(files.results, None)
        for one in files.replays:
            judging.add(read_replay(json.dumps(one).encode()))
        verdicts.add(judging.close(replays=True).verdict)

    assert verdicts <= {"valid", "invalid", "unsupported"}
    assert "invalid" in verdicts
