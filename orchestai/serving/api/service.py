"""What is served under which name, how many runs are taken on, and how one is answered, kept and counted."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict

from orchestai.answering import Event, RunResult
from orchestai.config import Contract, ServingConfig
from orchestai.errors import UserError
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.events import PlanReady
from orchestai.execution.log import each_text, forget_old_logs
from orchestai.orchestrator import Orchestrator
from orchestai.plugins import did_you_mean, find_object
from orchestai.serving.api.caller import Caller, Callers, is_loopback
from orchestai.serving.api.errors import NO_RETRY, ApiError, busy, invalid
from orchestai.serving.api.replies.accounting import summary, workers_usage
from orchestai.serving.api.requests.common import Asked, contract_of, exchanged, run_of_call
from orchestai.serving.improvement.registry import succession
from orchestai.serving.store import UNREACHABLE, Database, ParkedRuns, ServedRuns
from orchestai.serving.store.served_runs import forget_runs, forget_settled
from orchestai.tasks.asked_task import AnswerKind
from orchestai.tasks.dialogue import Dialogue, ToolCall, ToolUse
from orchestai.workers.base import Usage
from orchestai.workflow import Subtask, Workflow

if TYPE_CHECKING:
    from orchestai.serving.tracing import Tracing


class ParkedRun(BaseModel):
    """One step, with all that its worker has to read to go on.

    Attributes:
        run_id: of the run that was parked.
        dialogue: with what the steps before gave, and the calls of tools so far.
        calls: that wait for their results.
        text: said beside the calls.
        spent_usd: of the contract, by all turns so far.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    instruction: str
    answer: AnswerKind | None
    dialogue: Dialogue
    step: Subtask
    calls: tuple[ToolCall, ...]
    text: str
    spent_usd: float


PARKED_S = 3600.0
"""How long a workflow waits for what a client's tools give."""


class Parking:
    """Of all servers on one database."""

    def __init__(self, database: Database) -> None:
        self._runs = ParkedRuns(database)

    async def take(self, asked: Asked, caller: Caller) -> ParkedRun:
        """The run that waits for the results in a request; `put_back` or `drop` follows.

        Raises:
            ApiError: none does.
        """
        name = next(iter(asked.results))
        run_id = run_of_call(name)
        state = None
        if run_id is not None:
            taking = self._runs.take(run_id, caller.key, PARKED_S)

            def leave(taken: Future[dict[str, Any] | None]) -> None:
                if taken.exception() is None and taken.result() is not None:
                    self._runs.give_back(run_id, caller.key)

            try:
                state = await asyncio.shield(asyncio.wrap_future(taking))
            except asyncio.CancelledError:
                taking.add_done_callback(leave)
                raise
        if state is None:
            raise ApiError(
                400,
                "tool_call_not_found",
                f"no run waits for {name}: it has been resumed, or was forgotten after {PARKED_S:g} s",
                param=asked.conversation,
            )
        return ParkedRun.model_validate(state)

    async def put(self, parked: ParkedRun, caller: Caller) -> None:
        state = parked.model_dump(mode="json")
        await asyncio.shield(asyncio.wrap_future(self._runs.put(parked.run_id, caller.key, state)))

    async def put_back(self, parked: ParkedRun, caller: Caller) -> None:
        """`put` a run whose resumption failed, as soon as the database answers."""
        with suppress(*UNREACHABLE):
            await self.put(parked, caller)

    async def drop(self, parked: ParkedRun, caller: Caller) -> None:
        """Forget a run that was answered, as soon as the database answers."""
        with suppress(*UNREACHABLE):
            await asyncio.shield(asyncio.wrap_future(self._runs.drop(parked.run_id, caller.key)))


def resumed(parked: ParkedRun, asked: Asked) -> Dialogue:
    """What the worker that waits reads now: with the results, and the tools that there are now.

    Raises:
        ApiError: a result is missing.
    """
    before = parked.dialogue.tool_use or ToolUse(tools="[]")
    now = asked.dialogue.tool_use or before.model_copy(update={"choice": '"auto"'})
    exchange: list[Any] = json.loads(before.exchange)
    exchange += exchanged(parked.calls, parked.text, parked.run_id, asked.results, asked.conversation)
    tool_use = now.model_copy(update={"exchange": json.dumps(exchange)})
    return parked.dialogue.model_copy(update={"tool_use": tool_use})


def parked_run(result: RunResult, asked: Asked, before: ParkedRun | None, dialogue: Dialogue) -> ParkedRun:
    """A run whose last step has called tools.

    Args:
        before: what it was resumed from; None where it was not.
        dialogue: that the worker has read.
    """
    workflow = result.workflow
    step = workflow[workflow.answering()]
    outputs = result.execution.outputs
    inputs = dialogue.inputs or {parent: outputs[parent] for parent in step.depends_on}
    (answered,) = [node for node in result.execution.results if node.id == step.id]
    alone = step.model_copy(update={"depends_on": (), "worker": answered.worker, "fallback": ()})
    return ParkedRun(
        run_id=asked.run_id,
        instruction=before.instruction if before else asked.instruction,
        answer=before.answer if before else asked.extension.answer,
        dialogue=dialogue.model_copy(update={"inputs": inputs}),
        step=alone,
        calls=result.execution.tool_calls,
        text=answered.output,
        spent_usd=result.receipt.spent_usd + (before.spent_usd if before else 0.0),
    )


def text_change(config: ServingConfig) -> Callable[[str], str] | None:
    """What becomes of a text before it is kept; None where it is kept as it is.

    Of a text at which the user's function fails, nothing is kept: the answer it belongs to was paid for.
    """
    if config.log != "full":
        return lambda text: ""
    if config.redact is None:
        return None
    try:
        found = find_object(config.redact)
    except (ImportError, AttributeError) as error:
        raise UserError(f"serving.redact={config.redact}: {error}; write MODULE:FUNCTION") from None
    if not callable(found):
        raise UserError(
            f"serving.redact={config.redact}: {type(found).__name__}, not a function; write MODULE:FUNCTION"
        )

    def redact(text: str) -> str:
        try:
            return str(found(text))
        except Exception as error:
            logger.error("serving.redact=%s failed (%s); a text is not kept", config.redact, type(error).__name__)
            return ""

    return redact


QUEUE = 256
"""Runs that may wait while `execution.concurrency` are in work; more are told to come again."""


class KeptRun:
    """One run on its way into the database; `end` must follow.

    Attributes:
        plan, receipt: as far as they are there.
    """

    def __init__(
        self, runs: ServedRuns, run_id: str, caller: Caller, change: Callable[[str], str] | None, labels: dict[str, str]
    ) -> None:
        self._runs = runs
        self._run_id = run_id
        self._key = caller.key
        self._change = change
        self._labels = labels
        self.plan: PlanReady | None = None
        self.receipt: Receipt | None = None
        self._beginning = runs.begin(run_id, caller.key)

    def hear(self, event: Event) -> None:
        if isinstance(event, PlanReady):
            self.plan = event

    def settled(self, receipt: Receipt) -> None:
        self.receipt = receipt

    async def end(self, refusal: str = "") -> None:
        """Keep plan and receipt; of a run that was refused before it had any, why.

        Whoever is cancelled while it waits does not undo it.
        """
        receipt: dict[str, Any] = {"run_id": self._run_id, "status": "refused", "error": refusal}
        if self.receipt is not None:
            receipt = self.receipt.model_dump(mode="json") | ({"error": refusal} if refusal else {})
        plan = None if self.plan is None else self.plan.workflow.to_dict()
        labels = self._labels
        if self._change is not None:
            receipt, plan = each_text(receipt, self._change), each_text(plan, self._change)
            labels = {name: self._change(label) for name, label in labels.items()}
        if labels:
            receipt["labels"] = labels
        try:
            ended = self._runs.put(self._run_id, self._key, plan, receipt)
            await asyncio.shield(asyncio.wrap_future(ended))
            self._beginning.result()  # which was written before
        except UNREACHABLE:
            logger.error("%s: the database does not answer; its receipt is kept as soon as it does", self._run_id)
        except Exception:
            logger.exception("%s is not in the database", self._run_id)


_PAID = ("planner", "workers")
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Of one server."""

    def __init__(self, in_flight: Callable[[], int], out_of_order: Callable[[], Iterable[tuple[str, bool]]]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "orchestai_requests", "Requests by route and status.", ("route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "orchestai_request_seconds",
            "From a request to its last byte.",
            ("route",),
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._runs = Counter("orchestai_runs", "Runs by how they ended.", ("status",), registry=self._registry)
        self._degraded = Counter("orchestai_degraded_runs", "Runs without their planner.", registry=self._registry)
        usd = Counter("orchestai_spent_usd", "US dollars spent.", ("by",), registry=self._registry)
        tokens = Counter("orchestai_tokens", "Tokens.", ("by", "direction"), registry=self._registry)
        self._paid = {by: usd.labels(by) for by in _PAID}
        self._read = {by: tokens.labels(by, "read") for by in _PAID}
        self._written = {by: tokens.labels(by, "written") for by in _PAID}
        Gauge("orchestai_in_flight", "Runs in work or waiting.", registry=self._registry).set_function(in_flight)
        self._registry.register(_OutOfOrder(out_of_order))

    def request(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def run(self, receipt: Receipt) -> None:
        self._runs.labels(receipt.status).inc()
        if receipt.degraded:
            self._degraded.inc()
        for by, usage in (("planner", receipt.planning or Usage()), ("workers", workers_usage(receipt))):
            self._paid[by].inc(usage.cost_usd)
            self._read[by].inc(usage.prompt_tokens)
            self._written[by].inc(usage.completion_tokens)

    def text(self) -> bytes:
        """In Prometheus's text format."""
        return generate_latest(self._registry)


class _OutOfOrder(Collector):
    """Which workers are out of order, as their circuit breakers say."""

    def __init__(self, workers: Callable[[], Iterable[tuple[str, bool]]]) -> None:
        self._workers = workers

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "orchestai_worker_out_of_order", "1 where a worker is not asked.", labels=("worker",)
        )
        for worker, out in self._workers():
            family.add_metric([worker], float(out))
        yield family


logger = logging.getLogger(__name__)
_EVERY_S = 3600.0
_DAY_S = 86_400.0
_SETTLED_DAYS = 7
"""Reservations that were settled are of use to whoever asks where a day's money went."""


@asynccontextmanager
async def forgetting(config: ServingConfig, database: Database, log: Path | None) -> AsyncIterator[None]:
    """Forget while the block lasts; see `forget`."""

    async def again_and_again() -> None:
        while True:
            try:
                await asyncio.to_thread(forget, config, database, log)
            except Exception:
                logger.exception("what is too old was not removed; trying again in an hour")
            await asyncio.sleep(_EVERY_S)

    working = asyncio.ensure_future(again_and_again())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def forget(config: ServingConfig, database: Database, log: Path | None) -> None:
    """Remove settled reservations of the week before last, parked runs whose clients did not come back in time, and,
    where `log_days` says so, old runs wherever they are.

    Args:
        log: folder of the execution log; None where there is none.
    """
    forget_settled(database, _SETTLED_DAYS * _DAY_S)
    ParkedRuns(database).forget_older(PARKED_S)
    if config.log_days is None:
        return
    forget_runs(database, config.log_days * _DAY_S)
    if log is not None:
        forget_old_logs(log, config.log_days)


WORKER = "worker:"
"""Before the name of a worker that is asked without a planner."""
_OF_ESTIMATES = {"prefer", "min_success"}


@dataclass(frozen=True)
class ServedModel:
    """A name that requests may use.

    Attributes:
        profile: the contract that comes with it.
        planner: of `serving.checkpoints`; None is the one that the server was started with.
        worker: asked alone; None plans.
    """

    name: str
    profile: Contract | None = None
    planner: str | None = None
    worker: str | None = None


class Service:
    """Answers requests with an orchestrator that is open.

    Attributes:
        change: of each text before it is kept; None keeps it as it is.
    """

    def __init__(self, orchestrator: Orchestrator, database: Database, tracing: Tracing | None = None) -> None:
        self.orchestrator = orchestrator
        self._tracing = tracing
        self.config = orchestrator.config.serving
        self.database = database
        self.callers = Callers(self.config, database)
        self.change = text_change(self.config)
        self._runs = ServedRuns(database)
        self.parking = Parking(database)
        self.metrics = Metrics(lambda: self.in_flight, self.workers_out_of_order)
        self.began = int(time.time())
        self.in_flight = 0
        self.models = {model.name: model for model in self._models()}

    @classmethod
    @asynccontextmanager
    async def opened(cls, orchestrator: Orchestrator, tracing: Tracing | None = None) -> AsyncIterator[Service]:
        """A service with its orchestrator and its database, until the block ends."""
        config = orchestrator.config.serving
        async with orchestrator, succession(orchestrator, config.checkpoints):
            await orchestrator.load()
            level = orchestrator.sandbox_level
            if not is_loopback(config.host) and level == "process":
                raise UserError(
                    f"serving.host={config.host}: strangers could have programs run, and the sandbox holds them by "
                    f"{level} alone; serve on 127.0.0.1, or where sandbox.level strict works (orchestai doctor)"
                )
            with Database.open(config.database, lease_s=config.lease_s) as database:
                async with forgetting(config, database, orchestrator.log_folder):
                    yield cls(orchestrator, database, tracing)

    def _models(self) -> Iterator[ServedModel]:
        planners = {self.config.model: None, **{name: name for name in self.config.checkpoints}}
        for name, planner in planners.items():
            yield ServedModel(name, planner=planner)
            has_estimate = self.orchestrator.planner_named(planner).forecaster is not None
            for profile, contract in self.config.profiles.items():
                if has_estimate or not contract.model_fields_set & _OF_ESTIMATES:
                    yield ServedModel(f"{name}:{profile}", contract, planner)
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

    def workers_out_of_order(self) -> list[tuple[str, bool]]:
        """All workers, and whether each is out of order."""
        out = self.orchestrator.out_of_order
        return [(name, name in out) for name in self.orchestrator.workers]

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place among the runs that are in work or wait.

        Raises:
            ApiError: all are taken.
        """
        most = self.orchestrator.config.execution.concurrency + QUEUE
        if self.in_flight >= most:
            raise busy("queue_full", f"{most} runs are in work or wait; come again", 1.0)
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    async def run(
        self, asked: Asked, caller: Caller, listen: Callable[[Event], None] = lambda event: None
    ) -> RunResult:
        """Answer a request.

        Raises:
            ApiError: there is no such model, or no answer.
            Exception: as `Orchestrator.run` does.
        """
        model = self.model(asked.model)
        offered = self.orchestrator.config.contract
        if model.profile is not None:
            offered = offered.model_copy(update=model.profile.model_dump(exclude_unset=True))
        if model.worker is not None:
            for name in ("prefer", "min_success", "allow"):
                if name in asked.extension.contract.model_fields_set:
                    raise invalid(f"orchestai.contract.{name}", f"{model.name} is one worker; there is no choice")
            offered = offered.model_copy(update={"prefer": None, "min_success": None})
        if strange := set(asked.extension.contract.allow) - set(self.orchestrator.workers):
            raise invalid("orchestai.contract.allow", f"no worker {min(strange)!r}; see worker: in /v1/models")
        contract = contract_of(asked.extension.contract, offered, self.config.deadline_s)
        if not asked.results:
            return await self._begin(asked, caller, model, contract, asked.dialogue, listen)
        parked = await self.parking.take(asked, caller)
        spent: list[float] = []
        try:
            left = contract.less(parked.spent_usd).model_copy(update={"prefer": None, "min_success": None, "allow": ()})
            result = await self._begin(
                asked, caller, model, left, resumed(parked, asked), listen, parked=parked, spent=spent.append
            )
        except BaseException:
            failed = parked.model_copy(update={"spent_usd": parked.spent_usd + sum(spent)})
            await self.parking.put_back(failed, caller)
            raise
        await self.parking.drop(parked, caller)
        return result

    async def _begin(
        self,
        asked: Asked,
        caller: Caller,
        model: ServedModel,
        contract: Contract,
        dialogue: Dialogue,
        listen: Callable[[Event], None],
        *,
        parked: ParkedRun | None = None,
        spent: Callable[[float], None] = lambda usd: None,
    ) -> RunResult:
        """Run what was asked, or the step that was parked.

        Args:
            dialogue: what was said before, and what tools gave since the step was parked.
            spent: is told the US dollars, also of a run that fails.
        """
        labels = asked.labels if self.config.log == "full" else {}
        kept = KeptRun(self._runs, asked.run_id, caller, self.change, labels)
        spans = None if self._tracing is None else self._tracing.begin(asked.run_id, asked.model, asked.trace)

        def hear(event: Event) -> None:
            kept.hear(event)
            if spans is not None:
                spans.hear(event)
            listen(event)

        refusal = ""
        try:
            result = await self.orchestrator.run(
                parked.instruction if parked else asked.instruction,
                contract,
                answer=parked.answer if parked else asked.extension.answer,
                ledger=caller.account,
                planner=None if parked else model.planner,
                worker=None if parked else model.worker,
                workflow=Workflow([parked.step]) if parked else None,
                dialogue=dialogue,
                run_id=asked.run_id,
                listen=hear,
                pieces=asked.stream,
                settled=kept.settled,
            )
        except BaseException as error:
            refusal = str(error) or type(error).__name__
            raise
        finally:
            if kept.receipt is not None:
                spent(kept.receipt.spent_usd)
                self.metrics.run(kept.receipt)
            if spans is not None:
                spans.end(kept.receipt)
            await kept.end(refusal)
        if result.receipt.status == "failed":
            raise _failure(result)
        used = dialogue.tool_use
        demands_call = used is not None and used.choice not in ('"auto"', '"none"')
        if result.execution.tool_calls:
            await self.parking.put(parked_run(result, asked, parked, dialogue), caller)
        elif demands_call and not asked.results:
            raise ApiError(
                502,
                "no_tool_called",
                "tool_choice demands a call, and the step that answers called none; models on servers can call tools",
                headers=NO_RETRY,
                more={"orchestai": summary(result.receipt)},
            )
        return result


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
