"""The typed configuration: sections by concern, and how they are read."""

from orchestai.config.backend import BackendConfig, LoraConfig, VllmConfig
from orchestai.config.load import (
    DEFAULT_CONFIG,
    FIRST_POOL,
    Config,
    LoggingConfig,
    Phase1Config,
    TrainingConfig,
    check_workers,
    load,
    load_config,
    read,
)
from orchestai.config.planner import (
    BASE,
    CACHE_DIR,
    OF_SERVING,
    TINY,
    LanguageConfig,
    PlannerConfig,
    TinyConfig,
)
from orchestai.config.rl import (
    AdamConfig,
    OptimizationConfig,
    Phase2Config,
    PlansConfig,
    RewardsConfig,
    RewardWeights,
    RlConfig,
    SamplingConfig,
    WatchConfig,
)
from orchestai.config.running import (
    Contract,
    ExecutionConfig,
    PlaceConfig,
    RayConfig,
    SandboxConfig,
    ServingConfig,
    TasksConfig,
)
from orchestai.config.workers import (
    McpServerConfig,
    McpToolConfig,
    ModelConfig,
    NestedConfig,
    WorkerConfig,
    WorkersConfig,
)
