"""The tools that workers of kind `tool` name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from orchestai.errors import UserError
from orchestai.names import did_you_mean
from orchestai.workers.base import Request, WorkerCard
from orchestai.workers.tools import calculator, stdlib_search
from orchestai.workers.tools.worker import Tool

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
