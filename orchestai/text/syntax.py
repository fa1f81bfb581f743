"""Parsing of Python source, by as many threads as there are."""

from __future__ import annotations

import ast
import threading
from typing import Any, Literal, overload

_ONE_AT_A_TIME = threading.Lock()


@overload
def parse_python(source: str) -> ast.Module: ...
@overload
def parse_python(source: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse_python(source: str, mode: Literal["exec", "eval"] = "exec") -> ast.Module | ast.Expression:
    """The syntax tree of a module, or of an expression where `mode` is "eval".

    CPython 3.11 counts the depth of the tree that it builds once for all threads, and a garbage collection in between
    lets another thread run: two that parse at once raise `SystemError: AST constructor recursion depth mismatch` now
    and then (python/cpython#106905). So one waits for the other here.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: as `ast.parse`.
    """
    with _ONE_AT_A_TIME:
        tree = ast.parse(source, mode=mode)
    assert isinstance(tree, (ast.Module, ast.Expression))
    return tree


def parse_literal(source: str) -> Any:
    """The value of a literal: a number, a text, a list of such, and so on.

    Raises:
        SyntaxError, ValueError, TypeError, MemoryError, RecursionError: as `ast.literal_eval`.
    """
    return ast.literal_eval(parse_python(source.lstrip(" \t"), "eval"))
