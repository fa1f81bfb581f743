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
WORKFLOWS: dict[str, Entry] = {
    "tool_use": Entry(
        f"{_PACKAGE}.tool_use:ToolUse",
        ("tasks.suite=triviaqa", "agents.credit=turn"),
        (
            *("tasks.suite=written", "tasks.path=data/agents/questions.jsonl"),
            *("agents.workflow_args.corpus=data/agents/corpus.jsonl", _TAUGHT, "model.max_new_tokens=48"),
        ),
    ),
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
    "deepcoder": Entry(
        f"{_PACKAGE}.deepcoder:DeepCoder",
        ("tasks.suite=deepcoder", "agents.credit=role"),
        ("tasks.suite=written", "tasks.path=data/agents/code.jsonl", _TAUGHT, "model.max_new_tokens=64"),
    ),
    "swe": Entry(
        f"{_PACKAGE}.swe:SWE",
        ("tasks.suite=swe", "agents.credit=role", "sandbox.level=strict"),
        (
            "tasks.suite=swe",
            "tasks.path=data/agents/swe/instances.jsonl",
            "agents.workflow_args.repositories=data/agents/swe",
            "agents.workflow_args.shown_characters=800",
            *(_TAUGHT, "model.max_new_tokens=176"),
        ),
    ),
    "math_tool": Entry(
        f"{_PACKAGE}.maths:Maths",
        ("tasks.suite=gsm8k", "agents.credit=role", "sandbox.preload=[math_verify]"),
        ("tasks.suite=written", "tasks.path=data/agents/maths.jsonl", _TAUGHT, "model.max_new_tokens=48"),
    ),
    "search": Entry(
        f"{_PACKAGE}.search:Search",
        ("tasks.suite=hotpotqa", "agents.credit=role"),
        (
            "tasks.suite=written",
            "tasks.path=data/agents/questions.jsonl",
            *("agents.workflow_args.corpus=data/agents/corpus.jsonl", _TAUGHT, "model.max_new_tokens=48"),
        ),
    ),
    "deep_research": Entry(
        f"{_PACKAGE}.research:Research",
        (
            "tasks.suite=written",
            "tasks.path=data/agents/research.jsonl",
            "agents.workflow_args.corpus=data/agents/corpus.jsonl",
            "agents.credit=role",
        ),
        (
            "tasks.suite=written",
            "tasks.path=data/agents/research.jsonl",
            *("agents.workflow_args.corpus=data/agents/corpus.jsonl", _TAUGHT, "model.max_new_tokens=136"),
        ),
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


def learning_roles(config: AgentConfig) -> list[str]:
    """Those that are not frozen."""
    return [role for role in find(config.agents.workflow).roles if role not in config.agents.frozen]


def policies(config: AgentConfig) -> int:
    """How many learn apart: one for all roles, or one for each."""
    return 1 if config.agents.policies == "shared" else len(learning_roles(config))


def unknown(name: str) -> UserError:
    """What to say where `name` is neither a workflow nor a preset."""
    files = {preset: path for preset, path in presets().items() if preset not in WORKFLOWS}
    hint = did_you_mean(name, [*WORKFLOWS, *files])
    return UserError(
        f"no workflow or preset {name!r}; there are the workflows {', '.join(WORKFLOWS)} and the presets "
        f"{', '.join(files) or '(none: there is no configs/agents here)'}, or write module:Class{hint}"
    )
