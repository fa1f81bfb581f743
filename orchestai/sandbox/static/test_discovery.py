"""What a source of tests defines and needs, read from it alone, so that no program can make a test vanish."""

from __future__ import annotations

import ast
import builtins
import importlib
import marshal
import sys
import textwrap
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from orchestai.sandbox.inside.ipc.wire import Suite
from orchestai.sandbox.program import Isolation
from orchestai.sandbox.static.watched import rest_on_helpers, watched
from orchestai.text.syntax import parse_python

ALIASES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "sns": "seaborn"}
"""Names that mean these modules, whatever a program makes of them."""
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


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
def packed(source: str, names: tuple[str, ...], entry_point: str, isolation: Isolation = "sealed") -> bytes:
    """The tests `names` of `source` as a `Suite` for the sandbox's processes; compiled once for all programs.

    Raises:
        SyntaxError, ValueError: `source` is not Python.
    """
    tree, nodes = parsed(source)
    free = {*free_names(source), entry_point}
    if isolation == "open":
        tree = watched(source, free - _meant(source, free).keys(), entry_point)
    # Without `optimize`, they would have no `assert` where this process was started with -O.
    code = compile(tree, "tests.py", "exec", dont_inherit=True, optimize=0)
    meant = tuple(sorted(_meant(source, free).items())) if isolation == "open" else ()
    sets = {node.attr for node in nodes[ast.Attribute] if isinstance(node.ctx, ast.Store)}
    return marshal.dumps(
        tuple(Suite(source, code, names, _imported(source), meant, tuple(sorted(sets)), _bound_by_imports(tree)))
    )


@lru_cache(maxsize=512)
def helper_tests(source: str, entry_point: str) -> frozenset[str]:
    """The tests of a source that rest on more of the program than its entry point."""
    free = {*free_names(source)}
    return rest_on_helpers(source, free - _meant(source, free).keys(), entry_point)


def with_given(source: str, given: str, entry_point: str) -> str:
    """Tests after what the prompt defines beside the entry point, and after imports of modules that they name.

    Args:
        given: source that begins a program, which may lack a body at its end.

    Raises:
        SyntaxError, ValueError: `source` is not Python.
    """
    free = {*free_names(source)} - {entry_point}
    head = []
    for node in _statements(given):
        bound = {one.asname or one.name.partition(".")[0] for one in ast.walk(node) if isinstance(one, ast.alias)}
        if isinstance(node, _NAMED) and node.name != entry_point:
            bound = {node.name}
        elif not isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign)):
            continue
        head.append(node)
        free -= bound
    lines = [ast.unparse(node) for node in head if getattr(node, "module", "") != "__future__"]
    for name, (module, member) in sorted(_meant(source, free).items()):
        lines.append(f"from {module} import {member} as {name}" if member else f"import {module} as {name}")
    block = textwrap.indent("\n".join(lines), "    ")  # so that imports at the top are the tests' own
    return f"if True:\n{block}\n{source}" if lines else source


def _meant(source: str, free: Collection[str]) -> dict[str, tuple[str, str]]:
    """What of the library names mean whatever the program makes of them: a module, and perhaps a member of it.

    `math` has all that the tests use of `math`; of `datetime` the class in it may be what they mean.
    """
    nodes = parsed(source)[1]
    used: dict[str, set[str]] = {}
    for node in nodes[ast.Attribute]:
        if isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
    found = {}
    for name in free:
        if name in ALIASES:
            found[name] = ALIASES[name], ""
        elif name in sys.stdlib_module_names and name in used and name not in ("this", "antigravity", "unittest"):
            with suppress(ImportError):
                module = importlib.import_module(name)
                if all(hasattr(module, member) for member in used[name]):
                    found[name] = name, ""
                elif all(hasattr(getattr(module, name, None), member) for member in used[name]):
                    found[name] = name, name
    return found


def names_of(given: str, entry_point: str) -> tuple[str, ...]:
    """What the source that begins a program defines or imports, beside the entry point."""
    nodes = [one for node in _statements(given) for one in ast.walk(node)]
    found = {one.asname or one.name.partition(".")[0] for one in nodes if isinstance(one, ast.alias)}
    found |= {one.name for one in _statements(given) if isinstance(one, _NAMED)}
    return tuple(sorted(found - {entry_point}))


def _statements(given: str) -> list[ast.stmt]:
    for text in (given, f"{given.rstrip()}\n    pass\n"):
        try:
            return parse_python(text).body if given else []
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return []


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
    bound.update(node.name for kind in (*_NAMED, ast.ExceptHandler) for node in nodes[kind] if node.name)
    bound.update(node.arg for node in nodes[ast.arg])
    bound.update((node.asname or node.name).partition(".")[0] for node in nodes[ast.alias])
    return tuple(sorted(used - bound))


def _imported(source: str) -> tuple[str, ...]:
    """Modules that a source imports, anywhere."""
    nodes = parsed(source)[1]
    found = {alias.name for node in nodes[ast.Import] for alias in node.names}
    found |= {node.module for node in nodes[ast.ImportFrom] if node.module and not node.level}
    return tuple(sorted(found - {"unittest", "this", "antigravity"}))


def _bound_by_imports(tree: ast.Module) -> tuple[str, ...]:
    """Names that the imports at the top of a source bind."""
    nodes = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return tuple(one.asname or one.name.partition(".")[0] for node in nodes for one in node.names if one.name != "*")


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
