"""JSON as models write it: what changes no meaning is passed over, and no step is ever lost without a word."""

from __future__ import annotations

import json

import pytest

from orchestai.config import PlannerConfig
from orchestai.planner.language.plan_text import parse_plan
from orchestai.workflow import WorkflowError

ONE, TWO, THREE = (
    f'{{"id": {i}, "instruction": "do {word}", "task_type": "string", "worker": "echo", "depends_on": {parents}}}'
    for i, word, parents in [(1, "this // not that", []), (2, "#1, or that,", []), (3, "both", [1, 2])]
)
WHOLE = f'{{"subtasks": [{ONE}, {TWO}, {THREE}]}}'
BEGUN = '{"subtasks": ['
READ = {
    "whole": WHOLE,
    "begun": f"{BEGUN}{ONE}, {TWO}, {THREE}]}}",
    "begun twice": BEGUN + WHOLE,
    "comma at the end of a step": f"{BEGUN}{ONE}, {TWO[:-1]},}}, {THREE}]}}",
    "comma at the end of the list": f"{BEGUN}{ONE}, {TWO}, {THREE},]}}",
    "comma at the end of a list within": f"{BEGUN}{ONE}, {TWO}, {THREE.replace('[1, 2]', '[1, 2,]')}]}}",
    "comments": f"{BEGUN} // first\n{ONE}, /* then */ {TWO}, # last\n{THREE}]}}",
    "comment in a step": f"{BEGUN}{ONE}, {TWO.replace(', ', ', // why' + chr(10), 1)}, {THREE}]}}",
    "no commas between steps": f"{BEGUN}{ONE}\n{TWO}\n{THREE}]}}",
    "blank lines": f"{BEGUN}\n\n{ONE},\n\n{TWO},\n\n{THREE}\n\n]}}",
    "a line's end in a text": WHOLE.replace("do both", "do\nboth"),
    "one dependency, no list": WHOLE.replace("[1, 2]", "1").replace("[]", "null"),
    "a draft before": f"{WHOLE.replace('both', 'nothing')}\nNo: \n```json\n{WHOLE}\n```",
    "a cut draft before": f"{BEGUN}{ONE[:20]}\nAgain:\n{WHOLE}",
    "words about it after": f"{WHOLE}\nStep {{1}} comes first, then {{2}}.",
    "thoughts before": f"<think>\n{BEGUN}{ONE}]}}\n</think>\n{WHOLE}",
    "single quotation marks": f"{BEGUN}{ONE}, {TWO.replace(chr(34), chr(39))}, {THREE}]}}",
    "Python's": str(json.loads(WHOLE)).replace("[]", "None"),
    "Python's, after a step in JSON": f"{ONE}\n{json.loads(TWO)}\n{json.loads(THREE)}",
    "typographic quotation marks": WHOLE.replace('"depends_on"', "“depends_on”"),
    "keys without quotation marks": WHOLE.replace('"instruction"', "instruction").replace('"id"', "id"),
    "a list": f"[{ONE}, {TWO}, {THREE}]",
    "not closed": f"{BEGUN}{ONE}, {TWO}, {THREE}",
}
REFUSED = {
    "quotation marks in a text": f"{BEGUN}{ONE}, {TWO.replace('that', chr(34) + 'that' + chr(34))}, {THREE}]}}",
    "a colon missing": f"{BEGUN}{ONE}, {TWO.replace('id' + chr(34) + ':', 'id' + chr(34))}, {THREE}]}}",
    "a comma missing in a step": f"{BEGUN}{ONE}, {TWO.replace(', ', ' ')}, {THREE}]}}",
    "a single quotation mark within such": f"{BEGUN}{ONE}, {{'id': 2, 'instruction': 'it's'}}, {THREE}]}}",
    "a typographic mark within such": f"{BEGUN}{ONE}, {{“id”: 2, “instruction”: “a “b” c”}}, {THREE}]}}",
    "a step of another key": WHOLE.replace('"instruction": "do #1', '"description": "do #1'),
    "a text for a step": f'{BEGUN}{ONE}, "do that", {THREE.replace("1, 2", "1")}]}}',
    "null for a step": f"{BEGUN}{ONE}, null, {THREE.replace('1, 2', '1')}]}}",
    "an unknown word": f"{BEGUN}{ONE}, {TWO.replace(': 2', ': two')}, {THREE}]}}",
    "cut off in a step": f"{BEGUN}{ONE}, {TWO}, {THREE[:40]}",
    "cut off before its instruction": f"{BEGUN}{ONE}, {TWO}, {THREE[:9]}",
    "cut off in the first step": f"{BEGUN}{ONE[:40]}",
    "a plan, and another step": f"{WHOLE}\n{THREE.replace('3', '4', 1)}",
    "a plan, and a broken one": f"{WHOLE}\n{BEGUN}{ONE}, {TWO.replace(': 2', ': two')}]}}",
    "an id twice": f"{BEGUN}{ONE}, {ONE}]}}",
    "a parent that is an object": WHOLE.replace("[1, 2]", '{"a": 1}'),
    "nothing": "I cannot plan that.",
}


@pytest.mark.parametrize("case", READ)
def test_all_steps_are_read(case: str) -> None:
    plan = parse_plan(READ[case], "", ["echo"], PlannerConfig())
    assert [step.id for step in plan.subtasks] == ["1", "2", "3"]
    assert " ".join(plan.subtasks[2].instruction.split()) == "do both"
    assert [step.instruction for step in plan.subtasks[:2]] == [json.loads(each)["instruction"] for each in (ONE, TWO)]


@pytest.mark.parametrize("case", REFUSED)
def test_no_step_is_lost_without_a_word(case: str) -> None:
    with pytest.raises(WorkflowError):
        parse_plan(REFUSED[case], "", ["echo"], PlannerConfig())
