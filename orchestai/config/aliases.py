"""The words of `python train.py KEY=VALUE ...`: short keys, and what they stand for in a preset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from orchestai.config import BASE, Config, load_config
from orchestai.errors import UserError

PRESETS = Path("configs/bigcodebench")
_NAMES = ("cpu", "one_gpu", "eight_gpus")
_PHASE2 = "training.phase2_rl"
_FIXED = {"model_cfg": ("base",), "data_cfg": ("bigcodebench",), "run_cfg": ("default", *_NAMES)}
_KEYS = ("evaluate_only", "checkpoint", "output_dir", "resume")
_SIZES = ("train_batch_size", "per_device_train_batch_size", "max_steps", "vllm_gpu_memory_utilization")
_TRAINERS = ("grpo", "ppo")
_SHORT = {"model_name_or_path": "planner.language.model", "trainer_cfg": f"{_PHASE2}.algorithm"}


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

    Raises:
        UserError: a key is unknown, a value is not one of those that it takes, or the presets are not here.
    """
    given: dict[str, str] = {}
    overrides = []
    for word in words:
        key, equals, value = word.partition("=")
        key = key.removesuffix("@_global_")
        if "." in key or not equals:
            overrides.append(word)
        elif key in _SHORT:
            if key == "trainer_cfg" and value.lower() not in _TRAINERS:
                raise UserError(f"trainer_cfg: {value!r} is not one of {', '.join(_TRAINERS)}")
            overrides.append(f"{_SHORT[key]}={value.upper() if key == 'trainer_cfg' else value}")
        elif key in (*_FIXED, *_KEYS, *_SIZES):
            given[key] = _allowed(key, value)
        else:
            known = ", ".join((*_FIXED, *_SHORT, *_SIZES, *_KEYS))
            raise UserError(f"{word!r}: write a dotted key of the configuration, or one of {known}")
    name = given.get("run_cfg", "default")
    path = PRESETS / f"{_default() if name == 'default' else name}.yaml"
    if not path.exists():
        raise UserError(f"{path}: no such preset here; run train.py in the repository's root")
    return Asked(
        config=load_config(path, [*overrides, *_sizes(given, load_config(path, overrides))]),
        evaluate_only=Path(given["evaluate_only"]) if given.get("evaluate_only") else None,
        checkpoint=Path(given.get("checkpoint", BASE)),
        output_dir=Path(given["output_dir"]) if given.get("output_dir") else None,
        resume=given.get("resume", "false").lower() == "true",
    )


def _allowed(key: str, value: str) -> str:
    if value not in _FIXED.get(key, (value,)):
        raise UserError(f"{key}: {value!r} is not one of {', '.join(_FIXED[key])}")
    return value


def _default() -> str:
    """The preset for what is here: several processes, a GPU, or neither."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return "eight_gpus"
    return "one_gpu" if torch.cuda.is_available() else "cpu"


def _sizes(given: dict[str, str], config: Config) -> list[str]:
    """The words of `_SIZES` as overrides of a configuration in which all else is decided."""
    phase2, overrides = config.training.phase2_rl, []
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    key = "train_batch_size"
    plans = _number(key, given) if key in given else None
    if "per_device_train_batch_size" in given:
        of_one = _number("per_device_train_batch_size", given)
        overrides += [f"{_PHASE2}.micro_batch_size={of_one}", f"{_PHASE2}.micro_batch_tokens=null"]
        if plans is None:
            key, plans = "per_device_train_batch_size", of_one * processes
        elif plans % (of_one * processes):
            raise UserError(
                f"train_batch_size: {plans} is no multiple of per_device_train_batch_size x processes, "
                f"{of_one} x {processes}"
            )
    if plans is not None:
        if plans % phase2.num_generations:
            raise UserError(
                f"{key}: {plans} plans of an update are no multiple of {_PHASE2}.num_generations, "
                f"{phase2.num_generations}"
            )
        tasks = plans // phase2.num_generations
        overrides.append(f"{_PHASE2}.tasks_per_update={tasks}")
        if tasks > phase2.num_episodes:  # a run shorter than one of its batches would cut the batch
            overrides.append(f"{_PHASE2}.num_episodes={tasks}")
    if "max_steps" in given:
        overrides.append(f"{_PHASE2}.num_updates={_number('max_steps', given)}")
    if "vllm_gpu_memory_utilization" in given:
        backend = config.planner.language.backend
        if backend != "vllm":
            raise UserError(
                f"vllm_gpu_memory_utilization: planner.language.backend is {backend}; set it to vllm, or start the "
                "server with vllm serve --gpu-memory-utilization"
            )
        share = given["vllm_gpu_memory_utilization"]
        overrides.append(f"planner.language.vllm.gpu_memory_utilization={share}")
    return overrides


def _number(key: str, given: dict[str, str]) -> int:
    if not given[key].isdecimal() or int(given[key]) < 1:
        raise UserError(f"{key}: {given[key]!r} is not a whole number from 1")
    return int(given[key])
