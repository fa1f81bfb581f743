"""Open tests that report what they do: comparisons, failed assertions, and that they came to their end.

In one process with a program, what the tests' own code says of itself is harder to forge than what `unittest` does. See
`orchestai.sandbox.inside.judge.watch`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from typing import Any

from orchestai.sandbox.inside import PROGRAM, WATCH
from orchestai.text.syntax import parse_python

_JUDGES = re.compile(r"assert|check|verif|expect|ensure|must|requir|valid|equal|same|close|compar|test|match", re.I)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BINDINGS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)


def watched(source: str, of_program: Collection[str], entry_point: str) -> ast.Module:
    """The tree of `source`, in which tests report, and find the names `of_program` in its module each time.

    They also report calls of helpers of the program's, and of what these made, with what the entry point gave.

    Raises:
        SyntaxError, ValueError: it is not Python.
    """
    tree = parse_python(source)
    for cls in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for method in cls.body:
            if isinstance(method, _FUNCTIONS) and method.name.startswith("test"):
                _Ends(method.name).visit_body(method)
    helpers = set(of_program) - {entry_point}
    nodes = list(ast.walk(tree)) if helpers else []
    answers = names_from(nodes, {entry_point})
    reports = _Reports(of_program, names_from(nodes, helpers, answers), answers)
    return ast.fix_missing_locations(reports.visit(tree))


def rest_on_helpers(source: str, of_program: Collection[str], entry_point: str) -> frozenset[str]:
    """Tests (`Class.method`) that mention helpers of the program's, or what holds them or came of them."""
    tree = parse_python(source)
    helpers = set(of_program) - {entry_point}
    nodes = list(ast.walk(tree))
    carriers = names_from(nodes, helpers, names_from(nodes, {entry_point})) if helpers else set()
    own = {node.name for node in nodes if isinstance(node, _FUNCTIONS) and mentions(node, carriers)}
    carriers |= own | {f".{name}" for name in own}
    return frozenset(
        f"{cls.name}.{method.name}"
        for cls in tree.body
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, _FUNCTIONS) and mentions(method, carriers)
    )


def names_from(nodes: Sequence[ast.AST], first: Collection[str], never: Collection[str] = ()) -> set[str]:
    """Names, and `.attributes`, that are given what mentions one of the `first`, and so on; these among them."""
    given = []
    for node in nodes:
        value = getattr(node, "value", None) if isinstance(node, _BINDINGS) else getattr(node, "iter", None)
        if isinstance(value, ast.expr) and not isinstance(value, ast.Compare):
            targets = getattr(node, "targets", None) or [node.target]  # type: ignore[attr-defined]
            given.append((value, set(map(stored, (one for target in targets for one in ast.walk(target))))))
    found, more = set[str](), set(first)
    while more != found:
        found = more
        more = found.union(*(names for value, names in given if mentions(value, found))) - set(never) - {""}
    return found


def mentions(node: ast.AST, names: Collection[str]) -> bool:
    return any(
        (isinstance(one, ast.Name) and one.id in names) or (isinstance(one, ast.Attribute) and f".{one.attr}" in names)
        for one in ast.walk(node)
    )


def stored(node: ast.AST) -> str:
    """The name, or the `.attribute`, that is set where `node` stands; empty if none is."""
    if not isinstance(getattr(node, "ctx", None), ast.Store):
        return ""
    return node.id if isinstance(node, ast.Name) else f".{node.attr}" if isinstance(node, ast.Attribute) else ""


def _report(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(WATCH, ast.Load()), name, ast.Load()), list(args), [])


class _Ends(ast.NodeTransformer):
    """Has a test say that it ends: after its last statement, and before it returns."""

    def __init__(self, test: str) -> None:
        self._report = _report("ended", ast.Constant(test))

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, ast.expr) else super().visit(node)

    def visit_body(self, method: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.generic_visit(method)
        method.body.append(ast.Expr(self._report))

    def visit_With(self, node: ast.With) -> ast.AST:
        """A `subTest` swallows what ends it; whether it came to its end is another question."""
        self.generic_visit(node)
        leaves = any(isinstance(one, (ast.Return, ast.Break, ast.Continue)) for one in ast.walk(node))
        if "subTest" in {getattr(one, "attr", "") for item in node.items for one in ast.walk(item)} and not leaves:
            node.body = [ast.Expr(_report("entered")), *node.body, ast.Expr(_report("left"))]
        return node

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        return [ast.Expr(self._report), node]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815


class _Reports(ast.NodeTransformer):
    """Has comparisons made by the watch, failed assertions reported to it, and names of the program looked up."""

    def __init__(self, of_program: Collection[str], helpers: Collection[str], answers: Collection[str]) -> None:
        self._of_program = of_program
        self._helpers = helpers
        self._answers = answers
        self._asserts = False
        self._effects: set[ast.Call] = set()

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        nodes = list(ast.walk(node))
        called = [one.func.attr for one in nodes if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)]
        self._asserts = any(name.startswith(("assert", "fail")) for name in called)
        self._asserts = self._asserts or any(isinstance(one, ast.Assert) for one in nodes)
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Beside assertions, what is called for its effect alone judges only if its name says so."""
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and self._asserts and not _JUDGES.search(ast.unparse(call.func)):
            self._effects.add(call)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        asks = bool(self._helpers) and mentions(node.func, self._helpers)
        asks = asks and any(mentions(value, self._answers) for value in given)
        self.generic_visit(node)
        if not asks or node in self._effects:
            return node
        return ast.copy_location(ast.Call(_report("ask").func, [node.func, *node.args], node.keywords), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self._of_program or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Attribute(ast.Name(PROGRAM, ast.Load()), node.id, ast.Load()), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) > 1 or not isinstance(node.ops[0], (ast.Eq, ast.In)):
            return node
        return _report("compare", ast.Constant(type(node.ops[0]).__name__), node.left, node.comparators[0])

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        message = [node.msg] if node.msg is not None else []
        return ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Raise(_report("failed", *message))], [])
