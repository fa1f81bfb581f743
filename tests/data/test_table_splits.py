"""Queries that say nearly the same stay on one side of a split, however much boilerplate all queries share."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.data.near_duplicates import near_duplicate_groups
from orchestai.evaluation.tables.evaluate import split_by_groups

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


def test_groups_are_transitive():
    words = [f"w{number}" for number in range(40)]
    chain = [" ".join(words[start : start + 20]) for start in range(0, 20, 4)]
    assert set(near_duplicate_groups(chain)) == {0}
    assert len(set(near_duplicate_groups([chain[0], chain[-1]]))) == 2


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


def test_a_split_keeps_groups_whole_and_every_type_in_proportion():
    groups = np.array([row // 2 for row in range(400)])
    types = ["maths" if row < 300 else "facts" for row in range(400)]
    split = split_by_groups(groups, types, seed=0)
    assert not set(groups[split.train]) & set(groups[split.test])
    assert sorted([*split.train, *split.test]) == list(range(400))
    assert Counter(types[row] for row in split.test) == {"maths": 60, "facts": 20}
