"""What a run writes to go on from, and to be used: the best and the last policies, and training's state."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from orchestai.config import RlConfig
from orchestai.planner.checkpoint_files import LAST, without_suffix
from orchestai.storage import artifacts
from orchestai.training.distributed import on_main
from orchestai.training.learner import Learner
from orchestai.training.rl.monitoring.training_state import Position, load_state, save_state

BEST, STATE = "phase2_best.pth", "phase2_state.pt"
_KEPT = "checkpoint_"


@dataclass(frozen=True)
class RunFolder:
    """Where a run is written, and how.

    Attributes:
        path: the folder of checkpoints, metrics and samples.
        save_policies: writes all policies and some facts under a path, in a format of their own.
        identity: what a resumed run must have in common with the one it resumes.
    """

    path: Path
    save_policies: Callable[[Path, Mapping[str, Any]], None]
    identity: Mapping[str, Any]


class Checkpoints:
    """The checkpoints of one run, in its output folder.

    Every `save_every` updates they are also kept in a folder `checkpoint_N`, with the names that they have in the
    output folder: `--checkpoint` takes its planner, and `--output_dir` with `--resume` goes on from it.

    Args:
        learners: of the policies, by name.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        run: RunFolder,
        config: RlConfig,
        learners: Mapping[str, Learner],
    ) -> None:
        self._accelerator = accelerator
        self._run = run
        self._config = config
        self._learners = learners

    def load(self) -> Position:
        """Where the run stands that is resumed, whose weights the learners get.

        Raises:
            UserError: there is nothing, or something else, to resume.
        """
        position, learned = load_state(self._run.path / STATE, self._run.identity)
        for name, learner in self._learners.items():
            learner.load_state(learned[name])
        return position

    def due(self, position: Position) -> bool:
        """Whether this update's are to be kept."""
        every = self._config.save_every
        return every is not None and position.update > 0 and position.update % every == 0

    def save(self, position: Position, facts: Mapping[str, Any], *, best: bool = False) -> None:
        """Write the policies and, last of all, training's state; to be called by all processes together.

        Args:
            facts: of the policies, for their checkpoint.
            best: whether these are the best so far.

        Raises:
            UserError: a file cannot be written.
        """
        learned = {name: learner.state() for name, learner in self._learners.items()}
        about = {"update": position.update, **facts}

        def write() -> None:
            if best:
                self._run.save_policies(self._run.path / BEST, about)
            self._run.save_policies(self._run.path / LAST, about)
            save_state(self._run.path / STATE, position, learned, self._run.identity)
            if self.due(position):
                self._keep(position.update)

        on_main(self._accelerator, write, "saving checkpoints")

    def _keep(self, update: int) -> None:
        with artifacts.replacing_folder(self._run.path / f"{_KEPT}{update}") as folder:
            for name in (BEST, LAST, STATE):
                for path in {self._run.path / name, without_suffix(self._run.path / name)}:
                    if path.exists():
                        artifacts.clone(path, folder / path.name)
        limit = self._config.keep_checkpoints
        kept = sorted(self._run.path.glob(f"{_KEPT}[0-9]*"), key=lambda path: int(path.name.removeprefix(_KEPT)))
        for old in kept[: len(kept) - limit] if limit is not None else []:
            shutil.rmtree(old)
