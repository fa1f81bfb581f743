"""`python -m orchestai.tasks.composition`: count the suite, measure its hidden tests, or write it to files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestai.errors import UserError
from orchestai.storage import artifacts
from orchestai.tasks.composition.generate import SPLITS, generate_pairs
from orchestai.tasks.composition.mutants import measure
from orchestai.tasks.composition.operations import OPERATIONS
from orchestai.tasks.composition.suite_statistics import count


def main(
    stats: Annotated[bool, typer.Option("--stats", help="Count the suite and run mutants against its tests.")] = False,
    mutated: Annotated[int, typer.Option(help="Test tasks whose mutants are run.")] = 300,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the counts to this file.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write each split to this folder as JSON lines.")] = None,
) -> None:
    """Generate the composition suite from its seed."""
    pairs = {name: generate_pairs(split) for name, split in SPLITS.items()}
    if output is not None:
        for name, members in pairs.items():
            lines = "".join(task.model_dump_json(exclude_defaults=True) + "\n" for task, _ in members)
            artifacts.write_text(output / f"{name}.jsonl", lines)
            typer.echo(f"{len(members)} tasks -> {output / f'{name}.jsonl'}")
    if stats or json_path is not None:
        found = count(pairs, OPERATIONS) | {"mutants": measure(pairs["test"][:mutated], OPERATIONS).to_dict()}
        typer.echo(json.dumps(found, indent=2))
        if json_path is not None:
            artifacts.write_json(json_path, found)


def run() -> None:
    """The command line; what a user can fix is one line and exit code 2."""
    try:
        typer.run(main)
    except UserError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    run()
