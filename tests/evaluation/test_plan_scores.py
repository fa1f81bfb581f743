"""Figures of plans decide what is called better: each has known answers, bounds, and an independent count beside it."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.config import Config
from orchestai.data.readers.plan import SourcePlan, SourceStep
from orchestai.data.training_file import save_training_data
from orchestai.evaluation.plans.evaluate import evaluate_plans
from orchestai.evaluation.plans.metrics import METRICS, score_plan, sentence_embedder
from orchestai.planner import plan_metrics
from orchestai.planner.base import Plan
from orchestai.planner.checkpoint import save_planner
from orchestai.planner.slots.encoder import MINILM, open_encoder
from orchestai.planner.slots.model import PlannerModel
from orchestai.tasks.seen_tasks import SeenTasks
from orchestai.workers.pool import worker_cards
from orchestai.workflow import Subtask, Workflow


def plan(words: str, edges: str, *, task: str = "do it", seconds: float | None = 60.0, source: str = "s") -> SourcePlan:
    """`plan("a b c", "ab bc")`: steps a, b and c, each named after its words."""
    steps = tuple(SourceStep(word, word, seconds) for word in words.split())
    return SourcePlan(task, source, "MIT", task, steps, frozenset((e[0], e[1]) for e in edges.split()))


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


def test_critical_path_is_the_longest_sum_of_durations():
    assert planned("a b c", "ac bc").critical_path({"a": 5.0, "b": 3.0, "c": 1.0}) == 6
    assert planned("a b c", "").critical_path({"a": 5.0, "b": 3.0, "c": 1.0}) == 5


def test_a_chain_may_be_listed_in_any_order():
    assert plan_metrics.is_chain(planned("a b c", "ca ab"))
    assert not plan_metrics.is_chain(planned("a b c", "ab"))
    assert not plan_metrics.is_chain(planned("a b c", "ab ac bc"))
    assert plan_metrics.is_chain(planned("a", ""))


def test_the_right_plan_scores_one_throughout():
    example = plan("a b c d", "ab ac bd cd").example(given=True)
    score = score_plan(planned("a b c d", "ab ac bd cd"), example, letters)
    assert [getattr(score, name) for name in METRICS[:-1]] == [1.0] * (len(METRICS) - 1)
    assert score.critical_path_error == 0


def test_a_wrong_plan_says_where_it_is_wrong():
    example = plan("a b c d", "ab ac bd cd").example(given=True)
    score = score_plan(planned("a b c d", "ab bc cd"), example, letters)
    assert score.node_f1 == 1
    assert score.edge_f1 == pytest.approx(2 * 2 / (3 + 4))
    assert score.closure_f1 == pytest.approx(2 * 5 / (6 + 5))
    assert score.exact_graph == 0
    assert score.critical_path_error == pytest.approx((240 - 180) / 180)


def test_no_plan_scores_zero_and_steps_in_other_words_are_found_by_meaning():
    example = plan("apple bread", "").example(given=False)
    nothing = score_plan(None, example, letters)
    assert (nothing.node_f1, nothing.decoded_validity) == (0, 0)
    score = score_plan(planned("bun axe", ""), example, letters)
    assert (score.node_f1, score.node_f1_exact) == (1, 0)
    assert math.isnan(score.critical_path_error)


class Given:
    """Plans every given step after the one before."""

    def plan_instructions(self, instructions):
        return [Plan(workflow=None, raw_valid=False, error="cannot") for _ in instructions]

    def plan_steps(self, instructions, steps):
        plans = []
        for text, spans in zip(instructions, steps, strict=True):
            subtasks = [
                Subtask(id=str(i), instruction=text[slice(*span)], depends_on=(str(i - 1),) if i else ())
                for i, span in enumerate(spans)
            ]
            plans.append(Plan(workflow=Workflow(subtasks), raw_valid=True))
        return plans


def test_an_evaluation_has_the_floors_beside_the_planner_by_source_and_on_graphs_that_are_no_chains():
    chain = plan("a b c", "ab bc", source="chains").example(given=True)
    fork = plan("a b c", "ab ac", source="forks").example(given=True)
    found = evaluate_plans(Given(), [chain, fork], letters)
    rows = found.to_dict()
    assert rows["planner"] == rows["listed_chain"]
    assert rows["planner"]["chains"]["edge_f1"]["mean"] == 1
    assert "edge_f1_non_chain" not in rows["planner"]["chains"]
    assert rows["planner"]["forks"]["edge_f1_non_chain"]["mean"] == 0.5
    assert rows["planner"]["macro"]["edge_f1"]["mean"] == 0.75
    assert rows["all_pairs"]["chains"]["edge_f1"]["mean"] == pytest.approx(2 * 2 / 5)


def test_the_nearest_graph_comes_from_what_was_learned_from_alone():
    learned = plan("x y", "xy", task="a task").example(given=True)
    other = plan("x y", "", task="z task").example(given=True)
    asked = plan("p q", "pq", task="another").example(given=True).model_copy(update={"split": "test"})
    found = evaluate_plans(None, [learned, other, asked], letters)
    assert set(found.scores) == {"listed_chain", "all_pairs", "no_edges", "nearest_graph"}
    assert [score.exact_graph for score in found.scores["nearest_graph"]] == [1.0]


def test_the_time_of_a_plan_that_lists_the_given_steps_in_another_order_is_known():
    reference = SourcePlan(
        "1", "s", "MIT", "do it", (SourceStep("a", "a", 100.0), SourceStep("b", "b", 10.0)), frozenset({("b", "a")})
    )
    example = reference.example(given=True)
    assert score_plan(planned("b a", "ba"), example, letters).critical_path_error == 0
    assert score_plan(planned("b a", ""), example, letters).critical_path_error == pytest.approx(10 / 110)
    assert math.isnan(score_plan(planned("b", ""), example, letters).critical_path_error)


def test_a_step_that_says_nothing_or_too_much_is_like_no_other():
    embed = sentence_embedder(open_encoder(MINILM, 512))
    example = plan("apple", "").example(given=False)
    for words in ("", "apple " * 600):
        assert score_plan(Workflow([Subtask(id="1", instruction=words)]), example, embed).node_f1 == 0
    assert score_plan(planned("apple", ""), example, embed).node_f1 == 1


def test_the_table_shows_whole_figures_on_a_narrow_terminal():
    examples = [plan("a b c", "ab ac", source="asynchow_para_stated").example(given=True)]
    console = Console(width=80)
    with console.capture() as captured:
        console.print(evaluate_plans(Given(), examples, letters).table())
    [row, *_] = [line for line in captured.get().splitlines() if line.strip().startswith("planner")]
    assert row.split()[1:4] == ["1.000", "1.000", ".500"]


def test_without_a_checkpoint_the_command_gives_the_floors_and_says_that_nothing_was_held_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(
        json.dumps({"workers": {"pool": {"calculator": {"kind": "tool", "tool": "calculator", "card": "Adds."}}}})
    )
    examples = [plan("a b", "ab").example(given=True).model_dump(mode="json")]
    (tmp_path / "plans.json").write_text(json.dumps(examples))
    arguments = ["evaluate", "--plans", "plans.json", "--config", "config.yaml", "--json", "scores.json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "no plan is kept for tests" in " ".join(result.output.split())
    assert set(json.loads((tmp_path / "scores.json").read_text())["rows"]) == {"listed_chain", "all_pairs", "no_edges"}


@pytest.mark.parametrize(
    ("learned", "said"),
    [
        (["A of mine."], "plans.json: 1 of 2 tasks are held out; left out 1: p.pth learned from 1 and"),
        (["Something else"], ""),
        (["a of mine", "b of mine"], "none of 2 tasks is left to evaluate on, since p.pth learned from them"),
        (None, "p.pth: what it learned from is unknown"),
    ],
)
def test_plans_for_tasks_that_a_planner_has_learned_are_left_out(tmp_path, monkeypatch, learned, said):
    """A file of another fold keeps other tasks for tests: which are learned, the checkpoint says, by their words."""
    monkeypatch.chdir(tmp_path)
    config = Config(
        workers={"pool": {"calculator": {"kind": "tool", "tool": "calculator", "card": "Adds."}}},
        planner={"d_model": 32, "num_layers": 1, "max_subtasks": 2},
    )
    (tmp_path / "config.yaml").write_text(json.dumps(config.model_dump(mode="json", include={"workers", "planner"})))
    one = plan("a b", "ab").example(given=False)
    examples = [
        one.model_copy(update={"split": "test", "task": task, "task_id": task}) for task in ("a of mine", "b of mine")
    ]
    save_training_data("plans.json", examples, config)
    facts = {} if learned is None else SeenTasks.of(learned).facts()
    save_planner("p.pth", PlannerModel(config.planner, worker_cards(config.workers)), config, **facts)
    arguments = ["evaluate", "--plans", "plans.json", "--config", "config.yaml", "--phase1", "p.pth"]
    result = CliRunner().invoke(app, [*arguments, "--json", "scores.json"])
    shown = " ".join(f"{result.output} {result.exception or ''}".split())
    assert said in shown
    assert ("held out" in shown) == ("held out" in said)
    assert (result.exit_code == 0) == ("none of" not in said)
    if result.exit_code == 0:
        held_out = json.loads(Path("scores.json").read_text())["held_out"]
        assert held_out["evaluated"] == ([] if learned == ["A of mine."] else ["a of mine"]) + ["b of mine"]
