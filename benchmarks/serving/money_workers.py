"""Workers for `benchmarks.serving.money` that write down what they are owed before they answer, as a provider would."""

from __future__ import annotations

import asyncio
import os
import random

from orchestai.workers.base import Answer, Request, Usage, WorkerError

PRICE_USD = 0.002
"""The most that a call may cost; each costs between a tenth of it and all."""
BILLS = "ORCHESTAI_MONEY_BILLS"
"""The environment's name for the file of bills."""


async def steady(request: Request) -> Answer:
    cost_usd = _bill()
    await asyncio.sleep(0.02)
    return Answer(text="a steady answer", cost_usd=cost_usd, latency_ms=20.0)


async def slow(request: Request) -> Answer:
    cost_usd = _bill()
    await asyncio.sleep(random.uniform(0.05, 1.0))
    return Answer(text="a slow answer", cost_usd=cost_usd, latency_ms=500.0)


async def shaky(request: Request) -> Answer:
    """Fails every second time, and is paid all the same."""
    cost_usd = _bill()
    await asyncio.sleep(0.02)
    if random.random() < 0.5:
        raise WorkerError("not today", Usage(requests=1, prompt_tokens=1, cost_usd=cost_usd))
    return Answer(text="a shaky answer", cost_usd=cost_usd, latency_ms=20.0)


def _bill() -> float:
    cost_usd = round(random.uniform(0.1, 1.0) * PRICE_USD, 9)
    file = os.open(os.environ[BILLS], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{cost_usd:.9f}\n".encode())
    finally:
        os.close(file)
    return cost_usd
