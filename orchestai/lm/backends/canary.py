"""Are the engine's weights those that learn? A fixed prompt is continued by the engine and scored by the policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from orchestai.errors import UserError
from orchestai.lm.backends.base import Backend, Proof, SampleSettings
from orchestai.lm.causal import CausalPolicy

if TYPE_CHECKING:
    from torch import Tensor

_ROWS, _TOKENS = 4, 32
"""Of each copy of the model."""
_CLEAR = 3.0
"""How many tolerances two sets of weights must differ by to be told apart."""
_WRITERS = {"vllm": "the engine", "ray": "an actor on some node"}
_REMEDIES = {
    "vllm": "restart it as docs/machines/rollouts.md says",
    "ray": "see that all nodes share the files of ray.sync_dir, and have the same model under adapters",
}
"""By the part of the section that says how weights are handed over."""
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

    def request(self, rows: int = _ROWS) -> tuple[list[Tensor], list[int], SampleSettings]:
        """Prompts, seeds and settings for so many rows, of which `_ROWS` are distinct."""
        return [self.prompt] * rows, [i % _ROWS for i in range(rows)], SampleSettings(self.temperature, _TOKENS)


@dataclass(eq=False)
class Canary:
    """Judges an engine by what it writes, sampled as in training, so that everything between the weights and a
    completion's log-probabilities is checked: weights, adapters, caches of prompts, temperature, and cut-off tails.

    Attributes:
        tolerance: most nats per token by which engine and policy may differ, on average.
        section: key of the model's section of the configuration, for messages.
        handover: the part of that section that has the tolerance.
        engines: how many copies share what is asked; a row each at least, so that every one that is up is checked.
    """

    policy: CausalPolicy
    probe: CanaryProbe
    tolerance: float
    section: str
    handover: str = "vllm"
    engines: int = 1
    _accepted: set[Proof] = field(default_factory=set, init=False)

    async def check(self, backend: Backend) -> float:
        """Judge an engine that has just taken over the present weights, and every copy of the model that took part.

        Returns:
            the mean distance of the log-probabilities, in nats per token; of the copy that is furthest away.

        Raises:
            UserError: it is more than the tolerance.
        """
        self._accepted.clear()
        generation = await backend.generate(*self.probe.request(max(_ROWS, self.engines)))
        return self.accept([*generation.proofs, Proof.of(_WRITERS[self.handover], generation.completions)])

    def accept(self, proofs: Iterable[Proof]) -> float:
        """Judge what has not been judged since the last `check`, as `check` does; 0 where there is nothing new."""
        new = [proof for proof in dict.fromkeys(proofs) if proof not in self._accepted]
        own = self._score([ids for proof in new for ids, _ in proof.rows])
        gaps = [_distance(own, proof) for proof in new]
        for proof, gap in zip(new, gaps, strict=True):
            if not gap <= self.tolerance:
                raise UserError(
                    f"{self.section}.backend: {proof.writer} gives what it writes other probabilities than the policy "
                    f"does ({gap:.3g} nats per token apart on average, {self.section}.{self.handover}.canary_tolerance="
                    f"{self.tolerance:g}): its weights are stale or of another model, or it cuts off the tails of the "
                    f"distribution; {_REMEDIES[self.handover]}, and compare dtypes"
                )
        self._accepted.update(new)
        return max(gaps, default=0.0)

    async def strengths(self, backend: Backend) -> list[float]:
        """How strongly `disturbed` must change each part for it to be seen, now that the engine has the weights.

        Raises:
            UserError: no change can be seen.
        """
        generation = await backend.generate(*self.probe.request())
        written = Proof.of(_WRITERS[self.handover], generation.completions)
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

    def _least(self, part: int, written: Proof) -> float:
        for strength in (0.1 * 2**n for n in range(12)):
            with self.disturbed(part, strength):
                if _distance(self._score([ids for ids, _ in written.rows]), written) > _CLEAR * self.tolerance:
                    return strength
        raise UserError(
            f"{self.section}.{self.handover}.canary_tolerance={self.tolerance:g} is so wide that other weights would "
            "not be noticed; lower it"
        )

    @torch.no_grad()
    def _score(self, written: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Tensor]:
        """By the policy, each; what copies of the model write alike is scored once, and few at a time."""
        distinct = [*dict.fromkeys(written)]
        scored: dict[tuple[int, ...], Tensor] = {}
        for i in range(0, len(distinct), _ROWS):
            few = distinct[i : i + _ROWS]
            ids = [torch.tensor(row, dtype=torch.long) for row in few]
            logp = self.policy.score([self.probe.prompt] * len(few), ids, self.probe.temperature).logp
            scored |= {row: values[: len(row)].cpu() for row, values in zip(few, logp, strict=True)}
        return scored


def _distance(own: Mapping[tuple[int, ...], Tensor], written: Proof) -> float:
    return float(torch.cat([(own[ids] - torch.tensor(logp)).abs() for ids, logp in written.rows]).mean())
