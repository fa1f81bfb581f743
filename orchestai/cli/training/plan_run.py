"""`orchestai plan-run`: what a training will need, before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import CONFIG, ConfigFile, JsonFile, Overrides, flag, say
from orchestai.errors import UserError
from orchestai.progress import console

if TYPE_CHECKING:
    from orchestai.config import BackendConfig, Config, LanguageConfig, LoraConfig, RlConfig, TinyConfig
    from orchestai.config.agents import AgentConfig, AgentModelConfig, TinyChatConfig
    from orchestai.training.scale import Shape


def plan_run(
    config: ConfigFile = CONFIG,
    train: Annotated[
        str | None, flag("train", "phase2, or a workflow of agents; what the configuration is for, if absent.")
    ] = None,
    processes: Annotated[int, flag("processes", "Devices, a process each.", minimum=1)] = 1,
    layout: Annotated[str, flag("layout", "A file of accelerate_configs without its ending.")] = "ddp",
    device: Annotated[str, flag("device", "cpu, a100, h100 or h200.")] = "cpu",
    execution_s: Annotated[
        float, flag("execution_s", "Seconds of one execution, as your logs have them.", minimum=0)
    ] = 0.2,
    prompt_tokens: Annotated[int, flag("prompt_tokens", "Agents: tokens of a prompt.", minimum=1)] = 512,
    turns: Annotated[
        int | None, flag("turns", "Agents: turns of an attempt; if absent, one of each role that learns.", minimum=1)
    ] = None,
    json_path: JsonFile = None,
    overrides: Overrides = None,
) -> None:
    """Print memory per device and seconds per update, by a model that docs/scale.md explains; start nothing."""
    from rich.table import Table

    from orchestai.config import TINY, Config
    from orchestai.config.aliases import as_processes
    from orchestai.launch.asked import asked
    from orchestai.storage import artifacts
    from orchestai.training.optimizers import refuse_whole_moments
    from orchestai.training.scale import DEVICES, LAYOUTS, Learning, Update, memory_gb, seconds

    for name, given, known in (("layout", layout, LAYOUTS), ("device", device, DEVICES)):
        if given not in known:
            raise UserError(f"--{name} {given}: there are {', '.join(known)}")
    chosen = DEVICES[device]
    with as_processes(processes):
        _, loaded = asked(config, overrides or [], train)
    asks = _of_planner(loaded) if isinstance(loaded, Config) else _of_agents(loaded, prompt_tokens, turns)
    model, phase2 = asks.model, asks.phase2
    _refuse_engines(asks, processes)
    if LAYOUTS[layout] != "nothing":
        refuse_whole_moments(phase2)
    shape = _tiny(model.tiny) if asks.name == TINY else _of_source(asks.source(), asks.key)
    length = asks.prompt + model.max_new_tokens
    attempts = phase2.tasks_per_update * phase2.num_generations
    rows = attempts * asks.turns
    of_one = -(-rows // processes)
    budget = phase2.micro_batch_tokens or phase2.micro_batch_size * length
    learning = Learning(
        split=LAYOUTS[layout],
        weight_bytes=4 if model.dtype == "float32" and not model.load_in_4bit else 2,
        in_4_bits=model.load_in_4bit,
        lora=asks.lora,
        in_8_bits=phase2.optimizer == "adamw_8bit",
        reference=phase2.kl_coef > 0,
        checkpointing=model.gradient_checkpointing,
        processes=processes,
        policies=asks.policies,
        engine_gb=_engine_gb(model, asks.policies, chosen.memory_gb),
    )
    actors = (loaded.execution.backend == "ray" and loaded.execution.ray.num_workers) or 1
    update = Update(
        rows=rows,
        rows_at_a_time=asks.rows_at_a_time,
        prompt=asks.prompt,
        completion=model.max_new_tokens,
        tokens_at_a_time=min(max(budget, length), of_one * length),
        executions=attempts * asks.executions,
        execution_s=execution_s,
        execution_slots=processes * loaded.sandbox.workers * actors,
        passes=phase2.num_iterations,
    )
    memory, stages = memory_gb(shape, learning, update), seconds(shape, learning, update, chosen)
    total, slowest = sum(memory.values()), max(stages, key=lambda stage: stages[stage])
    table = Table("memory of a device", "GB", "an update", "seconds")
    left, right = [*memory.items(), ("together", total)], [*stages.items(), ("together", sum(stages.values()))]
    for (part, size), (stage, taken) in zip_longest(left, right, fillvalue=("", None)):
        table.add_row(part, _rounded(size), stage, _rounded(taken))
    console.print(table)
    fits = total <= chosen.memory_gb
    say(
        f"{shape.parameters / 1e9:.3g} billion weights, {learning.learned(shape) / 1e9:.3g} learn; {processes} x "
        f"{chosen.name}; {update.rows} rows of {update.prompt} + {update.completion} tokens",
        f"the slowest stage is {slowest}: {stages[slowest]:.1f} s of {sum(stages.values()):.1f} s",
        f"{total:.1f} of {chosen.memory_gb:g} GB"
        + ("" if fits else ": does not fit; split with --layout fsdp, learn adapters, or lower micro_batch_tokens"),
    )
    if json_path is not None:
        artifacts.write_json(json_path, {"memory_gb": memory, "seconds": stages, "slowest": slowest, "fits": fits})
    if not fits:
        raise typer.Exit(1)


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


@dataclass(frozen=True)
class _Asks:
    """What a configuration asks for, be it a planner's or agents'.

    Attributes:
        name, key: of the model, and of the section that names it.
        source: finds the model.
        lora: the adapters that learn; None where whole models do.
        policies: that learn apart.
        prompt: tokens.
        turns: of an attempt, a row each.
        rows_at_a_time: sampled by one process.
        executions: of an attempt.
    """

    model: LanguageConfig | AgentModelConfig
    phase2: RlConfig
    name: str
    key: str
    source: Callable[[], str]
    lora: LoraConfig | None
    policies: int
    prompt: int
    turns: int
    rows_at_a_time: int
    executions: int


def _of_planner(config: Config) -> _Asks:
    from orchestai.lm.loading import find_source

    language, phase2, key = config.planner.language, config.training.phase2_rl, "planner.language.model"
    if config.planner.kind != "language":
        raise UserError(f"planner.kind={config.planner.kind}: it is small; plan-run is about planner.kind=language")
    return _Asks(
        model=language,
        phase2=phase2,
        name=language.model,
        key=key,
        source=lambda: find_source(language.model, config.workers.models, config.workers.models_dir, key),
        lora=language.lora,
        policies=1,
        prompt=language.max_prompt_tokens,
        turns=1,
        rows_at_a_time=phase2.micro_batch_size,
        executions=phase2.executions_per_plan,
    )


def _of_agents(config: AgentConfig, prompt: int, turns: int | None) -> _Asks:
    from orchestai.agents.registry import learning_roles, policies
    from orchestai.lm.loading import find_source

    known, name = config.workers.models if config.workers else {}, config.model.name
    return _Asks(
        model=config.model,
        phase2=config.training.phase2_rl,
        name=name,
        key="model.name",
        source=lambda: find_source(name, known, config.cache_dir, "model.name"),
        lora=config.adapters,
        policies=policies(config),
        prompt=prompt,
        turns=turns or len(learning_roles(config)),
        rows_at_a_time=config.model.max_rows,
        executions=1,
    )


def _refuse_engines(asks: _Asks, processes: int) -> None:
    """Refuse engines of vLLM that the training would refuse once it has loaded its model.

    Raises:
        UserError: they cannot hold the adapters, or processes would have to share one.
    """
    from orchestai.lm.backends.vllm_engine import engine_rank, refuse_sharing

    section = asks.key.rpartition(".")[0]
    if asks.model.backend in ("vllm", "vllm_server") and asks.lora is not None:
        engine_rank(asks.lora.rank, section)
    if asks.model.backend == "vllm":
        refuse_sharing(asks.model.vllm, processes, section)


def _engine_gb(settings: BackendConfig, policies: int, memory_gb: float) -> float | None:
    if not settings.samples_elsewhere:
        return None
    return policies * settings.vllm.gpu_memory_utilization * memory_gb if settings.backend == "vllm" else 0.0


def _tiny(settings: TinyConfig | TinyChatConfig) -> Shape:
    from orchestai.config import TinyConfig
    from orchestai.training.scale import Shape

    letters = 258  # a model of agents that reads bytes has no vocabulary to set
    vocabulary = (settings.vocab_size or 49_152) if isinstance(settings, TinyConfig) else letters
    width = settings.hidden
    return Shape(settings.layers, width, 4 * width, width, width, vocabulary, True)


def _of_source(source: str, key: str) -> Shape:
    from transformers import AutoConfig

    from orchestai.training.scale import Shape

    try:
        return Shape.of(AutoConfig.from_pretrained(source))
    except (OSError, ValueError) as error:
        said = str(error).strip().partition("\n")[0]
        raise UserError(f"{key}: the configuration of {source} cannot be read: {said}") from None
