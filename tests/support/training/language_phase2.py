"""A configuration of phase 2 for a tiny language model."""

from __future__ import annotations

from pathlib import Path

from orchestai.config import Config, LanguageConfig, PlannerConfig
from orchestai.planner.language.plan_text import Read
from orchestai.workflow import Subtask, Workflow
from support.models.language_model import save_tiny_model
from support.training.phase2 import configuration


def read_as_a_choice(text: str, instruction: str, workers: list[str], config: PlannerConfig) -> Read:
    """A random model writes no plans, so its noise says which of two workers is asked, of which one can do it."""
    worker = "stdlib-search" if sum(map(ord, text)) % 2 else "calculator"
    return Read(Workflow([Subtask(id="1", instruction=instruction, task_type="integer", worker=worker)]), True)


def config(folder: Path, lora: dict[str, int] | None = None, *, load_in_4bit: bool = False, **phase2: object) -> Config:
    """The suite of `phase2`, planned by a random byte-level model."""
    base = configuration(folder, **phase2)
    model = save_tiny_model(folder / "model")
    language = LanguageConfig(
        model=str(model),
        describe=False,
        max_prompt_tokens=200,
        max_new_tokens=8,
        lora=lora or None,
        load_in_4bit=load_in_4bit,
    )
    return base.model_copy(
        update={"planner": base.planner.model_copy(update={"kind": "language", "language": language})}
    )
