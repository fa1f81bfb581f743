"""A checkpoint that is not sure of its plan asks for the whole instead, and the receipt says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from orchestai import Orchestrator
from orchestai.config import Config
from orchestai.planner.checkpoint import save_planner
from orchestai.planner.slots.model import PlannerModel
from orchestai.tasks.asked_task import asked_task
from orchestai.workers.pool import worker_cards

INSTRUCTION = "Look up the town. Then say how many live there."


def settings(**planner: Any) -> Config:
    pool = {
        name: {
            "kind": "function",
            "function": "support.serving.contract_workers:good",
            "card": name,
            "price_per_call_usd": 0.01,
        }
        for name in ("cheap", "dear")
    }
    small = {"base": "none", "d_model": 32, "num_layers": 1, "max_subtasks": 4, "max_tokens": 64}
    return Config(
        planner=small | planner,
        workers={"pool": pool, "cascade": ["cheap", "dear"], "cache_dir": None},
        execution={"assembler": "sink"},
        sandbox={"level": "process"},
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A planner that learned nothing, makes a valid plan, and says that it is right with a chance of a quarter."""
    config = settings()
    for seed in range(100):
        torch.manual_seed(seed)
        planner = PlannerModel(config.planner, worker_cards(config.workers)).eval()
        planner.decoder.go_on.bias.data.fill_(50.0)
        [made] = planner.plan([asked_task(INSTRUCTION, "text", config.tasks)])
        if made.raw_valid and len(made.workflow) > 1:
            break
    planner.confidence.known.fill_(True)
    planner.confidence.coefficients[-1] = -torch.log(torch.tensor(3.0))
    path = tmp_path_factory.mktemp("checkpoint") / "unsure.pth"
    save_planner(path, planner, config)
    return path


@pytest.mark.parametrize(("planner", "followed"), [({}, False), ({"min_confidence": 0.2}, True)])
def test_an_unsure_plan_is_followed_only_where_the_configuration_says_so(
    checkpoint: Path, planner: dict[str, Any], followed: bool
) -> None:
    with Orchestrator.open(checkpoint, settings(**planner), log=None) as orchestrator:
        result = orchestrator.run_sync(INSTRUCTION, answer="text")
    if followed:
        assert result.receipt.planner == str(checkpoint)
        assert result.receipt.confidence == pytest.approx(0.25, abs=1e-4)
    else:
        assert result.receipt.planner == f"whole, as {checkpoint} was not sure (0.25)"
        assert result.receipt.confidence is None
        assert [subtask.instruction for subtask in result.workflow.subtasks] == [INSTRUCTION]
        assert result.workflow.subtasks[0].worker == "cheap"
