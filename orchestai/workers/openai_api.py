"""Models behind an OpenAI-compatible server."""

from __future__ import annotations

import os
import time
from typing import cast
from urllib.parse import urlparse

import openai
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from orchestai.config import ModelConfig
from orchestai.errors import FaultKind, InfrastructureError, UserError
from orchestai.workers.base import Completion, WorkerError
from orchestai.workers.generation import Prompt, SamplingParams, seed

_DEFAULT_URL = "https://api.openai.com/v1"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_STOPS_ACCEPTED = 4
_LONGEST_WAIT_S = 20.0
_CHECK_TIMEOUT_S = 10.0
_PASSING_FAULTS = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError)
"""Worth another try; a time-out is a connection error."""


class OpenAIGenerator:
    """Asks `/chat/completions`. The key comes from the environment and is never written anywhere.

    A prompt's prefill goes as a final assistant message, which servers that support it continue.
    """

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._url = config.base_url or _DEFAULT_URL
        self.identity = f"{config.name}@{self._url}"
        local = urlparse(self._url).hostname in _LOCAL_HOSTS
        self._key = os.environ.get(config.api_key_env) or ("none" if local else "")
        self._client = openai.AsyncOpenAI(
            base_url=self._url, api_key=self._key or "missing", timeout=config.timeout_s, max_retries=0
        )

    async def generate(self, prompt: Prompt, params: SamplingParams, sample: int) -> Completion:
        self._require_key()
        try:
            response, latency_ms = await self._ask(prompt, params, sample)
        except _PASSING_FAULTS as error:
            raise InfrastructureError(
                _kind(error), f"{self._url}: {_reason(error)} after {self._config.max_retries + 1} tries"
            ) from error
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise self._refused(error) from error
        except openai.NotFoundError as error:
            raise UserError(f"{self._url}: no model {self._config.name!r} there; see {self._url}/models") from error
        except openai.APIStatusError as error:
            raise WorkerError(f"{self._url}: {_reason(error)}") from error
        if not response.choices:
            raise WorkerError(f"{self._url}: the response holds no choice")
        text = response.choices[0].message.content or ""
        return Completion(
            text=_cut(text, params.stop),
            prompt_tokens=response.usage.prompt_tokens if response.usage else 0,
            completion_tokens=response.usage.completion_tokens if response.usage else 0,
            latency_ms=latency_ms,
            origin=f"{response.model or self._config.name} at {self._url}",
        )

    async def check(self) -> None:
        """Raises `UserError` if the server cannot be reached or refuses the key."""
        self._require_key()
        try:
            await self._client.with_options(timeout=min(_CHECK_TIMEOUT_S, self._config.timeout_s)).models.list()
        except openai.APIConnectionError:
            raise UserError(f"cannot reach {self._url}; is the server running? (workers.models: base_url)") from None
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise self._refused(error) from None
        except openai.APIStatusError:
            return  # it answers; not every server lists its models

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, prompt: Prompt, params: SamplingParams, sample: int) -> tuple[ChatCompletion, float]:
        """The response, and how many milliseconds the try that brought it took."""
        messages = [{"role": role, "content": content} for role, content in prompt.messages]
        if prompt.prefill:
            messages.append({"role": "assistant", "content": prompt.prefill})
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_PASSING_FAULTS),
            stop=stop_after_attempt(self._config.max_retries + 1),
            wait=wait_random_exponential(multiplier=0.5, max=_LONGEST_WAIT_S),
            reraise=True,
        )

        async def ask() -> tuple[ChatCompletion, float]:
            began = time.perf_counter()
            response = await self._client.chat.completions.create(
                model=self._config.name,
                messages=cast(list[ChatCompletionMessageParam], messages),
                temperature=params.temperature,
                max_tokens=params.max_new_tokens,
                stop=list(params.stop[:_STOPS_ACCEPTED]) or openai.omit,
                seed=seed(self.identity, prompt, params, sample) % 2**31,
            )
            return response, (time.perf_counter() - began) * 1000

        return await retrying(ask)

    def _require_key(self) -> None:
        if not self._key:
            raise UserError(f"{self._url} needs a key: export {self._config.api_key_env}=...")

    def _refused(self, error: openai.APIStatusError) -> UserError:
        return UserError(
            f"{self._url}: the key is refused (HTTP {error.status_code}); check the variable {self._config.api_key_env}"
        )


def _kind(error: openai.APIError) -> FaultKind:
    if isinstance(error, openai.APITimeoutError):
        return "timeout"
    if isinstance(error, openai.APIConnectionError):
        return "connection"
    return "rate_limit" if isinstance(error, openai.RateLimitError) else "server"


def _reason(error: openai.APIError) -> str:
    if isinstance(error, openai.APITimeoutError):
        return "no answer in time"
    if isinstance(error, openai.APIStatusError):
        return f"HTTP {error.status_code}: {error.message[:200]}"
    return "connection refused or lost"


def _cut(text: str, stops: tuple[str, ...]) -> str:
    """`text` before the first stop string: servers take only a few."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places, default=None)]
