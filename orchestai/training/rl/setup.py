"""Phase 2 from a configuration: its tasks and its reward, training, and validation without it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeAlias

import torch
from accelerate import Accelerator
from rich.console import Console

from orchestai.config import (
    Config,
    ExecutionConfig,
    LoggingConfig,
    RewardsConfig,
    TasksConfig,
    WorkersConfig,
)
from orchestai.config.rl import RewardWeights
from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.reward import Reference, RewardForm, invalid_margin, reward_form, typical
from orchestai.execution.runtime import open_runtime
from orchestai.outcome import Unscorable
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.checkpoint import estimate_state_of, load_planner, reference_of, save_planner, seen_by
from orchestai.planner.files import LAST, STATE_KEY, fingerprint_of
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.planner.slots.decisions import STRUCTURE
from orchestai.planner.slots.losses import OTHERS
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.scores import FEWEST
from orchestai.progress import console
from orchestai.rewards.scorers import refuse_unscorable
from orchestai.rewards.unit_tests import not_installed
from orchestai.storage import artifacts
from orchestai.storage.folder_lock import locked
from orchestai.tasks.splits import NOTHING_SEEN, SeenTasks, open_splits
from orchestai.tasks.suite import data_fingerprint
from orchestai.tasks.task import Task
from orchestai.training.calibration import calibrate_anew, with_reference
from orchestai.training.distributed import interleave, layout_of, on_all, open_accelerator, share
from orchestai.training.rl.advantages import plan_credit, rank_invalid
from orchestai.training.rl.monitoring import describe_episodes, sample_rows
from orchestai.training.rl.rollout import ROLE, Execute, Rollout, open_sampler
from orchestai.training.rl.run_state import STATE, RunFolder, RunSummary, identity
from orchestai.training.rl.trainer import LearningRules, TaskSets, Trainer, prepare_policy, run_phase2
from orchestai.workers.pool import worker_cards

Run: TypeAlias = tuple[float, float] | Unscorable
"""An execution's cost in US dollars and latency in milliseconds, or why it could not be judged."""
EXECUTIONS = 32
"""How many are made to measure a reference, the workers in turn."""


@dataclass(frozen=True)
class Measurement:
    """How a reference is measured: what the pool's workers, in turn, cost and take for whole tasks.

    Each is asked as a plan of one subtask, so that the reference does not depend on the planner, which may not be able
    to plan yet.

    Attributes:
        tasks: to measure on.
        concurrency: executions at a time.
        accelerator: of the processes that share the work; None where this one is alone.
    """

    workers: WorkersConfig
    tasks: Sequence[Task]
    execute: Execute
    concurrency: int
    accelerator: Accelerator | None = None

    async def runs(self) -> list[Run]:
        workers = list(self.workers.pool)
        jobs = list(islice(zip(cycle(self.tasks), cycle(workers), strict=False), max(EXECUTIONS, len(workers))))
        slots = asyncio.Semaphore(self.concurrency)

        async def run(task: Task, worker: str) -> Run:
            (plan,) = WholePlanner(worker).plan([task])
            assert plan.workflow is not None
            async with slots:
                try:
                    execution = await self.execute(task, plan.workflow)
                except InfrastructureError as error:
                    return Unscorable.of(error)
            if isinstance(execution.outcome, Unscorable):
                return execution.outcome
            return execution.total_cost, execution.total_latency_ms

        if self.accelerator is None:
            return list(await asyncio.gather(*(run(*job) for job in jobs)))
        mine = asyncio.gather(*(run(*job) for job in share(jobs, self.accelerator)))
        return interleave(await on_all(self.accelerator, mine, "measuring the reference of the reward"))


async def open_reward(
    rewards: RewardsConfig, weights: RewardWeights, known: Reference | None, measurement: Measurement
) -> RewardForm:
    """The configured reward, with the known reference or else one that is measured now.

    A known reference of 0 US dollars says nothing about a pool that has prices, and gives way to what is measured.

    Args:
        known: of the logs or the checkpoint.
    """
    if known is not None and not known.cost_usd and rewards.cost_weight > 0 and rewards.cost_reference_usd is None:
        known = None if any(card.price_usd > 0 for card in worker_cards(measurement.workers)) else known
    form = reward_form(rewards, weights, known)
    if form is not None:
        return form
    runs = await measurement.runs()
    judged = [found for found in runs if not isinstance(found, Unscorable)]
    source = f"median of {len(judged)} executions of whole tasks, measured now"
    form = reward_form(rewards, weights, typical(judged, source))
    if form is None:
        reason = next(found.reason for found in runs if isinstance(found, Unscorable))
        raise UserError(
            "what an execution typically costs and how long it takes could not be measured, since none of "
            f"{len(runs)} could be judged; the first: {reason}. Mend that, or set rewards.cost_reference_usd and "
            "rewards.latency_reference_ms"
        )
    return form


logger = logging.getLogger(__name__)
_JUDGED, _HOTTEST, _HALVINGS = 64, 128.0, 6
"""Plans by which it is judged how sure a planner is of its workers; the largest temperature; steps to the right one."""


async def train(config: Config, *, checkpoint: Path, output_dir: Path, resume: bool = False) -> RunSummary:
    """Train the planner of `checkpoint` by reward and keep the best in `output_dir`.

    Args:
        resume: go on with the run in `output_dir`, which had the same configuration, tasks and checkpoint.
    """
    with locked(output_dir, "phase2"):
        return await _train(config, checkpoint, output_dir, resume)


async def _train(config: Config, checkpoint: Path, output_dir: Path, resume: bool) -> RunSummary:
    artifacts.check_run(output_dir / STATE, resume=resume)
    phase2 = config.training.phase2_rl
    planner = load_planner(checkpoint, config.planner, config.workers, value_head=phase2.algorithm == "PPO")
    credit, explore = plan_credit(phase2), frozenset(phase2.explore)
    if credit.by_step:
        _refuse_credit_by_step(config.execution, config.rewards, planner)
    if not isinstance(planner, LanguagePlanner):
        if phase2.mask_truncated:
            raise UserError(
                "training.phase2_rl.mask_truncated: this planner writes no tokens, so none of its plans is too long; "
                "leave it out, or train a language planner (docs/language.md)"
            )
        planner.learn_only(explore)
    of_pool = planner if isinstance(planner, PlannerModel) and explore - STRUCTURE else None
    restructured = planner if isinstance(planner, PlannerModel) and explore & STRUCTURE else None
    cautious, before = isinstance(planner, PlannerModel), seen_by(checkpoint)
    tasks, eval_tasks = split_tasks(config.tasks, before)
    refuse_unscorable([*tasks, *eval_tasks])
    # what a step gives depends on the steps before it
    if credit.by_step and (text := next((task for task in tasks if not task.wants_program), None)) is not None:
        raise UserError(
            f"training.phase2_rl.credit: steps cannot be credited apart where they read each other's texts, as in "
            f"{text.place}; set credit to plan"
        )
    eval_tasks = eval_tasks[: phase2.eval_tasks]
    if of_pool is not None and (temperature := soften(of_pool, tasks[:_JUDGED])) > 1:
        logger.warning(
            "%s is so sure of its workers that it would hardly draw others: its logits of workers are divided by %.2g, "
            "which leaves its plans as they are",
            checkpoint,
            temperature,
        )
    if restructured and (count := len(with_reference(eval_tasks))) < FEWEST:
        logger.warning(
            "nobody will know how sure the trained planner is of its plans, since the plans of fewer than %d of the %d "
            "validation tasks are known (%d): run will follow them whatever planner.min_confidence says",
            FEWEST,
            len(eval_tasks),
            count,
        )
    seen = before | SeenTasks.of(*([task.instruction for task in some] for some in (tasks, eval_tasks)))
    # A planner of heads is small, and gains nothing from another format.
    precision = planner.config.language.mixed_precision if isinstance(planner, LanguagePlanner) else "no"
    accelerator = open_accelerator(output_dir, config.logging, config.training.timeout_s, precision)
    if isinstance(planner, LanguagePlanner):
        prepare_policy(planner, phase2, accelerator)
    elif layout_of(accelerator).split:
        raise UserError(
            f"{checkpoint}: a planner of heads is small, and held whole in every process; launch it with "
            "accelerate_configs/ddp.yaml"
        )

    named = config.rewards.reward_weights
    sections = config.model_dump(mode="json", include={"planner", "workers", "execution", "rewards", "sandbox"})
    of_workers = {STATE_KEY: estimate_state_of(checkpoint)}
    same = {**identity(sections, phase2, tasks, eval_tasks), "checkpoint": fingerprint_of(checkpoint)}
    async with (
        open_runtime(config.workers, config.execution, config.sandbox, rewards=named) as runtime,
        open_sampler(
            config.planner.language,
            planner,
            [*tasks, *eval_tasks],
            temperature=phase2.temperature,
            accelerator=accelerator,
            output=output_dir,
        ) as sampler,
    ):
        execute = runtime.executor.execute
        known = reference_of(output_dir / LAST if resume else checkpoint)
        measurement = Measurement(config.workers, tasks, execute, config.execution.concurrency, accelerator)
        reward = await open_reward(config.rewards, phase2, known, measurement)
        rollout = Rollout(planner, execute, reward, phase2, concurrency=config.execution.concurrency, sampler=sampler)

        def save(path: Path, about: Mapping[str, Any]) -> None:
            if restructured is not None and about["update"]:
                calibrate_anew(restructured, eval_tasks)
            of_run = {"seed": phase2.seed, "data_fingerprint": data_fingerprint(tasks), **seen.facts()}
            reference = None if reward.reference is None else asdict(reward.reference)
            save_planner(path, planner, config, **of_run, reward_reference=reference, **of_workers, **about)

        trainer = Trainer(
            accelerator,
            {ROLE: planner},
            rollout,
            phase2,
            TaskSets(tasks, eval_tasks),
            LearningRules(credit, config.tasks.unscorable_limit, explore, cautious),
            RunFolder(output_dir, save, same),
        )
        if accelerator.is_main_process:
            for remark in reward.remarks():
                console.print(remark, highlight=False, markup=False)
        return await run_phase2(trainer, config, command="phase2", sandbox_level=runtime.sandbox.level, resume=resume)


@torch.no_grad()
def soften(planner: PlannerModel, tasks: Sequence[Task]) -> float:
    """Divide the logits of workers by a temperature, where they are surer than phase 1 leaves them, so that they are as
    unsure; gives the temperature, at least 1.

    Args:
        tasks: by whose plans this is judged.
    """
    plans = [(task, plan.decisions) for task, plan in zip(tasks, planner.plan(tasks), strict=True)]
    judged = [task for task, decided in plans if decided is not None]
    decisions = [decided for _, decided in plans if decided is not None]
    if not judged or len(planner.cards) < 2:
        return 1.0
    other = OTHERS / len(planner.cards)
    odds = torch.tensor([1 - OTHERS + other, *[other] * (len(planner.cards) - 1)])
    wanted = float(torch.special.entr(odds).sum())

    def entropy(temperature: float) -> float:
        scores = planner.score(judged, decisions, explore=frozenset({"worker"}), temperature=temperature)
        return float(scores.entropy.sum() / scores.mask.sum())

    low, high = 1.0, 1.0
    while entropy(high) < wanted and high < _HOTTEST:
        low, high = high, 2 * high
    for _ in range(_HALVINGS if high > 1 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if entropy(middle) < wanted else (low, middle)
    planner.selector.matcher.soften(high)
    return high


def _refuse_credit_by_step(
    execution: ExecutionConfig, rewards: RewardsConfig, planner: PlannerModel | LanguagePlanner
) -> None:
    """Raise where decisions belong to no step, results may depend on other steps, or a plan may succeed without one."""
    if isinstance(planner, LanguagePlanner):
        raise UserError(
            "training.phase2_rl.credit: a language model's tokens belong to no one step; set credit to plan"
        )
    dependent = {
        f"execution.assembler={execution.assembler}": execution.assembler != "dataflow",
        f"execution.max_cost_usd={execution.max_cost_usd}": execution.max_cost_usd is not None,
        f"rewards.success={rewards.success}": rewards.success != "all",
    }
    for setting in (setting for setting, found in dependent.items() if found):
        raise UserError(f"training.phase2_rl.credit: steps cannot be credited apart with {setting}; set credit to plan")


def split_tasks(config: TasksConfig, seen: SeenTasks = NOTHING_SEEN) -> tuple[list[Task], list[Task]]:
    """Tasks to learn from, and tasks to select on; see `TaskSplits`.

    Tasks that need modules which are not installed are left out, and from those to select on what was learned before.

    Args:
        seen: what the weights have seen before.
    """
    splits = open_splits(config)
    if said := splits.describe():
        logger.warning(said)
    held_out = [task for task in splits.validation if not seen.has_learned(task.instruction)]
    if len(held_out) < len(splits.validation):
        logger.warning(
            "left out %d of %d validation tasks, which the checkpoint has learned from",
            len(splits.validation) - len(held_out),
            len(splits.validation),
        )
        if not held_out:
            raise UserError(
                "phase 2 has no validation task left: the checkpoint has learned from all of them; prepare its "
                "training file with the same tasks.val_fraction, test_fraction and test_fold, and train it again"
            )
    return _that_can_run(splits.train)[: config.limit], _that_can_run(held_out)[: config.limit]


def _that_can_run(tasks: Sequence[Task]) -> list[Task]:
    """Without their modules every program for them fails."""
    absent = {task.task_id: not_installed(task) for task in tasks}
    kept = [task for task in tasks if not absent[task.task_id]]
    if len(kept) < len(tasks):
        logger.warning(
            "left out %d of %d tasks, which need modules that are not installed: %s",
            len(tasks) - len(kept),
            len(tasks),
            ", ".join(sorted({module for modules in absent.values() for module in modules})),
        )
    return kept


VALIDATION = "validation.json"


async def validate(config: Config, *, checkpoint: Path, output_dir: Path | None = None) -> dict[str, float]:
    """Execute the best plans for the tasks that phase 2 holds out, in all processes of an `accelerate launch`.

    The figures are those of an evaluation during training.

    Args:
        output_dir: folder in which they and the plans are written to validation.json; None writes nothing.
    """
    phase2 = config.training.phase2_rl
    planner = load_planner(checkpoint, config.planner, config.workers)
    fingerprint = fingerprint_of(checkpoint)
    if output_dir is not None and (path := output_dir / VALIDATION).exists():
        try:
            of = json.loads(path.read_text(encoding="utf-8"))["fingerprint"]
        except (OSError, ValueError, KeyError, TypeError):
            of = None
        if of != fingerprint:
            raise UserError(f"{path}: is the validation of another planner; choose another output folder, or remove it")
    learned, held_out = split_tasks(config.tasks, seen_by(checkpoint))
    tasks = held_out[: phase2.eval_tasks]
    refuse_unscorable([*learned, *tasks])
    accelerator = open_accelerator(None, LoggingConfig(), config.training.timeout_s)
    planner.to(accelerator.device)
    named = config.rewards.reward_weights
    async with open_runtime(config.workers, config.execution, config.sandbox, rewards=named) as runtime:
        execute = runtime.executor.execute
        measurement = Measurement(config.workers, learned, execute, config.execution.concurrency, accelerator)
        reward = await open_reward(config.rewards, phase2, reference_of(checkpoint), measurement)
        rollout = Rollout(planner, execute, reward, phase2, concurrency=config.execution.concurrency)
        parts = await on_all(accelerator, rollout.exploit(share(tasks, accelerator)), "exchanging episodes")
        level = runtime.sandbox.level
    compared = [group[0] for group in interleave([part.groups for part in parts])]
    episodes = rank_invalid(compared, invalid_margin(phase2.alpha))
    metrics = describe_episodes(episodes)
    rows = sample_rows(episodes)
    if metrics["unscorable_share"] >= 1:
        raise UserError(f"{checkpoint}: no episode could be judged; the first: {rows[0]['unscorable']}")
    if accelerator.is_main_process:
        facts = {
            "checkpoint": str(checkpoint),
            "fingerprint": fingerprint,
            "data_fingerprint": data_fingerprint(tasks),
            "sandbox_level": level,
            "versions": artifacts.versions(),
        }
        written = ""
        if output_dir is not None:
            artifacts.write_json(output_dir / VALIDATION, {**metrics, "tasks": len(tasks), **facts, "plans": rows})
            written = f"; written: {output_dir / VALIDATION}"
        lost = f", {metrics['unscorable_share']:.1%} unscorable" if metrics["unscorable_share"] else ""
        Console(stderr=True).print(
            f"{checkpoint}: reward {metrics['reward']:.3f}, success {metrics['success']:.1%}, tests "
            f"{metrics['tests']:.1%}, valid plans {metrics['valid_share']:.1%}{lost} on {len(tasks)} validation tasks"
            f"{written}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    accelerator.end_training()
    return metrics
