"""Checking a function against the examples that its instruction shows."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from orchestai.outcome import judged
from orchestai.sandbox.program import Program
from orchestai.sandbox.sandbox import Sandbox
from orchestai.tasks.visible_examples import Example
from orchestai.text.programs import parses
from orchestai.text.syntax import parse_python

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


def ignores_its_arguments(code: str, function: str) -> bool:
    """Whether a function with parameters reads none of them, so that it meets an example by chance at most. Raises as
    `parse_python`."""
    top = parse_python(code).body
    renamed = {
        ast.unparse(one): ast.unparse(node.value)
        for node in top
        if isinstance(node, ast.Assign)
        for one in node.targets
    }
    named = {node.name: node for node in top if isinstance(node, ast.FunctionDef)}
    if (found := named.get(renamed.get(function, function))) is None:
        return False
    arguments = {one.arg for one in ast.walk(found.args) if isinstance(one, ast.arg)}
    read = {one.id for part in found.body for one in ast.walk(part) if isinstance(one, ast.Name)}
    return bool(arguments) and not read & {*arguments, "locals", "vars", "eval", "exec"}
