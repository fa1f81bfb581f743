"""Backend `ray`: copies of the model that learns on the nodes of a Ray cluster; tokens go there and come back.

Weights travel as a folder, which all nodes must see under the same path. Every request names the folder that it is to
be answered with, and no two have one name, so an actor that came late, or in the place of one that was lost, cannot
answer with others. That it has them, each proves with everything that it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch

from orchestai.cluster.actors import ActorKind, ActorPool
from orchestai.cluster.environment import given_environment
from orchestai.cluster.facts import Facts
from orchestai.cluster.joining import actors_for, joined
from orchestai.config import LoraConfig, PlaceConfig, RaySamplingConfig
from orchestai.errors import UserError
from orchestai.lm.backends.base import Generation, SampleSettings, Weights
from orchestai.lm.backends.canary import CanaryProbe
from orchestai.lm.backends.sampling_node import PACKAGES, SamplingNode, SamplingSetup, Share, Written
from orchestai.lm.backends.weights import Folders
from orchestai.lm.causal import CausalPolicy
from orchestai.lm.sampling import Completion

if TYPE_CHECKING:
    from torch import Tensor

_Pool: TypeAlias = ActorPool[Facts]


@dataclass(frozen=True)
class SampledModel:
    """The model whose copies sample.

    Attributes:
        dtype: of its weights, such as `bfloat16`.
        lora: the adapters that are learned, over the model that nodes find by its name; None where the whole model is.
        sharing: how many such models share the cluster.
    """

    policy: CausalPolicy
    dtype: str
    lora: LoraConfig | None
    sharing: int = 1


class RayNodes:
    """Gives each actor a like share of the rows of a request.

    Args:
        place: where executions run; its section `ray` says which cluster it is.
        probe: what each actor proves its weights by.
        main: whether this process hands the weights over; the others only learn which version there is.
        section: key of the model's section of the configuration, for messages.

    Attributes:
        engines: number of actors.

    Raises:
        UserError: executions might take all CPUs of the cluster, nodes cannot find the model, or there is no cluster
            or no actor in time.
    """

    def __init__(
        self,
        model: SampledModel,
        config: RaySamplingConfig,
        place: PlaceConfig,
        folders: Folders,
        probe: CanaryProbe,
        *,
        main: bool,
        section: str,
    ) -> None:
        self._folders = folders
        self._main = main
        self._folder: Path | None = None
        self._version = -1
        policy, base, cluster = model.policy, str(model.policy.model.name_or_path), place.ray
        if place.backend == "ray" and None in (cluster.num_workers, config.num_workers):
            raise UserError(
                f"{section}.backend=ray: executions run on the same cluster; set execution.ray.num_workers and "
                f"{section}.ray.num_workers, so that there are CPUs for both"
            )
        if model.lora is not None and not base:
            raise UserError(
                f"{section}.backend=ray: nodes load the model under adapters by its name, and this one is made anew in "
                "every process; choose another model, or let it learn whole"
            )
        setup = SamplingSetup(
            base,
            model.lora,
            model.dtype,
            policy.autocast,
            policy.end_ids,
            probe,
            config.cpus_per_worker,
            config.gpus_per_worker > 0,
            section,
            Path.cwd(),
            given_environment(cluster.env),
        )
        kind = ActorKind(SamplingNode, setup, config.cpus_per_worker, config.gpus_per_worker, PACKAGES)
        with ExitStack() as stack:
            stack.enter_context(joined(cluster))
            self.engines = actors_for(config.num_workers, kind.cpus, kind.gpus, model.sharing)
            self._pool = stack.enter_context(closing(_Pool(kind, cluster, self.engines, in_flight=1)))
            self._stack = stack.pop_all()

    async def generate(self, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings) -> Generation:
        """See `Generates.generate`; weights were handed over before.

        Raises:
            InfrastructureError: the actors of several nodes were lost over a share of the rows.
        """
        assert self._folder is not None, "there are no weights to sample with yet"
        version, count = self._version, len(prompts)
        shares = min(self.engines, count)
        bounds = [count * i // shares for i in range(shares + 1)]
        calls = [
            asyncio.wrap_future(
                self._pool.start(
                    "generate",
                    self._folder,
                    [prompt.tolist() for prompt in prompts[begin:end]],
                    list(seeds[begin:end]),
                    settings,
                )
            )
            for begin, end in pairwise(bounds)
        ]
        try:
            shared: list[Share] = await asyncio.gather(*calls)
        finally:
            for call in calls:
                call.cancel()
        completions = [_completion(one) for share in shared for one in share.written]
        return Generation(completions, version, tuple(share.proof for share in shared))

    async def sync(self, weights: Weights, policy_version: int) -> None:
        folder = self._folders.next(policy_version)
        weights.write(folder)
        if self._main:
            self._folders.keep(folder)
        self._folder, self._version = folder, policy_version

    async def close(self) -> None:
        self._stack.close()
        if self._main:
            self._folders.clear()


def _completion(written: Written) -> Completion:
    ids, logp, ended = written
    return Completion(torch.tensor(ids, dtype=torch.long), torch.tensor(logp, dtype=torch.float32), ended)
