"""MATH-500: 500 competition problems of the MATH data set (MIT)."""

from __future__ import annotations

from orchestai.tasks.maths.problems import math_suite
from orchestai.tasks.suite import Suite

HUB_NAME = "HuggingFaceH4/MATH-500"


def load(path: str | None = None) -> Suite:
    """The suite from the hub, or from a file with `problem` and `answer`."""
    return math_suite("math500", {"test": (HUB_NAME, "test")}, path, "github.com/openai/prm800k, MIT")
