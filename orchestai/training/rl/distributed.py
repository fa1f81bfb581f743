"""Several processes work on one batch: who takes what, and how results, or one process's error, reach all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, gather_object

from orchestai.config import LoggingConfig
from orchestai.errors import UserError

T = TypeVar("T")


@dataclass(frozen=True)
class _Failure:
    message: str
    fixable: bool


def open_accelerator(output: Path, logging: LoggingConfig) -> Accelerator:
    """This process's place among those of an `accelerate launch`, with the configured trackers.

    On a machine without GPUs, `accelerate launch --multi_gpu --num_processes 2` starts two processes on its cores.
    """
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        log_with=list(logging.trackers) or None,
        project_dir=output,
        # Heads whose decisions are not explored, and the value head without PPO, are in no loss.
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
    accelerator.init_trackers(logging.project)
    return accelerator


def share(items: Sequence[T], accelerator: Accelerator) -> list[T]:
    """This process's part of the items, dealt in turn."""
    return list(items[accelerator.process_index :: accelerator.num_processes])


def interleave(parts: Sequence[Sequence[T]]) -> list[T]:
    """The items in their order before they were dealt by `share`."""
    longest = max(map(len, parts), default=0)
    return [part[i] for i in range(longest) for part in parts if i < len(part)]


async def on_all(accelerator: Accelerator, work: Awaitable[T]) -> list[T]:
    """Finish this process's work, then give every process the results of all, in order of rank.

    No process waits in a collective while another runs the user's code, and a process that fails tells the others.

    Raises:
        UserError: raised on every process, with the same message, if one process met one.
        RuntimeError: likewise for any other exception.
    """
    try:
        result: T | _Failure = await work
    except Exception as error:
        if accelerator.num_processes == 1:
            raise
        fixable = isinstance(error, UserError)
        message = str(error) if fixable else f"process {accelerator.process_index}: {type(error).__name__}: {error}"
        result = _Failure(message, fixable)
        gather_object([result])
        raise _as_error(result) from error
    results: list[T | _Failure] = gather_object([result])
    for other in results:
        if isinstance(other, _Failure):
            raise _as_error(other)
    return [other for other in results if not isinstance(other, _Failure)]


def _as_error(failure: _Failure) -> Exception:
    return UserError(failure.message) if failure.fixable else RuntimeError(failure.message)
