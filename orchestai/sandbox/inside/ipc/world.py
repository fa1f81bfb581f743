"""The world that tests and program share in `shared` isolation, though they are two processes.

The tests' patches, environment, working directory, arguments, standard input and log levels hold in the program's
process while it is asked something; what it changes, warns of and logs meanwhile is repeated in the tests'.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from . import exceptions
from .values import is_plain

PROGRAM = "the program"
"""Stands for the module of the tests, which is the program's in its process."""
_MOST = 1000
_OBEYED = ("PYTHON", "LD_", "MPL", "MATPLOTLIB", "XDG_", "GLIBC", "MALLOC")
"""Beginnings of variables that interpreter and libraries obey: a program does not set them for the tests."""
_CROSSES = ("stdout", "stderr", "path")
"""Of `sys`: what is printed is repeated, and the path is sent in either direction."""
_getcwd, _chdir = os.getcwd, os.chdir  # tests may patch them
_Facts = dict[str, Any]


class TestsWorld:
    """In the tests' process: what has changed there since this was made, and what the program adds to it."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._environ, self._cwd, self._argv, self._stdin = dict(os.environ), _getcwd(), list(sys.argv), sys.stdin
        self._sent, self._path = dict(self._environ), list(sys.path)
        self._patches: list[Any] = []
        if mock := sys.modules.get("unittest.mock"):
            _follow(mock, self._patches)

    def facts(self) -> _Facts:
        """For the program's process, with values that `Exports.pickled` takes."""
        facts: _Facts = {}
        if patches := [*self._patched(), *self._replaced()]:
            facts["patches"] = patches
        environ = dict(os.environ)
        if environ != self._sent:
            facts["environ"] = _changes(self._sent, environ)
            self._sent = environ
        if (cwd := _getcwd()) != self._cwd:
            facts["cwd"] = self._cwd = cwd
        if sys.path != self._path:
            facts["path"] = self._path = list(sys.path)
        if levels := _log_levels():
            facts["levels"] = levels
        return facts

    def take_in(self, facts: Any) -> None:
        """Repeat what the program did, as it says."""
        if type(facts) is not dict:
            return
        for name, value in _items(facts.get("environ")):
            if type(name) is str and name not in self._environ and not name.startswith(_OBEYED):
                _set_variable(name, value)
                _set_variable(name, value, self._sent)
        if type(cwd := facts.get("cwd")) is str:
            _chdir(cwd)
            self._cwd = _getcwd()
        if type(path := facts.get("path")) is list:
            sys.path[:] = self._path = [str(entry) for entry in path]
        for warned in _list(facts.get("warnings")):
            if isinstance(warning := exceptions.put_together(warned), Warning):
                warnings.warn_explicit(warning, type(warning), "solution.py", 1)
        for name, level, text in _list(facts.get("logs")):
            _log(str(name), int(level), str(text))

    def _patched(self) -> Iterator[tuple[str, str, str, Any]]:
        """What mocks have been put in the place of: module, class in it, attribute, and what is there now."""
        for patch in self._patches:
            if isinstance(target := patch.target, ModuleType):
                where = (PROGRAM if target.__name__ == self._module else target.__name__), ""
            elif issubclass(type(target), type) and target.__module__ != self._module:
                where = target.__module__, target.__qualname__
            else:
                continue
            if where != ("sys", "") or patch.attribute not in _CROSSES:
                yield *where, patch.attribute, getattr(target, patch.attribute)

    def _replaced(self) -> Iterator[tuple[str, str, str, Any]]:
        if sys.stdin is not self._stdin and all(patch.attribute != "stdin" for patch in self._patches):
            yield "sys", "", "stdin", sys.stdin
        if sys.argv != self._argv:
            yield "sys", "", "argv", list(sys.argv)


class ProgramWorld:
    """In the program's process: holds while the program is asked something."""

    def __init__(self, program: ModuleType) -> None:
        self._program = program
        self._logs: list[tuple[str, int, str]] = []
        self._follows_logs = False

    @contextmanager
    def of(self, facts: _Facts, answer: _Facts) -> Iterator[None]:
        """Have the tests' world; afterwards `answer["world"]` says what the program added to it."""
        for name, value in facts.get("environ", {}).items():
            _set_variable(name, value)
        if "cwd" in facts:
            _chdir(facts["cwd"])
        if "path" in facts:
            sys.path[:] = facts["path"]
        environ, cwd, path, warned = dict(os.environ), _getcwd(), list(sys.path), []
        try:
            with ExitStack() as patches, warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                if facts.get("levels") or "logging" in sys.modules:
                    patches.enter_context(self._logging(facts.get("levels", [])))
                for module, cls, name, value in facts.get("patches", ()):
                    patches.enter_context(_patched(self._target(module, cls), name, value))
                yield
        finally:
            told = {
                "environ": _changes(environ, os.environ),
                "warnings": [_warning(one.message) for one in warned[:_MOST]],
                "logs": self._logs[:_MOST],
                "cwd": None if (now := _getcwd()) == cwd else now,
                "path": None if sys.path == path else [str(entry) for entry in sys.path],
            }
            self._logs.clear()
            answer["world"] = {name: fact for name, fact in told.items() if fact}

    def _target(self, module: str, name: str) -> Any:
        if module == PROGRAM:
            return self._program
        __import__(module)
        found: Any = sys.modules[module]
        for part in name.split(".") if name else ():
            found = getattr(found, part)
        return found

    @contextmanager
    def _logging(self, levels: list[tuple[str, int]]) -> Iterator[None]:
        import logging

        if not self._follows_logs:
            self._follows_logs = True
            _note_records(logging, self._logs)
        loggers = [(logging.getLogger(name or None), level) for name, level in levels]
        before = [logger.level for logger, _ in loggers]
        for logger, level in loggers:
            logger.setLevel(level)
        try:
            yield
        finally:
            for (logger, level), old in zip(loggers, before, strict=True):
                if logger.level == level:
                    logger.setLevel(old)


def _follow(mock: Any, patches: list[Any]) -> None:
    """Have mock's patches listed while they hold."""
    enter, leave = mock._patch.__enter__, mock._patch.__exit__

    def __enter__(self: Any) -> Any:  # noqa: N807
        value = enter(self)
        patches.append(self)
        return value

    def __exit__(self: Any, *error: Any) -> Any:  # noqa: N807
        if self in patches:
            patches.remove(self)
        return leave(self, *error)

    mock._patch.__enter__, mock._patch.__exit__ = __enter__, __exit__


@contextmanager
def _patched(target: Any, name: str, value: Any) -> Iterator[None]:
    was_own, old = name in vars(target), getattr(target, name, None)
    old = vars(target)[name] if was_own else old
    setattr(target, name, value)
    try:
        yield
    finally:
        if was_own:
            setattr(target, name, old)
        else:
            delattr(target, name)


def _note_records(logging: Any, records: list[tuple[str, int, str]]) -> None:
    call_handlers = logging.Logger.callHandlers

    def call(self: Any, record: Any) -> None:
        if len(records) < _MOST:
            records.append((record.name, record.levelno, record.getMessage()))
        call_handlers(self, record)

    logging.Logger.callHandlers = call


def _log_levels() -> list[tuple[str, int]]:
    """The levels that the tests have set, by the loggers' names."""
    logging = sys.modules.get("logging")
    if logging is None:
        return []
    loggers = [("", logging.root), *logging.root.manager.loggerDict.items()]
    return [
        (name, logger.level)
        for name, logger in loggers
        if getattr(logger, "level", 0) and (name or logger.level != logging.WARNING)
    ]


def _log(name: str, level: int, text: str) -> None:
    import logging

    logger = logging.getLogger(name if name != "root" else None)
    if logger.hasHandlers() and logger.isEnabledFor(level):
        logger.handle(logger.makeRecord(name, level, "solution.py", 1, text, (), None))


def _warning(message: Any) -> _Facts:
    return exceptions.take_apart(message, is_plain)


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str | None]:
    """The variables that are new, others or gone (None)."""
    return {name: now.get(name) for name in {*before, *now} if before.get(name) != now.get(name)}


def _set_variable(name: str, value: Any, environ: Any = os.environ) -> None:
    if value is None:
        environ.pop(name, None)
    else:
        environ[name] = str(value)


def _list(value: Any) -> list[Any]:
    return value[:_MOST] if type(value) is list else []


def _items(value: Any) -> Any:
    return value.items() if type(value) is dict else ()
