"""What asking a worker costs, what the model that plans does, and how many tokens a prompt may have."""

from __future__ import annotations

import math
from dataclasses import dataclass

from orchestai.config import WorkerConfig, WorkersConfig
from orchestai.errors import UserError
from orchestai.workers.base import Usage
from orchestai.workers.generation import Prompt

_TYPICAL_PROMPT_TOKENS = 150
_TYPICAL_COMPLETION_TOKENS = 60


@dataclass(frozen=True)
class Prices:
    """US dollars: per request, and per million tokens read, written, and read from a cache (None: as others)."""

    per_call: float = 0.0
    per_mtok_in: float = 0.0
    per_mtok_out: float = 0.0
    per_mtok_cached: float | None = None

    def cost(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float:
        whole = self.per_call + (prompt_tokens * self.per_mtok_in + completion_tokens * self.per_mtok_out) / 1e6
        if self.per_mtok_cached is None or not cached_tokens:
            return whole
        return whole - cached_tokens * (self.per_mtok_in - self.per_mtok_cached) / 1e6

    def paid(self, usage: Usage) -> Usage:
        """One request with its cost; where not a token was read, nothing was asked."""
        if not usage.prompt_tokens:
            return Usage()
        cost_usd = self.cost(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
        return usage.model_copy(update={"requests": 1, "cost_usd": cost_usd})


def prices_of(config: WorkerConfig) -> Prices:
    return Prices(
        config.price_per_call_usd,
        config.price_per_mtok_in_usd,
        config.price_per_mtok_out_usd,
        config.price_per_mtok_cached_usd,
    )


def typical_price(prices: Prices, samples: int) -> float:
    """Expected price of a typical request: on average half of the samples are drawn, each paid with its prompt."""
    drawn = (1 + samples) / 2
    return prices.cost(round(_TYPICAL_PROMPT_TOKENS * drawn), round(_TYPICAL_COMPLETION_TOKENS * drawn))


def planner_prices(config: WorkersConfig) -> Prices:
    """What `planner_model` costs when it is asked for plans.

    Raises:
        UserError: it is on a server, and neither its own section nor a worker says.
    """
    name = config.planner_model
    assert name is not None
    model = config.models[name]
    paid = [prices_of(worker) for worker in config.pool.values() if worker.model == name]
    if model.price_per_mtok_in_usd is not None or model.price_per_mtok_out_usd is not None:
        read = model.price_per_mtok_in_usd or 0.0
        cached = [prices.per_mtok_cached for prices in paid if prices.per_mtok_in == read]
        return Prices(0.0, read, model.price_per_mtok_out_usd or 0.0, cached[0] if len(set(cached)) == 1 else None)
    if not paid and model.kind == "openai_api":
        raise UserError(
            f"workers.planner_model: what does {name!r} cost? No worker of the pool has it; set "
            f"workers.models.{name}.price_per_mtok_in_usd and price_per_mtok_out_usd, to 0 if it is free"
        )
    return max(paid, key=lambda prices: typical_price(prices, 1), default=Prices())


_BYTES_PER_TOKEN = 4
"""OpenAI's rule of thumb for English, in bytes of UTF-8 (help.openai.com, "What are tokens and how to count them?")."""
LONG_TOKEN_BYTES = 6
"""Few texts of some length have more bytes per token."""
_MOST_TOKENS_OF_A_TEMPLATE = 64
"""What a chat template may write besides the messages, a system prompt of its own included."""
_MOST_TOKENS_AROUND_A_MESSAGE = 8
_TOKENS_PER_MESSAGE = 3
"""Around every message, and before the reply (OpenAI cookbook, "How to count tokens with tiktoken")."""


def most_tokens(prompt: Prompt) -> int:
    """A bound of the tokens of a prompt by any tokenizer: none makes more tokens of a text than it has bytes."""
    texts = _texts(prompt)
    around = _MOST_TOKENS_OF_A_TEMPLATE + _MOST_TOKENS_AROUND_A_MESSAGE * len(texts)
    return around + sum(len(text.encode()) for text in texts)


def _texts(prompt: Prompt) -> list[str]:
    used = prompt.tool_use
    tools = [] if used is None else [used.tools, used.choice, used.exchange]
    return [*(content for _, content in prompt.messages), *filter(None, [prompt.prefill]), *tools]


def estimate_tokens(prompt: Prompt, reply: str) -> tuple[int, int]:
    """About how many tokens the prompt and the reply have, each at least 1, by their length."""
    texts = _texts(prompt)
    lengths = [math.ceil(len(text.encode()) / _BYTES_PER_TOKEN) for text in (*texts, reply)]
    return sum(lengths[:-1]) + _TOKENS_PER_MESSAGE * (len(texts) + 1), max(lengths[-1], 1)
