"""Several processes work on one batch: who takes what, how results and errors reach all, and where weights are."""

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
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
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


class Layout:
    """Weights whole in every process: one process, or DDP.

    Every method but `configure` is to be called by all processes alike, parameter after parameter.

    Attributes:
        split: whether a process holds a part of the weights only, so that it cannot use the module alone.
        split_moments: whether it holds a part of the optimizer's moments only.
        several: whether several modules can learn beside each other.
    """

    split = False
    split_moments = False
    several = True

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator

    def configure(self, module: nn.Module, max_grad_norm: float) -> None:
        """Say what `accelerator.prepare(module, ...)` cannot know by itself."""

    def dtype(self, parameter: nn.Parameter) -> torch.dtype:
        """The dtype in which it learns."""
        return parameter.dtype

    def value(self, parameter: nn.Parameter) -> Tensor:
        """The whole parameter, in the format in which it learns; not to be changed."""
        return parameter.detach()

    def moments(self, optimizer: Optimizer, parameter: nn.Parameter) -> dict[str, Tensor]:
        """What the optimizer keeps of the parameter, whole; empty before its first step.

        AdamW: `step`, `exp_avg`, `exp_avg_sq`. In 8 bits: `step`, codes (`state1`, `state2`) and what they stand for.
        """
        state = optimizer.state.get(parameter, {})
        return {name: torch.as_tensor(moment) for name, moment in state.items()}

    def put(self, optimizer: Optimizer, parameter: nn.Parameter, value: Tensor, moments: dict[str, Tensor]) -> None:
        """Set what `value` and `moments` gave."""
        parameter.data.copy_(value)
        optimizer.state[parameter] = {name: _restored(name, moment, parameter) for name, moment in moments.items()}


class Fsdp2(Layout):
    """PyTorch's `fully_shard`: a part of every parameter in each process."""

    split = True
    split_moments = True
    several = False

    def configure(self, module: nn.Module, max_grad_norm: float) -> None:
        plugin = self.accelerator.state.fsdp_plugin
        if self.accelerator.mixed_precision == "bf16":  # Accelerate would also add gradients up, and give losses, in it
            plugin.mixed_precision_policy = MixedPrecisionPolicy(
                torch.bfloat16,
                torch.float32,
                cast_forward_inputs=False,  # old log-probabilities and advantages are among them
            )
        # Accelerate looks for the names on the outermost module, which is no model.
        if plugin.transformer_cls_names_to_wrap is None:
            # those of the layers that transformers says are not to be cut
            whole = {name for inner in module.modules() for name in getattr(inner, "_no_split_modules", None) or ()}
            plugin.transformer_cls_names_to_wrap = sorted(whole & {type(inner).__name__ for inner in module.modules()})

    def value(self, parameter: nn.Parameter) -> Tensor:
        return _whole(parameter.detach())

    def moments(self, optimizer: Optimizer, parameter: nn.Parameter) -> dict[str, Tensor]:
        return {name: _whole(moment) for name, moment in super().moments(optimizer, parameter).items()}

    def put(self, optimizer: Optimizer, parameter: nn.Parameter, value: Tensor, moments: dict[str, Tensor]) -> None:
        if not isinstance(parameter, DTensor):
            return super().put(optimizer, parameter, value, moments)
        sharded: Any = parameter.detach()

        def part(whole: Tensor) -> Tensor:
            moved = whole.to(sharded.to_local().device, parameter.dtype)
            return distribute_tensor(moved, sharded.device_mesh, sharded.placements, src_data_rank=None)

        sharded.copy_(part(value))
        optimizer.state[parameter] = {
            name: moment.clone() if moment.dim() == 0 else part(moment).clone() for name, moment in moments.items()
        }
        return None


class Zero(Layout):
    """DeepSpeed's ZeRO: moments in parts (stage 1), gradients too (2), weights too (3)."""

    split_moments = True
    several = False

    def __init__(self, accelerator: Accelerator) -> None:
        super().__init__(accelerator)
        self._stage = accelerator.state.deepspeed_plugin.zero_stage
        self.split = self._stage == 3
        self._linked = False

    def configure(self, module: nn.Module, max_grad_norm: float) -> None:
        settings = self.accelerator.state.deepspeed_plugin.deepspeed_config
        settings["train_micro_batch_size_per_gpu"] = 1  # of data loaders, of which there are none
        settings["gradient_clipping"] = max_grad_norm
        configs = (getattr(inner, "config", None) for inner in module.modules())  # of the widest model in it
        width = max(64, *(getattr(config, "hidden_size", 0) for config in configs))
        for name, size in {
            "reduce_bucket_size": width * width,
            "stage3_prefetch_bucket_size": width * width,
            "stage3_param_persistence_threshold": 10 * width,
        }.items():
            if settings["zero_optimization"].get(name) == "auto":
                settings["zero_optimization"][name] = size

    def dtype(self, parameter: nn.Parameter) -> torch.dtype:
        return torch.float32

    def value(self, parameter: nn.Parameter) -> Tensor:
        from deepspeed.utils import safe_get_full_fp32_param

        return safe_get_full_fp32_param(parameter).detach()

    def moments(self, optimizer: Optimizer, parameter: nn.Parameter) -> dict[str, Tensor]:
        from deepspeed.utils import safe_get_full_optimizer_state

        states = list(self._base.state.values())
        if not states:
            return {}
        self._link()
        averages = {name: safe_get_full_optimizer_state(parameter, name) for name in ("exp_avg", "exp_avg_sq")}
        return {"step": torch.as_tensor(states[0]["step"], dtype=torch.float32).cpu(), **averages}

    def put(self, optimizer: Optimizer, parameter: nn.Parameter, value: Tensor, moments: dict[str, Tensor]) -> None:
        import deepspeed
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        if moments:
            self._begin(moments["step"])
        wanted = {name: moment for name, moment in moments.items() if name != "step"}
        value = value.to(self.accelerator.device)
        if not self.split:
            parameter.data.copy_(value)
            safe_set_full_fp32_param(parameter, value.float())
            for name, moment in wanted.items():
                safe_set_full_optimizer_state(parameter, moment.to(value.device), name)
            return
        with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0):
            parameter.data.copy_(value)
        deepspeed.utils.safe_set_local_fp32_param(parameter, self._part(parameter, value))
        for name, moment in wanted.items():
            deepspeed.utils.safe_set_local_optimizer_state(parameter, self._part(parameter, moment), name)

    @property
    def _zero(self) -> Any:
        return self.accelerator.deepspeed_engine_wrapped.engine.optimizer

    @property
    def _base(self) -> Any:
        return self._zero.optimizer

    def _link(self) -> None:
        """Tell parameters where their moments are.

        ZeRO does that once, when its first parameter group has taken a step, and the others have no moments yet.
        """
        if not self.split and not self._linked:
            self._zero._hp_optimizer_states_linked = False
            self._zero._lazy_init_hp_params_optimizer_state()
            self._linked = True

    def _begin(self, step: Tensor) -> None:
        """Give the optimizer the state that it would make at its first step."""
        flats = self._zero.fp32_partitioned_groups_flat if self.split else self._zero.single_partition_of_fp32_groups
        for flat in flats:
            state = self._base.state[flat]
            if not state:
                state |= {"exp_avg": torch.zeros_like(flat.data), "exp_avg_sq": torch.zeros_like(flat.data)}
            whole_number = isinstance(self._base, torch.optim.AdamW)
            state["step"] = step.clone() if whole_number else int(step)
        if not self.split:
            self._zero._lazy_init_hp_params_optimizer_state()

    def _part(self, parameter: Any, whole: Tensor) -> Tensor:
        """This process's part of a tensor of the parameter's shape, filled up with zeros at the end."""
        size = parameter.ds_tensor.numel()
        first = size * self.accelerator.process_index
        part = whole.float().flatten()[first : first + size]
        return nn.functional.pad(part, (0, size - len(part)))


def layout_of(accelerator: Accelerator) -> Layout:
    """The layout that `accelerate launch` was asked for."""
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        return Zero(accelerator)
    if accelerator.distributed_type == DistributedType.FSDP:
        return Fsdp2(accelerator)
    return Layout(accelerator)


def _restored(name: str, moment: Tensor, parameter: nn.Parameter) -> Any:
    """In the format in which the optimizer keeps it: AdamW in the parameter's, 8-bit AdamW in its own."""
    if name == "step":
        return moment.clone() if moment.is_floating_point() else int(moment)
    dtype = parameter.dtype if name in ("exp_avg", "exp_avg_sq") else moment.dtype
    return moment.to(parameter.device, dtype, copy=True)


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
