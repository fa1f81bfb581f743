"""What people said of an answer is the outcome of its run: a score, the right answer, or tests that are run."""

from __future__ import annotations

from pathlib import Path

from orchestai import Orchestrator
from orchestai.config import Config
from orchestai.execution.log import read_log
from orchestai.execution.result import Attempt
from orchestai.serving.improvement.improve import SUITE, JudgedRuns, judged_runs
from orchestai.serving.store import Feedback
from orchestai.tasks.dialogue import ToolCall
from support.serving.contract_workers import PRICE

ADDER = "Write `task_func(a, b)`, which adds two numbers."


def one_worker() -> Config:
    worker = {
        "kind": "function",
        "function": "support.serving.contract_workers:good",
        "card": "Repeats what it is asked.",
        "price_per_call_usd": PRICE,
    }
    return Config(workers={"pool": {"good": worker}, "cache_dir": None}, sandbox={"level": "process"})


async def served(folder: Path, said: dict[str, Feedback]) -> JudgedRuns:
    """Runs of these instructions, whose feedback this is, after they were served and judged."""
    config = one_worker()
    async with Orchestrator.open(None, config, log=folder) as orchestrator:
        feedback = {}
        for instruction, given in said.items():
            result = await orchestrator.run(instruction, answer="text")
            feedback[result.receipt.run_id] = given
        await orchestrator.run("Nobody says anything of this.", answer="text")
        sandbox = orchestrator._require_open().sandbox
        return await judged_runs(read_log(folder).records, feedback, config.tasks, sandbox)


async def test_each_kind_of_feedback_judges(tmp_path: Path) -> None:
    judged = await served(
        tmp_path,
        {
            "A score.": Feedback(score=0.5),
            "The right answer.": Feedback(answer="good: The right answer."),
            "A wrong answer.": Feedback(answer="something else"),
            ADDER: Feedback(tests="assert task_func(1, 2) == 3"),
        },
    )
    found = {record.instruction: (record.outcome, record.success, record.score) for record in judged.records}
    assert found["A score."] == ("scored", False, 0.5)
    assert found["The right answer."] == ("scored", True, 1.0)
    assert found["A wrong answer."] == ("scored", False, 0.0)
    assert found[ADDER] == ("scored", False, 0.0), "what was answered is no program"
    assert judged.left_out == {"nobody said anything of it": 1}


async def test_what_can_be_judged_again_is_a_task(tmp_path: Path) -> None:
    """Of an answer that was only scored nobody knows whether another is right."""
    judged = await served(
        tmp_path,
        {
            "A score.": Feedback(score=1.0),
            "An answer.": Feedback(answer="7"),
            ADDER: Feedback(tests="assert task_func(0, 1) == 1"),
        },
    )
    assert {task.instruction for task in judged.tasks} == {"An answer.", ADDER}
    assert all(task.suite == SUITE for task in judged.tasks)
    assert {record.split for record in judged.records} <= {"train", "validation", "test"}


async def test_what_says_nothing_of_an_answer_is_counted_and_teaches_nothing(tmp_path: Path) -> None:
    """A call of a client's tool is no wrong answer, nor is one of which `serving.redact` has let nothing be kept."""
    judged = await served(tmp_path / "redacted", {"An answer.": Feedback(answer=""), ADDER: Feedback(tests="")})
    assert judged.left_out["what was said of it was not kept (serving.redact)"] == 2
    assert not judged.records
    config = one_worker()
    async with Orchestrator.open(None, config, log=tmp_path / "called") as orchestrator:
        run_id = (await orchestrator.run("Say how the weather is.", answer="text")).receipt.run_id
        (line,) = read_log(tmp_path / "called").records
        called = Attempt(
            worker="good", prompt="", answer="", tool_calls=(ToolCall(id="1", name="weather", arguments="{}"),)
        )
        step = line.subtasks[0].model_copy(update={"attempts": (called,)})
        records = [line.model_copy(update={"answer": "", "subtasks": (step,)})]
        said = {run_id: Feedback(answer="Rain."), "run-elsewhere": Feedback(score=1.0)}
        judged = await judged_runs(records, said, config.tasks, orchestrator._require_open().sandbox)
    assert judged.left_out == {"it called a client's tool before it answered": 1, "it has no line in this log": 1}
    assert not judged.records
