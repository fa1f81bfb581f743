"""The weights that an engine is to have, and the folders in which they travel, named after the run and the version."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from orchestai.lm import loading
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
        """See `Weights.write`."""
        if self._main:
            with artifacts.replacing_folder(folder) as unfinished, loading.quietly():
                self._model.save_pretrained(unfinished)

    def tensors(self) -> dict[str, Tensor]:
        """See `Weights.tensors`."""
        from transformers.core_model_loading import revert_weight_conversion

        held = {name: parameter.detach() for name, parameter in self._model.named_parameters()}
        return revert_weight_conversion(self._model, held)


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
