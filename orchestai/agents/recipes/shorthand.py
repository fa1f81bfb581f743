"""Short words for runs of agents, and the words of other trainers: what they stand for in the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from orchestai.agents.recipes import comlrl_keys, mt_grpo_keys
from orchestai.agents.registry import WORKFLOWS, Entry, find_sample_data, presets, unknown
from orchestai.config import check_workers, load, read
from orchestai.config.agents import AgentConfig
from orchestai.config.aliases import Aliases, override, split
from orchestai.errors import UserError

_PHASE2 = "training.phase2_rl"
_TINY = (
    "model.name=tiny",
    "model.dtype=float32",
    "model.mixed_precision=no",
    "model.load_in_4bit=false",
    "model.max_new_tokens=16",
    "tasks.limit=4",
    f"{_PHASE2}.num_episodes=4",
    f"{_PHASE2}.num_updates=null",
    f"{_PHASE2}.tasks_per_update=2",
    f"{_PHASE2}.num_generations=4",
    f"{_PHASE2}.eval_tasks=2",
    f"{_PHASE2}.temperature=1.0",
    f"{_PHASE2}.learning_rate=3e-4",
    "agents.epochs=null",
    "sandbox.level=auto",
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
    source = path
    if mt_grpo_keys.is_recipe(values):
        given, name, source = values, name or "tool_use", None
        theirs = [*mt_grpo_keys.BASE, *mt_grpo_keys.recipe_words(given)]
    elif comlrl_keys.is_comlrl(values):
        name, source = name or "writing", None
        said = [word for word in words if word.partition(".")[0] in comlrl_keys.SECTIONS]
        words = [word for word in words if word not in said]
        theirs = [*comlrl_keys.BASE, *comlrl_keys.comlrl_words(read(path, said))]
    else:
        theirs = []
    overrides = [*([f"agents.workflow={name}"] if name else []), *theirs]
    workflow = name or (load(AgentConfig, path).agents.workflow if path else "")
    entry = WORKFLOWS.get(workflow, Entry(workflow))
    for word in words:
        key, value = split(word)
        if mt_grpo_keys.is_recipe_key(key):
            given = {**given, key: yaml.safe_load(value)}
            overrides += mt_grpo_keys.recipe_words({key: given[key]}, given)
        else:
            overrides += _meaning(word, entry)
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


def _meaning(word: str, entry: Entry) -> list[str]:
    key, value = split(word)
    if key == "model":
        return [*_TINY, *entry.sample] if value == "tiny" else [f"model.name={value}"]
    if key.startswith("workflow_args."):
        return [f"agents.{word}"]
    return _OTHERS.replace([word])


def _use_amp(value: Any) -> list[str]:
    return [f"model.mixed_precision={'bf16' if str(value).lower() == 'true' else 'no'}"]


def _save_freq(value: Any) -> list[str]:
    return [f"{_PHASE2}.save_every={value}", f"{_PHASE2}.keep_checkpoints=null"]


def _accumulate(value: Any) -> list[str]:
    raise UserError(
        f"trainer.gradient_accumulation_steps={value}: a batch is cut into as many passes as memory needs, whatever "
        f"its size; set the batch with data.train_batch_size, and the passes with {_PHASE2}.micro_batch_size"
    )


def _num_workers(value: Any) -> list[str]:
    return ["execution.backend=ray", f"execution.ray.num_workers={value}"]


_OTHERS = Aliases(
    {
        "data.train_batch_size": f"{_PHASE2}.tasks_per_update",
        "trainer.total_epochs": "agents.epochs",
        "actor_rollout_ref.actor.optim.lr": f"{_PHASE2}.learning_rate",
        "trainer.test_freq": f"{_PHASE2}.eval_every",
        "n_parallel_agents": "agents.concurrency",
        "trainer.use_amp": _use_amp,
        "trainer.save_freq": _save_freq,
        "trainer.gradient_accumulation_steps": _accumulate,
        "ray.cluster_config.num_workers": _num_workers,
    }
)
"""Words of rLLM's and verl's configuration."""
