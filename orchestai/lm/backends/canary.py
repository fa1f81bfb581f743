"""Are the engine's weights those that learn? A fixed prompt is continued by the engine and scored by the policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from orchestai.errors import UserError
from orchestai.lm.backends.base import Backend, SampleSettings
from orchestai.lm.causal import CausalPolicy
from orchestai.lm.sampling import Completion

if TYPE_CHECKING:
    from torch import Tensor

_ROWS, _TOKENS = 4, 32
_CLEAR = 3.0
"""How many tolerances two sets of weights must differ by to be told apart."""
_SIZE_OF_ZEROS = 0.02
"""What a parameter of zeros is changed by, instead of a share of its size."""


@dataclass(frozen=True, eq=False)
class CanaryProbe:
    """What a canary writes after.

    Attributes:
        prompt: (tokens,) int64; always the same.
        temperature: that of training.
    """

    prompt: Tensor
    temperature: float

    def request(self) -> tuple[list[Tensor], list[int], SampleSettings]:
        """Prompts, seeds and settings."""
        return [self.prompt] * _ROWS, list(range(_ROWS)), SampleSettings(self.temperature, _TOKENS)


@dataclass(eq=False)
class Canary:
    """Judges an engine by what it writes, sampled as in training, so that everything between the weights and a
    completion's log-probabilities is checked: weights, adapters, caches of prompts, temperature, and cut-off tails.

    Attributes:
        tolerance: most nats per token by which engine and policy may differ, on average.
        section: key of the model's section of the configuration, for messages.
    """

    policy: CausalPolicy
    probe: CanaryProbe
    tolerance: float
    section: str

    async def check(self, backend: Backend) -> float:
        """Judge an engine that has just taken over the present weights.

        Returns:
            the mean distance of the log-probabilities, in nats per token.

        Raises:
            UserError: it is more than the tolerance.
        """
        gap = self._distance((await backend.generate(*self.probe.request())).completions)
        if not gap <= self.tolerance:
            raise UserError(
                f"{self.section}.backend: the engine gives what it writes other probabilities than the policy does "
                f"({gap:.3g} nats per token apart on average, {self.section}.vllm.canary_tolerance="
                f"{self.tolerance:g}): its weights are stale or of another model, or it cuts off the tails of the "
                "distribution; restart it as docs/machines/rollouts.md says, and compare dtypes"
            )
        return gap

    async def strengths(self, backend: Backend) -> list[float]:
        """How strongly `disturbed` must change each part for it to be seen, now that the engine has the weights.

        Raises:
            UserError: no change can be seen.
        """
        written = (await backend.generate(*self.probe.request())).completions
        return [self._least(part, written) for part in range(len(self._parts()))]

    @contextmanager
    def disturbed(self, part: int, strength: float) -> Iterator[None]:
        """Other weights while the block lasts: one parameter is changed, each of its rows in another way.

        Args:
            part: counts the embeddings of what is read, those of what is written unless they are the same, and the
                last parameter; those that learn.
        """
        parameter = self._parts()[part]
        kept = parameter.detach().clone()
        size = float(kept.float().square().mean().sqrt()) or _SIZE_OF_ZEROS
        table = parameter.detach().view(-1, kept.shape[-1])
        rows, columns = (torch.arange(n, device=kept.device) for n in table.shape)
        table.addcmul_(rows.cos().to(kept.dtype)[:, None], (columns + 1).sin().to(kept.dtype), value=strength * size)
        try:
            yield
        finally:
            with torch.no_grad():
                parameter.copy_(kept)

    def _parts(self) -> list[nn.Parameter]:
        model = self.policy.model
        ends: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
        last = [parameter for parameter in model.parameters() if parameter.requires_grad][-1:]
        parts = [*(end.weight for end in ends if end is not None and end.weight.requires_grad), *last]
        return list({id(part): part for part in parts}.values())

    def _least(self, part: int, written: Sequence[Completion]) -> float:
        for strength in (0.1 * 2**n for n in range(12)):
            with self.disturbed(part, strength):
                if self._distance(written) > _CLEAR * self.tolerance:
                    return strength
        raise UserError(
            f"{self.section}.vllm.canary_tolerance={self.tolerance:g} is so wide that other weights would not be "
            "noticed; lower it"
        )

    @torch.no_grad()
    def _distance(self, written: Sequence[Completion]) -> float:
        """Mean distance of the log-probabilities from those that the policy gives what was written."""
        ids = [one.ids for one in written]
        logp = self.policy.score([self.probe.prompt] * len(ids), ids, self.probe.temperature).logp.cpu()
        apart = [(own[: len(one.logp)] - one.logp).abs() for own, one in zip(logp, written, strict=True)]
        return float(torch.cat(apart).mean())
