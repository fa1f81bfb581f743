"""The search tool finds what BM25 says, keeps its index whole on disk, and says where a passage is from."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from orchestai.agents.recipes import load_agent_config
from orchestai.agents.registry import WORKFLOWS, presets
from orchestai.agents.search_index import Passage, SearchIndex, open_index, read_corpus
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


# Short words and other trainers' words do what they say, or say what to write instead.


NAME = "support.agents.sample:Talk"


def test_words_of_other_trainers_are_ours():
    config = load_agent_config(
        NAME,
        None,
        [
            "data.train_batch_size=8",
            "trainer.total_epochs=5",
            "actor_rollout_ref.actor.optim.lr=5e-6",
            "trainer.save_freq=1000",
            "trainer.test_freq=100",
            "n_parallel_agents=3",
            "trainer.use_amp=true",
            "ray.cluster_config.num_workers=8",
            "workflow_args.silent=true",
        ],
    )
    phase2 = config.training.phase2_rl
    assert (phase2.tasks_per_update, phase2.learning_rate) == (8, 5e-6)
    assert (phase2.save_every, phase2.keep_checkpoints, phase2.eval_every) == (1000, None, 100)
    assert (config.agents.epochs, config.agents.concurrency, config.model.mixed_precision) == (5, 3, "bf16")
    assert config.agents.workflow_args == {"silent": True}
    assert (config.execution.backend, config.execution.ray.num_workers) == ("ray", 8)
    for word in ("trainer.use_amp=false", "model.mixed_precision=no"):  # YAML's `no` is false
        assert load_agent_config(NAME, None, [word]).model.mixed_precision == "no"


def test_a_file_is_read_back_as_it_was_resolved(tmp_path):
    config = load_agent_config(NAME, None, ["model=tiny", "agents.budget.turns=3", "agents.credit=turn"])
    path = tmp_path / "resolved.yaml"
    path.write_text(config.to_yaml())
    assert load_agent_config(NAME, path) == config


@pytest.mark.parametrize(
    ("name", "preset", "words"),
    [
        *((name, None, ["model=tiny"]) for name in [*WORKFLOWS, "tool_use_nq"]),
        ("deep_research", None, []),
        ("", "deep_research", []),
        ("deep_research", "deep_research", ["model=tiny"]),
    ],
)
def test_sample_data_is_found_from_any_working_directory(name, preset, words, tmp_path, monkeypatch):
    """A preset is found from anywhere, and with `model=tiny` it then ended with `cannot be read`."""
    monkeypatch.chdir(tmp_path)
    config = load_agent_config(name, preset and presets()[preset], words)
    given = config.agents.workflow_args
    paths = [config.tasks.path, *(given[key] for key in ("corpus", "repositories") if key in given)]
    assert all(Path(path).exists() for path in paths)
    assert not words or config.model.name == "tiny" or Path(config.model.name).is_dir()
