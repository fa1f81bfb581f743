"""The planners of a server: it takes over what was promoted while it served, and drops nothing on the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from orchestai.errors import UserError
from orchestai.orchestrator import Orchestrator
from orchestai.serving.improvement.registry import PlannerRegistry

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

    Raises:
        UserError: one of them cannot be used.
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
