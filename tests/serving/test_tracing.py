"""Spans as OpenTelemetry's own exporter gets them: of a run that a client's trace caused, and without any text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.sdk", reason="spans need the extra otel")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from orchestai.serving import tracing as names
from support.serving.served import Served, functions, serving, settings

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def served(exporter: InMemorySpanExporter) -> Iterator[Served]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    config = settings({"pool": functions("good", "failing", "hanging")}, ("failing", "good"))
    with serving(config, tracing=names.Tracing(provider.get_tracer("test"))) as started:
        yield started


def by_name(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    spans: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        spans.setdefault(span.name, []).append(span)
    exporter.clear()
    return spans


def test_a_run_is_a_tree_of_spans_below_its_clients(served: Served, exporter: InMemorySpanExporter) -> None:
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    body = {"model": "orchestai", "messages": [{"role": "user", "content": "A secret."}]}
    run_id = served.client.post("/v1/chat/completions", json=body, headers=headers).json()["id"]
    spans = by_name(exporter)
    assert {name: len(some) for name, some in spans.items()} == {
        names.RUN: 1,
        names.PLANNING: 1,
        names.STEP: 1,
        names.CALL: 2,
    }
    ((run,), (planning,), (step,), calls) = (
        spans[name] for name in (names.RUN, names.PLANNING, names.STEP, names.CALL)
    )
    assert {format(span.context.trace_id, "032x") for some in spans.values() for span in some} == {TRACE}
    assert format(run.parent.span_id, "016x") == SPAN
    assert planning.parent.span_id == step.parent.span_id == run.context.span_id
    assert {call.parent.span_id for call in calls} == {step.context.span_id}
    assert run.kind is SpanKind.SERVER
    assert run.attributes[names.RUN_ID] == run_id
    assert run.attributes[names.RUN_STATUS] == "complete"
    assert run.attributes[names.OUTPUT_TOKENS] == 3
    assert run.attributes[names.COST_USD] == pytest.approx(sum(call.attributes[names.COST_USD] for call in calls))
    assert [call.attributes[names.WORKER] for call in calls] == ["failing", "good"]
    assert [call.status.status_code for call in calls] == [StatusCode.ERROR, StatusCode.UNSET]
    assert "secret" not in "".join(span.to_json() for some in spans.values() for span in some)
