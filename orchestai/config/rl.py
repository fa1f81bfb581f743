"""The section `training.phase2_rl`, by concern, and `rewards`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from orchestai.config.adam import AdamConfig
from orchestai.config.section import Section


class AggregationConfig(Section):
    """How several named rewards of an attempt become its advantage."""

    multi_objective_aggregation: Literal["sum_then_normalize", "normalize_then_sum"] = "sum_then_normalize"
    """Several named rewards: `sum_then_normalize` compares their weighted sum within the group (GRPO).
    `normalize_then_sum` compares each by itself, in its standard deviations, and sums that by weight (GDPO, arXiv
    2601.05242); for algorithms in standard deviations of the group. Agents: with credit `outcome`, `role` or `turn`."""
    whiten_advantages: bool = True
    """normalize_then_sum: divide the sum by its standard deviation over the batch, so that advantages do not grow with
    the number of rewards and their weights. Agents: false needs credit `outcome`."""


class RewardsConfig(AggregationConfig):
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
    """Updates in total, instead of `num_episodes`: a batch ends with its pass over the tasks, and may attempt more than
    `tasks_per_update` (`dynamic_sampling`), so that tasks do not tell the number of updates."""
    gamma: float | None = Field(None, ge=0, le=1)
    """PPO: discount per decision. null: 0.99 over a planner's decisions, 1 over a language model's tokens."""
    lambda_gae: float | None = Field(None, ge=0, le=1)
    """PPO: lambda of generalized advantage estimation. null: 0.95 over a planner's decisions, 1 over tokens."""
    epsilon: float | None = Field(None, gt=0)
    """Clip range of the ratio. null: 0.2; gspo, whose ratio is a mean over a row: 3e-4 downwards and 4e-4 upwards."""
    epsilon_high: float | None = Field(None, gt=0)
    """Upper clip range where it differs from the lower (DAPO's clip-higher: 0.28)."""
    delta: float | None = Field(None, gt=1)
    """Upper bound of the ratio of decisions that were worse than expected (dual clip, say 3); null for none."""
    max_ratio: float | None = Field(None, ge=1)
    """cispo: largest ratio with which a decision is weighed. null: 5."""
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
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo", "reinforce", "rloo"] = "dapo"
    """GRPO's variant: how advantages are scaled, ratios are bounded and slots are averaged (PPO ignores it)."""
    mask_truncated: bool = False
    """Leave what a language model had to stop writing at its limit of tokens out of the loss (DAPO's overlong
    filtering). Its reward still counts in the baseline of the others."""
    overlong_buffer: int | None = Field(None, ge=1)
    """What a language model writes into the last so many tokens before its limit costs it up to `overlong_penalty`,
    token by token, and all of it where it was cut off (DAPO's soft overlong punishment); null for no penalty."""
    overlong_penalty: float = Field(0.5, ge=0)
    """overlong_buffer: the whole penalty, in shares of a success (`alpha`, and a reward of 1 of agents). DAPO's is half
    of what lies between its rewards, which are -1 and 1. An invalid plan is charged all of it, however short."""
    value_coef: float = Field(0.5, ge=0)
    """PPO: weight of the value loss."""
    value_clip: float | None = Field(0.2, gt=0)
    """PPO: clip range of the value, null for none."""
    value_learning_rate: float | None = Field(None, gt=0)
    """PPO: learning rate of the value heads. null: 0.05 over their width, so that a step changes a value by about 0.05
    rewards at most, whatever the rate at which the policy learns."""
    value_warmup_updates: int = Field(0, ge=0)
    """PPO: first updates in which the value heads learn alone, and the policy stays as it is."""
    top_entropy_quantile: float = Field(1.0, gt=0, le=1)
    """Share of the decisions of an optimizer step that the policy learns from: those of the highest entropy (0.2 in
    arXiv 2506.01939). Below 1 every batch is read once more, to know the entropies of the whole step beforehand."""
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
    dynamic_sampling: bool = False
    """Replace groups whose rewards do not differ by groups of further tasks, until `tasks_per_update` groups differ
    (DAPO). Where they still do not after `max_resampling_rounds`, or the pass over the tasks ends, the batch is filled
    up with groups that do not differ. `num_episodes` counts every task that was attempted."""
    max_resampling_rounds: int = Field(3, ge=1)
    """dynamic_sampling: how often the groups of one batch are replaced at most."""
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature of the explored decisions; also applied when they are scored."""
    on_policy: bool = True
    """Sample a batch only when all former ones have been learned from. If false, the next batches are sampled while the
    present one is executed."""
    max_staleness: int = Field(1, ge=1)
    """on_policy false: most updates between the sampling of a plan and learning from it; so many batches are sampled
    ahead. An older plan is unscorable."""
    sampler_correction: Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"] | None = None
    """Weigh each decision (`token`) or plan (`sequence`) by its probability under the planner over that under what drew
    it, for samplers that compute otherwise than the planner scores (vLLM). A weight outside `sampler_ratio_min` and
    `sampler_ratio_max` becomes the nearer of them (`truncate`) or 0 (`mask`). null: `token_truncate` with a vLLM
    backend, else none."""
    sampler_ratio_min: float = Field(0.0, ge=0)
    sampler_ratio_max: float = Field(3.0, gt=0)


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
    min_entropy: float | None = Field(None, ge=0)
    """Training stops where the explored decisions' mean entropy (in nats) stays below this; null never stops it."""
    collapse_patience: int = Field(10, ge=1)
    """Updates in a row for which `min_entropy`, or a planner's `max_invalid_share`, must be missed."""


class RlConfig(OptimizationConfig, SamplingConfig, WatchConfig):
    """Reinforcement learning of whatever acts: the keys of `training.phase2_rl` that planners and agents share."""


class PlansConfig(Section):
    """Which plans are attempted, and how their decisions are credited."""

    executions_per_plan: int = Field(1, ge=1)
    """Executions whose mean reward a plan gets."""
    max_steps_per_episode: int = Field(50, ge=1)
    """Most steps (subtasks) of one plan; a longer plan counts as invalid."""
    explore: tuple[Literal["stop", "span", "type", "worker", "fallback", "edge"], ...] = ("worker", "fallback")
    """Decisions that are sampled and trained; the others are taken greedily. Sampled edges are drawn one by one, not
    with the number of parents that greedy plans weigh."""
    credit: Literal["plan", "step"] = "plan"
    """`plan`: every decision is credited with the plan's reward. `step`: with what its own step earned, and with the
    plan's success only where no other step failed its check; for GRPO (`dr_grpo`) that explores workers and fallbacks
    alone, with the `dataflow` assembler, where no step's answer depends on another's."""
    preference_share: float = Field(0.0, ge=0, le=1)
    """Share of the tasks, drawn anew for every update, that are planned and rewarded by a preference: `prefer` is drawn
    from 0 to 1, and for one of four of them so is how much of the price is time. The others are planned and rewarded
    as configured. A planner that has learned this chooses workers itself where `prefer` is asked for and it has no
    estimate of them."""
    max_invalid_share: float | None = Field(None, ge=0, le=1)
    """Training stops where a larger share of the sampled plans stays invalid; null never stops it."""


class Phase2Config(RlConfig, PlansConfig, RewardWeights):
    """All keys of a planner's `training.phase2_rl`, side by side; code asks for the part that it needs."""


def choose_form(rewards: RewardsConfig, weights: RewardWeights) -> RewardsConfig:
    """The rewards with their form settled.

    Raises:
        ValueError: a key of one form is set together with the other form.
    """
    absolute = [f"training.phase2_rl.{key}" for key in _ABSOLUTE if getattr(weights, key) is not None]
    form = rewards.form or ("absolute" if absolute else "relative")
    if form == "absolute" and rewards.multi_objective_aggregation == "normalize_then_sum":
        raise ValueError(
            f"multi_objective_aggregation=normalize_then_sum weighs rewards by shares of a success, and "
            f"{' and '.join(absolute) or 'rewards.form'} asks for the absolute form, which charges per US dollar and "
            "millisecond; leave one or the other out"
        )
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
