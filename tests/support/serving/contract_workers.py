"""Workers of one's own that keep to nothing: slow, hanging, failing, deaf, billing what they like."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from orchestai.errors import InfrastructureError
from orchestai.workers.base import Answer, Request, Usage, WorkerCard, WorkerError, WorstCase

PRICE = 0.01


async def good(request: Request) -> Answer:
    return Answer(text=f"good: {request.instruction}", cost_usd=PRICE, latency_ms=5.0, completion_tokens=3)


async def slow(request: Request) -> Answer:
    await asyncio.sleep(0.2)
    return Answer(text="slow", cost_usd=PRICE, latency_ms=200.0)


async def hanging(request: Request) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError


async def deaf(request: Request) -> Answer:
    """Goes on for seconds after it was cancelled."""
    for _ in range(40):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            continue
    return Answer(text="late", cost_usd=PRICE)


class Stubborn:
    """A worker that goes on, whoever cancels it, until it is `released`."""

    def __init__(self) -> None:
        self.card = WorkerCard("stubborn", "stubborn", PRICE, "tool")
        self.asked = asyncio.Event()
        self.released = asyncio.Event()

    def worst_case(self, request: Request) -> WorstCase:
        return WorstCase(cost_usd=PRICE)

    async def answer(self, request: Request) -> Answer:
        self.asked.set()
        while not self.released.is_set():
            with suppress(asyncio.CancelledError):
                await self.released.wait()
        return Answer(text="at last", cost_usd=PRICE)


async def failing(request: Request) -> Answer:
    raise WorkerError("cannot do it", Usage(requests=1, prompt_tokens=7, cost_usd=PRICE / 2))


async def down(request: Request) -> Answer:
    raise InfrastructureError("server", "the server is down")


async def broken(request: Request) -> Answer:
    raise RuntimeError("a bug")


async def lying(request: Request) -> Answer:
    return Answer(text="lies", cost_usd=PRICE * 50, latency_ms=1.0, completion_tokens=10**6)


async def long(request: Request) -> Answer:
    return Answer(text="word " * 4000, cost_usd=PRICE, latency_ms=1.0)


async def negative(request: Request) -> Answer:
    return Answer(text="a gift", cost_usd=-5.0)


async def priceless(request: Request) -> Answer:
    return Answer(text="?", cost_usd=float("nan"))


async def mangled(request: Request) -> Answer:
    return Answer(text="half \ud800 a pair", cost_usd=PRICE)


def stopping(request: Request) -> str:
    raise StopIteration("nothing left")


async def waiting(request: Request) -> Answer:
    print("waiting for Ctrl-C", flush=True)
    return await hanging(request)


def printing(request: Request) -> str:
    print("working on it")
    return "printed"
