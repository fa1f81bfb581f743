"""What samples completions for training: tokens in, tokens and their log-probabilities out, under known weights.

Weights reach what samples elsewhere as a folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orchestai.lm import loading
from orchestai.lm.sampling import Completion
from orchestai.storage import artifacts

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class ModelWeights:
    """Those of a model that is whole in every process; of its adapters alone where it has some, which it never merges.

    Args:
        main: whether this process writes; the others do nothing.
    """

    def __init__(self, model: PreTrainedModel, *, main: bool) -> None:
        self._model = model
        self._main = main

    def write(self, folder: Path) -> None:
        """Write a new folder, as `save_pretrained` does; where adapters learn, those alone."""
        if self._main:
            with artifacts.replacing_folder(folder) as unfinished, loading.quietly():
                self._model.save_pretrained(unfinished)


class Folders:
    """A folder for each time that weights are handed over, under `root`; only the last is kept.

    Args:
        run: sets this run apart from an earlier one, of which a server may still know an adapter by the same name.
    """

    def __init__(self, root: Path, run: str) -> None:
        self._root = root.absolute()
        self._run = run
        self._last: Path | None = None
        self.count = 0

    def next(self, policy_version: int) -> Path:
        """Where the weights are to be written; its name, never given twice, is also that of the adapter."""
        self.count += 1
        return self._root / f"orchestai-{self._run}-{self.count}-v{policy_version}"

    def keep(self, path: Path) -> Path | None:
        """Remove the folder before `path`, which the engine has taken over; the one removed, if any, is given back."""
        before, self._last = self._last, path
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)
        return before

    def clear(self) -> None:
        """Remove the last folder too."""
        if self._last is not None:
            shutil.rmtree(self._last, ignore_errors=True)


@dataclass(frozen=True)
class SampleSettings:
    """How completions are drawn. Nothing else shapes the distribution: what is cut off could not be learned from.

    Attributes:
        temperature: divides the logits; 0 takes the likeliest token.
        max_new_tokens: where a completion is cut off.
    """

    temperature: float
    max_new_tokens: int


@dataclass(frozen=True, eq=False)
class Generation:
    """Completions, one per prompt and in their order.

    Attributes:
        policy_version: of the weights that wrote them; -1 before the first `sync`.
    """

    completions: list[Completion]
    policy_version: int


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
        """
        ...


class Backend(Generates, Protocol):
    """Writes completions with weights that follow those that learn.

    The caller never lets `generate` and `sync` overlap, so that no completion is written by two versions.
    """

    async def sync(self, weights: ModelWeights, policy_version: int) -> None:
        """Take over the present weights; what is generated later is stamped with `policy_version`.

        Raises:
            UserError: the engine did not take them.
        """
        ...

    async def close(self) -> None: ...
