"""AIME 2024: 30 problems, whose answers are integers below 1000. DeepScaleR's problems are its training split."""

from __future__ import annotations

from orchestai.tasks.maths.problems import math_suite
from orchestai.tasks.suite import Suite

HUB_NAME = "HuggingFaceH4/aime_2024"
TRAIN_HUB_NAME = "agentica-org/DeepScaleR-Preview-Dataset"


def load(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file with `problem` and `answer`."""
    hub = {"train": (TRAIN_HUB_NAME, "train"), "test": (HUB_NAME, "train")}
    return math_suite("aime", hub, path, "artofproblemsolving.com (AIME 2024); DeepScaleR-Preview, MIT")
