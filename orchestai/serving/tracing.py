"""Spans of served runs for OpenTelemetry; all names are here. They hold figures and names, and never a text.

A run's span has that of its planning and those of its steps; a step's has those of the calls of workers. Where names of
OpenTelemetry's conventions for generative models fit, they are used; the others begin with `orchestai.`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from orchestai.answering import Event
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.events import AnswerChecked, NodeDone, NodeStarted, PlanReady, WorkerAsked
from orchestai.serving.api.replies.accounting import total_tokens

RUN, PLANNING, STEP, CALL = "orchestai.run", "orchestai.planning", "orchestai.step", "orchestai.call"
RUN_ID, RUN_STATUS, STEPS = "orchestai.run.id", "orchestai.run.status", "orchestai.run.steps"
PLANNER, DEGRADED, CONFIDENCE = "orchestai.planner", "orchestai.degraded", "orchestai.confidence"
RESERVED_USD, COST_USD = "orchestai.reserved_usd", "orchestai.cost_usd"
NODE, WORKER, CHECK_PASSED = "orchestai.node", "orchestai.worker", "orchestai.check.passed"
ASKED_MODEL, INPUT_TOKENS, OUTPUT_TOKENS = (
    "gen_ai.request.model",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
)
SERVICE = "orchestai"


class Tracing:
    """Makes the spans of runs."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def begin(self, run_id: str, model: str, headers: Mapping[str, str]) -> RunSpans:
        """The spans of a run that begins now; `end` must follow.

        Args:
            headers: `traceparent` and `tracestate` of the request that asks for it.
        """
        context = propagate.extract(dict(headers))
        about = {RUN_ID: run_id, ASKED_MODEL: model}
        return RunSpans(self._tracer, self._tracer.start_span(RUN, context, SpanKind.SERVER, about))


class RunSpans:
    """The spans of one run, which is told what happens in it."""

    def __init__(self, tracer: Tracer, run: Span) -> None:
        self._tracer = tracer
        self._run = run
        self._planning = self._below(run, PLANNING)
        self._steps: dict[str, Span] = {}
        self._calls: dict[str, Span] = {}

    def hear(self, event: Event) -> None:
        if isinstance(event, PlanReady):
            self._planning.set_attributes({PLANNER: event.planner, RESERVED_USD: event.reserved_usd})
            if event.confidence is not None:
                self._planning.set_attribute(CONFIDENCE, event.confidence)
            self._planning.end()
        elif isinstance(event, NodeStarted):
            self._steps[event.node] = self._below(self._run, STEP, {NODE: event.node})
        elif isinstance(event, WorkerAsked):
            about = {WORKER: event.worker}
            self._calls[event.node] = self._below(self._steps[event.node], CALL, about, SpanKind.CLIENT)
        elif isinstance(event, AnswerChecked) and event.node in self._calls:
            call = self._calls.pop(event.node)
            attempt = event.attempt
            call.set_attributes(
                {
                    COST_USD: attempt.cost_usd,
                    INPUT_TOKENS: attempt.prompt_tokens,
                    OUTPUT_TOKENS: attempt.completion_tokens,
                }
            )
            if attempt.passed_check is not None:
                call.set_attribute(CHECK_PASSED, attempt.passed_check)
            if attempt.error is not None:
                call.set_status(Status(StatusCode.ERROR))
            call.end()
        elif isinstance(event, NodeDone):
            step = self._steps.pop(event.node)
            if event.result.status != "done":
                step.set_status(Status(StatusCode.ERROR))
            step.end()

    def end(self, receipt: Receipt | None) -> None:
        """End what is open.

        Args:
            receipt: None of a run that was refused before it had one.
        """
        for span in (*self._calls.values(), *self._steps.values()):
            span.set_status(Status(StatusCode.ERROR))
            span.end()
        if self._planning.is_recording():
            self._planning.set_status(Status(StatusCode.ERROR))
            self._planning.end()
        self._run.set_attribute(RUN_STATUS, "refused" if receipt is None else receipt.status)
        if receipt is not None:
            read, written = total_tokens(receipt)
            self._run.set_attributes({COST_USD: receipt.spent_usd, INPUT_TOKENS: read, OUTPUT_TOKENS: written})
            self._run.set_attributes({STEPS: len(receipt.nodes), DEGRADED: bool(receipt.degraded)})
        if receipt is None or receipt.status == "failed":
            self._run.set_status(Status(StatusCode.ERROR))
        self._run.end()

    def _below(
        self, above: Span, name: str, about: Mapping[str, str] | None = None, kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        return self._tracer.start_span(name, set_span_in_context(above), kind, dict(about or {}))


@contextmanager
def exported() -> Iterator[Tracing]:
    """Tracing whose spans are sent where OpenTelemetry's environment variables say, until the block ends."""
    named = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", SERVICE)})
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Tracing(provider.get_tracer(SERVICE))
    finally:
        provider.shutdown()
