"""The best checkpoint is one that a user would choose, a fall ends training, and rollouts tell of every turn."""

from __future__ import annotations

import asyncio
import json
import math

import pytest
import torch

from orchestai.config import Phase2Config
from orchestai.errors import UserError
from orchestai.outcome import Reward, Unscorable
from orchestai.planner.slots.decisions import SlotLayout
from orchestai.training.rl.advantages import Credited
from orchestai.training.rl.monitoring import (
    ENOUGH,
    ROLLOUTS,
    change,
    decision_credits,
    flat_warning,
    growth,
    judge,
    measure_gaps,
    note_attempts,
    watch,
)
from orchestai.training.rl.run_state import Position
from orchestai.training.rl.trainer import RunSummary
from orchestai.types import Decisions, Episode, Turn
from support.agents import sample as agents_sample
from support.training import bandit


def test_success_is_compared_task_by_task():
    """Of four tasks one is lost and one was not judged before: -1, 0, 0 have a standard error of a third."""
    before = {"a": 1.0, "b": 1.0, "c": 0.0}
    found = change({"a": 0.0, "b": 1.0, "c": 0.0, "d": 1.0}, before)
    assert (found.mean, found.error) == pytest.approx((-1 / 3, 1 / 3))
    assert str(found) == "-33.3 ± 33.3 points"
    assert change({}, before) is None


@pytest.mark.parametrize(
    ("lost", "won", "is_loss"), [(0, 0, False), (1, 0, False), (2, 0, True), (3, 2, False), (9, 3, True)]
)
def test_one_task_of_64_may_be_chance_and_two_may_not(lost, won, is_loss):
    """As many flips the other way make the same loss less telling."""
    before = {str(i): float(i % 2) for i in range(64)}
    flips = {str(2 * i + 1): 0.0 for i in range(lost)} | {str(2 * i): 1.0 for i in range(won)}
    assert change({**before, **flips}, before).is_loss == is_loss


@pytest.mark.parametrize(("tasks", "kept"), [(1, True), (2, True), (ENOUGH - 1, True), (ENOUGH, False)])
def test_of_few_tasks_no_loss_counts_as_chance(tasks, kept):
    """One pair has no standard error, so that any loss of success passed for the best."""
    solved = {str(i): 1.0 for i in range(tasks)}
    position = Position()
    judge(position, 0.5, solved)
    lost = judge(position, 0.9, {**solved, "0": 0.0})
    assert (lost.success_change.is_loss, lost.best) == (kept, not kept)
    assert bool(lost.passed_over) == kept
    assert judge(position, 0.95, solved).best


def test_more_reward_with_less_success_is_passed_over_and_that_is_said():
    solved = {str(i): 1.0 for i in range(8)}
    position = Position()
    assert judge(position, 0.5, solved).best
    position.update = 10
    assert judge(position, 0.6, solved).best
    position.update = 20
    worse = judge(position, 0.9, {**solved, "0": 0.0, "1": 0.0, "2": 0.0})
    assert not worse.best
    assert "0.900 is the highest so far" in worse.passed_over
    assert "-37.5 ± 18.3 points" in worse.passed_over
    assert "that of update 10" in worse.passed_over
    less = judge(position, 0.55, solved)
    assert (less.best, less.passed_over) == (False, "")
    assert str(RunSummary.of(position, "")) == "reward 0.600 (0.500 at the start), success 100.0% (100.0%)"


def greedy_for_speed(output, num_episodes, resume=False) -> RunSummary:
    """A planner that solves everything, under a reward that pays more for the fast worker that solves nothing."""

    async def execute(task, workflow, sample=0):
        run = await bandit.execute(task, workflow, sample)
        slow = sum(
            int(s.worker) == bandit.best_worker(bandit.kind_of(task), i) for i, s in enumerate(workflow.subtasks)
        )
        return run.model_copy(update={"total_latency_ms": 500.0 * slow})

    planner = bandit.Bandit()
    with torch.no_grad():
        for kind in range(bandit.KINDS):
            for step in range(bandit.STEPS):
                planner.logits[kind, step, bandit.best_worker(kind, step)] = 1.5
    config = bandit.settings(gamma_latency=0.01, num_episodes=num_episodes, eval_every=2, learning_rate=0.3)
    return asyncio.run(bandit.trainer(output, config, planner, execute=execute).train(resume=resume))


def test_a_planner_that_gives_success_away_is_not_kept(tmp_path, capsys):
    """A run went from 100 % success to 17 % and kept that as the best, which a resumed run went on with."""
    summary = greedy_for_speed(tmp_path, 24 * 2)
    summary = greedy_for_speed(tmp_path, 24 * 4, resume=True)
    rows = bandit.rows(tmp_path, "eval_success")
    assert rows[-1]["eval_reward"] > rows[0]["eval_reward"], "the reward asks for it"
    assert (rows[0]["eval_success"], rows[-1]["eval_success"]) == (1.0, 0.0)
    assert rows[-1]["eval_success_change"] == -1.0
    assert (summary.best_reward, summary.best_success) == (rows[0]["eval_reward"], 1.0)
    best, last = (torch.load(tmp_path / f"phase2_{name}.pth", weights_only=True) for name in ("best", "last"))
    assert not torch.equal(best["logits"], last["logits"])
    said = " ".join(capsys.readouterr().err.split())
    assert "is the highest so far, but success changed by -100.0 ± 0.0 points since the start" in said


# A policy that learns its tasks by heart is found by the gap between training and validation, and chance is not.


def attempts(*rewards: float, first: int = 0, success: bool = True) -> list[Episode]:
    """Two attempts at each task, half a point above and below its reward."""
    return [
        Episode(str(i), str(i), (), Reward(reward + half), metrics={"success": reward} if success else {})
        for i, reward in enumerate(rewards, start=first)
        for half in (-0.5, 0.5)
    ]


def test_the_gap_is_the_difference_of_means_over_tasks_since_the_last_evaluation():
    """By hand: tasks worth 1, 0 and 1 in two updates, against 1, 0, 0, 0; standard errors 1/3 and 1/4."""
    position = Position()
    note_attempts(position, attempts(1, 0))
    note_attempts(position, attempts(1, first=7))
    note_attempts(position, [Episode("9", "9", (), Unscorable("server", "down"))])
    gaps = measure_gaps(position, attempts(1, 0, 0, 0))
    assert gaps["success"].mean == pytest.approx(2 / 3 - 1 / 4)
    assert gaps["success"].error == pytest.approx((1 / 9 + 1 / 16) ** 0.5)
    assert gaps["reward"] == pytest.approx(gaps["success"]), "attempts at one task are one value"
    note_attempts(position, attempts(0, 0))
    assert measure_gaps(position, attempts(0, 0))["success"].mean == 0, "what was before is forgotten"
    assert measure_gaps(position, attempts(0, 0)) == {}, "nothing was attempted"


def warning(now: list[float], first: list[float], held_out: list[float], *, success: bool = True) -> str:
    position = Position()
    for rewards in (first, now):
        note_attempts(position, attempts(*rewards, success=success))
        gaps = measure_gaps(position, attempts(*held_out, success=success))
    return growth(position, gaps)


def test_growth_beyond_noise_is_said_and_nothing_else():
    half, all_right, few = [0, 1] * 20, [1.0] * 40, [0, 1] * 2
    assert "success on training tasks is 0.5 above" in warning(all_right, half, half)
    assert "reward on training tasks" in warning(all_right, half, half, success=False)
    assert warning(half, half, half) == ""
    assert warning([1, 1, 1, 1], few, few) == "", "four tasks may do that by chance"
    assert warning(all_right, all_right, half) == "", "it was so from the beginning"
    assert warning(half, [0] * 40, half) == "", "greedy attempts did better, and no longer do"
    position = Position()
    note_attempts(position, attempts(1))
    assert growth(position, measure_gaps(position, attempts(0))) == "", "one task has no error"


def train(output, planner=None, **changes) -> RunSummary:
    execute = changes.pop("execute", bandit.execute)
    running = bandit.trainer(output, bandit.settings(**changes), planner or bandit.Speller(), execute=execute)
    return asyncio.run(running.train())


def test_groups_that_are_all_flat_are_said_once_at_the_third_update():
    """Nobody heard that 19 of 20 updates had nothing to learn from."""
    position, flat = Position(), {"success": 0.0, "valid_share": 1.0, "entropy_worker": 0.0}
    said = []
    for metrics in (flat, flat, {**flat, "entropy": 1.0}, *[flat] * 4):
        watch(position, metrics, Phase2Config())
        said.append(bool(flat_warning(position, metrics)))
    assert said == [False] * 5 + [True, False]


def test_broken_weights_are_named_before_anything_is_executed(tmp_path):
    class Broken(bandit.Speller):
        def plan(self, tasks, *, sample=None):
            plans = super().plan(tasks, sample=sample)
            if sample is not None and self.adapter.abs().max() > 0:
                plans[0].logp.fill_(math.nan)
            return plans

    with pytest.raises(UserError, match=r"update 2: the planner's log-probabilities .* not finite.*earlier checkpoint"):
        train(tmp_path, Broken())
    assert len(bandit.rows(tmp_path)) == 1


def test_a_gradient_that_is_not_finite_is_never_applied(tmp_path):
    class Overflowing(bandit.Speller):
        def score(self, *args, **kwargs):
            scores = super().score(*args, **kwargs)
            scores.logp.register_hook(lambda gradient: gradient * math.inf)
            return scores

    planner = Overflowing()
    with pytest.raises(UserError, match=r"update 1: the gradient is not finite.*learning_rate"):
        train(tmp_path, planner)
    assert not planner.adapter.any()


def test_figures_tell_what_was_sampled_and_only_what_was_measured(tmp_path, capsys):
    async def same(task, workflow, sample=0):
        return (await bandit.execute(task, workflow, sample)).model_copy(update={"tests_passed": 0})

    train(tmp_path, num_episodes=12)
    (row,) = bandit.rows(tmp_path)
    assert 1 <= row["slots_per_plan"] <= 4
    seconds = sum(value for key, value in row.items() if key.startswith("seconds_"))
    assert row["slots_per_second"] == pytest.approx(row["slots_per_plan"] * 12 * 8 / seconds)
    assert {"loss", "kl", "entropy", "ratio", "max_ratio", "clip_low_share", "clip_high_share"} <= row.keys()

    train(tmp_path / "flat", bandit.Bandit(), num_episodes=36, alpha=0.0)
    *_, row = bandit.rows(tmp_path / "flat")
    assert "update 3: nothing to learn from: every group was flat in 3" in " ".join(capsys.readouterr().err.split())
    assert row["flat_group_share"] == 1
    assert not {"loss", "entropy", "ratio"} & row.keys(), "nothing was learned, so there is nothing to say"


def written(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / ROLLOUTS).read_text().splitlines()]


def test_a_plan_is_one_turn_with_its_advantage(tmp_path):
    """Rewards less their mean, as dr_grpo compares them; the first eight attempts are the first task's."""
    config = bandit.settings(num_episodes=24, loss_type="dr_grpo", mask_truncated=True)
    asyncio.run(bandit.trainer(tmp_path, config, bandit.Speller()).train())
    samples = [sample for sample in written(tmp_path) if sample["update"] == 1]
    assert len(samples) == 8
    mean = sum(sample["reward"] for sample in samples) / 8
    turns = [turn for sample in samples for turn in sample["turns"]]
    assert [turn["role"] for turn in turns] == ["planner"] * 8
    assert 0 < sum(turn["truncated"] for turn in turns) < 8
    for sample, turn in zip(samples, turns, strict=True):
        if turn["truncated"]:
            assert (turn["slots"], turn["advantage"]) == (0, None), "it is in no loss"
            assert "decisions" not in turn
        else:
            assert turn["decisions"] == [[turn["slots"], "tokens", turn["advantage"]]]
            assert 1 <= turn["slots"] <= bandit.Speller.LONGEST
            assert turn["advantage"] == pytest.approx(sample["reward"] - mean, abs=1e-5)


def test_decisions_of_a_plan_by_slots_are_named():
    layout = SlotLayout(max_subtasks=2, max_fallbacks=1)
    nothing = torch.zeros(layout.slots)
    none = torch.zeros(1, dtype=torch.int64)
    chosen = Decisions(1, torch.zeros(1, 2), none, none, torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.bool))
    turn = Turn(chosen, nothing, nothing == 0, nothing, layout.step, 0)
    places = torch.tensor([layout.slot(0, 4), layout.slot(0, 5), layout.slot(1, 4), layout.slots - 1])
    credit = Credited(places, torch.tensor([0.5, -0.25, 1.0, 2.0]))
    assert decision_credits(turn, credit) == [
        (1, "worker", 0.5),
        (1, "fallback", -0.25),
        (2, "worker", 1.0),
        (0, "edge", 2.0),
    ]
    assert (credit.slots, credit.advantage) == (4, 0.8125)


def test_turns_of_agents_have_their_words_rewards_and_advantages(tmp_path):
    config = agents_sample.settings(credit="turn", phase2={"loss_type": "dr_grpo", "num_episodes": 4})
    agents_sample.trainer(tmp_path, config).train()
    samples = written(tmp_path)
    assert len({sample["task_id"] for sample in samples}) == 2, "eight attempts, four at each task"
    for task in {sample["task_id"] for sample in samples}:
        mine = [sample for sample in samples if sample["task_id"] == task]
        roles = [[(turn["role"], turn["turn"]) for turn in sample["turns"]] for sample in mine]
        assert roles == [[("caller", 1), ("caller", 2), ("answerer", 1)]] * len(mine)
        for place in range(3):
            turns = [sample["turns"][place] for sample in mine]
            assert sum(turn["advantage"] for turn in turns) == pytest.approx(0, abs=1e-4)
            assert any(turn["advantage"] for turn in turns)
            for turn in turns:
                assert turn["reward"] == pytest.approx(agents_sample.plain(turn["text"]))
                assert 1 <= turn["slots"] <= 6
                assert math.isfinite(turn["advantage"])


def test_parts_of_a_transcript_have_their_lengths(tmp_path):
    """What a model writes may look like the beginning of a part, so these cannot be told from the text alone."""
    agents_sample.trainer(tmp_path, agents_sample.settings(phase2={"num_episodes": 4})).train()
    for sample in written(tmp_path):
        at, said = 0, sample["transcript"]
        for role, speaker, length in sample["speeches"]:
            beginning = f"[{role}] {speaker}: "
            assert said.startswith(beginning, at)
            at += len(beginning) + length + len("\n\n")
        assert at == len(said) + len("\n\n")
