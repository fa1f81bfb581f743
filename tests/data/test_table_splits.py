"""Queries that say nearly the same stay on one side of a split, however much boilerplate all queries share."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from unicodedata import normalize

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.data.tables.near_duplicates import near_duplicate_groups
from orchestai.data.tables.shared_wording import shared_lines, without_lines
from orchestai.data.tables.table_splits import split_by_groups

EXAMPLES = (
    "Answer with a letter only, please, and say nothing else at all.\nQ: Which is red?\nA) grass\nB) blood\nB\n\n"
)
TWINS = (
    "The trophy does not fit into the brown suitcase because the _ is too large for it.",
    "The trophy does not fit into the brown suitcase because the _ is too small for it.",
)


def test_twins_are_one_group_and_shared_wording_makes_none():
    others = [f"How many {thing} does a farmer need who {doing} {thing} all year long?" for thing, doing in OTHERS]
    others += [f"{doing} w{number} x{number} y{number} z{number}?" for number, (_, doing) in enumerate(OTHERS * 4)]
    groups = near_duplicate_groups([EXAMPLES + text for text in (*TWINS, *others)])
    assert groups[0] == groups[1]
    assert len(set(groups)) == len(groups) - 1


def test_a_template_in_the_same_line_makes_no_near_duplicates():
    """Weighed by their frequency alone, its many shingles would make all queries one group, in quadratic time."""
    template = "Read the two amounts below, multiply them, round the product to cents, and reply with it alone: "
    texts = [f"{template} {number * 7919 % 99991} and {number * 104729 % 99991}" for number in range(150)]
    groups = near_duplicate_groups([*texts, texts[0] + "!", template])
    assert groups.tolist() == [*range(150), 0, 150]


def test_the_instruction_of_a_type_makes_none_either():
    """A fifth of six types says nearly nothing of each: all queries of a type were one group, and never tested."""
    kinds = [f"type {kind}" for kind in "abcdef" for _ in range(60)]
    told = {kind: " ".join(f"{kind[-1]}{word}" for word in range(40)) for kind in set(kinds)}
    texts = [f"{told[kind]} {row * 7919 % 99991} and {row * 104729 % 99991}" for row, kind in enumerate(kinds)]
    assert len(set(near_duplicate_groups(texts))) < 7
    assert len(set(near_duplicate_groups(texts, types=kinds))) == 360


OTHERS = [
    ("seeds", "sows barley and"),
    ("cows", "milks by hand his"),
    ("ploughs", "lends his neighbours"),
    ("fences", "mends for money"),
    ("sheep", "shears twice"),
    ("ducks", "feeds with bread"),
    ("goats", "sells to butchers"),
    ("horses", "rides to market"),
    ("trees", "fells in winter"),
    ("bees", "keeps for honey"),
    ("wells", "digs in the valley"),
]


def test_case_and_punctuation_make_no_difference():
    groups = near_duplicate_groups(["What is 2 + 2?", "something else", "what is  2 2"])
    assert groups.tolist() == [0, 1, 0]


def test_nor_does_how_an_accent_is_written():
    written = ["Où est le café à côté de l'église?", "Où est la Straße?"]
    again = [normalize("NFD", written[0]), "OÙ EST LA STRASSE?"]
    assert near_duplicate_groups([*written, *again]).tolist() == [0, 1, 0, 1]


def test_groups_are_transitive():
    words = [f"w{number}" for number in range(40)]
    chain = [" ".join(words[start : start + 20]) for start in range(0, 20, 4)]
    assert set(near_duplicate_groups(chain)) == {0}
    assert len(set(near_duplicate_groups([chain[0], chain[-1]]))) == 2


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8).map(" ".join), max_size=12))
def test_prefix_filtering_finds_what_comparing_all_pairs_finds(texts):
    sets = {text: {tuple(text.split()[i : i + 3]) for i in range(max(1, len(text.split()) - 2))} for text in texts}
    holders = Counter(shingle for own in sets.values() for shingle in own)
    weight = {shingle: np.log(1 + len(sets) / count) for shingle, count in holders.items()}
    together = nx.Graph([(text, text) for text in texts])
    for one, other in combinations(sets, 2):
        shared, union = (sum(map(weight.get, op(sets[one], sets[other]))) for op in (set.intersection, set.union))
        if shared >= 0.473 * union:
            together.add_edge(one, other)
    groups = near_duplicate_groups(texts, threshold=0.473)
    for one, other in combinations(range(len(texts)), 2):
        assert (groups[one] == groups[other]) == nx.has_path(together, texts[one], texts[other])


def test_lines_that_many_queries_have_are_shared_wording():
    texts = [f"{EXAMPLES}question {number}\nAnswer:" for number in range(60)]
    lines = shared_lines(texts)
    assert without_lines(texts[3], lines) == "question 3"
    assert without_lines("Answer:", lines) == "Answer:"
    assert not shared_lines(texts[:50])


def test_characters_are_words_where_no_spaces_are_set():
    texts = [f"请用一句话回答：中国南方最大的那个城市在{year}年的人口是多少？" for year in ("去", "今")]
    texts.append("他昨天为什么没有来学校上课呢？")
    assert near_duplicate_groups(texts).tolist() == [0, 0, 1]


def test_a_split_keeps_groups_whole_and_every_type_in_proportion():
    groups = np.array([row // 2 for row in range(400)])
    types = ["maths" if row < 300 else "facts" for row in range(400)]
    split = split_by_groups(groups, types, seed=0)
    assert not set(groups[split.train]) & set(groups[split.test])
    assert sorted([*split.train, *split.test]) == list(range(400))
    assert Counter(types[row] for row in split.test) == {"maths": 60, "facts": 20}


def test_seeds_give_different_splits_and_each_seed_the_same():
    groups, types = np.arange(100), [""] * 100
    first, again, other = (split_by_groups(groups, types, seed=seed).test.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_a_type_with_one_group_is_learned_from():
    split = split_by_groups(np.array([0, 0, *range(1, 11)]), ["rare", "rare", *["usual"] * 10], seed=3)
    assert {0, 1} <= set(split.train.tolist())
    assert len(split.test) == 2


def test_types_of_one_or_two_queries_are_tested_together():
    split = split_by_groups(np.arange(100), [str(row // 2) for row in range(100)], seed=0)
    assert len(split.test) == 20


def test_a_large_group_does_not_fill_the_test_part():
    split = split_by_groups(np.array([0] * 50 + list(range(1, 51))), [""] * 100, seed=0)
    assert 0 not in split.test
    assert len(split.test) == 20


@pytest.mark.parametrize("share", [0, 1, -0.2])
def test_a_share_outside_0_and_1_is_refused(share):
    with pytest.raises(ValueError, match="test_share"):
        split_by_groups(np.arange(4), [""] * 4, seed=0, test_share=share)
