"""Scoring samples: each is judged by its task's scorer, some at a time, and its verdict is kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from orchestai.evaluation.samples.sample_files import Sample
from orchestai.evaluation.samples.scorecard import Lost, Score
from orchestai.evaluation.samples.verdicts import Verdict, VerdictFile, fingerprint, report_of
from orchestai.outcome import Unscorable
from orchestai.progress import open_progress
from orchestai.rewards.scorers import judge
from orchestai.sandbox import Sandbox


async def score(
    samples: Sequence[Sample],
    sandbox: Sandbox,
    file: VerdictFile,
    *,
    workers: int,
    progress: Callable[[Verdict | Lost], None] | None = None,
) -> Score:
    """Judge the samples whose verdicts `file` does not know, `workers` at a time, and append theirs to it.

    Args:
        progress: called for each sample, those that are known first.

    Raises:
        UserError: a verdict could not be written.
    """
    found: dict[int, Verdict | Lost] = {}

    def keep(index: int, result: Verdict | Lost) -> None:
        found[index] = result
        if progress is not None:
            progress(result)

    async def run(waiting: Iterator[tuple[Sample, str]]) -> None:
        for sample, mark in waiting:
            judged = await judge(sample.task, sample.code, sandbox)
            if isinstance(outcome := judged.outcome, Unscorable):
                keep(sample.index, Lost(sample.index, sample.task.task_id, outcome.kind, outcome.reason))
            else:
                report = judged.report or report_of(sample.task, outcome)
                verdict = Verdict.of(sample, mark, report)
                file.append(verdict)
                keep(sample.index, verdict)

    missing = []
    for sample in samples:
        mark = fingerprint(sample, sandbox)
        if verdict := file.known.get((sample.index, mark)):
            keep(sample.index, verdict)
        else:
            missing.append((sample, mark))
    continued = sum(isinstance(result, Verdict) for result in found.values())
    waiting = iter(missing)
    runners = [asyncio.ensure_future(run(waiting)) for _ in range(workers)]
    try:
        await asyncio.gather(*runners)
    finally:
        for runner in runners:
            runner.cancel()
        await asyncio.gather(*runners, return_exceptions=True)
    results = [found[sample.index] for sample in samples]
    return Score(
        verdicts=tuple(result for result in results if isinstance(result, Verdict)),
        lost=tuple(result for result in results if isinstance(result, Lost)),
        continued=continued,
    )


@contextmanager
def progress_bar(total: int, console: Console) -> Iterator[Callable[[Verdict | Lost], None]]:
    """A progress line with the number of samples that pass; gives what `score` calls."""
    seen: Counter[str] = Counter()
    with open_progress("score", console=console) as bar:
        line = bar.add_task("score", total=total, status="")

        def show(result: Verdict | Lost) -> None:
            seen["lost" if isinstance(result, Lost) else "pass" if result.success else "fail"] += 1
            lost = f"  {seen['lost']} not judged" if seen["lost"] else ""
            bar.update(line, advance=1, status=f"{seen['pass']} pass  {seen['fail']} fail{lost}")

        yield show
