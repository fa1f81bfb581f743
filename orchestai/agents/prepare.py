"""Preparing data for agent workflows: public sets, read once from the hub or a file and kept in this package's format.

`python -m orchestai.agents.prepare NAME`; the scripts `examples/*/prepare_*.py` are the same with their name.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from orchestai.errors import UserError
from orchestai.installed import shipped
from orchestai.storage.artifacts import write_bytes
from orchestai.tasks import load_suite
from orchestai.tasks.task import Task
from orchestai.tasks.written import write_tasks

SUITES = {"deepcoder": "deepcoder", "swe": "swe", "math": "aime", "hotpotqa": "hotpotqa"}
"""The suite that each name prepares where no other is asked for."""
_SPLITS = {"train", "validation", "test"}


def prepare(
    suite: str, output: Path, path: str | None = None, split: str = "train", limit: int | None = None
) -> list[Task]:
    """Write the tasks of a suite to `output`/tasks.jsonl, for `tasks.suite=written tasks.path=...`.

    Args:
        path: a file or hub name instead of the suite's own source; all of it is then the split `split`.
        limit: only the first so many tasks of each split.
    """
    loaded = load_suite(suite, path)
    splits = [name for name in loaded.splits if name in _SPLITS]
    tasks = [task for name in (splits if path is None else [split]) for task in loaded.split(name)[:limit]]
    write_tasks(output / "tasks.jsonl", tasks)
    return tasks


def clone(tasks: Sequence[Task], folder: Path, remote: str) -> None:
    """Clone every repository that SWE tasks are about, `remote` + `owner/name`, unless it is in `folder` already."""
    for name in sorted({task.details["repo"] for task in tasks}):
        target = folder / name.replace("/", "__")
        if target.exists():
            continue
        command = ["git", "clone", "--quiet", f"{remote}{name}", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"{remote}{name}: cannot be cloned: {done.stderr.strip().splitlines()[-1]}")


def write_swe_sample(folder: Path) -> None:
    """The sample repository as a git bundle, and its instances: two to train on, one to test."""
    for file in shipped("data/agents/swe").iterdir():
        write_bytes(folder / file.name, file.read_bytes())


def _main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(SUITES)}.")],
    suite: Annotated[str | None, typer.Option(help="Another suite, such as gsm8k or math500.")] = None,
    path: Annotated[str | None, typer.Option(help="A file or hub name instead of the suite's source.")] = None,
    split: Annotated[str, typer.Option(help="The split that the file of --path is.")] = "train",
    limit: Annotated[int | None, typer.Option(help="Only the first so many tasks of each split.", min=1)] = None,
    output: Annotated[Path | None, typer.Option("--output_dir", "--output-dir", help="Default: data/NAME.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="swe: only the small sample repository, offline.")] = False,
    remote: Annotated[str, typer.Option(help="swe: where repositories are cloned from.")] = "https://github.com/",
) -> None:
    """Write a public task set in this package's format."""
    if name not in SUITES:
        raise UserError(f"nothing to prepare is called {name!r}; there are {', '.join(SUITES)}")
    output = output or Path("data") / name
    if sample:
        write_swe_sample(output)
        typer.echo(f"{output}: a repository with its instances; set agents.workflow_args.repositories={output}")
        return
    tasks = prepare(suite or SUITES[name], output, path, split, limit)
    if name == "swe":
        clone(tasks, output / "repositories", remote)
    counts = {split: sum(task.split == split for task in tasks) for split in sorted({task.split for task in tasks})}
    path = str(output / "tasks.jsonl")
    typer.echo(f"{path}: {counts}; train with tasks.suite=written tasks.path={path}")


def run(name: str | None = None) -> None:
    """The command line, for one name where a script gives it; what a user can fix is one line and exit code 2."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(_main)
    arguments = sys.argv[1:] if name is None else [name, *sys.argv[1:]]
    try:
        app(arguments)
    except UserError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    run()
