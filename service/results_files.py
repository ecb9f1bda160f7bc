"""Final results in files, and the replays behind them: read within bounds and judged, offline."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from service.engine.results import MAX_RESULTS_BYTES, Judging
from service.engine.verify import Problem, SignatureCheck, Verdict, read
from service.replay_files import Item, Source, items

MOST_TOLD: Final = 20
"""Most replays at fault that are named; all are looked at."""

_BLANK: Final = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is said of results.

    Attributes:
        verdict: The verdict by levels; without levels where the file itself is at fault.
        replays: How many replays there were.
        faults: The first of those that are at fault: file, line and what is wrong.
    """

    verdict: Verdict
    replays: int = 0
    faults: list[tuple[str, int | None, Problem]] = field(default_factory=list)


def judge(name: str, replays: Iterable[Source], check: SignatureCheck | None = None) -> Outcome:
    """Judge results; one replay at a time is in memory.

    Args:
        name: Path of the file with the results, as JSON or as NDJSON.
        replays: Where the replays of the tournament are; without any the verdict is ``incomplete``
            at best.
        check: What checks signatures.
    """
    try:
        value = _read(Path(name))
    except OSError as error:
        return _unreadable("unreadable", error.strerror or str(error))
    except EOFError as error:
        return _unreadable("truncated", str(error))
    except ValueError as error:
        return _unreadable("malformed", str(error))
    judging = Judging()
    judging.open(value, check)
    count, given = 0, False
    faults: list[tuple[str, int | None, Problem]] = []
    for source in replays:
        given = True
        for item in items(source):
            count += item.fault is None
            problem = _judge(judging, item, check)
            if problem is not None and len(faults) < MOST_TOLD:
                faults.append((item.file, item.line, problem))
    return Outcome(judging.close(replays=given), count, faults)


def _unreadable(code: str, detail: str) -> Outcome:
    return Outcome(Verdict("invalid", problem=Problem("file", code, detail)))


def _judge(judging: Judging, item: Item, check: SignatureCheck | None) -> Problem | None:
    if item.fault is not None:
        return judging.fault(item.fault)
    try:
        value = read(item.text)
    except ValueError as error:
        return judging.fault(Problem("replays", "malformed", str(error)))
    return judging.add(value, check)


def _read(file: Path) -> Any:
    """Return results as one value, whichever of its forms the file has.

    Raises:
        OSError: It cannot be read.
        EOFError: It is NDJSON whose closing line is missing or counts otherwise.
        ValueError: It is not JSON, or too long.
    """
    with file.open("rb") as stream:
        text = stream.read(MAX_RESULTS_BYTES + 1)
    lines = [line for line in text.split(b"\n") if line.strip(_BLANK)]
    if len(lines) < 2 or not _is_whole(lines[0]):  # noqa: PLR2004
        return read(text, MAX_RESULTS_BYTES)
    values = [read(line, MAX_RESULTS_BYTES) for line in lines]
    first, *entries = values
    end = entries.pop()
    if end != {"end": True, "count": len(values) - 1}:
        raise EOFError('it does not end with a closing line {"end": true, "count": N} that fits')
    if type(first) is not dict or type(first.get("document")) is not dict:
        raise ValueError("the first line is not of results")
    if "entries" in first["document"]:
        raise ValueError("entries stand in the first line, and in lines of their own")
    if any(type(one) is not dict or one.keys() != {"entry"} for one in entries):
        raise ValueError("a line is not of an entry")
    document = {**first["document"], "entries": [one["entry"] for one in entries]}
    return {**first, "document": document}


def _is_whole(line: bytes) -> bool:
    line = line.strip(_BLANK)
    return line.startswith(b"{") and line.endswith(b"}")
