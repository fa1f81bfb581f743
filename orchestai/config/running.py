"""The sections on what runs: tasks, executions, the sandbox, contracts and the server."""

from __future__ import annotations

from math import floor
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from orchestai.config.section import FoundName, Section


class RayConfig(Section):
    """backend ray: actors that each hold a sandbox and the workers. Nodes need this version of OrchestAI."""

    address: str | None = None
    """HOST:PORT of a cluster's head, `auto` on one of its nodes, or `local`; null joins RAY_ADDRESS, else starts Ray
    here."""
    num_workers: int | None = Field(None, ge=1)
    """Actors of each process, each with `sandbox.workers` programs at a time and as many CPUs; null takes what the
    cluster has."""
    env: tuple[str, ...] = ()
    """Environment variables of this machine that actors get, such as [OPENAI_API_KEY], beside what a process needs to
    run."""


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
    """A file (here or beside this configuration) or Hugging Face dataset instead of the suite's own source: .jsonl,
    .json, .parquet, for `file` also .csv and .tsv; with .gz or without."""
    columns: dict[TaskField, str] = Field(default={})
    """suite `file`: the file's columns, e.g. {instruction: question, answers: answer}; other fields have their own
    names there."""
    scorer: str = ""
    """What judges tasks that name no scorer: unit_tests, exact, contains, f1, numeric, maths or MODULE:FUNCTION; empty:
    their tests, else exact match."""
    answer: Literal["auto", "program", "text"] = "auto"
    """What `run` and `serve` answer with; `auto` goes by the words: a text, unless they ask for a function or
    program."""
    split: str = "train"
    """Split to learn from; `collect` draws from it and from the tasks for validation."""
    eval_split: str = "test"
    """Split that `evaluate` uses."""
    val_fraction: float = Field(0.2, gt=0, lt=1)
    """Share of the tasks to learn from that is held out for validation, where the suite has no such split."""
    test_fraction: float = Field(0.2, ge=0, lt=1)
    """Share of all tasks that is kept for tests, where the suite has no split `eval_split`; a hash of their words says
    which, the same for all stages."""
    test_fold: int = Field(0, ge=0)
    """Which share that is: with 0.2 there are five, 0 to 4, without a task in common."""
    include_learned: bool = False
    """Evaluate on tasks, too, that a checkpoint has learned from or was selected on; the figures say how many."""
    limit: int | None = Field(None, ge=1)
    """Only the first so many tasks of each part."""
    unscorable_limit: float = Field(0.2, gt=0, le=1)
    """A larger share of attempts that cannot be judged stops the command."""

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
    """For programs. `dataflow`: subtasks are functions, edges their arguments. `sink`: every worker reads the task and
    its parents' texts, and the last one's program is the answer, as a text is always."""
    timeout_s: float = Field(1800.0, gt=0)
    """Seconds for one workflow. Past it by the workers' measured latencies, what is unfinished fails; past it by the
    clock alone, the episode is unscorable."""
    max_cost_usd: float | None = Field(None, gt=0)
    """US dollars: no worker is asked whose answer might make a workflow cost more."""
    concurrency: int = Field(128, ge=1)
    """Workflows executed at a time, those that wait for their workers included."""


class SandboxConfig(Section):
    level: Literal["strict", "auto", "process"] = "auto"
    """`strict`: programs are isolated by namespaces (Linux), or the command refuses. `auto`: where the system allows
    it; elsewhere programs are refused. `process`: limits alone, for trusted code."""
    open_verdicts: Literal["mark", "refuse"] = "mark"
    """Some tests must run in the program's process, where forgery is detected at best. `mark`: such a verdict counts,
    and says `open`. `refuse`: it is unscorable."""
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
    """Further modules that programs may import, e.g. [torch], beside the standard library, what BigCodeBench's tasks
    use and what is preloaded; all else that is installed is hidden from them, except at level `process`."""


class Contract(Section):
    """What holds for one answer; a limit that is null does not hold."""

    max_cost_usd: float | None = Field(None, ge=0, le=1e9, allow_inf_nan=False)
    """US dollars that the answer may cost, in the worst case that its plan admits."""
    deadline_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Seconds after which there is an answer, whole or the best so far and marked as such; planning included."""
    max_calls: int | None = Field(None, ge=1)
    """Requests that may be sent to models and tools, samples and repeated tries included."""
    allow: tuple[str, ...] = ()
    """Workers that may be asked; empty allows the whole pool."""
    min_success: float | None = Field(None, ge=0, le=1)
    """The least probability that the answer is right; where no choice of workers reaches it, nobody is asked."""
    prefer: float | None = Field(None, ge=0, le=1)
    """From 0, the least price, to 1, the most success. null leaves the choice of workers to the planner."""

    def less(self, spent_usd: float) -> Contract:
        """The contract for what is left to do after so much was spent."""
        if self.max_cost_usd is None:
            return self
        return self.model_copy(update={"max_cost_usd": max(0.0, self.max_cost_usd - spent_usd)})


_MODEL = r"^[A-Za-z0-9._/-]+$"


class ServingConfig(Section):
    host: str = "127.0.0.1"
    """Where the server listens; the default is for programs on this machine alone."""
    require_keys: bool | None = None
    """Whether a request needs a key of `orchestai keys add`; null: where others than programs on this machine can send
    one."""
    port: int = Field(8080, ge=0, le=65535)
    """0 takes a free one, which is said at the start."""
    model: str = Field("orchestai", pattern=_MODEL)
    """The name under which clients ask the planner that the server was started with."""
    checkpoints: dict[Annotated[str, Field(pattern=_MODEL)], str] = Field(default={})
    """Further planners by the names under which clients ask them: checkpoints, or folders of versions."""
    profiles: dict[str, Contract] = Field(
        default={"cheap": Contract(prefer=0.0), "balanced": Contract(prefer=0.5), "best": Contract(prefer=1.0)}
    )
    """Contracts by name: `orchestai:cheap` is asked like a model. Those with a preference or a least success are
    offered where the planner has an estimate of its workers."""
    deadline_s: float = Field(120.0, gt=0)
    """The deadline of requests whose contract sets none."""
    max_body_bytes: int = Field(4 * 2**20, ge=1024)
    """Longest request."""
    failures: int = Field(5, ge=1)
    """After so many failures in a row a worker, or the planner, rests for ten seconds."""
    database: str = "sqlite:///served/orchestai.db"
    """Keys, money, served runs and feedback. `sqlite:///PATH`, or `postgresql+psycopg://USER:PASSWORD@HOST/NAME`, in
    which `${oc.env:NAME}` may stand for the password."""
    lease_s: float = Field(15.0, gt=0)
    """So many seconds after a server was killed, what its runs had reserved of their keys' money expires."""
    redact: str | None = None
    """`MODULE:FUNCTION` that is given every text of a run before it is kept, and gives what is kept in its place."""
    log_days: int | None = Field(None, ge=1)
    """The execution log's files, and served runs in the database, are removed after so many days; null keeps all."""
    tracing: bool = False
    """Whether runs are sent to OpenTelemetry (extra `otel`), where its own variables say."""
    log: Literal["none", "metadata", "full"] = "full"
    """What the execution log keeps of served runs; `metadata` leaves out every text."""

    @model_validator(mode="after")
    def _names_differ(self) -> ServingConfig:
        if self.model in self.checkpoints:
            raise ValueError(f"serving.checkpoints: {self.model!r} is serving.model already; take another name")
        return self
