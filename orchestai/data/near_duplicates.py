"""Groups of texts that say nearly the same, so that none of them is learned from while another is tested on."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from math import log
from typing import Final, TypeVar
from unicodedata import normalize

import networkx as nx
import numpy as np

from orchestai.data.outcome_table import Rows

T = TypeVar("T")

LINES: Final = 0.02
"""A line is shared wording where more than this share of all queries have it ..."""
SHINGLES: Final = 0.2
"""... and a few words in a row where more than this share have them, as they may be of a common turn of phrase, ..."""
OF_TYPE: Final = 0.8
"""... or more than this share of the queries of one type, whose instruction they are then, ..."""
_FEWEST = 50
"""... and more than so many: fewer may be questions about one passage."""


def shared_lines(texts: Sequence[str]) -> frozenset[str]:
    """The lines, without space around them, that more than 2 % of the texts (and more than fifty) have."""
    return widespread(({line.strip() for line in text.splitlines()} - {""} for text in texts), len(texts), LINES)


def widespread(parts: Iterable[Collection[T]], texts: int, share: float) -> frozenset[T]:
    """What more than a share of the texts, and more than fifty, have.

    Args:
        parts: of each text, each once.
        texts: how many there are.
    """
    limit = max(_FEWEST, share * texts)
    return frozenset(part for part, count in Counter(part for own in parts for part in own).items() if count > limit)


def without_lines(text: str, lines: Collection[str]) -> str:
    """The text without those lines; as it is where nothing else is in it."""
    kept = "\n".join(line for line in text.splitlines() if line.strip() not in lines).strip()
    return kept or text


SIMILAR: Final = 0.5
"""From this weighted Jaccard similarity on, two texts are near-duplicates."""
_SHINGLE_WORDS = 3
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese, which set no space between words: each character counts as one."""
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


def near_duplicate_groups(texts: Sequence[str], threshold: float = SIMILAR, types: Sequence[str] | None = None) -> Rows:
    """(texts,) the number of each text's group, counted in the order of the groups' first texts.

    Two texts share a group where a chain of texts leads from one to the other, each similar to the next: equal but for
    case and punctuation, or with a weighted Jaccard similarity of their three-word shingles of at least `threshold`.
    Lines and shingles that many texts share, or most of one type, do not count, and a shingle's weight is its inverse
    document frequency, so that a common wording makes none similar.

    All pairs that are similar enough are found: such texts share a shingle among the rarest of each, up to where
    the others weigh less than `threshold` of the whole (prefix filtering; Bayardo et al. 2007, Scaling up all pairs
    similarity search, doi 10.1145/1242572.1242591).
    """
    first: dict[tuple[str, ...], int] = {}
    common = shared_lines(texts)
    words = [tuple(_WORD.findall(normalize("NFKC", without_lines(text, common)).casefold())) for text in texts]
    same = [first.setdefault(key, row) for row, key in enumerate(words)]
    whole = {}
    for key, row in first.items():
        count = max(1, len(key) - _SHINGLE_WORDS + 1)
        whole[row] = frozenset(key[start : start + _SHINGLE_WORDS] for start in range(count))
    template = widespread(whole.values(), len(texts), SHINGLES)
    of_type: defaultdict[str, list[int]] = defaultdict(list)
    for row, kind in enumerate(types or ()):
        of_type[kind].append(row)
    for rows in of_type.values():
        template |= widespread((whole[row] for row in rows if row in whole), len(rows), OF_TYPE)
    shingles = {row: own - template for row, own in whole.items()}
    frequency = Counter(shingle for own in shingles.values() for shingle in own)
    weight = {shingle: log(1 + len(shingles) / count) for shingle, count in frequency.items()}
    total = {row: sum(weight[shingle] for shingle in own) for row, own in shingles.items()}
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(texts)))
    graph.add_edges_from(enumerate(same))
    # The pairs that may be similar enough: those that share one of their rarest shingles
    holders: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, own in shingles.items():
        rest = total[row]
        for shingle in sorted(own, key=lambda one: (-weight[one], one)):
            if rest < threshold * total[row]:
                break
            holders[shingle].append(row)
            rest -= weight[shingle]
    for one, other in {pair for rows in holders.values() for pair in combinations(rows, 2)}:
        shared = sum(weight[shingle] for shingle in shingles[one] & shingles[other])
        if shared >= threshold * (total[one] + total[other] - shared):
            graph.add_edge(one, other)
    groups = np.empty(len(texts), dtype=np.intp)
    for number, group in enumerate(sorted(nx.connected_components(graph), key=min)):
        groups[list(group)] = number
    return groups
