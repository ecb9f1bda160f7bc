"""Deals: the layout that a seed gives under a named deal spec.

A deal spec has its own name in every record, apart from the ruleset's, and never changes its
meaning. ``deal-1`` is ours; ``pysol-1`` gives the numbered deals of PySolFC.
"""

import hashlib
import hmac
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final

from service.engine.cards import RANKS, SUITS, card
from service.engine.errors import BadSeedError, UnknownDealSpecError
from service.engine.moves import Table, table

DEFAULT_SPEC: Final = "deal-1"
COLUMN_CARDS: Final = 3
"""Cards that each column is dealt: one in each of this many passes over the columns."""

_SEED = re.compile(r"[!-~]{1,64}")
_NUMBER = re.compile(r"(ms)?0*([0-9]+)")
_DEAL_LABEL = b"royal-rendezvous/deal/1\0"
_WORDS = struct.Struct(">8I")
_LCG_PLAIN_BELOW: Final = 32000
_MS_BELOW: Final = 2**33


@dataclass(frozen=True, slots=True)
class Layout:
    """The cards as dealt, bases aside; whatever a ruleset turns at the deal is still in the stock.

    Attributes:
        reserve: Cards of r1, r2, ...
        columns: Cards of c1, c2, ..., each in the order given: the last is available.
        stock: The face-down cards, the next one first.
    """

    reserve: bytes
    columns: tuple[bytes, ...]
    stock: bytes


def canonical_seed(spec: str, seed: str) -> str:
    """Return the seed as records keep it: as given, but for a numbered deal's leading zeros.

    Raises:
        UnknownDealSpecError: No deal spec has this name.
        BadSeedError: The text is not a seed of this spec.
    """
    if spec not in DEAL_SPECS:
        raise UnknownDealSpecError(
            f"there is no deal spec {spec!r}; there are {', '.join(DEAL_SPECS)}"
        )
    return _SPECS[spec][0](seed)


def deal(spec: str, ruleset: str, seed: str) -> Layout:
    """Return the layout of this seed.

    Args:
        spec: ``deal-1`` or ``pysol-1``.
        ruleset: Name of a ruleset; it says which cards are dealt and where.
        seed: ``deal-1``: 1 to 64 printable ASCII characters without the space, taken as they are.
            ``pysol-1``: a number in digits, or ``ms`` and a number from 1 to 2**33 - 1.

    Raises:
        UnknownRulesetError: No ruleset has this name.
        UnknownDealSpecError: No deal spec has this name.
        BadSeedError: The text is not a seed of this spec.
    """
    rules = table(ruleset)
    known = canonical_seed(spec, seed)
    return _lay_out(rules, _SPECS[spec][1](rules, known))


def _lay_out(rules: Table, cards: bytes) -> Layout:
    reserve, columns = rules.reserve, rules.ruleset.columns
    stock = reserve + COLUMN_CARDS * columns
    return Layout(
        cards[:reserve],
        tuple(cards[reserve + column : stock : columns] for column in range(columns)),
        cards[stock:],
    )


def _dealt(rules: Table, suits: str) -> Iterator[int | None]:
    """Yield the two packs, suits in this order, with None for a base that is laid out.

    Pack 0 gives the bases; where two families have the same base the second one's is pack 1's.
    """
    bases = [family.ranks[0] for family in rules.ruleset.families if family.laid_out]
    for pack in range(2):
        for suit in suits:
            for rank in RANKS:
                yield None if bases.count(rank) > pack else card(rank, suit)


@cache
def _pack(rules: Table) -> bytes:
    return bytes(number for number in _dealt(rules, SUITS) if number is not None)


@cache
def _steps(size: int) -> tuple[tuple[int, int, int], ...]:
    """Return index, bound and rejection limit of each exchange in a shuffle of this many cards."""
    return tuple((i, i + 1, 2**32 - 2**32 % (i + 1)) for i in range(size - 1, 0, -1))


def _deal_1_seed(seed: str) -> str:
    if not _SEED.fullmatch(seed):
        raise BadSeedError("a deal-1 seed is 1 to 64 printable ASCII characters without the space")
    return seed


def _deal_1(rules: Table, seed: str) -> bytes:
    key = hashlib.sha256(_DEAL_LABEL + seed.encode("ascii")).digest()
    cards = bytearray(_pack(rules))
    block = 0
    words: Iterator[int] = iter(())
    for i, bound, limit in _steps(len(cards)):
        word = limit
        while word >= limit:
            word = next(words, -1)
            if word < 0:
                words = iter(_WORDS.unpack(hmac.digest(key, block.to_bytes(8), "sha256")))
                block += 1
                word = next(words)
        j = word % bound
        cards[i], cards[j] = cards[j], cards[i]
    return bytes(cards)


def _pysol_1_seed(seed: str) -> str:
    number = _NUMBER.fullmatch(seed)
    if not number or len(seed) > 64:  # noqa: PLR2004
        raise BadSeedError(
            "a pysol-1 seed is a number in digits, or ms and a number; 64 characters at most"
        )
    prefix, digits = number[1] or "", number[2]
    if prefix and not 1 <= int(digits) < _MS_BELOW:
        raise BadSeedError(f"a number after ms is from 1 to {_MS_BELOW - 1}")
    return prefix + digits


def _pysol_1(rules: Table, seed: str) -> bytes:
    number = int(seed.removeprefix("ms"))
    if seed.startswith("ms") or number < _LCG_PLAIN_BELOW:
        draws = _linear_congruential(number)
    else:
        draws = _mersenne_twister(number)
    cards = list(_dealt(rules, "CSHD"))
    for n in range(len(cards) - 1, 0, -1):
        j = draws(n + 1)
        cards[n], cards[j] = cards[j], cards[n]
    return bytes(number for number in reversed(cards) if number is not None)


def _linear_congruential(number: int) -> Callable[[int], int]:
    """Return draws as PySolFC makes them for a Microsoft deal number, large ones included."""
    state = number

    def draw(bound: int) -> int:
        nonlocal state
        state = (state * 214013 + 2531011) % 2**32
        output = state >> 16
        if number >= 2**32:
            output += 1
        else:
            output = output % 2**15 | (0x8000 if number >= 2**31 else 0)
        return output % bound

    return draw


def _mersenne_twister(number: int) -> Callable[[int], int]:
    uniform = Random(number).random  # noqa: S311 - the numbered deals of PySolFC are made so
    return lambda bound: int(uniform() * bound)


_SPECS: Final[dict[str, tuple[Callable[[str], str], Callable[[Table, str], bytes]]]] = {
    "deal-1": (_deal_1_seed, _deal_1),
    "pysol-1": (_pysol_1_seed, _pysol_1),
}

DEAL_SPECS: Final[tuple[str, ...]] = tuple(_SPECS)
"""Names of the published deal specs, the default first."""
