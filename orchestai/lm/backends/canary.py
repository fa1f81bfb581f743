"""Are the engine's weights those that learn? A fixed prompt is continued by the engine and scored by the policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from orchestai.errors import UserError
from orchestai.lm.backends.base import Backend, SampleSettings
from orchestai.lm.causal import CausalPolicy

if TYPE_CHECKING:
    from torch import Tensor

    from orchestai.lm.sampling import Completion

_ROWS, _TOKENS = 4, 32
"""Of each copy of the engine."""
_CLEAR = 3.0
"""How many tolerances two sets of weights must differ by to be told apart."""
_WRITERS = {"vllm": "the engine", "ray": "an actor on a node"}
_REMEDIES = {
    "vllm": "restart it as docs/machines/rollouts.md says",
    "ray": "see that all nodes share the files of ray.sync_dir, and have the same model under adapters",
}
"""By the part of the section that says how weights are handed over."""
_SIZE_OF_ZEROS = 0.02
"""What a parameter of zeros is changed by, instead of a share of its size."""


@dataclass(frozen=True, eq=False)
class Canary:
    """Judges an engine by what it writes, sampled as in training, so that everything between the weights and a
    completion's log-probabilities is checked: weights, adapters, caches of prompts, temperature, and cut-off tails.

    Attributes:
        prompt: (tokens,) int64; always the same.
        temperature: that of training.
        tolerance: most nats per token by which engine and policy may differ, on average.
        section: key of the model's section of the configuration, for messages.
        handover: the part of that section that has the tolerance.
        engines: how many copies share what is asked, a like share each, so that every one that is up is checked.
    """

    policy: CausalPolicy
    prompt: Tensor
    temperature: float
    tolerance: float
    section: str
    handover: str = "vllm"
    engines: int = 1

    async def check(self, backend: Backend) -> float:
        """The mean distance of the log-probabilities, in nats per token; of the copy that is furthest away.

        Raises:
            UserError: it is more than the tolerance.
        """
        written = await self._write(backend, self.engines)
        own = self._score(written)
        gap = max(_distance(own[i : i + _ROWS], written[i : i + _ROWS]) for i in range(0, len(written), _ROWS))
        if not gap <= self.tolerance:
            raise UserError(
                f"{self.section}.backend: {_WRITERS[self.handover]} gives what it writes other probabilities than the "
                f"policy does ({gap:.3g} nats per token apart on average, {self.section}.{self.handover}."
                f"canary_tolerance={self.tolerance:g}): its weights are stale or of another model, or it cuts off the "
                f"tails of the distribution; {_REMEDIES[self.handover]}, and compare dtypes"
            )
        return gap

    async def strengths(self, backend: Backend) -> list[float]:
        """How strongly `disturbed` must change each part for it to be seen, now that the engine has the weights.

        Raises:
            UserError: no change can be seen.
        """
        written = await self._write(backend, 1)
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

    def _least(self, part: int, written: list[Completion]) -> float:
        for strength in (0.1 * 2**n for n in range(12)):
            with self.disturbed(part, strength):
                if _distance(self._score(written), written) > _CLEAR * self.tolerance:
                    return strength
        raise UserError(
            f"{self.section}.{self.handover}.canary_tolerance={self.tolerance:g} is so wide that other weights would "
            "not be noticed; lower it"
        )

    async def _write(self, backend: Backend, engines: int) -> list[Completion]:
        settings = SampleSettings(self.temperature, _TOKENS)
        seeds = [*range(_ROWS)] * engines
        return (await backend.generate([self.prompt] * len(seeds), seeds, settings)).completions

    @torch.no_grad()
    def _score(self, written: list[Completion]) -> list[Tensor]:
        """By the policy, each; what copies of an engine write alike is scored once, and few at a time."""
        names = [tuple(one.ids.tolist()) for one in written]
        distinct = [*dict.fromkeys(names)]
        scored: dict[tuple[int, ...], Tensor] = {}
        for i in range(0, len(distinct), _ROWS):
            few = distinct[i : i + _ROWS]
            ids = [torch.tensor(name, dtype=torch.long) for name in few]
            logp = self.policy.score([self.prompt] * len(few), ids, self.temperature).logp
            scored |= {name: row[: len(name)].cpu() for name, row in zip(few, logp, strict=True)}
        return [scored[name] for name in names]


def _distance(own: list[Tensor], written: list[Completion]) -> float:
    return float(torch.cat([(a - b.logp).abs() for a, b in zip(own, written, strict=True)]).mean())
