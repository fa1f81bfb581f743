"""Money that many runs share must add up exactly, whoever asks first."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestai.execution.contract.ledger import InsufficientFundsError, Ledger, pico


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
