"""A policy that falls apart ends training with a message that says what happened and what to do."""

import asyncio
import math

import pytest

from orchestai.config import Phase2Config
from orchestai.errors import UserError
from orchestai.training.rl.monitoring import flat_warning, watch
from orchestai.training.rl.run_state import Position
from orchestai.training.rl.trainer import RunSummary
from support.training import bandit


def train(output, planner=None, **changes) -> RunSummary:
    execute = changes.pop("execute", bandit.execute)
    running = bandit.trainer(output, bandit.settings(**changes), planner or bandit.Speller(), execute=execute)
    return asyncio.run(running.train())


def test_invalid_plans_end_training(tmp_path):
    """A speller that mostly ends at once, with too small a learning rate to change."""
    planner = bandit.Speller()
    planner.base.data[:, :, planner.END] = 4.0
    changes = {"max_invalid_share": 0.5, "learning_rate": 1e-6, "num_episodes": 24 * 6}
    summary = train(tmp_path, planner, **changes)
    assert summary.updates == 10
    assert "max_invalid_share=0.5 were invalid in 10 updates in a row (now " in summary.stopped
    assert train(tmp_path / "off", planner, **changes | {"max_invalid_share": None, "num_episodes": 72}).stopped == ""


def test_groups_that_are_all_flat_are_said_once_at_the_third_update():
    """Nobody heard that 19 of 20 updates had nothing to learn from."""
    position, flat = Position(), {"success": 0.0, "valid_share": 1.0, "entropy_worker": 0.0}
    said = []
    for metrics in (flat, flat, {**flat, "entropy": 1.0}, *[flat] * 4):
        watch(position, metrics, Phase2Config(), None)
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
