"""How a whole model's weights come to an engine: in a folder, which works everywhere, or by vLLM's own transfer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from orchestai.lm.backends.base import Weights
from orchestai.lm.backends.transfer import Sender
from orchestai.lm.backends.weights import Folders


class Handover(Protocol):
    """Brings weights to an engine that writes nothing meanwhile."""

    async def give(self, weights: Weights, policy_version: int) -> None:
        """Let the engine have them; only the prompts that it keeps are still those of the weights before.

        Raises:
            UserError: it did not take them.
        """
        ...


class ByFolder:
    """Writes a folder, and lets the engine read it.

    Args:
        load: tells the engine to.
    """

    def __init__(self, folders: Folders, load: Callable[[Path], Awaitable[None]]) -> None:
        self._folders = folders
        self._load = load

    async def give(self, weights: Weights, policy_version: int) -> None:
        """See `Handover.give`."""
        folder = self._folders.next(policy_version)
        weights.write(folder)
        await self._load(folder)
        self._folders.keep(folder)


class ByTransfer:
    """Lets vLLM send what it was opened for.

    Args:
        do: runs what blocks, where it belongs.
    """

    def __init__(self, sender: Sender, do: Callable[[Callable[[], None]], Awaitable[Any]]) -> None:
        self._sender = sender
        self._do = do

    async def give(self, weights: Weights, policy_version: int) -> None:
        """See `Handover.give`."""
        await self._do(self._sender.send_weights)
