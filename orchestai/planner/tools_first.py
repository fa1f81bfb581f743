"""A tool that can do all of an instruction is asked for it, before what plans the rest is loaded."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock

from orchestai.execution.request import build_request
from orchestai.planner.base import Plan, Planner
from orchestai.planner.baselines.reference import WholePlanner, whole_task
from orchestai.tasks.task import Task
from orchestai.workers.base import WorkerError
from orchestai.workers.tools.worker import Tool

logger = logging.getLogger(__name__)
_SEVERAL = re.compile(
    r";|\b(?:then|afterwards|after that|finally|dann|danach|anschließend|schließlich|zuletzt)\b", re.IGNORECASE
)
"""Words between the steps of a plan."""


class ToolsFirst:
    """Gives a text of one step to the first tool that has an answer; another planner plans what none can do.

    Args:
        tools: by the names of their workers; those alone that decline what they do not understand to the last word.
        load_other: opens the other planner, when it is first needed.
    """

    def __init__(self, tools: Sequence[tuple[str, Tool]], load_other: Callable[[], Planner]) -> None:
        self._tools = tools
        self._load_other = load_other
        self._opening = Lock()
        self._other: Planner | None = None

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        plans = [self._for_a_tool(task) for task in tasks]
        left = [task for task, plan in zip(tasks, plans, strict=True) if plan is None]
        others = iter(self.load().plan(left) if left else ())
        return [plan or next(others) for plan in plans]

    def load(self) -> Planner:
        """The other planner.

        Raises:
            UserError: it cannot be opened.
        """
        with self._opening:
            if self._other is None:
                self._other = self._load_other()
            return self._other

    def _for_a_tool(self, task: Task) -> Plan | None:
        if task.wants_program or _SEVERAL.search(task.instruction):
            return None
        workflow = whole_task(task)
        request = build_request(task, workflow, workflow.subtasks[0], kind="sink")
        for name, tool in self._tools:
            try:
                tool(request)
            except WorkerError:
                continue
            except Exception as error:
                logger.warning("%s broke down: %s: %s", name, type(error).__name__, error)
                continue
            (plan,) = WholePlanner(name).plan([task])
            return replace(plan, planned_by=f"{name}, which can do all of it")
        return None
