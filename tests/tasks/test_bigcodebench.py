"""BigCodeBench from the presets: they load, a workflow's last program is judged, and phase 2 runs from end to end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from orchestai.config import Config, PlannerConfig, load_config
from orchestai.config.aliases import PRESETS, understand
from orchestai.errors import UserError
from orchestai.planner.language.plan_text import Read, read_plan, worked_examples, write_plan
from orchestai.planner.language.planner import describe
from orchestai.training.rl.setup import VALIDATION, split_tasks, train, validate
from orchestai.training.rl.trainer import choose_recipe
from orchestai.workers.pool import worker_cards
from orchestai.workflow import Subtask, Workflow
from support.models.language_model import save_tiny_model

NAMES = ("cpu", "one_gpu", "eight_gpus")
HEAD = "import math\ndef task_func(numbers):\n"
WORDS = (
    "Computes the {what} of the floors of numbers.\nYou should write self-contained code starting with:\n```\n{head}```"
)
TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def test_two(self):
        self.assertEqual(task_func([1.5, 2.5]), {two})
    def test_none(self):
        self.assertEqual(task_func([]), 0)
"""


@pytest.fixture(autouse=True)
def _in_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in presets are seen from there."""
    monkeypatch.chdir(repository)


def record(number: int, what: str, expression: str, two: int) -> dict[str, object]:
    """A task in the format of BigCodeBench's annotation repository."""
    return {
        "task_id": f"BigCodeBench/{number}",
        "entry_point": "task_func",
        "prompt": f'{HEAD}    """The {what} of the floors."""\n',
        "prompt_wo_doc": HEAD,
        "canonical_solution": f"    found = map(math.floor, numbers)\n    return {expression}",
        "test": TESTS.format(two=two),
        "libs": ["math"],
        "doc": {"description": [what]},
        "instruction": WORDS.format(what=what, head=HEAD),
    }


def write_tasks(path: Path, *more: dict[str, object]) -> Path:
    records = [record(0, "sum", "sum(found)", 3), record(1, "maximum", "max(found, default=0)", 2), *more]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_loads_and_its_examples_are_plans_for_its_pool(name: str) -> None:
    config = load_config(PRESETS / f"{name}.yaml")
    choose_recipe(config.training.phase2_rl)
    assert (config.tasks.suite, config.execution.assembler, config.rewards.success) == ("bigcodebench", "sink", "all")
    cards = worker_cards(config.workers)
    examples = worked_examples(config.planner, cards)
    assert len(examples) == 2
    workers = [card.name for card in cards]
    for worked in examples:
        text = write_plan(worked.workflow, worked.instruction, config.planner.language.quote).text
        assert read_plan(text, worked.instruction, workers, config.planner).workflow == worked.workflow
    assert any(subtask.role and subtask.depends_on for subtask in examples[0].workflow.subtasks)
    assert "in your own words" in describe(config.planner, cards)


PROGRAM = "```python\ndef task_func(numbers):\n    return sum(map(math.floor, numbers))\n```"


def read_as_a_choice(text: str, instruction: str, workers: list[str], config: PlannerConfig) -> Read:
    """A random model writes no plans, so its noise says whether the last of three steps gives a program or not."""
    last = PROGRAM if sum(map(ord, text)) % 2 else "def task_func(numbers): return None"
    return Read(
        Workflow(
            [
                Subtask(id="1", instruction="List the cases.", task_type="plan", worker="chat", role="You read."),
                Subtask(id="2", instruction="Write it.", task_type="write", worker="direct", depends_on=("1",)),
                Subtask(id="3", instruction=last, task_type="fix", worker="python", depends_on=("1", "2")),
            ]
        ),
        True,
    )


def small(folder: Path, *more: str) -> Config:
    """The preset for a processor with a random model of two layers, and a worker who answers with its instruction."""
    model = save_tiny_model(folder / "model")
    tool = "{kind: function, function: 'support.models.tool_workers:hand_on', card: hands on the program of its step}"
    language = f"planner.language.model={model}"
    changes = ["describe=false", "few_shot=0", "max_new_tokens=8", "max_prompt_tokens=1000"]
    phase2 = ["num_generations=6", "num_episodes=1", "tasks_per_update=1", "eval_tasks=1", "temperature=4.0"]
    return load_config(
        PRESETS / "cpu.yaml",
        [
            language,
            *(f"planner.language.{change}" for change in changes),
            f"workers.models.smollm2.name={model}",
            "workers.pool.chat.max_new_tokens=4",
            "workers.pool.direct.max_new_tokens=4",
            f"workers.pool.python={tool}",
            f"workers.cache_dir={folder / 'cache'}",
            f"tasks.path={write_tasks(folder / 'tasks.jsonl')}",
            "sandbox.preload=[]",
            *(f"training.phase2_rl.{change}" for change in phase2),
            *more,
        ],
    )


def test_the_path_of_the_cpu_preset_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train, validate only, resume: with real workers, the real sandbox and the benchmark's format."""
    monkeypatch.setattr("orchestai.planner.language.planner.read_plan", read_as_a_choice)
    config, output = small(tmp_path, "rewards.success=fraction"), tmp_path / "out"
    assert asyncio.run(train(config, checkpoint=Path("base"), output_dir=output)).updates == 1
    rows = [json.loads(line) for line in (output / "phase2_rollouts.jsonl").read_text().splitlines()]
    learned = split_tasks(config.tasks)[0][0].task_id
    right = 1.0 if learned == "BigCodeBench/0" else 0.5  # the sum of nothing is also its largest
    assert {row["reward"] for row in rows} == {0.0, right}
    row = json.loads((output / "phase2_metrics.jsonl").read_text().splitlines()[1])
    assert (row["valid_share"], row["unscorable_share"], row["flat_group_share"]) == (1.0, 0.0, 0.0)
    assert row["grad_norm"] > 0

    before = sorted(tmp_path.rglob("*"))
    figures = asyncio.run(validate(config, checkpoint=output / "phase2_last.pth"))
    assert sorted(tmp_path.rglob("*")) == before, "without a folder nothing is written"
    for _ in ("first", "again"):
        asyncio.run(validate(config, checkpoint=output / "phase2_last.pth", output_dir=tmp_path / "only"))
    written = json.loads((tmp_path / "only" / VALIDATION).read_text())
    assert written["reward"] == figures["reward"]
    assert (written["tasks"], len(written["plans"])) == (1, 1)
    last = json.loads((output / "phase2_metrics.jsonl").read_text().splitlines()[-1])
    of_training = {name: last[f"eval_{name}"] for name in figures}  # which also tells what changed since the start
    assert {**figures, "latency_ms": 0} == {**of_training, "latency_ms": 0}  # a tool's is measured anew

    with pytest.raises(UserError, match="validation of another planner"):
        asyncio.run(validate(config, checkpoint=Path("base"), output_dir=tmp_path / "only"))

    longer = small(tmp_path, "rewards.success=fraction", "training.phase2_rl.num_episodes=2")
    assert asyncio.run(train(longer, checkpoint=Path("base"), output_dir=output, resume=True)).updates == 2


def test_the_seeds_words_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = understand(["evaluate_only=/path/to/checkpoint", "run_cfg=cpu"])
    assert asked.evaluate_only == Path("/path/to/checkpoint")
    assert asked.output_dir is None
    words = ["model_cfg@_global_=base", "data_cfg@_global_=bigcodebench", "trainer_cfg@_global_=ppo"]
    sizes = ["train_batch_size=512", "max_steps=1000", "model_name_or_path=Qwen/Qwen2.5-14B-Instruct"]
    monkeypatch.setenv("WORLD_SIZE", "8")
    asked = understand([*words, "run_cfg@_global_=default", *sizes, "tasks.limit=9"])
    phase2 = asked.config.training.phase2_rl
    assert (phase2.algorithm, phase2.tasks_per_update, phase2.num_updates) == ("PPO", 64, 1000)
    assert asked.config.planner.language.model == "Qwen/Qwen2.5-14B-Instruct"
    assert asked.config.tasks.limit == 9
    assert asked.config.workers.models["coder-large"].kind == "openai_api"
