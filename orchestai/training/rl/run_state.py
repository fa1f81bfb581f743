"""Where a run of phase 2 stands: what it goes on from, what it keeps on disk, and how it ended."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from orchestai.config import (
    OF_SERVING,
    OptimizationConfig,
    RayConfig,
    RlConfig,
)
from orchestai.errors import UserError
from orchestai.planner.files import LAST, without_suffix
from orchestai.storage import artifacts, digests
from orchestai.tasks.suite import data_fingerprint
from orchestai.tasks.task import Task
from orchestai.training.distributed import on_main
from orchestai.training.learner import Learner

STATE_VERSION = 9


@dataclass
class Position:
    """Where training stands.

    Attributes:
        update: batches learned from.
        consumed: tasks drawn from the training order.
        versions: optimizer steps taken, by policy.
        evaluated: update after which the policies were evaluated last; None before the first.
        attempts_since_evaluation, first_gaps: see `gap`.
        start_reward: of the first evaluation; None before it.
        start_success: of the first evaluation, by task; empty where attempts have no such figure.
        best_reward: of the best evaluation (see `best`); None before the first.
        best_success: its mean success; None where attempts have no such figure.
        best_update: after which it was.
        flat_updates: last updates in a row in which nothing could be learned.
        ratio_warned: whether it was said that what draws and what learns compute differently.
    """

    update: int = 0
    consumed: int = 0
    versions: dict[str, int] = field(default_factory=dict)
    evaluated: int | None = None
    attempts_since_evaluation: dict[str, list[float]] = field(default_factory=dict)
    first_gaps: dict[str, list[float]] = field(default_factory=dict)
    start_reward: float | None = None
    start_success: dict[str, float] = field(default_factory=dict)
    best_reward: float | None = None
    best_success: float | None = None
    best_update: int = 0
    flat_updates: int = 0
    ratio_warned: bool = False

    def done(self, config: OptimizationConfig) -> int:
        """Of `length_of(config)`."""
        return self.consumed if config.num_updates is None else self.update


def length_of(config: OptimizationConfig) -> int:
    """How long a run lasts: in updates, where `num_updates` says so, else in tasks attempted."""
    return config.num_episodes if config.num_updates is None else config.num_updates


_LENGTH = frozenset({"training.phase2_rl.num_episodes", "training.phase2_rl.num_updates"})
_PHASE2 = "training.phase2_rl."
_OF_SERVING = frozenset(f"planner.{key}" for key in OF_SERVING)
_SCHEDULE = "training.phase2_rl.lr_schedule"
_OF_VLLM = ("base_url", "engine_options.gpu_memory_utilization", "sync_dir")
_SPEED = {
    "agents.concurrency",
    "execution.backend",
    "sandbox.workers",
    "sandbox.preload",
    *(f"execution.ray.{key}" for key in RayConfig.model_fields),
    *(_PHASE2 + key for key in ("micro_batch_size", "micro_batch_tokens", "save_every", "keep_checkpoints")),
    *(f"{section}.vllm.{key}" for section in ("planner.language", "model") for key in _OF_VLLM),
}
"""Change no result."""


def identity(
    sections: Mapping[str, Any], phase2: RlConfig, tasks: Sequence[Task], eval_tasks: Sequence[Task]
) -> dict[str, Any]:
    """What decides the course of a run, by key: other sections of the configuration, phase 2's settings, the tasks."""
    flat = _flatten({**sections, "training": {"phase2_rl": phase2.model_dump(mode="json")}})
    for name, some in (("training tasks", tasks), ("validation tasks", eval_tasks)):
        flat[name] = data_fingerprint(some)
    # Without a schedule, how long training will last changes no update of it.
    free = _LENGTH if phase2.lr_schedule == "constant" else frozenset[str]()
    return {key: value for key, value in flat.items() if key not in _SPEED | _OF_SERVING | free}


def _flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat.update(_flatten(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {f"{prefix}{key}": inner})
    return flat


def save_state(path: Path, position: Position, learned: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Write everything that the next update depends on.

    Samples and the order of tasks come from seeds and `position`; the generators' states are kept for the user's code.
    No rollout is pending here: an update finishes with its own.

    Args:
        learned: `Learner.state` by policy, the same for every layout of the processes.
        identity: what a run that goes on must have in common with this one.
    """
    name, keys, at, has_gauss, gauss = np.random.get_state()
    state = {
        "state_version": STATE_VERSION,
        "identity": dict(identity),
        "position": asdict(position),
        "learned": dict(learned),
        "rng": {
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all(),
            "python": random.getstate(),
            "numpy": (name, torch.from_numpy(np.asarray(keys).astype(np.int64)), at, has_gauss, gauss),
        },
    }
    digests.save_torch(path, state)


def load_state(path: Path, identity: Mapping[str, Any]) -> tuple[Position, dict[str, Any]]:
    """What `save_state` wrote: the position, and what was learned; the generators are set."""
    remedy = "start a new run from its last weights (--checkpoint) in another output folder"
    try:
        state = digests.load_torch(path, remedy)
    except FileNotFoundError:
        raise UserError(f"{path}: no run to resume here; start one without resuming") from None
    if not isinstance(state, dict) or state.get("state_version") != STATE_VERSION:
        found = state.get("state_version") if isinstance(state, dict) else None
        raise UserError(
            f"{path}: not a training state of this program's version (found {found}, needs {STATE_VERSION}); "
            "start a new run in another output folder"
        )
    saved = state["identity"]
    for key in sorted({*saved, *identity}):
        if saved.get(key) != identity.get(key):
            remedy = "restore it, or start a new run in another output folder"
            if key in _LENGTH:
                remedy = (
                    f"with lr_schedule={identity[_SCHEDULE]} the learning rate ends at 0 there, so this run can be "
                    "made neither longer nor shorter; restore it, or start a new run from its phase2_last "
                    "(--checkpoint) in another output folder"
                )
            raise UserError(f"{path}: {key} was {saved.get(key)!r} and is now {identity.get(key)!r}; {remedy}")
    digests.check_finite(path, state["learned"])
    torch.set_rng_state(state["rng"]["torch"])
    for device, its in enumerate(state["rng"]["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(its, device)
    version, internal, gauss_next = state["rng"]["python"]
    random.setstate((version, tuple(internal), gauss_next))
    name, keys, *rest = state["rng"]["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    return Position(**state["position"]), state["learned"]


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
        """Where the run stands that is resumed, whose weights the learners get."""
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
        """
        learned = {name: learner.state() for name, learner in self._learners.items()}
        about = {"update": position.update, **facts}

        def write() -> None:
            if best:
                self._run.save_policies(self._run.path / BEST, about)
            self._run.save_policies(self._run.path / LAST, about)
            save_state(self._run.path / STATE, position, learned, self._run.identity)
            if not self.due(position):
                return
            with artifacts.replacing_folder(self._run.path / f"{_KEPT}{position.update}") as folder:
                for name in (BEST, LAST, STATE):
                    for path in {self._run.path / name, without_suffix(self._run.path / name)}:
                        if path.exists():
                            artifacts.clone(path, folder / path.name)
            limit = self._config.keep_checkpoints
            kept = sorted(self._run.path.glob(f"{_KEPT}[0-9]*"), key=lambda path: int(path.name.removeprefix(_KEPT)))
            for old in kept[: len(kept) - limit] if limit is not None else []:
                shutil.rmtree(old)

        on_main(self._accelerator, write, "saving checkpoints")


@dataclass(frozen=True)
class RunSummary:
    """How training ended.

    Attributes:
        updates: batches learned from, earlier runs included.
        best_reward: mean reward on the validation tasks of the policies in phase2_best.pth.
        start_reward: of those that training began with.
        best_success, start_success: likewise their success; None where attempts have no such figure.
        stopped: why it ended before its time; empty if it did not.
        steps: optimizer steps of each policy.
        signal: number of the signal that stopped it, if one did.
    """

    updates: int
    best_reward: float
    start_reward: float
    best_success: float | None
    start_success: float | None
    stopped: str
    steps: dict[str, int]
    signal: int | None = None

    @classmethod
    def of(cls, position: Position, stopped: str, signal: int | None = None) -> RunSummary:
        start = position.start_success.values()
        return cls(
            position.update,
            position.best_reward or 0.0,
            position.start_reward or 0.0,
            position.best_success,
            fmean(start) if start else None,
            stopped,
            dict(position.versions),
            signal,
        )

    def __str__(self) -> str:
        """What the best policies are worth on the validation tasks, and what training began with."""
        said = f"reward {self.best_reward:.3f} ({self.start_reward:.3f} at the start)"
        if self.best_success is not None and self.start_success is not None:
            said += f", success {self.best_success:.1%} ({self.start_success:.1%})"
        return said

    @property
    def complaint(self) -> str:
        """What to say of policies of which no weight changed; empty where all learned, or were not done learning."""
        idle = [name for name, steps in self.steps.items() if not steps]
        if not idle or self.signal is not None:
            return ""
        whose = "" if len(idle) == len(self.steps) else f" of {' and '.join(idle)}"
        return (
            f"no weight{whose} changed: in none of {self.updates} updates did a reward differ from what it is compared "
            "with. Take tasks that the policy solves now and then, raise training.phase2_rl.temperature or "
            "num_generations, or start from a policy that knows more"
        )

    def exit_if_stopped(self) -> None:
        """End the program with the shells' code, 128 and the signal's number, if a signal stopped training."""
        if self.signal is not None:
            sys.exit(128 + self.signal)

    def refuse_unchanged(self) -> None:
        """Raise UserError if no weight changed at all."""
        if not any(self.steps.values()):
            raise UserError("training ended with the weights that it began with, for the reason said above")
