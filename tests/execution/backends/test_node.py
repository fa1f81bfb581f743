"""A node gives the same results as this process, keeps no key that it was not given, and must be like the others."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from orchestai import cluster
from orchestai.cluster.environment import keep_environment
from orchestai.config import ExecutionConfig, PlaceConfig, RayConfig, SandboxConfig, load_config
from orchestai.errors import UserError
from orchestai.execution.backends.node import Node, NodeFacts, NodeSetup
from orchestai.execution.runtime import open_runtime, open_sandbox
from orchestai.sandbox import Limits, Program
from orchestai.sandbox.packages import Packages
from support.models.tool_workers import with_tools_alone
from support.repository import REPOSITORY
from support.sandbox.programs import ADD, ADD_TESTS
from support.training.repeated_words import TASK, whole

FACTS = NodeFacts("a", "namespaces", Limits(), Packages(frozenset({"numpy"})))


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": "process"}, "b isolates programs by process, a by namespaces: install bubblewrap"),
        ({"packages": Packages(frozenset({"numpy", "torch"}))}, "import torch on only one of b and a"),
        ({}, ""),
    ],
)
def test_nodes_that_would_judge_otherwise_are_told_apart(change, message) -> None:
    difference = replace(FACTS, name="b", **change).difference(FACTS)
    assert message in difference
    assert bool(message) == bool(difference)


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


def test_without_ray_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with (
        pytest.raises(UserError, match=r"pip install 'orchestai\[ray\]'"),
        open_sandbox(SandboxConfig(), PlaceConfig(backend="ray")),
    ):
        pass


def test_a_variable_to_send_along_must_be_set() -> None:
    pytest.importorskip("ray")
    with (
        pytest.raises(UserError, match="NO_SUCH_KEY is not set here"),
        open_sandbox(SandboxConfig(), PlaceConfig(backend="ray", ray=RayConfig(env=("NO_SUCH_KEY",)))),
    ):
        pass
