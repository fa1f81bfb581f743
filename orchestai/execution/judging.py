"""Executions that are judged: what logs, training and evaluation need beyond running a workflow."""

from __future__ import annotations

from orchestai.errors import InfrastructureError
from orchestai.execution.executor import Executor
from orchestai.execution.result import Execution, JudgedExecution
from orchestai.outcome import Outcome, Unscorable
from orchestai.rewards.unit_tests import judge
from orchestai.sandbox import Report
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow


class JudgingExecutor(Executor):
    """Runs workflows and judges their answers by their task's hidden tests."""

    async def execute(self, task: Task, workflow: Workflow, sample: int = 0) -> JudgedExecution:
        """`run` a workflow and judge its answer; with a fault of infrastructure on the way it is `Unscorable`."""
        execution = await self.run(task, workflow, sample)
        outcome, report = await self._judge(task, execution)
        return JudgedExecution(
            **dict(execution) | {"error": execution.error or _problem(outcome, report)},
            outcome=outcome,
            tests_passed=report.passed if report else 0,
            tests_total=report.total if report else 0,
            sandbox=f"{report.level}/{report.isolation}" if report else "",
        )

    async def _judge(self, task: Task, execution: Execution) -> tuple[Outcome, Report | None]:
        if execution.fault is not None:
            return execution.fault, None
        try:
            report = await judge(self.sandbox, task, execution.answer)
        except InfrastructureError as error:
            return Unscorable.of(error), None
        return report.outcome(), report


def _problem(outcome: Outcome, report: Report | None) -> str | None:
    if report is not None:
        return report.reason or None
    return outcome.reason if isinstance(outcome, Unscorable) else None
