"""Which tests exchange more with a program than copies of values: things that have to stay with them, or their world.

Such a thing is a function, an iterator, an open file or an object of a class of the tests. Told from the source of the
tests alone, so that no program has a say in how it is judged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestai.sandbox.static.carriers import FUNCTIONS, MODULES, mentions, targets_of
from orchestai.sandbox.static.test_discovery import free_names, parsed

_WORLD = frozenset(
    (
        *("mock", "logging", "assertLogs", "assertNoLogs", "assertWarns", "assertWarnsRegex", "catch_warnings"),
        *("environ", "environb", "getenv", "putenv", "unsetenv", "chdir", "fchdir", "stdin", "argv"),
    )
)
"""Names of what tests patch, set, or have the program change or say, beside its results."""
_MAKERS = frozenset(
    (
        *("iter", "open", "map", "filter", "zip", "enumerate", "reversed", "fdopen", "makefile", "StringIO", "BytesIO"),
        *("TextIOWrapper", "NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile", "socket", "socketpair"),
        *("create_connection", "create_server", "connect", "cursor", "reader", "DictReader", "writer", "DictWriter"),
        *("accumulate", "chain", "count", "cycle", "from_iterable", "groupby", "islice", "permutations", "product"),
        *("repeat", "starmap", "takewhile", "dropwhile", "tee", "combinations", "zip_longest", "pairwise"),
    )
)
"""What makes things, by the last part of its name."""
_KEEPERS = frozenset(("partial", "partialmethod", "defaultdict", "staticmethod", "cmp_to_key", "wraps"))
"""What makes a thing of a function that it is given."""
_CLASS_MAKERS = frozenset(("namedtuple", "NamedTuple", "make_dataclass", "Enum", "IntEnum", "StrEnum", "Flag", "type"))
_METHODS = frozenset(
    (
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "put", "put_nowait"),
        *("remove", "set", "setdefault", "update", "write"),
    )
)
"""Methods that change what they are of: as arguments they have to stay with it."""
_HOLDERS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred, ast.IfExp, ast.BoolOp, ast.NamedExpr)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)


@lru_cache(maxsize=1024)
def exchange_more_than_copies(source: str, entry_point: str) -> bool:
    """Whether tests hand a program things that cannot be copied, or need it to have the world that they have.

    Raises:
        SyntaxError, ValueError: `source` is not Python.
    """
    _, nodes = parsed(source)
    return _name_the_world(nodes) or _Things(nodes, {entry_point, *free_names(source)} - MODULES).are_handed_over()


def _name_the_world(nodes: Mapping[type, Sequence[Any]]) -> bool:
    names = {node.id for node in nodes[ast.Name]} | {node.attr for node in nodes[ast.Attribute]}
    for node in (*nodes[ast.Import], *nodes[ast.ImportFrom]):
        origin = getattr(node, "module", None) or ""
        names.update(part for alias in node.names for part in (*origin.split("."), *alias.name.split(".")))
    return not _WORLD.isdisjoint(names) or any(
        node.attr == "path" and getattr(node.value, "id", "") == "sys" for node in nodes[ast.Attribute]
    )


class _Things:
    """What in the tests stands for things of theirs, by name (`name`, `.attribute`), and what for the program's.

    Args:
        nodes: of the tests, by class.
        program: names that the program defines.
    """

    def __init__(self, nodes: Mapping[type, Sequence[Any]], program: set[str]) -> None:
        self._nodes = nodes
        defined = [node for kind in FUNCTIONS for node in nodes[kind]]
        self._marks = [mark for node in (*defined, *nodes[ast.ClassDef]) for mark in node.decorator_list]
        self._functions = [node for node in defined if not node.name.startswith("test")]
        self._asked = program
        """Names that the program defines, or that stand for what came of them."""
        self._defined = frozenset(program)
        self._classes = {node.name for node in nodes[ast.ClassDef]}
        self._things = {name for node in self._functions for name in (node.name, f".{node.name}")}
        self._makers: set[str] = set()
        """Functions of the tests' own whose results are things."""
        before = -1
        while before < (before := len(self._asked) + len(self._classes) + len(self._things) + len(self._makers)):
            self._spread()

    def are_handed_over(self) -> bool:
        """Whether the program is given one: as an argument, operand or attribute, or by decorating it."""
        calls = self._nodes[ast.Call]
        return (
            any(any(map(self._is_thing, _given(call))) and self._is_of_program(call) for call in calls)
            or any(mentions(mark, self._asked) for mark in self._marks)
            or any(
                self._is_thing(other) and mentions(one, self._asked)
                for node in self._nodes[ast.BinOp]
                for one, other in ((node.left, node.right), (node.right, node.left))
            )
            or any(
                isinstance(target, (ast.Attribute, ast.Subscript)) and mentions(target, self._asked)
                for node in self._nodes[ast.Assign]
                if self._is_thing(node.value)
                for target in node.targets
            )
        )

    def _spread(self) -> None:
        """Follow assignments, arguments and results once."""
        for kind in (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.withitem, ast.comprehension):
            for node in self._nodes[kind]:
                for targets, value in targets_of(node):
                    bound = {name for target in targets for name in _stored(target)}
                    if mentions(value, self._asked):
                        self._asked |= bound
                    if self._is_thing(value):
                        self._things |= bound
                    if isinstance(value, ast.Call) and _last_name(value.func) in _CLASS_MAKERS:
                        self._classes |= bound
        for call in self._nodes[ast.Call]:
            self._follow_arguments(call)
        for function in self._functions:
            if any(map(self._makes, ast.walk(function))):
                self._makers.add(function.name)

    def _follow_arguments(self, call: ast.Call) -> None:
        """To the parameters of the tests' own functions, and to what keeps things (`nodes.append(Node(1))`)."""
        if not any(map(self._is_thing, _given(call))):
            return
        if isinstance(call.func, ast.Attribute) and call.func.attr != "sort":
            self._things.update(set(_stored(call.func.value)) - {"self"})
        for function in self._functions:
            if function.name == _last_name(call.func):
                own = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
                own = own[1:] if own[:1] == ["self"] else own
                given = [*zip(own, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]
                self._things.update(name for name, value in given if name and self._is_thing(value))

    def _makes(self, node: ast.AST) -> bool:
        """Whether a function that holds this node gives things."""
        if isinstance(node, ast.Return):
            return node.value is not None and self._is_thing(node.value)
        return isinstance(node, (ast.Yield, ast.YieldFrom))

    def _is_thing(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._things | self._classes
        if isinstance(node, ast.Attribute):
            return node.attr in _METHODS or f".{node.attr}" in self._things
        if isinstance(node, ast.Call):
            name = _last_name(node.func)
            if name in _MAKERS | self._makers | self._classes:
                return True
            return name in _KEEPERS and any(map(self._is_thing, _given(node)))
        if isinstance(node, _COMPREHENSIONS):
            return self._is_thing(node.value if isinstance(node, ast.DictComp) else node.elt)
        if isinstance(node, _HOLDERS):
            return any(map(self._is_thing, ast.iter_child_nodes(node)))
        return isinstance(node, (ast.Lambda, ast.GeneratorExp))

    def _is_of_program(self, call: ast.Call) -> bool:
        """Whether the program gets the arguments of a call, maybe from another who calls it (`map(task_func, ...)`)."""
        passed_on = {arg.id for arg in _given(call) if isinstance(arg, ast.Name)}
        return mentions(call.func, self._asked) or not self._defined.isdisjoint(passed_on)


def _given(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _stored(target: ast.AST) -> Iterator[str]:
    """The names and `.attributes` that get what is assigned to a target, or put into it."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute):
        yield f".{target.attr}"
    elif isinstance(target, (ast.Subscript, ast.Starred)):
        yield from _stored(target.value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _stored(item)
