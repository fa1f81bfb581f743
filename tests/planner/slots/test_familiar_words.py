"""A planner is not sure of a wording that it has not learned, such as another language."""

from __future__ import annotations

import torch
from torch import Tensor

from orchestai.config import PlannerConfig
from orchestai.planner.slots.familiar_words import FamiliarWords
from orchestai.planner.slots.model import PlannerModel
from orchestai.workers.base import WorkerCard


def texts(*rows: list[int]) -> list[Tensor]:
    return [torch.tensor(row) for row in rows]


def test_until_something_was_learned_every_wording_is_familiar() -> None:
    words = FamiliarWords(10)
    words.learn([])
    assert words.knows(torch.tensor([9, 9]))


def test_unfamiliar_is_what_has_more_rare_tokens_than_nearly_all_that_was_learned() -> None:
    words = FamiliarWords(20)
    words.learn(texts(*[[0, 1, 2, 3, 4]] * 200))
    assert words.knows(torch.tensor([0, 1, 2, 3, 9])), "one new word of five"
    assert not words.knows(torch.tensor([0, 1, 2, 8, 9]))
    words.learn(texts(*[[8, 9]] * 4))
    assert words.knows(torch.tensor([0, 1, 2, 8, 9])), "what is learned later counts, too"


def test_what_is_learned_again_makes_no_word_familiar() -> None:
    """Each round of learning on from users' tasks repeats the first ones: soon no word of theirs would be rare."""
    words = FamiliarWords(20)
    once = texts(*[[0, 1, 2, 3, 4]] * 200, [8, 9])
    words.learn(once)
    for _ in range(5):
        before, words = words, FamiliarWords(20)
        words.load_state_dict(before.state_dict())
        words.learn(once)
    assert not words.knows(torch.tensor([0, 1, 2, 8, 9]))


def test_where_little_was_learned_all_of_it_is_familiar() -> None:
    """Of a few instructions each has words of its own."""
    words = FamiliarWords(30)
    few = texts([0, 1, 2], [3, 4, 5], [6, 7, 8])
    words.learn(few)
    assert all(words.knows(text) for text in few)
    assert words.knows(torch.tensor([20, 21]))


def test_a_planner_is_not_sure_of_another_language() -> None:
    """Spanish lost its first half, and the plan was followed at 0.86."""
    torch.manual_seed(0)
    config = PlannerConfig(d_model=16, num_layers=1, num_heads=2)
    planner = PlannerModel(config, [WorkerCard("one", "Does it.", 0.0, "tool")]).eval()
    planner.confidence.known.fill_(True)
    learned = ["Translate this text into English and sum up its main points."] * 10
    spanish = "Traduce este texto al inglés y resume los puntos principales."
    before = [plan.confidence for plan in planner.plan_instructions([learned[0], spanish])]
    read = [torch.tensor(planner.encoder.token_ids(text)) for text in learned]
    planner.familiar_words.learn(read)
    after = [plan.confidence for plan in planner.plan_instructions([learned[0], spanish])]
    assert before[1] != 0
    assert after == [before[0], 0.0]
