"""Phase 1 of a language model: it learns, teaches nothing that the data does not vouch for, and goes on bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator

from orchestai.cli.serving import make_plan
from orchestai.config import Config
from orchestai.data.training_file import Rewards, TrainingExample
from orchestai.errors import UserError
from orchestai.planner.base import Plan
from orchestai.planner.checkpoint import load_planner
from orchestai.planner.language.checkpoint import open_language_planner
from orchestai.storage.artifacts import previous_folder
from orchestai.training.supervised.language_planner import LanguageImitation, tokenize, workflow_of
from orchestai.training.supervised.metrics import written_plans_metrics
from orchestai.training.supervised.run import kept_epoch
from orchestai.training.supervised.train import train
from support.models.language_model import save_tiny_model
from support.training.language_phase1 import config
from support.training.phase1 import STEPS, example, examples, interrupted_after, metrics


def imitation(
    some: list[TrainingExample], settings: Config | None = None, folder: Path | None = None
) -> LanguageImitation:
    settings = settings or config()
    torch.manual_seed(0)
    texts = [one.instruction for one in examples()]
    planner = open_language_planner(settings.planner, settings.workers, texts)
    tokenized = [tokenize(one, planner) for one in some]
    return LanguageImitation(planner, tokenized, tokenized, settings.training.phase1_supervised, Accelerator(cpu=True))


def backward(writing: LanguageImitation, rows: list[int]) -> dict[str, float]:
    """The losses of a step and, in `grad`, its gradient, without the step."""
    total, found = 0.0, torch.zeros(3)
    for arguments in writing.passes(rows):
        loss, shares = writing.learner.module(*arguments)
        loss.backward()
        total, found = total + loss.item(), found + shares
    return {"total_loss": total, "token_loss": found[0].item(), "dag_loss": found[1].item()}


def test_it_learns_to_plan_and_keeps_the_best_epoch(data, tmp_path):
    settings = config(num_epochs=25, patience=25, lr_schedule="linear")
    summary = train(settings, data=data, output_dir=tmp_path)
    rows = metrics(tmp_path)
    assert rows[-1]["train_loss"] < 0.3 < rows[0]["train_loss"]
    assert summary.metrics["exact_plan"] == 1
    assert summary.epoch == kept_epoch(rows, held_out=3)["epoch"]
    assert {"val_dag_loss", "token_accuracy", "step_f1", "edge_f1", "valid_plans", "raw_validity"} <= rows[0].keys()
    best, last = tmp_path / "phase1_best", tmp_path / "phase1_last"
    assert (last / "training_state.pt").exists()
    assert not (best / "training_state.pt").exists()
    assert json.loads((best / "orchestai.json").read_text())["epoch"] == summary.epoch
    planner = load_planner(tmp_path / "phase1_best.pth", settings.planner, settings.workers)
    (plan,) = planner.plan_instructions(["First, spell the date. Then, count its words."])
    assert plan.raw_valid
    assert [(s.instruction, s.task_type, s.worker, s.fallback, s.depends_on) for s in plan.workflow.subtasks] == [
        ("spell the date", "date", "words", ("slow",), ()),
        ("count its words", "string", "words", ("slow",), ("1",)),
    ]
    assert make_plan(settings, "First, spell the date. Then, count its words.", best).workflow == plan.workflow


@pytest.mark.parametrize(("schedule", "optimizer"), [("plateau", "adamw"), ("linear", "adamw_8bit")])
def test_a_stopped_run_goes_on_bit_for_bit(data, tmp_path, schedule, optimizer, monkeypatch):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    settings = config(num_epochs=3, lr_schedule=schedule, optimizer=optimizer)
    train(settings, data=data, output_dir=whole)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(LanguageImitation, "run_epoch", interrupted_after(2, LanguageImitation.run_epoch))
        train(settings, data=data, output_dir=stopped)
    torch.rand(7)  # whatever else the process does in between
    last = stopped / "phase1_last"
    last.rename(previous_folder(last))  # as if killed while another took its place
    train(settings, data=data, output_dir=stopped, resume=True)
    assert metrics(stopped) == metrics(whole)
    name = "phase1_last/model.safetensors"
    assert (stopped / name).read_bytes() == (whole / name).read_bytes()
    with pytest.raises(UserError, match=r"cannot resume, planner has changed \(language\)"):
        other = config(num_epochs=3, lr_schedule=schedule, optimizer=optimizer, language={"eval_plans": 2})
        train(other, data=data, output_dir=stopped, resume=True)
    with pytest.raises(UserError, match="holds a run already"):
        train(settings, data=data, output_dir=stopped)
    with pytest.raises(UserError, match="no run to resume here"):
        train(settings, data=data, output_dir=tmp_path / "none", resume=True)


def test_adapters_learn_and_are_all_that_is_saved(data, tmp_path):
    model = save_tiny_model(tmp_path / "model")
    settings = config(model, num_epochs=3, learning_rate=2e-2, language={"lora": {"rank": 4}, "max_new_tokens": 300})
    train(settings, data=data, output_dir=tmp_path)
    rows = metrics(tmp_path)
    assert rows[-1]["val_loss"] < rows[0]["val_loss"]
    names = {file.name for file in (tmp_path / "phase1_best").iterdir()}
    assert "adapter_model.safetensors" in names
    assert "model.safetensors" not in names
    assert train(settings, data=data, output_dir=tmp_path, resume=True).epoch == 3


def test_a_step_does_not_depend_on_how_it_is_cut_into_passes():
    """Examples of different lengths; one pass, or one for each."""
    some = [example("sort the list"), example("sort the list", "spell the date"), example("count its words")]
    gradients = []
    for most in (10_000, 1):
        settings = config(language={"micro_batch_tokens": most}, lambda_dag=0.5)
        writing = imitation(some, settings)
        losses = backward(writing, [0, 1, 2])
        assert losses["total_loss"] == pytest.approx(losses["token_loss"] + 0.5 * losses["dag_loss"])
        gradients.append([p.grad for p in writing.planner.parameters()])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_the_loss_is_of_the_completion_alone_and_of_its_end():
    """Known answer: uniform logits cost log(vocabulary) per token, and hold every impossible id with equal mass."""
    writing = imitation([example("sort the list", "spell the date")])
    with torch.no_grad():
        writing.planner.model.get_output_embeddings().weight.zero_()
    losses = backward(writing, [0])
    vocabulary = writing.planner.model.get_output_embeddings().weight.shape[0]
    assert losses["token_loss"] == pytest.approx(torch.tensor(float(vocabulary)).log().item(), rel=1e-5)
    assert losses["dag_loss"] == pytest.approx(2 / vocabulary, rel=1e-5)  # step 2 of at most 3: itself, and 3
    tokenized = writing.train[0]
    assert tokenized.completion[-1] == writing.planner.tokenizer.eos_token_id
    assert tokenized.learned.all()


def test_lambda_dag_takes_mass_from_impossible_parents():
    """Alone, the term drives the mass on the node itself and later ids to zero."""
    writing = imitation([example("sort the list", "spell the date")], config(lambda_dag=1000.0))
    before = writing.step([0])["dag_loss"]
    for _ in range(30):
        after = writing.step([0])["dag_loss"]
    assert after < before / 10


def test_parents_are_found_among_the_tokens():
    """Whatever the tokenizer, and with several parents: the slots are those whose tokens spell the ids."""
    steps = example("sort the list", "spell the date", "count its words")
    joined = steps.model_copy(update={"workflow": steps.workflow.replace({"3": {"depends_on": ("2", "1")}})})
    writing = imitation([joined])
    tokenized = writing.train[0]
    spelled = [writing.planner.tokenizer.decode(tokenized.completion[slot.token]) for slot in tokenized.parents]
    assert spelled == ["1", "2", "1"]
    assert [(slot.step, slot.further) for slot in tokenized.parents] == [(1, False), (2, False), (2, True)]


def test_a_failed_execution_teaches_decomposition_but_no_workers():
    failed = example("sort the list", "count its words").model_copy(
        update={"rewards": Rewards(success=0.5, cost=0, latency=0)}
    )
    writing = imitation([failed])
    tokenized, tokenizer = writing.train[0], writing.planner.tokenizer
    hidden = "".join(tokenizer.decode(token) for token in tokenized.completion[~tokenized.learned])
    shown = "".join(tokenizer.decode(token) for token in tokenized.completion[tokenized.learned])
    assert hidden.count('"worker":') == 2
    assert '"slow"' in hidden
    assert not any(name in shown for name in ("slow", "lists"))
    assert '"task_type":"list' in shown


def test_figures_of_plans_are_counted_over_all_of_them():
    """One right plan, one with a wrong edge and worker, one that is none."""
    some = [example(*list(STEPS)[:2])] * 3
    writing = imitation(some)
    right = workflow_of(some[0], writing.planner)
    wrong = right.replace({"2": {"depends_on": (), "worker": "slow"}})
    plans = [Plan(right, True), Plan(wrong, True), Plan(None, False, error="noise")]
    figures = written_plans_metrics(plans, [right] * 3)
    assert figures["exact_plan"] == figures["exact_decomposition"] == pytest.approx(1 / 3)
    assert figures["raw_validity"] == figures["valid_plans"] == pytest.approx(2 / 3)
    assert figures["step_f1"] == pytest.approx(2 * 4 / (4 + 6))
    assert figures["edge_f1"] == pytest.approx(2 * 1 / (1 + 3))
