"""The task suites by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from importlib import import_module

from orchestai.errors import UserError
from orchestai.tasks.suite import Suite

_MODULES = {
    "composition": "orchestai.tasks.composition.suite",
    "humaneval": "orchestai.tasks.code.humaneval",
    "mbpp": "orchestai.tasks.code.mbpp",
    "bigcodebench": "orchestai.tasks.code.bigcodebench",
    "deepcoder": "orchestai.tasks.code.deepcoder",
    "swe": "orchestai.tasks.code.swe",
    "gsm8k": "orchestai.tasks.maths.gsm8k",
    "math500": "orchestai.tasks.maths.math500",
    "aime": "orchestai.tasks.maths.aime",
    "triviaqa": "orchestai.tasks.qa.triviaqa",
    "nq_open": "orchestai.tasks.qa.nq_open",
    "hotpotqa": "orchestai.tasks.qa.hotpotqa",
    "written": "orchestai.tasks.written",
    "arxiv_abstracts": "orchestai.tasks.arxiv_abstracts",
}


def load_suite(name: str, path: str | None = None) -> Suite:
    """A suite by name; its splits are read when they are asked for.

    Args:
        name: one of those that the error message lists.
        path: a file (.json, .jsonl, either with .gz) or Hugging Face data set name instead of the default source.

    Raises:
        UserError: there is no such suite.
    """
    if name not in _MODULES:
        near = difflib.get_close_matches(name, _MODULES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(f"no task suite {name!r}; there are {', '.join(_MODULES)}{hint}")
    load: Callable[[str | None], Suite] = import_module(_MODULES[name]).load
    return load(path)
