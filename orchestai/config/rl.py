"""The section `training.phase2_rl`, by concern, and `rewards`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import Field, model_validator

from orchestai.config.section import Section


class AdamConfig(Section):
    """AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) on clipped gradients."""

    learning_rate: float = Field(3e-5, gt=0)
    optimizer: Literal["adamw", "adamw_8bit"] = "adamw"
    """`adamw_8bit` keeps the moments in 8 bits (Dettmers et al. 2022, arXiv 2110.02861): 2 bytes per weight instead of
    8. Needs the package bitsandbytes, on GPUs and processors alike, and weights that every process holds whole."""
    weight_decay: float = Field(0.0, ge=0)
    """Share of every weight, times the learning rate, that a step takes away."""
    max_grad_norm: float = Field(1.0, gt=0)
    """A longer gradient is scaled to this norm."""


class RewardsConfig(Section):
    """What an execution is worth; docs/reinforcement.md has both formulas."""

    success: Literal["fraction", "all"] = "all"
    """`fraction`: the score (share of hidden tests passed, F1, ...); `all`: 1 for the full score alone."""
    form: Literal["relative", "absolute"] | None = None
    """`relative`: cost and latency are compared with a reference and take off bounded shares of a success. `absolute`:
    they are charged per US dollar and per millisecond, by `training.phase2_rl.beta` and `gamma_latency`. null: absolute
    where one of these or `training.phase2_rl.shaped_reward` is set, else relative."""
    cost_weight: float = Field(0.05, ge=0)
    """relative: share of a success that cost can take off; an execution at the reference loses half of it."""
    latency_weight: float = Field(0.02, ge=0)
    """relative: likewise for the latency of the critical path."""
    check_weight: float = Field(0.03, ge=0)
    """relative: share of a success that a plan gets where all its subtasks pass their own checks."""
    cost_reference_usd: float | None = Field(None, gt=0)
    """relative: what an execution typically costs; null: the median that was measured in logs, or is measured now."""
    latency_reference_ms: float | None = Field(None, gt=0)
    """relative: how long its critical path typically takes; null: likewise."""
    reward_weights: dict[str, float] = Field(default={})
    """Rewards of one's own, by scorers' names or as `MODULE:FUNCTION` (which takes task, answer and sandbox, and gives
    a number, usually from 0 to 1), and what each weighs, in shares of a success."""

    @model_validator(mode="after")
    def _success_outweighs(self) -> RewardsConfig:
        together = self.cost_weight + self.latency_weight + self.check_weight
        if together >= 1:
            raise ValueError(
                f"rewards.cost_weight, latency_weight and check_weight add up to {together:g}; below 1 no failure is "
                "worth more than a success, so lower them (a few hundredths each are usual)"
            )
        return self


LossType: TypeAlias = Literal["grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo", "reinforce", "rloo"]


class OptimizationConfig(AdamConfig):
    """How weights change: algorithm, loss, learning rate, batches of the optimizer."""

    algorithm: Literal["GRPO", "PPO"] = "GRPO"
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """`linear`, `cosine`: the learning rate falls to 0 with the last episode, in a straight line or along half a
    cosine, so a resumed run cannot have more episodes."""
    warmup_updates: int = Field(0, ge=0)
    """Updates over which the learning rate rises to what the schedule says, by equal steps."""
    num_episodes: int = Field(1000, ge=1)
    """Tasks attempted in total; each is planned `num_generations` times."""
    num_updates: int | None = Field(None, ge=1)
    """Updates in total, instead of `num_episodes`: a batch ends with its pass over the tasks."""
    gamma: float | None = Field(None, ge=0, le=1)
    """PPO: discount per decision. null: 0.99 over a planner's decisions, 1 over a language model's tokens."""
    lambda_gae: float | None = Field(None, ge=0, le=1)
    """PPO: lambda of generalized advantage estimation. null: 0.95 over a planner's decisions, 1 over tokens."""
    epsilon: float | None = Field(None, gt=0)
    """Clip range of the ratio. null: 0.2; gspo, whose ratio is a mean over a row: 3e-4 downwards and 4e-4 upwards."""
    epsilon_high: float | None = Field(None, gt=0)
    """Upper clip range where it differs from the lower (DAPO's clip-higher: 0.28)."""
    num_iterations: int = Field(1, ge=1)
    """Passes over one batch."""
    num_minibatches: int = Field(1, ge=1)
    """Optimizer steps per pass."""
    micro_batch_size: int = Field(64, ge=1)
    """Plans in one forward pass; changes memory, never the result."""
    micro_batch_tokens: int | None = Field(None, ge=1)
    """Most slots in one forward pass of learning, instead of `micro_batch_size` plans: decisions, or, of a language
    model, tokens, with a prompt that plans share counted once. A plan with more makes a pass alone. Changes memory,
    never the result."""
    loss_type: LossType = "dapo"
    """GRPO's variant: how advantages are scaled, ratios are bounded and slots are averaged (PPO ignores it)."""
    mask_truncated: bool = False
    """Leave what a language model had to stop writing at its limit of tokens out of the loss (DAPO's overlong
    filtering). Its reward still counts in the baseline of the others."""
    value_coef: float = Field(0.5, ge=0)
    """PPO: weight of the value loss."""
    value_learning_rate: float | None = Field(None, gt=0)
    """PPO: learning rate of the value heads. null: 0.05 over their width, so that a step changes a value by about 0.05
    rewards at most, whatever the rate at which the policy learns."""
    entropy_coef: float = Field(0.01, ge=0)
    """Weight of the entropy bonus."""
    kl_coef: float = Field(0.0, ge=0)
    """Weight of the KL to the phase-1 planner (k3, weighted by the ratio)."""
    seed: int = 0


class SamplingConfig(Section):
    """How attempts are drawn: how many per task, how freely, from how old weights."""

    num_generations: int = Field(8, ge=2)
    """Attempts per task (the group)."""
    tasks_per_update: int = Field(16, ge=1)
    """Tasks whose attempts make one batch."""
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature of the explored decisions; also applied when they are scored."""
    sampler_correction: Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"] | None = None
    """Weigh each decision (`token`) or plan (`sequence`) by its probability under the planner over that under what drew
    it, for samplers that compute otherwise than the planner scores (vLLM). A weight above 3 becomes 3 (`truncate`) or 0
    (`mask`). null: `token_truncate` with a vLLM backend, else none."""


class RewardWeights(Section):
    """The scale of rewards, and the terms of the absolute form; a term that is not set is not charged."""

    alpha: float = Field(10.0, ge=0)
    """Reward for success."""
    beta: float | None = Field(None, ge=0)
    """absolute: reward lost per US dollar."""
    gamma_latency: float | None = Field(None, ge=0)
    """absolute: reward lost per millisecond of critical path."""
    shaped_reward: float | None = Field(None, ge=0)
    """absolute: reward per subtask that passed its own check."""


class WatchConfig(Section):
    """When training is evaluated, and when it is given up."""

    eval_every: int = Field(10, ge=1)
    """Updates between evaluations on validation tasks."""
    eval_tasks: int = Field(64, ge=1)
    """Validation tasks per evaluation."""
    save_every: int | None = Field(None, ge=1)
    """Updates between checkpoints that are kept, each in a folder checkpoint_N of the output folder from which one
    can go on; null keeps none. phase2_last and the training state are written then, and at every evaluation."""
    keep_checkpoints: int | None = Field(3, ge=1)
    """save_every: how many of these folders are kept, the latest; null keeps all."""
    flat_patience: int = Field(20, ge=1)
    """Updates in a row from which nothing can be learned, because every advantage is 0, before training stops."""


class RlConfig(OptimizationConfig, SamplingConfig, WatchConfig):
    """Reinforcement learning of whatever acts: the keys of `training.phase2_rl` that planners and agents share."""


class PlansConfig(Section):
    """Which plans are attempted, and how their decisions are credited."""

    max_steps_per_episode: int = Field(50, ge=1)
    """Most steps (subtasks) of one plan; a longer plan counts as invalid."""
    explore: tuple[Literal["stop", "span", "type", "worker", "fallback", "edge"], ...] = ("worker", "fallback")
    """Decisions that are sampled and trained; the others are taken greedily. Sampled edges are drawn one by one, not
    with the number of parents that greedy plans weigh."""
    credit: Literal["plan", "step"] = "plan"
    """`plan`: every decision is credited with the plan's reward. `step`: with what its own step earned, and with the
    plan's success only where no other step failed its check; for GRPO (`dr_grpo`) that explores workers and fallbacks
    alone, with the `dataflow` assembler, where no step's answer depends on another's."""


class Phase2Config(RlConfig, PlansConfig, RewardWeights):
    """All keys of a planner's `training.phase2_rl`, side by side; code asks for the part that it needs."""

    loss_type: LossType = "dr_grpo"
    """As of agents, but for the default: without a division by the deviation a small difference of cost stays small."""


def choose_form(rewards: RewardsConfig, weights: RewardWeights) -> RewardsConfig:
    """The rewards with their form settled.

    Raises:
        ValueError: a key of one form is set together with the other form.
    """
    absolute = [f"training.phase2_rl.{key}" for key in _ABSOLUTE if getattr(weights, key) is not None]
    form = rewards.form or ("absolute" if absolute else "relative")
    if form == "relative" and absolute:
        raise ValueError(
            f"rewards.form is relative, but {_are(absolute)} of the absolute form; weigh cost and "
            "latency by rewards.cost_weight and latency_weight instead, or set rewards.form=absolute"
        )
    default = RewardsConfig()
    relative = [f"rewards.{key}" for key in _RELATIVE if getattr(rewards, key) != getattr(default, key)]
    if form == "absolute" and relative:
        raise ValueError(
            f"{_are(relative)} of the relative form of the reward, but "
            f"{' and '.join(absolute) or 'rewards.form'} asks for the absolute one; remove one or the other"
        )
    return rewards.model_copy(update={"form": form})


def _are(keys: Sequence[str]) -> str:
    return f"{' and '.join(keys)} {'is' if len(keys) == 1 else 'are'}"


_ABSOLUTE = ("beta", "gamma_latency", "shaped_reward")
_RELATIVE = ("cost_weight", "latency_weight", "check_weight", "cost_reference_usd", "latency_reference_ms")
