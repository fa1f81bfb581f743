"""The real planner model learns whom to trust from hidden tests that really run; only the workers are scripted."""

from __future__ import annotations

import json

import pytest
import torch
from accelerate import Accelerator

from orchestai.config import ExecutionConfig, Phase2Config, PlannerConfig
from orchestai.execution.reward import AbsoluteReward
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.planner.slots.model import PlannerModel
from orchestai.sandbox import Sandbox
from orchestai.storage import digests
from orchestai.tasks.task import Task
from orchestai.training.rl.advantages import plan_credit
from orchestai.training.rl.monitoring.saving import RunFolder
from orchestai.training.rl.rollouts.rollout import Rollout
from orchestai.training.rl.trainer import LearningRules, TaskSets, Trainer
from orchestai.workers.base import Answer, Request, WorkerCard

CARDS = [
    WorkerCard("careful", "Gives its first argument back.", 0.001, "model"),
    WorkerCard("careless", "Loses what it is given.", 0.0001, "model"),
    WorkerCard("dear", "Gives its first argument back, at a price.", 1.0, "model"),
]
SOURCES = {"careful": "return args[0]", "careless": "return None", "dear": "return args[0]"}
PRICES = {card.name: card.price_usd for card in CARDS}
TASKS = [
    Task(
        task_id=f"same/{word}",
        suite="same",
        instruct_prompt=f"Take the {word}, keep the {word} as it is and give the {word} back.",
        test="import unittest\n\n\nclass TestCases(unittest.TestCase):\n    def test_same(self):\n"
        f"        self.assertEqual(task_func({word!r}), {word!r})\n",
        parameters=("x",),
    )
    for word in ("number", "word", "list", "date")
]


class Scripted:
    async def answer(self, name: str, request: Request) -> Answer:
        assert request.signature is not None
        return Answer(text=f"def {request.signature.name}(*args):\n    {SOURCES[name]}\n", cost_usd=PRICES[name])


@pytest.mark.parametrize("credit", ["plan", "step"])
async def test_the_planner_learns_whom_to_trust_and_what_it_costs(tmp_path, credit):
    torch.manual_seed(0)
    planner = PlannerModel(PlannerConfig(d_model=32, num_layers=1, max_subtasks=3, max_fallbacks=0), CARDS)
    config = Phase2Config(
        learning_rate=3e-3,
        num_episodes=4 * 12,
        tasks_per_update=4,
        num_generations=8,
        alpha=1.0,
        explore=("worker",),
        loss_type="dr_grpo",
        credit=credit,
        eval_every=6,
    )
    with Sandbox(workers=2) as sandbox:
        executor = JudgingExecutor(Scripted(), sandbox, ExecutionConfig())
        rollout = Rollout(
            planner,
            executor.execute,
            AbsoluteReward(1.0, "all", None, beta=0.5, gamma_latency=0.0, shaped_reward=0.0),
            config,
            concurrency=8,
        )
        trainer = Trainer(
            Accelerator(cpu=True),
            {"planner": planner},
            rollout,
            config,
            TaskSets(TASKS, TASKS),
            LearningRules(plan_credit(config), 0.1, frozenset(config.explore)),
            RunFolder(tmp_path, lambda path, facts: digests.save_torch(path, planner.state_dict()), {}),
        )
        summary = await trainer.train()
    lines = [json.loads(line) for line in (tmp_path / "phase2_metrics.jsonl").read_text().splitlines()]
    rows = [line for line in lines if "loss" in line]
    assert abs(rows[0]["max_ratio"] - 1) < 1e-4, "the planner scores its own samples as it drew them"
    assert rows[0]["unscorable_share"] == 0
    assert summary.best_reward > 0.95
    for plan in planner.plan(TASKS):
        assert plan.workflow is not None
        assert {subtask.worker for subtask in plan.workflow.subtasks} == {"careful"}
