"""A configuration of phase 2 that runs in a second."""

from __future__ import annotations

from orchestai.config import Config
from orchestai.tasks.task import Task

SHORT = {"num_generations": 2, "tasks_per_update": 2, "num_episodes": 2, "eval_tasks": 2}
PLAIN = {"lr_schedule": "constant", "num_minibatches": 1, "entropy_coef": 0.01}


def configuration(folder, split="train", **phase2) -> Config:
    """Two tools, and a suite of eight tasks in a file."""
    suite = folder / "suite.jsonl"
    tasks = [
        Task(
            task_id=f"plus/{i}",
            suite="composition",
            split="train" if i < 5 else "validation",
            instruct_prompt=f"Add {i} to the number. For example, `task_func(1)` returns `{1 + i}`.",
            test="import unittest\n\n\nclass TestCases(unittest.TestCase):\n    def test_plus(self):\n"
            f"        self.assertEqual(task_func(5), {5 + i})\n",
            parameters=("x",),
        )
        for i in range(8)
    ]
    suite.write_text("".join(task.model_dump_json() + "\n" for task in tasks))
    tools = {
        "stdlib-search": {"kind": "tool", "tool": "stdlib_search", "card": "Searches the standard library."},
        "calculator": {"kind": "tool", "tool": "calculator", "card": "Turns wording into a formula."},
    }
    return Config(
        planner={"base": "none", "d_model": 16, "num_layers": 1, "num_heads": 2, "max_subtasks": 2, "max_fallbacks": 1},
        workers={"pool": tools, "cache_dir": folder / "cache"},
        tasks={"path": str(suite), "split": split},
        training={"phase2_rl": {**SHORT, **PLAIN, **phase2}},
    )
