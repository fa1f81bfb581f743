"""Configurations of CoMLRL's writing experiments (github.com/OpenMLRL/LLM_Collab_Writing), as words of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestai.agents.recipes.mt_grpo_keys import trackers, wanted_whole
from orchestai.config.aliases import Aliases, Meaning, override, processes
from orchestai.errors import UserError
from orchestai.tasks.arxiv_abstracts import HUB_NAME, HUB_SPLITS

_PHASE2 = "training.phase2_rl"
SECTIONS = ("agent_model", "magrpo", "dataset", "wandb", "reward_processor", "output", "tokenizer")
"""Of such a file, whose keys may be given as words too; `model` and `agents` are ours."""
BASE = (
    "tasks.suite=arxiv_abstracts",
    "tasks.eval_split=val",
    "agents.credit=joint",
    "agents.policies=separate",
    f"{_PHASE2}.loss_type=reinforce",
    f"{_PHASE2}.entropy_coef=0",
    f"{_PHASE2}.flat_patience=200",
)
_SAME = {
    "agent_model.name": "model.name",
    "agent_model.temperature": f"{_PHASE2}.temperature",
    "magrpo.temperature": f"{_PHASE2}.temperature",
    "magrpo.num_turns": "agents.workflow_args.num_turns",
    "magrpo.joint_mode": "agents.workflow_args.joint_mode",
    "magrpo.discount": "agents.workflow_args.discount",
    "magrpo.termination_threshold": "agents.workflow_args.termination_threshold",
    "magrpo.num_train_epochs": "agents.epochs",
    "magrpo.agent_learning_rate": f"{_PHASE2}.learning_rate",
    "magrpo.learning_rate": f"{_PHASE2}.learning_rate",
    "magrpo.num_generations": f"{_PHASE2}.num_generations",
    "magrpo.max_new_tokens": "model.max_new_tokens",
    "magrpo.eval_interval": f"{_PHASE2}.eval_every",
    "magrpo.eval_steps": f"{_PHASE2}.eval_every",
    "magrpo.eval_num_samples": f"{_PHASE2}.eval_tasks",
    "magrpo.save_steps": f"{_PHASE2}.save_every",
    "wandb.entity": "logging.entity",
}
_LEFT_OUT: Mapping[str, str] = {
    "agent_model.torch_dtype": "weights learn in float32",
    "magrpo.advantage_normalization": "advantages are not divided by their deviation, as in the paper",
    "output.base_dir": "--output_dir says it",
    "output.save_path": "--output_dir says it",
    **dict.fromkeys(("agent_model.type", "magrpo.logging_steps", "magrpo.eval_batch_size"), ""),
    **dict.fromkeys(("magrpo.rollout_buffer_size", "magrpo.parallel_training", "magrpo.agent_devices"), ""),
    **dict.fromkeys(("output.verbose", "output.save_final_model", "tokenizer.padding_side", "dataset.type"), ""),
    **dict.fromkeys(("wandb.name", "wandb.tags", "wandb.dir", "reward_processor.enabled"), ""),
}


def is_comlrl(values: Mapping[str, Any]) -> bool:
    """Whether a file's top level is CoMLRL's."""
    return "magrpo" in values


def comlrl_words(values: Mapping[str, Any]) -> list[str]:
    """Words such as `a.b.c=value` for a file of CoMLRL."""
    flat = {
        f"{'agent_model' if section == 'model' else section}.{key}": value
        for section, keys in values.items()
        if isinstance(keys, Mapping)
        for key, value in keys.items()
    }
    for section, given in values.items():
        if given is not None and not isinstance(given, Mapping):
            raise UserError(f"{section}={given!r}: leave it null; agents are told by agents.policies and agents.models")
    return ALIASES.overrides(flat, "the file")


def _project(value: Any) -> list[str]:
    return [override("logging.project", value), *trackers("wandb")]


def _tasks_per_update(value: Any) -> list[str]:
    return [f"{_PHASE2}.tasks_per_update={int(value) * processes()}"]


def _hub_name(value: Any) -> list[str]:
    if "arxiv" not in str(value).lower():
        raise UserError(
            f"dataset.name={value}: the workflow writes about abstracts; write {HUB_NAME}, or tasks.path=FILE"
        )
    return [] if value == HUB_NAME else [override("tasks.path", value)]


def _split(key: str, name: str, limit: str) -> Meaning:
    def first(value: Any) -> list[str]:
        given = re.fullmatch(rf"{name}(?:\[:(\d+)\])?", str(value))
        if given is None:
            raise UserError(f"dataset.{key}={value}: there is {HUB_SPLITS[name]}; write {name}[:N] for fewer")
        return [f"{limit}={given[1]}"] if given[1] and value != HUB_SPLITS[name] else []

    return first


def _only(key: str, usual: float, instead: str) -> Meaning:
    def refuse(value: Any) -> list[str]:
        if float(value) != usual:
            raise UserError(f"{key}={value}: {instead}")
        return []

    return refuse


_SPECIAL: Mapping[str, Meaning] = {
    "agent_model.top_p": wanted_whole("agent_model.top_p"),
    "agent_model.top_k": wanted_whole("agent_model.top_k"),
    "magrpo.top_p": wanted_whole("magrpo.top_p"),
    "magrpo.top_k": wanted_whole("magrpo.top_k"),
    "magrpo.train_batch_size": _tasks_per_update,
    "magrpo.per_device_train_batch_size": _tasks_per_update,
    "dataset.name": _hub_name,
    "dataset.train_split": _split("train_split", "train", "tasks.limit"),
    "dataset.eval_split": _split("eval_split", "val", f"{_PHASE2}.eval_tasks"),
    "wandb.project": _project,
    "agents.num_agents": _only("agents.num_agents", 2, "the workflow has two agents; another number needs your own"),
    "reward_processor.scale_factor": _only(
        "reward_processor.scale_factor", 1, f"multiply {_PHASE2}.learning_rate by it, which does the same"
    ),
    "reward_processor.shift": _only(
        "reward_processor.shift", 0, "advantages are differences of rewards, so a shift changes nothing; write 0"
    ),
}
ALIASES = Aliases({**_SAME, **_SPECIAL}, _LEFT_OUT)
