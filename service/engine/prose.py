"""The rules of a ruleset as sentences, made from the same parameters that the engine plays by."""

from itertools import accumulate

from service.engine.deals import COLUMN_CARDS
from service.engine.moves import table
from service.engine.rulesets import RULESETS, Family

_NUMBERS = ("no", "one", "two", "three", "four")
_RANKS = {"T": "10"}


def describe(ruleset: str) -> dict[str, str]:
    """Return the rules: for each stable point, such as ``draw``, its sentences.

    Raises:
        UnknownRulesetError: No ruleset has this name.
    """
    rules = table(ruleset)
    row = RULESETS[ruleset]
    stock = 2 * 52 - sum(map(bool, _laid_out(row.families))) * 4 - rules.reserve
    stock -= COLUMN_CARDS * row.columns
    turned = "Its first card is turned to the waste by the deal."
    points = {
        "cards": "Two packs, 104 cards; the two copies of a card are alike.",
        "foundations": " ".join(map(_family, row.families)),
        "building": "Foundations are built by suit, in the order given, from first card to last.",
        "reserve": _reserve(row.reserve),
        "columns": _columns(row.columns) if row.columns else "",
        "stock": f"The other {stock} cards are the stock, face down. "
        + (turned if row.turns else "The waste starts empty."),
        "draw": "Drawing turns one stock card onto the waste. "
        + _DRAWS[row.draw]
        + " Playing the waste's top is never compulsory.",
        "redeal": _redeal(row.redeals),
        "fill": _FILLS[row.fill, row.turns],
        "turn": _TURN if row.turns else "",
        "waste": "Only the waste's top card is available; it may go to a foundation at any time.",
        "choice": "Where a card fits two foundations the player chooses; a move that names none is "
        "taken only if exactly one fits.",
        "foundation-cards": _HOPS if row.hops else "Cards never leave the foundations.",
        "won": "Won when all 104 cards are on foundations.",
        "lost": "Lost when no move is legal.",
        "score": "The score is the number of cards on foundations: "
        f"{sum(_laid_out(row.families)) * 4} at the deal, 104 when won.",
    }
    return {point: text for point, text in points.items() if text}


def _laid_out(families: tuple[Family, ...]) -> list[int]:
    return [int(family.laid_out) for family in families]


def _rank(rank: str) -> str:
    return _RANKS.get(rank, rank)


def _family(family: Family) -> str:
    ranks = " ".join(map(_rank, family.ranks))
    start = (
        "their bases laid out before the deal"
        if family.laid_out
        else f"empty at the deal, each taking its {_rank(family.ranks[0])} as it comes"
    )
    wait = (
        f" Each takes its {_rank(family.ranks[-1])} only after the {family.waits_for} pile of its "
        "suit is complete."
        if family.waits_for
        else ""
    )
    return f"Four {family.name} piles, one a suit, {start}: {ranks}.{wait}"


def _reserve(rows: tuple[int, ...]) -> str:
    ends = list(accumulate(rows))
    names = ", then ".join(
        f"r{end - size + 1} to r{end}" for size, end in zip(rows, ends, strict=True)
    )
    return (
        f"{ends[-1]} single cards, face up, in {_NUMBERS[len(rows)]} rows: {names}. They go to "
        "foundations only and never change places."
    )


def _columns(columns: int) -> str:
    return (
        f"{_NUMBERS[columns].capitalize()} columns of {_NUMBERS[COLUMN_CARDS]}, face up, c1 to "
        f"c{columns}, dealt in {_NUMBERS[COLUMN_CARDS]} passes; only the last card of a column is "
        "available, to foundations; an empty column stays empty."
    )


def _redeal(redeals: int) -> str:
    if not redeals:
        return "One pass through the stock: no redeal."
    return (
        "When the stock is empty the waste, if it holds a card, may be turned over, unshuffled, to "
        f"be the stock again: {'once' if redeals == 1 else f'{redeals} times'}."
    )


_DRAWS = {
    "blocked": "It is refused while any reserve card can go to a foundation.",
    "any-time": "It is allowed at any time.",
}

_TURN = "An empty waste turns the next stock card to itself, after any fill."

_HOPS = (
    "The top card of a foundation, even its base, may move to another foundation that wants it, "
    "even an empty one. The pile that it leaves then wants it again. The move causes nothing by "
    "itself. Nothing else leaves a foundation."
)

_FILLS = {
    ("automatic", False): (
        "An empty reserve place is filled at once and by itself, as a consequence of the play that "
        "emptied it: from the waste's top, or from the stock while the waste is empty, or not at "
        "all when both are. A fill is not a move and does not count."
    ),
    ("automatic", True): (
        "An empty reserve place is filled at once and by itself, as a consequence of the play that "
        "emptied it, from the waste's top. A fill is not a move and does not count."
    ),
    ("player", False): (
        "The player fills empty reserve places, any of them and in their own time: with the "
        "waste's top, or with the next stock card while the waste is empty. A fill is a move and "
        "counts."
    ),
}
