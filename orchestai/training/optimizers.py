"""Opens the optimizer that a configuration names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import nn
from torch.optim import AdamW, Optimizer

from orchestai.config import AdamConfig
from orchestai.errors import UserError
from orchestai.extras import needed_for
from orchestai.lm.loading import without_notice_of_kernel


def open_optimizer(parameters: Sequence[nn.Parameter] | Sequence[dict[str, Any]], settings: AdamConfig) -> Optimizer:
    """AdamW over the parameters, or groups of them, its moments in the format of the parameters or in 8 bits.

    In 8 bits, tensors of fewer than 4,096 weights keep moments in float32, as bitsandbytes advises.

    Raises:
        UserError: bitsandbytes is wanted, and not installed.
    """
    options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimizer == "adamw":
        return AdamW(parameters, **options)  # type: ignore[arg-type]
    with needed_for("training: optimizer=adamw_8bit"), without_notice_of_kernel():
        import bitsandbytes
    return cast(Optimizer, bitsandbytes.optim.AdamW8bit(parameters, **options))


def refuse_whole_moments(settings: AdamConfig) -> None:
    """Raise `UserError` where the optimizer keeps moments whole, for layouts that split them."""
    if settings.optimizer == "adamw_8bit":
        raise UserError(
            "training: optimizer=adamw_8bit keeps moments whole, but FSDP2 and ZeRO split them; set optimizer to "
            "adamw, or launch with accelerate_configs/ddp.yaml"
        )
