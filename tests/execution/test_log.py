"""The execution log: lines in the documented format, whole whatever happens, and readable after any accident."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestai.errors import UserError
from orchestai.execution.log import ExecutionLog, read_log
from orchestai.execution.record import SCHEMA_VERSION, ExecutionRecord
from orchestai.execution.result import Attempt, JudgedExecution, SubtaskResult
from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow

POOL = ("cheap", "strong", "tool")
HALF = Scored(0.5)
TASK = Task(task_id="t/1", suite="composition", split="train", instruct_prompt="Sort it, then join it.", test="")


def execution(outcome: Outcome = HALF) -> JudgedExecution:
    workflow = Workflow(
        [
            Subtask(id="0", instruction="Sort it", task_type="list", worker="tool", fallback=("cheap",), span=(0, 7)),
            Subtask(id="1", instruction="join it", task_type="list", worker="cheap", depends_on=("0",)),
        ]
    )
    refused = Attempt(worker="tool", prompt="Sort it", answer="no", cost_usd=0.1, latency_ms=1, passed_check=False)
    passed = Attempt(worker="cheap", prompt="p", answer="yes", cost_usd=0.2, latency_ms=5, passed_check=True)
    return JudgedExecution(
        task_id=TASK.task_id,
        workflow=workflow,
        results=(
            SubtaskResult(id="0", status="done", attempts=(refused, passed), kept=1, output="yes"),
            SubtaskResult(id="1", status="failed", attempts=(Attempt(worker="cheap", error="down"),), error="1: down"),
        ),
        outcome=outcome,
        tests_passed=3,
        tests_total=6,
        total_cost=0.3,
        total_latency_ms=6.0,
        error="1: down",
    )


def record(repetition: int = 0, outcome: Outcome = HALF) -> ExecutionRecord:
    return ExecutionRecord.from_execution(
        execution(outcome), TASK, planner="random", pool=POOL, repetition=repetition, reward=1.5
    )


def test_a_line_has_the_documented_fields(tmp_path: Path) -> None:
    """Other programs read this format."""
    log = ExecutionLog(tmp_path)
    log.append(record())
    line = json.loads(log.path.read_text())
    assert line["schema_version"] == SCHEMA_VERSION
    assert (line["instruction"], line["success"], line["cost"], line["latency_ms"]) == (
        TASK.instruction,
        False,
        0.3,
        6.0,
    )
    assert line["planner_outputs"] == {
        "model_selections": [2, 0],
        "task_types": ["list", "list"],
        "workflow_graph": {"adjacency": [[0, 1], [0, 0]]},
    }
    assert line["execution_result"] == {
        "success": False,
        "outputs": {"0": "yes", "1": ""},
        "total_cost": 0.3,
        "total_latency_ms": 6.0,
    }
    assert (line["run_id"], line["task_id"], line["tests_passed"], line["tests_total"]) == (log.run_id, "t/1", 3, 6)
    assert [subtask["answered_by"] for subtask in line["subtasks"]] == ["cheap", ""]
    assert [attempt["worker"] for attempt in line["subtasks"][0]["attempts"]] == ["tool", "cheap"]
    assert line["subtasks"][0]["attempts"][1]["prompt"] == "p"


def test_reading_gives_back_what_was_written(tmp_path: Path) -> None:
    log = ExecutionLog(tmp_path)
    written = [record(i) for i in range(3)]
    for one in written:
        log.append(one)
    contents = read_log(tmp_path)
    assert contents.records == [one.model_copy(update={"run_id": log.run_id}) for one in written]
    assert contents.records[0].workflow() == execution().workflow
    assert not contents.problems


def test_unscorable_is_logged_as_such_and_not_as_a_zero(tmp_path: Path) -> None:
    log = ExecutionLog(tmp_path)
    log.append(record(outcome=Unscorable("recording_missing", "no recording")))
    (read,) = log.read().records
    assert (read.outcome, read.score, read.fault) == ("unscorable", None, "recording_missing")
    assert isinstance(read.judgment, Unscorable)


@given(cut=st.integers(min_value=1))
def test_a_torn_tail_is_reported_and_the_next_append_starts_a_new_line(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    """Whatever byte a crash stops at, the lines before and after it survive."""
    log = ExecutionLog(tmp_path_factory.mktemp("log"), run_id="run")
    log.append(record(0))
    whole = log.path.read_bytes()
    line = len(whole) - 1
    log.path.write_bytes(whole + whole[: 1 + cut % (line - 1)])
    torn = read_log(log.path)
    assert [one.repetition for one in torn.records] == [0]
    assert len(torn.problems) == 1
    assert torn.problems[0].startswith(f"{log.path}:2: not whole")
    log.append(record(1))
    after = read_log(log.path)
    assert [one.repetition for one in after.records] == [0, 1]
    assert len(after.problems) == 1


def test_lines_of_other_orchestrations(tmp_path: Path) -> None:
    """`log_execution` takes plain lists; a line with the documented fields alone can be read."""
    log = ExecutionLog(tmp_path)
    log.log_execution(
        instruction="Summarize document...",
        planner_outputs={"model_selections": [2, 0], "workflow_graph": {"adjacency": [[0, 1], [0, 0]]}},
        execution_result={"success": True, "outputs": {"0": "..."}, "total_cost": 0.045, "total_latency_ms": 1200.0},
    )
    (read,) = log.read().records
    assert (read.success, read.cost, read.latency_ms) == (True, 0.045, 1200.0)
    assert read.planner_outputs.model_selections == (2, 0)
    log.log_execution(instruction="i", planner_outputs={}, execution_result=execution())
    assert log.read().records[1].cost == 0.3
    with pytest.raises(UserError, match="total_cost"):
        log.log_execution(instruction="i", planner_outputs={}, execution_result={"success": True})


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from test_log import ExecutionLog, record
log = ExecutionLog(sys.argv[2], run_id=sys.argv[3])
number = 0
while number < int(sys.argv[4]):
    log.append(record(number))
    number += 1
"""


def writer(directory: Path, run_id: str, lines: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(directory), run_id, str(lines)]
    return subprocess.Popen(command)


def test_several_processes_share_one_file(tmp_path: Path) -> None:
    """No line is lost, torn or mixed with another's."""
    writers = [writer(tmp_path, "shared", 40) for _ in range(3)]
    assert [process.wait(timeout=60) for process in writers] == [0, 0, 0]
    contents = read_log(tmp_path)
    assert not contents.problems
    assert sorted(one.repetition for one in contents.records) == sorted([*range(40)] * 3)


def test_a_killed_writer_loses_at_most_its_last_line(tmp_path: Path) -> None:
    process = writer(tmp_path, "killed", 10**6)
    path = tmp_path / "killed.jsonl"
    deadline = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size > 20_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    contents = read_log(path)
    assert [one.repetition for one in contents.records] == list(range(len(contents.records)))
    assert len(contents.records) > 5
    assert len(contents.problems) <= 1


def test_a_full_disk_takes_the_line_back_and_says_so(tmp_path: Path) -> None:
    """A file size limit stands for the full disk: the write is cut short in the same way."""
    log = ExecutionLog(tmp_path, run_id="full")
    log.append(record(0))
    before = log.path.read_bytes()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, len(before) + 10))
        try:
            log.append(record(1))
        except UserError as error:
            os._exit(0 if "cannot write" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert log.path.read_bytes() == before
