"""A training that runs for hours into a log file says how far it is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn

from orchestai.progress import LoggedProgress


def shown(*, terminal: bool, term: str = "xterm") -> str:
    """What is written of ten things, half a minute each, before the end."""
    now = 0.0
    out = io.StringIO()
    progress = LoggedProgress(
        TextColumn("{task.description}"),
        MofNCompleteColumn(),
        console=Console(file=out, force_terminal=terminal, width=40, _environ={"TERM": term}),
        get_time=lambda: now,
        auto_refresh=False,
    )
    line = progress.add_task("train", total=10)
    for i in range(10):
        now = 30.0 * i
        if i % 2:
            progress.advance(line)
        else:
            progress.update(line, completed=i + 1)
    return out.getvalue()


@pytest.mark.parametrize(("terminal", "term"), [(False, "xterm"), (True, "dumb")])
def test_a_log_gets_a_line_a_minute(terminal, term):
    """And so does a terminal that cannot draw bars, such as an editor's."""
    assert [line.split() for line in shown(terminal=terminal, term=term).splitlines()] == [
        ["train", f"{done}/10"] for done in (3, 5, 7, 9)
    ]
