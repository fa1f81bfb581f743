"""The evaluation as a table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from orchestai.evaluation.systems import baselines
from orchestai.evaluation.systems.row_summaries import Difference, RowSummary


def headline(planners: Sequence[str], summaries: Sequence[RowSummary]) -> list[RowSummary]:
    """At most ten rows, the best first: the oracle, the trained planners, and what they have to beat.

    Of cascades, and of single workers however they are asked, only the one that solves most is among them.
    """
    known = [summary for summary in summaries if summary.success is not None]
    cascades = [one for one in known if one.name in (baselines.CASCADE, baselines.WHOLE_CASCADE)]
    singles = [one for one in known if one.name.startswith((baselines.WHOLE, baselines.STEPS)) and one not in cascades]
    best = [max(some, key=lambda one: one.success or 0.0) for some in (cascades, singles) if some]
    names = {
        *(baselines.ORACLE, *planners[-2:], baselines.LOOKUP, baselines.NEAREST, baselines.STATIC_MIX),
        *(baselines.SAMPLE_K, baselines.SELF_CONSISTENCY, baselines.CHEAPEST),
        *(one.name for one in best),
    }
    shown = [summary for summary in summaries if summary.name in names]
    return sorted(shown, key=lambda one: -(one.success or 0.0))


def table(ours: str, summaries: Sequence[RowSummary], differences: Sequence[Difference], title: str) -> Table:
    """One line per row; the last column is the reward of `ours` minus the row's, with its paired 95 % interval.

    The share of tasks that could not be judged is shown where there are any.
    """
    against = {d.to: d for d in differences if d.of == ours}
    lost = any(summary.unscorable for summary in summaries)
    shown = Table(
        title=escape(title),
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    shown.add_column("row", no_wrap=True)
    shown.add_column("solved % [95 %]", justify="right")
    for heading in ("reward", "USD/1000", "ms", "valid %", *(["unscored %"] if lost else [])):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column(escape(f"reward, {ours} minus it"), justify="right")
    for summary in summaries:
        compared = against.get(summary.name)
        low, high = (_number(end, scale=100, digits=1) for end in summary.success_ci)
        shown.add_row(
            escape(summary.name),
            f"{_number(summary.success, scale=100, digits=1)} [{low}, {high}]",
            _number(summary.reward, digits=2),
            _number(summary.cost_usd, scale=1000, digits=4),
            _number(summary.latency_ms, digits=0),
            _number(summary.validity, scale=100, digits=0),
            *([_number(summary.unscorable, scale=100, digits=0)] if lost else []),
            compared.reward.signed() if compared else "",
            style="bold" if summary.name == ours else None,
        )
    return shown


def _number(value: float | None, *, scale: float = 1, digits: int) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"
