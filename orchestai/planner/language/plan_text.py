"""Plans as text: compact JSON, written for a model to learn from, and read back from whatever a model writes.

    {"subtasks":[{"id":1,"instruction":"reverse it (`'ab'` -> `'ba'`)","task_type":"string","worker":"search",
    "fallback":[],"depends_on":[]},{"id":2,"instruction":"count its letters", ...

A step's words stand in the task's instruction: copied whole; or named by the number, `[2]`, of the part that they begin
with, as `with_numbers` shows it. Words that are not in the instruction are the plan's own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import ValidationError

from orchestai.config import PlannerConfig
from orchestai.errors import UserError, first_problem
from orchestai.planner.baselines import is_connective
from orchestai.tasks.visible_examples import clean
from orchestai.text.spoken import spoken
from orchestai.text.steps import StepError, read_steps
from orchestai.workers.base import WorkerCard
from orchestai.workflow import Subtask, Workflow, WorkflowError

Field: TypeAlias = Literal["task_type", "worker", "fallback", "depends_on"]
Quote: TypeAlias = Literal["whole", "numbered", "own"]

_FIELDS = frozenset(Subtask.model_fields) - {"span"}
_ASSIGNMENT = frozenset({"task_type", "worker", "fallback"})
_FENCE = "```"
_LANGUAGE = re.compile(r"\w*")
_SHIELDED = re.compile(r"`[^`]*`|\([^()`]*(?:`[^`]*`[^()`]*)*\)")
_NUMBER = re.compile(r"\[(\d{1,4})\]")
_BEGINNING = re.compile(
    r"(?:^|[.,;:\n])\s*(?:\d+\.\s+|[-*]\s+)?(?:(?:and|then|also|next|now|finally|first)\b\s+)*(?=[^\W\d_])",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[.;](?=\s|$)|\n")


class Mark(NamedTuple):
    """Where a value stands in a plan's text.

    Attributes:
        start, end: character offsets; of `depends_on`, of one parent's id, else of the value without its quotes.
        step: index of the subtask, from 0.
        field: which value.
    """

    start: int
    end: int
    step: int
    field: Field


@dataclass(frozen=True)
class PlanText:
    """A plan as a model should write it, and where its choices stand."""

    text: str
    marks: tuple[Mark, ...]


def with_numbers(instruction: str) -> str:
    """The instruction with `[1]`, `[2]`, ... behind all parts that a step may begin with: those between punctuation.

    Behind, because a language model reads forwards: at the number it knows the words that the number stands for.
    """
    pieces, last = [], 0
    for i, (_, end) in enumerate(_parts(instruction), start=1):
        pieces.append(f"{instruction[last:end].rstrip()} [{i}]{' ' if end < len(instruction) else ''}")
        last = end
    return "".join([*pieces, instruction[last:]])


def write_plan(workflow: Workflow, instruction: str, quote: Quote) -> PlanText:
    """The canonical text of a plan: subtasks as listed, with ids 1 to n, without spaces.

    What is empty is left out: a role, and a step's type, worker and fallbacks where it has no worker.

    Args:
        instruction: the task's, which words that are not copied whole are looked up in.
    """
    number = {subtask.id: i for i, subtask in enumerate(workflow.subtasks, start=1)}
    text, marks = '{"subtasks":[', []
    position = 0
    for i, subtask in enumerate(workflow.subtasks):
        words = subtask.instruction
        if subtask.span is not None and quote == "numbered":
            words = _name(instruction, subtask.span, words, position)
        position = subtask.span[1] if subtask.span is not None else position
        text += f'{"," if i else ""}{{"id":{i + 1},"instruction":{_json(words)}'
        if subtask.worker:
            for field, value in (("task_type", subtask.task_type), ("worker", subtask.worker)):
                text += f',"{field}":"'
                start, text = len(text), text + _json(value)[1:-1]
                marks.append(Mark(start, len(text), i, field))  # type: ignore[arg-type]
                text += '"'
            text += ',"fallback":['
            start, text = len(text), text + ",".join(map(_json, subtask.fallback)) + "]"
            marks.append(Mark(start, len(text), i, "fallback"))
        text += f',"role":{_json(subtask.role)}' if subtask.role else ""
        text += ',"depends_on":['
        for k, parent in enumerate(subtask.depends_on):
            text += "," if k else ""
            start, text = len(text), text + str(number[parent])
            marks.append(Mark(start, len(text), i, "depends_on"))
        text += "]}"
    return PlanText(text + "]}", tuple(marks))


def without_workers(workflow: Workflow) -> Workflow:
    """Its steps and edges alone."""
    nobody = {"task_type": "", "worker": "", "fallback": ()}
    return workflow.replace({subtask.id: nobody for subtask in workflow.subtasks})


@dataclass(frozen=True)
class Read:
    """A plan that was read.

    Attributes:
        whole: whether its text was one whole JSON value and nothing else (a fence aside).
        cut_off: whether the text ends within a further step.
    """

    workflow: Workflow
    whole: bool
    cut_off: bool = False


def read_plan(text: str, instruction: str, workers: Sequence[str], config: PlannerConfig) -> Read:
    """The workflow that a model wrote: JSON, perhaps fenced, after other words, or cut off in its last subtask.

    Of several plans the last whole one counts. Commas at an end and comments are passed over, and what Python or
    JavaScript write for JSON is read as such; keys that a subtask does not have are dropped; a subtask whose words are
    those of the instruction gets their span.

    Raises:
        WorkflowError: there are no subtasks, too many, or one is no JSON or not valid; the message says which and why.
    """
    text = spoken(text)
    try:
        raw, cut_off = read_steps(text)
    except StepError as error:
        raise WorkflowError(str(error)) from None
    if not raw:
        raise WorkflowError("the model's reply holds no subtask")
    if len(raw) > config.max_subtasks:
        raise WorkflowError(f"{len(raw)} subtasks, but planner.max_subtasks is {config.max_subtasks}")
    subtasks: list[Subtask] = []
    position = 0
    for entry in raw:
        subtask = _subtask(entry, workers, config)
        if (found := _find(subtask.instruction, instruction, position)) is not None:
            subtask = subtask.model_copy(update={"span": found[0], "instruction": found[1]})
            position = found[0][1]
        subtasks.append(subtask)
    return Read(Workflow(subtasks), _is_whole(text), cut_off)


def parse_plan(text: str, instruction: str, workers: Sequence[str], config: PlannerConfig) -> Workflow:
    """The workflow of `read_plan`; raises `WorkflowError` also where its last step is cut off."""
    read = read_plan(text, instruction, workers, config)
    if read.cut_off:
        raise WorkflowError(f"the model's reply ends within step {len(read.workflow) + 1}")
    return read.workflow


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _name(instruction: str, span: tuple[int, int], words: str, position: int) -> str:
    """The number of the part that the span begins with; all words where that does not lead back to it."""
    beginnings = [start for start, _ in _parts(instruction)]
    if span[0] in beginnings:
        name = f"[{beginnings.index(span[0]) + 1}]"
        if _find(name, instruction, position) == (span, words):
            return name
    return words


def _parts(instruction: str) -> list[tuple[int, int]]:
    """[start, end) of the parts between punctuation that may ask for something: all but connectives."""
    shield = _shield(instruction)
    starts = [match.end() for match in _BEGINNING.finditer(shield)]
    parts = zip(starts, [*starts, len(instruction)][1:], strict=True)
    return [(start, end) for start, end in parts if not is_connective(shield[start:end])]


def _shield(text: str) -> str:
    """The text with characters that bound nothing in place of code and parentheses."""
    return _SHIELDED.sub(lambda match: "_" * len(match[0]), text)


def _find(words: str, instruction: str, position: int) -> tuple[tuple[int, int], str] | None:
    """The span that `words` quote, at best after `position` (where the step before ended), and its words."""
    if not words:
        return None
    if number := _NUMBER.fullmatch(words):
        parts = _parts(instruction)
        if not 1 <= int(number[1]) <= len(parts):
            return None
        start = parts[int(number[1]) - 1][0]
        end = _clause_end(instruction, start)
        return (start, end), clean(instruction[start:end])
    after = instruction.find(words, position)
    start = after if after >= 0 else instruction.find(words)
    return ((start, start + len(words)), words) if start >= 0 else None


def _clause_end(instruction: str, start: int) -> int:
    """Where the clause that begins at `start` ends: at a full stop, semicolon or line end that nothing encloses."""
    shield = _shield(instruction[start:])
    match = _CLAUSE_END.search(shield)
    return start + len((shield[: match.start()] if match else shield).rstrip(" \t\r\n.,;:"))


def _is_whole(text: str) -> bool:
    text = text.strip()
    if len(text) >= 2 * len(_FENCE) and text.startswith(_FENCE) and text.endswith(_FENCE):
        text = _LANGUAGE.sub("", text[len(_FENCE) : -len(_FENCE)], count=1)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value.get("subtasks") if isinstance(value, dict) else value, list)


def _subtask(entry: Any, workers: Sequence[str], config: PlannerConfig) -> Subtask:
    if not isinstance(entry, dict):
        raise WorkflowError(f"a subtask is an object of JSON, not {_json(entry)[:80]}")
    where = f"subtask {entry.get('id')!r}"
    assigned = config.language.assign
    entry = dict(entry)
    for key in ("depends_on", "fallback"):  # one alone, or none
        value = entry.get(key, ())
        entry[key] = [] if value is None else [value] if isinstance(value, str | int | float) else value
    fields = {key: value for key, value in entry.items() if key in (_FIELDS if assigned else _FIELDS - _ASSIGNMENT)}
    try:
        subtask = Subtask.model_validate(fields)
    except ValidationError as error:
        raise WorkflowError(f"{where}: {first_problem(error)}") from None
    try:
        "".join((subtask.id, subtask.instruction, subtask.role)).encode()
    except UnicodeEncodeError:
        raise WorkflowError(f"{where}: half a surrogate pair, which is no text") from None
    if not assigned:
        return subtask
    if subtask.task_type not in config.task_types:
        raise WorkflowError(f"{where}: no task type {subtask.task_type!r}")
    unknown = [name for name in subtask.workers if name not in workers]
    if unknown:
        raise WorkflowError(f"{where}: no worker {unknown[0]!r} in the pool")
    return subtask


Steps = tuple[tuple[str, tuple[str, ...]], ...]
"""The words of each step, and the ids (from 1) of the steps that it needs."""

TASK = (
    "Write a function `task_func(text)`. First, reverse it (`'ab'` -> `'ba'`). Separately, starting again from the "
    "input, count its letters (`'to be'` -> `4`). Finally, with both, repeat the first as often as the second says "
    "(`'a', 2` -> `'aa'`)."
)
STEPS: Steps = (
    ("reverse it (`'ab'` -> `'ba'`)", ()),
    ("count its letters (`'to be'` -> `4`)", ()),
    ("repeat the first as often as the second says (`'a', 2` -> `'aa'`)", ("1", "2")),
)
_BUILT_IN: tuple[tuple[str, Steps], ...] = (
    (TASK, STEPS),
    (
        "Implement `task_func(numbers)`: to begin with, keep its even numbers (`[1, 2, 4]` -> `[2, 4]`); then, add "
        "them up (`[2, 4]` -> `6`).",
        (
            ("keep its even numbers (`[1, 2, 4]` -> `[2, 4]`)", ()),
            ("add them up (`[2, 4]` -> `6`)", ("1",)),
        ),
    ),
)


@dataclass(frozen=True)
class Worked:
    """An instruction and a good plan for it."""

    instruction: str
    workflow: Workflow


def worked_examples(config: PlannerConfig, cards: Sequence[WorkerCard]) -> list[Worked]:
    """The examples that `planner.language.few_shot` asks for."""
    wanted = config.language.few_shot
    if isinstance(wanted, Path):
        try:
            entries = json.loads(wanted.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"planner.language.few_shot: {wanted}: not readable as JSON: {error}") from None
        if not isinstance(entries, list):
            raise UserError(f"planner.language.few_shot: {wanted}: a list of examples is wanted")
        return [
            _entry(entry, f"planner.language.few_shot: {wanted}: example {i}", config, cards)
            for i, entry in enumerate(entries)
        ]
    if not 0 <= wanted <= len(_BUILT_IN):
        raise UserError(
            f"planner.language.few_shot: {wanted}, but {len(_BUILT_IN)} examples are built in; give a smaller number, "
            "or a file of your own examples"
        )
    types = config.task_types
    # Types and workers in turn: what is shown is the form, not the choice.
    return [
        Worked(
            instruction,
            Workflow(
                [
                    Subtask(
                        id=str(i + 1),
                        instruction=words,
                        task_type=types[-1] if len(parents) > 1 else types[0],
                        worker=cards[i % len(cards)].name,
                        depends_on=parents,
                        span=(start := instruction.index(words), start + len(words)),
                    )
                    for i, (words, parents) in enumerate(steps)
                ]
            ),
        )
        for instruction, steps in _BUILT_IN[:wanted]
    ]


def _entry(entry: object, where: str, config: PlannerConfig, cards: Sequence[WorkerCard]) -> Worked:
    if not isinstance(entry, dict) or not isinstance(entry.get("instruction"), str) or "subtasks" not in entry:
        raise UserError(f'{where}: write it as {{"instruction": "...", "subtasks": [...]}}')
    try:
        workflow = Workflow(subtasks=entry["subtasks"])
    except (WorkflowError, TypeError) as error:
        raise UserError(f"{where}: {error}") from None
    in_turn = {
        subtask.id: {"worker": cards[i % len(cards)].name}
        for i, subtask in enumerate(workflow.subtasks)
        if not subtask.worker
    }
    workflow = workflow.replace(in_turn)
    known = {card.name for card in cards}
    for subtask in workflow.subtasks:
        unknown = [name for name in subtask.workers if name not in known]
        if unknown or subtask.task_type not in config.task_types:
            wrong = f"worker {unknown[0]!r}" if unknown else f"task type {subtask.task_type!r}"
            raise UserError(f"{where}: subtask {subtask.id!r} has an unknown {wrong}")
    return Worked(entry["instruction"], workflow)
