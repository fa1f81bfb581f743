"""How tests can be judged, as their source says: with copies of plain data alone, or only in one process.

A program has no say in it. `objection_to_copies` names what copies would get wrong whatever the program is. Where there
is no reference program to try, `only_calls_and_compares` tells the tests that certainly need no more than copies; those
of them that are self-contained can share a process with the tests of other programs.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import fractions
import sys
import unittest
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestai.sandbox.inside import words
from orchestai.sandbox.static.test_discovery import ALIASES
from orchestai.sandbox.static.watched import mentions, names_from, stored
from orchestai.text.syntax import DEFINITIONS, free_names, parsed

_STATELESS_MODULES = words("unittest math cmath bisect heapq itertools collections copy functools string typing")
_PLAIN_MODULES = _STATELESS_MODULES | words(
    "datetime decimal fractions json re statistics operator numpy pandas random textwrap time sys os csv __future__"
)
_VALUES: tuple[Any, ...] = (
    *(str, bytes, bytearray, int, float, complex, list, tuple, dict, set, frozenset, range),
    *(Counter, OrderedDict, defaultdict, deque, datetime.datetime, datetime.timedelta, decimal.Decimal),
    fractions.Fraction,
)
_ASSERTIONS = {name for name in dir(unittest.TestCase) if name.startswith("assert")}
_PLAIN_METHODS = frozenset(name for cls in _VALUES for name in dir(cls) if callable(getattr(cls, name)))
_PLAIN_FACTS = {name for cls in _VALUES for name in dir(cls)} - _PLAIN_METHODS | {"args", "exception"}
"""What values of plain classes have: methods, and what they hold."""
_OUTLASTING = words(
    "open input vars type __builtins__ IsolatedAsyncioTestCase update_wrapper wraps installHandler registerResult "
    "addModuleCleanup"
)
"""Names of what leaves something in a process, or leads to what does."""
_OF_TABLES = words(
    "shape dtype dtypes columns index iloc loc values size ndim T empty at tolist to_dict equals sum mean std var min "
    "max all any round astype isnull isna notnull notna reset_index sort_values to_numpy flatten dot name iat head "
    "tail nunique unique item issubset median dropna fillna duplicated"
)
_WORLD = words(
    "mock patch logging assertLogs assertNoLogs assertWarns assertWarnsRegex catch_warnings environ environb getenv "
    "putenv unsetenv chdir fchdir stdin argv setattr delattr globals redirect_stdout redirect_stderr stdout stderr "
    "signal setlocale localcontext getcontext setcontext tzset StopIteration StopAsyncIteration"
)
"""Names of what tests patch, set, or have the program change or say, beside its results."""
_EVALUATING = words(
    "eval exec compile query format format_map dictConfig fileConfig import_module __import__ run_path run_module "
    "spec_from_file_location exec_module pickle cPickle read_pickle dill joblib cloudpickle shelve marshal jsonpickle "
    "yaml allow_pickle sympify parse_expr parse_latex S evaluate numexpr subprocess Popen system popen memmap "
    "load_library CDLL ctypes load_extension multiprocessing load_model torch inspect getsource attrgetter "
    "methodcaller get_type_hints timeit getattr"
)
"""Names of what may run, look up or rebuild what a text, a file or a name of the program's says."""
_SETTINGS = words("seed setrecursionlimit set_int_max_str_digits set_printoptions seterr set_option register_dialect")
"""Names of what tests set in their process that the program may go by."""
_ONE_BY_ONE = words("next islice anext aiter takewhile callable hasattr")
_BEYOND = (ast.Yield, ast.YieldFrom, ast.AsyncWith, ast.AsyncFor, ast.Global, ast.Nonlocal)
_BEHIND = words("__cause__ __context__ __notes__ __traceback__ __closure__ __code__ __wrapped__")
_CHANGING = words(
    "add append appendleft clear discard extend extendleft insert pop popitem popleft put remove reverse rotate "
    "setdefault sort update send throw close drop_duplicates fill resize set write put_nowait move_to_end subtract"
)
"""Methods that change what they are of."""


@lru_cache(maxsize=1024)
def objection_to_copies(source: str, entry_point: str) -> str:
    """What in the tests needs them in one process with the program; empty if nothing shows. Raises SyntaxError,
    ValueError: `source` is not Python."""
    _, nodes = parsed(source)
    names = {node.id for node in nodes[ast.Name]} | {node.attr for node in nodes[ast.Attribute]}
    names |= {keyword.arg for keyword in nodes[ast.keyword] if keyword.arg}
    for node in (*nodes[ast.Import], *nodes[ast.ImportFrom]):
        origin = getattr(node, "module", None) or ""
        names.update(part for alias in node.names for part in (*origin.split("."), *alias.name.split(".")))
    if all(isinstance(node.value, ast.Constant) for node in nodes[ast.Attribute] if node.attr == "format"):
        names.discard("format")  # of a text of the tests' own
    if found := (names - {entry_point}) & (_WORLD | _EVALUATING | _BEHIND):
        return f"they name {min(found)}"
    if any(_dotted(node) in ("sys.path", "sys.modules", "os.sys") for node in nodes[ast.Attribute]):
        return "they use sys.path or sys.modules"
    for call in nodes[ast.Call]:
        if _last_name(call.func) in ("simplefilter", "filterwarnings") and "'ignore'" not in ast.unparse(call):
            return "they filter warnings"
    return _Exchange(nodes, entry_point).objection()


@lru_cache(maxsize=1024)
def only_calls_and_compares(source: str, entry_point: str, given: Collection[str] = ()) -> bool:
    """Whether tests do no more than call the entry point with plain data and compare plain data that come back.

    Told by what they may hold, not by what they must not: what is not known to be so is not.

    Args:
        given: names that the prompt defines, or imports.
    """
    _, nodes = parsed(source)
    known = {entry_point, *given, *ALIASES}
    if not known.issuperset(free_names(source)) or entry_point[:1].isupper():  # a class gives objects
        return False
    if any(node.attr in _SETTINGS for node in nodes[ast.Attribute]):
        return False
    blocks = {name for node in nodes[ast.With] for name in _enters(node)}
    if any(nodes[kind] for kind in _BEYOND) or not blocks <= {"assertRaises", "assertRaisesRegex", "subTest"}:
        return False
    imports = [alias.name for node in nodes[ast.Import] for alias in node.names]
    imports += [node.module or node.names[0].name for node in nodes[ast.ImportFrom]]
    if any(name.partition(".")[0] not in _PLAIN_MODULES for name in imports):
        return False
    modules = {alias.asname or alias.name for node in nodes[ast.Import] for alias in node.names}
    modules |= {"self", "cls", *ALIASES, *given}
    called = {call.func for call in nodes[ast.Call]}
    exchange = _Exchange(nodes, entry_point)
    return all(_is_plain_attribute(node, modules, called) for node in nodes[ast.Attribute]) and exchange.is_plain()


@lru_cache(maxsize=1024)
def is_self_contained(source: str, entry_point: str) -> bool:
    """Whether tests leave nothing in their process that others could find, and find nothing there.

    They call the entry point and compare, import what depends on its arguments alone, and set no attributes.

    Raises:
        SyntaxError, ValueError: `source` is not Python.
    """
    _, nodes = parsed(source)
    imports = {alias.name for node in nodes[ast.Import] for alias in node.names}
    imports |= {str(node.module) for node in nodes[ast.ImportFrom]}
    return (
        imports <= _STATELESS_MODULES
        and {entry_point}.issuperset(free_names(source))
        and _OUTLASTING.isdisjoint(
            (*(node.id for node in nodes[ast.Name]), *(node.attr for node in nodes[ast.Attribute]))
        )
        and all(isinstance(node.ctx, ast.Load) and not node.attr.startswith("__") for node in nodes[ast.Attribute])
        and not any(getattr(n.value, "id", "") in imports and n.attr[0] == "_" for n in nodes[ast.Attribute])
        and not nodes[ast.AsyncFunctionDef]
        and not objection_to_copies(source, entry_point)
        and only_calls_and_compares(source, entry_point)
    )


class _Exchange:
    """What goes to the program and what comes of it, by names."""

    def __init__(self, nodes: Mapping[type, Sequence[Any]], entry_point: str) -> None:
        self._nodes = nodes
        self._entry_point = entry_point
        self._calls = [call for call in nodes[ast.Call] if getattr(call.func, "id", "") == entry_point]
        every = [node for kind in nodes.values() for node in kind]
        self._answers = names_from(every, {entry_point}) - {entry_point}
        self._first: dict[str, int] = {}
        self._given: list[ast.expr] = []
        for call in self._calls:
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            self._given += given
            for name in _names_in(*given):
                self._first[name] = min(self._first.get(name, sys.maxsize), call.lineno)
        for name in self._answers:
            self._first.setdefault(name, 0)
        made = {node.name for kind in DEFINITIONS for node in nodes[kind]}
        for node in nodes[ast.Assign]:
            if any(map(_makes_more, ast.walk(node.value))):
                made |= {stored(one) for target in node.targets for one in ast.walk(target)} - {""}
        self._made = names_from(every, made | {f".{name}" for name in made}, {entry_point})

    def objection(self) -> str:
        targets = [one for kind in (ast.Assign, ast.Delete) for node in self._nodes[kind] for one in node.targets]
        targets += [node.target for node in self._nodes[ast.AugAssign]]
        targets = [target for target in targets if isinstance(target, (ast.Attribute, ast.Subscript))]
        targets += [call.func for call in self._nodes[ast.Call] if getattr(call.func, "attr", "") in _CHANGING]
        for place in [target.value for target in targets]:  # of `a.b[0].append(1)` it is `a.b[0]`
            later = any(place.lineno > self._first.get(name, sys.maxsize) for name in _names_in(place))
            if later or any(node in self._calls for node in ast.walk(place)):
                return "they change what the program got or gave"
        compares = [
            one for one in self._nodes[ast.Compare] if any(isinstance(op, (ast.Is, ast.IsNot)) for op in one.ops)
        ]
        asks = [call for call in self._nodes[ast.Call] if _last_name(call.func) in ("assertIs", "assertIsNot", "id")]
        same = [*((one.left, *one.comparators) for one in compares), *(call.args for call in asks)]
        if any(not any(map(_is_single, some)) for some in same):
            return "they ask whether two things are the same one"
        return ""

    def is_plain(self) -> bool:
        """Whether nothing but plain data can be meant by what is given and what comes back."""
        asserted = [call for call in self._nodes[ast.Call] if _last_name(call.func).startswith("assert")]
        asked = {call.func for call in self._calls} | {arg for call in asserted for arg in call.args}
        others = [call.func for call in self._nodes[ast.Call] if call not in self._calls]
        others = [func for func in others if not isinstance(func, ast.Attribute)]  # methods are another question
        return not (
            any(mentions(value, self._made) or any(map(_makes_more, ast.walk(value))) for value in self._given)
            or any(mentions(func, self._answers | {self._entry_point}) for func in others)
            or any(
                any(name.startswith("assertRaises") for name in _enters(block))
                and not any(node in self._calls for node in ast.walk(block))
                for block in self._nodes[ast.With]
            )
            or any(
                _last_name(call.func) in _ONE_BY_ONE and any(map(self._is_answer, call.args))
                for call in self._nodes[ast.Call]
            )
            or any(self._is_answer(node.left) and self._is_answer(node.right) for node in self._nodes[ast.BinOp])
            or any(node.id == self._entry_point and node not in asked for node in self._nodes[ast.Name])
        )

    def _is_answer(self, node: ast.AST) -> bool:
        """Whether it is what a call of the entry point gave, by itself or by a name."""
        node = node.value if isinstance(node, ast.Await) else node
        return (isinstance(node, ast.Call) and node in self._calls) or (
            isinstance(node, ast.Name) and node.id in self._answers
        )


_MAKERS = words(
    "keys values items reader memoryview iter open map filter zip enumerate reversed StringIO BytesIO partial object "
    "Random default_rng RandomState count cycle repeat chain islice tee namedtuple type property attrgetter itemgetter "
    "Lock Event Queue connect socket"
)
"""What makes things that are no plain data."""


def _makes_more(node: ast.AST) -> bool:
    """Whether it makes something that is no plain data."""
    makes = isinstance(node, ast.Call) and _last_name(node.func) in _MAKERS
    return makes or isinstance(node, (ast.Lambda, ast.GeneratorExp))


def _is_plain_attribute(node: ast.Attribute, modules: Collection[str], called: Collection[ast.expr]) -> bool:
    if isinstance(node.value, ast.Name) and node.value.id in modules:
        return True
    known = node.attr in _OF_TABLES | _PLAIN_FACTS | _ASSERTIONS or (node.attr in _PLAIN_METHODS and node in called)
    return known and not node.attr.startswith("_")


def _enters(node: ast.With) -> set[str]:
    """Names of what is called for a block."""
    return {_last_name(getattr(item.context_expr, "func", item.context_expr)) for item in node.items}


def _is_single(node: ast.expr) -> bool:
    """Whether there is but one of what it stands for, whatever process it is in."""
    return (
        isinstance(node, ast.Constant)
        or (isinstance(node, ast.Call) and _last_name(node.func) == "type")
        or _dotted(node) in ("np.nan", "pd.NaT", "pd.NA", "np.bool_", "np.int64", "np.float64")
    )


def _names_in(*nodes: ast.AST) -> set[str]:
    """Names and `.attributes`, without those of functions that are called."""
    found = set()
    for node in nodes:
        called = {call.func for call in ast.walk(node) if isinstance(call, ast.Call)}
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and one not in called and one.id != "self":
                found.add(one.id)
            elif isinstance(one, ast.Attribute) and _dotted(one).startswith("self."):
                found.add(f".{one.attr}")
    return found


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _dotted(node: ast.expr) -> str:
    return f"{getattr(node.value, 'id', '')}.{node.attr}" if isinstance(node, ast.Attribute) else ""
