"""Words of runs of agents: short ones, and the keys of other trainers, as overrides of our configuration.

Read are recipes of MT-GRPO's own repository (flat keys: those of TRL's `GRPOConfig` and a few more), files of CoMLRL's
writing experiments (github.com/OpenMLRL/LLM_Collab_Writing), and words of rLLM and verl.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from orchestai.agents.registry import WORKFLOWS, Entry, find_sample_data, presets, unknown
from orchestai.config import check_workers, load, read
from orchestai.config.agents import AgentConfig
from orchestai.config.aliases import Aliases, Meaning, override, processes, split
from orchestai.errors import UserError
from orchestai.tasks.arxiv_abstracts import HUB_NAME, HUB_SPLITS

_log = logging.getLogger(__name__)
_PHASE2 = "training.phase2_rl"
_TINY = (
    *("model.name=tiny", "model.dtype=float32", "model.mixed_precision=no", "model.load_in_4bit=false"),
    *("model.max_new_tokens=16", "tasks.limit=4", "agents.epochs=null", "sandbox.level=auto"),
    *(f"{_PHASE2}.num_episodes=4", f"{_PHASE2}.num_updates=null", f"{_PHASE2}.tasks_per_update=2"),
    *(f"{_PHASE2}.num_generations=4", f"{_PHASE2}.eval_tasks=2", f"{_PHASE2}.temperature=1.0"),
    f"{_PHASE2}.learning_rate=3e-4",
)
"""`model=tiny`: two updates, on the sample data."""


def load_agent_config(name: str, path: Path | None = None, words: Sequence[str] = ()) -> AgentConfig:
    """The configuration of a run, from a file and words such as `model=tiny` or `a.b.c=value`.

    Args:
        name: of a workflow, or `module:Class`; empty for the one that the file names. Without a file also of a preset.
        path: a file of configuration, a recipe of MT-GRPO, or a file of CoMLRL; without, the preset's or the
            workflow's defaults.
        words: those of a recipe among them (`learning_rate=2e-6`); later ones win.
    """
    if name and path is None and name not in WORKFLOWS and ":" not in name:
        if name not in (known := presets()):
            raise unknown(name)
        path, name = known[name], ""
    values = read(path) if path else {}
    given: dict[str, Any] = {}
    source, theirs = path, []
    if is_recipe(values):
        given, name, source = values, name or "tool_use", None
        theirs = [*_MT_GRPO_BASE, *_recipe_words(given, given)]
    elif is_comlrl(values):
        name, source = name or "writing", None
        said = [word for word in words if word.partition(".")[0] in _COMLRL_SECTIONS]
        words = [word for word in words if word not in said]
        flat: dict[str, Any] = {}
        for section, keys in read(path, said).items():
            if isinstance(keys, Mapping):
                flat |= {f"{'agent_model' if section == 'model' else section}.{key}": keys[key] for key in keys}
            elif keys is not None:
                raise UserError(
                    f"{section}={keys!r}: leave it null; agents are told by agents.policies and agents.models"
                )
        theirs = [*_COMLRL_BASE, *_COMLRL.overrides(flat, "the file")]
    overrides = [*([f"agents.workflow={name}"] if name else []), *theirs]
    workflow = name or (load(AgentConfig, path).agents.workflow if path else "")
    entry = WORKFLOWS.get(workflow, Entry(workflow))
    for word in words:
        key, value = split(word)
        if key in _BATCH or key in _VLLM or key in _MT_GRPO:
            given = {**given, key: yaml.safe_load(value)}
            overrides += _recipe_words({key: given[key]}, given)
        elif key == "model":
            overrides += [*_TINY, *entry.sample] if value == "tiny" else [f"model.name={value}"]
        elif key.startswith("workflow_args."):
            overrides.append(f"agents.{word}")
        else:
            overrides += _RLLM.replace([word])
    overrides = [*(() if path else entry.defaults), *overrides]
    config = load(AgentConfig, source, overrides)
    if elsewhere := find_sample_data(named_paths(config)):
        config = load(AgentConfig, source, [*overrides, *elsewhere])
    if config.workers is not None:
        check_workers(config.workers, path or "the defaults")
    return config


def words_of(values: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """Nested values as the words that set them; a list of words is given back."""
    if not isinstance(values, Mapping):
        return list(values)
    words = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value and not any("." in name for name in value):
            words += [f"{key}.{word}" for word in words_of(value)]
        else:
            words.append(override(key, value))
    return words


def named_paths(config: AgentConfig) -> dict[str, Any]:
    """What may name a file or a folder, by key."""
    of_workflow = {f"agents.workflow_args.{key}": value for key, value in config.agents.workflow_args.items()}
    return {"tasks.path": config.tasks.path, "model.name": config.model.name, **of_workflow}


def is_recipe(values: Mapping[str, Any]) -> bool:
    """Whether a file's top level is that of a recipe of MT-GRPO."""
    return "model_name_or_path" in values


def is_comlrl(values: Mapping[str, Any]) -> bool:
    """Whether a file's top level is CoMLRL's."""
    return "magrpo" in values


def _refuse(reason: str) -> Meaning:
    def refuse(value: Any) -> list[str]:
        raise UserError(reason.format(value=value))

    return refuse


def _only(usual: Sequence[Any], otherwise: str) -> Meaning:
    """Nothing for usual values; others are refused."""
    return lambda value: [] if value in usual else _refuse(otherwise)(value)


def _mixed_precision(value: Any) -> list[str]:
    return [f"model.mixed_precision={'bf16' if str(value).lower() == 'true' else 'no'}"]


_RLLM = Aliases(
    {
        "data.train_batch_size": f"{_PHASE2}.tasks_per_update",
        "trainer.total_epochs": "agents.epochs",
        "actor_rollout_ref.actor.optim.lr": f"{_PHASE2}.learning_rate",
        "trainer.test_freq": f"{_PHASE2}.eval_every",
        "n_parallel_agents": "agents.concurrency",
        "trainer.use_amp": _mixed_precision,
        "trainer.save_freq": lambda value: [f"{_PHASE2}.save_every={value}", f"{_PHASE2}.keep_checkpoints=null"],
        "trainer.gradient_accumulation_steps": _refuse(
            "trainer.gradient_accumulation_steps={value}: a batch is cut into as many passes as memory needs, whatever "
            f"its size; set the batch with data.train_batch_size, and the passes with {_PHASE2}.micro_batch_size"
        ),
        "ray.cluster_config.num_workers": lambda value: [
            "execution.backend=ray",
            f"execution.ray.num_workers={value}",
        ],
    }
)
"""Words of rLLM's and verl's configuration."""

_MT_GRPO_BASE = (
    *("tasks.suite=triviaqa", "agents.credit=turn", "agents.workflow_args.corpus=indexes/wikipedia"),
    *(f"{_PHASE2}.loss_type=grpo", f"{_PHASE2}.entropy_coef=0"),
)
"""What every recipe of MT-GRPO means: questions, search, credit by turns."""
_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_generations")
_PORT = ("vllm_server_port", "vllm_port")
_OF_SERVER = ("vllm_server_base_url", "vllm_server_host", *_PORT)
_OF_ENGINE = ("vllm_gpu_memory_utilization", "vllm_tensor_parallel_size")
_VLLM = ("use_vllm", "vllm_mode", *_OF_SERVER, *_OF_ENGINE)


def _recipe_words(values: Mapping[str, Any], every: Mapping[str, Any]) -> list[str]:
    """Overrides for keys of a recipe, of which `every` are given; those of a batch, and of vLLM, say it together.

    TRL's batch counts completions, over all processes; ours tasks. As in TRL nothing is sampled by vLLM unless
    `use_vllm` says so. `vllm_port`, which is not TRL's, says so too. Without `vllm_mode` a server is meant.
    """
    words = _MT_GRPO.overrides({key: values[key] for key in values if key not in (*_BATCH, *_VLLM)}, "the recipe")
    if any(key in values for key in _BATCH):
        of_one, passes, group = (int(every.get(key, usual)) for key, usual in zip(_BATCH, (8, 1, 8), strict=True))
        completions = of_one * passes * processes()
        tasks = ceil(completions / group)
        if completions % group:
            _log.warning(
                "per_device_train_batch_size x gradient_accumulation_steps x processes are %d completions, and no "
                "multiple of num_generations, %d: an update takes %d",
                *(completions, group, tasks * group),
            )
        sizes = {"num_generations": group, "tasks_per_update": tasks, "micro_batch_size": of_one}
        words += [f"{_PHASE2}.{key}={size}" for key, size in sizes.items()]
    if not any(key in values for key in _VLLM):
        return words
    given = {key: every[key] for key in _VLLM if every.get(key) is not None}
    mode = given.get("vllm_mode", "server")
    if str(given.get("use_vllm", "vllm_port" in given)).lower() != "true":
        used, reason = ["use_vllm"], "nothing is sampled by vLLM without use_vllm=true"
        words += ["model.backend=transformers"] if "use_vllm" in given else []
    elif mode == "server":
        used, reason = ["use_vllm", "vllm_mode", *_OF_SERVER], "a server is started with its own"
        host = given.get("vllm_server_host", "localhost")
        port = next((given[key] for key in _PORT if key in given), 8000)
        url = f"http://{'localhost' if host == '0.0.0.0' else host}:{port}"
        url = str(given.get("vllm_server_base_url", url))
        words += ["model.backend=vllm_server", override("model.vllm.base_url", url)]
    elif mode == "colocate":
        used, reason = ["use_vllm", "vllm_mode", *_OF_ENGINE], "with vllm_mode=colocate there is no server"
        options = (f"{key.removeprefix('vllm_')}={given[key]}" for key in _OF_ENGINE if key in given)
        words += ["model.backend=vllm", *(f"model.vllm.engine_options.{option}" for option in options)]
    else:
        raise UserError(f"vllm_mode={mode}: write server, or colocate for an engine in every process")
    if unused := [key for key in given if key not in used]:
        _log.warning("%s: changes nothing here, since %s", ", ".join(unused), reason)
    return words


def _trackers(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else list(value)
    return [override("logging.trackers", [name for name in names if name != "none"])]


def _code(key: str, setting: str, shipped: str) -> Meaning:
    def name(value: Any) -> list[str]:
        if str(value).endswith(".py"):
            raise UserError(f"{key}={value}: name its function as module:function, or one that ships: {shipped}")
        return [override(f"agents.workflow_args.{setting}", value)]

    return name


_WHOLE: Mapping[str, Meaning] = {
    f"{section}{key}": _only(
        (None, 0, 1, -1),
        f"{section}{key}={{value}}: what it cuts off has probability 0 in the samples, but not in what is learned from "
        f"them, so the gradient would be another policy's; set {section}{key}=null, and {_PHASE2}.temperature lower "
        "instead",
    )
    for section in ("", "agent_model.", "magrpo.")
    for key in ("top_p", "top_k")
}
"""Nothing is drawn from less than the whole distribution."""
_MT_GRPO = Aliases(
    {
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
            for key in (
                *("learning_rate", "temperature", "epsilon", "epsilon_high", "num_iterations", "loss_type"),
                *("weight_decay", "max_grad_norm", "seed"),
            )
        },
        "max_env_steps": lambda value: [
            f"agents.budget.turns={value}",
            f"agents.workflow_args.max_calls={max(int(value) - 1, 1)}",
        ],
        "max_steps": lambda value: [f"{_PHASE2}.num_updates={value}"] if int(value) > 0 else [],
        "bf16": _mixed_precision,
        "lr_scheduler_type": lambda value: [f"{_PHASE2}.lr_schedule={str(value).removesuffix('_with_warmup')}"],
        "report_to": _trackers,
        "reward_fn": _code("reward_fn", "reward_function", "search_reward_fn"),
        "tools_script": _code("tools_script", "tools", "[search], with agents.workflow_args.corpus"),
        **_WHOLE,
    },
    {
        "vllm_server_timeout": "model.vllm.timeout_s is for a completion; start the server first",
        "torch_dtype": "weights learn in float32; bf16 multiplies",
        "max_prompt_length": "agents.budget.tokens limits an attempt",
        "output_dir": "--output_dir says it",
        **dict.fromkeys(("logging_steps", "logging_strategy", "logging_first_step", "log_completions", "run_name"), ""),
        **dict.fromkeys(("save_strategy", "eval_strategy", "do_eval", "attn_implementation", "trust_remote_code"), ""),
        **dict.fromkeys(("gradient_checkpointing_kwargs", "ddp_timeout", "push_to_hub", "remove_unused_columns"), ""),
    },
)

_COMLRL_SECTIONS = ("agent_model", "magrpo", "dataset", "wandb", "reward_processor", "output", "tokenizer")
"""Of a file of CoMLRL, whose keys may be given as words too; `model` and `agents` are ours."""
_COMLRL_BASE = (
    *("tasks.suite=arxiv_abstracts", "tasks.eval_split=val", "agents.credit=joint", "agents.policies=separate"),
    *(f"{_PHASE2}.loss_type=reinforce", f"{_PHASE2}.entropy_coef=0", f"{_PHASE2}.flat_patience=200"),
)


def _dataset(value: Any) -> list[str]:
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


_COMLRL = Aliases(
    {
        "agent_model.name": "model.name",
        **dict.fromkeys(("agent_model.temperature", "magrpo.temperature"), f"{_PHASE2}.temperature"),
        **{
            f"magrpo.{key}": f"agents.workflow_args.{key}"
            for key in ("num_turns", "joint_mode", "discount", "termination_threshold")
        },
        "magrpo.num_train_epochs": "agents.epochs",
        **dict.fromkeys(("magrpo.agent_learning_rate", "magrpo.learning_rate"), f"{_PHASE2}.learning_rate"),
        "magrpo.num_generations": f"{_PHASE2}.num_generations",
        "magrpo.max_new_tokens": "model.max_new_tokens",
        **dict.fromkeys(("magrpo.eval_interval", "magrpo.eval_steps"), f"{_PHASE2}.eval_every"),
        "magrpo.eval_num_samples": f"{_PHASE2}.eval_tasks",
        "magrpo.save_steps": f"{_PHASE2}.save_every",
        **dict.fromkeys(
            ("magrpo.train_batch_size", "magrpo.per_device_train_batch_size"),
            lambda value: [f"{_PHASE2}.tasks_per_update={int(value) * processes()}"],
        ),
        "wandb.entity": "logging.entity",
        "wandb.project": lambda value: [override("logging.project", value), *_trackers("wandb")],
        "dataset.name": _dataset,
        "dataset.train_split": _split("train_split", "train", "tasks.limit"),
        "dataset.eval_split": _split("eval_split", "val", f"{_PHASE2}.eval_tasks"),
        "agents.num_agents": _only(
            (2,), "agents.num_agents={value}: the workflow has two agents; another number needs your own"
        ),
        "reward_processor.scale_factor": _only(
            (1,),
            f"reward_processor.scale_factor={{value}}: multiply {_PHASE2}.learning_rate by it, which does the same",
        ),
        "reward_processor.shift": _only(
            (0,),
            "reward_processor.shift={value}: advantages are differences of rewards, so a shift changes nothing; "
            "write 0",
        ),
        **_WHOLE,
    },
    {
        "agent_model.torch_dtype": "weights learn in float32",
        "magrpo.advantage_normalization": "advantages are not divided by their deviation, as in the paper",
        "output.base_dir": "--output_dir says it",
        "output.save_path": "--output_dir says it",
        **dict.fromkeys(("agent_model.type", "magrpo.logging_steps", "magrpo.eval_batch_size"), ""),
        **dict.fromkeys(("magrpo.rollout_buffer_size", "magrpo.parallel_training", "magrpo.agent_devices"), ""),
        **dict.fromkeys(("output.verbose", "output.save_final_model", "tokenizer.padding_side", "dataset.type"), ""),
        **dict.fromkeys(("wandb.name", "wandb.tags", "wandb.dir", "reward_processor.enabled"), ""),
    },
)
