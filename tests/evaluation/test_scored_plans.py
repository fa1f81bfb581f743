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
from orchestai.errors import UserError
from orchestai.evaluation.plans.scored_plans import NamedPlans, choose_plans
from orchestai.planner.checkpoint import save_planner
from orchestai.planner.slots.model import PlannerModel
from orchestai.tasks.seen_tasks import SeenTasks
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


def test_without_anything_learned_the_file_s_own_parts_stand():
    assert scored(PLANS, {}, None) == ("soup tea", "pie jam")
    assert not choose_plans(PLANS, {}, None).remark


@pytest.mark.parametrize("learned", ["pie", "rice", "tea"])
def test_once_any_task_was_seen_the_test_part_alone_counts_less_what_was_seen(learned):
    kept = "soup" if learned == "tea" else "soup tea"
    assert scored(PLANS, {"p.pth": SeenTasks.of([learned])}, None) == (kept, "pie jam")
    assert scored(PLANS, {"p.pth": SeenTasks.of([], [learned])}, None) == (kept, "pie jam")


def test_a_file_of_which_nothing_was_seen_is_scored_whole():
    """Whatever parts `prepare-plans` made of it; what the planner did not learn is no training plan of its either."""
    seen = {"p.pth": SeenTasks.of(["bread"])}
    assert scored(PLANS, seen, None) == ("soup tea pie jam rice", "")
    assert scored(PLANS, seen, named("learned.json", train="bread", test="cake")) == ("soup tea pie jam rice", "bread")


def test_the_training_file_is_compared_by_words_in_either_form():
    """Its plans for tests are no lesson; case, punctuation and given steps hide no overlap."""
    training = NamedPlans(
        "learned.json", [example("SOUP!", given=True), example("Rice.", "validation"), example("tea", "test")]
    )
    assert scored(PLANS, {}, training) == ("tea", "SOUP!")
    assert scored(PLANS, {"p.pth": SeenTasks.of(["bread"])}, training) == ("tea", "SOUP!")
    assert scored(PLANS, {}, training, include_learned=True) == ("soup tea", "SOUP!")


def test_a_file_may_be_its_own_training_file():
    assert scored(PLANS, {}, PLANS) == ("soup tea", "pie jam")


def test_a_planner_of_unknown_past_is_not_taken_to_have_seen_nothing():
    unknown = {"p.pth": SeenTasks(complete=False)}
    assert scored(PLANS, unknown, None) == ("soup tea", "pie jam")
    assert "p.pth" in choose_plans(PLANS, unknown, None).remark
    assert scored(PLANS, unknown, named("learned.json", train="bread")) == ("soup tea pie jam rice", "bread")


def test_there_is_one_remark_of_one_line_whatever_there_is_to_say():
    unknown = {"p.pth": SeenTasks.of(["soup"]) | SeenTasks(complete=False)}
    learned = named("learned.json", train="pie")
    for plans in (PLANS, named("others.json", train="soup tea pie")):
        for training in (None, learned):
            names = {plans.name, "p.pth"} | ({learned.name} if training else set())
            for include in (False, True):
                remark = choose_plans(plans, unknown, training, include_learned=include).remark
                assert "\n" not in remark
                assert all(name in remark for name in names)
                assert ("tasks.include_learned" in remark) == include


def test_where_nothing_is_left_both_that_have_it_are_named():
    with pytest.raises(UserError, match=r"plans\.json: none of 2 .* p\.pth and learned\.json"):
        choose_plans(PLANS, {"p.pth": SeenTasks.of(["soup"])}, named("learned.json", train="tea"))


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


def test_a_training_file_by_name_gives_the_nearest_graph_to_a_file_of_others(folder):
    save_training_data("plans.json", [example("Brew tea", "test"), example("Bake bread", "test")], CONFIG)
    save_training_data("learned.json", [example("brew tea."), example("Fry an egg", "test")], CONFIG)
    said, figures = evaluated("--training-data", "learned.json")
    assert "learned.json has 1 of the 2 tasks" in said
    assert figures["held_out"]["evaluated"] == ["Bake bread"]
    assert figures["rows"]["nearest_graph"]["s"]["exact_graph"]["mean"] == 1
    assert figures["training_data"]["path"] == "learned.json"
    assert figures["held_out"]["checkpoints"] == {}
    assert figures["held_out"]["training_data"]["learned"] == 1
