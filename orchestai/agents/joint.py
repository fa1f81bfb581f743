"""Joint actions: roles act at the same moment, and are rewarded for what they did together (MAGRPO).

From "LLM Collaboration with Multi-Agent Reinforcement Learning" (Liu et al. 2025, arXiv 2508.04652). At a node every
role is shown its prompt and writes as many completions as there are attempts. Joint actions take one completion of each
role; each gets a reward and, where further turns follow, leads to a node of its own. A completion is credited with the
returns of the joint actions that it is part of; the rule of credit `joint` compares it with those of its role and node.
"""

from __future__ import annotations

import asyncio
import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pydantic import Field

from orchestai.agents.conversation import Act, BudgetExceededError
from orchestai.agents.workflow import AgentWorkflow, AttemptContext
from orchestai.config.section import Section
from orchestai.errors import InfrastructureError, UserError
from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.tasks.task import Task
from orchestai.types import Episode

Mode: TypeAlias = Literal["aligned", "cross"]
History: TypeAlias = Sequence[Sequence[str]]
"""The joint actions on the way to a node, oldest first, each as the texts of the roles in their order."""


class JointArgs(Section):
    """Settings of workflows in which roles act at the same moment."""

    num_turns: int = Field(1, ge=1)
    """Turns of each role. With more than one, a turn costs as many times more as there are joint actions."""
    joint_mode: Mode = "aligned"
    """`aligned`: the k-th completions of all roles make a joint action. `cross`: each with each of the others."""
    discount: float = Field(1.0, ge=0, le=1)
    """What a reward of the next turn weighs."""
    termination_threshold: float | None = None
    """No further turn follows where the mean reward of a node's joint actions is above this."""


@dataclass(frozen=True)
class Judgment:
    """What a joint action was worth by itself.

    `success` is how far it did all that was wanted, from 0 to 1; the last turn's is the attempt's.
    """

    reward: float
    success: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(eq=False)
class JointNode:
    """What the roles did after the same prompts.

    Attributes:
        name: the numbers of the joint actions that led here, from the root on.
        acts: of each role, one per attempt; why there is none where the engine failed.
        actions: joint actions, as the number of the act of each role, with a judgment each.
        children: by number of the joint action; none where no turn follows.
    """

    name: str
    acts: Sequence[Sequence[Act | Unscorable]]
    actions: Sequence[tuple[int, ...]]
    judgments: Sequence[Judgment | Unscorable]
    children: Mapping[int, JointNode] = field(default_factory=dict)


def joint_actions(mode: Mode, roles: int, samples: int) -> list[tuple[int, ...]]:
    """Which completions are judged together: `samples` joint actions, or `samples ** roles` where they cross."""
    if mode == "aligned":
        return [(k,) * roles for k in range(samples)]
    return list(itertools.product(range(samples), repeat=roles))


def joint_returns(node: JointNode, discount: float) -> list[Outcome]:
    """R = r + discount * mean of the child's returns, per joint action; unscorable where any part of it is."""
    returns: list[Outcome] = []
    for number, judgment in enumerate(node.judgments):
        if isinstance(judgment, Unscorable):
            returns.append(judgment)
            continue
        following = joint_returns(node.children[number], discount) if number in node.children else []
        later = _add(following)
        if isinstance(later, Scored):
            later = Scored(judgment.reward + discount * later.value / max(len(following), 1))
        returns.append(later)
    return returns


def credit(node: JointNode, returns: Sequence[Outcome]) -> list[list[Outcome]]:
    """Per role and act, the sum of the returns of the joint actions that it is part of."""
    return [
        [
            _add([r for action, r in zip(node.actions, returns, strict=True) if action[role] == k])
            for k in range(len(acts))
        ]
        for role, acts in enumerate(node.acts)
    ]


def _add(outcomes: Sequence[Outcome]) -> Outcome:
    lost = [outcome for outcome in outcomes if isinstance(outcome, Unscorable)]
    return lost[0] if lost else Scored(sum(outcome.value for outcome in outcomes if isinstance(outcome, Scored)))


class JointWorkflow(AgentWorkflow):
    """Roles that act at the same moment; a subclass says what they read and what a joint action is worth.

    Attempts at one task share a tree: the k-th attempt holds the k-th completions of the root, and all that followed
    the joint actions in which the first role's k-th completion took part. A role begins a new conversation at every
    node, so `transition` says all that it shall know. One that has spent its budget says nothing, and that is judged.
    """

    Args = JointArgs
    args: JointArgs

    @abstractmethod
    def prompts(self, task: Task) -> Sequence[str]:
        """What each role reads first, in the order of `roles`."""

    @abstractmethod
    async def judge(self, task: Task, history: History) -> Judgment:
        """What the last joint action of `history` is worth.

        Raises:
            InfrastructureError: they could not be judged.
        """

    def transition(self, task: Task, history: History) -> Sequence[str]:
        """What each role reads after the joint actions of `history`; written by workflows of several turns."""
        raise UserError(f"{type(self).__name__} has no transition: set agents.workflow_args.num_turns=1, or write one")

    async def run(self, task: Task, context: AttemptContext) -> Episode:
        """One attempt: a path with one joint action per turn."""
        return (await self.run_group(task, [context]))[0]

    async def run_group(self, task: Task, group: Sequence[AttemptContext]) -> list[Episode]:
        """As many attempts as there are agents, which are each other's baseline."""
        root = await self._grow(task, group, "root", self.prompts(task), ())
        returns = self._reward(root)
        episodes = []
        for k, context in enumerate(group):  # its joint actions' mean return; unscorable without all its acts' credit
            mine = [number for number, action in enumerate(root.actions) if k in action]
            own = [number for number in mine if root.actions[number][0] == k]
            total, value = _add([returns[number] for number in mine]), _add([returns[number] for number in own])
            if isinstance(total, Unscorable) or isinstance(value, Unscorable):
                episodes.append(context.episode(total))
                continue
            metrics: dict[str, list[float]] = {}
            for number in own:
                _gather(root, number, 1, metrics)
            means = {name: sum(some) / len(some) for name, some in metrics.items()}
            episodes.append(context.episode(value.value / len(own), means))
        return episodes

    async def _grow(
        self,
        task: Task,
        group: Sequence[AttemptContext],
        name: str,
        prompts: Sequence[str],
        history: History,
    ) -> JointNode:
        """The node at which the roles read `prompts`, with all that follows it."""

        async def act(context: AttemptContext, role: str, prompt: str) -> Act | Unscorable:
            try:
                return await context.conversation(role).ask(prompt)
            except BudgetExceededError:
                return Act("", ended=False, tokens=0)
            except InfrastructureError as error:
                return Unscorable.of(error)

        asked = [
            asyncio.gather(*(act(agents, role, prompt) for agents in group))
            for role, prompt in zip(self.roles, prompts, strict=True)
        ]
        acts = await asyncio.gather(*asked)
        actions = joint_actions(self.args.joint_mode, len(self.roles), len(group))
        chosen = [[acts[role][k] for role, k in enumerate(action)] for action in actions]
        judgments = await asyncio.gather(*(self._judge(task, history, some) for some in chosen))
        node = JointNode(name, acts, actions, judgments)
        threshold = self.args.termination_threshold
        rewards = [judgment.reward for judgment in judgments if isinstance(judgment, Judgment)]
        finished = not rewards or (threshold is not None and sum(rewards) / len(rewards) > threshold)
        if len(history) + 1 < self.args.num_turns and not finished:
            going_on = [number for number, judgment in enumerate(judgments) if isinstance(judgment, Judgment)]
            histories = [[*history, _texts(chosen[number])] for number in going_on]
            children = await asyncio.gather(
                *(
                    self._grow(
                        task,
                        [group[actions[number][0]]] * len(group),
                        f"{name}.{number}",
                        self.transition(task, told),
                        told,
                    )
                    for number, told in zip(going_on, histories, strict=True)
                )
            )
            node.children = dict(zip(going_on, children, strict=True))
        return node

    async def _judge(self, task: Task, before: History, acts: Sequence[Act | Unscorable]) -> Judgment | Unscorable:
        for act in acts:
            if isinstance(act, Unscorable):
                return act
        try:
            return await self.judge(task, [*before, _texts(acts)])
        except InfrastructureError as error:
            return Unscorable.of(error)

    def _reward(self, node: JointNode) -> list[Outcome]:
        """Give every act of the tree its reward and its group; the returns of the node's joint actions."""
        returns = joint_returns(node, self.args.discount)
        for acts, credits in zip(node.acts, credit(node, returns), strict=True):
            for act, credited in zip(acts, credits, strict=True):
                if isinstance(act, Act):
                    act.group = node.name
                    act.reward = credited.value if isinstance(credited, Scored) else None
        for child in node.children.values():
            self._reward(child)
        return returns


def _texts(acts: Sequence[Act | Unscorable]) -> tuple[str, ...]:
    return tuple(act.text if isinstance(act, Act) else "" for act in acts)


def _gather(node: JointNode, number: int, turn: int, metrics: dict[str, list[float]]) -> None:
    """Add the figures of a joint action, and of those that followed it, under the number of their turn."""
    judgment = node.judgments[number]
    if isinstance(judgment, Judgment):
        for name, value in {"reward": judgment.reward, **judgment.metrics}.items():
            metrics.setdefault(f"turn_{turn}_{name}", []).append(value)
    if number in node.children:
        child = node.children[number]
        for following in range(len(child.actions)):
            _gather(child, following, turn + 1, metrics)
    elif isinstance(judgment, Judgment):
        metrics.setdefault("success", []).append(judgment.success)
