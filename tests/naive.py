"""A naive engine of lists, written from the rules: an oracle for the tests.

Cards are texts such as "3H", piles are lists of them, and every rule is a plain `if` on the name
of the ruleset. It is meant to be read next to the rules, sentence by sentence, and to be slow.
"""

import hashlib
import hmac
import random

RULESETS: tuple[str, ...] = (
    "royal-rendezvous-1",
    "royal-rendezvous-relaxed-1",
    "royal-rendezvous-open-1",
    "royal-rendezvous-solsuite-1",
    "royal-rendezvous-till-dawn-1",
    "royal-rendezvous-pysol-1",
    "royal-cotillion-1",
    "royal-cotillion-pysol-1",
    "odd-and-even-1",
    "odd-and-even-pysol-1",
)

RANKS = "A23456789TJQK"
PYSOL_RULESETS = (
    "royal-rendezvous-pysol-1",
    "royal-cotillion-pysol-1",
    "odd-and-even-pysol-1",
)


def _is_rendezvous(ruleset: str) -> bool:
    return ruleset.startswith("royal-rendezvous-")


def _is_cotillion(ruleset: str) -> bool:
    return ruleset.startswith("royal-cotillion-")


def _is_odd_and_even(ruleset: str) -> bool:
    return ruleset.startswith("odd-and-even-")


def _check_ruleset(ruleset: str) -> None:
    if ruleset not in RULESETS:
        raise ValueError(f"unknown ruleset: {ruleset!r}")


def _families(ruleset: str) -> list[str]:
    """The families of foundations, in the order in which the rules name them."""
    if ruleset in ("royal-rendezvous-till-dawn-1", "royal-rendezvous-pysol-1"):
        return ["upper", "lower", "deuce", "king"]
    if _is_rendezvous(ruleset):
        return ["upper", "lower", "deuce"]
    return ["ace", "deuce"]


def _ranks_of(ruleset: str, family: str) -> str:
    """The ranks that a pile of the family is built of, base first."""
    if family == "ace":
        return "A3579JK2468TQ"
    if family == "king":
        return "K"
    if family == "deuce":
        return "2468TQ" if _is_rendezvous(ruleset) else "2468TQA3579JK"
    if family == "upper":
        return "A23456789TJQ" if ruleset == "royal-rendezvous-till-dawn-1" else "A23456789TJQK"
    return "A3579J" if ruleset == "royal-rendezvous-pysol-1" else "A3579JK"


def _laid_out(ruleset: str, family: str) -> bool:
    """Whether the bases of the family lie there before the deal."""
    if family == "king":
        return False
    return _is_rendezvous(ruleset) or ruleset == "royal-cotillion-1"


def _is_laid_out_card(ruleset: str, pack_number: int, card: str) -> bool:
    """Whether this card of this pack is one of the bases laid out before the deal."""
    if _is_rendezvous(ruleset):
        return card[0] == "A" or (card[0] == "2" and pack_number == 0)
    if ruleset == "royal-cotillion-1":
        return card[0] in "A2" and pack_number == 0
    return False


def _pack_of_pairs(ruleset: str, spec: str) -> list[tuple[int, str]]:
    """The cards to be shuffled, each with the number of its pack."""
    _check_ruleset(ruleset)
    if spec not in ("deal-1", "pysol-1"):
        raise ValueError(f"unknown deal spec: {spec!r}")
    suits = "CDHS" if spec == "deal-1" else "CSHD"
    pairs: list[tuple[int, str]] = []
    for pack_number in (0, 1):
        for suit in suits:
            for rank in RANKS:
                card = rank + suit
                if spec == "deal-1" and _is_laid_out_card(ruleset, pack_number, card):
                    continue
                pairs.append((pack_number, card))
    return pairs


def pack(ruleset: str, spec: str) -> list[str]:
    """The cards to be shuffled, in their order before the shuffle.

    With "deal-1" the bases that are laid out are left out already; "pysol-1" has all 104 still.
    """
    return [card for _, card in _pack_of_pairs(ruleset, spec)]


class _Deal1Words:
    """The stream of 32-bit words that "deal-1" draws from."""

    def __init__(self, seed: str) -> None:
        text = b"royal-rendezvous/deal/1" + b"\x00" + seed.encode("ascii")
        self.key = hashlib.sha256(text).digest()
        self.counter = 0
        self.words: list[int] = []

    def next_word(self) -> int:
        if not self.words:
            message = self.counter.to_bytes(8, "big")
            block = hmac.new(self.key, message, hashlib.sha256).digest()
            self.words = [int.from_bytes(block[4 * k : 4 * k + 4], "big") for k in range(8)]
            self.counter += 1
        return self.words.pop(0)

    def below(self, size: int) -> int:
        limit = 2**32 // size * size
        while True:
            word = self.next_word()
            if word < limit:
                return word % size


def _deal_1_cards(ruleset: str, seed: str) -> list[str]:
    """The cards in the order in which "deal-1" gives them out."""
    if not 1 <= len(seed) <= 64 or any(not "!" <= char <= "~" for char in seed):
        raise ValueError("a seed is 1 to 64 printable ASCII characters without the space")
    cards = pack(ruleset, "deal-1")
    words = _Deal1Words(seed)
    for i in range(len(cards) - 1, 0, -1):
        j = words.below(i + 1)
        cards[i], cards[j] = cards[j], cards[i]
    return cards


def _congruential_indices(number: int) -> list[int]:
    """The indices to exchange with 103, 102, ..., 1, from the linear congruential generator."""
    state = number if number < 2**32 else number - 2**32
    indices: list[int] = []
    for n in range(103, 0, -1):
        state = (state * 214013 + 2531011) % 2**33
        if number < 2**31:
            output = state // 2**16 % 2**15
        elif number < 2**32:
            output = state // 2**16 % 2**15 + 0x8000
        else:
            output = state // 2**16 % 2**16 + 1
        indices.append(output % (n + 1))
    return indices


def _twister_indices(number: int) -> list[int]:
    """The indices to exchange with 103, 102, ..., 1, from the Mersenne Twister."""
    twister = random.Random(number)
    return [int(twister.random() * (n + 1)) for n in range(103, 0, -1)]


def _pysol_1_indices(seed: str) -> list[int]:
    digits = seed.removeprefix("ms")
    if digits == "" or any(char not in "0123456789" for char in digits):
        raise ValueError("a seed is digits, or ms and digits")
    number = int(digits)
    if seed.startswith("ms"):
        if not 1 <= number < 2**33:
            raise ValueError("a number after ms is at least 1 and below 2**33")
        return _congruential_indices(number)
    if number < 32000:
        return _congruential_indices(number)
    return _twister_indices(number)


def _pysol_1_cards(ruleset: str, seed: str) -> list[str]:
    """The cards in the order in which "pysol-1" gives them out."""
    pairs = _pack_of_pairs(ruleset, "pysol-1")
    indices = _pysol_1_indices(seed)
    for n in range(103, 0, -1):
        j = indices.pop(0)
        pairs[n], pairs[j] = pairs[j], pairs[n]
    pairs.reverse()
    return [card for number, card in pairs if not _is_laid_out_card(ruleset, number, card)]


def deal(ruleset: str, spec: str, seed: str) -> "NaiveGame":
    """A fresh game of the ruleset, as the deal spec lays it out for the seed.

    Raises ValueError if the ruleset or the spec is unknown or the spec does not take the seed.
    """
    _check_ruleset(ruleset)
    if spec == "deal-1":
        cards = _deal_1_cards(ruleset, seed)
    elif spec == "pysol-1":
        cards = _pysol_1_cards(ruleset, seed)
    else:
        raise ValueError(f"unknown deal spec: {spec!r}")
    places = 9 if _is_odd_and_even(ruleset) else 16
    reserve = [cards.pop(0) for _ in range(places)]
    columns: list[list[str]] = []
    if _is_cotillion(ruleset):
        columns = [[], [], [], []]
        for _ in range(3):
            for column in columns:
                column.append(cards.pop(0))
    return NaiveGame(ruleset, reserve, columns, cards)


class NaiveGame:
    """A game in play, under any of the rulesets.

    `reserve` has None for an empty place; the last card of a column, of the waste and of a
    foundation is the one on top; `stock` has the next card first. `ranks` are the ranks of each
    family of foundations, base first.
    """

    def __init__(
        self, ruleset: str, reserve: list[str], columns: list[list[str]], stock: list[str]
    ) -> None:
        """Lay out the bases; in the pysol editions also turn the first stock card."""
        _check_ruleset(ruleset)
        self.ruleset = ruleset
        self.reserve: list[str | None] = list(reserve)
        self.columns: list[list[str]] = [list(column) for column in columns]
        self.waste: list[str] = []
        self.stock: list[str] = list(stock)
        self.redeals_left: int = 1 if _is_odd_and_even(ruleset) else 0
        self.ranks: dict[str, str] = {
            family: _ranks_of(ruleset, family) for family in _families(ruleset)
        }
        self.foundations: dict[str, list[str]] = {}
        for family in self.ranks:
            for suit in "CDHS":
                pile: list[str] = []
                if _laid_out(ruleset, family):
                    pile.append(self.ranks[family][0] + suit)
                self.foundations[f"{family}-{suit}"] = pile
        if ruleset in PYSOL_RULESETS and self.stock:
            self.waste.append(self.stock.pop(0))

    def status(self) -> str:
        """How the game stands: "playing", "won" or "lost"."""
        if self.score() == 104:
            return "won"
        return "playing" if self.legal_moves() else "lost"

    def score(self) -> int:
        """The number of cards on foundations."""
        return sum(len(pile) for pile in self.foundations.values())

    def legal_moves(self) -> list[str]:
        """The texts of all legal moves, in the order that the rules give for such lists."""
        if self.score() == 104:
            return []
        reserve_plays = self._reserve_plays()
        moves = list(reserve_plays)
        for number, column in enumerate(self.columns, start=1):
            if column:
                moves += [f"c{number}:{name}" for name in self._homes(column[-1])]
        if self.waste:
            moves += [f"waste:{name}" for name in self._homes(self.waste[-1])]
        moves += self._fills_by_the_player()
        # The default alone refuses the draw while a reserve card can be played.
        if self.stock and not (self.ruleset == "royal-rendezvous-1" and reserve_plays):
            moves.append("stock:waste")
        if self.redeals_left > 0 and not self.stock and self.waste:
            moves.append("waste:stock")
        moves += self._hops()
        return moves

    def apply(self, move: str) -> list[tuple[str, str]]:
        """Play a legal move and return what happened by itself, in order, as (text, card).

        Raises ValueError and changes nothing if the move is not legal.
        """
        if move not in self.legal_moves():
            raise ValueError(f"not a legal move: {move!r}")
        return self.carry_out(move)

    def carry_out(self, move: str) -> list[tuple[str, str]]:
        """Play a move that is known to be legal, as `apply` does."""
        source, target = move.split(":")
        if move == "waste:stock":
            # Turned over, the card that lay lowest is the next one again.
            self.stock = self.waste
            self.waste = []
            self.redeals_left -= 1
        else:
            self._put(target, self._take(source))
        if source in self.foundations:
            return []
        return self._effects(source)

    def _homes(self, card: str) -> list[str]:
        """The names of the foundations that take the card now: they are built by suit."""
        suit = card[1]
        return [f"{family}-{suit}" for family in self.ranks if self._wants(family, card)]

    def _wants(self, family: str, card: str) -> bool:
        """Whether the family's pile of the card's suit takes the card now."""
        rank, suit = card[0], card[1]
        ranks = self.ranks[family]
        height = len(self.foundations[f"{family}-{suit}"])
        if height == len(ranks) or rank != ranks[height]:
            return False
        # A king that has to wait until the lower pile of its suit has a king.
        waits = (self.ruleset == "royal-rendezvous-solsuite-1" and family == "upper") or (
            self.ruleset == "royal-rendezvous-till-dawn-1" and family == "king"
        )
        if waits and rank == "K":
            return card in self.foundations[f"lower-{suit}"]
        return True

    def _reserve_plays(self) -> list[str]:
        plays: list[str] = []
        for number, card in enumerate(self.reserve, start=1):
            if card is not None:
                plays += [f"r{number}:{name}" for name in self._homes(card)]
        return plays

    def _fills_by_the_player(self) -> list[str]:
        if self.ruleset != "royal-rendezvous-open-1":
            return []
        fills: list[str] = []
        for number, card in enumerate(self.reserve, start=1):
            if card is None and self.waste:
                fills.append(f"waste:r{number}")
            elif card is None and self.stock:
                fills.append(f"stock:r{number}")
        return fills

    def _hops(self) -> list[str]:
        if self.ruleset not in PYSOL_RULESETS:
            return []
        hops: list[str] = []
        for source, pile in self.foundations.items():
            if pile:
                homes = self._homes(pile[-1])
                hops += [f"{source}:{target}" for target in homes if target != source]
        return hops

    def _take(self, place: str) -> str:
        """Take the card that is available at the place."""
        if place == "stock":
            return self.stock.pop(0)
        if place == "waste":
            return self.waste.pop()
        if place in self.foundations:
            return self.foundations[place].pop()
        number = int(place[1:]) - 1
        if place[0] == "c":
            return self.columns[number].pop()
        card = self.reserve[number]
        if card is None:
            raise ValueError(f"nothing lies at {place}")
        self.reserve[number] = None
        return card

    def _put(self, place: str, card: str) -> None:
        """Put the card onto the waste, a foundation or an empty place of the reserve."""
        if place == "waste":
            self.waste.append(card)
        elif place in self.foundations:
            self.foundations[place].append(card)
        else:
            self.reserve[int(place[1:]) - 1] = card

    def _effects(self, source: str) -> list[tuple[str, str]]:
        """Do what follows by itself when a card (or the whole waste) has left the source."""
        effects: list[tuple[str, str]] = []
        if source[0] == "r" and self.ruleset != "royal-rendezvous-open-1":
            if self.waste:
                effects.append((f"waste:{source}", self.waste[-1]))
                self._put(source, self._take("waste"))
            elif self.stock and self.ruleset not in PYSOL_RULESETS:
                effects.append((f"stock:{source}", self.stock[0]))
                self._put(source, self._take("stock"))
        if self.ruleset in PYSOL_RULESETS and not self.waste and self.stock:
            effects.append(("stock:waste", self.stock[0]))
            self._put("waste", self._take("stock"))
        return effects
