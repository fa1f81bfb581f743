"""The frame around a tool: it measures the time and charges the call."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from orchestai.workers.base import Answer, Request, WorkerCard, WorstCase

Tool: TypeAlias = Callable[[Request], str] | Callable[[Request], Awaitable[str | Answer]]
"""Gives the answer or its text; raises `WorkerError` where the tool does not apply."""


class ToolWorker:
    """`latency_ms` is the measured time of the call; a call that does not apply costs nothing.

    A tool that gives an `Answer` says itself what it took.
    """

    def __init__(self, card: WorkerCard, tool: Tool, price_per_call_usd: float) -> None:
        self.card = card
        self.tool = tool
        self._price = price_per_call_usd

    def worst_case(self, request: Request) -> WorstCase:
        return WorstCase(cost_usd=self._price)

    async def answer(self, request: Request) -> Answer:
        began = time.perf_counter()
        result = self.tool(request)
        answer = result if isinstance(result, str) else await result
        if isinstance(answer, Answer):
            return answer
        return Answer(
            text=answer,
            prompt=request.instruction,
            cost_usd=self._price,
            latency_ms=(time.perf_counter() - began) * 1000,
            source="tool",
        )
