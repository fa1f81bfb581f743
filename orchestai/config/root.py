"""The whole configuration of a planner's run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from orchestai.config.contract import Contract
from orchestai.config.planner import PlannerConfig
from orchestai.config.rl import Phase2Config, RewardsConfig, choose_form
from orchestai.config.running import ExecutionConfig, SandboxConfig, TasksConfig
from orchestai.config.section import RootSection, Section
from orchestai.config.serving import ServingConfig
from orchestai.config.supervised import Phase1Config
from orchestai.config.workers import WorkersConfig


class TrainingConfig(Section):
    phase1_supervised: Phase1Config = Phase1Config()
    phase2_rl: Phase2Config = Phase2Config()
    timeout_s: float = Field(3600.0, gt=0)
    """With several processes: longest that one waits for the others, which may have to execute more plans, or slower
    ones. Past it, or where one of them dies, all end with a message."""


class LoggingConfig(Section):
    trackers: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Besides the console and metrics.jsonl."""
    project: str = "orchestai"
    """Name of the wandb project."""
    entity: str | None = None
    """The wandb team or user; null is the default of whoever is logged in (or WANDB_ENTITY)."""


class Config(RootSection):
    planner: PlannerConfig = PlannerConfig()
    workers: WorkersConfig
    tasks: TasksConfig = TasksConfig()
    execution: ExecutionConfig = ExecutionConfig()
    sandbox: SandboxConfig = SandboxConfig()
    contract: Contract = Contract()
    serving: ServingConfig = ServingConfig()
    training: TrainingConfig = Field(TrainingConfig(), validate_default=True)
    rewards: RewardsConfig = Field(RewardsConfig(), validate_default=True)
    logging: LoggingConfig = LoggingConfig()

    @field_validator("training")
    @classmethod
    def _correct_what_an_engine_samples(cls, training: TrainingConfig, info: ValidationInfo) -> TrainingConfig:
        if "planner" not in info.data:
            return training
        corrected = info.data["planner"].language.with_correction(training.phase2_rl)
        return training.model_copy(update={"phase2_rl": corrected})

    @field_validator("rewards")
    @classmethod
    def _settle_the_form(cls, rewards: RewardsConfig, info: ValidationInfo) -> RewardsConfig:
        return choose_form(rewards, info.data["training"].phase2_rl) if "training" in info.data else rewards
