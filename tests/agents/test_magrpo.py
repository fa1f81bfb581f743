"""MAGRPO's update against sums worked by hand, and not with the defects of CoMLRL."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from orchestai.agents.conversation import Act, Sampled
from orchestai.agents.joint import History, JointArgs, JointWorkflow, Judgment
from orchestai.agents.workflow import AttemptContext
from orchestai.config import Phase2Config
from orchestai.lm.causal import CausalPolicy
from orchestai.tasks.task import Task
from orchestai.training.rl.advantages import make_batch
from orchestai.training.rl.credit import Credit
from orchestai.training.rl.formulas import RECIPES
from orchestai.training.rl.update import Objective
from orchestai.types import Episode, Message, Trajectory
from support.models.language_model import tiny_model

TASK = Task(task_id="t", suite="s", instruct_prompt="ab")
PROMPTS = {"left": [30, 31], "right": [32, 33, 34]}
COMPLETIONS = {
    "left": [[40, 41, 0], [42, 0], [43, 44, 45, 46]],  # 0 ends a turn; the last one is cut off
    "right": [[50, 0], [51, 52, 53, 0], [54, 55, 0]],
}
REWARDS = [1.0, 2.0, 6.0]
ADVANTAGES = [-2.0, -1.0, 3.0]
"""Their mean is 3."""


class FixedChatModel:
    """Says the given tokens after the given prompt, one completion per conversation."""

    def __init__(
        self, policy: str, prompt: list[int], completion: list[int], logp: Tensor, trainable: bool = True
    ) -> None:
        self.policy = policy
        self.trainable = trainable
        self._sampled = Sampled(torch.tensor(prompt), torch.tensor(completion), logp, 0, len(completion))

    async def say(self, messages: Sequence[Message], max_new_tokens: int | None) -> Act:
        tokens = self._sampled.completion.tolist()
        return Act(str(tokens[0]), tokens[-1] == 0, len(tokens), self._sampled)


class Pairs(JointWorkflow):
    """Worth what `REWARDS` says of the left role's completion."""

    roles = ("left", "right")

    def prompts(self, task: Task) -> Sequence[str]:
        return ("", "")

    async def judge(self, task: Task, history: History) -> Judgment:
        first = [str(completion[0]) for completion in COMPLETIONS["left"]]
        return Judgment(REWARDS[first.index(history[-1][0])])


def play(policies: dict[str, str], models: dict[str, nn.Module], frozen: str = "") -> list[Episode]:
    """The episodes of the fixed completions, with their true log-probabilities; one role may be frozen."""

    def agents(k: int) -> AttemptContext:
        def chat_model(role: str) -> FixedChatModel:
            prompt, completion = PROMPTS[role], COMPLETIONS[role][k]
            with torch.no_grad():
                logp = log_probabilities(models[policies[role]], prompt, completion)
            return FixedChatModel(policies[role], prompt, completion, logp, role != frozen)

        return AttemptContext(TASK, chat_model)

    workflow = Pairs(JointArgs(), None)  # type: ignore[arg-type]
    return asyncio.run(workflow.run_group(TASK, [agents(k) for k in range(3)]))


def log_probabilities(model: nn.Module, prompt: list[int], completion: list[int]) -> Tensor:
    """(tokens,) of each token of the completion, by an ordinary forward pass."""
    logits = model(input_ids=torch.tensor([prompt + completion])).logits[0]
    logp = logits.log_softmax(-1)[len(prompt) - 1 : -1]
    return logp[torch.arange(len(completion)), torch.tensor(completion)]


def magrpo_loss(
    model: nn.Module,
    prompt: list[int],
    completions: list[list[int]],
    returns: list[float],
    *,
    without_last: bool = False,
    with_pads: bool = False,
) -> Tensor:
    """One role's loss at one node: -1/K sum_k A_k sum_t log pi(token t of completion k), with CoMLRL's defects
    if asked.

    Args:
        without_last: leave out the last token of each completion, which is the one that ends it.
        with_pads: take what pads a completion to the longest one, here the end token again, for tokens of it.
    """
    advantages = torch.tensor(returns) - torch.tensor(returns).mean()
    if with_pads:
        longest = max(map(len, completions))
        completions = [completion + [0] * (longest - len(completion)) for completion in completions]
    total = torch.zeros(())
    for advantage, completion in zip(advantages, completions, strict=True):
        logp = log_probabilities(model, prompt, completion)
        total = total - advantage * (logp[:-1] if without_last else logp).sum()
    return total / len(completions)


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    assert one.keys() == other.keys()
    scale = max(gradient.abs().max() for gradient in one.values())
    return all(torch.allclose(one[name], other[name], rtol=1e-4, atol=1e-5 * float(scale)) for name in one)


class Scored(nn.Module):
    """A causal policy as the trainer's."""

    max_slots = 8

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.causal = CausalPolicy(model, frozenset({0}))  # type: ignore[arg-type]

    def score(self, tasks, decisions, *, explore, temperature):
        return self.causal.score([d.prompt for d in decisions], [d.completion for d in decisions], temperature)

    def reference(self):
        return None


def ours(model: nn.Module, episodes: Sequence[Episode]) -> tuple[Tensor, list[float]]:
    """The trainer's loss of a policy's batch, and the advantages of its acts."""
    config = Phase2Config(loss_type="reinforce", entropy_coef=0.0)
    learning = make_batch(episodes, {"t": TASK}, RECIPES["reinforce"], config, 8, Credit("joint"))
    assert learning.batch is not None
    part = Objective(Scored(model), RECIPES["reinforce"], config)(learning.batch, learning.batch.counts())  # type: ignore[arg-type]
    return part.loss, learning.advantages.tolist()


def of_policy(episodes: Sequence[Episode], policy: str) -> list[Episode]:
    """The episodes with the trajectories of one policy alone."""

    def keep(trajectories: Sequence[Trajectory]) -> tuple[Trajectory, ...]:
        return tuple(trajectory for trajectory in trajectories if trajectory.policy == policy)

    return [Episode(e.task_id, e.group_id, keep(e.trajectories), e.reward, e.metrics, text=e.text) for e in episodes]


@pytest.fixture(scope="module")
def models() -> dict[str, nn.Module]:
    left = tiny_model()
    right = copy.deepcopy(left)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in right.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return {"left": left, "right": right}


def test_each_role_learns_as_worked_by_hand(models: dict[str, nn.Module]) -> None:
    episodes = play({"left": "left", "right": "right"}, models)
    for role, model in models.items():
        loss, advantages = ours(model, of_policy(episodes, role))
        assert advantages == pytest.approx(ADVANTAGES)
        trained = gradients(model, loss)
        by_hand = -sum(
            advantage * log_probabilities(model, PROMPTS[role], completion).sum()
            for advantage, completion in zip(ADVANTAGES, COMPLETIONS[role], strict=True)
        )
        assert loss.item() == pytest.approx(by_hand.item() / 3, rel=1e-4)  # type: ignore[union-attr]
        assert same(gradients(model, by_hand / 3), trained)
        # the last token counts, and what pads the shorter rows does not
        for defect in ("without_last", "with_pads"):
            wrong = magrpo_loss(model, PROMPTS[role], COMPLETIONS[role], REWARDS, **{defect: True})
            assert not same(gradients(model, wrong), trained)


def test_a_shared_model_learns_the_mean_of_its_roles(models: dict[str, nn.Module]) -> None:
    model = models["left"]
    loss, advantages = ours(model, play({"left": "left", "right": "left"}, models))
    assert sorted(advantages) == pytest.approx(sorted(ADVANTAGES * 2))
    alone = sum(magrpo_loss(model, PROMPTS[role], COMPLETIONS[role], REWARDS) for role in PROMPTS) / 2
    assert same(gradients(model, alone), gradients(model, loss))  # type: ignore[arg-type]
