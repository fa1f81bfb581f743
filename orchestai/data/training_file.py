"""The training file: a JSON list of examples, and beside it the types and workers that they name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, model_validator

from orchestai.config import Config
from orchestai.errors import UserError, first_problem
from orchestai.execution.reward import Reference
from orchestai.storage import artifacts
from orchestai.workflow import Subtask, Workflow, WorkflowError


@dataclass(frozen=True)
class Vocabulary:
    """The names that indices refer to: `planner.task_types`, and the workers of the pool in its order."""

    task_types: tuple[str, ...]
    workers: tuple[str, ...]

    @classmethod
    def of(cls, config: Config) -> Vocabulary:
        return cls(config.planner.task_types, tuple(config.workers.pool))


class IndexedPlan(BaseModel):
    """A plan to imitate; every list has one entry per subtask, in the order of the plan.

    Attributes:
        model_selections: index of the worker in the pool; None where nobody was chosen (that choice is not trained).
        task_types: index into `planner.task_types`; None where nobody named a type (that choice is not trained).
        dependencies: indices of the parents, in argument order.
        spans: [start, end) character offsets of the subtask's words in the instruction; None where it has words of
            its own.
        fallback: indices of the workers to ask next, in turn; None where nobody knows.
        instructions: the subtask's words.
        ids: names of the subtasks, each once; 1, 2, ... where the source has none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_selections: tuple[int | None, ...] = Field(min_length=1)
    task_types: tuple[int | None, ...]
    dependencies: tuple[tuple[int, ...], ...]
    spans: tuple[tuple[int, int] | None, ...] = ()
    fallback: tuple[tuple[int, ...] | None, ...] = ()
    instructions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

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
        } | data

    @model_validator(mode="after")
    def _same_lengths(self) -> IndexedPlan:
        n = len(self.model_selections)
        for name in type(self).model_fields:
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, but model_selections has {n}")
        return self

    @classmethod
    def of(cls, workflow: Workflow, vocabulary: Vocabulary) -> IndexedPlan:
        """The plan of a workflow.

        Raises:
            WorkflowError: a type or a worker is not in the vocabulary.
        """
        subtasks = workflow.subtasks
        types, workers = (
            _places(vocabulary.task_types, "planner.task_types"),
            _places(vocabulary.workers, "workers.pool"),
        )
        return cls(
            model_selections=tuple(workers(subtask.worker) if subtask.worker else None for subtask in subtasks),
            task_types=tuple(types(subtask.task_type) if subtask.task_type else None for subtask in subtasks),
            dependencies=tuple(map(tuple, workflow.dependencies())),
            spans=tuple(subtask.span for subtask in subtasks),
            fallback=tuple(tuple(map(workers, subtask.fallback)) for subtask in subtasks),
            instructions=tuple(subtask.instruction for subtask in subtasks),
            ids=tuple(subtask.id for subtask in subtasks),
        )

    def targets(self) -> dict[str, list[Any]]:
        """The three lists that every training file has."""
        return self.model_dump(mode="json", include={"model_selections", "task_types", "dependencies"})

    def workflow(self, vocabulary: Vocabulary) -> Workflow:
        """The same with names.

        Raises:
            WorkflowError: an index is outside the vocabulary or the plan, or the plan is no DAG.
        """
        workers = [*self.model_selections, *(worker for row in self.fallback for worker in row or ())]
        parents = [parent for row in self.dependencies for parent in row]
        for field, indices, size, what in (
            ("task_types", self.task_types, len(vocabulary.task_types), "planner.task_types"),
            ("model_selections or fallback", workers, len(vocabulary.workers), "workers.pool"),
            ("dependencies", parents, len(self.dependencies), "the plan"),
        ):
            outside = [index for index in indices if index is not None and not 0 <= index < size]
            if outside:
                raise WorkflowError(f"targets.{field}: index {outside[0]}, but {what} has {size} entries")
        return Workflow(
            [
                Subtask(
                    id=self.ids[i],
                    instruction=self.instructions[i],
                    task_type="" if (kind := self.task_types[i]) is None else vocabulary.task_types[kind],
                    worker="" if (worker := self.model_selections[i]) is None else vocabulary.workers[worker],
                    depends_on=tuple(self.ids[parent] for parent in parents),
                    fallback=tuple(vocabulary.workers[further] for further in self.fallback[i] or ()),
                    span=self.spans[i],
                )
                for i, parents in enumerate(self.dependencies)
            ]
        )


def _places(names: Sequence[str], key: str) -> Callable[[str], int]:
    places = {name: i for i, name in enumerate(names)}

    def place(name: str) -> int:
        if name not in places:
            raise WorkflowError(f"{name!r} is not in {key}")
        return places[name]

    return place


SCHEMA_VERSION: Final = 2
"""Of an example; those of version 1 have parallel lists of indices in place of a workflow."""
_PREPARE_FIRST: Final = "run prepare first, or pass --data FILE"


class Rewards(BaseModel):
    """What the imitated execution gave: score (share of hidden tests passed), minus US dollars, minus seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    success: float = Field(ge=0, le=1)
    cost: float = Field(le=0)
    latency: float = Field(le=0)


class TrainingExample(BaseModel):
    """One instruction with the plan to imitate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    instruction: str
    task: str = ""
    """What is asked, where the instruction also lists tools."""
    workflow: Workflow
    """A subtask without a type or a worker leaves that choice open, and it is not trained; one without words has those
    at its span."""
    rewards: Rewards | None = None
    """None where the plan was written, not executed."""
    task_id: str = ""
    suite: str = ""
    """Or another source."""
    licence: str = ""
    """Of the source."""
    split: Literal["train", "validation", "test"] = "train"
    """`test` is for `evaluate-plans`; nothing is learned from it."""
    augmented: bool = False
    """Whether the instruction was reworded from a logged one."""
    schema_version: Literal[2] = SCHEMA_VERSION

    @property
    def asked(self) -> str:
        """What is asked, without tools."""
        return self.task or self.instruction

    @property
    def spans(self) -> list[tuple[int, int]]:
        """[start, end) character offsets of the subtasks' words, of those that have some in the instruction."""
        return [subtask.span for subtask in self.workflow.subtasks if subtask.span is not None]

    @property
    def solved(self) -> bool:
        """Whether an execution of the plan had the full score, so that its workers are worth imitating."""
        return self.rewards is not None and self.rewards.success == 1

    @property
    def imitated(self) -> Workflow:
        """The workflow; of an execution that failed without workers, as it shows how to decompose, not whom to ask."""
        if self.solved:
            return self.workflow
        return self.workflow.replace({s.id: {"worker": "", "fallback": ()} for s in self.workflow.subtasks})

    @field_serializer("workflow")
    def _without_defaults(self, workflow: Workflow) -> dict[str, Any]:
        return workflow.to_dict()

    @model_validator(mode="after")
    def _consistent(self) -> TrainingExample:
        for subtask in self.workflow.subtasks:
            if subtask.span is not None and not 0 <= subtask.span[0] < subtask.span[1] <= len(self.instruction):
                raise ValueError(f"subtask {subtask.id!r}: span {list(subtask.span)} is not inside the instruction")
        return self


@dataclass(frozen=True)
class Entry:
    """An example as it is in a file: with a `workflow`, or, in the short form, with `targets` that hold indices.

    Attributes:
        where: the place in the file, for error messages.
    """

    raw: Mapping[str, Any]
    where: str

    def example(self, vocabulary: Vocabulary) -> TrainingExample:
        """The example, with names from the vocabulary."""
        version = self.raw.get("schema_version", SCHEMA_VERSION)
        if version not in (1, SCHEMA_VERSION):
            raise UserError(
                f"{self.where}: schema_version is {version!r}, this program reads 1 and {SCHEMA_VERSION}; "
                "run prepare again"
            )
        fields = {**self.raw, "schema_version": SCHEMA_VERSION}
        try:
            plan = _Targets.model_validate(fields).targets
            fields.pop("targets", None)
            if plan is not None and "workflow" not in fields:
                fields["workflow"] = plan.workflow(vocabulary)
            example = TrainingExample.model_validate(fields)
            named = IndexedPlan.of(example.workflow, vocabulary)
        except (ValidationError, WorkflowError) as error:
            problem = first_problem(error) if isinstance(error, ValidationError) else error
            raise UserError(f"{self.where}: {problem}; run prepare again") from None
        if plan is not None and plan.targets() != named.targets():
            raise UserError(f"{self.where}: targets and workflow differ; delete targets, which other programs read")
        return example


class _Targets(BaseModel):
    """What an entry may have in place of a workflow, or beside it for other programs."""

    targets: IndexedPlan | None = None


class TrainingMeta(BaseModel):
    """The sidecar `NAME.meta.json` of a training file.

    Attributes:
        task_types, pool: those configured; empty where no example names a type, or a worker.
        fingerprint: `data_fingerprint` of the file, so that a sidecar of another file is noticed.
        counts: examples by split, and how many of them are augmented.
        dropped: reason -> number of executions or tasks left out.
        reward_reference: what the logged executions typically cost and how long they took; None without any.
        division: the settings by which tasks were divided into parts; each example says its own part.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
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


def data_fingerprint(path: Path | str) -> str:
    """Of all that the examples of a training file say; its sidecar has it too."""
    return artifacts.fingerprint(_read_json(Path(path), _PREPARE_FIRST))


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

    Beside its `workflow` each example has `targets`: which worker, type and parents each subtask has, as indices.
    """
    vocabulary = Vocabulary.of(config)
    data = []
    for example in examples:
        try:
            targets = IndexedPlan.of(example.workflow, vocabulary).targets()
        except WorkflowError as error:
            raise UserError(f"{path}: {example.instruction[:40]!r}: {error}") from None
        data.append(example.model_dump(mode="json") | {"targets": targets})
    subtasks = [subtask for example in examples for subtask in example.workflow.subtasks]
    meta = TrainingMeta(
        task_types=vocabulary.task_types if any(subtask.task_type for subtask in subtasks) else (),
        pool=vocabulary.workers if any(subtask.worker for subtask in subtasks) else (),
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
    """
    path = Path(path)
    data = _read_json(path, _PREPARE_FIRST)
    if not isinstance(data, list):
        raise UserError(f"{path}: a training file is a JSON list of examples, not {_kind(data)}; run prepare again")
    if not data:
        raise UserError(f"{path}: no examples; collect more executions and run prepare again")
    if (sidecar := meta_path(path)).exists():
        meta = _read_meta(sidecar)
        if meta.fingerprint != artifacts.fingerprint(data):
            raise UserError(
                f"{sidecar}: belongs to another training file; run prepare again, or delete it if the data was edited "
                "by hand"
            )
        for name, saved, wanted in (
            ("planner.task_types", meta.task_types, config.planner.task_types),
            ("workers.pool", meta.pool, tuple(config.workers.pool)),
        ):
            if saved and saved != wanted:
                raise UserError(
                    f"{sidecar}: made for {name} {list(saved)}, but the config has {list(wanted)}; "
                    "use the config it was made with, or run prepare again"
                )
    vocabulary, most = Vocabulary.of(config), config.planner.max_subtasks
    examples = []
    for i, raw in enumerate(data):
        where = f"{path}: example {i}"
        if not isinstance(raw, dict):
            raise UserError(f"{where}: an example is a mapping, not {_kind(raw)}")
        example = Entry(raw, where).example(vocabulary)
        if len(example.workflow) > most:
            raise UserError(f"{where}: {len(example.workflow)} subtasks, but planner.max_subtasks is {most}; raise it")
        examples.append(example)
    return examples


def logged_reference(path: Path | str) -> Reference | None:
    """What the executions behind a training file typically cost; None where nothing says it."""
    sidecar = meta_path(path)
    return _read_meta(sidecar).reward_reference if sidecar.exists() else None


def _read_meta(path: Path) -> TrainingMeta:
    try:
        return TrainingMeta.model_validate(_read_json(path, "run prepare again"))
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error)}; run prepare again") from None


def _read_json(path: Path, advice: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; {advice}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable as JSON: {' '.join(str(error).split())}; run prepare again") from None


def _kind(value: object) -> str:
    return {"dict": "a mapping", "list": "a list", "str": "text"}.get(type(value).__name__, repr(value))
