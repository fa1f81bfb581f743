"""Phase 1 that goes on from a planner: what that has seen, knows of workers and was sure of."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from orchestai.config import TasksConfig
from orchestai.data.prepare import fit_estimate
from orchestai.data.training_file import save_training_data
from orchestai.errors import UserError
from orchestai.execution.reward import Reference
from orchestai.planner.checkpoint import (
    estimate_state_of,
    load_planner,
    reference_of,
    save_planner,
    seen_by,
    write_estimate,
)
from orchestai.planner.files import estimate_path
from orchestai.tasks.splits import SeenTasks
from orchestai.training.supervised.run import SEEN_BEFORE, split_examples
from orchestai.training.supervised.slot_planner import Imitation
from orchestai.training.supervised.train import train
from support.serving.logged_pool import logs, settings
from support.training.phase1 import STEPS, config, example, examples, interrupted_after, metrics


def test_a_planner_is_trained_further_and_remembers_what_it_has_seen(data, tmp_path):
    before = train(config(num_epochs=3), data=data, output_dir=tmp_path / "first")
    others = [example("spell the date"), example(*[*STEPS][:3], split="validation")]
    save_training_data(tmp_path / "more.json", [*examples(), *others], config())
    slow = config(num_epochs=1, learning_rate=1e-9)
    start = tmp_path / "first" / "phase1_best.pth"
    after = train(slow, data=tmp_path / "more.json", output_dir=tmp_path / "second", start=start)
    assert after.val_loss == pytest.approx(before.val_loss, rel=0.3)
    anew = train(slow, data=tmp_path / "more.json", output_dir=tmp_path / "anew")
    assert after.val_loss < 0.9 * anew.val_loss
    seen, seen_before = (seen_by(path) for path in (tmp_path / "second" / "phase1_best.pth", start))
    assert seen.learned >= seen_before.learned
    with pytest.raises(UserError, match=r"cannot resume, start has changed"):
        train(slow, data=tmp_path / "more.json", output_dir=tmp_path / "anew", start=start, resume=True)


@pytest.mark.parametrize("named_again", [True, False])
def test_a_run_that_began_with_a_planner_goes_on_and_remembers_what_that_has_seen(
    data, tmp_path, monkeypatch, named_again
):
    """Else a resumed improvement would take what its incumbent has learned for unseen."""
    train(config(num_epochs=1), data=data, output_dir=tmp_path / "first")
    start = tmp_path / "first" / "phase1_best.pth"
    others = [example("spell the date"), example(*[*STEPS][:3], split="validation")]
    save_training_data(tmp_path / "more.json", others, config())
    settings, more = config(num_epochs=2), tmp_path / "more.json"
    train(settings, data=more, output_dir=tmp_path / "whole", start=start)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Imitation, "run_epoch", interrupted_after(1, Imitation.run_epoch))
        train(settings, data=more, output_dir=tmp_path / "stopped", start=start)
    again = start if named_again else None
    train(settings, data=more, output_dir=tmp_path / "stopped", start=again, resume=True)
    assert metrics(tmp_path / "stopped") == metrics(tmp_path / "whole")
    last, stopped = (tmp_path / run / "phase1_last.pth" for run in ("whole", "stopped"))
    assert seen_by(stopped) == seen_by(last)
    assert seen_by(last).learned >= seen_by(start).learned
    first, second = (torch.load(path, weights_only=True) for path in (last, stopped))
    assert first["identity"] == second["identity"]
    assert SeenTasks.of_checkpoint(second, SEEN_BEFORE) == seen_by(start)


def test_nothing_is_held_out_that_was_learned(data, tmp_path, caplog):
    """Epochs would be chosen, and the confidence fitted, by plans that the planner knows by heart."""
    train(config(num_epochs=1), data=data, output_dir=tmp_path / "first")
    start = tmp_path / "first" / "phase1_best.pth"
    known, new = example("sort the list", split="validation"), example(*[*STEPS][:3], split="validation")
    save_training_data(tmp_path / "more.json", [example("spell the date", "count its words"), known, new], config())
    train(config(num_epochs=1), data=tmp_path / "more.json", output_dir=tmp_path / "second", start=start)
    assert "left out 1 of 2 examples held out, which are learned from" in caplog.text
    with pytest.raises(UserError, match="all 1 examples"):
        split_examples([example("sort the list"), known], TasksConfig(), Path("x"))


def test_what_was_measured_of_workers_outlasts_a_training_on_data_without_it(tmp_path):
    """Without the estimate nobody could ask the planner for a preference, or forecast what it spends."""
    reference = Reference(0.25, 900.0, "median of 3 logged executions")
    save_training_data(tmp_path / "logged.json", examples(), config(), reference=reference)
    write_estimate(estimate_path(tmp_path / "logged.json"), fit_estimate(logs(whole=100), settings()))
    start = tmp_path / "first" / "phase1_best.pth"
    train(config(num_epochs=1), data=tmp_path / "logged.json", output_dir=tmp_path / "first")
    bare = tmp_path / "bare.json"
    save_training_data(bare, [example("spell the date"), example(*[*STEPS][:3], split="validation")], config())
    train(config(num_epochs=1), data=bare, output_dir=tmp_path / "second", start=start)
    train(config(num_epochs=2), data=bare, output_dir=tmp_path / "second", resume=True)
    for name in ("phase1_best.pth", "phase1_last.pth"):
        assert estimate_state_of(tmp_path / "second" / name) is not None
        assert reference_of(tmp_path / "second" / name) == reference


def test_the_confidence_of_a_planner_is_not_that_of_the_one_it_began_with(data, tmp_path):
    """Its weights have moved; of three plans nobody can tell how often it is right now."""
    first = tmp_path / "first"
    train(config(num_epochs=1), data=data, output_dir=first)
    planner = load_planner(first / "phase1_best.pth", config().planner, config().workers)
    planner.confidence.known.fill_(True)
    save_planner(tmp_path / "sure.pth", planner, config())
    train(config(num_epochs=1), data=data, output_dir=tmp_path / "second", start=tmp_path / "sure.pth")
    assert not load_planner(tmp_path / "second/phase1_best.pth", config().planner, config().workers).confidence.is_known
