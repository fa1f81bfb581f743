"""`orchestai score`: judge samples of a suite's tasks by their tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import CONFIG, ConfigFile, JsonFile, Overrides, flag, override, run_async, say
from orchestai.errors import UserError
from orchestai.progress import console

if TYPE_CHECKING:
    from orchestai.config import Config
    from orchestai.tasks.seen_tasks import SeenTasks


def score(
    samples: Annotated[
        Path, typer.Argument(help="Samples (.jsonl, .jsonl.gz): rows with task_id, and completion or solution.")
    ],
    config: ConfigFile = CONFIG,
    suite: Annotated[str | None, flag("suite", "Suite of the samples, instead of tasks.suite.")] = None,
    k: Annotated[str, flag("k", "Print pass@k for these, such as 1,10.")] = "1",
    output: Annotated[Path | None, flag("output", "File of verdicts; SAMPLES_results.jsonl if absent.")] = None,
    json_path: JsonFile = None,
    checkpoint: Annotated[
        Path | None,
        flag("checkpoint", "The planner or agents that wrote the samples, to leave out tasks that it learned from."),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Judge samples of a suite's tasks by their tests and print pass@k. Interrupt and repeat it to continue."""
    from orchestai.config import load_config

    loaded = load_config(config, [*(overrides or []), *override("tasks.suite", suite)])
    whole = run_async(
        run_score(loaded, samples=samples, ks=_parse_k(k), output=output, json_path=json_path, checkpoint=checkpoint)
    )
    if not whole:
        raise typer.Exit(1)


def _parse_k(text: str) -> list[int]:
    try:
        ks = sorted({int(part) for part in text.split(",")})
    except ValueError:
        ks = []
    if not ks or ks[0] < 1:
        raise UserError(f"--k: {text!r} is not a list of numbers from 1; write it such as 1,10")
    return ks


async def run_score(
    config: Config,
    *,
    samples: Path,
    ks: Sequence[int],
    output: Path | None = None,
    json_path: Path | None = None,
    checkpoint: Path | None = None,
) -> bool:
    """Judge the samples of a file, print what they are worth and keep the verdicts; whether all could be judged.

    Args:
        checkpoint: the planner or agents that wrote the samples; those of tasks that it has seen are left out.
    """
    from orchestai.evaluation.held_out import held_out_tasks
    from orchestai.evaluation.samples.sample_files import read_samples, samples_of
    from orchestai.evaluation.samples.score_samples import progress_bar
    from orchestai.evaluation.samples.score_samples import score as judge
    from orchestai.evaluation.samples.verdicts import VerdictFile, check_distinct, verdict_path
    from orchestai.execution.runtime import open_sandbox
    from orchestai.storage import artifacts
    from orchestai.tasks.splits import open_splits
    from orchestai.tasks.suite import data_fingerprint
    from orchestai.tasks.suites import open_suite

    suite = open_suite(config.tasks)
    tasks = [task for split in suite.splits for task in suite.split(split)]
    read = read_samples(samples, tasks)
    held_out = (
        None
        if checkpoint is None
        else held_out_tasks(open_splits(config.tasks), {str(checkpoint): _seen_by(checkpoint)})
    )
    if held_out is not None:
        read = samples_of(held_out.kept, read, samples)
        tasks = list(held_out.kept)
    output = output or verdict_path(samples)
    check_distinct([samples, output, *([json_path] if json_path else [])])
    file = VerdictFile(output)
    if file.problems:
        say(f"lines skipped: {len(file.problems)}; the first is {file.problems[0]}")
    with open_sandbox(config.sandbox, config.execution) as sandbox, progress_bar(len(read), console) as progress:
        level = sandbox.level
        if level == "process" and config.sandbox.level != "process":
            raise UserError(
                "score: programs cannot be isolated here, so they could read the suite's answers and earn any score; "
                "score where namespaces work (Linux with bubblewrap), or set sandbox.level=process if you trust them"
            )
        report = await judge(read, sandbox, file, workers=sandbox.workers, progress=progress)
    console.print(report.table(ks, f"{suite.name}: {samples}"))
    say(
        *([] if held_out is None else held_out.remarks()),
        *report.remarks(ks, tasks=len(tasks)),
        f"{output}: {len(report.verdicts)} verdicts ({report.continued} from before)",
    )
    if json_path is not None:
        facts = {
            "suite": suite.name,
            "samples_file": str(samples),
            "data_fingerprint": data_fingerprint(tasks),
            "held_out": None if held_out is None else held_out.to_dict(lambda task: task.task_id),
            "sandbox": config.sandbox.model_dump(mode="json"),
            "level": level,
            "versions": artifacts.versions(),
        }
        artifacts.write_json(json_path, {**report.to_dict(ks), **facts})
    return not report.lost


def _seen_by(checkpoint: Path) -> SeenTasks:
    """Of a planner or of agents."""
    from orchestai.agents import policies
    from orchestai.planner.checkpoint import seen_by

    return policies.seen_by(checkpoint) if (checkpoint / policies.METADATA).exists() else seen_by(checkpoint)
