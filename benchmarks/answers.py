"""Whether judging answers pays, on recorded answers that nobody here wrote.

    python -m benchmarks.answers DATA [--seeds 5] [--json docs/results/answers.json]

Each table is measured by five folds, and on a fifth of its questions by their hash, with nothing learned from these.
What was decided on each question is kept in `docs/results/answers/` where the data's license allows it, else in
`--output`; `python -m benchmarks.verify` computes the figures from it.

DATA holds `bfcl/calls.jsonl.gz` and `zeroeval/{gsm,math-l5}.jsonl.gz`, each beside a `prices.json` (US dollars per
million tokens read and written), `intercode/sql.jsonl.gz`, `routerbench/routerbench.jsonl.gz` and
`mbpp/sanitized-mbpp.json.gz`. The functions here are also readers and a comparator for
`orchestai evaluate --table FILE --reader benchmarks.answers:bfcl --answers calls`.
Tokens that a row does not say are estimated at 3.7 characters each.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from orchestai.cli.options import judged_replies, read_table
from orchestai.config import load_config
from orchestai.data.outcome_table import TableOutcome
from orchestai.estimate.comparators import NONE, Answer
from orchestai.evaluation.tables.answers import ROWS, AnswersEvaluation, evaluate_answers, see_answers
from orchestai.planner.slots.text_encoder import query_features
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
    "mbpp replies": ("routerbench/routerbench.jsonl.gz", "routerbench", 0.5, None),
    **{f"bfcl, {n} labels": ("bfcl/calls.jsonl.gz", "bfcl", 0.55, n) for n in (30, 100, 300)},
    "gsm8k at 1 USD": ("zeroeval/gsm.jsonl.gz", "zeroeval", 1.0, None),
}
"""Name -> file, reader, US dollars per 1,000 queries and number of verdicts."""
OPEN = ("gsm8k", "math", "intercode-sql")
"""Runs whose decisions are kept with the code, as the data's license allows."""
HELD_OUT = " held out"
_PLACES = ("right", "usd", "worker", "probability")


def run(data: Path, name: str, seeds: int, held_out: bool) -> AnswersEvaluation:
    """Evaluate the ways of asking on one of `RUNS`, by folds or on the questions that are held out."""
    file, reader, usd, labels = RUNS[name]
    config = load_config(overrides=["tasks.suite=mbpp", f"tasks.path={data / 'mbpp/sanitized-mbpp.json.gz'}"])
    table = read_table([data / file], reader if reader == "routerbench" else f"benchmarks.answers:{reader}", None)
    if reader == "routerbench":
        judged, _ = judged_replies(table, config, lambda _: None)
        table, seen, regime = judged.table, judged.seen(), "answers whose first test is seen"
    else:
        seen, regime = see_answers(table, ANSWERS[reader]), "unchecked answers"
    hashes = {own: sha256(text.encode()).hexdigest()[:16] for own, text in zip(table.ids, table.texts, strict=True)}
    test = [own for own, text in hashes.items() if int(text, 16) % 5 == 0] if held_out else ()
    features = query_features(table.texts, config.workers.models_dir)
    found = evaluate_answers(
        table, seen, features, usd, regime=regime, test=test, seeds=range(seeds), labels=labels, progress=print
    )
    return replace(found, source=name, ids=[hashes[own] for own in found.ids])


def file_of(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(',', '').replace(' ', '-')}.jsonl.gz"


def write_decisions(path: Path, found: AnswersEvaluation) -> None:
    """A line per question: its hash and group, and by row what was decided, a number where all seeds agree."""
    lines = [{"source": found.source, "title": found.title}]
    for place, (question, group) in enumerate(zip(found.ids, found.groups.tolist(), strict=True)):
        rows = {}
        for row, own in found.decisions.items():
            values = [[float(f"{one:.7g}") if one == one else None for one in part[:, place]] for part in own]
            rows[row] = [part[0] if len(set(part)) == 1 else part for part in values]
        lines.append({"question": question, "group": group, **rows})
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
        file.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode())


def read_decisions(path: Path) -> AnswersEvaluation:
    """What `write_decisions` wrote."""
    with gzip.open(path, "rt") as file:
        facts, *lines = (json.loads(line) for line in file)
    seeds = max(len(part) if isinstance(part, list) else 1 for row in ROWS for line in lines for part in line[row])
    decisions = {row: np.full((len(_PLACES), seeds, len(lines)), np.nan) for row in ROWS}
    for place, line in enumerate(lines):
        for row, own in decisions.items():
            for kind, part in enumerate(line[row]):
                own[kind, :, place] = np.array(part, dtype=float)
    ids, groups = [line["question"] for line in lines], np.array([line["group"] for line in lines])
    return AnswersEvaluation(facts["source"], facts["title"], decisions, ids, groups)


def figures(found: AnswersEvaluation) -> dict[str, Any]:
    """The report, without what needs more than decisions, and how well probabilities tell right answers from others."""
    report = found.to_dict()
    for row, own in report["answers"]["calibration"].items():
        right, probability = (found.decisions[row][place].ravel() for place in (0, 3))
        known = np.isfinite(probability)
        own["auc"] = float(roc_auc_score(right[known], probability[known])) if known.any() else None
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("runs/answers"), help="what is finished there is kept")
    parser.add_argument("--json", type=Path, default=Path("docs/results/answers.json"))
    args = parser.parse_args()
    merged: dict[str, Any] = {}
    for name, held_out in product(RUNS, (False, True)):
        whole = name + HELD_OUT * held_out
        decisions = file_of(args.json.with_suffix("") if name in OPEN else args.output, whole)
        if not decisions.exists():
            print(whole)
            # without labels to draw, all seeds decide alike on one part
            found = run(args.data, name, args.seeds if RUNS[name][3] or not held_out else 1, held_out)
            write_decisions(decisions, found)
        merged[whole] = figures(read_decisions(decisions))
    artifacts.write_json(args.json, merged)


if __name__ == "__main__":
    main()
