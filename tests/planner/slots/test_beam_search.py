"""A wide beam finds the plan that no other is likelier than, and what is likely stays what the logits say."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from orchestai.config import PlannerConfig
from orchestai.planner.slots.decisions import DecisionBatch, likeliest_edges
from orchestai.planner.slots.decoder import Beams
from orchestai.planner.slots.layers import InstructionMemory
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.text_encoder import TextEncoder
from orchestai.workers.base import WorkerCard

CONFIG = PlannerConfig(d_model=32, num_layers=1, max_subtasks=2, max_tokens=32)
CARDS = [WorkerCard("one", "A model.", 1e-5, "model"), WorkerCard("two", "A tool.", 1e-6, "tool")]
TEXTS = ("Reverse it, then sort it", "Count them", "Stop")


@pytest.fixture(scope="module", params=[0, 1])
def planner(request) -> PlannerModel:
    """Untrained, so that greedy choices and whole plans disagree."""
    torch.manual_seed(request.param)
    return PlannerModel(CONFIG, CARDS, TextEncoder(CONFIG.max_tokens)).eval()


def memory_of(planner: PlannerModel, *texts: str) -> InstructionMemory:
    return planner.read([planner.encoder.encode(text) for text in texts])


@torch.no_grad()
def likelihood(planner: PlannerModel, memory: InstructionMemory, spans: list[tuple[int, int]]) -> float:
    """Log-probability of the steps of one plan, and of the edges that are likeliest for them."""
    tensor = torch.tensor([spans])
    n = len(spans)
    nothing = torch.zeros(1, n, 2, dtype=torch.long)
    given = DecisionBatch(
        torch.tensor([n]), tensor, nothing[..., 0], nothing[..., 0], nothing, torch.zeros(1, n, n).bool()
    )
    logits = planner.decoder(memory, given)
    return chances(logits.go_on, logits.start, logits.end, tensor) + edge_chances(planner, logits, given).item()


def chances(go_on: Tensor, start: Tensor, end: Tensor, spans: Tensor) -> float:
    n = spans.shape[1]
    stops = F.logsigmoid(go_on[0, 1:n]).sum() + (F.logsigmoid(-go_on[0, n]) if go_on.shape[1] > n else 0)
    points = [one[0].log_softmax(-1).gather(-1, spans[0, :, i, None]).sum() for i, one in enumerate((start, end))]
    return (stops + sum(points)).item()


def edge_chances(planner: PlannerModel, logits, given: DecisionBatch) -> Tensor:
    edges = likeliest_edges(logits.edges, logits.parent_counts, given.steps)
    return F.logsigmoid(torch.where(edges, logits.edges, -logits.edges)).sum()


def every_plan(tokens: int) -> list[list[tuple[int, int]]]:
    spans = [(i, j) for i in range(tokens) for j in range(i, tokens)]
    return [[one] for one in spans] + [[a, b] for a, b in itertools.product(spans, spans) if a[1] < b[0]]


@pytest.mark.parametrize("text", TEXTS)
@torch.no_grad()
def test_a_beam_as_wide_as_all_plans_finds_the_likeliest(planner, text):
    memory = memory_of(planner, text)
    plans = every_plan(memory.mask.shape[1])
    found, _ = planner.decoder.search(memory, 500)
    best = max(plans, key=lambda spans: likelihood(planner, memory, spans))
    assert found.spans[0, : found.lengths[0]].tolist() == [list(span) for span in best]


@torch.no_grad()
def test_texts_are_searched_together_as_alone(planner):
    together, logits = planner.decoder.search(memory_of(planner, *TEXTS), 3)
    for i, text in enumerate(TEXTS):
        alone, own = planner.decoder.search(memory_of(planner, text), 3)
        n = alone.lengths[0]
        assert together.lengths[i] == n
        assert together.spans[i, :n].tolist() == alone.spans[0, :n].tolist()
        torch.testing.assert_close(logits.edges[i, :n, :n], own.edges[0, :n, :n])


def test_of_the_steps_offered_the_likeliest_continuations_stay():
    beams = Beams.begin(1, 2, 3, torch.zeros(1, 1, 3))
    steps = torch.tensor([[[[0, 0], [1, 1], [2, 2]]] * 2])
    beams, origin = beams.extend(torch.tensor([[[-1.0, -3.0, -2.0]] * 2]), steps)
    assert origin.tolist() == [[0, 0]]
    assert beams.spans[0, :, 0, 0].tolist() == [0, 2]
    beams = beams.stop(torch.tensor([[-2.0, -0.5]]), torch.tensor([[-0.1, -1.0]]))
    assert not beams.settled, "-1.1 can still become a plan likelier than -2.5"
    beams = beams.stop(torch.tensor([[-0.2, -9.0]]), torch.tensor([[-5.0, -5.0]]))
    assert beams.settled
    torch.testing.assert_close(beams.whole_logp, torch.tensor([[-1.3, -2.5]]))
    assert beams.whole_lengths.tolist() == [[1, 1]]
    assert beams.whole_spans[0, :, 0, 0].tolist() == [0, 2]
