"""The processes of one attempt: what each of them does from its fork to its end."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence

from . import candidate as candidate_process
from .loading import LoadError, load_candidate, new_module, run_source
from .proxy import connect
from .testing import run_tests
from .wire import VerdictWriter, read_whole


def tests_of_split(
    channel: socket.socket, tests: int, entry_point: str, todo: Sequence[int], out: VerdictWriter
) -> None:
    """T: runs the tests against a proxy; no code of the candidate ever runs here."""
    suite = json.loads(read_whole(tests))
    module = new_module()
    try:
        candidate = connect(channel, entry_point, follow_random="seed" in suite["source"])
        module.__dict__.update(candidate.names(suite["free"]), **{entry_point: candidate.entry_point})
    except LoadError as error:
        out.send("unloadable", status=error.status, reason=error.reason)
        return
    try:
        run_source(suite["source"], module, "tests.py")
    except LoadError as error:
        theirs = error.status == "syntax_error" or error.reason.startswith(("ImportError", "ModuleNotFoundError"))
        status = "broken" if theirs else "import_error"  # what they ask of the program as they load may be what failed
        out.send("unloadable", status=status, reason=f"the tests could not be loaded: {error.reason}")
        return
    out.send("loaded")
    run_tests(module, suite["names"], todo, out)


def candidate_of_split(channel: socket.socket, code: int, entry_point: str) -> None:
    """C: holds the candidate and answers T's calls; has neither the tests nor the way to the verdicts."""
    candidate_process.serve(channel, code, entry_point)


def shared(code: int, tests: int, entry_point: str, todo: Sequence[int], out: VerdictWriter) -> None:
    """P: the candidate and the tests in one module, as BigCodeBench's own judge has them."""
    suite = json.loads(read_whole(tests))
    module = new_module()
    module.__dict__.update(os=os, sys=sys, environ=os.environ)
    try:
        load_candidate(read_whole(code), entry_point, module)
        run_source(suite["source"], module, "tests.py")
    except LoadError as error:
        out.send("unloadable", status=error.status, reason=error.reason)
        return
    out.send("loaded")
    run_tests(module, suite["names"], todo, out)
