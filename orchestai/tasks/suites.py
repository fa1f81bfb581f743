"""The task suites by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pkgutil import resolve_name
from typing import Any, cast

from orchestai.config import TasksConfig
from orchestai.errors import UserError
from orchestai.plugins import find_object, find_plugin, there_are
from orchestai.tasks import own_file
from orchestai.tasks.code import bigcodebench, humaneval
from orchestai.tasks.suite import StepCatalog, Suite
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow

OWN_FILE = "file"
"""The suite of tasks in a user's file."""
_LOADERS = {
    "composition": "orchestai.tasks.composition.generate:load",
    "instructions": "orchestai.tasks.instructions:load",
    "humaneval": "orchestai.tasks.code.humaneval:load",
    "mbpp": "orchestai.tasks.code.mbpp:load",
    "bigcodebench": "orchestai.tasks.code.bigcodebench:load",
    "deepcoder": "orchestai.tasks.code.deepcoder:load",
    "swe": "orchestai.tasks.code.swe:load",
    "gsm8k": "orchestai.tasks.maths:gsm8k",
    "math500": "orchestai.tasks.maths:math500",
    "aime": "orchestai.tasks.maths:aime",
    "triviaqa": "orchestai.tasks.qa:triviaqa",
    "nq_open": "orchestai.tasks.qa:nq_open",
    "hotpotqa": "orchestai.tasks.qa:hotpotqa",
    "written": "orchestai.tasks.written:load",
    OWN_FILE: "orchestai.tasks.own_file:load",
    "arxiv_abstracts": "orchestai.tasks.arxiv_abstracts:load",
}
_STEP_CATALOGS = ("orchestai.tasks.composition.steps",)
PROGRAM_PACKAGES: tuple[str, ...] = bigcodebench.LIBRARIES
"""Modules beside the standard library that programs of suites may import."""
ANSWER_PACKAGES: tuple[str, ...] = (humaneval.PACKAGE,)
"""Distributions that hold the answers of suites; programs must not see them."""


def load_suite(name: str, path: str | None = None) -> Suite:
    """A suite by name; its splits are read when they are asked for.

    Args:
        name: one of those that the error message lists, or `MODULE:FUNCTION`, which gets `path` and gives a `Suite`.
        path: a file (.json, .jsonl, either with .gz) or Hugging Face data set name instead of the default source.

    Raises:
        UserError: there is no such suite, or it cannot be had.
    """
    if name in _LOADERS:
        load: Callable[[str | None], Suite] = resolve_name(_LOADERS[name])
        return load(path)
    own = _own(name)
    suite = own(path)
    if not isinstance(suite, Suite):
        raise UserError(f"tasks.suite: {name!r} gave {type(suite).__name__}, not a Suite")
    return suite


def _own(name: str) -> Callable[[str | None], Any]:
    """The function of a user's module, or of an installed package, that loads a suite."""
    if (plugin := find_plugin("suites", name)) is not None:
        return plugin
    if ":" not in name:
        raise UserError(f"no task suite {name!r}; {there_are('suites', _LOADERS, name)}")
    try:
        found: Callable[[str | None], Any] = find_object(name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"tasks.suite: cannot import {name!r}: {error}") from error
    return found


def open_suite(settings: TasksConfig) -> Suite:
    """The configured suite, with `tasks.scorer` for its tasks that name none.

    Raises:
        UserError: there is no such suite, or columns are named for one that is not `file`.
    """
    if settings.columns and settings.suite != OWN_FILE:
        raise UserError(
            f"tasks.columns is for files of your own, but tasks.suite is {settings.suite!r}; set "
            f"tasks.suite={OWN_FILE}, or leave the columns out"
        )
    path = settings.path
    suite = own_file.load(path, settings.columns) if settings.suite == OWN_FILE else load_suite(settings.suite, path)
    if not settings.scorer:
        return suite
    return Suite(suite.name, {name: partial(_scored, suite, name, settings.scorer) for name in suite.splits})


def _scored(suite: Suite, split: str, scorer: str) -> list[Task]:
    return [task if task.scorer else task.model_copy(update={"scorer": scorer}) for task in suite.split(split)]


def step_catalogs() -> list[StepCatalog]:
    """The catalogs of all suites that have one."""
    return [cast(StepCatalog, import_module(name)) for name in _STEP_CATALOGS]


def canonical_steps(plan: Workflow) -> dict[str, str] | None:
    """Subtask id -> canonical source of `step`; None where no suite knows all steps."""
    return next(filter(None, (catalog.canonical(plan) for catalog in step_catalogs())), None)
