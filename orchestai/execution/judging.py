"""Executions that are judged: what logs, training and evaluation need beyond running a workflow."""

from __future__ import annotations

from orchestai.execution.executor import Executor
from orchestai.execution.result import JudgedExecution
from orchestai.outcome import Outcome, Unscorable
from orchestai.rewards.scorers import JudgedAnswer, judge
from orchestai.sandbox import Report
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow


class JudgingExecutor(Executor):
    """Runs workflows and judges their answers by their task's scorer."""

    async def execute(self, task: Task, workflow: Workflow, sample: int = 0) -> JudgedExecution:
        """`run` a workflow and judge its answer; with a fault of infrastructure on the way it is `Unscorable`."""
        execution = await self.run(task, workflow, sample)
        fault = execution.fault
        judged = JudgedAnswer(fault) if fault is not None else await judge(task, execution.answer, self.sandbox)
        outcome, report = judged.outcome, judged.report
        return JudgedExecution(
            **dict(execution) | {"error": execution.error or _problem(outcome, report)},
            outcome=outcome,
            tests_passed=report.passed if report else 0,
            tests_total=report.total if report else 0,
            sandbox=f"{report.level}/{report.isolation}" if report else "",
        )


def _problem(outcome: Outcome, report: Report | None) -> str | None:
    if report is not None:
        return report.reason or None
    return outcome.reason if isinstance(outcome, Unscorable) else None
