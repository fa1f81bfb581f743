"""A linear head that estimates returns, and learns as fast whatever the scale of its features."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class ValueHead(nn.Linear):
    """Expected returns from (..., width) features; 0 before training.

    Features are brought to mean 0 and variance 1 first. So a step of Adam, which changes no weight by much more than
    the learning rate, changes a value by about `width` times that at most.
    """

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(F.layer_norm(features.to(self.weight.dtype), features.shape[-1:]))
