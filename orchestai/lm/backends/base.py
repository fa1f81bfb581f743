"""What samples completions for training: tokens in, tokens and their log-probabilities out, under known weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orchestai.lm.sampling import Completion

if TYPE_CHECKING:
    from torch import Tensor


class Weights(Protocol):
    """Those that learn, as they are at present."""

    def write(self, folder: Path) -> None:
        """Write a new folder, as `save_pretrained` does; where adapters learn, those alone."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Of a whole model, by their names in such a folder; on its device, not copied where the model has them so."""
        ...


@dataclass(frozen=True)
class SampleSettings:
    """How completions are drawn. Nothing else shapes the distribution: what is cut off could not be learned from.

    Attributes:
        temperature: divides the logits; 0 takes the likeliest token.
        max_new_tokens: where a completion is cut off.
    """

    temperature: float
    max_new_tokens: int


@dataclass(frozen=True)
class Proof:
    """What a copy of the model wrote after the canary's prompt when it had read the weights, before anything else.

    Attributes:
        writer: the copy, in words; two that wrote the same prove the same.
        rows: the tokens of each completion, and their log-probabilities.
    """

    writer: str = field(compare=False)
    rows: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]

    @staticmethod
    def of(writer: str, completions: Sequence[Completion]) -> Proof:
        """That which completions are."""
        return Proof(writer, tuple((tuple(one.ids.tolist()), tuple(one.logp.tolist())) for one in completions))


@dataclass(frozen=True, eq=False)
class Generation:
    """Completions, one per prompt and in their order.

    Attributes:
        policy_version: of the weights that wrote them; -1 before the first `sync`.
        proofs: of the copies of the model that wrote them, where others may take their place.
    """

    completions: list[Completion]
    policy_version: int
    proofs: tuple[Proof, ...] = ()


class Generates(Protocol):
    """Writes completions."""

    async def generate(self, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings) -> Generation:
        """One completion per prompt; the log-probabilities are those at the sampling temperature.

        Args:
            prompts: per row (tokens,) int64, at least one token.
            seeds: one per row; the same seed, prompt and weights give the same completion as far as the engine's
                rounding does not depend on its batch.

        Raises:
            UserError: the engine cannot be reached, or refuses the request.
            InfrastructureError: the machines that write them were lost.
        """
        ...


class Backend(Generates, Protocol):
    """Writes completions with weights that follow those that learn.

    The caller never lets `generate` and `sync` overlap, so that no completion is written by two versions.
    """

    async def sync(self, weights: Weights, policy_version: int) -> None:
        """Take over the present weights; what is generated later is stamped with `policy_version`.

        Raises:
            UserError: the engine did not take them.
        """
        ...

    async def close(self) -> None: ...
