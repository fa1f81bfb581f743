"""What a language model decided for one plan: its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class TokenDecisions:
    """A prompt and what was written after it. Small CPU tensors; never text, which tokenises differently.

    Attributes:
        prompt: (prompt tokens,) int64.
        completion: (completion tokens,) int64; the end-of-sequence token included where it was sampled.
    """

    prompt: Tensor
    completion: Tensor
