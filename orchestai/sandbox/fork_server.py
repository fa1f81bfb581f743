"""The parent's side of the fork server: start it, hand it programs over its channels, end it."""

from __future__ import annotations

import json
import os
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from orchestai.errors import InfrastructureError, UserError
from orchestai.sandbox.bubblewrap import INSIDE, NOBODY, SCRATCH, Bubblewrap
from orchestai.sandbox.inside import MOST_WALLS
from orchestai.sandbox.inside.ipc.exceptions import MAX_MESSAGE, MAX_OUTPUT
from orchestai.sandbox.inside.ipc.wire import ChannelClosedError, LineReader, send_line
from orchestai.sandbox.packages import Packages
from orchestai.sandbox.program import Isolation, Limits, Program
from orchestai.sandbox.static.modes import is_self_contained
from orchestai.sandbox.static.test_discovery import packed

_INSIDE = Path(__file__).parent / "inside"
_BOOT = """
import importlib.util, json, os, sys
os.dup2(0, 2)
os.environ.pop("LD_BIND_NOW", None)
hooks = []
register, os.register_at_fork = os.register_at_fork, lambda **hook: hooks.append(hook)
sys.modules.pop("random", None)
import random, threading
os.register_at_fork = register
random.seed(0)
sys.path[:] = [entry for entry in sys.path if entry]
folder, settings = sys.argv[1:]
spec = importlib.util.spec_from_file_location("sandbox_inside", f"{folder}/__init__.py")
sys.modules["sandbox_inside"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["sandbox_inside"])
sys.modules["sandbox_inside"].AT_FORK.extend(hooks)
from sandbox_inside.server import main
sys.exit(main(json.loads(settings)))
"""
"""Runs in the new interpreter. What `random` and `threading` do after a fork waits for the program's own forks: those
of the server have one thread, programs are to find the random state of seed 0, and it takes longer than a test."""
_SEALED = 1 | 2 | 4 | 8
"""F_SEAL_SEAL, _SHRINK, _GROW and _WRITE: a program must not change the file that its tests are read from."""
_START_TIMEOUT_S, _TO_END_S, _LOOK_EVERY_MS = 600.0, 10.0, 1000
_UIDS = range(61000, 65534)
"""Users that nobody is; where the server is root, each slot's programs run as one of them. Servers choose at random, so
that those of several sandboxes on a machine hardly share one, and the limit on its processes."""
_ENVIRONMENT = {
    "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.defpath)),
    "USER": "sandbox",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # its own reserves a gigabyte of addresses, which are limited
    "LOGNAME": "sandbox",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "LD_BIND_NOW": "1",  # else every fork looks up for itself what only forks call; programs do not see it
    "TZ": "UTC",
    "MALLOC_ARENA_MAX": "2",  # every further one reserves 64 MB of addresses: forty idle threads would exceed the limit
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONIOENCODING": "utf-8:surrogateescape",
    "PYTHONNOUSERSITE": "1",
}


class SlotLostError(Exception):
    """The slot that ran a program, or the whole fork server, ended before it gave a verdict."""


class ForkServer:
    """A clean interpreter that forks a process, or two, per program. `slots` programs may run at a time.

    Args:
        limits: what each program may use.
        bubblewrap: puts the server and its programs into namespaces; without it they have limits alone.
        packages: what programs see of those that are installed; without namespaces they see all.

    Raises:
        UserError: a module of `preload` cannot be imported.
        SlotLostError: somebody killed the server as it started.
        InfrastructureError: the server does not start.
    """

    def __init__(
        self,
        slots: int,
        limits: Limits,
        preload: Sequence[str] = (),
        bubblewrap: Bubblewrap | None = None,
        packages: Packages | None = None,
    ) -> None:
        self._limits = limits
        self._home = Path(tempfile.mkdtemp(prefix="sandbox-"))
        pairs = [socket.socketpair() for _ in range(slots)]
        self._channels = [ours for ours, _ in pairs]
        theirs = [channel for _, channel in pairs]
        descriptors = [channel.fileno() for channel in theirs]
        try:
            self._process = self._start(descriptors, preload, bubblewrap, packages or Packages())
            self.pid = self._process.pid
        except BaseException:
            shutil.rmtree(self._home, ignore_errors=True)
            raise
        for channel in theirs:
            channel.close()
        self._in_use = [threading.Lock() for _ in self._channels]
        self._readers = [LineReader(channel) for channel in self._channels]
        self._ids = count()
        self._finalizer = weakref.finalize(self, _end, self._process, self._channels, self._in_use, self._home)
        try:
            self._await_slots()
        except BaseException:
            self.close()
            raise

    def alive(self) -> bool:
        return self._process.poll() is None

    def judge(self, slot: int, program: Program, names: Sequence[str]) -> dict[str, Any]:
        """Have `slot` run a program and wait for the verdict. One caller per slot at a time.

        Gives `status`, `reason`, `wall_s`, `cpu_s`, `peak_mb` and `tests`: for each of `names` the fields of a
        `TestVerdict`.

        Raises:
            SlotLostError: the slot or the server died of it, or of something else.
            SyntaxError, ValueError: the tests are not Python.
        """
        number = next(self._ids)
        isolation: Isolation = "open" if program.isolation == "open" else "sealed"
        job = {
            "total": len(names),
            "entry_point": program.entry_point,
            "isolation": isolation,
            "self_contained": isolation == "sealed" and is_self_contained(program.tests, program.entry_point),
        }
        code = program.code.encode("utf-8", "surrogatepass")
        tests = packed(program.tests, tuple(names), program.entry_point, isolation)
        channel = self._channels[slot]
        try:
            with (
                self._in_use[slot],
                _file_with(code) as code_file,
                _file_with(tests) as tests_file,
                _file_with(b"", seals=0) as report,
            ):
                channel.settimeout(MOST_WALLS * self._limits.wall_s + _START_TIMEOUT_S)
                send_line(channel, {"id": number, "job": job}, (code_file, tests_file, report))
                while True:
                    verdict, _ = self._readers[slot].read()
                    if "ready" in verdict:
                        raise SlotLostError("its slot was killed")
                    if verdict.pop("id") == number:
                        _add_report(verdict, report)
                        return verdict
        except (ChannelClosedError, OSError) as error:
            raise SlotLostError(f"the fork server is gone: {error}") from None

    def close(self) -> None:
        """End the server with all it runs, and remove its files. Whoever waits in `judge` gets SlotLostError."""
        self._finalizer()

    def _start(
        self, channels: Sequence[int], preload: Sequence[str], bubblewrap: Bubblewrap | None, packages: Packages
    ) -> subprocess.Popen[bytes]:
        home = SCRATCH if bubblewrap else str(self._home)
        level = "namespaces" if bubblewrap else "process"
        first_uid = secrets.choice(_UIDS[: -len(channels) - 1])
        settings = {"channels": list(channels), "preload": list(preload), "home": home, "level": level}
        settings |= {"limits": asdict(self._limits), "first_uid": first_uid}
        inside = INSIDE if bubblewrap else str(_INSIDE)
        command = [os.path.abspath(sys.executable), "-s", "-c", _BOOT, inside, json.dumps(settings)]
        environment = _ENVIRONMENT | {"HOME": home, "TMPDIR": home}
        if bubblewrap:
            etc, empty = self._home / "etc", self._home / "empty"
            for folder in (etc, empty):
                folder.mkdir(mode=0o755)
            # What programs look up in /etc; the host's own files tell too much.
            ids = [NOBODY, *range(first_uid, first_uid + len(channels))]
            users = (f"sandbox:x:{number}:{number}:sandbox:{SCRATCH}:/bin/sh\n" for number in ids)
            (etc / "hosts").write_text("127.0.0.1 localhost sandbox\n::1 localhost\n")
            (etc / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n" + "".join(users))
            (etc / "group").write_text("root:x:0:\n" + "".join(f"sandbox:x:{number}:\n" for number in ids))
            (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
            mounts = [(_INSIDE, Path(INSIDE)), *packages.stage(self._home)]
            command = bubblewrap.command(command, mounts, etc, empty, environment)
        user = bubblewrap.runs_as if bubblewrap else None
        if user is not None:
            os.chown(self._home, user, user)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._complaints,
            cwd=self._home,
            env=environment,
            pass_fds=channels,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else (),
        )

    def _await_slots(self) -> None:
        give_up = time.monotonic() + _START_TIMEOUT_S
        try:
            for channel, reader in zip(self._channels, self._readers, strict=True):
                signs = select.poll()
                signs.register(channel, select.POLLIN)
                while not signs.poll(_LOOK_EVERY_MS):
                    if not self.alive() or time.monotonic() > give_up:  # what it started may hold the channel open
                        raise ChannelClosedError("nothing was heard of it")
                hello, _ = reader.read()
                if "failed" in hello:
                    raise UserError(f"sandbox: {hello['failed']}; install it or take it out of sandbox.preload")
                if "unable" in hello:
                    raise InfrastructureError("sandbox", f"the sandbox's fork server did not start: {hello['unable']}")
        except ChannelClosedError as error:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_TO_END_S)
            if self._process.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):  # it, or bubblewrap
                raise SlotLostError("the fork server was killed as it started") from None
            self._complaints.seek(0)
            said = self._complaints.read(1000).decode(errors="replace").strip() or error
            raise InfrastructureError("sandbox", f"the sandbox's fork server did not start: {said}") from None


def _end(
    process: subprocess.Popen[bytes], channels: Sequence[socket.socket], in_use: Sequence[threading.Lock], home: Path
) -> None:
    for channel in channels:
        with suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)
    try:
        process.wait(_TO_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for channel, lock in zip(channels, in_use, strict=True):
        with lock:  # who waits for a descriptor that is closed may wake with another's of the same number
            channel.close()
    shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _file_with(data: bytes, seals: int = _SEALED) -> Iterator[int]:
    """A descriptor of a nameless file that holds `data`, and that no link of a program's to /proc/self/fd opens."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("program", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.fchmod(descriptor, 0)
    else:
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if sys.platform == "linux":
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        yield descriptor
    finally:
        os.close(descriptor)


_MAX_BYTES = 1 << 15
"""Of a test: each of its characters may take twelve."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _add_report(verdict: dict[str, Any], descriptor: int) -> None:
    """Put into a slot's `verdict` what the file says; where tests are open the program may have written that."""
    tests = verdict.get("tests", [])
    reason = ""
    found: dict[int, dict[str, Any]] = {}
    size = min(os.fstat(descriptor).st_size, (len(tests) + 2) * _MAX_BYTES)
    for line in os.pread(descriptor, size, 0).split(b"\n"):
        try:
            facts = json.loads(line) if 0 < len(line) <= _MAX_BYTES else None
        except (ValueError, RecursionError):
            continue
        if isinstance(facts, dict):
            reason = reason or _text(facts.get("reason"), MAX_MESSAGE)
            if type(facts.get("test")) is int:
                found[facts["test"]] = facts
    if verdict["status"] not in ("ok", "infra_error"):
        verdict["reason"] = verdict["reason"] or reason
    for number, test in enumerate(tests):
        if "message" in test:
            test["message"] = test["message"] or verdict["reason"]
        elif facts := found.get(number):
            wall_s = facts.get("wall_s")
            test["message"] = _text(facts.get("message"), MAX_MESSAGE)
            test["output"] = _text(facts.get("output"), MAX_OUTPUT)
            test["wall_s"] = float(wall_s) if isinstance(wall_s, int | float) and 0 <= wall_s < 1e15 else 0.0


def _text(value: Any, longest: int) -> str:
    """`value` without what a terminal obeys: control characters but tabs and line ends appear as `\\x1b`."""
    return _CONTROL.sub(lambda match: rf"\x{ord(match[0]):02x}", value[:longest]) if isinstance(value, str) else ""
