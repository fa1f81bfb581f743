"""Whoever waits gets in in its turn, and whoever gives up takes no place with it."""

from __future__ import annotations

import asyncio
import time

import pytest

from orchestai.admission import Admission, TooLateError


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_came_first_enters_first() -> None:
    admission, entered = Admission(2), []

    async def enter(number: int) -> None:
        await admission.enter()
        entered.append(number)

    waiting = [asyncio.ensure_future(enter(number)) for number in range(5)]
    await _settle()
    assert entered == [0, 1]
    for count in (3, 4, 5):
        admission.leave()
        await _settle()
        assert entered == list(range(count))
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("settled", [True, False])
async def test_a_place_given_to_whoever_was_cancelled_goes_to_the_next(settled: bool) -> None:
    """Cancelled before its turn, or at the very moment of it."""
    admission = Admission(1)
    await admission.enter()
    leaver, next_one = (asyncio.ensure_future(admission.enter()) for _ in range(2))
    await _settle()
    if settled:
        leaver.cancel()
        await _settle()
        admission.leave()
    else:
        admission.leave()
        leaver.cancel()
    await asyncio.wait_for(next_one, 10)
    assert leaver.cancelled()


async def test_a_deadline_ends_the_wait_and_costs_no_place() -> None:
    admission = Admission(1)
    await admission.enter(time.monotonic() - 1)
    with pytest.raises(TooLateError):
        await admission.enter(time.monotonic() + 0.01)
    admission.leave()
    await asyncio.wait_for(admission.enter(), 10)
