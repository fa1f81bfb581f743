"""What asking a worker costs, and what the model that plans does."""

from __future__ import annotations

from dataclasses import dataclass

from orchestai.config import WorkerConfig, WorkersConfig
from orchestai.errors import UserError
from orchestai.workers.base import Usage

_TYPICAL_PROMPT_TOKENS = 150
_TYPICAL_COMPLETION_TOKENS = 60


@dataclass(frozen=True)
class Prices:
    """US dollars: per request, and per million tokens read and written."""

    per_call: float = 0.0
    per_mtok_in: float = 0.0
    per_mtok_out: float = 0.0

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return self.per_call + (prompt_tokens * self.per_mtok_in + completion_tokens * self.per_mtok_out) / 1e6

    def paid(self, usage: Usage) -> Usage:
        """One request with its cost; where not a token was read, nothing was asked."""
        if not usage.prompt_tokens:
            return Usage()
        cost_usd = self.cost(usage.prompt_tokens, usage.completion_tokens)
        return usage.model_copy(update={"requests": 1, "cost_usd": cost_usd})


def prices_of(config: WorkerConfig) -> Prices:
    return Prices(config.price_per_call_usd, config.price_per_mtok_in_usd, config.price_per_mtok_out_usd)


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
    if model.price_per_mtok_in_usd is not None or model.price_per_mtok_out_usd is not None:
        return Prices(0.0, model.price_per_mtok_in_usd or 0.0, model.price_per_mtok_out_usd or 0.0)
    paid = [prices_of(worker) for worker in config.pool.values() if worker.model == name]
    if not paid and model.kind == "openai_api":
        raise UserError(
            f"workers.planner_model: what does {name!r} cost? No worker of the pool has it; set "
            f"workers.models.{name}.price_per_mtok_in_usd and price_per_mtok_out_usd, to 0 if it is free"
        )
    return max(paid, key=lambda prices: typical_price(prices, 1), default=Prices())
