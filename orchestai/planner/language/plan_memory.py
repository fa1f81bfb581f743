"""Plans that were learned from, to stand in the prompts of tasks whose words mean something similar."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from orchestai.planner.slots.encoders.encoder import open_encoder
from orchestai.planner.slots.encoders.sentences import sentence_embedder
from orchestai.storage import artifacts
from orchestai.tasks.splits import task_hash

_PLANS, _VECTORS = "plan_memory.json", "plan_memory.safetensors"
_MOST_TOKENS = 2048
"""Of the longest instruction that is compared; given steps and tools make it long."""


@dataclass(frozen=True)
class KnownPlan:
    """A task and a good plan for it, as the model is to write it.

    Attributes:
        origin: names the task, whatever its wording.
    """

    instruction: str
    plan: str
    origin: str

    @property
    def workers(self) -> set[str]:
        """Those that the plan names."""
        steps = json.loads(self.plan)["subtasks"]
        return {name for step in steps for name in (step.get("worker"), *step.get("fallback", ())) if name}


class PlanMemory:
    """Finds worked examples for a task among plans that were learned from.

    A task is never its own example, nor that of a wording that was made from it, in whatever case and punctuation: a
    planner that learns, or is rewarded, on a task whose plan it reads would learn to copy.

    Args:
        vectors: (plans, width) float32 unit vectors, what the instructions mean.
    """

    def __init__(self, plans: Sequence[KnownPlan], vectors: NDArray[np.float32]) -> None:
        self.plans = tuple(plans)
        self._vectors = vectors
        self._hashes = np.array([task_hash(known.instruction) for known in plans], dtype=object)
        self._origins = np.array([known.origin for known in plans], dtype=object)

    @classmethod
    def of(cls, plans: Sequence[KnownPlan]) -> PlanMemory:
        """A memory of at least one plan, of each instruction the first."""
        plans = list({task_hash(known.instruction): known for known in reversed(plans)}.values())[::-1]
        return cls(plans, _embed([known.instruction for known in plans]))

    def of_pool(self, workers: Collection[str]) -> PlanMemory:
        """The memory without plans that name other workers."""
        kept = [i for i, known in enumerate(self.plans) if known.workers <= set(workers)]
        return PlanMemory([self.plans[i] for i in kept], self._vectors[kept])

    def nearest(self, instruction: str, most: int, origin: str = "") -> list[KnownPlan]:
        """The plans of the tasks that mean the most similar, the most similar last.

        A text that says nothing, or is longer than the encoder is asked to read, has none.

        Args:
            origin: of a task whose own plan may not be read, beside those with the instruction's words.
        """
        [vector] = _embed([instruction])
        own = (self._hashes == task_hash(instruction)) | (self._origins == origin)
        similarity = np.where(own, 0, self._vectors @ vector)
        order = np.argsort(-similarity, kind="stable")[:most]
        return [self.plans[i] for i in reversed(order) if similarity[i] > 0]

    def save(self, folder: Path) -> None:
        """Write it beside the weights that learned with it."""
        artifacts.write_json(folder / _PLANS, [asdict(known) for known in self.plans])
        save_file({"vectors": self._vectors}, folder / _VECTORS)

    @classmethod
    def load(cls, folder: Path) -> PlanMemory:
        """What `save` wrote; the caller has checked the digests."""
        plans = json.loads((folder / _PLANS).read_text(encoding="utf-8"))
        return cls([KnownPlan(**known) for known in plans], load_file(folder / _VECTORS)["vectors"])


def _embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """(texts, width) unit vectors of what texts mean, and 0 for one that says nothing or is too long."""
    return sentence_embedder(open_encoder(_MOST_TOKENS))(texts)
