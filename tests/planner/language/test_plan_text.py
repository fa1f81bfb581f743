"""Plans survive the way through text, and whatever a model writes is a plan or a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.config import PlannerConfig
from orchestai.planner.language.plan_text import parse_plan, read_plan, with_numbers, write_plan
from orchestai.workflow import Subtask, Workflow, WorkflowError

CONFIG = PlannerConfig(max_subtasks=12)
WORKERS = ["cheap", "dear", 'odd "name"']
WORDS = ["reverse it (`'a. b'` -> `'b .a'`)", "count its letters and all its words", "double the number `2` -> `4`"]
TASK = f"Do this. First, {WORDS[0]}. Then, {WORDS[1]}; after that, {WORDS[2]}. That is all."


def spanned(words: str) -> tuple[int, int]:
    start = TASK.index(words)
    return start, start + len(words)


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    n = draw(st.integers(1, 12))
    names = draw(st.permutations([str(i) for i in range(n)]))
    text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
    subtasks = []
    for i in range(n):
        words = draw(st.sampled_from(WORDS)) if draw(st.booleans()) else draw(text.filter(lambda t: t not in TASK))
        parents = draw(st.lists(st.sampled_from(names[:i]), unique=True, max_size=3)) if i else []
        subtasks.append(
            Subtask(
                id=names[i],
                instruction=words,
                task_type=draw(st.sampled_from(CONFIG.task_types)),
                worker=draw(st.sampled_from(WORKERS)),
                fallback=draw(st.lists(st.sampled_from(WORKERS), max_size=2)),
                role=draw(st.sampled_from(["", "be brief: \\ {}"])),
                depends_on=parents,
                span=spanned(words) if words in WORDS else None,
            )
        )
    return Workflow(subtasks)


@settings(deadline=None)
@given(workflows(), st.sampled_from(["whole", "numbered"]))
def test_a_plan_survives_the_way_through_text(workflow, quote):
    """Ids are renumbered; everything else, argument order and spans included, is what it was."""
    written = write_plan(workflow, TASK, quote)
    read = read_plan(written.text, TASK, WORKERS, CONFIG)
    number = {subtask.id: str(i) for i, subtask in enumerate(workflow.subtasks, start=1)}
    renumbered = [
        subtask.model_copy(
            update={"id": number[subtask.id], "depends_on": tuple(number[p] for p in subtask.depends_on)}
        )
        for subtask in workflow.subtasks
    ]
    assert read.workflow.subtasks == tuple(renumbered)
    assert read.whole
    for mark in written.marks:
        value = written.text[mark.start : mark.end]
        subtask = renumbered[mark.step]
        if mark.field == "depends_on":
            assert value in subtask.depends_on
        elif mark.field == "fallback":
            assert json.loads(f"[{value}") == list(subtask.fallback)
        else:
            assert json.loads(f'"{value}"') == getattr(subtask, mark.field)
    assert sum(mark.field == "depends_on" for mark in written.marks) == sum(len(s.depends_on) for s in renumbered)


def two_steps() -> Workflow:
    return Workflow(
        [
            Subtask(id="a", instruction=WORDS[0], task_type="string", worker="cheap", span=spanned(WORDS[0])),
            Subtask(
                id="b", instruction=WORDS[1], task_type="list", worker="dear", depends_on=("a",), span=spanned(WORDS[1])
            ),
        ]
    )


def test_parts_that_words_may_begin_with_are_numbered():
    """Not inside examples or parentheses, nor connectives; the plan then names a part instead of copying it."""
    assert with_numbers(TASK) == (
        "Do this. [1] First, reverse it (`'a. b'` -> `'b .a'`). [2] Then, count its letters and all its words; [3] "
        "after that, double the number `2` -> `4`. [4] That is all. [5]"
    )
    assert '"instruction":"[2]"' in write_plan(two_steps(), TASK, "numbered").text
    unknown = '{"subtasks":[{"id":1,"instruction":"[99]","task_type":"string","worker":"cheap"}]}'
    assert parse_plan(unknown, TASK, WORKERS, CONFIG).subtasks[0].span is None


@pytest.mark.parametrize(
    ("change", "whole"),
    [
        (lambda text: text, True),
        (lambda text: f"```json\n{text}\n```", True),
        (lambda text: f" {text}\n", True),
        (lambda text: f"Here you are: {text}", False),
        (lambda text: f"{text} {text[:30]}", False),
        (lambda text: text[:-2], False),
        (lambda text: text[:-2] + ',{"id":3,"instruction":"cut o', False),
    ],
    ids=["plain", "fenced", "spaces", "words before", "more after", "not closed", "cut off"],
)
def test_a_plan_that_has_to_be_picked_out_is_not_whole(change, whole):
    read = read_plan(change(write_plan(two_steps(), TASK, "whole").text), TASK, WORKERS, CONFIG)
    assert read.workflow.dependencies() == [[], [0]]
    assert read.whole is whole


@settings(deadline=None)
@given(st.data())
def test_what_a_model_writes_is_a_plan_or_a_reason(data):
    """Broken, repeated and shuffled pieces of a plan, and plain noise: never another error than this one."""
    good = write_plan(two_steps(), TASK, "whole").text
    cuts = sorted(data.draw(st.lists(st.integers(0, len(good)), max_size=6)))
    pieces = [good[a:b] for a, b in zip([0, *cuts], [*cuts, len(good)], strict=True)]
    text = data.draw(st.text(max_size=5)).join(data.draw(st.permutations(pieces)))
    try:
        read = read_plan(text, TASK, WORKERS, CONFIG)
    except WorkflowError as error:
        assert str(error)
    else:
        assert read.workflow.subtasks


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"subtasks":[' * 5000,
        '{"a":' * 5000,
        '[{"instruction":"x","id":' + "9" * 5000 + "}]",
        '{"subtasks":[{"id":1,"instruction":"\\ud800","task_type":"string","worker":"cheap"}]}',
        '{"subtasks":[{"id":1,"instruction":["x"]}]}',
        '{"subtasks":[{"id":1,"instruction":"x","task_type":"string","worker":"cheap","depends_on":[{}]}]}',
        '{"subtasks":[{"id":1,"instruction":"x","task_type":"string","worker":"cheap","depends_on":[1]}]}',
        '{"subtasks":[{"id":1,"instruction":"x","task_type":"string","worker":"cheap","fallback":["no"]}]}',
        '{"subtasks":[{"id":true,"instruction":"x","task_type":"string","worker":"cheap"}]}',
    ],
)
def test_hostile_replies_are_no_plans(text):
    with pytest.raises(WorkflowError):
        read_plan(text, TASK, WORKERS, CONFIG)


# JSON as models write it, in `plan_replies.jsonl`: what changes no meaning is passed over, so that all three steps are
# read, and no step is ever lost without a word.


CASES = [json.loads(line) for line in Path(__file__).with_name("plan_replies.jsonl").read_text().splitlines()]
STEPS = [("1", "do this // not that"), ("2", "do #1, or that,"), ("3", "do both")]


def test_all_steps_are_read_or_the_plan_is_refused() -> None:
    for case in CASES:
        try:
            plan = parse_plan(case["reply"], "", ["echo"], PlannerConfig())
        except WorkflowError as error:
            assert not case["reads"], f"{case['case']}: {error}"
            continue
        assert case["reads"], case["case"]
        assert [(step.id, " ".join(step.instruction.split())) for step in plan.subtasks] == STEPS, case["case"]
