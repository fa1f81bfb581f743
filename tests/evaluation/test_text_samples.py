"""Samples of tasks whose answers are texts are scored by the task's scorer, and continue as programs do."""

import json

import pytest

from orchestai.errors import UserError
from orchestai.evaluation.samples.sample_files import read_samples
from orchestai.evaluation.samples.score_samples import score
from orchestai.evaluation.samples.verdicts import VerdictFile
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task

TASKS = [
    Task(task_id=str(n), suite="own", instruct_prompt=f"Double {n}.", answers=(str(2 * n),), scorer="numeric")
    for n in range(3)
]


async def test_texts_are_scored_by_their_scorer_once(tmp_path):
    rows = [{"task_id": "1", "solution": "It is 2."}, {"task_id": "2", "completion": "5"}]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples = read_samples(tmp_path / "samples.jsonl", TASKS)
    with Sandbox(workers=1) as sandbox:
        first = await score(samples, sandbox, VerdictFile(tmp_path / "verdicts.jsonl"), workers=2)
        again = await score(samples, sandbox, VerdictFile(tmp_path / "verdicts.jsonl"), workers=2)
        other = [sample.task.model_copy(update={"answers": ("5",)}) for sample in samples]
        changed = read_samples(tmp_path / "samples.jsonl", other)
        anew = await score(changed, sandbox, VerdictFile(tmp_path / "verdicts.jsonl"), workers=2)
    assert [(verdict.success, verdict.total) for verdict in first.verdicts] == [(True, 1), (False, 1)]
    assert (first.continued, again.continued, anew.continued) == (0, 2, 0), "other answers judge otherwise"
    assert [verdict.success for verdict in anew.verdicts] == [False, True]


def test_a_sample_of_no_task_is_refused(tmp_path):
    (tmp_path / "samples.jsonl").write_text('{"task_id": "7", "solution": "14"}\n')
    with pytest.raises(UserError, match=r"line 1: own has no task '7'"):
        read_samples(tmp_path / "samples.jsonl", TASKS)
