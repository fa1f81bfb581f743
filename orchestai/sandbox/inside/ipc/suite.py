"""The tests of a program, as they come from the sandbox's parent."""

from __future__ import annotations

from typing import Any, NamedTuple


class Suite(NamedTuple):
    """Tests, as the sandbox's parent sends them: marshalled, in this order.

    Attributes:
        source: what they were compiled from, for tracebacks.
        code: the compiled module.
        names: `Class.method` of each test.
        free: names that the tests use and do not define.
        members: which attributes of them are used; `__call__` stands for any other use.
        imports: what the module imports, without `unittest`: the name that it gets, a module, and the member of it that
            it is, or nothing.
    """

    source: str
    code: Any
    names: tuple[str, ...]
    free: tuple[str, ...]
    members: dict[str, tuple[str, ...]]
    imports: tuple[tuple[str, str, str], ...]
