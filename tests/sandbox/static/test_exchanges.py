"""Which tests exchange more with a program than copies: those are judged in `shared`, whatever the program does."""

import sys

import pytest

from orchestai.sandbox import Program, Sandbox
from orchestai.sandbox.static.exchanges import exchange_more_than_copies
from orchestai.sandbox.static.test_discovery import parsed


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
    "the path of modules": ("path.append('x')\ntask_func()", "from sys import path"),
    "warnings as errors": ("warnings.simplefilter('error')\ntask_func()", "import warnings"),
    "a function of a table": ("fs = {'a': lambda x: x}\ntask_func(fs['a'])", ""),
    "a function that a table gives": ("fs = {'a': lambda x: x}\ntask_func(fs.get('a'))", ""),
    "functions of a table in turn": ("fs = {'a': lambda x: x}\nfor name, f in fs.items(): task_func(f)", ""),
    "a table of arguments": ("given = dict(f=lambda x: x)\ntask_func(**given)", ""),
    "a list of the functions of a table": ("fs = {'a': lambda x: x}\ntask_func(list(fs.values()))", ""),
    "objects in a tuple": ("task_func(tuple(Node(n) for n in (1, 2)))", OWN),
    "a function that is set as an attribute": ("made = task_func()\nsetattr(made, 'f', lambda: 1)", ""),
    "a function that is added to an attribute": ("made = task_func()\nmade.hooks += [lambda: 1]", ""),
    "a function that a class of the tests has": (
        "task_func(self.f)",
        "class Mixin:\n    f = staticmethod(lambda x: x)",
    ),
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
    "warnings that are not printed": ("warnings.filterwarnings('ignore')\ntask_func()", "import warnings"),
    "copies of what iterators gave": ("task_func(list(map(str, [1])), tuple(range(3)), dict(zip([1], [2])))", ""),
    "values of a table": ("table = {'a': [1]}\ntask_func(table['a'], table.get('a'), list(table.items()))", ""),
    "what a file says": ("with open('x') as file: text = file.read()\ntask_func(text, file.name)", ""),
    "a path": ("task_func(os.path.join('a', 'b'))", "import os"),
}


@pytest.mark.parametrize("name", MORE)
def test_tests_that_hand_over_more_than_copies_are_known_by_their_source(name):
    assert exchange_more_than_copies(source_of(*MORE[name]), "task_func")


@pytest.mark.parametrize("name", COPIES)
def test_tests_that_exchange_copies_stay_in_split(name):
    assert not exchange_more_than_copies(source_of(*COPIES[name]), "task_func")


CHAINS = {
    "names": lambda n: "".join(f"a{i} = a{i + 1}\n" for i in range(n)) + f"a{n} = task_func(1)\n",
    "things": lambda n: "".join(f"a{i} = [a{i + 1}]\n" for i in range(n)) + f"a{n} = lambda: 1\n",
    "functions": lambda n: "".join(f"def f{i}(x):\n    f{i + 1}(x)\n    return f{i + 1}\n" for i in range(n)),
    "one function": lambda n: "def f(x): return x\n" * n + "f(f)\n" * n,
    "names at once": lambda n: f"{'a, ' * n} = {'b, ' * n}\n",
    "arguments": lambda n: f"x.append({'lambda: 1, ' * n})\n",
}


def calls_made(source):
    count = 0

    def called(*_):
        nonlocal count
        count += 1

    parsed(source)
    sys.setprofile(called)
    try:
        exchange_more_than_copies.__wrapped__(source, "task_func")
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", CHAINS)
def test_the_work_grows_with_the_length_of_the_tests_and_not_with_its_square(name):
    small, large = (calls_made(CHAINS[name](n)) for n in (50, 400))
    assert large < 10 * small


def test_the_report_says_where_a_program_was_judged_and_the_program_does_not_choose():
    code = "from unittest import mock\nimport os\ndef task_func(f): return os.environ and [f(x) for x in (1, 2)]\n"
    calls = source_of("self.assertEqual(task_func(lambda x: x + 1), [2, 3])")
    copies = source_of("with self.assertRaises(TypeError): task_func(0)")
    with Sandbox(workers=1) as sandbox:
        for source, isolation in ((calls, "shared"), (copies, "split")):
            report = sandbox.run(Program(code, source))
            assert (report.success, report.isolation) == (True, isolation), report
