"""What is served under which name, and how many runs are taken on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from orchestai.answering import Event, RunResult
from orchestai.config import Contract
from orchestai.names import did_you_mean
from orchestai.orchestrator import Orchestrator
from orchestai.serving.api.accounting import summary
from orchestai.serving.api.asked import Asked, contract_of
from orchestai.serving.api.errors import NO_RETRY, ApiError, busy, invalid

WORKER = "worker:"
"""Before the name of a worker that is asked without a planner."""
_OF_PROFILES = {"prefer", "min_success"}


def _ignore(event: Event) -> None:
    """Listen to nothing."""


@dataclass(frozen=True)
class ServedModel:
    """A name that requests may use.

    Attributes:
        profile: the contract that comes with it.
        worker: asked alone; None plans.
    """

    name: str
    profile: Contract | None = None
    worker: str | None = None


class Service:
    """Answers requests with an orchestrator that is open."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self.orchestrator = orchestrator
        self.config = orchestrator.config.serving
        self.began = int(time.time())
        self.in_flight = 0
        self.models = {model.name: model for model in self._models()}

    def _models(self) -> Iterator[ServedModel]:
        name = self.config.model
        yield ServedModel(name)
        for profile, contract in self.config.profiles.items():
            if self.orchestrator.has_estimate or not contract.model_fields_set & _OF_PROFILES:
                yield ServedModel(f"{name}:{profile}", contract)
        for worker in self.orchestrator.workers:
            yield ServedModel(WORKER + worker, worker=worker)

    def model(self, name: str) -> ServedModel:
        """What is served under a name.

        Raises:
            ApiError: nothing is.
        """
        if name not in self.models:
            hint = did_you_mean(name, self.models)
            raise ApiError(404, "model_not_found", f"there is no model {name!r}{hint}; see /v1/models", param="model")
        return self.models[name]

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place among the runs that are in work or wait.

        Raises:
            ApiError: all are taken.
        """
        most = self.orchestrator.config.execution.concurrency + self.config.queue
        if self.in_flight >= most:
            raise busy("queue_full", f"{most} runs are in work or wait; come again", 1.0)
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    async def run(self, asked: Asked, listen: Callable[[Event], None] = _ignore) -> RunResult:
        """Answer a request.

        Raises:
            ApiError: there is no such model, or no answer.
            Exception: as `Orchestrator.run` does.
        """
        model = self.model(asked.model)
        contract = self._contract(asked, model)
        result = await self.orchestrator.run(
            asked.instruction,
            contract,
            answer=asked.extension.answer,
            worker=model.worker,
            dialogue=asked.dialogue,
            run_id=asked.run_id,
            listen=listen,
            pieces=asked.stream,
        )
        if result.receipt.status == "failed":
            raise _failure(result)
        return result

    def _contract(self, asked: Asked, model: ServedModel) -> Contract:
        offered = self.orchestrator.config.contract
        if model.profile is not None:
            offered = offered.model_copy(update=model.profile.model_dump(exclude_unset=True))
        if model.worker is not None:
            for name in ("prefer", "min_success", "allow"):
                if name in asked.extension.contract.model_fields_set:
                    raise invalid(f"orchestai.contract.{name}", f"{model.name} is one worker; there is no choice")
            offered = offered.model_copy(update={"prefer": None, "min_success": None})
        return contract_of(asked.extension.contract, offered, self.config.deadline_s)


def _failure(result: RunResult) -> ApiError:
    """A run without an answer, which may have cost something all the same."""
    said = result.execution.error or "there is no answer"
    more = {"orchestai": summary(result.receipt)}
    headers = {**NO_RETRY, "x-orchestai-run-id": result.receipt.run_id}
    if result.execution.partial:
        limit = result.receipt.contract.deadline_s
        return ApiError(
            504, "deadline_exceeded", f"no answer within deadline_s={limit:g}: {said}", headers=headers, more=more
        )
    return ApiError(502, "workers_failed", f"no worker answered: {said}", headers=headers, more=more)
