"""A run on the terminal: its nodes as they come, then the receipt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import TracebackType

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from orchestai.cli.options import console
from orchestai.execution.contract.receipt import AskedWorker, NodeReceipt, Receipt
from orchestai.execution.events import AnswerChecked, NodeDone, NodeStarted, PlanReady, WorkerAsked
from orchestai.execution.result import Attempt
from orchestai.orchestrator import Event, RunResult
from orchestai.workflow import Workflow

_WIDTH = 72


class RunView:
    """Shows a workflow as a tree while it runs (a context manager); without a terminal, line by line."""

    def __init__(self) -> None:
        self._workflow: Workflow | None = None
        self._states: dict[str, str] = {}
        self._live = Live(console=console, get_renderable=self._tree, refresh_per_second=8, transient=False)

    def __enter__(self) -> RunView:
        if console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if console.is_terminal:
            self._live.stop()

    def listen(self, event: Event) -> None:
        """Show what has happened."""
        if isinstance(event, PlanReady):
            self._workflow = event.workflow
            steps = "1 step" if len(event.workflow) == 1 else f"{len(event.workflow)} steps"
            sure = "" if event.confidence is None else f", right with a chance of {event.confidence:.2f}"
            probable = None if event.forecast is None else event.forecast.cost_usd
            expected = "" if probable is None else f", probably {probable:.3g}"
            plan = f"plan by {event.planner}: {steps}{sure}{expected}, at most {event.reserved_usd:.6g} USD"
            console.print("; ".join([plan, *event.changes]), highlight=False, markup=False, soft_wrap=True)
        elif isinstance(event, NodeStarted):
            self._set(event.node, "ready")
        elif isinstance(event, WorkerAsked):
            self._set(event.node, f"asking {event.worker}")
        elif isinstance(event, AnswerChecked):
            self._set(event.node, _of_attempt(event.attempt))
        elif isinstance(event, NodeDone):
            result = event.result
            error = str(result.error).removeprefix(f"{event.node}: ")
            self._set(event.node, f"done by {result.worker}" if result.status == "done" else error)

    def _set(self, node: str, state: str) -> None:
        self._states[node] = state = _short(state)
        if not console.is_terminal:
            console.print(f"{node}: {state}", highlight=False, markup=False, soft_wrap=True)

    def _tree(self) -> RenderableType:
        if self._workflow is None:
            return Text("planning ...")
        root = Tree("workflow")
        branches: dict[str, Tree] = {}
        for subtask in self._workflow.order():
            parent = branches[subtask.depends_on[-1]] if subtask.depends_on else root
            others = (
                f" [dim](also after {', '.join(subtask.depends_on[:-1])})[/]" if len(subtask.depends_on) > 1 else ""
            )
            words = escape(_short(subtask.instruction))
            state = escape(self._states.get(subtask.id, "waiting"))
            branches[subtask.id] = parent.add(f"[bold]{escape(subtask.id)}[/] {words}{others} [cyan]{state}[/]")
        return root


def show_receipt(receipt: Receipt, *, composed: bool) -> None:
    """Print what a run took, node by node.

    Args:
        composed: whether the answer is a program that is composed of the steps' functions.
    """
    table = Table(box=None, pad_edge=False)
    for name in ("node", "worker", "tokens in", "out", "USD reserved", "USD spent", "ms", "check", "then"):
        table.add_column(name, justify="right" if name.startswith(("tokens", "out", "USD", "ms")) else "left")
    for node in receipt.nodes:
        for row in _rows(node):
            table.add_row(*map(escape, row))
    times = f"critical path {' > '.join(receipt.critical_path)}: {receipt.critical_path_ms:.0f} ms"
    spent = f"spent {receipt.spent_usd:.6g} of {receipt.reserved_usd:.6g} USD reserved, up to {receipt.calls} requests"
    if receipt.unsettled_usd:
        spent += f"; of it up to {receipt.unsettled_usd:.6g} USD for requests whose bills nobody saw"
    if receipt.disputed_usd:
        spent += f"; {receipt.disputed_usd:.6g} USD more were billed than may be"
    lines = [
        f"{receipt.status}: {spent}",
        f"{times}; planning {receipt.planning_ms:.0f} ms; all in all {receipt.wall_ms:.0f} ms",
        *chances(receipt),
        *(doubts(receipt) if composed else []),
        *([f"again: {receipt.replay}"] if receipt.replay else []),
    ]
    console.print(Group(table, *(Text(line) for line in lines)), soft_wrap=True)


def chances(receipt: Receipt) -> list[str]:
    """Lines that say how probably the answer is right, and what the best single worker would have given."""
    before, after, single = receipt.forecast, receipt.success, receipt.best_single
    lines = ["nobody knows how probably the answer is right"]
    if before is not None and before.success is not None and after is not None:
        lines = [f"the answer is right with a chance of {after:.2f}; expected before: {before.success:.2f}"]
    if before is not None and before.cost_usd is not None:
        lines[0] += f"; expected cost {before.cost_usd:.3g} USD"
    if before is not None and before.seconds is not None:
        lines[0] += f"; expected {before.seconds:.3g} s of work"
    if single is None:
        return [*lines, "nobody knows what a single worker would have made of the whole"]
    success, usd = single.success, single.cost_usd
    cost = "at a cost that nobody measured" if usd is None else f"{usd.mean:.3g} USD ({usd.low:.3g} to {usd.high:.3g})"
    return [
        *lines,
        f"{single.worker} asked for the whole: right with a chance of {success.mean:.2f} ({success.low:.2f} to "
        f"{success.high:.2f}), {cost}",
    ]


def doubts(receipt: Receipt) -> list[str]:
    """Lines that say which steps' functions no example speaks for, and how to show one."""
    checks = {node.node: asked.check for node in receipt.nodes for asked in node.asked if not asked.why_next}
    wrong = [node for node, check in checks.items() if check is False]
    unknown = [node for node, check in checks.items() if check is None]
    lines = [f"{_named(wrong)}: no function that was written does what the example shows"] if wrong else []
    if not unknown:
        return lines
    where, shown = "the instruction", "task_func([3, 1]) == [1, 3]"
    if len(receipt.nodes) > 1:
        where, shown = ("its words" if len(unknown) == 1 else "their words"), "sort the list (`[3, 1]` -> `[1, 3]`)"
    return [
        *lines,
        f"{_named(unknown)}: no example, so nobody could go by one, or check what was written; show one in {where}, "
        f"such as {shown}; a text is asked for with --answer text",
    ]


def _named(nodes: Sequence[str]) -> str:
    return f"step {nodes[0]}" if len(nodes) == 1 else f"steps {', '.join(nodes)}"


def as_json(result: RunResult) -> str:
    """Answer, workflow and receipt."""
    return json.dumps(
        {
            "answer": result.answer,
            "workflow": result.workflow.to_dict(),
            "receipt": result.receipt.model_dump(mode="json"),
        },
        indent=2,
        ensure_ascii=False,
    )


def _rows(node: NodeReceipt) -> list[tuple[str, ...]]:
    if not node.asked:
        return [(node.node, "nobody", "", "", "", "", "", "", node.error or "")]
    return [(node.node if place == 0 else "", *_row(asked)) for place, asked in enumerate(node.asked)]


def _row(asked: AskedWorker) -> tuple[str, ...]:
    check = {True: "passed", False: "failed", None: ""}[asked.check]
    estimated = "~" if asked.usage_estimated else ""
    return (
        asked.worker,
        f"{estimated}{asked.prompt_tokens}",
        f"{estimated}{asked.completion_tokens}",
        f"{asked.reserved_usd:.6g}",
        f"{asked.spent_usd:.6g}",
        f"{asked.latency_ms:.0f}",
        check,
        _short(asked.why_next),
    )


def _of_attempt(attempt: Attempt) -> str:
    if attempt.error is not None:
        return f"{attempt.worker}: {attempt.error}"
    checked = {True: ", its check passed", False: ", its check failed", None: ""}[attempt.passed_check]
    return f"{attempt.worker} answered{checked}"


def _short(text: str) -> str:
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."
