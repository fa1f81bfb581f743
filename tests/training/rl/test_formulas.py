"""Formulas against figures worked by hand, slow references written from the definitions, and their invariances."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.agents.recipes import load_agent_config
from orchestai.config import load_config
from orchestai.training.rl import formulas
from orchestai.training.rl.formulas import RECIPES, Bounds, StepCounts

MODES = ["sequence_mean", "sequence_sum", "slot_mean", "constant_length"]


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-9)


ALL = torch.ones(4, dtype=torch.bool)


def test_group_advantages_by_hand():
    rewards, ids = tensor(1, 3, 10, 14), torch.tensor([7, 7, 2, 2])
    plain = formulas.group_advantages(rewards, ids, ALL, scale="none")
    assert close(plain.values, tensor(-1, 1, -2, 2))
    bessel = formulas.group_advantages(rewards, ids, ALL, eps=1e-4)
    assert close(bessel.values[:2], tensor(-1, 1) / (math.sqrt(2) + 1e-4))
    assert close(bessel.values[2:], tensor(-2, 2) / (math.sqrt(8) + 1e-4))
    population = formulas.group_advantages(rewards, ids, ALL, ddof=0, eps=0.5)
    assert close(population.values, tensor(-1 / 1.5, 1 / 1.5, -2 / 2.5, 2 / 2.5))
    assert (plain.groups, plain.flat) == (2, 0)


def test_groups_that_teach_nothing_get_zero_and_are_counted():
    """Other trainers give a group of one its raw reward; here it is 0, as is a group of equal rewards."""
    rewards, ids = tensor(5, 0.1, 0.1, 0.1, 1, 2), torch.tensor([0, 1, 1, 1, 2, 2])
    for result in (
        formulas.group_advantages(rewards, ids, torch.ones(6, dtype=torch.bool), eps=0.0, scale="group"),
        formulas.rloo(rewards, ids, torch.ones(6, dtype=torch.bool)),
    ):
        assert result.values.isfinite().all()
        assert (result.values[:4] == 0).all()
        assert (result.values[4:] != 0).all()
        assert (result.groups, result.flat) == (3, 2)


def test_rloo_by_hand():
    result = formulas.rloo(tensor(1, 2, 6, 5), torch.tensor([0, 0, 0, 1]), ALL)
    assert close(result.values, tensor(1 - 4, 2 - 3.5, 6 - 1.5, 0))


def test_a_unit_counts_once_however_many_rows_it_has():
    """Units 0 (rewards 0, 0, 0), 1 (6) and 2 (3, 9) have means 0, 6, 6: their mean is 4; by rows it was 3."""
    rewards, ids = tensor(0, 0, 0, 6, 3, 9), torch.zeros(6, dtype=torch.long)
    units, every = torch.tensor([0, 0, 0, 1, 2, 2]), torch.ones(6, dtype=torch.bool)
    plain = formulas.group_advantages(rewards, ids, every, unit_ids=units, scale="none")
    assert close(plain.values, tensor(-4, -4, -4, 2, -1, 5))
    variance = (16 + 4 + (1 + 25) / 2) / 2
    scaled = formulas.group_advantages(rewards, ids, every, unit_ids=units, eps=0.0)
    assert close(scaled.values, plain.values / math.sqrt(variance))
    assert close(formulas.rloo(rewards, ids, every, unit_ids=units).values, tensor(-6, -6, -6, 3, 0, 6))
    alone = formulas.group_advantages(tensor(1, 2), ids[:2], every[:2], unit_ids=units[:2], scale="none")
    assert (alone.values.tolist(), alone.flat) == ([0, 0], 1), "one attempt has nobody to be compared with"


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=8),
    st.integers(2, 4),
    st.sampled_from(["group", "none", "rloo"]),
)
def test_a_row_said_several_times_by_its_unit_changes_nothing(rows, times, kind):
    def advantages(rows):
        rewards, ids, units = (torch.tensor(column) for column in zip(*rows, strict=True))
        rewards, every = rewards.double(), torch.ones(len(rows), dtype=torch.bool)
        if kind == "rloo":
            return formulas.rloo(rewards, ids, every, unit_ids=units).values
        return formulas.group_advantages(rewards, ids, every, unit_ids=units, scale=kind, eps=1e-2).values

    rows = [(round(reward, 2), group, 10 * group + unit) for reward, group, unit in rows]
    repeated = advantages([row for row in rows for _ in range(times)])
    assert torch.allclose(repeated[::times], advantages(rows), atol=1e-8)


def test_unscorable_rows_do_not_exist():
    """A NaN in a masked row must not reach the baseline, and a group without scorable rows is no group."""
    nan = float("nan")
    rewards, ids = tensor(1, 3, nan, nan), torch.tensor([0, 0, 0, 1])
    scorable = torch.tensor([True, True, False, False])
    for result in (
        formulas.group_advantages(rewards, ids, scorable, scale="none"),
        formulas.rloo(rewards, ids, scorable),
    ):
        assert (result.values[2:] == 0).all()
        assert result.values[0] == -result.values[1] < 0
        assert (result.groups, result.flat) == (1, 0)


groups = st.lists(st.tuples(st.floats(-10, 10), st.integers(0, 3), st.booleans()), min_size=1, max_size=12)


@settings(deadline=None, max_examples=60)
@given(groups, st.randoms(use_true_random=False), st.floats(-5, 5), st.sampled_from(["group", "none", "rloo"]))
def test_advantages_depend_neither_on_row_order_nor_on_a_shift(rows, random, shift, kind):
    def advantages(rows, shift=0.0):
        rewards, ids, scorable = (torch.tensor(column) for column in zip(*rows, strict=True))
        rewards = rewards.double() + shift
        if kind == "rloo":
            return formulas.rloo(rewards, ids, scorable).values
        return formulas.group_advantages(rewards, ids, scorable, scale=kind, eps=1e-2).values

    rows = [(round(reward, 2), group, scorable) for reward, group, scorable in rows]
    order = list(range(len(rows)))
    random.shuffle(order)
    expected = advantages(rows)
    assert torch.allclose(advantages([rows[i] for i in order]), expected[order], atol=1e-6)
    assert torch.allclose(advantages(rows, shift), expected, atol=1e-6)


def naive_gae(rewards, values, mask, gamma, lam):
    """O(T^2): write out the slots that exist, then the double sum of the definition."""
    advantages = torch.zeros_like(values)
    for row in range(len(values)):
        slots = mask[row].nonzero().flatten().tolist()
        r, v = rewards[row, slots], torch.cat([values[row, slots], tensor(0)])
        for i, slot in enumerate(slots):
            advantages[row, slot] = sum(
                (gamma * lam) ** (k - i) * (r[k] + gamma * v[k + 1] - v[k]) for k in range(i, len(slots))
            )
    return advantages


def test_gae_by_hand():
    """Two slots with one gap: delta_2 = 1 - 0.5 = 0.5, delta_1 = 0.9 * 0.5 - 0.2 = 0.25, A_1 = 0.25 + 0.45 * 0.5."""
    mask = torch.tensor([[True, False, True]])
    rewards, values = tensor(0, 99, 1)[None], tensor(0.2, 77, 0.5)[None]
    advantages, returns = formulas.gae(rewards, values, mask, gamma=0.9, lam=0.5)
    assert close(advantages, tensor(0.25 + 0.45 * 0.5, 0, 0.5)[None])
    assert close(returns, tensor(0.25 + 0.45 * 0.5 + 0.2, 0, 1.0)[None])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 9), st.floats(0, 1), st.floats(0, 1))
def test_gae_and_returns_equal_their_definitions(seed, rows, slots, gamma, lam):
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, rows, slots, generator=generator, dtype=torch.float64)
    mask = torch.rand(rows, slots, generator=generator) < 0.6
    advantages, _ = formulas.gae(rewards, values, mask, gamma, lam)
    assert close(advantages, naive_gae(rewards, values, mask, gamma, lam))
    to_go = formulas.returns_to_go(rewards, mask, gamma)
    assert close(to_go, naive_gae(rewards, torch.zeros_like(values), mask, gamma, 1.0))
    assert close(formulas.gae(rewards, values, mask, gamma, 1.0)[1], to_go)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_what_stands_in_masked_slots_never_matters(seed):
    generator = torch.Generator().manual_seed(seed)
    logp, old, values, rewards, advantages = torch.randn(5, 3, 6, generator=generator, dtype=torch.float64)
    mask = torch.rand(3, 6, generator=generator) < 0.5
    counts = StepCounts(sequences=3, slots=int(mask.sum()), length=6)

    def figures(junk):
        put = lambda x: torch.where(mask, x, junk)  # noqa: E731
        ratio = formulas.policy_ratio(put(logp), put(old), mask, "sequence")
        loss = formulas.policy_loss("clip", put(logp), ratio, put(advantages), Bounds())
        return [
            formulas.gae(put(rewards), put(values), mask, 0.9, 0.8)[0],
            formulas.returns_to_go(put(rewards), mask, 0.9),
            formulas.whiten(put(values), mask),
            ratio,
            *(formulas.aggregate(loss, mask, mode, counts, mask.sum(1)) for mode in MODES),
        ]

    for plain, junk in zip(figures(0.0), figures(float("nan")), strict=True):
        assert torch.equal(plain, junk)


def test_whitening_gives_mean_zero_and_variance_one():
    mask = torch.tensor([[True, True], [True, False]])
    whitened = formulas.whiten(torch.tensor([[1.0, 2.0], [6.0, 100.0]]), mask)
    assert whitened[mask].mean().abs() < 1e-6
    assert whitened[mask].var() == pytest.approx(1, abs=1e-5)
    assert whitened[1, 1] == 0


def test_ratio_per_token_and_per_sequence_by_hand():
    mask = torch.tensor([[True, True, False]])
    logp, old = tensor(math.log(0.5), math.log(0.2), 0)[None], tensor(math.log(0.25), math.log(0.4), 5)[None]
    assert close(formulas.policy_ratio(logp, old, mask), tensor(2, 0.5, 1)[None])
    assert close(formulas.policy_ratio(logp, old, mask, "sequence"), tensor(1, 1, 1)[None])


def test_sequence_ratio_spreads_its_gradient_over_the_row():
    logp = torch.zeros(1, 4, requires_grad=True)
    mask = torch.tensor([[True, True, True, False]])
    ratio = formulas.policy_ratio(logp, torch.zeros(1, 4), mask, "sequence")
    formulas.policy_loss("clip", logp, ratio, torch.ones(1, 4), Bounds())[mask].mean().backward()
    assert torch.allclose(logp.grad, torch.tensor([[-1 / 3, -1 / 3, -1 / 3, 0]]))


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.3, 2.0, -2.4, 0.0),  # clipped: already more likely than 1 + 0.2 allows
        (0.5, 2.0, -1.0, -1.0),  # a good action that became unlikely is not clipped
        (0.5, -2.0, 1.6, 0.0),
        (1.3, -2.0, 2.6, 2.6),
    ],
)
def test_clip_by_hand(ratio, advantage, loss, gradient):
    """d ratio / d logp = ratio, so the gradient with respect to logp is -A ratio where the clip is open."""
    logp = tensor(math.log(ratio))[None].requires_grad_()
    now = formulas.policy_ratio(logp, torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool))
    value = formulas.policy_loss("clip", logp, now, tensor(advantage)[None], Bounds())
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert logp.grad.item() == pytest.approx(gradient)
    low, high = formulas.bounded("clip", now, tensor(advantage)[None], Bounds())
    assert (low.item(), high.item()) == (ratio < 1 and gradient == 0, ratio > 1 and gradient == 0)


def test_cispo_bounds_the_weight_but_never_stops_the_gradient():
    logp = tensor(math.log(9.0))[None].requires_grad_()
    ratio = formulas.policy_ratio(logp, torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool))
    formulas.policy_loss("cispo", logp, ratio, tensor(2)[None], Bounds(max_ratio=5.0)).sum().backward()
    assert logp.grad.item() == pytest.approx(-10)


def test_reinforce_and_on_policy_clip_have_the_same_gradient():
    mask, advantages = torch.ones(2, 3, dtype=torch.bool), torch.randn(2, 3)
    gradients = []
    for kind in ("clip", "reinforce", "cispo"):
        logp = torch.full((2, 3), -1.0, requires_grad=True)
        ratio = formulas.policy_ratio(logp, logp.detach(), mask)
        formulas.policy_loss(kind, logp, ratio, advantages, Bounds()).sum().backward()
        gradients.append(logp.grad)
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2])


def test_value_loss_by_hand():
    values, old, returns = tensor(1.0, 1.0), tensor(0.5, 1.0), tensor(2.0, 3.0)
    assert close(formulas.value_loss(values, old, returns, 0.2), tensor(1.3**2 / 2, 2.0))


def test_kl_estimators_average_to_the_exact_divergence():
    """Over all outcomes of a distribution, k1 and k3 are unbiased; k3 is never negative."""
    p, q = tensor(0.5, 0.3, 0.2), tensor(0.2, 0.3, 0.5)
    exact = (p * (p / q).log()).sum()
    assert (p * formulas.kl(p.log(), q.log(), "k1")).sum() == pytest.approx(exact)
    assert (p * formulas.kl(p.log(), q.log(), "k3")).sum() == pytest.approx(exact)
    assert (formulas.kl(p.log(), q.log(), "k3") >= 0).all()


def test_aggregation_by_hand():
    loss = torch.tensor([[1.0, 2.0, 3.0], [10.0, 50.0, 50.0]])
    mask = torch.tensor([[True, True, True], [True, False, False]])
    counts = StepCounts(sequences=2, slots=4, length=5)
    lengths = torch.tensor([3, 1])
    share = {mode: formulas.aggregate(loss, mask, mode, counts, lengths).item() for mode in MODES}
    assert share == pytest.approx({"sequence_mean": 6.0, "sequence_sum": 8.0, "slot_mean": 4.0, "constant_length": 1.6})


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9), st.sampled_from(MODES))
def test_the_loss_does_not_depend_on_how_rows_are_cut(seed, rows, cut, mode):
    """Micro-batches and ranks are the same thing to the normalizer: counts of the whole step, sums of the parts."""
    generator = torch.Generator().manual_seed(seed)
    loss = torch.randn(rows, 5, generator=generator, dtype=torch.float64)
    mask = torch.rand(rows, 5, generator=generator) < 0.5
    slots = mask.sum(1)
    counts = StepCounts(sequences=rows, slots=int(slots.sum()), length=7)
    whole = formulas.aggregate(loss, mask, mode, counts, slots)
    parts = sum(
        formulas.aggregate(loss[part], mask[part], mode, counts, slots[part])
        for part in (slice(i, i + cut) for i in range(0, rows, cut))
    )
    assert whole.item() == pytest.approx(parts.item(), abs=1e-6)


def test_what_an_act_earned_lands_on_its_last_decision():
    mask = torch.tensor([[True, False, True, True, False], [False, True, True, False, False]])
    act = torch.tensor([[0, 0, 0, 1, 1], [2, 2, 2, 0, 0]])
    earned = formulas.at_ends(torch.tensor([3.0, 5.0, 7.0]), act, mask)
    assert earned.tolist() == [[0, 0, 3, 5, 0], [0, 0, 7, 0, 0]]
    assert formulas.at_ends(torch.tensor([3.0]), act[:1] * 0, mask[:1] & False).tolist() == [[0, 0, 0, 0, 0]]


def test_rewards_that_are_equal_but_for_rounding_are_flat():
    rewards = torch.tensor([0.3, 0.1 + 0.2, 1.0, 1.0 + 1e-6], dtype=torch.float64)
    found = formulas.group_advantages(rewards, torch.tensor([0, 0, 1, 1]), torch.ones(4).bool())
    assert found.flat == 1
    assert found.values[:2].tolist() == [0.0, 0.0]


def rows(repository: Path) -> dict[str, list[str]]:
    """Our row of each preset, by the preset's name."""
    found, name = {}, ""
    for line in (repository / "docs" / "agents" / "recipes.md").read_text().splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            name = cells[0].strip("`") or name
            if cells[1] == "ours":
                found[name] = cells[2:]
    return found


def described(model: str, lora, phase2, tokens: int) -> list[str]:
    recipe = RECIPES[phase2.loss_type]
    bounds = recipe.bounds_of(phase2)
    return [
        model.rpartition("/")[2] + (f", LoRA {lora.rank}" if lora else ""),
        phase2.loss_type,
        f"{phase2.learning_rate:g}",
        f"{phase2.tasks_per_update} x {phase2.num_generations}",
        "-" if recipe.on_policy else f"{bounds.low:g} {bounds.high:g}",
        f"{phase2.kl_coef:g}",
        f"{phase2.entropy_coef:g}",
        f"{phase2.temperature:g}",
        f"{tokens}",
    ]


def test_every_preset_has_a_row(repository: Path) -> None:
    presets = {path.stem for path in (repository / "configs").glob("*/*.yaml")}
    variants = {name for name in presets if re.match("magrpo_arxiv_", name)}
    assert presets - variants == set(rows(repository))


@pytest.mark.parametrize("folder", ["agents", "bigcodebench"])
def test_our_rows_are_what_the_files_hold(repository: Path, folder: str) -> None:
    for path in sorted((repository / "configs" / folder).glob("*.yaml")):
        if (row := rows(repository).get(path.stem)) is None:
            continue
        if folder == "agents":
            config = load_agent_config("", path)
            found = described(
                config.model.name, config.model.lora, config.training.phase2_rl, config.model.max_new_tokens
            )
        else:
            planner = load_config(path)
            language = planner.planner.language
            found = described(language.model, language.lora, planner.training.phase2_rl, language.max_new_tokens)
        assert row == found, path
