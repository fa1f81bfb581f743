"""What judges answers: scorers by name, as `MODULE:FUNCTION`, or given as they are."""

from __future__ import annotations

import hashlib
import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from orchestai.errors import InfrastructureError, UserError
from orchestai.outcome import Outcome, Scored, Unscorable, judged
from orchestai.plugins import find_object, find_plugin, there_are
from orchestai.rewards import unit_tests
from orchestai.rewards.answers import f1_reward_fn, holds_answer, normalize_answer, search_reward_fn
from orchestai.rewards.maths import NO_NUMBER, first_number, math_reward_fn, numeric_reward_fn
from orchestai.sandbox import Report, Sandbox
from orchestai.tasks.task import EXACT, UNIT_TESTS, Task
from orchestai.text.spoken import spoken

RECORDED_SCORES = "recorded_scores"
"""The key of `Task.details` under which scores stand, by the digest of the answer."""


def scores_by_answer(judged: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The scores of answers by their digests; of an answer that was scored differently nobody knows the score."""
    found: dict[str, set[float]] = {}
    for answer, score in judged:
        found.setdefault(_digest(answer), set()).add(score)
    return {digest: scores.pop() for digest, scores in found.items() if len(scores) == 1}


def recorded_reward_fn(task: Task, answer: str, sandbox: Sandbox) -> float:
    """The recorded score of the answer.

    Raises:
        InfrastructureError: the table holds no such reply.
    """
    score = task.details.get(RECORDED_SCORES, {}).get(_digest(answer))
    if score is None:
        raise InfrastructureError(
            "recording_missing", f"{task.place}: no score was recorded for this answer; ask recorded workers alone"
        )
    return float(score)


def _digest(answer: str) -> str:
    return hashlib.sha256(answer.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


_log = logging.getLogger(__name__)

Scorer: TypeAlias = Callable[[Task, str, Sandbox], float | Outcome | Awaitable[float | Outcome]]
"""What an answer to a task is worth. It may be a coroutine function, and may say that it cannot be judged."""

CONTAINS, F1, NUMERIC, MATHS, RECORDED = "contains", "f1", "numeric", "maths", "recorded"


def contains_reward_fn(task: Task, answer: str, sandbox: Sandbox) -> Outcome:
    """1 if a text has a right answer's words in a row, begins with it where that is yes or no, or ends on its number.

    For models that answer in sentences. A text that names several answers is right if one of them is.
    """
    if task.answers and all(first_number(right.strip().partition(" ")[0]) is not None for right in task.answers):
        return numeric_reward_fn(task, answer, sandbox)
    first = answer.partition(" ")[0]
    said = first if normalize_answer(first) in ("yes", "no") else answer
    return Scored(1.0) if holds_answer(answer, task) else search_reward_fn(task, said, sandbox)


SCORERS: dict[str, Scorer] = {
    UNIT_TESTS: unit_tests.code_reward_fn,
    EXACT: search_reward_fn,
    CONTAINS: contains_reward_fn,
    F1: f1_reward_fn,
    NUMERIC: numeric_reward_fn,
    MATHS: math_reward_fn,
    RECORDED: recorded_reward_fn,
}
_REWARD_NAMES = {
    "code_reward_fn": UNIT_TESTS,
    "search_reward_fn": EXACT,
    "f1_reward_fn": F1,
    "math_reward_fn": MATHS,
}
_FORMATS = {
    EXACT: "Answer with the answer alone, in as few words as it takes.",
    CONTAINS: "Answer with the answer alone, in as few words as it takes.",
    F1: "Answer with the answer alone, in as few words as it takes.",
    NUMERIC: "Answer with the number alone.",
    MATHS: r"Put the final answer into \boxed{}.",
}


@dataclass(frozen=True)
class JudgedAnswer:
    """An answer's outcome, with the sandbox's report where unit tests judged."""

    outcome: Outcome
    report: Report | None = None


async def judge(task: Task, answer: str, sandbox: Sandbox) -> JudgedAnswer:
    """Judge an answer by the task's scorer. A fault of the infrastructure makes it `Unscorable`."""
    if not task.scorer_name:
        return JudgedAnswer(Unscorable("task", f"{task.place}: nothing says how an answer is judged"))
    scorer = scorer_of(task)
    try:
        if scorer is unit_tests.code_reward_fn:
            report = await unit_tests.judge(sandbox, task, answer)
            return JudgedAnswer(report.outcome(), report)
        return JudgedAnswer(Scored(await score(scorer, task, answer, sandbox)))
    except InfrastructureError as error:
        return JudgedAnswer(Unscorable.of(error))


async def score(function: Scorer, task: Task, answer: str, sandbox: Sandbox) -> float:
    """Call a scorer; ours judge what is spoken, one of the user's reads all that was written.

    Raises:
        InfrastructureError: the answer could not be judged, for a reason that is not its own; one is that the function
            raised, or gave no finite number.
        UserError: the function's own.
    """
    if function in SCORERS.values():
        answer = spoken(answer)
    try:
        result = function(task, answer, sandbox)
        outcome = await result if inspect.isawaitable(result) else result
        value = float(judged(outcome if isinstance(outcome, Scored | Unscorable) else Scored(float(outcome))))
    except (InfrastructureError, UserError):
        raise
    except Exception as error:
        _log.exception("scorer %s broke down", _name(function))
        said = f"{_name(function)} raised {type(error).__name__}: {error} (task {task.task_id!r})"
        raise InfrastructureError("scorer", f"scorer {said}") from error
    if not math.isfinite(value):
        raise InfrastructureError("scorer", f"scorer {_name(function)} gave {value} (task {task.task_id!r})")
    return value


def find_scorer(name: Any) -> Any:
    """The scorer that a name, or `MODULE:FUNCTION`, stands for; anything else is given back.

    Raises:
        ValueError: nothing has this name.
        UserError: an installed package has it, and is broken.
    """
    if not isinstance(name, str):
        return name
    if (known := SCORERS.get(canonical_name(name))) is not None:
        return known
    if (plugin := find_plugin("scorers", name)) is not None:
        return plugin
    if ":" not in name:
        raise ValueError(f"no scorer {name!r}; {there_are('scorers', SCORERS, name)}")
    try:
        return find_object(name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"scorer {name!r} cannot be imported: {error}") from None


def canonical_name(name: str) -> str:
    """Name of a scorer that may be given by the name of its reward function."""
    return _REWARD_NAMES.get(name, name)


def reward_name(name: str) -> str:
    """What the reward of a scorer is called in figures: the function's name of `MODULE:FUNCTION`."""
    return canonical_name(name).rpartition(":")[2]


def find_rewards(names: Iterable[str], taken: Collection[str], where: str) -> dict[str, Scorer]:
    """The scorers of several rewards, by `reward_name`.

    Args:
        taken: names that other rewards and figures have.
        where: the key of the configuration that lists them.
    """
    found: dict[str, Scorer] = {}
    for name in names:
        short = reward_name(name)
        if short in found or short in taken:
            raise UserError(f"{where}: {name!r} would be called {short!r}, as another reward is; rename the function")
        try:
            found[short] = find_scorer(name)
        except ValueError as error:
            raise UserError(f"{where}: {error}") from None
        if not callable(found[short]):
            raise UserError(f"{where}: {name!r} is no function; name one that takes (task, answer, sandbox)")
    return found


def scorer_of(task: Task) -> Scorer:
    """The task's scorer."""
    try:
        found: Scorer = find_scorer(task.scorer_name)
    except ValueError as error:
        raise UserError(f"{task.place}: {error}") from None
    return found


def answer_format(task: Task) -> str:
    """What whoever writes the answer is told about its form, so that the scorer can read it; may be empty."""
    return _FORMATS.get(canonical_name(task.scorer_name), "")


def refuse_unscorable(tasks: Sequence[Task]) -> None:
    """Refuse tasks whose answers nothing could judge, before anything is paid for them."""
    lacking = [(task, reason) for task in tasks if (reason := _lacks(task))]
    if lacking:
        task, reason = lacking[0]
        more = f" ({len(lacking)} such tasks)" if len(lacking) > 1 else ""
        raise UserError(f"{task.place}: an answer could not be scored: {reason}{more}")


def _lacks(task: Task) -> str:
    """What is missing to judge answers; empty where nothing is."""
    if not task.scorer_name:
        return "the task has neither tests nor answers; add some, name its `scorer`, or remove it"
    scorer = scorer_of(task)
    if scorer is unit_tests.code_reward_fn:
        return "" if task.test.strip() else "its scorer is unit_tests, but it has no tests; add some, or remove it"
    if scorer not in SCORERS.values():
        return ""
    if scorer is recorded_reward_fn:
        return "" if task.details.get(RECORDED_SCORES) else "its scorer is recorded, but no score was recorded"
    answers = [answer for answer in task.answers if answer.strip()]
    if not answers:
        return f"its scorer is {task.scorer_name}, but it has no answers; add one, or remove it"
    if scorer is numeric_reward_fn and (wordy := [answer for answer in answers if first_number(answer) is None]):
        return f"its scorer is numeric, but {NO_NUMBER.format(wordy[0])}; correct it, or name another scorer"
    return ""


def _name(function: Any) -> str:
    named = getattr(function, "func", function)  # of a partial
    return f"{named.__module__}:{getattr(named, '__qualname__', type(named).__qualname__)}"


RewardFunction = Annotated[Scorer, BeforeValidator(find_scorer), PlainSerializer(_name, return_type=str)]
"""A setting that names a scorer, or is one."""
