"""One agent in an environment, with the methods that rLLM's agents and environments have.

An environment has `reset() -> (observation, info)` and `step(action) -> (observation, reward, done, info)` (or, as in
Gymnasium, two flags for the end), and perhaps `from_dict(task)` and `close()`. An agent keeps its chat in
`chat_completions`, and has `reset()`, `update_from_env(observation, reward, done, info)` and `update_from_model(text)`,
which gives the action.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import Field, ImportString

from orchestai.agents.workflow import AgentWorkflow, AttemptContext
from orchestai.config.section import Section
from orchestai.errors import InfrastructureError
from orchestai.tasks.task import Task
from orchestai.threads import in_thread
from orchestai.types import Episode


class SingleAgent(AgentWorkflow):
    """Acts until the environment ends the episode, which is worth the sum of its rewards."""

    roles = ("agent",)

    class Args(Section):
        agent_class: ImportString[Callable[..., Any]]
        """The agent's class, or `module:Class`."""
        env_class: ImportString[Callable[..., Any]]
        """The environment's; `from_dict` makes one of a task, if there is such a method, else the class itself."""
        agent_args: dict[str, Any] = Field(default={})
        env_args: dict[str, Any] = Field(default={})
        max_steps: int = Field(10, ge=1)
        """Most acts."""

    args: Args

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        args = self.args
        given = {"task_id": task.task_id, "question": task.instruction, **task.details, **args.env_args}
        if task.answers:
            given["ground_truth"] = task.answers[0]
        from_dict = getattr(args.env_class, "from_dict", None)
        environment = await _call(lambda: from_dict(given) if from_dict else args.env_class(**given))
        agent = args.agent_class(**args.agent_args)
        agent.reset()
        observation, info = await _call(environment.reset)
        agent.update_from_env(observation, 0.0, False, info)
        role = context.conversation("agent")
        rewards: list[float] = []
        done = False
        while not done and len(role.acts) < args.max_steps:
            role.messages[:] = agent.chat_completions
            act = await role.act()
            action = agent.update_from_model(act.text)
            chosen = getattr(action, "action", action)
            observation, reward, *ends, info = await _call(partial(environment.step, chosen))
            done = any(ends)
            agent.update_from_env(observation, reward, done, info)
            rewards.append(float(reward))
        for act, reward in zip(role.acts, rewards, strict=True):
            role.earn(act, reward)
        if hasattr(environment, "close"):
            await _call(environment.close)
        return context.episode(sum(rewards), {"success": float(sum(rewards) >= 1), "steps": len(rewards)})


async def _call(work: Callable[[], Any]) -> Any:
    """What the environment gives, from a thread; one that raises is out of order, and no agent is to blame."""
    try:
        return await in_thread(work)
    except Exception as error:
        raise InfrastructureError("tool", f"the environment raised {type(error).__name__}: {error}") from error
