"""A tiny language model as policy, trained by the real trainer in any layout. Run as a script by several processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.distributed.tensor import DTensor

from orchestai.config import LoraConfig
from orchestai.data.training_file import save_training_data
from orchestai.errors import InfrastructureError
from orchestai.lm import loading
from orchestai.lm.causal import CausalPolicy
from orchestai.planner.base import Plan
from orchestai.tasks.task import Task
from orchestai.training.learner import Learner
from orchestai.training.supervised.train import train as train_phase1
from orchestai.types import SampleSpec, Scores, TokenDecisions
from orchestai.workflow import Subtask, Workflow
from support.models.language_model import tiny_model
from support.training import bandit
from support.training.language_phase1 import config
from support.training.phase1 import examples

LONGEST = 4
PHASE1 = "phase 1"


class Scribe(nn.Module):
    """After a prompt, the task's kind, a Llama writes up to four tokens; each is a worker, by its remainder."""

    max_slots = LONGEST

    def __init__(self, *, lora: bool = False, value_head: bool = False) -> None:
        super().__init__()
        model = tiny_model()
        if lora:
            loading.add_adapter(model, LoraConfig(rank=4))
        self.policy = CausalPolicy(model, frozenset({0}), value_head=value_head)

    def plan(self, tasks: Sequence[Task], *, sample: SampleSpec | None = None) -> list[Plan]:
        prompts = [torch.tensor([60 + bandit.kind_of(task), 70, 71]) for task in tasks]
        written = self.policy.sample(
            prompts,
            [0] * len(tasks) if sample is None else sample.seeds,
            temperature=0.0 if sample is None else sample.temperature,
            max_new_tokens=LONGEST,
        )
        plans = []
        for prompt, completion in zip(prompts, written, strict=True):
            names = [str(token % bandit.WORKERS) for token in completion.ids.tolist()]
            subtasks = [Subtask(id=str(i), instruction="", worker=name) for i, name in enumerate(names)]
            decisions = TokenDecisions(prompt, completion.ids)
            plans.append(Plan(Workflow(subtasks), True, decisions, None if sample is None else completion.logp))
        return plans

    def score(
        self, tasks: Sequence[Task], decisions: Sequence[TokenDecisions], *, explore: Any, temperature: float
    ) -> Scores:
        found = self.policy.score([one.prompt for one in decisions], [one.completion for one in decisions], temperature)
        step = torch.full(found.mask.shape[1:], -1)
        return Scores(found.logp, found.entropy, found.value, found.mask, step)

    def cost(self, decisions: Sequence[TokenDecisions]) -> int:
        return sum(len(row.prompt) + len(row.completion) for row in decisions)

    def reference(self) -> AbstractContextManager[object] | None:
        return loading.reference(self.policy.model) if loading.has_adapter(self.policy.model) else None


SETTINGS = {
    "num_episodes": 20,
    "tasks_per_update": 5,
    "num_generations": 4,
    "num_minibatches": 3,
    "micro_batch_tokens": 20,
    "learning_rate": 0.003,
    "max_grad_norm": 0.5,
    "eval_every": 2,
    "lr_schedule": "constant",
}
RUNS: dict[str, dict[str, Any]] = {
    "GRPO": {"kl_coef": 0.1},
    "PPO": {"algorithm": "PPO"},
    "LoRA": {"kl_coef": 0.1, "num_iterations": 2},
}


def run(output: Path, name: str, *, resume: bool = False, **changes: Any) -> Scribe:
    """Train, and give the policy as it is then."""
    policy = Scribe(lora=name == "LoRA", value_head=name == "PPO")
    arguments = {key: changes.pop(key) for key in ("execute", "timeout_s") if key in changes}
    config = bandit.settings(**SETTINGS | RUNS[name] | changes)
    trainer = bandit.trainer(output, config, policy, **arguments)
    asyncio.run(trainer.train(resume=resume))
    if "RANK" in os.environ and os.environ["RANK"] == "0":
        (updates,) = trainer.updates.values()
        (output.parent.parent / "held.json").write_text(json.dumps(held(updates.learner)))
    return policy


def held(learner: Learner) -> float:
    """The share of the learned weights that this process holds."""
    mine = whole = 0
    for parameter in learner._learned.values():
        part = parameter.to_local() if isinstance(parameter, DTensor) else getattr(parameter, "ds_tensor", parameter)
        mine += part.numel()
        whole += getattr(parameter, "ds_numel", parameter.numel())
    return mine / whole


def half(output: Path, name: str) -> None:
    """The first half of a run, to be resumed in another layout."""
    run(output, name, num_episodes=10)


def teach(output: Path, *, epochs: int = 2, resume: bool = False) -> None:
    """Phase 1 of the model `tiny`."""
    settings = config(num_epochs=epochs, language={"micro_batch_tokens": 100})
    data = output.parent / f"{output.name}.json"
    save_training_data(data, examples(), settings)
    train_phase1(settings, data=data, output_dir=output, resume=resume)


def every_run(output: Path, names: Sequence[str]) -> None:
    """Phase 1 and some of `RUNS`: at one go, in two halves, the second half of what another layout began in `begun`,
    and the first half for another layout to go on with in `left`."""
    Accelerator.end_training = lambda self: None  # it ends the processes' group, which the runs here share
    teach(output / "whole" / PHASE1)
    teach(output / "halves" / PHASE1, epochs=1)
    teach(output / "halves" / PHASE1, resume=True)
    teach(output / "begun" / PHASE1, resume=True)
    teach(output / "left" / PHASE1, epochs=1)
    for name in names:
        run(output / "whole" / name, name)
        half(output / "halves" / name, name)
        run(output / "halves" / name, name, resume=True)
        run(output / "begun" / name, name, resume=True)
        half(output / "left" / name, name)


def trouble(output: Path, kind: str) -> None:
    """Process 1 dies, or hangs, while it executes plans of the first update."""
    rank, seen = int(os.environ["RANK"]), 0

    async def execute(task: Task, workflow: Workflow, sample: int = 0) -> Any:
        nonlocal seen
        seen += 1
        if rank == 1 and seen > len(bandit.TASKS) / 2:  # its share of the evaluation before the first update
            (output / "pid").write_text(str(os.getpid()))
            if kind == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(600)
        return await bandit.execute(task, workflow, sample)

    try:
        run(output / "run", "GRPO", execute=execute, timeout_s=5.0 if kind == "hang" else 60.0)
    except InfrastructureError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        os._exit(1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[2] == "train":
        every_run(Path(sys.argv[1]), sys.argv[3:])
    else:
        trouble(Path(sys.argv[1]), sys.argv[2])
