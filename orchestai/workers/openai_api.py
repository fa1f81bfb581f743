"""Models behind an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlparse

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from orchestai.config import ModelConfig
from orchestai.errors import InfrastructureError, UnbilledError, UserError, first_problem
from orchestai.tasks.dialogue import ToolCall
from orchestai.workers.api_faults import PassingError, fault_of_body
from orchestai.workers.base import TextCompletion, Usage, WorkerError
from orchestai.workers.environment import fill, secrets_of
from orchestai.workers.generation import Hear, Prompt, SamplingParams, seed
from orchestai.workers.http_client import HttpClient
from orchestai.workers.openai_stream import gather_pieces
from orchestai.workers.patience import is_too_long
from orchestai.workers.token_count import TokenCounter

_DEFAULT_URL = "https://api.openai.com/v1"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_COMPLETIONS = "/chat/completions"
_STOPS_ACCEPTED = 4
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
"""Bounds of the random wait after the first try, and of any wait, whatever the server asks for."""
_CHECK_TIMEOUT_S = 10.0


class _Function(BaseModel):
    name: str
    arguments: str = ""


class _ToolCall(BaseModel):
    id: str = ""
    function: _Function


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None
    tool_calls: tuple[_ToolCall, ...] | None = None


class _Choice(BaseModel):
    message: _Message = _Message()
    finish_reason: str | None = None
    error: Any = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Reply(BaseModel):
    """What is read of a server's answer."""

    choices: tuple[_Choice, ...] | None = None
    usage: _Usage | None = None
    model: str | None = None
    error: Any = None


class OpenAIGenerator:
    """Asks `/chat/completions`. The key comes from the environment and is never written anywhere.

    A prompt's prefill goes as a final assistant message, which servers that support it continue.
    """

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._url = config.base_url or _DEFAULT_URL
        self.identity = f"{config.name}@{self._url}"
        self.tries = config.max_retries + 1
        local = urlparse(self._url).hostname in _LOCAL_HOSTS
        self._secret = os.environ.get(config.api_key_env, "") if config.api_key_env else ""
        self._secrets = [secret for secret in (self._secret, *secrets_of(config.headers)) if secret]
        self._key = self._secret or ("none" if local and config.api_key_env else "")
        self._client = HttpClient(self._url, self._key, config.timeout_s)
        self._counter = TokenCounter(config.name)

    async def generate(
        self, prompt: Prompt, params: SamplingParams, sample: int, hear: Hear | None = None
    ) -> TextCompletion:
        self._require_key()
        try:
            heard = hear if len(params.stop) <= _STOPS_ACCEPTED else None
            reply, latency_ms = await self._ask(prompt, params, sample, heard)
        except UnbilledError as fault:
            raise UnbilledError(fault.kind, self._named(fault)) from fault
        except InfrastructureError as fault:
            raise InfrastructureError(fault.kind, self._named(fault)) from fault
        except WorkerError as error:
            raise WorkerError(self._named(error)) from error
        text, usage = _text(reply), reply.usage or _Usage()
        read, written = usage.prompt_tokens or 0, usage.completion_tokens or 0
        estimated = not read or (not written and bool(text))
        if estimated:
            counted = await self._counter.count(prompt, text)
            read, written = read or counted[0], written or counted[1]
        if _choice(reply).finish_reason == "content_filter":
            paid = Usage(prompt_tokens=read, completion_tokens=written, latency_ms=latency_ms, estimated=estimated)
            raise WorkerError(f"{self._url}: the provider's content filter withheld the reply", paid)
        kept = _cut(text, params.stop)
        return TextCompletion(
            text=kept,
            prompt_tokens=read,
            completion_tokens=written,
            latency_ms=latency_ms,
            origin=f"{reply.model or self._config.name} at {self._url}",
            usage_estimated=estimated,
            tool_calls=_tool_calls(reply),
            truncated=_choice(reply).finish_reason == "length" and kept == text,
        )

    async def check(self) -> None:
        """Raises `UserError` if the server cannot be reached, refuses the key or wants money."""
        self._require_key()
        try:
            await self._client.get("/models", self._headers(), min(_CHECK_TIMEOUT_S, self._config.timeout_s))
        except InfrastructureError as fault:
            if fault.kind in ("authentication", "payment"):
                raise UserError(self._named(fault)) from None
            if fault.kind in ("connection", "timeout"):
                raise UserError(
                    f"cannot reach {self._url} ({fault}); is the server running? (workers.models: base_url)"
                ) from None
        except WorkerError:
            return  # it answers; not every server lists its models

    async def close(self) -> None:
        await self._client.close()

    async def _ask(
        self, prompt: Prompt, params: SamplingParams, sample: int, hear: Hear | None
    ) -> tuple[_Reply, float]:
        """The reply, and how many milliseconds the try that brought it took.

        Raises:
            UnbilledError: each try was one too many for the server.
            InfrastructureError: no try brought one, or the deadline comes before the next may be made, so that
                another worker can be asked in the time that is left.
        """
        data, headers = to_json(self._body(prompt, params, sample, stream=hear is not None)), self._headers()
        tries, billed = 0, False
        while True:
            began = time.perf_counter()
            try:
                return await self._answer(data, headers, hear), (time.perf_counter() - began) * 1000
            except PassingError as fault:
                tries, billed = tries + 1, billed or fault.kind != "rate_limit"
                pause_s = wait_s(fault, tries)
                if tries == self.tries or is_too_long(pause_s):
                    made = "1 try" if tries == 1 else f"{tries} tries"
                    failed = InfrastructureError if billed else UnbilledError
                    raise failed(fault.kind, f"{fault} after {made}") from fault
                await asyncio.sleep(pause_s)

    async def _answer(self, data: bytes, headers: Mapping[str, str], hear: Hear | None) -> _Reply:
        if hear is None:
            return _read(await self._client.post(_COMPLETIONS, data, headers))
        async with self._client.events(_COMPLETIONS, data, headers) as events:
            return _read(to_json(await gather_pieces(events, hear)))

    def _body(self, prompt: Prompt, params: SamplingParams, sample: int, *, stream: bool) -> dict[str, Any]:
        """What is asked for, in OpenAI's format."""
        messages: list[Any] = [{"role": role, "content": content} for role, content in prompt.messages]
        if prompt.prefill:
            messages.append({"role": "assistant", "content": prompt.prefill})
        body: dict[str, Any] = {
            "model": self._config.name,
            "messages": messages,
            "temperature": params.temperature,
            "max_tokens": params.max_new_tokens,
            "seed": seed(self.identity, prompt, params, sample) % 2**31,
        }
        if params.stop:
            body["stop"] = params.stop[:_STOPS_ACCEPTED]
        if (used := prompt.tool_use) is not None:
            messages += json.loads(used.exchange)
            body |= {"tools": json.loads(used.tools), "tool_choice": json.loads(used.choice)}
        return body | ({"stream": True, "stream_options": {"include_usage": True}} if stream else {})

    def _require_key(self) -> None:
        if self._config.api_key_env and not self._key and not self._config.headers:
            raise UserError(f"{self._url} needs a key: export {self._config.api_key_env}=...")

    def _headers(self) -> dict[str, str]:
        """What the configuration adds to a request."""
        return fill(self._config.headers, "workers.models: headers")

    def _named(self, fault: Exception) -> str:
        """The fault with the names that the user gave: of the server, the model, the variable of the key."""
        said = str(fault)
        if isinstance(fault, InfrastructureError) and fault.kind == "authentication":
            variable = self._config.api_key_env
            said += f"; check the variable {variable}" if variable else "; name the variable of a key in api_key_env"
        if isinstance(fault, InfrastructureError) and fault.kind == "model":
            said = f"no model {self._config.name!r} there ({said}); see {self._url}/models"
        for secret in self._secrets:
            said = said.replace(secret, "...")
        return f"{self._url}: {said}"


def _read(body: bytes) -> _Reply:
    """The reply with its choice.

    Raises:
        PassingError: there is none, or it says nothing.
        InfrastructureError, WorkerError: the body describes an error of another kind; see `fault_of_body`.
    """
    try:
        reply = _Reply.model_validate_json(body)
    except ValidationError as error:
        said = f"{body[:80].decode(errors='replace')!r} ({first_problem(error)})"
        raise PassingError("bad_response", f"not an answer: {said}") from None
    if error_body := reply.error or (reply.choices and reply.choices[0].error):
        raise fault_of_body(error_body)
    if not reply.choices:
        raise PassingError("bad_response", "the answer holds no choice")
    choice, written = _choice(reply), reply.usage and reply.usage.completion_tokens
    if choice.finish_reason == "error":
        raise PassingError("bad_response", "the generation broke off")
    if not (_text(reply) or written or choice.message.tool_calls or choice.finish_reason == "content_filter"):
        raise PassingError("bad_response", "the answer is empty, and no token was written for it")
    return reply


def _choice(reply: _Reply) -> _Choice:
    assert reply.choices
    return reply.choices[0]


def _text(reply: _Reply) -> str:
    message = _choice(reply).message
    return message.content or message.refusal or ""


def _tool_calls(reply: _Reply) -> tuple[ToolCall, ...]:
    calls = _choice(reply).message.tool_calls or ()
    return tuple(
        ToolCall(id=call.id or f"call_{place}", name=call.function.name, arguments=call.function.arguments)
        for place, call in enumerate(calls)
    )


def wait_s(fault: PassingError, tries: int) -> float:
    """Seconds before the next try: what the server asks for, else random, up to twice as many after every try."""
    if fault.after_s is not None:
        return min(fault.after_s * random.uniform(1, 1.1), LONGEST_WAIT_S)
    return random.uniform(0, min(FIRST_WAIT_S * 2 ** min(tries - 1, 30), LONGEST_WAIT_S))


def _cut(text: str, stops: tuple[str, ...]) -> str:
    """`text` before the first stop string: servers take only a few."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places, default=None)]
