"""What OpenTelemetry is told of this server: its spans and figures, and no word of a memory. In this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed: pip install '.[otel]'")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memory_server import open_memory
from memory_server.app import App
from memory_server.config import Settings
from memory_server.core.meter import Meter
from memory_server.serving.server import build_server
from memory_server.telemetry.sending import DURATION, VERDICTS, Instruments, RedactingExporter
from memory_server.tools import TOOLS

SECRET = "秘密披萨SECRET"
SAID = [{"role": "user", "content": f"我最喜欢{SECRET}"}]
pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Seen:
    """What was exported."""

    spans: InMemorySpanExporter
    reader: InMemoryMetricReader
    tracing: TracerProvider
    measuring: MeterProvider

    def watch(self, meter: Meter) -> None:
        meter.watcher = Instruments(self.tracing.get_tracer("here"), self.measuring.get_meter("here"), meter)

    def named(self, name: str) -> Sequence[ReadableSpan]:
        return [span for span in self.spans.get_finished_spans() if span.name == name]

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def everything(self) -> str:
        data = self.reader.get_metrics_data()
        assert data is not None
        return data.to_json() + "".join(span.to_json() for span in self.spans.get_finished_spans())


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracing, measuring = TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False)
    tracing.add_span_processor(SimpleSpanProcessor(RedactingExporter(spans)))
    # The SDK of MCP has its tracer from the global provider, which can be set once in a process.
    monkeypatch.setattr("mcp.shared._otel._tracer", tracing.get_tracer("mcp-python-sdk"))
    yield Seen(spans, reader, tracing, measuring)
    tracing.shutdown()
    measuring.shutdown()


def connected(app: App) -> Client:
    return Client(build_server(lambda _: app.context, lambda: TOOLS))


async def test_a_call_is_a_span_with_its_parts_below_it(tmp_path: Path, seen: Seen) -> None:
    async with open_memory(tmp_path) as app:
        seen.watch(app.meter)
        async with connected(app) as client:
            kept = {"name": "a", "prompt": "p", "trigger": "true"}
            await client.call_tool("add_short_term_memory", {"messages": SAID})
            await client.call_tool("search_short_term_memories", {"recentMessages": SAID})
            await client.call_tool("add_long_term_memory", kept)
            await client.call_tool("search_long_term_memories", {"messages": SAID})
    parents = {span.context.span_id: span.name for span in seen.spans.get_finished_spans() if span.context is not None}
    below = [
        (parents[span.parent.span_id], span.name, dict(span.attributes or {}))
        for span in seen.spans.get_finished_spans()
        if span.parent is not None and span.name.startswith("memory.")
    ]
    assert below == [
        ("tools/call add_short_term_memory", "memory.commit", {"memory_server.changes": 1}),
        ("tools/call search_short_term_memories", "memory.recall", {"memory_server.memories": 1}),
        ("tools/call add_long_term_memory", "memory.commit", {"memory_server.changes": 1}),
        ("tools/call search_long_term_memories", "memory.triggers", {"memory_server.triggers": 1}),
    ]


async def test_the_figures_are_those_of_get_metrics(tmp_path: Path, seen: Seen) -> None:
    settings = Settings(triggers={"trigger_seconds": 0.2})  # type: ignore[arg-type]
    async with open_memory(tmp_path, settings=settings) as app:
        seen.watch(app.meter)
        async with connected(app) as client:
            for name, trigger in (("fires", "true"), ("quiet", "false"), ("quiet 2", "1 > 2")):
                kept = {"name": name, "prompt": "p", "trigger": trigger}
                await client.call_tool("add_long_term_memory", kept)
            await client.call_tool("search_long_term_memories", {"messages": SAID})
            await client.call_tool("add_short_term_memory", {"message": SAID})
            told = (await client.call_tool("get_metrics", {})).structured_content
            assert told is not None
            calls = {
                (point.attributes["gen_ai.tool.name"], point.attributes.get("error.type")): point.count
                for point in seen.points(DURATION)
                if point.attributes["gen_ai.tool.name"] != "get_metrics"
            }
            assert calls == {
                ("add_long_term_memory", None): 3,
                ("search_long_term_memories", None): 1,
                ("add_short_term_memory", "tool_error"): 1,
            }
            kinds = {point.attributes["memory_server.verdict"]: point.value for point in seen.points(VERDICTS)}
            assert kinds == {"fired": 1, "quiet": 2}
            for family, figures in told["counters"].items():
                for name, number in figures.items():
                    if family != "triggers" or name == "searches":
                        (point,) = seen.points(f"memory_server.{family}.{name}")
                        assert point.value == number, (family, name)


async def test_no_word_of_anybody_is_in_a_span_or_a_figure(tmp_path: Path, seen: Seen) -> None:
    async with open_memory(tmp_path) as app:
        seen.watch(app.meter)
        async with connected(app) as client:
            conversation = {"conversation_id": SECRET}
            trigger = f"match_keys(context.messages, ['{SECRET}']) > 0 && context.{SECRET}.nothing"
            for name, arguments in (
                ("add_short_term_memory", {"messages": SAID}),
                ("add_short_term_memory", {"messages": SAID, SECRET: SECRET}),
                ("search_short_term_memories", {"recentMessages": SAID}),
                ("add_long_term_memory", {"name": SECRET, "prompt": SECRET, "trigger": trigger}),
                ("search_long_term_memories", {"messages": SAID}),
                ("get_memory_context", {"name": f"no {SECRET}"}),
                (SECRET, {"name": SECRET}),
                ("delete_short_term_memories", {"pattern": SECRET}),
            ):
                await client.call_tool(name, arguments | conversation if name in TOOLS else arguments)
            for ask in (
                lambda: client.get_prompt(SECRET, {}),
                lambda: client.get_prompt("recall-context", {"topic": SECRET, SECRET: SECRET}),
                lambda: client.read_resource(f"memory://conversation/{SECRET}/nothing"),
            ):
                with suppress(MCPError):  # some clients' mistakes are errors of the protocol
                    await ask()
    everything = seen.everything()
    for text in (SECRET, "秘密", "披萨", "\\u79d8", "SECRET"):
        assert text not in everything
    assert seen.named("tools/call _OTHER")
    assert seen.named("prompts/get _OTHER")
    assert [span for span in seen.spans.get_finished_spans() if not span.status.is_ok]


async def test_a_part_that_fails_says_so_without_its_words(seen: Seen) -> None:
    # Also to the exporters of whoever instruments the process, which get spans as they are.
    spans = InMemorySpanExporter()
    seen.tracing.add_span_processor(SimpleSpanProcessor(spans))
    meter = Meter()
    seen.watch(meter)
    with pytest.raises(ValueError, match=SECRET), meter.part("commit", changes=2):
        raise ValueError(SECRET)
    (span,) = spans.get_finished_spans()
    assert (span.status.is_ok, span.status.description, list(span.events)) == (False, None, [])


async def test_only_what_is_on_the_list_leaves(seen: Seen) -> None:
    tracer = seen.tracing.get_tracer("somebody")
    attributes = {"mcp.method.name": SECRET, "jsonrpc.request.id": SECRET, "said": SECRET, "memory_server.said": SECRET}
    with tracer.start_as_current_span(SECRET, attributes=attributes | {"memory_server.changes": 1}) as span:
        span.add_event(SECRET, {"said": SECRET})
        span.record_exception(ValueError(SECRET))
        span.add_link(span.get_span_context(), {"said": SECRET})
    with tracer.start_as_current_span(SECRET):
        pass
    first, second = seen.spans.get_finished_spans()
    kept = {"mcp.method.name": "_OTHER", "jsonrpc.request.id": "_OTHER", "memory_server.changes": 1}
    assert (first.name, dict(first.attributes or {}), [*first.events, *first.links]) == ("_OTHER", kept, [])
    assert second.name == "_OTHER"
