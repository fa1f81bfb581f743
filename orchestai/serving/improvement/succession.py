"""A server takes over the planner that was promoted while it served, and drops nothing on the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
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


def serving_checkpoint(checkpoint: str | None) -> str | None:
    """Of a folder of versions the one that serves; anything else as it is."""
    registry = None if checkpoint is None or not Path(checkpoint).is_dir() else PlannerRegistry(checkpoint)
    if registry is None or registry.current is None:
        return checkpoint
    return str(registry.checkpoint(registry.current.version))


@asynccontextmanager
async def succession(orchestrator: Orchestrator, every_s: float = _EVERY_S) -> AsyncIterator[None]:
    """Follow the registry that an open orchestrator's checkpoint is from, if it is from one."""
    registry = registry_of(orchestrator.checkpoint)
    if registry is None:
        yield
        return
    following = asyncio.ensure_future(_follow(orchestrator, registry, every_s))
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def _follow(orchestrator: Orchestrator, registry: PlannerRegistry, every_s: float) -> None:
    serving = str(orchestrator.checkpoint)
    refused = ""
    while True:
        await asyncio.sleep(every_s)
        try:
            current = registry.current
            wanted = serving if current is None else str(registry.checkpoint(current.version))
            if wanted in (serving, refused):
                continue
            refused = wanted
            orchestrator.take_over(await orchestrator.open_planner(wanted))
            serving, refused = wanted, ""
            logger.info("%s plans from now on", wanted)
        except UserError as error:
            logger.error("%s goes on to plan, since its successor cannot be taken over: %s", serving, error)
