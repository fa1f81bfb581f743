"""The sections on what runs: tasks, executions and the sandbox."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestai.outcome import UnscorableLimit
from orchestai.section import Section


class TasksConfig(Section):
    suite: str = "composition"
    """`composition`, `humaneval`, `mbpp` or `bigcodebench`."""
    path: str | None = None
    """A file (.jsonl, .jsonl.gz, .json.gz) or Hugging Face dataset name instead of the suite's default source."""
    split: str = "train"
    """Split that `collect` and phase 2 draw from."""
    eval_split: str = "test"
    """Split that `evaluate` uses."""
    limit: int | None = Field(None, ge=1)
    """Only the first so many tasks of the split."""


class ExecutionConfig(Section):
    assembler: Literal["dataflow", "sink"] = "dataflow"
    """`dataflow`: subtasks are functions, edges their arguments. `sink`: every worker reads the task and its parents'
    texts, and the last subtask's program is the answer."""
    timeout_s: float = Field(1800.0, gt=0)
    """Seconds for one workflow. Past it by the workers' measured latencies, what is unfinished fails; past it by the
    wall clock alone (the workers were busy with other workflows), the episode is unscorable."""
    max_cost_usd: float | None = Field(None, gt=0)
    """No further worker is asked once a workflow has cost so much."""
    concurrency: int = Field(128, ge=1)
    """Workflows executed at a time."""
    unscorable_limit: float = Field(0.2, gt=0, le=1)
    """A batch with a larger share of unscorable episodes stops the command."""

    def limit(self) -> UnscorableLimit:
        return UnscorableLimit(self.unscorable_limit, "execution.unscorable_limit")


class SandboxConfig(Section):
    level: Literal["strict", "auto", "process"] = "auto"
    """`strict`: programs are isolated by namespaces (Linux), or the command refuses to run. `auto`: they are where the
    system allows it; elsewhere limits alone hold them, with a warning. `process`: limits alone, for trusted code."""
    workers: int = Field(2, ge=1)
    """Programs run at a time."""
    wall_s: float = Field(20.0, gt=0)
    """Wall-clock limit of one program."""
    test_s: float = Field(6.0, gt=0)
    """Wall-clock limit of one test."""
    memory_mb: int = Field(1024, ge=64)
    """Address space of one process beyond what the sandbox itself needs."""
    preload: tuple[str, ...] = ()
    """Modules that the sandbox imports once, so that programs that use them load quickly, e.g. [numpy, pandas]."""
    packages: tuple[str, ...] = ()
    """Further modules that programs may import, e.g. [torch]. They see the standard library, what BigCodeBench's tasks
    use, what is preloaded, and what all these need; whatever else is installed (the answers of a suite, for one) is
    hidden from them, except at level `process`."""
