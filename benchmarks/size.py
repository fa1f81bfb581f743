"""Lines and files of the product, package by package, beside what each may have.

    python -m benchmarks.size [--check | --walks]

A file counts in one row: that of its package, or `the rest` of `orchestai/`. Code is what is neither blank, comment,
docstring nor import. A key is a leaf of `config.yaml`'s or the agents' configuration, counted once by its dotted name.
With `--check` the exit status is 1 where a row has more than its budget and more than its ceiling, or files form a
circle. A ceiling is what a row above its budget had last; it may only fall, and goes when the budget is met.
`--walks` counts the files and functions of the product that one warmed call enters, in all threads.
"""

from __future__ import annotations

import argparse
import ast
import io
import logging
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import networkx as nx
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from orchestai.config.agents import AgentConfig
from orchestai.config.load import Config

ROOT = Path(__file__).parents[1]
BUDGETS = {
    "the rest": 1900,
    "config": 1500,
    "storage cluster threads text": 600,
    "tasks": 3900,
    "sandbox": 5500,
    "lm": 3200,
    "workers": 3800,
    "rewards": 1100,
    "estimate": 800,
    "execution": 2700,
    "planner": 5600,
    "data": 2700,
    "training": 6000,
    "agents": 3900,
    "evaluation": 3200,
    "orchestrator serving": 4900,
    "report launch cli": 3700,
}
"""Lines by packages; they sum to 55,000. Lines may move from row to row with a reason, the sum may not rise."""
TOTALS = {"files": 420, "functions per 1,000 code lines": 75, "configuration keys": 170, "test lines": 26000}
CEILINGS = {
    "the rest": 2079,
    "config": 1630,
    "storage cluster threads text": 1589,
    "workers": 5222,
    "estimate": 1604,
    "execution": 3649,
    "planner": 6030,
    "data": 2832,
    "training": 6311,
    "agents": 4160,
    "evaluation": 3888,
    "report launch cli": 4333,
    "functions per 1,000 code lines": 95,
    "configuration keys": 244,
    "test lines": 29307,
}


_PRODUCT = str(ROOT / "orchestai")


class Size(NamedTuple):
    lines: int = 0
    files: int = 0
    code: int = 0
    functions: int = 0

    def __add__(self, other: tuple[Any, ...]) -> Size:
        return Size(*(a + b for a, b in zip(self, other, strict=True)))


def row_of(path: Path) -> str:
    """The row of `BUDGETS` in which a file of the product counts."""
    package = path.relative_to(ROOT / "orchestai").parts[0].removesuffix(".py")
    return next((row for row in BUDGETS if package in row.split()), "the rest")


def measure(path: Path) -> Size:
    text = path.read_text()
    tree, lines = ast.parse(text), text.splitlines()
    code = {n for n, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")}
    functions = 0
    for node in ast.walk(tree):
        functions += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                code -= set(range(node.lineno, node.end_lineno + 1))
    return Size(len(lines), 1, len(code), functions)


def keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted names of all that can be set; an entry of a mapping that a user names stands as `*`."""
    for name, field in section.model_fields.items():
        inner = list(_sections(field.annotation))
        for one, named in inner:
            yield from keys(one, f"{prefix}{name}.{'*.' * named}")
        if not inner:
            yield f"{prefix}{name}"


def _sections(annotation: Any, named: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, named
    for inner in get_args(annotation):
        yield from _sections(inner, named or get_origin(annotation) is dict)


def circles() -> list[list[str]]:
    """Files that import each other at the top, by name."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "orchestai").rglob("*.py")
    }
    graph: Any = nx.DiGraph()
    for name, path in files.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                named = (f"{node.module}.{alias.name}" for alias in node.names)
                graph.add_edges_from((name, one if one in files else node.module) for one in named)
            elif isinstance(node, ast.Import):
                graph.add_edges_from((name, alias.name) for alias in node.names)
    return [sorted(some) for some in nx.strongly_connected_components(graph) if len(some) > 1]


class Walk:
    """The files and functions of the product that are entered, in this thread and those that start from now on."""

    def __init__(self) -> None:
        self.entered: set[tuple[str, str]] = set()
        self.reads = 0
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_PRODUCT) and not code.co_name.startswith("<"):
            self.entered.add((code.co_filename, code.co_qualname))
            self.reads += code.co_name == "load_torch"

    def of(self, call: Callable[[], object]) -> tuple[int, int]:
        """How many files and functions a call enters."""
        self.entered, self.reads = set(), 0
        call()
        return len({file for file, _ in self.entered}), len(self.entered)


def walks() -> Table:
    """What one warmed call enters: a run, a request, an update of phase 2, and opening a checkpoint."""
    from starlette.testclient import TestClient

    import orchestai.training.rl.trainer as rl
    from orchestai.cli.application import app
    from orchestai.config import load_config
    from orchestai.orchestrator import Orchestrator
    from orchestai.planner.checkpoint import open_checkpoint
    from orchestai.serving.api.server import make_app
    from tests.reference.families import FAMILIES, INPUTS, SLOTS

    logging.disable()
    table = Table("one warmed call", "files", "functions")
    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shutil.copytree(INPUTS, folder, dirs_exist_ok=True)
        Path("shout.py").write_text("def shout(request):\n    return request.instruction.upper()\n")
        Path("one.yaml").write_text(
            "workers: {pool: {shout: {kind: function, function: 'shout:shout', card: capitals}}}\n"
        )
        sys.path.insert(0, folder)

        def row(name: str, call: Callable[[], object]) -> None:
            call()
            table.add_row(name, *map(str, walk.of(call)))

        with Orchestrator.open(config="one.yaml") as open_one:
            row("run, one function worker", lambda: open_one.run_sync("say hello"))
        asked = {"model": "orchestai", "messages": [{"role": "user", "content": "say hello"}]}
        with TestClient(make_app(Orchestrator.open(config="one.yaml"))) as client:
            row("POST /v1/chat/completions", lambda: client.post("/v1/chat/completions", json=asked).raise_for_status())
        config = load_config(Path("config.yaml"), [])
        row("opening a checkpoint", lambda: open_checkpoint(SLOTS, config.planner, config.workers))
        opened = walk.reads
        updates: list[tuple[int, int]] = []
        original = rl.TaskBatches.next

        def next_batch(self: Any, position: Any) -> Any:
            updates.append((len({file for file, _ in walk.entered}), len(walk.entered)))
            walk.entered = set()
            return original(self, position)

        rl.TaskBatches.next = next_batch  # type: ignore[method-assign]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            os.environ["OMP_NUM_THREADS"] = "1"
            app(args=[*FAMILIES["grpo_slots"], "training.phase2_rl.eval_every=100"], standalone_mode=False)
        table.add_row("an update of phase 2 (GRPO, planner of heads)", *map(str, updates[-1]))
        sys.setprofile(None)
        os.chdir(ROOT)
        table.caption = f"a checkpoint is read {opened} times"
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--walks", action="store_true")
    arguments = parser.parse_args()
    if arguments.walks:
        Console(width=120).print(walks())
        return 0
    check = arguments.check
    sizes = dict.fromkeys(BUDGETS, Size())
    for path in sorted((ROOT / "orchestai").rglob("*.py")):
        sizes[row_of(path)] += measure(path)
    total = sum(sizes.values(), Size())
    found = {row: size.lines for row, size in sizes.items()} | {
        "files": total.files,
        "functions per 1,000 code lines": round(total.functions / total.code * 1000),
        "configuration keys": len({*keys(Config), *keys(AgentConfig)}),
        "test lines": sum(len(path.read_text().splitlines()) for path in (ROOT / "tests").rglob("*.py")),
    }
    budgets = BUDGETS | TOTALS
    above = [row for row, count in found.items() if count > max(budgets[row], CEILINGS.get(row, 0))]
    table = Table("", "lines", "budget", "ceiling", "files", "functions", "per 1,000 code lines")
    for row, size in {**sizes, "all": total}.items():
        budget, ceiling = BUDGETS.get(row, sum(BUDGETS.values())), str(CEILINGS.get(row, ""))
        per = f"{size.functions / size.code * 1000:.0f}"
        table.add_row(row, str(size.lines), str(budget), ceiling, str(size.files), str(size.functions), per)
    for row in TOTALS:
        table.add_row(row, str(found[row]), str(TOTALS[row]), str(CEILINGS.get(row, "")))
    console, together = Console(width=120), circles()
    console.print(table)
    for some in together:
        console.print(f"import each other: {', '.join(some)}")
    for row in above if check else ():
        console.print(f"{row}: {found[row]} is above {max(budgets[row], CEILINGS.get(row, 0))}; delete, or move lines")
    return int(check and bool(above or together))


if __name__ == "__main__":
    sys.exit(main())
