"""Checking a function against the examples that its instruction shows."""

from __future__ import annotations

from collections.abc import Sequence

from orchestai.outcome import judged
from orchestai.sandbox.program import Program
from orchestai.sandbox.sandbox import Sandbox
from orchestai.tasks.programs import parses
from orchestai.tasks.visible_examples import Example
from orchestai.text.syntax import ignores_its_arguments

_HEAD = """\
import unittest


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return same(sorted(a.items(), key=repr), sorted(b.items(), key=repr))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


class Examples(unittest.TestCase):
"""


def example_tests(function: str, examples: Sequence[Example]) -> str:
    """Source of a test class with one test per example: the result must be equal, and of the same types."""
    tests = [
        f"    def test_{i}(self):\n"
        f"        result, expected = {function}({', '.join(example.args)}), {example.result}\n"
        f"        self.assertTrue(same(result, expected), f'{{result!r}} is not {{expected!r}}')\n"
        for i, example in enumerate(examples)
    ]
    return _HEAD + "\n".join(tests)


async def passes_examples(sandbox: Sandbox, code: str, function: str, examples: Sequence[Example]) -> bool:
    """Whether `code` defines the function, which reads its arguments and gives every example's result.

    Raises:
        InfrastructureError: the sandbox could not judge it.
    """
    if not (function in code or "import *" in code) or not parses(code):  # spares the sandbox what cannot pass
        return False
    if ignores_its_arguments(code, function):
        return False
    report = await sandbox.arun(Program(code, example_tests(function, examples), function, "sealed"))
    judged(report.outcome())
    return report.success
