"""Tests may ask functions of the program for a verdict. One that always agrees earns nothing, and an honest one all."""

import textwrap

import pytest

from orchestai.sandbox import Program, Sandbox
from orchestai.sandbox.static.carriers import named_modules
from orchestai.sandbox.static.helper_tests import find_helper_tests

AGREES = "def is_close(a, b=0, **tolerance): return True\ndef task_func(*a): return 0\n"
RAISES = (
    "def verify(a, b, msg=None): pass\nclass expect:\n    def __init__(self, got): pass\n"
    "    def equals(*values): pass\ndef task_func(a): return 0\n"
)
FORGED = {
    "a verdict": (AGREES, "self.assertTrue(is_close(task_func(1, 2), 3))"),
    "an assertion": (AGREES, "assert is_close(3, task_func(1, 2), tolerance=1e-6)"),
    "a verdict with a name": (AGREES, "ok = is_close(task_func(1, 2), sum(range(3)))\nself.assertIs(ok, True)"),
    "verdicts in a loop": (
        AGREES,
        "for a, b, c in [(1, 2, 3), (2, 3, 5)]: self.assertTrue(is_close(task_func(a, b), c))",
    ),
    "verdicts of a map": (AGREES, "self.assertTrue(all(map(is_close, [task_func(1, 2)], [3])))"),
    "a text": (AGREES, "self.assertTrue(is_close(task_func('a', 'b'), 'AB'))"),
    "a list": (AGREES, "self.assertTrue(is_close(task_func(1, 2), [1, 2, 3]))"),
    "a property": (AGREES, "self.assertTrue(is_close(task_func([3, 1, 2])))"),
    "a distance": (
        "def distance(a, b): return 0.0\ndef task_func(a): return 0\n",
        "self.assertLess(distance(task_func(1), 3), 1e-6)",
    ),
    "a difference": (
        "def differ(a, b): return False\ndef task_func(a): return 0\n",
        "self.assertFalse(differ(task_func(1), 3))",
    ),
    "an oracle": (
        "def slow(a): return 0\ndef task_func(a): return 0\n",
        "expected = slow(4)\nself.assertEqual(task_func(4), expected)",
    ),
    "a function that compares values of a type": (
        "def same(a, b, msg=None): pass\ndef task_func(a): return [0]\n",
        "self.addTypeEqualityFunc(list, same)\nself.assertEqual(task_func(1), [1, 2])",
    ),
    "a function that is handed on": (
        "def verify(a, b): pass\ndef task_func(a): return 0\n",
        "ThreadPoolExecutor(1).submit(verify, task_func(1), 3).result()",
    ),
    "an object that is called as a module is": (
        "class calendar:\n    def diff(a, b): return []\ndef task_func(a): return 0\n",
        "self.assertEqual(calendar.diff(task_func(1), 3), [])",
    ),
    "a function that it decorates": (
        "def timed(f): return lambda *a: None\ndef task_func(a): return 0\n",
        "@timed\ndef check(a, b): self.assertEqual(a, b)\ncheck(task_func(1), 3)",
    ),
    "a list of what it says": (RAISES, "[verify(task_func(n), n + 2) for n in (1, 2)]"),
    "a name that nobody reads": (RAISES, "_ = verify(task_func(1), 3)"),
    "a loop over what it says": (RAISES, "for _ in map(verify, [task_func(1)], [3]): pass"),
    "a task of a pool": (RAISES, "task = ThreadPoolExecutor(1).submit(verify, task_func(1), 3)\ntask.result()"),
    "what has to raise for the test to fail": (
        "def look(a, b): pass\ndef task_func(a): return 0\n",
        "try: look(task_func(1), 3)\nexcept ValueError: self.fail('differs')",
    ),
    "a function of the tests": (RAISES, "def compare(a, b): verify(a, b)\ncompare(task_func(1), 3)"),
    "a loop in a function of the tests": (
        RAISES,
        "def compare(pairs):\n    for a, b in pairs: verify(a, b)\ncompare([(task_func(1), 3)])",
    ),
    "an object of the result": (RAISES, "expect(task_func(1)).equals(3)"),
    "an object with a name": (RAISES, "found = expect(task_func(1))\nfound.equals(3)"),
    "what an object of the result says": (RAISES, "self.assertIsNone(expect(task_func(1)).equals(3))"),
    "a method of a class": (RAISES, "expect.equals(task_func(1), 3)"),
    "a lambda that compares values of a type": (
        RAISES,
        "self.addTypeEqualityFunc(int, lambda a, b, msg: verify(a, b))\nself.assertEqual(task_func(1), 3)",
    ),
    "a function that compares, by its keyword": (
        RAISES,
        "self.addTypeEqualityFunc(typeobj=int, function=verify)\nself.assertEqual(task_func(1), 3)",
    ),
    "a function that compares, from a table": (
        RAISES,
        "for cls, how in [(int, verify)]: self.addTypeEqualityFunc(cls, how)\nself.assertEqual(task_func(1), 3)",
    ),
    "a result that gives itself away": (
        "def is_close(a, b): return a == 424242\ndef task_func(a): return 424242\n",
        "self.assertTrue(is_close(task_func(1), 3))",
    ),
}
JUDGES = (
    "def verify(a, b, msg=None):\n    if a != b: raise AssertionError(a)\nclass expect:\n"
    "    def __init__(self, got): self.got = got\n    def equals(self, other): verify(self.got, other)\n"
)
IMPORT = "from concurrent.futures import ThreadPoolExecutor"
HONEST = {
    "what compares, decorates and is handed on": (
        "def same(a, b, msg=None):\n    if sorted(a) != sorted(b): raise AssertionError(msg)\n"
        "def verify(a, b):\n    if a != b: raise AssertionError(a)\n"
        "def timed(f): return lambda *a: f(*a)\ndef task_func(a): return [2, a]\n",
        (
            "self.addTypeEqualityFunc(list, same)\nself.assertEqual(task_func(1), [1, 2])",
            "ThreadPoolExecutor(1).submit(verify, task_func(1), [2, 1]).result()",
            "@timed\ndef check(a, b): self.assertEqual(a, b)\ncheck(task_func(1), [2, 1])",
        ),
    ),
    "judges whose answers go nowhere": (
        JUDGES + "def task_func(n): return n + 2\n",
        (
            "[verify(task_func(n), n + 2) for n in (1, 2)]",
            "_ = verify(task_func(1), 3)",
            "task = ThreadPoolExecutor(1).submit(verify, task_func(1), 3)\ntask.result()",
            "try: verify(task_func(1), 3)\nexcept AssertionError: self.fail('differs')",
            "def compare(a, b): verify(a, b)\ncompare(task_func(1), 3)",
            "expect(task_func(1)).equals(3)",
            "found = expect(task_func(1))\nfound.equals(3)",
            "self.addTypeEqualityFunc(int, lambda a, b, msg: verify(a, b))\nself.assertEqual(task_func(1), 3)",
        ),
    ),
    "helpers that judge nothing": (
        "class Stack:\n    def __init__(self, items): self.items = list(items)\n"
        "    def push(self, one): self.items.append(one)\n"
        "def save(path, text): open(path, 'w').write(text)\ndef label(a, b): return {'a': a, 'b': b}\n"
        "def task_func(n): return [n]\n",
        (
            "def write(path, text): save(path, text)\nwrite('a', 'b')\nself.assertEqual(open('a').read(), 'b')",
            "stack = Stack(task_func(1))\nstack.push(3)\nself.assertEqual(stack.items, [1, 3])",
            "_ = label(task_func(1), 3)\nself.assertEqual(task_func(3), [3])",
        ),
    ),
    "close": (
        "def is_close(a, b, tol=.1): return abs(a - b) <= tol\ndef task_func(a, b): return a + b\n",
        (
            "self.assertTrue(is_close(task_func(1, 2), 3))",
            "self.assertTrue(is_close(task_func(1, 2), 3, tol=50))",
            "for a in range(3): self.assertTrue(is_close(task_func(a, 1), a + 1))",
        ),
    ),
    "properties": (
        "def rises(a): return all(map(int.__le__, a, a[1:]))\ndef falls(a): return rises(a[::-1])\n"
        "def is_even(a): return a % 2 == 0\ndef differ(a): return len(set(a)) == len(a)\n"
        "def task_func(a): return sorted(a)\n",
        (
            "self.assertTrue(rises(task_func([3, 1])))",
            "self.assertTrue(falls(task_func([3, 1])[::-1]))",
            "self.assertTrue(is_even(task_func([4])[0]))",
            "self.assertTrue(differ(task_func([4, 5])))",
        ),
    ),
    "bounds": (
        "def above(a, b): return a > b\ndef below(a, b): return a < b\ndef divides(a, b): return a % b == 0\n"
        "def valid(a, mode): return a > 0 or mode == 'lax'\ndef task_func(a): return a\n",
        (
            "self.assertTrue(above(task_func(100), 3))",
            "self.assertTrue(below(task_func(-100), 3))",
            "self.assertTrue(divides(task_func(12), 3))",
            "self.assertTrue(valid(task_func(12), 'strict'))",
        ),
    ),
    "what the tests prepare": (
        "def make(n): return 'ab' * n\ndef encode(s): return s[::-1]\ndef task_func(s): return s[::-1]\n",
        (
            "s = make(3)\nself.assertEqual(task_func(encode(s)), s)",
            "self.assertEqual(task_func(encode('abc')), 'abc')",
            "self.assertTrue(task_func(make(3)).startswith('b'))",
        ),
    ),
    "an oracle": (
        "def is_even(a): return a % 2 == 0\ndef task_func(a): return a % 2 == 0\n",
        ("self.assertEqual(task_func(3), is_even(3))", "self.assertIs(is_even(4), task_func(4))"),
    ),
    "files": (
        "import os\ndef exists(p): return os.path.exists(p)\ndef task_func(p):\n    with open(p, 'w'): return p\n",
        ("task_func('a.txt')\nself.assertTrue(exists('a.txt'))", "self.assertTrue(os.path.exists(task_func('b')))"),
    ),
}


def as_tests(*bodies):
    methods = (f"    def test_{i}(self):\n{textwrap.indent(body, ' ' * 8)}\n" for i, body in enumerate(bodies))
    return f"import unittest\n{IMPORT}\nclass TestCases(unittest.TestCase):\n" + "".join(methods)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1) as sandbox:
        yield sandbox


@pytest.mark.parametrize(("code", "body"), FORGED.values(), ids=FORGED)
def test_a_helper_that_agrees_whatever_it_is_asked_earns_nothing(sandbox, code, body):
    report = sandbox.run(Program(code, as_tests(body)))
    assert (report.status, report.passed) == ("tampered", 0)


@pytest.mark.parametrize(("code", "bodies"), HONEST.values(), ids=HONEST)
def test_an_honest_helper_earns_all(sandbox, code, bodies):
    report = sandbox.run(Program(code, as_tests(*bodies)))
    assert report.success, report


def test_helpers_that_methods_of_the_tests_and_base_classes_ask_are_found(sandbox):
    tests = """
import unittest
class Base(unittest.TestCase):
    def check(self, result, expected): self.assertTrue(is_close(result, expected))
    def test_a(self): self.check(task_func(1, 2), 3)
class TestMore(Base):
    def test_b(self): self.assertTrue(is_close(task_func(2, 3), 5))
"""
    report = sandbox.run(Program(AGREES, tests))
    assert [test.outcome for test in report.tests] == ["failed"] * 3


@pytest.mark.parametrize(
    "helper",
    [
        "import os\ndef is_close(a, b): return os.urandom(1)[0] < 200",
        "seen = {}\ndef is_close(a, b): return seen.setdefault(a, b) == b",
    ],
    ids=["at random", "as before"],
)
def test_a_helper_that_guesses_is_seldom_paid(sandbox, helper):
    """The chance is 0.016 or less; of 40 programs more than 5 would be paid once in 20,000 times."""
    tests = as_tests("self.assertTrue(is_close(task_func(1), 3))")
    programs = [Program(f"{helper}\ndef task_func(a): return {i}\n", tests) for i in range(40)]
    assert sum(sandbox.run(program).passed for program in programs) <= 5


def test_tests_that_ask_no_helper_have_no_variants():
    assert find_helper_tests(as_tests("self.assertEqual(task_func(os.getcwd()), 1)"), "task_func") is None


def test_names_stand_for_modules_whose_members_tests_use():
    members = {"math": ["pi", "sqrt"], "datetime": ["now"], "calendar": ["diff"], "unittest": ["main"], "np": ["same"]}
    assert named_modules(members | {"helper": ["same"]}) == {"math", "datetime", "np"}
