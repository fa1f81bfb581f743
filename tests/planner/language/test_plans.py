"""A language model that writes steps and edges alone: nobody is asked for types and workers, nor misled by them."""

from __future__ import annotations

import torch

from orchestai.data.readers import SourcePlan, SourceStep
from orchestai.data.training_file import save_training_data
from orchestai.planner.language.checkpoint import open_language_planner
from orchestai.training.supervised.language_planner import tokenize
from orchestai.training.supervised.train import train
from support.training.language_phase1 import config

BARE = {"assign": False, "quote": "own", "max_new_tokens": 96}
STEPS = ("boil water", "take a cup", "pour")


def example(edges: str, *, task: str = "make tea"):
    steps = tuple(SourceStep(str(i), words) for i, words in enumerate(STEPS))
    pairs = frozenset((edge[0], edge[1]) for edge in edges.split())
    return SourcePlan(f"{task} {edges}", "toy", "CC0", task, steps, pairs).example()


def planner(settings):
    torch.manual_seed(0)
    return open_language_planner(settings.planner, settings.workers, ["make tea", *STEPS])


def test_every_token_is_learned_and_a_step_comes_after_what_it_needs():
    tokenized = tokenize(example("20 01"), planner(config(language=BARE)))
    assert tokenized.learned.all()
    assert [s.instruction for s in tokenized.workflow.subtasks] == ["pour", "boil water", "take a cup"]
    assert tokenized.workflow.dependencies() == [[], [0], [1]]
    assert all(slot.step > 0 for slot in tokenized.parents)


def test_it_learns_steps_and_edges(tmp_path):
    settings = config(language={**BARE, "eval_plans": 2}, num_epochs=30, patience=30, batch_size=4)
    learned = [
        one
        for first in ("now ", "then ", "do it ", "")
        for one in (example("01 12", task=f"{first}one by one"), example("", task=f"{first}all at once"))
    ]
    others = [example("01 12", task="then do it one by one"), example("", task="then do it all at once")]
    held_out = [one.model_copy(update={"split": "validation"}) for one in others]
    save_training_data(tmp_path / "data.json", [*learned, *held_out], settings)
    summary = train(settings, data=tmp_path / "data.json", output_dir=tmp_path)
    assert summary.metrics["exact_decomposition"] == 1
    assert summary.metrics["raw_validity"] == 1
