"""The one trainer trains agents, whosever weights they speak with, however often it is stopped, in any processes."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from orchestai.agents.policies import open_policies, seen_by
from orchestai.agents.recipes.shorthand import load_agent_config
from orchestai.agents.trainer import AgentTrainer
from orchestai.cli.agents import agents
from orchestai.errors import UserError
from orchestai.evaluation import agents as evaluation
from orchestai.tasks.splits import open_splits
from orchestai.training.rl.monitoring.training_report import METRICS, ROLLOUTS
from support.agents import sample
from support.models.language_model import save_tiny_model
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


def test_adapters_share_the_frozen_model_itself():
    policies = open_policies(sample.settings(policies="adapter"), sample.Talk.roles).learning
    one, other = (dict(policy.named_parameters()) for policy in policies.values())
    frozen = {name for name, parameter in one.items() if not parameter.requires_grad}
    assert frozen
    assert all(one[name] is other[name] for name in frozen)
    assert all(one[name] is not other[name] for name in one.keys() - frozen)


@pytest.mark.parametrize("mode", ["shared", "separate"])
def test_adapters_learn_where_they_are_asked_for(tmp_path, mode):
    """`separate` trained whole models all the same."""
    config = sample.settings(policies=mode, model={"lora": {"rank": 2}})
    sample.trainer(tmp_path, config).train()
    after = weights(tmp_path / "phase2_last", config)
    for name, policy in open_policies(config, sample.Talk.roles).learning.items():
        assert policy.has_adapter
        changed = {key for key, value in policy.state_dict().items() if not after[f"{name}/{key}"].equal(value)}
        assert changed
        assert all("lora" in key for key in changed)


def test_adapters_of_two_roles_learn_over_one_model_in_4_bits(tmp_path):
    """On a CPU too. Each role's adapters begin to learn though the other has used the model in the meantime."""
    pytest.importorskip("bitsandbytes")
    model = {"name": str(save_tiny_model(tmp_path / "model")), "load_in_4bit": True, "lora": {"rank": 2}}
    config = sample.settings(policies="adapter", model=model, phase2={"algorithm": "PPO"})
    sample.trainer(tmp_path / "out", config).train()
    after = weights(tmp_path / "out" / "phase2_last", config)
    before = open_policies(config, sample.Talk.roles).learning
    shared = {id(p) for p in before["caller"].parameters() if not p.requires_grad}
    assert shared == {id(p) for p in before["answerer"].parameters() if not p.requires_grad}
    for name, policy in before.items():
        learned = {key for key, p in policy.named_parameters() if p.requires_grad and "lora_B" in key}
        assert len(learned) == 2 * 7, "of every matrix of both layers"
        assert not [key for key in learned if after[f"{name}/{key}"].equal(policy.state_dict()[key])]


@pytest.mark.parametrize(
    ("model", "models", "key"),
    [("./absent", {}, "model.name"), ("./absent", {"caller": "./missing"}, "agents.models.caller")],
)
def test_a_model_that_is_not_there_is_named_by_its_key(model, models, key):
    config = sample.settings(policies="separate", models=models, model={"name": model})
    with pytest.raises(UserError, match=rf"^{re.escape(key)}: no folder"):
        open_policies(config, sample.Talk.roles)


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


def test_a_frozen_role_is_spoken_for_and_learns_nothing(tmp_path):
    config = load_agent_config(
        "support.agents.sample:Talk",
        None,
        [
            "model=tiny",
            "workers.pool.echo={kind: tool, tool: texts, card: says it back}",
            "agents.frozen={answerer: echo}",
            "agents.policies=separate",
            "training.phase2_rl.num_episodes=2",
        ],
    )
    sample.trainer(tmp_path, config).train()
    assert {path.name for path in (tmp_path / "phase2_last").iterdir()} == {"caller", "agents.json", "SHA256SUMS"}
    rollout = json.loads((tmp_path / ROLLOUTS).read_text().splitlines()[0])
    assert "[answerer] assistant:" in rollout["transcript"]


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


def test_figures_of_a_broken_infrastructure_are_no_evaluation(tmp_path):
    """One task in two was judged before, and the table showed its reward as that of all."""
    config = load_agent_config(
        "support.agents.sample:Talk",
        None,
        ["model=tiny", "tasks.suite=written", "agents.workflow_args.lost=['0']"],
    )
    path = tmp_path / "tasks.jsonl"
    held_out = [task.model_copy(update={"split": "test"}) for task in sample.TASKS[:2]]
    path.write_text("".join(f"{task.model_dump_json()}\n" for task in held_out))
    config = config.model_copy(update={"tasks": config.tasks.model_copy(update={"path": str(path)})})
    with pytest.raises(UserError, match=r"1 of 2 episodes are unscorable, more than tasks\.unscorable_limit"):
        asyncio.run(evaluation.evaluate(config, checkpoint=None, output=tmp_path / "out.json"))


@pytest.mark.parametrize(("weights", "total"), [({}, (1, 1)), ({"short": 0.25, "plain": 2}, (2, 0.25))], ids=str)
def test_several_rewards_are_weighed_and_reported_by_name(tmp_path, weights, total):
    config = sample.settings(reward_weights=weights)
    sample.trainer(tmp_path, config, workflow_class=sample.Graded).train()
    for row in sample.rows(tmp_path):
        assert 0 < row["reward_plain"] < 1 < -row["reward_short"]
        assert row["reward"] == pytest.approx(total[0] * row["reward_plain"] + total[1] * row["reward_short"])
    (evaluation, *_) = sample.rows(tmp_path, "eval_reward_plain")
    assert evaluation["eval_reward"] == pytest.approx(
        total[0] * evaluation["eval_reward_plain"] + total[1] * evaluation["eval_reward_short"]
    )


def test_rewards_that_the_workflow_does_not_have_are_refused(tmp_path):
    config = sample.settings(reward_weights={"brief": 1})
    with pytest.raises(
        UserError, match=r"reward_weights: Graded has no reward 'brief' in its `rewards`, only plain, sho"
    ):
        sample.trainer(tmp_path, config, workflow_class=sample.Graded).train()
    with pytest.raises(
        UserError, match=r"reward_weights: Talk has no reward 'brief' in its `rewards`, no named rewards"
    ):
        sample.trainer(tmp_path, config).train()
    config = sample.settings(workflow_args={"announced": False})
    with pytest.raises(UserError, match=r"Graded\.run: Graded has no reward 'polite' in its `rewards`, only plain"):
        sample.trainer(tmp_path, config, workflow_class=sample.Graded).train()


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


def test_a_policy_that_did_not_change_is_named(tmp_path):
    config = sample.settings(policies="separate", workflow_args={"silent": True})
    summary = sample.trainer(tmp_path, config).train()
    assert summary.complaint.startswith("no weight of answerer changed")
    summary.refuse_unchanged()


def test_off_policy_turns_are_as_old_as_the_weights_that_wrote_them(tmp_path):
    changes = {"on_policy": False, "max_staleness": 1, "num_episodes": 16, "sampler_correction": "token_truncate"}
    sample.trainer(tmp_path, sample.settings(phase2=changes)).train()
    rows = sample.rows(tmp_path)
    assert all(row["unscorable_share"] == 0 and row["max_staleness"] <= 1 for row in rows)
    assert sum(row["staleness"] for row in rows) > 0
    assert rows[0]["sampler_ratio"] == pytest.approx(1, abs=1e-4)


def test_an_attempt_that_spends_its_budget_has_failed(tmp_path):
    sample.trainer(tmp_path, sample.settings(budget={"turns": 2})).train()
    row = sample.rows(tmp_path)[0]
    assert row["budget_exceeded"] == 1
    assert row["reward"] == 0
    assert row["turns"] == 2


RUNS = {
    "shared": {"phase2": {"num_iterations": 2, "num_minibatches": 2, "kl_coef": 0.05}, "credit": "turn"},
    "adapter": {"policies": "adapter", "phase2": {"algorithm": "PPO", "kl_coef": 0.05, "num_minibatches": 2}},
}


@pytest.mark.parametrize("name", ["shared", pytest.param("adapter", marks=pytest.mark.slow)])
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
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_the_command_ends_with_the_code_of_the_signal_and_goes_on(tmp_path, name, code):
    sizes = {"num_episodes": 12, "tasks_per_update": 4, "num_generations": 4, "eval_tasks": 2, "eval_every": 10}
    words = [
        "support.agents.sample:Killed",
        "model=tiny",
        "model.max_new_tokens=6",
        "tasks.suite=composition",
        "tasks.limit=4",
    ]
    words += [f"training.phase2_rl.{key}={value}" for key, value in sizes.items()]
    program = [sys.executable, "-c", "from orchestai.cli import main; main()", "agents", "train", *words]
    environment = importing()

    def start(folder: str, *more: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [*program, "--output_dir", str(tmp_path / folder), *more]
        return subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=240)

    stopped = start("cut", KILL_AT="20", KILL_BY=name)
    assert stopped.returncode == code, stopped.stderr[-2000:]
    assert f"{name}; go on with --resume" in " ".join(stopped.stderr.split())
    assert len(sample.rows(tmp_path / "cut")) == 2, "the second update, in which it came, was finished"
    assert start("cut", "--resume").returncode == 0
    assert start("whole").returncode == 0
    rows, others = (list(map(sample.timeless, sample.rows(tmp_path / run))) for run in ("whole", "cut"))
    assert others == rows
    assert len(rows) == 3


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


def test_functions_and_tools_among_the_settings_have_names_that_last(tmp_path):
    """What is compared when a run goes on must not hold the address of an object in memory."""
    path = tmp_path / "config.yaml"
    path.write_text(sample.settings(workflow_args={"silent": True}).to_yaml())
    trainer = AgentTrainer(config=path, workflow_args={"reward": sample.plain, "tool": sample.Killed, "at": Path("x")})
    assert trainer.workflow_class is sample.Talk, "the file names it"
    found = trainer._deciding()["agents"]["workflow_args"]
    assert found.pop("at").startswith("pathlib")
    assert found == {
        "silent": True,
        "reward": "support.agents.sample:plain",
        "tool": "support.agents.sample:Killed",
    }


def test_weights_in_parts_and_several_policies_are_refused(tmp_path, monkeypatch):
    from orchestai.training import layouts

    monkeypatch.setattr("orchestai.training.rl.trainer.layout_of", layouts.Fsdp2)
    with pytest.raises(UserError, match=r"FSDP2 and ZeRO lay out the weights of one: set agents\.policies=shared"):
        sample.trainer(tmp_path, sample.settings(policies="separate")).train()


@pytest.mark.parametrize(
    ("name", "message"), [("Stranger", "'pilot', but its roles are"), ("Bare", "Bare.run gave float")]
)
def test_a_workflow_that_is_written_wrongly_is_told_so(tmp_path, name, message):
    with pytest.raises(UserError, match=message):
        AgentTrainer(
            getattr(sample, name), None, sample.settings(), sample.TASKS[:4], sample.TASKS[4:], tmp_path
        ).train()
