"""The training file: a JSON list of examples, and beside it the vocabularies that its indices refer to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orchestai.config import Config
from orchestai.errors import UserError, first_problem
from orchestai.execution.reward_reference import Reference
from orchestai.storage import artifacts
from orchestai.workflow import Subtask, Workflow

SCHEMA_VERSION: Final = 1


class Targets(BaseModel):
    """The plan to imitate; every list has one entry per subtask, in the order of the plan.

    Attributes:
        model_selections: index of the worker in the pool; None where nobody was chosen (that choice is not trained).
        task_types: index into `planner.task_types`; None where nobody named a type (that choice is not trained).
        dependencies: indices of the parents, in argument order.
        spans: [start, end) character offsets of the subtask's words in the instruction; None where it has words of
            its own.
        fallback: indices of the workers to ask next, in turn.
        instructions: the subtask's words.
        ids: names of the subtasks, each once; 1, 2, ... where the source has none.
        durations: seconds that each takes, where the source says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_selections: tuple[int | None, ...] = Field(min_length=1)
    task_types: tuple[int | None, ...]
    dependencies: tuple[tuple[int, ...], ...]
    spans: tuple[tuple[int, int] | None, ...] = ()
    fallback: tuple[tuple[int, ...], ...] = ()
    instructions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    durations: tuple[float | None, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        """The short form has only the three required lists."""
        if not isinstance(data, dict) or not isinstance(data.get("model_selections"), list | tuple):
            return data
        n = len(data["model_selections"])
        return {
            "spans": [None] * n,
            "fallback": [[]] * n,
            "instructions": [""] * n,
            "ids": [str(i + 1) for i in range(n)],
            "durations": [None] * n,
        } | data

    @model_validator(mode="after")
    def _consistent(self) -> Targets:
        n = len(self.model_selections)
        for name in ("task_types", "dependencies", "spans", "fallback", "instructions", "ids", "durations"):
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, but model_selections has {n}")
        self.workflow()
        return self

    def workflow(self) -> Workflow:
        """The plan without workers, under the steps' own ids."""
        if any(not 0 <= parent < len(self) for parents in self.dependencies for parent in parents):
            raise ValueError("dependencies: a parent that does not exist")
        return Workflow(
            [
                Subtask(
                    id=self.ids[i],
                    instruction=self.instructions[i],
                    depends_on=tuple(self.ids[parent] for parent in parents),
                    span=self.spans[i],
                )
                for i, parents in enumerate(self.dependencies)
            ]
        )

    def __len__(self) -> int:
        return len(self.model_selections)


class Rewards(BaseModel):
    """What the imitated execution gave: share of hidden tests passed, minus US dollars, minus seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    success: float = Field(ge=0, le=1)
    cost: float = Field(le=0)
    latency: float = Field(le=0)


class TrainingExample(BaseModel):
    """One instruction with the plan to imitate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    instruction: str
    task: str = ""
    """What is asked, where the instruction also lists tools or steps."""
    targets: Targets
    rewards: Rewards | None = None
    """None where the plan was written, not executed."""
    task_id: str = ""
    suite: str = ""
    """Or another source."""
    licence: str = ""
    """Of the source."""
    split: Literal["train", "validation", "test"] = "train"
    """`test` is for `evaluate-plans`; nothing is learned from it."""
    given: bool = False
    """Whether the instruction lists the steps, at `targets.spans`, so that only their edges are to be planned."""
    augmented: bool = False
    """Whether the instruction was reworded from a logged one."""
    schema_version: Literal[1] = SCHEMA_VERSION

    @property
    def asked(self) -> str:
        """What is asked, without tools and steps; where `task` does not say it, what stands before the given steps."""
        first = self.targets.spans[0]
        before = self.instruction[: first[0]].rpartition("\n")[0] if self.given and first else ""
        return self.task or before or self.instruction

    @property
    def solved(self) -> bool:
        """Whether an execution of the plan passed all hidden tests, so that its workers are worth imitating."""
        return self.rewards is not None and self.rewards.success == 1

    @model_validator(mode="after")
    def _given_steps(self) -> TrainingExample:
        if self.given and None in self.targets.spans:
            raise ValueError("targets.spans: a step that is given stands in the instruction")
        return self

    @model_validator(mode="after")
    def _spans_inside(self) -> TrainingExample:
        for i, span in enumerate(self.targets.spans):
            if span is not None and not 0 <= span[0] < span[1] <= len(self.instruction):
                raise ValueError(f"targets.spans.{i}: {list(span)} is not inside the instruction")
        return self


class TrainingMeta(BaseModel):
    """The sidecar `NAME.meta.json` of a training file.

    Attributes:
        task_types, pool: what indices refer to; empty where no example names a type, or a worker.
        fingerprint: of the examples, so that a sidecar of another file is noticed.
        counts: examples by split, and how many of them are augmented.
        dropped: reason -> number of executions or tasks left out.
        reward_reference: what the logged executions typically cost and how long they took; None without any.
        division: the settings by which tasks were divided into parts; each example says its own part.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = SCHEMA_VERSION
    task_types: tuple[str, ...]
    pool: tuple[str, ...]
    fingerprint: str
    counts: dict[str, int] = {}
    dropped: dict[str, int] = {}
    reward_reference: Reference | None = None
    division: dict[str, float] = {}


def meta_path(path: Path | str) -> Path:
    """`training_data.json` -> `training_data.meta.json`."""
    return Path(path).with_suffix(".meta.json")


def examples_fingerprint(examples: Sequence[TrainingExample]) -> str:
    """Of all that examples say; also what the sidecar of their file has."""
    return artifacts.fingerprint([example.model_dump(mode="json") for example in examples])


def save_training_data(
    path: Path | str,
    examples: Sequence[TrainingExample],
    config: Config,
    *,
    counts: dict[str, int] | None = None,
    dropped: dict[str, int] | None = None,
    reference: Reference | None = None,
) -> None:
    """Write the list and its sidecar.

    Raises:
        UserError: a file cannot be written.
    """
    data = [example.model_dump(mode="json") for example in examples]
    typed = any(kind is not None for example in examples for kind in example.targets.task_types)
    staffed = any(worker is not None for example in examples for worker in example.targets.model_selections)
    meta = TrainingMeta(
        task_types=config.planner.task_types if typed else (),
        pool=tuple(config.workers.pool) if staffed else (),
        fingerprint=artifacts.fingerprint(data),
        counts=counts or {},
        dropped=dropped or {},
        reward_reference=reference,
        division=config.tasks.model_dump(include={"val_fraction", "test_fraction", "test_fold"}),
    )
    artifacts.write_json(path, data)
    artifacts.write_json(meta_path(path), meta.model_dump(mode="json"))


def load_training_data(path: Path | str, config: Config) -> list[TrainingExample]:
    """Read a training file and check it against the configured task types, pool and plan size.

    A file without a sidecar (written by hand) is accepted; its indices are checked against the configuration alone.

    Raises:
        UserError: the file is absent, of another schema, or made for other task types or another pool. The message
            names the first wrong example and field.
    """
    path = Path(path)
    data = _read_json(path, "run prepare first, or pass --data FILE")
    if not isinstance(data, list):
        raise UserError(f"{path}: a training file is a JSON list of examples, not {_kind(data)}; run prepare again")
    if not data:
        raise UserError(f"{path}: no examples; collect more executions and run prepare again")
    if meta_path(path).exists():
        _check_meta(meta_path(path), artifacts.fingerprint(data), config)
    return [_example(raw, f"{path}: example {i}", config) for i, raw in enumerate(data)]


def logged_reference(path: Path | str) -> Reference | None:
    """What the executions behind a training file typically cost; None without a sidecar, or where none were executed.

    Raises:
        UserError: the sidecar cannot be read.
    """
    sidecar = meta_path(path)
    return _read_meta(sidecar).reward_reference if sidecar.exists() else None


def _read_meta(path: Path) -> TrainingMeta:
    try:
        return TrainingMeta.model_validate(_read_json(path, "run prepare again"))
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error)}; run prepare again") from None


def _check_meta(path: Path, fingerprint: str, config: Config) -> None:
    meta = _read_meta(path)
    if meta.fingerprint != fingerprint:
        raise UserError(
            f"{path}: belongs to another training file; run prepare again, or delete it if the data was edited by hand"
        )
    for name, saved, wanted in (
        ("planner.task_types", meta.task_types, config.planner.task_types),
        ("workers.pool", meta.pool, tuple(config.workers.pool)),
    ):
        if saved and saved != wanted:
            raise UserError(
                f"{path}: made for {name} {list(saved)}, but the config has {list(wanted)}; "
                "use the config it was made with, or run prepare again"
            )


def _example(raw: Any, where: str, config: Config) -> TrainingExample:
    if not isinstance(raw, dict):
        raise UserError(f"{where}: an example is a mapping, not {_kind(raw)}")
    version = raw.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise UserError(
            f"{where}: schema_version is {version!r}, this program reads {SCHEMA_VERSION}; run prepare again"
        )
    try:
        example = TrainingExample.model_validate(raw)
    except ValidationError as error:
        raise UserError(f"{where}: {first_problem(error)}; run prepare again") from None
    targets = example.targets
    if len(targets) > config.planner.max_subtasks:
        raise UserError(
            f"{where}: {len(targets)} subtasks, but planner.max_subtasks is {config.planner.max_subtasks}; raise it"
        )
    types = [index for index in targets.task_types if index is not None]
    chosen = [index for index in targets.model_selections if index is not None]
    workers = [*chosen, *(worker for row in targets.fallback for worker in row)]
    for field, indices, size, key in (
        ("task_types", types, len(config.planner.task_types), "planner.task_types"),
        ("model_selections or fallback", workers, len(config.workers.pool), "workers.pool"),
    ):
        outside = [index for index in indices if not 0 <= index < size]
        if outside:
            raise UserError(f"{where}: targets.{field}: index {outside[0]}, but {key} has {size} entries")
    return example


def _read_json(path: Path, advice: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; {advice}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable as JSON: {' '.join(str(error).split())}; run prepare again") from None


def _kind(value: object) -> str:
    return {"dict": "a mapping", "list": "a list", "str": "text"}.get(type(value).__name__, repr(value))
