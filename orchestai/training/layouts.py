"""Where the weights that learn and their optimizer's moments are: whole in every process, or a part in each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer


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
            plugin.transformer_cls_names_to_wrap = sorted(_blocks(module))

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
        width = max(_width(module), 64)
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


def _blocks(module: nn.Module) -> Iterator[str]:
    """Class names of the layers that transformers says are not to be cut."""
    names = {name for inner in module.modules() for name in getattr(inner, "_no_split_modules", None) or ()}
    return iter(names & {type(inner).__name__ for inner in module.modules()})


def _width(module: nn.Module) -> int:
    """Width of the widest model in it."""
    configs = (getattr(inner, "config", None) for inner in module.modules())
    return max((getattr(config, "hidden_size", 0) for config in configs), default=0)
