"""A run on the terminal: its steps as they come, who did what, what it took, and why there is no answer."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from orchestai.cli.options import say
from orchestai.config import Config, WorkersConfig
from orchestai.config.workers import WHOLE_TOOLS
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.events import AnswerChecked, NodeDone, NodeStarted, PlanReady, WorkerAsked
from orchestai.execution.result import CUT, SubtaskResult
from orchestai.orchestrator import Event, RunResult
from orchestai.report.safe_text import visible
from orchestai.workers.base import ImpossibleError
from orchestai.workflow import Subtask, Workflow

if TYPE_CHECKING:
    from rich.live import Live

_WIDTH = 72
_HOW = "orchestai init --server URL"


class RunView:
    """Shows a workflow as a tree while it runs (a context manager), and last who did what, with cost and time.

    Args:
        verbose: whether each attempt and its receipt are shown, too.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose
        self._workflow: Workflow | None = None
        self._states: dict[str, str] = {}
        self._live: Live | None = None

    def __enter__(self) -> RunView:
        if sys.stderr.isatty():
            from rich.live import Live
            from rich.text import Text

            from orchestai.progress import console

            def drawn() -> Text:
                known = self._workflow
                return Text("planning ..." if known is None else "\n".join(tree(known, self._states)))

            self._live = Live(console=console, get_renderable=drawn, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def listen(self, event: Event) -> None:
        """Show what has happened."""
        if isinstance(event, PlanReady):
            self._workflow = event.workflow
            if self._verbose:
                steps = "1 step" if len(event.workflow) == 1 else f"{len(event.workflow)} steps"
                sure = "" if event.confidence is None else f", right with a chance of {event.confidence:.2f}"
                probable = None if event.forecast is None else event.forecast.cost_usd
                expected = "" if probable is None else f", probably {probable:.3g}"
                plan = f"plan by {event.planner}: {steps}{sure}{expected}, at most {event.reserved_usd:.6g} USD"
                say("; ".join([plan, *event.changes]))
        elif isinstance(event, NodeStarted):
            self._set(event.node, "ready")
        elif isinstance(event, WorkerAsked):
            self._set(event.node, f"asking {event.worker}")
        elif isinstance(event, AnswerChecked):
            attempt = event.attempt
            checked = {True: ", its check passed", False: ", its check failed", None: ""}[attempt.passed_check]
            said = f"{attempt.worker} answered{checked}"
            self._set(event.node, said if attempt.error is None else f"{attempt.worker}: {attempt.error}")
        elif isinstance(event, NodeDone):
            self._set(event.node, _of_result(event.result))

    def _set(self, node: str, state: str) -> None:
        self._states[node] = state = _short(state)
        if self._verbose and self._live is None:
            say(f"{node}: {state}")


def show_run(result: RunResult, config: Config, *, verbose: bool) -> None:
    """Print who did what and one line on what it took, or the whole receipt; without an answer, why there is none."""
    receipt = result.receipt
    if verbose:
        show_receipt(receipt)
    if receipt.status == "failed":
        say(*_remarks(receipt), why_not(receipt, config.workers, program=result.program))
        return
    if not verbose:
        states = {done.id: _of_result(done) for done in result.execution.results}
        took = f"{receipt.spent_usd:.3g} USD, {receipt.wall_ms / 1000:.2f} s"
        say(*tree(result.workflow, states), *_remarks(receipt), took)
    if result.program and config.execution.assembler == "dataflow":
        say(*doubts(receipt))


def tree(workflow: Workflow, states: Mapping[str, str]) -> list[str]:
    """Lines of the steps below those that they need, each with its state; of one step, one line."""
    if len(workflow) == 1:
        return [_step(workflow.subtasks[0], states)]
    below: dict[str, list[Subtask]] = defaultdict(list)
    for subtask in workflow.order():
        below[subtask.depends_on[-1] if subtask.depends_on else ""].append(subtask)

    def drawn(parent: str, indent: str) -> Iterator[str]:
        for subtask in below[parent]:
            last = subtask is below[parent][-1]
            others = f" (also after {', '.join(subtask.depends_on[:-1])})" if len(subtask.depends_on) > 1 else ""
            yield f"{indent}{'└──' if last else '├──'} {subtask.id} {_step(subtask, states)}{others}"
            yield from drawn(subtask.id, indent + ("    " if last else "│   "))

    return [f"{len(workflow)} steps", *drawn("", "")]


def _step(subtask: Subtask, states: Mapping[str, str]) -> str:
    return f"{_short(subtask.instruction)}: {states.get(subtask.id, 'waiting')}"


def why_not(receipt: Receipt, workers: WorkersConfig, *, program: bool = False) -> str:
    """One line on the first step that nobody did: who declined, and what to do, or with a server why."""
    node = next((each for each in receipt.nodes if each.status == "failed"), receipt.nodes[0])
    step = f" (step {node.node} of {len(receipt.nodes)})" if len(receipt.nodes) > 1 else ""
    nobody = f'no worker here can {"write" if program else "do"} "{_short(node.instruction)}"{step}'
    asked = [each for each in node.asked if each.worker]
    for each in asked:
        if each.why_next.startswith(ImpossibleError.SAYS):
            return f"{nobody}: {each.why_next.removeprefix(ImpossibleError.SAYS)}"
    too_much = [
        note.split()[-1] for note in receipt.changes if note.startswith(f"step {node.node}: without the fallback")
    ]
    if too_much:
        left_out = ", ".join(too_much[:3])
        return f"{nobody} within the contract, which leaves out {left_out}; allow more: --max_cost_usd or --deadline_s"
    if not asked or any(model.kind == "openai_api" for model in workers.models.values()):
        return f"{nobody}: {_short(f'{asked[-1].worker}: {asked[-1].why_next}' if asked else str(node.error))}"
    declined = " and ".join(each.worker for each in asked) if len(asked) < 3 else f"all {len(asked)}"
    if program:
        todo = "show what it does, such as task_func([3, 1]) == [1, 3], or"
    elif WHOLE_TOOLS.issuperset(each.tool for each in workers.pool.values() if each.kind == "tool"):
        todo = "tools do sums, units, dates, texts and lists in English and German; for what a language model does,"
    else:
        todo = ""
    return f"{nobody} ({declined} declined); {todo}{' ' if todo else ''}add a server: {_HOW}"


def show_receipt(receipt: Receipt) -> None:
    """Print what a run took, node by node."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from orchestai.progress import console

    table = Table(box=None, pad_edge=False)
    for name in ("node", "worker", "tokens in", "out", "USD reserved", "USD spent", "ms", "check", "then"):
        table.add_column(name, justify="right" if name.startswith(("tokens", "out", "USD", "ms")) else "left")
    for node in receipt.nodes:
        if not node.asked:
            table.add_row(*map(Text, (node.node, "nobody", *[""] * 6, node.error or "")))
        for place, asked in enumerate(node.asked):
            estimated = "~" if asked.usage_estimated else ""
            cached = f" ({asked.cached_tokens} cached)" if asked.cached_tokens else ""
            tokens = f"{estimated}{asked.prompt_tokens}{cached}", f"{estimated}{asked.completion_tokens}"
            money = f"{asked.reserved_usd:.6g}", f"{asked.spent_usd:.6g}"
            check = {True: "passed", False: "failed", None: ""}[asked.check]
            row = (asked.worker, *tokens, *money, f"{asked.latency_ms:.0f}", check, _short(asked.why_next))
            table.add_row(*map(Text, (node.node if place == 0 else "", *row)))
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
        f"{_named(unknown)}: no example, so nobody could check what was written; show one in {where}, such as {shown}",
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


def _remarks(receipt: Receipt) -> list[str]:
    """What is not as planned: the workers of a contract, another planner, a part of the answer."""
    degraded = [f"asked the best single worker, since {receipt.degraded}"] if receipt.degraded else []
    late = "the deadline came before all steps were done"
    cut = any(asked.why_next == CUT for node in receipt.nodes for asked in node.asked)
    partial = [CUT if cut else late] if receipt.status == "partial" else []
    if receipt.does_as_shown is False:  # of a single step `doubts` says it
        partial = ["the program is wrong: nothing that was written does what the example shows"][
            : len(receipt.nodes) - 1
        ]
    return [*(["; ".join(receipt.changes)] if receipt.changes else []), *degraded, *partial]


def _of_result(result: SubtaskResult) -> str:
    return result.worker if result.status == "done" else _short(str(result.error).removeprefix(f"{result.id}: "))


def _short(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."
