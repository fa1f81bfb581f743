"""Readers of plans: each turns the files of one source into plans. See docs/plans.md for a reader of your own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from orchestai.data.readers import own, published
from orchestai.data.readers.plan import Reader
from orchestai.errors import UserError
from orchestai.plugins import find_object, find_plugin, there_are

READERS: dict[str, Reader] = {
    "worfbench": published.read_worfbench,
    "worfbench-tools": partial(published.read_worfbench, tools=True),
    "asynchow": published.read_asynchow,
    "asynchow-stated": partial(published.read_asynchow, stated=True),
    "break": published.read_break,
    "orchestai": own.read_orchestai,
    "instructions": own.read_instructions,
}


def find_reader(name: str) -> Reader:
    """A reader of plans by its name, as `named_reader`."""
    return named_reader("readers", READERS, "--from", name)


def named_reader(
    group: Literal["readers", "table_readers"], own: Mapping[str, Callable[..., Any]], option: str, name: str
) -> Any:
    """A built-in reader or one of an installed package by its name, or a user's own as `MODULE:FUNCTION`.

    The module may lie in the working directory.

    Raises:
        UserError: there is no such reader.
    """
    if name in own:
        return own[name]
    if (plugin := find_plugin(group, name)) is not None:
        return plugin
    module, _, function = name.partition(":")
    if not module or not function:
        raise UserError(f"{option}: no reader {name!r}; {there_are(group, own, name)}")
    try:
        reader = find_object(name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{option}: cannot load the reader {name!r}: {error}") from None
    if not callable(reader):
        raise UserError(f"{option}: {name!r} is no function that reads a path")
    return reader
