"""Sending spans and metrics to a collector, and ending that. This module only reads what a `Meter` counted.

Spans go without texts: of what the MCP SDK puts into its spans, only what cannot be text of a memory is sent. A client
chooses the name of the tool that it calls, its method and its ids; an error quotes what the client sent.

Names: the duration of calls as in the conventions for MCP (open-telemetry/semantic-conventions-genai,
docs/gen-ai/mcp.md), the others begin with `memory_server.`. It imports the SDK of OpenTelemetry, so it is imported only
if the environment asks for it.
"""

from __future__ import annotations

import logging
import math
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Thread

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.metrics import Meter as OtelMeter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

from memory_server.core.meter import BOUNDS_MS, Meter
from memory_server.version import __version__

SCOPE = "memory-server"
DURATION = "mcp.server.operation.duration"
VERDICTS = "memory_server.triggers.verdicts"
COUNTERS = (
    *(("storage", name) for name in ("commits", "compactions", "lock_waits", "lock_timeouts")),
    *(("triggers", "searches"), ("workers", "started"), ("workers", "replaced")),
)
LEVELS = (("storage", "open_conversations"), ("workers", "running"))
"""Figures that also fall."""
OTHER = "_OTHER"
"""The value of the OpenTelemetry conventions for an unknown name."""
NAMES = ("gen_ai.tool.name", "gen_ai.prompt.name")
PLAIN = (
    "mcp.method.name",
    "mcp.protocol.version",
    "jsonrpc.request.id",
    "gen_ai.operation.name",
    "error.type",
    "rpc.response.status_code",
)
_PLAIN = re.compile(r"[A-Za-z0-9_./-]{1,64}")
END_SECONDS = 0.3
"""Seconds that the process waits for a collector at its end: part of the one second after SIGTERM. A collector needs
some milliseconds; if it does not answer, the last figures are lost."""


def send(wanted: Sequence[str], meter: Meter) -> Callable[[], None]:
    """Begin to send the signals `wanted` (`traces`, `metrics`); the returned function sends the rest and ends within
    `END_SECONDS`."""
    outside = trace.get_tracer_provider(), metrics.get_meter_provider()
    if isinstance(outside[0], TracerProvider) or isinstance(outside[1], MeterProvider):
        # Other code has set it up, and ends it.
        meter.watcher = Instruments(trace.get_tracer(SCOPE, __version__), metrics.get_meter(SCOPE, __version__), meter)
        return lambda: None
    # Each process counts separately, so each has its own id. Values of the environment win over ours.
    ours = {"service.name": SCOPE, "service.version": __version__, "service.instance.id": str(uuid.uuid4())}
    resource = Resource.create(ours).merge(OTELResourceDetector().detect())
    tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
    if "traces" in wanted:
        tracing.add_span_processor(BatchSpanProcessor(RedactingExporter(OTLPSpanExporter())))
        # The MCP SDK makes its spans with the global provider.
        trace.set_tracer_provider(tracing)
    readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if "metrics" in wanted else []
    measuring = MeterProvider(readers, resource, shutdown_on_exit=False)
    for name in ("trace", "metric"):
        # The log of a healthy server is otherwise empty, so it reports a missing collector only now and then.
        logging.getLogger(f"opentelemetry.exporter.otlp.proto.http.{name}_exporter").addFilter(seldom())
    meter.watcher = Instruments(trace.get_tracer(SCOPE, __version__), measuring.get_meter(SCOPE, __version__), meter)

    def end() -> None:
        # What is not sent in time is lost, and the log does not need to report that.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        # Daemon threads: a collector that accepts the connection and never answers would block them.
        parts = [Thread(target=part, daemon=True) for part in (tracing.shutdown, measuring.shutdown)]
        for part in parts:
            part.start()
        deadline = time.monotonic() + END_SECONDS
        for part in parts:
            part.join(max(0.0, deadline - time.monotonic()))

    return end


class RedactingExporter(SpanExporter):
    """Passes spans to `inner` without anything that might be text of a person."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._inner.export([redacted(span) for span in spans])

    def shutdown(self) -> None:
        self._inner.shutdown()


def redacted(span: ReadableSpan) -> ReadableSpan:
    """`span` with only known names and numbers, without the texts of its errors and events."""
    attributes = {
        name: kept for name, value in (span.attributes or {}).items() if (kept := _kept(name, value)) is not None
    }
    method = attributes.get("mcp.method.name")
    target = next((attributes[name] for name in NAMES if name in attributes), None)
    said = span.name if method is None else f"{method} {target}" if target else f"{method}"
    return ReadableSpan(
        said if all(map(_PLAIN.fullmatch, said.split(" "))) else OTHER,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _kept(name: str, value: AttributeValue) -> AttributeValue | None:
    if name in NAMES:
        return value if value in _known() else OTHER
    if name in PLAIN:
        return value if _PLAIN.fullmatch(str(value)) else OTHER
    return value if name.startswith("memory_server.") and isinstance(value, int) else None


@cache
def _known() -> frozenset[str]:
    from memory_server.serving.prompts import PROMPTS
    from memory_server.tools import TOOLS

    return frozenset((*TOOLS, *PROMPTS))


class Instruments:
    def __init__(self, tracer: Tracer, otel: OtelMeter, meter: Meter) -> None:
        self._tracer = tracer
        bounds = [bound / 1000 for bound in BOUNDS_MS]
        self._durations = otel.create_histogram(DURATION, "s", explicit_bucket_boundaries_advisory=bounds)
        for family, name in (*COUNTERS, *LEVELS):
            level = (family, name) in LEVELS
            create = otel.create_observable_up_down_counter if level else otel.create_observable_counter
            create(f"memory_server.{family}.{name}", [_look(meter, family, name)])

        def verdicts(_: CallbackOptions) -> Iterable[Observation]:
            counted = meter.family("triggers").items()
            return [
                Observation(number, {"memory_server.verdict": kind}) for kind, number in counted if kind != "searches"
            ]

        otel.create_observable_counter(VERDICTS, [verdicts])

    def called(self, name: str, seconds: float, *, failed: bool) -> None:
        attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": name}
        self._durations.record(seconds, attributes | ({"error.type": "tool_error"} if failed else {}))

    @contextmanager
    def part(self, name: str, **numbers: int) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            f"memory.{name}",
            attributes={f"memory_server.{key}": number for key, number in numbers.items()},
            # An error message may quote what somebody wrote.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException:
                span.set_status(StatusCode.ERROR)
                raise


def _look(meter: Meter, family: str, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: [Observation(meter.number(family, name))]


def seldom(seconds: float = 300.0, now: Callable[[], float] = time.monotonic) -> Callable[[logging.LogRecord], bool]:
    """A filter that lets the same log message pass once in `seconds`: an exporter logs each failed attempt."""
    passed: dict[str, float] = {}

    def passes(record: logging.LogRecord) -> bool:
        # Compare the sentence without its values, such as the seconds until the next attempt.
        sentence, moment = str(record.msg), now()
        is_new = moment - passed.get(sentence, -math.inf) >= seconds
        if is_new:
            passed[sentence] = moment
        return is_new

    return passes
