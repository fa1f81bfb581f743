"""The section `training.phase1_supervised`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestai.config.adam import AdamConfig


class Phase1Config(AdamConfig):
    batch_size: int = Field(32, ge=1)
    learning_rate: float = Field(1e-4, gt=0)
    lr_schedule: Literal["plateau", "linear"] = "plateau"
    """`plateau`: the learning rate falls to a third after an epoch that hardly lowered the validation loss. `linear`:
    it falls to 0 with the last batch of the last epoch, so a resumed run cannot have more of them."""
    num_epochs: int = Field(50, ge=1)
    lambda_dag: float = Field(0.3, ge=0)
    """Weight of the DAG-validity loss."""
    train_data_size: int = Field(300, ge=1)
    """Most tasks that `prepare` writes."""
    keep: Literal["success", "best"] = "success"
    """`success`: `prepare` leaves out tasks that no execution solved. `best`: it keeps their best execution too, for
    what it teaches about decomposition where that is known to be right."""
    mixture: tuple[str, ...] = ()
    """heads: plans that `prepare` adds to those of the logs, to teach more wordings than a suite has: `instructions`,
    which ships, and training files that `prepare-plans --free` wrote."""
    mixture_augmentations: int = Field(0, ge=0)
    """Variations of the mixture's chains that `prepare` adds: with the words of other plans' steps in place of theirs.
    Wording of other styles is understood better with them; they must be English."""
    synthetic_augmentations: int = Field(1000, ge=0)
    """Augmented examples that `prepare` adds (fewer when no more distinct ones exist)."""
    source_temperature: float = Field(1.0, ge=1)
    """heads: above 1, small sources of examples are drawn more often: by their size to the power of 1 over this."""
    weight_decay: float = Field(0.01, ge=0)
    patience: int = Field(8, ge=1)
    """Epochs without better plans of what is held out, or as good ones at a lower loss, before training stops."""
    seed: int = 0
