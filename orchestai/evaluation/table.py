"""The evaluation as a table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from orchestai.evaluation.report import Difference, Summary


def table(ours: str, summaries: Sequence[Summary], differences: Sequence[Difference], title: str) -> Table:
    """One line per row; the last column is the reward of `ours` minus the row's, with its paired 95 % interval."""
    against: Mapping[str, Difference] = {d.to: d for d in differences if d.of == ours}
    shown = Table(title=title, title_justify="left", header_style="bold")
    shown.add_column("row", no_wrap=True)
    for heading in ("success % [95 %]", "reward [95 %]", "USD/1000 tasks", "latency ms", "valid %", "unscorable %"):
        shown.add_column(heading, justify="right")
    shown.add_column(f"reward of {ours} minus it", justify="right")
    for summary in summaries:
        compared = against.get(summary.name)
        shown.add_row(
            summary.name,
            _with_interval(summary.success, summary.success_ci, scale=100, digits=1),
            _with_interval(summary.reward, summary.reward_ci, digits=2),
            _number(summary.cost_usd, scale=1000, digits=4),
            _number(summary.latency_ms, digits=0),
            _number(summary.validity, scale=100, digits=0),
            _number(summary.unscorable, scale=100, digits=0),
            _signed(compared) if compared else "",
            style="bold" if summary.name == ours else None,
        )
    return shown


def _number(value: float | None, *, scale: float = 1, digits: int) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"


def _with_interval(
    value: float | None, interval: tuple[float | None, float | None], *, scale: float = 1, digits: int
) -> str:
    low, high = (_number(end, scale=scale, digits=digits) for end in interval)
    return "-" if value is None else f"{_number(value, scale=scale, digits=digits)} [{low}, {high}]"


def _signed(difference: Difference) -> str:
    reward = difference.reward
    if not reward.n:
        return "-"
    return f"{reward.mean:+.2f} [{reward.low:+.2f}, {reward.high:+.2f}]"
