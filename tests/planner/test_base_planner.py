"""The base planner: shipped, begun with, kept while a pool is learned, and told apart from others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from orchestai.config import Config
from orchestai.data.training_file import TrainingExample, save_training_data
from orchestai.planner.checkpoint import load_planner
from orchestai.planner.files import FIRST, LAST, METADATA, locate
from orchestai.training.supervised.train import train
from orchestai.workflow import Subtask, Workflow

POOL = {
    "texts": {"kind": "tool", "tool": "calculator", "card": "Changes texts: reverses words, counts letters."},
    "sums": {"kind": "tool", "tool": "calculator", "card": "Works out sums and products of numbers."},
}
STEPS = {"reverse the word": "texts", "add the numbers": "sums", "count its letters": "texts", "multiply them": "sums"}
TEXT = "Reverse the word, then count its letters and tell me the result."


def config(**planner: object) -> Config:
    phase1 = {"num_epochs": 12, "learning_rate": 3e-3, "lr_schedule": "linear"}
    return Config(planner=planner, workers={"pool": POOL}, training={"phase1_supervised": phase1})


def examples() -> list[TrainingExample]:
    """Two steps each, done right by one worker of the pool, which the opposite of its card says."""
    other = {"texts": "sums", "sums": "texts"}
    made = []
    for number, (first, second) in enumerate([(a, b) for a in STEPS for b in STEPS if a != b] * 4):
        text = f"{first.capitalize()} {number} and {second}."
        places = [(0, len(first)), (text.index(second), text.index(second) + len(second))]
        steps = [
            Subtask(id=str(i), instruction=words, worker=other[STEPS[words]], span=place)
            for i, (words, place) in enumerate(zip((first, second), places, strict=True))
        ]
        rewards = {"success": 1, "cost": 0, "latency": 0}
        split = "validation" if number % 6 == 0 else "train"
        made.append(TrainingExample(instruction=text, workflow=Workflow(steps), rewards=rewards, split=split))
    return made


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool")
    save_training_data(folder / "data.json", examples(), config())
    train(config(), data=folder / "data.json", output_dir=folder)
    return folder / "phase1_best.pth"


def test_the_shipped_planner_splits_everyday_text_and_goes_by_cards() -> None:
    planner = load_planner("base", config().planner, config().workers)
    [plan] = planner.plan_instructions([TEXT])
    assert [step.instruction.lower() for step in plan.workflow.subtasks][:2] == [
        "reverse the word",
        "count its letters",
    ]
    assert plan.workflow.dependencies()[:2] == [[], [0]]
    assert {step.worker for step in plan.workflow.subtasks[:2]} == {"texts"}
    assert 0 < plan.confidence <= 1


def test_a_pool_is_learned_and_steps_and_edges_stay_as_they_were(trained: Path) -> None:
    base = load_planner("base", config().planner, config().workers)
    learned = load_planner(trained, config().planner, config().workers)
    for part in ("reader", "decoder"):
        before, after = getattr(base, part).state_dict(), getattr(learned, part).state_dict()
        assert all(torch.equal(value, after[key]) for key, value in before.items())
    [plan], [other] = (planner.plan_instructions([TEXT]) for planner in (learned, base))
    assert plan.confidence == pytest.approx(other.confidence)
    assert {step.worker for step in plan.workflow.subtasks[:2]} == {"sums"}  # as the examples say, not the cards


# A planner is found by the folder of its run, whatever kind it is and whichever phase wrote last.


def make(path: Path, *, language: bool) -> Path:
    if not language:
        path.write_bytes(b"weights")
        return path
    folder = path.with_suffix("")
    folder.mkdir()
    (folder / METADATA).write_text("{}")
    return folder


@pytest.mark.parametrize("language", [False, True])
def test_a_run_s_folder_stands_for_its_latest_planner(tmp_path: Path, language: bool) -> None:
    """As a job gets it whose checkpoint is another job's whole output."""
    assert locate(tmp_path) == tmp_path, "nothing is there yet"
    first = make(tmp_path / FIRST, language=language)
    assert locate(tmp_path) == first == locate(tmp_path / FIRST)
    last = make(tmp_path / LAST, language=language)
    assert locate(tmp_path) == last
    assert locate(first) == first
