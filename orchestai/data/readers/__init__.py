"""Readers of plans: each turns the files of one source into plans. See docs/plans.md for a reader of your own."""

from __future__ import annotations

from functools import partial

from orchestai.data.readers import asynchow, own, qdmr, worfbench
from orchestai.data.readers.plan import Reader
from orchestai.errors import UserError
from orchestai.names import find_object
from orchestai.plugins import find_plugin, there_are

READERS: dict[str, Reader] = {
    "worfbench": worfbench.read,
    "worfbench-tools": partial(worfbench.read, tools=True),
    "asynchow": asynchow.read,
    "asynchow-stated": partial(asynchow.read, stated=True),
    "break": qdmr.read,
    "break-worded": partial(qdmr.read, in_words=True),
    "orchestai": own.read_orchestai,
    "langgraph-json": own.read_langgraph,
    "instructions": own.read_instructions,
}


def find_reader(name: str) -> Reader:
    """A built-in reader or one of an installed package by its name, or a user's own as `MODULE:FUNCTION`.

    The module may lie in the working directory.

    Raises:
        UserError: there is no such reader.
    """
    if name in READERS:
        return READERS[name]
    if (plugin := find_plugin("readers", name)) is not None:
        return plugin
    module, _, function = name.partition(":")
    if not module or not function:
        raise UserError(f"--from: no reader {name!r}; {there_are('readers', READERS, name)}")
    try:
        reader: Reader = find_object(name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"--from: cannot load the reader {name!r}: {error}") from None
    if not callable(reader):
        raise UserError(f"--from: {name!r} is no function that reads a path")
    return reader
