"""A container with a quota of one core had a thread per core of the whole machine."""

import os
import signal
import subprocess
import sys
import time

import pytest

from orchestai.threads import usable_cores
from support.repository import importing


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_quota_counts_and_none_leaves_the_cores_that_one_may_run_on(tmp_path, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_cores(tmp_path) == (cores or len(os.sched_getaffinity(0)))


# Signals end a command in the time that it promised, whatever it waits for.


DEAF = """
import time
from orchestai.interrupts import heed_interrupts, leave_after
heed_interrupts()
leave_after(0.5)
for count in range(20):
    try:
        if not count:
            print("ready", flush=True)
        time.sleep(1)
    except KeyboardInterrupt:
        print("heard", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_does_not_end_when_interrupted_is_ended(number):
    command = [sys.executable, "-c", DEAF]
    with subprocess.Popen(command, env=importing(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.send_signal(number)
        assert process.stdout.read() == "heard\n"
        assert process.wait() == 128 + number
        assert 0.5 <= time.monotonic() - began < 10
