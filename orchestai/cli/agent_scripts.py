"""What scripts do that are a command of `orchestai agents` for one workflow."""

from __future__ import annotations

import sys

from orchestai.cli import main

_TRAINING = ("--output_dir", "logs", "training.phase2_rl.algorithm=PPO", "logging.trackers=[tensorboard]")
"""What the scripts for training do unless their arguments say otherwise."""


def run(command: str, name: str) -> None:
    """`orchestai agents COMMAND NAME --config configs/agents/NAME.yaml` and the script's own arguments."""
    usual = _TRAINING if command == "train" else ()
    main(["agents", command, name, "--config", f"configs/agents/{name}.yaml", *usual, *sys.argv[1:]])


def train(name: str, *words: str) -> None:
    """`orchestai agents train NAME` and the script's own arguments, where `--key value` may stand for `key=value`."""
    main(["agents", "train", name, *words, *_words(sys.argv[1:])])


def _words(arguments: list[str]) -> list[str]:
    """`--learning_rate 1e-6` as `learning_rate=1e-6`, unless the command itself has such a flag."""
    words: list[str] = []
    left = iter(arguments)
    for argument in left:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or name.replace("-", "_") in _FLAGS:
            words.append(argument)
        else:
            words.append(f"{name}={value if equals else next(left, '')}")
    return words


_FLAGS = ("config", "output_dir", "checkpoint", "resume", "help")
"""Of `orchestai agents train`."""
