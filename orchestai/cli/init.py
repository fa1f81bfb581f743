"""`orchestai init`, a commented configuration for the models at hand, and `orchestai doctor`, what it finds amiss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestai.cli.options import CONFIG, ConfigFile, Overrides, flag, latest_checkpoint, load, run_async, say
from orchestai.errors import UserError


def doctor(
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[str | None, flag("checkpoint", "Planner; else the latest in checkpoints/, if any.")] = None,
    overrides: Overrides = None,
) -> None:
    """Say what works here: Python, torch, sandbox, models and keys, disk, checkpoint; each with its mend."""
    from orchestai.doctor import examine

    planner = checkpoint or latest_checkpoint()
    loaded = load(config, overrides, first_pool=planner is None)
    findings = run_async(examine(loaded, planner))
    for finding in findings:
        print(finding)
    if any(finding.needed and not finding.there for finding in findings):
        raise typer.Exit(1)


def init(
    servers: Annotated[
        list[str] | None,
        flag("server", "URL of an OpenAI-compatible server, e.g. http://localhost:11434/v1; repeatable."),
    ] = None,
    models: Annotated[
        list[str] | None,
        flag("model", "[HOST=]MODEL: of its server, only the models named so; repeatable. Else all that it lists."),
    ] = None,
    key_env: Annotated[
        list[str] | None,
        flag(
            "key_env",
            "[HOST=]VARIABLE: environment variable that holds a server's key; repeatable. Else it is named after the "
            "domain (OPENROUTER_API_KEY for openrouter.ai), and servers of your own network get none.",
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        flag("price", "MODEL=IN,OUT in US dollars per million tokens; repeatable. Else as the server lists it."),
    ] = None,
    output: Annotated[Path, flag("output", "The file to write.")] = CONFIG,
) -> None:
    """Ask servers for their models and write a commented configuration with a worker for each."""
    from orchestai.doctor import unfinished
    from orchestai.initial_config import find_models, set_prices, write_config
    from orchestai.storage import artifacts

    if output.exists():
        raise UserError(f"{output}: exists already; remove it, or pass --output FILE")
    found = set_prices(run_async(find_models(servers or [], key_env or [], models or [])), price or [])
    artifacts.write_text(output, write_config(found))
    workers = load(output).workers
    say(
        *(f"{model.name} at {model.server.url}" for model in found),
        *(str(finding) for finding in unfinished(workers) if not finding.there),
        f'{output}: {", ".join(workers.pool)}; next: orchestai doctor, then orchestai run "..."',
    )
