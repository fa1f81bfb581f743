"""Tests that ask a function of the program for their verdict, and the same tests with it asked about something else.

`assertTrue(is_close(task_func(1, 2), 3))` says nothing where `is_close` is the program's own and always agrees. In
variants of the test it is given other values than 3, or, where it is given nothing but what `task_func` returned,
other values than that. A helper that agrees with all of them judges nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from orchestai.sandbox.static.assertions import deciding, expects_failure, letting_pass, may_fail
from orchestai.sandbox.static.carriers import FUNCTIONS, find_carriers, mentions, named_modules, targets_of
from orchestai.sandbox.static.test_discovery import free_names, list_tests, members_of
from orchestai.text.syntax import parse_python

KINDS = 3
"""Other values that a helper is given; see `asked_otherwise.py`."""
_LAST = -1
"""Place of the last argument, whichever that is: `is_close(*pair)`, `is_close(**both)`."""
_PRELUDE = (Path(__file__).parent / "asked_otherwise.py").read_text()
_ASKED, _ASKED_RESULTS = "_asking_otherwise", "_asking_about_results"
_PASSED_ON, _REGISTERED, _REGISTERS = "_passed_on", "_registered", "addTypeEqualityFunc"
_TEST = "_test_asking_otherwise"
_JUDGES = re.compile(
    "assert|check|compare|confirm|ensure|equal|expect|match|require|same|test|valid|verif", re.IGNORECASE
)


class Variant(NamedTuple):
    """A test (`Class.method`) in which one call of a helper is asked otherwise, and the test that it was made from."""

    name: str
    original: str


@dataclass(frozen=True)
class HelperTests:
    """Variants of tests, one for each test and call of a helper.

    Attributes:
        variants: in an order in which those of one test follow each other.
    """

    variants: tuple[Variant, ...]
    _head: str
    _body: str

    def source(self, kind: int, salt: int) -> str:
        """Tests that define all variants, with other values of a kind; `salt` chooses among these."""
        return f"{self._head}\n{_PRELUDE}\n_KIND, _SALT = {kind}, {salt}\n{self._body}"


@lru_cache(maxsize=512)
def find_helper_tests(source: str, entry_point: str) -> HelperTests | None:
    """The variants of a source of tests; None if none of its tests rests on the program's helpers.

    Raises:
        SyntaxError, ValueError: `source` is not Python.
    """
    helpers = frozenset(free_names(source)) - {entry_point}
    helpers -= named_modules(members_of(source, helpers))
    if not helpers:
        return None
    tree = parse_python(source)
    carriers = find_carriers(tree, helpers, entry_point)
    sites: dict[ast.AST, range] = {}
    count = 0
    for function in _functions(tree):
        before = count
        for mark in _Finder(function, helpers, carriers, entry_point).sites():
            mark(count)
            count += 1
        sites[function] = range(before, count)
    variants = _add_variants(tree, sites, list_tests(source))
    if not variants:
        return None
    begin = next((i for i, node in enumerate(tree.body) if not _must_be_first(node)), 0)
    head, body = (ast.unparse(ast.fix_missing_locations(ast.Module(part, []))) for part in _cut(tree.body, begin))
    return HelperTests(tuple(variants), head, body)


def _must_be_first(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _cut(body: list[ast.stmt], begin: int) -> tuple[list[ast.stmt], list[ast.stmt]]:
    return body[:begin], body[begin:]


def _functions(tree: ast.Module) -> Iterator[Any]:
    """Functions of the module, and methods of its classes."""
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from (item for item in node.body if isinstance(item, FUNCTIONS))


def _add_variants(tree: ast.Module, sites: dict[ast.AST, range], tests: tuple[str, ...]) -> list[Variant]:
    """Define in each class, for each of its tests, a variant for each call in the test or in what is no test."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    elsewhere = [i for function, own in sites.items() if not _is_test(function) for i in own]
    made: dict[tuple[str, str], list[str]] = {}
    for cls, node in classes.items():
        for function in [item for item in node.body if item in sites and _is_test(item)]:
            if not any("expectedFailure" in ast.unparse(mark) for mark in function.decorator_list):  # type: ignore[attr-defined]
                method = function.name  # type: ignore[attr-defined]
                own = made[cls, method] = [f"{method}__{i}" for i in (*sites[function], *elsewhere)]
                for i, name in zip((*sites[function], *elsewhere), own, strict=True):
                    node.body += parse_python(f"{name} = {_TEST}({i}, {method})").body
    return [
        Variant(f"{cls}.{name}", test)
        for test in tests
        for cls, _, method in [test.partition(".")]
        for name in _inherited(made, classes, cls, method)
    ]


def _inherited(
    made: dict[tuple[str, str], list[str]], classes: dict[str, ast.ClassDef], cls: str, method: str
) -> list[str]:
    if (cls, method) in made or cls not in classes:
        return made.get((cls, method), [])
    bases = (base.id for base in classes[cls].bases if isinstance(base, ast.Name) and base.id != cls)
    return next((names for base in bases if (names := _inherited(made, classes, base, method))), [])


def _is_test(function: Any) -> bool:
    return str(function.name).startswith("test")


class _Finder:
    """Finds in a function the calls of helpers that its assertions rest on."""

    def __init__(self, function: ast.AST, helpers: frozenset[str], carriers: set[str], entry_point: str) -> None:
        self._function: Any = function
        self._nodes = list(ast.walk(function))
        self._own_names = helpers
        self._helpers = helpers | carriers
        self._entry_point = entry_point
        self._bindings = [binding for node in self._nodes for binding in _bindings(node)]
        self._results = {entry_point}
        """Names that stand for the entry point, or for what was made of its results."""
        self._inputs = {
            name.id
            for node in self._nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == entry_point
            for arg in (*node.args, *(keyword.value for keyword in node.keywords))
            for name in ast.walk(arg)
            if isinstance(name, ast.Name)
        }
        """Names of what the entry point is given: another of these is no other expectation."""
        self._made = {
            name
            for names, value in self._bindings
            if isinstance(value, ast.Call) and self._is_helper(value.func)
            for name in names
        }
        """Names of what helpers made."""
        self._parameters = _parameters(self._nodes)
        """Names of what functions in it are given, and of what was taken from that."""
        self._parameters |= {
            name for names, value in self._bindings if mentions(value, self._parameters) for name in names
        }
        handlers = {id(one) for node in self._nodes if isinstance(node, ast.ExceptHandler) for one in ast.walk(node)}
        self._statements = [node.value for node in self._nodes if isinstance(node, ast.Expr)]
        self._statements += [node.context_expr for node in self._nodes if isinstance(node, ast.withitem)]
        self._asserts = any(may_fail(node) for node in self._nodes if id(node) not in handlers)
        """Whether anything beside helpers can fail it; what follows their failing does not count."""
        for _ in self._bindings:
            more = {name for names, value in self._bindings if self._is_result(value) for name in names}
            if more <= self._results:
                break
            self._results |= more

    def sites(self) -> list[Callable[[int], None]]:
        """What makes each call one that can be asked otherwise, given its number."""
        found: dict[int, Callable[[int], None]] = {}
        waiting = [expression for node in self._nodes for expression in deciding(node)]
        waiting += [call for node in self._nodes for part in letting_pass(node) for call in self._judging(part)]
        must_raise = {id(one) for node in self._nodes if expects_failure(node) for one in ast.walk(node)}
        calls = [node for node in self._nodes if isinstance(node, ast.Call) and id(node) not in must_raise]
        unheard = set(self._unheard()) if self._asserts else set(calls)
        waiting += [call for call in calls if call in unheard and self._may_raise(call)]
        waiting += [call for call in calls if self._hands_judge_on(call)]
        seen: set[str] = set()
        while waiting:
            expression = waiting.pop(0)
            self._find(expression, found)
            names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)} - seen - self._inputs
            seen |= names
            waiting += [value for bound, value in self._bindings if names & bound]
        return list(found.values())

    def _unheard(self) -> list[ast.Call]:
        """Calls whose answers go nowhere: all that they can do for the test is to raise."""
        used = {node.id for node in self._nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        places = [
            *self._statements,
            *(node.value for node in self._nodes if isinstance(node, ast.Return) and node.value),
        ]
        places += [value for names, value in self._bindings if not names & used]
        return [call for place in places for call in self._calls_outside_assertions(place)]

    def _calls_outside_assertions(self, node: ast.AST) -> Iterator[ast.Call]:
        if isinstance(node, ast.Call) and (self._is_helper(node.func) or not may_fail(node)):
            yield node
        if not may_fail(node):
            for child in ast.iter_child_nodes(node):
                yield from self._calls_outside_assertions(child)

    def _is_method(self, node: ast.AST) -> bool:
        """Whether it is a method of what helpers made, or of a class or an object among them, that is no module."""
        if not isinstance(node, ast.Attribute):
            return False
        value = node.value
        if isinstance(value, ast.Name):
            return value.id in self._helpers | self._made
        return self._is_helper(value.func if isinstance(value, ast.Call) else value) or self._is_method(value)

    def _is_result(self, node: ast.AST) -> bool:
        return any(isinstance(name, ast.Name) and name.id in self._results for name in ast.walk(node))

    def _find(self, node: ast.AST, found: dict[int, Callable[[int], None]]) -> None:
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == self._entry_point:
                return
            if self._is_helper(node.func) or (self._is_method(node.func) and self._is_given_a_result(node)):
                if (mark := self._asked(node)) is not None:
                    found[id(node)] = mark
                return
            handed = [arg for arg in node.args if self._may_be_called(arg)]
            if _last_name(node.func) == _REGISTERS:
                handed = [arg for arg in _given(node)[-1:] if isinstance(arg, ast.Name) and arg.id in self._helpers]
            found |= {id(arg): partial(_mark_passed_on, node, arg) for arg in handed}
        for child in ast.iter_child_nodes(node):
            self._find(child, found)

    def _judging(self, node: ast.AST) -> list[ast.expr]:
        """Calls of helpers in it that are given a result, and more to hold it against."""
        calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
        return [call for call in calls if self._says_verdict(call.func) and self._is_given_a_result(call)]

    def _says_verdict(self, function: ast.expr) -> bool:
        return self._is_helper(function) or (self._is_method(function) and self._is_called_judge(function))

    def _may_raise(self, node: ast.expr) -> bool:
        """Whether it is a call of a helper that is told what is expected, and judges if it raises at all.

        Where it is not called in a statement of its own, or is a method, or tests have other assertions, or a function
        of theirs hands on what it is given, its name has to say so: it may as well show or save something.
        """
        if not isinstance(node, ast.Call) or not (self._is_helper(node.func) or self._is_method(node.func)):
            return False
        if self._is_given_a_result(node):
            says_all = not self._asserts and node in self._statements and not self._is_method(node.func)
            return says_all or self._is_called_judge(node.func)
        given = _given(node)
        if (
            len(given) < 2
            or any(map(self._is_result, given))
            or not any(mentions(arg, self._parameters) for arg in given)
        ):
            return False
        hands_on = (
            not self._asserts and not _is_test(self._function) and _JUDGES.search(self._function.name) is not None
        )
        return hands_on or self._is_called_judge(node.func)

    def _is_called_judge(self, helper: ast.expr) -> bool:
        """By one of its names, or of those of what made it: `expect(task_func(1)).to_be(3)`."""
        names = [node.id for node in ast.walk(helper) if isinstance(node, ast.Name) and node.id in self._helpers]
        names += [node.attr for node in ast.walk(helper) if isinstance(node, ast.Attribute)]
        return _JUDGES.search(" ".join(names)) is not None

    def _hands_judge_on(self, call: ast.Call) -> bool:
        """Whether something else is to call a helper that is told what is expected: `submit(verify, result, 3)`."""
        if _last_name(call.func) == _REGISTERS:
            return any(mentions(arg, self._helpers) for arg in _given(call))
        handed = [arg for arg in call.args if self._may_be_called(arg)]
        if not handed:
            return False
        results = [self._is_result(arg) for arg in call.args if arg not in handed]
        says_all = not self._asserts and not all(results)
        return any(results) and (says_all or self._is_called_judge(handed[0]))

    def _is_given_a_result(self, call: ast.Call) -> bool:
        """And more: what a method says of anything else may well be the same of all."""
        given = _given(call)
        if isinstance(call.func, ast.Attribute) and self._is_result(call.func.value):
            given = [call.func.value, *given]  # of what was made of it: check(task_func(1)).equals(3)
        return len(given) > 1 and any(map(self._is_result, given)) and not all(map(self._is_result, given))

    def _is_helper(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return isinstance(node.value, ast.Name) and f".{node.attr}" in self._helpers
        if isinstance(node, (ast.Subscript, ast.Call)):  # checks["close"], make_check(), partial(close, 3)
            return mentions(node, self._helpers) and not self._is_result(node)
        return isinstance(node, ast.Name) and node.id in self._helpers

    def _may_be_called(self, node: ast.AST) -> bool:
        """Whether it is a helper, with arguments or without, that something else is to call."""
        if isinstance(node, ast.Call) and _last_name(node.func) == "partial":
            return mentions(node, self._own_names)
        return isinstance(node, ast.Name) and node.id in self._own_names

    def _asked(self, call: ast.Call) -> Callable[[int], None] | None:
        given: dict[int | str, ast.expr] = dict(enumerate(call.args))
        given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
        if any(isinstance(value, ast.Starred) for value in given.values()) or any(not one.arg for one in call.keywords):
            return partial(_mark, call, _ASKED, (_LAST,))
        if not given:
            return None
        results = [place for place, value in given.items() if self._is_result(value)]
        expected = [place for place in given if place not in results]
        if not expected:
            return partial(_mark, call, _ASKED_RESULTS, results[0])
        value = getattr(given[expected[0]], "value", None)
        may_be_mode = isinstance(value, str) and value.isidentifier() and bool(results)
        return partial(_mark, call, _ASKED, (expected[0], *(results[:1] if may_be_mode else ())))


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _parameters(nodes: list[ast.AST]) -> set[str]:
    given = (node.args for node in nodes if isinstance(node, FUNCTIONS) and not _is_test(node))
    return {one.arg for args in given for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)} - {"self", "cls"}


def _mark(call: ast.Call, by: str, places: Any, number: int) -> None:
    call.args = [ast.Constant(number), _literal(places), call.func, *call.args]
    call.func = ast.Name(by, ast.Load())


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _literal(value: Any) -> ast.expr:
    return parse_python(repr(value), "eval").body


def _mark_passed_on(call: ast.Call, helper: ast.expr, number: int) -> None:
    by = _REGISTERED if _last_name(call.func) == _REGISTERS else _PASSED_ON
    marked = ast.Call(ast.Name(by, ast.Load()), [ast.Constant(number), helper], [])
    call.args = [marked if arg is helper else arg for arg in call.args]
    for keyword in call.keywords:
        keyword.value = marked if keyword.value is helper else keyword.value


def _bindings(node: ast.AST) -> Iterator[tuple[set[str], ast.expr]]:
    """Names that a node binds, and what to."""
    for targets, value in targets_of(node):
        yield {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}, value
