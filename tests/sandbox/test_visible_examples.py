"""The check against visible examples: equal values of equal types, and no verdict where none is possible."""

import pytest

from orchestai.errors import InfrastructureError
from orchestai.sandbox import Sandbox
from orchestai.sandbox.examples import passes_examples
from orchestai.tasks.visible_examples import Example


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2) as sandbox:
        yield sandbox


EXAMPLES = (Example(("'a b'",), "['a', 'b']"), Example(("''",), "[]"))


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        ("def step(x):\n    return x.split()", True),
        ("step = str.split", True),
        ("from operator import itemgetter as step", False),
        ("def step(x):\n    return tuple(x.split())", False),
        ("def step(x):\n    return ['a', 'b']", False),
        ("def other(x):\n    return x.split()", False),
        ("def step(x:", False),
    ],
)
async def test_visible_examples(sandbox, code, passes):
    assert await passes_examples(sandbox, code, "step", EXAMPLES) is passes


@pytest.mark.parametrize(("result", "passes"), [("1", False), ("True", True), ("[True]", False)])
async def test_examples_compare_types_too(sandbox, result, passes):
    """`1 == True` in Python, but not in an example."""
    example = Example(("1",), result)
    assert await passes_examples(sandbox, "def step(x):\n    return x == 1", "step", [example]) is passes


async def test_examples_that_cannot_be_judged_are_no_verdict():
    broken = Sandbox(workers=1)
    broken.close()
    with pytest.raises((InfrastructureError, RuntimeError)):
        await passes_examples(broken, "def f(x): return x", "f", [Example(("1",), "1")])
