"""Verdicts of the sandbox, each reached once: workflows of one task share most of their steps' sources."""

from __future__ import annotations

from collections.abc import Sequence

from orchestai.rewards.unit_tests import judge
from orchestai.sandbox import Report, Sandbox
from orchestai.sandbox.examples import passes_examples
from orchestai.tasks.examples import Example
from orchestai.tasks.task import Task
from orchestai.workers.base import Signature

_UNSURE = frozenset({"timeout", "died"})
_FINAL = frozenset({"ok", "syntax_error", "no_entry_point", "memory"})


class Judgements:
    """Checks and tests programs, and remembers verdicts on the same source as long as it lives.

    Not remembered are reports that another try could change (time-outs, deaths, faults of the sandbox) and those on
    tasks that need `shared` isolation, whose programs may depend on the world outside.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._checks: dict[tuple[str, Signature, tuple[Example, ...]], bool] = {}
        self._reports: dict[tuple[str, str, str], Report] = {}

    async def passes(self, source: str, signature: Signature, examples: Sequence[Example]) -> bool:
        """Whether `source` gives every example's result.

        Raises:
            InfrastructureError: the sandbox could not judge it.
        """
        key = (source, signature, tuple(examples))
        if key not in self._checks:
            self._checks[key] = await passes_examples(self._sandbox, source, signature, examples)
        return self._checks[key]

    async def judge(self, task: Task, program: str) -> Report:
        """The report of the hidden tests of `task`."""
        key = (task.entry_point, task.test, program)
        if key in self._reports:
            return self._reports[key]
        report = await judge(self._sandbox, task, program)
        if report.status in _FINAL and report.isolation == "split" and not _UNSURE & {t.outcome for t in report.tests}:
            self._reports[key] = report
        return report
