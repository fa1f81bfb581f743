"""What the scripts in `examples/multi_agent` do: a command of `orchestai agents` for a workflow, with its preset."""

from __future__ import annotations

import sys

from orchestai import cli


def run(command: str, name: str) -> None:
    """`orchestai agents COMMAND NAME --config configs/agents/NAME.yaml` and the script's own arguments."""
    sys.argv[1:] = ["agents", command, name, "--config", f"configs/agents/{name}.yaml", *sys.argv[1:]]
    cli.main()
