"""The embedded suite is what everything is measured on: its references are exact, its tests sharp, its splits apart."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from random import Random

import pytest

from benchmarks.composition import measure, mutants, passes
from orchestai.tasks import data_fingerprint, load_suite
from orchestai.tasks.composition.generate import BY_NAME, OPERATIONS, SPLITS, generate_pairs
from orchestai.tasks.composition.graph import INPUT, Composition, Node
from orchestai.tasks.composition.probes import sample
from orchestai.tasks.visible_examples import Example, clean, parse_calls, parse_examples

RNG = Random(0)


@pytest.fixture(scope="module")
def splits():
    return {name: generate_pairs(split) for name, split in SPLITS.items()}


def test_operations_compute_values_of_their_kind():
    """Results have the declared kind, the same arguments give the same result, and arguments are left alone."""
    kinds = {"str": str, "int": int, "ints": list, "words": list, "dict": dict, "date": str}
    for operation in [operation for operation in OPERATIONS for _ in range(30)]:
        args = [sample(kind, RNG) for kind in operation.inputs]
        if operation.domain(*args):
            before = copy.deepcopy(args)
            result = operation.function(*args)
            assert type(result) is kinds[operation.output], operation.name
            assert args == before
            assert operation.function(*args) == result
            if operation.commutative:
                assert operation.function(*args[::-1]) == result


def test_no_composition_is_in_two_splits(splits):
    """Apart by composition, whatever the wording and the order of branches."""
    seen: set[str] = set()
    for pairs in splits.values():
        signatures = [composition.signature for _, composition in pairs]
        assert len(set(signatures)) == len(signatures)
        assert seen.isdisjoint(signatures)
        seen.update(signatures)


def test_train_shows_every_operation_in_every_wording(splits):
    spans = {subtask.instruction for task, _ in splits["train"] for subtask in task.reference.subtasks}
    assert spans == {phrasing.span for operation in OPERATIONS for phrasing in operation.phrasings}


def test_references_are_exact(splits):
    """Each step's span is its instruction, types and edges are those of the composition, and the last is the sink."""
    for task, composition in [pair for pairs in splits.values() for pair in pairs[:60]]:
        workflow = task.reference
        assert [subtask.id for subtask in workflow.sinks()] == [str(len(workflow))]
        for subtask, node in zip(workflow.subtasks, composition.nodes, strict=True):
            start, end = subtask.span
            assert task.instruction[start:end] == subtask.instruction == clean(subtask.instruction)
            assert subtask.task_type == node.operation.task_type
            assert subtask.depends_on == tuple(str(parent + 1) for parent in node.parents if parent != INPUT)
            assert list(node.parents) == sorted(node.parents)


def test_visible_calls_are_read_true_and_not_among_the_hidden_tests(splits):
    for task, composition in splits["validation"][:80]:
        calls = parse_calls(task.instruction, task.entry_point)
        assert len(calls) == 2
        for call in calls:
            (argument,) = (eval(source, {}) for source in call.args)
            assert composition.call(argument) == eval(call.result, {})
            assert f"task_func({call.args[0]})" not in task.test


def test_canonical_programs_pass_and_one_step_less_fails(splits):
    for task, composition in splits["test"][:60]:
        assert task.test.count("    def test_") >= 6
        assert passes(task, task.canonical_solution)
        shorter = Composition(composition.kind, composition.nodes[:-1])
        assert not passes(task, shorter.program(task.parameters[0]))


def test_hidden_tests_kill_mutants(splits):
    found = measure(splits["test"][::16], OPERATIONS)
    assert found.killed.total() > 300
    assert found.rate > 0.97


def test_mutants_are_told_equivalent_by_behaviour():
    """Swapping the arguments of an addition is the same program, which must not count as a survivor."""
    nodes = [Node(BY_NAME[name], (INPUT,)) for name in ("text_length", "count_vowels")]
    composition = Composition("str", (*nodes, Node(BY_NAME["add"], (0, 1))))
    sorts = Counter(sort for sort, _ in mutants(composition, OPERATIONS))
    assert (sorts["swap"], sorts["edge"], sorts["drop"]) == (1, 2, 2)


def test_the_suite_is_the_same_every_time():
    """Recordings and reported figures belong to these very tasks."""
    one, other = load_suite("composition"), load_suite("composition")
    assert data_fingerprint(one.split("validation")) == data_fingerprint(other.split("validation"))
    assert data_fingerprint(one.split("validation")) != data_fingerprint(one.split("longer"))


# Visible examples are the only check that workers have: a misread one rejects right answers or keeps wrong ones.


PHRASINGS = [(operation, phrasing) for operation in OPERATIONS for phrasing in operation.phrasings]


def test_every_span_shows_one_true_example():
    """The example that a span shows is what the canonical program computes, on arguments within its domain."""
    for operation, phrasing in PHRASINGS:
        (example,) = parse_examples(phrasing.span)
        args = [ast.literal_eval(arg) for arg in example.args]
        assert tuple(args) == phrasing.args
        assert operation.domain(*args)
        assert operation.function(*args) == ast.literal_eval(example.result)


CALLS = [
    ("`f('a b', [1])` returns `3`, and so on", ("'a b'", "[1]"), "3"),
    (">>> f([1, 2])\n    [2, 1]\n", ("[1, 2]",), "[2, 1]"),
    ("f(')') == 4", ("')'",), "4"),
    ("f(2) ==> True", ("2",), "True"),
    ("f(15)   # returns 'db'", ("15",), "'db'"),
    ("assert f((1, 2)) == [3]", ("(1, 2)",), "[3]"),
    ("f(1.5) should return -2.", ("1.5",), "-2"),
]


def test_example_calls():
    assert [(text, *parse_calls(text, "f")) for text, _, _ in CALLS] == [
        (text, Example(args, result)) for text, args, result in CALLS
    ]


def test_what_is_no_example_call():
    """Results that go on as an expression, names that merely end alike, and open calls must not be read."""
    odd = ["f(x) returns `1`", "g(1) == 2", "xf(1) == 2", "f(1) -> 19 - 5 = 14", "f([1) == 2", "f(1)\n2", "f(k=1) == 2"]
    assert [text for text in odd if parse_calls(text, "f")] == []


def test_clean_mends_the_edges_of_a_span():
    """A planner whose span is off by a bracket, a comma or a connective still asks for the recorded answer."""
    for span in [phrasing.span for _, phrasing in PHRASINGS[::7]]:
        around = (f", and then {span}.", f"Then {span}", span[:-1], f"({span})", f"  {span};\n", f"and {span})")
        assert {clean(variant) for variant in (span, *around)} == {span}


@pytest.mark.parametrize(
    ("text", "examples"),
    [
        ("Sum a list, for example [1, 2, 3] -> 6", [("[1, 2, 3]", "6")]),
        ("Beispiel: 4 -> True", [("4", "True")]),
        ("turn 'a' => 'b' and `1` -> `2`", [("'a'", "'b'"), ("1", "2")]),
        ("(2, 3) -> 5", []),
        ("f(2) -> 4, f(1, 2) -> 3", []),
        ("from A4 -> 5 pages", []),
    ],
)
def test_examples_without_backticks_have_one_argument(text, examples):
    assert parse_examples(text) == tuple(Example((arg,), result) for arg, result in examples)
