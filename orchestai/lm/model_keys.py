"""The configuration's keys of a language model, for messages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelKeys:
    """Where the user wrote what a model is.

    Attributes:
        name: the key that names the model, such as `planner.language.model` or `agents.models.critic`.
        section: the section of its settings (`dtype`, `max_new_tokens`, ...), such as `planner.language`.
    """

    name: str
    section: str


PLANNER = ModelKeys("planner.language.model", "planner.language")
AGENTS = ModelKeys("model.name", "model")
