"""A process that spends a key's money as a server does, and writes down what it was billed: `URL KEY BILLS SEED`."""

from __future__ import annotations

import asyncio
import os
import random
import sys

from orchestai.execution.contract.ledger import InsufficientFundsError, pico
from orchestai.serving.store import Database, KeyLedger

LEASE_S = 1.0
RUNS_AT_ONCE = 8
CALL = pico(0.0001)
"""What one call is billed; each may be billed four times as much."""


async def spend(ledger: KeyLedger, bills: int, draw: random.Random) -> bool:
    """One run of up to three calls; whether there was money for it."""
    calls = draw.randint(1, 3)
    try:
        reservation = await ledger.reserve(0)
        async with reservation:
            await reservation.extend(4 * CALL * calls)
            for _ in range(calls):
                await reservation.commit(reservation.spent + 4 * CALL)
                billed = draw.randint(1, 4) * CALL
                os.write(bills, f"{billed}\n".encode())
                await asyncio.sleep(draw.random() * 0.01)
                reservation.spend(billed)
    except InsufficientFundsError:
        return False
    return True


async def main(url: str, key: str, bills_path: str, seed: str) -> None:
    draw = random.Random(seed)
    bills = os.open(bills_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with Database.open(url, lease_s=LEASE_S) as database:
        ledger = KeyLedger(database, key)
        print("ready", flush=True)

        async def customer() -> None:
            while await spend(ledger, bills, draw):
                pass

        await asyncio.gather(*(customer() for _ in range(RUNS_AT_ONCE)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
