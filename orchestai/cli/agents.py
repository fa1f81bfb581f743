"""`orchestai agents COMMAND NAME`: workflows in which roles act over several turns. See docs/agents/agents.md."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import CHECKPOINTS, OutputFolder, Resume, print_words, run_async, say
from orchestai.errors import UserError
from orchestai.progress import console

if TYPE_CHECKING:
    from orchestai.config.agents import AgentConfig

agents = typer.Typer(no_args_is_help=True, help=__doc__)

Name = Annotated[str, typer.Argument(help="A workflow's or a preset's name (a wrong one lists them), or module:Class.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration file; the preset, or the workflow's defaults, if absent.")
]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Overrides such as model=tiny or training.phase2_rl.seed=1."),
]


def _last_of(checkpoint: Path | None) -> Path | None:
    from orchestai.planner.files import last_of

    return None if checkpoint is None else last_of(checkpoint)


Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        callback=_last_of,
        help="Trained agents, such as OUTPUT/phase2_best or OUTPUT/checkpoint_20; the model itself if absent.",
    ),
]


def _load(name: str, config: Path | None, words: list[str] | None) -> AgentConfig:
    from orchestai.agents.recipes import load_agent_config
    from orchestai.agents.registry import WORKFLOWS, presets

    if config is None and name in WORKFLOWS and (preset := presets().get(name)):
        say(f"{name}: the workflow's defaults; its preset is --config {preset}")
    return load_agent_config(name, config, words or [])


@agents.command()
def train(
    name: Name,
    words: Words = None,
    config: ConfigFile = None,
    output_dir: OutputFolder = CHECKPOINTS,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
) -> None:
    """Train the agents of a workflow by reward. Start it with `accelerate launch` for many GPUs."""
    from orchestai.agents.trainer import AgentTrainer

    trainer = AgentTrainer(config=_load(name, config, words), output_dir=output_dir, checkpoint=checkpoint)
    summary = trainer.train(resume=resume)
    summary.exit_if_stopped()
    summary.refuse_unchanged()


@agents.command()
def evaluate(
    name: Name,
    words: Words = None,
    config: ConfigFile = None,
    checkpoint: Checkpoint = None,
    output: Annotated[Path, typer.Option("--json", help="JSON to write: figures and transcripts.")] = Path(
        "agents_evaluation.json"
    ),
) -> None:
    """Judge the agents of a workflow on held-out tasks, with intervals."""
    from orchestai.evaluation import agents as evaluation

    loaded = _load(name, config, words)
    found = run_async(evaluation.evaluate(loaded, checkpoint=checkpoint, output=output))
    console.print(evaluation.table(found, f"{name}: {checkpoint or 'as it is'}"))
    say(f"written: {output}")


@agents.command()
def run(
    name: Name,
    instruction: Annotated[str, typer.Argument(help="The task, in words; with --task, the id of one of the suite.")],
    words: Words = None,
    config: ConfigFile = None,
    checkpoint: Checkpoint = None,
    task: Annotated[bool, typer.Option("--task", help="Take a task of the suite, which can be judged.")] = False,
) -> None:
    """Let the agents of a workflow attempt one task, and print all that they say."""
    from orchestai.evaluation import agents as evaluation
    from orchestai.outcome import Scored
    from orchestai.tasks.splits import open_splits
    from orchestai.tasks.task import Task

    loaded = _load(name, config, words)
    given = Task(task_id="given", suite="given", instruct_prompt=instruction)
    if task:
        known = {one.task_id: one for one in open_splits(loaded.tasks).whole}
        if instruction not in known:
            raise UserError(
                f"no task {instruction!r} in tasks.suite={loaded.tasks.suite}; there is {next(iter(known))!r}"
            )
        given = known[instruction]
    episode = run_async(evaluation.attempt(loaded, given, checkpoint=checkpoint))
    for trajectory in episode.trajectories:
        for speaker, said in trajectory.transcript:
            print_words(f"[{trajectory.role}] {speaker}: {said}\n", sys.stdout)
    outcome = episode.outcome
    said = f"reward {outcome.value:g}" if isinstance(outcome, Scored) else f"not judged: {outcome.reason}"
    say(said)


@agents.command()
def index(
    corpus: Annotated[Path, typer.Argument(help="Passages (.jsonl, .jsonl.gz): id, title, text.")],
    output: Annotated[Path, typer.Option("--output", help="Folder for the index.")],
) -> None:
    """Index a corpus, for the search tool of workflows (agents.workflow_args.corpus)."""
    from orchestai.agents.search_index import SearchIndex, read_corpus

    built = SearchIndex.build(read_corpus(corpus))
    built.save(output)
    say(f"{output}: {len(built)} passages")
