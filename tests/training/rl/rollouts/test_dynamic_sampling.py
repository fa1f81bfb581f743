"""Groups that teach nothing are replaced by groups of further tasks, boundedly, and everything else stays as it is."""

import asyncio
import random

import pytest
import torch

from orchestai.errors import UserError
from orchestai.execution.result import JudgedExecution
from orchestai.outcome import Scored
from support.agents import sample as agents_sample
from support.training import bandit

FLAT = frozenset(str(i) for i in range(24) if i % 3)
"""Two of three tasks: whatever is done, it is worth nothing."""


def executing(flat=FLAT):
    """An `execute` under which those tasks are flat."""

    async def execute(task, workflow, sample=0) -> JudgedExecution:
        found = await bandit.execute(task, workflow, sample)
        return found.model_copy(update={"outcome": Scored(0.0), "tests_passed": 0}) if task.task_id in flat else found

    return execute


def train(output, planner=None, resume=False, execute=None, **changes):
    changes = {"tasks_per_update": 4, "dynamic_sampling": True, **changes}
    tasks = changes.pop("tasks", bandit.TASKS)
    running = bandit.trainer(
        output, bandit.settings(**changes), planner or bandit.Bandit(), tasks=tasks, execute=execute or executing()
    )
    summary = asyncio.run(running.train(resume=resume))
    return running, summary


def test_the_batch_is_that_of_telling_tasks_alone(tmp_path):
    """The gradient is that of a run whose tasks are those that tell: what was replaced neither counts nor dilutes."""
    running, _ = train(tmp_path / "dynamic", num_episodes=24, max_resampling_rounds=6)
    order = [task.task_id for task in running.batches.tasks_from(0, 24)]
    telling = [task for task in order if task not in FLAT]
    row = bandit.rows(tmp_path / "dynamic")[0]
    first = order[: order.index(telling[3]) + 1]
    assert row["replaced_groups"] == len(first) - 4 > 0

    by_id = {task.task_id: task for task in bandit.TASKS}
    alone = {"tasks": [by_id[name] for name in telling[:4]], "num_episodes": 4, "dynamic_sampling": False}
    train(tmp_path / "alone", **alone)
    (other,) = bandit.rows(tmp_path / "alone")
    for name in ("loss", "grad_norm", "entropy", "advantage_std"):
        assert row[name] == pytest.approx(other[name], abs=1e-6)
    assert row["flat_group_share"] == 0

    train(tmp_path / "plain", num_episodes=24, dynamic_sampling=False)
    assert bandit.rows(tmp_path / "plain")[0]["grad_norm"] != pytest.approx(other["grad_norm"], rel=0.1)


def test_attempts_are_counted_as_consumed_and_their_rewards_are_reported(tmp_path):
    """A uniform policy gives a quarter of the steps to the best worker: a reward of 0.25 over tasks that tell, and of
    a third of that over all. Tasks chosen for their spread would say the former."""
    running, summary = train(tmp_path, num_episodes=24, max_resampling_rounds=6, learning_rate=1e-6)
    rows = bandit.rows(tmp_path)
    assert running.position.consumed == 24
    assert summary.updates == len(rows) < 24 / 4
    attempted = [4 + row["replaced_groups"] for row in rows[:-1]]
    attempted.append(24 - sum(attempted))
    total = sum(row["reward"] * count for row, count in zip(rows, attempted, strict=True))
    assert total / 24 == pytest.approx(0.25 / 3, abs=0.03)


def test_where_no_group_tells_the_bound_is_kept_and_nothing_changes(tmp_path):
    planner = bandit.Bandit()
    running, summary = train(
        tmp_path,
        planner,
        execute=executing(flat={task.task_id for task in bandit.TASKS}),
        max_resampling_rounds=2,
        flat_patience=2,
    )
    first = bandit.rows(tmp_path)[0]
    assert (first["sampling_rounds"], first["replaced_groups"]) == (3, 8)
    assert running.position.consumed == 24
    assert "nothing could be learned in 2 updates" in summary.stopped
    assert torch.equal(planner.logits, torch.zeros_like(planner.logits))


def test_no_task_is_twice_in_a_batch_where_a_pass_ends(tmp_path):
    """Ten tasks, four at a time, all flat: the second batch has the last two, and nothing to replace them with."""
    everything = {task.task_id for task in bandit.TASKS}
    changes = {"tasks": bandit.TASKS[:10], "num_episodes": 20, "max_resampling_rounds": 1}
    train(tmp_path, execute=executing(flat=everything), **changes)
    rows = bandit.rows(tmp_path)
    assert [row["sampling_rounds"] for row in rows] == [2, 1, 2, 1]
    assert [row["replaced_groups"] for row in rows] == [4, 0, 4, 0]


def fluent_speller() -> bandit.Speller:
    """Its plans are valid, so that nothing but success tells them apart."""
    speller = bandit.Speller()
    speller.base[:, 0, speller.END] = -20.0
    return speller


@pytest.mark.parametrize("policy", [bandit.Bandit, fluent_speller])
def test_a_killed_run_goes_on_bit_for_bit(tmp_path, policy):
    changes = {"num_episodes": 24 * 3, "eval_every": 2, "num_iterations": 2, "max_resampling_rounds": 2}
    whole, _ = train(tmp_path / "whole", policy(), **changes)
    left = 180

    async def killed(task, workflow, sample=0) -> JudgedExecution:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return await executing()(task, workflow, sample)

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", policy(), execute=killed, **changes)
    before = bandit.rows(tmp_path / "killed")
    resumed, _ = train(tmp_path / "killed", policy(), resume=True, **changes)
    rows, others = bandit.rows(tmp_path / "whole"), bandit.rows(tmp_path / "killed")
    assert 2 <= len(before) < len(rows)
    assert sum(row["replaced_groups"] for row in rows[:2]) > 0
    assert list(map(bandit.timeless, others)) == list(map(bandit.timeless, rows))
    for name, policy in whole.policies.items():
        pairs = zip(policy.parameters(), resumed.policies[name].parameters(), strict=True)
        assert all(torch.equal(one, two) for one, two in pairs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "PPO"}, "algorithm PPO does not compare rewards within groups"),
        ({"loss_type": "reinforce"}, "loss_type reinforce does not compare"),
        ({"on_policy": False}, "set on_policy to true, or dynamic_sampling to false"),
    ],
)
def test_what_cannot_be_replaced_is_refused(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        train(tmp_path, **changes)


def test_groups_of_agents_are_replaced_too(tmp_path):
    """What cannot be judged teaches nothing, so another task takes its place."""
    phase2 = {"dynamic_sampling": True, "tasks_per_update": 2, "num_episodes": 4}
    first = random.Random("0/0").sample(agents_sample.TASKS[:4], 4)[0]
    config = agents_sample.settings(
        workflow_args={"lost": [first.task_id]}, tasks={"unscorable_limit": 0.5}, phase2=phase2
    )
    agents_sample.trainer(tmp_path, config).train()
    rows = agents_sample.rows(tmp_path)
    assert [row["replaced_groups"] for row in rows] == [1, 0]
    assert rows[0]["flat_group_share"] == 0
