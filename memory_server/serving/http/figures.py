"""`GET /metrics`: every figure of this process (kernel/meter.py) for Prometheus, summed over all tenants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import accumulate
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from memory_server.kernel.meter import BOUNDS_MS, Meter
from memory_server.kernel.values import dataclass


@dataclass(eq=False)  # a registry keeps it in a set
class _Collector:
    meter: Meter

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        times = HistogramMetricFamily(
            "memory_server_call_seconds", "Time of calls", labels=["tool"]
        )
        errors = CounterMetricFamily(
            "memory_server_call_errors", "Calls that were refused or failed", labels=["tool"]
        )
        # Prometheus wants counts that include all smaller times.
        bounds = [*(str(bound / 1000) for bound in BOUNDS_MS), "+Inf"]
        for name, calls in self.meter.calls.items():
            times.add_metric(
                [name],
                list(zip(bounds, accumulate(calls.counts), strict=True)),
                calls.sum_ms / 1000,
            )
            errors.add_metric([name], calls.errors)

        yield times
        yield errors
        for family, numbers in self.meter.figures().items():
            gauge = GaugeMetricFamily(
                f"memory_server_{family}", f"Counters of {family}", labels=["name"]
            )
            for name, number in numbers.items():
                gauge.add_metric([name], number)
            yield gauge


def endpoint(meter: Meter) -> Callable[[Request], Awaitable[Response]]:
    """Return the route's function."""

    async def answer(request: Request) -> Response:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(_Collector(meter))
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

    return answer
