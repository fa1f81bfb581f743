"""Python as a tool: a program runs in the sandbox, and the role reads what it prints."""

from __future__ import annotations

from typing import Any

from orchestai.agents.tools.tool import CallFailedError
from orchestai.errors import InfrastructureError
from orchestai.sandbox import Program, Sandbox
from orchestai.text.programs import unfenced

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
