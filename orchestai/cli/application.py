"""`orchestai COMMAND`: most commands take `--config FILE`, their own flags, and overrides such as `tasks.limit=20`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pkgutil import resolve_name
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from orchestai import __version__
from orchestai.cli.options import say
from orchestai.errors import InfrastructureError, UserError
from orchestai.extras import how_to_install
from orchestai.threads.interrupts import heed_interrupts, interrupted_by

_COMMANDS = {
    "run": "serving.run:run",
    "serve": "serving.serve:serve",
    "init": "init:init",
    "doctor": "doctor:doctor",
    "collect": "training.collect:collect",
    "prepare": "training.prepare:prepare",
    "prepare-plans": "training.prepare:prepare_plans",
    "prepare-table": "training.prepare:prepare_table",
    "train-base": "training.train:train_base",
    "train-phase1": "training.train:train_phase1",
    "train-phase2": "training.train:train_phase2",
    "plan-run": "training.plan_run:plan_run",
    "evaluate": "evaluation.evaluate:evaluate",
    "evaluate-plans": "evaluation.evaluate_plans:evaluate_plans",
    "evaluate-table": "evaluation.evaluate_table:evaluate_table",
    "score": "evaluation.score:score",
    "plan": "serving.plan:plan",
    "report": "report:report",
    "watch": "watch:watch",
    "demo": "demo:demo",
    "train": "training.train:train",
    "improve": "serving.improve:improve",
    "promote": "serving.improve:promote",
    "rollback": "serving.improve:rollback",
    "agents": "agents:agents",
    "keys": "serving.keys:keys",
    "launch": "training.launch:launch",
}
"""Where in `orchestai.cli` each command is; it is imported when it is asked for."""
_HIDDEN = ("train",)
_INTERRUPTED = 130
"""Exit code after Ctrl-C, by the shells' convention."""
_THREADS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
"""For numeric libraries, where the environment does not say otherwise. Threads meet after each of thousands of small
operations, so where other programs run too, two are not half as fast but hundreds of times slower than one."""
_FORMER = {
    ("prepare", "--from"): "prepare-plans",
    ("prepare", "--from-table"): "prepare-table",
    ("prepare", "--from_table"): "prepare-table",
    ("evaluate", "--plans"): "evaluate-plans",
    ("evaluate", "--table"): "evaluate-table",
}
"""Commands that are spelled as a flag of another, too."""


@cache
def _import(name: str, place: str) -> Any:
    found = resolve_name(f"orchestai.cli.{place}")
    if not isinstance(found, typer.Typer):
        alone = typer.Typer()
        alone.command(name, hidden=name in _HIDDEN)(found)
        found = alone
    found.info.name, found._add_completion = name, False
    return get_command(found)


class _Imported(Mapping[str, Any]):
    """The commands by name."""

    def __getitem__(self, name: str) -> Any:
        return _import(name, _COMMANDS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Commands(TyperGroup):
    """The commands, under their other spellings too."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Imported()})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        flags = (word.partition("=")[0] for word in args)
        name = next((_FORMER[args[0], flag] for flag in flags if (args[0], flag) in _FORMER), args[0])
        return super().resolve_command(ctx, [name, *args[1:]])


app = typer.Typer(name="orchestai", cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `orchestai` on these words or the process's own, and exit: 1 if this system failed, 2 if the user did."""
    os.environ.update(_THREADS | os.environ)  # before any of these libraries is imported
    heed_interrupts()
    try:
        app(args=argv)
    except UserError as error:
        say(f"error: {error}")
        sys.exit(2)
    except ModuleNotFoundError as error:
        if (said := how_to_install(error)) is None:
            raise
        say(f"error: {said}")
        sys.exit(2)
    except InfrastructureError as error:
        say(f"this system failed: {error}")
        sys.exit(1)
    except (KeyboardInterrupt, SystemExit) as left:  # typer turns the former into the latter
        if isinstance(left, SystemExit) and left.code != _INTERRUPTED:
            raise
        say("interrupted; what was finished is kept: repeat the command to continue, training with --resume")
        sys.exit(128 + interrupted_by())
    finally:
        _leave_nothing_to_collect()
    sys.exit(0)


def _leave_nothing_to_collect() -> None:
    """Keep the interpreter from searching all modules for cycles, again and again, when it ends.

    With torch and transformers loaded that takes seconds after the last word, and many where the machine is busy: the
    command seems to hang. What is garbage by now is collected as usual, so that open files are closed.
    """
    gc.collect()
    gc.freeze()
