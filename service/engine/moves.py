"""The moves of a ruleset: one fixed, ordered table, their one-byte codes and their text.

Inside, a move is its index in the table: the place it leaves and the family it goes to, while the
card gives the suit. The order of the table is the order in which legal moves are listed, and it is
frozen with the ruleset: stored logs depend on it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

from service.engine.cards import CARDS, EMPTY, NOTHING, SUITS, WAITING, card
from service.engine.errors import NotAMoveError, UnknownRulesetError
from service.engine.rulesets import RULESETS, Ruleset

PLAY: Final = 0
FILL: Final = 1
DRAW: Final = 2
REDEAL: Final = 3
HOP: Final = 4
ACT: Final = 5

STOCK: Final = -1
"""The stock's number where places are numbered."""


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """One entry of a log: a move to one place, or an act. Made once and compared by identity.

    Attributes:
        code: Index in the ruleset's move table; the four moves that differ only in suit share it.
        kind: PLAY, FILL, DRAW, REDEAL, HOP or ACT.
        source: Index of the place it leaves, for a HOP of the foundation.
        target: Index of the foundation it goes to, for a FILL of the reserve place.
        text: ``r3:upper-S``.
        origin: The text before the colon.
        destination: The text after it.
    """

    code: int
    kind: int
    source: int
    target: int
    text: str
    origin: str
    destination: str


HINT: Final = Move(253, ACT, STOCK, STOCK, "hint", "", "")
RESIGN: Final = Move(254, ACT, STOCK, STOCK, "resign", "", "")
UNDO: Final = Move(255, ACT, STOCK, STOCK, "undo", "", "")
ACTS: Final = (HINT, RESIGN, UNDO)
"""Log entries that move no card; every ruleset reserves their codes."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A consequence of a move that the rules carry out by themselves.

    Attributes:
        text: ``waste:r3``, ``stock:r3`` or ``stock:waste``.
        place: Index of the place whose top is the card that came.
    """

    text: str
    place: int


class Table:
    """What follows from a ruleset's parameters, computed once.

    Places are numbered: the reserve, then the columns, then the waste. Foundations are numbered
    ``family * 4 + suit``.

    Attributes:
        ruleset: The parameters.
        places: Place names by number.
        foundations: Foundation names by number.
        reserve: Number of reserve places.
        waste: Number of the waste place.
        chains: For each foundation the cards it takes, base first.
        homes: For each card, EMPTY included, the foundations it may ever go to.
        wanted: For each foundation what it wants by its number of cards, unless it need not wait.
        wants: For each foundation what it wants at the deal.
        following: For each foundation and the card that comes on it, what it wants next: a card,
            NOTHING, or WAITING where it awaits another foundation.
        heights: For each foundation its number of cards by what it wants.
        marks: For each foundation the rank of its top card by what it wants, ``-`` when empty.
        awaits: For each foundation that waits, the one it waits for.
        complete: What the foundations want when the game is won.
        by_text: Every entry by its text, acts included.
        exits: For each place the moves from it to foundations.
        by_code: For each code the entries by suit, four each.
    """

    def __init__(self, ruleset: Ruleset) -> None:
        families = ruleset.families
        names = [family.name for family in families]
        self.ruleset = ruleset
        self.reserve = sum(ruleset.reserve)
        self.waste = self.reserve + ruleset.columns
        self.places = (
            *(f"r{n + 1}" for n in range(self.reserve)),
            *(f"c{n + 1}" for n in range(ruleset.columns)),
            "waste",
        )
        self.foundations = tuple(f"{name}-{suit}" for name in names for suit in SUITS)
        self.chains = tuple(
            tuple(card(rank, suit) for rank in family.ranks)
            for family in families
            for suit in SUITS
        )
        self.homes = tuple(
            tuple(f for f, chain in enumerate(self.chains) if number in chain)
            for number in range(len(CARDS) + 1)
        )
        self.awaits = {
            family * 4 + suit: names.index(row.waits_for) * 4 + suit
            for family, row in enumerate(families)
            if row.waits_for is not None
            for suit in range(4)
        }
        self.wanted = tuple(
            (*chain[:-1], WAITING if f in self.awaits else chain[-1], NOTHING)
            for f, chain in enumerate(self.chains)
        )
        self.wants = tuple(chain[families[f // 4].laid_out] for f, chain in enumerate(self.wanted))
        self.following = tuple(
            dict(zip(chain, self.wanted[f][1:], strict=True)) for f, chain in enumerate(self.chains)
        )
        self.heights = tuple(
            {want: height for row in (chain, self.wanted[f]) for height, want in enumerate(row)}
            for f, chain in enumerate(self.chains)
        )
        self.marks = tuple(
            {want: ("-" + families[f // 4].ranks)[height] for want, height in heights.items()}
            for f, heights in enumerate(self.heights)
        )
        self.wanted_at_deal = self.count_wanted(self.wants)
        self.none_playable = bytes(self.reserve)
        self.complete = [NOTHING] * len(self.chains)
        self.draw_waits = ruleset.draw == "blocked"
        self.turns = ruleset.turns
        self._number_moves()

    def _number_moves(self) -> None:
        ruleset = self.ruleset
        self.by_code: dict[int, tuple[Move, ...]] = {act.code: (act,) * 4 for act in ACTS}
        self.by_text: dict[str, Move] = {act.text: act for act in ACTS}
        self.plays = tuple(
            tuple(
                move
                for family in range(len(ruleset.families))
                for move in self._add(
                    PLAY, place, [family * 4 + suit for suit in range(4)], self.places[place]
                )
            )
            for place in range(len(self.places))
        )
        fills = [
            fill
            for place in range(self.reserve if ruleset.fill == "player" else 0)
            for fill in (
                *self._add(FILL, self.waste, [place], "waste"),
                *self._add(FILL, STOCK, [place], "stock"),
            )
        ]
        self.fills = tuple(fills)
        self.others: tuple[Move, ...] = (
            *fills,
            *self._add(DRAW, STOCK, [self.waste], "stock"),
            *(self._add(REDEAL, self.waste, [STOCK], "waste") if ruleset.redeals else ()),
            *(
                hop
                for f, name in enumerate(self.foundations)
                for g in range(len(self.foundations))
                if ruleset.hops and f != g and not set(self.chains[f]).isdisjoint(self.chains[g])
                for hop in self._add(HOP, f, [g], name)
            ),
        )
        self.exits: dict[str, tuple[Move, ...]] = {}
        for move in self.by_text.values():
            if move.kind in {PLAY, HOP}:
                self.exits[move.origin] = (*self.exits.get(move.origin, ()), move)
        places = range(self.reserve)
        turned = Effect("stock:waste", self.waste)
        self.turned = (turned,)
        self.filled_from_waste = tuple((Effect(f"waste:r{n + 1}", n),) for n in places)
        self.filled_from_stock = tuple((Effect(f"stock:r{n + 1}", n),) for n in places)
        self.filled_and_turned = tuple((*filled, turned) for filled in self.filled_from_waste)

    def _add(self, kind: int, source: int, targets: list[int], origin: str) -> tuple[Move, ...]:
        """Give the next code to the moves of this kind to these targets: one, or one a suit."""

        def destination(target: int) -> str:
            if kind in {PLAY, HOP}:
                return self.foundations[target]
            return "stock" if target == STOCK else self.places[target]

        code = len(self.by_code) - len(ACTS)
        moves = tuple(
            Move(code, kind, source, target, f"{origin}:{to}", origin, to)
            for target in targets
            for to in [destination(target)]
        )
        self.by_text.update({move.text: move for move in moves})
        self.by_code[code] = (moves * 4)[:4]
        return moves

    def codes(self) -> list[dict[str, str | int]]:
        """Return the move table for people and clients, in order of the codes.

        A play names the family alone, since the card gives the suit.
        """
        rows: list[dict[str, str | int]] = []
        for code, (move, *_) in sorted(self.by_code.items()):
            if move.kind == ACT:
                rows.append({"code": code, "act": move.text})
            else:
                family = move.kind == PLAY and self.ruleset.families[move.target // 4].name
                rows.append({"code": code, "from": move.origin, "to": family or move.destination})
        return rows

    @staticmethod
    def count_wanted(wants: Iterable[int]) -> bytearray:
        """Return how many foundations want each card, as a table for ``bytes.translate``."""
        counts = bytearray(256)
        for number in wants:
            counts[number] += number < EMPTY
        return counts

    def parse(self, text: str) -> Move:
        """Return the move of this text, such as ``r3:upper-S``.

        Raises:
            NotAMoveError: No position of this ruleset has such a move.
        """
        try:
            return self.by_text[text]
        except KeyError:
            raise NotAMoveError(f"{text!r} is not a move of {self.ruleset.name}") from None


@cache
def _table(name: str) -> Table:
    return Table(RULESETS[name])


def table(ruleset: str) -> Table:
    """Return the table of a published ruleset.

    Raises:
        UnknownRulesetError: No ruleset has this name.
    """
    if ruleset not in RULESETS:
        raise UnknownRulesetError(
            f"there is no ruleset {ruleset!r}; there are {', '.join(RULESETS)}"
        )
    return _table(ruleset)
