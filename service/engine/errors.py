"""What can be wrong with a seed, a ruleset's name, a move or a log."""

from dataclasses import dataclass
from typing import ClassVar


class RendezvousError(Exception):
    """Root of all errors that a person or a program is told of by name.

    Attributes:
        code: Stable name of the kind of error, the same over HTTP.
    """

    code: ClassVar[str]


class EngineError(RendezvousError, ValueError):
    """Base of all that the engine refuses. Nothing is changed when it is raised."""


class UnknownRulesetError(EngineError):
    """The name is none of the published rulesets."""

    code = "unknown-ruleset"


class UnknownDealSpecError(EngineError):
    """The name is none of the published deal specs."""

    code = "unknown-deal-spec"


class BadSeedError(EngineError):
    """The text is not a seed of this deal spec."""

    code = "bad-seed"


class BadPositionError(EngineError):
    """The text is not a position of this ruleset."""

    code = "bad-position"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a move is not legal here.

    Attributes:
        reason: A stable code, such as ``reserve-can-play``.
        detail: One sentence for a person. Names only what the player can see.
    """

    reason: str
    detail: str


class IllegalMoveError(EngineError):
    """The move is not legal in this position.

    Attributes:
        refusal: Why.
    """

    code = "illegal-move"

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


class NotAMoveError(IllegalMoveError):
    """No position of this ruleset has such a move."""

    def __init__(self, detail: str) -> None:
        super().__init__(Refusal("not-a-move", detail))


class AmbiguousMoveError(EngineError):
    """No destination is named and the card fits more than one foundation.

    Attributes:
        targets: The foundations that would take it, in the order of legal moves.
    """

    code = "ambiguous-move"

    def __init__(self, detail: str, targets: tuple[str, ...]) -> None:
        super().__init__(detail)
        self.targets = targets


class GameOverError(EngineError):
    """The game has ended; this act cannot follow."""

    code = "game-over"


class UndoOffError(EngineError):
    """The game has hidden cards, so nothing is taken back."""

    code = "undo-off"


class NothingToUndoError(EngineError):
    """Every move has been taken back already, or none was made."""

    code = "nothing-to-undo"


class LogFullError(EngineError):
    """The log is so long that only a resignation still fits."""

    code = "log-full"


class BrokenLogError(EngineError):
    """A stored log does not replay: a fault of whoever stored it, never of the player.

    Attributes:
        ply: Index of the first entry that does not fit.
    """

    code = "broken-log"

    def __init__(self, detail: str, ply: int) -> None:
        super().__init__(f"entry {ply}: {detail}")
        self.ply = ply
