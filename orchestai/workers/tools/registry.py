"""Workers of kind `tool`: the tools by name, and what measures the time and charges the call."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from orchestai.errors import UserError
from orchestai.plugins import did_you_mean
from orchestai.workers.base import Answer, Request, WorkerCard, WorstCase
from orchestai.workers.tools import calculator, stdlib_search

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


_EVERYDAY = ("units", "dates", "texts", "lists", "about")


def make_tool(name: str, pool: Sequence[WorkerCard] = ()) -> Tool:
    """The tool of this name.

    Args:
        pool: the workers that `about` tells of.

    Raises:
        UserError: there is none.
    """
    tools: dict[str, Tool] = {
        "stdlib_search": stdlib_search.answer,
        "calculator": calculator.answer,
        "functions": _functions,
        **{domain: partial(_everyday, domain=domain, pool=pool) for domain in _EVERYDAY},
    }
    if name not in tools:
        raise UserError(f"no tool {name!r}; there are {', '.join(tools)}{did_you_mean(name, tools)}")
    return tools[name]


def steps_for_tools(instruction: str) -> Sequence[str]:
    """The steps of an instruction that the everyday tools carry out one after the other; none if there is but one."""
    from orchestai.workers.tools import everyday

    return everyday.steps(instruction)


def _everyday(request: Request, domain: str, pool: Sequence[WorkerCard]) -> str:
    """Answer in words; the grammars are read when they are first needed."""
    from orchestai.workers.tools import everyday

    return everyday.answer(request, domain, pool)


def _functions(request: Request) -> str:
    """A function by its words; the catalogue is read when it is first needed."""
    from orchestai.workers.tools.everyday import functions

    return functions.answer(request)
