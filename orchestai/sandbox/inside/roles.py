"""The processes of one attempt: what each of them does from its orders to its end."""

from __future__ import annotations

import marshal
import os
import random
import socket
import sys
from typing import Any, NamedTuple

from . import candidate as candidate_process
from .loading import LoadError, load_candidate, new_module, run_code
from .meter import Meter
from .proxy import connect
from .testing import run_tests
from .wire import ChannelClosedError, LineReader, VerdictWriter, read_whole


class Suite(NamedTuple):
    """Tests, as the sandbox's parent sends them: marshalled, in this order.

    Attributes:
        source: what they were compiled from, for tracebacks.
        code: the compiled module.
        names: `Class.method` of each test.
        free: names that the tests use and do not define.
    """

    source: str
    code: Any
    names: tuple[str, ...]
    free: tuple[str, ...]


def tests(orders: socket.socket, channel: socket.socket) -> None:
    """T: runs the tests against a proxy; no code of the candidate ever runs here."""
    order, (tests_file, verdicts) = _read(orders)
    out = VerdictWriter(verdicts, order["nonce"])
    suite = Suite(*marshal.loads(read_whole(tests_file)))
    module = new_module()
    try:
        candidate = connect(channel, order["entry_point"], follow_random="seed" in suite.source)
        module.__dict__.update(candidate.names(suite.free), **{order["entry_point"]: candidate.entry_point})
    except LoadError as error:
        out.send("unloadable", status=error.status, reason=error.reason)
        return
    try:
        run_code(suite.code, suite.source, module, "tests.py")
    except LoadError as error:
        theirs = error.reason.startswith(("ImportError", "ModuleNotFoundError"))
        status = "broken" if theirs else "import_error"  # what they ask of the program as they load may be what failed
        out.send("unloadable", status=status, reason=f"the tests could not be loaded: {error.reason}")
        return
    out.send("loaded")
    own = Meter()

    def spent() -> tuple[float, int]:
        return own()[0] + candidate.used[0], max(own()[1], candidate.used[1])

    run_tests(module, suite.names, order["todo"], out, spent)


def candidate(orders: socket.socket, channel: socket.socket) -> None:
    """C: holds the candidate and answers T's calls; or, in `shared` isolation, runs the tests itself."""
    order, files = _read(orders)
    if order["isolation"] == "split":
        candidate_process.serve(channel, read_whole(*files).decode("utf-8", "surrogatepass"), order["entry_point"])
    else:
        channel.close()
        _shared(order, *files)


def _shared(order: dict[str, Any], code_file: int, tests_file: int, verdicts: int) -> None:
    """The candidate and the tests in one module, as BigCodeBench's own judge has them."""
    suite = Suite(*marshal.loads(read_whole(tests_file)))
    out = VerdictWriter(verdicts, order["nonce"])
    module = new_module()
    module.__dict__.update(os=os, sys=sys, environ=os.environ)
    try:
        load_candidate(read_whole(code_file).decode("utf-8", "surrogatepass"), order["entry_point"], module)
        run_code(suite.code, suite.source, module, "tests.py")
    except LoadError as error:
        out.send("unloadable", status=error.status, reason=error.reason)
        return
    out.send("loaded")
    run_tests(module, suite.names, order["todo"], out, Meter())


def _read(orders: socket.socket) -> tuple[dict[str, Any], list[int]]:
    os.register_at_fork(after_in_child=random.seed)
    try:
        return LineReader(orders).read()
    except ChannelClosedError:
        os._exit(0)
    finally:
        orders.close()
