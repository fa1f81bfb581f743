"""Tasks that wait for a planner, which gets those that came first together."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from orchestai.admission import by_deadline
from orchestai.planner.base import Plan
from orchestai.planner.serving import ServedPlanner
from orchestai.tasks.task import Task


class QueuedTask:
    """A task to be planned.

    Attributes:
        asked: whether the planner has been given it.
        outcome: its plan, or what the planner raised.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.asked = False
        self.outcome: asyncio.Future[Plan | BaseException] = asyncio.get_running_loop().create_future()


class PlanningQueue:
    """Calls a planner with at most `together` tasks, and `at_a_time` such calls, in threads of its own, so that one
    that hangs holds up nothing else.

    The next call begins when the event loop has begun to run the plans of the one before: where instructions come
    faster than that, they wait here, and the loop stays quick.
    """

    def __init__(self, planner: ServedPlanner) -> None:
        self.planner = planner
        self._threads = None if planner.at_once else ThreadPoolExecutor(planner.at_a_time, "planner")
        self._waiting: OrderedDict[QueuedTask, None] = OrderedDict()
        self._callers: set[asyncio.Task[None]] = set()

    async def plan(self, queued: QueuedTask, deadline: float | None) -> Plan:
        """The plan of a task.

        Args:
            deadline: on the clock of `time.monotonic`; None is none.

        Raises:
            TooLateError: there was no plan by the deadline.
            BaseException: what the planner raises for this task.
        """
        if self._threads is None:
            queued.asked = True
            return self.planner.plan([queued.task])[0]
        self._waiting[queued] = None
        if len(self._callers) < self.planner.at_a_time:
            caller = asyncio.ensure_future(self._call(self._threads))
            self._callers.add(caller)
            caller.add_done_callback(self._callers.discard)
        try:
            outcome = await by_deadline(queued.outcome, deadline)
        finally:
            self._waiting.pop(queued, None)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def _call(self, threads: Executor) -> None:
        """Plan until nobody waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            count = min(self.planner.together, len(self._waiting))
            together = [self._waiting.popitem(last=False)[0] for _ in range(count)]
            for queued in together:
                queued.asked = True
            outcomes = await loop.run_in_executor(threads, _plan_each, self.planner, together)
            for queued, outcome in zip(together, outcomes, strict=True):
                if not queued.outcome.done():
                    queued.outcome.set_result(outcome)
            await asyncio.sleep(0)


def _plan_each(planner: ServedPlanner, queued: Sequence[QueuedTask]) -> Sequence[Plan | BaseException]:
    """Plan tasks together; where that fails each alone, so that it fails only for those whose fault it is."""
    try:
        return planner.plan([one.task for one in queued])
    except BaseException as error:
        return [error] if len(queued) == 1 else [outcome for one in queued for outcome in _plan_each(planner, [one])]
