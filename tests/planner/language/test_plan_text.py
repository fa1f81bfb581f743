"""Plans survive the way through text, and whatever a model writes is a plan or a reason."""

from __future__ import annotations

import json

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


# JSON as models write it: what changes no meaning is passed over, and no step is ever lost without a word.


ONE, TWO, THREE = (
    f'{{"id": {i}, "instruction": "do {word}", "task_type": "string", "worker": "echo", "depends_on": {parents}}}'
    for i, word, parents in [(1, "this // not that", []), (2, "#1, or that,", []), (3, "both", [1, 2])]
)
WHOLE = f'{{"subtasks": [{ONE}, {TWO}, {THREE}]}}'
BEGUN = '{"subtasks": ['
READ = {
    "whole": WHOLE,
    "begun": f"{BEGUN}{ONE}, {TWO}, {THREE}]}}",
    "comma at the end of a step": f"{BEGUN}{ONE}, {TWO[:-1]},}}, {THREE}]}}",
    "comma at the end of a list within": f"{BEGUN}{ONE}, {TWO}, {THREE.replace('[1, 2]', '[1, 2,]')}]}}",
    "comments": f"{BEGUN} // first\n{ONE}, /* then */ {TWO}, # last\n{THREE}]}}",
    "no commas between steps": f"{BEGUN}{ONE}\n{TWO}\n{THREE}]}}",
    "a line's end in a text": WHOLE.replace("do both", "do\nboth"),
    "one dependency, no list": WHOLE.replace("[1, 2]", "1").replace("[]", "null"),
    "a draft before": f"{WHOLE.replace('both', 'nothing')}\nNo: \n```json\n{WHOLE}\n```",
    "thoughts before": f"<think>\n{BEGUN}{ONE}]}}\n</think>\n{WHOLE}",
    "single quotation marks": f"{BEGUN}{ONE}, {TWO.replace(chr(34), chr(39))}, {THREE}]}}",
    "Python's": str(json.loads(WHOLE)).replace("[]", "None"),
    "Python's, after a step in JSON": f"{ONE}\n{json.loads(TWO)}\n{json.loads(THREE)}",
    "typographic quotation marks": WHOLE.replace('"depends_on"', "“depends_on”"),
    "keys without quotation marks": WHOLE.replace('"instruction"', "instruction").replace('"id"', "id"),
    "a list": f"[{ONE}, {TWO}, {THREE}]",
    "not closed": f"{BEGUN}{ONE}, {TWO}, {THREE}",
    "another name": WHOLE.replace("subtasks", "steps"),
    "within another object": f'{{"plan": {WHOLE}}}',
    "NaN in a key that no step has": WHOLE.replace('"id": 2', '"score": NaN, "id": 2'),
    "the arguments of a call": json.dumps({"name": "plan", "arguments": WHOLE}),
    "a list of calls": json.dumps([{"function": {"name": "plan", "arguments": WHOLE}}]),
    "a text of JSON": json.dumps(WHOLE),
    "ids that are numbers and texts": WHOLE.replace("[1, 2]", '[1.0, "2"]').replace('"id": 1', '"id": "1"'),
    "prose before an unclosed list": f"As in [1]: {BEGUN}{ONE}, {TWO}, {THREE}]",
    "a key twice, and the same": WHOLE.replace('"id": 2', '"id": 2, "id": 2'),
}
REFUSED = {
    "quotation marks in a text": f"{BEGUN}{ONE}, {TWO.replace('that', chr(34) + 'that' + chr(34))}, {THREE}]}}",
    "a comma missing in a step": f"{BEGUN}{ONE}, {TWO.replace(', ', ' ')}, {THREE}]}}",
    "a single quotation mark within such": f"{BEGUN}{ONE}, {{'id': 2, 'instruction': 'it's'}}, {THREE}]}}",
    "a typographic mark within such": f"{BEGUN}{ONE}, {{“id”: 2, “instruction”: “a “b” c”}}, {THREE}]}}",
    "a step of another key": WHOLE.replace('"instruction": "do #1', '"description": "do #1'),
    "a text for a step": f'{BEGUN}{ONE}, "do that", {THREE.replace("1, 2", "1")}]}}',
    "null for a step": f"{BEGUN}{ONE}, null, {THREE.replace('1, 2', '1')}]}}",
    "cut off in a step": f"{BEGUN}{ONE}, {TWO}, {THREE[:40]}",
    "cut off before its instruction": f"{BEGUN}{ONE}, {TWO}, {THREE[:9]}",
    "a plan, and another step": f"{WHOLE}\n{THREE.replace('3', '4', 1)}",
    "a plan, and a broken one": f"{WHOLE}\n{BEGUN}{ONE}, {TWO.replace(': 2', ': two')}]}}",
    "two instructions": WHOLE.replace('"id": 2', '"id": 2, "instruction": "do this"'),
    "two lists of steps": f'{{"subtasks": [{ONE}], "subtasks": [{ONE}, {TWO}]}}',
    "an id twice": f"{BEGUN}{ONE}, {ONE}]}}",
    "a parent that is an object": WHOLE.replace("[1, 2]", '{"a": 1}'),
    "bare words for a step": f"{BEGUN}{ONE}, do that]}}",
    "bare words for the first step": f"{BEGUN}do that, {TWO}]}}",
    "bare words between steps": f"{BEGUN}{ONE}, do that, {THREE.replace('1, 2', '1')}]}}",
    "bare words, then cut off": f"{BEGUN}{ONE}, do that, {THREE[:40]}",
    "dots for a step": f"{BEGUN}{ONE}, ..., {THREE.replace('1, 2', '1')}]}}",
    "an object for a step that is not closed": f'{BEGUN}{ONE}, {{"text": do, {TWO}]}}',
    "a line without instruction": f'{ONE}\n{{"id": 2, "task": "do that"}}',
    "a step within a step": f'{BEGUN}{ONE[:-1]}, "then": [{TWO}]}}]}}',
    "a text of steps within a step": f'{BEGUN}{ONE[:-1]}, "then": {json.dumps(f"[{TWO}]")}}}]}}',
    "two lists under two names": f'{{"subtasks": [{ONE}], "more": [{TWO}]}}',
    "two plans that go on": f"{BEGUN}{ONE}]}}\n{BEGUN}{TWO}]}}",
    "a step before a plan": f"{ONE}\n{BEGUN}{TWO}]}}",
    "steps after much that is no JSON": f"{ONE} {'{x ' * 120}{TWO}",
    "an id that is no number": WHOLE.replace('"id": 2', '"id": NaN'),
    "nothing": "I cannot plan that.",
}


def test_all_steps_are_read() -> None:
    wanted = [(str(i), json.loads(each)["instruction"]) for i, each in enumerate((ONE, TWO, THREE), start=1)]
    for case, text in READ.items():
        plan = parse_plan(text, "", ["echo"], PlannerConfig())
        assert [(step.id, " ".join(step.instruction.split())) for step in plan.subtasks] == wanted, case


def test_no_step_is_lost_without_a_word() -> None:
    for case, text in REFUSED.items():
        with pytest.raises(WorkflowError):
            pytest.fail(f"{case}: {parse_plan(text, '', ['echo'], PlannerConfig())}")
