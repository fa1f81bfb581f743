"""Plans for tasks that were learned from are no measure, and a file of others is one as a whole."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import asdict
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.config import Config
from orchestai.data.readers import SourcePlan, SourceStep
from orchestai.data.training_file import TrainingExample, save_training_data
from orchestai.evaluation.plans import NamedPlans, choose_plans, evaluate_plans, score_plan
from orchestai.planner import plan_metrics
from orchestai.planner.base import Plan
from orchestai.planner.checkpoint import save_planner
from orchestai.planner.slots.model import PlannerModel
from orchestai.tasks.splits import SeenTasks
from orchestai.workers.pool import worker_cards
from orchestai.workflow import Subtask, Workflow

CONFIG = Config(
    workers={"pool": {"calculator": {"kind": "tool", "tool": "calculator", "card": "Adds."}}},
    planner={"base": "none", "d_model": 32, "num_layers": 1, "max_subtasks": 2},
)


def example(task: str, split: str = "train") -> TrainingExample:
    steps = (SourceStep("1", "boil it"), SourceStep("2", "eat it"))
    plan = SourcePlan(task, "s", "MIT", task, steps, frozenset({("1", "2")}))
    return plan.example().model_copy(update={"split": split})


def named(name: str, **parts: str) -> NamedPlans:
    """`named("x.json", test="a b", train="c")`: examples for the tasks a and b, which are for tests, and c."""
    return NamedPlans(name, [example(task, split) for split, tasks in parts.items() for task in tasks.split()])


def scored(*args: object, **kwargs: object) -> tuple[str, str]:
    """The tasks that are scored, and those that the nearest graph may come from."""
    found = choose_plans(*args, **kwargs)
    return tuple(" ".join(e.task_id for e in some) for some in (found[0].kept, found[1]))


PLANS = named("plans.json", test="soup tea", train="pie jam", validation="rice")


@pytest.mark.parametrize("learned", ["pie", "rice", "tea"])
def test_once_any_task_was_seen_the_test_part_alone_counts_less_what_was_seen(learned):
    kept = "soup" if learned == "tea" else "soup tea"
    assert scored(PLANS, {"p.pth": SeenTasks.of([learned])}, None) == (kept, "pie jam")
    assert scored(PLANS, {"p.pth": SeenTasks.of([], [learned])}, None) == (kept, "pie jam")


def test_the_training_file_is_compared_by_words_in_either_form():
    """Its plans for tests are no lesson; case and punctuation hide no overlap."""
    training = NamedPlans("learned.json", [example("SOUP!"), example("Rice.", "validation"), example("tea", "test")])
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


def test_without_a_checkpoint_the_command_copies_the_nearest_plan_of_the_training_file(folder):
    """The plans are of a file by hand: it keeps none for tests and has no sidecar."""
    (folder / "plans.json").write_text(json.dumps([example("tea").model_dump(mode="json")]))
    (folder / "learned.json").write_text(json.dumps([example("pie").model_dump(mode="json")]))
    _, figures = evaluated("--training_data", "learned.json")
    assert set(figures["rows"]) == {"nearest_graph"}
    assert figures["differences"] == {}
    [plan] = figures["per_plan"]
    assert (plan["task_id"], plan["source"]) == ("tea", "s")
    assert plan["scores"]["nearest_graph"]["exact_graph"] == 1


@pytest.mark.parametrize(
    ("learned", "evaluated_ids", "says"),
    [
        (["A of mine."], ["b of mine"], "p.pth learned from 1"),
        (["Something else"], ["a of mine", "b of mine"], ""),
        (["a of mine", "b of mine"], [], "none of 2 tasks"),
        (None, ["a of mine", "b of mine"], "p.pth: what it learned from is unknown"),
    ],
)
def test_plans_for_tasks_that_a_planner_has_learned_are_left_out(folder, learned, evaluated_ids, says):
    """A file of another fold keeps other tasks for tests: which are learned, the checkpoint says, by their words."""
    save_training_data("plans.json", [example(f"{name} of mine", "test") for name in "ab"], CONFIG)
    facts = {} if learned is None else SeenTasks.of(learned).facts()
    save_planner("p.pth", PlannerModel(CONFIG.planner, worker_cards(CONFIG.workers)), CONFIG, **facts)
    said, figures = evaluated("--phase1", "p.pth")
    assert says in said
    if evaluated_ids:
        assert figures["held_out"]["evaluated"] == [plan["task_id"] for plan in figures["per_plan"]] == evaluated_ids


# Figures of plans decide what is called better: each has known answers, bounds, and an independent count beside it.


def planned(words: str, edges: str) -> Workflow:
    return Workflow(
        [
            Subtask(id=name, instruction=name, depends_on=tuple(e[0] for e in edges.split() if e[1] == name[0]))
            for name in words.split()
        ]
    )


def letters(sentences):
    """Steps are the same if their first letters are."""
    vectors = np.zeros((len(sentences), 26), dtype=np.float32)
    for i, sentence in enumerate(sentences):
        vectors[i, ord(sentence[0].lower()) - ord("a")] = 1
    return vectors


def random_dag(rng: random.Random, nodes: int) -> frozenset[tuple[int, int]]:
    order = rng.sample(range(nodes), nodes)
    return frozenset(pair for pair in itertools.combinations(order, 2) if rng.random() < 0.35)


def test_greedy_matching_takes_the_most_similar_pair_first_and_none_below_the_threshold():
    similarity = np.array([[0.9, 0.8, 0.1], [0.85, 0.2, 0.1], [0.1, 0.1, 0.59]])
    assert plan_metrics.match_greedily(similarity, 0.6) == {0: 0}
    assert plan_metrics.match_greedily(similarity, 0.2) == {0: 0, 2: 2, 1: 1}


def test_edges_count_only_between_matched_steps():
    wanted = {(0, 1), (1, 2)}
    assert plan_metrics.edge_f1({(0, 1), (1, 2)}, wanted, {0: 0, 1: 1, 2: 2}) == 1
    assert plan_metrics.edge_f1({(0, 1), (1, 2)}, wanted, {0: 0, 1: 1}) == 0.5
    assert plan_metrics.edge_f1(set(), set(), {}) == 1
    assert plan_metrics.edge_f1(set(), wanted, {}) == 0


def test_chain_score_agrees_with_enumerating_all_topological_orders():
    rng = random.Random(0)
    for _ in range(60):
        nodes = rng.randint(1, 6)
        wanted = random_dag(rng, nodes)
        match = {i: j for i, j in enumerate(rng.sample(range(nodes), nodes)) if rng.random() < 0.8}
        graph = nx.DiGraph()
        graph.add_nodes_from(range(nodes))
        graph.add_edges_from(wanted)
        matched = [match[i] for i in range(nodes) if i in match]
        longest = max(
            len(chosen)
            for order in nx.all_topological_sorts(graph)
            for size in range(len(matched) + 1)
            for chosen in itertools.combinations([order.index(node) for node in matched], size)
            if list(chosen) == sorted(chosen)
        )
        assert plan_metrics.chain_f1(list(range(nodes)), wanted, match, nodes) == pytest.approx(longest / nodes)


def test_graph_score_agrees_with_trying_all_subsets():
    rng = random.Random(1)
    for _ in range(40):
        nodes = rng.randint(1, 6)
        made, wanted = random_dag(rng, nodes), random_dag(rng, nodes)
        match = {i: i for i in range(nodes) if rng.random() < 0.9}
        largest = max(
            len(kept)
            for size in range(len(match) + 1)
            for kept in itertools.combinations(match, size)
            if {e for e in made if set(e) <= set(kept)} == {e for e in wanted if set(e) <= set(kept)}
        )
        assert plan_metrics.graph_f1(made, wanted, match, nodes, nodes) == pytest.approx(largest / nodes)


def test_the_right_plan_scores_one_throughout_and_none_scores_zero():
    right = planned("a b c d", "ab ac bd cd")
    assert set(asdict(score_plan(right, right, letters)).values()) == {1.0}
    assert set(asdict(score_plan(None, right, letters)).values()) == {0.0}


def test_a_wrong_plan_says_where_it_is_wrong():
    score = score_plan(planned("a b c d", "ab bc cd"), planned("a b c d", "ab ac bd cd"), letters)
    assert score.node_f1 == 1
    assert score.edge_f1 == pytest.approx(2 * 2 / (3 + 4))
    assert score.exact_graph == 0


def test_steps_in_other_words_are_found_by_meaning():
    assert score_plan(planned("bun axe", ""), planned("apple bread", ""), letters).node_f1 == 1


class Chains:
    """Plans the three steps of every task one after the other."""

    def plan_instructions(self, instructions):
        return [Plan(workflow=planned("a b c", "ab bc"), raw_valid=True) for _ in instructions]


def test_differences_are_paired_by_plan_and_come_from_the_scores_of_each():
    """Half of the plans are right and half are not: each mean is uncertain, but a constant difference is not."""

    def examples(edges: str, source: str, count: int = 4) -> list[TrainingExample]:
        workflow = planned("a b c", edges)
        return [TrainingExample(instruction=f"a{i}", workflow=workflow, suite=source) for i in range(count)]

    scored = [*examples("ab bc", "s"), *examples("ab ac", "t")]
    found = evaluate_plans(Chains(), scored, letters, learned=examples("", "u", 1))
    rows = found.to_dict()
    assert rows["planner"]["s"]["edge_f1"]["mean"] == 1
    assert rows["planner"]["t"]["edge_f1"]["mean"] == 0.5
    assert rows["planner"]["macro"]["edge_f1"]["mean"] == 0.75
    above = found.differences()["nearest_graph"]
    assert above["s"]["edge_f1"] == {"mean": 1, "low": 1, "high": 1, "n": 4}
    assert above["macro"]["edge_f1"] == {"mean": 0.75, "low": 0.75, "high": 0.75, "n": 8}
    assert [row["source"] for row in found.per_plan()] == ["s"] * 4 + ["t"] * 4
    assert [row["scores"]["planner"]["edge_f1"] for row in found.per_plan()] == [1] * 4 + [0.5] * 4
