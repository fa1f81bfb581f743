"""What the loaders read from a program's syntax tree."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable

from orchestai.text.syntax import parse_python


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
