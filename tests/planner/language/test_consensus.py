"""Of several plans, the one that most of them agree on is taken, and only where they agree is the planner sure."""

from __future__ import annotations

import pytest

from orchestai.planner.base import Plan
from orchestai.planner.language.planner import most_agreed, shared
from orchestai.workflow import Subtask, Workflow


def plan(*steps: tuple[int, int, tuple[int, ...]], raw_valid: bool = True) -> Plan:
    """A plan whose steps have words from one place to another, and take earlier steps."""
    return Plan(
        Workflow(
            [
                Subtask(id=str(i), instruction=f"{a} to {b}", span=(a, b), depends_on=tuple(map(str, parents)))
                for i, (a, b, parents) in enumerate(steps)
            ]
        ),
        raw_valid,
    )


CHAIN = plan((0, 10, ()), (12, 20, (0,)))
NEARLY = plan((0, 9, ()), (12, 20, (0,)))
APART = plan((0, 10, ()), (12, 20, ()))
WHOLE = plan((0, 20, ()))


def test_steps_and_edges_count_alike() -> None:
    assert shared(CHAIN, NEARLY) == 1.0
    assert shared(CHAIN, APART) == pytest.approx(2 * 2 / (3 + 2))
    assert shared(CHAIN, WHOLE) == pytest.approx(2 * 1 / (3 + 1))
    assert shared(WHOLE, CHAIN) == shared(CHAIN, WHOLE)


def test_the_plan_of_most_is_taken_and_how_many_made_it_is_its_confidence() -> None:
    taken = most_agreed([WHOLE, CHAIN, APART, NEARLY])
    assert taken.workflow is CHAIN.workflow
    assert taken.confidence == pytest.approx(1 / 3)
    assert most_agreed([APART, WHOLE]).workflow is APART.workflow
    assert most_agreed([CHAIN]).confidence == 0.0


def test_invalid_plans_have_no_vote_and_lower_the_confidence() -> None:
    invalid = plan((0, 20, ()), raw_valid=False)
    unreadable = Plan(None, False, error="no JSON")
    taken = most_agreed([unreadable, invalid, CHAIN, invalid, NEARLY])
    assert taken.workflow is CHAIN.workflow
    assert taken.confidence == pytest.approx(1 / 4)
    assert most_agreed([unreadable, invalid]) is unreadable
