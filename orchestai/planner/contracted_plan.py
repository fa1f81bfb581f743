"""The workers of a plan under a contract: whom it prefers, how sure it wants to be, and what it may cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from orchestai.config.running import Contract
from orchestai.errors import UserError
from orchestai.execution.contract.forecast import Forecast, WholeForecast
from orchestai.execution.contract.trimming import ContractError, FittedPlan, Fitter
from orchestai.planner.base import Plan
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow

if TYPE_CHECKING:  # of checkpoints alone; what reads estimates takes seconds to import
    from orchestai.estimate.plan_options import PlanOptions
    from orchestai.planner.outlook import PlanOutlook, PoolOutlook

KEPT = "prefer: nothing is known of how these workers do on such steps, so the plan keeps its own"


@dataclass(frozen=True, eq=False)
class ContractedPlan:
    """A plan that keeps its contract, and what is expected of it and of the best single worker; None: nobody knows."""

    fitted: FittedPlan
    outlook: PlanOutlook | None = None
    forecast: Forecast | None = None
    best_single: WholeForecast | None = None


@dataclass(frozen=True, eq=False)
class PlanContractor:
    """Fits plans to contracts.

    Args:
        fitter: knows worst cases.
        pool: what is known of the pool's workers; None where nothing is.
        longest: most workers to ask for one step.
    """

    fitter: Fitter
    pool: PoolOutlook | None
    longest: int

    def fit(self, task: Task, plan: Plan, contract: Contract) -> ContractedPlan:
        """The plan with its own workers, or those that the contract's `prefer` and `min_success` ask for.

        The estimate chooses them. A plan some of whose workers it does not know keeps its own: what it knows of a few
        says nothing of whether they are better. With `min_success` alone these are the cheapest that reach it.

        Raises:
            ContractError: no choice of workers is sure enough, or keeps the contract, or nobody knows how sure one is.
            UserError: there is no plan, or the contract names workers that the pool does not have.
        """
        if plan.workflow is None:
            raise UserError(f"no plan: {plan.error}")
        allowed = self.fitter.allowed(contract)
        if self.pool is None or not set(allowed) & self.pool.place.keys():
            self._refuse_unknown(contract)
            return self._kept(task, plan.workflow, contract, None)
        outlook = self.pool.of(plan, task.instruction)
        if outlook is not None and not outlook.is_familiar:
            outlook = None
        if outlook is None or outlook.confidence is None:
            self._refuse_unknown(contract)
        own = None if outlook is None else outlook.forecast(plan.workflow)
        wanted = contract.min_success is not None or (contract.prefer is not None and own is not None)
        if outlook is not None and wanted:
            planned = self._chosen(task, plan.workflow, contract, outlook)
        else:
            planned = self._kept(task, plan.workflow, contract, outlook)
        return replace(planned, best_single=self.pool.whole(task.instruction, allowed))

    def _kept(self, task: Task, workflow: Workflow, contract: Contract, outlook: PlanOutlook | None) -> ContractedPlan:
        """The plan with its own workers, as far as the contract's limits allow."""
        fitted = self.fitter.fit(task, workflow, contract)
        if contract.prefer is not None:
            fitted = replace(fitted, changes=(*fitted.changes, KEPT))
        return ContractedPlan(fitted, outlook, None if outlook is None else outlook.forecast(fitted.workflow))

    def _refuse_unknown(self, contract: Contract) -> None:
        if contract.min_success is not None:
            reason = (
                "this planner has no estimate of its workers, which prepare and train-phase1 learn from logs"
                if self.pool is None
                else "nobody knows how sure this plan is, or what workers do on steps like its own"
            )
            raise ContractError(f"min_success={contract.min_success:g}: {reason}; leave it out, or collect and train")
        if contract.prefer is not None and self.pool is None:
            raise ContractError(
                f"prefer={contract.prefer:g}: this planner has no estimate of its workers to choose them by; run "
                "prepare and train-phase1, or leave it out"
            )

    def _chosen(self, task: Task, workflow: Workflow, contract: Contract, outlook: PlanOutlook) -> ContractedPlan:
        """The best option that the contract's limits allow as it is; where they allow none, the best one trimmed."""
        allowed = self.fitter.allowed(contract)
        options = outlook.options(allowed, self.longest)
        least, reached = contract.min_success or 0.0, 0.0
        trimmed: ContractedPlan | None = None
        for place in self._ranked(options, contract, outlook):
            fitted = self.fitter.fit(task, outlook.with_workers(options.workers[place]), contract)
            forecast = outlook.forecast(fitted.workflow)
            success = None if forecast is None else forecast.success
            if contract.min_success is None or (success is not None and success >= least):
                planned = ContractedPlan(fitted, outlook, forecast)
                if not fitted.changes:
                    return planned
                trimmed = trimmed or planned
            reached = max(reached, success or 0.0)
        if trimmed is not None:
            return trimmed
        likeliest = float(options.success.max())
        beyond = "" if likeliest < least else " within the other limits of the contract"
        raise ContractError(
            f"min_success={least:g}: no choice of workers for this plan reaches it{beyond}; the likeliest is right "
            f"with a chance of {reached if beyond else likeliest:.2f}, the plan itself with {outlook.confidence:.2f}; "
            "ask for less, or allow more workers or money"
        )

    def _ranked(self, options: PlanOptions, contract: Contract, outlook: PlanOutlook) -> Iterator[int]:
        """The options that are sure enough, best first; the cheapest is best where nothing is preferred."""
        from orchestai.estimate.plan_options import by_preference

        typical = outlook.pool.estimate.typical_usd
        sure = options.success >= (contract.min_success or 0.0)
        order = by_preference(options.success, options.price / max(typical, 1e-12), contract.prefer or 0.0)
        yield from (int(place) for place in order if sure[place])
