"""What a policy reads must be, token for token, what it read and wrote before and what it was told since, whatever else
is sampled with it; otherwise it would learn from tokens that it never chose."""

import asyncio
import itertools

import pytest
import torch

from orchestai.agents.agent_factory import PolicyChatModel, Seeds, ServedPolicy
from orchestai.agents.conversation import Budget, BudgetConfig, BudgetExceededError, Conversation
from orchestai.errors import InfrastructureError, UserError
from orchestai.lm.backends.base import SampleSettings
from orchestai.lm.backends.synced import LocalBackend
from orchestai.lm.batcher import Batcher
from orchestai.lm.causal import CausalPolicy
from orchestai.lm.chat_rendering import IncrementalChatRenderer
from support.models.language_model import tiny_model, tiny_tokenizer

SETTINGS = SampleSettings(temperature=1.0, max_new_tokens=12)


class Counting:
    """A backend that notes the sizes of its batches."""

    def __init__(self, inner):
        self.inner = inner
        self.batches = []

    async def generate(self, prompts, seeds, settings):
        self.batches.append(len(prompts))
        return await self.inner.generate(prompts, seeds, settings)


@pytest.fixture(scope="module")
def policy() -> CausalPolicy:
    return CausalPolicy(tiny_model(), frozenset({0}))


@pytest.fixture(scope="module")
def renderer() -> IncrementalChatRenderer:
    return IncrementalChatRenderer(tiny_tokenizer())


@pytest.fixture
def make(policy, renderer):
    backend = Counting(LocalBackend(policy))
    batcher = Batcher(backend, lock=asyncio.Lock())

    def chat_model(attempt=0, role="role", settings=SETTINGS, context=None, batcher=batcher) -> PolicyChatModel:
        return PolicyChatModel(ServedPolicy("p", batcher, renderer, context), role, settings, Seeds(attempt))

    chat_model.batches = backend.batches
    return chat_model


async def _talk(chat_model, questions=("one", "two", "three")):
    talk = Conversation("role", chat_model)
    for question in questions:
        await talk.ask(question)
    return [act.sampled for act in talk.acts]


async def test_the_next_prompt_begins_with_what_was_read_and_written(make):
    acts = await _talk(make())
    for before, after in itertools.pairwise(acts):
        known = torch.cat([before.prompt, before.completion])
        assert torch.equal(after.prompt[: len(known)], known)
        assert len(after.prompt) > len(known)


async def test_a_sample_depends_on_attempt_and_words_but_not_on_its_batch(make):
    alone = await _talk(make(attempt=3))
    together = await asyncio.gather(*(_talk(make(attempt=i)) for i in range(6)))
    assert max(make.batches) == 6
    for act, again in zip(alone, together[3], strict=True):
        assert torch.equal(act.completion, again.completion)
    assert len({tuple(acts[0].completion.tolist()) for acts in together}) > 1


async def test_an_engine_that_fails_fails_all_that_wait_and_no_later_act(make, policy):
    class Broken:
        async def generate(self, prompts, seeds, settings):
            raise UserError("the engine is down")

    batcher = Batcher(Broken(), lock=asyncio.Lock())
    for _ in range(2):
        failed = await asyncio.gather(*(_talk(make(batcher=batcher)) for _ in range(3)), return_exceptions=True)
        assert [str(error) for error in failed] == ["the engine is down"] * 3


async def test_turns_and_tokens_are_limited_over_all_conversations(make):
    budget = Budget(BudgetConfig(turns=2))
    first, second = (Conversation("role", make(), budget) for _ in range(2))
    await asyncio.gather(first.ask("one"), second.ask("one"))
    with pytest.raises(BudgetExceededError, match="no turn is left of 2"):
        await first.ask("two")

    budget = Budget(BudgetConfig(tokens=5))
    talk = Conversation("role", make(), budget)
    with pytest.raises(BudgetExceededError, match="no token is left of 5"):
        for _ in range(6):
            await talk.ask("go on")
    assert sum(act.tokens for act in talk.acts) == 5


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_time_in_calls_is_the_roles_and_time_of_models_is_not(make):
    clock = Clock()
    budget = Budget(BudgetConfig(timeout_s=10), clock)
    talk = Conversation("role", make(), budget)
    clock.now = 8
    await talk.ask("one")
    clock.now = 12
    with pytest.raises(InfrastructureError, match=r"12\.0 s passed, 0\.0 s of them in calls"):
        await talk.ask("two")

    budget = Budget(BudgetConfig(timeout_s=10), clock)
    with budget.calling(), budget.calling():  # at the same time: counted once
        clock.now += 9
    budget.open_turn(None)
    with budget.calling():
        clock.now += 2
    with pytest.raises(BudgetExceededError, match=r"11\.0 s of them in calls"):
        budget.open_turn(None)


async def test_a_model_that_never_answers_does_not_stall_an_attempt(make, renderer):
    class Silent:
        async def generate(self, prompts, seeds, settings):
            await asyncio.Event().wait()

    batcher = Batcher(Silent(), lock=asyncio.Lock())
    talk = Conversation("role", make(batcher=batcher), Budget(BudgetConfig(timeout_s=0.05)))
    with pytest.raises(InfrastructureError, match="waiting for models"):
        await talk.ask("one")
    await batcher.close()
