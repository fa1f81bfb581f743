"""Judging a program by the task's hidden unit tests."""

from __future__ import annotations

from orchestai.errors import InfrastructureError
from orchestai.sandbox import Isolation, Program, Report, Sandbox
from orchestai.tasks.requirements import not_installed
from orchestai.tasks.task import Task


async def judge(sandbox: Sandbox, task: Task, program: str) -> Report:
    """Run `program` against the hidden tests of `task`.

    Raises:
        InfrastructureError: a module that the task needs is not installed, so every program would fail; or the sandbox
            could not find out how the task's tests can be run.
    """
    if absent := not_installed(task):
        raise InfrastructureError(f"task {task.task_id!r}: not installed: {', '.join(absent)}; install them with pip")
    return await sandbox.arun(Program(program, task.test, task.entry_point, await isolation(sandbox, task)))


async def isolation(sandbox: Sandbox, task: Task) -> Isolation:
    """How programs for `task` are kept from its tests; see `Task.isolation`.

    Raises:
        InfrastructureError: the sandbox could not judge the reference program.
    """
    if task.isolation != "auto":
        return task.isolation
    report = await sandbox.arun(Program(task.canonical_program, task.test, task.entry_point, "split"))
    if report.status == "infra_error":
        raise InfrastructureError(report.reason)
    return "split" if report.success else "shared"
