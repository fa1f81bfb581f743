"""Under which names tests call the program's helpers: their own, and those of what holds, makes or is handed them."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from orchestai.sandbox.inside.ipc.library import is_library

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ALIASES = frozenset(("np", "numpy", "pd", "pandas", "plt"))
MODULES = sys.stdlib_module_names | _ALIASES
"""Names that may stand for modules."""


def named_modules(members: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Those of the names with these members that stand for modules, whatever the program makes of them.

    The tests' process finds them so, too: see `Candidate.names`.
    """
    return frozenset(name for name in members if name in _ALIASES or (is_library(name) and _has(name, members[name])))


def _has(module: str, members: Sequence[str]) -> bool:
    """Whether a module, or the class of its name in it, has all these members."""
    with suppress(ImportError):
        found = importlib.import_module(module)
        return any(all(hasattr(one, name) for name in members) for one in (found, getattr(found, module, None)))
    return False


def find_carriers(tree: ast.AST, helpers: frozenset[str], entry_point: str) -> set[str]:
    """Names (and `.attribute`s) under which the tests have helpers, what holds them, or what helpers made.

    Of them only those matter that are called: `self.close = close`, `checks = {"close": close}`,
    `check = make_check()`, `for check in (close, same)`, parameters to which helpers are passed, what they decorate.
    """
    nodes = list(ast.walk(tree))
    of_classes = {id(node) for cls in nodes if isinstance(cls, ast.ClassDef) for node in cls.body}
    bindings = [(targets, value, id(node) in of_classes) for node in nodes for targets, value in targets_of(node)]
    parameters: dict[str, list[ast.arguments]] = {}
    for node in nodes:
        if isinstance(node, FUNCTIONS):
            parameters.setdefault(node.name, []).append(node.args)
            name: ast.AST = ast.Name(node.name, ast.Store())
            bindings += [([name], mark, id(node) in of_classes) for mark in node.decorator_list]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    found: set[str] = set()
    while True:
        known = helpers | found
        more = {
            name
            for targets, value, is_of_class in bindings
            if mentions(value, known) and not mentions(value, {entry_point})
            for target in targets
            for name in _bound(target, is_of_class)
        }
        more |= {name for call in calls for name in _handed_to(call, known, parameters)}
        if more <= found:
            return found
        found |= more


def mentions(node: ast.AST, names: Collection[str]) -> bool:
    return any(
        (isinstance(one, ast.Name) and one.id in names) or (isinstance(one, ast.Attribute) and f".{one.attr}" in names)
        for one in ast.walk(node)
    )


def _bound(target: ast.AST, is_of_class: bool) -> Iterator[str]:
    """The names and `.attributes` that an assignment to a target gives; names of a class are attributes as well."""
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield from (node.id, f".{node.id}") if is_of_class else (node.id,)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield f".{node.attr}"


def _handed_to(call: ast.Call, names: Collection[str], parameters: dict[str, list[ast.arguments]]) -> Iterator[str]:
    """Parameters of the tests' own functions to which a call hands one of these names itself."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    for arguments in parameters.get(name, ()):
        own = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        own = own[1:] if isinstance(call.func, ast.Attribute) and own[:1] == ["self"] else own
        given = [*zip(own, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]
        yield from (to for to, value in given if to and isinstance(value, ast.Name) and value.id in names)


def targets_of(node: ast.AST) -> Iterator[tuple[list[ast.AST], ast.expr]]:
    """What a node binds, and what to."""
    targets: list[ast.AST] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension)):
        targets = [node.target]
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        targets = [node.optional_vars]
    value = next((found for name in ("value", "iter", "context_expr") if (found := getattr(node, name, None))), None)
    if targets and value is not None:
        yield targets, value
