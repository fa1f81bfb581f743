"""The language planner on a real, tiny model: prompts, plans, scores, adapters, and the way through a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from orchestai.config import Config
from orchestai.lm.sampling import Completion
from orchestai.planner.base import Plan
from orchestai.planner.checkpoint import load_planner, save_planner
from orchestai.planner.files import fingerprint_of, is_checkpoint
from orchestai.planner.language.checkpoint import open_language_planner
from orchestai.planner.language.plan_text import write_plan
from orchestai.planner.language.planner import LanguagePlanner, PromptWriter
from orchestai.tasks.task import Task
from orchestai.types import SampleSpec
from orchestai.workers.pool import worker_cards
from orchestai.workflow import Subtask, Workflow
from support.models.language_model import save_tiny_model, tiny_tokenizer

TASKS = [
    Task(task_id=str(i), suite="s", instruct_prompt=text, test="") for i, text in enumerate(["Sort it.", "Add 1."])
]


def config(model: Path | str, **language: object) -> Config:
    tool = {"kind": "tool", "tool": "calculator"}
    return Config(
        planner={
            "kind": "language",
            "max_subtasks": 3,
            "language": {"model": str(model), "describe": False, "max_new_tokens": 12, **language},
        },
        workers={"pool": {"sums": {**tool, "card": "Does sums."}, "words": {**tool, "card": "Good with words."}}},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def planner(folder: Path, *, value_head: bool = False, **language: object) -> LanguagePlanner:
    settings = config(folder, **language)
    return open_language_planner(settings.planner, settings.workers, value_head=value_head)


def sample(seeds: list[int]) -> SampleSpec:
    return SampleSpec(frozenset(), 1.0, seeds)


def test_a_prompt_has_the_instruction_types_cards_and_examples(folder):
    settings = config(folder, describe=True, few_shot=2, max_prompt_tokens=3000)
    cards = worker_cards(settings.workers)
    ids = PromptWriter(settings.planner, cards, tiny_tokenizer()).write("Sort it.")
    text = tiny_tokenizer().decode(ids)
    assert text.endswith("<user>Sort it.\n<assistant>")
    for part in ("string, list", "- sums (", "Does sums.", '<assistant>{"subtasks":[{"id":1,', "add them up"):
        assert part in text
    assert PromptWriter(settings.planner, cards, tiny_tokenizer()).write("Sort it.").equal(ids)


def test_scores_are_the_log_probabilities_that_were_sampled(folder):
    model = planner(folder)
    plans = model.plan(TASKS * 2, sample=sample([1, 2, 3, 4]))
    decisions = [plan.decisions for plan in plans]
    scores = model.score(TASKS * 2, decisions, explore=frozenset(), temperature=1.0)
    for i, plan in enumerate(plans):
        torch.testing.assert_close(scores.logp[i, : len(plan.logp)], plan.logp, atol=1e-4, rtol=0)
        assert scores.mask[i].sum() == len(plan.logp)
    assert (scores.step == -1).all()
    once = sum(len(one.prompt) for one in decisions[:2]) + sum(len(one.completion) for one in decisions)
    assert model.cost(decisions) == once
    assert model.max_slots == 12
    with pytest.raises(TypeError, match="tokens"):
        model.score(TASKS, [None, None], explore=frozenset(), temperature=1.0)


def test_a_model_that_writes_a_plan_is_understood(folder):
    """Whole and ended is raw valid; cut off after a whole subtask is a plan, but not raw valid; nothing is neither."""
    model = planner(folder, max_new_tokens=400)
    workflow = Workflow([Subtask(id="1", instruction="Sort it", task_type="list", worker="sums")])
    text = write_plan(workflow, "Sort it.", "whole").text
    end = model.tokenizer.eos_token_id

    def read(ids: list[int]) -> Plan:
        written = torch.tensor([*ids, end])
        return model.read(
            TASKS[0].instruction, torch.tensor([1]), Completion(written, torch.zeros(len(written)), True), sampled=False
        )

    ids = model.tokenizer(text).input_ids
    plan = read(ids)
    assert plan.workflow.subtasks[0].instruction == "Sort it"
    assert plan.workflow.subtasks[0].span == (0, 7)
    assert plan.raw_valid
    plan = read(ids[:-2])
    assert plan.workflow is not None
    assert not plan.raw_valid
    plan = read([])
    assert plan.decisions.completion.tolist() == [end]
    assert "no subtask" in plan.error


@pytest.mark.parametrize("lora", [None, {"rank": 2}], ids=["whole", "adapters"])
def test_a_planner_survives_the_way_through_a_folder(folder, tmp_path, lora):
    settings = config(folder, lora=lora)
    first = open_language_planner(settings.planner, settings.workers, value_head=True)
    with torch.no_grad():
        for parameter in first.parameters():
            if parameter.requires_grad:
                parameter += 0.05 * torch.randn_like(parameter)
    path = tmp_path / "best.pth"
    save_planner(path, first, settings, epoch=3, states={"t": torch.ones(2)})
    assert not path.exists()
    assert is_checkpoint(path)
    metadata = json.loads((tmp_path / "best" / "orchestai.json").read_text())
    assert metadata["epoch"] == 3
    assert metadata["format"] == "orchestai.language-planner/1"
    second = load_planner(path, settings.planner, settings.workers, value_head=True)
    assert {name for name, p in first.named_parameters() if p.requires_grad} == {
        name for name, p in second.named_parameters() if p.requires_grad
    }
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name
    spec = sample([5, 6])
    for a, b in zip(first.plan(TASKS, sample=spec), second.plan(TASKS, sample=spec), strict=True):
        assert a.decisions.completion.equal(b.decisions.completion)
    before = fingerprint_of(path)
    save_planner(path, second, settings, epoch=4)
    assert fingerprint_of(path) != before
    assert {file.name for file in tmp_path.iterdir()} == {"best"}


def test_with_adapters_the_reference_is_where_training_began(folder):
    """Without a kept copy: the bare model. With one: the adapter as it was then. Then it goes on as before."""
    model = planner(folder, lora={"rank": 2, "targets": ["q_proj", "v_proj"]})
    bare = planner(folder)
    decisions = [plan.decisions for plan in bare.plan(TASKS)]

    def logp(one: LanguagePlanner) -> torch.Tensor:
        return one.score(TASKS, decisions, explore=frozenset(), temperature=1.0).logp.detach()

    def learn() -> torch.Tensor:
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter += 0.3 * torch.randn_like(parameter)
        return logp(model)

    torch.testing.assert_close(logp(model), logp(bare))
    learned = learn()
    assert not torch.allclose(learned, logp(bare))
    with model.reference():
        torch.testing.assert_close(logp(model), logp(bare))
    torch.testing.assert_close(logp(model), learned)
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    model.keep_reference()
    assert [name for name, p in model.named_parameters() if p.requires_grad] == trained
    further = learn()
    with model.reference():
        torch.testing.assert_close(logp(model), learned)
    torch.testing.assert_close(logp(model), further)
    assert [name for name, p in model.named_parameters() if p.requires_grad] == trained
    assert bare.reference() is None
