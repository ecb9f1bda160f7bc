"""A game: a deal, and the log of what was done to it. All else is derived from these two."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Literal, Self

from service.engine.cards import EMPTY
from service.engine.deals import Layout
from service.engine.errors import (
    BrokenLogError,
    EngineError,
    GameOverError,
    IllegalMoveError,
    LogFullError,
    NothingToUndoError,
    UndoOffError,
)
from service.engine.moves import ACT, PLAY, RESIGN, UNDO, Effect, Move, Table
from service.engine.position import Position

Status = Literal["playing", "won", "lost", "resigned"]

LOG_LIMIT: Final = 2000
"""Most entries of a log; the last of them can only be a resignation."""


class Game:
    """A deal being played, with its log.

    Attributes:
        rules: The ruleset's table.
        layout: The deal.
        undo_allowed: Whether moves may be taken back: only where no card is hidden.
        position: What lies where now. Read it; change it through :meth:`enter` alone.
        entries: The log: moves and acts, oldest first.
        undos: Number of ``undo`` entries.
        hints: Number of ``hint`` entries.
        resigned: Whether the last entry is ``resign``.
    """

    __slots__ = (
        "_past",
        "entries",
        "hints",
        "layout",
        "position",
        "resigned",
        "rules",
        "undo_allowed",
        "undos",
    )

    def __init__(self, rules: Table, layout: Layout, *, undo_allowed: bool) -> None:
        """Start a game on this deal."""
        self.rules = rules
        self.layout = layout
        self.undo_allowed = undo_allowed
        self.position = Position(rules, layout)
        self.entries: list[Move] = []
        self.undos = 0
        self.hints = 0
        self.resigned = False
        self._past: list[Position] | None = None

    @classmethod
    def replay(cls, rules: Table, layout: Layout, log: bytes, *, undo_allowed: bool) -> Self:
        """Return the game that this stored log gives.

        Args:
            rules: The ruleset's table.
            layout: The deal.
            log: Entry codes, oldest first.
            undo_allowed: Whether the log may hold ``undo``.

        Raises:
            BrokenLogError: Some entry is unknown or not legal where it stands.
        """
        game = cls(rules, layout, undo_allowed=undo_allowed)
        try:
            game.extend(game._decode(log))
        except (EngineError, LookupError) as error:
            ply = game.ply
            detail = f"code {log[ply]} does not fit {rules.ruleset.name} here: {error!r}"
            raise BrokenLogError(detail, ply) from error
        return game

    def _decode(self, log: bytes) -> Iterator[Move]:
        """Yield the entries of a stored log; each is asked for when those before it are entered."""
        by_code = self.rules.by_code
        for code in log:
            moves = by_code[code]
            move = moves[0]
            yield moves[self.position.tops[move.source] // 13] if move.kind == PLAY else move

    def extend(self, entries: Iterable[Move]) -> None:
        """Enter many entries, as fast as can be until the first ``undo``.

        Raises:
            EngineError: Some entry does not fit; those before it are entered.
        """
        left = iter(entries)
        try:
            while not self.resigned and self._past is None:
                room = max(LOG_LIMIT - 1 - self.ply, 0)
                act = self.position.run(islice(left, room), self.entries)
                if act is None:
                    break
                self.enter(act)
        except IllegalMoveError:
            self._refuse_if_over()
            raise
        for entry in left:
            self.enter(entry)

    @property
    def log(self) -> bytes:
        """The entries' codes."""
        return bytes([entry.code for entry in self.entries])

    @property
    def ply(self) -> int:
        """Number of entries in the log."""
        return len(self.entries)

    @property
    def status(self) -> Status:
        """``resigned``, or the position's outcome."""
        return "resigned" if self.resigned else self.position.outcome

    def legal_moves(self) -> list[Move]:
        """Return the position's legal moves; none once the game has ended or its log is full."""
        return [] if self.resigned or self._full else self.position.legal_moves()

    @property
    def _full(self) -> bool:
        return len(self.entries) >= LOG_LIMIT - 1

    def enter(self, entry: Move) -> tuple[Effect, ...]:
        """Do a move or an act, add it to the log and return its automatic effects, in order.

        Raises:
            IllegalMoveError: The move is not legal here.
            GameOverError: The game has ended and this is no ``undo`` in a lost one.
            UndoOffError: Nothing may be taken back in this game.
            NothingToUndoError: There is no move to take back.
            LogFullError: Only ``resign`` still fits.
        """
        if entry.kind == ACT or self.resigned or len(self.entries) >= LOG_LIMIT - 1:
            return self._enter_with_care(entry)
        return self._move(entry)

    def _enter_with_care(self, entry: Move) -> tuple[Effect, ...]:
        if entry is UNDO and not self.undo_allowed:
            raise UndoOffError("moves can be taken back only in a game whose seed its player gave")
        status = self.status
        if status != "playing" and not (entry is UNDO and status == "lost"):
            raise GameOverError(f"the game is over: {status}")
        if self._full and entry is not RESIGN:
            raise self._log_full()
        if entry is UNDO:
            self._undo()
        elif entry is RESIGN:
            self.resigned = True
        else:
            self.hints += 1
        self.entries.append(entry)
        return ()

    def _move(self, move: Move) -> tuple[Effect, ...]:
        before = None if self._past is None else self.position.copy()
        try:
            effects = self.position.apply(move)
        except IllegalMoveError:
            self._refuse_if_over()
            raise
        if before is not None and self._past is not None:
            self._past.append(before)
        self.entries.append(move)
        return effects

    def check_open(self) -> None:
        """Return if a move may be made now.

        Raises:
            GameOverError: The game has ended.
            LogFullError: Only ``resign`` still fits.
        """
        status = self.status
        if status != "playing":
            raise GameOverError(f"the game is over: {status}")
        if self._full:
            raise self._log_full()

    def _refuse_if_over(self) -> None:
        outcome = self.position.outcome
        if outcome != "playing":
            raise GameOverError(f"the game is over: {outcome}") from None

    def _log_full(self) -> LogFullError:
        return LogFullError(f"the log holds {self.ply} entries: only a resignation still fits")

    def _undo(self) -> None:
        if self._past is None:
            self._past = []
            position = Position(self.rules, self.layout)
            for move in self.standing():
                self._past.append(position.copy())
                position.apply(move)
        if not self._past:
            raise NothingToUndoError("there is no move to take back")
        self.position = self._past.pop()
        self.undos += 1

    def standing(self) -> list[Move]:
        """Return the moves of the log that are not taken back, oldest first."""
        return standing(self.entries)

    def moved_card(self, entry: Move) -> int:
        """Return the card that this entry would move now, EMPTY for an act or a redeal."""
        return EMPTY if entry.kind == ACT else self.position.moved_card(entry)


def standing(entries: Iterable[Move]) -> list[Move]:
    """Return the moves among these log entries that no later ``undo`` takes back, oldest first."""
    line: list[Move] = []
    for entry in entries:
        if entry is UNDO:
            line.pop()
        elif entry.kind != ACT:
            line.append(entry)
    return line
