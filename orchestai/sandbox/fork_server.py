"""The parent's side of the fork server: start it, hand it programs over its channels, end it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from orchestai.errors import InfrastructureError, UserError
from orchestai.sandbox.bubblewrap import NOBODY, SCRATCH, Bubblewrap
from orchestai.sandbox.inside import FIRST_UID
from orchestai.sandbox.inside.wire import ChannelClosedError, LineReader
from orchestai.sandbox.inventory import free_names
from orchestai.sandbox.program import Limits, Program

_INSIDE = Path(__file__).parent / "inside"
_BOOT = """
import importlib.util, json, os, sys
os.dup2(0, 2)
sys.path[:] = [entry for entry in sys.path if entry]
folder, settings = sys.argv[1:]
spec = importlib.util.spec_from_file_location("sandbox_inside", f"{folder}/__init__.py")
sys.modules["sandbox_inside"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["sandbox_inside"])
from sandbox_inside.server import main
sys.exit(main(json.loads(settings)))
"""
_SEALED = 1 | 2 | 4 | 8
"""F_SEAL_SEAL, _SHRINK, _GROW and _WRITE: a program must not change the file that its tests are read from."""
_START_TIMEOUT_S = 120.0
_ENVIRONMENT = {
    "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.defpath)),
    "USER": "sandbox",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # its own reserves a gigabyte of addresses, which are limited
    "LOGNAME": "sandbox",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONIOENCODING": "utf-8:surrogateescape",
    "PYTHONNOUSERSITE": "1",
}


_PATIENCE = 3
"""Wall-clock limits of a program after which a server that says nothing counts as gone."""


class SlotLostError(Exception):
    """The slot that ran a program, or the whole fork server, ended before it gave a verdict."""


class ForkServer:
    """A clean interpreter that forks a process, or two, per program. `slots` programs may run at a time.

    Args:
        bubblewrap: puts the server and its programs into namespaces; without it they have limits alone.

    Raises:
        UserError: a module of `preload` cannot be imported.
        InfrastructureError: the server does not start.
    """

    def __init__(self, slots: int, preload: Sequence[str] = (), bubblewrap: Bubblewrap | None = None) -> None:
        self._home = tempfile.mkdtemp(prefix="sandbox-")
        pairs = [socket.socketpair() for _ in range(slots)]
        self._channels = [ours for ours, _ in pairs]
        theirs = [channel for _, channel in pairs]
        descriptors = [channel.fileno() for channel in theirs]
        home = SCRATCH if bubblewrap else self._home
        level = "namespaces" if bubblewrap else "process"
        settings = {"channels": descriptors, "preload": list(preload), "home": home, "level": level}
        command = [os.path.abspath(sys.executable), "-s", "-c", _BOOT, str(_INSIDE), json.dumps(settings)]
        environment = _ENVIRONMENT | {"HOME": home, "TMPDIR": home}
        if bubblewrap:
            command = bubblewrap.command(command, [_INSIDE], _write_etc(Path(self._home), slots), environment)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._complaints,
            cwd=self._home,
            env=environment,
            pass_fds=descriptors,
            start_new_session=True,
        )
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

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def judge(self, slot: int, program: Program, names: Sequence[str], limits: Limits) -> dict[str, Any]:
        """Have `slot` run a program and wait for the verdict. One caller per slot at a time.

        Gives `status`, `reason`, `wall_s` and `tests`, an [outcome, message] for each of `names`.

        Raises:
            SlotLostError: the slot or the server died of it, or of something else.
        """
        number = next(self._ids)
        job = {
            "total": len(names),
            "entry_point": program.entry_point,
            "isolation": program.isolation,
            "limits": asdict(limits),
        }
        order = json.dumps({"id": number, "job": job}).encode() + b"\n"
        free = [name for name in free_names(program.tests) if name != program.entry_point]
        tests = json.dumps({"source": program.tests, "names": names, "free": free})
        channel = self._channels[slot]
        try:
            with self._in_use[slot], _file_with(program.code) as code_file, _file_with(tests) as tests_file:
                channel.settimeout(_PATIENCE * limits.wall_s + _START_TIMEOUT_S)
                socket.send_fds(channel, [order], [code_file, tests_file])
                while True:
                    verdict, _ = self._readers[slot].read()
                    if "ready" in verdict:
                        raise SlotLostError("its slot was killed")
                    if verdict["id"] == number:
                        return verdict
        except (ChannelClosedError, OSError) as error:
            raise SlotLostError(f"the fork server is gone: {error}") from None

    def close(self) -> None:
        """End the server with all it runs, and remove its files. Whoever waits in `judge` gets SlotLostError."""
        self._finalizer()

    def _await_slots(self) -> None:
        try:
            for channel, reader in zip(self._channels, self._readers, strict=True):
                channel.settimeout(_START_TIMEOUT_S)
                hello, _ = reader.read()
                channel.settimeout(None)
                if "failed" in hello:
                    raise UserError(f"sandbox: {hello['failed']}; install it or take it out of sandbox.preload")
                if "unable" in hello:
                    raise InfrastructureError(f"the sandbox's fork server did not start: {hello['unable']}")
        except ChannelClosedError as error:
            self._complaints.seek(0)
            said = self._complaints.read(1000).decode(errors="replace").strip() or error
            raise InfrastructureError(f"the sandbox's fork server did not start: {said}") from None


def _end(
    process: subprocess.Popen[bytes], channels: Sequence[socket.socket], in_use: Sequence[threading.Lock], home: str
) -> None:
    for channel in channels:
        with suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for channel, lock in zip(channels, in_use, strict=True):
        with lock:  # who waits for a descriptor that is closed may wake with another's of the same number
            channel.close()
    shutil.rmtree(home, ignore_errors=True)


def _write_etc(home: Path, slots: int) -> Path:
    """A folder with what programs look up in /etc; the host's own files tell too much."""
    etc = home / "etc"
    etc.mkdir(mode=0o755)
    ids = [NOBODY, *range(FIRST_UID, FIRST_UID + slots)]
    (etc / "hosts").write_text("127.0.0.1 localhost sandbox\n::1 localhost\n")
    users = (f"sandbox:x:{number}:{number}:sandbox:{SCRATCH}:/bin/sh\n" for number in ids)
    (etc / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n" + "".join(users))
    (etc / "group").write_text("root:x:0:\n" + "".join(f"sandbox:x:{number}:\n" for number in ids))
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    return etc


@contextmanager
def _file_with(text: str) -> Iterator[int]:
    """A descriptor of a nameless file that holds `text`."""
    data = text.encode("utf-8", "surrogatepass")
    if sys.platform == "linux":
        descriptor = os.memfd_create("program", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if sys.platform == "linux":
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALED)
        yield descriptor
    finally:
        os.close(descriptor)
