"""Weights that learn: optimizer steps in all processes together, whichever way the weights are laid out."""

from __future__ import annotations

import copy
import ctypes
import logging
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import psutil
import torch
from accelerate import Accelerator
from torch import nn
from torch.optim import AdamW, Optimizer

from orchestai.config import AdamConfig
from orchestai.errors import UserError
from orchestai.installed import needed_for
from orchestai.lm.loading import without_notice_of_kernel
from orchestai.sandbox.inside.jail.processes import resident_bytes
from orchestai.training.distributed import layout_of, together

logger = logging.getLogger(__name__)


def autocast_format(accelerator: Accelerator) -> torch.dtype | None:
    """In which one matrices are multiplied while an optimizer step is computed; None for that of the weights."""
    formats = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return formats.get(accelerator.mixed_precision) if accelerator.native_amp else None


def is_exact(parameters: Iterable[nn.Parameter], accelerator: Accelerator) -> bool:
    """Whether all is computed in float32: then a log-probability is the same however it is computed, to 1e-5.

    In bfloat16 it differs by some 1e-2, with the rows that are computed beside it, and with the kernel.
    """
    return accelerator.mixed_precision == "no" and all(p.dtype == torch.float32 for p in parameters)


def check_formats(learned: Mapping[str, torch.dtype], frozen: Iterable[torch.dtype], accelerator: Accelerator) -> None:
    """Refuse weights that float16 spoils, and warn of those that bfloat16 holds still.

    Args:
        learned: by name, the format in which each parameter takes its steps.
        frozen: formats of the other parameters.
    """
    if torch.float16 in learned.values():
        raise UserError(
            "dtype=float16: weights cannot learn in float16, where most steps round to nothing; set dtype to float32 "
            "(planner.language.dtype, agents: model.dtype) and mixed_precision beside it to fp16 or bf16"
        )
    if torch.float16 in frozen and accelerator.scaler is None:
        raise UserError(
            "dtype=float16: small gradients vanish on their way through float16 weights; set dtype to bfloat16 "
            "(planner.language.dtype, agents: model.dtype), or mixed_precision beside it to fp16, which scales the loss"
        )
    rounded = [name for name, dtype in learned.items() if dtype == torch.bfloat16]
    if rounded and accelerator.is_main_process:
        logger.warning(
            "%d parameters (%s, ...) learn in bfloat16, where a step smaller than 1/512 of a weight changes nothing: "
            "at a learning rate of 1e-6 almost none does; set dtype to float32 (planner.language.dtype, agents: "
            "model.dtype) and mixed_precision beside it to bf16, or train adapters (lora)",
            len(rounded),
            rounded[0],
        )


def open_optimizer(parameters: Sequence[nn.Parameter] | Sequence[dict[str, Any]], settings: AdamConfig) -> Optimizer:
    """AdamW over the parameters, or groups of them, its moments in the format of the parameters or in 8 bits.

    In 8 bits, tensors of fewer than 4,096 weights keep moments in float32, as bitsandbytes advises.
    """
    options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimizer == "adamw":
        return AdamW(parameters, **options)  # type: ignore[arg-type]
    with needed_for("training: optimizer=adamw_8bit"), without_notice_of_kernel():
        import bitsandbytes
    return cast(Optimizer, bitsandbytes.optim.AdamW8bit(parameters, **options))


class Weights(Protocol):
    """What is needed of a planner, a torch module."""

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def to(self, device: torch.device) -> Any: ...


Planner = TypeVar("Planner", bound=Weights)


class NotFiniteError(Exception):
    """The gradient of a step is not finite; the weights must not be used any more."""


_SKIPS = 20
"""Steps in a row that a scaler of losses may skip. It halves its scale each time, from 2^16: by then it is below 1."""


class Learner:
    """A planner's parameters that require gradients, AdamW, and steps that all processes take together.

    Where the layout splits the weights (FSDP2, ZeRO-3), a copy of the planner learns, in parts, and `planner` stays
    whole in every process, so that each can sample and score by itself, in its own time; `sync` brings it up to date.
    That costs the memory of one planner, in its own dtype. Elsewhere `planner` itself learns.

    Args:
        planner: the same in every process; on any device.
        wrap: makes the module that computes the loss from the planner that learns. Its calls give a tuple: the loss,
            a scalar, and whatever else `step` is to pass on.
        settings: of the optimizer.
        rates: learning rates of parameters that have one of their own, by name.

    Attributes:
        planner: on the accelerator's device.
        module: what `wrap` made, prepared for several processes.
        optimizer: its learning rates are those of `param_groups`.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        planner: Planner,
        wrap: Callable[[Planner], nn.Module],
        settings: AdamConfig,
        rates: Mapping[str, float] | None = None,
    ) -> None:
        self.accelerator = accelerator
        self._freed = FreedMemory()
        self._layout = layout_of(accelerator)
        if self._layout.split_moments and settings.optimizer == "adamw_8bit":
            raise UserError(
                "training: optimizer=adamw_8bit keeps moments whole, but FSDP2 and ZeRO split them; set optimizer to "
                "adamw, or launch with accelerate_configs/ddp.yaml"
            )
        self._max_grad_norm = settings.max_grad_norm
        learns = copy.deepcopy(planner) if self._layout.split else planner.to(accelerator.device)
        module = wrap(learns)
        self._layout.configure(module, settings.max_grad_norm)
        learned, rates = _learned(learns), rates or {}
        common = [parameter for name, parameter in learned.items() if name not in rates]
        groups: list[dict[str, Any]] = [{"params": common}] if common else []
        for rate in sorted({rates[name] for name in learned if name in rates}):
            groups.append({"params": [p for name, p in learned.items() if rates.get(name) == rate], "lr": rate})
        optimizer = open_optimizer(groups, settings)
        self._rates = [group["lr"] for group in optimizer.param_groups]
        self.module, self.optimizer = accelerator.prepare(module, optimizer)
        self.planner = planner.to(accelerator.device)
        self._learned = _learned(learns)  # which `prepare` may have replaced
        self._skipped = 0
        formats = {name: self._layout.dtype(parameter) for name, parameter in self._learned.items()}
        check_formats(formats, [p.dtype for p in learns.parameters() if not p.requires_grad], accelerator)

    @torch.no_grad()
    def compute(self, passes: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What the module gives for the arguments of each pass, without gradient; as many passes in every process.

        Computed as in `step`, in the same dtype: the same arguments give the same, bit for bit.
        """
        return [self.module(*arguments) for arguments in passes]

    def step(self, passes: Sequence[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], float]:
        """One optimizer step on the sum of the losses of all passes of all processes.

        Args:
            passes: arguments of the module for each forward pass; as many in every process.

        Returns:
            what the module gave beside the loss, per pass of this process, and the norm of the gradient of all. The
            norm is not finite where losses are scaled (float16), and the scale was too high: no weight has changed.

        Raises:
            NotFiniteError: the norm is not finite, and no lower scale will help. Under ZeRO the weights have then been
                changed already.
        """
        accelerator = self.accelerator
        results = []
        for i, arguments in enumerate(passes):
            last = i == len(passes) - 1
            accelerator.sync_gradients = last  # ZeRO takes its step in the backward pass that this marks.
            with nullcontext() if last else accelerator.no_sync(self.module):
                loss, *others = self.module(*arguments)
                accelerator.backward(loss * accelerator.num_processes)  # gradients are averaged over processes
            results.append(tuple(others))
        found: Any = accelerator.clip_grad_norm_(self._learned.values(), self._max_grad_norm)
        norm = float(found)
        self._skipped = 0 if math.isfinite(norm) else self._skipped + 1
        if self._skipped > (_SKIPS if accelerator.scaler is not None else 0):
            raise NotFiniteError
        self.optimizer.step()  # where losses are scaled, this lowers the scale instead if the norm is not finite
        self.optimizer.zero_grad()
        self._freed.give_back()
        return results, norm

    def set_rates(self, factor: float) -> None:
        """Learn with that multiple of the learning rates from now on."""
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor

    @torch.no_grad()
    def sync(self) -> None:
        """Bring `planner` up to date; to be called by all processes before it is used after steps."""
        if not self._layout.split:
            return
        whole = dict(self.planner.named_parameters())
        with together(self.accelerator, "gathering the weights for sampling"):
            for name, parameter in self._learned.items():
                whole[name].copy_(self._layout.value(parameter))

    @torch.no_grad()
    def state(self) -> dict[str, Any]:
        """Learned weights and moments by name, whole, on the CPU, in the same form for every layout; learning rates.

        To be called by all processes; on others than the main one it is empty. With the scale of losses, if they have
        one.
        """
        weights, moments = {}, {}
        with together(self.accelerator, "gathering the state of training"):
            for name, parameter in self._learned.items():
                value, its = self._layout.value(parameter), self._layout.moments(self.optimizer, parameter)
                if self.accelerator.is_main_process:
                    weights[name] = value.cpu()
                    moments[name] = {key: moment.cpu() for key, moment in its.items()}
        if not self.accelerator.is_main_process:
            return {}
        rates = [group["lr"] for group in self.optimizer.param_groups]
        scaler = self.accelerator.scaler
        scale = {} if scaler is None else {"scaler": scaler.state_dict(), "skipped": self._skipped}
        return {"weights": weights, "moments": moments, "learning_rates": rates, **scale}

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, which any layout may have given; to be called by all processes with the same."""
        weights, moments = state["weights"], state["moments"]
        if set(weights) != set(self._learned):
            strange = sorted(set(weights) ^ set(self._learned))[0]
            raise UserError(f"the saved state of training is of another planner: only one of them learns {strange!r}")
        with together(self.accelerator, "loading the state of training"):
            for name, parameter in self._learned.items():
                self._layout.put(self.optimizer, parameter, weights[name], moments[name])
        for group, rate in zip(self.optimizer.param_groups, state["learning_rates"], strict=True):
            group["lr"] = rate
        if self.accelerator.scaler is not None and "scaler" in state:
            self.accelerator.scaler.load_state_dict(state["scaler"])
            self._skipped = state["skipped"]
        self.sync()


def _learned(weights: Weights) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in weights.named_parameters() if parameter.requires_grad}


_OWN_GROUPS = Path("/proc/self/cgroup")
_MOUNTED = Path("/sys/fs/cgroup")
_LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""Of a control group and what it uses, in versions 2 and 1."""


def free_bytes(own_groups: Path = _OWN_GROUPS, mounted: Path = _MOUNTED) -> int:
    """What the system can give without swapping, or what the limits of a container, job or slice leave of it."""
    free: int = psutil.virtual_memory().available
    try:
        lines = own_groups.read_text().splitlines()
    except OSError:
        return free
    for _, controllers, name in (line.split(":", 2) for line in lines):
        if controllers in ("", "memory"):
            root = mounted / controllers
            group = root / name.lstrip("/")
            # those around it, too, as far as they can be seen here
            for folder in (group, *(one for one in group.parents if one.is_relative_to(root))):
                for limit, usage in _LIMITS:
                    allowed, used = _number(folder / limit), _number(folder / usage)
                    if allowed is not None and used is not None:
                        free = min(free, max(allowed - used, 0))
    return free


def _number(path: Path) -> int | None:
    """None where there is no such file, or no limit ("max")."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


_SLACK = 1 << 30


def trim() -> None:
    """Give all freed memory back, where the system can take it (Linux with glibc)."""
    library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if (malloc_trim := getattr(library, "malloc_trim", None)) is not None:
        malloc_trim(0)


class FreedMemory:
    """Keeps a process that trains on a CPU from holding much more memory than it needs (Linux with glibc).

    Batches of ever different lengths leave blocks of ever different sizes. glibc keeps those that lie between others in
    use, and so a process that needs one GB comes to hold ten within an hour. They are given back whenever it holds a
    GiB more than a step needed right after the last time: where what the next step asks for again was given back, a
    language model's training spent over a fifth of its time in the kernel.
    """

    def __init__(self) -> None:
        self._least = resident_bytes()
        self._needed = 0
        self._is_trimmed = True

    def give_back(self) -> None:
        """To be called after every step."""
        grown = resident_bytes() - self._least
        if self._is_trimmed:
            self._needed = max(grown, self._needed)
            self._is_trimmed = False
        elif grown > self._needed + _SLACK:
            trim()
            self._least = resident_bytes()
            self._is_trimmed = True
