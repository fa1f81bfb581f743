"""A node gives the same results as this process, keeps no key that it was not given, and must be like the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("ray")
from orchestai.cluster.actors import keep_environment
from orchestai.config import ExecutionConfig, load_config
from orchestai.execution.remote import Node, NodeSetup
from orchestai.execution.runtime import open_runtime
from orchestai.sandbox import Program
from support.models.tool_workers import with_tools_alone
from support.repository import REPOSITORY
from support.sandbox.programs import ADD, ADD_TESTS
from support.training.repeated_words import TASK, whole


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's own, put back afterwards."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


@pytest.mark.usefixtures("environment")
def test_an_actor_keeps_what_a_process_needs_and_what_it_was_given() -> None:
    os.environ.update(OPENAI_API_KEY="secret", AWS_SECRET_ACCESS_KEY="secret", HF_TOKEN="secret", HF_HOME="/models")
    keep_environment({"MY_KEY": "given"})
    assert not {"OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"} & os.environ.keys()
    assert (os.environ["MY_KEY"], os.environ["HF_HOME"]) == ("given", "/models")
    assert "PATH" in os.environ


@pytest.mark.usefixtures("environment")
async def test_a_node_executes_as_this_process_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path.cwd())
    config = with_tools_alone(load_config(REPOSITORY / "config.yaml", ["sandbox.workers=1"]))
    away = ExecutionConfig(backend="ray")
    node = Node(NodeSetup(config.sandbox, away, config.workers, (), Path.cwd(), {}))
    plan = whole("calculator")
    async with open_runtime(config.workers, config.execution, config.sandbox) as here:
        expected = await here.executor.execute(TASK, plan)
        facts = await node.facts()
        assert (facts.level, facts.limits) == (here.sandbox.level, here.sandbox.limits)
    try:
        executed = await node.execute(TASK, plan, 0)
        judged = await node.judge(Program(ADD, ADD_TESTS))
    finally:
        await node.close()
    assert (executed.outcome, executed.answer, executed.error) == (expected.outcome, expected.answer, expected.error)
    assert judged.success
