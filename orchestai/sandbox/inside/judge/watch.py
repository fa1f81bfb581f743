"""Watches a program that shares a process with its tests, for what no honest program does.

That detects and does not prevent: whoever can write this process's memory can undo it. What is looked for:

- what judges is another than before the program came (`unittest`, builtins, this process's libraries, the tests);
- the program reads frames, code, the garbage or memory, or sets traces (seen by an audit hook, PEP 578);
- something of the program's passes an assertion that it passes with another value, too;
- a test seems to pass that has not come to its end, or whose assertion failed and was caught by the program.
"""

from __future__ import annotations

import _thread
import builtins
import decimal
import fractions
import operator
import os
import signal
import sys
import time
import unittest
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TypeAlias

from .. import AGREEING, words

_PROGRAM, _TESTS = "solution.py", "tests.py"
_EVENTS = words(
    "sys._current_frames sys._current_exceptions gc.get_objects gc.get_referrers gc.get_referents sys.settrace "
    "sys.setprofile sys.addaudithook cpython._PySys_ClearAuditHooks ctypes.cdata ctypes.cdata/buffer ctypes.string_at "
    "ctypes.wstring_at ctypes.call_function code.__new__ function.__new__ sys.monitoring.register_callback "
    "sys._getframe object.__getattr__ object.__setattr__ compile"
)
_INNER = words(
    "__code__ __globals__ __closure__ __defaults__ __kwdefaults__ __builtins__ cell_contents gi_frame cr_frame "
    "ag_frame tb_frame f_back f_locals f_globals gi_code cr_code"
)
_DEPUTIES = words(
    "walk_tb walk_stack getmembers _getmembers get_stack _task_get_stack <lambda> runcall set_trace getinnerframes "
    "_compile _maybe_compile compile_command __call__ runsource run_path _get_code_from_file source_to_code findCaller"
)
"""Functions of libraries that do for their callers what is listened for, and hand out what comes of it."""
_FRAME_GIVERS = words("currentframe stack trace walk_stack walk_tb _getframe")
_EQUALITIES = words(
    "assertEqual assertAlmostEqual assertListEqual assertDictEqual assertTupleEqual assertSetEqual "
    "assertSequenceEqual assertCountEqual assertMultiLineEqual"
)
_SCALARS = frozenset((str, bytes, int, float, bool, complex, type(None)))
_CONTAINERS = frozenset((list, tuple, set, frozenset, deque))
_TABLES = frozenset((dict, Counter, OrderedDict, defaultdict))
_MOST_ITEMS = 2000
_WATCHED = words(
    "builtins math operator functools unittest unittest.case unittest.suite unittest.result unittest.util "
    "unittest.mock unittest.async_case json re difflib copy pprint statistics decimal fractions numpy numpy.testing "
    "numpy.testing._private.utils pandas pandas.testing pandas._testing pandas._testing.asserters collections "
    "itertools os os.path"
)
"""Modules that judge, and what tests compare with."""
_JUDGING = ("builtins", "unittest", "collections")
"""Those among them that judge whatever the tests use."""
_MAY_CHANGE = words("_ __warningregistry__ environ __builtins__")
_OBEYED = words("BASH_ENV LD_PRELOAD LD_LIBRARY_PATH PYTHONSTARTUP PYTHONPATH PERL5OPT")
_SHADOWED = frozenset(name for name in (*dir(unittest.TestCase), *dir(builtins)) if name[0] != "_")
_PATIENCE_S = 1.0
_type, _vars = type, vars
_all, _map, _is = all, map, operator.is_
_Names: TypeAlias = tuple[tuple[str, ...], tuple[Any, ...]]
"""Names, and what they mean."""
_at_first: dict[str, tuple[Any, _Names]] = {}
"""What judges in any case, as it was in the fork server."""


class Other:
    """Nothing that a program could know."""


class FailedError(AssertionError):
    """A failed assertion of the tests; that there was one is known even where the program catches it."""


class Watch:
    """Of the process that makes it, for good.

    Args:
        tells: whether tests themselves use things that equal everything (`mock.ANY`).
        sets: attributes that the tests set, and may not set back.
        uses: modules that the tests use.
        tell: called with what the program is heard to do, at once, before it can say anything itself.
    """

    def __init__(self, *, tells: bool, sets: Sequence[str], uses: Iterable[str], tell: Callable[[str], None]) -> None:
        self._found: list[str] = []
        self._tell = tell
        self._may_change = {*_MAY_CHANGE, *sets}
        self._tells = tells
        self._library = tuple(os.path.join(os.path.abspath(folder), "") for folder in sys.path if folder)
        self._library += ("<frozen ", os.path.dirname(os.path.dirname(__file__)), _TESTS)
        self._inside = 0
        self._ended: set[str] = set()
        self._failures = 0
        self._agreeing = False
        self._asking = False
        self._hearing: set[int] = set()
        self._tests: list[tuple[str, Any, set[str]]] = []
        """Modules and classes of the tests, with the names that they have from the beginning."""
        self._wrap_assertions()
        judging = {
            name: one for name, one in [*sys.modules.items()] if one is not None and name.partition(".")[0] in _WATCHED
        }
        self._modules: _Names = _names(judging)
        packages = {name.partition(".")[0] for name in uses}
        self._uses = packages.union(_JUDGING, {"numpy"} if "pandas" in packages else ())
        self._kept = _at_first | _facts(unittest.case, *_watched(self._uses, _at_first))
        sys.addaudithook(self._hear)

    def keep(self, tests: ModuleType) -> None:
        """From now on what the tests have imported, and their functions, are to stay what they are now."""
        known, _ = self._modules
        self._kept |= _facts(*_watched(self._uses, known))
        for label, (thing, names) in _facts(tests).items():
            self._tests.append((label, thing, {*names[0]}))
            functions = {name: value for name, value in zip(*names, strict=True) if type(value) in _FUNCTIONS}
            self._kept[label] = thing, _names(functions)

    def ended(self, test: str) -> None:
        self._ended.add(test)

    def entered(self) -> None:
        self._inside += 1

    def left(self) -> None:
        self._inside -= 1

    def failed(self, *message: Any) -> FailedError:
        self._failures += 1
        return FailedError(*message)

    def compare(self, name: str, one: Any, other: Any) -> Any:
        said = one == other if name == "Eq" else one in other
        if said is True or (said is not False and _says_yes(said)):
            self._ask_otherwise(_equal if name == "Eq" else lambda a, b: a in b, name, one, other)
        return said

    def ask(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """What a function of the program's says of what the program gave; a test that rests on that is not passed if it
        says so of everything."""
        said = call(*args, **kwargs)
        if not self._asking and self._is_known(said) and _is_own(getattr(call, "func", call)):
            self._agreeing = self._agreeing or _agrees(call, args, kwargs, said)
        return said

    def begin(self) -> None:
        """A test begins."""
        self._failures = self._inside = 0
        self._ended = set()
        self._agreeing = False

    def objection(self, test: str, *, may_fail: bool) -> str:
        """Why a test that seems to have passed has not; empty if nothing speaks against it."""
        if self._failures and not may_fail:
            return "an assertion failed, and something caught that"
        if self._agreeing:
            return AGREEING
        came_to_its_end = test in self._ended and not self._inside
        return "" if came_to_its_end or may_fail else "the test did not come to its end"

    def tampering(self) -> str:
        """What the program has done that no honest one does; empty if nothing is known."""
        if self._found:
            return self._found[0]
        if found := _OBEYED.intersection(os.environ):
            return f"it sets {min(found)}, which programs obey that tests start"
        for label, thing, known in self._tests:
            if new := (_vars(thing).keys() - known) & _SHADOWED - self._may_change:
                return f"it shadows {label}.{min(new)}"
        # Other new names may come: modules are imported late, caches filled.
        kept = ((label, _vars(thing), names) for label, (thing, names) in self._kept.items())
        for label, now, (names, values) in (("sys.modules", sys.modules, self._modules), *kept):
            if not _all(_map(_is, _map(now.get, names), values)):
                changed = {name for name, value in zip(names, values, strict=True) if now.get(name) is not value}
                if changed - self._may_change:
                    return f"it changed {label}.{min(changed - self._may_change)}"
        return ""

    def _wrap_assertions(self) -> None:
        case: Any = unittest.TestCase
        for name in (*_EQUALITIES, "assertIn", "assertIsInstance"):
            setattr(case, name, self._wrapped(name, getattr(case, name)))
        watch = self

        class ReportedError(FailedError):
            def __init__(self, *args: Any) -> None:
                watch._failures += not watch._asking
                super().__init__(*args)

        ReportedError.__name__ = ReportedError.__qualname__ = "AssertionError"
        ReportedError.__module__ = "builtins"
        case.failureException = ReportedError

    def _wrapped(self, name: str, assertion: Callable[..., Any]) -> Callable[..., Any]:
        def method(case: Any, *args: Any, **kwargs: Any) -> Any:
            said = assertion(case, *args, **kwargs)
            if len(args) >= 2:

                def passes(one: Any, other: Any) -> bool:
                    assertion(case, one, other, *args[2:], **kwargs)
                    return True

                self._ask_otherwise(passes, name, *args[:2])
            return said

        method.__name__ = method.__qualname__ = name
        return method

    def _ask_otherwise(self, passes: Callable[[Any, Any], bool], name: str, one: Any, other: Any) -> None:
        """Note it if something of the program's passes with whatever it is held against."""
        if self._asking or self._found or (self._is_known(one) and self._is_known(other)):
            return
        self._asking = True
        try:
            if name in _EQUALITIES and name != "assertAlmostEqual":
                passes = _equal
            for pair in self._variants(name, one, other):
                more = [pair[1] + 1] if type(pair[1]) in (int, float) else []  # one may be right by chance
                with suppress(Exception):
                    if passes(*pair) and all(passes(pair[0], value) for value in more):
                        self._found.append(f"what it gave passes {name} whatever it is held against")
                        break
        finally:
            self._asking = False

    def _variants(self, name: str, one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
        """Pairs for none of which an assertion can hold."""
        if name in _EQUALITIES or name == "Eq":
            for mine, theirs in ((one, other), (other, one)):
                wrong = [value for item in _items(theirs) if (value := _another(item)) is not Other][:3]
                for liar in [item for item in _items(mine) if not self._is_known(item)][:3]:
                    yield from ((liar, value) for value in (Other(), *wrong))
        elif name in ("assertIn", "In"):
            if not self._is_known(other):
                yield Other(), other
            if not self._is_known(one):
                yield one, [Other()]
        elif name == "assertIsInstance" and not issubclass(type(one), _mock("NonCallableMock")):
            yield one, Other
            if type(other) is type and other not in type(one).__mro__:
                yield one, other

    def _is_known(self, value: Any, depth: int = 0) -> bool:
        """Whether a value is of classes that the program cannot have made, and so is all that it holds."""
        cls = _type(value)
        if cls in _SCALARS:
            return True
        if depth > 20:
            return False
        if cls in _CONTAINERS or cls in _TABLES:
            items = value if cls in _CONTAINERS else [part for pair in value.items() for part in pair]
            return len(value) <= _MOST_ITEMS and all(self._is_known(item, depth + 1) for item in items)
        if cls.__flags__ & _HEAP_TYPE:
            return self._tells and cls is type(_mock("ANY"))
        dtype = getattr(value, "dtype", None)
        return dtype is None or getattr(dtype, "kind", "O") != "O"

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _EVENTS or (thread := _thread.get_ident()) in self._hearing:
            return
        self._hearing.add(thread)  # to look at frames is an event, too
        try:
            if sign := self._sign_in(event, args, sys._getframe(1)):
                if not self._found:
                    self._tell(sign)
                self._found.append(sign)
        finally:
            self._hearing.discard(thread)

    def _sign_in(self, event: str, args: tuple[Any, ...], frame: FrameType) -> str:
        if event in ("object.__getattr__", "object.__setattr__"):
            looks = args[1] in _INNER and self._is_of_program(frame) and not _is_own(args[0])
            return f"it looks at {args[1]}" if looks else ""
        if event == "compile":
            seems = str(args[1]).startswith(self._library) and self._is_of_program(frame)
            return "it has code of its own seem to be a library's" if seems else ""
        if self._is_of_program(frame):
            return f"it uses {event}"
        name = frame.f_code.co_name
        return f"it uses {name}" if name in _FRAME_GIVERS and self._is_of_program(frame.f_back) else ""

    def _is_of_program(self, frame: FrameType | None) -> bool:
        while frame and frame.f_code.co_name in _DEPUTIES and frame.f_code.co_filename.startswith(self._library):
            frame = frame.f_back
        return frame is not None and not frame.f_code.co_filename.startswith(self._library)


_HEAP_TYPE = 1 << 9
_FUNCTIONS = (FunctionType, staticmethod, classmethod)


def remember() -> None:
    """Look at what judges in the fork server, so that its forks need not."""
    _at_first.update(_facts(*_watched(_JUDGING)))


def _watched(packages: Collection[str], known: Collection[str] = ()) -> list[ModuleType]:
    names = [name for name in _WATCHED if name in sys.modules and name not in known]
    return [sys.modules[name] for name in names if name.partition(".")[0] in packages]


def _names(facts: dict[str, Any]) -> _Names:
    return tuple(facts), tuple(facts.values())


def _facts(*modules: ModuleType) -> dict[str, tuple[Any, _Names]]:
    """What modules define, and classes of theirs that can be changed, by name; but for what is None until it is first
    needed."""
    found: dict[str, tuple[Any, _Names]] = {}
    for module in modules:
        name = module.__name__
        homes = (name, "__tests__")
        classes = [one for one in list(vars(module).values()) if isinstance(one, type) and one.__flags__ & _HEAP_TYPE]
        own = [one for one in classes if one.__module__ in homes]
        for label, thing in ((name, module), *((f"{name}.{one.__name__}", one) for one in own)):
            found[label] = thing, _names({key: value for key, value in vars(thing).items() if value is not None})
    return found


def _agrees(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], said: Any) -> bool:
    """Whether a function says the same whatever stands for one of its arguments, or for all; asked in a child."""
    pid = os.fork()
    if pid == 0:
        agrees = False
        with suppress(BaseException):
            told = (call(*some, **more) for some, more in _otherwise(args, kwargs))
            agrees = all(type(one) is type(said) and (one is said or bool(one == said)) for one in told)
        os._exit(0 if agrees else 1)
    give_up = time.monotonic() + _PATIENCE_S
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > give_up:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False
        time.sleep(0.001)
    return ended[1] == 0


def _otherwise(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    for make in (lambda value: Other(), lambda value: None, _another):
        for place in range(len(args)):
            yield [make(value) if place == i else value for i, value in enumerate(args)], kwargs
        for name in kwargs:
            yield list(args), {**kwargs, name: make(kwargs[name])}
        yield list(map(make, args)), {name: make(value) for name, value in kwargs.items()}


def _is_own(thing: Any) -> bool:
    """Whether it is a function of the program's, or what one of its calls made."""
    code = thing if isinstance(thing, CodeType) else getattr(thing, "__func__", thing)
    if isinstance(code, FunctionType):
        code = FunctionType.__code__.__get__(code)  # type: ignore[attr-defined]
    return isinstance(code, CodeType) and code.co_filename == _PROGRAM


def _equal(one: Any, other: Any) -> bool:
    return _says_yes(one == other)


def _items(value: Any, depth: int = 0) -> Iterator[Any]:
    """What a value holds, down to what is no plain container; itself if it is none."""
    cls = type(value)
    if depth < 20 and (cls in _CONTAINERS or cls in _TABLES):
        parts = list(value) if cls in _CONTAINERS else [part for pair in value.items() for part in pair]
        for part in parts[:_MOST_ITEMS]:
            yield from _items(part, depth + 1)
    else:
        yield value


def _says_yes(said: Any) -> bool:
    if getattr(said, "shape", ()) != ():
        return False
    with suppress(Exception):
        return bool(said)
    return False


def _mock(name: str) -> Any:
    """What `unittest.mock` calls so; `Other` where nobody has imported it."""
    return getattr(sys.modules.get("unittest.mock"), name, Other)


def _another(value: Any) -> Any:
    """A scalar of the same type that is not near; `Other` where none is known."""
    cls = type(value)
    if cls is bool:
        return not value
    if cls in (int, float, complex, decimal.Decimal, fractions.Fraction):
        return value * 3 + 1013
    if cls in (str, bytes):
        return value[1:] + (b"~e" if cls is bytes else "~e")
    return Other
