"""Turning assert statements into a `unittest.TestCase`, one test method per assertion where that means the same."""

from __future__ import annotations

import ast
from collections.abc import Sequence

_HEAD = "import unittest\n\n\n"


def as_test_case(body: Sequence[ast.stmt], setup: Sequence[ast.stmt] = ()) -> str:
    """A test module that makes the checks of `body`.

    Top-level assertions become a method each, `test_1` and so on; the statements before an assertion that are not
    assertions are repeated in its method, since they may define what it uses. Where a loop or branch contains
    assertions, it is one method of its own. Assertions of a constant check nothing and are left out. `setup` runs
    once, before the class.

    Raises:
        ValueError: there is no assertion.
    """
    methods: list[str] = []
    before: list[ast.stmt] = []
    for statement in body:
        match statement:
            case ast.Assert(test=ast.Constant(value=value)) if value:
                continue
        if any(isinstance(node, ast.Assert) for node in ast.walk(statement)):
            methods.append(_method(len(methods) + 1, [*before, statement]))
        else:
            before.append(statement)
    if not methods:
        raise ValueError("its tests assert nothing")
    head = "".join(ast.unparse(statement) + "\n" for statement in setup)
    return _HEAD + (head and head + "\n\n") + "class TestCases(unittest.TestCase):\n" + "\n".join(methods)


def _method(number: int, statements: Sequence[ast.stmt]) -> str:
    lines = "\n".join(ast.unparse(statement) for statement in statements).split("\n")
    return "\n".join([f"    def test_{number}(self):", *(f"        {line}" for line in lines)]) + "\n"
