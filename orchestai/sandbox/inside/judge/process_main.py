"""The processes of one attempt: what each of them does from its orders to its end."""

from __future__ import annotations

import gc
import importlib
import linecache
import marshal
import os
import pickle
import re
import resource
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import FunctionType
from typing import Any

from .. import AT_FORK, PROGRAM, WATCH
from ..ipc.wire import ChannelClosedError, LineReader, Suite, VerdictWriter, read_whole, send_frame, send_line
from ..jail.processes import MAXRSS_UNIT
from .candidate import MODULE, LoadError, load_candidate, new_module, run_code, serve
from .sealed import Candidate, Guard
from .testing import run_tests
from .watch import Watch

_TESTS = "__tests__"
_WORLD = {"os": os, "sys": sys, "environ": os.environ}
"""What tests and programs find in their module where they share it, as with BigCodeBench's own judge."""
_MOST_CPU_S, _MOST_BYTES = 0.5, 4 << 20
"""CPU time that T has used, and memory that it has held beyond what it was forked with, when it is given up."""


def tests(orders: socket.socket) -> None:
    """T: runs the tests against a proxy; no code of a candidate ever runs here.

    With `stay` in an order, it says when it is done and how much memory it has held, and waits for the next order.
    """
    for hook in AT_FORK:
        os.register_at_fork(**hook)
    gc.freeze()
    reader, guard, modules = LineReader(orders), Guard(), set(sys.modules)
    at_first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(ChannelClosedError):
        while True:
            order, (channel, *files) = reader.read()
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=channel) as connection:
                had_plain_answers = _test(connection, order, files, guard)
            for file in files:
                os.close(file)
            sys.modules.pop(MODULE, None)
            peak_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - at_first) * MAXRSS_UNIT
            is_light = time.process_time() < _MOST_CPU_S and peak_bytes < _MOST_BYTES
            if not (order["stay"] and had_plain_answers and is_light and sys.modules.keys() == modules):
                return
            send_line(orders, {"peak_bytes": peak_bytes})
            gc.collect()  # what this ends may print, for one: the next program's tests would be said to have done it


def _test(channel: socket.socket, order: dict[str, Any], files: Sequence[int], guard: Guard) -> bool:
    """Run the tests of an order; whether nothing is left of them, and the candidate answered but plain values."""
    tests_file, verdicts, report = files
    out = VerdictWriter(verdicts, order["nonce"], report)
    suite = Suite(*marshal.loads(read_whole(tests_file)))
    module = new_module()
    try:
        candidate = Candidate(channel, order["entry_point"])
    except LoadError as error:
        out.unloadable(error.status, error.reason)
        return True
    module.__dict__[order["entry_point"]] = candidate.entry_point
    guard.import_modules(suite.modules)
    try:
        run_code(suite.code, suite.source, module, "tests.py")
    except LoadError as error:
        theirs = error.reason.startswith(("ImportError", "ModuleNotFoundError")) and not candidate.raised
        status = "broken" if theirs else "import_error"  # what they ask of the program as they load may be what failed
        out.unloadable(status, f"the tests could not be loaded: {error.reason}")
        return False
    out.send("loaded")
    run_tests(module, suite.names, order["todo"], out)
    return candidate.is_plain


def candidate(orders: socket.socket, channel: socket.socket) -> None:
    """C: holds the candidate and answers T's calls; or, where tests are judged open, runs them itself."""
    for hook in AT_FORK:
        os.register_at_fork(**hook)
    rehearse()
    try:
        order, files = LineReader(orders).read()
    except ChannelClosedError:
        return
    finally:
        orders.close()
    if order["isolation"] == "open":
        channel.close()
        _open(order, *files)
        return
    serve(channel, read_whole(*files).decode("utf-8", "surrogatepass"), order["entry_point"], new_module())


_MAY_FAIL = re.compile(
    r"AssertionError|expectedFailure|failureException|except\s*:|(except|suppress|assertRaises)\b.*Exception\b"
)
"""Tests that may catch what their own assertions raise."""
_PACKAGE = __name__.partition(".")[0]


def _open(order: dict[str, Any], code_file: int, tests_file: int, verdicts: int, report: int) -> None:
    """The candidate and the tests in one process, each in a module of its own."""
    suite = Suite(*marshal.loads(read_whole(tests_file)))
    source = read_whole(code_file).decode("utf-8", "surrogatepass")
    os.close(tests_file)  # the program is not to read what they expect
    out = VerdictWriter(verdicts, order["nonce"], report)
    missing = False
    for name in suite.modules:
        try:
            importlib.import_module(name)
        except Exception:  # the tests will say so themselves
            missing = True
    if missing:
        out.send("missing")  # now, before the program could have to do with it
    meant: dict[str, Any] = {name: importlib.import_module(module) for name, (module, _) in suite.meant}
    meant |= {name: getattr(meant[name], member) for name, (_, member) in suite.meant if member}
    program, tests = new_module(), new_module(_TESTS)
    program.__dict__.update(_WORLD)
    for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
        del sys.modules[name]
    uses = [*suite.modules, *(module for _, (module, _) in suite.meant)]
    tells = re.search(r"\bANY\b", suite.source) is not None
    watch = Watch(tells=tells, sets=suite.sets, uses=uses, tell=partial(out.unloadable, "tampered"))
    try:
        load_candidate(source, order["entry_point"], program)
        if found := watch.tampering():
            out.unloadable("tampered", found)
            return
        sys.modules[MODULE] = program
        tests.__dict__.update(_WORLD | meant | {"__name__": MODULE, WATCH: watch, PROGRAM: program})
        tests.__dict__[order["entry_point"]] = program.__dict__[order["entry_point"]]
    except LoadError as error:
        out.unloadable(error.status, error.reason)
        return
    try:
        run_code(suite.code, "", tests, "tests.py")
    except LoadError as error:
        out.unloadable("broken" if missing else error.status, f"the tests could not be loaded: {error.reason}")
        return
    if found := watch.tampering():  # by what the tests import of the program's, as of a repository's files
        out.unloadable("tampered", found)
        return
    out.send("loaded")
    for one in vars(tests).values():
        if isinstance(one, type | FunctionType) and one.__module__ == MODULE:
            one.__module__ = _TESTS  # where unittest looks for fixtures; their `__name__` is what they patch
    program.__dict__.update({name: tests.__dict__[name] for name in suite.imports if name in tests.__dict__})
    watch.keep(tests)
    run_tests(tests, suite.names, order["todo"], out, watch, may_fail=bool(_MAY_FAIL.search(suite.source)))


_ORDER = b'{"entry_point": "f"}\n'
_CALL = pickle.dumps({"args": ([1],), "kwargs": {}, "known": {0: 0}, "next": 1})


def rehearse() -> None:
    """Read an order and serve a program of ours, so that what this touches is our own before the orders come."""
    streams = sys.stdout, sys.stderr
    tests, own = socket.socketpair()
    with tests, own:
        tests.sendall(_ORDER)
        LineReader(own).read()
        send_frame(tests, b"c", _CALL)
        tests.shutdown(socket.SHUT_WR)
        serve(own, "def f(numbers): return [n + 1 for n in numbers]", "f", new_module())
    sys.stdout, sys.stderr = streams
    del sys.modules[MODULE]
    linecache.cache.pop("solution.py", None)
