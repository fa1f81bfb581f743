"""GSM8K: school maths in words, whose answers are numbers (MIT)."""

from __future__ import annotations

from orchestai.tasks.maths.problems import math_suite
from orchestai.tasks.suite import Suite

HUB_NAME = "openai/gsm8k:main"


def load(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file of its authors."""
    hub = {"train": (HUB_NAME, "train"), "test": (HUB_NAME, "test")}
    return math_suite("gsm8k", hub, path, "github.com/openai/grade-school-math, MIT")
