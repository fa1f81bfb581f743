"""Keeps what a program wrote from acting in the tests' process, whose tests may load any file that they find.

Told by what is executed, which audit hooks (PEP 578) see, not by the names that tests use: `pandas.read_pickle`,
`numpy.load` and `torch.load` all come to the same events. What the tests' process may execute is its own code, that of
installed modules, and what a few libraries make of names that they have checked. A pickle that names more than plain
values is read by the candidate's process, and what it holds crosses as an answer does.
"""

from __future__ import annotations

import builtins
import importlib
import io
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, NoReturn

from ..ipc.values import NotPlainError

_IMPORTERS = frozenset(("importlib._bootstrap", "importlib._bootstrap_external", "zipimport"))
_RUNS_MODULE = "_call_with_frames_removed"
_GENERATORS = frozenset(
    (
        *("attr", "collections", "dataclasses", "decorator", "enum", "matplotlib", "numpy", "pandas"),
        *("pydantic", "scipy", "seaborn", "sklearn", "traitlets", "types", "unittest", "werkzeug"),
        __name__.partition(".")[0],
    )
)
"""Packages that write code of their own and run it, and no text of others; `typing` and `inspect` evaluate annotations,
which may be the program's."""
_RESOLVERS = frozenset(("yaml.constructor", "jsonpickle.unpickler"))
"""Modules that call whatever a file names, without an event; but they import its module first."""
_PICKLED = {
    "_codecs": ("encode",),
    "builtins": (
        *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "range", "set"),
        *("slice", "str", "tuple"),
        *(name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)),
    ),
    "collections": ("OrderedDict", "defaultdict", "deque"),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
}
"""What a pickle may name: classes written in C, which nothing can change, of values that are no more than they hold.
None of NumPy's: the state of a data type can claim that bytes are pointers."""
_SYSTEM = ("/usr/lib", "/lib")
_open, _close, _chdir, _fchdir = os.open, os.close, os.chdir, os.fchdir  # tests may patch them
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
            "exec": self._check_code,
            "code.__new__": self._check_code,
            "marshal.loads": self._check_code,
            "import": self._check_extension,
            "ctypes.dlopen": self._check_library,
            "sqlite3.load_extension": self._check_library,
            "pickle.find_class": self._check_pickled,
        }
        self._away = False
        self._import = builtins.__import__
        builtins.__import__ = self._import_away
        sys.addaudithook(self._hear)
        self._load = pickle.load

    def unpickle_by(self, ask: Callable[..., Any]) -> None:
        """From now on `pickle.load` and `pickle.loads` do as said above. `ask` is `Candidate.ask`."""
        self._ask = ask
        pickle.load, pickle.loads = self._unpickle, self._unpickle_bytes  # type: ignore[assignment]

    def import_module(self, name: str) -> ModuleType:
        """`importlib.import_module`, but for files of the program."""
        with self._away_from_home():
            return importlib.import_module(name)

    def _unpickle(self, file: Any, **options: Any) -> Any:
        begin = file.tell()
        try:
            return self._load(file, **options)
        except NotPlainError:
            file.seek(begin)
        value, size = self._ask("unpickle", file.read(), options)
        file.seek(begin + size)
        return value

    def _unpickle_bytes(self, data: Any, /, **options: Any) -> Any:
        return self._unpickle(io.BytesIO(data), **options)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if (check := self._checks.get(event)) is not None:
            check(sys._getframe(1), *args)

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
        if name not in _PICKLED.get(module, ()):
            _refuse(f"unpickle {module}.{name}")

    def _is_trusted(self, path: Any) -> bool:
        return isinstance(path, str) and os.path.abspath(path).startswith(self._trusted)

    def _import_away(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """`__import__`, in the place of the builtin: modules read settings where they are first imported."""
        if self._away:
            return self._import(name, *args, **kwargs)
        caller = sys._getframe(1)
        if _module(caller) in _RESOLVERS and caller.f_code.co_name != "<module>":
            _refuse(f"call what a file names, of {name}")
        known = sys.modules.get(name)
        if known is not None and all(hasattr(known, member) for member in (args[2] if len(args) > 2 else None) or ()):
            return self._import(name, *args, **kwargs)
        with self._away_from_home():
            return self._import(name, *args, **kwargs)

    @contextmanager
    def _away_from_home(self) -> Iterator[None]:
        """Be where no file of the program is, as far as modules look for settings."""
        folder, home = _open(".", os.O_RDONLY), os.environ.get("HOME", "")
        self._away = True
        try:
            _chdir("/")
            if os.getpid() == _FIRST:
                os.environ["HOME"] = _HOME
            yield
        finally:
            self._away = False
            os.environ["HOME"] = home
            _fchdir(folder)
            _close(folder)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _refuse(what: str) -> NoReturn:
    raise NotPlainError(f"the tests would {what}, which the program may have written; they cannot be judged")
