"""However a dialogue is cut into rows, the same is learned: all that a role wrote, and nothing that it was told."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.config import Phase2Config
from orchestai.lm.token_policy import TokenPolicy
from orchestai.outcome import Reward
from orchestai.training.rl import batch
from orchestai.training.rl.advantages import make_batch, plan_credit
from orchestai.training.rl.batch import BETWEEN, rows_of
from orchestai.training.rl.credit import Credit
from orchestai.training.rl.trainer import choose_recipe
from orchestai.training.rl.update import Objective
from orchestai.types import Episode
from support.agents.dialogues import END, POLICY, TASKS, dialogue, turn

LOSSES = ["grpo", "dr_grpo", "dapo", "cispo", "reinforce", "rloo"]
"""All but gspo, whose ratio is one per row by definition."""


def test_turns_that_go_on_make_one_row_and_what_was_told_is_in_no_loss():
    trajectory = dialogue([[5, 6], [7]], [[1, 2], [3]], [0.0, 0.0])
    (row,) = rows_of(trajectory.turns)
    assert row.decisions.prompt.tolist() == [1, 2]
    assert row.decisions.completion.tolist() == [5, 6, END, 3, 7, END]
    assert row.turn.tolist() == [0, 0, 0, BETWEEN, 1, 1]
    assert row.mask.tolist() == [True, True, True, False, True, True], "end tokens are learned, what was told is not"
    assert row.logp[row.mask].equal(torch.cat([t.logp for t in trajectory.turns]))


@pytest.mark.parametrize(
    "second", [[1, 2, 5, END, 3], [1, 2, 5], [9, 2, 5, 6, END, 3]], ids=["changed", "cut", "other"]
)
def test_a_prompt_that_is_not_all_of_what_was_before_forks(second):
    turns = [turn([1, 2], [5, 6, END]), turn(second, [7, END])]
    found = rows_of(turns)
    assert [row.turn.tolist() for row in found] == [[0, 0, 0], [1, 1]]
    assert found[1].decisions.prompt.tolist() == second


def learned(episodes: list[Episode], changes: dict, credit: Credit) -> tuple[int, float, torch.Tensor]:
    """Rows of the batch, its loss, and the gradient of all weights."""
    config = Phase2Config(entropy_coef=0.01, **changes)
    recipe = choose_recipe(config)
    batch = make_batch(episodes, TASKS, recipe, config, POLICY.max_slots, credit).batch
    assert batch is not None
    POLICY.zero_grad()
    loss = Objective(POLICY, recipe, config)(batch, batch.counts()).loss
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in POLICY.parameters() if p.grad is not None])
    return len(batch), loss.item(), gradient


words = st.lists(st.integers(1, 200), min_size=1, max_size=3)


@st.composite
def attempts(draw: st.DrawFn) -> list[Episode]:
    found = []
    for _ in range(draw(st.integers(2, 3))):
        n = draw(st.integers(1, 3))
        acts, told = (draw(st.lists(words, min_size=n, max_size=n)) for _ in range(2))
        rewards = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=n, max_size=n))
        trajectories = (dialogue(acts, told, rewards), dialogue(acts[:1], told[:1], rewards[:1], role="b"))
        found.append(Episode("t", "t", trajectories, Reward(draw(st.sampled_from([0.0, 1.0])))))
    return found


@settings(deadline=None, max_examples=12)
@given(attempts(), st.sampled_from([*LOSSES, "ppo"]), st.sampled_from(["role", "turn", "return_to_go"]), st.randoms())
def test_neither_merging_rows_nor_their_order_changes_loss_or_gradient(episodes, loss, rule, random):
    changes = {"algorithm": "PPO"} if loss == "ppo" else {"loss_type": loss}
    credit = Credit(rule, gamma=0.9, turn_advantage_coef=0.5)
    merged, value, gradient = learned(episodes, changes, credit)
    shuffled = list(episodes)
    random.shuffle(shuffled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "_given_since", lambda before, now: None)
        split, other, others = learned(shuffled, changes, credit)
    assert split == sum(len(e.turns) for e in episodes)
    assert merged == sum(len(e.trajectories) for e in episodes)
    assert other == pytest.approx(value, abs=2e-5)
    rounding = 5e-5 * gradient.abs().max().clamp(min=1)
    assert (others - gradient).abs().max() < rounding


def test_every_token_that_was_written_teaches_the_last_one_too_and_no_other_does():
    """The gradient with respect to the log-probability of each token of the row, asked for directly."""
    good, bad = dialogue([[5], [7]], [[1, 2], [3]], [0, 0]), dialogue([[8], [9]], [[1, 2], [3]], [0, 0])
    episodes = [Episode("t", "t", (good,), Reward(1.0)), Episode("t", "t", (bad,), Reward(0.0))]
    config = Phase2Config(loss_type="reinforce", entropy_coef=0.0)
    recipe = choose_recipe(config)
    batch = make_batch(episodes, TASKS, recipe, config, 20, plan_credit(config)).batch
    logp = torch.zeros_like(batch.logp, requires_grad=True)

    class Given(TokenPolicy):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)

        def score(self, *args, **kwargs):
            found = POLICY.score(*args, **kwargs)
            return type(found)(logp, found.entropy, found.value, found.mask, found.step)

        def reference(self):
            return None

    Objective(Given(), recipe, config)(batch, batch.counts()).loss.backward()
    expected = torch.tensor([[1.0, 1, 0, 1, 1], [-1.0, -1, 0, -1, -1]])
    assert torch.equal(-logp.grad * 4, expected), "mean over two trajectories of advantages of plus and minus a half"
