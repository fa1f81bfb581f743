"""What a source of tests defines and needs, read from it alone, so that no program can make a test vanish."""

from __future__ import annotations

import ast
import importlib
import marshal
import sys
import textwrap
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache

from orchestai.sandbox.inside.ipc.wire import Suite
from orchestai.sandbox.program import Isolation
from orchestai.sandbox.static.watched import rest_on_helpers, watched
from orchestai.text.syntax import DEFINITIONS, bound_name, free_names, parse_python, parsed

ALIASES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "sns": "seaborn"}
"""Names that mean these modules, whatever a program makes of them."""


@lru_cache(maxsize=1024)
def list_tests(source: str) -> tuple[str, ...]:
    """`Class.method` of every test, classes and methods in the order of the source, inherited methods first.

    A class counts if it descends, within the file, from a class whose name ends in `TestCase`.

    Raises:
        SyntaxError: `source` is not Python.
    """
    classes = {node.name: node for node in parsed(source)[0].body if isinstance(node, ast.ClassDef)}
    found = {name: _methods(node, classes) for name, node in classes.items()}
    return tuple(f"{name}.{method}" for name, (is_case, methods) in found.items() if is_case for method in methods)


@lru_cache(maxsize=1024)
def packed(source: str, names: tuple[str, ...], entry_point: str, isolation: Isolation = "sealed") -> bytes:
    """The tests `names` of `source` as a `Suite` for the sandbox's processes; compiled once for all programs. Raises
    SyntaxError, ValueError: `source` is not Python."""
    tree, nodes = parsed(source)
    free = {*free_names(source), entry_point}
    meant = _meant(source, free) if isolation == "open" else {}
    if isolation == "open":
        tree = watched(source, free - meant.keys(), entry_point)
    # Without `optimize`, they would have no `assert` where this process was started with -O.
    code = compile(tree, "tests.py", "exec", dont_inherit=True, optimize=0)
    modules = {alias.name for node in nodes[ast.Import] for alias in node.names}
    modules |= {node.module for node in nodes[ast.ImportFrom] if node.module and not node.level}
    modules -= {"unittest", "this", "antigravity"}
    sets = {node.attr for node in nodes[ast.Attribute] if isinstance(node.ctx, ast.Store)}
    imports = [alias for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names]
    bound = tuple(bound_name(alias) for alias in imports if alias.name != "*")
    parts = tuple(sorted(modules)), tuple(sorted(meant.items())), tuple(sorted(sets)), bound
    return marshal.dumps(tuple(Suite(source, code, names, *parts)))


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
        bound = {bound_name(one) for one in ast.walk(node) if isinstance(one, ast.alias)}
        if isinstance(node, DEFINITIONS) and node.name != entry_point:
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
    nodes = _statements(given)
    found = {bound_name(one) for node in nodes for one in ast.walk(node) if isinstance(one, ast.alias)}
    found |= {node.name for node in nodes if isinstance(node, DEFINITIONS)}
    return tuple(sorted(found - {entry_point}))


def _statements(given: str) -> list[ast.stmt]:
    for text in (given, f"{given.rstrip()}\n    pass\n"):
        try:
            return parse_python(text).body if given else []
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return []


def _methods(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> tuple[bool, dict[str, None]]:
    """Whether a class is a test case, and the tests that it has, of its bases first."""
    is_case, methods = False, dict[str, None]()
    for base in (ast.unparse(base).rpartition(".")[2] for base in node.bases):
        if base in classes and base != node.name:
            one_is, inherited = _methods(classes[base], classes)
            is_case, methods = is_case or one_is, methods | inherited
        else:
            is_case = is_case or base.endswith("TestCase")
    own = [item for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return is_case, methods | {item.name: None for item in own if item.name.startswith("test")}
