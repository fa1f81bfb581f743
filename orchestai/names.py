"""Names that users write: what `MODULE:NAME` stands for, and what a misspelled one may have meant."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

_beside: list[Path] = []


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`; did you mean 'NAME'?` for the known name that is most similar; empty where none is similar enough."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def find_object(name: str) -> Any:
    """The object that `MODULE:NAME` stands for.

    The module may lie in the working directory, or beside a configuration that was read. Those folders are searched for
    it and for what it imports at once, not for what it imports later.

    Raises:
        ImportError: there is no such module, or it cannot be imported.
        AttributeError: the module has no such name.
    """
    module, _, attribute = name.partition(":")
    with _importing_from(Path.cwd(), *_beside):
        return getattr(import_module(module), attribute)


def find_modules_beside(file: Path) -> None:
    """Let `find_object` look into the folder of a configuration, after the working directory."""
    if (folder := file.resolve().parent) not in _beside:
        _beside.append(folder)


@contextmanager
def _importing_from(*folders: Path) -> Iterator[None]:
    entries = [entry for entry in map(str, folders) if entry not in sys.path]
    sys.path[:0] = entries
    try:
        yield
    finally:
        for entry in entries:
            sys.path.remove(entry)


def as_utf8(text: str) -> str:
    """The text with a question mark for whatever no file in UTF-8 can hold, such as half a surrogate pair."""
    return text.encode("utf-8", "replace").decode()
