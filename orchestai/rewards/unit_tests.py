"""Judging a program by the task's hidden unit tests."""

from __future__ import annotations

from orchestai.sandbox import Program, Report, Sandbox
from orchestai.tasks.task import Task


async def judge(sandbox: Sandbox, task: Task, program: str) -> Report:
    """Run `program` against the hidden tests of `task`."""
    return await sandbox.arun(Program(program, task.test, task.entry_point, task.isolation))
