"""`orchestai run`: the answer to an instruction, under a contract, with its receipt."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import typer

from orchestai.cli.options import (
    CONFIG,
    EXECUTION_LOGS,
    ConfigFile,
    Overrides,
    flag,
    latest_checkpoint,
    load,
    override,
    print_words,
    run_async,
    say,
)
from orchestai.errors import UserError

if TYPE_CHECKING:
    from orchestai.orchestrator import Orchestrator, RunResult
    from orchestai.tasks.asked_task import AnswerKind

PARTIAL = 3
"""Exit code where the deadline came before the answer was whole; 1: there is none."""


def run(
    instruction: Annotated[str, typer.Argument(help="What is to be done.", show_default=False)] = "",
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[
        str | None,
        flag("checkpoint", "Planner; else the latest in checkpoints/, or the base planner."),
    ] = None,
    max_cost_usd: Annotated[float | None, flag("max_cost_usd", "Most that the answer may cost, in US dollars.")] = None,
    deadline_s: Annotated[float | None, flag("deadline_s", "Seconds after which there is an answer.")] = None,
    max_calls: Annotated[int | None, flag("max_calls", "Most requests to models and tools.")] = None,
    allow: Annotated[str | None, flag("allow", "Workers that may be asked, separated by commas.")] = None,
    min_success: Annotated[
        float | None, flag("min_success", "Least probability, 0 to 1, that the answer is right; else nobody is asked.")
    ] = None,
    prefer: Annotated[
        float | None, flag("prefer", "From 0, the least price, to 1, the most success; else as the planner chooses.")
    ] = None,
    answer: Annotated[str | None, flag("answer", "`program` or `text`; without it, as its words ask.")] = None,
    log: Annotated[Path, flag("log", "Folder of the execution log that the run is appended to.")] = EXECUTION_LOGS,
    replay: Annotated[
        str | None, flag("replay", "FILE#RUN of a log: run its workflow again on the answers in the log.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print answer, workflow and receipt as JSON.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show each attempt, and the receipt.")] = False,
    overrides: Overrides = None,
) -> None:
    """Plan an instruction, run the plan on the pool, and print the answer; who did what goes to stderr."""
    from orchestai.orchestrator import Orchestrator
    from orchestai.threads import BackgroundLoop

    limits = [
        *override("contract.max_cost_usd", max_cost_usd),
        *override("contract.deadline_s", deadline_s),
        *override("contract.max_calls", max_calls),
        *override("contract.min_success", min_success),
        *override("contract.prefer", prefer),
        *override("contract.allow", None if allow is None else [name.strip() for name in allow.split(",")]),
    ]
    if replay is not None:
        if instruction and "=" not in instruction:
            raise UserError("--replay takes no instruction: the workflow and its answers are those of the log")
        from orchestai.execution.replay_run import find_run
        from orchestai.execution.replay_run import replay as run_again

        settings = load(config, [*([instruction] if instruction else []), *(overrides or [])])
        record = find_run(replay)
        again = run_async(run_again(record, settings.execution, settings.sandbox))
        same = again.answer == record.answer
        if as_json:
            print(json.dumps({"answer": again.answer, "same_as_logged": same}, indent=2))
            return
        how, spent = "the same answer as" if same else "another answer than", f"{again.total_cost:.6g} USD"
        say(f"{replay}: {how} in the log, {spent} and {again.total_latency_ms:.0f} ms then")
        print_words(again.answer, sys.stdout)
        return
    if not (instruction := instruction.strip()):
        raise UserError('say what is to be done: orchestai run "..."')
    if answer not in (None, "program", "text"):
        raise UserError(f"--answer {answer}: it is either program or text")
    planner = checkpoint or latest_checkpoint()
    loaded = load(config, [*limits, *(overrides or [])], first_pool=planner is None)
    kind = cast("AnswerKind | None", answer)
    opened = Orchestrator.open(planner, loaded, log=log)
    background, output = BackgroundLoop(), sys.stdout
    try:
        with redirect_stdout(sys.stderr):  # what workers print is no part of the answer
            result = background.run(_run(opened, instruction, kind, output, as_json=as_json, verbose=verbose))
    finally:
        background.close()
    if result.receipt.status != "complete":
        raise typer.Exit(1 if result.receipt.status == "failed" else PARTIAL)


async def _run(
    opened: Orchestrator, instruction: str, kind: AnswerKind | None, output: TextIO, *, as_json: bool, verbose: bool
) -> RunResult:
    """Print the answer as soon as there is one; closing all that worked on it takes a while."""
    from orchestai.cli.run_view import RunView, show_run
    from orchestai.cli.run_view import as_json as to_json

    async with opened as orchestrator:
        if as_json:
            result = await orchestrator.run(instruction, answer=kind)
            print_words(to_json(result), output)
            return result
        with RunView(verbose=verbose) as view:
            result = await orchestrator.run(instruction, answer=kind, listen=view.listen)
        show_run(result, orchestrator.config, verbose=verbose)
        if result.receipt.status != "failed":
            print_words(result.answer, output)
        return result
