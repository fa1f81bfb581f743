"""Many callers share a sandbox, give up, are interrupted or close it: each gets its own verdict, and none is lost."""

import asyncio
import os
import signal
import threading
import time
from contextlib import suppress

import pytest

from orchestai.outcome import Unscorable
from orchestai.sandbox import Limits, Program, Sandbox
from support.sandbox.programs import ADD, ADD_TESTS


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2, limits=Limits(wall_s=20, load_s=3, test_s=2, memory_mb=256)) as sandbox:
        yield sandbox


async def test_many_tasks_share_a_sandbox_without_blocking_the_loop(sandbox):
    """Fifty programs at once, the loop stays responsive, and no more run at a time than there are workers."""
    programs = [Program(f"def task_func(a, b):\n    return a + b if {i} % 2 else None", ADD_TESTS) for i in range(50)]
    longest, last, done = 0.0, time.monotonic(), False

    async def tick():
        nonlocal longest, last
        while not done:
            await asyncio.sleep(0.01)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()

    ticking = asyncio.create_task(tick())
    reports = await asyncio.gather(*map(sandbox.arun, programs))
    done = True
    await ticking
    assert [report.passed for report in reports] == [0, 4] * 25
    assert longest < 1.0


def test_no_more_programs_run_at_a_time_than_there_are_workers(tmp_path):
    code = f"""
import time
def task_func(a, b):
    start = time.monotonic(); time.sleep(0.05)
    open({str(tmp_path / "spans")!r}, "a").write(f"{{start}} {{time.monotonic()}}\\n")
    return a + b
"""

    async def run_all():
        with Sandbox(workers=2, strictness="process") as narrow:
            return await asyncio.gather(*(narrow.arun(Program(f"{code}# {i}", ADD_TESTS)) for i in range(6)))

    assert all(report.success for report in asyncio.run(run_all()))
    spans = [tuple(map(float, line.split())) for line in (tmp_path / "spans").read_text().splitlines()]
    assert len(spans) == 24
    assert max(sum(start <= at < end for start, end in spans) for at, _ in spans) <= 2


def test_a_program_judged_before_is_not_run_again(tmp_path):
    """Phase 2 repeats programs all the time."""
    code = f"open({str(tmp_path / 'runs')!r}, 'a').write('x')\n" + ADD
    with Sandbox(workers=1, strictness="process") as open_hearted:
        first, second = (open_hearted.run(Program(code, ADD_TESTS)) for _ in range(2))
        assert first is second
        assert (tmp_path / "runs").read_text() == "x"
        open_hearted.run(Program(code + "# another", ADD_TESTS))
        assert (tmp_path / "runs").read_text() == "xx"


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("time.sleep(60)", "timeout"),
        ("os._exit(1)", "died"),
        ("raise MemoryError", "memory"),
        ('raise RuntimeError("can\'t start new thread")', "import_error"),
    ],
)
def test_what_a_busy_machine_may_have_caused_is_not_remembered(tmp_path, fault, status):
    """It was: one time-out on a busy machine made every later try of that program a zero."""
    busy = tmp_path / "busy"
    busy.touch()
    code = f"import os, time\nif os.path.exists({str(busy)!r}): {fault}\n{ADD}"
    with Sandbox(workers=1, limits=Limits(load_s=1.0), strictness="process") as sandbox:
        assert sandbox.run(Program(code, ADD_TESTS)).status == status
        busy.unlink()
        later = sandbox.run(Program(code, ADD_TESTS))
        assert later.success
        assert sandbox.run(Program(code, ADD_TESTS)) is later


async def test_cancelling_one_wait_leaves_the_other_its_verdict(sandbox):
    program = Program("import time\ntime.sleep(0.3)\n" + ADD, ADD_TESTS)
    one, two = asyncio.create_task(sandbox.arun(program)), asyncio.create_task(sandbox.arun(program))
    await asyncio.sleep(0.05)
    one.cancel()
    assert (await two).success


@pytest.mark.slow
def test_no_interrupt_costs_the_sandbox_a_worker():
    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    often = Sandbox(workers=1, cache_size=0)
    no_tests = Program("", "")  # is done in the time in which interrupts come
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for i in range(3000):
            with suppress(Interrupt):
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + i % 60))
                while True:
                    often.run(no_tests)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    last = threading.Thread(target=often.run, args=(no_tests,), daemon=True)
    last.start()
    last.join(30)
    assert not last.is_alive()
    often.close()


def test_a_killed_fork_server_is_replaced():
    with Sandbox(workers=2) as mortal:
        assert mortal.run(Program(ADD, ADD_TESTS)).success
        before = mortal.server_pid
        os.kill(before, signal.SIGKILL)
        assert mortal.run(Program(ADD + "# again", ADD_TESTS)).success
        assert mortal.run(Program(ADD + "# and again", ADD_TESTS)).success
        assert mortal.server_pid != before


async def test_closing_while_a_program_runs_makes_it_unscorable():
    closing = Sandbox(workers=1)
    running = asyncio.create_task(closing.arun(Program("while True: pass", ADD_TESTS)))
    await asyncio.sleep(0.5)
    await asyncio.to_thread(closing.close)
    assert isinstance((await running).outcome(), Unscorable)
