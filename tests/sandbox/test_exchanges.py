"""Which tests exchange more with a program than copies: those are judged in `shared`, whatever the program does."""

import pytest

from orchestai.sandbox import Program, Sandbox
from orchestai.sandbox.static.exchanges import exchange_more_than_copies


def source_of(body: str, head: str = "", method: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return f"import unittest\n{head}\nclass T(unittest.TestCase):\n    def test(self):\n{lines}    {method}\n"


OWN = "class Node:\n    def __init__(self, *children): self.children = children"
MORE = {
    "a lambda": ("self.assertEqual(task_func(lambda x: x + 1), 2)", ""),
    "a lambda by name and keyword": ("double = lambda x: 2 * x\ntask_func([1], key=double)", ""),
    "a function in a list": ("def f(x): return x\ntask_func([(1, f)])", ""),
    "a function of the module": ("task_func(f)", "def f(x): return x"),
    "a function in turn": (
        "for f, expected in [(abs, 1), (lambda x: 2, 2)]: self.assertEqual(task_func(f), expected)",
        "",
    ),
    "a function that a helper of the tests hands on": (
        "self.check(lambda: 1)",
        "",
        "def check(self, f): task_func(f)",
    ),
    "a method that remembers": ("seen = []\ntask_func(seen.append)", ""),
    "a method of the test case": ("task_func(self.called)", "", "def called(self): pass"),
    "a function to what the program made": ("bus = task_func()\nbus.on('a', lambda x: x)", ""),
    "a function where it is expected to fail": ("self.assertRaises(ValueError, task_func, lambda: 1)", ""),
    "a function to a helper of the program": ("subscribe(lambda: 1)", ""),
    "a function that becomes an attribute": ("task_func().hook = lambda: 1", ""),
    "a partial function": ("from functools import partial\ntask_func(partial(lambda x, y: x, 1))", ""),
    "an operand": ("task_func(1) | (lambda x: x)", ""),
    "a decorated function": ("@task_func\ndef f(x): return x\nself.assertEqual(f(1), 2)", ""),
    "a function decorated with arguments": ("@task_func(3)\ndef f(x): return x", ""),
    "a function decorated by what was made": ("cached = task_func()\n@cached\ndef f(x): return x", ""),
    "an iterator": ("it = iter([1, 2])\nself.assertEqual(task_func(it), 1)", ""),
    "a generator": ("task_func(x for x in (1, 2))", ""),
    "a generator of the tests": ("task_func(numbers())", "def numbers():\n    yield 1"),
    "an open file": ("with open('x') as file: task_func(file)", ""),
    "a stream": ("task_func(io.StringIO('a'))", "import io"),
    "an object": ("task_func(Node())", OWN),
    "an object in a list that grows": ("nodes = []\nnodes.append(Node())\ntask_func(nodes)", OWN),
    "an object that a helper made": ("task_func(make())", f"{OWN}\ndef make(): return Node()"),
    "an object of setUp": ("task_func(self.node)", OWN, "def setUp(self): self.node = Node()"),
    "a class": ("task_func(Node)", OWN),
    "a named tuple": ("task_func(Pair(1, 2))", "from collections import namedtuple\nPair = namedtuple('Pair', 'a b')"),
    "a mock": ("task_func(MagicMock())", "from unittest.mock import MagicMock"),
    "a patch": ("with unittest.mock.patch('time.time'): task_func()", "import unittest.mock"),
    "warnings": ("with self.assertWarns(UserWarning): task_func()", ""),
    "recorded warnings": ("with warnings.catch_warnings(record=True): task_func()", "import warnings"),
    "logs": ("with self.assertLogs(): task_func()", ""),
    "the environment": ("os.environ['A'] = '1'\ntask_func()", "import os"),
    "the working directory": ("os.chdir('x')\ntask_func()", "import os"),
    "standard input": ("sys.stdin = text\ntask_func()", "import sys"),
    "arguments of the command": ("from sys import argv\ntask_func()", ""),
}
COPIES = {
    "plain values": ("self.assertEqual(task_func([1, {'a': (2,)}], key='x'), 3)", ""),
    "functions of the tests for the tests": ("self.assertEqual(sorted(task_func(1), key=lambda x: -x), [2, 1])", ""),
    "a function that looks at the result": (
        "self.assertTrue(all(map(is_even, task_func(2))))",
        "def is_even(x): return True",
    ),
    "a helper of the tests": ("self.check(task_func(2), 4)", "", "def check(self, a, b): self.assertEqual(a, b)"),
    "values that a helper made": ("task_func(make(3))", "def make(n): return [0] * n"),
    "a deferred call": ("self.assertRaises(ValueError, lambda: task_func(0))", ""),
    "what iterators were spent on": ("task_func(list(zip([1], [2])), sum(x for x in (1, 2)))", ""),
    "files by name": ("with open('x', 'w') as file: file.write('a')\ntask_func('x')", ""),
    "files that are read": ("task_func('x')\nwith open('x') as file: self.assertEqual(json.load(file), 1)", ""),
    "columns": ("task_func(df.columns, df.values)", "import pandas as pd\ndf = pd.DataFrame()"),
    "the word mock in a text": ("task_func('mock environ stdin lambda x: x')", ""),
    "a path": ("task_func(os.path.join('a', 'b'))", "import os"),
}


@pytest.mark.parametrize("name", MORE)
def test_tests_that_hand_over_more_than_copies_are_known_by_their_source(name):
    assert exchange_more_than_copies(source_of(*MORE[name]), "task_func")


@pytest.mark.parametrize("name", COPIES)
def test_tests_that_exchange_copies_stay_in_split(name):
    assert not exchange_more_than_copies(source_of(*COPIES[name]), "task_func")


def test_the_report_says_where_a_program_was_judged_and_the_program_does_not_choose():
    code = "from unittest import mock\nimport os\ndef task_func(f): return os.environ and [f(x) for x in (1, 2)]\n"
    calls = source_of("self.assertEqual(task_func(lambda x: x + 1), [2, 3])")
    copies = source_of("with self.assertRaises(TypeError): task_func(0)")
    with Sandbox(workers=1) as sandbox:
        for source, isolation in ((calls, "shared"), (copies, "split")):
            report = sandbox.run(Program(code, source))
            assert (report.success, report.isolation) == (True, isolation), report
