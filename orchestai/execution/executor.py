"""Runs workflows on workers and assembles their answers; whoever wants them judged does so on top of it."""

from __future__ import annotations

from orchestai.config import ExecutionConfig
from orchestai.config.contract import Contract
from orchestai.execution.contract.ledger import Ledger
from orchestai.execution.contract.run_budget import RunBudget
from orchestai.execution.result import Execution
from orchestai.execution.running_workflow import NO_TERMS, RunningWorkflow, Terms, Workers
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow


class Executor:
    """Runs workflows.

    Args:
        pool: the workers.
        sandbox: runs the visible checks.
        config: assembler and limits.
    """

    def __init__(self, pool: Workers, sandbox: Sandbox, config: ExecutionConfig) -> None:
        self.pool = pool
        self.sandbox = sandbox
        self.config = config

    async def run(self, task: Task, workflow: Workflow, sample: int = 0, terms: Terms = NO_TERMS) -> Execution:
        """Run one workflow and assemble its answer.

        A worker that fails costs its own subtask, never the others' results. What is nobody's fault is the `fault` of
        the execution. A cancelled call cancels its requests. At a deadline, what runs is cancelled, and the answer is
        that of the last subtask that is done.

        Args:
            sample: index of the repetition; the same workflow with another index may be answered otherwise.
            terms: the contract's; without a budget, that of the configuration holds.

        Raises:
            UserError: the workflow names a worker that the pool does not have.
        """
        if terms.budget is None and self.config.max_cost_usd is not None:
            contract = Contract(max_cost_usd=self.config.max_cost_usd)
            async with await Ledger().reserve(0) as reservation:
                terms = terms._replace(budget=RunBudget(contract, reservation))
                return await self.begin(task, workflow, sample, terms).finish()
        return await self.begin(task, workflow, sample, terms).finish()

    def begin(self, task: Task, workflow: Workflow, sample: int = 0, terms: Terms = NO_TERMS) -> RunningWorkflow:
        """The same, to be finished by the caller, who can say what was done if it is cancelled."""
        return RunningWorkflow(self.pool, self.sandbox, self.config, task, workflow, sample, terms)
