"""Models behind an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlparse

from pydantic_core import to_json

from orchestai.config import ModelConfig
from orchestai.config.section import fill, secrets_of
from orchestai.errors import InfrastructureError, UnbilledError, UserError
from orchestai.tasks.dialogue import fold_messages
from orchestai.text.spoken import SpokenListener, spoken
from orchestai.workers.api_faults import CutOffError, PassingError, RefusedRequestError, unquoted
from orchestai.workers.base import TextCompletion, Usage, WorkerError
from orchestai.workers.circuit_breaker import is_too_long
from orchestai.workers.generation import Hear, Prompt, SamplingParams, seed
from orchestai.workers.http_client import HttpClient
from orchestai.workers.openai_replies import ReplyReader, ServerReply
from orchestai.workers.prices import estimate_tokens

_OTHER_NAMES = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_OPTIONAL = ("stream_options", "seed", "temperature", "stop", "tool_choice", "stream")
"""What an answer can be had without: stop strings are cut off here, too, and a reply may come whole."""
_REFUSES = (
    r"(?:not|n't)\s+(?:\w+\s+)?(?:supported?|allow(?:ed)?|permit(?:ted)?|accept(?:ed)?|available|implemented|recogni[sz]ed|valid|known)"
    r"|unsupported|unknown|unrecogni[sz]ed|unexpected|deprecated|invalid|extra|forbidden|(?:must|has to|should) be"
)
_NAMES = r"param(?:eter)?s?|fields?|arguments?|propert(?:y|ies)|keys?|inputs?|options?|range of|remove"
_NO_SYSTEM = re.compile(
    r"(?:system|developer)[\s'\"`]*(?:role|message|prompt|instruction)|(?:role|message)s?\b[^\n]{0,60}\bsystem\b", re.I
)
_ALTERNATES = re.compile(r"alternat|consecutive|(?:first|start|begin)\w*\b.{0,40}\buser|same role", re.I | re.S)


@dataclass(frozen=True)
class AcceptedFields:
    """How a request's body is changed before it is sent.

    Attributes:
        added: fields of the configuration; None leaves one out.
        renamed: other names of fields.
        left_out: fields that were refused.
        has_system, alternates: see `fold_messages`.
    """

    added: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    has_system: bool = True
    alternates: bool = False

    def fit(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body that is sent."""
        fitted = {self.renamed.get(name, name): value for name, value in body.items() if name not in self.left_out}
        if not self.has_system or self.alternates:
            fitted["messages"] = fold_messages(body["messages"], has_system=self.has_system, alternates=self.alternates)
        fitted |= {name: value for name, value in self.added.items() if value is not None}
        return {name: value for name, value in fitted.items() if self.added.get(name, value) is not None}

    def after(self, refusal: RefusedRequestError, body: Mapping[str, Any]) -> AcceptedFields | None:
        """What may be taken instead of what was refused; None where that names nothing that can be changed."""
        own = to_json(body["messages"]).decode()
        said, named = unquoted(refusal.said, own), set(_places(refusal.body))
        system = any(message["role"] == "system" for message in body["messages"])
        alternates = _ALTERNATES.search(said)
        if not self.alternates and alternates:
            return replace(self, alternates=True)
        if self.has_system and system and (alternates or _NO_SYSTEM.search(said)):
            return replace(self, has_system=False)
        for name in (*_OTHER_NAMES, *_OPTIONAL):
            sent = self.renamed.get(name, name)
            if name not in body or name in self.left_out or not (sent in named or _is_refused(sent, said)):
                continue
            if name not in _OTHER_NAMES:
                left_out = {name, "stream_options"} if name == "stream" else {name}
                return replace(self, left_out=self.left_out | left_out)
            if name not in self.renamed:
                return replace(self, renamed={**self.renamed, name: _OTHER_NAMES[name]})
        return None


def _places(body: Any) -> Iterator[str]:
    """Names of fields that an error says it is about (`param`, `loc`)."""
    for inner in body if isinstance(body, list) else [body]:
        if isinstance(inner, Mapping):
            for name, value in inner.items():
                if name in ("param", "loc", "field", "path"):
                    parts = value if isinstance(value, list) else [value]
                    yield from (re.split(r"[.\[]", part)[0] for part in parts if isinstance(part, str))
                elif isinstance(value, (Mapping, list)):
                    yield from _places(value)


def _is_refused(name: str, said: str) -> bool:
    """Whether words are about a field: one with a common word for a name is quoted, or said to be a refused field."""
    if "_" in name:
        return re.search(rf"(?<!\w){name}(?!\w)", said) is not None
    around = (
        rf"['\"`]{name}['\"`]|\b(?:{_NAMES})\b[^.\n]{{0,40}}\b{name}\b|\b{name}\b\W[^.\n]{{0,60}}(?:{_REFUSES})"
        rf"|(?:{_REFUSES})[^.:\n'\"`]{{0,40}}\b{name}\b|^{name}: "
    )
    return re.search(around, said, re.IGNORECASE | re.MULTILINE) is not None


_DEFAULT_URL = "https://api.openai.com/v1"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_COMPLETIONS = "/chat/completions"
_STOPS_ACCEPTED = 4
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
"""Bounds of the random wait after the first try, and of any wait, whatever the server asks for."""
_CHECK_TIMEOUT_S = 10.0
_THINKERS = re.compile(r"\br1\b|qwq|think|reason|magistral", re.IGNORECASE)
"""Models that begin with thoughts, as a rule; many servers do not send the beginning of these."""


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
        self._accepted = AcceptedFields(config.body)
        self._moneyless: set[int] = set()
        self._thinks = config.thinking or bool(_THINKERS.search(config.name))

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
        text = reply.text
        read, written = reply.prompt_tokens or 0, reply.completion_tokens or 0
        estimated = reply.corrected or not read or (not written and bool(text))
        if not read or (not written and text):
            counted = estimate_tokens(prompt, text)
            read, written = read or counted[0], written or counted[1]
        said = spoken(text)
        said = said if any(letter.isprintable() and letter != " " for letter in said) else ""
        called = bool(reply.tool_calls) and prompt.tool_use is not None
        if reply.finish_reason == "content_filter" or not (said or called or reply.finish_reason == "length"):
            paid = Usage(
                prompt_tokens=read,
                completion_tokens=written,
                cached_tokens=reply.cached_tokens,
                latency_ms=latency_ms,
                estimated=estimated,
            )
            filters = "the provider's content filter withheld the reply"
            why = filters if reply.finish_reason == "content_filter" else "the reply holds no answer"
            raise WorkerError(f"{self._url}: {why}", paid)
        places = [place for stop in params.stop if (place := said.find(stop)) >= 0]  # servers take only a few
        kept = said[: min(places, default=None)]
        return TextCompletion(
            text=kept,
            prompt_tokens=read,
            completion_tokens=written,
            cached_tokens=reply.cached_tokens,
            latency_ms=latency_ms,
            origin=f"{reply.model or self._config.name} at {self._url}",
            usage_estimated=estimated,
            tool_calls=reply.tool_calls,
            truncated=reply.finish_reason == "length" and kept == said,
        )

    async def check(self) -> None:
        """Raises `UserError` if the server cannot be reached, refuses the key or wants money."""
        self._require_key()
        limit_s = min(_CHECK_TIMEOUT_S, self._config.timeout_s)
        for path in ("/models", _COMPLETIONS):  # a GET costs nothing: where a POST is taken, it is no 404
            if await self._lacks(path, limit_s):
                return await self._check_answers(limit_s, listed=path == _COMPLETIONS)

    async def _lacks(self, path: str, limit_s: float) -> bool:
        """Whether nothing shows that a path is there: not every server lists its models, nor for every key."""
        try:
            return b"<html" in (await self._client.ask(path, None, self._headers(), limit_s))[:1000].lower()
        except InfrastructureError as fault:
            return path != _COMPLETIONS or fault.kind == "model"
        except WorkerError:
            return path != _COMPLETIONS

    async def _check_answers(self, limit_s: float, *, listed: bool) -> None:
        """Ask what will be asked, but with no message: that is refused for nothing where the key is fine, too."""
        asked = to_json({"model": self._config.name, "messages": [], "max_tokens": 1})
        try:
            await self._client.ask(_COMPLETIONS, asked, self._headers(), limit_s)
        except InfrastructureError as fault:
            if listed and fault.kind == "model" and "model" not in fault.reason.casefold():
                raise UserError(f"{self._url} lists its models, but answers nothing ({fault}); see base_url") from None
            if fault.kind in ("authentication", "payment", "model"):
                raise UserError(self._named(fault)) from None
            if fault.kind in ("connection", "timeout") and not listed:
                raise UserError(f"cannot reach {self._url} ({fault}); is the server running? (base_url)") from None
        except WorkerError:
            return

    async def close(self) -> None:
        await self._client.close()

    async def _ask(
        self, prompt: Prompt, params: SamplingParams, sample: int, hear: Hear | None
    ) -> tuple[ServerReply, float]:
        """The reply, and how many milliseconds the try that brought it took.

        Raises:
            UnbilledError: each try was one too many for the server, or it refused the request.
            InfrastructureError: no try brought one, or the deadline comes before the next may be made, so that
                another worker can be asked in the time that is left.
        """
        body, headers = self._body(prompt, params, sample, stream=hear is not None), self._headers()
        accepted, tries, billed = self._accepted, 0, False
        refused: RefusedRequestError | None = None
        while True:
            began = time.perf_counter()
            try:
                reply = await self._answer(to_json(accepted.fit(body)), headers, hear)
                self._accepted = accepted
                return reply, (time.perf_counter() - began) * 1000
            except PassingError as fault:
                tries, billed = tries + 1, billed or fault.kind != "rate_limit"
                pause_s = wait_s(fault, tries)
                if tries == self.tries or is_too_long(pause_s):
                    made = "1 try" if tries == 1 else f"{tries} tries"
                    failed = InfrastructureError if billed else UnbilledError
                    raise failed(fault.kind, f"{fault} after {made}") from fault
                await asyncio.sleep(pause_s)
            except RefusedRequestError as refusal:
                refused = refused or refusal
                if (other := accepted.after(refusal, body)) is None:
                    raise (InfrastructureError if billed else UnbilledError)(refused.kind, refused.reason) from refused
                accepted = other
            except InfrastructureError as fault:
                billed, kind = billed or isinstance(fault, CutOffError), fault.kind
                if kind == "payment":  # a single request may be too dear, or its words taken for the server's
                    self._moneyless.add(hash(to_json(body["messages"])))
                    kind = "bad_request" if len(self._moneyless) == 1 else kind
                raise (InfrastructureError if billed else UnbilledError)(kind, fault.reason) from fault

    async def _answer(self, data: bytes, headers: Mapping[str, str], hear: Hear | None) -> ServerReply:
        listener = None if hear is None else SpokenListener(hear, begun=self._thinks)
        reader = ReplyReader(listener, data.decode().casefold())
        try:
            async with self._client.posted(_COMPLETIONS, data, headers) as pieces:
                async for piece in pieces:
                    reader.feed(piece)
        except PassingError as fault:
            raise reader.told(fault) from fault
        reply = reader.finish()
        if listener is not None:
            listener.finish()
            self._thinks = self._thinks or listener.thinks
        return reply

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


def wait_s(fault: PassingError, tries: int) -> float:
    """Seconds before the next try: what the server asks for, else random, up to twice as many after every try."""
    if fault.after_s is not None:
        return min(fault.after_s * random.uniform(1, 1.1), LONGEST_WAIT_S)
    return random.uniform(0, min(FIRST_WAIT_S * 2 ** min(tries - 1, 30), LONGEST_WAIT_S))
