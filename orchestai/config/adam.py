"""What both phases say about their optimizer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from orchestai.config.section import Section


class AdamConfig(Section):
    """AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) on clipped gradients."""

    learning_rate: float = Field(3e-5, gt=0)
    optimizer: Literal["adamw", "adamw_8bit"] = "adamw"
    """`adamw_8bit` keeps the moments in 8 bits (Dettmers et al. 2022, arXiv 2110.02861): 2 bytes per weight instead of
    8. Needs the package bitsandbytes, on GPUs and processors alike, and weights that every process holds whole."""
    adam_betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """Decay per step of the means of gradients and of their squares."""
    weight_decay: float = Field(0.0, ge=0)
    """Share of every weight, times the learning rate, that a step takes away."""
    max_grad_norm: float = Field(1.0, gt=0)
    """A longer gradient is scaled to this norm."""
