"""What `benchmarks/serving/improve.py` measures beside the planners of its loop."""

from __future__ import annotations

from typing import Any

from benchmarks.serving.improve import sampling
from orchestai.tasks.suites import load_suite


async def test_repeated_asking_at_equal_cost_is_measured_from_the_recording() -> None:
    """The recording has three samples of each test task, so that a candidate's money buys one to three."""
    improvements = [{"trial": {"candidate_usd": budget_usd}} for budget_usd in (1e-6, 6e-5)]
    found: dict[str, Any] = {"seeds": {"seed-0": {"improvements": improvements}}}
    await sampling(found, load_suite("composition").split("test")[:4])
    cheap, dear = (each["sampling_on_test"] for each in improvements)
    assert cheap["how"] == "sample-k-and-check: smol-sample asked 1 times"
    assert cheap["n"] == dear["n"] == 4
    assert cheap["usd"] < 6e-5 <= dear["usd"]
