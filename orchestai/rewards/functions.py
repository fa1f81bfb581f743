"""Reward functions of agent workflows: by name, as `module:function`, or given as they are."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from orchestai.errors import InfrastructureError, UserError
from orchestai.names import find_object
from orchestai.outcome import Outcome, Scored, Unscorable, judged
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task

_log = logging.getLogger(__name__)

Reward: TypeAlias = Callable[[Task, str, Sandbox], float | Outcome | Awaitable[float | Outcome]]
"""What an answer to a task is worth. It may be a coroutine function, and may say that it cannot be judged."""

_NAMED = {
    "code_reward_fn": "orchestai.rewards.unit_tests:code_reward_fn",
    "math_reward_fn": "orchestai.rewards.maths:math_reward_fn",
    "search_reward_fn": "orchestai.rewards.answers:search_reward_fn",
    "f1_reward_fn": "orchestai.rewards.answers:f1_reward_fn",
}


async def score(function: Reward, task: Task, answer: str, sandbox: Sandbox) -> float:
    """Call a reward function.

    Raises:
        InfrastructureError: the answer could not be judged, for a reason that is not its own; one is that the function
            raised, or gave no finite number.
        UserError: the function's own.
    """
    try:
        result = function(task, answer, sandbox)
        outcome = await result if inspect.isawaitable(result) else result
        value = float(judged(outcome if isinstance(outcome, Scored | Unscorable) else Scored(float(outcome))))
    except (InfrastructureError, UserError):
        raise
    except Exception as error:
        _log.exception("reward function %s broke down", _name(function))
        said = f"{_name(function)} raised {type(error).__name__}: {error} (task {task.task_id!r})"
        raise InfrastructureError("scorer", f"reward function {said}") from error
    if not math.isfinite(value):
        raise InfrastructureError("scorer", f"reward function {_name(function)} gave {value} (task {task.task_id!r})")
    return value


def find_reward(name: Any) -> Any:
    """The reward function that a name, or `module:function`, stands for; anything else is given back.

    Raises:
        ValueError: nothing has this name.
    """
    if not isinstance(name, str):
        return name
    target = _NAMED.get(name, name)
    if ":" not in target:
        raise ValueError(f"no reward function {name!r}; there are {', '.join(_NAMED)}, or write module:function")
    try:
        return find_object(target)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"reward function {name!r} cannot be imported: {error}") from None


def _name(function: Any) -> str:
    named = getattr(function, "func", function)  # of a partial
    return f"{named.__module__}:{getattr(named, '__qualname__', type(named).__qualname__)}"


RewardFunction = Annotated[Reward, BeforeValidator(find_reward), PlainSerializer(_name, return_type=str)]
"""A setting that names a reward function, or is one."""
