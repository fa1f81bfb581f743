"""Progress of a piece of work: live on a terminal, elsewhere as a line now and then."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

console = Console(stderr=True)
"""Of all that is said to people; displays that are live at a time share it."""
EVERY_S = 60.0


class LoggedProgress(Progress):
    """Bars on a terminal or in a notebook; elsewhere, where bars are shown at their end only, also a line a minute."""

    _logged: float | None = None

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self._log()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._log()

    def _log(self) -> None:
        if self.disable or self.console.is_interactive or self.console.is_jupyter:
            return
        now = self.get_time()
        if self._logged is None:
            self._logged = now
        elif now - self._logged >= EVERY_S:
            self._logged = now
            self.console.print(self.make_tasks_table(self.tasks))


def open_progress(
    title: str = "{task.description}", *, console: Console | None = console, disable: bool = False
) -> LoggedProgress:
    """Lines of a title, a bar, how many of how many, the field `status` of the task, and the time."""
    return LoggedProgress(
        TextColumn(title),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=disable,
        auto_refresh=console is None or console.is_interactive or console.is_jupyter,
        refresh_per_second=2,
    )
