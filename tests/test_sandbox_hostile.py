"""The programs in shared/sandbox/hostile.jsonl, as whoever runs the tests and as a user without privileges.

Some of them kill every process they can and delete folders. They run where namespaces hold them, or not at all.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sandbox_hostile

from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.levels import find_namespaces

PROGRAMS = Path(__file__).parents[2] / "shared" / "sandbox" / "hostile.jsonl"
NOBODY = "65534"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAMS.exists(), reason="shared/sandbox/hostile.jsonl is not here"),
    pytest.mark.skipif(not isinstance(find_namespaces(), Bubblewrap), reason=f"no namespaces: {find_namespaces()}"),
]


def programs() -> list[dict]:
    return [json.loads(line) for line in PROGRAMS.read_text().splitlines()]


def test_no_program_gains_loses_or_harms():
    outcomes = list(sandbox_hostile.run(programs()))
    assert len(outcomes) == 107
    assert {outcome["id"]: outcome["faults"] for outcome in outcomes if outcome["faults"]} == {}


@pytest.mark.skipif(os.getuid() != 0, reason="not root, so the other test has no privileges either")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv to become another user")
def test_nor_where_the_sandbox_has_no_privileges():
    """The interpreter may lie in root's home, so it is shown to the other user in namespaces of this test's own."""
    home, python = Path.home(), Path(sys.base_prefix)
    command = [find_namespaces().path, "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]
    if python.is_relative_to(home):
        command += ["--tmpfs", str(home)]
        for parent in reversed(python.relative_to(home).parents[:-1]):
            command += ["--perms", "0755", "--dir", str(home / parent)]
        command += ["--ro-bind", str(python), str(python)]
    command += ["--perms", "1777", "--tmpfs", "/var/tmp", "--setenv", "TMPDIR", "/var/tmp", "--chdir", "/"]
    command += ["--setenv", "PYTHONDONTWRITEBYTECODE", "1", "--"]
    command += ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    command += [sys.executable, sandbox_hostile.__file__, str(PROGRAMS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == 107
    assert {outcome["id"]: outcome["faults"] for outcome in outcomes if outcome["faults"]} == {}
