"""Folders for reports: execution logs, metrics and rollouts as runs write them, with any text in every field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestai.config.running import Contract
from orchestai.execution.contract.receipt import AskedWorker, NodeReceipt, Receipt
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.result import Attempt, JudgedExecution, SubtaskResult
from orchestai.outcome import Scored
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow

POOL = ("cheap", "strong")


def judged_record(number: int = 0, *, success: bool = True, text: str = "", planner: str = "random") -> ExecutionRecord:
    """Two steps: the first one's cheap worker is refused, and its strong one answers.

    Args:
        text: at the end of every text.
    """
    steps = [
        Subtask(id="1", instruction=f"sort it{text}", task_type="list", worker="cheap", fallback=("strong",)),
        Subtask(id="2", instruction=f"join it{text}", task_type=f"list{text}", worker="strong", depends_on=("1",)),
    ]
    refused = Attempt(worker="cheap", prompt=f"p{text}", answer=f"a{text}", cost_usd=0.1, passed_check=False)
    passed = Attempt(
        worker="strong", prompt=f"q{text}", answer=f"b{text}", cost_usd=0.2, latency_ms=5.0, passed_check=True
    )
    broken = Attempt(worker="strong", error=f"down{text}", latency_ms=9.0)
    execution = JudgedExecution(
        task_id=f"t/{number}",
        workflow=Workflow(steps),
        results=(
            SubtaskResult(id="1", status="done", attempts=(refused, passed), kept=1, output="b"),
            SubtaskResult(id="2", status="done", attempts=(passed,), kept=0, output="b")
            if success
            else SubtaskResult(id="2", status="failed", attempts=(broken,), error=f"2: down{text}"),
        ),
        answer="b",
        outcome=Scored(1.0 if success else 0.5),
        tests_passed=4 if success else 2,
        tests_total=4,
        total_cost=0.5 if success else 0.3,
        total_latency_ms=14.0,
        error=None if success else f"2: down{text}",
    )
    task = Task(
        task_id=f"t/{number}{text}",
        suite="composition",
        split="train",
        instruct_prompt=f"Sort, then join.{text}",
        test="",
    )
    return ExecutionRecord.from_execution(execution, task, planner=f"{planner}{text}", pool=POOL, reward=1.5)


def served_record(number: int = 0, text: str = "") -> ExecutionRecord:
    """A run for somebody who asked, with its receipt."""
    asked = AskedWorker(
        worker="strong",
        reserved_usd=0.4,
        spent_usd=0.2,
        prompt_tokens=3,
        completion_tokens=4,
        usage_estimated=True,
        latency_ms=5.0,
        source="server",
        check=True,
        why_next=f"why{text}",
    )
    node = NodeReceipt(
        node="1", instruction=f"sort it{text}", depends_on=(), status="done", answered_by="strong", asked=(asked,)
    )
    receipt = Receipt(
        run_id=f"r{number}",
        status="complete",
        contract=Contract(max_cost_usd=1.0),
        planner=f"planner{text}",
        success=0.7,
        spent_usd=0.5,
        reserved_usd=0.9,
        nodes=(node,),
        changes=(f"a fallback was left out{text}",),
        replay=f"orchestai run --replay r{number}{text}",
    )
    judged = judged_record(number, text=text)
    return judged.model_copy(update={"outcome": "unjudged", "success": False, "answer": f"b{text}", "receipt": receipt})


def write_log(folder: Path, records: list[ExecutionRecord], torn: str = "") -> Path:
    """A log of these executions, with a torn line at its end."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(record.model_dump()) + "\n" for record in records)
    (folder / "log.jsonl").write_text(lines + torn)
    return folder


def write_phase2(folder: Path, updates: int = 3, text: str = "") -> Path:
    """Metrics, rollouts and settings of a run of phase 2 that samples two plans per task."""
    folder.mkdir(parents=True, exist_ok=True)
    metrics = [
        {"update": n, "reward": 0.1 * n, "success": 0.2, "entropy": 1.0 - 0.1 * n, "valid_share": 1.0}
        for n in range(1, updates + 1)
    ]
    _write_lines(folder / "phase2_metrics.jsonl", [*metrics, {"update": updates, "eval_reward": 0.3}])
    plan = f'1 cheap>strong "sort it{text}" | 2 strong "join it{text}" after 1'
    attempts = [
        {
            "update": n,
            "task_id": f"t/{n}{text}",
            "reward": reward,
            "fault": "",
            "unscorable": "",
            "valid": True,
            "rewards": {"success": {"value": reward, "weight": 1.0}},
            "turns": [_turn(reward - 0.5)],
            "plan": plan,
        }
        for n in range(1, updates + 1)
        for reward in (0.0, 1.0)
    ]
    _write_lines(folder / "phase2_rollouts.jsonl", attempts)
    settings = {"training.phase2_rl.flat_patience": 20}
    (folder / "phase2.run.json").write_text(json.dumps({"command": "phase2", "seed": 0, "identity": settings}))
    return folder


def write_evaluations(folder: Path, text: str = "") -> Path:
    """An evaluation, one of agents, figures, metrics and settings, with a text in every name and in all words."""
    folder.mkdir(parents=True, exist_ok=True)
    interval = {"mean": 0.5, "low": 0.3, "high": 0.7, "n": 9}
    rows = [
        {"name": f"{name}{text}", "n": 9, "success": 0.5, "success_ci": [0.3, 0.7], "cost_usd": cost}
        for name, cost in (("phase 2", 0.1), ("whole: x", 0.2))
    ]
    choices = {"workers": [f"a{text}"], "best": [f"a{text}", f"nobody{text}"], "counts": [[2, 1]]}
    swept = {
        "planner": f"phase 2{text}",
        "preferences": [{"setting": f"0.1{text}", "success": interval, "cost_usd": 0.1}],
        "reliability": [[0.5, 0.6, 9]],
    }
    pair = {"of": f"phase 2{text}", "to": f"whole: x{text}", "reward": interval, "success": interval}
    evaluation = {"suite": f"suite{text}", "rows": rows, "conclusion": [f"it works{text}"]}
    parts = {"choices": choices, "preferences": swept, "differences": [pair]}
    episode = {"task_id": f"t{text}", "reward": 1.0, "transcript": f"[{text}] user: {text}\n\n[a] assistant: {text}"}
    agents = {"workflow": f"search{text}", "episodes": [episode], "figures": {f"success{text}": interval}}
    routed = {f"a{text}": interval, f"b{text}": interval}
    table = {f"table{text}": {"success": routed, "usd_per_1000": routed, "reliability": {f"a{text}": [[0.5, 0.6, 9]]}}}
    settings = {"command": f"evaluate{text}", f"key{text}": f"value{text}", "versions": {f"torch{text}": f"2{text}"}}
    for name, value in (
        ("evaluation.json", evaluation | parts),
        ("agents.evaluation.json", agents),
        ("tables.json", table),
        ("evaluate.run.json", settings),
    ):
        (folder / name).write_text(json.dumps(value))
    _write_lines(folder / "phase1_metrics.jsonl", [{"epoch": 1, f"loss{text}": 0.5}])
    return folder


def _turn(advantage: float) -> dict[str, Any]:
    decisions = [(1, "worker", advantage), (1, "fallback", 0.0), (2, "worker", -advantage)]
    return {"role": "planner", "turn": 1, "text": "", "advantage": advantage, "slots": 3, "decisions": decisions}


def _write_lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
