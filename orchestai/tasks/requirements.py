"""What must be installed for a task's programs and tests to run at all."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

from orchestai.tasks.source_code import modules
from orchestai.tasks.task import Task


def not_installed(task: Task) -> list[str]:
    """Modules that the task's tests import or that its solutions are to use, and that are not here."""
    try:
        needed = modules(task.test)
    except (SyntaxError, ValueError):  # the sandbox says what is wrong with them
        needed = set()
    return sorted(module for module in needed | {lib.partition(".")[0] for lib in task.libs} if not _is_here(module))


def with_modules(tasks: Sequence[Task]) -> tuple[list[Task], list[str]]:
    """The tasks whose modules are all installed, and the modules that the others miss.

    Without them every program fails, and a reward would say that the plan was to blame.
    """
    missing = [not_installed(task) for task in tasks]
    kept = [task for task, absent in zip(tasks, missing, strict=True) if not absent]
    return kept, sorted({module for absent in missing for module in absent})


@cache
def _is_here(module: str) -> bool:
    return module in sys.modules or find_spec(module) is not None
