"""Names that users write: what `MODULE:NAME` stands for, and what a misspelled one may have meant."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`; did you mean 'NAME'?` for the known name that is most similar; empty where none is similar enough."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def find_object(name: str) -> Any:
    """The object that `MODULE:NAME` stands for; the module may lie in the working directory.

    Raises:
        ImportError: there is no such module, or it cannot be imported.
        AttributeError: the module has no such name.
    """
    module, _, attribute = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    return getattr(import_module(module), attribute)
