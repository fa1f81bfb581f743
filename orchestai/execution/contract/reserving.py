"""Money is set aside for making a plan, and then for running it, or the run is refused in words."""

from __future__ import annotations

from orchestai.config import Contract
from orchestai.execution.contract.ledger import Account, InsufficientFundsError, Reservation, pico, usd, whole
from orchestai.execution.contract.trimming import ContractError, FittedPlan


class OutOfFundsError(ContractError):
    """Whoever pays has less left than this run may cost."""


async def reserve_planning(
    account: Account, contract: Contract, planner: str, most_usd: float, run_id: str = ""
) -> Reservation:
    """Set aside what making a plan may cost.

    Raises:
        ContractError: the contract has less.
        OutOfFundsError: the account has.
    """
    most = pico(most_usd)
    if contract.max_cost_usd is not None and most > whole(contract.max_cost_usd):
        raise ContractError(
            f"max_cost_usd={contract.max_cost_usd:g}: the planner {planner} alone may cost {usd(most):.9g} USD; allow "
            "more, or take a checkpoint, which plans for nothing"
        )
    try:
        return await account.reserve(most, run_id)
    except InsufficientFundsError as error:
        raise OutOfFundsError(f"the ledger: planning may cost {usd(most):.9g} USD, and {error}") from None


async def reserve_plan(reservation: Reservation, fitted: FittedPlan) -> None:
    """Set the worst case of a plan aside, on top of what making it has cost.

    Raises:
        OutOfFundsError: the account has less.
    """
    more = reservation.spent + fitted.bounds.cost - reservation.amount
    try:
        await reservation.extend(max(more, 0))
    except InsufficientFundsError as error:
        raise OutOfFundsError(
            f"the ledger: this plan may cost {usd(fitted.bounds.cost):.9g} USD, and {error}; try again when other "
            "runs have ended, or allow cheaper workers"
        ) from None
