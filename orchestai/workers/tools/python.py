"""Takes Python that the request itself holds: passes it on as the program, or runs it in the sandbox."""

from __future__ import annotations

from orchestai.outcome import judged
from orchestai.sandbox import Program, Sandbox, fences
from orchestai.text.syntax import parse_literal
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.prompting import source

_SHOWN = "printed: "
_LONGEST_OUTPUT = 200

_RUN = f"""\
import contextlib, io

def printed():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec({{code!r}}, {{{{"__name__": "__main__"}}}})
    return out.getvalue()[:{_LONGEST_OUTPUT}]
"""
_SHOW = f"""\
import unittest

class Output(unittest.TestCase):
    def test_output(self):
        self.fail({_SHOWN!r} + repr(printed()))
"""


async def answer(request: Request, sandbox: Sandbox) -> str:
    """The code itself where a function is wanted, else what it prints (its first 200 characters).

    Raises:
        WorkerError: the request holds no Python, or it defines another function, or it fails.
        InfrastructureError: the sandbox could not run it.
    """
    code = _code(request)
    if request.signature is not None:
        if f"def {request.signature.name}(" not in code:
            raise WorkerError(f"the code does not define {request.signature.name}")
        return source.with_imports(code)
    report = await sandbox.arun(Program(_RUN.format(code=code), _SHOW, "printed"))
    judged(report.outcome())
    message = report.tests[0].message
    if _SHOWN not in message:
        raise WorkerError(f"the code failed: {report.reason or message}")
    return str(parse_literal(message.split(_SHOWN, 1)[1]))


def _code(request: Request) -> str:
    """The first piece of Python: a fence in the instruction, the instruction itself, or an input."""
    for text in (request.instruction, *request.inputs.values()):
        code = fences.fenced(text) or text
        if fences.parses(code):
            return code
    raise WorkerError("neither the instruction nor an input is Python code")
