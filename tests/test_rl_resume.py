"""A run that is killed without warning goes on, in a new process, as if nothing had happened.

Run as a script, this trains and kills itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rl_bandit as bandit
import torch

from orchestai import artefacts
from orchestai.training.rl.report import METRICS, ROLLOUTS, _append, _keep_until

CHANGES = {"eval_every": 2, "num_episodes": 24 * 3, "num_iterations": 2, "num_minibatches": 2, "kl_coef": 0.01}
RUNS = {
    "bandit": {"algorithm": "PPO", "lr_schedule": "linear"},
    "speller": {
        "micro_batch_tokens": 50,
        "min_entropy": 0.01,
        "sampler_correction": "token_truncate",
        "mask_truncated": True,
        "overlong_buffer": 2,
    },
}


def run(output: Path, policy: str, *, resume: bool = False, **given: Any) -> torch.nn.Module:
    planner = given.pop("planner", None) or bandit.POLICIES[policy]()
    config = bandit.settings(**CHANGES | RUNS[policy])
    asyncio.run(bandit.trainer(output, config, planner, **given).train(resume=resume))
    return planner


def killed(output: Path, policy: str, executions: int, saves: int) -> None:
    """Train until there have been so many executions, or while the planner is saved for so many times."""
    planner = bandit.POLICIES[policy]()
    left = {"executions": executions, "saves": saves}

    def count(what: str) -> None:
        left[what] -= 1
        if left[what] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def execute(task: Any, workflow: Any, sample: int = 0) -> Any:
        count("executions")
        return await bandit.execute(task, workflow, sample)

    def save(path: Path, facts: Any) -> None:
        artefacts.save_torch(path, planner.state_dict())
        count("saves")

    run(output, policy, planner=planner, execute=execute, save_policies=save)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize(
    ("policy", "executions", "saves"),
    [("bandit", 330, 0), ("speller", 0, 4), ("speller", 0, 5)],
    ids=["while plans are executed", "before the state is written", "between two checkpoints"],
)
def test_after_sigkill_every_figure_is_bit_equal(tmp_path, policy, executions, saves):
    whole = run(tmp_path / "whole", policy)
    cut = tmp_path / "cut"
    command = [sys.executable, __file__, str(cut), policy, str(executions), str(saves)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    assert len(bandit.rows(cut)) in (2, 3, 4)

    resumed = run(cut, policy, resume=True)
    for name in (METRICS, ROLLOUTS):
        lines, others = ((tmp_path / run / name).read_text().splitlines() for run in ("whole", "cut"))
        assert len(lines) == len(others)
        for line, other in zip(lines, others, strict=True):
            assert bandit.timeless(json.loads(other)) == bandit.timeless(json.loads(line))
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    names = [f"phase2_{name}.pth" for name in ("best", "last")]
    for name in names:
        best, other = (torch.load(tmp_path / run / name, weights_only=True) for run in ("whole", "cut"))
        assert all(torch.equal(best[key], other[key]) for key in best)


if __name__ == "__main__":
    killed(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))


def test_rows_whose_texts_hold_other_ends_of_lines_are_kept_whole(tmp_path):
    rows = [{"update": update, "text": "a\u2028b\u0085c\x1ed\r\ne"} for update in range(3)]
    path = tmp_path / ROLLOUTS
    _append(path, rows)
    with path.open("a") as file:
        file.write('{"update": 1, "te')
    _keep_until(path, 1)
    assert [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] == rows[:2]
