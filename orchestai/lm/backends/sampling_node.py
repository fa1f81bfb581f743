"""What samples on each node of a cluster: a copy of the model that learns, in a process apart."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from orchestai.cluster.environment import settle
from orchestai.cluster.facts import Facts
from orchestai.cluster.host import process_name
from orchestai.config import LoraConfig
from orchestai.errors import UserError
from orchestai.lm import loading, weights
from orchestai.lm.backends.base import Proof, SampleSettings
from orchestai.lm.backends.canary import CanaryProbe
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
