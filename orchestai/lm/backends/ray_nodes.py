"""Backend `ray`: copies of the model that learns on the nodes of a Ray cluster; tokens go there and come back.

Weights travel as a folder, which all nodes must see under the same path. Every request names the folder that it is to
be answered with, and no two have one name, so an actor that came late, or in the place of one that was lost, cannot
answer with others. That it has them, each proves with everything that it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from orchestai.cluster.actors import ActorKind, ActorPool
from orchestai.cluster.environment import Facts, given_environment, settle
from orchestai.cluster.host import process_name
from orchestai.cluster.joining import actors_for, joined
from orchestai.config import LoraConfig, PlaceConfig, RaySamplingConfig
from orchestai.errors import UserError
from orchestai.lm import loading, weights
from orchestai.lm.backends.base import Generation, Proof, SampleSettings, Weights
from orchestai.lm.backends.canary import CanaryProbe
from orchestai.lm.backends.transfer import Folders
from orchestai.lm.causal import CausalPolicy
from orchestai.lm.model_keys import ModelKeys
from orchestai.lm.sampling import Completion

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


Written: TypeAlias = tuple[list[int], list[float], bool]
"""The tokens of a completion, their log-probabilities, and whether an end token was written."""
PACKAGES = ("torch", "transformers", "peft")
"""On whose versions the tokens depend."""


@dataclass(frozen=True)
class Share:
    """The completions of some rows, by weights that the node has as `proof` shows."""

    written: list[Written]
    proof: Proof


@dataclass(frozen=True)
class SamplingSetup:
    """What a node samples with.

    Attributes:
        base: name or folder of the model under the adapters that are learned, as the process that learns found it;
            unused where the whole model is.
        lora: those adapters; None where the whole model is learned.
        dtype: of the weights, such as `bfloat16`.
        autocast: the dtype in which matrices are multiplied; None for that of the weights.
        end_ids: tokens that end a completion.
        probe: what is written first with any weights, as a proof of them.
        threads: with which it computes.
        on_gpu: whether it has one.
        section: key of the model's section of the configuration, for messages.
        folder: the working directory, taken where the node has it, since models may be named relative to it.
        env: further environment variables with their values.
    """

    base: str
    lora: LoraConfig | None
    dtype: str
    autocast: torch.dtype | None
    end_ids: frozenset[int]
    probe: CanaryProbe
    threads: int
    on_gpu: bool
    section: str
    folder: Path
    env: Mapping[str, str]


class SamplingNode:
    """An actor. It reads weights when it is first asked for completions of them; one request is answered at a time."""

    def __init__(self, setup: SamplingSetup) -> None:
        settle(setup.env, setup.folder)
        torch.set_num_threads(setup.threads)
        self._setup = setup
        self._keys = ModelKeys(f"{setup.section}.backend", setup.section)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sampling")
        self._policy: CausalPolicy | None = None
        self._proof: Proof | None = None
        self._read: Path | None = None

    async def facts(self) -> Facts:
        """What this node is."""
        return Facts(process_name())

    async def generate(
        self, folder: Path, prompts: Sequence[Sequence[int]], seeds: Sequence[int], settings: SampleSettings
    ) -> Share:
        """Completions by the weights of a folder, as `Generates.generate` has them.

        Raises:
            UserError: the node does not see the folder, or the weights cannot be loaded or sampled from.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._generate, folder, prompts, seeds, settings)

    async def close(self) -> None:
        """Nothing is held beyond the process."""

    def _generate(
        self, folder: Path, prompts: Sequence[Sequence[int]], seeds: Sequence[int], settings: SampleSettings
    ) -> Share:
        policy, proof = self._with_weights(folder)
        completions = _sample(policy, [torch.tensor(prompt) for prompt in prompts], seeds, settings)
        return Share([(one.ids.tolist(), one.logp.tolist(), one.ended) for one in completions], proof)

    def _with_weights(self, folder: Path) -> tuple[CausalPolicy, Proof]:
        """The model with the weights of a folder, and the proof that it has them, written as soon as they are read."""
        if self._policy is None or self._proof is None or self._read != folder:
            self._read = None
            self._policy = self._taking_over(folder)
            proven = _sample(self._policy, *self._setup.probe.request())
            self._proof = Proof.of(f"an actor on {process_name()}", proven)
            self._read = folder
        return self._policy, self._proof

    def _taking_over(self, folder: Path) -> CausalPolicy:
        section, lora = self._setup.section, self._setup.lora
        if not folder.is_dir():
            raise UserError(
                f"{section}.ray.sync_dir: {process_name()} does not see {folder}; set it to a folder that all nodes "
                "and this machine share"
            )
        if lora is None:
            self._policy = None  # before the next one takes memory
            return self._open(str(folder))
        if self._policy is None:
            policy = self._open(self._found_base())
            loading.load_adapter(policy.model, lora, folder)
            return policy.eval()
        loading.read_adapter(self._policy.model, folder)
        return self._policy

    def _found_base(self) -> str:
        try:
            return weights.source_elsewhere(self._setup.base, self._keys.name)
        except UserError as error:
            raise UserError(
                f"{error}; so says {process_name()}, and every node loads the model under adapters by itself"
            ) from None

    def _open(self, source: str) -> CausalPolicy:
        setup, keys = self._setup, self._keys
        options: dict[str, Any] = {"dtype": loading.DTYPES[setup.dtype]}
        with loading.quietly():
            model: PreTrainedModel = weights.read_without_tokenizer(source, keys.name, **options)
        if setup.on_gpu:
            model.to("cuda")  # type: ignore[arg-type]
        policy = CausalPolicy(model, setup.end_ids, keys=keys).eval()
        policy.autocast = setup.autocast
        return policy


def _sample(
    policy: CausalPolicy, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings
) -> list[Completion]:
    return policy.sample(prompts, seeds, temperature=settings.temperature, max_new_tokens=settings.max_new_tokens)


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
