"""Phase 2: make attempts, reward them, make the better ones likelier."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from accelerate import Accelerator

from orchestai.config import RlConfig
from orchestai.config.section import Section
from orchestai.errors import UserError
from orchestai.execution.reward import invalid_margin
from orchestai.lm.token_policy import TokenPolicy
from orchestai.outcome import UnscorableCounts
from orchestai.planner.files import without_suffix
from orchestai.progress import console
from orchestai.storage import artifacts
from orchestai.tasks.task import Task
from orchestai.training.distributed import exchange, interleave, layout_of, on_all, on_main, share
from orchestai.training.learner import autocast_format
from orchestai.training.rl.advantages import Learning, make_batch, rank_invalid
from orchestai.training.rl.credit import Credit
from orchestai.training.rl.formulas import PPO, RECIPES, Recipe
from orchestai.training.rl.monitoring import (
    ENOUGH,
    SAMPLES_PER_UPDATE,
    StopSignals,
    TrainingReport,
    describe_batch,
    describe_episodes,
    describe_policies,
    flat_warning,
    growth,
    judge,
    measure_gaps,
    note_attempts,
    sample_rows,
    successes,
    watch,
)
from orchestai.training.rl.policy import Collector, Episodes, Policy
from orchestai.training.rl.run_state import BEST, Checkpoints, Position, RunFolder, RunSummary, length_of
from orchestai.training.rl.update import Updates
from orchestai.types import DecisionKind, Episode

_CAUTION = 3
_DEVIATION = 1e-3
"""Largest distance of a ratio from 1 at an update's first step that rounding explains."""


@dataclass(frozen=True)
class TaskSets:
    """What attempts are made at.

    Attributes:
        train: tasks to learn from, in an order drawn with the seed.
        validation: held out; the best checkpoint is the best on these, by the rule of `best`.
    """

    train: Sequence[Task]
    validation: Sequence[Task]


@dataclass(frozen=True)
class LearningRules:
    """How attempts count.

    Attributes:
        credit: how rewards are credited.
        unscorable_limit: the largest share of a batch that may be unscorable.
        explore: kinds of decision that learn, where policies decide more than tokens.
        cautious: whether a policy that solves much is changed little (`Trainer.boldness`).
    """

    credit: Credit
    unscorable_limit: float
    explore: frozenset[DecisionKind] = frozenset()
    cautious: bool = False


class Trainer:
    """Trains policies by reward, with PPO or GRPO and its variants: one planner, or the policies of agents.

    In every process of an `accelerate launch` the trainer has the same policies and the same tasks. Each process makes
    the attempts at its share of the tasks; then all of them know all episodes, and each computes its share of every
    optimizer step. The result is that of one process, whichever way `Learner` lays out the weights.

    Each policy learns from the trajectories that name it, in batches and optimizer steps of its own.

    Args:
        policies: what learns, by the name that trajectories give; no two of them learn a parameter together.
        collector: makes attempts with `policies`.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        policies: Mapping[str, Policy],
        collector: Collector,
        config: RlConfig,
        tasks: TaskSets,
        rules: LearningRules,
        run: RunFolder,
    ) -> None:
        if not tasks.train or not tasks.validation:
            raise UserError("phase 2 needs training and validation tasks; choose another suite or split")
        if len(policies) > 1 and not layout_of(accelerator).several:
            raise UserError(
                f"{len(policies)} policies learn, but FSDP2 and ZeRO lay out the weights of one: set "
                "agents.policies=shared, or launch with accelerate_configs/ddp.yaml"
            )
        self.accelerator = accelerator
        self.policies = dict(policies)
        self.collector = collector
        self.config = config
        self.recipe = choose_recipe(config)
        self.rules = rules
        self.tasks = list(tasks.train)
        self._by_id = {task.task_id: task for task in self.tasks}
        self.eval_tasks = list(tasks.validation[: config.eval_tasks])
        self.run, self.output = run, run.path
        self.position = Position(versions=dict.fromkeys(self.policies, 0))
        self.batches = TaskBatches(accelerator, collector, config, self.tasks)
        self.updates = {
            name: Updates(accelerator, policy, self.recipe, config, rules.explore)
            for name, policy in self.policies.items()
        }
        learners = {name: updates.learner for name, updates in self.updates.items()}
        self.checkpoints = Checkpoints(accelerator, run, config, learners)

    @property
    def boldness(self) -> float:
        """Share of the learning rate and of the entropy bonus that counts: the less, the more was solved at the start.

        A planner that fails has everything to find; bold steps make one forget that knows its workers. All counts where
        too few validation tasks tell. Of planners of heads the bonus falls as the square of the learning rate.
        """
        solved = self.position.start_success.values()
        return (1 - fmean(solved)) ** _CAUTION if self.rules.cautious and len(solved) >= ENOUGH else 1.0

    async def train(self, *, resume: bool = False) -> RunSummary:
        """Train until `num_episodes` tasks have been attempted, or `num_updates` batches learned from.

        A signal that asks to stop is obeyed after the present update, whose state is saved.
        """
        config = self.config
        if resume:
            self.position = self.checkpoints.load()
        position = self.position
        stopped = ""
        with (
            TrainingReport(self.output, self.accelerator, config=config, position=position, resumed=resume) as report,
            StopSignals(report.say) as signals,
        ):
            await self.collector.sync(position.versions)
            while True:
                ended = bool(stopped) or position.done(config) >= length_of(config)
                # any process may have got it, and all act on it
                received = exchange(self.accelerator, signals.received, "asking whether a signal came")
                asked = next((one for one in received if one is not None), None)
                if asked is not None:
                    self.checkpoints.save(position, {})
                elif position.evaluated != position.update and (ended or position.update % config.eval_every == 0):
                    await self._evaluate(report)
                elif self.checkpoints.due(position):
                    self.checkpoints.save(position, {})
                if ended or asked is not None:
                    break
                sampled = await self.batches.next(position)
                episodes = [episode for group in sampled.groups for episode in group]
                self._refuse_if_broken(episodes, f"episodes of update {position.update + 1}")
                learnings = {
                    name: make_batch(
                        of_policy(episodes, name),
                        self._by_id,
                        self.recipe,
                        config,
                        policy.max_slots,
                        self.rules.credit,
                    )
                    for name, policy in self.policies.items()
                }
                ignored = sorted({name for learning in learnings.values() for name in learning.ignored})
                if ignored and not position.update:
                    report.say(
                        f"credit by {self.rules.credit.rule} does not look at the rewards of {' and '.join(ignored)}"
                    )
                started = time.perf_counter()
                step_metrics = self._learn(learnings)
                self._warn_of_ratios(report, step_metrics)
                seconds = {**sampled.seconds, "updating": time.perf_counter() - started}
                step_metrics |= await self.collector.sync(position.versions)
                seconds["syncing"] = time.perf_counter() - started - seconds["updating"]

                position.update += 1
                position.consumed += len(sampled.groups)
                metrics = describe_batch(episodes, learnings.values()) | step_metrics
                metrics |= {f"seconds_{name}": value for name, value in seconds.items()}
                metrics["slots_per_second"] = metrics["slots_per_plan"] * len(episodes) / sum(seconds.values())
                stopped = watch(position, metrics, config)
                if flat := flat_warning(position, metrics):
                    report.say(f"update {position.update}: {flat}")
                note_attempts(position, episodes)
                report.update(position, metrics, sample_rows(episodes[:SAMPLES_PER_UPDATE], learnings.values()))
            if asked is not None:
                stopped = f"{asked.name}; go on with --resume (resume=True) and --output_dir {self.output}"
            if stopped:
                report.say(f"stopped after update {position.update}: {stopped}")
            summary = RunSummary.of(position, stopped, asked)
            if summary.complaint:
                report.say(summary.complaint)
        return summary

    def _warn_of_ratios(self, report: TrainingReport, step_metrics: Mapping[str, float]) -> None:
        off = step_metrics.get("max_first_deviation", 0.0)
        if not self.position.ratio_warned and off > _DEVIATION:
            self.position.ratio_warned = True
            report.say(
                f"update {self.position.update + 1}: a ratio was {off:.2g} off 1 before any step was taken, more than "
                f"{_DEVIATION:g}: what draws and what learns compute differently; compute in float32 without TF32 "
                "(torch.backends.cuda.matmul), or set training.phase2_rl.sampler_correction"
            )

    def _learn(self, learnings: Mapping[str, Learning]) -> dict[str, float]:
        """Let each policy learn from what it has, at the learning rate of this update."""
        position = self.position
        progress = position.done(self.config) / length_of(self.config)
        schedule = rate_factor(self.config, position.update, progress)
        factor, bonus = schedule * self.boldness, schedule**2 * self.boldness if self.rules.cautious else 1.0
        updated = {}
        for name, updates in self.updates.items():
            updates.learner.set_rates(factor)
            steps, updated[name] = updates.learn(learnings[name], position.update, bonus)
            position.versions[name] += steps
        return {"learning_rate": self.config.learning_rate * factor} | describe_policies(updated)

    async def _evaluate(self, report: TrainingReport) -> None:
        """Judge greedy attempts at the validation tasks, and save."""
        parts = await on_all(
            self.accelerator,
            self.collector.exploit(share(self.eval_tasks, self.accelerator)),
            f"exchanging the episodes of the evaluation after update {self.position.update}",
        )
        episodes = [episode for group in interleave([part.groups for part in parts]) for episode in group]
        self._refuse_if_broken(episodes, f"validation episodes after update {self.position.update}")
        episodes = rank_invalid(episodes, invalid_margin(self.rules.credit.unit))
        metrics = describe_episodes(episodes)
        reward = metrics["reward"]
        standing = judge(self.position, reward, successes(episodes))
        compared = standing.success_change.tasks if standing.success_change else ENOUGH
        if self.position.evaluated is None and compared < ENOUGH:
            report.say(
                f"success is compared on {compared} validation task{'s' if compared != 1 else ''}, too few to tell a "
                f"loss from chance, so that what loses any cannot become the best; have {ENOUGH} or more: raise "
                f"training.phase2_rl.eval_tasks (now {self.config.eval_tasks}) or tasks.val_fraction, or add tasks"
            )
        if self.position.evaluated is None and self.boldness < 1:
            report.say(f"since this much is solved, {self.boldness:.2g} of learning_rate and entropy_coef count")
        self.position.evaluated = self.position.update
        gaps = measure_gaps(self.position, episodes)
        report.evaluation(self.position.update, metrics, standing, gaps)
        if warning := growth(self.position, gaps):
            report.say(f"update {self.position.update}: {warning}")
        self.checkpoints.save(self.position, {"validation": metrics}, best=standing.best)

    def _refuse_if_broken(self, episodes: Sequence[Episode], what: str) -> None:
        UnscorableCounts(episode.outcome for episode in episodes).check(self.rules.unscorable_limit, what)


def of_policy(episodes: Sequence[Episode], policy: str) -> list[Episode]:
    """The episodes, each with those trajectories alone from which the policy learns."""
    return [
        replace(e, trajectories=tuple(t for t in e.trajectories if t.trainable and t.policy == policy))
        for e in episodes
    ]


def rate_factor(config: RlConfig, update: int, progress: float) -> float:
    """The share of `learning_rate` that an update learns with: its schedule's, times the warm-up's.

    Args:
        progress: share of the run before this update.
    """
    warm = min(1.0, (update + 1) / config.warmup_updates) if config.warmup_updates else 1.0
    decay = {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}
    return warm * decay[config.lr_schedule]


def choose_recipe(config: RlConfig) -> Recipe:
    """The recipe that the configuration names."""
    recipe = PPO if config.algorithm == "PPO" else RECIPES[config.loss_type]
    if recipe.on_policy and config.num_iterations * config.num_minibatches > 1:
        raise UserError(
            f"training.phase2_rl.loss_type: {config.loss_type} has no ratio to correct for stale samples; set "
            "num_iterations and num_minibatches to 1, or choose grpo, dapo or another with a ratio"
        )
    return recipe


class TaskBatches:
    """Goes through the tasks pass by pass, each shuffled anew, and has them attempted."""

    def __init__(self, accelerator: Accelerator, collector: Collector, config: RlConfig, tasks: Sequence[Task]) -> None:
        self._accelerator = accelerator
        self._collector = collector
        self._config = config
        self._tasks = list(tasks)

    def tasks_from(self, consumed: int, count: int) -> list[Task]:
        """At most `count` tasks after those that were consumed; none is of another pass than the first."""
        epoch, first = divmod(consumed, len(self._tasks))
        order = random.Random(f"{self._config.seed}/{epoch}").sample(self._tasks, len(self._tasks))
        if self._config.num_updates is None:
            count = min(count, self._config.num_episodes - consumed)
        return order[first : first + count]

    async def next(self, position: Position) -> Episodes:
        """The episodes of the next update, of all processes, in the order of the tasks; to be called by all together.

        Raises:
            UserError, RuntimeError: as `on_all` does.
        """
        tasks = share(self.tasks_from(position.consumed, self._config.tasks_per_update), self._accelerator)
        parts = await on_all(
            self._accelerator,
            self._collector.explore(tasks, update=position.update),
            f"exchanging the episodes of update {position.update + 1}",
        )
        groups = interleave([part.groups for part in parts])
        return Episodes(groups, parts[self._accelerator.process_index].seconds)


async def run_phase2(
    trainer: Trainer, settings: Section, *, command: str, sandbox_level: str, resume: bool
) -> RunSummary:
    """Train, whatever learns; say beside it what the run was made with, and on the terminal how it ended.

    Args:
        settings: the whole configuration.
        command: what the run is called.
    """
    run, accelerator = trainer.run, trainer.accelerator
    facts = {"seed": trainer.config.seed, "sandbox_level": sandbox_level, "identity": run.identity}
    info = partial(artifacts.save_run_info, run.path, settings, command=command, **facts)
    on_main(accelerator, info, "beginning")
    summary = await trainer.train(resume=resume)
    accelerator.end_training()
    if accelerator.is_main_process and summary.signal is None:
        best = run.path / BEST
        kept = best if best.exists() else without_suffix(best)
        console.print(f"{kept}: {summary} on {len(trainer.eval_tasks)} validation tasks", highlight=False)
    return summary


def prepare_policy(policy: TokenPolicy, config: RlConfig, accelerator: Accelerator) -> None:
    """Keep what the KL is measured from, and multiply in the format of the steps."""
    if policy.has_adapter and config.kl_coef > 0:
        policy.keep_reference()
    policy.multiply_in(autocast_format(accelerator))
