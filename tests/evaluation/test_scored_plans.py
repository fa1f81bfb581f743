"""Plans for tasks that were learned from are no measure, and a file of others is one as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.config import Config
from orchestai.data.readers.plan import SourcePlan, SourceStep
from orchestai.data.training_file import TrainingExample, save_training_data
from orchestai.evaluation.plans import NamedPlans, choose_plans
from orchestai.planner.checkpoint import save_planner
from orchestai.planner.slots.model import PlannerModel
from orchestai.tasks.splits import SeenTasks
from orchestai.workers.pool import worker_cards

CONFIG = Config(
    workers={"pool": {"calculator": {"kind": "tool", "tool": "calculator", "card": "Adds."}}},
    planner={"base": "none", "d_model": 32, "num_layers": 1, "max_subtasks": 2},
)


def example(task: str, split: str = "train", *, given: bool = False) -> TrainingExample:
    steps = (SourceStep("1", "boil it"), SourceStep("2", "eat it"))
    plan = SourcePlan(task, "s", "MIT", task, steps, frozenset({("1", "2")}))
    return plan.example(given=given).model_copy(update={"split": split})


def named(name: str, **parts: str) -> NamedPlans:
    """`named("x.json", test="a b", train="c")`: examples for the tasks a and b, which are for tests, and c."""
    return NamedPlans(name, [example(task, split) for split, tasks in parts.items() for task in tasks.split()])


def scored(*args: object, **kwargs: object) -> tuple[str, str]:
    """The tasks that are scored, and those that the nearest graph may come from."""
    found = choose_plans(*args, **kwargs)
    return tuple(" ".join(e.task_id for e in some) for some in (found.held_out.kept, found.learned))


PLANS = named("plans.json", test="soup tea", train="pie jam", validation="rice")


@pytest.mark.parametrize("learned", ["pie", "rice", "tea"])
def test_once_any_task_was_seen_the_test_part_alone_counts_less_what_was_seen(learned):
    kept = "soup" if learned == "tea" else "soup tea"
    assert scored(PLANS, {"p.pth": SeenTasks.of([learned])}, None) == (kept, "pie jam")
    assert scored(PLANS, {"p.pth": SeenTasks.of([], [learned])}, None) == (kept, "pie jam")


def test_the_training_file_is_compared_by_words_in_either_form():
    """Its plans for tests are no lesson; case, punctuation and given steps hide no overlap."""
    training = NamedPlans(
        "learned.json", [example("SOUP!", given=True), example("Rice.", "validation"), example("tea", "test")]
    )
    assert scored(PLANS, {}, training) == ("tea", "SOUP!")
    assert scored(PLANS, {"p.pth": SeenTasks.of(["bread"])}, training) == ("tea", "SOUP!")
    assert scored(PLANS, {}, training, include_learned=True) == ("soup tea", "SOUP!")


def evaluated(*arguments: str) -> tuple[str, dict[str, object]]:
    """What the command says, and the figures that it writes; none where it stops."""
    command = ["evaluate-plans", "--plans", "plans.json", "--config", "config.yaml", "--json", "scores.json"]
    result = CliRunner().invoke(app, [*command, *arguments])
    said = " ".join(f"{result.output} {result.exception or ''}".split())
    assert (result.exit_code == 0) == Path("scores.json").exists(), said
    return said, json.loads(Path("scores.json").read_text()) if result.exit_code == 0 else {}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = CONFIG.model_dump(mode="json", include={"workers", "planner"})
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    return tmp_path


def test_without_a_checkpoint_the_command_gives_the_floors_of_a_file_by_hand(folder):
    """One that keeps no plan for tests and has no sidecar."""
    (folder / "plans.json").write_text(json.dumps([example("tea", given=True).model_dump(mode="json")]))
    said, figures = evaluated()
    assert said.count("plans.json") == 1
    assert set(figures["rows"]) == {"listed_chain", "all_pairs", "no_edges"}
    assert figures["differences"] == {}
    [plan] = figures["per_plan"]
    assert (plan["task_id"], plan["source"], plan["chain"]) == ("tea", "s", True)
    assert plan["scores"]["listed_chain"]["exact_graph"] == 1
    assert figures["training_data"] is None


@pytest.mark.parametrize(
    ("learned", "evaluated_ids", "says"),
    [
        (["A of mine."], ["b of mine"], "p.pth learned from 1"),
        (["Something else"], ["a of mine", "b of mine"], ""),
        (["a of mine", "b of mine"], [], "none of 2 tasks"),
        (None, ["a of mine", "b of mine"], "p.pth does not say"),
    ],
)
def test_plans_for_tasks_that_a_planner_has_learned_are_left_out(folder, learned, evaluated_ids, says):
    """A file of another fold keeps other tasks for tests: which are learned, the checkpoint says, by their words."""
    save_training_data("plans.json", [example(f"{name} of mine", "test") for name in "ab"], CONFIG)
    facts = {} if learned is None else SeenTasks.of(learned).facts()
    save_planner("p.pth", PlannerModel(CONFIG.planner, worker_cards(CONFIG.workers)), CONFIG, **facts)
    said, figures = evaluated("--phase1", "p.pth")
    assert says in said
    assert said.count("plans.json") == bool(says)
    if evaluated_ids:
        assert figures["held_out"]["evaluated"] == [plan["task_id"] for plan in figures["per_plan"]] == evaluated_ids
        assert set(figures["differences"]) == set(figures["rows"]) - {"planner"}
