"""Judging a program by the task's hidden unit tests."""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from importlib.util import find_spec

from orchestai.errors import InfrastructureError
from orchestai.outcome import Outcome
from orchestai.sandbox import Isolation, Program, Report, Sandbox
from orchestai.tasks.source_code import modules
from orchestai.tasks.task import Task


async def judge(sandbox: Sandbox, task: Task, program: str) -> Report:
    """Run `program` against the hidden tests of `task`.

    Where a module is not installed that the tests or the task's libraries need, or the sandbox hides it, every program
    would fail; then none is judged: the report says `infra_error`, and the outcome is Unscorable.

    Raises:
        InfrastructureError: the sandbox could not find out how the task's tests can be run.
    """
    if absent := not_installed(task):
        return Report("infra_error", reason=f"not installed: {', '.join(absent)}; install them with pip")
    if hidden := [module for module in _needed(task.test, task.libs) if not sandbox.can_import(module)]:
        names = ", ".join(hidden)
        return Report("infra_error", reason=f"hidden from programs: {names}; name them in sandbox.packages")
    return await sandbox.arun(Program(program, task.test, task.entry_point, await isolation(sandbox, task)))


def not_installed(task: Task) -> list[str]:
    """Modules that the task's tests import or that its solutions are to use, and that are not here."""
    return [module for module in _needed(task.test, task.libs) if not _is_here(module)]


@lru_cache(maxsize=4096)
def _needed(tests: str, libs: tuple[str, ...]) -> list[str]:
    """Top-level modules."""
    try:
        needed = modules(tests)
    except (SyntaxError, ValueError):  # the sandbox says what is wrong with them
        needed = set()
    return sorted(needed | {lib.partition(".")[0] for lib in libs})


@cache
def _is_here(module: str) -> bool:
    return module in sys.modules or find_spec(module) is not None


async def isolation(sandbox: Sandbox, task: Task) -> Isolation:
    """How programs for `task` are kept from its tests; see `Task.isolation`.

    Raises:
        InfrastructureError: the sandbox could not judge the reference program.
    """
    if task.isolation != "auto":
        return task.isolation
    report = await sandbox.arun(Program(task.canonical_program, task.test, task.entry_point, "split"))
    if report.status == "infra_error":
        raise InfrastructureError("sandbox", report.reason)
    return "split" if report.success else "shared"


async def code_reward_fn(task: Task, answer: str, sandbox: Sandbox) -> Outcome:
    """The fraction of the task's hidden tests that a program passes."""
    return (await judge(sandbox, task, answer)).outcome()
