"""The workflows and their presets by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestai.agents.workflow import AgentWorkflow
from orchestai.config.agents import AgentConfig
from orchestai.errors import UserError
from orchestai.installed import shipped
from orchestai.plugins import did_you_mean, find_object


@dataclass(frozen=True)
class Entry:
    """A workflow that ships with the program.

    Attributes:
        target: its class, as `module:Class`.
        defaults: overrides that a run has without a file of configuration.
        sample: overrides for a run on the small sample data, with a tiny model.
    """

    target: str
    defaults: tuple[str, ...] = ()
    sample: tuple[str, ...] = ()


_PACKAGE = "orchestai.agents.workflows"
_SAMPLE_DATA = Path("data/agents")
_TAUGHT = "model.name=data/agents/tiny"
"""A tiny model that was taught how turns of the workflows look: an untrained one never calls a tool or gives a verdict.
docs/agents/workflows.md says how it came about."""
_CORPUS = "agents.workflow_args.corpus=data/agents/corpus.jsonl"


def _entry(target: str, defaults: tuple[str, ...], file: str, tokens: int, *further: str) -> Entry:
    """A workflow whose sample tasks are written in a file."""
    sample = ("tasks.suite=written", f"tasks.path=data/agents/{file}.jsonl", _TAUGHT, f"model.max_new_tokens={tokens}")
    return Entry(f"{_PACKAGE}.{target}", defaults, (*sample, *further))


WORKFLOWS: dict[str, Entry] = {
    "tool_use": _entry("tool_use:ToolUse", ("tasks.suite=triviaqa", "agents.credit=turn"), "questions", 48, _CORPUS),
    "writing": Entry(
        f"{_PACKAGE}.writing:Writing",
        (
            *("tasks.suite=arxiv_abstracts", "tasks.eval_split=val", "agents.credit=joint", "agents.policies=separate"),
            *("training.phase2_rl.loss_type=reinforce", "training.phase2_rl.entropy_coef=0"),
        ),
        (
            *("tasks.suite=arxiv_abstracts", "tasks.path=data/agents/abstracts.jsonl", "tasks.eval_split=val"),
            *("agents.workflow_args.min_words=1", "agents.workflow_args.max_words=16"),
        ),
    ),
    "deepcoder": _entry("deepcoder:DeepCoder", ("tasks.suite=deepcoder", "agents.credit=role"), "code", 64),
    "swe": _entry(
        "swe:SWE",
        ("tasks.suite=swe", "agents.credit=role", "sandbox.level=strict"),
        "swe/instances",
        176,
        *("tasks.suite=swe", "agents.workflow_args.repositories=data/agents/swe"),
        "agents.workflow_args.shown_characters=800",
    ),
    "math_tool": _entry(
        "maths:Maths", ("tasks.suite=gsm8k", "agents.credit=role", "sandbox.preload=[math_verify]"), "maths", 48
    ),
    "search": _entry("search:Search", ("tasks.suite=hotpotqa", "agents.credit=role"), "questions", 48, _CORPUS),
    "deep_research": _entry(
        "research:Research",
        ("tasks.suite=written", "tasks.path=data/agents/research.jsonl", _CORPUS, "agents.credit=role"),
        "research",
        136,
        _CORPUS,
    ),
}


def find_sample_data(values: Mapping[str, Any]) -> list[str]:
    """Overrides for those values, by key, that lie in `data/agents` where the working directory has no such folder."""
    if _SAMPLE_DATA.is_dir():
        return []
    within = {key: Path(str(value)) for key, value in values.items()}
    return [f"{key}={shipped(path)}" for key, path in within.items() if path.is_relative_to(_SAMPLE_DATA)]


def presets() -> dict[str, Path]:
    """The files of configs/agents by name: those of the program, and of the working directory, which come first."""
    folders = (shipped("configs/agents"), Path("configs/agents"))
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def find(name: str) -> type[AgentWorkflow]:
    """The class of a workflow's name, or of `module:Class`; the module may lie in the working directory."""
    target = WORKFLOWS[name].target if name in WORKFLOWS else name
    if ":" not in target:
        raise unknown(name)
    try:
        found = find_object(target)
    except (ImportError, AttributeError) as error:
        raise UserError(f"no workflow {name!r}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, AgentWorkflow)):
        raise UserError(f"{name}: not a subclass of orchestai.agents.workflow.AgentWorkflow")
    return found


def policies(config: AgentConfig) -> int:
    """How many learn apart: one for all roles, or one for each that is not frozen."""
    roles = find(config.agents.workflow).roles
    return 1 if config.agents.policies == "shared" else sum(role not in config.agents.frozen for role in roles)


def unknown(name: str) -> UserError:
    """What to say where `name` is neither a workflow nor a preset."""
    files = {preset: path for preset, path in presets().items() if preset not in WORKFLOWS}
    hint = did_you_mean(name, [*WORKFLOWS, *files])
    return UserError(
        f"no workflow or preset {name!r}; there are the workflows {', '.join(WORKFLOWS)} and the presets "
        f"{', '.join(files) or '(none: there is no configs/agents here)'}, or write module:Class{hint}"
    )
