"""What is expected of a plan, and of the best single worker, before anybody is asked."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Likely(_Part):
    """An expected value, with the interval from `low` to `high`."""

    mean: float
    low: float
    high: float


class WholeForecast(_Part):
    """The best single worker, asked for the task as it stands.

    Attributes:
        success: the probability that its answer is right; the interval is Wilson's, 95 %, by the number of attempts.
        cost_usd: the interval holds nine of ten logged requests. None where no cost was measured.
        attempts: at whole tasks, from which this is known.
    """

    worker: str
    success: Likely
    cost_usd: Likely | None
    attempts: int


class Forecast(_Part):
    """What the workers' estimate says of a plan.

    Attributes:
        success: the probability that the answer is right: that of the plan itself, times that all of its steps are.
            None where nobody knows how sure the plan is.
        cost_usd: expected, of all workers that will probably be asked. None where no cost was measured.
        seconds: expected, of all steps in a row. None where no time was measured.
    """

    success: float | None
    cost_usd: float | None
    seconds: float | None
