"""Executions that are judged: what logs, training and evaluation need beyond running a workflow."""

from __future__ import annotations

from collections.abc import Mapping

from orchestai.config import ExecutionConfig
from orchestai.errors import InfrastructureError
from orchestai.execution.executor import Executor
from orchestai.execution.result import JudgedExecution
from orchestai.execution.running_workflow import Workers
from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.rewards.scorers import JudgedAnswer, Scorer, judge, score
from orchestai.sandbox import Report, Sandbox
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow


class JudgingExecutor(Executor):
    """Runs workflows and judges their answers by their task's scorer.

    Args:
        rewards: scorers whose rewards are noted beside the outcome, by name.
    """

    def __init__(
        self, pool: Workers, sandbox: Sandbox, config: ExecutionConfig, rewards: Mapping[str, Scorer] | None = None
    ) -> None:
        super().__init__(pool, sandbox, config)
        self._rewards = rewards or {}

    async def execute(self, task: Task, workflow: Workflow, sample: int = 0) -> JudgedExecution:
        """`run` a workflow and judge its answer; with a fault of infrastructure on the way it is `Unscorable`."""
        execution = await self.run(task, workflow, sample)
        fault = execution.fault
        judged = JudgedAnswer(fault) if fault is not None else await judge(task, execution.answer, self.sandbox)
        outcome, report = judged.outcome, judged.report
        rewards: dict[str, float] = {}
        if isinstance(outcome, Scored):
            try:
                for name, scorer in self._rewards.items():
                    rewards[name] = await score(scorer, task, execution.answer, self.sandbox)
            except InfrastructureError as error:
                outcome = Unscorable.of(error)
        return JudgedExecution(
            **dict(execution) | {"error": execution.error or _problem(outcome, report)},
            rewards=rewards,
            outcome=outcome,
            tests_passed=report.passed if report else 0,
            tests_total=report.total if report else 0,
            sandbox=f"{report.level}/{report.isolation}" if report else "",
        )


def _problem(outcome: Outcome, report: Report | None) -> str | None:
    if report is not None:
        return report.reason or None
    return outcome.reason if isinstance(outcome, Unscorable) else None
