"""Cards as small integers and as text.

A card is ``suit * 13 + rank``, 0 to 51, with suits in the order C D H S and ranks A to K. The two
copies of a card are the same integer: nothing in the rules tells them apart.
"""

from collections.abc import Iterable
from typing import Final

SUITS: Final = "CDHS"
RANKS: Final = "A23456789TJQK"

CARDS: Final[tuple[str, ...]] = tuple(rank + suit for suit in SUITS for rank in RANKS)
"""Card texts by card number: ``CARDS[0] == "AC"``, ``CARDS[51] == "KS"``."""

EMPTY: Final = 52
"""Stands where a place holds no card. No foundation ever wants it."""

NOTHING: Final = 53
"""Stands where a foundation is complete and wants no card. No place ever holds it."""

WAITING: Final = 54
"""Stands where a foundation waits for another one before it takes its last card."""

TEXTS: Final[tuple[str, ...]] = (*CARDS, "--")
"""Texts by card number, EMPTY included."""

CARD_NUMBERS: Final[dict[str, int]] = {text: number for number, text in enumerate(TEXTS)}
"""Card numbers by text, EMPTY included."""


def card(rank: str, suit: str) -> int:
    """Return the number of the card of this rank (``A23456789TJQK``) and suit (``CDHS``)."""
    return SUITS.index(suit) * 13 + RANKS.index(rank)


def render_cards(cards: Iterable[int]) -> list[str]:
    """Return the texts of these cards, in their order."""
    return [TEXTS[number] for number in cards]
