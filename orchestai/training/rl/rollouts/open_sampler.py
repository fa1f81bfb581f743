"""Opens what samples plans in phase 2, as the configuration says."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from orchestai.config import LanguageConfig
from orchestai.errors import UserError
from orchestai.lm.backends.canary import CanaryProbe
from orchestai.lm.backends.synced import Processes, SyncedPolicy, open_backend
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.tasks.task import Task
from orchestai.training.distributed import on_all
from orchestai.training.rl.policy import PlannerPolicy
from orchestai.training.rl.rollouts.sampler import BackendSampler, OwnSampler, Sampler


@asynccontextmanager
async def open_sampler(
    settings: LanguageConfig,
    planner: PlannerPolicy | LanguagePlanner,
    tasks: Sequence[Task],
    *,
    temperature: float,
    accelerator: Accelerator,
    output: Path,
) -> AsyncIterator[Sampler]:
    """The sampler of `planner.language.backend`; planners of other kinds draw their own plans.

    Args:
        tasks: the shortest of them is the canary's prompt.
        output: folder of the run.

    Raises:
        UserError: as `open_backend` says, or no prompt is short enough.
    """
    if not isinstance(planner, LanguagePlanner) or settings.backend == "transformers":
        yield OwnSampler(planner)
        return
    prompts, refused = planner.write_prompts([min((task.instruction for task in tasks), key=len)])
    if refused:
        raise UserError(f"not even the shortest task can be planned: {refused[0].error}")
    backend = open_backend(
        settings,
        SyncedPolicy(
            planner.policy,
            "planner",
            settings.dtype,
            planner.config.language.lora,
            settings.max_prompt_tokens + settings.max_new_tokens,
        ),
        CanaryProbe(prompts[0], temperature),
        processes_of(accelerator),
        section="planner.language",
        sync_dir=output / "sync",
    )
    try:
        yield BackendSampler(planner, backend)
    finally:
        await backend.close()


def processes_of(accelerator: Accelerator) -> Processes:
    """What a backend must know of the run's processes; all of them call it together."""
    run: str = broadcast_object_list([uuid.uuid4().hex[:8]])[0]
    return Processes(
        accelerator.process_index,
        accelerator.num_processes,
        run,
        lambda work: on_all(accelerator, work, "handing over weights"),
    )
