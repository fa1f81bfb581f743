"""How weights travel to an engine: as a folder, named after the run and the version."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.distributed.tensor import DTensor

from orchestai import artefacts
from orchestai.errors import UserError
from orchestai.planner.language.backends.base import WriteWeights

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def writer(model: PreTrainedModel, *, main: bool) -> WriteWeights:
    """Writes a model that is whole in every process; adapters alone where it has some. Never merges them.

    Args:
        main: whether this process writes; the others do nothing.
    """

    def write(folder: Path) -> None:
        for parameter in model.parameters():
            if isinstance(parameter, DTensor) or hasattr(parameter, "ds_id"):
                raise UserError(
                    "planner.language.backend: the model's weights are spread over the processes, and cannot be "
                    "written for an engine from here; train with ddp or ZeRO-2, or set backend to transformers"
                )
        if main:
            write_folder(model, folder)

    return write


def write_folder(model: PreTrainedModel, folder: Path, state: Mapping[str, Any] | None = None) -> None:
    """Write the folder, whole or not at all.

    Args:
        state: the state dict, where the model itself holds only a part of it.
    """
    with artefacts.replacing_folder(folder) as unfinished:
        model.save_pretrained(unfinished, state_dict=None if state is None else dict(state))


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
