"""Workers of which one is always right, whatever it is asked."""

from __future__ import annotations

from orchestai.workers.base import Answer, Request

PRICE = 0.001


async def right(request: Request) -> Answer:
    return Answer(text="right", cost_usd=PRICE, latency_ms=1.0, completion_tokens=1)


async def wrong(request: Request) -> Answer:
    return Answer(text="wrong", cost_usd=PRICE, latency_ms=1.0, completion_tokens=1)
