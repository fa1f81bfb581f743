"""Tests in whose place a function of the program may run: it decorates them, or what they are set up or assert by."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import lru_cache

from orchestai.sandbox.static.assertions import may_fail
from orchestai.sandbox.static.carriers import find_carriers, mentions, named_modules, targets_of
from orchestai.sandbox.static.test_discovery import free_names, list_tests, members_of, parsed

_FIXTURES = frozenset(
    (
        *("setUp", "tearDown", "asyncSetUp", "asyncTearDown", "setUpClass", "tearDownClass"),
        *("setUpModule", "tearDownModule"),
    )
)


@lru_cache(maxsize=512)
def find_replaced_tests(source: str, entry_point: str) -> frozenset[str]:
    """Those tests (`Class.method`); whatever the program has made of them, their source does not say what ran.

    A function of the tests that asserts of what it is given may be decorated: see `helper_tests`. One that asks the
    entry point itself may not.
    """
    tree, nodes = parsed(source)
    functions = [*nodes[ast.FunctionDef], *nodes[ast.AsyncFunctionDef]]
    if not any(function.decorator_list for function in functions) and not _rebinds(nodes[ast.Assign], functions):
        return frozenset()
    free = free_names(source)
    helpers = frozenset(free) - named_modules(members_of(source, free)) | {entry_point}
    helpers |= find_carriers(tree, helpers, "")
    replaced = _rebinds([node for node in nodes[ast.Assign] if mentions(node.value, helpers)], functions)
    replaced |= {one.name for one in functions if any(_is_of(mark, helpers) for mark in one.decorator_list)}
    held = {one.name for one in functions if one.name in replaced and _judges(one, entry_point)}
    while more := {one.name for one in functions if mentions(one, {*held, *map(".{}".format, held)})} - held:
        held |= more
    return frozenset(test for test in list_tests(source) if held & _FIXTURES or test.partition(".")[2] in held)


def _rebinds(assignments: Collection[ast.Assign], functions: Collection[ast.AST]) -> set[str]:
    """Names of functions that are assigned something else (`test_a = timed(test_a)`)."""
    names = {getattr(function, "name", "") for function in functions}
    bound = (target for node in assignments for targets, _ in targets_of(node) for target in targets)
    return names & {getattr(target, "attr", getattr(target, "id", "")) for target in bound}


def _is_of(mark: ast.expr, names: Collection[str]) -> bool:
    """Whether a decorator is of one of these names, maybe with arguments."""
    while isinstance(mark, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(mark, ast.Attribute) and f".{mark.attr}" in names:
            return True
        mark = mark.func if isinstance(mark, ast.Call) else mark.value
    return isinstance(mark, ast.Name) and mark.id in names


def _judges(function: ast.FunctionDef | ast.AsyncFunctionDef, entry_point: str) -> bool:
    if function.name.startswith("test") or function.name in _FIXTURES:
        return True
    asks = any(mentions(statement, {entry_point}) for statement in function.body)
    return asks and any(map(may_fail, ast.walk(function)))
