"""Keeps what a program wrote from acting in the process of sealed tests, which may load any file that they find.

Told by what is executed, which audit hooks (PEP 578) see, not by the names that tests use. What this process may
execute is its own code and that of installed modules. Tests whose source shows that they need more are judged open.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

from .. import words
from ..ipc.values import NotPlainError

_IMPORTERS = words("importlib._bootstrap importlib._bootstrap_external zipimport")
_RUNS_MODULE = "_call_with_frames_removed"
_GENERATORS = words(
    "attr collections dataclasses decorator enum matplotlib numpy pandas scipy seaborn sklearn traitlets types unittest"
) | {__name__.partition(".")[0]}
"""Packages that write code of their own and run it, and no text of others."""
_EVALUATORS = ("pandas.core.computation", "pandas.eval")
"""Modules in them that do run texts, by parsing them."""
_RESOLVERS = words("yaml.constructor jsonpickle.unpickler logging.config")
"""Modules that call whatever a text names; they import its module first."""
_PICKLED = words(
    "_codecs.encode builtins.bytearray builtins.bytes builtins.complex builtins.dict builtins.frozenset builtins.list "
    "builtins.range builtins.set builtins.slice builtins.tuple collections.OrderedDict collections.defaultdict "
    "collections.deque datetime.date datetime.datetime datetime.time datetime.timedelta datetime.timezone"
)
_SYSTEM = ("/usr/lib", "/lib")
_FIRST = 1
"""Process id in a namespace of its own, where `_HOME` can be written, and by nobody else."""
_HOME = os.path.dirname(os.path.dirname(__file__))


class Guard:
    """Of the process that makes it, for good. What `sys.path` leads to by now is trusted.

    What is not to be executed raises NotPlainError.
    """

    def __init__(self) -> None:
        self._trusted = tuple(os.path.join(os.path.abspath(folder), "") for folder in sys.path) + _SYSTEM
        self._checks: dict[str, Callable[..., None]] = {
            "compile": self._check_text,
            "exec": self._check_code,
            "code.__new__": self._check_code,
            "marshal.loads": self._check_code,
            "import": self._check_extension,
            "ctypes.dlopen": self._check_library,
            "sqlite3.load_extension": self._check_library,
            "pickle.find_class": self._check_pickled,
        }
        self._import = builtins.__import__
        builtins.__import__ = self._import_checked
        sys.addaudithook(self._hear)

    def import_modules(self, names: Iterable[str]) -> None:
        """Import what tests will, where no file of the program is that modules might take for settings."""
        missing = [name for name in names if name not in sys.modules]
        if not missing:
            return
        folder, home = os.open(".", os.O_RDONLY), os.environ.get("HOME", "")
        os.chdir("/")
        try:
            if os.getpid() == _FIRST:
                os.environ["HOME"] = _HOME
            for name in missing:
                with suppress(Exception):  # the tests will say so themselves
                    importlib.import_module(name)
        finally:
            os.environ["HOME"] = home
            os.fchdir(folder)
            os.close(folder)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if (check := self._checks.get(event)) is not None:
            check(sys._getframe(1), *args)

    def _check_text(self, caller: FrameType | None, *_: Any) -> None:
        while caller is not None and _module(caller) == "ast":
            caller = caller.f_back
        if caller is not None and _module(caller).startswith(_EVALUATORS):
            _refuse("evaluate a text")

    def _check_code(self, caller: FrameType | None, *_: Any) -> None:
        if caller is not None and _module(caller).partition(".")[0] in _GENERATORS:
            return
        frame = caller
        while frame is not None:  # modules may run what they like while they are imported
            if _module(frame) in _IMPORTERS:
                return self._check_origin(frame) if frame.f_code.co_name == _RUNS_MODULE else None
            frame = frame.f_back
        _refuse("run code that is no module's")

    def _check_origin(self, frame: FrameType) -> None:
        args = frame.f_locals.get("args", ())
        if len(args) == 2 and type(args[1]) is dict:
            path = getattr(args[1].get("__spec__"), "origin", None)
            if not self._is_trusted(path):
                _refuse(f"run {path}")

    def _check_extension(self, _: FrameType, module: str, path: str | None, *__: Any) -> None:
        if path is not None and not self._is_trusted(path):
            _refuse(f"import {module} from {path}")

    def _check_library(self, _: FrameType, path: Any, *__: Any) -> None:
        if not isinstance(path, str) or ("/" in path and not self._is_trusted(path)):
            _refuse(f"load the library {path}")

    def _check_pickled(self, _: FrameType, module: str, name: str) -> None:
        if f"{module}.{name}" not in _PICKLED:
            _refuse(f"unpickle {module}.{name}")

    def _is_trusted(self, path: Any) -> bool:
        return isinstance(path, str) and os.path.abspath(path).startswith(self._trusted)

    def _import_checked(self, name: str, *args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        if _module(caller) in _RESOLVERS and caller.f_code.co_name != "<module>":
            _refuse(f"call what a text names, of {name}")
        return self._import(name, *args, **kwargs)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _refuse(what: str) -> NoReturn:
    raise NotPlainError(f"the tests would {what}, which the program may have written; they cannot be judged sealed")
