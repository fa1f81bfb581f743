"""Confidence decides who plans, so it has to be a chance, and to be known only where it was learned."""

from __future__ import annotations

import torch

from orchestai.planner.slots.scores import PlanConfidence


def sample(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features, whether each plan is right, and the chance by which that was drawn."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count, 6, generator=generator) * torch.tensor([1.0, 3.0, 0.1, 1.0, 1.0, 2.0])
    features = torch.cat([drawn[:, :4].exp(), drawn[:, 4:]], -1)
    doubt = torch.log(features[:, :2] + 1e-3)
    chance = torch.sigmoid(-1.5 * doubt[:, 0] - 0.5 * doubt[:, 1] + 0.8 * features[:, 4] + 0.3)
    return features, torch.rand(count, generator=generator) < chance, chance


def test_it_finds_the_chances_that_plans_were_drawn_by() -> None:
    confidence = PlanConfidence()
    features, right, _ = sample(4000, 0)
    confidence.fit(features, right)
    others, _, chance = sample(1000, 1)
    assert (confidence(others) - chance).abs().mean() < 0.03


def test_what_is_nearly_sure_is_told_from_what_is_unsure_though_both_are_learned_at_once() -> None:
    """A suite whose plans are right in 98 of 100 was thought right in 91 beside styles of whose plans a third is."""
    generator = torch.Generator().manual_seed(5)
    doubt = torch.cat([10 ** -(2 + 2 * torch.rand(400, generator=generator)), 3 * torch.rand(400, generator=generator)])
    chance = torch.exp(-doubt)
    features = torch.stack([*[doubt] * 4, -doubt, torch.ones(800)], -1)
    confidence = PlanConfidence()
    confidence.fit(features, torch.rand(800, generator=generator) < chance)
    found = confidence(features)
    for part in (slice(400), slice(400, 800)):
        assert (found[part].mean() - chance[part].mean()).abs() < 0.03


def test_nobody_knows_it_before_enough_plans_were_judged() -> None:
    confidence = PlanConfidence()
    features, right, _ = sample(10, 3)
    confidence.fit(features, right)
    assert not confidence.is_known
