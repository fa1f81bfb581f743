"""The deadline of a contract that was not kept."""

from __future__ import annotations

from orchestai.config import Contract
from orchestai.execution.contract.trimming import ContractError
from orchestai.execution.result import Execution


class DeadlineError(ContractError):
    """The deadline came before there was an answer, or before it was whole where `on_deadline` is `error`."""


def require_whole(execution: Execution, contract: Contract) -> None:
    """Refuse a part of the answer where the contract wants the whole.

    Raises:
        DeadlineError: the deadline came before all steps were done.
    """
    if execution.partial and contract.on_deadline == "error":
        done = sum(result.status == "done" for result in execution.results)
        raise DeadlineError(
            f"deadline_s={contract.deadline_s:g}: {done} of {len(execution.workflow)} steps were done; "
            "allow more time, or take what there is with on_deadline=partial"
        )
