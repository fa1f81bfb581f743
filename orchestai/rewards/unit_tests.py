"""Judging a program by the task's hidden unit tests."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Literal
from weakref import WeakKeyDictionary

from orchestai.errors import InfrastructureError
from orchestai.outcome import Outcome
from orchestai.sandbox import Isolation, Program, Report, Sandbox
from orchestai.sandbox.program import OPEN_REFUSED
from orchestai.tasks.task import Task
from orchestai.text.syntax import modules

_decided: WeakKeyDictionary[Sandbox, dict[tuple[str, str, str], Isolation | Report]] = WeakKeyDictionary()
"""How tasks are judged, or how their reference program fails, by tests, entry point and reference."""


async def judge(sandbox: Sandbox, task: Task, program: str) -> Report:
    """Run `program` against the hidden tests of `task`.

    Where a module is not installed that the tests or the task's libraries need, or the sandbox hides it, every program
    would fail; then none is judged: the report says `infra_error`. So does no program where the reference passes in
    neither way of judging: `refused`. Either way the outcome is Unscorable.

    Raises:
        InfrastructureError: the sandbox could not find out how the task's tests can be run.
    """
    if absent := not_installed(task):
        return Report("infra_error", reason=f"not installed: {', '.join(absent)}; install them with pip")
    if hidden := [module for module in _needed(task.test, task.libs) if not sandbox.can_import(module)]:
        names = ", ".join(hidden)
        return Report("infra_error", reason=f"hidden from programs: {names}; name them in sandbox.packages")
    chosen = await isolation(sandbox, task)
    if isinstance(chosen, Report):
        said = chosen.reason or next((test.message for test in chosen.tests if test.outcome != "passed"), "")
        reason = (
            f"left out: the reference program of {task.task_id} passes {chosen.passed} of {chosen.total} tests: {said}"
        )
        return replace(chosen, status="refused", passed=0, reason=reason)
    return await sandbox.arun(_program(task, program, chosen))


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


async def isolation(sandbox: Sandbox, task: Task) -> Isolation | Literal["auto"] | Report:
    """How programs for `task` are judged: as it says; else the first way in which its reference program passes.

    `auto`, by the tests' source, where there is no reference; where it passes in neither way, how it fails.

    Raises:
        InfrastructureError: the sandbox could not judge the reference program.
    """
    if task.isolation != "auto" or not task.canonical_program:
        return task.isolation
    decided = _decided.setdefault(sandbox, {})
    key = task.test, task.entry_point, task.canonical_program
    if key not in decided:
        decided[key] = await _first_that_passes(sandbox, task)
    return decided[key]


async def _first_that_passes(sandbox: Sandbox, task: Task) -> Isolation | Report:
    ways: tuple[Isolation, ...] = ("sealed", "open")
    for way in ways:
        report = await sandbox.arun(_program(task, task.canonical_program, way))
        if report.status == "infra_error":
            raise InfrastructureError("sandbox", report.reason)
        if report.success or report.reason.startswith(OPEN_REFUSED):
            return way
    return report


def _program(task: Task, code: str, isolation: Isolation | Literal["auto"]) -> Program:
    return Program(code, task.test, task.entry_point, isolation, task.complete_prompt or task.code_prompt)


async def code_reward_fn(task: Task, answer: str, sandbox: Sandbox) -> Outcome:
    """The fraction of the task's hidden tests that a program passes."""
    return (await judge(sandbox, task, answer)).outcome()
