"""Which tests can share a process with those of other programs: they leave nothing there, and find nothing there.

Told from their source, by what it may hold, not by what it must not: whatever is not known to be harmless is not.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import string
import unittest
from collections import Counter, OrderedDict, defaultdict, deque
from functools import lru_cache
from typing import Any

from orchestai.sandbox.static.test_discovery import free_names, parsed


def _public(thing: Any) -> frozenset[str]:
    return frozenset(name for name in dir(thing) if not name.startswith("_"))


_PURE_MODULES = {
    **{name: _public(importlib.import_module(name)) for name in ("bisect", "cmath", "heapq", "itertools", "math")},
    "collections": frozenset(("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple")),
    "copy": frozenset(("copy", "deepcopy")),
    "functools": frozenset(("reduce",)),
    "string": frozenset(name for name in _public(string) if isinstance(getattr(string, name), str)),
}
"""Modules, and those of their members that depend on nothing but their arguments, and set no attributes of these."""
_PURE_BUILTINS = frozenset(
    (
        *("abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr", "complex", "dict"),
        *("divmod", "enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "int", "isinstance"),
        *("issubclass", "iter", "len", "list", "map", "max", "min", "next", "oct", "ord", "pow", "print", "range"),
        *("repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "zip"),
    )
)
_EXCEPTIONS = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
}
_IMPURE_BUILTINS = {*vars(builtins)} - _PURE_BUILTINS - _EXCEPTIONS
_PLAIN: tuple[type, ...] = (
    *(str, bytes, bytearray, int, float, complex, list, tuple, dict, set, frozenset, range),
    *(Counter, OrderedDict, defaultdict, deque),
)
_ASSERTIONS = {name for name in _public(unittest.TestCase) if name.startswith("assert")}
_ATTRIBUTES = frozenset().union(
    *map(_public, _PLAIN),
    _ASSERTIONS - {"assertLogs", "assertNoLogs", "assertWarns", "assertWarnsRegex"},  # patch modules for a while
    ("args", "exception", "fail", "skipTest", "subTest"),
)
"""What is asked of plain values and of test cases. None of it leads to what other tests could reach as well, as the
attributes of classes, functions, generators, frames and modules do."""


_SUSPECT = (
    *(ast.Import, ast.ImportFrom, ast.Name, ast.Attribute),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Match),
)
"""Syntax that may do harm; all other does none by itself."""


@lru_cache(maxsize=1024)
def is_self_contained(source: str, entry_point: str) -> bool:
    """Whether tests use nothing but the entry point, names of their own, assertions, pure functions and plain values.

    They set no attributes, and define none that the interpreter would call by itself. The word "seed" would have the
    random numbers of their process follow the program's.

    Raises:
        SyntaxError, ValueError: `source` is not Python.
    """
    if "seed" in source or not {entry_point}.issuperset(free_names(source)):
        return False
    _, nodes = parsed(source)
    bases = {id(base) for node in nodes[ast.ClassDef] for base in node.bases}
    imported = {alias.name for node in nodes[ast.Import] for alias in node.names}
    members: set[int] = set()
    for node in nodes[ast.Attribute]:
        if isinstance(node.value, ast.Name) and node.value.id in imported:
            name = node.value.id
            if node.attr in _PURE_MODULES.get(name, ()) or (
                (name, node.attr) == ("unittest", "TestCase") and id(node) in bases
            ):
                members |= {id(node), id(node.value)}
    return all(_is_harmless(node, imported, members) for kind in _SUSPECT for node in nodes[kind])


def _is_harmless(node: ast.AST, imported: set[str], members: set[int]) -> bool:
    """Whether a suspect node does no harm. `members` are harmless members of modules, and their names in them."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return all(alias.asname is None and _may_be_imported(node, alias.name) for alias in node.names)
    if isinstance(node, ast.Name):
        if node.id in imported:
            return id(node) in members
        return not node.id.startswith("__") and node.id not in _IMPURE_BUILTINS
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Load) and (id(node) in members or node.attr in _ATTRIBUTES)
    return isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("__")


def _may_be_imported(node: ast.Import | ast.ImportFrom, name: str) -> bool:
    if isinstance(node, ast.Import):
        return name in {"unittest", *_PURE_MODULES}
    return name in _PURE_MODULES.get(node.module or "", ())
