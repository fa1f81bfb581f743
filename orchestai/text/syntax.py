"""Python source: parsing it by as many threads as there are, and what its tree says."""

from __future__ import annotations

import ast
import builtins
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, overload

_ONE_AT_A_TIME = threading.Lock()
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


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


@lru_cache(maxsize=16)
def parsed(source: str) -> tuple[ast.Module, Mapping[type, Sequence[Any]]]:
    """The syntax tree of a source, and its nodes by their classes. Raises SyntaxError, ValueError."""
    tree = parse_python(source)
    kinds = defaultdict(list)
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # as `ast.walk` does, in less time
        kinds[type(node)].append(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if type(value) is list:
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return tree, kinds


@lru_cache(maxsize=1024)
def free_names(source: str) -> tuple[str, ...]:
    """Names that a source uses and nowhere binds, without builtins: its tests expect them of the program. Raises
    SyntaxError: `source` is not Python."""
    used: set[str] = set()
    bound = set(dir(builtins)) | {"__file__"}
    _, nodes = parsed(source)
    for node in nodes[ast.Name]:
        (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
    bound.update(node.name for kind in (*DEFINITIONS, ast.ExceptHandler) for node in nodes[kind] if node.name)
    bound.update(node.arg for node in nodes[ast.arg])
    bound.update(map(bound_name, nodes[ast.alias]))
    return tuple(sorted(used - bound))


def bound_name(alias: ast.alias) -> str:
    """The name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]


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


def parse(source: str) -> list[ast.stmt]:
    """The statements of a module; Python's warnings about somebody else's escape sequences are not passed on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parse_python(source).body


def functions(source: str) -> dict[str, ast.FunctionDef]:
    """Top-level functions by name; raises `SyntaxError` where `source` is no Python."""
    return {node.name: node for node in parse(source) if isinstance(node, ast.FunctionDef)}


def parameters(function: ast.FunctionDef) -> tuple[str, ...]:
    """Names of the positional parameters."""
    return tuple(argument.arg for argument in [*function.args.posonlyargs, *function.args.args])


def names(nodes: Iterable[ast.AST]) -> set[str]:
    """Every plain name that is read or written below these nodes."""
    return {node.id for root in nodes for node in ast.walk(root) if isinstance(node, ast.Name)}


def rename(root: ast.AST, old: str, new: str) -> None:
    """Rename a plain name below `root`, in place."""
    for node in ast.walk(root):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new


def imports(body: Iterable[ast.stmt]) -> list[ast.stmt]:
    """The import statements among these."""
    return [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]


def modules(source: str) -> set[str]:
    """Packages and modules, without what follows a dot, that a module cannot be loaded without."""
    found = set()
    for node in imports(parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}
