"""Loading a program's source, and saying why it could not be loaded."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from ..ipc.exceptions import describe

MODULE = "__test__"


class LoadError(Exception):
    """`status` is `syntax_error`, `import_error`, `no_entry_point` or `memory`."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def new_module(name: str = MODULE) -> ModuleType:
    """An empty module, by default under the name that BigCodeBench's own judge uses, with the names that it defines."""
    module = ModuleType(name)
    module.__dict__.update(__file__=f"{name}.py", __package__=None)
    sys.modules[name] = module
    return module


def run_source(source: str, module: ModuleType, filename: str) -> None:
    """Run `source` in `module`. Raises LoadError, whatever happens in it short of the process's end."""
    try:
        code = compile(source, filename, "exec", dont_inherit=True)
    except Exception as error:
        raise LoadError("syntax_error", describe(error)) from None
    run_code(code, source, module, filename)


def run_code(code: CodeType, source: str, module: ModuleType, filename: str) -> None:
    """Run `code`, which was compiled from `source`, in `module`. Raises LoadError like `run_source`."""
    if source:
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        exec(code, module.__dict__)
    except MemoryError as error:
        raise LoadError("memory", describe(error)) from None
    except BaseException as error:
        raise LoadError("import_error", describe(error)) from None


def load_candidate(source: str, entry_point: str, module: ModuleType) -> Callable[..., Any]:
    """Run a candidate and find its entry point in `module`. Raises LoadError."""
    run_source(source, module, "solution.py")
    function = module.__dict__.get(entry_point)
    if not callable(function):
        raise LoadError("no_entry_point", f"the program defines no function {entry_point}")
    return function
