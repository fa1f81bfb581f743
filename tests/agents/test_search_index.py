"""The search tool finds what BM25 says, keeps its index whole on disk, and says where a passage is from."""

import json
import math
import re

import pytest

from orchestai.agents.tools.search import Passage, SearchIndex, open_index, read_corpus
from orchestai.errors import UserError

PASSAGES = [
    Passage("p1", "Paris", "Paris is the capital of France."),
    Passage("p2", "Rome", "Rome, the capital of Italy, was built on 7 hills."),
    Passage("p3", "Oslo", "Oslo lies at the head of a fjord in Norway."),
]


def test_search_ranks_by_bm25():
    """Against the formula itself: idf = ln(1 + (N - n + 0.5) / (n + 0.5)), tf = f / (f + k1 (1 - b + b l / mean))."""
    stop = {"is", "the", "of", "was", "on", "at", "a", "in"}
    words = [[w for w in re.findall(r"\w+", p.whole.lower()) if w not in stop] for p in PASSAGES]
    mean = sum(map(len, words)) / 3

    def score(query, passage):
        total = 0.0
        for word in query:
            n, f = sum(word in other for other in words), passage.count(word)
            idf = math.log(1 + (3 - n + 0.5) / (n + 0.5))
            total += idf * f / (f + 1.5 * (1 - 0.75 + 0.75 * len(passage) / mean))
        return total

    index = SearchIndex.build(PASSAGES)
    for query in (["capital", "italy"], ["rome", "capital", "france"], ["head", "norway", "paris"]):
        scores = {p.id: score(query, ws) for p, ws in zip(PASSAGES, words, strict=True)}
        ranked = sorted((name for name in scores if scores[name] > 0), key=lambda name: -scores[name])
        assert [p.id for p in index.search(" ".join(query), 3)] == ranked


def test_an_index_that_was_saved_finds_the_same(tmp_path):
    index = SearchIndex.build(PASSAGES)
    index.save(tmp_path / "index")
    again = open_index(tmp_path / "index")
    assert len(again) == 3
    for query in ("capital", "head of a fjord", "Rome 7"):
        assert again.search(query, 3) == index.search(query, 3)


def test_a_corpus_is_read_in_our_form_and_in_pyserinis(tmp_path):
    path = tmp_path / "corpus.jsonl"
    lines = [{"title": "Paris", "text": "A city."}, {"id": "doc2", "contents": '"Rome"\nA city too.'}]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert read_corpus(path) == [Passage("0", "Paris", "A city."), Passage("doc2", "Rome", "A city too.")]
    path.write_text('{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}')
    with pytest.raises(UserError, match="line 2: the id '1' is taken"):
        read_corpus(path)
    path.write_text('{"words": "a"}')
    with pytest.raises(UserError, match="line 1: a passage has a text"):
        read_corpus(path)
    path.write_text('{"text": "the of"}')
    with pytest.raises(UserError, match="without words"):
        open_index(path)
