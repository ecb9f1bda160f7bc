"""The rules, sentence by sentence: each test quotes the sentence that it shows.

Positions are literal and hold only what their rule is about: the cards of a text are taken as they
are given, so most of the reserve is high cards that nothing wants.
"""

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from service.engine import RULESETS, Game, Layout, Position, deal, describe, table
from service.engine.cards import CARD_NUMBERS, CARDS, RANKS, SUITS, render_cards
from service.engine.errors import (
    AmbiguousMoveError,
    GameOverError,
    IllegalMoveError,
    LogFullError,
    NotAMoveError,
)
from service.engine.moves import DRAW, FILL, HOP, PLAY, REDEAL, RESIGN, Move

DEFAULT = "royal-rendezvous-1"
OPEN = "royal-rendezvous-open-1"
SOLSUITE = "royal-rendezvous-solsuite-1"
TILL_DAWN = "royal-rendezvous-till-dawn-1"
PYSOL = "royal-rendezvous-pysol-1"
COTILLION = "royal-cotillion-1"
COTILLION_PYSOL = "royal-cotillion-pysol-1"
ODD_AND_EVEN = "odd-and-even-1"
ODD_AND_EVEN_PYSOL = "odd-and-even-pysol-1"

RENDEZVOUS = [name for name in RULESETS if name.startswith("royal-rendezvous")]
PYSOLS = [PYSOL, COTILLION_PYSOL, ODD_AND_EVEN_PYSOL]
COTILLIONS = [COTILLION, COTILLION_PYSOL]
ODD_AND_EVENS = [ODD_AND_EVEN, ODD_AND_EVEN_PYSOL]

KINGS = "KCKDKHKSKCKDKHKS"
QUEENS = "QCQDQHQSQCQDQHQS"
ROWS = f"{KINGS}/{QUEENS}"
"""Sixteen reserve cards of which none can be played until foundations are high."""
NO_ROWS = "----------------/----------------"
NINE = "KCKDKHKS/QCQDQHQSKC"
NO_NINE = "--------/----------"
COLUMNS = "JCTCTC/JDTDTD/JHTHTH/JSTSTS"
NO_COLUMNS = "--/--/--/--"


def at(ruleset: str, text: str) -> Position:
    return Position.parse(table(ruleset), text)


def fresh(ruleset: str, seed: str = "7", spec: str = "deal-1") -> Position:
    return Position(table(ruleset), deal(spec, ruleset, seed))


def texts(position: Position) -> list[str]:
    return [move.text for move in position.legal_moves()]


def play(position: Position, move: str) -> list[str]:
    """Carry out the move; return its effects."""
    return [effect.text for effect in position.apply(position.rules.parse(move))]


def reason(position: Position, move: str) -> str:
    """Why the move is refused; the position must not list it, and must stay as it is."""
    before = position.render(stock=True)
    assert move not in texts(position)
    with pytest.raises(IllegalMoveError) as refused:
        position.apply(position.rules.parse(move))
    assert position.render(stock=True) == before
    return refused.value.refusal.reason


def no_move(ruleset: str, move: str) -> bool:
    """Whether no position of the ruleset has this move."""
    try:
        table(ruleset).parse(move)
    except NotAMoveError as error:
        return error.refusal.reason == "not-a-move"
    return False


def dealt(ruleset: str, seed: str, spec: str = "deal-1") -> list[str]:
    """All the cards of a deal, bases aside."""
    layout = deal(spec, ruleset, seed)
    return render_cards([*layout.reserve, *b"".join(layout.columns), *layout.stock])


def foundations(position: Position) -> str:
    return position.render().split()[0]


def random_game(ruleset: str, seed: int) -> Iterator[tuple[Position, Move]]:
    """Yield the positions of a random game, each with the move that will be made there.

    Plays are taken more readily than draws, so that games come far, and hops least of all.
    """
    weights = {PLAY: 20, FILL: 5, DRAW: 2, REDEAL: 2, HOP: 1}
    choose = random.Random(seed)
    position = fresh(ruleset, str(seed))
    for _ in range(400):
        moves = position.legal_moves()
        if not moves:
            break
        (move,) = choose.choices(moves, [weights[move.kind] for move in moves])
        yield position, move
        position.apply(move)


def random_games(ruleset: str, number: int) -> Iterator[tuple[Position, Move]]:
    """Yield the positions of many random games, each with the move that will be made there."""
    for seed in range(number):
        yield from random_game(ruleset, seed)


# Royal Rendezvous, the default.


@pytest.mark.parametrize("ruleset", RULESETS)
def test_the_cards_are_two_packs(ruleset: str) -> None:
    """Cards: "two packs, 104"."""
    position = fresh(ruleset)
    bases = [
        CARDS[chain[0]]
        for chain, height in zip(position.rules.chains, position.heights, strict=True)
        if height
    ]

    cards = Counter([*bases, *dealt(ruleset, "7")])

    assert cards == Counter(CARDS * 2)


def test_twelve_foundations_are_laid_out_before_the_deal() -> None:
    """Foundations.

    "12, laid out before the deal: four *upper* aces (one of each suit), four *lower* aces, four
    *deuces* (one of each suit; the other four deuces stay in the pack)".
    """
    cards = dealt(DEFAULT, "7")

    assert foundations(fresh(DEFAULT)) == "AAAA/AAAA/2222"
    assert len(table(DEFAULT).foundations) == 12
    assert [card for card in cards if card[0] == "A"] == []
    assert sorted(card for card in cards if card[0] == "2") == ["2C", "2D", "2H", "2S"]


@pytest.mark.parametrize("suit", SUITS)
@pytest.mark.parametrize(
    ("family", "ranks"),
    [("upper", "A23456789TJQK"), ("lower", "A3579JK"), ("deuce", "2468TQ")],
)
def test_foundations_are_built_by_suit_in_their_own_order(
    family: str, ranks: str, suit: str
) -> None:
    """Building.

    "by suit. Upper: A 2 3 … J Q K (13). Lower: A 3 5 7 9 J K (7). Deuces: 2 4 6 8 10 Q (6)".
    """
    coming = "".join(rank + suit for rank in reversed(ranks[1:]))
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - {coming} -")
    target = f"{family}-{suit}"
    before = position.score

    for rank in ranks[1:]:
        assert f"waste:{target}" in texts(position), f"{rank} goes on {target}"
        play(position, f"waste:{target}")

    assert position.score == before + len(ranks) - 1
    assert position.heights[table(DEFAULT).foundations.index(target)] == len(ranks)


@pytest.mark.parametrize(
    ("move", "waste", "why"),
    [
        ("waste:upper-C", "3C", "foundation-wants-other"),
        ("waste:upper-C", "AC", "foundation-wants-other"),
        ("waste:upper-C", "2D", "wrong-suit"),
        ("waste:lower-D", "2D", "foundation-wants-other"),
        ("waste:lower-D", "5D", "foundation-wants-other"),
        ("waste:lower-D", "3S", "wrong-suit"),
        ("waste:deuce-H", "3H", "foundation-wants-other"),
        ("waste:deuce-H", "6H", "foundation-wants-other"),
        ("waste:deuce-H", "4C", "wrong-suit"),
    ],
)
def test_no_other_card_goes_on_a_foundation(move: str, waste: str, why: str) -> None:
    """Building: "by suit"."""
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - {waste} 9C")

    assert reason(position, move) == why


@pytest.mark.parametrize(
    ("move", "waste"), [("waste:upper-C", "AC"), ("waste:lower-C", "AC"), ("waste:deuce-C", "2C")]
)
def test_a_complete_foundation_does_not_begin_again(move: str, waste: str) -> None:
    """Building: "No wrap. 4×(13+7+6) = 104"."""  # noqa: RUF002 - as the rules write it
    position = at(DEFAULT, f"KAAA/KAAA/Q222 {ROWS} - {waste} 9C")

    assert reason(position, move) == "foundation-complete"


def test_reserve_cards_lie_in_two_rows_of_eight() -> None:
    """Reserve: "16 face-up cards, one a place, in two rows of eight"."""
    layout = deal("deal-1", DEFAULT, "7")
    reserve = render_cards(layout.reserve)

    assert table(DEFAULT).places[:16] == tuple(f"r{n}" for n in range(1, 17))
    assert fresh(DEFAULT).render().split()[1] == "".join(reserve[:8]) + "/" + "".join(reserve[8:])


def test_reserve_cards_go_to_foundations_only() -> None:
    """Reserve: "They go to foundations only; nothing is put on them"."""
    rules = table(DEFAULT)
    places = ("stock", "waste", *(f"r{n}" for n in range(1, 17)))

    leaving = {move.destination for move in rules.by_text.values() if move.origin[:1] == "r"}

    assert leaving == set(rules.foundations)
    assert all(no_move(DEFAULT, f"r1:{place}") for place in places)
    assert all(no_move(DEFAULT, f"{place}:r1") for place in (*places, *rules.foundations))


def test_reserve_cards_never_change_places() -> None:
    """Reserve: "they never change places"."""
    position = at(DEFAULT, "AAAA/AAAA/2222 KCKD2CKSKCKDKHKS/QCQDQHQSQCQDQHQS - - 9C9D")

    play(position, "r3:upper-C")

    assert position.render(stock=True) == (
        "2AAA/AAAA/2222 KCKD9CKSKCKDKHKS/QCQDQHQSQCQDQHQS - - 9D"
    )


def test_the_stock_is_the_other_seventy_six_cards() -> None:
    """Stock: "the other 76, face down; the waste starts empty"."""
    position = fresh(DEFAULT)

    assert position.render().split()[2:] == ["-", "-", "76"]
    assert CARDS[position.stock[-1]] not in position.render().split()[4]


def test_drawing_turns_one_card_onto_the_waste() -> None:
    """Draw: "one card at a time, one pass, no redeal"."""
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 9S 9C9D")

    assert play(position, "stock:waste") == []

    assert position.render(stock=True) == f"AAAA/AAAA/2222 {ROWS} - 9S9C 9D"


def test_the_stock_is_gone_through_once() -> None:
    """Draw: "one card at a time, one pass, no redeal"."""
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - - 9C")

    play(position, "stock:waste")

    assert reason(position, "stock:waste") == "stock-empty"
    assert no_move(DEFAULT, "waste:stock")
    assert position.outcome == "lost"


@pytest.mark.parametrize("place", range(16))
@pytest.mark.parametrize(
    ("card", "waits"), [("2C", True), ("3D", True), ("4S", True), ("5H", False), ("AH", False)]
)
def test_drawing_waits_until_no_reserve_card_can_go_to_a_foundation(
    place: int, card: str, *, waits: bool
) -> None:
    """Draw: "Refused while any reserve card can go to a foundation"."""
    reserve = [*(KINGS[n : n + 2] for n in range(0, 16, 2))] * 2
    reserve[place] = card
    rows = "".join(reserve[:8]) + "/" + "".join(reserve[8:])
    position = at(DEFAULT, f"AAAA/AAAA/2222 {rows} - - 9C")

    if waits:
        assert reason(position, "stock:waste") == "reserve-can-play"
    else:
        assert texts(position) == ["stock:waste"]


def test_the_refused_draw_names_the_reserve_cards_that_can_play() -> None:
    """Draw: "Refused while any reserve card can go to a foundation"."""
    position = at(DEFAULT, "AAAA/AAAA/2222 KC2DKHKSKCKDKHKS/QCQDQHQSQCQDQH3S - 2C 9C")

    refusal = position.refusal(position.rules.parse("stock:waste"))

    assert refusal is not None
    assert refusal.detail.endswith(": r2, r16 can")


def test_playing_the_waste_top_is_never_compulsory() -> None:
    """Draw: "Playing the waste top is never compulsory"."""
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 2C 9C")

    assert texts(position) == ["waste:upper-C", "stock:waste"]
    play(position, "stock:waste")

    assert position.render(stock=True) == f"AAAA/AAAA/2222 {ROWS} - 2C9C -"


@pytest.mark.parametrize(
    ("waste", "stock", "effects", "after"),
    [
        ("9S9H", "9C9D", ["waste:r3"], "KCKD9HKSKCKDKHKS/QCQDQHQSQCQDQHQS - 9S 9C9D"),
        ("9S", "9C9D", ["waste:r3"], "KCKD9SKSKCKDKHKS/QCQDQHQSQCQDQHQS - - 9C9D"),
        ("9S", "-", ["waste:r3"], "KCKD9SKSKCKDKHKS/QCQDQHQSQCQDQHQS - - -"),
        ("-", "9C9D", ["stock:r3"], "KCKD9CKSKCKDKHKS/QCQDQHQSQCQDQHQS - - 9D"),
        ("-", "-", [], "KCKD--KSKCKDKHKS/QCQDQHQSQCQDQHQS - - -"),
    ],
)
def test_an_empty_place_is_filled_at_once_and_by_itself(
    waste: str, stock: str, effects: list[str], after: str
) -> None:
    """Fill.

    "at once and by itself, as a consequence of the play that emptied the place: the waste top, else
    (waste empty) the next stock card, else the place stays empty. Never from the stock while the
    waste has cards".
    """
    position = at(DEFAULT, f"AAAA/AAAA/2222 KCKD2CKSKCKDKHKS/QCQDQHQSQCQDQHQS - {waste} {stock}")

    assert play(position, "r3:upper-C") == effects

    assert position.render(stock=True) == f"2AAA/AAAA/2222 {after}"


def test_a_play_from_the_waste_fills_nothing() -> None:
    """Fill: "as a consequence of the play that emptied the place"."""
    position = at(DEFAULT, f"AAAA/AAAA/2222 {NO_ROWS} - 9S2C 9C9D")

    assert play(position, "waste:upper-C") == []

    assert position.render(stock=True) == f"2AAA/AAAA/2222 {NO_ROWS} - 9S 9C9D"


def test_a_fill_is_not_a_move_and_does_not_count() -> None:
    """Fill: "A fill is not a move and does not count"."""
    game = Game(table(DEFAULT), deal("deal-1", DEFAULT, "royal"), undo_allowed=True)
    move = next(move for move in game.legal_moves() if move.kind == PLAY)

    effects = game.enter(move)

    assert [effect.text for effect in effects] == [f"stock:{move.origin}"]
    assert [entry.text for entry in game.entries] == [move.text]
    assert no_move(DEFAULT, effects[0].text)
    assert no_move(DEFAULT, "waste:r3")


@pytest.mark.parametrize("stock", ["9C", "-"])
@pytest.mark.parametrize("place", ["KC", "2D"])
def test_the_waste_top_may_be_played_at_any_time(place: str, stock: str) -> None:
    """Waste: "its top may go to a foundation at any time, also after the stock is gone"."""
    position = at(DEFAULT, f"AAAA/AAAA/2222 {place}KDKHKSKCKDKHKS/QCQDQHQSQCQDQHQS - 9S2C {stock}")

    assert "waste:upper-C" in texts(position)
    play(position, "waste:upper-C")

    assert position.render(stock=True).split()[3] == "9S"


def test_only_the_top_of_the_waste_is_available() -> None:
    """Words: "*waste* (turned cards, last one available)"."""
    position = at(DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 2C9S 9C")

    assert reason(position, "waste:upper-C") == "wrong-suit"
    assert texts(position) == ["stock:waste"]


def test_the_destination_is_part_of_the_move() -> None:
    """Choice.

    "a card may fit two foundations (a 3 on an upper 2 and on a lower ace): the destination is part
    of the move".
    """
    text = "2AAA/AAAA/2222 3CKDKHKSKCKDKHKS/QCQDQHQSQCQDQHQS - - 9C"
    upper, lower = at(DEFAULT, text), at(DEFAULT, text)

    assert texts(upper) == ["r1:upper-C", "r1:lower-C"]
    play(upper, "r1:upper-C")
    play(lower, "r1:lower-C")

    assert foundations(upper) == "3AAA/AAAA/2222"
    assert foundations(lower) == "2AAA/3AAA/2222"


def test_a_move_that_names_no_destination_needs_exactly_one_foundation_that_fits() -> None:
    """Choice: "Left out, the move is taken only if exactly one foundation fits"."""
    position = at(DEFAULT, "2AAA/AAAA/2222 3C3DKHKSKCKDKHKS/QCQDQHQSQCQDQHQS - - 9C")

    assert position.resolve("r2").text == "r2:lower-D"
    with pytest.raises(AmbiguousMoveError) as ambiguous:
        position.resolve("r1")
    with pytest.raises(IllegalMoveError) as unfit:
        position.resolve("r3")
    with pytest.raises(IllegalMoveError) as empty:
        position.resolve("waste")

    assert ambiguous.value.targets == ("upper-C", "lower-C")
    assert unfit.value.refusal.reason == "no-foundation-fits"
    assert empty.value.refusal.reason == "source-empty"


@pytest.mark.parametrize("ruleset", [name for name in RULESETS if name not in PYSOLS])
def test_cards_never_leave_the_foundations(ruleset: str) -> None:
    """Foundations: "cards never leave them"."""
    rules = table(ruleset)
    origins = {move.origin for move in rules.by_text.values()}

    assert origins.isdisjoint(rules.foundations)
    assert no_move(ruleset, "deuce-C:upper-C" if ruleset in RENDEZVOUS else "deuce-C:ace-C")


def test_the_game_is_won_with_all_cards_on_foundations() -> None:
    """Won: "all 104 on foundations"."""
    position = at(DEFAULT, f"QKKK/KKKK/QQQQ {NO_ROWS} - KC -")

    assert position.outcome == "playing"
    play(position, "waste:upper-C")

    assert (position.outcome, position.score, texts(position)) == ("won", 104, [])


@pytest.mark.parametrize(
    ("row", "waste", "stock", "outcome"),
    [
        (KINGS, "9C", "-", "lost"),
        (KINGS, "-", "-", "lost"),
        (KINGS, "2C9C", "-", "lost"),
        (KINGS, "9C", "9D", "playing"),
        (KINGS, "9C2C", "-", "playing"),
        ("2C" + KINGS[2:], "9C", "-", "playing"),
    ],
)
def test_the_game_is_lost_when_nothing_is_left_to_do(
    row: str, waste: str, stock: str, outcome: str
) -> None:
    """Lost.

    "no move is legal; here that means: stock empty and neither a reserve card nor the waste top can
    be played".
    """
    position = at(DEFAULT, f"AAAA/AAAA/2222 {row}/{QUEENS} - {waste} {stock}")

    assert position.outcome == outcome
    assert bool(texts(position)) == (outcome == "playing")


def test_the_game_goes_on_with_the_stock_gone_and_the_reserve_full() -> None:
    """Lost.

    ""the game ends as soon as the stock runs out" taken literally makes every game unwinnable: the
    reserve is still full then".
    """
    game = Game(table(DEFAULT), layout_of_a_longest_game(), undo_allowed=True)
    for _ in range(76):
        game.enter(table(DEFAULT).parse("stock:waste"))

    assert not game.position.stock
    assert "--" not in game.position.render()
    assert game.status == "playing"


def test_the_score_is_the_number_of_cards_on_foundations() -> None:
    """Score: "cards on foundations, 12 at the deal, 104 when won"."""
    scores = [
        position.score
        for position in (
            fresh(DEFAULT),
            at(DEFAULT, f"3AAA/A3AA/2224 {ROWS} - - 9C"),
            at(DEFAULT, f"KKKK/KKKK/QQQQ {NO_ROWS} - - -"),
        )
    ]

    assert scores == [12, 16, 104]


# Facts to test by.


def layout_of_a_longest_game() -> Layout:
    """Kings and queens in the reserve, and a stock whose last card is the first to be played."""
    upper = [rank + suit for rank in "23456789TJ" for suit in SUITS]
    lower = [rank + suit for rank in "3579J" for suit in SUITS]
    deuce = [rank + suit for rank in "468T" for suit in SUITS]
    stock = [CARD_NUMBERS[card] for card in reversed([*upper, *lower, *deuce])]
    return Layout(
        bytes(CARD_NUMBERS[rank + suit] for rank in "QQKK" for suit in SUITS), (), bytes(stock)
    )


def test_a_game_of_all_plays_and_all_draws_takes_168_moves() -> None:
    """Facts: "at most 168 moves (92 plays, 76 draws)"."""
    game = Game(table(DEFAULT), layout_of_a_longest_game(), undo_allowed=True)
    for _ in range(76):
        game.enter(table(DEFAULT).parse("stock:waste"))

    while game.position.waste:
        game.enter(game.position.resolve("waste", first_home(game.position, "waste")))
    for place in range(1, 17):
        game.enter(game.position.resolve(f"r{place}", first_home(game.position, f"r{place}")))

    assert (game.status, game.ply) == ("won", 168)
    assert Counter(entry.kind for entry in game.entries) == {PLAY: 92, DRAW: 76}


def first_home(position: Position, origin: str) -> str:
    return next(move.destination for move in position.legal_moves() if move.origin == origin)


@pytest.mark.no_cover
@pytest.mark.parametrize("ruleset", [name for name in RENDEZVOUS if name != PYSOL])
def test_plays_and_turned_cards_bound_the_number_of_moves(ruleset: str) -> None:
    """Facts: "at most 168 moves (92 plays, 76 draws)"; of open: "at most 244 moves"."""
    bound = 244 if ruleset == OPEN else 168
    for seed in range(60):
        kinds: Counter[int] = Counter()
        for position, move in random_game(ruleset, seed):
            kinds[move.kind] += 1
            assert kinds[PLAY] == position.score - 12 + (move.kind == PLAY)

        assert kinds[PLAY] <= 92
        assert kinds[DRAW] <= 76
        assert kinds.total() <= bound


@pytest.mark.no_cover
@pytest.mark.parametrize("ruleset", [name for name in RULESETS if name != OPEN])
def test_with_automatic_fill_a_place_is_empty_only_when_no_card_is_left_to_fill_it(
    ruleset: str,
) -> None:
    """Facts.

    "With automatic fill a place is empty only when stock and waste are both empty".
    """
    empty = 0
    for position, _ in random_games(ruleset, 80):
        if "--" in position.render().split()[1]:
            empty += 1
            assert not position.waste
            assert not position.stock

    assert empty


@pytest.mark.no_cover
@pytest.mark.parametrize("ruleset", RULESETS)
def test_before_the_stock_is_empty_some_move_is_always_legal(ruleset: str) -> None:
    """Facts: "Before the stock is empty some move is always legal"."""
    checked = 0
    for position, move in random_games(ruleset, 30):
        after = position.copy()
        after.apply(move)
        if after.stock:
            checked += 1
            assert after.legal_moves()
            assert after.outcome == "playing"

    assert checked > 1000


@pytest.mark.no_cover
def test_few_plays_have_two_homes() -> None:
    """Facts: "About 4 % of plays have two homes"."""
    homes = Counter(
        sum(other.origin == move.origin for other in position.legal_moves())
        for position, move in random_games(DEFAULT, 300)
        if move.kind == PLAY
    )

    assert set(homes) == {1, 2}
    assert 0.03 < homes[2] / homes.total() < 0.05


@pytest.mark.no_cover
def test_blind_greedy_play_wins_about_a_quarter_of_the_deals() -> None:
    """Facts: "Blind greedy play wins about 25 % of deals"."""
    outcomes: Counter[str] = Counter()
    for seed in range(400):
        position = fresh(DEFAULT, str(seed))
        while moves := position.legal_moves():
            position.apply(moves[0])
        outcomes[position.outcome] += 1

    assert set(outcomes) == {"won", "lost"}
    assert 0.2 < outcomes["won"] / 400 < 0.3


# Common to all rulesets.

ONE_CARD_LEFT = {
    **dict.fromkeys(RENDEZVOUS, (f"QKKK/KKKK/QQQQ {NO_ROWS} - KC -", "waste:upper-C")),
    TILL_DAWN: (f"QQQQ/KKKK/QQQQ/-KKK {NO_ROWS} - KC -", "waste:king-C"),
    PYSOL: (f"KKKK/JJJJ/QQQQ/-KKK {NO_ROWS} - KC -", "waste:king-C"),
    COTILLION: (f"TQQQ/KKKK {NO_ROWS} {NO_COLUMNS} QC -", "waste:ace-C"),
    COTILLION_PYSOL: (f"TQQQ/KKKK {NO_ROWS} {NO_COLUMNS} QC -", "waste:ace-C"),
    ODD_AND_EVEN: (f"TQQQ/KKKK {NO_NINE} - QC -+1", "waste:ace-C"),
    ODD_AND_EVEN_PYSOL: (f"TQQQ/KKKK {NO_NINE} - QC -+1", "waste:ace-C"),
}


LOST = {
    **dict.fromkeys(RENDEZVOUS, f"AAAA/AAAA/2222 {ROWS} - 9C -"),
    TILL_DAWN: f"AAAA/AAAA/2222/---- {ROWS} - 9C -",
    PYSOL: f"2222/AAAA/4444/KKKK {ROWS} - 9C -",
    **dict.fromkeys(COTILLIONS, f"AAAA/2222 {ROWS} {COLUMNS} 9C -"),
    **dict.fromkeys(ODD_AND_EVENS, f"----/---- {NINE} - 9C -+0"),
}


@pytest.mark.parametrize("ruleset", RULESETS)
def test_the_last_card_wins_the_game_and_ends_it(ruleset: str) -> None:
    """Common: "won when all 104 cards are on foundations"."""
    text, last = ONE_CARD_LEFT[ruleset]
    position = at(ruleset, text)

    assert (position.score, position.outcome) == (103, "playing")
    play(position, last)

    assert (position.score, position.outcome, texts(position)) == (104, "won", [])


@pytest.mark.parametrize(
    ("ruleset", "text", "move"),
    [
        (OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - 9C -", "waste:r1"),
        (ODD_AND_EVEN, f"----/---- {NINE} - 9C -+1", "waste:stock"),
        (PYSOL, f"AAAA/AAAA/2222/---- {'JC' * 8}/{'JD' * 8} - - -", "deuce-C:upper-C"),
    ],
)
def test_a_fill_a_redeal_or_a_hop_keeps_the_game_going(ruleset: str, text: str, move: str) -> None:
    """Common.

    "lost when no move is legal (a possible fill by the player, a redeal or a hop is a move and
    keeps the game going)".
    """
    position = at(ruleset, text)

    assert texts(position)[0] == move
    assert {found.kind for found in position.legal_moves()} <= {FILL, REDEAL, HOP}
    assert position.outcome == "playing"


@pytest.mark.parametrize(
    ("ruleset", "text"),
    [
        (OPEN, f"AAAA/AAAA/2222 {ROWS} - 9C -"),
        (OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - - -"),
        (ODD_AND_EVEN, f"----/---- {NINE} - 9C -+0"),
        (ODD_AND_EVEN, f"----/---- {NINE} - - -+1"),
        (PYSOL, f"2222/AAAA/4444/---- {'JC' * 8}/{'JD' * 8} - - -"),
        (COTILLION, f"AAAA/2222 {ROWS} {COLUMNS} 9C -"),
    ],
)
def test_the_game_is_lost_without_a_fill_a_redeal_or_a_hop(ruleset: str, text: str) -> None:
    """Common: "lost when no move is legal"."""
    position = at(ruleset, text)

    assert (position.outcome, texts(position)) == ("lost", [])


@pytest.mark.parametrize("ruleset", RULESETS)
@pytest.mark.parametrize("end", ["won", "lost", "resigned"])
def test_once_a_game_has_ended_no_move_is_legal(ruleset: str, end: str) -> None:
    """Common: "once a game is won, lost or resigned no move is legal"."""
    game = Game(table(ruleset), deal("deal-1", ruleset, "7"), undo_allowed=True)
    if end == "resigned":
        game.enter(RESIGN)
    elif end == "won":
        game.position = at(ruleset, ONE_CARD_LEFT[ruleset][0])
        game.enter(table(ruleset).parse(ONE_CARD_LEFT[ruleset][1]))
    else:
        game.position = at(ruleset, LOST[ruleset])

    assert game.status == end
    assert game.legal_moves() == []
    for move in game.rules.by_text.values():
        if move.kind in {PLAY, FILL, DRAW, REDEAL, HOP}:
            with pytest.raises(GameOverError):
                game.enter(move)


@pytest.mark.parametrize(
    ("ruleset", "text"),
    [
        (DEFAULT, f"AAAA/AAAA/2222 {ROWS} - 2C 9C"),
        (OPEN, f"AAAA/AAAA/2222 {ROWS} - 2C 9C"),
        (PYSOL, f"AAAA/AAAA/2222/---- {'JC' * 8}/{'JD' * 8} - 2C 9C"),
        (COTILLION, f"AAAA/2222 {ROWS} {COLUMNS} 3C 9C"),
        (ODD_AND_EVEN, f"----/---- {NINE} - 2C 9C+1"),
    ],
)
def test_drawing_is_legal_though_the_waste_top_could_be_played(ruleset: str, text: str) -> None:
    """Common: "Drawing is legal though the waste top could be played"."""
    position = at(ruleset, text)

    assert {"waste", "stock"} <= {move.origin for move in position.legal_moves()}
    assert "stock:waste" in texts(position)


def test_without_a_destination_only_foundations_are_considered() -> None:
    """Common.

    "Without `to`, only foundations are considered, and the log stores the whole move".
    """
    layout = deal("deal-1", OPEN, "7")
    game = Game(table(OPEN), layout, undo_allowed=True)
    game.position = at(OPEN, f"AAAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - 9C2C 9D")

    assert "waste:r1" in texts(game.position)
    game.enter(game.position.resolve("waste"))
    with pytest.raises(IllegalMoveError):
        game.position.resolve("waste")
    with pytest.raises(NotAMoveError):
        game.position.resolve("stock")

    assert [entry.text for entry in game.entries] == ["waste:upper-C"]


@pytest.mark.parametrize(
    ("ruleset", "text", "moves"),
    [
        (
            OPEN,
            "2AAA/AAAA/2222 4C3C--2DKCKDKHKS/----QHQSQCQDQH4S - 9C3C 9D",
            (
                "r1:deuce-C r2:upper-C r2:lower-C r4:upper-D r16:deuce-S waste:upper-C "
                "waste:lower-C waste:r3 waste:r9 waste:r10 stock:waste"
            ),
        ),
        (
            OPEN,
            "2AAA/AAAA/2222 KC--KHKSKCKDKHKS/--QDQHQSQCQDQHQS - - 9D",
            "stock:r2 stock:r9 stock:waste",
        ),
        (
            COTILLION,
            "A9AA/26AA 3CJDKHKSKC8DKH3S/QCQDQHQSQCQD4CQS KC3C/--/9H3H/KS4C 4C 9D",
            (
                "r1:ace-C r2:ace-D r6:deuce-D r8:ace-S r8:deuce-S r15:deuce-C c1:ace-C c3:ace-H "
                "c3:deuce-H c4:deuce-C waste:deuce-C stock:waste"
            ),
        ),
        (
            ODD_AND_EVEN_PYSOL,
            "KKQ-/Q--- 2CACQHQS/2DADQHQSKC - 9CAC -+1",
            "r1:ace-C r2:deuce-C r5:ace-D r5:deuce-D waste:deuce-C waste:stock",
        ),
        (
            PYSOL,
            "Q4AK/JJ3-/242T/---- KCTC3CKSKCKDKHKS/JC6DQHQSQCQDJHQS - 9CKD 9D",
            (
                "r1:upper-C r1:king-C r4:king-S r5:upper-C r5:king-C r6:king-D r7:king-H r8:king-S "
                "r10:deuce-D r12:deuce-S r16:deuce-S waste:king-D stock:waste upper-S:king-S "
                "deuce-H:upper-H"
            ),
        ),
    ],
)
def test_legal_moves_come_in_a_fixed_order(ruleset: str, text: str, moves: str) -> None:
    """Common.

    "Lists of legal moves come in this order: plays from r1, r2, …, then c1 … c4, then the waste
    (foundations by family as named here, in each C D H S); fills by place; the draw; the redeal;
    hops by the foundation they leave".
    """
    assert texts(at(ruleset, text)) == moves.split()


@pytest.mark.parametrize("ruleset", RULESETS)
@pytest.mark.parametrize("spec", ["deal-1", "pysol-1"])
def test_any_ruleset_goes_with_either_deal_spec(ruleset: str, spec: str) -> None:
    """Common.

    "Any ruleset goes with either deal spec; the bases that are laid out come from pack 0 (upper and
    lower aces from both)".
    """
    position = fresh(ruleset, "7", spec)
    left_out = Counter(CARDS * 2) - Counter(dealt(ruleset, "7", spec))

    laid_out = "AA2" if ruleset in RENDEZVOUS else "A2" if ruleset == COTILLION else ""
    assert left_out == Counter(rank + suit for rank in laid_out for suit in SUITS)
    assert position.score == len(laid_out) * 4
    assert position.outcome == "playing"


def test_a_log_holds_at_most_2000_entries() -> None:
    """Common: "A log holds at most 2,000 entries"."""
    game = Game(table(PYSOL), deal("deal-1", PYSOL, "7"), undo_allowed=True)
    there, back = game.rules.parse("deuce-C:upper-C"), game.rules.parse("upper-C:deuce-C")
    for _ in range(999):
        game.enter(there)
        game.enter(back)
    game.enter(there)

    with pytest.raises(LogFullError):
        game.enter(back)
    assert game.legal_moves() == []
    game.enter(RESIGN)

    assert (game.ply, game.status) == (2000, "resigned")


# Other editions of Royal Rendezvous.


@pytest.mark.parametrize("ruleset", [name for name in RULESETS if name != DEFAULT])
def test_drawing_is_allowed_at_any_time_in_the_other_editions(ruleset: str) -> None:
    """Relaxed and all the others: "drawing is allowed at any time"."""
    text = {
        **dict.fromkeys(RENDEZVOUS, "AAAA/AAAA/2222 2C2D2H2S2C2D2H2S/2C2D2H2S2C2D2H2S - 9S 9C"),
        **dict.fromkeys(
            [TILL_DAWN, PYSOL], "AAAA/AAAA/2222/---- 2C2D2H2S2C2D2H2S/2C2D2H2S2C2D2H2S - 9S 9C"
        ),
        **dict.fromkeys(COTILLIONS, f"AAAA/2222 3C3D3H3S3C3D3H3S/3C3D3H3S3C3D3H3S {COLUMNS} 9S 9C"),
        **dict.fromkeys(ODD_AND_EVENS, "----/---- AC2CAD2D/AHAS2H2SAC - 9S 9C+1"),
    }[ruleset]
    position = at(ruleset, text)

    assert "r1" in {move.origin for move in position.legal_moves()}
    assert "stock:waste" in texts(position)
    play(position, "stock:waste")

    assert position.render(stock=True).split()[3] == "9S9C"


@pytest.mark.parametrize("ruleset", ["royal-rendezvous-relaxed-1", OPEN, SOLSUITE])
def test_these_editions_build_the_foundations_of_the_default(ruleset: str) -> None:
    """Editions: "differs from the default in"."""
    assert table(ruleset).chains == table(DEFAULT).chains
    assert foundations(fresh(ruleset)) == foundations(fresh(DEFAULT))


def test_in_the_open_edition_an_emptied_place_stays_empty() -> None:
    """Open: "fills are moves of the player, in his own time"."""
    position = at(OPEN, f"AAAA/AAAA/2222 2C{KINGS[2:]}/{QUEENS} - 9C 9D")

    assert play(position, "r1:upper-C") == []

    assert position.render(stock=True) == f"2AAA/AAAA/2222 --{KINGS[2:]}/{QUEENS} - 9C 9D"
    assert texts(position) == ["waste:r1", "stock:waste"]


def test_in_the_open_edition_the_waste_top_goes_to_any_empty_place() -> None:
    """Open: "waste top to any empty place"."""
    text = "AAAA/AAAA/2222 --KDKHKSKCKDKHKS/QCQDQHQSQCQDQH-- - 9C9H 9D"
    for place, reserve in (
        ("r1", "9HKDKHKSKCKDKHKS/QCQDQHQSQCQDQH--"),
        ("r16", "--KDKHKSKCKDKHKS/QCQDQHQSQCQDQH9H"),
    ):
        position = at(OPEN, text)

        assert play(position, f"waste:{place}") == []

        assert position.render(stock=True) == f"AAAA/AAAA/2222 {reserve} - 9C 9D"
    assert reason(at(OPEN, text), "waste:r2") == "place-occupied"


def test_in_the_open_edition_the_stock_fills_only_while_the_waste_is_empty() -> None:
    """Open: "stock to an empty place only while the waste is empty"."""
    row = f"--{KINGS[2:-2]}--/{QUEENS}"
    waste = at(OPEN, f"AAAA/AAAA/2222 {row} - 9C 9D9H")
    none = at(OPEN, f"AAAA/AAAA/2222 {row} - - 9D9H")

    assert reason(waste, "stock:r1") == "waste-first"
    assert reason(none, "stock:r2") == "place-occupied"
    assert reason(none, "waste:r1") == "source-empty"
    assert play(none, "stock:r8") == []

    assert none.render(stock=True) == f"AAAA/AAAA/2222 --{KINGS[2:-2]}9D/{QUEENS} - - 9H"
    assert reason(at(OPEN, f"AAAA/AAAA/2222 {row} - - -"), "stock:r1") == "source-empty"


def test_in_the_open_edition_fills_count_and_need_no_blocked_position() -> None:
    """Open: "Fills are moves and count, may pick any empty place and need no blocked position"."""
    game = Game(table(OPEN), deal("deal-1", OPEN, "7"), undo_allowed=True)
    game.position = at(OPEN, f"AAAA/AAAA/2222 --2C{KINGS[4:]}/{QUEENS} - 2D 9D")

    assert {"r2:upper-C", "waste:upper-D", "waste:r1"} <= set(texts(game.position))
    game.enter(game.rules.parse("waste:r1"))
    game.enter(game.rules.parse("r2:upper-C"))
    game.enter(game.rules.parse("stock:r2"))

    assert game.ply == 3
    assert game.position.render() == f"2AAA/AAAA/2222 2D9D{KINGS[4:]}/{QUEENS} - - 0"


def test_an_open_game_takes_244_moves_when_every_card_is_drawn_filled_and_played() -> None:
    """Open: "at most 244 moves"."""
    longest = layout_of_a_longest_game()
    order = longest.stock[::-1]
    # The first card to be played lies in the reserve, and a king comes last from the stock.
    layout = Layout(order[:1] + longest.reserve[:-1], (), order[1:] + longest.reserve[-1:])
    game = Game(table(OPEN), layout, undo_allowed=True)

    game.enter(game.position.resolve("r1"))
    while game.position.stock:
        game.enter(game.rules.parse("stock:waste"))
        game.enter(game.rules.parse("waste:r1"))
        if game.position.stock:
            game.enter(game.position.resolve("r1", first_home(game.position, "r1")))
    for place in (*range(2, 17), 1):
        game.enter(game.position.resolve(f"r{place}", first_home(game.position, f"r{place}")))

    assert (game.status, game.ply) == ("won", 244)
    assert Counter(entry.kind for entry in game.entries) == {PLAY: 92, DRAW: 76, FILL: 76}


def test_in_solsuite_the_upper_pile_takes_its_king_after_the_lower_pile_has_its_own() -> None:
    """SolSuite.

    "the upper pile takes its king only after the lower pile of that suit has its king".
    """
    position = at(SOLSUITE, f"QAAA/JKAA/2222 KCKC{KINGS[4:]}/{QUEENS} - - 9C9D")

    assert reason(position, "r1:upper-C") == "foundation-waits"
    assert position.resolve("r1").text == "r1:lower-C"
    play(position, "r1:lower-C")
    assert position.resolve("r2").text == "r2:upper-C"
    play(position, "r2:upper-C")

    assert foundations(position) == "KAAA/KKAA/2222"


def test_in_solsuite_a_king_that_was_awaited_opens_the_pile_that_comes_to_it_later() -> None:
    """SolSuite: "only after the lower pile of that suit has its king"."""
    position = at(SOLSUITE, f"JAAA/KJAA/2222 QCKCQDKD{KINGS[8:]}/{QUEENS} - - 9C9D9H")

    play(position, "r1:upper-C")

    assert position.resolve("r2").text == "r2:upper-C"
    assert position.resolve("r4").text == "r4:lower-D"


def test_in_solsuite_other_suits_do_not_open_a_waiting_pile() -> None:
    """SolSuite: "the lower pile of that suit"."""
    position = at(SOLSUITE, f"QAAA/9KKK/2222 KC{KINGS[2:]}/{QUEENS} - - 9C9D")

    assert reason(position, "r1:upper-C") == "foundation-waits"
    assert reason(position, "r1:lower-C") == "foundation-wants-other"


def test_in_till_dawn_the_upper_pile_ends_at_its_queen() -> None:
    """Till Dawn: "upper ends at Q (12)"."""
    position = at(TILL_DAWN, f"QAAA/JAAA/2222/---- {ROWS} - - 9C")

    assert reason(position, "r1:upper-C") == "foundation-complete"
    assert [len(chain) for chain in table(TILL_DAWN).chains[::4]] == [12, 7, 6, 1]


def test_in_till_dawn_king_piles_take_a_king_after_the_lower_pile_has_its_own() -> None:
    """Till Dawn.

    "a fourth family *king*, one card a suit, empty at the deal, takes a king only after the lower
    pile of that suit has its king".
    """
    position = at(TILL_DAWN, f"AAAA/J9AA/2222/---- KCKCKDKS{KINGS[8:]}/{QUEENS} - - 9C9D")

    assert foundations(fresh(TILL_DAWN)) == "AAAA/AAAA/2222/----"
    assert reason(position, "r1:king-C") == "foundation-waits"
    assert reason(position, "r3:king-D") == "foundation-waits"
    play(position, "r1:lower-C")
    assert reason(position, "r3:king-D") == "foundation-waits"
    play(position, "r2:king-C")

    assert foundations(position) == "AAAA/K9AA/2222/K---"
    assert reason(at(TILL_DAWN, f"AAAA/KAAA/2222/K--- {ROWS} - - -"), "r1:king-C") == (
        "foundation-complete"
    )


def test_in_till_dawn_a_king_never_has_two_homes() -> None:
    """Till Dawn: "so a king never has two homes"."""
    kings = 0
    for position, _ in random_games(TILL_DAWN, 60):
        for origin in {move.origin for move in position.legal_moves() if move.kind == PLAY}:
            homes = [move for move in position.legal_moves() if move.origin == origin]
            if CARDS[position.moved_card(homes[0])][0] == "K":
                kings += 1
                assert len(homes) == 1

    assert kings


def test_in_pysol_the_lower_pile_ends_at_its_jack() -> None:
    """PySolFC: "lower ends at J (6)"."""
    position = at(PYSOL, f"AAAA/JAAA/2222/---- {ROWS} - - -")

    assert reason(position, "r1:lower-C") == "foundation-complete"
    assert [len(chain) for chain in table(PYSOL).chains[::4]] == [13, 6, 6, 1]


def test_in_pysol_king_piles_take_a_king_at_any_time() -> None:
    """PySolFC: "family *king*, one card a suit, empty at the deal, takes a king at any time"."""
    position = at(PYSOL, f"AAAA/AAAA/2222/---- {ROWS} - - -")

    assert foundations(fresh(PYSOL)) == "AAAA/AAAA/2222/----"
    play(position, "r1:king-C")

    assert foundations(position) == "AAAA/AAAA/2222/K---"
    assert reason(position, "r5:king-C") == "foundation-complete"


def test_in_pysol_a_king_may_go_to_the_upper_pile_or_the_king_pile() -> None:
    """PySolFC: "a king may go to the upper pile or the king pile, as the player chooses"."""
    position = at(PYSOL, f"QAAA/AAAA/2222/---- {ROWS} - - -")

    with pytest.raises(AmbiguousMoveError) as ambiguous:
        position.resolve("r1")
    play(position, "r1:king-C")
    play(position, "r5:upper-C")

    assert ambiguous.value.targets == ("upper-C", "king-C")
    assert foundations(position) == "KAAA/AAAA/2222/K---"


@pytest.mark.parametrize("spec", ["deal-1", "pysol-1"])
@pytest.mark.parametrize("ruleset", PYSOLS)
def test_in_the_pysol_editions_the_deal_turns_the_first_stock_card(ruleset: str, spec: str) -> None:
    """PySolFC.

    "the first stock card is turned to the waste by the deal"; "turning the first card belongs to
    the ruleset, whatever the deal spec, and is neither move nor effect".
    """
    layout = deal(spec, ruleset, "7")
    game = Game(table(ruleset), layout, undo_allowed=True)

    assert render_cards(game.position.waste) == render_cards(layout.stock[:1])
    assert render_cards(game.position.stock[::-1]) == render_cards(layout.stock[1:])
    assert (game.ply, game.position.effects) == (0, ())


WITHOUT_A_MOVE = {
    PYSOL: ("6666/JJJJ/QQQQ/KKKK", f"{ROWS} -"),
    COTILLION_PYSOL: ("5555/8888", f"{ROWS} {COLUMNS}"),
    ODD_AND_EVEN_PYSOL: ("5555/8888", f"{NINE} -"),
}
"""Of each pysol edition: foundations of which one wants the 7C, and cards that none wants."""


def pysol(ruleset: str, waste: str, stock: str, first: str = "") -> Position:
    """A position of a pysol edition, with this card in r1 and this waste and stock."""
    tops, rest = WITHOUT_A_MOVE[ruleset]
    redeals = "+1" if ruleset == ODD_AND_EVEN_PYSOL else ""
    return at(ruleset, f"{tops} {first}{rest[len(first) :]} {waste} {stock}{redeals}")


@pytest.mark.parametrize("ruleset", PYSOLS)
@pytest.mark.parametrize(
    ("waste", "stock", "effects", "after"),
    [
        ("9S", "9C9D", ["waste:r1", "stock:waste"], ("9S", "9C", "9D")),
        ("9S", "9C", ["waste:r1", "stock:waste"], ("9S", "9C", "-")),
        ("9S9H", "9C9D", ["waste:r1"], ("9H", "9S", "9C9D")),
        ("9S", "-", ["waste:r1"], ("9S", "-", "-")),
        ("-", "-", [], ("--", "-", "-")),
    ],
)
def test_in_the_pysol_editions_a_place_is_filled_before_the_waste_turns(
    ruleset: str, waste: str, stock: str, effects: list[str], after: tuple[str, str, str]
) -> None:
    """PySolFC.

    "The order of automatic effects is the same in all three: waste to the empty place, then stock
    to waste if the waste ran empty".
    """
    position = pysol(ruleset, waste, stock, "7C")

    assert play(position, position.resolve("r1").text) == effects

    text = position.render(stock=True).split()
    assert (text[1][:2], text[3], text[4].removesuffix("+1")) == after


@pytest.mark.parametrize("ruleset", PYSOLS)
@pytest.mark.parametrize(
    ("waste", "stock", "effects", "after"),
    [
        ("", "9C9D", ["stock:waste"], ("9C", "9D")),
        ("9S", "9C9D", [], ("9S", "9C9D")),
        ("", "-", [], ("-", "-")),
    ],
)
def test_in_the_pysol_editions_an_empty_waste_turns_the_next_card_by_itself(
    ruleset: str, waste: str, stock: str, effects: list[str], after: tuple[str, str]
) -> None:
    """PySolFC: "whenever the waste becomes empty the next stock card is turned by itself"."""
    position = pysol(ruleset, waste + "7C", stock)

    assert play(position, position.resolve("waste").text) == effects

    text = position.render(stock=True).split()
    assert (text[3], text[4].removesuffix("+1")) == after


@pytest.mark.no_cover
@pytest.mark.parametrize("ruleset", PYSOLS)
def test_in_the_pysol_editions_the_waste_is_empty_only_when_the_stock_is(ruleset: str) -> None:
    """PySolFC.

    "so the waste is empty only when the stock is, and fills come from the waste alone".
    """
    emptied = fills = 0
    for position, move in random_games(ruleset, 60):
        after = position.copy()
        effects = [effect.text for effect in after.apply(move)]

        fills += any(effect.startswith("waste:r") for effect in effects)
        emptied += not after.waste
        assert not any(effect.startswith("stock:r") for effect in effects)
        assert after.waste or not after.stock

    assert emptied
    assert fills


def test_a_foundation_top_may_hop_even_the_base_that_was_laid_out() -> None:
    """PySolFC.

    "the top card of a foundation may move to another foundation that wants it, even the laid-out
    base, after which the pile wants that base again".
    """
    position = pysol_at("AAAA/AAAA/2222/----")

    assert texts(position) == [f"deuce-{suit}:upper-{suit}" for suit in SUITS]
    play(position, "deuce-C:upper-C")

    assert foundations(position) == "2AAA/AAAA/-222/----"
    assert reason(position, "deuce-C:upper-C") == "source-empty"
    assert position.score == 12
    play(position, "upper-C:deuce-C")
    assert foundations(position) == "AAAA/AAAA/2222/----"


def pysol_at(tops: str, waste: str = "-") -> Position:
    return at(PYSOL, f"{tops} {'TC' * 8}/{'TD' * 8} - {waste} -")


def test_a_pile_whose_base_has_hopped_takes_that_base_from_anywhere() -> None:
    """PySolFC: "after which the pile wants that base again"."""
    position = pysol_at("2AAA/AAAA/-222/----", "9C2C")

    assert reason(position, "waste:upper-C") == "foundation-wants-other"
    play(position, "waste:deuce-C")

    assert foundations(position) == "2AAA/AAAA/2222/----"


@pytest.mark.parametrize(
    ("ruleset", "text", "hop", "after"),
    [
        (PYSOL, f"2AAA/--AA/2222/---- {ROWS} - - -", "upper-D:lower-D", "2-AA/-AAA/2222/----"),
        (PYSOL, f"KAAA/AAAA/2222/---- {ROWS} - - -", "upper-C:king-C", "QAAA/AAAA/2222/K---"),
        (COTILLION_PYSOL, f"2---/---- {ROWS} {COLUMNS} - -", "ace-C:deuce-C", "K---/2---"),
        (ODD_AND_EVEN_PYSOL, f"----/-A-- {NINE} - - -+0", "deuce-D:ace-D", "-A--/-Q--"),
    ],
)
def test_foundation_tops_hop_onto_an_empty_foundation_as_well(
    ruleset: str, text: str, hop: str, after: str
) -> None:
    """PySolFC.

    "In all three `pysol` editions (the sister games' too) foundation tops may hop so, onto an empty
    foundation as well".
    """
    position = at(ruleset, text)

    assert hop in texts(position)
    play(position, hop)

    assert foundations(position) == after


def test_the_king_of_a_king_pile_may_hop() -> None:
    """PySolFC: "the king of a king pile may hop, which then wants a king again"."""
    position = pysol_at("QAAA/AAAA/4444/K---", "KC")

    assert reason(position, "waste:king-C") == "foundation-complete"
    play(position, "king-C:upper-C")
    assert foundations(position) == "KAAA/AAAA/4444/----"
    play(position, "waste:king-C")

    assert foundations(position) == "KAAA/AAAA/4444/K---"


@pytest.mark.parametrize("ruleset", PYSOLS)
def test_nothing_goes_from_a_foundation_to_any_other_place(ruleset: str) -> None:
    """PySolFC: "nothing goes from a foundation to any other place"."""
    rules = table(ruleset)
    leaving = [move for move in rules.by_text.values() if move.origin in rules.foundations]

    assert leaving
    assert {move.destination for move in leaving} <= set(rules.foundations)
    assert all(no_move(ruleset, f"deuce-C:{place}") for place in ("stock", *rules.places))


@pytest.mark.parametrize(
    ("tops", "hop", "why"),
    [
        ("2AAA/AAAA/2222/----", "deuce-C:upper-C", "foundation-wants-other"),
        ("AAAA/AAAA/2222/----", "king-C:upper-C", "source-empty"),
        ("KAAA/AAAA/2222/K---", "upper-C:king-C", "foundation-complete"),
        ("3AAA/AAAA/2222/----", "deuce-C:upper-C", "foundation-wants-other"),
    ],
)
def test_a_foundation_that_does_not_want_the_card_refuses_the_hop(
    tops: str, hop: str, why: str
) -> None:
    """PySolFC: "may move to another foundation that wants it"."""
    assert reason(pysol_at(tops), hop) == why


@pytest.mark.parametrize(("waste", "stock"), [("9S", "9C"), ("-", "9C"), ("-", "-")])
def test_a_hop_causes_nothing_by_itself(waste: str, stock: str) -> None:
    """PySolFC: "a hop causes nothing by itself"."""
    position = at(PYSOL, f"AAAA/AAAA/2222/---- --{KINGS[2:]}/{QUEENS} - {waste} {stock}")

    assert play(position, "deuce-C:upper-C") == []

    assert position.render(stock=True) == (
        f"2AAA/AAAA/-222/---- --{KINGS[2:]}/{QUEENS} - {waste} {stock}"
    )


def test_hops_have_no_bound_but_the_logs() -> None:
    """PySolFC: "Hops are cyclic: such games have no bound but the log's"."""
    position = pysol_at("AAAA/AAAA/2222/----")
    before = position.render()

    for _ in range(1000):
        play(position, "deuce-C:upper-C")
        play(position, "upper-C:deuce-C")

    assert position.render() == before


@pytest.mark.parametrize("ruleset", RULESETS)
def test_the_cards_of_a_suit_add_up_to_26(ruleset: str) -> None:
    """Editions: "In every edition the cards of a suit add up to 26"."""
    chains = table(ruleset).chains
    for suit in range(4):
        assert sum(len(chain) for chain in chains[suit::4]) == 26
        assert Counter(CARDS[number] for chain in chains[suit::4] for number in chain) == Counter(
            2 * [rank + SUITS[suit] for rank in RANKS]
        )


# Royal Cotillion.


def sister(ruleset: str, tops: str, waste: str) -> Position:
    """A position of a sister game with these foundations and this waste, the stock gone."""
    if ruleset in ODD_AND_EVENS:
        return at(ruleset, f"{tops} {NINE} - {waste} -+1")
    return at(ruleset, f"{tops} {ROWS} {COLUMNS} {waste} -")


@pytest.mark.parametrize(
    ("ruleset", "score"), [(COTILLION, 8), (COTILLION_PYSOL, 0), (ODD_AND_EVEN, 0)]
)
def test_a_sister_game_scores_the_bases_that_are_laid_out(ruleset: str, score: int) -> None:
    """Royal Cotillion: "Score at the deal: 8 where bases are laid out, else 0"."""
    position = fresh(ruleset)

    assert position.score == score
    assert at(ruleset, ONE_CARD_LEFT[ruleset][0]).score == 103


@pytest.mark.parametrize("ruleset", [*COTILLIONS, *ODD_AND_EVENS])
def test_in_a_sister_game_the_player_chooses_the_home_as_well(ruleset: str) -> None:
    """Royal Cotillion: "What a sister game does not say is as in `royal-rendezvous-1`"."""
    position = sister(ruleset, "A---/A---", "3C")

    with pytest.raises(AmbiguousMoveError) as ambiguous:
        position.resolve("waste")
    play(position, "waste:deuce-C")

    assert ambiguous.value.targets == ("ace-C", "deuce-C")
    assert foundations(position) == "A---/3---"


def test_royal_cotillion_lays_out_an_ace_and_a_deuce_of_each_suit() -> None:
    """Royal Cotillion.

    "104 cards, two packs. Eight foundations laid out first: an ace and a deuce of each suit".
    """
    cards = dealt(COTILLION, "7")

    assert foundations(fresh(COTILLION)) == "AAAA/2222"
    assert len(cards) == 96
    assert Counter(card for card in cards if card[0] in "A2") == Counter(
        rank + suit for rank in "A2" for suit in SUITS
    )


@pytest.mark.parametrize("ruleset", [*COTILLIONS, *ODD_AND_EVENS])
@pytest.mark.parametrize("suit", SUITS)
@pytest.mark.parametrize(
    ("family", "ranks"), [("ace", "A3579JK2468TQ"), ("deuce", "2468TQA3579JK")]
)
def test_sister_games_build_by_twos_in_suit_and_wrap(
    ruleset: str, family: str, ranks: str, suit: str
) -> None:
    """Royal Cotillion.

    "Each builds by twos in suit and wraps, 13 cards: *ace* piles A 3 5 7 9 J K 2 4 6 8 10 Q,
    *deuce* piles 2 4 6 8 10 Q A 3 5 7 9 J K".
    """
    coming = "".join(rank + suit for rank in reversed(ranks))
    position = sister(ruleset, "----/----", coming)

    for rank in ranks:
        assert f"waste:{family}-{suit}" in texts(position), f"{rank} goes on {family}-{suit}"
        play(position, f"waste:{family}-{suit}")

    assert position.score == 13
    assert position.wants[table(ruleset).foundations.index(f"{family}-{suit}")] not in range(52)


@pytest.mark.parametrize(
    ("move", "waste", "why"),
    [
        ("waste:ace-C", "5C", "foundation-wants-other"),
        ("waste:ace-C", "2C", "foundation-wants-other"),
        ("waste:ace-C", "3D", "wrong-suit"),
        ("waste:deuce-D", "3D", "foundation-wants-other"),
        ("waste:ace-H", "AH", "foundation-complete"),
        ("waste:deuce-S", "2S", "foundation-complete"),
    ],
)
def test_royal_cotillion_takes_no_other_card(move: str, waste: str, why: str) -> None:
    """Royal Cotillion: "Each builds by twos in suit and wraps, 13 cards"."""
    position = at(COTILLION, f"AAQA/222K {ROWS} {COLUMNS} {waste} 9C")

    assert reason(position, move) == why


def test_royal_cotillion_has_four_columns_of_three() -> None:
    """Royal Cotillion: "Left wing: four columns of three, face up"."""
    position = fresh(COTILLION)

    assert [len(column) for column in position.columns] == [3, 3, 3, 3]
    assert position.render().split()[2] == "/".join(
        "".join(render_cards(column)) for column in position.columns
    )


def test_only_the_last_card_of_a_column_is_available_to_foundations() -> None:
    """Royal Cotillion.

    "only the last card of a column is available, to foundations; never refilled".
    """
    position = at(COTILLION, f"AAAA/2222 {ROWS} 3C9C3C/3D9D/TH4H/3S 9H 9S")

    assert texts(position) == ["c1:ace-C", "c3:deuce-H", "c4:ace-S", "stock:waste"]
    assert reason(position, "c2:ace-D") == "foundation-wants-other"
    assert play(position, "c1:ace-C") == []
    assert play(position, "c4:ace-S") == []

    assert position.render(stock=True) == f"3AA3/2222 {ROWS} 3C9C/3D9D/TH4H/-- 9H 9S"
    assert reason(position, "c4:ace-S") == "source-empty"
    assert all(no_move(COTILLION, f"{place}:c4") for place in ("waste", "stock", "r1", "c1"))
    assert all(no_move(COTILLION, f"c1:{place}") for place in ("waste", "stock", "r1", "c4"))


@pytest.mark.parametrize(
    ("waste", "stock", "effects"),
    [("9H", "9S", ["waste:r16"]), ("-", "9S", ["stock:r16"]), ("-", "-", [])],
)
def test_the_right_wing_is_filled_by_itself(waste: str, stock: str, effects: list[str]) -> None:
    """Royal Cotillion.

    "Right wing: 16 single cards, all available to foundations, filled by itself from the waste,
    else the stock".
    """
    position = at(
        COTILLION, f"AAAA/2222 3CKDKHKSKCKDKHKS/QCQDQHQSQCQDQH4S {COLUMNS} {waste} {stock}"
    )

    assert {"r1:ace-C", "r16:deuce-S"} <= set(texts(position))
    assert play(position, "r16:deuce-S") == effects


@pytest.mark.parametrize(("ruleset", "stock"), [(COTILLION, 68), (COTILLION_PYSOL, 75)])
def test_royal_cotillion_has_its_stock_and_no_redeal(ruleset: str, stock: int) -> None:
    """Royal Cotillion: "Stock 68. Draw one at a time, at any time, one pass"."""
    position = fresh(ruleset)

    assert len(position.stock) == stock
    assert no_move(ruleset, "waste:stock")


def test_column_cards_count_among_what_can_be_played() -> None:
    """Royal Cotillion: "Column cards count among what can be played"."""
    going = at(COTILLION, f"AAAA/2222 {ROWS} 9C3C/9D/9H/9S 9H -")
    lost = at(COTILLION, f"AAAA/2222 {ROWS} 3C9C/9D/9H/9S 9H -")

    assert (going.outcome, texts(going)) == ("playing", ["c1:ace-C"])
    assert (lost.outcome, texts(lost)) == ("lost", [])


@pytest.mark.parametrize("spec", ["deal-1", "pysol-1"])
def test_each_pass_gives_one_card_to_each_column(spec: str) -> None:
    """Royal Cotillion.

    "c1 is the leftmost column; each of three passes gives one card to c1 … c4, and the last given
    is available".
    """
    # Odd and Even shuffles the same 104 cards, has no columns, and so shows the cards' order.
    order = dealt(ODD_AND_EVEN, "7", spec)

    layout = deal(spec, COTILLION_PYSOL, "7")
    position = Position(table(COTILLION_PYSOL), layout)

    assert render_cards(layout.reserve) == order[:16]
    assert [render_cards(column) for column in layout.columns] == [
        [order[16], order[20], order[24]],
        [order[17], order[21], order[25]],
        [order[18], order[22], order[26]],
        [order[19], order[23], order[27]],
    ]
    assert render_cards(layout.stock) == order[28:]
    assert render_cards(position.tops[16:20]) == order[24:28]


def test_royal_cotillion_as_in_pysol_starts_with_empty_foundations() -> None:
    """Royal Cotillion.

    "`royal-cotillion-pysol-1` (game 54): foundations start empty and take their ace or deuce as it
    comes; stock 76".
    """
    layout = deal("pysol-1", COTILLION_PYSOL, "7")
    position = at(COTILLION_PYSOL, f"----/---- AC2DKHKS{KINGS[8:]}/{QUEENS} {COLUMNS} 3C 9C9D")

    assert foundations(Position(table(COTILLION_PYSOL), layout)) == "----/----"
    assert len(layout.stock) == 76
    assert reason(position, "waste:ace-C") == "foundation-wants-other"
    assert texts(position) == ["r1:ace-C", "r2:deuce-D", "stock:waste"]
    play(position, "r1:ace-C")
    play(position, "r2:deuce-D")

    assert foundations(position) == "A---/-2--"


# Odd and Even.


@pytest.mark.parametrize("ruleset", ODD_AND_EVENS)
def test_odd_and_even_starts_with_empty_foundations(ruleset: str) -> None:
    """Odd and Even.

    "104 cards, two packs. Eight foundations, empty at the deal: for each suit one ace pile and one
    deuce pile that take their base as it comes, building as in Royal Cotillion".
    """
    position = at(ruleset, "----/---- ACADKHKS/2C2D3HQSKC - 9D 9C9D+1")

    assert foundations(fresh(ruleset)) == "----/----"
    assert len(dealt(ruleset, "7")) == 104
    assert table(ruleset).chains == table(COTILLION).chains
    assert texts(position) == [
        *("r1:ace-C", "r2:ace-D", "r5:deuce-C", "r6:deuce-D"),
        "stock:waste",
    ]
    assert reason(position, "r7:ace-H") == "foundation-wants-other"


@pytest.mark.parametrize(
    ("waste", "stock", "effects"),
    [("9H", "9S", ["waste:r9"]), ("-", "9S", ["stock:r9"]), ("-", "-", [])],
)
def test_odd_and_even_fills_nine_places_by_itself(
    waste: str, stock: str, effects: list[str]
) -> None:
    """Odd and Even.

    "Reserve: nine single cards, filled by itself from the waste, else the stock".
    """
    position = at(ODD_AND_EVEN, f"----/---- KCKDKHKS/QCQDQHQSAC - {waste} {stock}+1")

    assert table(ODD_AND_EVEN).places == (*(f"r{n}" for n in range(1, 10)), "waste")
    assert play(position, "r9:ace-C") == effects


def test_odd_and_even_has_95_cards_in_the_stock() -> None:
    """Odd and Even: "Stock 95. Draw one at a time, at any time"."""
    assert fresh(ODD_AND_EVEN).render().split()[2:] == ["-", "-", "95+1"]
    assert fresh(ODD_AND_EVEN_PYSOL).render().split()[4] == "94+1"


def test_the_waste_may_be_turned_over_once_when_the_stock_is_empty() -> None:
    """Odd and Even.

    "One redeal: when the stock is empty the player may turn the waste over, unshuffled, to be the
    stock again (move waste → stock), once; the waste must hold a card".
    """
    position = at(ODD_AND_EVEN, f"----/---- {NINE} - 9S9H9D 9C+1")

    assert reason(position, "waste:stock") == "stock-not-empty"
    play(position, "stock:waste")
    assert texts(position) == ["waste:stock"]
    assert play(position, "waste:stock") == []
    assert position.render(stock=True) == f"----/---- {NINE} - - 9S9H9D9C+0"
    for _ in range(4):
        play(position, "stock:waste")

    assert position.render(stock=True) == f"----/---- {NINE} - 9S9H9D9C -+0"
    assert reason(position, "waste:stock") == "no-redeal-left"
    assert reason(at(ODD_AND_EVEN, f"----/---- {NINE} - - -+1"), "waste:stock") == "source-empty"


def test_an_empty_waste_turns_a_card_by_itself_after_the_redeal_as_well() -> None:
    """Odd and Even.

    "`odd-and-even-pysol-1` (game 55): first card turned to the waste by the deal, and an empty
    waste turned by itself".
    """
    position = at(ODD_AND_EVEN_PYSOL, f"----/---- {NINE} - 9S9H9D -+1")

    assert play(position, "waste:stock") == ["stock:waste"]

    assert position.render(stock=True) == f"----/---- {NINE} - 9S 9H9D+0"


@pytest.mark.parametrize("ruleset", [*COTILLIONS, *ODD_AND_EVENS])
def test_the_second_ace_and_deuce_are_ordinary_cards(ruleset: str) -> None:
    """Odd and Even.

    "An ace pile whose suit's first ace has come takes the second deuce after its king, and the
    deuce pile the second ace after its queen: the second ace and deuce are ordinary cards".
    """
    deuces = sister(ruleset, "KJ--/24--", "2D2C")
    aces = sister(ruleset, "A3--/QT--", "ADAC")

    assert deuces.resolve("waste").text == "waste:ace-C"
    assert aces.resolve("waste").text == "waste:deuce-C"
    play(deuces, "waste:ace-C")
    play(aces, "waste:deuce-C")

    assert (foundations(deuces), foundations(aces)) == ("2J--/24--", "A3--/AT--")
    assert reason(deuces, "waste:ace-D") == "foundation-wants-other"
    assert reason(aces, "waste:deuce-D") == "foundation-wants-other"


# The rules as told.


@pytest.mark.parametrize("ruleset", RULESETS)
def test_the_rules_as_told_name_every_family_with_its_ranks(ruleset: str) -> None:
    told = describe(ruleset)["foundations"]

    for family in RULESETS[ruleset].families:
        ranks = family.ranks.replace("T", "10")
        spaced = " ".join(ranks).replace("1 0", "10")
        start = told.index(f"Four {family.name} piles, one a suit, ")
        sentence = told[start:].partition(".")[0]
        assert sentence.endswith(f": {spaced}")
        assert ("laid out before the deal" in sentence) == family.laid_out
        assert ("empty at the deal" in sentence) == (not family.laid_out)
    assert ("only after the lower pile of its suit is complete" in told) == (
        ruleset in {SOLSUITE, TILL_DAWN}
    )


@pytest.mark.parametrize("ruleset", RULESETS)
def test_the_rules_as_told_agree_with_the_deal(ruleset: str) -> None:
    told = describe(ruleset)
    layout = deal("deal-1", ruleset, "7")

    assert f"The other {len(layout.stock)} cards are the stock" in told["stock"]
    assert ("turned to the waste by the deal" in told["stock"]) == (ruleset in PYSOLS)
    assert ("The waste starts empty" in told["stock"]) == (ruleset not in PYSOLS)
    assert told["reserve"].startswith(f"{len(layout.reserve)} single cards")
    assert f"to r{len(layout.reserve)}." in told["reserve"]
    assert f"{fresh(ruleset).score} at the deal, 104 when won" in told["score"]
    assert ("columns" in told) == (ruleset in COTILLIONS)


@pytest.mark.parametrize("ruleset", RULESETS)
def test_the_rules_as_told_agree_with_what_is_allowed(ruleset: str) -> None:
    told = describe(ruleset)
    row = RULESETS[ruleset]

    assert ("refused while any reserve card can go" in told["draw"]) == (ruleset == DEFAULT)
    assert ("allowed at any time" in told["draw"]) == (ruleset != DEFAULT)
    assert "never compulsory" in told["draw"]
    assert ("no redeal" in told["redeal"]) == no_move(ruleset, "waste:stock")
    assert ("once" in told["redeal"]) == (row.redeals == 1)
    assert ("by itself" in told["fill"]) == no_move(ruleset, "waste:r1")
    assert ("A fill is a move and counts" in told["fill"]) == (ruleset == OPEN)
    assert ("stock" in told["fill"]) == (ruleset not in PYSOLS)
    assert ("turn" in told) == (ruleset in PYSOLS)
    assert ("never leave" in told["foundation-cards"]) == (ruleset not in PYSOLS)
    assert ("even its base" in told["foundation-cards"]) == (ruleset in PYSOLS)
    assert told["won"] == "Won when all 104 cards are on foundations."
    assert told["lost"] == "Lost when no move is legal."


def test_the_rules_as_told_of_all_rulesets_differ() -> None:
    told = [tuple(describe(ruleset).values()) for ruleset in RULESETS]

    assert len(set(told)) == len(told) == 10
