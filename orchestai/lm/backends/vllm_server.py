"""Backend `vllm_server`: vLLM behind its OpenAI-compatible server, on other GPUs or another machine.

Adapters need `VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL --enable-lora --max-lora-rank R`, whole models
`VLLM_SERVER_DEV_MODE=1 vllm serve MODEL` (on a CPU, with the workers of `vllm_worker`); both `--logprobs-mode
processed_logprobs`. Weights reach the server as a folder, which it must see under the same path.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import openai

from orchestai.config import VllmConfig
from orchestai.errors import UserError
from orchestai.lm.backends.base import Folders, Generation, ModelWeights, SampleSettings
from orchestai.lm.backends.vllm_engine import completion
from orchestai.lm.backends.vllm_worker import EXTENSION, METHOD
from orchestai.lm.sampling import Completion

if TYPE_CHECKING:
    from torch import Tensor

_TRIES = 3
_TIMEOUT_S = 600.0
"""Before a completion or a handover of weights counts as failed."""
_KEY = "VLLM_API_KEY"


class VllmServer:
    """Asks `/v1/completions` with token ids, one request per row, since rows differ in their seeds.

    Args:
        adapters: whether adapters are learned; else the whole model is.
        end_ids: tokens that end a completion.
        main: whether this process hands the weights over; the others only learn which version there is.
        section: key of the model's section of the configuration, for messages.
    """

    def __init__(
        self,
        config: VllmConfig,
        folders: Folders,
        *,
        adapters: bool,
        end_ids: frozenset[int],
        main: bool,
        section: str,
    ) -> None:
        self._section = section
        self._url = config.base_url.rstrip("/")
        self._folders = folders
        self._adapters = adapters
        self._end_ids = sorted(end_ids)
        self._main = main
        self._client = openai.AsyncOpenAI(
            base_url=f"{self._url}/v1",
            api_key=os.environ.get(_KEY) or "none",
            timeout=_TIMEOUT_S,
            max_retries=_TRIES - 1,
        )
        self._model = ""
        self._version = -1
        self._method = ""

    async def generate(self, prompts: Sequence[Tensor], seeds: Sequence[int], settings: SampleSettings) -> Generation:
        version = self._version
        model = self._model or await self._base_model()
        rows = [
            asyncio.ensure_future(self._ask(model, prompt.tolist(), seed, settings))
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        try:
            return Generation(list(await asyncio.gather(*rows)), version)
        finally:
            for row in rows:
                row.cancel()

    async def _ask(self, model: str, prompt: list[int], seed: int, settings: SampleSettings) -> Completion:
        try:
            response: Any = await self._client.completions.create(
                model=model,
                prompt=prompt,
                seed=seed,
                temperature=settings.temperature,
                max_tokens=settings.max_new_tokens,
                logprobs=0,
                # Said outright, because a server's defaults come from the model's generation settings.
                top_p=1.0,
                extra_body={
                    "top_k": 0,
                    "min_p": 0.0,
                    "repetition_penalty": 1.0,
                    "stop_token_ids": self._end_ids,
                    "return_token_ids": True,
                },
            )
        except openai.APIError as error:
            raise self._failed("no completion", error) from error
        if response.model != model:
            raise UserError(f"{self._url}: asked for {model!r}, but {response.model!r} answered; its weights are stale")
        choice = response.choices[0]
        ids = getattr(choice, "token_ids", None)
        if ids is None or choice.logprobs is None:
            raise UserError(f"{self._url}: sent no token ids or log-probabilities; it needs vLLM 0.19 or later")
        return completion(ids, choice.logprobs.token_logprobs, choice.finish_reason, self._section)

    async def sync(self, weights: ModelWeights, policy_version: int) -> None:
        folder = self._folders.next(policy_version)
        if self._adapters or self._main:
            weights.write(folder)
        if self._adapters:
            if self._main:
                await self._post("/v1/load_lora_adapter", {"lora_name": folder.name, "lora_path": str(folder)})
                before = self._folders.keep(folder)
                if before is not None:
                    await self._post("/v1/unload_lora_adapter", {"lora_name": before.name})
            self._model = folder.name
        elif self._main:
            if not self._method:
                told = (await self._get("/server_info", config_format="json"))["vllm_config"]
                own = told["parallel_config"]["worker_extension_cls"] == EXTENSION
                self._method = METHOD if own else "reload_weights"
            await self._post("/collective_rpc", {"method": self._method, "kwargs": {"weights_path": str(folder)}})
            self._folders.keep(folder)
            await self._post("/reset_prefix_cache", {})
        self._version = policy_version

    async def close(self) -> None:
        await self._client.close()
        if self._main:
            self._folders.clear()

    async def _base_model(self) -> str:
        try:
            listed: Any = (await self._client.models.list()).data
        except openai.APIError as error:
            raise self._failed("its models cannot be listed", error) from error
        self._model = next(model.id for model in listed if getattr(model, "parent", None) is None)
        return self._model

    async def _get(self, path: str, **query: str) -> Any:
        try:
            client = self._client.with_options(base_url=self._url)
            return json.loads(await client.get(path, options={"params": query}, cast_to=str))
        except openai.APIError as error:
            raise self._failed(f"{path} failed", error) from error

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        try:
            await self._client.with_options(base_url=self._url).post(path, body=body, cast_to=str)
        except openai.APIError as error:
            raise self._failed(f"{path} failed", error) from error

    def _failed(self, what: str, error: openai.APIError) -> UserError:
        said = f"HTTP {error.status_code}: {error.message[:200]}" if isinstance(error, openai.APIStatusError) else error
        return UserError(
            f"{self._url}: {what} ({said}); is the server running, and as docs/machines/rollouts.md says? "
            f"({self._section}.vllm.base_url)"
        )
