"""Phase 1 learns, says how well, survives being stopped, and refuses what does not fit together."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from orchestai.config import TasksConfig
from orchestai.data.training_file import Rewards, TrainingExample, save_training_data
from orchestai.errors import UserError
from orchestai.planner.checkpoint import load_planner, save_planner
from orchestai.planner.slots.losses import IGNORE
from orchestai.planner.slots.model import PlannerModel
from orchestai.storage import digests
from orchestai.tasks.splits import NOTHING_SEEN, SeenTasks, divide
from orchestai.training.supervised.dataset import LengthGroupedBatches, PlanDataset, WorkflowDataset
from orchestai.training.supervised.run import SEEN_BEFORE, judged_by, split_examples
from orchestai.training.supervised.slot_planner import Imitation
from orchestai.training.supervised.train import train
from orchestai.workers.pool import worker_cards
from orchestai.workflow import Subtask, Workflow
from support.training.phase1 import STEPS, WORKERS, config, example, examples, interrupted_after, metrics


def test_the_linear_schedule_ends_at_zero_and_fixes_the_number_of_epochs(data, tmp_path):
    train(config(num_epochs=2, lr_schedule="linear", learning_rate=0.01), data=data, output_dir=tmp_path)
    state = torch.load(tmp_path / "phase1_last.pth", weights_only=True)
    assert state["optimizer_state_dict"]["param_groups"][0]["lr"] == 0
    assert [row["learning_rate"] for row in metrics(tmp_path)] == pytest.approx([0.01, 0.005])
    with pytest.raises(UserError, match=r"has changed \(num_epochs\); with lr_schedule=linear .* another"):
        train(
            config(num_epochs=3, lr_schedule="linear", learning_rate=0.01), data=data, output_dir=tmp_path, resume=True
        )


def test_it_learns_to_plan_and_keeps_the_best_epoch(data, tmp_path):
    settings = config(num_epochs=30, patience=30)
    summary = train(settings, data=data, output_dir=tmp_path)
    assert summary.metrics["exact_plan"] == 1
    assert summary.metrics["edge_f1"] == summary.metrics["raw_validity"] == summary.metrics["decoded_validity"] == 1
    rows = metrics(tmp_path)
    assert [row["epoch"] for row in rows] == list(range(1, 31))
    most = max(row["exact_decomposition"] for row in rows)
    assert summary.val_loss == min(row["val_loss"] for row in rows if row["exact_decomposition"] == most)
    heads = ("start", "end", "type", "worker", "fallback", "stop")
    assert {f"val_{head}_loss" for head in heads} | {f"{head}_accuracy" for head in heads} <= rows[0].keys()

    saved = torch.load(tmp_path / "phase1_best.pth", weights_only=True)
    assert {
        "epoch",
        "model_state_dict",
        "optimizer_state_dict",
        "val_loss",
        "config",
        "task_types",
        "cards",
    } <= saved.keys()
    assert saved["epoch"] == summary.epoch
    assert saved["val_loss"] == summary.val_loss
    planner = load_planner(tmp_path / "phase1_best.pth", settings.planner, settings.workers)
    workflow = planner.plan_instructions(["First, spell the date. Then, sort the list."])[0].workflow
    assert [(s.instruction, s.task_type, s.worker, s.fallback, s.depends_on) for s in workflow.subtasks] == [
        ("spell the date", "date", "words", ("slow",), ()),
        ("sort the list", "list", "lists", (), ("1",)),
    ]


@pytest.mark.parametrize("schedule", ["plateau", "linear"])
def test_a_stopped_run_goes_on_bit_for_bit(data, tmp_path, schedule, monkeypatch):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    settings = config(num_epochs=4, lr_schedule=schedule)
    train(settings, data=data, output_dir=whole)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Imitation, "run_epoch", interrupted_after(2, Imitation.run_epoch))
        train(settings, data=data, output_dir=stopped)
    torch.rand(7)  # whatever else the process does in between
    train(settings, data=data, output_dir=stopped, resume=True)
    assert metrics(stopped) == metrics(whole)
    first, second = (torch.load(path / "phase1_last.pth", weights_only=True) for path in (whole, stopped))
    for key, tensor in first["model_state_dict"].items():
        assert torch.equal(tensor, second["model_state_dict"][key]), key
    before = SeenTasks.of_checkpoint(second, SEEN_BEFORE)
    assert before == NOTHING_SEEN, "or it would validate on less than it began with"


def test_it_stops_early(data, tmp_path):
    train(config(num_epochs=50, patience=1, learning_rate=0.03), data=data, output_dir=tmp_path)
    judged = [(judged_by(row), -row["val_loss"]) for row in metrics(tmp_path)]
    assert len(judged) < 50
    assert judged[-1] <= max(judged[:-1])


def test_resuming_refuses_other_data_and_other_settings(data, tmp_path):
    output = tmp_path / "run"
    with pytest.raises(UserError, match=r"phase1_last.pth: no run to resume"):
        train(config(num_epochs=1), data=data, output_dir=output, resume=True)
    train(config(num_epochs=1), data=data, output_dir=output)
    with pytest.raises(UserError, match=r"phase1_supervised has changed \(lambda_dag\)"):
        train(config(num_epochs=2, lambda_dag=0.5), data=data, output_dir=output, resume=True)
    save_training_data(data, examples()[1:], config())
    with pytest.raises(UserError, match="data_fingerprint has changed"):
        train(config(num_epochs=2), data=data, output_dir=output, resume=True)


@pytest.mark.parametrize("left", ["phase1_last.pth", "phase1_last"])
def test_a_run_is_not_overwritten(data, tmp_path, left):
    """Of either kind of planner: a folder beside a file of the same name would never be found."""
    (tmp_path / left).mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=rf"holds a run already \({left}\).*--resume.*another output folder"):
        train(config(num_epochs=1), data=data, output_dir=tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_loss_that_is_not_finite_stops_the_run(data, tmp_path):
    with pytest.raises(UserError, match=r"lower training\.phase1_supervised\.learning_rate"):
        train(config(num_epochs=20, learning_rate=1e30), data=data, output_dir=tmp_path)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("planner") / "planner.pth"
    save_planner(path, PlannerModel(config().planner, worker_cards(config().workers)), config(), epoch=1, val_loss=1.0)
    return path


def test_a_planner_is_loaded_for_its_own_pool_unless_told_otherwise(checkpoint):
    settings = config()
    workers = list(settings.workers.pool.items())
    reordered, smaller = (
        settings.workers.model_copy(update={"pool": dict(some)}) for some in (workers[::-1], workers[1:])
    )
    load_planner(checkpoint, settings.planner, reordered)
    with pytest.raises(UserError, match=r"another pool \(gone: words\).*planner.allow_new_pool=true"):
        load_planner(checkpoint, settings.planner, smaller)
    allowed = settings.planner.model_copy(update={"allow_new_pool": True})
    planner = load_planner(checkpoint, allowed, smaller)
    assert planner.plan_instructions(["Sort the list."])[0].workflow is not None


def test_what_is_no_planner_for_this_configuration_is_refused_in_one_line(checkpoint, tmp_path):
    settings = config()
    types = settings.planner.model_copy(update={"task_types": ("string", "other")})
    torn, other, foreign = (tmp_path / f"{name}.pth" for name in ("torn", "other", "foreign"))
    torn.write_bytes(checkpoint.read_bytes()[:1000])
    digests.save_torch(other, {"model_state_dict": {}})
    torch.save({"model_state_dict": {}}, foreign)
    for path, use, message in (
        (tmp_path / "none.pth", settings.planner, "no such checkpoint"),
        (torn, settings.planner, "torn.pth: damaged"),
        (other, settings.planner, "not a planner checkpoint"),
        (foreign, settings.planner, "not written by this version"),
        (checkpoint, types, "trained for planner.task_types"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            load_planner(path, use, settings.workers)
        assert "\n" not in str(caught.value)


def test_the_data_set_goes_through_an_ordinary_loader():
    dataset = WorkflowDataset(
        instructions=["Sort it, then count it.", "Count it."],
        subtask_sequences=[["Sort it", "no words of the text"], ["Count it"]],
        task_types=[[1, None], [0]],
        dependencies=[[[], [0]], [[]]],
        model_selections=[[2, 0], [1]],
        max_subtasks=3,
        max_fallbacks=2,
    )
    batch = next(iter(DataLoader(dataset, batch_size=2)))
    targets = batch["targets"]
    assert batch["instruction"] == list(dataset.instructions)
    assert targets["lengths"].tolist() == [2, 1]
    assert targets["spans"][0].tolist() == [[0, 7], [IGNORE, IGNORE], [IGNORE, IGNORE]]
    assert targets["task_types"].tolist() == [[1, IGNORE, IGNORE], [0, IGNORE, IGNORE]]
    assert targets["model_selections"].tolist() == [[2, 0, IGNORE], [1, IGNORE, IGNORE]]
    assert (targets["fallback"] == IGNORE).all()
    assert targets["dependencies"][0].nonzero().tolist() == [[0, 1]]


def test_a_failed_execution_teaches_decomposition_but_no_workers():
    failed = example("sort the list").model_copy(update={"rewards": Rewards(success=0.5, cost=0, latency=0)})
    targets = PlanDataset.from_examples([failed], config().planner, WORKERS)[0]["targets"]
    assert targets["task_types"][0] == 1
    assert (targets["model_selections"] == IGNORE).all()
    assert (targets["fallback"] == IGNORE).all()


def test_batches_hold_every_example_once_and_change_with_the_epoch():
    lengths = [(7 * i) % 50 for i in range(103)]
    epochs = [list(LengthGroupedBatches(lengths, 4, seed=1, epoch=e)) for e in (0, 1, 0)]
    for batches in epochs:
        assert sorted(i for batch in batches for i in batch) == list(range(103))
        assert len(batches) == len(LengthGroupedBatches(lengths, 4, seed=1, epoch=0))
    assert epochs[0] == epochs[2] != epochs[1]
    spread = [max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in epochs[0]]
    assert sum(spread) / len(spread) < 10


def test_held_out_tasks_are_those_marked_or_else_a_share_by_their_words():
    """By the same rule by which phase 2 holds out tasks, so that phase 1 does not learn those."""
    tasks = TasksConfig(val_fraction=0.25)
    learned, held_out = split_examples(examples(), tasks, Path("x"))
    assert {example.split for example in held_out} == {"validation"}
    unmarked = [example(a, b) for a in STEPS for b in STEPS]
    reworded = [
        one.model_copy(update={"instruction": f"Please: {one.instruction}", "augmented": True}) for one in unmarked
    ]
    learned, held_out = split_examples([*reworded, *unmarked], tasks, Path("x"))
    assert len(learned) + len(held_out) == 2 * len(unmarked)
    assert not {one.task_id for one in learned} & {one.task_id for one in held_out}
    parts = divide([one.instruction for one in unmarked], tasks, ("train", "validation"))
    expected = {one.task_id for one, part in zip(unmarked, parts, strict=True) if part == "validation"}
    assert {one.task_id for one in held_out} == expected
    with pytest.raises(UserError, match="both are needed"):
        split_examples(unmarked[:1], tasks, Path("x"))


@pytest.mark.parametrize("span", [(6, 7), None])
def test_a_step_without_a_token_is_left_out_with_a_reason(data, tmp_path, capsys, span):
    """Its end had no place, and a loss of a billion, or none and the run ended with an index error."""
    blank = example("sort the list")
    step = blank.workflow.subtasks[0].model_copy(update={"span": span, "instruction": " "})
    blank = blank.model_copy(update={"workflow": Workflow([step])})
    save_training_data(data, [*examples(), blank], config())
    train(config(num_epochs=1), data=data, output_dir=tmp_path / "out")
    assert "step 1 has no words" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("instruction", "steps", "places"),
    [
        ("Return the length of the longest word", ["the longest word", "the length"], [(7, 17), (21, 37)]),
        (
            "count it, then double it, then count it",
            ["count it", "double it", "count it"],
            [(0, 8), (15, 24), (31, 39)],
        ),
        ("Resort it, then sort it", ["sort it"], [(16, 23)]),
        ("Unsorted it is", ["sort"], [(2, 6)]),
        ("Sort it after you have counted it, and do not Resort it", ["counted it", "Sort it"], [(0, 7), (23, 33)]),
        (
            "count it, and count it again after you sort it",
            ["count it", "sort it", "count it"],
            [(0, 8), (14, 22), (39, 46)],
        ),
    ],
)
def test_steps_are_found_by_their_words_in_the_order_of_the_text(instruction, steps, places):
    """What is pointed at from left to right can point at nothing before the last step, nor twice at the same."""
    subtasks = [Subtask(id=str(i), instruction=words) for i, words in enumerate(steps)]
    told = TrainingExample(instruction=instruction, workflow=Workflow(subtasks))
    found = PlanDataset.from_examples([told], config().planner, WORKERS)[0]["targets"]["spans"]
    assert found[: len(steps)].tolist() == [list(place) for place in places]
