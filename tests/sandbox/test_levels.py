"""What the sandbox is on the host: never root's processes by the name of isolated ones, and no folders left behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from orchestai.sandbox import Program, Sandbox
from support.sandbox.programs import ADD, ADD_TESTS

_WHO = """
import json, warnings
from orchestai.errors import UserError
from orchestai.sandbox import Program, Sandbox
code = "def task_func(): return [line.split() for line in open('/proc/self/uid_map')]"
tests = "import unittest\\nclass T(unittest.TestCase):\\n    def test(self): self.assertEqual(task_func(), 0)"
try:
    with Sandbox(workers=1, strictness="strict") as sandbox:
        print(sandbox.run(Program(code, tests)).tests[0].message)
except UserError as error:
    print("refused:", error)
"""
_KILLED = """
import os, signal
from orchestai.sandbox import Sandbox
with Sandbox(workers=1, strictness="process"): os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="root alone can lack some of root's powers")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv to give powers up")
@pytest.mark.parametrize("power", ["sys_admin", "setuid", "setgid"])
def test_root_without_its_powers_runs_no_program_as_root(power):
    """In a user namespace of root's, programs are nobody by name, and root for the files of the host."""
    done = subprocess.run(
        ["setpriv", f"--bounding-set=-{power}", f"--inh-caps=-{power}", "--", sys.executable, "-c", _WHO],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused:") or "'0'" not in done.stdout, done.stdout


@pytest.mark.filterwarnings("ignore:sandbox")
def test_a_killed_parent_leaves_no_folder_once_another_sandbox_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _KILLED], timeout=100)
    assert done.returncode == -signal.SIGKILL
    (orphan,) = tmp_path.glob("orchestai-sandbox-*")
    hour_ago = time.time() - 3600
    with Sandbox(workers=1, strictness="process") as sandbox:
        assert orphan.exists(), "it is too young to be given up"
        (own,) = {*tmp_path.glob("orchestai-sandbox-*")} - {orphan}
        for folder in (orphan, own):
            os.utime(folder, (hour_ago, hour_ago))
        with Sandbox(workers=1, strictness="process"):
            assert not orphan.exists()
        assert Path(own).exists(), "its owner lives"
        assert sandbox.run(Program(ADD, ADD_TESTS)).success
    assert list(tmp_path.glob("orchestai-sandbox-*")) == []
