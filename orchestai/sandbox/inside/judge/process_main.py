"""The processes of one attempt: what each of them does from its orders to its end."""

from __future__ import annotations

import gc
import importlib
import linecache
import marshal
import os
import pickle
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from .. import AT_FORK
from ..ipc.suite import Suite
from ..ipc.wire import ChannelClosedError, LineReader, VerdictWriter, framed, read_whole, send_line
from ..jail.meter import Meter
from .candidate import Host, MakeHost, serve
from .guard import Guard
from .loading import MODULE, LoadError, load_candidate, new_module, run_code
from .proxy import Candidate, connect
from .shared_candidate import SharedHost
from .shared_proxy import SharedCandidate
from .testing import run_tests

_WORLD = {"os": os, "sys": sys, "environ": os.environ}
"""What tests and programs find in their module where they share a world, as with BigCodeBench's own judge."""
_MOST_CPU_S, _MOST_BYTES = 0.5, 4 << 20
"""CPU time that T has used, and memory that it has held beyond what it was forked with, when it is given up."""


def tests(orders: socket.socket) -> None:
    """T: runs the tests against a proxy; no code of a candidate ever runs here.

    With `stay` in an order, it says when it is done and how much memory it has held, and waits for the next order.
    """
    _be_forkable()
    gc.freeze()
    reader, meter, guard, modules = LineReader(orders), Meter(), Guard(), set(sys.modules)
    with suppress(ChannelClosedError):
        while True:
            order, (channel, *files) = reader.read()
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=channel) as connection:
                had_plain_answers = _test(connection, order, files, meter, guard)
            for file in files:
                os.close(file)
            sys.modules.pop(MODULE, None)
            cpu_s, peak_bytes = meter()
            if not (order["stay"] and had_plain_answers and cpu_s < _MOST_CPU_S and peak_bytes < _MOST_BYTES):
                return
            if sys.modules.keys() != modules:
                return
            send_line(orders, {"peak_bytes": peak_bytes})
            gc.collect()  # what this ends may print, for one: the next program's tests would be said to have done it


def _test(channel: socket.socket, order: dict[str, Any], files: Sequence[int], own: Meter, guard: Guard) -> bool:
    """Run the tests of an order; whether nothing is left of them, and the candidate answered but plain values."""
    tests_file, verdicts, report = files
    out = VerdictWriter(verdicts, order["nonce"], report)
    suite = Suite(*marshal.loads(read_whole(tests_file)))
    module = new_module()
    try:
        kind_of: type[Candidate] = Candidate
        if order["isolation"] == "shared":
            kind_of = SharedCandidate
            if "mock" in suite.source:
                importlib.import_module("unittest.mock")  # whose patches are followed from now on
            module.__dict__.update(_WORLD)
        source = suite.source
        follows = {"follow_random": "seed" in source, "may_stop": "StopIteration" in source}
        candidate = connect(channel, order["entry_point"], guard, kind_of, **follows)
        module.__dict__.update(
            candidate.names(suite.free, suite.members), **{order["entry_point"]: candidate.entry_point}
        )
        if isinstance(candidate, SharedCandidate):
            module.__dict__["__getattr__"] = candidate.module_name
            candidate.share_imports(suite.imports)
    except LoadError as error:
        out.unloadable(error.status, error.reason)
        return True
    try:
        run_code(suite.code, suite.source, module, "tests.py")
    except LoadError as error:
        theirs = error.reason.startswith(("ImportError", "ModuleNotFoundError")) and not candidate.raised
        status = "broken" if theirs else "import_error"  # what they ask of the program as they load may be what failed
        out.unloadable(status, f"the tests could not be loaded: {error.reason}")
        return False
    out.send("loaded")

    def spent() -> tuple[float, int]:
        cpu_s, peak_bytes = own()
        return cpu_s + candidate.used[0], max(peak_bytes, candidate.used[1])

    run_tests(module, suite.names, order["todo"], out, spent)
    return candidate.is_plain


def candidate(orders: socket.socket, channel: socket.socket) -> None:
    """C: holds the candidate and answers T's calls; or, with isolation `in_process`, runs the tests itself."""
    _be_forkable()
    rehearse()
    try:
        order, files = LineReader(orders).read()
    except ChannelClosedError:
        return
    finally:
        orders.close()
    if order["isolation"] == "in_process":
        channel.close()
        _in_process(order, *files)
        return
    source, module = read_whole(*files).decode("utf-8", "surrogatepass"), new_module()
    make_host: MakeHost = Host
    if order["isolation"] == "shared":
        make_host = partial(SharedHost, file=files[0])
        module.__dict__.update(_WORLD)
    serve(channel, source, order["entry_point"], module, make_host)


def _in_process(order: dict[str, Any], code_file: int, tests_file: int, verdicts: int, report: int) -> None:
    """The candidate and the tests in one module."""
    suite = Suite(*marshal.loads(read_whole(tests_file)))
    out = VerdictWriter(verdicts, order["nonce"], report)
    module = new_module()
    module.__dict__.update(_WORLD)
    try:
        load_candidate(read_whole(code_file).decode("utf-8", "surrogatepass"), order["entry_point"], module)
        run_code(suite.code, suite.source, module, "tests.py")
    except LoadError as error:
        out.unloadable(error.status, error.reason)
        return
    out.send("loaded")
    run_tests(module, suite.names, order["todo"], out, Meter())


_ORDER = b'{"entry_point": "f"}\n'
_CALL = framed(b"c", pickle.dumps({"operation": "call", "object": 0, "args": ([1],), "kwargs": {}}))


def rehearse() -> None:
    """Read an order and serve a program of ours, so that what this touches is our own before the orders come."""
    streams = sys.stdout, sys.stderr
    tests, own = socket.socketpair()
    with tests, own:
        tests.sendall(_ORDER)
        LineReader(own).read()
        tests.sendall(_CALL)
        tests.shutdown(socket.SHUT_WR)
        serve(own, "def f(numbers): return [n + 1 for n in numbers]", "f", new_module(), Host)
    sys.stdout, sys.stderr = streams
    del sys.modules[MODULE]
    linecache.cache.pop("solution.py", None)


def _be_forkable() -> None:
    """Register what modules do in their forks; see `AT_FORK`."""
    for hook in AT_FORK:
        os.register_at_fork(**hook)
