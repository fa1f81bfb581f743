"""What the scripts in `examples/multi_agent` do: a command of `orchestai agents` for a workflow, with its preset."""

from __future__ import annotations

import sys

from orchestai import cli

_TRAINING = ("--output_dir", "logs", "training.phase2_rl.algorithm=PPO", "logging.trackers=[tensorboard]")
"""What the scripts for training do unless their arguments say otherwise."""


def run(command: str, name: str) -> None:
    """`orchestai agents COMMAND NAME --config configs/agents/NAME.yaml` and the script's own arguments."""
    usual = _TRAINING if command == "train" else ()
    sys.argv[1:] = ["agents", command, name, "--config", f"configs/agents/{name}.yaml", *usual, *sys.argv[1:]]
    cli.main()
