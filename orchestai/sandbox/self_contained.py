"""Which tests can share a process with those of other programs: they leave nothing there, and find nothing there.

Told from their source, by what it may hold, not by what it must not: whatever is not known to be harmless is not.
"""

from __future__ import annotations

import ast
import builtins
import importlib
from functools import lru_cache

from orchestai.sandbox.inventory import free_names, parsed

_PURE_MODULES = {
    name: frozenset(getattr(module, "__all__", vars(module)))
    for name in ("bisect", "cmath", "collections", "copy", "functools", "heapq", "itertools", "math", "string")
    for module in (importlib.import_module(name),)
}
"""Modules whose functions depend on nothing but their arguments, and what they are made of."""
_PURE_BUILTINS = frozenset(
    (
        *("abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr", "classmethod"),
        *("complex", "dict", "divmod", "enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "int"),
        *("isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "oct", "ord"),
        *("pow", "print", "property", "range", "repr", "reversed", "round", "set", "slice", "sorted", "staticmethod"),
        *("str", "sum", "super", "tuple", "type", "zip"),
    )
)
_EXCEPTIONS = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
}
_IMPURE_BUILTINS = {*vars(builtins)} - _PURE_BUILTINS - _EXCEPTIONS


@lru_cache(maxsize=1024)
def is_self_contained(source: str, entry_point: str) -> bool:
    """Whether tests use nothing but the entry point, names of their own, assertions, pure functions and plain values.

    They set no attributes but those of `self`, and touch none whose name begins with `_`. The word "seed" would have
    the random numbers of their process follow the program's.

    Raises:
        SyntaxError, ValueError: `source` is not Python.
    """
    if "seed" in source or not {entry_point}.issuperset(free_names(source)):
        return False
    _, nodes = parsed(source)
    bases = {id(base) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases}
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    members: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            name = node.value.id
            if node.attr in _PURE_MODULES.get(name, ()) or (name == "unittest" and id(node) in bases):
                members.add(id(node.value))
    return all(_is_harmless(node, imported, members) for node in nodes)


def _is_harmless(node: ast.AST, imported: set[str], members: set[int]) -> bool:
    """Whether a node does no harm. `members` are the names of modules by which a harmless member is got."""
    if isinstance(node, ast.Import):
        return all(alias.asname is None and alias.name in {"unittest", *_PURE_MODULES} for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return {alias.name for alias in node.names} <= _PURE_MODULES.get(node.module or "", frozenset())
    if isinstance(node, ast.Name):
        if node.id in imported:
            return id(node) in members
        return node.id != "self" if isinstance(node.ctx, ast.Store) else not _is_impure(node.id)
    if isinstance(node, ast.Attribute):
        of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
        return not node.attr.startswith("_") and (isinstance(node.ctx, ast.Load) or of_self)
    return not isinstance(node, ast.AsyncFunctionDef)


def _is_impure(name: str) -> bool:
    return name.startswith("__") or name in _IMPURE_BUILTINS
