"""The one trainer trains agents, whosever weights they speak with, however often it is stopped, in any processes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from orchestai.agents.policies import open_policies, seen_by
from orchestai.agents.recipes import load_agent_config
from orchestai.agents.trainer import AgentTrainer
from orchestai.cli.agents import agents
from orchestai.errors import UserError
from orchestai.evaluation import agents as evaluation
from orchestai.tasks.splits import NOTHING_SEEN, SeenTasks, open_splits
from orchestai.training.rl.monitoring import METRICS, ROLLOUTS
from support.agents import sample
from support.repository import importing

MODES = ("shared", "adapter", "separate")


def weights(folder: Path, config, value_head: bool = False) -> dict[str, torch.Tensor]:
    policies = open_policies(config, sample.Talk.roles, checkpoint=folder, value_head=value_head)
    return {
        f"{name}/{key}": value
        for name, policy in policies.learning.items()
        for key, value in policy.state_dict().items()
    }


@pytest.mark.parametrize("mode", MODES)
def test_each_way_of_sharing_weights_trains_and_is_saved_once(tmp_path, mode):
    config = sample.settings(policies=mode)
    summary = sample.trainer(tmp_path, config).train()
    assert summary.updates == 2
    names = {"shared_model"} if mode == "shared" else {"caller", "answerer"}
    base = {"base_model"} if mode == "adapter" else set()
    last = tmp_path / "phase2_last"
    assert {path.name for path in last.iterdir()} == {*names, *base, "agents.json", "SHA256SUMS"}
    before = open_policies(config, sample.Talk.roles).learning
    assert set(before) == names
    after = weights(last, config)
    for name, policy in before.items():
        changed = {key for key, value in policy.state_dict().items() if not after[f"{name}/{key}"].equal(value)}
        assert changed
        assert (mode == "adapter") == all("lora" in key for key in changed)
    for name in names - (names if mode == "adapter" else set()):
        AutoModelForCausalLM.from_pretrained(last / name)
        assert AutoTokenizer.from_pretrained(last / name).chat_template
    (row, _) = sample.rows(tmp_path)
    assert row["max_ratio"] == pytest.approx(1, abs=1e-4), "tokens are scored as they were sampled"
    assert row["turns"] == 3
    assert 3 <= row["tokens"] <= 18
    assert row["forked_rows"] == 0
    assert row["budget_exceeded"] == 0
    assert 0 < row["answerer_reward"] < 1
    assert (mode == "shared") == ("caller/loss" not in row)


@pytest.mark.parametrize("changes", [{}, {"algorithm": "PPO", "num_minibatches": 2}], ids=["grpo", "ppo"])
def test_shared_weights_learn_what_separate_ones_do_where_one_role_acts(tmp_path, changes):
    found = {}
    for mode in ("shared", "separate"):
        config = sample.settings(policies=mode, workflow_args={"silent": True}, phase2=changes)
        sample.trainer(tmp_path / mode, config).train()
        after = weights(tmp_path / mode / "phase2_last", config, "algorithm" in changes)
        found[mode] = {key.partition("/")[2]: value for key, value in after.items() if not key.startswith("answerer")}
    assert all(found["separate"][key].equal(value) for key, value in found["shared"].items())
    shared, separate = (sample.rows(tmp_path / mode) for mode in ("shared", "separate"))
    for row, other in zip(shared, separate, strict=True):
        assert sample.timeless(row).items() <= sample.timeless(other).items()
        assert row["grad_norm"] == other["caller/grad_norm"]


def test_agents_learn_what_is_asked_of_them(tmp_path):
    changes = {"num_episodes": 72, "learning_rate": 2e-2, "num_generations": 8, "eval_every": 30}
    sample.trainer(tmp_path, sample.settings(policies="separate", credit="turn", phase2=changes)).train()
    rewards = [row["reward"] for row in sample.rows(tmp_path)]
    assert rewards[0] < 0.75
    assert sum(rewards[-3:]) / 3 > 0.95


def test_what_fails_for_want_of_infrastructure_teaches_nothing(tmp_path):
    config = sample.settings(workflow_args={"lost": ["0"]}, tasks={"unscorable_limit": 0.3})
    sample.trainer(tmp_path, config).train()
    assert [row["unscorable_share"] for row in sample.rows(tmp_path)] == [0.25, 0.25]
    strict = sample.settings(workflow_args={"lost": ["0"]})
    with pytest.raises(UserError, match=r"tasks\.unscorable_limit=0\.2 allows.*the line is dead"):
        sample.trainer(tmp_path / "strict", strict).train()


def test_agents_are_not_evaluated_on_tasks_that_they_learned(tmp_path, capsys):
    """A file of one split was trained on for four fifths, and evaluated whole; and what a first training learned, a
    second one, on other tasks, still knows."""
    tasks = [sample.TASKS[0].model_copy(update={"task_id": str(i), "instruct_prompt": f"Say {i}."}) for i in range(40)]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(f"{task.model_dump_json()}\n" for task in tasks))
    words = ["model=tiny", "tasks.suite=written", f"tasks.path={path}", "tasks.limit=null", "model.max_new_tokens=2"]
    config = load_agent_config("support.agents.sample:Talk", None, words)
    splits = open_splits(config.tasks)
    AgentTrainer(config=config, output_dir=tmp_path / "first").train()
    AgentTrainer(
        config=config,
        output_dir=tmp_path / "second",
        checkpoint=tmp_path / "first" / "phase2_best",
        train_dataset=[task.model_copy(update={"instruct_prompt": "Another."}) for task in tasks[:1]],
        val_dataset=tasks[:1],
    ).train()
    second = tmp_path / "second" / "phase2_last"
    seen = seen_by(second)
    assert seen.has_learned("another")
    assert all(seen.has_learned(task.instruction) for task in splits.train)
    asyncio.run(evaluation.evaluate(config, checkpoint=second, output=tmp_path / "figures.json"))
    held_out = json.loads((tmp_path / "figures.json").read_text())["held_out"]
    assert held_out["of"] == 40
    assert set(held_out["evaluated"]) <= {task.task_id for task in splits.test}
    assert held_out["evaluated"]
    assert "tasks are held out; left out" in " ".join(capsys.readouterr().err.split())


def test_of_tasks_to_learn_from_alone_some_are_kept_to_select_on(tmp_path):
    """All were learned from, and the best checkpoint was chosen by tasks of another suite."""
    tasks = [sample.TASKS[0].model_copy(update={"task_id": str(i), "instruct_prompt": f"Say {i}."}) for i in range(40)]
    trainer = sample.trainer(tmp_path, sample.settings(), train_dataset=tasks, val_dataset=None)
    learned, held_out = trainer._tasks(NOTHING_SEEN)
    assert learned
    assert held_out
    assert sorted(task.task_id for task in learned + held_out) == sorted(task.task_id for task in tasks)
    known = SeenTasks.of([held_out[0].instruction])
    assert trainer._tasks(known) == (learned, held_out[1:])


def test_several_rewards_are_added_and_reported_by_name(tmp_path):
    sample.trainer(tmp_path, sample.settings(), workflow_class=sample.Graded).train()
    for row in sample.rows(tmp_path):
        assert 0 < row["reward_plain"] < 1 < -row["reward_short"]
        assert row["reward"] == pytest.approx(row["reward_plain"] + row["reward_short"])
    (evaluation, *_) = sample.rows(tmp_path, "eval_reward_plain")
    assert evaluation["eval_reward"] == pytest.approx(evaluation["eval_reward_plain"] + evaluation["eval_reward_short"])


def test_a_run_that_changes_no_weight_says_so_and_fails(tmp_path, capsys):
    """It ended as one that had learned: with its best checkpoint's reward, and exit code 0."""
    config = sample.settings(policies="separate", budget={"turns": 1}, credit="outcome")  # every attempt fails
    summary = sample.trainer(tmp_path / "run", config).train()
    assert summary.steps == {"caller": 0, "answerer": 0}
    assert "no weight changed: in none of 2 updates did a reward differ" in capsys.readouterr().err
    path = tmp_path / "config.yaml"
    path.write_text(config.model_copy(update={"tasks": config.tasks.model_copy(update={"suite": "written"})}).to_yaml())
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(
        "".join(f"{task.model_copy(update={'split': 'train'}).model_dump_json()}\n" for task in sample.TASKS)
    )
    words = ["--config", str(path), f"tasks.path={tasks}", "--output_dir", str(tmp_path / "again")]
    result = CliRunner().invoke(agents, ["train", "support.agents.sample:Talk", *words])
    assert isinstance(result.exception, UserError)
    assert result.output.count("no weight changed") == 1


def test_who_spends_the_budget_is_worth_less_than_who_is_wrong(tmp_path):
    """Worth 0, it was above a wrong answer where these have -1."""
    sample.trainer(tmp_path, sample.settings(), workflow_class=sample.Spender).train()
    attempts = [json.loads(line) for line in (tmp_path / "phase2_rollouts.jsonl").read_text().splitlines()]
    worth = {spent: {a["reward"] for a in attempts if a["budget_exceeded"] == spent} for spent in (0, 1)}
    assert worth == {0: {-1.0}, 1: {-1.1}}


RUNS = {
    "shared": {"phase2": {"num_iterations": 2, "num_minibatches": 2, "kl_coef": 0.05}, "credit": "turn"},
    "adapter": {"policies": "adapter", "phase2": {"algorithm": "PPO", "kl_coef": 0.05, "num_minibatches": 2}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shared", "adapter"])
def test_after_sigkill_every_figure_is_bit_equal(tmp_path, name):
    """Killed in the second update, after an evaluation."""
    changes = {**RUNS[name], "phase2": {**RUNS[name]["phase2"], "num_episodes": 12, "eval_every": 1}}
    sample.trainer(tmp_path / "whole", sample.settings(**changes)).train()
    command = [sys.executable, sample.__file__, str(tmp_path), json.dumps({"cut": changes})]
    environment = importing() | {"KILL_AT": "30"}  # 2 to evaluate, 16 per update
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    assert len(sample.rows(tmp_path / "cut")) == 1
    sample.trainer(tmp_path / "cut", sample.settings(**changes)).train(resume=True)
    for file in (METRICS, ROLLOUTS):
        lines, others = ((tmp_path / run / file).read_text().splitlines() for run in ("whole", "cut"))
        assert len(lines) == len(others)
        for line, other in zip(lines, others, strict=True):
            assert sample.timeless(json.loads(other)) == sample.timeless(json.loads(line))
    config = sample.settings(**changes)
    one, two = (weights(tmp_path / run / "phase2_last", config) for run in ("whole", "cut"))
    assert all(two[key].equal(value) for key, value in one.items())


@pytest.mark.slow
@pytest.mark.distributed
def test_two_processes_give_the_figures_of_one(tmp_path, repository):
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launch += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    script = [
        str(repository / "tests/support/agents/sample.py"),
        str(tmp_path / "two"),
        json.dumps({"adapter": RUNS["adapter"]}),
    ]
    done = subprocess.run(launch + script, env=importing(), timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    sample.trainer(tmp_path / "one", sample.settings(**RUNS["adapter"])).train()
    one, two = sample.rows(tmp_path / "one"), sample.rows(tmp_path / "two" / "adapter")
    assert len(one) == len(two) == 2
    for row, other in zip(one, two, strict=True):
        assert sample.timeless(other) == pytest.approx(sample.timeless(row), abs=1e-4)


def test_trained_agents_are_evaluated_and_asked(tmp_path):
    config = sample.settings(policies="separate")
    sample.trainer(tmp_path, config).train()
    with pytest.raises(UserError, match="holds a run already"):
        sample.trainer(tmp_path, config).train()
    checkpoint = tmp_path / "phase2_best"
    episode = asyncio.run(evaluation.attempt(config, sample.TASKS[0], checkpoint=checkpoint))
    assert [trajectory.role for trajectory in episode.trajectories] == ["caller", "answerer"]
    assert episode.trajectories[0].transcript[:2] == (("system", "You call."), ("user", "Say a."))
    again = asyncio.run(evaluation.attempt(config, sample.TASKS[0], checkpoint=checkpoint))
    assert again.text == episode.text
    for other, message in (
        ({"policies": "shared"}, "was trained with agents.policies=separate, not shared"),
        ({"policies": "separate", "frozen": {"x": "y"}}, "no worker or model 'y'"),
    ):
        with pytest.raises((UserError, ValueError), match=message):
            asyncio.run(evaluation.attempt(sample.settings(**other), sample.TASKS[0], checkpoint=checkpoint))
