"""What programs see of the Python that runs them: its executables and its standard library, without any package."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_EXECUTABLE = re.compile(r"(python|pip)[\d.]*")
_LIBRARIES = ("lib", "lib64", "share/zoneinfo")
_PACKAGES = ("site-packages", "dist-packages")


def executables() -> Iterator[Path]:
    """`sys.executable`, what else is called python or pip beside it, and all that their symbolic links lead through.

    The links matter: an interpreter finds its libraries from where it lies, and its virtual environment from its name.
    """
    own = Path(os.path.abspath(sys.executable))
    waiting = [own, *(path for path in own.parent.iterdir() if _EXECUTABLE.fullmatch(path.name))]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        yield path
        if path.is_symlink():
            waiting.append(Path(os.path.normpath(path.parent / os.readlink(path))))


def environment_files() -> list[Path]:
    """What makes a folder a virtual environment."""
    prefix = Path(os.path.abspath(sys.prefix))
    lib64 = prefix / "lib64"
    files = [prefix / "pyvenv.cfg", *([lib64] if lib64.is_symlink() else [])]
    return [path for path in files if path.exists()]


def libraries() -> list[Path]:
    """Folders with the standard library and the shared libraries of the interpreter."""
    bases = {os.path.abspath(base) for base in (sys.base_prefix, sys.base_exec_prefix)}
    folders = (Path(base, name) for base in sorted(bases) for name in _LIBRARIES)
    return [folder for folder in folders if folder.is_dir()]


def package_folders(library: Path) -> list[Path]:
    """Where packages are installed below a folder of libraries, for whichever version of Python."""
    return sorted(folder for name in _PACKAGES for folder in library.glob(f"*/{name}") if folder.is_dir())
