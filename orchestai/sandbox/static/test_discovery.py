"""What a source of tests defines and needs, read from it alone, so that no program can make a test vanish."""

from __future__ import annotations

import ast
import builtins
import marshal
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestai.sandbox.inside.ipc.suite import Suite
from orchestai.text.syntax import parse_python

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)


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
def list_tests(source: str) -> tuple[str, ...]:
    """`Class.method` of every test, classes and methods in the order of the source, inherited methods first.

    A class counts if it descends, within the file, from a class whose name ends in `TestCase`.

    Raises:
        SyntaxError: `source` is not Python.
    """
    classes = {node.name: node for node in parsed(source)[0].body if isinstance(node, ast.ClassDef)}
    return tuple(
        f"{name}.{method}"
        for name, node in classes.items()
        if _is_test_case(node, classes)
        for method in _test_methods(node, classes)
    )


@lru_cache(maxsize=1024)
def packed(source: str, names: tuple[str, ...], entry_point: str) -> bytes:
    """The tests `names` of `source` as a `Suite` for the sandbox's processes; compiled once for all programs.

    Raises:
        SyntaxError, ValueError: `source` is not Python.
    """
    # Without `optimize`, they would have no `assert` where this process was started with -O.
    code = compile(parsed(source)[0], "tests.py", "exec", dont_inherit=True, optimize=0)
    free = tuple(name for name in free_names(source) if name != entry_point)
    return marshal.dumps(tuple(Suite(source, code, names, free, members_of(source, free), _imports(source))))


@lru_cache(maxsize=1024)
def free_names(source: str) -> tuple[str, ...]:
    """Names that a source uses and nowhere binds, without builtins: its tests expect them of the program.

    Raises:
        SyntaxError: `source` is not Python.
    """
    used: set[str] = set()
    bound = set(dir(builtins)) | {"__file__"}
    _, nodes = parsed(source)
    for node in nodes[ast.Name]:
        (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
    bound.update(node.name for kind in _NAMED for node in nodes[kind] if node.name)
    bound.update(node.arg for node in nodes[ast.arg])
    bound.update((node.asname or node.name).partition(".")[0] for node in nodes[ast.alias])
    return tuple(sorted(used - bound))


def members_of(source: str, free: Collection[str]) -> dict[str, tuple[str, ...]]:
    """What tests use of names; see `Suite`."""
    _, nodes = parsed(source)
    found: dict[str, list[str]] = {}
    for node in nodes[ast.Attribute]:
        if isinstance(node.value, ast.Name) and node.value.id in free:
            found.setdefault(node.value.id, []).append(node.attr)
    uses = Counter(node.id for node in nodes[ast.Name])
    return {
        name: (*sorted({*members}), *(("__call__",) if len(members) < uses[name] else ()))
        for name, members in found.items()
    }


def _imports(source: str) -> tuple[tuple[str, str, str], ...]:
    """The imports at the top of a source; see `Suite`."""
    found = []
    for node in parsed(source)[0].body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                found.append((alias.asname or name, name, ""))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [(alias.asname or alias.name, node.module, alias.name) for alias in node.names]
    return tuple(one for one in found if one[1].partition(".")[0] != "unittest" and one[2] != "*")


def _base_names(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).rpartition(".")[2] for base in node.bases]


def _is_test_case(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    return any(
        _is_test_case(classes[base], classes) if base in classes and base != node.name else base.endswith("TestCase")
        for base in _base_names(node)
    )


def _test_methods(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> dict[str, None]:
    methods: dict[str, None] = {}
    for base in _base_names(node):
        if base in classes and base != node.name:
            methods |= _test_methods(classes[base], classes)
    for item in node.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name.startswith("test"):
            methods[item.name] = None
    return methods
