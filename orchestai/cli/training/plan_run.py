"""`orchestai plan-run`: what a training will need, before anything starts."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import CONFIG, ConfigFile, JsonFile, Overrides, console, flag, say
from orchestai.errors import UserError

if TYPE_CHECKING:
    from orchestai.config import LanguageConfig, RlConfig, TinyConfig
    from orchestai.config.agents import AgentModelConfig, TinyChatConfig
    from orchestai.training.scale import Learning, Shape, Update


def plan_run(
    config: ConfigFile = CONFIG,
    train: Annotated[
        str | None, flag("train", "phase2, or a workflow of agents; what the configuration is for, if absent.")
    ] = None,
    processes: Annotated[int, flag("processes", "Devices, a process each.", minimum=1)] = 1,
    layout: Annotated[str, flag("layout", "A file of accelerate_configs without its ending.")] = "ddp",
    device: Annotated[str, flag("device", "cpu, a100, h100 or h200.")] = "cpu",
    execution_s: Annotated[float, flag("execution_s", "Seconds of one execution, as your logs have them.")] = 0.2,
    prompt_tokens: Annotated[int, flag("prompt_tokens", "Agents: tokens of a prompt.", minimum=1)] = 512,
    json_path: JsonFile = None,
    overrides: Overrides = None,
) -> None:
    """Print memory per device and seconds per update, by a model that docs/scale.md explains; start nothing."""
    from rich.table import Table

    from orchestai.storage import artifacts
    from orchestai.training.scale import DEVICES, LAYOUTS, memory_gb, seconds

    for name, given, known in (("layout", layout, LAYOUTS), ("device", device, DEVICES)):
        if given not in known:
            raise UserError(f"--{name} {given}: there are {', '.join(known)}")
    shape, learning, update = _planned(config, train, overrides or [], (processes, layout, execution_s, prompt_tokens))
    chosen = DEVICES[device]
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


def _planned(
    config: Path, train: str | None, words: list[str], given: tuple[int, str, float, int]
) -> tuple[Shape, Learning, Update]:
    """What a configuration asks for."""
    from orchestai.config import TINY, Config
    from orchestai.launch.asked import load, what_is_trained
    from orchestai.lm.loading import find_source
    from orchestai.training.scale import LAYOUTS, Learning, Update

    processes, layout, execution_s, prompt = given
    phase2: RlConfig
    model: LanguageConfig | AgentModelConfig
    loaded = load(train or what_is_trained(config, words), config, words)
    if isinstance(loaded, Config):
        language, of_plans = loaded.planner.language, loaded.training.phase2_rl
        if loaded.planner.kind != "language":
            raise UserError(f"planner.kind={loaded.planner.kind}: it is small; plan-run is about planner.kind=language")
        name, prompt, at_a_time = language.model, language.max_prompt_tokens, of_plans.micro_batch_size
        executions, actors = of_plans.executions_per_plan, loaded.execution.ray.num_workers
        known, cache, sandbox = loaded.workers.models, loaded.workers.models_dir, loaded.sandbox
        phase2, model, key = of_plans, language, "planner.language.model"
    else:
        phase2, name, at_a_time = loaded.training.phase2_rl, loaded.model.name, loaded.model.max_rows
        executions, actors = 1, loaded.execution.ray.num_workers
        known, cache, sandbox = loaded.workers.models if loaded.workers else {}, loaded.cache_dir, loaded.sandbox
        model, key = loaded.model, "model.name"
    shape = _tiny(model.tiny) if name == TINY else _of_source(find_source(name, known, cache, key), key)
    length = prompt + model.max_new_tokens
    rows = phase2.tasks_per_update * phase2.num_generations
    return (
        shape,
        Learning(
            split=LAYOUTS[layout],
            weight_bytes=0.55 if model.load_in_4bit else 4 if model.dtype == "float32" else 2,
            rank=model.lora.rank if model.lora else None,
            reference=phase2.kl_coef > 0,
            checkpointing=model.gradient_checkpointing,
            processes=processes,
        ),
        Update(
            rows=rows,
            rows_at_a_time=at_a_time,
            prompt=prompt,
            completion=model.max_new_tokens,
            tokens_at_a_time=phase2.micro_batch_tokens or min(phase2.micro_batch_size, rows) * length,
            executions=rows * executions,
            execution_s=execution_s,
            execution_slots=sandbox.workers * (actors or processes),
            passes=phase2.num_iterations,
        ),
    )


def _tiny(settings: TinyConfig | TinyChatConfig) -> Shape:
    from orchestai.config import TinyConfig
    from orchestai.training.scale import Shape

    letters = 258  # a model of agents that reads bytes has no vocabulary to set
    vocabulary = (settings.vocab_size or 49_152) if isinstance(settings, TinyConfig) else letters
    return Shape(
        settings.layers, settings.hidden, 4 * settings.hidden, settings.heads, settings.hidden, vocabulary, True
    )


def _of_source(source: str, key: str) -> Shape:
    from transformers import AutoConfig

    from orchestai.training.scale import Shape

    try:
        return Shape.of(AutoConfig.from_pretrained(source))
    except (OSError, ValueError, AttributeError) as error:
        said = str(error).strip().partition("\n")[0]
        raise UserError(f"{key}: the configuration of {source} cannot be read: {said}") from None
