"""What Prometheus reads at `/metrics`; all names are here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from orchestai.execution.contract.receipt import Receipt
from orchestai.serving.api.replies.accounting import workers_usage
from orchestai.workers.base import Usage

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
