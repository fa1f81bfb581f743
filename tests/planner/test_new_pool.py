"""A planner learns what workers are for, not their names: a pool may grow, shrink and change its prices afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestai.config import Config
from orchestai.data.training_file import Rewards, TrainingExample, save_training_data
from orchestai.planner.checkpoint import load_planner
from orchestai.training.supervised.train import train
from orchestai.workflow import Subtask, Workflow

STEPS = {
    "sort the list": "lists",
    "reverse the list": "lists",
    "count its words": "words",
    "join the words": "words",
    "double the number": "numbers",
    "square the number": "numbers",
}
CARDS = {
    "words": "Splits, joins and counts the words of a text.",
    "lists": "Sorts and reverses lists.",
    "numbers": "Arithmetic with numbers.",
}


def config(cards: dict[str, str], *, new: bool = False, **prices: float) -> Config:
    pool = {
        name: {"kind": "tool", "tool": "calculator", "card": card, "price_per_call_usd": prices.get(name, 1e-5)}
        for name, card in cards.items()
    }
    return Config(
        planner={
            "base": "none",
            "d_model": 48,
            "num_layers": 1,
            "max_subtasks": 3,
            "max_fallbacks": 0,
            "allow_new_pool": new,
        },
        workers={"pool": pool},
        training={"phase1_supervised": {"learning_rate": 3e-3, "batch_size": 8, "num_epochs": 25, "patience": 25}},
    )


def example(first: str, second: str, split: str) -> TrainingExample:
    words = (first, second)
    instruction = f"First, {first}. Then, {second}."
    start = [instruction.index(first), instruction.rindex(second)]
    subtasks = [
        Subtask(
            id=str(i),
            instruction=step,
            worker=STEPS[step],
            depends_on=(str(i - 1),) if i else (),
            span=(at, at + len(step)),
        )
        for i, (at, step) in enumerate(zip(start, words, strict=True))
    ]
    rewards = Rewards(success=1, cost=0, latency=0)
    return TrainingExample(instruction=instruction, workflow=Workflow(subtasks), rewards=rewards, split=split)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    pairs = [(a, b) for a in STEPS for b in STEPS if a != b]
    examples = [example(a, b, "validation" if i % 6 == 0 else "train") for i, (a, b) in enumerate(pairs)]
    settings = config(CARDS)
    save_training_data(folder / "data.json", examples, settings)
    train(settings, data=folder / "data.json", output_dir=folder)
    return folder / "phase1_best.pth"


def chosen(checkpoint: Path, settings: Config) -> dict[str, str]:
    """Step -> worker, in plans of this pool."""
    planner = load_planner(checkpoint, settings.planner, settings.workers)
    plans = planner.plan_instructions([f"First, {a}. Then, {b}." for a, b in zip(STEPS, [*STEPS][1:], strict=False)])
    return {s.instruction: s.worker for plan in plans for s in plan.workflow.subtasks}


def test_the_pool_that_was_trained_with(checkpoint):
    assert chosen(checkpoint, config(CARDS)) == STEPS


def test_other_names_in_another_order(checkpoint):
    renamed = {f"new-{name}": CARDS[name] for name in reversed(CARDS)}
    assert chosen(checkpoint, config(renamed, new=True)) == {step: f"new-{name}" for step, name in STEPS.items()}


def test_a_worker_removed_leaves_the_others_their_steps(checkpoint):
    left = {name: card for name, card in CARDS.items() if name != "words"}
    found = chosen(checkpoint, config(left, new=True))
    assert {step: worker for step, worker in found.items() if STEPS[step] != "words"} == {
        step: worker for step, worker in STEPS.items() if worker != "words"
    }
    assert set(found.values()) <= set(left)


def test_a_worker_added_in_the_place_of_another_gets_its_steps_by_what_its_card_says(checkpoint):
    changed = {name: card for name, card in CARDS.items() if name != "lists"}
    changed["order"] = "Puts a list in order, or reverses a list."
    found = chosen(checkpoint, config(changed, new=True))
    assert found["sort the list"] == found["reverse the list"] == "order"
    assert found["count its words"] == "words"


def test_an_unrelated_worker_added_changes_nothing(checkpoint):
    assert chosen(checkpoint, config(CARDS | {"painter": "Paints pictures in oil."}, new=True)) == STEPS
