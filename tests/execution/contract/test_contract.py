"""Money that many runs share must add up exactly, whoever asks first."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestai.config import Contract
from orchestai.errors import UserError
from orchestai.execution.contract.ledger import InsufficientFundsError, Ledger, pico
from orchestai.execution.contract.trimming import Fitter, InfeasibleContractError
from orchestai.tasks.task import Task
from orchestai.workers.base import Request, WorstCase
from orchestai.workflow import Workflow


async def test_what_was_not_spent_goes_back() -> None:
    ledger = Ledger(1.0)
    async with await ledger.reserve(pico(0.7)) as reservation:
        assert ledger.available_usd == pytest.approx(0.3)
        with pytest.raises(InsufficientFundsError, match=r"0\.3 USD"):
            await ledger.reserve(pico(0.4))
        reservation.spend(pico(0.2))
    assert (ledger.reserved_usd, ledger.spent_usd) == (0, 0.2)
    async with await ledger.reserve(pico(0.1)) as reservation:
        with pytest.raises(ValueError, match="reserved"):
            reservation.spend(pico(0.2))


def test_threads_never_overdraw() -> None:
    ledger = Ledger(1.0)

    async def spend() -> int:
        try:
            async with await ledger.reserve(pico(0.01)) as reservation:
                reservation.spend(pico(0.01))
        except InsufficientFundsError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(lambda number: asyncio.run(spend()), range(400))) == 100
    assert ledger.spent_usd == 1.0


# A plan too dear loses its fallbacks, then its dear workers, and is refused only when nothing cheaper is left.


TASK = Task(task_id="1", suite="run", instruct_prompt="Look it up, then say it.", scorer="exact")
PRICES = {"free": 0.0, "cheap": 0.1, "middling": 0.4, "dear": 1.0}


class Priced:
    """Every worker may cost its price, and as much again per kilobyte that it reads."""

    def worst_case(self, name: str, request: Request) -> WorstCase:
        read = sum(map(len, request.inputs.values())) / 1000
        return WorstCase(PRICES[name] * (1 + read), calls=2 if name == "free" else 1, output_bytes=1000)


FITTER = Fitter(list(PRICES), Priced(), "sink")


def plan(first: str, second: str, *fallback: str) -> Workflow:
    return Workflow(
        [
            {"id": "a", "instruction": "Look it up", "worker": first, "fallback": fallback},
            {"id": "b", "instruction": "say it", "worker": second, "depends_on": ["a"]},
        ]
    )


def workers(workflow: Workflow) -> list[tuple[str, ...]]:
    return [subtask.workers for subtask in workflow.subtasks]


def test_the_dearest_fallback_goes_first_then_the_dearest_worker_gives_way_to_its_own_fallback() -> None:
    dear = plan("dear", "cheap", "middling", "cheap")
    assert workers(FITTER.fit(TASK, dear, Contract(max_cost_usd=1.5)).workflow) == [("dear", "cheap"), ("cheap",)]
    fitted = FITTER.fit(TASK, dear, Contract(max_cost_usd=0.7))
    assert workers(fitted.workflow) == [("middling",), ("cheap",)]
    assert fitted.changes == (
        "step a: without the fallback middling",
        "step a: without the fallback cheap",
        "step a: middling instead of dear",
    )


def test_who_is_not_allowed_is_not_asked() -> None:
    fitted = FITTER.fit(TASK, plan("dear", "dear", "cheap"), Contract(allow=("middling", "cheap")))
    assert workers(fitted.workflow) == [("cheap",), ("cheap",)]
    assert fitted.changes == ("step a: cheap instead of dear, cheap", "step b: cheap instead of dear")
    with pytest.raises(UserError, match="no worker 'nobody'; the pool has free, cheap"):
        FITTER.fit(TASK, plan("dear", "dear"), Contract(allow=("nobody",)))


def test_requests_are_limited_as_money_is() -> None:
    fitted = FITTER.fit(TASK, plan("free", "dear", "cheap"), Contract(max_calls=2))
    assert fitted.bounds.requests == 2
    assert workers(fitted.workflow) == [("cheap",), ("dear",)]


@given(
    st.lists(st.sampled_from(list(PRICES)), min_size=2, max_size=2),
    st.lists(st.sampled_from(list(PRICES)), max_size=2),
    st.floats(0, 3),
    st.integers(1, 6),
    st.sets(st.sampled_from(list(PRICES)), min_size=1),
)
def test_what_fits_keeps_the_contract_and_what_is_refused_gets_one_that_is_feasible(first, fallback, usd, calls, allow):
    contract = Contract(max_cost_usd=usd, max_calls=calls, allow=tuple(sorted(allow)))
    try:
        fitted = FITTER.fit(TASK, plan(*first, *fallback), contract)
    except InfeasibleContractError as error:
        assert error.feasible.max_cost_usd is not None
        fitted = FITTER.fit(TASK, plan(*first, *fallback), error.feasible)
        contract = error.feasible
    assert fitted.bounds.cost_usd <= contract.max_cost_usd + 1e-12
    assert fitted.bounds.requests <= contract.max_calls
    assert {name for subtask in fitted.workflow.subtasks for name in subtask.workers} <= allow
