"""Recipes of MT-GRPO's own repository: flat keys, those of TRL's `GRPOConfig` and a few more, as words of ours."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import ceil
from typing import Any

from orchestai.config.aliases import Aliases, Meaning, override, processes
from orchestai.errors import UserError

_PORT = ("vllm_server_port", "vllm_port")
_OF_SERVER = ("vllm_server_base_url", "vllm_server_host", *_PORT)
_OF_ENGINE = {
    "vllm_gpu_memory_utilization": "gpu_memory_utilization",
    "vllm_tensor_parallel_size": "tensor_parallel_size",
}
KEYS = ("use_vllm", "vllm_mode", *_OF_SERVER, *_OF_ENGINE)


def vllm_words(values: Mapping[str, Any], section: str) -> list[str]:
    """Overrides of a model's section, for all of the `KEYS` that are given.

    As in TRL nothing is sampled by vLLM unless `use_vllm` says so. `vllm_port`, which is not TRL's, says so too.
    Without `vllm_mode` a server is meant.

    Args:
        section: of the configuration, such as `model`.
    """
    given = {key: values[key] for key in KEYS if values.get(key) is not None}
    if str(given.get("use_vllm", "vllm_port" in given)).lower() != "true":
        _warn(given, ("use_vllm",), "nothing is sampled by vLLM without use_vllm=true")
        return [f"{section}.backend=transformers"] if "use_vllm" in given else []
    mode = given.get("vllm_mode", "server")
    if mode == "server":
        _warn(given, ("use_vllm", "vllm_mode", *_OF_SERVER), "a server is started with its own")
        return [f"{section}.backend=vllm_server", override(f"{section}.vllm.base_url", _url(given))]
    if mode != "colocate":
        raise UserError(f"vllm_mode={mode}: write server, or colocate for an engine in every process")
    _warn(given, ("use_vllm", "vllm_mode", *_OF_ENGINE), "with vllm_mode=colocate there is no server")
    engine = [f"{section}.vllm.engine_options.{ours}={given[key]}" for key, ours in _OF_ENGINE.items() if key in given]
    return [f"{section}.backend=vllm", *engine]


def _url(given: Mapping[str, Any]) -> str:
    if "vllm_server_base_url" in given:
        return str(given["vllm_server_base_url"])
    host = given.get("vllm_server_host", "localhost")
    port = next((given[key] for key in _PORT if key in given), 8000)
    return f"http://{'localhost' if host == '0.0.0.0' else host}:{port}"


def _warn(given: Mapping[str, Any], used: tuple[str, ...], reason: str) -> None:
    unused = [key for key in given if key not in used]
    if unused:
        _log.warning("%s: changes nothing here, since %s", ", ".join(unused), reason)


_PHASE2 = "training.phase2_rl"
_log = logging.getLogger(__name__)

BASE = (
    "tasks.suite=triviaqa",
    "agents.credit=turn",
    "agents.workflow_args.corpus=indexes/wikipedia",
    f"{_PHASE2}.loss_type=grpo",
    f"{_PHASE2}.entropy_coef=0",
)
"""What every recipe means: questions, search, MT-GRPO."""
_SAME = {
    "model_name_or_path": "model.name",
    "gradient_checkpointing": "model.gradient_checkpointing",
    "max_completion_length": "model.max_new_tokens",
    "dataset_name": "tasks.suite",
    "turn_advantage_coef": "agents.turn_advantage_coef",
    "num_train_epochs": "agents.epochs",
    "wandb_project": "logging.project",
    "wandb_entity": "logging.entity",
    "beta": f"{_PHASE2}.kl_coef",
    "warmup_steps": f"{_PHASE2}.warmup_updates",
    "save_steps": f"{_PHASE2}.save_every",
    "save_total_limit": f"{_PHASE2}.keep_checkpoints",
    "eval_steps": f"{_PHASE2}.eval_every",
    **{
        key: f"{_PHASE2}.{key}"
        for key in ("learning_rate", "temperature", "epsilon", "epsilon_high", "num_iterations", "loss_type")
    },
    **{key: f"{_PHASE2}.{key}" for key in ("weight_decay", "max_grad_norm", "seed")},
}
_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_generations")
_LEFT_OUT: Mapping[str, str] = {
    "vllm_server_timeout": "model.vllm.timeout_s is for a completion; start the server first",
    "torch_dtype": "weights learn in float32; bf16 multiplies",
    "max_prompt_length": "agents.budget.tokens limits an attempt",
    "output_dir": "--output_dir says it",
    **dict.fromkeys(("logging_steps", "logging_strategy", "logging_first_step", "log_completions", "run_name"), ""),
    **dict.fromkeys(("save_strategy", "eval_strategy", "do_eval", "attn_implementation", "trust_remote_code"), ""),
    **dict.fromkeys(("gradient_checkpointing_kwargs", "ddp_timeout", "push_to_hub", "remove_unused_columns"), ""),
}
"""What changes nothing here, with the reason where that may surprise."""


def is_recipe(values: Mapping[str, Any]) -> bool:
    """Whether a file's top level is that of a recipe."""
    return "model_name_or_path" in values


def is_recipe_key(key: str) -> bool:
    return key in _BATCH or key in KEYS or key in ALIASES


def recipe_words(values: Mapping[str, Any], context: Mapping[str, Any] | None = None) -> list[str]:
    """Words such as `a.b.c=value` for keys of a recipe.

    Args:
        context: all keys that are given, where `values` are only some of them.
    """
    of_groups = (*_BATCH, *KEYS)
    words = ALIASES.overrides({key: values[key] for key in values if key not in of_groups}, "the recipe")
    if any(key in values for key in _BATCH):
        words += _batch(context or values)
    if any(key in values for key in KEYS):
        words += vllm_words(context or values, "model")
    return words


def _batch(values: Mapping[str, Any]) -> list[str]:
    """TRL's batch counts completions, over all processes; ours tasks."""
    of_one, passes, group = (int(values.get(key, usual)) for key, usual in zip(_BATCH, (8, 1, 8), strict=True))
    completions = of_one * passes * processes()
    tasks = ceil(completions / group)
    if completions % group:
        _log.warning(
            "per_device_train_batch_size x gradient_accumulation_steps x processes are %d completions, and no multiple "
            "of num_generations, %d: an update takes %d",
            completions,
            group,
            tasks * group,
        )
    return [
        f"{_PHASE2}.num_generations={group}",
        f"{_PHASE2}.tasks_per_update={tasks}",
        f"{_PHASE2}.micro_batch_size={of_one}",
    ]


def _turns(value: Any) -> list[str]:
    return [f"agents.budget.turns={value}", f"agents.workflow_args.max_calls={max(int(value) - 1, 1)}"]


def _steps(value: Any) -> list[str]:
    return [f"{_PHASE2}.num_updates={value}"] if int(value) > 0 else []


def _bf16(value: Any) -> list[str]:
    return [f"model.mixed_precision={'bf16' if str(value).lower() == 'true' else 'no'}"]


def _schedule(value: Any) -> list[str]:
    return [f"{_PHASE2}.lr_schedule={str(value).removesuffix('_with_warmup')}"]


def trackers(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else list(value)
    return [override("logging.trackers", [name for name in names if name != "none"])]


def _code(key: str, setting: str, shipped: str) -> Meaning:
    def name(value: Any) -> list[str]:
        if str(value).endswith(".py"):
            raise UserError(f"{key}={value}: name its function as module:function, or one that ships: {shipped}")
        return [override(f"agents.workflow_args.{setting}", value)]

    return name


def wanted_whole(key: str) -> Meaning:
    """Refuses to draw tokens from less than the whole distribution."""

    def refuse(value: Any) -> list[str]:
        if value in (None, 0, 1, -1):
            return []
        raise UserError(
            f"{key}={value}: what it cuts off has probability 0 in the samples, but not in what is learned from them, "
            f"so the gradient would be another policy's; set {key}=null, and {_PHASE2}.temperature lower instead"
        )

    return refuse


_SPECIAL: Mapping[str, Meaning] = {
    "max_env_steps": _turns,
    "max_steps": _steps,
    "bf16": _bf16,
    "lr_scheduler_type": _schedule,
    "report_to": trackers,
    "reward_fn": _code("reward_fn", "reward_function", "search_reward_fn"),
    "tools_script": _code("tools_script", "tools", "[search], with agents.workflow_args.corpus"),
    "top_p": wanted_whole("top_p"),
    "top_k": wanted_whole("top_k"),
}
ALIASES = Aliases({**_SAME, **_SPECIAL}, _LEFT_OUT)
