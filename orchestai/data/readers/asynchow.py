"""AsyncHow (Lin et al. 2024, arXiv 2402.02805): everyday plans with durations, one a line.

The source is named after the file: `asynchow` for the benchmark itself (async_...), `asynchow_para` and `asynchow_seq`
for its fully parallel and its sequential plans, each followed by `_stated` where the constraints are stated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files, records
from orchestai.data.readers.plan import ReadPlan, SourcePlan, SourceStep, one_line, plans_of

LICENCE = "MIT"
_WORDINGS = (
    "Before starting step {b}, complete step {a}.",
    "Step {a} must precede step {b}.",
    "Upon completing step {a}, proceed to step {b}.",
    "After step {a}, step {b} should commence.",
    "Prioritize step {a} before advancing to step {b}.",
    "Step {a} is a prerequisite for step {b}.",
    "Initiate step {b} subsequent to step {a}.",
    "Ensure step {a} is done before step {b}.",
    "Sequence the tasks: firstly step {a}, then step {b}.",
    "Step {b} follows the completion of step {a}.",
)
"""The ten in which the benchmark states an ordering constraint to the models that it tests."""


def read(path: Path, *, stated: bool = False) -> Iterator[ReadPlan]:
    """Plans of a .jsonl file; of a folder, of all its .jsonl(.gz) files. Which step needs which is not said.

    Args:
        stated: all ordering constraints stand behind the steps, sorted, as the benchmark's own prompts have them, in
            one of the ten wordings, which depends on the plan's id.
    """
    for file in files(path, "*.jsonl"):
        part = file.name.split("_")[0].split(".")[0]
        rows = records(file, "AsyncHow", "titles", "steps", "edge_list")
        yield from plans_of(partial(_plan, part, stated=stated), count(), rows)


def _plan(part: str, index: int, row: dict[str, Any], *, stated: bool) -> SourcePlan:
    plan_id = f"{part}_{index}"
    edges = sorted((a, b) for a, b in row["edge_list"] if a != "START" and b != "END")
    wording = _WORDINGS[hashlib.sha256(plan_id.encode()).digest()[0] % len(_WORDINGS)]
    said = [line[0].upper() + line[1:] for line in sorted(wording.format(a=a, b=b) for a, b in edges)]
    return SourcePlan(
        id=plan_id,
        source="_".join(["asynchow", *([part] if part != "async" else []), *(["stated"] if stated else [])]),
        licence=LICENCE,
        task=one_line(row["titles"]),
        steps=tuple(
            SourceStep(str(number), one_line(words), _seconds(row, str(number)))
            for number, words in enumerate(row["steps"], start=1)
        ),
        edges=frozenset(edges),
        remarks=tuple(said or ["All steps can be executed in parallel."]) if stated else (),
    )


def _seconds(row: dict[str, Any], step: str) -> float | None:
    """The longer end of the step's duration: a month may have 28 to 31 days."""
    ends = row.get("timedelta_dic", {}).get(step)
    return None if ends is None else float(ends[-1]["seconds"])
