"""What a tool is, how a plain function becomes one, and two that ship: Python and a calculator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from transformers.utils import get_json_schema
from transformers.utils.chat_template_utils import DocstringParsingException, TypeHintParsingException

from orchestai.errors import InfrastructureError, UserError
from orchestai.plugins import find_object
from orchestai.sandbox import Program, Sandbox
from orchestai.text.programs import unfenced
from orchestai.threads import in_thread
from orchestai.workers.tools.functions import calculate


class CallFailedError(Exception):
    """A call did not do what it was made for, such as a program that raises; the role reads the message as it is."""


class Tool(Protocol):
    """Something that a role may call; many calls may be in flight.

    Attributes:
        name: letters, digits and underscores.
        description: what it does, for the model.
        parameters: JSON schema of its arguments, an `object`.
    """

    name: str
    description: str
    parameters: dict[str, Any]

    async def __call__(self, *args: Any, **arguments: Any) -> Any:
        """What it found, for the model: text, bytes, or what `str` makes text of. It is called with keywords alone.

        Raises:
            InfrastructureError: the tool itself is out of order; the attempt becomes unscorable.
            CallFailedError: the call came to nothing; the message is its result.
            Exception: anything else is what the call led to, and the role reads its kind and message.
        """
        ...


class FunctionTool:
    """A function as a tool. One that is not a coroutine runs in a thread of its own, so that it stalls nothing.

    Args:
        function: with type hints and a Google-style docstring, from which the model learns what it does.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            schema = get_json_schema(function)["function"]
        except (DocstringParsingException, TypeHintParsingException) as error:
            raise UserError(f"tool {getattr(function, '__name__', function)!r}: {error}") from error
        self.name: str = schema["name"]
        self.description: str = schema["description"]
        self.parameters: dict[str, Any] = schema["parameters"]
        self._function = function

    @classmethod
    def find(cls, name: str) -> FunctionTool:
        """The tool made of `module:function`; the module may lie in the working directory."""
        if ":" not in name:
            raise UserError(f"no tool {name!r}; there are search, python and calculator, or write module:function")
        try:
            return cls(find_object(name))
        except (ImportError, AttributeError) as error:
            raise UserError(f"tool {name!r} cannot be imported: {error}") from error

    async def __call__(self, **arguments: Any) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(**arguments)
        return await in_thread(lambda: self._function(**arguments))


class Calculator:
    """Works out an expression; nothing but numbers, brackets and + - * / // % ** is known."""

    name = "calculator"
    description = "Works out an arithmetic expression, such as (3 + 4) * 2 ** 5."
    parameters: dict[str, Any] = {  # noqa: RUF012
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "The expression."}},
        "required": ["expression"],
    }

    async def __call__(self, expression: str) -> str:
        return str(calculate(expression))


_RUN = """\
import ast

def run():
    body = ast.parse({code!r}).body
    shown = [node for node in body[-1:] if isinstance(node, ast.Expr)]
    names = {{"__name__": "__main__"}}
    exec(compile(ast.Module(body[: len(body) - len(shown)], []), "<program>", "exec"), names)
    exec(compile(ast.Interactive(shown), "<program>", "single"), names)
"""
_TEST = """\
import unittest

class Output(unittest.TestCase):
    def test_output(self):
        run()
"""


class Python:
    """Runs programs within the sandbox's limits. Nothing is kept from one call to the next."""

    name = "python"
    description = "Runs a Python program, and gives what it prints and the value of its last line."
    parameters: dict[str, Any] = {  # noqa: RUF012
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The program."}},
        "required": ["code"],
    }

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, code: str) -> str:
        """What the program printed.

        Raises:
            CallFailedError: it printed nothing, or did not end well; the message says how, after what it printed.
            InfrastructureError: the sandbox could not run it.
        """
        report = await self._sandbox.arun(Program(_RUN.format(code=unfenced(code)), _TEST, "run", "sealed"))
        if report.status in ("infra_error", "broken", "refused"):
            raise InfrastructureError("sandbox", f"sandbox: {report.status}: {report.reason}")
        (test,) = report.tests
        printed = test.output.rstrip("\n")
        if test.outcome != "passed":
            ending = f"{test.outcome}: {test.message or report.reason}"
            raise CallFailedError("\n".join(part for part in (printed, ending) if part))
        if not printed:
            raise CallFailedError("(nothing was printed)")
        return printed
