"""Compute the figures of README's tables, and of the one in `docs/results/answers.md`, anew from what was decided.

    python -m benchmarks.verify [--data DATA]

What was decided on each question of public data stands in `docs/results/answers/`, and on each of the demo's tasks in
`docs/results/demo.json`. Where the data's license does not allow that, it is computed from DATA, which
`benchmarks.answers` describes, and kept in `runs/answers/`; without DATA the row is skipped. The exit status is 1 where
a figure differs by more than its rounding.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers import HELD_OUT, OPEN, RUNS, figures, file_of, read_decisions, run, write_decisions
from orchestai.evaluation.statistics import bootstrap_mean, proportion

ROOT = Path(__file__).parents[1]
KEPT = Path("runs/answers")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")
QUESTIONS = {
    "function calls (bfcl), type of question known": "bfcl",
    "the same, type unknown": "bfcl without categories",
    "GSM8K": "gsm8k",
    "MATH, level 5": "math",
    "InterCode-SQL": "intercode-sql",
    "MBPP, the first test seen": "mbpp replies",
}
"""README's row -> run of `benchmarks.answers`. The demo's rows are called as in `docs/results/demo.json`."""


def rows_of(page: Path, first: str) -> Iterator[list[str]]:
    """The cells of each row of the table whose first heading this is."""
    lines = iter(page.read_text().split("\n"))
    for line in lines:
        if line.startswith(f"| {first} |"):
            next(lines)
            break
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def differing(cell: str, values: Sequence[float]) -> str:
    """What is wrong with a cell's numbers; nothing where each is its value, rounded."""
    found = _NUMBER.findall(cell)
    if len(found) != len(values):
        return f"{cell!r} has {len(found)} numbers, not {len(values)}"
    for text, value in zip(found, values, strict=True):
        digits = len(text.partition(".")[2])
        if abs(float(text) - value) > 0.5000001 * 10**-digits:
            return f"{cell!r}: {text} should be {value:.{digits + 2}f}"
    return ""


@cache
def answers_of(name: str, data: Path | None) -> dict[str, Any] | None:
    """The report of a run of `benchmarks.answers`; None where its decisions are not at hand."""
    run_name = name.removesuffix(HELD_OUT)
    path = file_of(ROOT / "docs/results/answers" if run_name in OPEN else KEPT, name)
    if not path.exists():
        if data is None:
            return None
        write_decisions(path, run(data, run_name, 5, name != run_name))
    return figures(read_decisions(path))


def expected_answers(report: dict[str, Any], name: str, columns: Sequence[str]) -> Iterator[list[float]]:
    """Values of each column: a row's success and cost, a paired difference in points, or the error of probabilities."""
    rows, facts = report[name], report["answers"]
    for column in columns:
        if column in rows:
            yield [rows[column][figure]["mean"] for figure in ("success", "usd_per_1000")]
        elif column == "calibration":
            yield [facts["calibration"]["judge"][figure] for figure in ("ece", "by_chance")]
        else:
            yield [100 * facts["differences"][column][end] for end in ("mean", "low", "high")]


def expected_demo(own: dict[str, str]) -> list[list[float]]:
    values = {figure: np.array(text.split(), dtype=float) for figure, text in own.items()}
    success = proportion(values["success"])
    cost, latency = np.nanmean(values["cost_usd"]) * 1000, np.nanmean(values["latency_ms"]) / 1000
    reward = bootstrap_mean(values["reward"]).mean
    return [[100 * success.mean], [100 * success.low, 100 * success.high], [reward], [cost], [latency]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    data, wrong, skipped, right = parser.parse_args(arguments).data, 0, 0, 0

    def compare(label: str, cells: Sequence[str], values: Sequence[Sequence[float]]) -> None:
        nonlocal wrong, right
        problems = [one for pair in zip(cells, values, strict=True) if (one := differing(*pair))]
        wrong, right = wrong + len(problems), right + len(cells) - len(problems)
        print(f"{label}: {'; '.join(problems) or 'right'}")

    ours = ("ours - best_single", "ours - best_fixed_rule")
    short = ("best_single", "best_fixed_rule", "static_mix", "knn", "ours", "oracle", *ours)
    whole = ("best_single", "until_two_agree", "best_fixed_rule", "judge", "ours", *ours, "calibration")
    for page, first, columns in (("README.md", "questions", short), ("docs/results/answers.md", "table", whole)):
        for label, *cells in rows_of(ROOT / page, first):
            name = QUESTIONS.get(label, label)
            if name.removesuffix(HELD_OUT) not in RUNS:
                continue
            if (report := answers_of(name, data)) is None:
                print(f"{page}: {label}: skipped: its decisions are not kept here; give --data to compute them")
                skipped += 1
                continue
            compare(f"{page}: {label}", cells, list(expected_answers(report, name.removesuffix(HELD_OUT), columns)))
    demo = json.loads((ROOT / "docs/results/demo.json").read_text()).get("decisions", {})
    for label, *cells in rows_of(ROOT / "README.md", "planner"):
        if (own := demo.get(label)) is None:
            print(f"README.md: {label}: skipped: docs/results/demo.json holds no decisions of this row")
            skipped += 1
            continue
        compare(f"README.md: {label}", cells, expected_demo(own))
    print(f"{right} cells are right, {wrong} differ, {skipped} rows are skipped")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
