"""The almanac suite: disjoint splits, honest references, and answers that are read in whatever format."""

import asyncio
import hashlib
import json
import re
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.tasks import load_suite
from orchestai.tasks.task import REFERENCE_OUTPUTS, Task
from orchestai.workers.base import Request
from orchestai_almanac import arithmetic, comparison
from orchestai_almanac.generate import SPLITS, generate, generate_questions
from orchestai_almanac.marked import read_marks
from orchestai_almanac.pages import pages
from orchestai_almanac.scoring import says, scorer
from orchestai_almanac.values import dates, quantities

PAGES = "3025ce52"
"""A change of the pages makes the recording and all figures stale."""


def test_the_pages_are_those_that_figures_were_measured_on():
    text = json.dumps([[page.kind, page.title, page.text] for page in pages()])
    assert len(pages()) == 308
    assert hashlib.sha256(text.encode()).hexdigest()[:8] == PAGES


def test_no_two_splits_compute_the_same():
    computed = {
        name: {question.computation.signature for question in generate_questions(split)}
        for name, split in SPLITS.items()
    }
    assert {name: len(found) for name, found in computed.items()} == {n: s.size for n, s in SPLITS.items()}
    assert all(not computed[a] & computed[b] for a, b in combinations(computed, 2))


def test_a_split_is_the_same_every_time():
    assert generate(SPLITS["validation"]) == load_suite("almanac").split("validation")


def test_test_questions_have_wordings_of_their_own():
    """Else a planner could learn the templates by heart."""
    words = {name: " ".join(t.instruction for t in generate(split)) for name, split in SPLITS.items()}
    for phrase in ("spelled roughly", "number of residents", "My notes on"):
        assert phrase in words["test"]
        assert phrase not in words["train"] + words["validation"]


def test_no_fresh_question_computes_what_was_looked_at():
    test, fresh = ({q.computation.signature for q in generate_questions(SPLITS[name])} for name in ("test", "fresh"))
    assert not test & fresh
    assert len(fresh) == SPLITS["fresh"].size


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["train", "test"]))
def test_the_reference_plan_with_right_steps_gives_the_reference_answer(seed, name):
    """Pages and values come from the reference; arithmetic and comparison are done by the tools, on texts."""
    for task in generate(replace(SPLITS[name], size=25), seed):
        assert scorer(task, asyncio.run(run_reference(task)), None) == 1.0, task.instruction


async def run_reference(task: Task) -> str:
    assert task.reference is not None
    known = task.details[REFERENCE_OUTPUTS]
    outputs: dict[str, str] = {}
    for step in task.reference.order():
        assert task.instruction[slice(*step.span)] == step.instruction
        request = Request(step.instruction, inputs={parent: outputs[parent] for parent in step.depends_on})
        if step.task_type in ("lookup", "extract"):
            outputs[step.id] = known[step.id]
        elif step.task_type == "compare":
            outputs[step.id] = await comparison.compare(request)
        elif dates(next(iter(request.inputs.values()))):
            outputs[step.id] = await arithmetic.with_dates(request)
        else:
            outputs[step.id] = await arithmetic.with_units(request)
    return outputs[task.reference.sinks()[-1].id]


def test_extracted_values_stand_on_the_page_that_was_looked_up():
    for task in generate(SPLITS["validation"]):
        assert task.reference is not None
        outputs = task.details[REFERENCE_OUTPUTS]
        for step in task.reference.subtasks:
            if step.task_type == "extract":
                assert outputs[step.id] in outputs[step.depends_on[0]]


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("She was launched on 3 May 1871.", "1871-05-03", True),
        ("May 3rd, 1871", "the 3rd of May 1871", True),
        ("3 May 1872", "1871-05-03", False),
        ("between 3 May 1871 and 4 May 1871", "1871-05-03", False),
        ("656.2 feet", "200 m", True),
        ("200", "200 m", False),
        ("210 m", "200 m", False),
        ("4,310 people", "4310", True),
        ("4311", "4310", False),
        ("36 years", "36 years", True),
        ("36", "36 years", True),
        ("36 days", "36 years", False),
        ("The Grey Heron.", "Grey Heron", True),
        ("Grey Heron or Grey Petrel", "Grey Heron", False),
        ("", "Grey Heron", False),
    ],
)
def test_what_an_answer_says(answer, reference, right):
    assert says(answer, reference) is right


def test_numbers_in_dates_are_no_quantities():
    text = "On 3 May 1871 the tower, 1,250 feet high, had 12 steps; 1880-01-02."
    assert [str(found) for found in quantities(text)] == ["1,250 ft", "12"]
    assert [day.isoformat() for day in dates(text)] == ["1871-05-03", "1880-01-02"]
    assert dates("31 February 1871") == []


def test_marks_are_nested_and_shared():
    text, spans = read_marks("[2|Which is longer, [0|A] or [1|B]], by [3,4|length]?")
    assert text == "Which is longer, A or B, by length?"
    assert {step: text[slice(*span)] for step, span in spans.items()} == {
        0: "A",
        1: "B",
        2: "Which is longer, A or B",
        3: "length",
        4: "length",
    }
    for broken in ("[0|A", "A]", "[0|A] [0|B]"):
        with pytest.raises(ValueError, match=re.escape(repr(broken))):
            read_marks(broken)
