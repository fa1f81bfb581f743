"""The typed configuration: sections by concern, and how they are read."""

from orchestai.config.adam import AdamConfig
from orchestai.config.backend import BackendConfig, RaySamplingConfig, VllmConfig
from orchestai.config.contract import Contract
from orchestai.config.load import DEFAULT_CONFIG, FIRST_POOL, check_workers, load, load_config, read
from orchestai.config.place import PlaceConfig, RayConfig
from orchestai.config.planner import (
    BASE,
    CACHE_DIR,
    OF_SERVING,
    TINY,
    LanguageConfig,
    LinkerConfig,
    LoraConfig,
    PlannerConfig,
    TinyConfig,
)
from orchestai.config.rl import (
    AggregationConfig,
    OptimizationConfig,
    Phase2Config,
    PlansConfig,
    RewardsConfig,
    RewardWeights,
    RlConfig,
    SamplingConfig,
    WatchConfig,
)
from orchestai.config.root import Config, LoggingConfig, TrainingConfig
from orchestai.config.running import ExecutionConfig, SandboxConfig, TasksConfig
from orchestai.config.serving import ServingConfig
from orchestai.config.supervised import Phase1Config
from orchestai.config.workers import (
    McpServerConfig,
    McpToolConfig,
    ModelConfig,
    NestedConfig,
    WorkerConfig,
    WorkersConfig,
)

__all__ = [
    "BASE",
    "CACHE_DIR",
    "DEFAULT_CONFIG",
    "FIRST_POOL",
    "OF_SERVING",
    "TINY",
    "AdamConfig",
    "AggregationConfig",
    "BackendConfig",
    "Config",
    "Contract",
    "ExecutionConfig",
    "LanguageConfig",
    "LinkerConfig",
    "LoggingConfig",
    "LoraConfig",
    "McpServerConfig",
    "McpToolConfig",
    "ModelConfig",
    "NestedConfig",
    "OptimizationConfig",
    "Phase1Config",
    "Phase2Config",
    "PlaceConfig",
    "PlannerConfig",
    "PlansConfig",
    "RayConfig",
    "RaySamplingConfig",
    "RewardWeights",
    "RewardsConfig",
    "RlConfig",
    "SamplingConfig",
    "SandboxConfig",
    "ServingConfig",
    "TasksConfig",
    "TinyConfig",
    "TrainingConfig",
    "VllmConfig",
    "WatchConfig",
    "WorkerConfig",
    "WorkersConfig",
    "check_workers",
    "load",
    "load_config",
    "read",
]
