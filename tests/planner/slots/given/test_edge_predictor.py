"""Steps that are given keep their words and places; their edges are learned, valid, and cost the rest nothing."""

from __future__ import annotations

import itertools

import pytest
import torch

from orchestai.config import Config
from orchestai.data.readers import SourcePlan, SourceStep
from orchestai.data.training_file import TrainingExample, save_training_data
from orchestai.planner.checkpoint import load_planner
from orchestai.planner.slots import edge_predictor
from orchestai.planner.slots.decisions import best_expected_edges
from orchestai.planner.slots.model import PlannerModel
from orchestai.training.supervised.train import train
from orchestai.workers.pool import worker_cards

WORDS = ("boil water", "take a cup", "call a friend", "open the door", "feed the cat")
WORKERS = ("one", "other")
LINKER = {"d_model": 32}


def config(linker: dict[str, object] | None = LINKER, **phase1: object) -> Config:
    pool = {name: {"kind": "tool", "tool": "calculator", "card": name} for name in WORKERS}
    return Config(
        planner={
            "base": "none",
            "d_model": 32,
            "num_layers": 1,
            "max_subtasks": 5,
            "max_tokens": 128,
            "linker": linker,
        },
        workers={"pool": pool},
        training={"phase1_supervised": {"learning_rate": 2e-3, "batch_size": 8, **phase1}},
    )


def plan(words: tuple[str, ...], how: str, split: str = "train") -> TrainingExample:
    """`one after the other` or `all at once`, which only the task says."""
    steps = tuple(SourceStep(str(i), text) for i, text in enumerate(words))
    chain = [(str(i), str(i + 1)) for i in range(len(words) - 1)]
    edges = frozenset(chain if how == "one after the other" else [])
    made = SourcePlan(f"{how} {words}", "toy", "CC0", f"Do this {how}", steps, edges)
    return made.example(given=True).model_copy(update={"split": split})


def examples() -> list[TrainingExample]:
    chosen = list(itertools.permutations(WORDS, 3))
    return [
        plan(words, how, "validation" if i % 6 == 0 else "train")
        for i, words in enumerate(chosen)
        for how in ("one after the other", "all at once")
    ]


def planner(linker: dict[str, object] | None = LINKER) -> PlannerModel:
    torch.manual_seed(0)
    settings = config(linker)
    return PlannerModel(settings.planner, worker_cards(settings.workers))


@pytest.mark.slow
def test_it_learns_what_the_instruction_says_of_its_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(edge_predictor, "_DROPOUT", 0.0)
    settings = config(num_epochs=12, lr_schedule="linear")
    save_training_data(tmp_path / "data.json", examples(), settings)
    summary = train(settings, data=tmp_path / "data.json", output_dir=tmp_path)
    assert summary.metrics["exact_decomposition"] == 1
    loaded = load_planner(tmp_path / "phase1_best.pth", settings.planner, settings.workers)
    asked = plan(("feed the cat", "boil water", "take a cup"), "one after the other")
    [made] = loaded.plan_steps([asked.instruction], [asked.spans])
    assert made.raw_valid
    assert [s.instruction for s in made.workflow.subtasks] == [s.instruction for s in asked.workflow.subtasks]
    assert [s.span for s in made.workflow.subtasks] == asked.spans
    assert made.workflow.dependencies() == [[], [0], [1]]
    assert {s.worker for s in made.workflow.subtasks} <= {"one", "other"}


def test_plans_are_dags_before_any_training_and_do_not_depend_on_their_batch():
    model = planner()
    asked = [*[plan(words, "all at once") for words in itertools.permutations(WORDS, 4)][:6], plan(WORDS[:2], "x")]
    together = model.plan_steps([e.instruction for e in asked], [e.spans for e in asked])
    for example, made in zip(asked, together, strict=True):
        [alone] = model.plan_steps([example.instruction], [example.spans])
        assert alone.workflow == made.workflow
        assert made.decisions is None


@pytest.mark.parametrize("wording", ["Step {a} must precede step {b}.", "Step {b} follows the completion of step {a}."])
def test_sentences_behind_the_steps_are_read_by_who_is_named_first(wording):
    """With weights of 1 and -1, a pair gets them for each sentence that names both, by the order of the names."""
    model = planner()
    mentions = model.linker.mentions
    with torch.no_grad():
        for layer, value in ((mentions.in_order, 1.0), (mentions.reversed, -1.0)):
            layer.weight.zero_()
            layer.bias.fill_(value)
    edges = [(1, 3), (3, 2)]
    steps = tuple(SourceStep(str(i + 1), words) for i, words in enumerate(WORDS[:3]))
    said = tuple(wording.format(a=a, b=b) for a, b in edges)
    asked = SourcePlan("1", "toy", "CC0", "Do 1 thing, then 3.", steps, frozenset(), said).example(given=True)
    found = []
    mentions.register_forward_hook(lambda module, arguments, output: found.append(output[0, :, :, 0]))
    model.plan_steps([asked.instruction], [asked.spans])
    wanted = torch.zeros(3, 3)
    for a, b in edges:
        first, second = (a, b) if wording.index("{a}") < wording.index("{b}") else (b, a)
        wanted[first - 1, second - 1], wanted[second - 1, first - 1] = 1.0, -1.0
    assert torch.equal(found[0], wanted)


def test_the_edges_kept_have_nearly_the_best_expected_score():
    sure, unlikely = 8.0, -8.0
    logits = torch.full((2, 3, 3), unlikely)
    logits[0, 0, 1] = logits[0, 1, 2] = sure
    steps = torch.ones(2, 3, dtype=torch.bool)
    edges = best_expected_edges(logits, steps)
    assert edges[0].nonzero().tolist() == [[0, 1], [1, 2]]
    assert not edges[1].any()
    torch.manual_seed(0)
    random = torch.randn(1, 3, 3)
    probability = random[0].sigmoid()
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]

    def expected(chosen: tuple[tuple[int, int], ...]) -> float:
        """Over all 64 graphs."""
        total = 0.0
        for there in itertools.product([0, 1], repeat=6):
            graph = {pair for pair, yes in zip(pairs, there, strict=True) if yes}
            chance = 1.0
            for pair, yes in zip(pairs, there, strict=True):
                chance *= float(probability[pair] if yes else 1 - probability[pair])
            size = len(graph) + len(chosen)
            total += chance * (2 * len(graph & set(chosen)) / size if size else 1.0)
        return total

    found = tuple(map(tuple, best_expected_edges(random, steps[:1])[0].nonzero().tolist()))
    best = max(expected(c) for k in range(7) for c in itertools.combinations(pairs, k))
    assert expected(found) == pytest.approx(best, abs=0.02)
