"""The almanac suite as a suite: generated on demand, split by split."""

from __future__ import annotations

from functools import partial

from orchestai.errors import UserError
from orchestai.tasks.suite import Suite
from orchestai_almanac.generate import SPLITS, generate


def load(path: str | None = None) -> Suite:
    """The suite from its seed.

    Raises:
        UserError: a path is given; tasks in files are read by the suite `written`.
    """
    if path is not None:
        raise UserError(f"tasks.path={path}: the almanac is generated; for tasks in a file set tasks.suite=written")
    return Suite("almanac", {name: partial(generate, split) for name, split in SPLITS.items()})
