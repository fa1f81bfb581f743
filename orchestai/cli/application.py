"""`orchestai COMMAND`: every command takes `--config FILE`, its own flags, and overrides such as `tasks.limit=20`."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from orchestai import __version__
from orchestai.cli.agents import agents
from orchestai.config import DEFAULT_CONFIG, Config, load_config
from orchestai.errors import InfrastructureError, UserError

app = typer.Typer(
    name="orchestai", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__
)
app.add_typer(agents, name="agents")
console = Console(stderr=True)
_OVERRIDE = re.compile(r"[a-z_0-9]+(?:\.[\w-]+)+=")
_INTERRUPTED = 130
"""Exit code after Ctrl-C, by the shells' convention."""

ConfigFile = Annotated[Path, typer.Option("--config", help="Configuration file.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Dotted overrides.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in the output folder.")]


def _flag(name: str, text: str, minimum: int | None = None) -> Any:
    """An option spelled with underscores, as in `--output_dir`, and also with hyphens."""
    return typer.Option(*dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")), help=text, min=minimum)


Record = Annotated[Path | None, _flag("record", "Also write every generation used to this recording.")]


def _override(key: str, value: object) -> list[str]:
    return [] if value is None else [f"{key}={json.dumps(value)}"]


def _parse_k(text: str) -> list[int]:
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise UserError(f"--k: {text!r} is not a list of numbers from 1; write it such as 1,10")
    return found


@app.command()
def collect(
    config: ConfigFile = DEFAULT_CONFIG,
    num_executions: Annotated[
        int, _flag("num_executions", "Workflows to execute, those already logged included.", minimum=1)
    ] = 200,
    output_dir: Annotated[Path, _flag("output_dir", "Folder of the execution log.")] = Path("execution_logs"),
    planner: Annotated[
        str,
        _flag(
            "planner",
            "reference, random, heuristic, llm, whole:WORKER, reference:WORKER, or a checkpoint's path.",
        ),
    ] = "reference",
    suite: Annotated[str | None, _flag("suite", "Suite instead of tasks.suite.")] = None,
    limit: Annotated[int | None, _flag("limit", "Only the first so many tasks.")] = None,
    seed: Annotated[int, _flag("seed", "Seed of the planner.")] = 0,
    record: Record = None,
    overrides: Overrides = None,
) -> None:
    """Plan tasks, execute the plans on the workers and log the executions. Interrupt and repeat it to continue."""
    from orchestai.cli import commands

    loaded = load_config(
        config, [*(overrides or []), *_override("tasks.suite", suite), *_override("tasks.limit", limit)]
    )
    asyncio.run(
        commands.collect(
            loaded, planner=planner, num_executions=num_executions, output_dir=output_dir, seed=seed, record=record
        )
    )


@app.command()
def prepare(
    config: ConfigFile = DEFAULT_CONFIG,
    logs: Annotated[Path, _flag("logs", "Folder or file of execution logs.")] = Path("execution_logs"),
    output: Annotated[Path, _flag("output", "Training file to write.")] = Path("training_data.json"),
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Read plans of PATH... instead of logs: worfbench, worfbench-tools, asynchow, asynchow-stated, "
            "orchestai, langgraph-json, or a reader of your own, MODULE:FUNCTION.",
        ),
    ] = None,
    free: Annotated[
        bool, _flag("free", "With --from: leave the steps out of the instruction, so that planners find them.")
    ] = False,
    augment: Annotated[
        int | None, _flag("augment", "Augmented examples to add; phase1_supervised.synthetic_augmentations if absent.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH]... [KEY=VALUE]...", help="Files of --from; dotted overrides.")
    ] = None,
) -> None:
    """Turn execution logs into training data: the best execution of every task, and reworded copies. Or, with --from,
    plans that others wrote."""
    from orchestai.cli import commands

    if source is not None:
        paths = [Path(text) for text in overrides or [] if not _OVERRIDE.match(text)]
        loaded = load_config(config, [text for text in overrides or [] if _OVERRIDE.match(text)])
        commands.prepare_plans(loaded, source=source, paths=paths, output=output, given=not free)
        return
    key = "training.phase1_supervised.synthetic_augmentations"
    commands.prepare(load_config(config, [*(overrides or []), *_override(key, augment)]), logs=logs, output=output)


@app.command()
def train_phase1(
    config: ConfigFile = DEFAULT_CONFIG,
    data: Annotated[Path, _flag("data", "Training file.")] = Path("training_data.json"),
    output_dir: Annotated[Path, _flag("output_dir", "Folder for checkpoints and metrics.")] = Path("checkpoints"),
    epochs: Annotated[int | None, _flag("epochs", "Epochs instead of phase1_supervised.num_epochs.")] = None,
    batch_size: Annotated[int | None, _flag("batch_size", "Instead of phase1_supervised.batch_size.")] = None,
    resume: Resume = False,
    overrides: Overrides = None,
) -> None:
    """Phase 1: learn decomposition and worker selection from training data."""
    from orchestai.cli import commands

    section = "training.phase1_supervised"
    flags = [*_override(f"{section}.num_epochs", epochs), *_override(f"{section}.batch_size", batch_size)]
    commands.train_phase1(
        load_config(config, [*(overrides or []), *flags]), data=data, output_dir=output_dir, resume=resume
    )


@app.command()
def train_phase2(
    config: ConfigFile = DEFAULT_CONFIG,
    checkpoint: Annotated[Path, _flag("checkpoint", "Planner to start from.")] = Path("checkpoints/phase1_best.pth"),
    output_dir: Annotated[
        Path | None, _flag("output_dir", "Folder for checkpoints and metrics; `checkpoints` if absent.")
    ] = None,
    episodes: Annotated[int | None, _flag("episodes", "Episodes instead of phase2_rl.num_episodes.")] = None,
    updates: Annotated[
        int | None, _flag("updates", "Updates instead of phase2_rl.num_updates, whatever they take.", minimum=1)
    ] = None,
    evaluate_only: Annotated[
        Path | None,
        _flag(
            "evaluate_only",
            "Train nothing: judge this planner; with --output_dir, keep validation.json there.",
        ),
    ] = None,
    resume: Resume = False,
    overrides: Overrides = None,
) -> None:
    """Phase 2: improve the planner by the reward of executed plans. Start it with `accelerate launch` for many GPUs."""
    if episodes is not None and updates is not None:
        raise UserError("--episodes and --updates both say how long phase 2 lasts; give one of them")
    flags = [
        *_override("training.phase2_rl.num_episodes", episodes),
        *(["training.phase2_rl.num_updates=null"] if episodes is not None else []),
        *_override("training.phase2_rl.num_updates", updates),
    ]
    _phase2(load_config(config, [*(overrides or []), *flags]), checkpoint, evaluate_only, output_dir, resume)


@app.command(hidden=True)
def train(overrides: Overrides = None) -> None:
    """Phase 2 on BigCodeBench, from a preset for this machine.

    Overrides are dotted, or short: run_cfg, trainer_cfg, model_name_or_path, train_batch_size, max_steps, checkpoint,
    output_dir, resume, evaluate_only; docs/bigcodebench.md explains them.
    """
    from orchestai.config.aliases import understand

    asked = understand(overrides or [])
    _phase2(asked.config, asked.checkpoint, asked.evaluate_only, asked.output_dir, asked.resume)


def _phase2(
    config: Config, checkpoint: Path, evaluate_only: Path | None, output_dir: Path | None, resume: bool
) -> None:
    from orchestai.cli import commands

    if evaluate_only is not None:
        commands.validate(config, checkpoint=evaluate_only, output_dir=output_dir)
    else:
        folder = output_dir or Path("checkpoints")
        commands.train_phase2(config, checkpoint=checkpoint, output_dir=folder, resume=resume)


@app.command()
def evaluate(
    config: ConfigFile = DEFAULT_CONFIG,
    phase1: Annotated[
        Path | None,
        _flag(
            "phase1",
            "Checkpoint of phase 1; checkpoints/phase1_best.pth if absent (with --plans, no planner if that is too).",
        ),
    ] = None,
    checkpoint: Annotated[Path, _flag("checkpoint", "Checkpoint of phase 2.")] = Path("checkpoints/phase2_best.pth"),
    logs: Annotated[Path, _flag("logs", "Logs that the lookup baselines learn from.")] = Path("execution_logs"),
    output: Annotated[Path, _flag("output", "JSON to write; a picture and the table's text go beside it.")] = Path(
        "evaluation.json"
    ),
    plans: Annotated[
        Path | None, _flag("plans", "Instead: compare --phase1 with the plans of this training file, step by step.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--json", help="With --plans: write the figures to this file.")
    ] = None,
    record: Record = None,
    overrides: Overrides = None,
) -> None:
    """Compare both phases with every baseline on held-out tasks; or, with --plans, a planner with plans that others
    wrote."""
    from orchestai.cli import commands
    from orchestai.planner.checkpoint import is_checkpoint

    loaded = load_config(config, overrides or [])
    usual = Path("checkpoints/phase1_best.pth")
    if plans is not None:
        known = phase1 or (usual if is_checkpoint(usual) else None)
        found = commands.evaluate_plans(loaded, plans=plans, checkpoint=known, figures=figures)
        console.print(found.table())
        return
    evaluation = asyncio.run(
        commands.evaluate(loaded, phase1=phase1 or usual, phase2=checkpoint, logs=logs, output=output, record=record)
    )
    console.print(evaluation.table())
    console.print(evaluation.conclusion, highlight=False)
    console.print(f"written: {output}, and the picture and the table beside it", highlight=False)


@app.command()
def score(
    samples: Annotated[
        Path, typer.Argument(help="Samples (.jsonl, .jsonl.gz): rows with task_id, and completion or solution.")
    ],
    config: ConfigFile = DEFAULT_CONFIG,
    suite: Annotated[str | None, _flag("suite", "Suite of the samples, instead of tasks.suite.")] = None,
    k: Annotated[str, _flag("k", "Print pass@k for these, such as 1,10.")] = "1",
    output: Annotated[Path | None, _flag("output", "File of verdicts; SAMPLES_results.jsonl if absent.")] = None,
    figures: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this JSON file.")] = None,
    checkpoint: Annotated[
        Path | None,
        _flag("checkpoint", "The planner or agents that wrote the samples, to leave out tasks that it learned from."),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Judge samples of a suite's tasks by their tests and print pass@k. Interrupt and repeat it to continue."""
    from orchestai.cli import commands

    loaded = load_config(config, [*(overrides or []), *_override("tasks.suite", suite)])
    whole = asyncio.run(
        commands.score(loaded, samples=samples, ks=_parse_k(k), output=output, figures=figures, checkpoint=checkpoint)
    )
    if not whole:
        raise typer.Exit(1)


@app.command()
def plan(
    instruction: Annotated[str, typer.Argument(help="What is to be done.")],
    config: ConfigFile = DEFAULT_CONFIG,
    checkpoint: Annotated[Path, _flag("checkpoint", "Planner.")] = Path("checkpoints/phase2_best.pth"),
    overrides: Overrides = None,
) -> None:
    """Print the workflow that a trained planner makes of an instruction, as JSON."""
    from orchestai.cli import commands

    workflow = commands.plan(load_config(config, overrides or []), instruction, checkpoint)
    print(json.dumps(workflow.to_dict(), indent=2, ensure_ascii=False))


@app.command()
def demo(
    config: ConfigFile = DEFAULT_CONFIG,
    output_dir: Annotated[Path, _flag("output_dir", "Folder for everything that the demo makes.")] = Path("runs/demo"),
    live: Annotated[bool, _flag("live", "Run the language model instead of its recording, on fewer tasks.")] = False,
    overrides: Overrides = None,
) -> None:
    """Collect, prepare, train both phases and evaluate, on this machine. Finished stages are kept."""
    from orchestai.cli.demo import run_demo

    folder = output_dir.with_name(f"{output_dir.name}-live") if live else output_dir
    run_demo(load_config(config, overrides or []), folder, live=live)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `orchestai` on these words or the process's own, and exit: 1 if this system failed, 2 if the user did."""
    try:
        app(args=argv)
    except UserError as error:
        console.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except InfrastructureError as error:
        console.print(f"[bold red]this system failed:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except (KeyboardInterrupt, SystemExit) as left:  # typer turns the former into the latter
        if isinstance(left, SystemExit) and left.code != _INTERRUPTED:
            raise
        console.print("interrupted; what was finished is kept: repeat the command to continue, training with --resume")
        sys.exit(_INTERRUPTED)
    finally:
        _leave_nothing_to_collect()
    sys.exit(0)


def _leave_nothing_to_collect() -> None:
    """Keep the interpreter from searching all modules for cycles, again and again, when it ends.

    With torch and transformers loaded that takes seconds after the last word, and many where the machine is busy: the
    command seems to hang. What is garbage by now is collected as usual, so that open files are closed.
    """
    gc.collect()
    gc.freeze()
