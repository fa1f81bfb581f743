"""Trains agents: a workflow, the weights that its roles speak with, tasks, and the trainer of phase 2."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import torch
from pydantic import ValidationError
from rich.console import Console
from typing_extensions import Unpack

from orchestai.agents.agent_factory import AgentFactory, AgentRollout
from orchestai.agents.policies import Policies, fingerprint_of, open_policies, save_policies, seen_by
from orchestai.agents.recipes import load_agent_config, words_of
from orchestai.agents.registry import find
from orchestai.agents.workflow import AgentWorkflow
from orchestai.agents.workflows.single import SingleAgent
from orchestai.config import TasksConfig
from orchestai.config.agents import AgentConfig
from orchestai.errors import UserError
from orchestai.execution.runtime import open_sandbox
from orchestai.lm.backends.canary import CanaryProbe
from orchestai.lm.backends.synced import Processes, SyncedBackend, SyncedPolicy, local_backend, open_backend
from orchestai.planner.files import last_of
from orchestai.sandbox import Sandbox
from orchestai.storage import artifacts
from orchestai.storage.folder_lock import locked
from orchestai.tasks.splits import NOTHING_SEEN, PARTS, SeenTasks, divide
from orchestai.tasks.task import Task
from orchestai.threads import BackgroundLoop
from orchestai.training.distributed import open_accelerator
from orchestai.training.rl.advantages import worked_example
from orchestai.training.rl.credit import Credit
from orchestai.training.rl.rollout import processes_of
from orchestai.training.rl.run_state import STATE, RunFolder, RunSummary, identity
from orchestai.training.rl.setup import split_tasks
from orchestai.training.rl.trainer import LearningRules, TaskSets, Trainer, choose_recipe, prepare_policy, run_phase2
from orchestai.workers.pool import WorkerPool

_CANARY = "Count from one to twenty in words."


@asynccontextmanager
async def open_backends(
    config: AgentConfig, policies: Policies, processes: Processes, sync_dir: Path
) -> AsyncIterator[dict[str, SyncedBackend]]:
    """A backend for each policy that learns, by its name; all are closed at the end, and where one does not open.

    Raises:
        UserError: as `open_backend` says.
    """
    async with AsyncExitStack() as stack:
        opened: dict[str, SyncedBackend] = {}
        for name, policy in policies.learning.items():
            opened[name] = open_backend(
                config.model,
                SyncedPolicy(
                    policy.policy,
                    name,
                    config.model.dtype,
                    config.adapters if policy.has_adapter else None,
                ),
                CanaryProbe(
                    torch.tensor(policies.chat_renderers[name].render([{"role": "user", "content": _CANARY}])),
                    config.training.phase2_rl.temperature,
                ),
                processes,
                section="model",
                sync_dir=sync_dir,
            )
            stack.push_async_callback(opened[name].close)
        yield opened


T = TypeVar("T")
_TOGETHER = "agent_class and env_class go together, and without workflow_class: one agent acts in one environment"


class SingleAgentArgs(TypedDict, total=False):
    """One agent in an environment (see `SingleAgent`): their classes, and what each is made with."""

    agent_class: Callable[..., Any] | None
    env_class: Callable[..., Any] | None
    agent_args: Mapping[str, Any] | None
    env_args: Mapping[str, Any] | None


class AgentTrainer:
    """Trains the agents of a workflow.

    Args:
        workflow_class: the workflow; by default the one that `config` names.
        workflow_args: settings of the workflow, instead of those in `config`; functions and tools may be among them.
        config: a configuration, the file of one, or its values: a mapping, or overrides such as `a.b.c=value`.
        train_dataset, val_dataset: tasks to learn from, and tasks held out; by default those that `config` names. Of
            `train_dataset` alone a share is held out, by `config`'s `tasks.val_fraction`.
        output_dir: folder for checkpoints, metrics and samples.
        checkpoint: agents to start from (a folder such as OUTPUT/phase2_best or OUTPUT/checkpoint_20).
        single: one agent in an environment instead of a workflow.

    Raises:
        UserError: the configuration cannot be read, or names what is not there.
    """

    def __init__(
        self,
        workflow_class: type[AgentWorkflow] | None = None,
        workflow_args: Mapping[str, Any] | None = None,
        config: AgentConfig | Path | str | Mapping[str, Any] | Sequence[str] | None = None,
        train_dataset: Sequence[Task] | None = None,
        val_dataset: Sequence[Task] | None = None,
        output_dir: Path | str = "checkpoints",
        checkpoint: Path | str | None = None,
        **single: Unpack[SingleAgentArgs],
    ) -> None:
        if unknown := sorted(single.keys() - SingleAgentArgs.__annotations__.keys()):
            raise TypeError(f"AgentTrainer() got an unexpected keyword argument {unknown[0]!r}")
        if single.get("agent_class") is not None or single.get("env_class") is not None:
            if workflow_class is not None:
                raise UserError(_TOGETHER)
            # The settings of `SingleAgent`
            classes = {"agent_class": single.get("agent_class"), "env_class": single.get("env_class")}
            if None in classes.values():
                raise UserError(_TOGETHER)
            single_agent = {
                **classes,
                "agent_args": dict(single.get("agent_args") or {}),
                "env_args": dict(single.get("env_args") or {}),
            }
            workflow_class, workflow_args = SingleAgent, {**(workflow_args or {}), **single_agent}
        name = f"{workflow_class.__module__}:{workflow_class.__qualname__}" if workflow_class else ""
        if isinstance(config, (str, Path)):
            config = load_agent_config(name, Path(config))
        elif not isinstance(config, AgentConfig):
            config = load_agent_config(name, None, words_of(config or ()))
        self.config = config
        self.workflow_class = workflow_class or find(config.agents.workflow)
        self.workflow_args = {**config.agents.workflow_args, **(workflow_args or {})}
        self.output_dir = Path(output_dir)
        self.checkpoint = last_of(checkpoint) if checkpoint else None
        self._train, self._val = train_dataset, val_dataset

    def train(self, *, resume: bool = False) -> RunSummary:
        """Train; the best agents are in OUTPUT/phase2_best, the last ones in OUTPUT/phase2_last.

        Where an event loop runs already, as in a notebook, it waits.

        Args:
            resume: go on with the run in the output folder.

        Raises:
            UserError: as `Trainer` says, another process trains into the folder, or models, workers or tasks are not
                there.
        """
        with locked(self.output_dir, "phase2"):
            # What `work` gives, from a loop of its own; one in another thread, where this thread has one
            work = self._run(resume)
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return asyncio.run(work)
            with closing(BackgroundLoop()) as loop:
                return loop.run(work)

    async def _run(self, resume: bool) -> RunSummary:
        artifacts.check_run(self.output_dir / STATE, resume=resume)
        config = self.config
        phase2 = config.training.phase2_rl
        before = NOTHING_SEEN if self.checkpoint is None else seen_by(self.checkpoint)
        tasks, eval_tasks = self._tasks(before)
        eval_tasks = eval_tasks[: phase2.eval_tasks]
        seen = before | SeenTasks.of(*([task.instruction for task in some] for some in (tasks, eval_tasks)))
        if config.agents.epochs is not None:
            phase2 = phase2.model_copy(update={"num_episodes": config.agents.epochs * len(tasks)})
        accelerator = open_accelerator(
            self.output_dir, config.logging, config.training.timeout_s, config.model.mixed_precision
        )
        console = Console(stderr=True, quiet=not accelerator.is_main_process)
        ppo = phase2.algorithm == "PPO"
        roles = self.workflow_class.roles
        policies = open_policies(config, roles, checkpoint=self.checkpoint, value_head=ppo)
        if not policies.learning:
            raise UserError("agents.frozen: every role is frozen, so nothing would learn; leave one out")
        for policy in policies.learning.values():
            prepare_policy(policy, phase2, accelerator)
        console.print(str(policies), highlight=False)
        for name, renderer in policies.chat_renderers.items():
            if renderer.forks:
                console.print(f"{name}: every turn is read anew, since {renderer.forks}", highlight=False)
        credit = Credit(
            config.agents.credit,
            turn_advantage_coef=config.agents.turn_advantage_coef,
            gamma=config.agents.gamma,
        )
        console.print(worked_example(credit, choose_recipe(phase2), phase2, roles))
        # what decides the course of a run, beside the settings of phase 2 and the tasks
        sections = config.model_dump(mode="json", include={"agents", "model", "workers"})
        sections["agents"]["workflow_args"] = {name: _named(value) for name, value in self.workflow_args.items()}
        same = {
            **identity(sections, phase2, tasks, eval_tasks),
            "checkpoint": None if self.checkpoint is None else fingerprint_of(self.checkpoint),
        }
        async with (
            open_stage(config, self.workflow_class, self.workflow_args) as stage,
            open_backends(config, policies, processes_of(accelerator), self.output_dir / "sync") as backends,
        ):
            factory = AgentFactory(config, policies, backends, stage.pool)
            rollout = AgentRollout(stage.workflow, factory, policies, phase2, concurrency=config.agents.concurrency)

            def save(path: Path, facts: Mapping[str, Any]) -> None:
                save_policies(path, policies, config, {**facts, **seen.facts()})

            trainer = Trainer(
                accelerator,
                policies.learning,
                rollout,
                phase2,
                TaskSets(tasks, eval_tasks),
                LearningRules(credit, config.tasks.unscorable_limit),
                RunFolder(self.output_dir, save, same),
            )
            try:
                return await run_phase2(
                    trainer, config, command="agents", sandbox_level=stage.sandbox.level, resume=resume
                )
            finally:
                await rollout.stop()

    def _tasks(self, seen: SeenTasks) -> tuple[list[Task], list[Task]]:
        if self._train is not None and self._val is not None:
            return list(self._train), list(self._val)
        if self._train is not None:
            return _divided(self._train, self.config.tasks, seen)
        tasks, eval_tasks = split_tasks(self.config.tasks, seen)
        return tasks, list(self._val or eval_tasks)


def _divided(tasks: Sequence[Task], settings: TasksConfig, seen: SeenTasks) -> tuple[list[Task], list[Task]]:
    """Tasks to learn from and, of those that were not learned before, to select on, by a hash of their words."""
    parts = divide([task.instruction for task in tasks], settings, ("train", "validation"))
    learned, held_out = ([task for task, its in zip(tasks, parts, strict=True) if its == part] for part in PARTS[:2])
    held_out = [task for task in held_out if not seen.has_learned(task.instruction)]
    if not learned or not held_out:
        raise UserError(
            f"AgentTrainer(train_dataset=...): {len(tasks)} tasks, of which none can be held out to select on; pass "
            "val_dataset, or tasks of other words"
        )
    return learned, held_out


def _named(setting: Any) -> Any:
    """A setting of a workflow as a value of JSON; functions and tools by their names, which are the same next time."""
    try:
        return json.loads(json.dumps(setting))
    except TypeError:
        named = setting if hasattr(setting, "__qualname__") else type(setting)
        return f"{named.__module__}:{named.__qualname__}"


@dataclass(frozen=True)
class Stage:
    """A workflow with what it needs: open sandbox and workers."""

    workflow: AgentWorkflow
    sandbox: Sandbox
    pool: WorkerPool | None


@asynccontextmanager
async def open_stage(
    config: AgentConfig, workflow_class: type[AgentWorkflow], workflow_args: Mapping[str, Any]
) -> AsyncIterator[Stage]:
    """Start the sandbox and the workers of frozen roles, and close them at the end.

    Raises:
        UserError: a setting of the workflow is wrong, or a model or a server is not there.
    """
    try:
        args = workflow_class.Args(**workflow_args)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(["agents.workflow_args", *map(str, first["loc"])])
        raise UserError(f"{key}: {first['msg']} (got {first['input']!r})") from None
    if strange := sorted(set(config.agents.reward_weights) - set(workflow_class.rewards)):
        raise UserError(f"agents.reward_weights: {workflow_class.__name__} names no reward {strange[0]!r}")
    with open_sandbox(config.sandbox, config.execution) as sandbox:
        if config.workers is None:
            yield Stage(workflow_class(args, sandbox), sandbox, None)
            return
        async with WorkerPool.from_config(config.workers, sandbox, bare=config.agents.frozen.values()) as pool:
            await pool.check()
            yield Stage(workflow_class(args, sandbox), sandbox, pool)


@asynccontextmanager
async def open_agents(config: AgentConfig, checkpoint: Path | None) -> AsyncIterator[AgentRollout]:
    """Load the models of roles that are not frozen, start sandbox and workers, and close them at the end.

    Args:
        checkpoint: a folder of trained agents; None takes the models as they are.

    Raises:
        UserError: the workflow, a model or a worker is not there.
    """
    workflow_class = find(config.agents.workflow)
    policies = open_policies(config, workflow_class.roles, checkpoint=checkpoint)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for policy in policies.learning.values():
        policy.to(device)
    async with open_stage(config, workflow_class, config.agents.workflow_args) as stage:
        backends = {name: local_backend(policy.policy) for name, policy in policies.learning.items()}
        factory = AgentFactory(config, policies, backends, stage.pool)
        phase2 = config.training.phase2_rl
        rollout = AgentRollout(stage.workflow, factory, policies, phase2, concurrency=config.agents.concurrency)
        try:
            yield rollout
        finally:
            await rollout.stop()
