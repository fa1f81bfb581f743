"""How fast the planner is, how much memory it takes, and how both grow.

    python benchmarks/planner.py [--seconds 3] [--json FILE]

Varied in turn are the instruction's length, the number of subtasks and the size of the pool. Measured are plans per
second (one at a time; 64 at a time; 64 at a time of instructions that were never read before), phase-1 examples per
second, phase-2 updates per second (64 sampled plans of 8 tasks, scored, and an optimizer step; executing them is not
part of it), and the peak memory of the process. Weights and words are random; that changes no amount of work. Each
line is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple, dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import cast

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch.utils.data import default_collate

from orchestai.config import PlannerConfig
from orchestai.planner.slots.losses import PlanTargets
from orchestai.planner.slots.model import PlannerModel
from orchestai.storage import artifacts
from orchestai.tasks.task import Task
from orchestai.training.supervised.dataset import WorkflowDataset
from orchestai.types import DecisionKind, SampleSpec
from orchestai.workers.base import WorkerCard

WORDS = ("sort", "list", "count", "words", "then", "from", "the", "input", "take", "result", "number", "add", "date")
EXPLORE: frozenset[DecisionKind] = frozenset({"worker", "fallback", "edge"})
BATCH = 64
GROUPS = 8
"""Tasks of a phase-2 update; each is planned `BATCH / GROUPS` times."""


@dataclass(frozen=True)
class Setting:
    tokens: int = 240
    subtasks: int = 4
    workers: int = 5


@dataclass(frozen=True)
class Figures:
    plans_per_s: float
    plans_per_s_batched: float
    plans_per_s_unread: float
    phase1_examples_per_s: float
    phase2_updates_per_s: float
    peak_memory_mb: float


SETTINGS = [
    Setting(),
    *(Setting(tokens=tokens) for tokens in (60, 120, 480)),
    *(Setting(subtasks=subtasks) for subtasks in (2, 8, 16)),
    *(Setting(workers=workers) for workers in (2, 20, 100)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each figure")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    rows = []
    for setting in track(SETTINGS, description="settings", console=Console(stderr=True)):
        with multiprocessing.get_context("spawn").Pool(1) as process:
            rows.append((setting, process.apply(measure, (setting, args.seconds))))
    Console().print(table(rows))
    if args.json:
        artifacts.write_json(args.json, [asdict(setting) | asdict(figures) for setting, figures in rows])


def measure(setting: Setting, seconds: float) -> Figures:
    planner = planner_of(setting)
    fresh = instructions(setting.tokens)
    known = [next(fresh) for _ in range(BATCH)]
    planner.plan_instructions(known)
    return Figures(
        plans_per_s=rate(lambda: planner.plan_instructions(known[:1]), seconds),
        plans_per_s_batched=BATCH * rate(lambda: planner.plan_instructions(known), seconds),
        plans_per_s_unread=BATCH * rate(lambda: planner.plan_instructions([next(fresh) for _ in known]), seconds),
        phase1_examples_per_s=32 * rate(phase1_step(planner, known[:32], setting), seconds),
        phase2_updates_per_s=rate(phase2_step(planner, known[:GROUPS]), seconds),
        peak_memory_mb=peak_memory_mb(),
    )


def planner_of(setting: Setting) -> PlannerModel:
    """A planner of the default size that always plans `max_subtasks` steps."""
    cards = [WorkerCard(f"w{i}", f"Worker number {i}.", 10.0 ** -(i % 6), "model") for i in range(setting.workers)]
    planner = PlannerModel(PlannerConfig(max_subtasks=setting.subtasks), cards)
    torch.nn.init.constant_(planner.decoder.go_on.bias, 1e3)
    return planner.to("cuda" if torch.cuda.is_available() else "cpu")


def instructions(tokens: int) -> Iterator[str]:
    """Endless different instructions; every word is one token."""
    for number in count():
        yield " ".join(Random(number).choices(WORDS, k=tokens))


def phase1_step(planner: PlannerModel, known: list[str], setting: Setting) -> Callable[[], object]:
    n = setting.subtasks
    width = setting.tokens // n
    dataset = WorkflowDataset(
        instructions=known,
        subtask_sequences=[[text[i * width : (i + 1) * width] for i in range(n)] for text in known],
        task_types=[[0] * n for _ in known],
        dependencies=[[[i - 1] if i else [] for i in range(n)] for _ in known],
        model_selections=[[i % setting.workers for i in range(n)] for _ in known],
        max_subtasks=n,
    )
    batch = default_collate([dataset[i] for i in range(len(dataset))])
    device = planner.card_features.device
    targets = cast(PlanTargets, {key: value.to(device) for key, value in batch["targets"].items()})
    optimizer = torch.optim.AdamW(planner.parameters())

    def step() -> None:
        losses = planner.compute_supervised_loss(planner(batch["instruction"], targets), targets, lambda_dag=0.3)
        optimizer.zero_grad()
        losses["total_loss"].backward()
        optimizer.step()

    return step


def phase2_step(planner: PlannerModel, known: list[str]) -> Callable[[], object]:
    tasks = [
        Task(task_id=text, suite="", instruct_prompt=text, test="") for text in known for _ in range(BATCH // GROUPS)
    ]
    optimizer = torch.optim.AdamW(planner.parameters(), lr=1e-6)
    seeds = count()

    def step() -> None:
        plans = planner.plan(tasks, sample=SampleSpec(EXPLORE, 1.0, [next(seeds) for _ in tasks]))
        decisions = [plan.decisions for plan in plans if plan.decisions is not None]
        scores = planner.score(tasks, decisions, explore=EXPLORE, temperature=1.0)
        old = torch.stack([plan.logp for plan in plans if plan.logp is not None]).to(scores.logp.device)
        advantage = torch.randn(len(tasks), 1, device=scores.logp.device)
        optimizer.zero_grad()
        (-(scores.logp - old).exp() * advantage * scores.mask).sum().div(scores.mask.sum()).backward()
        optimizer.step()

    return step


def rate(work: Callable[[], object], seconds: float) -> float:
    """Calls per second, after one call that does not count."""
    work()
    calls, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds or not calls:
        work()
        calls += 1
    return calls / elapsed


def peak_memory_mb() -> float:
    """Of the process, and on the GPU where there is one."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return own + (torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else 0.0)


def table(rows: list[tuple[Setting, Figures]]) -> Table:
    shown = Table(title=f"{torch.get_num_threads()} threads" if not torch.cuda.is_available() else "GPU")
    for name in (*Setting.__dataclass_fields__, *Figures.__dataclass_fields__):
        shown.add_column(name.replace("_per_s", "/s").replace("_", " "), justify="right")
    for setting, figures in rows:
        changed = [value != default for value, default in zip(astuple(setting), astuple(Setting()), strict=True)]
        cells = [f"[bold]{value}[/]" if c else str(value) for value, c in zip(astuple(setting), changed, strict=True)]
        shown.add_row(*cells, *(f"{value:.3g}" if value < 100 else f"{value:.0f}" for value in astuple(figures)))
    return shown


if __name__ == "__main__":
    main()
