"""Agents at work: with all roles frozen, in a running event loop, and as a worker among others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import WorkersConfig
from orchestai.config.agents import AgentConfig
from orchestai.errors import InfrastructureError
from orchestai.evaluation import agents as evaluation
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.pool import WorkerPool, worker_cards
from support.agents import sample

OWN = """
from orchestai.errors import InfrastructureError
from orchestai.workers.base import Answer

def caller(text):
    if "down" in text:
        raise InfrastructureError("connection", "the line is dead")
    return Answer(text="I heard " + text.split()[-1], completion_tokens=3, cost_usd=0.25)

def answerer(text):
    return "yes"
"""


@pytest.fixture
def frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A configuration in which functions speak for both roles."""
    (tmp_path / "spoken_for.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    pool = {
        name: {"kind": "function", "function": f"spoken_for:{name}", "card": name} for name in ("caller", "answerer")
    }
    return {
        "agents": {"workflow": "support.agents.sample:Talk", "frozen": {name: name for name in pool}},
        "workers": {"pool": pool, "cache_dir": None},
        "sandbox": {"level": "process"},
    }


async def test_agents_whose_roles_are_all_frozen_attempt_tasks_and_are_evaluated(frozen: Any, tmp_path: Path) -> None:
    """They were refused, since nothing would learn. This test runs in an event loop, as notebooks do."""
    (tmp_path / "tasks.jsonl").write_text(
        "".join(
            json.dumps({"instruction": f"Say {i}.", "answers": ["x"], "split": "test" if i else "train"}) + "\n"
            for i in range(5)
        )
    )
    own = {"suite": "file", "path": str(tmp_path / "tasks.jsonl")}
    config = AgentConfig(**frozen, tasks=own)
    episode = await evaluation.attempt(config, sample.TASKS[0], checkpoint=None)
    assert episode.answer == "I heard yes"
    assert episode.metrics["cost_usd"] == 0.5
    found = await evaluation.evaluate(config, checkpoint=None, output=tmp_path / "out.json")
    assert found["success"].mean == 1.0
    assert json.loads((tmp_path / "out.json").read_text())["tasks"] == 4


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1) as running:
        yield running


def pool_of(agents: Path, price: float = 0.0) -> WorkersConfig:
    team = {"kind": "agents", "agents": agents, "card": "two who talk", "price_per_call_usd": price}
    return WorkersConfig(pool={"team": team}, cache_dir=None)


async def test_a_configuration_of_agents_is_a_worker(frozen: Any, tmp_path: Path, sandbox: Sandbox) -> None:
    (tmp_path / "team.yaml").write_text(json.dumps(frozen))
    config = pool_of(tmp_path / "team.yaml", price=0.4)
    assert [(card.kind, card.price_usd) for card in worker_cards(config)] == [("model", 0.4)]
    async with WorkerPool.from_config(config, sandbox) as pool:
        await pool.check()
        answer = await pool.answer("team", Request("say it"))
        assert (answer.text, answer.cost_usd) == ("I heard yes", 0.5), "two acts, billed a quarter each"
        assert pool.worst_case("team", Request("say it")).cost_usd == 0.4
        with pytest.raises(InfrastructureError, match="the line is dead"):
            await pool.answer("team", Request("it is down"))
    frozen["agents"]["budget"] = {"turns": 1}
    (tmp_path / "team.yaml").write_text(json.dumps(frozen))
    async with WorkerPool.from_config(config, sandbox) as pool:
        with pytest.raises(WorkerError, match="budget") as error:
            await pool.answer("team", Request("say it"))
        assert error.value.usage.cost_usd == 0.4, "the flat price, since the one act cost less"


async def test_trained_agents_are_a_worker(tmp_path: Path, sandbox: Sandbox) -> None:
    settings = sample.settings(phase2={"num_episodes": 4, "eval_every": 1})
    sample.trainer(tmp_path, settings).train()
    trained = tmp_path / "phase2_last"
    task = Task(task_id="request", suite="request", instruct_prompt="Say it.")
    alone = await evaluation.attempt(settings, task, checkpoint=trained)
    async with WorkerPool.from_config(pool_of(trained), sandbox) as pool:
        answers = [await pool.answer("team", Request("Say it.")) for _ in range(2)]
    assert [answer.text for answer in answers] == [alone.answer] * 2
    assert answers[0].completion_tokens == alone.metrics["tokens"] > 0
