"""A run that is killed without warning goes on, in a new process, as if nothing had happened.

Run as a script, this trains and kills itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestai.config import SandboxConfig
from orchestai.errors import UserError
from orchestai.storage import digests
from orchestai.training.rl.monitoring import METRICS, ROLLOUTS, _append, _keep_until
from orchestai.training.rl.run_state import Position, identity, load_state, save_state
from support.repository import importing
from support.training import bandit

CHANGES = {"eval_every": 2, "num_episodes": 24 * 3, "num_iterations": 2, "num_minibatches": 2, "kl_coef": 0.01}
RUNS = {
    "bandit": {"algorithm": "PPO", "lr_schedule": "linear"},
    "speller": {
        "micro_batch_tokens": 50,
        "sampler_correction": "token_truncate",
        "mask_truncated": True,
    },
}


def run(output: Path, policy: str, *, resume: bool = False, **given: Any) -> torch.nn.Module:
    planner = given.pop("planner", None) or bandit.POLICIES[policy]()
    changes = {key: given.pop(key) for key in ("eval_every", "save_every", "keep_checkpoints") if key in given}
    config = bandit.settings(**CHANGES | RUNS[policy] | changes)
    asyncio.run(bandit.trainer(output, config, planner, **given).train(resume=resume))
    return planner


def killed(output: Path, policy: str, number: int, executions: int, saves: int) -> None:
    """Train until there have been so many executions, or while the planner is saved for so many times.

    Args:
        number: of the signal that the process then gets.
    """
    planner = bandit.POLICIES[policy]()
    left = {"executions": executions, "saves": saves}

    def count(what: str) -> None:
        left[what] -= 1
        if left[what] == 0:
            os.kill(os.getpid(), number)

    async def execute(task: Any, workflow: Any, sample: int = 0) -> Any:
        count("executions")
        return await bandit.execute(task, workflow, sample)

    def save(path: Path, facts: Any) -> None:
        digests.save_torch(path, planner.state_dict())
        count("saves")

    run(output, policy, planner=planner, execute=execute, save_policies=save)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize(
    ("policy", "executions", "saves"),
    [
        pytest.param("bandit", 330, 0, id="while plans are executed", marks=pytest.mark.slow),
        pytest.param("speller", 0, 4, id="before the state is written"),
        pytest.param("speller", 0, 5, id="between two checkpoints", marks=pytest.mark.slow),
    ],
)
def test_after_sigkill_every_figure_is_bit_equal(tmp_path, policy, executions, saves):
    whole = run(tmp_path / "whole", policy)
    cut = tmp_path / "cut"
    done = stopped_by(signal.SIGKILL, cut, policy, executions, saves)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    assert len(bandit.rows(cut)) in (2, 3, 4)
    refuse_difference(tmp_path, whole, run(cut, policy, resume=True))


@pytest.mark.parametrize(
    ("policy", "number"),
    [("bandit", signal.SIGTERM), pytest.param("speller", signal.SIGINT, marks=pytest.mark.slow)],
)
def test_a_run_that_is_told_to_stop_finishes_its_update_and_goes_on_bit_for_bit(tmp_path, policy, number):
    """The signal comes while plans of the third update are executed, long after what the last evaluation saved."""
    whole = run(tmp_path / "whole", policy, eval_every=10)
    cut = tmp_path / "cut"
    done = stopped_by(number, cut, policy, 210, 0, eval_every=10)
    assert done.returncode == 0, done.stderr[-2000:]
    update = len(bandit.rows(cut))
    assert 2 <= update < len(bandit.rows(tmp_path / "whole"))
    assert f"stopped after update {update}: {number.name}; go on with --resume" in " ".join(done.stderr.split())
    before = (cut / METRICS).read_bytes()
    resumed = run(cut, policy, resume=True, eval_every=10)
    assert (cut / METRICS).read_bytes().startswith(before), "nothing was done twice"
    refuse_difference(tmp_path, whole, resumed)


def stopped_by(number: int, output: Path, policy: str, executions: int, saves: int, **changes: Any) -> Any:
    arguments = [str(output), policy, str(int(number)), str(executions), str(saves), json.dumps(changes)]
    return subprocess.run(
        [sys.executable, __file__, *arguments], env=importing(), capture_output=True, text=True, timeout=120
    )


def refuse_difference(tmp_path: Path, whole: torch.nn.Module, resumed: torch.nn.Module) -> None:
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
    CHANGES |= json.loads(sys.argv[6])
    killed(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6]))


def test_checkpoints_are_kept_every_few_updates_and_each_can_be_gone_on_from(tmp_path):
    """Six updates; those of the second were kept too, and made room for later ones."""
    whole = run(tmp_path / "whole", "bandit", eval_every=3, save_every=2, keep_checkpoints=2)
    kept = sorted(path.name for path in (tmp_path / "whole").glob("checkpoint_*"))
    assert kept == ["checkpoint_4", "checkpoint_6"]
    fourth = tmp_path / "whole" / kept[0]
    last, early = (torch.load(folder / "phase2_last.pth", weights_only=True) for folder in (tmp_path / "whole", fourth))
    assert not torch.equal(last["logits"], early["logits"]), "what is written later leaves it alone"

    shutil.copytree(fourth, tmp_path / "copy")
    resumed = run(tmp_path / "copy", "bandit", resume=True, eval_every=3, save_every=None)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    rows, others = (list(map(bandit.timeless, bandit.rows(tmp_path / run))) for run in ("whole", "copy"))
    assert others == rows[4:]
    names = [f"phase2_{name}.pth" for name in ("best", "last")]
    for name in names:
        one, other = (torch.load(tmp_path / run / name, weights_only=True) for run in ("whole", "copy"))
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_rows_whose_texts_hold_other_ends_of_lines_are_kept_whole(tmp_path):
    rows = [{"update": update, "text": "a\u2028b\u0085c\x1ed\r\ne"} for update in range(3)]
    path = tmp_path / ROLLOUTS
    _append(path, rows)
    with path.open("a") as file:
        file.write('{"update": 1, "te')
    _keep_until(path, 1)
    assert [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] == rows[:2]


def test_a_run_goes_on_with_another_threshold_of_confidence(tmp_path: Path) -> None:
    """It decides who plans where the planner is not sure, and nothing of training."""

    def noted(**planner: Any) -> dict[str, Any]:
        return identity({"planner": {"d_model": 48, **planner}}, bandit.settings(), [], [])

    now = noted(min_confidence=0.9)
    assert now == noted(min_confidence=0.5)
    save_state(tmp_path / "state.pt", Position(), {}, now)
    assert load_state(tmp_path / "state.pt", now)[0] == Position()
    with pytest.raises(UserError, match=r"planner\.d_model"):
        load_state(tmp_path / "state.pt", noted(d_model=64))


def test_a_run_is_not_gone_on_with_other_limits_of_programs(tmp_path: Path) -> None:
    """A longer time for tests gives other verdicts; how many programs run at a time gives none."""

    def noted(**sandbox: Any) -> dict[str, Any]:
        sections = {"sandbox": SandboxConfig(**sandbox).model_dump(mode="json")}
        return identity(sections, bandit.settings(), [], [])

    now = noted(workers=2)
    assert now == noted(workers=8, preload=["json"])
    save_state(tmp_path / "state.pt", Position(), {}, now)
    with pytest.raises(UserError, match=r"sandbox\.test_s was 6.0 and is now 7.0"):
        load_state(tmp_path / "state.pt", noted(test_s=7.0))
