"""Visible examples are the only check that workers have: a misread one rejects right answers or keeps wrong ones."""

import ast

import pytest

from orchestai.tasks.composition.generate import OPERATIONS
from orchestai.tasks.visible_examples import Example, clean, parse_calls, parse_examples

SPANS = [phrasing.span for operation in OPERATIONS for phrasing in operation.phrasings]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_span_shows_one_true_example(operation):
    """The example that a span shows is what the canonical program computes, on arguments within its domain."""
    for phrasing in operation.phrasings:
        (example,) = parse_examples(phrasing.span)
        args = [ast.literal_eval(arg) for arg in example.args]
        assert tuple(args) == phrasing.args
        assert operation.domain(*args)
        assert operation.function(*args) == ast.literal_eval(example.result)


@pytest.mark.parametrize(
    ("text", "args", "result"),
    [
        ("`f('a b', [1])` returns `3`, and so on", ("'a b'", "[1]"), "3"),
        (">>> f([1, 2])\n    [2, 1]\n", ("[1, 2]",), "[2, 1]"),
        ("f(')') == 4", ("')'",), "4"),
        ("f(2) ==> True", ("2",), "True"),
        ("f(15)   # returns 'db'", ("15",), "'db'"),
        ("assert f((1, 2)) == [3]", ("(1, 2)",), "[3]"),
        ("f(1.5) should return -2.", ("1.5",), "-2"),
    ],
)
def test_example_calls(text, args, result):
    assert parse_calls(text, "f") == (Example(args, result),)


@pytest.mark.parametrize(
    "text",
    ["f(x) returns `1`", "g(1) == 2", "xf(1) == 2", "f(1) -> 19 - 5 = 14", "f([1) == 2", "f(1)\n2", "f(k=1) == 2"],
)
def test_what_is_no_example_call(text):
    """Results that go on as an expression, names that merely end alike, and open calls must not be read."""
    assert parse_calls(text, "f") == ()


@pytest.mark.parametrize("span", SPANS[::7])
def test_clean_mends_the_edges_of_a_span(span):
    """A planner whose span is off by a bracket, a comma or a connective still asks for the recorded answer."""
    assert clean(span) == span
    for variant in (f", and then {span}.", f"Then {span}", span[:-1], f"({span})", f"  {span};\n", f"and {span})"):
        assert clean(variant) == span


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
