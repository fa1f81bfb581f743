"""The `contract` section: what one answer may cost, how long it may take, and who may work on it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestai.config.section import Section


class Contract(Section):
    """What holds for one answer; a limit that is null does not hold."""

    max_cost_usd: float | None = Field(None, ge=0, le=1e9, allow_inf_nan=False)
    """US dollars that the answer may cost, in the worst case that its plan admits."""
    deadline_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Seconds after which there is an answer, whole or partial; planning included."""
    max_calls: int | None = Field(None, ge=1)
    """Requests that may be sent to models and tools, samples and repeated tries included."""
    allow: tuple[str, ...] = ()
    """Workers that may be asked; empty allows the whole pool."""
    min_success: float | None = Field(None, ge=0, le=1)
    """The least probability that the answer is right; where no choice of workers reaches it, nobody is asked."""
    prefer: float | None = Field(None, ge=0, le=1)
    """From 0, the least price, to 1, the most success. null leaves the choice of workers to the planner."""
    hour_usd: float = Field(0.0, ge=0, allow_inf_nan=False)
    """US dollars that an hour of a worker's time is worth beside its price, where `prefer` or `min_success` choose."""
    on_deadline: Literal["partial", "error"] = "partial"
    """`partial`: the best answer so far is returned and marked as such. `error`: there is none."""

    def less(self, spent_usd: float) -> Contract:
        """The contract for what is left to do after so much was spent."""
        if self.max_cost_usd is None:
            return self
        return self.model_copy(update={"max_cost_usd": max(0.0, self.max_cost_usd - spent_usd)})
