"""Whether the sandbox credits right programs: the canonical solutions of a suite, judged by the suite's own tests.

    python benchmarks/canonical.py --suite humaneval|mbpp|bigcodebench [--data FILE] [--libraries stdlib|numpy] ...

`--libraries` takes only tasks whose code and tests import, anywhere in them, the standard library alone (`stdlib`), or
that and numpy and pandas (`numpy`, which reports both). Tasks that do not get all their tests are listed with what the
sandbox says, or with the cause where that is known to lie in the task or in the versions of its libraries. FILE gets
the figures of this run; those of others stay in it.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import sys
from collections import Counter
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from orchestai.outcome import Unscorable
from orchestai.rewards import unit_tests
from orchestai.sandbox import Isolation, Limits, Report, Sandbox
from orchestai.storage import artifacts
from orchestai.tasks import load_suite
from orchestai.tasks.task import Task

LIBRARIES: dict[str, tuple[str, ...]] = {"stdlib": (), "numpy": ("numpy", "pandas")}
CAUSES = Path(__file__).parent / "canonical_causes.json"
"""Tasks whose canonical solution cannot pass here, each with the reason."""

console = Console(stderr=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", required=True, choices=("humaneval", "mbpp", "bigcodebench"))
    parser.add_argument("--data", help="the suite's file, instead of its default source")
    parser.add_argument("--libraries", choices=sorted(LIBRARIES))
    parser.add_argument("--isolation", choices=("sealed", "open"), help="instead of what the suite wants")
    parser.add_argument("--tasks", nargs="+", metavar="ID", help="only these")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--wall_s", type=float, default=180.0)
    parser.add_argument("--test_s", type=float, default=90.0)
    parser.add_argument("--memory_mb", type=int, default=4096)
    parser.add_argument("--processes", type=int, default=320, help="one of BigCodeBench's starts 256 threads")
    parser.add_argument("--json", type=Path, help="also write the figures and the failures to this file")
    args = parser.parse_args()
    suite = load_suite(args.suite, args.data)
    tasks = [task for split in suite.splits for task in suite.split(split)]
    tasks = [task for task in tasks if not args.tasks or task.task_id in args.tasks]
    groups = {"all": tasks}
    if args.libraries is not None:
        groups = {
            name: needing(tasks, extra) for name, extra in LIBRARIES.items() if name in ("stdlib", args.libraries)
        }
        tasks = groups[args.libraries]
    limits = Limits(
        wall_s=args.wall_s, test_s=args.test_s, load_s=args.test_s, memory_mb=args.memory_mb, processes=args.processes
    )
    preload = LIBRARIES["numpy"] if args.suite == "bigcodebench" else ()
    with Sandbox(args.workers, limits, preload) as sandbox:
        reports = asyncio.run(judge(sandbox, tasks, args.isolation))
        facts = {"level": sandbox.level, "limits": asdict(limits), "versions": versions(preload)}
    causes = json.loads(CAUSES.read_text())
    failures = {
        task_id: failure(report, causes.get(task_id)) for task_id, report in reports.items() if not report.success
    }
    counts = {name: count([reports[task.task_id] for task in group]) for name, group in groups.items()}
    show(args.suite, counts, failures)
    if args.json is not None:
        known = json.loads(args.json.read_text()) if args.json.exists() else {}
        name = " ".join(part for part in (args.suite, args.isolation) if part)
        unexplained = [task_id for task_id, found in failures.items() if not found["cause"]]
        figures = {"groups": counts, "unexplained": unexplained, "failures": failures}
        artifacts.write_json(args.json, known | {name: figures | facts})


def needing(tasks: list[Task], libraries: tuple[str, ...]) -> list[Task]:
    """The tasks whose code and tests import no more than the standard library and `libraries`."""
    allowed = {*sys.stdlib_module_names, *libraries}
    return [task for task in tasks if imported(f"{task.canonical_program}\n{task.test}") <= allowed]


def imported(source: str) -> set[str]:
    """Top-level packages and modules that a source imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}


async def judge(sandbox: Sandbox, tasks: list[Task], wanted: Isolation | None) -> dict[str, Report]:
    """Reports by task id; `wanted` takes the place of the tasks' own isolation."""
    reports = {}
    for task in track(tasks, "canonical", console=console):
        chosen = task.model_copy(update={"isolation": wanted}) if wanted else task
        reports[task.task_id] = await unit_tests.judge(sandbox, chosen, task.canonical_program)
    return reports


def count(reports: list[Report]) -> dict[str, int]:
    return {
        "tasks": len(reports),
        "all_passed": sum(report.success for report in reports),
        "sealed": sum(report.success and report.isolation == "sealed" for report in reports),
        "open": sum(report.success and report.isolation == "open" for report in reports),
        "left_out": sum(report.status == "refused" for report in reports),
        "unscorable": sum(isinstance(report.outcome(), Unscorable) for report in reports),
        "tests": sum(report.total for report in reports),
        "tests_passed": sum(report.passed for report in reports),
    }


def failure(report: Report, cause: str | None) -> dict[str, Any]:
    missed = {test.name: f"{test.outcome}: {test.message[:120]}" for test in report.tests if test.outcome != "passed"}
    facts = {"status": report.status, "reason": report.reason, "passed": report.passed, "total": report.total}
    return {"cause": cause, **facts, "missed": missed}


def show(suite: str, counts: dict[str, dict[str, int]], failures: dict[str, dict[str, Any]]) -> None:
    listed = Table("task", "passed", "cause, or what the sandbox says")
    for task_id, found in failures.items():
        said = found["cause"] or found["reason"] or Counter(found["missed"].values()).most_common(1)[0][0]
        listed.add_row(task_id, f"{found['passed']}/{found['total']}", escape(said))
    if failures:
        Console().print(listed)
    table = Table(suite, "tasks", "all tests passed", "unscorable", "failed")
    for name, found in counts.items():
        failed = found["tasks"] - found["all_passed"] - found["unscorable"]
        table.add_row(name, *(str(found[key]) for key in ("tasks", "all_passed", "unscorable")), str(failed))
    Console().print(table)


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    return artifacts.versions() | {package: version(package) for package in packages}


if __name__ == "__main__":
    main()
