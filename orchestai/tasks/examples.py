"""Visible examples: input and output literals that an instruction shows. They are the only check a worker may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """`args` and `result` are sources of Python literals."""

    args: tuple[str, ...]
    result: str


def parse_examples(text: str) -> tuple[Example, ...]:
    """The examples that `text` shows, in order; see the composition suite's docs for the wordings understood."""
    raise NotImplementedError
