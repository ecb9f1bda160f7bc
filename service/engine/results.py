"""Results documents, ``results-1``: what a tournament came to, for anybody to verify.

A document carries the facts, which are what was sealed and played and ruled, and what follows from
them: ranks, totals and cells. :func:`places_of` computes these for the service, which writes the
document, and for whoever judges it with the replays in hand.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from service.engine.replay import Json, canonical, commitment
from service.engine.rulesets import RULESETS
from service.engine.standings import (
    LAST_ROUND,
    OVERALL,
    Attempt,
    Entry,
    Result,
    Ruling,
    Scoring,
    judged,
    places,
    scoring_of,
)
from service.engine.verify import (
    Check,
    FaultError,
    Problem,
    SignatureCheck,
    Verdict,
    integer_of,
    is_hex,
    is_name,
    is_uuid,
    list_of,
    members_of,
    misfit,
    read,
    text_of,
)
from service.engine.verify import verify as verify_replay

FORMAT: Final = "results-1"
LEVELS: Final = ("structure", "digest", "signature", "deals", "replays", "standings")
MAX_RESULTS_BYTES: Final = 1 << 28
"""Longest document that is read."""

_LABEL: Final = b"royal-rendezvous/results/1\0"
_MOST: Final = 10**6
_PARTS: Final = ("won", "cards", "entries", "time")


def digest(document: Json) -> str:
    """Return the digest of a document, 64 hex digits."""
    return digest_of_text(canonical(document))


def digest_of_text(text: bytes) -> str:
    """Return the digest of a document that is given as canonical JSON."""
    return hashlib.sha256(_LABEL + text).hexdigest()


def signed_facts(document: Json, digest: str) -> bytes:
    """Return what the signature of a document signs, canonical JSON."""
    named = {name: document[name] for name in ("format", "tournament", "number")}
    return canonical({**named, "digest": digest})


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry's place and what it follows from, as a document tells them.

    Attributes:
        entry: The entry's id.
        told: The members ``status``, ``rank`` if it has one, ``position``, ``key`` if it has a
            rank, ``total`` and ``cells``.
    """

    entry: str
    told: Json


def places_of(document: Json, results: Callable[[Json], Result] | None = None) -> Iterable[Placed]:
    """Yield the entries of a document in their order, as they follow from its facts.

    Args:
        document: One of the right form; what it tells of places is not looked at.
        results: Gives what an attempt of it came to, if that is not what it tells.
    """
    scoring = scoring_of(document["scoring"])
    rounds = [
        frozenset(deal["number"] for deal in one["deals"] if deal["counts"])
        for one in document["rounds"]
    ]
    ruled: dict[str, list[Ruling]] = {}
    for one in sorted(document["rulings"], key=lambda one: int(one["number"])):
        if "entry" in one:
            ruled.setdefault(one["entry"], []).append(_ruling(one))
    found: dict[UUID, Json] = {}
    keys: dict[UUID, bytes | None] = {}
    for entry in document["entries"]:
        attempts = [
            Attempt(one["deal"], one["attempt"], (results or result_of)(one))
            for one in entry["attempts"]
            if "digest" in one
        ]
        rulings = ruled.get(entry["id"], [])
        name = UUID(entry["id"])
        keys[name], found[name] = _stand(entry, attempts, rulings, scoring, rounds)
    for place in places(keys):
        told = found[place.entry]
        if place.rank is not None:
            told = {"rank": place.rank, **told}
        yield Placed(str(place.entry), {"position": place.position, **told})


def result_of(attempt: Json) -> Result:
    """Return what an attempt came to as a document tells."""
    return Result(*(attempt[name] for name in _PARTS))


def _ruling(one: Json) -> Ruling:
    place = (one.get("deal"), one.get("attempt"))
    return Ruling(one["number"], one["kind"], UUID(one["entry"]), *place, one.get("values", {}))


def _stand(
    entry: Json,
    attempts: list[Attempt],
    rulings: list[Ruling],
    scoring: Scoring,
    rounds: list[frozenset[int]],
) -> tuple[bytes | None, Json]:
    withdrawn = entry["withdrawn"]
    facts = Entry(entry["reach"], withdrawn, attempts, rulings)
    standing = facts.standings(scoring, rounds)[OVERALL]
    _, disqualified = judged(attempts, rulings)
    adjusted = {(one.deal, one.attempt) for one in rulings if one.kind == "adjust"}
    cells = [
        {
            "deal": one.deal,
            "attempt": one.number,
            **{name: getattr(one.result, name) for name in _PARTS},
            "counts": one.deal in standing.counting,
            **({"adjusted": True} if (one.deal, one.number) in adjusted else {}),
        }
        for _, one in sorted(standing.cells.items())
    ]
    return standing.key, {
        "status": "disqualified" if disqualified else "withdrawn" if withdrawn else "active",
        **({} if standing.key is None else {"key": standing.key.hex()}),
        "total": standing.total._asdict(),
        "cells": cells,
    }


def _flag(value: Any) -> None:
    if type(value) is not bool:
        raise misfit("neither true nor false")


def _true(value: Any) -> None:
    if value is not True:
        raise misfit("not true")


_number: Final = integer_of(1, _MOST)
_amount: Final = integer_of()
_deal_no: Final = integer_of(1, 1000)
_PLAYED: Final = {"won": integer_of(0, 1), **dict.fromkeys(_PARTS[1:], _amount)}
_NAMED: Final = {"deal": _deal_no, "attempt": _number}
_SCORING: Final = members_of(
    {
        "keys": list_of(
            members_of({"key": is_name, "better": text_of("more|less", "more or less")}, {}), 5
        ),
        "attempts": text_of("best|first|last", "best, first or last"),
    },
    {"best": _number},
)
_ROUND: Final = members_of(
    {
        "number": _number,
        "starts_at": _amount,
        "ends_at": _amount,
        "deals": list_of(
            members_of(
                {
                    "number": _deal_no,
                    "counts": _flag,
                    "spec": is_name,
                    "commitment": is_hex,
                    "seed": is_hex,
                },
                {},
            ),
            1000,
        ),
    },
    {"cut": members_of({"by": text_of("top|cards|won", "a cut"), "value": _number}, {})},
)
_RULING: Final = members_of(
    {
        "number": _number,
        "kind": text_of("disqualify|reinstate|annul|adjust|extend|admit", "a kind of ruling"),
    },
    {
        "entry": is_uuid,
        **_NAMED,
        "round": _number,
        "values": members_of({}, {**_PLAYED, "deals": _amount}),
    },
)
_SOUND: Final = members_of(
    {"game": is_uuid, **_NAMED, "status": is_name, **_PLAYED, "digest": is_hex}, {}
)
_UNSOUND: Final = members_of({"game": is_uuid, **_NAMED, "invalid": _true}, {})


def _attempt(value: Any) -> None:
    (_UNSOUND if type(value) is dict and "invalid" in value else _SOUND)(value)


_ENTRY: Final = members_of(
    {
        "id": is_uuid,
        "player": is_uuid,
        "reach": _number,
        "withdrawn": _flag,
        "status": text_of("active|withdrawn|disqualified", "a status"),
        "position": _number,
        "total": members_of({**dict.fromkeys(_PARTS, _amount), "deals": _amount}, {}),
        "cells": list_of(
            members_of(
                {**_NAMED, **dict.fromkeys(_PARTS, _amount), "counts": _flag}, {"adjusted": _true}
            ),
            1000,
        ),
        "attempts": list_of(_attempt, _MOST),
    },
    {"rank": _number, "key": text_of(r"(?:[0-9a-f]{2}){1,64}", "a key")},
)
_DOCUMENT: Final = members_of(
    {
        "format": is_name,
        "tournament": is_uuid,
        "number": _number,
        "at": _amount,
        "ruleset": is_name,
        "scoring": _SCORING,
        "attempts": _number,
        "rounds": list_of(_ROUND, LAST_ROUND),
        "rulings": list_of(_RULING, _MOST),
        "entries": list_of(_ENTRY, _MOST),
    },
    {},
)
_FILE: Final[Check] = members_of(
    {"document": _DOCUMENT, "digest": is_hex},
    {"signature": text_of(r"[-_A-Za-z0-9.]{1,4096}", "a compact JWS")},
)


@dataclass(frozen=True, slots=True)
class Replay:
    """What results need to know of a valid replay.

    Attributes:
        header: Its header.
        digest: Its digest.
        status: How the game ended.
        result: What it came to as an attempt.
    """

    header: Json
    digest: str
    status: str
    result: Result


@dataclass(frozen=True, slots=True)
class Broken:
    """What stands in place of a replay that is invalid.

    Attributes:
        game: The game's id.
    """

    game: str


def read_replay(text: bytes, check: SignatureCheck | None = None) -> Replay | Broken | Problem:
    """Verify a replay by itself: all of the work on it that other replays have no part in.

    Args:
        text: The document's, or of ``{"broken": id}``.
        check: What checks its signature, too.
    """
    try:
        value = read(text)
    except ValueError as error:
        return _of_replay("malformed", str(error))
    if type(value) is dict and value.keys() == {"broken"} and type(value["broken"]) is str:
        return Broken(value["broken"])
    verdict = verify_replay(value, check)
    facts = verdict.result
    if verdict.verdict != "valid" or facts is None:
        why = verdict.problem.detail if verdict.problem else "it is not finished"
        return _of_replay(verdict.verdict, f"a replay is {verdict.verdict}: {why}")
    time = value["times"][-1] if value["times"] else 0
    result = Result(int(facts["status"] == "won"), facts["score"], facts["ply"], time)
    return Replay(value["header"], value["digest"], facts["status"], result)


@dataclass(slots=True)
class Judging:
    """Results that are judged: opened first, then given every replay, then closed.

    Attributes:
        verdict: What can be said so far; whole once it is closed. Its levels are ``structure``, the
            members and their form; ``digest``; ``signature``; ``deals``, every seed and its
            commitment; ``replays``, each valid, of this tournament and with the digest that is
            told, none missing and none too many; ``standings``, every place, key, total and cell as
            they follow from the replays, rulings and cuts.
    """

    verdict: Verdict = field(default_factory=Verdict)
    _document: Json = field(default_factory=dict)
    _awaited: dict[str, tuple[Json, Json]] = field(default_factory=dict)
    _seeds: dict[int, Json] = field(default_factory=dict)
    _rounds: dict[int, int] = field(default_factory=dict)
    _found: dict[str, Result] = field(default_factory=dict)

    def open(self, value: Any, check: SignatureCheck | None) -> None:
        """Judge the document itself: a value of the form ``{document, digest, signature?}``."""
        self.verdict.levels = dict.fromkeys(LEVELS, ("skipped", "not reached"))
        try:
            _FILE(value)
            _check_together(value["document"])
        except FaultError as fault:
            self._fail(fault.problem)
            return
        except RecursionError:
            self._fail(Problem("structure", "malformed", "nested too deeply", ""))
            return
        document = value["document"]
        if document["format"] != FORMAT or document["ruleset"] not in RULESETS:
            name = "ruleset" if document["format"] == FORMAT else "format"
            detail = f"the {name} {document[name]!r} is not known here"
            self.verdict.problem = Problem(
                "structure", f"unsupported-{name}", detail, f"/document/{name}"
            )
            self.verdict.verdict = "unsupported"
            return
        self._pass("structure")
        self._document = document
        if digest(document) == value["digest"]:
            self._pass("digest")
        else:
            detail = "the digest is not that of this document"
            self._fail(Problem("digest", "digest-mismatch", detail, "/digest"))
        self._check_signature(value, check)
        self._open_deals()
        for entry in document["entries"]:
            for attempt in entry["attempts"]:
                self._awaited[attempt["game"]] = (entry, attempt)

    def _pass(self, level: str) -> None:
        self.verdict.levels[level] = ("pass", "")

    def _fail(self, problem: Problem) -> None:
        """Note that a level failed; of several problems the first is told."""
        self.verdict.levels[problem.level] = ("fail", "")
        self.verdict.problem = self.verdict.problem or problem

    def _check_signature(self, value: Json, check: SignatureCheck | None) -> None:
        signature = value.get("signature")
        ruling: Problem | str | None
        if check is None:
            ruling = "not signed" if signature is None else "no keys were given to check it with"
        else:
            ruling = check(signature, signed_facts(value["document"], value["digest"]))
        if isinstance(ruling, Problem):
            self._fail(ruling)
        elif ruling is None:
            self._pass("signature")
        else:
            self.verdict.levels["signature"] = ("skipped", ruling)

    def _open_deals(self) -> None:
        tournament = self._document["tournament"]
        for n, one in enumerate(self._document["rounds"]):
            for m, deal in enumerate(one["deals"]):
                self._seeds[deal["number"]] = deal
                self._rounds[deal["number"]] = one["number"]
                context = f"{tournament}/{deal['number']}"
                if commitment(context, deal["seed"]) != deal["commitment"]:
                    detail = f"the seed of deal {deal['number']} does not open its commitment"
                    pointer = f"/document/rounds/{n}/deals/{m}/seed"
                    self._fail(Problem("deals", "commitment-mismatch", detail, pointer))
        if self.verdict.levels["deals"][0] != "fail":
            self._pass("deals")

    @property
    def opened(self) -> bool:
        """Whether there are results that replays can be compared with."""
        return bool(self._document)

    def add(self, found: Replay | Broken | Problem) -> Problem | None:
        """Judge a replay; return what is wrong with it, None if nothing is.

        Args:
            found: What it is by itself, or what is wrong with it or with its file.
        """
        problem = found if isinstance(found, Problem) else self._compare_replay(found)
        if problem is None:
            return None
        problem = replace(problem, level="replays")
        self._fail(problem)
        return problem

    def _compare_replay(self, found: Replay | Broken) -> Problem | None:
        if isinstance(found, Broken):
            return self._compare_broken(found.game)
        header = found.header
        name = header["id"]
        entry, attempt = self._awaited.pop(name, ({}, {}))
        if not attempt:
            if name in self._found:
                return _of_replay("replay-twice", f"the replay of game {name} comes twice")
            return _of_replay("replay-not-listed", f"game {name} is not in these results")
        self._found[name] = found.result
        deal = self._seeds.get(attempt["deal"], {})
        expected = {
            "id": self._document["tournament"],
            "round": self._rounds.get(attempt["deal"]),
            "deal_no": attempt["deal"],
            "entry": entry["id"],
            "attempt": attempt["attempt"],
        }
        told = header.get("tournament", {})
        sealed = {"spec": deal.get("spec"), "commitment": deal.get("commitment")}
        if {member: told.get(member) for member in expected} != expected:
            return _of_replay("replay-of-another", f"game {name} is not the attempt that is told")
        if header["ruleset"] != self._document["ruleset"] or header["deal"] != sealed:
            return _of_replay("replay-of-another", f"game {name} is not of the deal that is told")
        if attempt.get("digest") != found.digest:
            return _of_replay("digest-mismatch", f"game {name} does not have the digest told")
        if attempt["status"] != found.status or result_of(attempt) != found.result:
            return _of_replay("result-mismatch", f"game {name} does not have the result told")
        return None

    def _compare_broken(self, name: str) -> Problem | None:
        _, attempt = self._awaited.get(name, ({}, {}))
        if "invalid" not in attempt:
            return _of_replay("replay-missing", f"there is no replay of game {name}")
        del self._awaited[name]
        return None

    def close(self, *, replays: bool) -> Verdict:
        """Say how it went, when there are no further replays.

        Args:
            replays: Whether replays were to be had at all.
        """
        verdict = self.verdict
        if verdict.verdict == "unsupported":
            verdict.levels = dict.fromkeys(LEVELS, ("skipped", "unsupported"))
            return verdict
        if verdict.levels["structure"][0] == "fail":
            for level in LEVELS[1:]:
                verdict.levels[level] = ("skipped", "structure failed")
        elif not replays:
            for level in LEVELS[4:]:
                verdict.levels[level] = ("skipped", "no replays were given")
        else:
            self._close_replays()
        if verdict.problem is not None:
            verdict.verdict = "invalid"
        else:
            verdict.verdict = "valid" if replays else "incomplete"
        return verdict

    def _close_replays(self) -> None:
        missing = [name for name, (_, one) in self._awaited.items() if "invalid" not in one]
        if missing:
            detail = f"{len(missing)} replays are missing, such as that of game {missing[0]}"
            self._fail(_of_replay("replay-missing", detail))
        if self.verdict.levels["replays"][0] == "fail":
            self.verdict.levels["standings"] = ("skipped", "replays failed")
            return
        self._pass("replays")
        self._compare()

    def _compare(self) -> None:
        """Compare every place with what follows from the replays."""
        told = self._document["entries"]
        given = zip(
            told, places_of(self._document, lambda one: self._found[one["game"]]), strict=True
        )
        for n, (entry, place) in enumerate(given):
            fixed = {name: entry[name] for name in ("id", "player", "reach", "withdrawn")}
            expected = {**fixed, "id": place.entry, **place.told, "attempts": entry["attempts"]}
            if entry != expected:
                names = {*expected, *entry}
                name = min(one for one in names if entry.get(one) != expected.get(one))
                detail = (
                    f"{name}: the replays give {expected.get(name)!r}, "
                    f"the document {entry.get(name)!r}"
                )
                pointer = f"/document/entries/{n}/{name}"
                self._fail(Problem("standings", "standings-mismatch", detail, pointer))
                return
        self._pass("standings")


def _of_replay(code: str, detail: str) -> Problem:
    return Problem("replays", code, detail)


def _check_together(document: Mapping[str, Any]) -> None:
    """Raise unless members that each have their form go together."""
    try:
        scoring_of(document["scoring"])
    except (ValueError, KeyError) as error:
        raise misfit(f"the scoring makes no sense: {error}", "/document/scoring") from None
    rounds = document["rounds"]
    if [one["number"] for one in rounds] != list(range(1, len(rounds) + 1)):
        raise misfit("rounds are numbered from 1, in order", "/document/rounds")
    deals = [deal["number"] for one in rounds for deal in one["deals"]]
    _demand_once(deals, "deal", "/document/rounds")
    _demand_once([one["number"] for one in document["rulings"]], "ruling", "/document/rulings")
    entries = document["entries"]
    _demand_once([one["id"] for one in entries], "entry", "/document/entries")
    games = [one["game"] for entry in entries for one in entry["attempts"]]
    _demand_once(games, "game", "/document/entries")
    known = set(deals)
    for n, entry in enumerate(entries):
        named = [(one["deal"], one["attempt"]) for one in entry["attempts"]]
        pointer = f"/document/entries/{n}/attempts"
        _demand_once(named, "attempt", pointer)
        if not known.issuperset(deal for deal, _ in named):
            raise misfit("an attempt at a deal that there is not", pointer)
        if entry["reach"] > len(rounds):
            raise misfit("there is no such round", f"/document/entries/{n}/reach")


def _demand_once(names: list[Any], what: str, pointer: str) -> None:
    if len(set(names)) < len(names):
        raise misfit(
            f"an {what} stands twice" if what[0] in "ae" else f"a {what} stands twice", pointer
        )
