"""What steps are asked, and how their answers become one program or one text."""

from __future__ import annotations

from typing import Any

import pytest

from orchestai.execution.assembler import assemble
from orchestai.execution.request import build_request
from orchestai.workflow import Workflow
from support.training.repeated_words import COUNT, REPEAT, SOLUTIONS, SPLIT, TASK, workflow


def run(program: str, *args: Any) -> Any:
    namespace: dict[str, Any] = {}
    exec(program, namespace)
    return namespace["task_func"](*args)


OUTPUTS = {"words": SOLUTIONS[SPLIT], "letters": SOLUTIONS[COUNT], "all": SOLUTIONS[REPEAT]}


def test_edges_are_arguments() -> None:
    assert run(assemble(TASK, workflow(), OUTPUTS, "dataflow"), "to be") == ["to", "be"] * 4


@pytest.mark.parametrize(
    "broken", ["def step(x):\n    return (", "x = 1", "raise SystemExit", "import nothing_such", ""]
)
def test_a_broken_step_fails_when_it_is_called(broken: str) -> None:
    """The program still loads, so that the failure is the step's and the tests can be counted."""
    program = assemble(TASK, workflow(), OUTPUTS | {"words": broken}, "dataflow")
    exec(program, {})
    with pytest.raises(RuntimeError, match="did not load"):
        run(program, "to be")


def test_steps_share_neither_names_nor_values() -> None:
    """Two steps may use the same helper name, and one that changes its argument changes only its own."""
    greedy = "def helper(x):\n    x.clear()\n    return 0\n\n\ndef step(x):\n    return helper(x)"
    outputs = {
        "a": "def helper(x):\n    return list(x)\n\n\ndef step(x):\n    return helper(x)",
        "b": greedy,
        "c": "def step(x):\n    return len(x)",
        "d": "def step(a, b):\n    return [a, b]",
    }
    graph = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    steps = Workflow([{"id": i, "instruction": "", "depends_on": parents} for i, parents in graph.items()])
    assert run(assemble(TASK, steps, outputs, "dataflow"), "xyz") == [0, 3]


@pytest.mark.parametrize("other", ["plain", "nested", "alone"])
def test_helpers_of_one_name_stay_apart(other: str) -> None:
    """Renamed; where a name is an argument's, too, inside the step's own function; with `globals()` in a module."""
    sources = {
        "plain": "def step(x):\n    return most(x)\n\ndef most(x):\n    return sorted(x)[-2]  # the second",
        "nested": "def step(x):\n    return most(x, most=2)\n\ndef most(x, most):\n    return sorted(x)[-most]",
        "alone": "def step(x):\n    return globals()['most'](x)\n\ndef most(x):\n    return sorted(x)[-2]",
    }
    first = "from math import sqrt\n\n# how many times\nmost = 2\n\ndef step(x):\n    return [max(x), *x * most]"
    graph = [{"id": "a", "instruction": "double it"}, {"id": "b", "instruction": "", "depends_on": ("a",)}]
    program = assemble(TASK, Workflow(graph), {"a": first, "b": sources[other]}, "dataflow")
    assert run(program, [1, 2, 3]) == 3
    assert ("exec(" in program) is (other == "alone")
    assert program.index("from math import sqrt") < program.index("# double it\n# how many times\nmost = 2")


def test_defaults_and_imports_come_from_the_programs_head() -> None:
    """BigCodeBench's tests call functions without arguments that have defaults."""
    head = "import string\n\nMOST = 3\n\ndef task_func(text: str = string.digits, count: int = MOST):\n    '''Doc.'''\n"
    task = TASK.model_copy(update={"complete_prompt": head, "parameters": ()})
    steps = Workflow([{"id": "a", "instruction": "cut"}, {"id": "b", "instruction": "same", "depends_on": ("a",)}])
    outputs = {"a": "def step(text, count):\n    return text[:count]", "b": "def step(x):\n    return x"}
    program = assemble(task, steps, outputs, "dataflow")
    assert run(program) == "012"
    assert run(program, "abcdef", 2) == "ab"
    unknown = TASK.model_copy(update={"parameters": ()})
    assert run(assemble(unknown, steps, outputs, "dataflow"), "abc", 1) == "a"


def test_signatures_follow_the_subtasks_own_example() -> None:
    """A worker's prompt depends on its words alone, so a wrong edge does not change what is asked."""
    wrong_edges = workflow().replace({"all": {"depends_on": ("words",)}, "letters": {"depends_on": ("words",)}})
    for steps in (workflow(), wrong_edges):
        requests = [build_request(TASK, steps, subtask, kind="dataflow") for subtask in steps.subtasks]
        assert [str(request.signature) for request in requests] == ["step(x)", "step(x)", "step(a, b)"]
    bare = Workflow([{"id": "a", "instruction": "cut"}, {"id": "b", "instruction": "glue", "depends_on": ("a",)}])
    two = TASK.model_copy(update={"parameters": ("left", "right")})
    asked = [str(build_request(two, bare, subtask, kind="dataflow").signature) for subtask in bare.subtasks]
    assert asked == ["step(left, right)", "step(x)"]
