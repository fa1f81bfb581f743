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
from orchestai.installed import how_to_install
from orchestai.interrupts import heed_interrupts, interrupted_by

_COMMANDS = {
    "run": "run:run",
    "fit": "fit:fit",
    "serve": "serving:serve",
    "init": "init:init",
    "doctor": "init:doctor",
    "collect": "training:collect",
    "prepare": "training:prepare",
    "prepare-plans": "training:prepare_plans",
    "prepare-table": "training:prepare_table",
    "train-base": "training:train_base",
    "train-phase1": "training:train_phase1",
    "train-phase2": "training:train_phase2",
    "evaluate": "evaluation:evaluate",
    "evaluate-plans": "evaluation:evaluate_plans",
    "evaluate-table": "evaluation:evaluate_table",
    "score": "evaluation:score",
    "plan": "serving:plan",
    "report": "evaluation:report",
    "demo": "demo:demo",
    "train": "training:train",
    "improve": "serving:improve",
    "promote": "serving:promote",
    "rollback": "serving:rollback",
    "agents": "agents:agents",
    "keys": "serving:keys",
    "launch": "launch:launch",
}
"""Where in `orchestai.cli` each command is; it is imported when it is asked for."""
_FURTHER = (
    *("prepare-plans", "prepare-table", "evaluate-plans", "evaluate-table", "train-base"),
    *("promote", "rollback", "launch"),
)
"""Commands that `orchestai --help` names below the others."""
_HIDDEN = ("train", *_FURTHER)
_INTERRUPTED = 130
"""Exit code after Ctrl-C, by the shells' convention."""
_THREADS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
"""For numeric libraries, where the environment does not say otherwise. Threads meet after each of thousands of small
operations, so where other programs run too, two are not half as fast but hundreds of times slower than one."""
_COLLECT_AFTER = 20_000, 20, 50
"""Allocations after which the garbage collector looks at new objects, and how often it then looks at older ones. With
tens of thousands of tasks, recordings and syntax trees in memory, Python's default takes a quarter of the time."""
_AS_FLAG = {
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
        alone.command(name)(found)
        found = alone
    found.info.name, found._add_completion = name, False
    command = get_command(found)
    command.hidden = name in _HIDDEN
    return command


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
        # no option begins with a digit or has a space; "-5 plus 8" is said, and looks like none behind a space
        if args[0] == "run":
            args = [f" {w}" if w[:1] == "-" and (w[1:2].isdigit() or " " in w.partition("=")[0]) else w for w in args]
        name = next((_AS_FLAG[args[0], flag] for flag in flags if (args[0], flag) in _AS_FLAG), args[0])
        return super().resolve_command(ctx, [name, *args[1:]])


app = typer.Typer(
    name="orchestai",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=__doc__,
    epilog=f"Further commands: {', '.join(_FURTHER)}.",
)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `orchestai` on these words or the process's own, and exit: 1 if this system failed, 2 if the user did."""
    os.environ.update(_THREADS | os.environ)  # before any of these libraries is imported
    heed_interrupts()
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        app(args=argv)
    except UserError as error:
        say(f"error: {error}")
        sys.exit(2)
    except ModuleNotFoundError as error:
        learns = error.name == "torch" and "train" in "".join(sys.argv[1:2])
        if (said := how_to_install(error, "train" * learns)) is None:
            raise
        say(f"error: {said}")
        sys.exit(2)
    except InfrastructureError as error:
        say(f"this system failed: {error}")
        sys.exit(1)
    except (KeyboardInterrupt, SystemExit) as left:  # typer turns the former into the latter
        if isinstance(left, SystemExit) and left.code != _INTERRUPTED:
            raise
        say("interrupted; a collection or training, if this was one, goes on when repeated (training with --resume)")
        sys.exit(128 + interrupted_by())
    finally:
        # Keep the interpreter from searching all modules for cycles, again and again, when it ends
        gc.collect()
        gc.freeze()
    sys.exit(0)
