"""Short words and other programs' keys as overrides of ours, and the words of `python train.py KEY=VALUE ...`."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from orchestai.config.load import Config, load_config
from orchestai.config.planner import BASE
from orchestai.errors import UserError
from orchestai.installed import here_or_shipped
from orchestai.plugins import did_you_mean

Meaning: TypeAlias = Callable[[Any], list[str]]
"""The overrides that a value stands for."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Aliases:
    """What other names than the configuration's own stand for.

    Attributes:
        keys: by alias, the dotted key that means the same, or what its value means.
        unused: aliases that change nothing here, with a reason or none; they are named in a warning.
    """

    keys: Mapping[str, str | Meaning]
    unused: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, key: str) -> bool:
        return key in self.keys or key in self.unused

    def overrides(self, values: Mapping[str, Any], source: str) -> list[str]:
        """Overrides such as `a.b.c=value` for values by alias.

        Args:
            source: of the values, for the warning.
        """
        words: list[str] = []
        unused = []
        for key, value in values.items():
            if key in self.keys:
                meaning = self.keys[key]
                words += [override(meaning, value)] if isinstance(meaning, str) else meaning(value)
            elif key in self.unused:
                unused.append(f"{key} ({self.unused[key]})" if self.unused[key] else key)
            else:
                hint = did_you_mean(key, self.keys) or "; write a dotted key of the configuration"
                raise UserError(f"{key}: unknown key (value {value!r}){hint}")
        if unused:
            _log.warning("of %s, these change nothing here: %s", source, ", ".join(unused))
        return words

    def replace(self, words: Sequence[str]) -> list[str]:
        """The words, with overrides in the place of those that are aliases."""
        replaced = []
        for word in words:
            key, value = split(word)
            replaced += self.overrides({key: yaml.safe_load(value)}, "the words") if key in self else [word]
        return replaced


def split(word: str) -> tuple[str, str]:
    """Key and value of `key=value`; Hydra's `@_global_` after a key means nothing."""
    key, equals, value = word.partition("=")
    if not equals:
        raise UserError(f"{word!r}: write it as section.key=value")
    return key.removesuffix("@_global_"), value


def override(key: str, value: Any) -> str:
    """`key=value`, so that the value is read as it is."""
    return f"{key}={json.dumps(value)}"


def whole_number(key: str, value: str) -> int:
    """Raise a `UserError` where the value is not a whole number from 1."""
    if not value.isdecimal() or int(value) < 1:
        raise UserError(f"{key}: {value!r} is not a whole number from 1")
    return int(value)


def processes() -> int:
    """How many `accelerate launch` started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def flags_as_words(arguments: Sequence[str], flags: Collection[str]) -> list[str]:
    """`--learning_rate 1e-6` as `learning_rate=1e-6`, but for `flags` that the command itself has."""
    words: list[str] = []
    left = iter(arguments)
    for argument in left:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or name.replace("-", "_") in flags:
            words.append(argument)
        else:
            words.append(f"{name}={value if equals else next(left, '')}")
    return words


PRESETS = Path("configs/bigcodebench")
_NAMES = ("cpu", "one_gpu", "eight_gpus")
_PHASE2 = "training.phase2_rl"
_FIXED = {"model_cfg": ("base",), "data_cfg": ("bigcodebench",), "run_cfg": ("default", *_NAMES)}
_KEYS = ("evaluate_only", "checkpoint", "output_dir", "resume")
_SIZES = ("train_batch_size", "per_device_train_batch_size", "vllm_gpu_memory_utilization")


def _trainer(value: Any) -> list[str]:
    if str(value).lower() not in ("grpo", "ppo"):
        raise UserError(f"trainer_cfg: {value!r} is not one of grpo, ppo")
    return [f"{_PHASE2}.algorithm={str(value).upper()}"]


SHORT = Aliases(
    {
        "model_name_or_path": "planner.language.model",
        "trainer_cfg": _trainer,
        "max_steps": lambda value: [override(f"{_PHASE2}.num_updates", whole_number("max_steps", str(value)))],
    }
)
"""Short words of phase 2, whatever the configuration that they change."""


@dataclass(frozen=True)
class Asked:
    """What a line of words asks for.

    Attributes:
        evaluate_only: the checkpoint to validate instead of training.
        checkpoint: the planner to start from.
        output_dir: folder for checkpoints and metrics, or for the figures of `evaluate_only`; None if not given.
        resume: go on with the run in `output_dir`.
    """

    config: Config
    evaluate_only: Path | None
    checkpoint: Path
    output_dir: Path | None
    resume: bool


def understand(words: Sequence[str]) -> Asked:
    """Read short keys and dotted overrides; `@_global_` after a key means nothing.

    `train_batch_size` is the number of plans of one update, `per_device_train_batch_size` that of one process's forward
    pass, and, where `train_batch_size` is not given, its share of an update. `max_steps` is the number of updates.
    """
    given: dict[str, str] = {}
    overrides = []
    for word in words:
        key, value = split(word)
        if key in (*_FIXED, *_KEYS, *_SIZES):
            if value not in _FIXED.get(key, (value,)):
                raise UserError(f"{key}: {value!r} is not one of {', '.join(_FIXED[key])}")
            given[key] = value
        elif "." in key or key in SHORT:
            overrides += SHORT.replace([f"{key}={value}"])
        else:
            known = ", ".join((*_FIXED, *SHORT.keys, *_SIZES, *_KEYS))
            raise UserError(f"{word!r}: write a dotted key of the configuration, or one of {known}")
    name = given.get("run_cfg", "default")
    if name == "default":
        import torch

        name = "eight_gpus" if processes() > 1 else "one_gpu" if torch.cuda.is_available() else "cpu"
    path = here_or_shipped(PRESETS) / f"{name}.yaml"
    return Asked(
        config=load_config(path, [*overrides, *_sizes(given, load_config(path, overrides))]),
        evaluate_only=Path(given["evaluate_only"]) if given.get("evaluate_only") else None,
        checkpoint=Path(given.get("checkpoint", BASE)),
        output_dir=Path(given["output_dir"]) if given.get("output_dir") else None,
        resume=given.get("resume", "false").lower() == "true",
    )


def _sizes(given: Mapping[str, str], config: Config) -> list[str]:
    """The words of `_SIZES` as overrides of a configuration in which all else is decided."""
    phase2, overrides = config.training.phase2_rl, []
    total, of_each, share = _SIZES
    key, plans = total, whole_number(total, given[total]) if total in given else None
    if of_each in given:
        of_one = whole_number(of_each, given[of_each])
        overrides += [f"{_PHASE2}.micro_batch_size={of_one}", f"{_PHASE2}.micro_batch_tokens=null"]
        if plans is None:
            key, plans = of_each, of_one * processes()
        elif plans % (of_one * processes()):
            raise UserError(f"{total}: {plans} is no multiple of {of_each} x processes, {of_one} x {processes()}")
    if plans is not None:
        group = phase2.num_generations
        if plans % group:
            raise UserError(f"{key}: {plans} plans of an update are no multiple of {_PHASE2}.num_generations, {group}")
        overrides.append(f"{_PHASE2}.tasks_per_update={plans // group}")
        if plans // group > phase2.num_episodes:  # a run shorter than one of its batches would cut the batch
            overrides.append(f"{_PHASE2}.num_episodes={plans // group}")
    if share in given:
        if (backend := config.planner.language.backend) != "vllm":
            raise UserError(
                f"{share}: planner.language.backend is {backend}; set it to vllm, or start the server with vllm serve "
                "--gpu-memory-utilization"
            )
        overrides.append(f"planner.language.vllm.engine_options.gpu_memory_utilization={given[share]}")
    return overrides
