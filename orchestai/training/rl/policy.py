"""What the trainer needs of what it trains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import nn

from orchestai.planner.base import DecisionScorer, TrainablePlanner
from orchestai.types import AnyDecisions


class Policy(DecisionScorer, Protocol):
    """A torch module that scores its decisions (`PlannerModel`, `LanguagePlanner`, `TokenPolicy`)."""

    @property
    def max_slots(self) -> int:
        """Most slots of the loss that a trajectory can have."""
        ...

    def cost(self, decisions: Sequence[AnyDecisions]) -> int:
        """Slots that one forward pass over these rows computes; tokens of a prompt count, once if rows share it."""
        ...

    def reference(self) -> AbstractContextManager[object] | None:
        """A context in which it scores as before training, its adapter switched off; None if only a copy can."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...

    def to(self, device: torch.device) -> Any: ...

    def requires_grad_(self, requires_grad: bool = True) -> Any: ...

    def eval(self) -> Any: ...


class PlannerPolicy(TrainablePlanner, Policy, Protocol):
    """A policy that plans (`PlannerModel`, `LanguagePlanner`)."""
