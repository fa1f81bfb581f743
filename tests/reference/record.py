"""Renews the reference trajectories: `python -m tests.reference.record [FAMILY ...]`, in the repository's root.

Do so where training was changed on purpose, and say in the commit why its figures are others now. Without names it
records all families, and what the kept checkpoints plan.

The checkpoints came about in a copy of `inputs`; kept are the last epoch of the first and the best of the second:

    orchestai train-phase1 --config config.yaml training.phase1_supervised.num_epochs=150 \\
      training.phase1_supervised.patience=150 training.phase1_supervised.learning_rate=1e-2
    orchestai train-phase1 --config config.yaml training.phase1_supervised.num_epochs=150 \\
      training.phase1_supervised.patience=150 training.phase1_supervised.learning_rate=5e-3 \\
      training.phase1_supervised.lr_schedule=linear planner.kind=language
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from .families import FAMILIES, HERE
from .trajectory import environment, plans, record

TRAJECTORIES, PLANS = HERE / "trajectories", HERE / "checkpoints" / "plans.json"


def write(path: Path, value: Any) -> None:
    """Write JSON and move it into place; floats have all their digits."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value, indent=1) + "\n")
    new.replace(path)
    print(path)


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in names or FAMILIES:
            steps = record(name, Path(folder) / name)
            write(TRAJECTORIES / f"{name}.json", {"environment": environment(), "steps": steps})
        if not names:
            write(PLANS, plans(Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
