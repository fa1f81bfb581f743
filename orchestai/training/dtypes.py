"""Dtypes: in which one weights learn, and in which one they are multiplied."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import torch
from accelerate import Accelerator
from torch import nn

from orchestai.errors import UserError

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

    Raises:
        UserError: weights learn in float16, or gradients go through frozen ones unscaled.
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
