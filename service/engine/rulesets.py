"""The rulesets: every edition as one row of parameters. Nothing else tells editions apart.

A published ruleset never changes its meaning; a change makes a new number at the end of its name.
"""

from dataclasses import dataclass
from typing import Final, Literal

from service.engine.cards import RANKS


@dataclass(frozen=True, slots=True)
class Family:
    """Four foundations, one a suit, that are built alike.

    Attributes:
        name: The word before the suit in a foundation's name: ``upper`` gives ``upper-C``.
        ranks: The ranks of a whole pile, base first, each at most once.
        laid_out: Whether the base lies there before the deal; else it comes in play.
        waits_for: The family whose pile of the same suit must be whole before this one takes the
            last of its ranks.
    """

    name: str
    ranks: str
    laid_out: bool = False
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class Ruleset:
    """One edition of one game.

    Attributes:
        name: The frozen name in records, such as ``royal-rendezvous-1``.
        game: The game's name for people.
        edition: What sets this edition apart, for people.
        families: The foundations, in the order in which moves are listed.
        reserve: Sizes of the reserve's rows; its places are r1, r2, ... row by row.
        columns: Number of columns of three cards, c1, c2, ...; only the last card is available.
        draw: ``any-time``, or ``blocked``: only while no reserve card can go to a foundation.
        fill: Who fills an empty reserve place: the play that emptied it (``automatic``), or the
            player, by moves of their own (``player``). From the waste, else from the stock.
        turns: Whether an empty waste turns the next stock card by itself, at the deal too.
        redeals: How often the player may turn the waste over to be the stock again.
        hops: Whether the top of a foundation may move to another one that wants it.
    """

    name: str
    game: str
    edition: str
    families: tuple[Family, ...]
    reserve: tuple[int, ...] = (8, 8)
    columns: int = 0
    draw: Literal["any-time", "blocked"] = "any-time"
    fill: Literal["automatic", "player"] = "automatic"
    turns: bool = False
    redeals: int = 0
    hops: bool = False


_BY_TWOS_FROM_ACE = "A3579JK"
_BY_TWOS_FROM_DEUCE = "2468TQ"
_UPPER = Family("upper", RANKS, laid_out=True)
_LOWER = Family("lower", _BY_TWOS_FROM_ACE, laid_out=True)
_DEUCE = Family("deuce", _BY_TWOS_FROM_DEUCE, laid_out=True)
_ACE_WRAPPING = _BY_TWOS_FROM_ACE + _BY_TWOS_FROM_DEUCE
_DEUCE_WRAPPING = _BY_TWOS_FROM_DEUCE + _BY_TWOS_FROM_ACE
_BASES_TO_COME = (Family("ace", _ACE_WRAPPING), Family("deuce", _DEUCE_WRAPPING))

DEFAULT_RULESET: Final = "royal-rendezvous-1"

RULESETS: Final[dict[str, Ruleset]] = {
    ruleset.name: ruleset
    for ruleset in (
        Ruleset(
            "royal-rendezvous-1",
            "Royal Rendezvous",
            "as the encyclopedias give it",
            (_UPPER, _LOWER, _DEUCE),
            draw="blocked",
        ),
        Ruleset(
            "royal-rendezvous-relaxed-1",
            "Royal Rendezvous",
            "drawing at any time",
            (_UPPER, _LOWER, _DEUCE),
        ),
        Ruleset(
            "royal-rendezvous-open-1",
            "Royal Rendezvous",
            "empty places are filled by the player",
            (_UPPER, _LOWER, _DEUCE),
            fill="player",
        ),
        Ruleset(
            "royal-rendezvous-solsuite-1",
            "Royal Rendezvous",
            "upper kings come last, as in SolSuite",
            (Family("upper", RANKS, laid_out=True, waits_for="lower"), _LOWER, _DEUCE),
        ),
        Ruleset(
            "royal-rendezvous-till-dawn-1",
            "Royal Rendezvous",
            "king piles that wait, as in Solitaire Till Dawn",
            (
                Family("upper", RANKS[:-1], laid_out=True),
                _LOWER,
                _DEUCE,
                Family("king", "K", waits_for="lower"),
            ),
        ),
        Ruleset(
            "royal-rendezvous-pysol-1",
            "Royal Rendezvous",
            "as in PySolFC",
            (_UPPER, Family("lower", "A3579J", laid_out=True), _DEUCE, Family("king", "K")),
            turns=True,
            hops=True,
        ),
        Ruleset(
            "royal-cotillion-1",
            "Royal Cotillion",
            "bases laid out",
            (
                Family("ace", _ACE_WRAPPING, laid_out=True),
                Family("deuce", _DEUCE_WRAPPING, laid_out=True),
            ),
            columns=4,
        ),
        Ruleset(
            "royal-cotillion-pysol-1",
            "Royal Cotillion",
            "as in PySolFC",
            _BASES_TO_COME,
            columns=4,
            turns=True,
            hops=True,
        ),
        Ruleset(
            "odd-and-even-1",
            "Odd and Even",
            "one redeal",
            _BASES_TO_COME,
            reserve=(4, 5),
            redeals=1,
        ),
        Ruleset(
            "odd-and-even-pysol-1",
            "Odd and Even",
            "as in PySolFC",
            _BASES_TO_COME,
            reserve=(4, 5),
            turns=True,
            redeals=1,
            hops=True,
        ),
    )
}
"""Every published ruleset by its name, the default first."""
