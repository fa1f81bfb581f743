"""Workers of kind `tool`: the tools by name, and what measures the time and charges the call."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from orchestai.errors import UserError
from orchestai.plugins import did_you_mean
from orchestai.workers.base import Answer, Request, WorkerCard, WorstCase
from orchestai.workers.tools import functions

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


def make_tool(name: str, pool: Sequence[WorkerCard] = ()) -> Tool:
    """The tool of this name.

    Args:
        pool: the workers that `about` tells of.

    Raises:
        UserError: there is none.
    """

    def everyday(request: Request, domain: str) -> str:
        from orchestai.workers.tools import everyday  # the grammars are read when they are first needed

        return everyday.answer(request, domain, pool)

    def calculator(request: Request) -> str:
        if (signature := request.signature) is None:
            return everyday(request, "arithmetic")
        return f"def {signature}:\n    return {functions.formula(request.instruction, signature)}\n"

    tools: dict[str, Tool] = {
        "stdlib_search": functions.search,
        "calculator": calculator,
        "functions": functions.describe,
        **{domain: partial(everyday, domain=domain) for domain in ("units", "dates", "texts", "lists", "about")},
    }
    if name not in tools:
        raise UserError(f"no tool {name!r}; there are {', '.join(tools)}{did_you_mean(name, tools)}")
    return tools[name]
