"""The trainer reaches a known optimum with every algorithm, goes on after a kill as if nothing happened, and refuses
what would spoil a run."""

import asyncio
import math
from dataclasses import replace
from statistics import fmean

import pytest
import torch

from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.result import JudgedExecution
from orchestai.outcome import Scored
from orchestai.training.rl.formulas import RECIPES
from support.training import bandit
from support.training.bandit_training import killed_at, train

ALGORITHMS = [("PPO", "dapo"), *(("GRPO", kind) for kind in RECIPES if kind != "bnpo")]  # bnpo is dapo


@pytest.mark.parametrize(("algorithm", "loss_type"), ALGORITHMS)
def test_every_algorithm_finds_the_best_plans(tmp_path, algorithm, loss_type):
    """From a uniform policy (expected reward 0.25) to above 90 % of the optimum, which is 1."""
    changes = {"algorithm": algorithm, "loss_type": loss_type, "learning_rate": 0.3, "num_episodes": 24 * 4}
    planner, summary = train(tmp_path, **changes)
    assert planner.expected_reward() > 0.9
    assert summary.best_reward > 0.9


@pytest.mark.parametrize(
    ("algorithm", "schedule", "factors"),
    [
        ("GRPO", {"lr_schedule": "linear"}, [1 - i / 6 for i in range(6)]),
        (
            "PPO",
            {"lr_schedule": "cosine", "warmup_updates": 4},
            [min(1, (i + 1) / 4) * (1 + math.cos(math.pi * i / 6)) / 2 for i in range(6)],
        ),
    ],
)
def test_a_killed_run_goes_on_bit_for_bit(tmp_path, algorithm, schedule, factors):
    changes = {"algorithm": algorithm, "eval_every": 2, "num_episodes": 24 * 3, "num_iterations": 2, **schedule}
    changes |= {"weight_decay": 0.01}
    whole, _ = train(tmp_path / "whole", **changes)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", execute=killed_at(300), **changes)
    before = bandit.rows(tmp_path / "killed")
    assert 2 <= len(before) < 6
    resumed, summary = train(tmp_path / "killed", resume=True, **changes)
    assert summary.updates == 6
    rates = [row["learning_rate"] for row in bandit.rows(tmp_path / "killed")]
    assert rates == pytest.approx([0.1 * factor for factor in factors])
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    for row, other in zip(bandit.rows(tmp_path / "whole"), bandit.rows(tmp_path / "killed"), strict=True):
        assert bandit.timeless(other) == bandit.timeless(row)


def test_as_many_updates_are_made_as_were_asked_for(tmp_path):
    """A batch ends with its pass over the 24 tasks, so five updates of ten tasks are not 50 tasks: they ran seven."""
    settings = {"num_updates": 5, "tasks_per_update": 10, "lr_schedule": "linear"}
    _, summary = train(tmp_path, **settings)
    assert summary.updates == 5
    rows = bandit.rows(tmp_path, "learning_rate")
    assert [row["learning_rate"] for row in rows] == pytest.approx([0.1, 0.08, 0.06, 0.04, 0.02])
    with pytest.raises(UserError, match=r"num_updates was 5 and is now 6; with lr_schedule=linear"):
        train(tmp_path, **settings | {"num_updates": 6}, resume=True)


def test_a_run_may_be_made_longer_but_not_changed(tmp_path):
    train(tmp_path, num_episodes=24)
    assert train(tmp_path, num_episodes=48, resume=True)[1].updates == 4
    with pytest.raises(UserError, match=r"training\.phase2_rl\.learning_rate was 0\.1 and is now 0\.2"):
        train(tmp_path, num_episodes=48, learning_rate=0.2, resume=True)
    scheduled = {"lr_schedule": "cosine", "num_episodes": 24}
    train(tmp_path / "cosine", **scheduled)
    with pytest.raises(UserError, match=r"num_episodes was 24 and is now 48; .*schedule=cosine.*--checkpoint"):
        train(tmp_path / "cosine", **scheduled | {"num_episodes": 48}, resume=True)
    changed = [task.model_copy(update={"test": "assert False"}) for task in bandit.TASKS]
    with pytest.raises(UserError, match="training tasks was"):
        train(tmp_path, num_episodes=48, tasks=changed, resume=True)


def test_what_cannot_be_resumed_is_one_clear_line(tmp_path):
    with pytest.raises(UserError, match="no run to resume"):
        train(tmp_path, resume=True)
    (tmp_path / "phase2_state.pt").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(UserError, match=r"phase2_state\.pt: damaged.*in another output folder"):
        train(tmp_path, resume=True)


def test_unscorable_episodes_teach_nothing_and_are_counted(tmp_path):
    """Task 0's server is down: with and without it the policy learns the same."""

    async def flaky(task, workflow, sample=0) -> JudgedExecution:
        if task.task_id == "0":
            raise InfrastructureError("server", "server down")
        return await bandit.execute(task, workflow, sample)

    once = {"num_episodes": 24, "tasks_per_update": 24, "num_iterations": 2}
    with_it, _ = train(tmp_path / "with", execute=flaky, **once)
    (row,) = bandit.rows(tmp_path / "with")
    assert row["unscorable_share"] == pytest.approx(1 / 24)
    without, _ = train(tmp_path / "without", tasks=bandit.TASKS[1:], **once | {"num_episodes": 23})
    assert torch.allclose(with_it.logits, without.logits, atol=1e-6)


def test_too_many_unscorable_episodes_end_training_with_the_commonest_reason(tmp_path):
    async def down(task, workflow, sample=0) -> JudgedExecution:
        raise InfrastructureError("connection", "connection refused")

    match = r"24 of 24 validation episodes .*more than tasks\.unscorable_limit=0\.2 .*24 times.*connection refused"
    with pytest.raises(UserError, match=match):
        train(tmp_path, execute=down)


def test_nothing_is_learned_where_no_reward_differs_and_training_stops(tmp_path):
    """The entropy bonus alone would drive the policy to chance, since Adam's steps do not shrink with the gradient."""

    async def hopeless(task, workflow, sample=0) -> JudgedExecution:
        return (await bandit.execute(task, workflow, sample)).model_copy(update={"results": (), "tests_passed": 0})

    planner = bandit.Bandit()
    planner.logits.data.normal_(generator=torch.Generator().manual_seed(0))
    before = planner.logits.detach().clone()
    _, summary = train(tmp_path, planner, execute=hopeless, alpha=0.0, flat_patience=3, entropy_coef=1.0)
    assert torch.equal(planner.logits, before)
    assert summary.updates == 3
    assert "nothing could be learned in 3 updates" in summary.stopped
    assert summary.steps == {"planner": 0}
    assert summary.complaint.startswith("no weight changed: in none of 3 updates did a reward differ")
    with pytest.raises(UserError) as refused:
        summary.refuse_unchanged()
    assert summary.complaint not in str(refused.value), "it was said at the end of training"


def test_a_planner_is_changed_the_less_the_more_it_solved_at_the_start(tmp_path):
    """Steps that find another expert within forty updates undid what the demo's phase 1 knew."""
    running = bandit.trainer(tmp_path, bandit.settings())
    running.position.start_success = {str(task): float(task % 2) for task in range(8)}
    assert running.boldness == 1
    running.rules = replace(running.rules, cautious=True)
    assert running.boldness == 1 / 8
    asyncio.run(running.train())
    assert running.boldness == (1 - fmean(running.position.start_success.values())) ** 3 < 1
    assert bandit.rows(tmp_path)[0]["learning_rate"] == pytest.approx(0.1 * running.boldness)


def test_kl_holds_the_policy_near_its_start(tmp_path):
    def distance(kl_coef: float) -> float:
        planner, _ = train(tmp_path / str(kl_coef), kl_coef=kl_coef, num_episodes=24 * 5)
        return float(planner.logits.detach().log_softmax(-1).diff().abs().sum())

    assert distance(10.0) < 0.5 * distance(0.0)
    assert bandit.rows(tmp_path / "10.0")[-1]["kl"] > 0


def test_the_first_step_is_on_policy_and_further_ones_are_corrected(tmp_path):
    train(tmp_path / "one", num_episodes=12)
    (row,) = bandit.rows(tmp_path / "one")
    assert (row["ratio"], row["max_ratio"]) == pytest.approx((1, 1), abs=1e-6)
    assert row["clip_low_share"] == row["clip_high_share"] == 0
    train(tmp_path / "many", num_episodes=12, num_iterations=6, learning_rate=0.3)
    (row,) = bandit.rows(tmp_path / "many")
    assert row["max_ratio"] > 1.2
    assert row["clip_low_share"] > 0
    assert row["clip_high_share"] > 0


def test_a_loss_without_a_ratio_refuses_stale_samples(tmp_path):
    with pytest.raises(UserError, match="num_iterations"):
        train(tmp_path, loss_type="rloo", num_iterations=2)


def test_every_task_comes_once_per_pass_and_passes_differ(tmp_path):
    seen = []

    async def noting(task, workflow, sample=0) -> JudgedExecution:
        seen.append(task.task_id)
        return await bandit.execute(task, workflow, sample)

    running = bandit.trainer(tmp_path, bandit.settings(num_episodes=48, tasks_per_update=10), execute=noting)
    batches = []
    while running.position.consumed < 48:
        tasks = running.batches.tasks_from(running.position.consumed, 10)
        batches.append([task.task_id for task in tasks])
        running.position.consumed += len(tasks)
    assert [len(batch) for batch in batches] == [10, 10, 4] * 2
    first, second = sum(batches[:3], []), sum(batches[3:], [])  # noqa: RUF017
    assert sorted(first) == sorted(second) == sorted(task.task_id for task in bandit.TASKS)
    assert first != second


@pytest.mark.parametrize("changes", [{"algorithm": "PPO"}, {"loss_type": "reinforce"}], ids=str)
def test_flat_groups_do_not_stop_what_compares_with_something_else(tmp_path, changes):
    """Each task has its own reward, whatever is planned: no group differs, but the batch and the critic tell."""

    async def by_task(task, workflow, sample=0) -> JudgedExecution:
        worth = Scored(float(bandit.kind_of(task) % 2))
        return (await bandit.execute(task, workflow, sample)).model_copy(update={"outcome": worth})

    planner = bandit.Bandit()
    _, summary = train(tmp_path, planner, execute=by_task, flat_patience=3, **changes)
    rows = bandit.rows(tmp_path)
    assert all(row["flat_group_share"] == 1 and "loss" in row for row in rows)
    assert summary.stopped == ""
    assert summary.updates == 30
    assert planner.logits.detach().any()
