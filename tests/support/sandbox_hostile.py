"""Runs programs that attack the judge, and says what came of each. As a script: FILE, one JSON line per program."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestai.outcome import Unscorable
from orchestai.sandbox import Limits, Program, Report, Sandbox
from orchestai.sandbox.inside.jail import processes

LIMITS = Limits(wall_s=6, load_s=5, test_s=3, memory_mb=512)
_ALIVE = {"canary.txt": "alive", "secret.txt": "the user's own"}


def run(programs: list[dict[str, Any]], isolation: str = "split") -> Iterator[dict[str, Any]]:
    """For each program its id and `faults`: what it gained, lost or harmed against what it should have."""
    os.environ["ORCH_SECRET_TOKEN"] = "token"
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Sandbox(workers=1, limits=LIMITS, strictness="strict", cache_size=0) as sandbox,
    ):
        listener.setblocking(False)
        at_rest = _processes_at_rest(sandbox)
        for program in programs:
            with _canary() as folder:
                port = str(listener.getsockname()[1])
                code, tests = (
                    program[key].replace("@CANARY@", str(folder)).replace("@PORT@", port) for key in ("code", "test")
                )
                start = time.monotonic()
                held = program.get("isolation", isolation)
                report = sandbox.run(Program(code, tests, program["entry_point"], held))
                seconds = time.monotonic() - start
                faults = list(_faults(program, report, seconds))
                if report.status == "infra_error" or (
                    program["expect"].get("scored") and isinstance(report.outcome(), Unscorable)
                ):
                    faults.append(f"no verdict: {report.status}: {report.reason}")
                if not _unharmed(folder):
                    faults.append("harmed the canary")
            if not _comes_to(at_rest, sandbox):
                faults.append("left processes")
            if _was_called(listener):
                faults.append("reached the network")
            yield {"id": program["id"], "faults": faults, "status": report.status, "passed": report.passed}


def _processes_at_rest(sandbox: Sandbox) -> int:
    """How many there are once those for the next program are ready, and the number changes no more."""
    counts = [-1]
    while len(counts) < 20 or len(set(counts[-20:])) > 1:
        counts.append(len(processes.descendants(sandbox.server_pid)))
        time.sleep(0.01)
    return counts[-1]


def _comes_to(at_rest: int, sandbox: Sandbox) -> bool:
    """Whether there are as many processes as at rest, once a slot has got rid of what the program left."""
    give_up = time.monotonic() + 5
    while len(processes.descendants(sandbox.server_pid)) != at_rest:
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def _faults(program: dict[str, Any], report: Report, seconds: float) -> Iterator[str]:
    expect, passed, total = program["expect"], report.passed, report.total
    if total != expect["total"] or (expect["passed"] is not None and passed != expect["passed"]):
        yield f"{passed} of {total} tests passed, not {expect['passed']} of {expect['total']}"
    if "status" in expect and report.status != expect["status"]:
        yield f"ended as {report.status} ({report.reason}), not as {expect['status']}"
    if seconds > 2 * LIMITS.wall_s + 2:  # twice, for a machine that is busy with something else
        yield f"the verdict took {seconds:.1f} s"


@contextmanager
def _canary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in _ALIVE.items():
            (folder / file).write_text(text)
        yield folder


def _unharmed(folder: Path) -> bool:
    if not folder.is_dir() or {path.name for path in folder.iterdir()} != _ALIVE.keys():
        return False
    modes = {stat.S_IMODE((folder / file).stat().st_mode) & 0o400 for file in _ALIVE}
    return modes == {0o400} and all((folder / file).read_text() == text for file, text in _ALIVE.items())


def _was_called(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    for line in run([json.loads(row) for row in Path(sys.argv[1]).read_text().splitlines()], *sys.argv[2:]):
        print(json.dumps(line), flush=True)
