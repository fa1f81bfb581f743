"""Workers that keep to nothing, for `benchmarks.serving.contracts`."""

from __future__ import annotations

import asyncio
import random
import threading
import time

from orchestai.errors import InfrastructureError
from orchestai.workers.base import Answer, Request, Usage, WorkerError

PRICE_USD = 0.01
WORKERS = ("good", "slow", "hanging", "deaf", "failing", "retried", "broken", "long", "lying")
over = threading.Event()
"""Lets those go that cannot be cancelled."""


async def good(request: Request) -> Answer:
    return Answer(text="good", cost_usd=PRICE_USD, latency_ms=1.0)


async def slow(request: Request) -> Answer:
    await asyncio.sleep(random.uniform(0, 8))
    return Answer(text="slow", cost_usd=PRICE_USD)


async def hanging(request: Request) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError


async def deaf(request: Request) -> Answer:
    ended = time.monotonic() + 60
    while time.monotonic() < ended and not over.is_set():
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            continue
    return Answer(text="deaf", cost_usd=PRICE_USD)


async def failing(request: Request) -> Answer:
    raise WorkerError("cannot", Usage(cost_usd=PRICE_USD / 2))


async def retried(request: Request) -> Answer:
    await asyncio.sleep(random.uniform(0, 2))
    raise InfrastructureError("server", "down after 3 tries")


async def broken(request: Request) -> Answer:
    raise RuntimeError("a bug")


async def long(request: Request) -> Answer:
    return Answer(text="word " * 5000, cost_usd=PRICE_USD)


async def lying(request: Request) -> Answer:
    return Answer(text="lies", cost_usd=random.uniform(0, 100) * PRICE_USD, completion_tokens=10**9)
