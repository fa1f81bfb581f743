"""The sections on what runs: tasks, executions and the sandbox."""

from __future__ import annotations

from math import floor
from typing import Literal, TypeAlias

from pydantic import Field, model_validator

from orchestai.config.section import FoundName, Section


class RayConfig(Section):
    """backend ray: actors that each hold a sandbox and the workers. Nodes need this version of OrchestAI."""

    address: str | None = None
    """HOST:PORT of a cluster's head, or `auto` on one of its nodes; `local` starts Ray on this machine, as null does
    where there is no RAY_ADDRESS to join."""
    num_workers: int | None = Field(None, ge=1)
    """Actors of each process, each with `sandbox.workers` programs at a time and as many CPUs; null takes what the
    cluster has CPUs for, shared among the processes of a training."""
    env: tuple[str, ...] = ()
    """Environment variables of this machine that actors get, such as [OPENAI_API_KEY]. Beside these they keep what a
    process needs to run (PATH, HOME, PYTHONPATH, caches of models), and nothing else."""


class PlaceConfig(Section):
    backend: Literal["local", "ray"] = "local"
    """Where programs and workflows run. `ray`: on the nodes of a cluster, with equal results (docs/machines/ray.md)."""
    ray: RayConfig = RayConfig()


TaskField: TypeAlias = Literal[
    "instruction",
    "answers",
    "tests",
    "scorer",
    "task_id",
    "split",
    "reference",
    "entry_point",
    "parameters",
    "complete_prompt",
    "canonical_solution",
]
"""What a task of a user's file has, in the words of `tasks.columns`."""


class TasksConfig(Section):
    suite: str = "composition"
    """A suite by name, such as `composition`, `humaneval`, `gsm8k` or `hotpotqa`; `file` for tasks of your own."""
    path: FoundName | None = None
    """A file (in the working directory or beside this configuration) or Hugging Face dataset name instead of the
    suite's default source: .jsonl, .json, for `file` also .csv, .tsv, all with .gz or without, and .parquet."""
    columns: dict[TaskField, str] = Field(default={})
    """suite `file`: the file's columns, e.g. {instruction: question, answers: answer}; a field that is not named here
    has its own name there."""
    scorer: str = ""
    """What judges the answers of tasks that name no scorer: unit_tests, exact, f1, numeric, maths or MODULE:FUNCTION;
    empty: their tests, else exact match with their answers."""
    answer: Literal["auto", "program", "text"] = "auto"
    """What `run` and `serve` answer with, where nobody says it of an instruction; `auto` goes by its words: a text,
    unless they ask for a function or another program in Python."""
    split: str = "train"
    """Split to learn from; `collect` draws from it and from the tasks for validation."""
    eval_split: str = "test"
    """Split that `evaluate` uses."""
    val_fraction: float = Field(0.2, gt=0, lt=1)
    """Share of the tasks to learn from that is held out for validation, where the suite has no such split."""
    test_fraction: float = Field(0.2, ge=0, lt=1)
    """Share of all tasks that is kept for tests, where the suite has no split `eval_split`. Which tasks, their words
    say, so that phase 1, phase 2, agents and evaluations hold out the same ones."""
    test_fold: int = Field(0, ge=0)
    """Which share that is: with 0.2 there are five, 0 to 4, without a task in common."""
    include_learned: bool = False
    """Evaluate on tasks, too, that a checkpoint has learned from or was selected on; the figures say how many."""
    limit: int | None = Field(None, ge=1)
    """Only the first so many tasks of each part."""
    unscorable_limit: float = Field(0.2, gt=0, le=1)
    """A larger share of attempts that cannot be judged, of a batch, an evaluation or a collection, stops the command,
    since its figures would be about the infrastructure."""

    @model_validator(mode="after")
    def _fold_exists(self) -> TasksConfig:
        folds = floor(1 / self.test_fraction + 1e-9) if self.test_fraction else 1
        if self.test_fold >= folds:
            raise ValueError(
                f"test_fold={self.test_fold}, but test_fraction={self.test_fraction} makes {folds}, from 0"
            )
        return self


class ExecutionConfig(PlaceConfig):
    assembler: Literal["dataflow", "sink"] = "dataflow"
    """For tasks whose answers are programs. `dataflow`: subtasks are functions, edges their arguments. `sink`: every
    worker reads the task and its parents' texts, and the last subtask's program is the answer, as a text is always."""
    timeout_s: float = Field(1800.0, gt=0)
    """Seconds for one workflow. Past it by the workers' measured latencies, what is unfinished fails; past it by the
    wall clock alone (the workers were busy with other workflows), the episode is unscorable."""
    max_cost_usd: float | None = Field(None, gt=0)
    """US dollars: no worker is asked whose answer might make a workflow cost more."""
    concurrency: int = Field(128, ge=1)
    """Workflows executed at a time. One that waits for its workers counts, too: where these are servers, a process can
    take a thousand and more."""


class SandboxConfig(Section):
    level: Literal["strict", "auto", "process"] = "auto"
    """`strict`: programs are isolated by namespaces (Linux), or the command refuses to run. `auto`: they are where the
    system allows it; elsewhere programs are refused, and all else runs. `process`: limits alone, for trusted code."""
    open_verdicts: Literal["mark", "refuse"] = "mark"
    """Some tests need objects, functions or the world of a program, so they run in its process, where forgery is
    detected at best. `mark`: such a verdict counts, and `open` stands in verdict, log and metrics. `refuse`: it is
    unscorable."""
    workers: int = Field(2, ge=1)
    """Programs run at a time."""
    wall_s: float = Field(20.0, gt=0)
    """Wall-clock limit of one program."""
    test_s: float = Field(6.0, gt=0)
    """Wall-clock limit of one test."""
    memory_mb: int = Field(1024, ge=64)
    """Address space of one process beyond what the sandbox itself needs."""
    processes: int = Field(64, ge=1)
    """Most processes and threads of one program at a time."""
    preload: tuple[str, ...] = ()
    """Modules that the sandbox imports once, so that programs that use them load quickly, e.g. [numpy, pandas]."""
    packages: tuple[str, ...] = ()
    """Further modules that programs may import, e.g. [torch]. They see the standard library, what BigCodeBench's tasks
    use, what is preloaded, and what all these need; whatever else is installed (the answers of a suite, for one) is
    hidden from them, except at level `process`."""
