"""Lines and files of the product, package by package, beside what each may have.

    python -m benchmarks.size [--check]

A file counts in one row: that of its package, or `the rest` of `orchestai/`. Code is what is neither blank, comment,
docstring nor import. A key is a leaf of `config.yaml`'s or the agents' configuration, counted once by its dotted name.
With `--check` the exit status is 1 where a row has more than its budget and more than its ceiling, or files form a
circle. A ceiling is what a row above its budget had last; it may only fall, and goes when the budget is met.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
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
    "the rest": 2407,
    "config": 1819,
    "storage cluster threads text": 1671,
    "tasks": 4476,
    "workers": 6860,
    "estimate": 1762,
    "execution": 3708,
    "planner": 7175,
    "data": 3265,
    "training": 6992,
    "agents": 4675,
    "evaluation": 4045,
    "report launch cli": 4270,
    "functions per 1,000 code lines": 101,
    "configuration keys": 260,
    "test lines": 29950,
}


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
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
