"""What scripts do that are a command of `orchestai agents` for one workflow."""

from __future__ import annotations

import argparse
import sys

from orchestai.cli import main
from orchestai.config.aliases import flags_as_words

_TRAINING = ("--output_dir", "logs", "training.phase2_rl.algorithm=PPO", "logging.trackers=[tensorboard]")
"""What the scripts for training do unless their arguments say otherwise."""


def run(command: str, name: str) -> None:
    """`orchestai agents COMMAND NAME --config configs/agents/NAME.yaml` and the script's own arguments."""
    usual = _TRAINING if command == "train" else ()
    main(["agents", command, name, "--config", f"configs/agents/{name}.yaml", *usual, *sys.argv[1:]])


def train(name: str, *words: str) -> None:
    """`orchestai agents train NAME` and the script's own arguments, where `--key value` may stand for `key=value`."""
    main(["agents", "train", name, *words, *flags_as_words(sys.argv[1:], _FLAGS)])


def serve() -> None:
    """`orchestai launch vllm` for a training, with the training's own arguments."""
    parser = argparse.ArgumentParser()
    for flag in _FLAGS:
        if flag != "help":
            parser.add_argument(f"--{flag}", action="store_true" if flag == "resume" else "store")
    training, words = parser.parse_known_args()
    main(["launch", "vllm", "--config", training.config, *flags_as_words(words, ())])


_FLAGS = ("config", "output_dir", "checkpoint", "resume", "help")
"""Of `orchestai agents train`."""
