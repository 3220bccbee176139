"""The figures of a `Meter` as OpenTelemetry has them: what was counted once is only looked at here.

Names: the duration of calls as in the conventions for MCP (open-telemetry/semantic-conventions-genai,
docs/gen-ai/mcp.md), the others begin with `memory_server.`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.metrics import Meter as OtelMeter
from opentelemetry.trace import StatusCode, Tracer

from memory_server.core.meter import BOUNDS_MS, Meter

SCOPE = "memory-server"
DURATION = "mcp.server.operation.duration"

COUNTERS = (
    ("storage", "commits", "{commit}", "Changes that were made durable"),
    ("storage", "compactions", "{compaction}", "Conversations whose JSON files were brought up to date"),
    ("storage", "lock_waits", "{wait}", "Writers that had to wait for another process"),
    ("storage", "lock_timeouts", "{wait}", "Writers that waited in vain"),
    ("triggers", "searches", "{search}", "Searches of long-term memories"),
    ("workers", "started", "{process}", "Processes for triggers that were started"),
    ("workers", "replaced", "{process}", "Processes for triggers that died or were killed"),
)
LEVELS = (
    ("storage", "open_conversations", "{conversation}", "Conversations in memory"),
    ("workers", "running", "{process}", "Processes for triggers"),
)
VERDICTS = "memory_server.triggers.verdicts"


class Instruments:
    """A `Watcher` of `meter`. `measured`: whether the metrics of `otel` go anywhere."""

    def __init__(self, tracer: Tracer, otel: OtelMeter, meter: Meter, *, measured: bool = True) -> None:
        self._tracer = tracer
        self._measured = measured
        self._durations = otel.create_histogram(
            DURATION,
            "s",
            "Calls of tools",
            explicit_bucket_boundaries_advisory=[bound / 1000 for bound in BOUNDS_MS],
        )
        for family, name, unit, description in COUNTERS:
            otel.create_observable_counter(_name(family, name), [_look(meter, family, name)], unit, description)
        for family, name, unit, description in LEVELS:
            otel.create_observable_up_down_counter(_name(family, name), [_look(meter, family, name)], unit, description)

        def verdicts(_: CallbackOptions) -> Iterable[Observation]:
            counted = {name: number for name, number in meter.family("triggers").items() if name != "searches"}
            return [Observation(number, {"memory_server.verdict": kind}) for kind, number in counted.items()]

        otel.create_observable_counter(VERDICTS, [verdicts], "{verdict}", "What triggers came to")

    def called(self, name: str, seconds: float, *, failed: bool) -> None:
        if self._measured:
            attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": name}
            self._durations.record(seconds, attributes | ({"error.type": "tool_error"} if failed else {}))

    @contextmanager
    def part(self, name: str, **numbers: int) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            f"memory.{name}",
            attributes={f"memory_server.{key}": number for key, number in numbers.items()},
            # What an error says may be what somebody wrote.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException:
                span.set_status(StatusCode.ERROR)
                raise


def _name(family: str, name: str) -> str:
    return f"memory_server.{family}.{name}"


def _look(meter: Meter, family: str, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: [Observation(meter.number(family, name))]
