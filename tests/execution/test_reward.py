"""The reward: known answers, what may never outrank what, and that what could not be judged has none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestai.config import Config
from orchestai.errors import InfrastructureError
from orchestai.execution.result import Attempt, JudgedExecution, SubtaskResult
from orchestai.execution.reward import (
    AbsoluteReward,
    Reference,
    RelativeReward,
    RewardForm,
    invalid_reward,
    reward_form,
    typical,
)
from orchestai.outcome import RewardPart, Scored, Unscorable
from orchestai.rewards.scorers import score
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow

SEED = {"alpha": 10.0, "beta": 0.1, "gamma_latency": 0.01, "shaped_reward": 0.1}
REFERENCE = Reference(2.0, 300.0, "given")


def configuration(rewards=None, **weights) -> Config:
    pool = {"w": {"kind": "tool", "tool": "texts", "card": "a worker"}}
    return Config(workers={"pool": pool}, rewards=rewards or {}, training={"phase2_rl": weights})


def configured(config: Config, measured: Reference | None) -> RewardForm | None:
    return reward_form(config.rewards, config.training.phase2_rl, measured)


def relative(success="all", reference=REFERENCE) -> RelativeReward:
    return RelativeReward(10.0, success, reference, cost_weight=0.05, latency_weight=0.02, check_weight=0.03)


def execution(outcome, cost=2.0, latency_ms=100.0, checks=(True, None, False), shares=None) -> JudgedExecution:
    shares = shares or [1 / len(checks)] * len(checks)
    results = tuple(
        SubtaskResult(
            id=str(i),
            status="done",
            attempts=(Attempt(worker="w", passed_check=check, cost_usd=cost * share),),
            kept=0,
        )
        for i, (check, share) in enumerate(zip(checks, shares, strict=True))
    )
    return JudgedExecution(
        task_id="t",
        workflow=Workflow([Subtask(id=str(i), instruction="x") for i in range(len(checks))]),
        results=results,
        outcome=outcome,
        total_cost=cost,
        total_latency_ms=latency_ms,
    )


@pytest.mark.parametrize(
    ("success", "fraction", "expected"),
    [("fraction", 0.5, 5.0 - 0.2 - 1.0 + 0.1), ("all", 0.5, 0.0 - 1.2 + 0.1), ("all", 1.0, 10.0 - 1.2 + 0.1)],
)
def test_the_absolute_form_is_the_formula_that_its_keys_stand_for(success, fraction, expected):
    """A configuration that sets them works as written, without a word about the form."""
    form = configured(configuration({"success": success}, **SEED), None)
    assert form.of(execution(Scored(fraction))).total == pytest.approx(expected)


def test_the_relative_form_by_hand():
    """Half of the cost's share at the reference; a third of the steps passed their checks; a step pays its own cost."""
    reward = relative().of(execution(Scored(1.0), cost=2.0, latency_ms=100.0, shares=(0.5, 0.5, 0.0)))
    parts = {"reward_success": 10.0, "reward_cost": -0.25, "reward_latency": -0.05, "reward_checks": 0.1}
    assert reward.contributions == pytest.approx({**parts, "reward_invalid": 0.0})
    assert [step.earned for step in reward.steps] == pytest.approx([0.1 - 0.125, -0.125, 0.0])


figures = st.tuples(st.floats(0, 1), st.floats(0, 1e6), st.floats(0, 1e9), st.lists(st.booleans(), min_size=1))
REAL = st.sampled_from([relative("all"), relative("fraction"), AbsoluteReward(10.0, "all", None, 0.1, 0.01, 0.1)])


@given(figures, REAL)
def test_the_parts_add_up_to_the_total_and_the_steps_to_their_checks_and_costs(found, form):
    fraction, cost, latency_ms, checks = found
    reward = form.of(execution(Scored(fraction), cost, latency_ms, checks))
    assert sum(reward.contributions.values()) == reward.total
    alone = reward.parts["checks"].contribution + reward.parts["cost"].contribution
    assert sum(step.earned for step in reward.steps) == pytest.approx(alone, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("weights", [{}, {"beta": 0.1}], ids=["relative", "absolute"])
def test_rewards_of_ones_own_are_added_in_shares_of_a_success(weights):
    """0.2 and -0.1 of a success of 10, times 0.5 and 3; and no invalid plan is worth more than the worst they allow."""
    functions = {"my_rewards:brevity": 0.2, "f1": -0.1}
    form = configured(configuration({"reward_weights": functions}, **weights), REFERENCE)
    run = execution(Scored(1.0))
    found = form.of(run.model_copy(update={"rewards": {"brevity": 0.5, "f1": 3.0}}))
    assert (found.parts["brevity"], found.parts["f1"]) == (RewardPart(0.5, 2.0), RewardPart(3.0, -1.0))
    assert found.total == pytest.approx(configured(configuration(**weights), REFERENCE).of(run).total + 1.0 - 3.0)
    assert "'brevity'" in form.of(run).reason, "an execution that was recorded before the reward was asked for"
    worst = run.model_copy(update={"outcome": Scored(0.0), "rewards": {"brevity": 0.0, "f1": 1.0}})
    assert form.invalid().total <= form.of(worst).total
    assert form.invalid().contributions.keys() == found.contributions.keys()
    assert not [line for line in form.remarks() if line.startswith("warning")]
    heavy = configured(configuration({"reward_weights": {"f1": 0.6, "exact": 0.4}}, **weights), REFERENCE)
    assert "rewards.reward_weights" in next(line for line in heavy.remarks() if line.startswith("warning"))


@given(figures, figures)
def test_no_price_no_latency_and_no_check_outweighs_a_success(success, failure):
    """One second of latency was worth a solved task, so that training gave success away for speed."""
    form = relative()
    solved, failed = (
        form.of(execution(Scored(outcome), cost, latency_ms, checks)).total
        for outcome, (_, cost, latency_ms, checks) in ((1.0, success), (0.0, failure))
    )
    assert solved > failed
    assert failed >= form.invalid().total + form.margin - 1e-9


@given(st.lists(figures, min_size=1, max_size=20), st.floats(-6, 6), st.floats(-6, 6), st.randoms())
def test_the_unit_of_prices_and_the_speed_of_a_pool_change_no_reward(runs, dearer, slower, chance):
    """Where the reference is the median of the same executions, free ones among them."""
    runs = [(f, cost * chance.choice((0, 1)), ms * chance.choice((0, 1)), checks) for f, cost, ms, checks in runs]
    # Below the smallest normal number a product is rounded to nothing.
    runs = [(f, cost if cost > 1e-200 else 0.0, ms if ms > 1e-200 else 0.0, checks) for f, cost, ms, checks in runs]
    rewards = []
    for price, pace in ((1.0, 1.0), (10**dearer, 10**slower)):
        scaled = [(fraction, cost * price, ms * pace, checks) for fraction, cost, ms, checks in runs]
        form = relative(reference=typical([(cost, ms) for _, cost, ms, _ in scaled], "here"))
        rewards.append([form.of(execution(Scored(f), cost, ms, checks)).total for f, cost, ms, checks in scaled])
    assert rewards[0] == pytest.approx(rewards[1], rel=1e-9)


def test_the_reference_is_typical_of_what_costs_something():
    """The median of a pool of free tools and one model is 0, which would say that nothing the model does is cheap."""
    assert typical([(0.0, 0.0), (0.0, 3.0), (0.0, 5.0), (0.4, 7.0)], "here") == Reference(0.4, 5.0, "here")
    assert typical([], "here") is None


def test_what_is_invalid_is_worth_less_than_the_worst_that_is_not():
    """Worth 0, it outranked every valid plan that failed and cost something."""
    assert invalid_reward(-1.0, 1.0, []) == -1.0
    assert invalid_reward(-1.0, 1.0, [9.0, -4.0]) == -5.0
    assert invalid_reward(-1.7, 1.0, [9.0, -0.7]) == -1.7


def test_what_could_not_be_judged_has_no_reward():
    """A zero would teach the planner to avoid plans that met a broken server."""
    reason = Unscorable("recording_missing", "no recording")
    assert relative().of(execution(reason)) is reason


@pytest.mark.parametrize(
    ("rewards", "measured", "expected"),
    [
        ({}, None, None),
        ({}, REFERENCE, (2.0, 300.0)),
        ({"cost_reference_usd": 5.0}, REFERENCE, (5.0, 300.0)),
        ({"cost_reference_usd": 5.0}, None, None),
        ({"cost_reference_usd": 5.0, "latency_reference_ms": 7.0}, None, (5.0, 7.0)),
        ({"cost_weight": 0.0, "latency_weight": 0.0}, None, (0.0, 0.0)),
    ],
)
def test_the_configuration_goes_before_what_was_measured(rewards, measured, expected):
    form = configured(configuration(rewards), measured)
    assert (form and (form.reference.cost_usd, form.reference.latency_ms)) == expected


@pytest.mark.parametrize(
    ("gives", "words"),
    [
        (ConnectionError("the judge is down"), "test_reward:.*raised ConnectionError: the judge is down.*'t'"),
        (None, "raised TypeError"),
        (math.nan, "gave nan"),
        (Unscorable("scorer", "no idea"), "no idea"),
    ],
)
async def test_a_reward_function_that_breaks_down_judges_nobody(gives, words):
    """One request of a judge that failed ended the whole training."""

    def judge(task, answer, sandbox):
        if isinstance(gives, Exception):
            raise gives
        return gives

    task = Task(task_id="t", suite="s", instruct_prompt="", test="")
    with pytest.raises(InfrastructureError, match=words) as caught:
        await score(judge, task, "answer", None)
    assert caught.value.kind == "scorer"
