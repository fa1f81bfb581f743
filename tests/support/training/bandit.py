"""A planner so small that its best plan is known, trained by the real trainer. Run as a script by several processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from torch import Tensor, nn
from torch.nn.functional import pad

from orchestai.config import Config, LoggingConfig, Phase2Config
from orchestai.execution.result import JudgedExecution
from orchestai.execution.reward import Reference, RewardForm, reward_form
from orchestai.outcome import Scored
from orchestai.planner.base import Plan
from orchestai.storage import digests
from orchestai.tasks.task import Task
from orchestai.training.distributed import open_accelerator
from orchestai.training.rl.advantages import plan_credit
from orchestai.training.rl.rollout import ROLE, Rollout
from orchestai.training.rl.run_state import RunFolder, identity
from orchestai.training.rl.trainer import LearningRules, TaskSets, Trainer
from orchestai.types import Decisions, SampleSpec, Scores, TokenDecisions
from orchestai.workflow import Subtask, Workflow

WORKERS, STEPS, KINDS = 4, 3, 6
TASKS = [Task(task_id=str(i), suite="bandit", instruct_prompt=f"task {i}", test="") for i in range(24)]


def kind_of(task: Task) -> int:
    return int(task.task_id) % KINDS


def length_of(kind: int) -> int:
    return 1 + kind % STEPS


def best_worker(kind: int, step: int) -> int:
    return (kind + 2 * step) % WORKERS


class Bandit(nn.Module):
    """One table of worker logits and one of values per kind of task; plans have one to three steps."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(KINDS, STEPS, WORKERS))
        self.values = nn.Parameter(torch.zeros(KINDS, STEPS))

    def plan(self, tasks: Sequence[Task], *, sample: SampleSpec | None = None) -> list[Plan]:
        return [self._plan(task, sample, i) for i, task in enumerate(tasks)]

    @torch.no_grad()
    def _plan(self, task: Task, sample: SampleSpec | None, row: int) -> Plan:
        kind, n = kind_of(task), length_of(kind_of(task))
        logits = self.logits[kind]
        logp = (logits / (sample.temperature if sample else 1.0)).log_softmax(-1)
        chosen = logp.argmax(-1)
        if sample is not None:
            generator = torch.Generator().manual_seed(sample.seeds[row])
            chosen = torch.multinomial(logp.exp(), 1, generator=generator)[:, 0]
        workflow = Workflow([Subtask(id=str(i), instruction="", worker=str(int(chosen[i]))) for i in range(n)])
        nothing = torch.zeros(0)
        decisions = Decisions(n, nothing, nothing, chosen, torch.zeros(n, 0), nothing)
        logp = logp.gather(-1, chosen[:, None])[:, 0] * (torch.arange(STEPS) < n)
        return Plan(workflow, True, decisions, logp)

    def score(
        self, tasks: Sequence[Task], decisions: Sequence[Decisions], *, explore: Any, temperature: float
    ) -> Scores:
        kinds = [kind_of(task) for task in tasks]
        mask = torch.arange(STEPS) < torch.tensor([row.length for row in decisions])[:, None]
        logits = self.logits[torch.tensor(kinds)]
        logp = (logits / temperature).log_softmax(-1)
        chosen = torch.stack([row.workers for row in decisions])
        return Scores(
            logp=logp.gather(-1, chosen[..., None])[..., 0] * mask,
            entropy=-(logp.exp() * logp).sum(-1) * mask,
            value=self.values[kinds] * mask,
            mask=mask,
            step=torch.arange(STEPS),
        )

    max_slots = STEPS

    def cost(self, decisions: Sequence[Decisions]) -> int:
        return STEPS * len(decisions)

    def reference(self) -> None:
        return None

    @torch.no_grad()
    def expected_reward(self) -> float:
        """Exact mean, over kinds, of the share of steps given to the best worker; the optimum is 1."""
        chances = self.logits.softmax(-1)
        means = [
            sum(float(chances[kind, step, best_worker(kind, step)]) for step in range(length_of(kind)))
            / length_of(kind)
            for kind in range(KINDS)
        ]
        return sum(means) / KINDS


class Speller(nn.Module):
    """A language model of sorts: after a prompt, the task's kind, it spells workers until it ends or has no room.

    Plans differ in length, and a plan without a worker is invalid. Switching `adapter` off gives the policy of before.
    """

    END, LONGEST = WORKERS, 4
    max_slots = LONGEST

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Parameter(torch.zeros(KINDS, STEPS + 1, WORKERS + 1), requires_grad=False)
        self.adapter = nn.Parameter(torch.zeros(KINDS, STEPS + 1, WORKERS + 1))
        self.values = nn.Parameter(torch.zeros(KINDS, self.LONGEST))
        self.adapted = 1.0

    def _logp(self, kind: int, temperature: float) -> Tensor:
        return ((self.base[kind] + self.adapted * self.adapter[kind]) / temperature).log_softmax(-1)

    @torch.no_grad()
    def plan(self, tasks: Sequence[Task], *, sample: SampleSpec | None = None) -> list[Plan]:
        plans = []
        for i, task in enumerate(tasks):
            logp = self._logp(kind_of(task), sample.temperature if sample else 1.0)
            chosen = logp.argmax(-1)
            if sample is not None:
                generator = torch.Generator().manual_seed(sample.seeds[i])
                chosen = torch.multinomial(logp.exp(), 1, generator=generator)[:, 0]
            ids = chosen.tolist()
            ids = ids[: ids.index(self.END) + 1] if self.END in ids else ids
            names = [str(token) for token in ids if token != self.END]
            subtasks = [Subtask(id=str(k), instruction="", worker=name) for k, name in enumerate(names)]
            decisions = TokenDecisions(torch.tensor([kind_of(task)] * 3), chosen[: len(ids)])
            likely = logp.gather(-1, chosen[:, None])[: len(ids), 0]
            workflow, cut_off = Workflow(subtasks) if names else None, self.END not in ids
            plans.append(Plan(workflow, bool(names), decisions, likely, "no worker", truncated=cut_off))
        return plans

    def score(
        self, tasks: Sequence[Task], decisions: Sequence[TokenDecisions], *, explore: Any, temperature: float
    ) -> Scores:
        width = max(len(row.completion) for row in decisions)
        logp, entropy, value = [], [], []
        for row in decisions:
            kind, n = int(row.prompt[0]), len(row.completion)
            logps = self._logp(kind, temperature)[:n]
            logp.append(pad(logps.gather(-1, row.completion[:, None])[:, 0], (0, width - n)))
            entropy.append(pad(-(logps.exp() * logps).sum(-1), (0, width - n)))
            value.append(pad(self.values[kind, :n], (0, width - n)))
        mask = torch.arange(width) < torch.tensor([len(row.completion) for row in decisions])[:, None]
        step = torch.full((width,), -1)
        return Scores(torch.stack(logp), torch.stack(entropy), torch.stack(value), mask, step)

    def cost(self, decisions: Sequence[TokenDecisions]) -> int:
        prompts = {tuple(row.prompt.tolist()) for row in decisions}
        return sum(map(len, prompts)) + sum(len(row.completion) for row in decisions)

    @contextmanager
    def reference(self) -> Iterator[None]:
        self.adapted = 0.0
        try:
            yield
        finally:
            self.adapted = 1.0


POLICIES: dict[str, type[nn.Module]] = {"bandit": Bandit, "speller": Speller}


async def execute(task: Task, workflow: Workflow, sample: int = 0) -> JudgedExecution:
    kind = kind_of(task)
    chosen = [int(subtask.worker) for subtask in workflow.subtasks]
    right = sum(worker == best_worker(kind, i) for i, worker in enumerate(chosen[: length_of(kind)]))
    total = max(len(chosen), length_of(kind))
    return JudgedExecution(
        task_id=task.task_id,
        workflow=workflow,
        results=(),
        outcome=Scored(right / total),
        tests_passed=right,
        tests_total=total,
    )


def settings(**changes: Any) -> Phase2Config:
    base = {
        "alpha": 1.0,
        "loss_type": "dapo",
        "learning_rate": 0.1,
        "num_episodes": 24 * 15,
        "tasks_per_update": 12,
        "num_generations": 8,
        "entropy_coef": 0.0,
        "explore": ("worker",),
        "eval_every": 10,
    }
    return Phase2Config(**(base | changes))


def configuration(config: Phase2Config, **rewards: Any) -> Config:
    return Config(
        workers={"pool": {"w": {"kind": "tool", "tool": "calculator", "card": "a worker"}}},
        rewards={"success": "fraction", **rewards},
        training={"phase2_rl": config},
    )


def worth(config: Phase2Config, **rewards: Any) -> RewardForm:
    """The configured reward; an execution typically costs a dollar and takes a second."""
    whole = configuration(config, **rewards)
    form = reward_form(whole.rewards, config, Reference(1.0, 1000.0, "given"))
    assert form is not None
    return form


def trainer(output: Path, config: Phase2Config, planner: nn.Module | None = None, **changes: Any) -> Trainer:
    planner = planner or Bandit()
    whole = configuration(config, **changes.pop("rewards", {}))
    tasks = TaskSets(changes.pop("tasks", TASKS), changes.pop("eval_tasks", TASKS))
    rules = LearningRules(plan_credit(config), 0.2, frozenset(config.explore))
    same = identity(whole.model_dump(mode="json", include={"workers"}), config, tasks.train, TASKS)
    save = changes.pop("save_policies", lambda path, facts: digests.save_torch(path, planner.state_dict()))
    reward = changes.pop("reward", None) or worth(config)
    rollout = Rollout(planner, changes.pop("execute", execute), reward, config, concurrency=8)
    accelerator = open_accelerator(output, LoggingConfig(), changes.pop("timeout_s", 120.0))
    assert not changes, f"nothing takes {sorted(changes)}"
    return Trainer(accelerator, {ROLE: planner}, rollout, config, tasks, rules, RunFolder(output, save, same))


def rows(output: Path, key: str = "reward") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (output / "phase2_metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if key in line]


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    """The figures that do not depend on the clock."""
    return {key: value for key, value in row.items() if not key.startswith(("seconds", "slots_per_second"))}


async def main(output: Path, runs: dict[str, dict[str, Any]]) -> None:
    """Train once per run; then where one process gets SIGTERM, and where one fails; note what each was told."""
    for name, changes in runs.items():
        await trainer(output / name, settings(**changes), POLICIES[name.split()[0]]()).train()
    rank = PartialState().process_index

    async def fail_on_one(task: Task, workflow: Workflow, sample: int = 0) -> JudgedExecution:
        if rank == 1:
            raise ValueError(f"no such thing as task {task.task_id}")
        return await execute(task, workflow, sample)

    to_stop = [1]

    async def stop_one(task: Task, workflow: Workflow, sample: int = 0) -> JudgedExecution:
        if rank in to_stop:
            to_stop.remove(rank)
            os.kill(os.getpid(), signal.SIGTERM)
        return await execute(task, workflow, sample)

    stopped = await trainer(output / "stopped", settings(eval_tasks=1), execute=stop_one).train()
    (output / f"stopped{rank}").write_text(f"{stopped.updates} {stopped.stopped.partition(';')[0]}")
    try:
        await trainer(output / "failing", settings(), execute=fail_on_one).train()
    except RuntimeError as error:
        (output / f"error{rank}").write_text(str(error))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
