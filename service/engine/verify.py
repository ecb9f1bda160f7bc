"""The verifier: reads a replay document strictly and says what it is worth.

It trusts nothing that it can compute: it deals the cards from the seed, plays the log move by move,
and compares what comes out with what the document claims. It never raises on bad input.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final, Literal

from service.engine.deals import DEAL_SPECS, Layout, canonical_seed, deal
from service.engine.errors import BadSeedError, EngineError
from service.engine.game import LOG_LIMIT, Game
from service.engine.moves import Move, table
from service.engine.replay import (
    FORMAT,
    Json,
    canonical,
    commitment,
    commitment_context,
    digest,
    result,
    signed_facts,
)
from service.engine.rulesets import RULESETS

LEVELS: Final = ("structure", "deal", "rules", "outcome", "digest", "signature")
MAX_DOCUMENT_BYTES: Final = 1 << 20
"""Longest document that is read; a full log of 2,000 entries takes less than a tenth of it."""

_MAX_INTEGER: Final = 2**53 - 1
_HEX_64: Final = r"[0-9a-f]{64}"
_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME: Final = r"[a-z0-9](?:-?[a-z0-9]){0,63}"
_PLACE: Final = r"[a-z0-9]{1,16}(?:-[CDHS])?"
_ENTRY: Final = rf"(?:{_PLACE}:{_PLACE}|undo|resign|hint)"
_POSITION: Final = r"[-+/ A-Z0-9]{1,1000}"
_SIGNATURE: Final = r"[-_A-Za-z0-9.]{1,4096}"
_STATUSES: Final = ("playing", "won", "lost", "resigned", "timed-out")


State = Literal["pass", "fail", "skipped"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Where a document failed, and why.

    Attributes:
        level: The level that failed.
        code: Stable name of the kind of fault.
        detail: One sentence for a person.
        pointer: JSON Pointer to the member at fault, where there is one.
        ply: Index of the log entry at fault, where there is one.
    """

    level: str
    code: str
    detail: str
    pointer: str | None = None
    ply: int | None = None

    def as_json(self) -> Json:
        """Return the problem with absent members left out."""
        members = {"level": self.level, "code": self.code, "detail": self.detail}
        place = {"pointer": self.pointer, "ply": self.ply}
        return {**members, **{name: value for name, value in place.items() if value is not None}}


@dataclass(slots=True)
class Verdict:
    """What a verifier says of one document.

    Attributes:
        verdict: ``valid``; ``invalid``; ``incomplete``: sound so far, but the game is not finished
            or its hidden deal not yet opened; ``unsupported``: a format, ruleset or deal spec that
            this verifier does not know.
        levels: For each level its state, and for ``skipped`` the reason.
        result: What the log gives, once the rules level has passed.
        problem: What failed first, or what is not supported.
    """

    verdict: Literal["valid", "invalid", "incomplete", "unsupported"] = "invalid"
    levels: dict[str, tuple[State, str]] = field(default_factory=dict)
    result: Json | None = None
    problem: Problem | None = None

    def as_json(self) -> Json:
        """Return the verdict as HTTP and the command line give it."""
        levels = {
            name: {"state": state, **({"reason": reason} if reason else {})}
            for name, (state, reason) in self.levels.items()
        }
        return {
            "verdict": self.verdict,
            "levels": levels,
            **({} if self.result is None else {"result": self.result}),
            **({} if self.problem is None else {"problem": self.problem.as_json()}),
        }


class FaultError(Exception):
    """Carries the problem that ends a level.

    Attributes:
        problem: The problem.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem

    def below(self, name: str | int) -> "FaultError":
        """Return the same fault, with its pointer led on from the member that holds it."""
        pointer = f"/{escape(str(name))}{self.problem.pointer}"
        return type(self)(replace(self.problem, pointer=pointer))


class _UnsupportedError(FaultError):
    """The document may be sound, but not for this verifier to say."""


def read(text: str | bytes, limit: int = MAX_DOCUMENT_BYTES) -> Any:
    """Return the JSON value of a document's text, strictly read.

    Args:
        text: The text.
        limit: Most bytes of it.

    Raises:
        ValueError: Not UTF-8, not JSON, a name twice in one object, NaN or an infinity, nested too
            deeply, or longer than the limit.
    """
    if len(text) > limit:
        raise ValueError(f"longer than {limit} bytes")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return _decode(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(
            f"not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:
        if "integer string conversion" in str(error):  # Python's own limit, and its own advice
            raise ValueError("an integer of thousands of digits") from error
        raise


def _no_doubles(pairs: list[tuple[str, Any]]) -> Json:
    value = dict(pairs)
    if len(value) != len(pairs):
        [(double, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {double!r} stands twice in one object")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_decode: Final = json.JSONDecoder(object_pairs_hook=_no_doubles, parse_constant=_no_constant).decode


SignatureCheck = Callable[[str | None, bytes], Problem | str | None]
"""Takes a document's signature, None where a finished game has none, and what it has to sign.

Gives None if it is good, a problem if it is bad, and a reason where that is not to be said.
"""


def verify_text(text: str | bytes, check: SignatureCheck | None = None) -> Verdict:
    """Return the verdict on a document's text; see :func:`verify`."""
    try:
        value = read(text)
    except ValueError as error:
        return _failed(Problem("structure", "malformed", str(error), pointer=""))
    return verify(value, check)


def _failed(problem: Problem) -> Verdict:
    levels: dict[str, tuple[State, str]] = {}
    for name in LEVELS:
        levels[name] = (
            ("fail", "") if name == problem.level else ("skipped", f"{problem.level} failed")
        )
    return Verdict("invalid", levels, problem=problem)


def verify(value: Any, check: SignatureCheck | None = None) -> Verdict:
    """Return the verdict on a document, given as the value of its JSON. Never raises.

    The levels: ``structure``, the members and their form; ``deal``, the seed and its commitment;
    ``rules``, every entry of the log played in its turn; ``outcome``, all that the result claims;
    ``digest``; ``signature``, by what is given to check it. A level that needs one that failed is
    skipped.
    """
    verdict = Verdict(levels=dict.fromkeys(LEVELS, ("skipped", "not reached")))
    try:
        moves, header = _check_structure(value)
    except _UnsupportedError as fault:
        return Verdict(
            "unsupported", dict.fromkeys(LEVELS, ("skipped", "unsupported")), problem=fault.problem
        )
    except FaultError as fault:
        return _failed(fault.problem)
    verdict.levels["structure"] = ("pass", "")
    opened = _judge(verdict, value, moves)
    if value["digest"] == digest(header, value["log"], value["times"]):
        verdict.levels["digest"] = ("pass", "")
    else:
        verdict.levels["digest"] = ("fail", "")
        detail = "the digest is not that of this header, log and times"
        verdict.problem = verdict.problem or Problem("digest", "digest-mismatch", detail, "/digest")
    _check_signature(verdict, value, check)
    if verdict.problem is not None:
        verdict.verdict = "invalid"
    elif opened and value["result"]["status"] != "playing":
        verdict.verdict = "valid"
    else:
        verdict.verdict = "incomplete"
    return verdict


def _check_signature(verdict: Verdict, value: Json, check: SignatureCheck | None) -> None:
    signature = value.get("signature")
    ruling: Problem | str | None
    if signature is None and (check is None or value["result"]["status"] == "playing"):
        ruling = "not signed"
    elif check is None:
        ruling = "no keys were given to check it with"
    else:
        ruling = check(signature, signed_facts(value))
    if isinstance(ruling, Problem):
        verdict.problem = verdict.problem or ruling
        verdict.levels["signature"] = ("fail", "")
    else:
        verdict.levels["signature"] = ("pass", "") if ruling is None else ("skipped", ruling)


def _judge(verdict: Verdict, value: Json, moves: list[Move]) -> bool:
    """Settle the levels deal, rules and outcome; return whether the deal is open."""
    levels, header = verdict.levels, value["header"]
    level = "deal"
    try:
        seed = _open(header, value.get("seed"))
        if seed is None:
            reason = "the deal's seed is not revealed"
            levels.update(dict.fromkeys(("deal", "rules", "outcome"), ("skipped", reason)))
            return False
        layout = _deal_out(header, seed)
        levels[level] = ("pass", "")
        level = "rules"
        game = Game(table(header["ruleset"]), layout, undo_allowed="seed" in header["deal"])
        _play(game, value["log"], moves)
        levels[level] = ("pass", "")
        level = "outcome"
        verdict.result = _check_outcome(game, value, header)
        levels[level] = ("pass", "")
    except FaultError as fault:
        verdict.problem = fault.problem
        for name in LEVELS[LEVELS.index(level) : 4]:
            levels[name] = ("fail", "") if name == level else ("skipped", f"{level} failed")
    return True


def _open(header: Json, revealed: str | None) -> str | None:
    """Return the deal's seed, checked against its commitment; None while it is not revealed."""
    named = header["deal"]
    if "seed" in named:
        return str(named["seed"])
    if revealed is None:
        return None
    if commitment(commitment_context(header), revealed) != named["commitment"]:
        detail = "the seed does not open the commitment"
        raise FaultError(Problem("deal", "commitment-mismatch", detail, "/seed"))
    return revealed


def _deal_out(header: Json, seed: str) -> Layout:
    spec = header["deal"]["spec"]
    try:
        layout, detail = deal(spec, header["ruleset"], seed), ""
        if canonical_seed(spec, seed) != seed:
            detail = "records keep a seed without leading zeros"
    except BadSeedError as error:
        detail = str(error)
    if detail:
        pointer = "/header/deal/seed" if "seed" in header["deal"] else "/seed"
        raise FaultError(Problem("deal", BadSeedError.code, detail, pointer))
    return layout


def _play(game: Game, log: list[str], moves: list[Move]) -> None:
    """Enter the moves of a log, which end before the first text that is none of the ruleset's."""
    try:
        game.extend(moves)
        if len(moves) < len(log):
            game.rules.parse(log[game.ply])
    except EngineError as error:
        ply = game.ply
        detail = f"{log[ply]}: {error}"
        raise FaultError(Problem("rules", error.code, detail, f"/log/{ply}", ply)) from error


def _check_outcome(game: Game, value: Json, header: Json) -> Json:
    times, claimed = value["times"], value["result"]
    deadline = header["tournament"]["deadline"] if "tournament" in header else None
    if deadline is not None and times and header["created_at"] + times[-1] > deadline:
        detail = "an entry was made after the deadline"
        late = next(ply for ply, ms in enumerate(times) if header["created_at"] + ms > deadline)
        raise FaultError(Problem("outcome", "deadline-passed", detail, f"/times/{late}", late))
    ended = deadline if claimed["status"] == "timed-out" else None
    facts = result(game, created_at=header["created_at"], times=times, deadline=ended)
    if facts != claimed:
        name = next(name for name in (*facts, *claimed) if facts.get(name) != claimed.get(name))
        detail = f"{name}: the log gives {facts.get(name)!r}, the document {claimed.get(name)!r}"
        raise FaultError(Problem("outcome", "result-mismatch", detail, f"/result/{name}"))
    return facts


Check = Callable[[Any], None]
"""Raises a fault, its pointer relative to the value, unless the value has the form."""


def misfit(detail: str, pointer: str = "") -> FaultError:
    """Return the fault of a value that does not have its form."""
    return FaultError(Problem("structure", "malformed", detail, pointer))


def escape(name: str) -> str:
    """Return a member's name as one token of a JSON Pointer (RFC 6901), encodable in any case."""
    name = name.encode("utf-8", "backslashreplace").decode()
    return name.replace("~", "~0").replace("/", "~1")


def text_of(pattern: str, what: str) -> Check:
    """Return what checks a text that matches a pattern as a whole."""
    fullmatch = re.compile(pattern).fullmatch

    def check(value: Any) -> None:
        if type(value) is not str or not fullmatch(value):
            raise misfit(f"not {what}")

    return check


def integer_of(low: int = 0, high: int = _MAX_INTEGER) -> Check:
    """Return what checks an integer within bounds, both included."""

    def check(value: Any) -> None:
        if type(value) is not int or not low <= value <= high:
            raise misfit(f"not an integer from {low} to {high}")

    return check


def members_of(required: Mapping[str, Check], optional: Mapping[str, Check]) -> Check:
    """Return what checks an object of these members and no others."""
    members = {**required, **optional}

    def check(value: Any) -> None:
        if type(value) is not dict:
            raise misfit("not an object")
        for name in required:
            if name not in value:
                raise misfit(f"the member {name!r} is missing")
        for name, member in value.items():
            if name not in members:
                raise misfit("a member of this name is not known", f"/{escape(name)}")
            try:
                members[name](member)
            except FaultError as fault:
                raise fault.below(name) from None

    return check


def list_of(member: Check, most: int) -> Check:
    """Return what checks a list of at most so many members that each have a form."""

    def check(value: Any) -> None:
        if type(value) is not list or len(value) > most:
            raise misfit(f"not a list of at most {most}")
        for n, one in enumerate(value):
            try:
                member(one)
            except FaultError as fault:
                raise fault.below(n) from None

    return check


def _list(value: Any) -> None:
    if type(value) is not list or len(value) > LOG_LIMIT:
        raise misfit(f"not a list of at most {LOG_LIMIT}")


def _times(value: Any) -> None:
    _list(value)
    last = 0
    for n, ms in enumerate(value):
        if type(ms) is not int or not last <= ms <= _MAX_INTEGER:
            raise misfit(f"instants are integers up to {_MAX_INTEGER} and never fall", f"/{n}")
        last = ms


def _anything(_value: Any) -> None:
    """Accept what is not ours to check."""


def _deal(value: Any) -> None:
    _DEALS["commitment" if type(value) is dict and "commitment" in value else "seed"](value)


_seed: Final = text_of(r"[!-~]{1,64}", "a seed")
is_uuid: Final = text_of(_UUID, "a lower-case UUID")
is_hex: Final = text_of(_HEX_64, "64 lower-case hex digits")
is_name: Final = text_of(_NAME, "a name")
_DEALS: Final = {
    "seed": members_of({"spec": is_name, "seed": _seed}, {}),
    "commitment": members_of({"spec": is_name, "commitment": is_hex}, {}),
}
_MEMBERS: Final = members_of(
    {
        "format": is_name,
        "header": members_of(
            {
                "id": is_uuid,
                "ruleset": is_name,
                "deal": _deal,
                "player": is_uuid,
                "created_at": integer_of(),
                "options": members_of({}, {}),
            },
            {
                "tournament": members_of(
                    {
                        "id": is_uuid,
                        "round": integer_of(1),
                        "deal_no": integer_of(1),
                        "entry": is_uuid,
                        "attempt": integer_of(1),
                        "deadline": integer_of(),
                    },
                    {},
                )
            },
        ),
        "log": _list,
        "times": _times,
        "result": members_of(
            {
                "status": text_of("|".join(_STATUSES), "a status"),
                "score": integer_of(0, 104),
                "ply": integer_of(0, LOG_LIMIT),
                "undos": integer_of(0, LOG_LIMIT),
                "hints": integer_of(0, LOG_LIMIT),
                "position": text_of(_POSITION, "the text of a position"),
            },
            {"ended_at": integer_of()},
        ),
        "digest": is_hex,
    },
    {
        "seed": _seed,
        "signature": text_of(_SIGNATURE, "a compact JWS"),
        "extra": _anything,
    },
)


# The usual document as canonical JSON, its log and times aside: what matches has the form that
# _MEMBERS asks for, found out at once from text that the digest needs anyway. What does not match
# may still be sound; that is for _MEMBERS to say, and why not.
_NUMBER: Final = r"(?:0|[1-9][0-9]{0,14})"
_FROM_1: Final = r"[1-9][0-9]{0,14}"
_COUNT: Final = r"(?:0|[1-9][0-9]{0,2})"
_PLAIN_SEED: Final = r"[!#-[\]-~]{1,64}"
_USUAL: Final = re.compile(
    rf'{{"digest":"{_HEX_64}","format":"{FORMAT}",'
    rf'"header":({{"created_at":{_NUMBER},'
    rf'"deal":{{(?:"commitment":"{_HEX_64}"|"seed":"{_PLAIN_SEED}"),"spec":"{_NAME}"}},'
    rf'"id":"{_UUID}","options":{{}},"player":"{_UUID}","ruleset":"{_NAME}"'
    rf'(?:,"tournament":{{"attempt":{_FROM_1},"deadline":{_NUMBER},"deal_no":{_FROM_1},'
    rf'"entry":"{_UUID}","id":"{_UUID}","round":{_FROM_1}}})?}}),"log":0,'
    rf'"result":{{(?:"ended_at":{_NUMBER},)?"hints":{_COUNT},"ply":{_COUNT},'
    rf'"position":"{_POSITION}","score":(?:[1-9]?[0-9]|10[0-4]),'
    rf'"status":"(?:{"|".join(_STATUSES)})","undos":{_COUNT}}}'
    rf'(?:,"seed":"{_PLAIN_SEED}")?(?:,"signature":"{_SIGNATURE}")?,"times":0}}'.encode("ascii")
).fullmatch


def _usual_header(value: Json) -> bytes | None:
    """Return the canonical header if all members are seen at once to have their form, else None."""
    log, times = value.get("log"), value.get("times")
    if not (type(log) is type(times) is list and len(log) == len(times) <= LOG_LIMIT):
        return None
    if times and not (
        {int}.issuperset(map(type, times))
        and 0 <= times[0] <= times[-1] <= _MAX_INTEGER
        and times == sorted(times)
    ):
        return None
    try:
        match = _USUAL(canonical({**value, "log": 0, "times": 0}))
    except (RecursionError, TypeError, ValueError):
        return None
    return match and match[1]


def _check_structure(value: Any) -> tuple[list[Move], bytes]:
    """Raise unless the members and their forms are those of ``replay-1``.

    Returns the log's entries up to the first, if any, that no position of the ruleset has; and the
    canonical header.
    """
    if type(value) is not dict:
        raise misfit("not an object")
    claimed = value.get("format")
    if type(claimed) is str and claimed != FORMAT and re.fullmatch(_NAME, claimed):
        raise _unsupported("format", "/format", claimed, (FORMAT,))
    usual = _usual_header(value)
    if usual is None:
        _MEMBERS(value)
    header = value["header"]
    _check_together(value, header)
    if header["ruleset"] not in RULESETS:
        raise _unsupported("ruleset", "/header/ruleset", header["ruleset"], RULESETS)
    spec = header["deal"]["spec"]
    if spec not in DEAL_SPECS:
        raise _unsupported("deal spec", "/header/deal/spec", spec, DEAL_SPECS)
    moves = _entries(value["log"], table(header["ruleset"]).by_text)
    return moves, usual or canonical(header)


def _check_together(value: Json, header: Json) -> None:
    """Raise unless members that each have their form go together."""
    if len(value["times"]) != len(value["log"]):
        raise misfit("not as many instants as log entries", "/times")
    if "seed" in value and "seed" in header["deal"]:
        raise misfit("a seed stands here only where the header has a commitment", "/seed")
    if "tournament" in header:
        if "seed" in header["deal"]:
            raise misfit("a tournament's deal is a commitment", "/header/deal/seed")
        if header["tournament"]["deadline"] < header["created_at"]:
            raise misfit("the deadline is before the game", "/header/tournament/deadline")
    if value["result"]["status"] == "timed-out" and "tournament" not in header:
        raise misfit("only a tournament's game can time out", "/result/status")


def _unsupported(what: str, pointer: str, name: str, known: Iterable[str]) -> _UnsupportedError:
    detail = f"the {what} {name!r} is not known here; known: {', '.join(known)}"
    code = f"unsupported-{what.replace(' ', '-')}"
    return _UnsupportedError(Problem("structure", code, detail, pointer))


def _entries(log: list[Any], by_text: Mapping[str, Move]) -> list[Move]:
    try:
        return list(map(by_text.__getitem__, log))
    except (KeyError, TypeError):
        pass
    for ply, text in enumerate(log):
        if type(text) is not str or not re.fullmatch(_ENTRY, text):
            raise misfit("not the text of a log entry", f"/log/{ply}")
    return [by_text[text] for text in takewhile(by_text.__contains__, log)]
