"""Our losses, gradients, advantages and sampler weights are those of TRL, run from its own code with every knob set.

What differs on purpose: TRL averages `bnpo` per micro-batch, while ours never depends on how a step is cut, so the two
agree for a step in one piece; and TRL calls `cispo`'s largest ratio `epsilon_high`, which is a constant here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from types import SimpleNamespace as Bag
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from orchestai.config import Phase2Config
from orchestai.tasks.task import Task
from orchestai.training.rl import formulas
from orchestai.training.rl.batch import Batch
from orchestai.training.rl.formulas import RECIPES, sampler_weights
from orchestai.training.rl.update import Objective
from orchestai.types import Scores, TokenDecisions

KINDS = ["grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo"]
MAX_SLOTS = 11
KNOBS: dict[str, dict[str, Any]] = {
    "on policy": {"stale": False},
    "stale": {},
    "clip higher": {"epsilon": 0.1, "epsilon_high": 0.28},
    "kl": {"kl_coef": 0.3},
    "entropy": {"entropy_coef": 0.05},
    "token weights": {"weights": "token"},
    "sequence weights": {"weights": "sequence"},
    "all": {
        "epsilon": 0.15,
        "epsilon_high": 0.3,
        "kl_coef": 0.2,
        "entropy_coef": 0.01,
        "weights": "token",
    },
}


@pytest.fixture(scope="module")
def trl() -> ModuleType:
    return pytest.importorskip("trl", reason="TRL is not installed; it comes with the dev extra")


@pytest.fixture(autouse=True)
def _in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Rows(nn.Module):
    """A policy that is nothing but the log-probabilities and entropies of its rows."""

    max_slots = MAX_SLOTS

    def __init__(self, logp: Tensor, entropy: Tensor, reference: Tensor) -> None:
        super().__init__()
        self.logp, self.entropy = nn.Parameter(logp.clone()), nn.Parameter(entropy.clone())
        self.before = reference
        self.now = True

    def score(self, tasks: Any, decisions: Any, *, explore: Any, temperature: float) -> Scores:
        rows = torch.tensor([int(row.prompt) for row in decisions])
        logp = self.logp[rows] if self.now else self.before[rows]
        mask = torch.ones_like(logp, dtype=torch.bool)
        return Scores(logp, self.entropy[rows], torch.zeros_like(logp), mask, torch.full(logp.shape[1:], -1))

    @contextmanager
    def reference(self) -> Iterator[None]:
        self.now = False
        yield
        self.now = True


class Drawn:
    """A random batch: rows of unequal lengths with holes, as tool calls leave, and one row without any slot."""

    def __init__(self, seed: int, *, stale: bool = True, weights: str | None = None) -> None:
        generator = torch.Generator().manual_seed(seed)
        rows, slots = 8, 9
        lengths = torch.randint(1, slots + 1, (rows,), generator=generator)
        lengths[1], lengths[2] = slots, 0
        self.exists = (torch.arange(slots) < lengths[:, None]).long()
        self.ours = (torch.rand(rows, slots, generator=generator) < 0.7).long()
        self.logp = -3 * torch.rand(rows, slots, generator=generator)
        moved = torch.randn(rows, 1, generator=generator) + torch.randn(rows, slots, generator=generator)
        self.old = self.logp + stale * 0.4 * moved
        self.reference = self.logp + 0.3 * torch.randn(rows, slots, generator=generator)
        self.entropy = (2 * torch.rand(rows, slots, generator=generator)).float().double()  # TRL ranks them in float32
        self.advantages = torch.randn(rows, generator=generator)
        self.weights: Tensor | None = None
        if weights is not None:
            self.weights = 2 * torch.rand(rows, slots if weights == "token" else 1, generator=generator)

    @property
    def mask(self) -> Tensor:
        return (self.exists * self.ours).bool()


def ours(kind: str, drawn: Drawn, **settings: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, and its gradients with respect to log-probabilities and entropies."""
    config = Phase2Config(loss_type=kind, **{"entropy_coef": 0.0, "epsilon": 0.2, **settings})
    policy = Rows(drawn.logp, drawn.entropy, drawn.reference)
    mask = drawn.mask
    weights = torch.ones_like(drawn.logp) if drawn.weights is None else drawn.weights.expand_as(drawn.logp)
    rows = len(mask)
    batch = Batch(
        tasks=(Task(task_id="t", suite="s", instruct_prompt="", test=""),) * rows,
        decisions=tuple(TokenDecisions(torch.tensor(i), torch.zeros(0)) for i in range(rows)),
        max_slots=MAX_SLOTS,
        logp=drawn.old,
        sampler_logp=drawn.old,
        mask=mask,
        values=torch.zeros_like(drawn.logp),
        weights=weights,
        advantages=torch.where(mask, drawn.advantages[:, None], 0.0),
        returns=torch.zeros_like(drawn.logp),
        sequences=torch.arange(rows),
        lengths=mask.sum(1),
    )
    loss = Objective(policy, RECIPES[kind], config)(batch, batch.counts()).loss
    loss.backward()
    gradient = policy.entropy.grad
    return loss.detach(), policy.logp.grad, torch.zeros_like(drawn.entropy) if gradient is None else gradient


def theirs(trl: ModuleType, kind: str, drawn: Drawn, parts: int = 1, **settings: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The same from TRL, summed over the micro-batches of one accumulation window, which is one generation batch."""
    logp, entropy = drawn.logp.clone().requires_grad_(), drawn.entropy.clone().requires_grad_()
    high = settings.get("epsilon_high") or settings.get("epsilon", 0.2)
    rows = len(logp)
    loss = torch.zeros(())
    for i in range(0, rows, rows // parts):
        part = slice(i, i + rows // parts)
        me = stub(trl, logp[part], entropy[part], parts)
        me.loss_type = "grpo" if kind == "gspo" else kind
        me.importance_sampling_level = "sequence" if kind == "gspo" else "token"
        me.epsilon_low = settings.get("epsilon", 0.2)
        me.epsilon_high = 5.0 if kind == "cispo" else high
        me.beta = settings.get("kl_coef", 0.0)
        me.top_entropy_quantile = 1.0
        me.args.delta = None
        me.entropy_coef = settings.get("entropy_coef", 0.0)
        me._entropy_bonus_enabled = me.entropy_coef > 0
        me.use_vllm = drawn.weights is not None
        one = torch.ones(rows // parts, 1, dtype=torch.long)
        inputs = {
            "prompt_ids": one,
            "prompt_mask": one,
            "completion_ids": torch.ones_like(drawn.exists[part]),
            "completion_mask": drawn.exists[part],
            "tool_mask": drawn.ours[part],
            "advantages": drawn.advantages[part],
            "old_per_token_logps": drawn.old[part],
            "ref_per_token_logps": drawn.reference[part],
            "num_items_in_batch": drawn.mask.sum().double(),
        }
        if drawn.weights is not None:
            inputs["importance_sampling_ratio"] = drawn.weights[part]
        loss = loss + trl.GRPOTrainer._compute_loss(me, None, inputs)
    loss.backward()
    gradient = torch.zeros_like(entropy) if entropy.grad is None else entropy.grad
    return loss.detach(), logp.grad, gradient


def stub(trl: ModuleType, logp: Tensor, entropy: Tensor, accumulation: int) -> Any:
    """What `GRPOTrainer._compute_loss` reads of its trainer."""
    same = lambda x, *_, **__: x  # noqa: E731
    return Bag(
        accelerator=Bag(
            num_processes=1,
            sync_gradients=True,
            gather=same,
            gather_for_metrics=same,
            reduce=same,
            pad_across_processes=same,
        ),
        model=Bag(training=True),
        off_policy_mask_threshold=None,
        max_completion_length=MAX_SLOTS,
        vllm_importance_sampling_correction=True,
        current_gradient_accumulation_steps=accumulation,
        use_adaptive_entropy=False,
        aux_loss_enabled=False,
        _metrics={"train": defaultdict(list)},
        args=Bag(use_bias_correction_kl=True, steps_per_generation=accumulation),
        _get_per_token_logps_and_entropies=lambda *_, **__: (logp, entropy, None),
    )


def largest_error(found: tuple[Tensor, Tensor, Tensor], expected: tuple[Tensor, Tensor, Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("knobs", KNOBS)
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradient_are_those_of_trl(trl, kind, knobs):
    settings = dict(KNOBS[knobs])
    how = {key: settings.pop(key) for key in ("stale", "weights") if key in settings}
    for seed in range(5):
        drawn = Drawn(seed, **how)
        found = ours(kind, drawn, **settings)
        assert float(found[1].abs().max()) > 1e-4
        assert largest_error(found, theirs(trl, kind, drawn, **settings)) < 1e-9


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bnpo"])
def test_a_step_that_trl_cuts_into_micro_batches_is_the_same(trl, kind):
    """Without the entropy bonus, which TRL averages per micro-batch."""
    drawn = Drawn(0, weights="sequence")
    settings = {"epsilon": 0.1, "epsilon_high": 0.3, "kl_coef": 0.2}
    assert largest_error(ours(kind, drawn, **settings), theirs(trl, kind, drawn, parts=4, **settings)) < 1e-9


@pytest.fixture(scope="module")
def trainer(trl, tmp_path_factory) -> Any:
    """TRL's trainer itself, with a random two-layer model: only it computes advantages and sampler weights."""
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    words = Tokenizer(WordLevel({"<pad>": 0, "<eos>": 1, **{str(i): i for i in range(2, 32)}}, unk_token="<pad>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    torch.manual_seed(0)
    size = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "pad_token_id": 0, "eos_token_id": 1}
    config = trl.GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("trl")),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=5,
        beta=0.0,
    )
    return trl.GRPOTrainer(
        Qwen2ForCausalLM(Qwen2Config(**size, **heads)),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["2 3"]}),
        processing_class=tokenizer,
    )


def generated(trainer: Any, rewards: Tensor, logps: list[list[float]] | None = None) -> dict[str, Tensor]:
    """What TRL makes of eight completions, two groups of four, with these rewards and sampler log-probabilities."""
    completions = [[5, 6, 7, 8, 1][-n:] for n in (5, 4, 3, 2, 1, 5, 4, 3)]
    prompts = [[2, 3]] * 8
    trainer._generate = lambda *_, **__: (prompts, completions, None, ["x"] * 8, logps, {}, None, None)
    trainer._calculate_rewards = lambda *_, **__: rewards if rewards.dim() > 1 else rewards[:, None]
    trainer.model.train()
    return trainer._generate_and_score_completions([{"prompt": "2 3"}] * 8)


@pytest.mark.parametrize("scale", ["group", "none"])
def test_advantages_are_those_of_trl(trainer, scale):
    """TRL has no choice of ddof and eps: 1 and 1e-4, which are ours by default. NaN is a reward that does not exist."""
    trainer.scale_rewards = scale
    group_ids = torch.arange(8) // 4
    generator = torch.Generator().manual_seed(0)
    batches = [5 * torch.randn(8, generator=generator) for _ in range(5)]
    batches += [torch.tensor([1.0, 1, 1, 1, 0, 0, 0, 1]), torch.tensor([1.0, math.nan, 0, 3, math.nan, 2, 2, 5])]
    for rewards in batches:
        expected = generated(trainer, rewards)["advantages"]
        found = formulas.group_advantages(rewards, group_ids, ~rewards.isnan(), scale=scale)
        assert torch.allclose(found.values, expected, atol=1e-9)


@pytest.mark.parametrize("bound", ["truncate", "mask"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_sampler_weights_are_those_of_trl(trainer, level, bound):
    generator = torch.Generator().manual_seed(0)
    logps = [[-3.5 + float(torch.randn((), generator=generator)) for _ in range(n)] for n in (5, 4, 3, 2, 1, 5, 4, 3)]
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
    trainer.vllm_importance_sampling_mode = f"{level}_{bound}"
    trainer.vllm_importance_sampling_clip_min, trainer.vllm_importance_sampling_clip_max = 0.0, 2.0
    try:
        made = generated(trainer, torch.arange(8.0), logps)
    finally:
        trainer.use_vllm = False
    mask = made["completion_mask"].bool()
    logp, sampler = made["old_per_token_logps"].double(), made["sampling_per_token_logps"].double()
    found = sampler_weights(logp, sampler, mask, level, bound, 2.0)
    plain = sampler_weights(logp, sampler, mask, level, "truncate", math.inf)
    assert (plain > 2).any()
    assert (plain < 2).any()
    assert torch.allclose(found[mask], made["importance_sampling_ratio"].double().expand_as(found)[mask], atol=1e-6)


def test_whitening_is_that_of_trls_ppo(trl):
    ppo = pytest.importorskip("trl.experimental.ppo.ppo_trainer", reason="TRL dropped PPO after 1.12")
    drawn = Drawn(0)
    expected = ppo.masked_whiten(drawn.logp, drawn.mask)
    assert torch.allclose(formulas.whiten(drawn.logp, drawn.mask)[drawn.mask], expected[drawn.mask], atol=1e-9)
