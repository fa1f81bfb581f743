"""The evaluation as a plot: cost against success."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from orchestai.evaluation.systems.baselines import ORACLE, WHOLE
from orchestai.evaluation.systems.runner import RowSummary
from orchestai.storage.artifacts import write_bytes


@dataclass(frozen=True)
class _Style:
    meaning: str
    color: str
    marker: str
    size: float


_OURS = _Style("trained planner", "#c1272d", "D", 9.0)
_OTHER = _Style("other ways to split and assign", "#1f4e9c", "o", 6.5)
_WHOLE = _Style("asked for the whole task", "#7a7a7a", "s", 6.0)
_ORACLE = _Style("best in hindsight", "#2e7d32", "*", 11.0)
_FRONTIER = "#b0b0b0"
_FREE = 0.3
"""Rows that cost nothing are drawn at this share of the cheapest row's cost, since the axis is logarithmic."""


def draw(
    path: Path | str,
    ours: Sequence[str],
    summaries: Sequence[RowSummary],
    curve: Sequence[tuple[float, float]] = (),
) -> None:
    """Write a PNG: mean cost per task (log axis) against success with 95 % intervals, and the frontier.

    The frontier joins the rows, other than the oracle, that no cheaper row equals in success.

    Args:
        ours: names of the rows to set off.
        curve: cost and success of a planner at ascending preferences for success, to be joined by a line.
    """
    figure = Figure(figsize=(11, 7), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    drawn = [s for s in summaries if s.success is not None and s.cost_usd is not None]
    if drawn:
        _points(axes, set(ours), drawn, curve)
    axes.set_xlabel("mean cost per task, USD (log scale)")
    axes.set_ylabel("tasks solved, % (full score; all hidden tests pass)")
    axes.set_title(f"Cost and success on {drawn[0].n} {drawn[0].suite} tasks" if drawn else "Nothing could be judged")
    axes.grid(alpha=0.25)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_bytes(path, buffer.getvalue())


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The (cost, success) points, by cost, that no other equals or betters at the same or lower cost."""
    best: list[tuple[float, float]] = []
    for cost, success in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not best or success > best[-1][1]:
            best.append((cost, success))
    return best


def _points(axes: Axes, ours: set[str], drawn: Sequence[RowSummary], curve: Sequence[tuple[float, float]]) -> None:
    floor = _FREE * min((s.cost_usd for s in drawn if s.cost_usd), default=1.0)
    places = {s.name: (max(s.cost_usd or 0.0, floor), 100 * (s.success or 0.0)) for s in drawn}
    axes.set_xscale("log")
    edge = frontier([place for name, place in places.items() if name != ORACLE])
    edge.append((10 * max(cost for cost, _ in places.values()), edge[-1][1]))
    axes.plot(*zip(*edge, strict=True), color=_FRONTIER, linewidth=1, linestyle="--", drawstyle="steps-post", zorder=1)
    for summary in drawn:
        (cost, success), style = places[summary.name], _style(summary.name, ours)
        low, high = (100 * (end or 0.0) for end in summary.success_ci)
        axes.errorbar(
            cost,
            success,
            yerr=[[max(0.0, success - low)], [max(0.0, high - success)]],
            fmt=style.marker,
            color=style.color,
            markersize=style.size,
            elinewidth=1,
            capsize=2,
            zorder=3,
        )
    preferred = [(max(cost, floor), 100 * success) for cost, success in curve]
    if preferred:
        axes.plot(*zip(*preferred, strict=True), color=_OURS.color, marker=".", linewidth=1.4, zorder=2)
    costs = [cost for cost, _ in (*places.values(), *preferred)]
    low, high = min(costs), max(costs)
    axes.set_xlim(low / 2, high * 2)
    top = max(100 * (s.success_ci[1] or 0.0) for s in drawn)
    axes.set_ylim(-0.06 * top - 1, 1.08 * top + 1)
    styles = {_style(name, ours) for name in places}
    handles = [
        Line2D([], [], color=style.color, marker=style.marker, linestyle="", label=style.meaning)
        for style in (_OURS, _OTHER, _WHOLE, _ORACLE)
        if style in styles
    ]
    handles.append(Line2D([], [], color=_FRONTIER, linestyle="--", label="no cheaper row solves as many"))
    if preferred:
        handles.append(Line2D([], [], color=_OURS.color, marker=".", label="the same planner, prefer 0.1 to 0.9"))
    axes.legend(handles=handles, loc="upper left", frameon=False)
    # Names of the points beside the plot, in the order of what they solve, each with a line to its point
    for place, name in enumerate(sorted(places, key=lambda name: (places[name][1], places[name][0]))):
        axes.annotate(
            name,
            places[name],
            xytext=(1.03, (place + 0.5) / len(places)),
            textcoords="axes fraction",
            fontsize=9,
            color=_style(name, ours).color,
            fontweight="bold" if name in ours else "normal",
            va="center",
            arrowprops={"arrowstyle": "-", "color": "#c8c8c8", "linewidth": 0.6, "shrinkB": 5, "relpos": (0, 0.5)},
        )


def _style(name: str, ours: set[str]) -> _Style:
    if name in ours:
        return _OURS
    if name == ORACLE:
        return _ORACLE
    return _WHOLE if name.startswith(WHOLE) else _OTHER
