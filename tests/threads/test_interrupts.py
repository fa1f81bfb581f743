"""Signals end a command in the time that it promised, whatever it waits for."""

import signal
import subprocess
import sys
import time

import pytest

from support.repository import importing

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
