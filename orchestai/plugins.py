"""Objects that users name: `MODULE:NAME`, and what installed packages of others add by their entry points."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, TypeAlias

from orchestai.errors import UserError

_beside: list[Path] = []


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`; did you mean 'NAME'?` for the known name that is most similar; empty where none is similar enough."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def find_object(name: str) -> Any:
    """The object that `MODULE:NAME` stands for; raises ImportError or AttributeError.

    The module may lie in the working directory, or beside a configuration that was read. Those folders are searched for
    it and for what it imports at once, not for what it imports later.
    """
    module, _, attribute = name.partition(":")
    entries = [entry for entry in map(str, (Path.cwd(), *_beside)) if entry not in sys.path]
    sys.path[:0] = entries
    try:
        return getattr(import_module(module), attribute)
    finally:
        for entry in entries:
            sys.path.remove(entry)


def find_modules_beside(file: Path) -> None:
    """Let `find_object` look into the folder of a configuration, after the working directory."""
    if (folder := file.resolve().parent) not in _beside:
        _beside.append(folder)


Group: TypeAlias = Literal["workers", "scorers", "suites", "readers", "table_readers"]
"""Of entry points, which are called `orchestai.workers` and so on."""


def find_plugin(group: Group, name: str) -> Callable[..., Any] | None:
    """What an installed package calls `name` in a group; None where no package does. Other plugins are not imported."""
    point = next((point for point in _points(group) if point.name == name), None)
    if point is None:
        return None
    where = f"{name!r} of the installed package {_package(point)} ({point.value}, entry point orchestai.{group})"
    try:
        found: Callable[..., Any] = point.load()
    except Exception as error:  # whatever the package raises
        raise UserError(
            f"{where} cannot be imported: {type(error).__name__}: {error}; mend or uninstall the package"
        ) from error
    if not callable(found):
        raise UserError(f"{where} is neither a function nor a class")
    return found


def there_are(group: Group, own: Iterable[str], name: str) -> str:
    """What a message about an unknown `name` ends with: the known ones, those of packages too, and the likeliest."""
    own, others = list(own), _points(group)
    listed = ", ".join([*own, *(f"{point.name} (of {_package(point)})" for point in others)])
    return f"there are {listed}, or write MODULE:NAME{did_you_mean(name, [*own, *(point.name for point in others)])}"


def _points(group: Group) -> list[EntryPoint]:
    return _points_along(tuple(sys.path), group)


@lru_cache(maxsize=16)
def _points_along(path: tuple[str, ...], group: Group) -> list[EntryPoint]:
    """Those of the packages on `sys.path`, each of which is looked at; an answer may be judged per millisecond."""
    return sorted(entry_points(group=f"orchestai.{group}"), key=lambda point: point.name)


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
