"""Progress of a piece of work, and of a run of several: live on a terminal, elsewhere as a line now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

console = Console(stderr=True)
"""Of all that is said to people; displays that are live at a time share it."""
EVERY_S = 60.0
_FIRST_S, _NEXT_S = 8.0, 15.0
"""Seconds after which a run of several parts says how far it is where nobody watches, and then again."""
_USUAL_S = 20.0
"""Seconds for which a machine counts as having worked as fast as was expected, before it is seen how fast it is."""


class RunProgress:
    """Says how far a run of several parts is, and how long it probably still takes (a context manager).

    On a terminal its line stands above the bars of the present part. Elsewhere a line a few times a minute says both.

    Args:
        title: of the run.
        expected: seconds that each part takes on an idle machine.
    """

    def __init__(self, title: str, expected: Mapping[str, float]) -> None:
        self._title = title
        self._expected, self._parts = dict(expected), list(expected)
        self._began = time.monotonic()
        self._part, self._done_s = "", 0.0
        self._bars: LoggedProgress | None = None
        self._live = Live(
            console=console, get_renderable=lambda: Text(self.line()), refresh_per_second=2, transient=True
        )
        self._ended = threading.Event()

    def __enter__(self) -> RunProgress:
        self._token = _run.set(self)
        if console.is_interactive:
            self._live.start()
        else:
            threading.Thread(target=self._log, name="progress", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._ended.set()
        self._live.stop()
        _run.reset(self._token)

    def begin(self, part: str) -> None:
        """The part before is done, and this one begins."""
        self._done_s += self._expected.pop(self._part, 0.0)
        self._part, self._bars = part, None

    def skip(self, part: str) -> None:
        """A part was done by an earlier run."""
        self._expected.pop(part)

    def watch(self, bars: LoggedProgress, before: float) -> None:
        """The newest of these bars says how far the present part is, of which an earlier run did a share before."""
        self._bars, self._before = bars, before
        self._expected[self._part] *= 1 - before

    def line(self, spent_s: float | None = None) -> str:
        """How far the part and the run are, and how long the run probably still takes, by the pace of what is done."""
        said, done_s = f"{self._title}: {self._part or 'beginning'}", self._done_s
        bar = self._bars.tasks[-1] if self._bars is not None else None
        if bar is not None and bar.total:
            share = (bar.completed / bar.total - self._before) / max(1 - self._before, 1e-9)
            done_s += share * self._expected[self._part]
            said += f" {bar.completed:g}/{bar.total:g} {bar.fields.get('status', '')}".rstrip()
        spent_s = time.monotonic() - self._began if spent_s is None else spent_s
        number = self._parts.index(self._part) + 1 if self._part else 1
        left_s = self._done_s + sum(self._expected.values()) - done_s
        left_s *= (spent_s + _USUAL_S) / (done_s + _USUAL_S)
        left = f"{max(5, round(left_s / 5) * 5)} s" if left_s < 55 else f"{round(left_s / 60, left_s < 600):g} min"
        minutes, seconds = divmod(int(spent_s), 60)
        return f"{said}; part {number} of {len(self._parts)}, {minutes}:{seconds:02} so far, about {left} left"

    def _log(self) -> None:
        wait_s = _FIRST_S
        while not self._ended.wait(wait_s):
            console.print(self.line(), highlight=False, markup=False, soft_wrap=True)
            wait_s = _NEXT_S


_run: ContextVar[RunProgress | None] = ContextVar("run", default=None)


class LoggedProgress(Progress):
    """Bars on a terminal or in a notebook; elsewhere, where bars are shown at their end only, also a line a minute.

    Within a run of several parts, that run says the lines.
    """

    _logged: float | None = None

    def add_task(self, description: str, *args: Any, **settings: Any) -> TaskID:
        line = super().add_task(description, *args, **settings)
        if (run := _run.get()) is not None and not self.disable:
            task = self.tasks[-1]
            run.watch(self, task.completed / task.total if task.total else 0.0)
        return line

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self._log()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._log()

    def _log(self) -> None:
        if self.disable or self.console.is_interactive or self.console.is_jupyter or _run.get() is not None:
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
