"""Several processes work on one batch: who takes what, and how results, or one process's error, reach all of them."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import (
    DistributedDataParallelKwargs,
    DistributedType,
    FullyShardedDataParallelPlugin,
    InitProcessGroupKwargs,
    gather_object,
)
from transformers.integrations import unset_hf_deepspeed_config

from orchestai.config import LoggingConfig
from orchestai.errors import InfrastructureError, UserError

T = TypeVar("T")
_GRACE = timedelta(seconds=30)
"""How much longer than ours the time-out of the process group is, so that ours speaks first."""


@dataclass(frozen=True)
class _Failure:
    error: Exception


def open_accelerator(
    output: Path | None, logging: LoggingConfig, timeout_s: float, mixed_precision: str | None = None
) -> Accelerator:
    """This process's place among those of an `accelerate launch`, with the configured trackers.

    Every layout of `accelerate_configs` works on processors too, over gloo.

    Args:
        output: folder of trackers that write files.
        timeout_s: longest that a process waits for the others in `together`.
        mixed_precision: dtype in which matrices are multiplied; None leaves it to `accelerate launch`.

    Raises:
        UserError: a tracker is not installed.
    """
    if "wandb" in logging.trackers and find_spec("wandb") is None:
        raise UserError(
            "logging.trackers: wandb is asked for, but not installed; pip install wandb, or take it out of the trackers"
        )
    processors = not torch.cuda.is_available()
    launched = "LOCAL_RANK" in os.environ
    limit = {"timeout": timedelta(seconds=timeout_s) + _GRACE}
    group: dict[str, Any] = {"backend": "gloo", **limit} if processors and launched else limit
    accelerator = Accelerator(
        cpu=processors and not _asked("ACCELERATE_USE_DEEPSPEED"),  # DeepSpeed finds out by itself
        mixed_precision=mixed_precision,
        log_with=list(logging.trackers) or None,
        project_dir=output,
        kwargs_handlers=[
            # Heads whose decisions are not explored, and the value head without PPO, are in no loss.
            DistributedDataParallelKwargs(find_unused_parameters=True),
            InitProcessGroupKwargs(**group),
        ],
    )
    if processors and launched and _asked("ACCELERATE_USE_FSDP"):
        # Accelerate leaves FSDP out where there is no GPU; PyTorch does not.
        accelerator.state.distributed_type = DistributedType.FSDP
        accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin()
    unset_hf_deepspeed_config()  # models are opened whole in every process; `Learner` splits them
    accelerator.init_trackers(logging.project, init_kwargs={"wandb": {"entity": logging.entity}})
    return accelerator


def _asked(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() == "true"


def share(items: Sequence[T], accelerator: Accelerator) -> list[T]:
    """This process's part of the items, dealt in turn."""
    return list(items[accelerator.process_index :: accelerator.num_processes])


def interleave(parts: Sequence[Sequence[T]]) -> list[T]:
    """The items in their order before they were dealt by `share`."""
    longest = max(map(len, parts), default=0)
    return [part[i] for i in range(longest) for part in parts if i < len(part)]


@contextmanager
def together(accelerator: Accelerator, what: str) -> Iterator[None]:
    """A block in which processes wait for each other. None of them waits for longer than the time-out.

    Past it this process says what it waited in, with the stack of every thread, and exits, since a collective cannot
    be left; the launcher then ends the others.

    Raises:
        InfrastructureError: another process is gone.
    """
    if accelerator.num_processes == 1:
        yield
        return
    who = f"process {accelerator.process_index} of {accelerator.num_processes}"
    limit = (accelerator.init_handler.timeout - _GRACE).total_seconds()
    watch = threading.Timer(limit, _give_up, [f"{who}: waited {limit:g} s for the others while {what}"])
    watch.daemon = True
    watch.start()
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, torch.distributed.DistError) or "gloo" in str(error)):
            raise
        raise InfrastructureError(
            "connection",
            f"{who}: another process ended, or cannot be reached, while {what}; its own output says why "
            f"({str(error).splitlines()[0]})",
        ) from error
    finally:
        watch.cancel()


def _give_up(message: str) -> None:
    print(
        f"{message}; one of them hangs, or needs longer than training.timeout_s allows",
        file=sys.stderr,
        flush=True,
    )
    faulthandler.dump_traceback(sys.stderr)
    os._exit(1)


async def on_all(accelerator: Accelerator, work: Awaitable[T], what: str) -> list[T]:
    """Finish this process's work, then give every process the results of all, in order of rank.

    No process waits in a collective while another runs the user's code, and a process that fails tells the others.

    Args:
        what: the work, for messages ("executing plans").

    Raises:
        UserError: raised on every process, with the same message, if one process met one.
        InfrastructureError: likewise; or another process is gone.
        RuntimeError: likewise for any other exception.
    """
    try:
        result: T = await work
    except Exception as error:
        exchange(accelerator, error, what)
        raise
    return exchange(accelerator, result, what)


def on_main(accelerator: Accelerator, work: Callable[[], object], what: str) -> None:
    """Let the main process alone work, while the others wait; raises as `on_all` does."""
    try:
        if accelerator.is_main_process:
            work()
    except Exception as error:
        exchange(accelerator, error, what)
        raise
    exchange(accelerator, None, what)


def exchange(accelerator: Accelerator, result: T | Exception, what: str) -> list[T]:
    """The results of all processes, in order of rank, to be called by all together; where one is an exception, all
    raise it."""
    if accelerator.num_processes == 1:
        if isinstance(result, Exception):
            raise result
        return [result]
    told: T | _Failure
    if isinstance(result, Exception):
        known = isinstance(result, (UserError, InfrastructureError))
        message = f"process {accelerator.process_index}: {type(result).__name__}: {result}"
        told = _Failure(result if known else RuntimeError(message))
    else:
        told = result
    with together(accelerator, what):
        results: list[T | _Failure] = gather_object([told])
    for other in results:
        if isinstance(other, _Failure):
            raise other.error from (result if isinstance(result, Exception) and result is not other.error else None)
    return [other for other in results if not isinstance(other, _Failure)]
