"""Libraries are used once before programs are forked: that must work, start no thread and leave nothing."""

import importlib
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import orchestai
from orchestai.sandbox.inside.warm_up import _USES, use_library

SCRIPT = """
import importlib, json, os, random, sys, threading, warnings
from orchestai.sandbox.inside import warm_up
for name in sys.argv[1:]:
    importlib.import_module(name)
def seen():
    states = repr([random.getstate(), sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None])
    figures = sys.modules["matplotlib.pyplot"].get_fignums() if "matplotlib.pyplot" in sys.modules else []
    threads = len(os.listdir("/proc/self/task")) if sys.platform == "linux" else threading.active_count()
    return [states, warnings.filters[:], figures, threads, dict(os.environ), os.listdir()]
before, modules = seen(), len(sys.modules)
warm_up.warm_up()
print(json.dumps([seen() == before, threading.active_count(), len(sys.modules) > modules]))
"""


@pytest.mark.parametrize("name", _USES)
def test_every_use_works(name):
    if find_spec(name.partition(".")[0]) is None:
        pytest.skip(f"{name} is not installed")
    importlib.import_module(name)
    use_library(name)


def test_nothing_is_left_but_what_libraries_remember(tmp_path):
    """In an interpreter of its own, as in the fork server: a thread would be lost in its forks, with what it holds."""
    names = [name for name in _USES if find_spec(name.partition(".")[0])]
    if not names:
        pytest.skip("no such library is installed")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    environment["PYTHONPATH"] = str(Path(orchestai.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *names], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, 1, True]


def test_random_numbers_that_a_library_has_not_yet_begun_to_draw_stay_random():
    """NumPy makes its generator when it is first used, which must not be the warm-up's, seeded one."""
    pytest.importorskip("numpy")
    script = (
        "import numpy\nfrom orchestai.sandbox.inside import warm_up\nwarm_up.warm_up()\nprint(numpy.random.random())"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    draws = {
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=environment).stdout
        for _ in range(2)
    }
    assert len(draws) == 2
