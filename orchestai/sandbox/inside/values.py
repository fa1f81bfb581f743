"""Decoding what a candidate sends: plain values only, so that nothing it sends can act in the tests' process.

Plain pickles are decoded by C code that knows no class at all. A pickle that names classes is decoded by the pure
Python unpickler reduced to opcodes that build values: `BUILD`, which could set attributes of the classes themselves
(`Counter.__eq__`), and the opcodes that make arbitrary instances are left out.
"""

from __future__ import annotations

import importlib
import io
import pickle
from typing import Any, ClassVar

_CLASSES = {
    "builtins": (
        *("bool", "int", "float", "complex", "str", "bytes", "bytearray"),
        *("list", "tuple", "dict", "set", "frozenset", "range"),
    ),
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque"),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
}
ALLOWED = {
    (module, name): getattr(importlib.import_module(module), name) for module in _CLASSES for name in _CLASSES[module]
}
_CONSTRUCTORS = frozenset(ALLOWED.values())
_REFUSED_OPCODES = frozenset(
    opcode[0]
    for opcode in (
        *(pickle.BUILD, pickle.INST, pickle.OBJ, pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.PERSID, pickle.BINPERSID),
        *(pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER),
    )
)


class NotPlainError(Exception):
    """A value that is not made of plain types cannot leave the candidate's process."""


class _NamesClassError(Exception):
    pass


class _Primitive(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise _NamesClassError


_PythonUnpickler: Any = pickle._Unpickler  # type: ignore[attr-defined]


class _Careful(_PythonUnpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise NotPlainError(f"{module}.{name} is not a plain type") from None

    def load_reduce(self) -> None:
        constructor = self.stack[-2]
        if not isinstance(constructor, type) or constructor not in _CONSTRUCTORS:
            raise NotPlainError("a call of something that is not a plain type")
        super().load_reduce()

    dispatch: ClassVar = {
        **{code: load for code, load in _PythonUnpickler.dispatch.items() if code not in _REFUSED_OPCODES},
        pickle.REDUCE[0]: load_reduce,
    }


def decode(payload: bytes) -> Any:
    """The value that `payload` pickles. Raises NotPlainError for anything but plain values."""
    try:
        return _Primitive(io.BytesIO(payload)).load()
    except _NamesClassError:
        pass
    except Exception as error:
        raise NotPlainError(f"unreadable answer: {error}") from None
    try:
        return _Careful(io.BytesIO(payload)).load()
    except NotPlainError:
        raise
    except Exception as error:
        raise NotPlainError(f"not a plain value: {type(error).__name__}: {error}") from None
