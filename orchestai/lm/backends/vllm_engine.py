"""Backend `vllm`: an engine of vLLM in this process (the extra `gpu`)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from orchestai.config import LoraConfig, VllmConfig
from orchestai.errors import UserError
from orchestai.installed import needed_for
from orchestai.lm.backends.base import Folders, Generation, ModelWeights, SampleSettings
from orchestai.lm.backends.vllm_worker import EXTENSION, METHOD
from orchestai.lm.sampling import Completion

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks of adapters that vLLM makes room for."""


@dataclass(frozen=True)
class EngineModel:
    """What an engine loads.

    Attributes:
        name: name or folder of the model; without its adapters.
        dtype: what it computes in, such as `bfloat16`.
        lora: the adapters that are learned; None where the whole model is.
        end_ids: tokens that end a completion.
        context: most tokens of a prompt with its completion; None for the model's own limit.
    """

    name: str
    dtype: str
    lora: LoraConfig | None
    end_ids: frozenset[int]
    context: int | None


class VllmEngine:
    """Weights reach the engine as a folder, through `reload_weights` or as an adapter under a new name.

    One thread does all that touches the engine, since a thread has its own idea of which GPU is the current one.

    Args:
        processes: of the whole run; each has its own engine.
        section: key of the model's section of the configuration, for messages.

    Raises:
        UserError: vLLM is not installed, cannot hold the adapters, or does not start; or several processes would have
            to share an engine.
    """

    def __init__(
        self,
        model: EngineModel,
        config: VllmConfig,
        folders: Folders,
        *,
        processes: int,
        section: str,
    ) -> None:
        self._section = section
        with needed_for(f"{section}.backend"):
            import vllm
            from vllm.lora.request import LoRARequest
        refuse_sharing(config, processes, section)
        options: dict[str, Any] = {
            "worker_extension_cls": EXTENSION,
            "max_model_len": model.context,
            "gpu_memory_utilization": 0.3,
            **config.engine_options,
        }
        if model.lora is not None:
            options |= {"enable_lora": True, "max_lora_rank": engine_rank(model.lora.rank, section), "max_loras": 1}
        if processes > 1:
            options["distributed_executor_backend"] = "external_launcher"
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vllm")
        opening = self._thread.submit(
            vllm.LLM,
            model=model.name,
            dtype=model.dtype,
            logprobs_mode="processed_logprobs",
            generation_config="vllm",
            **options,
        )
        try:
            self._llm: Any = opening.result()
        except Exception as error:
            self._thread.shutdown()
            raise self._failed("does not start", error) from error
        self._make_params: Any = vllm.SamplingParams
        self._make_lora: Any = LoRARequest if model.lora is not None else None
        self._lora: Any = None
        self._folders = folders
        self._end_ids = sorted(model.end_ids)
        self._version = -1

    async def generate(self, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings) -> Generation:
        version = self._version
        return Generation(await self._do(lambda: self._generate(prompts, seeds, settings)), version)

    def _generate(self, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings) -> list[Completion]:
        params = [
            self._make_params(
                temperature=settings.temperature,
                max_tokens=settings.max_new_tokens,
                seed=seed,
                logprobs=0,
                stop_token_ids=self._end_ids,
                detokenize=False,
            )
            for seed in seeds
        ]
        outputs = self._llm.generate(
            [{"prompt_token_ids": prompt.tolist()} for prompt in prompts],
            params,
            lora_request=self._lora,
            use_tqdm=False,
        )
        completions = []
        for output in (one.outputs[0] for one in outputs):
            logp = [step[i].logprob for i, step in zip(output.token_ids, output.logprobs, strict=True)]
            completions.append(completion(output.token_ids, logp, output.finish_reason, self._section))
        return completions

    async def sync(self, weights: ModelWeights, policy_version: int) -> None:
        folder = self._folders.next(policy_version)
        weights.write(folder)
        if self._make_lora is None:
            await self._do(lambda: self._llm.collective_rpc(METHOD, kwargs={"weights_path": str(folder)}))
            await self._do(self._llm.reset_prefix_cache)
        else:
            # What the cache knows of a prompt counts for one adapter alone, so a new one needs no reset.
            self._lora = self._make_lora(folder.name, self._folders.count, str(folder))
        self._folders.keep(folder)
        self._version = policy_version

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except UserError:
            raise
        except Exception as error:
            raise self._failed("failed", error) from error

    def _failed(self, what: str, error: Exception) -> UserError:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return UserError(f"{self._section}.backend: vLLM's engine {what} ({reason[:300]}); its own output says why")

    async def close(self) -> None:
        # Without it the engine's processes live on with this one: objects of vLLM hold each other.
        await self._do(self._llm.llm_engine.engine_core.shutdown)
        del self._llm
        self._thread.shutdown()
        self._folders.clear()


def refuse_sharing(config: VllmConfig, processes: int, section: str) -> None:
    """Several processes do not share an engine.

    Raises:
        UserError: they would have to.
    """
    spread = config.engine_options.get("tensor_parallel_size", 1)
    if processes > 1 and spread > 1:
        raise UserError(
            f"{section}.vllm.engine_options.tensor_parallel_size={spread}: processes that share an engine "
            f"would all have to ask it the same, but each of the {processes} samples its own tasks; set it to 1, "
            f"or {section}.backend to vllm_server and give it to the server"
        )


def engine_rank(rank: int, section: str) -> int:
    """The least rank that vLLM makes room for and that holds adapters of `rank`.

    Raises:
        UserError: there is none.
    """
    for known in _RANKS:
        if rank <= known:
            return known
    raise UserError(
        f"{section}.lora.rank={rank}: vLLM holds adapters up to rank {_RANKS[-1]}; lower it, or set "
        f"{section}.backend to transformers"
    )


def completion(ids: Sequence[int], logp: Sequence[float | None], finish_reason: str | None, section: str) -> Completion:
    """What an engine sent, as tensors. A log-probability that is not finite is the engine's, and refused.

    Args:
        finish_reason: `stop` after an end token; else it was cut off.

    Raises:
        UserError: there is one that is not finite, or not one per token.
    """
    if len(ids) != len(logp):
        raise UserError(f"{section}.backend: the engine sent {len(ids)} tokens, but {len(logp)} log-probabilities")
    if not all(value is not None and math.isfinite(value) for value in logp):
        raise UserError(
            f"{section}.backend: the engine's log-probabilities are not finite, so what it writes is noise; its "
            "weights or its dtype are broken: go on from an earlier checkpoint, or compute in bfloat16"
        )
    return Completion(
        torch.tensor(ids, dtype=torch.long),
        torch.tensor(logp, dtype=torch.float32),
        finish_reason == "stop",
    )
