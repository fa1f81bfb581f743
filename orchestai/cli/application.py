"""`orchestai COMMAND`: most commands take `--config FILE`, their own flags, and overrides such as `tasks.limit=20`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape
from typer.core import TyperGroup

from orchestai import __version__
from orchestai.cli.agents import agents
from orchestai.cli.demo import demo
from orchestai.cli.doctor import doctor
from orchestai.cli.evaluation.evaluate import evaluate
from orchestai.cli.evaluation.evaluate_plans import evaluate_plans
from orchestai.cli.evaluation.evaluate_table import evaluate_table
from orchestai.cli.evaluation.score import score
from orchestai.cli.init import init
from orchestai.cli.options import console
from orchestai.cli.report import report
from orchestai.cli.serving.improve import improve, promote, rollback
from orchestai.cli.serving.keys import keys
from orchestai.cli.serving.plan import plan
from orchestai.cli.serving.run import run
from orchestai.cli.serving.serve import serve
from orchestai.cli.training.collect import collect
from orchestai.cli.training.launch import launch
from orchestai.cli.training.plan_run import plan_run
from orchestai.cli.training.prepare import prepare, prepare_plans, prepare_table
from orchestai.cli.training.train import train, train_base, train_phase1, train_phase2
from orchestai.cli.watch import watch
from orchestai.errors import InfrastructureError, UserError
from orchestai.extras import how_to_install
from orchestai.report.safe_text import visible_lines
from orchestai.threads.interrupts import heed_interrupts, interrupted_by

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


class _Commands(TyperGroup):
    """The commands, under their other spellings too."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        flags = (word.partition("=")[0] for word in args)
        name = next((_FORMER[args[0], flag] for flag in flags if (args[0], flag) in _FORMER), args[0])
        return super().resolve_command(ctx, [name, *args[1:]])


app = typer.Typer(name="orchestai", cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
app.command()(run)
app.command()(serve)
app.command()(init)
app.command()(doctor)
app.command()(collect)
app.command()(prepare)
app.command()(prepare_plans)
app.command()(prepare_table)
app.command()(train_base)
app.command()(train_phase1)
app.command()(train_phase2)
app.command()(plan_run)
app.command()(evaluate)
app.command()(evaluate_plans)
app.command()(evaluate_table)
app.command()(score)
app.command()(plan)
app.command()(report)
app.command()(watch)
app.command()(demo)
app.command(hidden=True)(train)
app.command()(improve)
app.command()(promote)
app.command()(rollback)
app.add_typer(agents, name="agents")
app.add_typer(keys, name="keys")
app.add_typer(launch, name="launch")


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
        console.print(f"[bold red]error:[/] {escape(visible_lines(str(error)))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if (said := how_to_install(error)) is None:
            raise
        console.print(f"[bold red]error:[/] {escape(said)}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except InfrastructureError as error:
        console.print(
            f"[bold red]this system failed:[/] {escape(visible_lines(str(error)))}", highlight=False, soft_wrap=True
        )
        sys.exit(1)
    except (KeyboardInterrupt, SystemExit) as left:  # typer turns the former into the latter
        if isinstance(left, SystemExit) and left.code != _INTERRUPTED:
            raise
        console.print("interrupted; what was finished is kept: repeat the command to continue, training with --resume")
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
