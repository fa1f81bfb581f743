"""Runs programs that attack the judge, and honest ones, and says what came of each.

As a script: [ISOLATION] < programs, one JSON line per program.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestai.outcome import Unscorable
from orchestai.sandbox import Limits, Program, Report, Sandbox
from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.inside import MOST_WALLS
from orchestai.sandbox.inside.jail import processes
from orchestai.sandbox.levels import find_namespaces

LIMITS = Limits(wall_s=10, load_s=8, test_s=5, memory_mb=512)
PRELOAD = ("numpy", "pandas")
_ALIVE = {"canary.txt": "alive", "secret.txt": "the user's own"}


USERS = {
    "root": [],
    "nobody": ["--reuid=65534", "--regid=65534", "--clear-groups"],
    "root without CAP_SYS_ADMIN": ["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"],
}
"""Who may run the sandbox, and what `setpriv` makes of root for it."""
_SHORT = {"honest": "short", "probe": "unheld", "resource": "unheld"}
"""What it is called when a program of a category passes too few tests; `lost` for the others."""


def run(
    programs: Iterable[dict[str, Any]], isolation: str = "auto", latest_s: float = MOST_WALLS * LIMITS.wall_s + 2
) -> Iterator[dict[str, Any]]:
    """For each program its id, status, passed, seconds, and `faults`: kinds, each with what happened.

    Kinds are `undeserved` (passed more tests than it should), `short` (an honest program passed fewer), `unheld` (a
    probe found something to reach), `lost` (another program passed fewer), `harm`, `late`, `status` and `no_verdict`.

    Args:
        isolation: `auto` is what the source of each program's tests gives.
        latest_s: a verdict that takes longer is late; by default what a busy machine is given at most.
    """
    os.environ["ORCH_SECRET_TOKEN"] = "token"
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Sandbox(workers=1, limits=LIMITS, preload=PRELOAD, strictness="strict", cache_size=0) as sandbox,
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
                held: Any = isolation
                report = sandbox.run(Program(code, tests, program["entry_point"], held))
                seconds = time.monotonic() - start
                faults = dict(_faults(program, report))
                if seconds > latest_s:
                    faults["late"] = f"the verdict took {seconds:.1f} s"
                harm = [] if _unharmed(folder) else ["harmed the canary"]
            if not _comes_to(at_rest):
                harm.append("left processes")
            if _was_called(listener):
                harm.append("reached the network")
            if harm:
                faults["harm"] = ", ".join(harm)
            how = {"status": report.status, "isolation": report.isolation}
            yield {"id": program["id"], "faults": faults, **how, "passed": report.passed, "seconds": round(seconds, 2)}


def _processes_at_rest(sandbox: Sandbox) -> int:
    """How many there are once those for the next program are ready, and the number changes no more."""
    tests = "import unittest\nclass TestCases(unittest.TestCase):\n    def test(self): task_func()\n"
    for module in ("math", "shutil", "tempfile", "unittest.mock", *PRELOAD):  # most have a fork server of their own
        sandbox.run(Program(f"import {module}\ndef task_func(): pass", tests))
    counts = [-1]
    while len(counts) < 20 or len(set(counts[-20:])) > 1:
        counts.append(len(processes.descendants(os.getpid())))
        time.sleep(0.01)
    return counts[-1]


def _comes_to(at_rest: int) -> bool:
    """Whether there are as many processes as at rest, once a slot has got rid of what the program left."""
    give_up = time.monotonic() + 5
    while len(processes.descendants(os.getpid())) != at_rest:
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def _faults(program: dict[str, Any], report: Report) -> Iterator[tuple[str, str]]:
    expect, passed, total = program["expect"], report.passed, report.total
    counts = f"{passed} of {total} tests passed, not {expect['passed']} of {expect['total']}"
    counts += f" ({report.status}: {report.reason or next((t.message for t in report.tests if t.message), '')})"
    if report.status == "refused":
        return
    if expect["passed"] is not None and passed != expect["passed"]:
        yield "undeserved" if passed > expect["passed"] else _SHORT.get(program["category"], "lost"), counts
    elif total != expect["total"]:
        yield "lost", counts
    if "status" in expect and report.status != expect["status"]:
        yield "status", f"ended as {report.status} ({report.reason}), not as {expect['status']}"
    if report.status == "infra_error" or (expect.get("scored") and isinstance(report.outcome(), Unscorable)):
        yield "no_verdict", f"{report.status}: {report.reason}"


def command_as(user: str, isolation: str = "auto") -> list[str]:
    """The command that runs this script as one of `USERS`; root alone can run it for the others.

    The interpreter may lie in root's home, so it is shown to them in namespaces of their own.
    """
    script = [sys.executable, __file__, isolation]
    if user == "root":
        return script
    home, python = Path.home(), Path(sys.base_prefix)
    found = find_namespaces()
    assert isinstance(found, Bubblewrap), found
    command = [found.path, "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]
    if python.is_relative_to(home):
        command += ["--tmpfs", str(home)]
        for parent in reversed(python.relative_to(home).parents[:-1]):
            command += ["--perms", "0755", "--dir", str(home / parent)]
        command += ["--ro-bind", str(python), str(python)]
    command += ["--perms", "1777", "--tmpfs", "/var/tmp", "--setenv", "TMPDIR", "/var/tmp", "--chdir", "/"]
    return [*command, "--setenv", "PYTHONDONTWRITEBYTECODE", "1", "--", "setpriv", *USERS[user], *script]


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
    for line in run(map(json.loads, sys.stdin), *sys.argv[1:]):
        print(json.dumps(line), flush=True)
