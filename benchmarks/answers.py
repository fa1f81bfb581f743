"""Whether judging answers pays, on recorded answers that nobody here wrote.

    python -m benchmarks.answers DATA [--seeds 5] [--json docs/results/answers.json]

DATA holds `bfcl/calls.jsonl.gz` and `zeroeval/{gsm,math-l5}.jsonl.gz`, each beside a `prices.json` (US dollars per
million tokens read and written), and `intercode/sql.jsonl.gz`. The functions here are also readers and a comparator for
`orchestai evaluate --table FILE --reader benchmarks.answers:bfcl --answers calls`.
Tokens that a row does not say are estimated at 3.7 characters each.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestai.data.tables.outcome_table import TableOutcome
from orchestai.estimate.comparators import NONE, Answer
from orchestai.storage import artifacts

_CHARACTERS = 3.7


def bfcl(path: Path) -> Iterator[TableOutcome]:
    """Calls of functions; the query ends with the functions, and its type is the benchmark's category.

    The category `relevance` says that no call is right: see `bfcl_untyped`.
    """
    for row, prices in _rows(path):
        functions = json.dumps(row["functions"])
        for worker, cell in row["rows"].items():
            reply = cell["reply"] or ""
            read = (len(row["query"]) + len(functions)) / _CHARACTERS if cell["in"] is None else cell["in"]
            written = len(reply) / _CHARACTERS if cell["out"] is None else cell["out"]
            yield TableOutcome(
                where=f"{path}: {row['id']}",
                id=row["id"],
                query=f"{row['query']}\n\n{functions}",
                task_type=row["category"],
                worker=worker,
                score=float(cell["right"]),
                cost_usd=(read * prices[worker][0] + written * prices[worker][1]) / 1e6,
                reply=reply,
            )


def bfcl_untyped(path: Path) -> Iterator[TableOutcome]:
    """The same, without the category."""
    return (TableOutcome(**{**vars(one), "task_type": ""}) for one in bfcl(path))


def zeroeval(path: Path) -> Iterator[TableOutcome]:
    """Answers to mathematical questions."""
    for row, prices in _rows(path):
        for worker, cell in row["rows"].items():
            read, written = len(row["query"]) / _CHARACTERS, cell["chars"] / _CHARACTERS
            yield TableOutcome(
                where=f"{path}: {row['id']}",
                id=row["id"],
                query=row["query"],
                worker=worker,
                score=float(cell["right"]),
                cost_usd=(read * prices[worker][0] + written * prices[worker][1]) / 1e6,
                reply="" if cell["answer"] is None else str(cell["answer"]),
            )


PRICES = {
    "gpt-4": (30, 60),
    "text-davinci-003": (20, 20),
    "gpt-3.5": (1.5, 2),
    "text-bison-001": (1, 1),
    "chat-bison-001": (0.5, 0.5),
    "starchat": (0.4, 0.4),
    "vicuna": (0.3, 0.3),
}
"""US dollars per million tokens read and written, of InterCode's models."""


def intercode(path: Path) -> Iterator[TableOutcome]:
    """What each row's first SELECT without an error found; what stopped a run, its being right, is not looked at.

    A token is four characters. A turn reads 150 tokens, the question, the schema in rows with `handicap`, and all
    actions and observations before it, 2,000 characters of each at most.
    """
    with gzip.open(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        for worker, turns in row["rows"].items():
            read, written = PRICES[worker.split("/")[0]]
            told = 600 + len(row["query"]) + len(json.dumps(row["tables"])) * ("handicap" in worker)
            cost, found, right = 0.0, "", 0.0
            for turn in turns:
                action, seen = turn["action"][:2000], (turn["observation"] or "")[:2000]
                cost += (told * read + len(action) * written) / 4e6
                told += len(action) + len(seen)
                if not seen.startswith("[") or "select" not in action.lower() or "information_schema" in action.lower():
                    continue
                found, right = seen, float(turn["reward"] == 1)
                break
            yield TableOutcome(
                where=str(path),
                id=f"{row['db']}: {row['query']}",
                query=f"{row['query']} ({row['db']})",
                worker=worker,
                score=right,
                cost_usd=cost,
                reply=found,
            )


def compare_rows(_: str, reply: str) -> Answer:
    """Rows of a table, in any order."""
    if not reply:
        return Answer(NONE, NONE)
    try:
        rows = tuple(sorted(map(str, ast.literal_eval(reply))))
    except (ValueError, SyntaxError):
        return Answer(reply, "many rows")
    return Answer(rows, "nothing" if not rows else "one row" if len(rows) == 1 else "rows")


def _rows(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, tuple[float, float]]]]:
    prices = json.loads((path.parent / "prices.json").read_text())
    with gzip.open(path, "rt") as file:
        yield from ((json.loads(line), prices) for line in file)


ANSWERS = {
    "bfcl": "calls",
    "bfcl_untyped": "calls",
    "zeroeval": "numbers",
    "intercode": "benchmarks.answers:compare_rows",
}
"""Reader -> comparator."""
RUNS: dict[str, tuple[str, str, float, int | None]] = {
    "bfcl": ("bfcl/calls.jsonl.gz", "bfcl", 0.55, None),
    "bfcl without categories": ("bfcl/calls.jsonl.gz", "bfcl_untyped", 0.55, None),
    "gsm8k": ("zeroeval/gsm.jsonl.gz", "zeroeval", 0.25, None),
    "math": ("zeroeval/math-l5.jsonl.gz", "zeroeval", 1.5, None),
    "intercode-sql": ("intercode/sql.jsonl.gz", "intercode", 0.92, None),
    **{f"bfcl, {n} labels": ("bfcl/calls.jsonl.gz", "bfcl", 0.55, n) for n in (30, 100, 300)},
    "gsm8k at 1 USD": ("zeroeval/gsm.jsonl.gz", "zeroeval", 1.0, None),
}
"""Name -> file, reader, US dollars per 1,000 queries and number of verdicts."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("runs/answers"), help="what is finished there is kept")
    parser.add_argument("--json", type=Path, default=Path("docs/results/answers.json"))
    args = parser.parse_args()
    merged: dict[str, Any] = {}
    for name, (file, reader, usd, labels) in RUNS.items():
        report = args.output / f"{name}.json"
        if not report.exists():
            command = [sys.executable, "-m", "orchestai.cli", "evaluate-table", "--table", str(args.data / file)]
            command += ["--reader", f"benchmarks.answers:{reader}", "--answers", ANSWERS[reader]]
            command += ["--usd_per_1000", str(usd), "--seeds", str(args.seeds), "--json", str(report)]
            subprocess.run([*command, *(["--labels", str(labels)] if labels else [])], check=True)
        found = json.loads(report.read_text())
        del found["answers"]["chosen"]
        merged[name] = {key: own for key, own in found.items() if key not in ("paths", "reader", "versions")}
    artifacts.write_json(args.json, merged)


if __name__ == "__main__":
    main()
