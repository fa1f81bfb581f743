"""The statistics, the credit and the wording of an evaluation, by known answers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import verify
from orchestai.evaluation.statistics import bootstrap_mean, mean_over_groups, paired_difference, proportion
from orchestai.evaluation.systems.baselines import LookupAssignment, NearestAssignment, PriorAssignment, Trial
from orchestai.evaluation.systems.evaluate import static_mix
from orchestai.evaluation.systems.plot import frontier
from orchestai.evaluation.systems.runner import Result, SystemRow, rank_invalid
from orchestai.evaluation.tables.routing_metrics import (
    aiq,
    apgr,
    calls_curve,
    cpt,
    curve_through,
    hull_corners,
    hypervolume,
)
from orchestai.planner.plan_metrics import compare
from orchestai.rewards.step_credit import credit_steps, infer_right
from orchestai.workflow import Subtask, Workflow

NAN = math.nan


# statistics


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    """On many well-behaved values both are the same up to sampling error."""
    values = np.random.default_rng(1).normal(2.0, 3.0, 2000)
    interval = bootstrap_mean(values)
    half = 1.96 * values.std() / math.sqrt(2000)
    assert interval.mean == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.02)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.02)


def test_groups_count_alike_whatever_their_size() -> None:
    """A group's mean varies by its standard error, and the mean of three by a third of what that of one does."""
    rng = np.random.default_rng(2)
    sizes = (400, 1600, 100)
    groups = [rng.normal(place, 1.0, size) for place, size in zip((0.0, 3.0, 30.0), sizes, strict=True)]
    found = mean_over_groups([*groups, np.array([NAN]), np.array([])])
    half = 1.96 * math.sqrt(sum(1 / size for size in sizes)) / 3
    assert found.mean == pytest.approx(np.mean([group.mean() for group in groups]))
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)
    assert found.n == sum(sizes)
    assert mean_over_groups([]).n == 0


def test_pairing_removes_what_the_tasks_have_in_common() -> None:
    """Hard and easy tasks differ far more than planners do; only a paired interval sees a small constant gain."""
    theirs = np.random.default_rng(0).normal(0, 100, 300)
    gain = paired_difference(theirs + 0.5, theirs)
    assert (gain.low, gain.high) == (pytest.approx(0.5), pytest.approx(0.5))
    assert paired_difference(np.array([1.0, NAN, 2.0]), np.array([NAN, 1.0, 1.0])).n == 1


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 300, 0.0, 0.01264), (150, 300, 0.44378, 0.55622), (300, 300, 0.98736, 1.0)],
)
def test_wilson_interval(successes: int, n: int, low: float, high: float) -> None:
    """Known answers; at 0 of 300 the bootstrap would claim certainty."""
    interval = proportion(np.array([1.0] * successes + [0.0] * (n - successes)))
    assert (interval.low, interval.high) == (pytest.approx(low, abs=1e-5), pytest.approx(high, abs=1e-5))


def test_frontier_keeps_what_no_cheaper_row_equals() -> None:
    points = [(1.0, 10.0), (2.0, 10.0), (3.0, 9.0), (4.0, 50.0), (4.0, 40.0), (9.0, 51.0)]
    assert frontier(points) == [(1.0, 10.0), (4.0, 50.0), (9.0, 51.0)]


# decompositions


def diamond(**changes: dict) -> Workflow:
    steps = [
        Subtask(id="1", instruction="a", task_type="string", span=(0, 10)),
        Subtask(id="2", instruction="b", task_type="string", span=(10, 20)),
        Subtask(id="3", instruction="c", task_type="combine", span=(20, 30), depends_on=("1", "2")),
    ]
    return Workflow(steps).replace(changes)


def test_decompositions_are_compared_by_words_not_by_numbering() -> None:
    renamed = Workflow([s.model_copy(update={"id": f"n{s.id}"}) for s in diamond().subtasks[:2]] + [
        diamond()["3"].model_copy(update={"depends_on": ("n1", "n2")})
    ])  # fmt: skip
    found = compare([renamed], [diamond()])
    assert found is not None
    assert (found.exact, found.step_f1, found.edge_f1) == (1.0, 1.0, 1.0)


def test_decomposition_errors_are_counted_where_they_are() -> None:
    lost_edge = diamond(**{"3": {"depends_on": ("1",)}})
    shifted = diamond(**{"2": {"span": (12, 20), "instruction": "b'"}})
    found = compare([lost_edge, shifted, None], [diamond()] * 3)
    assert found is not None
    assert found.exact == 0
    assert found.step_f1 == pytest.approx(2 * 6 / (6 + 9))
    assert found.edge_f1 == pytest.approx(2 * 3 / (3 + 6))
    assert compare([], []) is None


# credit


def test_the_blame_for_a_failure_goes_to_the_weak_worker() -> None:
    """Two-step executions in which cell 0 is always right and cell 1 is right in one of four."""
    rng = np.random.default_rng(0)
    succeeded = rng.random(400) < 0.25
    right = infer_right(
        cell=np.tile([0, 1], 400),
        execution=np.repeat(np.arange(400), 2),
        succeeded=succeeded,
        usual=np.full(2, 0.5),
        imagined=2.0,
    )
    # Nothing but products is observed: the two rates multiply to the success rate.
    assert right[0::2].mean() * right[1::2].mean() == pytest.approx(succeeded.mean(), abs=0.03)
    alone = infer_right(
        cell=np.append(np.tile([0, 1], 400), np.zeros(100, dtype=int)),
        execution=np.append(np.repeat(np.arange(400), 2), np.arange(400, 500)),
        succeeded=np.append(succeeded, np.ones(100, dtype=bool)),
        usual=np.full(2, 0.5),
        imagined=2.0,
    )
    # Executions of cell 0 alone, all successful, show whose fault the others are.
    assert alone[0:800:2].mean() > 0.95
    assert alone[1:800:2].mean() == pytest.approx(succeeded.mean(), abs=0.05)


def test_words_tell_who_is_to_blame_where_checks_and_types_say_nothing() -> None:
    """Two experts of one type each, in executions of two steps whose texts hardly occur twice; of three fails one."""
    rng = np.random.default_rng(0)
    verbs, worker = rng.integers(2, size=800), rng.integers(3, size=800)
    texts = [f"{('turn', 'spell')[verb]} the word {rng.integers(10**6)}" for verb in verbs]
    execution = np.repeat(np.arange(400), 2)
    succeeded = (worker == verbs).reshape(400, 2).all(axis=1)
    right = credit_steps(
        texts, ["text"] * 800, execution=execution, row=np.arange(800), worker=worker, succeeded=succeeded
    )
    failed = ~succeeded[execution]
    assert right[failed & (worker == verbs)].mean() > 0.9
    assert right[failed & (worker != verbs)].mean() < 0.1


def trial(worker: str, kind: str, value: float, words: str = "", first: bool = True) -> Trial:
    return Trial(worker, kind, words, first, value)


def asked(assignment, *subtasks: tuple[str, str]) -> list[tuple[str, ...]]:
    return assignment(
        [Subtask(id=str(i), instruction=w, task_type=k) for i, (k, w) in enumerate(subtasks)], random.Random(0)
    )


def test_prior_takes_the_best_worker_per_type_and_worthwhile_fallbacks() -> None:
    log = [trial("a", "list", 9.0)] * 20 + [trial("b", "list", 4.0)] * 20 + [trial("c", "list", -30.0)] * 20
    log += [trial("a", "date", -5.0)] * 20 + [trial("b", "date", 4.0)] * 20
    log += [trial("b", "list", 10.0, first=False)] * 500  # fallbacks see what others failed at: not comparable
    prior = PriorAssignment(log, fallbacks=2)
    assert asked(prior, ("list", ""), ("date", ""), ("poem", "")) == [("a", "b"), ("b",), ("b", "a")]


def test_a_lookup_knows_steps_by_their_very_words_and_others_by_their_type() -> None:
    log = [trial("a", "list", 9.0, "sort it")] * 20 + [trial("b", "list", 8.0, "sort it")] * 20
    log += [trial("b", "list", 9.0, "turn it round")] * 20 + [trial("a", "list", 1.0, "turn it round")] * 20
    log += [trial("c", "list", 0.0, "count it")] * 20 + [trial("c", "list", 9.9, "turn it round")]  # which is no record
    lookup = LookupAssignment(log, fallbacks=0)
    assert asked(lookup, ("list", "sort it"), ("date", "turn it round")) == [("a",), ("b",)]
    assert asked(lookup, ("list", "Sort it")) == asked(PriorAssignment(log, fallbacks=0), ("list", ""))


def test_nearest_asks_who_did_well_on_similar_words() -> None:
    axes = {"sort": [1.0, 0.0], "rank": [0.9, 0.1], "count": [0.0, 1.0], "unreadable": [0.0, 0.0]}

    def embed(texts):
        return np.array([axes[text] for text in texts], dtype=np.float32)

    log = [trial("a", "", 9.0, "sort"), trial("b", "", 1.0, "sort")] * 10
    log += [trial("a", "", 1.0, "count"), trial("b", "", 9.5, "count")] * 10
    nearest = NearestAssignment(log, embed, fallbacks=0, k=5)
    assert asked(nearest, ("", "rank"), ("", "count"), ("", "unreadable")) == [("a",), ("b",), ("b",)]


# conclusions


def row(name: str, success: list[float], cost: float = 1.0, unjudged: int = 0) -> SystemRow:
    workflow = Workflow([Subtask(id="1", instruction="x")])
    results = [Result(s, 10 * s - cost, cost, 5.0, True, workflow) for s in success]
    return SystemRow(name, (*results, *[Result(NAN, NAN, NAN, NAN, True, workflow, "server down")] * unjudged))


def test_a_static_mix_costs_what_it_is_to_cost_and_solves_what_lies_between() -> None:
    cheap, dear = row("cheap", [1.0] * 2 + [0.0] * 8, cost=1.0), row("dear", [1.0] * 8 + [0.0] * 2, cost=3.0)
    beaten = row("beaten", [0.0] * 10, cost=2.0)
    mixed = static_mix([cheap, beaten, dear], 1.5)
    assert mixed is not None
    assert mixed.values("cost_usd").mean() == pytest.approx(1.5)
    assert mixed.values("success").mean() == pytest.approx(0.35)
    assert list(mixed.values("success")[:3]) == pytest.approx([1.0, 1.0, 0.25])
    assert static_mix([cheap, dear], 9.0).results == dear.results
    assert static_mix([cheap, dear], 0.5).results == cheap.results
    assert static_mix([row("unjudged", [], unjudged=3)], 1.0) is None


def test_an_invalid_plan_is_worth_less_than_every_valid_one_for_the_same_task() -> None:
    """In the absolute form a slow failure may be worth -40; an invalid plan beside it looked better."""
    plan = Workflow([Subtask(id="1", instruction="x")])

    def rewards(*values: float, workflow: Workflow | None) -> tuple[Result, ...]:
        return tuple(Result(0.0, value, 0.0, 0.0, True, workflow) for value in values)

    rows = [
        SystemRow("valid", rewards(-40.0, math.nan, 9.0, workflow=plan)),
        SystemRow("none", rewards(*[-1.0] * 3, workflow=None)),
    ]
    valid, none = rank_invalid(rows, margin=1.0)
    assert [result.reward for result in none.results] == [-41.0, -1.0, -1.0]
    assert valid == rows[0]


# Metrics of routers have the values that their papers' formulas give by hand.


COST, QUALITY = np.array([1.0, 2.0, 3.0]), np.array([0.4, 0.7, 0.8])
POINTS = st.lists(
    st.tuples(st.floats(0, 9, allow_subnormal=False), st.floats(0, 1, allow_subnormal=False)), min_size=1, max_size=20
)


def non_decreasing_hull(cost, quality):
    corners = hull_corners(cost, quality)
    return curve_through(cost[corners], quality[corners])


def test_a_point_below_the_line_between_its_neighbors_is_no_corner():
    cost, quality = non_decreasing_hull(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 0.5, 0.9, 0.8]))
    assert cost.tolist() == [0, 1, 3]
    assert quality.tolist() == [0, 0.5, 0.9]


@settings(deadline=None)
@given(POINTS)
def test_the_hull_is_above_every_point_concave_and_never_falls(points):
    cost, quality = np.array(points).T
    corners = non_decreasing_hull(cost, quality)
    assert (np.interp(cost, *corners) >= quality - 1e-9).all()
    assert (np.diff(corners[1]) >= 0).all()
    if (np.diff(corners[0]) > 1e-6).all():
        slopes = np.diff(corners[1]) / np.diff(corners[0])
        assert (np.diff(slopes) <= 1e-6 * np.abs(slopes[1:]).max(initial=1)).all()


def test_aiq_of_three_points():
    """Trapezoids: (.4 + .7) / 2 from 1 to 2, (.7 + .8) / 2 from 2 to 3; divided by the range, 2."""
    assert aiq(non_decreasing_hull(COST, QUALITY), 1, 3) == pytest.approx((0.55 + 0.75) / 2)


def test_aiq_goes_on_level_behind_the_last_point_and_from_nobody_before_the_first():
    assert aiq(non_decreasing_hull(COST, QUALITY), 1, 5) == pytest.approx((0.55 + 0.75 + 2 * 0.8) / 4)
    assert aiq(non_decreasing_hull(COST[1:2], QUALITY[1:2]), 1, 3) == pytest.approx(((0.35 + 0.7) / 2 + 0.7) / 2)


def test_hypervolume_counts_steps_not_coins():
    """From 1 to 2 the first point dominates .4, from 2 to 3 the second .7, from 3 to 4 the third .8."""
    assert hypervolume(COST, QUALITY, 4) == pytest.approx((0.4 + 0.7 + 0.8) / 4)
    assert hypervolume(COST, QUALITY, 2) == pytest.approx(0.4 / 2)


WEAK, STRONG = np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 0.0])


def test_calls_go_to_the_strong_model_by_preference():
    calls, score = calls_curve(np.array([4.0, 3.0, 2.0, 1.0]), WEAK, STRONG)
    assert calls.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert score.tolist() == [0.5, 0.75, 1, 1, 0.75]


def test_apgr_of_a_three_point_curve():
    """PGR rises from 0 to 2 at half the calls and falls to 1: (2 / 2 + 3 / 2) / 2."""
    calls, score = np.array([0.0, 0.5, 1.0]), np.array([0.6, 0.8, 0.7])
    assert apgr(calls, score) == pytest.approx(1.25)
    assert cpt(calls, score, 0.5) == pytest.approx(0.125)
    assert cpt(calls, score, 1) == pytest.approx(0.25)


@pytest.mark.slow
def test_published_figures_are_those_of_the_decisions_that_are_kept():
    assert verify.main([]) == 0
