"""`orchestai serve`: the orchestrator as a model of OpenAI's API."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from orchestai.cli.options import CONFIG, EXECUTION_LOGS, ConfigFile, Overrides, flag, latest_checkpoint, override


def serve(
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[
        str | None,
        flag("checkpoint", "Planner, or a folder of versions; else the latest in checkpoints/, or the cascade."),
    ] = None,
    host: Annotated[str | None, flag("host", "Where to listen; this machine alone, unless told otherwise.")] = None,
    port: Annotated[int | None, flag("port", "0 takes a free one.")] = None,
    log: Annotated[str | None, flag("log", "What the execution log keeps: none, metadata (no texts) or full.")] = None,
    logs: Annotated[Path, flag("logs", "Folder of the execution log.")] = EXECUTION_LOGS,
    overrides: Overrides = None,
) -> None:
    """Serve /v1/chat/completions and what belongs to it, until Ctrl-C."""
    from orchestai.config import FIRST_POOL, load_config
    from orchestai.degradation import Resilience
    from orchestai.execution.log_keeping import keeping
    from orchestai.orchestrator import Orchestrator
    from orchestai.serving.api.server import serve as serve_until_interrupted
    from orchestai.serving.improvement.succession import serving_checkpoint
    from orchestai.serving.redaction import text_change

    settings = [
        *override("serving.host", host),
        *override("serving.port", port),
        *override("serving.log", log),
    ]
    planner = checkpoint or latest_checkpoint()
    loaded = load_config(config, [*settings, *(overrides or [])], default=None if planner else FIRST_POOL)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    keeps = None if loaded.serving.log == "none" else logs
    serving = loaded.serving
    resilience = Resilience(serving.planner_s, serving.failures, serving.rest_s)
    planner = planner and serving_checkpoint(planner)
    change = text_change(serving)
    keep = None if change is None else keeping(change)
    serve_until_interrupted(Orchestrator.open(planner, loaded, log=keeps, resilience=resilience, keep=keep))
