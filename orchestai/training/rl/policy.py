"""What the trainer needs of the planner that it trains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import nn

from orchestai.planner.base import AnyDecisions, TrainablePlanner


class Policy(TrainablePlanner, Protocol):
    """A trainable planner that is a torch module (`PlannerModel`, `LanguagePlanner`)."""

    @property
    def max_slots(self) -> int:
        """Most slots that a row can have."""
        ...

    def cost(self, decisions: Sequence[AnyDecisions]) -> int:
        """Slots that one forward pass over these rows computes; tokens of a prompt count, once if rows share it."""
        ...

    def reference(self) -> AbstractContextManager[object] | None:
        """A context in which it scores as before training, its adapter switched off; None if only a copy can."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def to(self, device: torch.device) -> Any: ...

    def requires_grad_(self, requires_grad: bool = True) -> Any: ...

    def eval(self) -> Any: ...
