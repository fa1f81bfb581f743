"""Planners that served or may serve: numbered versions with their lineage, one of which is current."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from orchestai.errors import UserError, first_problem
from orchestai.orchestrator import Orchestrator
from orchestai.planner.files import METADATA, fingerprint_of, locate
from orchestai.storage import artifacts
from orchestai.storage.folder_lock import locked

_LINEAGE, _CURRENT = "lineage.json", "current.json"
_PLANNER = "planner"


class Measured(BaseModel):
    """A mean with its 95 % interval over `n` tasks."""

    model_config = ConfigDict(frozen=True)

    mean: float | None
    low: float | None
    high: float | None
    n: int


class Trial(BaseModel):
    """A candidate beside the planner that it would replace, on served tasks that neither has learned from.

    Attributes:
        incumbent, candidate: success, and what a task cost.
        difference: of their successes, task by task.
        sampling: what the strongest worker achieves asked again and again for as much money as the candidate spends;
            None where that could not be measured.
        over_sampling: how much more often the candidate succeeds, task by task.
        sampling_how: who was asked how often, or why nobody was.
    """

    model_config = ConfigDict(frozen=True)

    incumbent: Measured
    candidate: Measured
    incumbent_usd: float | None
    candidate_usd: float | None
    difference: Measured
    sampling: Measured | None = None
    sampling_usd: float | None = None
    over_sampling: Measured | None = None
    sampling_how: str = ""

    @property
    def is_better(self) -> bool:
        """Whether the candidate is, beyond chance."""
        return self.difference.low is not None and self.difference.low > 0


class Lineage(BaseModel):
    """Where a version comes from.

    Attributes:
        parent: the version that it was trained from; None of the first.
        fingerprint: of its checkpoint.
        learned: counts of what it was trained on.
        trial: None of the first, which nothing was compared with.
    """

    model_config = ConfigDict(frozen=True)

    version: int
    parent: int | None
    made_at: str
    fingerprint: str
    learned: dict[str, Any] = {}
    trial: Trial | None = None


class Current(BaseModel):
    """Which version serves, and which did before, the last of them last."""

    model_config = ConfigDict(frozen=True)

    version: int
    before: tuple[int, ...] = ()


class PlannerRegistry:
    """A folder of versions, each in a folder of its own that is whole or absent."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    @property
    def current(self) -> Current | None:
        """None where the folder has no planner yet."""
        path = self.folder / _CURRENT
        return None if not path.exists() else _read(path, Current)

    def checkpoint(self, version: int) -> Path:
        """The planner of a version."""
        folder = self._version(version)
        if not (folder / _LINEAGE).exists():
            known = ", ".join(map(str, self.versions())) or "none"
            raise UserError(f"{self.folder}: there is no version {version}; there are {known}")
        return folder / f"{_PLANNER}.pth" if (folder / f"{_PLANNER}.pth").exists() else folder / _PLANNER

    def lineage(self, version: int) -> Lineage:
        self.checkpoint(version)
        return _read(self._version(version) / _LINEAGE, Lineage)

    def versions(self) -> list[int]:
        folders = self.folder.glob(f"*/{_LINEAGE}")
        return sorted(int(path.parent.name) for path in folders if path.parent.name.isdigit())

    def add(
        self,
        checkpoint: Path,
        *,
        parent: int | None = None,
        learned: dict[str, Any] | None = None,
        trial: Trial | None = None,
    ) -> Lineage:
        """Copy a planner in as the next version; the first one serves at once."""
        source = locate(checkpoint)
        with locked(self.folder, "planners"):
            lineage = Lineage(
                version=max(self.versions(), default=0) + 1,
                parent=parent,
                made_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                fingerprint=fingerprint_of(source),
                learned=learned or {},
                trial=trial,
            )
            with artifacts.replacing_folder(self._version(lineage.version)) as folder:
                target = folder / (_PLANNER if (source / METADATA).exists() else f"{_PLANNER}.pth")
                try:
                    artifacts.clone(source, target)
                except shutil.Error as error:
                    raise UserError(f"{source}: cannot be copied: {error}") from None
                artifacts.write_json(folder / _LINEAGE, lineage.model_dump(mode="json"))
            if self.current is None:
                self._write(Current(version=lineage.version))
        return lineage

    def promote(self, version: int) -> Current:
        """Let a version serve that was better than the one that serves now, beyond chance."""

        def change(current: Current) -> Current:
            lineage = self.lineage(version)
            if version == current.version:
                raise UserError(f"version {version} serves already")
            if lineage.trial is None or lineage.parent != current.version:
                raise UserError(
                    f"version {version} was not compared with version {current.version}, which serves; make a "
                    "candidate from that with orchestai improve"
                )
            if not lineage.trial.is_better:
                raise UserError(
                    f"version {version}: the difference in success to version {current.version} is "
                    f"{_shown(lineage.trial.difference)}, which does not exclude 0 from below; serve more runs with "
                    "feedback, and improve again"
                )
            return Current(version=version, before=(*current.before, current.version))

        return self._change(change)

    def rollback(self) -> Current:
        """Let the version serve again that did before."""

        def change(current: Current) -> Current:
            if not current.before:
                raise UserError(f"{self.folder}: version {current.version} serves since the beginning")
            *before, last = current.before
            return Current(version=last, before=tuple(before))

        return self._change(change)

    def _change(self, change: Callable[[Current], Current]) -> Current:
        with locked(self.folder, "planners"):
            current = self.current
            if current is None:
                raise UserError(f"{self.folder}: no planner serves from here; add one with orchestai improve")
            changed = change(current)
            self._write(changed)
        return changed

    def _write(self, current: Current) -> None:
        artifacts.write_json(self.folder / _CURRENT, current.model_dump(mode="json"))

    def _version(self, version: int) -> Path:
        return self.folder / f"{version:04d}"


def _shown(measured: Measured) -> str:
    if measured.mean is None or measured.low is None or measured.high is None:
        return "unknown, since no task could be judged"
    return f"{measured.mean:+.3f} [{measured.low:+.3f}, {measured.high:+.3f}] on {measured.n} tasks"


def _read(path: Path, kind: type[Any]) -> Any:
    try:
        return kind.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise UserError(f"{path}: damaged: {first_problem(error)}; restore it from a copy") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable ({error}); restore it from a copy") from None


logger = logging.getLogger(__name__)
_EVERY_S = 2.0


def registry_of(checkpoint: str | Path | None) -> PlannerRegistry | None:
    """The registry that a checkpoint is a version of, or that a folder is; None where it is neither."""
    if checkpoint is None:
        return None
    path = Path(checkpoint)
    for folder in (path, path.parent.parent):
        registry = PlannerRegistry(folder)
        if registry.current is not None:
            return registry
    return None


def serving_checkpoint(checkpoint: str) -> str:
    """Of a folder of versions the one that serves; anything else as it is."""
    registry = PlannerRegistry(checkpoint) if Path(checkpoint).is_dir() else None
    if registry is None or registry.current is None:
        return checkpoint
    return str(registry.checkpoint(registry.current.version))


@asynccontextmanager
async def succession(
    orchestrator: Orchestrator, others: Mapping[str, str] | None = None, every_s: float = _EVERY_S
) -> AsyncIterator[None]:
    """Open further planners of an open orchestrator, and follow the registries that its planners are from.

    Args:
        others: checkpoints, or folders of versions, by the names under which runs ask for them.
    """
    serving: dict[str | None, str | None] = {None: orchestrator.checkpoint}
    for name, checkpoint in (others or {}).items():
        serving[name] = chosen = serving_checkpoint(checkpoint)
        try:
            orchestrator.take_over(await orchestrator.open_planner(chosen), name)
        except UserError as error:
            raise UserError(f"serving.checkpoints.{name}: {str(error).removeprefix('--checkpoint ')}") from None
    registries = {name: registry_of(checkpoint) for name, checkpoint in serving.items()}
    following = [
        asyncio.ensure_future(_follow(orchestrator, name, registry, str(serving[name]), every_s))
        for name, registry in registries.items()
        if registry is not None
    ]
    try:
        yield
    finally:
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)


async def _follow(
    orchestrator: Orchestrator, name: str | None, registry: PlannerRegistry, serving: str, every_s: float
) -> None:
    refused = ""
    while True:
        await asyncio.sleep(every_s)
        try:
            current = registry.current
            wanted = serving if current is None else str(registry.checkpoint(current.version))
            if wanted in (serving, refused):
                continue
            refused = wanted
            orchestrator.take_over(await orchestrator.open_planner(wanted), name)
            serving, refused = wanted, ""
            logger.info("%s plans from now on", wanted)
        except Exception as error:
            trace = None if isinstance(error, UserError) else error
            said = "%s goes on to plan, since its successor cannot be taken over: %s"
            logger.error(said, serving, str(error) or type(error).__name__, exc_info=trace)
