"""Replay documents in files, folders and streams: found, read within bounds, judged in order.

However long the input is, one document at a time is in memory, or a few chunks of them where
several processes judge. Nothing is skipped in silence: what cannot be read is judged invalid.
"""

import multiprocessing
import os
import signal
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from service.engine import Verdict, verify_text
from service.engine.verify import MAX_DOCUMENT_BYTES, Problem, read

SUFFIXES: Final = (".json", ".ndjson", ".jsonl")
"""Names of replay files in folders end so, in any case; the last two have one document a line."""

STANDARD_INPUT: Final = "-"
MANY: Final = 2000
"""So many documents are judged by one process, unless told otherwise, before others join in."""

_BOM: Final = b"\xef\xbb\xbf"
_LONGEST_LINE: Final = MAX_DOCUMENT_BYTES + len(_BOM) + len(b"\r\n")
_BLANK: Final = b" \t\r\n"
_CHUNK: Final = 100
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """Something to read replay documents from.

    Attributes:
        name: The path as it was given or found, or ``-`` for standard input.
        size: Bytes, 0 where that is not known.
        fault: Why it cannot be read, where that is known before it is tried.
    """

    name: str
    size: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one document, or on a file that holds none or not all of them.

    Attributes:
        file: Name of the source.
        line: The line, from 1, where documents stand one a line.
        size: Bytes of the document.
        verdict: On a file as such it has no levels; its problem's level is ``file``, and the code
            ``unreadable`` or ``truncated``.
    """

    file: str
    line: int | None
    size: int
    verdict: Verdict

    @property
    def of_file(self) -> bool:
        """Whether it is the file as such that is judged, and not a document."""
        return not self.verdict.levels


@dataclass(slots=True)
class Tally:
    """Counts of judgements.

    Attributes:
        files: Sources that were read.
        verdicts: Number of documents by verdict.
        file_faults: Sources that could not be read, or not to their end.
    """

    files: int = 0
    verdicts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("valid", "invalid", "incomplete", "unsupported"), 0)
    )
    file_faults: int = 0

    def add(self, judgement: Judgement) -> None:
        """Count a judgement."""
        if judgement.of_file:
            self.file_faults += 1
        else:
            self.verdicts[judgement.verdict.verdict] += 1

    @property
    def documents(self) -> int:
        """Number of documents."""
        return sum(self.verdicts.values())

    @property
    def exit_code(self) -> int:
        """0: all valid; 1: something invalid, unreadable or truncated; 3: something undecided."""
        if self.verdicts["invalid"] or self.file_faults:
            return 1
        return 3 if self.verdicts["valid"] < self.documents else 0

    def as_json(self) -> dict[str, Any]:
        """Return the counts as the command line gives them."""
        return {
            "files": self.files,
            "documents": self.documents,
            **self.verdicts,
            "file_faults": self.file_faults,
        }


def find(path: str) -> Iterator[Source]:
    """Yield the sources that this path names: itself, or in a folder all replay files, sorted.

    Links are followed, each folder is read once. A file that is not plain is a source with a fault
    when it was found in a folder; one that was named, such as a pipe, is read.
    """
    if path == STANDARD_INPUT or not Path(path).is_dir():
        yield _source(path, named=True)
        return
    faults: list[Source] = []
    seen: set[str] = set()
    walk = os.walk(
        path,
        onerror=lambda error: faults.append(
            Source(str(error.filename), fault=error.strerror or str(error))
        ),
        followlinks=True,
    )
    for folder, folders, names in walk:
        folders.sort()
        if (real := os.path.realpath(folder)) in seen:
            folders.clear()
            continue
        seen.add(real)
        for name in sorted(names):
            if name.lower().endswith(SUFFIXES):
                yield _source(str(Path(folder, name)), named=False)
    yield from faults


def _source(name: str, *, named: bool) -> Source:
    if name == STANDARD_INPUT:
        return Source(name)
    try:
        status = Path(name).stat()
    except OSError as error:
        return Source(name, fault=error.strerror or str(error))
    if stat.S_ISREG(status.st_mode):
        return Source(name, status.st_size)
    return Source(name, fault="" if named else "not a plain file")


@dataclass(frozen=True, slots=True)
class _Item:
    """A document as read, or what is wrong with its file."""

    file: str
    line: int | None
    text: bytes
    fault: Problem | None = None

    def judged(self, verdict: Verdict) -> Judgement:
        return Judgement(self.file, self.line, len(self.text), verdict)

    def judge(self) -> Judgement:
        return self.judged(_verdict(self.text, self.fault))


def _verdict(text: bytes, fault: Problem | None) -> Verdict:
    return verify_text(text) if fault is None else Verdict("invalid", problem=fault)


def _read(source: Source) -> Iterator[_Item]:
    """Yield the documents of a source; a fault comes as an item of its own."""

    def fault(code: str, detail: str) -> _Item:
        return _Item(source.name, None, b"", Problem("file", code, detail))

    if source.fault:
        yield fault("unreadable", source.fault)
        return
    try:
        if source.name == STANDARD_INPUT:
            found = _documents(sys.stdin.buffer, by_lines=False)
            yield from (_Item(source.name, line, text) for line, text in found)
            return
        by_lines = source.name.lower().endswith(SUFFIXES[1:])
        with Path(source.name).open("rb") as stream:
            found = _documents(stream, by_lines=by_lines)
            yield from (_Item(source.name, line, text) for line, text in found)
    except OSError as error:
        yield fault("unreadable", error.strerror or str(error))
    except _TruncatedError as error:
        yield fault("truncated", str(error))


class _TruncatedError(Exception):
    """A file of lines does not end as it should; the text says how."""


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield lines that are not blank, with their numbers; of one too long only the beginning."""
    for number in count(1):
        line = stream.readline(_LONGEST_LINE)
        if not line:
            return
        whole = line.endswith(b"\n")
        if number == 1:
            line = line.removeprefix(_BOM)
        if line.strip(_BLANK):
            yield number, line.rstrip(b"\r\n")
        while not whole and (rest := stream.readline(_CHUNK_BYTES)):
            whole = rest.endswith(b"\n")


def _documents(stream: BinaryIO, *, by_lines: bool) -> Iterator[tuple[int | None, bytes]]:
    """Yield the documents of a stream, with their lines where they stand one a line.

    Args:
        stream: Read from where it stands to its end.
        by_lines: Whether documents stand one a line and a closing line must follow. Else what
            comes decides: an object on the first line and more after it means so too.

    Raises:
        _TruncatedError: No closing line comes, or it counts other than the documents before it.
    """
    lines = _lines(stream)
    if not by_lines:
        number, first = next(lines, (1, b""))
        if not (first.startswith(b"{") and first.endswith(b"}")):
            yield None, b"\n" * (number - 1) + first + b"\n" + stream.read(MAX_DOCUMENT_BYTES + 1)
            return
        following = list(islice(lines, 1))
        if not following and _closing_count(first) is None:
            yield None, first
            return
        lines = chain([(number, first)], following, lines)
    documents = 0
    closed = False
    for number, line in lines:
        expected = _closing_count(line)
        closed = expected is not None
        if expected is None:
            documents += 1
            yield number, line
        elif expected == documents:
            documents = 0
        else:
            raise _TruncatedError(
                f"the closing line {number} counts {expected}, but {documents} came before it"
            )
    if not closed:
        raise _TruncatedError(
            f'no closing line {{"end": true, "count": N}} after the last {documents} documents'
        )


def _closing_count(line: bytes) -> int | None:
    """Return the number of documents that a closing line counts, None for any other line."""
    if len(line) > 100 or b'"end"' not in line:  # noqa: PLR2004
        return None
    try:
        value = read(line)
    except ValueError:
        return None
    if type(value) is dict and value.keys() == {"end", "count"} and value["end"] is True:
        expected = value["count"]
        return expected if type(expected) is int and expected >= 0 else None
    return None


def judge(sources: Iterable[Source], jobs: int | None = None) -> Iterator[Judgement]:
    """Yield a judgement of every document of these sources, in their order.

    Args:
        sources: Each is opened when its turn comes.
        jobs: Number of processes that judge; None: as many as there are processors to use, once
            more than MANY documents came.

    Raises:
        BrokenProcessPool: A judging process was killed.
    """
    items = chain.from_iterable(map(_read, sources))
    processes = jobs or _processors()
    alone = 0 if jobs else MANY
    if processes == 1:
        alone = sys.maxsize
    for item in islice(items, alone):
        yield item.judge()
    for item in islice(items, 1):
        yield from _judge_together(chain([item], items), processes)


def _processors() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _judge_together(items: Iterator[_Item], processes: int) -> Iterator[Judgement]:
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), _leave_interrupts_to_the_parent
    )
    waiting: deque[tuple[list[_Item], Future[list[Verdict]]]] = deque()
    try:
        for chunk in _chunks(items):
            pairs = [(item.text, item.fault) for item in chunk]
            waiting.append((chunk, pool.submit(_verdicts, pairs)))
            if len(waiting) > 3 * processes:
                yield from _settle(*waiting.popleft())
        while waiting:
            yield from _settle(*waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _settle(chunk: list[_Item], verdicts: Future[list[Verdict]]) -> Iterator[Judgement]:
    return map(_Item.judged, chunk, verdicts.result())


def _chunks(items: Iterator[_Item]) -> Iterator[list[_Item]]:
    chunk: list[_Item] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += len(item.text)
        if len(chunk) == _CHUNK or size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _verdicts(pairs: list[tuple[bytes, Problem | None]]) -> list[Verdict]:
    return [_verdict(text, fault) for text, fault in pairs]


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
