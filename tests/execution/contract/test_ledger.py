"""Money that many runs share must add up exactly, whoever asks first."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestai.execution.contract.ledger import InsufficientFundsError, Ledger, pico, usd


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


@given(st.lists(st.floats(1e-9, 10), min_size=1, max_size=50))
def test_a_limit_that_was_printed_is_enough_for_what_it_was_printed_for(amounts: list[float]) -> None:
    """Sums of floats miss by a little in either direction, and a feasible contract was refused."""
    total = usd(sum(map(pico, amounts)))
    ledger = Ledger(float(f"{total:.17g}"))
    for amount in amounts:
        asyncio.run(ledger.reserve(pico(amount)))
    assert ledger.available_usd == 0


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
