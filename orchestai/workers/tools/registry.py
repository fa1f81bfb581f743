"""The tools that workers of kind `tool` name."""

from __future__ import annotations

from functools import partial

from orchestai.errors import UserError
from orchestai.names import did_you_mean
from orchestai.sandbox.sandbox import Sandbox
from orchestai.workers.tools import calculator, python, stdlib_search, text
from orchestai.workers.tools.worker import Tool


def make_tool(name: str, sandbox: Sandbox) -> Tool:
    """The tool of this name.

    Raises:
        UserError: there is none.
    """
    tools: dict[str, Tool] = {
        "stdlib_search": stdlib_search.answer,
        "calculator": calculator.answer,
        "text": text.answer,
        "python": partial(python.answer, sandbox=sandbox),
    }
    if name not in tools:
        raise UserError(f"no tool {name!r}; there are {', '.join(tools)}{did_you_mean(name, tools)}")
    return tools[name]
