"""From a pool of functions and a file of questions to what is served, which answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.config import load_config
from orchestai.planner.checkpoint import open_checkpoint
from orchestai.tasks.task import Task

POOL = """
import re

CAPITALS = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo", "Peru": "Lima", "Kenya": "Nairobi", "Norway": "Oslo",
            "Chile": "Santiago", "Egypt": "Cairo", "Cuba": "Havana", "Spain": "Madrid"}

def add(text):
    numbers = re.findall(r"\\d+", text)
    if not numbers:
        raise ValueError("no numbers")
    return str(sum(map(int, numbers)))

def atlas(text):
    return next((city for land, city in CAPITALS.items() if land in text), "12")

def dear(text):
    known = atlas(text) if "capital" in text else add(text)
    return known if sum(map(ord, text)) % 5 else "unknown"
"""
CONFIG = """
workers:
  models: {gone: {kind: openai_api, name: gone, base_url: "http://127.0.0.1:9/v1", api_key_env: null, max_retries: 0}}
  pool:
    adder: {kind: function, function: "minds:add", card: adds numbers, price_per_call_usd: 1.0e-5}
    atlas: {kind: function, function: "minds:atlas", card: knows capitals, price_per_call_usd: 1.0e-5}
    dear: {kind: function, function: "minds:dear", card: adds and knows, price_per_call_usd: 1.0e-3}
    gone: {kind: model, model: gone, strategy: chat, card: is down}
  cache_dir: null
"""
QUESTIONS = [(f"What is {i} plus {7 * i % 11}?", str(i + 7 * i % 11)) for i in range(11, 26)] + [
    (f"What is the capital of {land}{end}", city)
    for land, city in (
        ("France", "Paris"),
        ("Italy", "Rome"),
        ("Japan", "Tokyo"),
        ("Peru", "Lima"),
        ("Spain", "Madrid"),
    )
    for end in ("?", ", please?", ", in one word?")
]


def orchestai(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("minds.py").write_text(POOL)
    Path("config.yaml").write_text(CONFIG)
    Path("mine.csv").write_text("Question,Expected\n" + "".join(f'"{q}",{a}\n' for q, a in QUESTIONS))
    return tmp_path


def test_what_is_fitted_is_served(here):
    code, said = orchestai("fit", "mine.csv", "--output_dir", "out")
    assert code == 0
    assert "gone: cannot be had" in said
    facts = json.loads(Path("out/fit.json").read_text())
    assert facts["workers"] == ["adder", "atlas", "dear"]
    assert facts["served"] in ("judged", "nearest")
    assert facts["gain"]["low"] > 0
    assert said.count("\n") > 6
    log = sorted(Path("out/execution_logs").glob("*.jsonl"))
    asked = sum(len(file.read_text().splitlines()) for file in log)
    assert asked == 3 * len(QUESTIONS)
    serving = ["--config", "out/fit.yaml", "--checkpoint", facts["checkpoints"]["judged"]]
    for question, answer in ("What is 40 plus 3?", "43"), ("What is the capital of Cuba?", "Havana"):
        code, said = orchestai("run", question, *serving, "--json")
        assert code == 0
        assert f'"answer": "{answer}"' in said
    config = load_config(Path("out/fit.yaml"))
    planner = open_checkpoint(facts["checkpoints"]["nearest"], config.planner, config.workers)
    tasks = [
        Task(task_id=q, suite="mine", instruct_prompt=q)
        for q in ("What is 8 plus 30?", "What is the capital of Chile?")
    ]
    assert [plan.workflow.subtasks[0].worker for plan in planner.plan(tasks)] == ["adder", "atlas"]
    orchestai("fit", "mine.csv", "--output_dir", "out")
    assert sorted(Path("out/execution_logs").glob("*.jsonl")) == log


def test_little_is_said_of_little(here):
    lines = Path("mine.csv").read_text().splitlines()
    Path("few.csv").write_text("\n".join(lines[:4]) + "\n")
    code, said = orchestai("fit", "few.csv", "--output_dir", "few")
    assert code == 0
    assert "Served: adder alone; 3 tasks cannot say more" in " ".join(said.split())
    assert orchestai("run", "What is 40 plus 3?", "--config", "few/fit.yaml", "--checkpoint", "whole:adder")[0] == 0
    code, said = orchestai("fit", "mine.csv", "--output_dir", "cheap", "--budget", "0.0001")
    assert code == 0
    assert "dear: left out: a task may cost up to 0.001 USD" in " ".join(said.split())
    assert "the budget ended" in said
    Path("bare.csv").write_text("question\n" + "".join(f'"{q}"\n' for q, _ in QUESTIONS))
    with pytest.raises(Exception, match="none of 30 tasks has an answer"):
        orchestai("fit", "bare.csv")
