"""Cards, positions and moves as people see them in a terminal, with colour or without.

Nothing here needs colour to be understood: suits have signs or letters, and a card that can go to
a foundation stands in brackets.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, zip_longest
from typing import IO, Final

from rich.console import Console, RenderableType
from rich.text import Text

from service.engine import RULESETS, Move, Position
from service.engine.cards import EMPTY, NOTHING, SUITS, TEXTS, WAITING
from service.engine.moves import DRAW, REDEAL, STOCK

_CELL: Final = 6
_FOUNDATION: Final = 2 * _CELL
_CARD: Final = re.compile(r"(?<![\w-])[A2-9TJQK][CDHS]\b")
_RED: Final = "DH"


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs that a terminal can show.

    Attributes:
        suits: One sign a suit, in the order C D H S.
        wants: Stands between a foundation's top and what it wants.
        dot: Parts the facts of one line.
        more: Stands for what is left out.
    """

    suits: str
    wants: str
    dot: str
    more: str


FULL: Final = Signs(suits="♣♦♥♠", wants="→", dot="·", more="…")
ASCII: Final = Signs(suits=SUITS, wants=">", dot="-", more="...")


def printable(text: str, encoding: str) -> str:
    """Return the text with whatever this encoding lacks, or a terminal would obey, as escapes."""
    if not text.isprintable():
        text = "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
            for letter in text
        )
    return text.encode(encoding, "backslashreplace").decode(encoding)


class Screen:
    """A terminal or file that is written to, and how cards look there.

    Attributes:
        console: Where it goes; it drops colour where there is none.
        signs: The signs that can be shown there.
    """

    def __init__(self, file: IO[str] | None = None, *, ascii_only: bool = False) -> None:
        """Write to this file, else to standard output as it is now."""
        self.console = Console(file=file, highlight=False, markup=False, emoji=False)
        self.signs = FULL
        signs = (FULL.suits, FULL.wants, FULL.dot, FULL.more)
        if ascii_only or any(printable(sign, self.console.encoding) != sign for sign in signs):
            self.signs = ASCII

    def say(self, text: RenderableType = "", *, style: str = "", end: str = "\n") -> None:
        """Write a line; of a plain string whatever cannot be shown there is escaped."""
        if isinstance(text, str):
            text = Text(printable(text, self.console.encoding), style)
        self.console.print(text, end=end, soft_wrap=not self.console.is_terminal)

    def title(self, ruleset: str, *facts: str) -> None:
        """Write what is played, a line with these facts, and an empty line."""
        row = RULESETS[ruleset]
        self.say(f"{row.game}, {row.edition}", style="bold")
        self.say(f" {self.signs.dot} ".join((ruleset, *facts)), style="dim")
        self.say()

    def sentence(self, text: str) -> Text:
        """Return a sentence in which card texts, such as 7H, are drawn as cards."""
        text = printable(text, self.console.encoding)
        drawn = Text()
        start = 0
        for found in _CARD.finditer(text):
            drawn.append(text[start : found.start()])
            drawn.append_text(self.card(found[0]))
            start = found.end()
        return drawn.append(text[start:])

    def card(self, text: str) -> Text:
        """Return a card, given by its text, as it looks here; ``--`` for no card."""
        if text == TEXTS[EMPTY]:
            return Text(text, "dim")
        rank, suit = text[0], text[1]
        sign = self.signs.suits[SUITS.index(suit)]
        return Text(f"{_rank(rank)}{sign}", "red" if suit in _RED else "")

    def position(self, position: Position) -> Text:
        """Return a position as it lies on a table: foundations, wings, waste and stock."""
        lines = [
            *self._foundations(position),
            Text(),
            *self._wings(position),
            Text(),
            self._piles(position),
        ]
        return Text("\n").join(lines)

    def stock(self, position: Position) -> Text:
        """Return the hidden cards of the stock, the next one first."""
        return _in_columns(
            [_aligned(self.card(TEXTS[number]), 3) for number in reversed(position.stock)],
            self.console.width,
            gap=2,
        )

    def moves(self, position: Position, moves: Sequence[Move]) -> Text:
        """Return a numbered list of moves that are legal in this position."""
        rows = [
            Text.assemble((f"{number:>3} ", "bold"), self._move(position, move))
            for number, move in enumerate(moves, 1)
        ]
        return _in_columns(rows, self.console.width, gap=3)

    def _move(self, position: Position, move: Move) -> Text:
        if move.kind == DRAW:
            return Text("draw (Enter)")
        if move.kind == REDEAL:
            return Text("turn the waste over (t)")
        moved = Text("??") if move.source == STOCK else self._number(position.moved_card(move))
        return Text.assemble(_aligned(moved, 3), f" {move.text}")

    def _number(self, number: int) -> Text:
        return self.card(TEXTS[number])

    def _available(self, position: Position, number: int) -> Text:
        """Draw a card that may be played, in brackets if some foundation wants it."""
        if number == EMPTY or number not in position.wants:
            return self._number(number)
        drawn = self._number(number)
        drawn.stylize("bold")
        return Text.assemble("[", drawn, "]")

    def _foundations(self, position: Position) -> Iterable[Text]:
        rules = position.rules
        families = [family.name for family in rules.ruleset.families]
        indent = max(map(len, families)) + 2
        letters = [
            f"{letter} {sign}" if letter != sign else letter
            for letter, sign in zip(SUITS, self.signs.suits, strict=True)
        ]
        heading = "".join(f"  {letter:<{_FOUNDATION - 2}}" for letter in letters)
        yield Text(" " * indent + heading.rstrip(), "dim")
        for family, name in enumerate(families):
            cells = [self._foundation(position, family * 4 + suit) for suit in range(4)]
            line = Text.assemble((f"{name:<{indent}}", "dim"), *cells)
            line.rstrip()
            yield line

    def _foundation(self, position: Position, foundation: int) -> Text:
        chain, want = position.rules.chains[foundation], position.wants[foundation]
        height = position.heights[foundation]
        top = self._number(chain[height - 1] if height else EMPTY)
        if want == NOTHING:
            state = "full"
        elif want == WAITING:
            state = "waits"
        else:
            state = f"{self.signs.wants} {_rank(TEXTS[want][0])}"
        cell = Text.assemble(_aligned(top, 3, "right"), " ", (state, "dim"))
        return _aligned(cell, _FOUNDATION)

    def _wings(self, position: Position) -> Iterable[Text]:
        """Yield the columns, and to their right the rows of the reserve."""
        rules = position.rules
        left: list[Text] = []
        if rules.ruleset.columns:
            names = rules.places[rules.reserve : rules.waste]
            left.append(_row(Text(name, "dim") for name in names))
        for depth, cards in enumerate(zip_longest(*position.columns, fillvalue=EMPTY), 1):
            left.append(
                _row(
                    self._column_card(position, number, last=depth == len(column))
                    for number, column in zip(cards, position.columns, strict=True)
                )
            )
        right: list[Text] = []
        for start, end in pairwise((0, *accumulate(rules.ruleset.reserve))):
            right.append(_row(Text(name, "dim") for name in rules.places[start:end]))
            right.append(_row(self._available(position, top) for top in position.tops[start:end]))
        width = rules.ruleset.columns * _CELL
        for columns, reserve in zip_longest(left, right, fillvalue=Text()):
            line = _aligned(columns, width) if width else Text()
            line.append_text(Text("   ") if width else Text()).append_text(reserve)
            line.rstrip()
            yield line

    def _column_card(self, position: Position, number: int, *, last: bool) -> Text:
        if number == EMPTY:
            return Text()
        return self._available(position, number) if last else self._number(number)

    def _piles(self, position: Position) -> Text:
        line = Text.assemble(("stock ", "dim"), str(len(position.stock)))
        if position.rules.ruleset.redeals:
            line.append(f" ({'one redeal' if position.redeals else 'no redeal'} left)")
        line.append("   waste ", "dim").append(str(len(position.waste)))
        if not position.waste:
            return line
        shown = [self._available(position, position.waste[-1])]
        room = self.console.width - line.cell_len - shown[0].cell_len - len(self.signs.more) - 4
        for number in reversed(position.waste[:-1]):
            under = self._number(number)
            room -= under.cell_len + 1
            if room < 0:
                shown.append(Text(self.signs.more))
                break
            shown.append(under)
        return line.append("   ").append_text(Text(" ").join(reversed(shown)))


def _rank(rank: str) -> str:
    return "10" if rank == "T" else rank


def _aligned(text: Text, width: int, side: str = "left") -> Text:
    padding = Text(" " * (width - text.cell_len))
    return padding.append_text(text) if side == "right" else Text.assemble(text, padding)


def _row(cells: Iterable[Text]) -> Text:
    """Return cards side by side, with room for the brackets that some have."""
    row = Text()
    for cell in cells:
        bracketed = cell.plain.startswith("[")
        row.append_text(_aligned(Text.assemble("" if bracketed else " ", cell), _CELL))
    return row


def _in_columns(rows: Sequence[Text], width: int, *, gap: int) -> Text:
    """Return short texts in as many columns as fit, read line by line."""
    cell = max((row.cell_len for row in rows), default=0) + gap
    count = max(1, (width + gap) // cell)
    lines = []
    for start in range(0, len(rows), count):
        line = Text().join(_aligned(row, cell) for row in rows[start : start + count])
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)
