"""Every preset learns with `model=tiny`: groups differ, optimizer steps are taken, weights change.

Nine of fourteen took no step at all, since nothing that an untrained model of bytes wrote was ever worth anything; they
ended with the checkpoint that they had begun with, and with exit code 0.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from orchestai.agents.policies import Policies, open_policies
from orchestai.agents.recipes import load_agent_config
from orchestai.agents.registry import find, presets
from orchestai.agents.trainer import AgentTrainer
from orchestai.training.rl.monitoring import METRICS, ROLLOUTS

USED = {"tool_use": "<search>", "math_tool": "<calculator>", "deep_research": "<search>", "search": "<query>"}
"""What some role writes to use something, by workflow."""
QUICK = {"search", "magrpo_arxiv_cross"}


def changed_weights(before: Policies, after: Policies, policy: str) -> tuple[int, int]:
    """How many of a policy's weights that may learn are others than before, and how many there are."""
    now = dict(after.learning[policy].named_parameters())
    learns = {name: value for name, value in before.learning[policy].named_parameters() if value.requires_grad}
    return sum(int((now[name] != value).sum()) for name, value in learns.items()), sum(
        value.numel() for value in learns.values()
    )


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in sorted(presets())]
)
def test_a_preset_learns_with_the_tiny_model(name: str, repository: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(repository)
    workflow = load_agent_config("", presets()[name]).agents.workflow
    config = load_agent_config(workflow, presets()[name], ["model=tiny"])
    summary = AgentTrainer(config=config, output_dir=tmp_path).train()
    assert summary.complaint == ""
    rows = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    learned = [row for row in rows if "loss" in row]
    assert learned
    assert all(math.isfinite(row["loss"]) and row["grad_norm"] > 0 for row in learned)
    assert all(row["flat_group_share"] < 1 and row["advantage_std"] > 0 for row in learned)
    before, after = (
        open_policies(config, find(workflow).roles, checkpoint=checkpoint)
        for checkpoint in (None, tmp_path / "phase2_last")
    )
    for policy in summary.steps:
        changed, all_weights = changed_weights(before, after, policy)
        assert changed > 0.4 * all_weights, "of an adapter, half of the weights may wait for the others"
    assert (tmp_path / "phase2_best").exists()
    assert any("eval_success" in row for row in rows)
    if workflow in USED:
        assert USED[workflow] in (tmp_path / ROLLOUTS).read_text()
