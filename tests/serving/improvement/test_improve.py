"""A planner that serves learns from its own successes whom to ask; what was kept aside it never learns from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from orchestai import Orchestrator
from orchestai.config import Config
from orchestai.data.training_file import load_training_data
from orchestai.planner.checkpoint import save_planner
from orchestai.planner.slots.model import PlannerModel
from orchestai.serving.improvement import improve
from orchestai.serving.improvement.improve import Improvement, JudgedRuns
from orchestai.serving.improvement.registry import PlannerRegistry
from orchestai.serving.store import Feedback
from orchestai.tasks.asked_task import asked_task
from orchestai.tasks.splits import part_of
from orchestai.tasks.task import Task
from orchestai.workers.pool import worker_cards
from support.models.model_server import ModelServer, model_server
from support.serving.right_and_wrong import PRICE

SUBJECTS = ("list", "town", "river", "number", "date", "word", "song", "tree", "road", "ship", "bird", "stone")
VERBS = ("sort", "count", "name", "weigh", "paint", "measure", "find", "describe")
INSTRUCTIONS = [f"Please {verb} the {subject}." for subject in SUBJECTS for verb in VERBS]

GUESSING = {
    "kind": "model",
    "model": "guessing",
    "strategy": "chat",
    "card": "Guesses.",
    "temperature": 0.7,
    "max_new_tokens": 16,
    "price_per_mtok_out_usd": 10.0,
}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


def settings(url: str) -> Config:
    """Two workers, and one that samples, at a server."""

    def worker(name: str) -> dict[str, object]:
        function = f"support.serving.right_and_wrong:{name}"
        return {"kind": "function", "function": function, "card": f"Says {name}.", "price_per_call_usd": PRICE}

    return Config(
        planner={
            "base": "none",
            "d_model": 48,
            "num_layers": 1,
            "max_subtasks": 3,
            "max_fallbacks": 0,
            "min_confidence": 0.0,
        },
        workers={
            "models": {"guessing": {"kind": "openai_api", "name": "guessing", "base_url": url}},
            "pool": {"wrong": worker("wrong"), "right": worker("right"), "guessing": GUESSING},
            "cascade": ["guessing"],
            "cache_dir": None,
        },
        tasks={"suite": "hotpotqa"},
        sandbox={"level": "process"},
        training={
            "phase1_supervised": {"learning_rate": 3e-3, "batch_size": 8, "num_epochs": 4, "synthetic_augmentations": 0}
        },
    )


def mistaken(config: Config) -> PlannerModel:
    """A planner of random weights that asks the wrong worker."""
    for seed in count():
        torch.manual_seed(seed)
        planner = PlannerModel(config.planner, worker_cards(config.workers)).eval()
        (plan,) = planner.plan([asked_task(INSTRUCTIONS[0], "text", config.tasks)])
        if plan.workflow is not None and plan.workflow.subtasks[-1].worker == "wrong":
            return planner
    raise AssertionError


async def served(config: Config, logs: Path) -> dict[str, Feedback]:
    """Half of all instructions by each worker, as if a preference had chosen it."""
    running = []
    async with Orchestrator.open(None, config, log=logs) as orchestrator:
        for place, instruction in enumerate(INSTRUCTIONS):
            worker = ("right", "wrong")[place % 2]
            running.append(orchestrator.run(instruction, answer="text", worker=worker))
        results = await asyncio.gather(*running)
    return {result.receipt.run_id: Feedback(answer="right") for result in results}


async def test_where_nothing_succeeded_reward_teaches_the_planner_that_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the only expert had failed, `improve` ended: no execution could be learned from."""
    begun = []

    async def train_phase2(config: Config, *, checkpoint: Path, output_dir: Path) -> SimpleNamespace:
        begun.append(checkpoint)
        return SimpleNamespace(exit_if_stopped=lambda: None)

    monkeypatch.setattr(improve, "train_phase2", train_phase2)
    parts = ["train"] * improve.FEWEST_TASKS + ["validation"]
    tasks = [
        Task(task_id=str(n), suite="served", split=part, instruct_prompt=f"Say {n}.", answers=("right",))
        for n, part in enumerate(parts)
    ]
    incumbent = tmp_path / "incumbent.pth"
    candidate, learned = await improve.train_candidate(settings(""), JudgedRuns([], tasks), [], incumbent, tmp_path)
    assert (begun, candidate) == ([incumbent], tmp_path / "phase2" / "phase2_best.pth")
    assert learned["phase2_tasks"] == improve.FEWEST_TASKS


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_served_successes_make_a_better_planner(server: ModelServer, tmp_path: Path) -> None:
    config, registry = settings(server.url), PlannerRegistry(tmp_path / "planners")
    save_planner(tmp_path / "mistaken.pth", mistaken(config), config)
    registry.add(tmp_path / "mistaken.pth")
    said = await served(config, tmp_path / "logs")

    lineage = await Improvement(config, tmp_path / "logs", said, registry, tmp_path / "work", phase2=False).run()
    assert (lineage.parent, lineage.learned["runs"]) == (1, len(INSTRUCTIONS))
    assert lineage.learned["succeeded"] == len(INSTRUCTIONS) // 2
    assert lineage.trial is not None
    assert lineage.trial.is_better, lineage.trial
    registry.promote(lineage.version)

    trial = lineage.trial
    assert "guessing asked" in trial.sampling_how
    assert (trial.sampling and trial.sampling.mean, trial.over_sampling and trial.over_sampling.mean) == (0.0, 1.0)
    assert trial.candidate_usd is not None
    assert trial.sampling_usd is not None
    assert 1 <= trial.sampling_usd / trial.candidate_usd < 1.5, "as much money, but for the last sample"

    learned = {example.instruction for example in load_training_data(tmp_path / "work" / "training_data.json", config)}
    aside = {text for text in INSTRUCTIONS if part_of(text, config.tasks) == "test"}
    assert lineage.trial.difference.n == len(aside)
    assert not learned & aside
