"""Answers are judged by what is seen of them, and asking stops where one is sure enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from orchestai.estimate.answers import (
    Judge,
    SeenAnswers,
    Verdicts,
    Way,
    fit_answer_judge,
    fixed_ways,
    guarded,
    learn_judged,
    tried,
)
from orchestai.estimate.comparators import NONE, REFUSED, compare_calls, compare_numbers, compare_texts

QUERY = """Add 1 and 2.

[{"name": "math.add", "parameters": {"type": "dict", "properties": {"a": {"type": "integer"}, "how": {"type": "string",
 "enum": ["Fast", "slow"]}}, "required": ["a"]}}]""".replace("\n ", " ")


@pytest.mark.parametrize(
    "reply",
    [
        "[math.add(a=1)]",
        "math.add(a=1)",
        '[{"math_add": "{\\"a\\": 1.0}"}]',
        '{"tool_calls": [{"name": "math.add", "arguments": {"a": 1}}]}',
        '<tool_call>\n{"arguments": {"a": 1}, "name": "math_add"}\n</tool_call>',
        'math_add\n{"a": 1}',
        "['math.add(a=1)']",
    ],
)
def test_calls_are_the_same_however_they_are_written(reply):
    assert compare_calls(QUERY, reply).key == compare_calls(QUERY, "[math.add(a=1)]").key


def test_what_is_seen_of_a_call_is_whether_it_fits_its_function():
    kinds = {
        "a call": ["[math.add(a=1)]", '[math.add(a=1, how="slow")]'],
        "calls": ["[math.add(a=1), math.add(a=2)]"],
        REFUSED: ["[math.add()]", "[math.add(a='1')]", "[math.add(a=True)]", "[math.add(a=1, b=2)]", "[math.sub(a=1)]"],
        NONE: ["", "[]", "I cannot.", "```\n[math.add(a=1)]\n```", "[1, 2]", "{", "\0"],
    }
    assert {kind: [compare_calls(QUERY, reply).shown for reply in own] for kind, own in kinds.items()} == {
        kind: [kind] * len(own) for kind, own in kinds.items()
    }
    assert compare_calls(QUERY, '[math.add(a=1, how="quick-")]').shown == REFUSED
    twice, once = compare_calls(QUERY, "[f(a=1), f(a=1)]"), compare_calls(QUERY, "[f(a=1)]")
    assert twice.key != once.key


def test_numbers_are_the_same_however_they_are_written():
    for first, second in [
        ("$1,200.00", "1200"),
        ("\\frac{1}{2}", "0.5"),
        ("\\dfrac12", "1/2"),
        ("18 eggs", "18"),
        ("x=3", "3."),
    ]:
        assert compare_numbers("", first) == compare_numbers("", second)
    assert compare_numbers("", "2x") != compare_numbers("", "2")
    assert compare_numbers("", "\\sqrt{2}").shown == "formula"
    assert compare_numbers("", " ").shown == compare_texts("", " .").shown == NONE
    assert compare_texts("", "The Sea.") == compare_texts("", "the sea")


RNG = np.random.default_rng(0)
SKILL = np.array([0.9, 0.75, 0.75, 0.7, 0.6])
"""Of five workers, whose wrong answers are one of nine; the first is dear."""
RIGHT = (RNG.random((600, 5)) < SKILL).astype(float)
SAME = np.where(RIGHT == 1, 0, RNG.integers(1, 10, RIGHT.shape))
ANSWERS = SeenAnswers(SAME, np.zeros_like(SAME), np.zeros(600, dtype=np.intp), ("number",), ("",))
VERDICTS = Verdicts(RIGHT, np.tile([1.0, 0.1, 0.1, 0.1, 0.1], (600, 1)))
LEARNED, TESTED = np.arange(400), np.arange(400, 600)


def test_votes_beat_the_best_worker_and_the_fixed_rules_at_half_its_price():
    judged = learn_judged(ANSWERS.take(LEARNED), VERDICTS.take(LEARNED), 0.5)
    assert judged is not None
    decided = judged.way.decide(ANSWERS.take(TESTED))
    success, cost = decided.outcome(VERDICTS.take(TESTED))
    assert success.mean() > RIGHT[TESTED, 0].mean()
    assert cost.mean() < 0.6
    assert decided.probability.mean() == pytest.approx(success.mean(), abs=0.04)
    one = Judge.learn(ANSWERS.take(LEARNED), RIGHT[LEARNED]).votes(ANSWERS.take(TESTED))[0]
    assert one[0] == pytest.approx(np.log(9), abs=0.5)


def test_a_verdict_is_left_out_of_its_own_count():
    judge = Judge.learn(ANSWERS.take(LEARNED), RIGHT[LEARNED])
    votes = judge.votes(ANSWERS.take(LEARNED), RIGHT[LEARNED])
    without = Judge.learn(ANSWERS.take(LEARNED[1:]), RIGHT[LEARNED[1:]]).votes(ANSWERS.take(LEARNED[:1]))
    np.testing.assert_allclose(votes[:1], without)


def test_no_decision_reads_a_verdict_or_an_answer_that_was_not_paid_for():
    judged = learn_judged(ANSWERS.take(LEARNED), VERDICTS.take(LEARNED), 0.5)
    assert judged is not None
    tested = ANSWERS.take(TESTED)
    for way in [judged.way, *list(fixed_ways(ANSWERS.take(LEARNED), VERDICTS.take(LEARNED), 0.5))[:30]]:
        decided = way.decide(tested)
        assert decided.asked[np.arange(len(TESTED)), decided.worker].all()
        hidden = ~decided.asked
        others = np.where(hidden, RNG.integers(0, 10, hidden.shape), tested.same)
        again = way.decide(replace(tested, same=others, shown=np.where(hidden, 0, tested.shown)))
        np.testing.assert_array_equal(again.worker, decided.worker)
        np.testing.assert_array_equal(again.asked, decided.asked)
        np.testing.assert_array_equal(again.probability, decided.probability)


def test_fixed_ways_stop_at_the_first_that_fits_or_that_agrees():
    answers = SeenAnswers(
        np.array([[0, 1, 1], [0, 1, 2]]),
        np.array([[1, 0, 0], [0, 0, 0]]),
        np.zeros(2, dtype=np.intp),
        ("ok", REFUSED),
        ("",),
    )
    order = np.arange(3)
    fits, agrees = (way.decide(answers) for way in (Way(order, refused=(1,)), Way(order, "agree")))
    assert (fits.worker.tolist(), fits.asked.sum(axis=1).tolist()) == ([1, 0], [2, 1])
    assert (agrees.worker.tolist(), agrees.asked.sum(axis=1).tolist()) == ([1, 0], [3, 3])


def test_the_guard_keeps_the_fixed_way_unless_judging_clearly_scores_more():
    [fixed] = tried(iter([Way(np.array([0]))]), ANSWERS, VERDICTS)
    little, much = fixed.success.copy(), fixed.success.copy()
    little[np.flatnonzero(little == 0)[:2]] = 1
    little[np.flatnonzero(fixed.success == 1)[0]] = 0
    much[:] = 1
    assert guarded(replace(fixed, success=little), fixed) is fixed
    assert guarded(replace(fixed, success=much), fixed) is not fixed
    assert guarded(None, fixed) is fixed


def test_decisions_one_answer_at_a_time_are_those_on_the_table():
    """Each live decision is given the answers so far, and nothing else."""
    queries = [f"query {row}" for row in range(600)]
    replies = [[str(said) for said in row] for row in SAME]
    verdicts = VERDICTS.take(LEARNED)
    some = np.where(RNG.random(verdicts.right.shape) < 0.02, np.nan, verdicts.right)
    judge = fit_answer_judge(queries[:400], ("",) * 400, replies[:400], replace(verdicts, right=some))
    assert judge is not None
    assert judge.success[-1] > RIGHT[TESTED, 0].mean()
    assert (judge.asked[judge.usual] @ VERDICTS.cost_usd[0]) <= 1 + 1e-9
    seen = SeenAnswers.of(queries, ("",) * 600, replies, compare_numbers).take(TESTED)
    shown = np.array([judge.kinds.index(kind) for kind in seen.kinds])[seen.shown]
    for number, way in enumerate(judge.ways):
        decided = way.decide(replace(seen, shown=shown))
        for place, row in enumerate(TESTED[:40].tolist()):
            so_far: list[tuple[int, str, bool]] = []
            for worker in way.order.tolist():
                so_far.append((worker, replies[row][worker], False))
                kept, done, probability = judge.decide(number, queries[row], "", so_far)
                if done:
                    break
            assert (so_far[kept][0], len(so_far)) == (decided.worker[place], decided.asked[place].sum())
            assert probability == pytest.approx(decided.probability[place])
