"""`orchestai agents COMMAND NAME`: workflows in which roles act over several turns. See docs/agents.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

agents = typer.Typer(no_args_is_help=True, help=__doc__)

Name = Annotated[str, typer.Argument(help="A workflow's name, or module:Class.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration file; the workflow's defaults if absent.")
]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Overrides such as model=tiny or training.phase2_rl.seed=1."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="Trained agents, such as OUTPUT/phase2_best; the model itself if absent."),
]


def _folder(name: str, text: str) -> Any:
    return typer.Option(f"--{name}", f"--{name.replace('_', '-')}", help=text)


@agents.command()
def train(
    name: Name,
    words: Words = None,
    config: ConfigFile = None,
    output_dir: Annotated[Path, _folder("output_dir", "Folder for checkpoints and metrics.")] = Path("checkpoints"),
    checkpoint: Checkpoint = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in the output folder.")
    ] = False,
) -> None:
    """Train the agents of a workflow by reward. Start it with `accelerate launch` for many GPUs."""
    from orchestai.agents.shorthand import load_agent_config
    from orchestai.agents.trainer import AgentTrainer

    loaded = load_agent_config(name, config, words or [])
    AgentTrainer(config=loaded, output_dir=output_dir, checkpoint=checkpoint).train(resume=resume)


@agents.command()
def index(
    corpus: Annotated[Path, typer.Argument(help="Passages (.jsonl, .jsonl.gz): id, title, text.")],
    output: Annotated[Path, typer.Option("--output", help="Folder for the index.")],
) -> None:
    """Index a corpus, for the search tool of workflows (agents.workflow_args.corpus)."""
    from rich.console import Console

    from orchestai.agents.tools.search import SearchIndex, read_corpus

    built = SearchIndex.build(read_corpus(corpus))
    built.save(output)
    Console().print(f"{output}: {len(built)} passages", soft_wrap=True)
