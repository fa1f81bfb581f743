"""A step's own words are read for the numbers of other steps, and figures that count something else are not taken."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from orchestai.data.readers import SourcePlan, SourceStep
from orchestai.data.training_file import TrainingExample
from orchestai.planner.slots.edge_predictor import References
from orchestai.planner.slots.losses import token_spans
from orchestai.planner.slots.text_encoder import open_encoder

MOST = 12
THINGS = ("cups", "plates", "boxes", "letters", "coins")
COUNTED = ("take {} {}", "buy {} {}", "return {} {}")
FORMS = {
    "figure": ("wash #{k}", "return number of #{k}", "compare #{j} and #{k}", "return #{k} if #{j} is blue"),
    "words": ("wash step {k}", "count the result of step {k}", "use the table from step {k}", "sort the {nth} result"),
}
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")


def plan(number: int, forms: str, steps: int) -> TrainingExample:
    """Steps that count things by figures of other steps, and steps that need one or two of those before."""
    draw = random.Random(number)
    words, edges = [], set()
    for i in range(1, steps + 1):
        if i == 1 or draw.random() < 0.4:
            words.append(draw.choice(COUNTED).format(draw.randint(1, steps), draw.choice(THINGS)))
            continue
        form, j, k = draw.choice(FORMS[forms]), draw.randint(1, i - 1), draw.randint(1, i - 1)
        words.append(form.format(j=j, k=k, nth=ORDINALS[k - 1]))
        edges |= {(str(one), str(i)) for one in ([j, k] if "{j}" in form else [k])}
    listed = tuple(SourceStep(str(i), text) for i, text in enumerate(words, start=1))
    return SourcePlan(str(number), "toy", "CC0", "Do 3 things", listed, frozenset(edges)).example(given=True)


def batch(model: References, example: TrainingExample) -> torch.Tensor:
    text = open_encoder(512).encode(example.instruction)
    spans = token_spans(torch.tensor([example.spans]), torch.from_numpy(text.offsets)[None])
    steps = torch.ones(spans.shape[:2], dtype=torch.bool)
    return model(torch.from_numpy(text.hidden).float()[None], torch.from_numpy(text.ids)[None], spans, steps)[0]


def wanted(example: TrainingExample) -> torch.Tensor:
    parents = example.workflow.dependencies()
    return torch.tensor([[float(i in needed) for needed in parents] for i in range(len(parents))])


@pytest.mark.parametrize("forms", ["figure", pytest.param("words", marks=pytest.mark.slow)])
def test_forty_plans_teach_which_figures_are_references(forms):
    """Learned on plans of five steps, right in all of 20 new ones of seven, where figures count things too."""
    torch.manual_seed(0)
    model = References(open_encoder(512), 16, MOST).eval()
    out = nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*model.parameters(), *out.parameters()], lr=3e-3)
    learned = [plan(i, forms, 5) for i in range(40)]
    for _ in range(8):
        for example in learned:
            loss = F.binary_cross_entropy_with_logits(out(batch(model, example))[..., 0], wanted(example))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    new = [plan(i, forms, 7) for i in range(100, 120)]
    assert all(torch.equal((out(batch(model, e))[..., 0] > 0).float(), wanted(e)) for e in new)
