"""Opens what samples plans in phase 2, and what executes them, as the configuration says."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from orchestai.config import Config
from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.result import Execution
from orchestai.lm.backends.base import Backend
from orchestai.lm.backends.canary import Canary
from orchestai.lm.backends.replay import Recorder, Recording, Replay
from orchestai.lm.backends.transformers_model import LocalBackend
from orchestai.lm.backends.vllm_engine import VllmEngine
from orchestai.lm.backends.vllm_server import VllmServer
from orchestai.lm.backends.weights import Folders, writer
from orchestai.planner.language.open_model import source
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.storage import artifacts
from orchestai.tasks.task import Task
from orchestai.training.distributed import on_all
from orchestai.training.rl.policy import PlannerPolicy
from orchestai.training.rl.rollouts.rollout import Execute
from orchestai.training.rl.rollouts.sampler import BackendSampler, OwnSampler, Sampler
from orchestai.workflow import Workflow


@asynccontextmanager
async def open_sampler(
    config: Config,
    planner: PlannerPolicy | LanguagePlanner,
    tasks: Sequence[Task],
    accelerator: Accelerator,
    output: Path,
) -> AsyncIterator[Sampler]:
    """The sampler of `planner.language.backend`; planners of other kinds draw their own plans.

    Args:
        tasks: the shortest of them is the canary's prompt.
        output: folder of the run.

    Raises:
        UserError: a package is missing, the recording to replay cannot be read, or no prompt is short enough.
    """
    settings = config.planner.language
    if not isinstance(planner, LanguagePlanner) or (settings.backend == "transformers" and settings.recording is None):
        yield OwnSampler(planner)
        return
    backend = _open(config, planner, accelerator, output)
    if settings.recording is not None and settings.backend != "replay":
        backend = Recorder(backend, Recording(settings.recording, read=False))
    canary = None
    if settings.backend in ("vllm", "vllm_server"):
        prompts, refused = planner.write_prompts([min((task.instruction for task in tasks), key=len)])
        if refused:
            raise UserError(f"not even the shortest task can be planned: {refused[0].error}")
        tolerance = settings.vllm.canary_tolerance
        canary = Canary(planner.policy, prompts[0], config.training.phase2_rl.temperature, tolerance)
    alone = settings.backend == "vllm"  # each process writes for its own engine
    write = writer(planner.model, main=alone or accelerator.is_main_process)
    try:
        yield BackendSampler(
            planner, backend, write, canary, lambda work: on_all(accelerator, work, "handing over weights")
        )
    finally:
        await backend.close()


def _open(config: Config, planner: LanguagePlanner, accelerator: Accelerator, output: Path) -> Backend:
    settings = config.planner.language
    if settings.backend == "transformers":
        return LocalBackend(planner.policy)
    if settings.backend == "replay":
        assert settings.recording is not None
        return Replay(Recording(settings.recording, read=True))
    run: str = broadcast_object_list([uuid.uuid4().hex[:8]])[0]
    root = settings.vllm.sync_dir or output / "sync"
    lora = planner.config.language.lora
    if settings.backend == "vllm_server":
        return VllmServer(
            settings.vllm,
            Folders(root, run),
            adapters=lora is not None,
            end_ids=planner.policy.end_ids,
            main=accelerator.is_main_process,
        )
    longest = settings.max_prompt_tokens + settings.max_new_tokens
    return VllmEngine(
        str(planner.model.name_or_path)
        if lora is None
        else source(config.model_copy(update={"planner": planner.config})),
        settings.vllm,
        Folders(root, f"{run}-{accelerator.process_index}"),
        dtype=settings.dtype,
        lora=lora,
        end_ids=planner.policy.end_ids,
        context=min(longest, planner.policy.context or longest),
        processes=accelerator.num_processes,
    )


def open_execute(config: Config, execute: Execute) -> Execute:
    """Executes as `execute` does, and records that where a recording is made; with `replay`, gives what was recorded.

    An execution that is not in the recording is unscorable.
    """
    settings = config.planner.language
    if settings.recording is None:
        return execute
    replay = settings.backend == "replay"
    recording = Recording(settings.recording, read=replay)

    async def recorded(task: Task, workflow: Workflow, sample: int = 0) -> Execution:
        execution = await execute(task, workflow, sample)
        recording.add("execution", [(_key(task, workflow, sample), {"execution": execution.model_dump(mode="json")})])
        return execution

    async def replayed(task: Task, workflow: Workflow, sample: int = 0) -> Execution:
        key = _key(task, workflow, sample)
        found = recording.find("execution", key)
        if found is None:
            raise InfrastructureError(
                "recording_missing",
                f"{recording.path}: holds no execution {key} (task {task.task_id!r}, {sample=})",
            )
        return Execution.model_validate(found["execution"])

    return replayed if replay else recorded


def _key(task: Task, workflow: Workflow, sample: int) -> str:
    return artifacts.fingerprint([task.task_id, workflow.model_dump(mode="json"), sample])
