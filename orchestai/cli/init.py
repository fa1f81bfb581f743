"""`orchestai init`: a commented configuration for the models at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestai.cli.options import CONFIG, flag, run_async, say
from orchestai.errors import UserError


def init(
    servers: Annotated[
        list[str] | None,
        flag("server", "URL of an OpenAI-compatible server, e.g. http://localhost:8000/v1; repeatable."),
    ] = None,
    key_env: Annotated[
        str, flag("key_env", "Environment variable that holds the key of the servers that want one.")
    ] = "OPENAI_API_KEY",
    price: Annotated[
        list[str] | None,
        flag("price", "MODEL=IN,OUT in US dollars per million tokens; repeatable. Else it is asked for, or to be set."),
    ] = None,
    models: Annotated[list[str] | None, flag("model", "Only this model of the servers; repeatable.")] = None,
    output: Annotated[Path, flag("output", "The file to write.")] = CONFIG,
) -> None:
    """Ask servers for their models and write a commented configuration with a worker for each."""
    from orchestai.initial_config import find_models, parse_price, write_config
    from orchestai.storage import artifacts

    if output.exists():
        raise UserError(f"{output}: exists already; remove it, or pass --output FILE")
    found = run_async(find_models(servers or [], key_env))
    if models:
        missing = [name for name in models if name not in {model.name for model in found}]
        if missing:
            raise UserError(f"--model {missing[0]}: no server has it; they have {', '.join(m.name for m in found)}")
        found = [model for model in found if model.name in models]
    prices = dict(map(parse_price, price or []))
    for model in found:
        if model.name not in prices and not model.local and typer.get_text_stream("stdin").isatty():
            prices[model.name] = parse_price(
                f"{model.name}={typer.prompt(f'{model.name}: US dollars per million tokens read, written (IN,OUT)')}"
            )[1]
    artifacts.write_text(output, write_config(found, prices))
    say(
        *(f"{model.name} at {model.url}" for model in found),
        f'{output}: {len(found) or "no"} models; next: orchestai doctor, then orchestai run "..."',
    )
