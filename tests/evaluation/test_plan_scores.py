"""Figures of plans decide what is called better: each has known answers, bounds, and an independent count beside it."""

from __future__ import annotations

import itertools
import math
import random

import networkx as nx
import numpy as np
import pytest

from orchestai.data.readers.plan import SourcePlan, SourceStep
from orchestai.evaluation.plans import METRICS, evaluate_plans, score_plan
from orchestai.planner import plan_metrics
from orchestai.planner.base import Plan
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


def test_differences_are_paired_by_plan_and_come_from_the_scores_of_each():
    """Half of the plans are right and half are not: each mean is uncertain, but a constant difference is not."""
    chains = [plan("a b c", "ab bc", task=f"{i}", source="s").example(given=True) for i in range(4)]
    forks = [plan("a b c", "ab ac", task=f"{i}", source="t").example(given=True) for i in range(4)]
    found = evaluate_plans(Given(), [*chains, *forks], letters)
    same = found.differences()["listed_chain"]
    assert {cell["edge_f1"]["mean"] for cell in same.values()} == {0.0}
    assert same["macro"]["edge_f1"] == {"mean": 0, "low": 0, "high": 0, "n": 8}
    above = found.differences()["no_edges"]
    assert above["s"]["edge_f1"] == {"mean": 1, "low": 1, "high": 1, "n": 4}
    assert above["macro"]["edge_f1"]["mean"] == pytest.approx((1 + 0.5) / 2)
    assert "edge_f1_non_chain" not in above["s"]
    per_plan = found.per_plan()
    assert [row["task_id"] for row in per_plan] == [e.task_id for e in (*chains, *forks)]
    assert [row["chain"] for row in per_plan] == [True] * 4 + [False] * 4
    for row, cells in found.to_dict().items():
        for source in ("s", "t"):
            scores = [one["scores"][row]["edge_f1"] for one in per_plan if one["source"] == source]
            assert cells[source]["edge_f1"]["mean"] == pytest.approx(np.mean(scores))
    assert per_plan[0]["scores"]["planner"]["critical_path_error"] == 0
