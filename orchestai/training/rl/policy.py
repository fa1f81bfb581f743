"""What the trainer needs of the planner that it trains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from torch import nn

from orchestai.planner.base import TrainablePlanner


class Policy(TrainablePlanner, Protocol):
    """A trainable planner that is a torch module (`PlannerModel`)."""

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any: ...

    def requires_grad_(self, requires_grad: bool = True) -> Any: ...

    def eval(self) -> Any: ...
