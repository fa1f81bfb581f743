"""A backend whose weights follow those of a policy, and the way to open one as the configuration says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from orchestai.config import BackendConfig, LoraConfig
from orchestai.lm.backends.base import Backend, Folders, Generation, ModelWeights, SampleSettings
from orchestai.lm.backends.canary import Canary, CanaryProbe
from orchestai.lm.backends.vllm_engine import EngineModel, VllmEngine
from orchestai.lm.backends.vllm_server import VllmServer
from orchestai.lm.causal import CausalPolicy

if TYPE_CHECKING:
    from torch import Tensor


class LocalBackend:
    """`CausalPolicy.sample` in a thread; there is nothing to take over."""

    def __init__(self, policy: CausalPolicy) -> None:
        self._policy = policy
        self._version = -1

    async def generate(self, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings) -> Generation:
        version = self._version
        completions = await asyncio.to_thread(
            self._policy.sample,
            prompts,
            seeds,
            temperature=settings.temperature,
            max_new_tokens=settings.max_new_tokens,
        )
        return Generation(completions, version)

    async def sync(self, weights: ModelWeights, policy_version: int) -> None:
        self._version = policy_version

    async def close(self) -> None:
        """Nothing is held."""


Together: TypeAlias = Callable[[Awaitable[Any]], Awaitable[list[Any]]]
"""Finishes the work in every process, and gives the results of all, or the error of one to all (`on_all`)."""


class SyncedBackend:
    """Samples with weights of a known version; the caller never lets `generate` and `sync` overlap.

    Args:
        weights: those of the policy.
        canary: compares the backend with the policy after each handover; None where the weights are the policy's own.
        together: see `Together`.
    """

    def __init__(self, backend: Backend, weights: ModelWeights, canary: Canary | None, together: Together) -> None:
        self._backend = backend
        self._weights = weights
        self._canary = canary
        self._together = together
        self._proven = canary is None

    async def generate(self, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings) -> Generation:
        """See `Generates.generate`."""
        return await self._backend.generate(prompts, seeds, settings)

    async def sync(self, policy_version: int, beside: Sequence[SyncedBackend] = ()) -> dict[str, float]:
        """Sample from the present weights from now on. All processes call it together.

        The first time, weights that clearly differ in one part are handed over too, for each of the canary's parts, to
        see that the backend follows, and that those beside it do not.

        Args:
            beside: backends of other policies, which have their present weights and may be on the same engine.

        Returns:
            figures for reports.

        Raises:
            UserError: the backend did not take the weights over, or one beside it did.
        """
        if not self._proven and self._canary is not None:
            await self._hand_over(policy_version)
            strengths = await self._together(self._canary.strengths(self._backend))
            for part, needed in enumerate(zip(*strengths, strict=True)):
                with self._canary.disturbed(part, max(needed)):
                    await self._hand_over(policy_version)
                    for other in beside:
                        await other._check()
            self._proven = True
        return await self._hand_over(policy_version)

    async def close(self) -> None:
        """Close the backend."""
        await self._backend.close()

    async def _hand_over(self, policy_version: int) -> dict[str, float]:
        await self._together(self._backend.sync(self._weights, policy_version))
        return await self._check()

    async def _check(self) -> dict[str, float]:
        if self._canary is None:
            return {}
        return {"canary_gap": max(await self._together(self._canary.check(self._backend)))}


def local_backend(policy: CausalPolicy) -> SyncedBackend:
    """The policy itself samples, in this process alone."""
    return SyncedBackend(LocalBackend(policy), ModelWeights(policy.model, main=True), None, _alone)


async def _alone(work: Awaitable[Any]) -> list[Any]:
    return [await work]


@dataclass(frozen=True)
class Processes:
    """The processes of a run: this one's number, how many there are, and how they work together.

    Attributes:
        run: a name that all of them share and no other run has.
    """

    index: int
    count: int
    run: str
    together: Together


@dataclass(frozen=True)
class SyncedPolicy:
    """A policy whose weights a backend follows, and how an engine loads what it began from.

    Attributes:
        name: tells the policies of one run apart.
        dtype: what an engine computes in, such as `bfloat16`.
        lora: the adapters that are learned; None where the whole model is.
        longest: most tokens of a prompt with its completion; None for the model's own limit.
    """

    policy: CausalPolicy
    name: str
    dtype: str
    lora: LoraConfig | None
    longest: int | None = None


def open_backend(
    settings: BackendConfig,
    synced: SyncedPolicy,
    probe: CanaryProbe,
    processes: Processes,
    *,
    section: str,
    sync_dir: Path,
) -> SyncedBackend:
    """Open the backend that a section of the configuration asks for.

    Args:
        section: key of the section, for messages.
        sync_dir: where weights are handed over, unless the section names a folder.

    Raises:
        UserError: vLLM is not installed, or does not start.
    """
    main = processes.index == 0
    policy = synced.policy
    folder = f"{processes.run}-{synced.name}"
    root = settings.vllm.sync_dir or sync_dir
    backend: Backend
    if settings.backend == "transformers":
        backend = LocalBackend(policy)
    elif settings.backend == "vllm_server":
        backend = VllmServer(
            settings.vllm,
            Folders(root, folder),
            adapters=synced.lora is not None,
            end_ids=policy.end_ids,
            main=main,
            section=section,
        )
    else:
        main = True  # each process writes for its own engine
        backend = VllmEngine(
            EngineModel(
                str(policy.model.name_or_path),
                synced.dtype,
                synced.lora,
                policy.end_ids,
                min((limit for limit in (synced.longest, policy.context) if limit is not None), default=None),
            ),
            settings.vllm,
            Folders(root, f"{folder}-{processes.index}"),
            processes=processes.count,
            section=section,
        )
    canary = None
    if settings.samples_elsewhere:
        canary = Canary(policy, probe, settings.vllm.canary_tolerance, section)
    return SyncedBackend(backend, ModelWeights(policy.model, main=main), canary, processes.together)
