"""An answer all the same: where the planner fails, one worker is asked for the whole, and the receipt says so."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from orchestai.config import Contract, WorkersConfig
from orchestai.errors import InfrastructureError
from orchestai.execution.contract.deadline import Clock
from orchestai.planner.base import Plan
from orchestai.planner.baselines import WholePlanner
from orchestai.tasks.task import Task
from orchestai.workers.base import WorkerCard
from orchestai.workers.circuit_breaker import CircuitBreaker


class NobodyLeftError(InfrastructureError):
    """No worker that the contract allows is in order; nothing was spent.

    Attributes:
        after_s: when the first of them is tried again.
    """

    def __init__(self, names: Collection[str], after_s: float) -> None:
        super().__init__("server", f"out of order: {', '.join(names)}; come again in {after_s:.0f} s")
        self.after_s = after_s


@dataclass(frozen=True)
class Resilience:
    """When a planner or a worker is given up.

    Attributes:
        planner_s: longest wait for a plan; never more than half of the time that there is.
        failures: in a row, after which a worker or the planner rests.
        rest_s: how long.
        slow_s: a worker that is cut off by a deadline has failed if the deadline was at least that far away; a shorter
            one says nothing.
    """

    planner_s: float = 10.0
    failures: int = 5
    rest_s: float = 10.0
    slow_s: float = 5.0

    def breaker(self) -> CircuitBreaker:
        return CircuitBreaker(self.failures, self.rest_s)

    def deadline_of_plan(self, clock: Clock) -> float:
        """On the clock of `time.monotonic`."""
        left = clock.seconds_left()
        return clock.now() + (self.planner_s if left is None else min(self.planner_s, left / 2))


def in_order(contract: Contract, names: Sequence[str], breakers: dict[str, CircuitBreaker]) -> Contract:
    """The contract without the workers that are out of order.

    Raises:
        NobodyLeftError: there is none else.
    """
    out = {name for name, breaker in breakers.items() if breaker.is_open}
    if not out:
        return contract
    allowed = [name for name in names if not contract.allow or name in contract.allow]
    if left := [name for name in allowed if name not in out]:
        return contract.model_copy(update={"allow": tuple(left)})
    raise NobodyLeftError(allowed, min((breakers[name].seconds_left for name in allowed), default=1.0))


def single_worker_plan(
    task: Task, cards: Sequence[WorkerCard], allowed: Collection[str], config: WorkersConfig
) -> Plan:
    """The whole task to the strongest worker as the cascade or else the prices say, the weaker ones after it."""
    strength = {name: place for place, name in enumerate(config.cascade)}
    usable = [card for card in cards if not allowed or card.name in allowed]
    models = [card for card in usable if card.kind == "model"] or usable
    ranked = sorted(models, key=lambda card: (strength.get(card.name, -1), card.price_usd), reverse=True)
    first, *others = [card.name for card in ranked]
    return WholePlanner(first, others).plan([task])[0]
