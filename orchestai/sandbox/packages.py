"""The installed packages that programs may import: those that are named, and what these depend on.

Whatever else is installed stays hidden, whether it holds the answers of a suite or not: a list of what to hide would
miss the next package that does.
"""

from __future__ import annotations

import csv
import shutil
import site
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution
from inspect import getmodulename
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from orchestai.errors import UserError

_OURSELVES = "orchestai"
"""The distribution that holds recordings and this program."""
_METADATA = (".dist-info", ".egg-info")


@dataclass(frozen=True)
class Packages:
    """Installed packages, as files and folders of the interpreter's site-packages.

    Attributes:
        modules: top-level modules that they have.
        parts: for each site-packages folder, paths in it: of folders and of files.
    """

    modules: frozenset[str] = frozenset()
    parts: tuple[tuple[Path, tuple[str, ...]], ...] = ()

    def can_import(self, module: str) -> bool:
        """Whether a program that sees these packages and the standard library can import `module`."""
        name = module.partition(".")[0]
        return name in self.modules or name in sys.stdlib_module_names

    def stage(self, home: Path) -> list[tuple[Path, Path]]:
        """What to mount where so that these packages alone are seen: (source, target), in this order.

        In `home` it makes a folder in the place of each site-packages. Files and metadata are copied into it; folders
        are mounted on empty ones, for every mount makes every program start a little more slowly.
        """
        mounts = []
        for number, (folder, parts) in enumerate(self.parts):
            stage = home / f"site-packages-{number}"
            stage.mkdir(mode=0o755)
            mounts.append((stage, folder))
            for part in parts:
                source, target = folder / part, stage / part
                target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                if source.is_file():
                    shutil.copy2(source, target)
                elif part.endswith(_METADATA):
                    shutil.copytree(source, target)
                elif source.is_dir():
                    target.mkdir(mode=0o755)
                    mounts.append((source, folder / part))
        return mounts


@cache
def find_packages(
    names: tuple[str, ...] = (), optional: tuple[str, ...] = (), hidden: tuple[str, ...] = ()
) -> Packages:
    """The packages that hold the modules `names`, and `optional` ones where installed, with their dependencies.

    Args:
        hidden: distributions that hold answers of tasks; beside them this program's own is never among the packages.

    Raises:
        UserError: no installed package has one of `names`, or it is hidden.
    """
    unseen = set(map(canonicalize_name, (_OURSELVES, *hidden)))
    installed = _installed()
    by_module: dict[str, set[str]] = defaultdict(set)
    by_top: dict[str, set[str]] = defaultdict(set)
    for name, (_, files) in installed.items():
        for top in {file.partition("/")[0] for file in files}:
            by_top[top].add(name)
            module = top if top.isidentifier() else getmodulename(top)
            if module and module != "__pycache__":
                by_module[module].add(name)
    wanted: set[str] = set()
    for name in names:
        owners = by_module.get(name.partition(".")[0], set())
        if held := sorted(owners & unseen):
            raise UserError(
                f"sandbox.packages: {name}: {held[0]} holds answers of tasks, which programs must not see; take it out "
                "of sandbox.packages or sandbox.preload"
            )
        if not owners and name.partition(".")[0] not in sys.stdlib_module_names:
            raise UserError(
                f"sandbox: no installed package has the module {name!r} (programs see neither PYTHONPATH nor editable "
                "installs); install it with pip, or take it out of sandbox.packages or sandbox.preload"
            )
        wanted |= owners
    for name in optional:
        wanted |= by_module.get(name, set())
    seen = _with_dependencies(wanted) - unseen
    parts: dict[Path, set[str]] = {folder: set() for folder in _site_folders()}
    for metadata, files in (installed[name] for name in seen):
        for file in files:  # what a package that is not seen has part in is shown file by file
            top = file.partition("/")[0]
            parts[metadata.parent].add(top if by_top[top] <= seen and top != "__pycache__" else file)
    return Packages(
        frozenset(module for module, owners in by_module.items() if owners & seen),
        tuple((folder, tuple(sorted(some))) for folder, some in parts.items()),
    )


@cache
def _installed() -> dict[str, tuple[Path, tuple[str, ...]]]:
    """The metadata and the files of all distributions, by their normalized names; of those with the same name, of the
    one that Python finds first. Files are relative to the site-packages that both lie in."""
    found: dict[str, tuple[Path, tuple[str, ...]]] = {}
    for folder in _site_folders():
        for metadata in sorted(path for path in folder.iterdir() if path.name.endswith(_METADATA)):
            name = canonicalize_name(metadata.name.partition("-")[0].removesuffix(metadata.suffix))
            found.setdefault(name, (metadata, tuple(_files(metadata))))
    return found


def _site_folders() -> list[Path]:
    return [folder for folder in map(Path, dict.fromkeys(site.getsitepackages())) if folder.is_dir()]


def _files(metadata: Path) -> Iterator[str]:
    """Of a distribution, as its RECORD has them; where it has none, what its metadata calls its top level."""
    record, top_level = metadata / "RECORD", metadata / "top_level.txt"
    if record.is_file():
        with record.open(encoding="utf-8", newline="") as lines:
            yield from (row[0] for row in csv.reader(lines) if row and not row[0].startswith(("..", "/")))
        return
    yield metadata.name
    for name in top_level.read_text(encoding="utf-8").split() if top_level.is_file() else ():
        yield from (path.name for path in metadata.parent.glob(f"{name}*") if path.name.partition(".")[0] == name)


def _with_dependencies(wanted: set[str]) -> set[str]:
    """`wanted`, what they require, and so on, as far as it is installed."""
    installed = _installed()
    waiting: list[tuple[str, frozenset[str]]] = [(name, frozenset()) for name in sorted(wanted)]
    seen = set(waiting)
    for name, extras in waiting:
        for needs in map(Requirement, Distribution.at(installed[name][0]).requires or ()):
            other = canonicalize_name(needs.name), frozenset(needs.extras)
            is_needed = needs.marker is None or any(needs.marker.evaluate({"extra": extra}) for extra in ("", *extras))
            if is_needed and other[0] in installed and other not in seen:
                seen.add(other)
                waiting.append(other)
    return {name for name, _ in seen}
