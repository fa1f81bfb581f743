"""Patches are applied to a copy, judged by tests that the writer cannot change, and harm nothing outside."""

from __future__ import annotations

import pytest

from orchestai.agents.prepare import write_swe_sample
from orchestai.agents.repository import PatchError, apply_patch, run_tests
from orchestai.agents.workflows.swe import SWE
from orchestai.outcome import Scored
from orchestai.sandbox import Limits, Sandbox
from orchestai.tasks import load_suite
from support.agents.scripted import rewards, scripted_agents

PASS, FAIL = "<verdict>PASS</verdict>", "<verdict>FAIL</verdict>"
FILES = {"pkg/__init__.py": b"", "pkg/a.py": b"x = 1\ny = 2\n"}

LINK = (
    "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/tmp\n"
    "\\ No newline at end of file\n"
)


def block(path: str, old: str, new: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swe")
    write_swe_sample(folder)
    suite = load_suite("swe", str(folder / "instances.jsonl"))
    return folder, [*suite.split("train"), *suite.split("test")]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(limits=Limits(wall_s=10, test_s=0.5)) as sandbox:
        yield sandbox


async def play(sandbox, sample, writer, validator, number=0, analyser="<file>textkit/words.py</file>"):
    folder, tasks = sample
    workflow = SWE(SWE.Args(repositories=folder, max_refinement_iterations=2), sandbox)
    script = {"analyser": [analyser], "writer": writer, "validator": validator}
    return await workflow.run(tasks[number], scripted_agents(tasks[number], script))


# --- the workflow --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_the_reference_patches_resolve_their_issues(sandbox, sample, number):
    episode = await play(sandbox, sample, [sample[1][number].canonical_solution], [PASS], number)
    assert episode.outcome == Scored(1.0)
    assert rewards(episode) == [("analyser", 1), ("writer", 1), ("validator", 1)]
    expected = {
        "success": 1,
        "final_success": 1,
        "analyser_runs": 1,
        "writer_attempts": 1,
        "writer_success_rate": 1,
        "patches_applied": 1,
        "validator_checks": 1,
        "validator_accuracy": 1,
        "total_iterations": 1,
    }
    assert episode.metrics.items() >= expected.items()


async def test_a_patch_that_does_not_apply_is_told_and_can_be_written_anew(sandbox, sample):
    right = sample[1][0].canonical_solution
    episode = await play(sandbox, sample, ["I would change slug().", right], [FAIL, PASS])
    assert episode.outcome == Scored(1.0)
    assert rewards(episode) == [("analyser", 1), ("writer", 0), ("writer", 1), ("validator", 1), ("validator", 1)]
    assert episode.metrics.items() >= {"patches_applied": 1, "total_iterations": 2, "writer_success_rate": 0.5}.items()
    told = dict(enumerate(episode.trajectories[1].transcript))[3][1]
    assert told.startswith("The patch does not apply: there is neither a unified diff nor a SEARCH/REPLACE block")


async def test_the_validator_sees_a_regression_but_no_hidden_test(sandbox, sample):
    breaks = block("textkit/words.py", '    return "-".join(kept.split())\n', '    return "_".join(kept.split())\n')
    episode = await play(sandbox, sample, [breaks], [PASS])
    seen = episode.trajectories[2].transcript[1][1]
    assert "4 of 5 tests pass" in seen
    assert "'hello_world' != 'hello-world'" in seen
    assert "punctuation" not in seen.partition("The patch applies.")[2]
    assert episode.outcome == Scored(0.0)


async def test_a_patch_cannot_change_what_judges_it(sandbox, sample):
    """It weakens the tests, tells pytest to run none, and overwrites unittest; the issue stays unresolved."""
    weak = block("tests/test_words.py", 'self.assertEqual(slug("Hello World"), "hello-world")\n', "pass\n")
    config = block("conftest.py", "", "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n")
    patched = block(
        "textkit/words.py",
        '"""Functions on words."""\n',
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n",
    )
    for writer in (weak + config, patched, weak + config + patched):
        episode = await play(sandbox, sample, [writer], [PASS])
        assert episode.metrics["patches_applied"] == 1
        assert episode.outcome == Scored(0.0)


async def test_a_patch_cannot_read_what_direct_tests_expect(sandbox, sample):
    reads = (
        "def slug(title):\n    import re\n    tests = open('tests/test_words.py').read()\n"
        "    return re.search(re.escape(f'slug(\"{title}\"), ') + '\"(.*?)\"', tests).group(1)\n\n\ndef old(title):\n"
    )
    episode = await play(sandbox, sample, [block("textkit/words.py", "def slug(title):\n", reads)], [PASS])
    assert episode.metrics["patches_applied"] == 1
    assert episode.outcome == Scored(0.0)


# --- patches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "patch",
    [
        block("../escape.py", "", "x\n"),
        block("/tmp/escape.py", "", "x\n"),
        block("pkg/../../escape.py", "", "x\n"),
        block(".git/hooks/post-commit", "", "x\n"),
        block("pkg/none.py", "x = 1\n", "x\n"),
        block("pkg/a.py", "z = 1\n", "x\n"),
        block("pkg/a.py", " ", "x\n"),
        "--- /dev/null\n+++ b/../escape.py\n@@ -0,0 +1 @@\n+x\n",
        "--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+x\n",
        f"{LINK}diff --git a/l/x b/l/x\nnew file mode 100644\n--- /dev/null\n+++ b/l/x\n@@ -0,0 +1 @@\n+x\n",
        "--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1,2 +1,2 @@\n-x = 9\n+x = 3\n y = 2\n",
    ],
)
def test_patches_that_reach_out_or_do_not_fit_are_refused(patch):
    with pytest.raises(PatchError):
        apply_patch(FILES, patch)


@pytest.mark.parametrize(
    "patch",
    [
        block("pkg/a.py", "x = 1\n", "x = 3\n"),
        "Here:\n\n**pkg/a.py**\n```python\n<<<<<<< SEARCH\nx = 1\n=======\nx = 3\n>>>>>>> REPLACE\n```\n",
        "Here:\n```diff\n--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1,2 +1,2 @@\n-x = 1\n+x = 3\n y = 2\n```\nDone.",
        "--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1,9 +1,9 @@\n-x = 1\n+x = 3\n y = 2\n",
    ],
)
def test_both_kinds_of_patch_change_the_file_and_nothing_else(patch):
    assert apply_patch(FILES, patch) == {**FILES, "pkg/a.py": b"x = 3\ny = 2\n"}
    assert FILES["pkg/a.py"] == b"x = 1\ny = 2\n"


# --- repositories --------------------------------------------------------------------------------------------------


async def test_tests_that_are_not_unittest_run_under_pytest_one_by_one():
    source = (
        "import pytest\nfrom pkg.a import x\n"
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_x(n):\n    assert x == n\n"
        "class TestY:\n    def test_y(self, tmp_path):\n        assert tmp_path.exists()\n"
    )
    names = ["test_x[1]", "test_x[2]", "TestY::test_y"]
    with Sandbox(limits=Limits(wall_s=60)) as sandbox:
        fake = b"def main(words, plugins): plugins[0].said = 'passed'"
        files = {**FILES, "test_a.py": source.encode(), "pytest.py": fake}
        results = await run_tests(sandbox, files, [f"test_a.py::{name}" for name in names])
    assert [result.passed for result in results.values()] == [True, False, True]
    assert "assert 1 == 2" in results["test_a.py::test_x[2]"].message
