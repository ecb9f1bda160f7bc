"""Positions: what lies where, which moves that allows, and what a move does.

Theory of operation. ``tops`` holds the available card of every place and ``wants`` the card that
each foundation takes next, so that a play fits when two small integers are equal, whatever the
ruleset. :meth:`Position.is_legal` judges every move and :meth:`Position.refusal` says why not.
:meth:`Position.run` carries moves out, in place, and is the only code that does: one loop over
local names, since replaying logs is most of what the service does. Two shortcuts in it, which a
test holds to the judge: the conditions of plays and draws stand in the loop itself, and a draw that
was legal stays so while nothing but draws happens. Whether a game is lost is derived when
asked: a legal move shows that it is not.
"""

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Literal, Self

from service.engine.cards import CARD_NUMBERS, CARDS, EMPTY, NOTHING, WAITING, render_cards
from service.engine.deals import Layout
from service.engine.errors import (
    AmbiguousMoveError,
    BadPositionError,
    IllegalMoveError,
    NotAMoveError,
    Refusal,
)
from service.engine.moves import ACT, DRAW, FILL, HOP, PLAY, REDEAL, STOCK, Effect, Move, Table

Outcome = Literal["playing", "won", "lost"]


class Position:
    """A position of one ruleset, changed in place.

    Attributes:
        rules: The ruleset's table.
        stock: The face-down cards, the next one last.
        redeals: How often the waste may still be turned over.
        tops: For each place its available card, or EMPTY; the waste is the last place.
        columns: Cards of each column, the last one available.
        waste: Bottom to top.
        wants: For each foundation the card it takes next, or NOTHING, or WAITING.
        effects: What the latest move brought about by itself, in order.
    """

    __slots__ = (
        "_wanted",
        "columns",
        "effects",
        "redeals",
        "rules",
        "stock",
        "tops",
        "wants",
        "waste",
    )

    def __init__(self, rules: Table, layout: Layout) -> None:
        """Lay out a deal: bases, reserve, columns, and the first waste card where one is turned."""
        self.rules = rules
        self.stock = list(reversed(layout.stock))
        self.redeals = rules.ruleset.redeals
        self.columns = [list(column) for column in layout.columns]
        self.waste: list[int] = []
        self.tops = bytearray((*layout.reserve, *(column[-1] for column in self.columns), EMPTY))
        self.wants = list(rules.wants)
        self._wanted = rules.wanted_at_deal[:]
        self.effects: tuple[Effect, ...] = ()
        if rules.turns:
            self._turn()

    def copy(self) -> "Position":
        """Return an equal position that shares nothing that changes."""
        other = object.__new__(Position)
        other.rules = self.rules
        other.stock = self.stock[:]
        other.redeals = self.redeals
        other.columns = [column[:] for column in self.columns]
        other.waste = self.waste[:]
        other.tops = self.tops[:]
        other.wants = self.wants[:]
        other._wanted = self._wanted[:]
        other.effects = self.effects
        return other

    @property
    def heights(self) -> list[int]:
        """For each foundation its number of cards."""
        return [heights[want] for heights, want in zip(self.rules.heights, self.wants, strict=True)]

    @property
    def score(self) -> int:
        """Cards on foundations, 104 when won."""
        return sum(map(dict.__getitem__, self.rules.heights, self.wants))

    @property
    def outcome(self) -> Outcome:
        """``won`` with all cards on foundations, ``lost`` without a legal move, or ``playing``."""
        if self.wants == self.rules.complete:
            return "won"
        # A draw is refused only while some reserve card can be played.
        playing = (
            self.stock
            or any(self.tops.translate(self._wanted))
            or any(map(self.is_legal, self.rules.others))
        )
        return "playing" if playing else "lost"

    def legal_moves(self) -> list[Move]:
        """Return all legal moves: plays by place and family, fills, the draw, the redeal, hops."""
        rules, wants = self.rules, self.wants
        homes, plays = rules.homes, rules.plays
        moves = [
            plays[place][target]
            for place, number in enumerate(self.tops)
            for target in homes[number]
            if wants[target] == number
        ]
        moves += filter(self.is_legal, rules.others)
        return moves

    def is_legal(self, move: Move) -> bool:
        """Whether this move of the ruleset is legal here."""
        kind = move.kind
        if kind == PLAY:
            return self.wants[move.target] == self.tops[move.source]
        if kind == DRAW:
            rules = self.rules
            return bool(self.stock) and (
                not rules.draw_waits
                or self.tops[: rules.reserve].translate(self._wanted) == rules.none_playable
            )
        if kind == HOP:
            return self.wants[move.target] == self._head(move.source)
        if kind == FILL:
            if self.tops[move.target] != EMPTY:
                return False
            return bool(self.waste) if move.source != STOCK else bool(self.stock) and not self.waste
        return kind == REDEAL and bool(self.waste and self.redeals and not self.stock)

    def refusal(self, move: Move) -> Refusal | None:
        """Return why this move of the ruleset is not legal here, or None when it is."""
        return None if self.is_legal(move) else _REFUSALS[move.kind](self, move)

    def resolve(self, origin: str, destination: str | None = None) -> Move:
        """Return the move from this place, to the one foundation that fits if none is named.

        Raises:
            NotAMoveError: No position of this ruleset has such a move.
            AmbiguousMoveError: No destination is named and more than one foundation fits.
            IllegalMoveError: No destination is named and no foundation fits.
        """
        rules = self.rules
        if destination is not None:
            return rules.parse(f"{origin}:{destination}")
        exits = rules.exits.get(origin)
        if exits is None:
            raise NotAMoveError(
                f"nothing goes from {origin!r} to foundations in {rules.ruleset.name}"
            )
        number = self.moved_card(exits[0])
        moves = [move for move in exits if self.wants[move.target] == number]
        if len(moves) > 1:
            targets = tuple(move.destination for move in moves)
            raise AmbiguousMoveError(
                f"{CARDS[number]} on {origin} fits {' and '.join(targets)}: name one", targets
            )
        if not moves:
            raise IllegalMoveError(
                Refusal("source-empty", f"{origin} is empty")
                if number == EMPTY
                else Refusal(
                    "no-foundation-fits", f"no foundation takes {CARDS[number]} from {origin} now"
                )
            )
        return moves[0]

    def moved_card(self, move: Move) -> int:
        """Return the card that this legal move would move; a redeal moves none: EMPTY."""
        if move.kind == HOP:
            return self._head(move.source)
        if move.kind == REDEAL:
            return EMPTY
        return self.stock[-1] if move.source == STOCK else self.tops[move.source]

    def uncovers(self, move: Move) -> bool:
        """Whether this legal move turns up a card that nobody has seen.

        Decided from the numbers of cards alone, so that asking tells nothing. After a redeal every
        card of the stock has been seen.
        """
        rules = self.rules
        if not self.stock or self.redeals != rules.ruleset.redeals:
            return False
        if move.source == STOCK:
            return True
        fills = move.kind == PLAY and move.source < rules.reserve and not rules.fills
        takes = fills or (move.kind != HOP and move.source == rules.waste)
        left = len(self.waste) - takes
        return left < 0 or (left == 0 and rules.turns)

    def apply(self, move: Move) -> tuple[Effect, ...]:
        """Carry out a move and return its automatic effects, in order.

        Raises:
            IllegalMoveError: The move is not legal here; nothing is changed.
        """
        self.run((move,), [])
        return self.effects

    def run(  # noqa: C901, PLR0912, PLR0915 - one loop over local names, as told above
        self, moves: Iterable[Move], done: list[Move]
    ) -> Move | None:
        """Carry out moves one after the other, up to the first act if there is one.

        Args:
            moves: May be read lazily: each is taken when those before it are carried out.
            done: Each move is added to it once it is carried out.

        Returns:
            The act at which it stopped, which is for :class:`~service.engine.game.Game` to judge.

        Raises:
            IllegalMoveError: A move is not legal where it stands; those before it are carried out.
        """
        rules, stock, tops, waste = self.rules, self.stock, self.tops, self.waste
        wants, wanted = self.wants, self._wanted
        following, reserve, automatic = rules.following, rules.reserve, not rules.fills
        waits, none_playable = rules.draw_waits, rules.none_playable
        append = done.append
        may_draw = False
        effects = self.effects
        try:
            for move in moves:
                kind = move.kind
                if kind == DRAW:
                    if not may_draw:
                        if not stock or (
                            waits and tops[:reserve].translate(wanted) != none_playable
                        ):
                            raise IllegalMoveError(_draw_refusal(self, move))
                        may_draw = True
                    tops[-1] = number = stock.pop()
                    waste.append(number)
                    effects = ()
                    if not stock:
                        may_draw = False
                elif kind == PLAY:
                    target, place = move.target, move.source
                    number = tops[place]
                    if wants[target] != number:
                        raise IllegalMoveError(_play_refusal(self, move))
                    wants[target] = want = following[target][number]
                    wanted[number] -= 1
                    if want < EMPTY:
                        wanted[want] += 1
                    elif rules.awaits:
                        self._settle(target)
                    may_draw = False
                    if place >= reserve:
                        pile = waste if place == rules.waste else self.columns[place - reserve]
                        pile.pop()
                        tops[place] = pile[-1] if pile else EMPTY
                        effects = ()
                        if rules.turns and stock and not waste:
                            self._turn()
                            effects = rules.turned
                    elif waste and automatic:
                        tops[place] = waste.pop()
                        effects = rules.filled_from_waste[place]
                        if waste:
                            tops[-1] = waste[-1]
                        elif rules.turns and stock:
                            self._turn()
                            effects = rules.filled_and_turned[place]
                        else:
                            tops[-1] = EMPTY
                    elif stock and automatic:
                        tops[place] = stock.pop()
                        effects = rules.filled_from_stock[place]
                    else:
                        tops[place] = EMPTY
                        effects = ()
                elif kind == ACT:
                    return move
                else:
                    effects = self._shift(move)
                    may_draw = False
                append(move)
        finally:
            self.effects = effects
        return None

    def _shift(self, move: Move) -> tuple[Effect, ...]:
        """Carry out a hop, a fill by the player, or the redeal."""
        if not self.is_legal(move):
            raise IllegalMoveError(_REFUSALS[move.kind](self, move))
        wants, tops, waste, stock = self.wants, self.tops, self.waste, self.stock
        if move.kind == HOP:
            number = self._head(move.source)
            wants[move.source], wants[move.target] = (
                number,
                self.rules.following[move.target][number],
            )
            self._wanted[:] = self.rules.count_wanted(wants)
        elif move.kind == FILL:
            tops[move.target] = (stock if move.source == STOCK else waste).pop()
            tops[-1] = waste[-1] if waste else EMPTY
        else:
            stock[:] = waste[::-1]
            waste.clear()
            tops[-1] = EMPTY
            self.redeals -= 1
            if self.rules.turns:
                self._turn()
                return self.rules.turned
        return ()

    def _turn(self) -> None:
        """Turn the next stock card to the waste."""
        self.tops[-1] = number = self.stock.pop()
        self.waste.append(number)

    def _settle(self, target: int) -> None:
        """Open what waited for a foundation that is now complete, or what now need not wait."""
        wants, rules = self.wants, self.rules
        for waiting, awaited in rules.awaits.items():
            if (
                target in {waiting, awaited}
                and wants[awaited] == NOTHING
                and wants[waiting] == WAITING
            ):
                wants[waiting] = last = rules.chains[waiting][-1]
                self._wanted[last] += 1

    def _head(self, foundation: int) -> int:
        """Return the top card of a foundation, or EMPTY."""
        height = self.rules.heights[foundation][self.wants[foundation]]
        return self.rules.chains[foundation][height - 1] if height else EMPTY

    def render(self, *, stock: bool = False) -> str:
        """Return the position as text: foundations, reserve, columns, waste, stock.

        Foundations are given by the rank of their top cards, a family a group, suits C D H S, ``-``
        when empty; an empty reserve place is ``--``; the waste runs bottom to top. Of the stock the
        number of cards is told, or with ``stock`` the cards, next one first. Where the ruleset has
        a redeal, ``+`` and the number of those left follow. Example of a fresh game::

            AAAA/AAAA/2222 JH3HJD2S3H7D8C8S/9S6STC7C9SJS5H5H - - 76
        """
        rules = self.rules
        marks = "".join(map(dict.__getitem__, rules.marks, self.wants))
        reserve = "".join(render_cards(self.tops[: rules.reserve]))
        cuts = [0, *accumulate(2 * size for size in rules.ruleset.reserve)]
        left = "".join(render_cards(self.stock[::-1])) or "-" if stock else str(len(self.stock))
        return " ".join(
            (
                "/".join([marks[n : n + 4] for n in range(0, len(marks), 4)]),
                "/".join([reserve[start:end] for start, end in pairwise(cuts)]),
                "/".join(["".join(render_cards(column)) or "--" for column in self.columns]) or "-",
                "".join(render_cards(self.waste)) or "-",
                f"{left}+{self.redeals}" if rules.ruleset.redeals else left,
            )
        )

    @classmethod
    def parse(cls, rules: Table, text: str) -> Self:
        """Return the position of a text made by :meth:`render` with the cards of the stock.

        The cards are taken as they are given, so that a test may set up any position.

        Raises:
            BadPositionError: The text has not this form.
        """
        error = BadPositionError(f"not a position of {rules.ruleset.name}: {text!r}")
        position = object.__new__(cls)
        position.rules = rules
        try:
            foundations, reserve, columns, waste, stock = text.split(" ")
            stock, _, redeals = stock.partition("+")
            position.redeals = int(redeals or 0)
            wants = [
                {text: want for want, text in marks.items()}[mark]
                for mark, marks in zip(foundations.replace("/", ""), rules.marks, strict=True)
            ]
            position.columns = [_pile(column) for column in columns.split("/") if column != "-"]
            position.waste = _pile(waste)
            position.stock = _pile(stock)[::-1]
            position.tops = bytearray(_cards(reserve.replace("/", "")))
        except (ValueError, KeyError):
            raise error from None
        piles = [*position.columns, position.waste]
        position.tops += bytes(pile[-1] if pile else EMPTY for pile in piles)
        position.wants = wants
        position._wanted = rules.count_wanted(wants)
        position.effects = ()
        if len(position.tops) != len(rules.places) or position.redeals > rules.ruleset.redeals:
            raise error
        for target in rules.awaits:
            position._settle(target)
        if position.render(stock=True) != text:
            raise error
        return position


def _cards(text: str) -> list[int]:
    return [CARD_NUMBERS[text[n : n + 2]] for n in range(0, len(text), 2)]


def _pile(text: str) -> list[int]:
    cards = [] if text in {"-", "--"} else _cards(text)
    if EMPTY in cards:
        raise ValueError(text)
    return cards


def _play_refusal(position: Position, move: Move) -> Refusal:
    return _build_refusal(position, move, position.tops[move.source])


def _hop_refusal(position: Position, move: Move) -> Refusal:
    return _build_refusal(position, move, position._head(move.source))  # noqa: SLF001


def _build_refusal(position: Position, move: Move, number: int) -> Refusal:
    rules, target = position.rules, move.target
    want = position.wants[target]
    name = move.destination
    if number == EMPTY:
        return Refusal("source-empty", f"{move.origin} is empty")
    if rules.chains[target][0] // 13 != number // 13:
        return Refusal(
            "wrong-suit", f"{name} is built in its own suit, {CARDS[number]} is of another"
        )
    if want == NOTHING:
        return Refusal("foundation-complete", f"{name} is complete")
    if want == WAITING:
        awaited = rules.foundations[rules.awaits[target]]
        last = CARDS[rules.chains[target][-1]]
        return Refusal("foundation-waits", f"{name} takes {last} only after {awaited} is complete")
    return Refusal("foundation-wants-other", f"{name} wants {CARDS[want]}, not {CARDS[number]}")


def _draw_refusal(position: Position, _move: Move) -> Refusal:
    if not position.stock:
        return Refusal("stock-empty", "the stock is empty")
    wants = set(position.wants)
    places = [
        name
        for name, number in zip(position.rules.places, position.tops, strict=True)
        if name != "waste" and number in wants
    ]
    return Refusal(
        "reserve-can-play",
        f"drawing waits until no reserve card can go to a foundation: {', '.join(places)} can",
    )


def _fill_refusal(position: Position, move: Move) -> Refusal:
    if position.tops[move.target] != EMPTY:
        return Refusal("place-occupied", f"{move.destination} holds a card")
    if move.source == STOCK and position.waste:
        return Refusal("waste-first", "places are filled from the waste while it has cards")
    return Refusal("source-empty", f"{move.origin} is empty")


def _redeal_refusal(position: Position, _move: Move) -> Refusal:
    if not position.redeals:
        return Refusal("no-redeal-left", "the waste has been turned over as often as it may be")
    if position.stock:
        return Refusal("stock-not-empty", "the waste is turned over only when the stock is empty")
    return Refusal("source-empty", "waste is empty")


_REFUSALS = {
    PLAY: _play_refusal,
    HOP: _hop_refusal,
    DRAW: _draw_refusal,
    FILL: _fill_refusal,
    REDEAL: _redeal_refusal,
}
