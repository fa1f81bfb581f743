"""Backend `transformers`: the model that learns writes its own completions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestai.lm.backends.base import Generation, SampleSettings, Weights
from orchestai.lm.causal import CausalPolicy

if TYPE_CHECKING:
    from torch import Tensor


class LocalBackend:
    """`CausalPolicy.sample` in a thread; there is nothing to take over."""

    def __init__(self, policy: CausalPolicy) -> None:
        self._policy = policy
        self._version = -1

    async def generate(self, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings) -> Generation:
        version = self._version
        completions = await asyncio.to_thread(
            self._policy.sample,
            prompts,
            seeds,
            temperature=settings.temperature,
            max_new_tokens=settings.max_new_tokens,
        )
        return Generation(completions, version)

    async def sync(self, weights: Weights, policy_version: int) -> None:
        self._version = policy_version

    async def close(self) -> None:
        """Nothing is held."""
