"""`shared` isolation: the program has the tests' world and what they hand to it, and still decides nothing.

Its honest programs are those that need more than copies; its forgers lie wherever the program's process is asked.
"""

import pytest

from orchestai.sandbox import Limits, Program, Sandbox


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1, limits=Limits(wall_s=20, test_s=8)) as sandbox:
        yield sandbox


def case(body: str, head: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return (
        f"import unittest\nfrom unittest import mock\n{head}\nclass T(unittest.TestCase):\n    def test(self):\n{lines}"
    )


HONEST = {
    "a function and a method of the tests": (
        "def task_func(f, g): return [f(x) for x in (1, 2)], g(3)",
        "seen = []\nself.assertEqual(task_func(lambda x: x + 1, seen.append), ([2, 3], None))\n"
        "self.assertEqual(seen, [3])",
    ),
    "a function that asks the program again": (
        "def task_func(n, f=None): return n if f is None else f(n) + 1",
        "self.assertEqual(task_func(1, lambda n: task_func(n) * 10), 11)",
    ),
    "calls from threads": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def task_func(f):\n    with ThreadPoolExecutor(4) as pool: return sorted(pool.map(f, range(20)))",
        "self.assertEqual(task_func(lambda x: x * 2), list(range(0, 40, 2)))",
    ),
    "a patched function of a library": (
        "import os\ndef task_func(path): return [name.upper() for name in os.listdir(path)]",
        "with mock.patch('os.listdir', return_value=['a', 'b']) as listdir:\n"
        "    self.assertEqual(task_func('/there'), ['A', 'B'])\n"
        "listdir.assert_called_once_with('/there')",
    ),
    "a patched file": (
        "import json\ndef task_func(path):\n    with open(path) as file: data = json.load(file)\n"
        "    with open(path, 'w') as file: json.dump(data, file)\n    return data",
        "opened = mock.mock_open(read_data='{\"a\": 1}')\nwith mock.patch('builtins.open', opened):\n"
        "    self.assertEqual(task_func('x'), {'a': 1})\nopened.assert_any_call('x', 'w')",
    ),
    "a mock that raises": (
        "import socket\ndef task_func(host):\n    try: return socket.gethostbyname(host)\n"
        "    except socket.gaierror as error: return str(error)",
        "import socket\nwith mock.patch('socket.gethostbyname', side_effect=socket.gaierror('no name')):\n"
        "    self.assertEqual(task_func('x'), 'no name')",
    ),
    "an exception of the tests' own": (
        "def task_func(f): return f()",
        "class Own(Exception): pass\ndef fail(): raise Own('mine')\nwith self.assertRaises(Own): task_func(fail)",
    ),
    "a class that is patched": (
        "import smtplib\ndef task_func(text):\n    with smtplib.SMTP('host', 25) as server:\n"
        "        server.starttls()\n        return server.sendmail('a', ['b'], text)",
        "with mock.patch('smtplib.SMTP') as smtp:\n"
        "    server = smtp.return_value.__enter__.return_value\n    server.sendmail.return_value = {}\n"
        "    self.assertEqual(task_func('hi'), {})\n"
        "server.starttls.assert_called_once_with()\nserver.sendmail.assert_called_once_with('a', ['b'], 'hi')",
    ),
    "attributes of a mock": (
        "import ssl\ndef task_func(context):\n    context.check_hostname = False\n    return context.check_hostname",
        "context = mock.MagicMock()\nself.assertIs(task_func(context), False)\n"
        "self.assertIs(context.check_hostname, False)",
    ),
    "standard input and printed text": (
        "def task_func():\n    print('name?')\n    return input()",
        "import io\nout = io.StringIO()\n"
        "with mock.patch('sys.stdin', io.StringIO('Ann')), mock.patch('sys.stdout', out):\n"
        "    self.assertEqual(task_func(), 'Ann')\nself.assertEqual(out.getvalue(), 'name?\\n')",
    ),
    "logs of a level that the tests set": (
        "import logging\ndef task_func():\n    logging.getLogger('a').debug('fine')\n    raise ValueError",
        "with self.assertLogs('a', 'DEBUG') as logs, self.assertRaises(ValueError): task_func()\n"
        "self.assertEqual(logs.output, ['DEBUG:a:fine'])",
    ),
    "an environment that the program changes": (
        "import os\ndef task_func(): os.environ['MODE'] = 'dark'; os.makedirs('d', exist_ok=True); os.chdir('d')",
        "import os\ntask_func()\nself.assertEqual(os.environ['MODE'], 'dark')\n"
        "self.assertEqual(os.path.basename(os.getcwd()), 'd')",
    ),
    "objects of the tests' own classes": (
        "def task_func(tree): tree.total = tree.value + sum(t.value for t in tree.children); return tree.name()",
        "class Tree:\n    def __init__(self, value, *children): self.value, self.children = value, children\n"
        "    def name(self): return f'tree {self.value}'\n"
        "tree = Tree(1, Tree(2), Tree(3))\n"
        "self.assertEqual(task_func(tree), 'tree 1')\nself.assertEqual(tree.total, 6)",
    ),
    "methods with arguments, and operators": (
        "class V:\n    def __init__(self, x): self.x = x\n    def __add__(self, other): return V(self.x + other.x)\n"
        "    def __eq__(self, other): return self.x == other.x\n    def times(self, n): return self.x * n\n"
        "def task_func(x): return V(x)",
        "self.assertEqual(task_func(1) + task_func(2), task_func(3))\nself.assertNotEqual(task_func(1), task_func(3))\n"
        "self.assertEqual(task_func(2).times(4), 8)",
    ),
    "an object of a library's class": (
        "import argparse\ndef task_func():\n    parser = argparse.ArgumentParser(prog='tool')\n"
        "    parser.add_argument('--n', type=int)\n    return parser",
        "import argparse\nparser = task_func()\nself.assertIsInstance(parser, argparse.ArgumentParser)\n"
        "self.assertEqual(parser.parse_args(['--n', '3']).n, 3)",
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_program_shares_the_world_of_its_tests(sandbox, name):
    code, body = HONEST[name]
    report = sandbox.run(Program(code, case(body), isolation="shared"))
    assert report.success, report


EQUAL = "class E:\n    {}\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
FORGED = {
    "an object that equals everything": (
        EQUAL.format("pass") + "def task_func(): return E()",
        "self.assertEqual(task_func(), 3)",
    ),
    "an object that says it is a list": (
        EQUAL.format("__class__ = property(lambda self: list)") + "def task_func(): return E()",
        "self.assertIsInstance(task_func(), list)",
    ),
    "a class claimed on the wire": (
        "import gc\nfor d in gc.get_objects():\n"
        "    if type(d) is dict and 'classes' in d and 'state' in d: d['classes'] = lambda v: [('builtins', 'list')]\n"
        "class E: pass\ndef task_func(): return E()",
        "self.assertIsInstance(task_func(), list)",
    ),
    "a comparison by a method": (
        "class E:\n    def equals(self, other): return True\ndef task_func(): return E()",
        "self.assertTrue(task_func().equals([1, 2]))",
    ),
    "a difference that is nothing": (
        "class E:\n    def __sub__(self, other): return 0.0\n    def __abs__(self): return 0.0\n"
        "def task_func(): return E()",
        "self.assertLess(abs(task_func() - 2.5), 1e-6)",
    ),
    "a difference that is an object": (
        "class E:\n    def __sub__(self, other): return E()\n    def __abs__(self): return 0.0\n"
        "def task_func(): return E()",
        "self.assertLess(abs(task_func() - 2.5), 1e-6)",
    ),
    "a comparison by a chain": (
        "class E:\n    def eq(self, other): return [E()]\n    def all(self): return True\ndef task_func(): return E()",
        "self.assertTrue(task_func().eq([1, 2])[0].all())",
    ),
    "a comparison by elements": (
        "import numpy as np\nclass E:\n    def eq(self, other): return np.array([True])\ndef task_func(): return E()",
        "self.assertTrue(task_func().eq([1, 2]).all())",
    ),
    "a context that swallows failures": (
        "class E:\n    def __enter__(self): return 0\n    def __exit__(self, *error): return True\n"
        "def task_func(): return E()",
        "with task_func() as value: self.assertEqual(value, 3)",
    ),
    "a failure in a function of the tests": (
        "def task_func(f):\n    try: f(0)\n    except BaseException: pass",
        "task_func(lambda x: self.assertEqual(x, 3))",
    ),
    "the expectations of a mock": (
        "def task_func(f):\n    for name in ('assert_called_once_with', 'called', 'mock_calls', '_mock_children'):\n"
        "        for act in (lambda: setattr(f, name, lambda *a: None), lambda: f.configure_mock(called=True)):\n"
        "            try: act()\n            except Exception: pass",
        "f = mock.Mock()\ntask_func(f)\nf.assert_called_once_with(3)",
    ),
    "the frame of a generator": (
        "def task_func(g):\n    try: return g.gi_frame.f_back.f_locals['expected']\n"
        "    except AttributeError: return None",
        "expected = 3\nself.assertEqual(task_func(x for x in [1]), expected)",
    ),
    "the globals of a function": (
        "def task_func(f):\n    try: return f.__globals__['EXPECTED']\n    except (AttributeError, KeyError): pass",
        "self.assertEqual(task_func(lambda: 1), EXPECTED)",
    ),
    "an assertion that is patched": (
        "import unittest\nfor name in dir(unittest.TestCase):\n"
        "    if name.startswith('assert'): setattr(unittest.TestCase, name, lambda *a, **k: None)\n"
        "def task_func(): return 0",
        "for expected in (3, 4): self.assertEqual(task_func(), expected)",
    ),
    "variables that the interpreter obeys": (
        "import os\ndef task_func(): os.environ.update(PYTHONBREAKPOINT='os.abort', LD_PRELOAD='x', HOME='/x')",
        "import os\nbefore = dict(os.environ)\ntask_func()\nself.assertNotEqual(dict(os.environ), before)",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forger_earns_nothing(sandbox, name):
    code, body = FORGED[name]
    report = sandbox.run(Program(code, case(body, "EXPECTED = 3"), isolation="shared"))
    assert (report.status, report.passed, report.total) == ("ok", 0, 1), report


def test_nothing_that_is_expected_is_in_the_programs_process(sandbox):
    """It searches its own memory, every page that it can read, for a text that only its tests hold."""
    code = """
import ctypes, re
def task_func():
    wanted, found, read = re.compile(b"EXPEC" + b"TED-[0-9]+"), set(), 0
    for line in open("/proc/self/maps"):
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if line.split()[1].startswith("r") and "[v" not in line:
            page = ctypes.string_at(first, last - first)
            read, found = read + len(page), found | set(wanted.findall(page))
    return read > 5_000_000, [text.decode() for text in found]
"""
    tests = case("self.assertEqual(task_func(), (True, []))\nself.assertNotEqual(task_func, 'EXPECTED-7431')")
    for isolation in ("split", "shared"):
        report = sandbox.run(Program(code, tests, isolation=isolation))
        assert report.success, report
    report = sandbox.run(Program(code, tests, isolation="in_process"))
    assert "EXPECTED-7431" in report.tests[0].message, "or else the search finds nothing anywhere"
