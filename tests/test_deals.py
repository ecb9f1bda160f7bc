"""Deals: what a seed is, and what it gives. Recorded deals are in ``test_vectors.py``."""

import hashlib
import hmac
import os
import random
import string
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import naive
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from service.engine import DEAL_SPECS, RULESETS, Layout, canonical_seed, deal
from service.engine.cards import CARDS, RANKS, SUITS, card, render_cards
from service.engine.errors import BadSeedError, UnknownDealSpecError, UnknownRulesetError

DEFAULT = "royal-rendezvous-1"
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))

DEALS = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)

deal_1_seeds = st.text(PRINTABLE, min_size=1, max_size=64)
plain_numbers = st.integers(0, 10**22) | st.integers(31_990, 32_010)
ms_numbers = (
    st.integers(1, 2**33 - 1)
    | st.integers(2**31 - 3, 2**31 + 3)
    | st.integers(2**32 - 3, 2**32 + 3)
    | st.integers(2**33 - 4, 2**33 - 1)
)
pysol_1_seeds = plain_numbers.map(str) | ms_numbers.map("ms{}".format)
rulesets = st.sampled_from(list(RULESETS))


def cards(layout: Layout) -> list[str]:
    """All cards of a layout: reserve, columns, stock."""
    return render_cards([*layout.reserve, *b"".join(layout.columns), *layout.stock])


# Cards.


def test_a_card_is_written_as_its_rank_and_its_suit() -> None:
    """deal-1: "Card text: rank from `A23456789TJQK`, suit from `C D H S`"."""
    assert RANKS == "A23456789TJQK"
    assert SUITS == "CDHS"
    assert [CARDS[card(rank, suit)] for suit in SUITS for rank in RANKS] == list(CARDS)
    assert render_cards([card("A", "C"), card("T", "H"), card("K", "S")]) == ["AC", "TH", "KS"]


# deal-1.


def words(seed: str) -> Iterator[int]:
    """Yield the words that a seed gives: the stream of the rules, written out again."""
    key = hashlib.sha256(b"royal-rendezvous/deal/1\x00" + seed.encode("ascii")).digest()
    block = 0
    while True:
        digest = hmac.new(key, block.to_bytes(8, "big"), hashlib.sha256).digest()
        yield from (int.from_bytes(digest[n : n + 4], "big") for n in range(0, 32, 4))
        block += 1


def rejected(seed: str, size: int) -> list[int]:
    """Return at which index each word is rejected that a shuffle of this many cards rejects."""
    stream = words(seed)
    indexes = []
    for i in range(size - 1, 0, -1):
        limit = max(n for n in (2**32 - r for r in range(i + 1)) if n % (i + 1) == 0)
        while next(stream) >= limit:
            indexes.append(i)
    return indexes


@pytest.mark.parametrize("size", [92, 96, 104])
@pytest.mark.parametrize("seed", ["r2174463", "r7564039"])
def test_these_seeds_make_the_shuffle_reject_a_word(seed: str, size: int) -> None:
    """deal-1: "draw words until one is below the largest multiple of (i+1) not above 2³²"."""
    assert rejected(seed, size)
    assert not rejected("7", size)


@pytest.mark.parametrize("seed", ["r2174463", "r7564039", "7", "royal"])
@pytest.mark.parametrize("ruleset", RULESETS)
def test_the_shuffle_exchanges_from_the_last_card_down(ruleset: str, seed: str) -> None:
    """deal-1.

    "for i from last down to 1, draw words until one is below the largest multiple of (i+1) not
    above 2³²; j = word mod (i+1); exchange i and j".
    """
    pack = naive.pack(ruleset, "deal-1")
    stream = words(seed)
    for i in range(len(pack) - 1, 0, -1):
        word = next(stream)
        while word >= 2**32 // (i + 1) * (i + 1):
            word = next(stream)
        pack[i], pack[word % (i + 1)] = pack[word % (i + 1)], pack[i]
    layout = deal("deal-1", ruleset, seed)

    # Columns are dealt in passes, so their first cards come first.
    passes = [CARDS[column[n]] for n in range(3) for column in layout.columns]

    assert [*render_cards(layout.reserve), *passes, *render_cards(layout.stock)] == pack


@pytest.mark.parametrize(("ruleset", "size"), [(DEFAULT, 92), ("royal-cotillion-1", 96)])
def test_the_bases_that_are_laid_out_are_left_out_of_the_pack(ruleset: str, size: int) -> None:
    """deal-1.

    "leave out the cards that the ruleset lays out as foundation bases (the four aces and four
    deuces of pack 0 for `royal-cotillion-1`; all eight aces and the deuces of pack 0 for Royal
    Rendezvous; nothing where bases come as they come). 92 cards for Royal Rendezvous".
    """
    counts = Counter(cards(deal("deal-1", ruleset, "7")))

    assert counts.total() == size
    assert {counts["A" + suit] for suit in SUITS} == {0 if size == 92 else 1}
    assert {counts["2" + suit] for suit in SUITS} == {1}
    assert {counts[rank + suit] for rank in RANKS[2:] for suit in SUITS} == {2}


def test_seeds_are_taken_as_they_are() -> None:
    """deal-1: "taken as they are: `7` and `07` differ"."""
    layouts = {deal("deal-1", DEFAULT, seed).stock for seed in ("7", "07", "007", "7.", "ms7")}

    assert len(layouts) == 5
    assert canonical_seed("deal-1", "07") == "07"


@DEALS
@given(deal_1_seeds)
@example(PRINTABLE[:64])
@example(PRINTABLE[-64:])
def test_every_printable_text_of_up_to_64_characters_is_a_seed(seed: str) -> None:
    """deal-1: "A seed is 1 to 64 printable ASCII characters without the space"."""
    assert canonical_seed("deal-1", seed) == seed
    assert Counter(cards(deal("deal-1", DEFAULT, seed))) == Counter(naive.pack(DEFAULT, "deal-1"))


BAD_DEAL_1 = [
    *("", " ", "7 ", " 7", "a b", "7\n", "\n7", "7\t", "7\0", "\0", "7\x7f", "7\x1f"),
    *("é", "\uff17", "\u0667", "7\u00a0", "7\u2003", "🂡", "\ud800", "x" * 65, "7" * 1000),
]
BAD_PYSOL_1 = [
    *("", " ", "7 ", " 7", "7\n", "-7", "+7", "7.0", "7e3", "0x7", "1_000", "1,000"),
    *(
        "\uff17",
        "\u0667",
        "²",
        "ms",
        "MS7",
        "Ms7",
        "ms 7",
        "ms-7",
        "ms7ms",
        "msms7",
        "7ms",
        "m7",
        "s7",
    ),
    *("ms0", "ms000", f"ms{2**33}", f"ms{2**64}", "seven", "1" * 65, "0" * 65, "\ud800"),
]


@pytest.mark.parametrize(
    ("spec", "seed"),
    [*(("deal-1", seed) for seed in BAD_DEAL_1), *(("pysol-1", seed) for seed in BAD_PYSOL_1)],
    ids=ascii,
)
def test_what_is_no_seed_is_refused(spec: str, seed: str) -> None:
    """pysol-1: "Seed text: digits, or `ms` (lower case) and digits; anything else is refused"."""
    with pytest.raises(BadSeedError) as canonical:
        canonical_seed(spec, seed)
    with pytest.raises(BadSeedError) as dealt:
        deal(spec, DEFAULT, seed)

    assert canonical.value.code == dealt.value.code == "bad-seed"


# pysol-1.


@pytest.mark.parametrize(
    ("seed", "canonical"),
    [
        ("0", "0"),
        ("000", "0"),
        ("7", "7"),
        ("00000000000000000007", "7"),
        ("70", "70"),
        ("ms7", "ms7"),
        ("ms007", "ms7"),
        ("ms1", "ms1"),
        (f"ms{2**33 - 1}", "ms8589934591"),
        ("00000000000000032001", "32001"),
        ("0" * 63 + "7", "7"),
        ("9" * 64, "9" * 64),
    ],
)
def test_leading_zeros_of_a_number_are_dropped(seed: str, canonical: str) -> None:
    """pysol-1: "Leading zeros mean nothing and are dropped from what is stored"."""
    assert canonical_seed("pysol-1", seed) == canonical
    assert deal("pysol-1", DEFAULT, seed) == deal("pysol-1", DEFAULT, canonical)


@DEALS
@given(st.sampled_from(DEAL_SPECS), st.data())
def test_the_seed_of_a_record_is_its_own_canonical_seed(spec: str, data: st.DataObject) -> None:
    seed = data.draw(deal_1_seeds if spec == "deal-1" else pysol_1_seeds)
    canonical = canonical_seed(spec, seed)

    assert canonical_seed(spec, canonical) == canonical


@pytest.mark.parametrize(
    ("plain", "ms", "alike"),
    [
        *(("1", "ms1", True), ("31999", "ms31999", True)),
        *(("32000", "ms32000", False), ("32001", "ms32001", False)),
        (str(2**31), f"ms{2**31}", False),
    ],
)
def test_plain_numbers_from_32000_on_are_dealt_by_the_twister(
    plain: str, ms: str, *, alike: bool
) -> None:
    """pysol-1: "Plain 32000 is already Twister"."""
    assert (deal("pysol-1", DEFAULT, plain) == deal("pysol-1", DEFAULT, ms)) is alike


def test_numbers_that_a_machine_integer_would_merge_give_different_deals() -> None:
    """pysol-1: "text everywhere, never a machine integer"."""
    for base in (32_000, 2**31, 2**53, 2**64):
        layouts = {deal("pysol-1", DEFAULT, str(n)).stock for n in (base, base + 1, base + 2**64)}

        assert len(layouts) == 3


@pytest.mark.parametrize("number", [1, 2, 2**31, 2**32 - 1, 2**32 + 1])
def test_ms_numbers_differ_by_their_range(number: int) -> None:
    """pysol-1: "From 2³¹ on, bit 15 of the output is set (output OR 0x8000)"."""
    seeds = [f"ms{(number + offset - 1) % (2**33 - 1) + 1}" for offset in (0, 2**31, 2**32)]

    assert len({deal("pysol-1", DEFAULT, seed).stock for seed in seeds}) == 3


def test_cards_come_off_the_end_of_the_shuffled_pack() -> None:
    """pysol-1: "Cards come off the **end**: read from the end, leave out the bases laid out"."""
    order = cards(deal("pysol-1", "odd-and-even-1", "7"))

    for ruleset in (DEFAULT, "royal-cotillion-1"):
        left_out = Counter(order) - Counter(cards(deal("pysol-1", ruleset, "7")))
        layout = deal("pysol-1", ruleset, "7")
        passes = [CARDS[column[n]] for n in range(3) for column in layout.columns]
        dealt = [*render_cards(layout.reserve), *passes, *render_cards(layout.stock)]
        rest = iter(order)

        assert all(any(found == wanted for found in rest) for wanted in dealt)
        assert {text[0] for text in left_out} == set("A2")


# Both.


@DEALS
@given(rulesets, st.data())
def test_deals_are_those_of_the_naive_engine(ruleset: str, data: st.DataObject) -> None:
    """S-102: each deal spec has one path for all its seeds, whatever their size."""
    spec = data.draw(st.sampled_from(DEAL_SPECS))
    seed = data.draw(deal_1_seeds if spec == "deal-1" else pysol_1_seeds)
    game = naive.deal(ruleset, spec, seed)
    turned = game.waste

    layout = deal(spec, ruleset, seed)

    assert render_cards(layout.reserve) == game.reserve
    assert [render_cards(column) for column in layout.columns] == game.columns
    assert render_cards(layout.stock) == [*turned, *game.stock]


@pytest.mark.parametrize("seed", ["0", "1", "31999", "32000", str(2**31), str(2**64), "9" * 64])
def test_a_number_is_a_text_like_any_other_for_deal_1(seed: str) -> None:
    """S-102: number and text seeds never share a code path by size."""
    ours, theirs = deal("deal-1", DEFAULT, seed), deal("pysol-1", DEFAULT, seed)

    assert render_cards(ours.reserve) == naive.deal(DEFAULT, "deal-1", seed).reserve
    assert ours != theirs
    assert canonical_seed("deal-1", seed) == seed


def test_a_deal_is_the_same_in_another_process() -> None:
    """S-102: a restart does not give another deal."""
    seeds = [("deal-1", "royal"), ("pysol-1", "7"), ("pysol-1", "32000"), ("pysol-1", "ms32000")]
    program = (
        "from service.engine import deal\n"
        f"for spec, seed in {seeds!r}:\n"
        f"    print(deal(spec, {DEFAULT!r}, seed))\n"
    )
    here = "".join(f"{deal(spec, DEFAULT, seed)}\n" for spec, seed in seeds)

    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        assert there.stdout == here


@pytest.mark.parametrize(("spec", "seed"), [("deal-1", "royal"), ("pysol-1", "7777777")])
def test_nothing_but_the_seed_decides_a_deal(spec: str, seed: str) -> None:
    """S-97: everything random derives from the seed, and dealing draws from nowhere else."""
    random.seed(1)
    state = random.getstate()
    first = {ruleset: deal(spec, ruleset, seed) for ruleset in RULESETS}
    assert random.getstate() == state
    random.seed(2)

    again = {ruleset: deal(spec, ruleset, seed) for ruleset in reversed(RULESETS)}

    assert again == first


@pytest.mark.parametrize("spec", DEAL_SPECS)
@pytest.mark.parametrize(
    "editions",
    [
        [name for name in RULESETS if name.startswith("royal-rendezvous")],
        [name for name in RULESETS if name.startswith("odd-and-even")],
    ],
    ids=["royal-rendezvous", "odd-and-even"],
)
def test_editions_that_lay_out_the_same_bases_share_their_deals(
    editions: list[str], spec: str
) -> None:
    """S-97: a ruleset says which cards are dealt, never how they are shuffled."""
    assert len({deal(spec, ruleset, "7") for ruleset in editions}) == 1


def test_seeds_give_deals_of_their_own() -> None:
    letters = string.ascii_letters + string.digits
    layouts = {deal("deal-1", DEFAULT, seed) for seed in letters}

    assert len(layouts) == len(letters)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownDealSpecError, match="there are deal-1, pysol-1"):
        canonical_seed("deal-2", "7")
    with pytest.raises(UnknownDealSpecError):
        deal("deal-2", DEFAULT, "7")
    with pytest.raises(UnknownRulesetError, match="there are royal-rendezvous-1, "):
        deal("deal-1", "royal-rendezvous-2", "7")
