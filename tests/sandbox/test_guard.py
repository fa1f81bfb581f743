"""Tests load files and texts that the program wrote: those must not act where sealed tests run."""

import pytest

from orchestai.sandbox import Limits, Program, Sandbox, local_judge
from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.levels import find_namespaces

EXPLOIT = """\
import pickle, py_compile, shelve
FORGE = "import unittest; unittest.TestCase.assertEqual = lambda *a, **k: None"
class Forgery:
    def __reduce__(self): return exec, (FORGE,)
class Equal:
    def __reduce__(self):
        import unittest.mock
        return type(unittest.mock.ANY), ()
def write(name, text):
    with open(name, "w") as file: file.write(text)
    return name
def task_func(kind):
    if kind == "shelf":
        with shelve.open("f") as file: file["key"] = Forgery()
    elif kind in ("pickle", "equal"):
        with open("f", "wb") as file: pickle.dump(Forgery() if kind == "pickle" else Equal(), file)
    elif kind == "bytecode":
        py_compile.compile(write("f.py", FORGE), "f.pyc")
    else:
        return write("f.py", FORGE if kind == "module" else kind)
    return "f"
"""
ATTACKS = {
    "a pickle": "import pandas; pandas.read_pickle(task_func('pickle'))",
    "an array of objects": "import numpy; numpy.load(task_func('pickle'), allow_pickle=True)",
    "the pure Python unpickler": "import pickle; pickle._Unpickler(open(task_func('pickle'), 'rb')).load()",
    "what equals everything": "import pickle; value = pickle.Unpickler(open(task_func('equal'), 'rb')).load()",
    "a shelf": "import shelve; shelve.open(task_func('shelf'))['key']",
    "a module": "import sys; task_func('module'); sys.path.insert(0, '.'); import f",
    "a module from its path": "load('module', 'f.py')",
    "bytecode": "load('bytecode', 'f.pyc')",
    "a script": "import runpy; runpy.run_path(task_func('module'))",
    "a text": "exec(open(task_func('module')).read())",
    "a query": "import pandas as pd; pd.DataFrame({'a': [1]}).query('@pd.io.common.os.getpid()')",
    "settings of logs": (
        "import logging.config as c; c.dictConfig({'version': 1, 'filters': {'f': {'()': 'os.getpid'}}})"
    ),
    "YAML that calls": "import yaml; yaml.unsafe_load(open(task_func('!!python/object/apply:exec [print()]')))",
    "YAML that equals everything": (
        "import unittest.mock, yaml; value = yaml.unsafe_load(open(task_func('!!python/name:unittest.mock.ANY')))"
    ),
}
ATTACKED = """\
import importlib.util, os, unittest
def load(kind, file):
    task_func(kind)
    spec = importlib.util.spec_from_file_location("f", os.path.abspath(file))
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
class TestCases(unittest.TestCase):
    def test(self):
        value = 0
        {loads}
        self.assertEqual(value, 1)
"""


@pytest.fixture(scope="module")
def sandbox():
    limits = Limits(wall_s=30, load_s=20, test_s=20, memory_mb=1024)
    with Sandbox(workers=1, limits=limits, packages=["yaml"]) as sandbox:
        yield sandbox


@pytest.mark.parametrize("loads", ATTACKS.values(), ids=ATTACKS)
def test_nothing_that_a_program_wrote_is_executed_by_its_tests(sandbox, loads, monkeypatch):
    """Where their source shows it, they are not sealed at all; what it does not show is refused as it happens."""
    monkeypatch.setattr(local_judge, "objection_to_copies", lambda *_: "")
    report = sandbox.run(Program(EXPLOIT, ATTACKED.format(loads=loads), isolation="sealed"))
    refused = ("NotPlainError: the tests would", "No module named 'f'", "AssertionError: 0 != 1")
    assert report.passed == 0
    assert any(reason in report.tests[0].message for reason in refused), report


@pytest.mark.slow
@pytest.mark.skipif(not isinstance(find_namespaces(), Bubblewrap), reason=f"no namespaces: {find_namespaces()}")
@pytest.mark.parametrize("path", ["matplotlibrc", "~/.config/matplotlib/matplotlibrc"])
def test_libraries_of_the_tests_obey_no_settings_of_the_program(sandbox, path):
    code = f"""
import os
path = os.path.expanduser({path!r})
os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
with open(path, "w") as file: file.write("font.size: 77")
def task_func(): return os.path.getsize(path)
"""
    tests = """
import unittest, matplotlib
class TestCases(unittest.TestCase):
    def test(self): self.assertEqual([task_func(), matplotlib.rcParams["font.size"]], [13, 10.0])
"""
    report = sandbox.run(Program(code, tests, isolation="sealed"))
    assert report.success, report
