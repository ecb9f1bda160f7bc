"""Replay documents in files, folders and streams: found, read within bounds, judged in order.

What is asked of each may be the verdict on it, or what something bigger needs to know of it.
However long the input is, one document at a time is in memory, or a few chunks of them where
several processes judge. Nothing is skipped in silence: what cannot be read is judged invalid.
"""

import multiprocessing
import os
import signal
import stat
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, TypeVar

from service.engine import Verdict, verify_text
from service.engine.verify import MAX_DOCUMENT_BYTES, Problem, SignatureCheck, read

T = TypeVar("T")

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


class JudgeKilledError(RuntimeError):
    """A process that judged was killed, so the verdicts are not complete."""


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
    def bad(self) -> int:
        """How much is invalid, unreadable or truncated."""
        return self.verdicts["invalid"] + self.file_faults

    @property
    def exit_code(self) -> int:
        """0: all valid; 1: something invalid, unreadable or truncated; 3: something undecided."""
        if self.bad:
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
    """Yield the sources that this path names: itself, or all replay files in a folder.

    The files of a folder come by name, then those of the folders in it. Links are followed, each
    folder is read once. A file that is not plain is a source with a fault when it was found in a
    folder; one that was named, such as a pipe, is read.
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
class Item:
    """A document as read, or what is wrong with its file.

    Attributes:
        file: Name of the source.
        line: The line, from 1, where documents stand one a line.
        text: The document's.
        fault: What is wrong with the file.
    """

    file: str
    line: int | None
    text: bytes
    fault: Problem | None = None


def items(source: Source) -> Iterator[Item]:
    """Yield the documents of a source; a fault comes as an item of its own."""
    fault = source.fault
    if not fault:
        try:
            if source.name == STANDARD_INPUT:
                yield from _documents(source.name, sys.stdin.buffer, by_lines=False)
            else:
                by_lines = source.name.lower().endswith(SUFFIXES[1:])
                with Path(source.name).open("rb") as stream:
                    yield from _documents(source.name, stream, by_lines=by_lines)
        except OSError as error:
            fault = error.strerror or str(error)
    if fault:
        yield Item(source.name, None, b"", Problem("file", "unreadable", fault))


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


def _documents(file: str, stream: BinaryIO, *, by_lines: bool) -> Iterator[Item]:
    """Yield the documents of a stream, with their lines where they stand one a line.

    Args:
        file: Name of the source.
        stream: Read from where it stands to its end.
        by_lines: Whether documents stand one a line, up to a closing line. Else the two first lines
            decide: if there are two, and one is an object by itself.
    """
    lines = _lines(stream)
    if not by_lines:
        start = list(islice(lines, 2))
        texts = [text for _, text in start]
        if len(start) < 2 and _closing_count(b"".join(texts)) is None:  # noqa: PLR2004
            yield Item(file, None, b"".join(texts))
            return
        if not any(map(_is_object, texts)):
            texts.append(stream.read(MAX_DOCUMENT_BYTES + 1))
            yield Item(file, None, b"\n".join(texts))
            return
        lines = chain(start, lines)
    documents = 0
    closed = False
    for number, line in lines:
        expected = _closing_count(line)
        closed = expected is not None
        if not closed:
            documents += 1
            yield Item(file, number, line)
            continue
        if expected != documents:
            detail = f"the closing line counts {expected} documents, but {documents} came before it"
            yield Item(file, number, b"", Problem("file", "truncated", detail))
        documents = 0
    if not closed:
        detail = 'it does not end with a closing line {"end": true, "count": N}'
        yield Item(file, None, b"", Problem("file", "truncated", detail))


def _is_object(line: bytes) -> bool:
    line = line.strip(_BLANK)
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return False
    try:
        read(line)
    except ValueError:
        return False
    return True


def _closing_count(line: bytes) -> int | None:
    """Return the number of documents that a closing line counts, None for any other line."""
    if len(line) > 100 or b'"end"' not in line:  # noqa: PLR2004
        return None
    try:
        value = read(line)
    except ValueError:
        return None
    if type(value) is not dict or not {"end", "count"} <= value.keys() <= {"end", "count", "next"}:
        return None
    expected, following = value["count"], value.get("next", "")
    sound = value["end"] is True and type(expected) is int and type(following) is str
    return expected if sound and expected >= 0 else None


def judge_lines(stream: BinaryIO, check: SignatureCheck | None = None) -> Iterator[Judgement]:
    """Yield a judgement of every document of a stream that has one a line.

    A judgement of the stream as such comes where a closing line is wrong, or where it ends without.

    Args:
        stream: Read from where it stands to its end.
        check: What checks signatures.
    """
    return _judgements(_documents("", stream, by_lines=True), 1, check)


def judge(
    sources: Iterable[Source], jobs: int | None = None, check: SignatureCheck | None = None
) -> Generator[Judgement]:
    """Yield a judgement of every document of these sources, in their order.

    Args:
        sources: Each is opened when its turn comes.
        jobs: Number of processes that judge; None: as many as there are processors to use, once
            more than MANY documents came.
        check: What checks signatures; it must be one that can be sent to other processes.

    Raises:
        JudgeKilledError: A judging process was killed.
    """
    return _judgements(chain.from_iterable(map(items, sources)), jobs, check)


def _judgements(
    items: Iterator[Item], jobs: int | None, check: SignatureCheck | None
) -> Generator[Judgement]:
    with closing(each(items, partial(verify_text, check=check), jobs)) as verdicts:
        for item, found in verdicts:
            verdict = Verdict("invalid", problem=found) if isinstance(found, Problem) else found
            yield Judgement(item.file, item.line, len(item.text), verdict)


def each(
    items: Iterator[Item], ask: Callable[[bytes], T], jobs: int | None = None
) -> Generator[tuple[Item, T | Problem]]:
    """Yield every document with what is found of it, or its file's fault, in their order.

    Args:
        items: Taken a few chunks ahead.
        ask: Finds it of a text and never raises. It can be sent to other processes, and so can what
            it finds.
        jobs: Number of processes that are asked; None: as many as there are processors to use, once
            more than MANY documents came.

    Raises:
        JudgeKilledError: A judging process was killed.
    """
    processes = jobs or _processors()
    alone = 0 if jobs else MANY
    if processes == 1:
        alone = sys.maxsize
    for item in islice(items, alone):
        yield item, item.fault or ask(item.text)
    for item in islice(items, 1):
        yield from _each_together(chain([item], items), ask, processes)


def _processors() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _each_together(
    items: Iterator[Item], ask: Callable[[bytes], T], processes: int
) -> Iterator[tuple[Item, T | Problem]]:
    judges: deque[_Judge[T]] = deque()
    try:
        judges.extend(_Judge(ask) for _ in range(processes))
        for chunk in _chunks(items):
            yield from judges[0].exchange(chunk)
            judges.rotate(-1)
        for judge in judges:
            yield from judge.exchange([])
    finally:
        for judge in judges:
            judge.stop()


class _Judge(Generic[T]):
    """A process that judges chunks, one at a time, over a pipe of its own.

    The pools of the standard library share one pipe: a process that is killed while it writes there
    leaves them waiting for ever. Here the end of its pipe tells.
    """

    def __init__(self, ask: Callable[[bytes], T]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, its_end = context.Pipe()
        self._process = context.Process(target=_work, args=(its_end, ask), daemon=True)
        self._chunk: list[Item] = []
        with _interrupts_held(), its_end:
            self._process.start()

    def exchange(self, chunk: list[Item]) -> list[tuple[Item, T | Problem]]:
        """Give a chunk, none if it is empty, for what is found of the one before, if any.

        Raises:
            JudgeKilledError: The process is gone.
        """
        try:
            found = iter(self._pipe.recv() if self._chunk else [])
            if chunk:
                self._pipe.send([item.text for item in chunk if item.fault is None])
        except (EOFError, OSError) as error:
            raise JudgeKilledError("a process that verified was killed") from error
        before, self._chunk = self._chunk, chunk
        return [(item, item.fault or next(found)) for item in before]

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._process.terminate()
        self._process.join()
        self._pipe.close()


def _work(pipe: Connection, ask: Callable[[bytes], object]) -> None:
    """Judge what comes through a pipe until its other end is closed."""
    with suppress(EOFError, OSError):
        while True:
            pipe.send(list(map(ask, pipe.recv())))


def _chunks(items: Iterator[Item]) -> Iterator[list[Item]]:
    chunk: list[Item] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += len(item.text)
        if len(chunk) == _CHUNK or size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back: a process that is started meanwhile holds it for good, this one does not.

    So the judging processes leave it to this one to stop them.
    """
    if sys.platform == "win32":
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
