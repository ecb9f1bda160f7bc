"""Final results in files, and the replays behind them: read within bounds and judged, offline."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from service.engine.results import MAX_RESULTS_BYTES, Judging, read_replay
from service.engine.verify import Problem, SignatureCheck, Verdict, read
from service.replay_files import Source, each, items

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


Step = Callable[[int, int, int], None]
"""Takes the bytes of a replay, how many replays there were so far, and how many are at fault."""


def judge(
    name: str,
    replays: Sequence[Source],
    check: SignatureCheck | None = None,
    jobs: int | None = None,
    step: Step = lambda *_: None,
) -> Outcome:
    """Judge results; of the replays a few chunks at a time are in memory.

    Args:
        name: Path of the file with the results, as JSON or as NDJSON.
        replays: Where the replays of the tournament are; without any the verdict is ``incomplete``
            at best. They are not read where the results themselves are not to be judged.
        check: What checks signatures; it must be one that can be sent to other processes.
        jobs: Number of processes that verify replays, as for :func:`service.replay_files.judge`.
        step: Called after each replay.

    Raises:
        JudgeKilledError: A process that verified was killed.
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
    if not judging.opened:
        return Outcome(judging.close(replays=False))
    count, bad = 0, 0
    faults: list[tuple[str, int | None, Problem]] = []
    documents = chain.from_iterable(map(items, replays))
    with closing(each(documents, partial(read_replay, check=check), jobs)) as found:
        for item, replay in found:
            count += item.fault is None
            problem = judging.add(replay)
            bad += problem is not None
            if problem is not None and len(faults) < MOST_TOLD:
                faults.append((item.file, item.line, problem))
            step(len(item.text), count, bad)
    return Outcome(judging.close(replays=bool(replays)), count, faults)


def _unreadable(code: str, detail: str) -> Outcome:
    return Outcome(Verdict("invalid", problem=Problem("file", code, detail)))


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
