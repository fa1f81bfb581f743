"""A configuration whose workers are tools alone: nothing is loaded, and equal requests have equal answers."""

from __future__ import annotations

from orchestai.config import Config
from orchestai.tasks import program_source as source
from orchestai.tasks.programs import fenced


def with_tools_alone(config: Config) -> Config:
    """The configuration without its models and the workers that ask them."""
    pool = {name: worker for name, worker in config.workers.pool.items() if worker.kind == "tool"}
    workers = config.workers.model_copy(
        update={"pool": pool, "models": {}, "recordings": (), "cascade": tuple(pool), "planner_model": None}
    )
    return config.model_copy(update={"workers": workers})


def hand_on(instruction: str) -> str:
    """The program that the instruction is."""
    return source.with_imports(fenced(instruction) or instruction)
