"""The words of `python train.py KEY=VALUE ...`: short keys, and what they stand for in a preset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from orchestai.config.aliases import Aliases, override, processes, split, whole_number
from orchestai.config.load import Config, load_config
from orchestai.config.planner import BASE
from orchestai.errors import UserError
from orchestai.installed import here_or_shipped

PRESETS = Path("configs/bigcodebench")
_NAMES = ("cpu", "one_gpu", "eight_gpus")
_PHASE2 = "training.phase2_rl"
_FIXED = {"model_cfg": ("base",), "data_cfg": ("bigcodebench",), "run_cfg": ("default", *_NAMES)}
_TRAINERS = ("grpo", "ppo")
_KEYS = ("evaluate_only", "checkpoint", "output_dir", "resume")
_SIZES = ("train_batch_size", "per_device_train_batch_size", "vllm_gpu_memory_utilization")


def _trainer(value: Any) -> list[str]:
    if str(value).lower() not in _TRAINERS:
        raise UserError(f"trainer_cfg: {value!r} is not one of {', '.join(_TRAINERS)}")
    return [f"{_PHASE2}.algorithm={str(value).upper()}"]


def _updates(value: Any) -> list[str]:
    return [override(f"{_PHASE2}.num_updates", whole_number("max_steps", str(value)))]


SHORT = Aliases({"model_name_or_path": "planner.language.model", "trainer_cfg": _trainer, "max_steps": _updates})
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
        name = "eight_gpus" if processes() > 1 else "one_gpu" if torch.cuda.is_available() else "cpu"
    path = here_or_shipped(PRESETS) / f"{name}.yaml"
    return Asked(
        config=load_config(path, [*overrides, *_sizes(given, load_config(path, overrides))]),
        evaluate_only=Path(given["evaluate_only"]) if given.get("evaluate_only") else None,
        checkpoint=Path(given.get("checkpoint", BASE)),
        output_dir=Path(given["output_dir"]) if given.get("output_dir") else None,
        resume=given.get("resume", "false").lower() == "true",
    )


def _sizes(given: dict[str, str], config: Config) -> list[str]:
    """The words of `_SIZES` as overrides of a configuration in which all else is decided."""
    phase2, overrides = config.training.phase2_rl, []
    key = "train_batch_size"
    plans = whole_number(key, given[key]) if key in given else None
    if "per_device_train_batch_size" in given:
        of_one = whole_number("per_device_train_batch_size", given["per_device_train_batch_size"])
        overrides += [f"{_PHASE2}.micro_batch_size={of_one}", f"{_PHASE2}.micro_batch_tokens=null"]
        if plans is None:
            key, plans = "per_device_train_batch_size", of_one * processes()
        elif plans % (of_one * processes()):
            raise UserError(
                f"train_batch_size: {plans} is no multiple of per_device_train_batch_size x processes, "
                f"{of_one} x {processes()}"
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
