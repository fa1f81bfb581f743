"""Which tests exchange more with a program than copies of values: things that have to stay with them, or their world.

Such a thing is a function, an iterator, an open file or an object of a class of the tests. Told from the source of the
tests alone, so that no program has a say in how it is judged.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestai.sandbox.static.carriers import FUNCTIONS, MODULES, targets_of
from orchestai.sandbox.static.test_discovery import free_names, parsed

_WORLD = frozenset(
    (
        *("mock", "logging", "assertLogs", "assertNoLogs", "assertWarns", "assertWarnsRegex", "catch_warnings"),
        *("environ", "environb", "getenv", "putenv", "unsetenv", "chdir", "fchdir", "stdin", "argv"),
    )
)
"""Names of what tests patch, set, or have the program change or say, beside its results."""
_FILTERS = frozenset(("simplefilter", "filterwarnings"))
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
_COPIERS = frozenset(("dict", "list", "tuple", "set", "frozenset", "sorted", "deque", "OrderedDict"))
"""What holds what its arguments hold."""
_TAKERS = frozenset(("get", "items", "values", "copy", "pop", "popitem", "popleft", "setdefault"))
"""Methods that give what their object holds."""
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
_Place = str | ast.AST | tuple[str, ast.AST | int]
"""A name, an expression, the arguments of a call, or a parameter by its position."""


@lru_cache(maxsize=1024)
def exchange_more_than_copies(source: str, entry_point: str) -> bool:
    """Whether tests hand a program things that cannot be copied, or need it to have the world that they have.

    Raises:
        SyntaxError, ValueError: `source` is not Python.
    """
    tree, nodes = parsed(source)
    if _name_the_world(nodes):
        return True
    if not _may_have_things(nodes):
        return False
    return _Things(tree, nodes, {entry_point, *free_names(source)} - MODULES).are_handed_over()


def _name_the_world(nodes: Mapping[type, Sequence[Any]]) -> bool:
    names = {node.id for node in nodes[ast.Name]} | {node.attr for node in nodes[ast.Attribute]}
    for node in (*nodes[ast.Import], *nodes[ast.ImportFrom]):
        origin = getattr(node, "module", None) or ""
        names.update(part for alias in node.names for part in (*origin.split("."), *alias.name.split(".")))
    return (
        not _WORLD.isdisjoint(names)
        or any(node.attr == "path" and getattr(node.value, "id", "") == "sys" for node in nodes[ast.Attribute])
        or any(node.module == "sys" and alias.name == "path" for node in nodes[ast.ImportFrom] for alias in node.names)
        or any(_last_name(call.func) in _FILTERS and not _ignores(call) for call in nodes[ast.Call])
    )


def _ignores(call: ast.Call) -> bool:
    """Whether a filter of warnings only keeps them from being printed."""
    return any(isinstance(action, ast.Constant) and action.value == "ignore" for action in _given(call))


def _may_have_things(nodes: Mapping[type, Sequence[Any]]) -> bool:
    """Whether things begin anywhere, or anything is decorated; most tests only call what they define."""
    if any(nodes[kind] for kind in (ast.Lambda, ast.GeneratorExp, ast.Yield, ast.YieldFrom)):
        return True
    defined = [node for kind in FUNCTIONS for node in nodes[kind]]
    if any(node.decorator_list for node in (*defined, *nodes[ast.ClassDef])):
        return True
    classes = {node.name for node in nodes[ast.ClassDef]}
    called = {call.func for call in nodes[ast.Call]}
    if not (_MAKERS | _CLASS_MAKERS | classes).isdisjoint(map(_last_name, called)):
        return True
    own = classes | {node.name for node in defined if not node.name.startswith("test")}
    return any(node.id in own and node not in called for node in nodes[ast.Name]) or any(
        node.attr in _METHODS or (node.attr in own and node not in called) for node in nodes[ast.Attribute]
    )


class _Things:
    """What in the tests stands for things of theirs, and what for the program's.

    Both are followed from where they begin, along what leads from one to the next: from names (`name`, `.attribute`,
    and `maker()` for what a function or class of the tests gives) to the expressions that have them, from there to
    those around them, and to the names that these are given. So each is come to once.

    Args:
        tree, nodes: of the tests; `nodes` by class.
        program: names that the program defines.
    """

    def __init__(self, tree: ast.AST, nodes: Mapping[type, Sequence[Any]], program: set[str]) -> None:
        self._nodes = nodes
        self._program = program
        defined = [node for kind in FUNCTIONS for node in nodes[kind]]
        self._marks = [mark for node in (*defined, *nodes[ast.ClassDef]) for mark in node.decorator_list]
        self._functions = [node for node in defined if not node.name.startswith("test")]
        self._from_things: dict[_Place, list[_Place]] = defaultdict(list)
        self._from_program: dict[_Place, list[_Place]] = defaultdict(list)
        self._first_things: list[_Place] = []
        for node in ast.walk(tree):
            self._read(node)
        self._follow_bindings()
        self._follow_functions()
        self._things = _reached(self._first_things, self._from_things)
        self._asked = _reached(program, self._from_program)

    def are_handed_over(self) -> bool:
        """Whether the program is given one: as an argument, operand or attribute, or by decorating it."""
        return (
            any(("given", call) in self._things and self._is_of_program(call) for call in self._nodes[ast.Call])
            or not self._asked.isdisjoint(self._marks)
            or any(
                other in self._things and one in self._asked
                for node in self._nodes[ast.BinOp]
                for one, other in ((node.left, node.right), (node.right, node.left))
            )
            or any(
                isinstance(target, (ast.Attribute, ast.Subscript)) and target in self._asked
                for kind in (ast.Assign, ast.AugAssign)
                for node in self._nodes[kind]
                if node.value in self._things
                for target in (node.targets if kind is ast.Assign else [node.target])
            )
        )

    def _read(self, node: ast.AST) -> None:
        """Note what leads to an expression."""
        for child in ast.iter_child_nodes(node):
            self._from_program[child].append(node)
        parts: Iterable[ast.AST] = ()
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else f".{node.attr}"
            self._from_program[name].append(node)
            self._from_things[name].append(node)
        elif isinstance(node, ast.Call):
            parts = self._parts_of_call(node)
        elif isinstance(node, ast.Subscript):
            parts = [node.value]
        elif isinstance(node, _COMPREHENSIONS):
            parts = [node.value if isinstance(node, ast.DictComp) else node.elt]
        elif isinstance(node, _HOLDERS):
            parts = ast.iter_child_nodes(node)
        elif isinstance(node, ast.ClassDef):
            self._first_things += [node.name, f"{node.name}()"]
        for part in parts:
            self._from_things[part].append(node)
        if isinstance(node, (ast.Lambda, ast.GeneratorExp)) or getattr(node, "attr", "") in _METHODS:
            self._first_things.append(node)

    def _parts_of_call(self, call: ast.Call) -> Iterator[ast.AST]:
        """What makes the result of a call a thing where it is one."""
        name = _last_name(call.func)
        self._from_things[f"{name}()"].append(call)
        for arg in _given(call):
            self._from_things[arg].append(("given", call))
        if name in _MAKERS:
            self._first_things.append(call)
        elif name in _KEEPERS:
            yield from _given(call)
        elif name in _COPIERS:
            yield from (arg.elt if isinstance(arg, ast.GeneratorExp) else arg for arg in _given(call) if _is_held(arg))
        elif name in _TAKERS and isinstance(call.func, ast.Attribute):
            yield call.func.value

    def _follow_bindings(self) -> None:
        """From values to names, and from arguments to what keeps them (`nodes.append(Node(1))`)."""
        of_classes = {node for cls in self._nodes[ast.ClassDef] for node in cls.body}
        for kind in (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.withitem, ast.comprehension):
            for node in self._nodes[kind]:
                for targets, value in targets_of(node):
                    bound = [name for target in targets for name in _stored(target)]
                    if node in of_classes:
                        bound += [f".{name}" for name in bound]
                    self._from_program[value] += bound
                    self._from_things[value] += bound
                    if isinstance(value, ast.Call) and _last_name(value.func) in _CLASS_MAKERS:
                        self._first_things += [called for name in bound for called in (name, f"{name}()")]
        for call in self._nodes[ast.Call]:
            if isinstance(call.func, ast.Attribute) and call.func.attr != "sort":
                self._from_things["given", call] += [name for name in _stored(call.func.value) if name != "self"]

    def _follow_functions(self) -> None:
        """From arguments to the parameters of the tests' own functions, and from these to what they give."""
        for function in self._functions:
            self._first_things += [function.name, f".{function.name}"]
            own = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
            for place, name in enumerate(own[1:] if own[:1] == ["self"] else own):
                self._from_things[function.name, place].append(name)
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and node.value is not None:
                    self._from_things[node.value].append(f"{function.name}()")
                elif isinstance(node, (ast.Yield, ast.YieldFrom)):
                    self._first_things.append(f"{function.name}()")
        names = {function.name for function in self._functions}
        for call in self._nodes[ast.Call]:
            if (name := _last_name(call.func)) in names:
                for place, arg in enumerate(call.args):
                    self._from_things[arg].append((name, place))
                for keyword in call.keywords:
                    self._from_things[keyword.value] += [keyword.arg] if keyword.arg else []

    def _is_of_program(self, call: ast.Call) -> bool:
        """Whether the program gets the arguments of a call, maybe from another who calls it (`map(task_func, ...)`)."""
        if _last_name(call.func) == "setattr" and call.args and call.args[0] in self._asked:
            return True
        passed_on = {arg.id for arg in _given(call) if isinstance(arg, ast.Name)}
        return call.func in self._asked or not self._program.isdisjoint(passed_on)


def _reached(first: Iterable[_Place], then: Mapping[_Place, Sequence[_Place]]) -> set[_Place]:
    reached = set(first)
    waiting = list(reached)
    while waiting:
        more = [place for place in then.get(waiting.pop(), ()) if place not in reached]
        reached.update(more)
        waiting += more
    return reached


def _is_held(arg: ast.expr) -> bool:
    """Whether a copy of an argument holds what it holds; an iterator is only spent on it (`list(zip([1], [2]))`)."""
    return not (isinstance(arg, ast.Call) and _last_name(arg.func) in _MAKERS)


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
