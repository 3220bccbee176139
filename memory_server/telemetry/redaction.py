"""Spans without texts: of what the MCP SDK puts into its spans, only what cannot be text of a memory is sent.

A client chooses the name of the tool that it calls, its method and its ids; an error quotes what the client sent. To
see what takes how long, this is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status
from opentelemetry.util.types import AttributeValue

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


class RedactingExporter(SpanExporter):
    """Passes spans to `inner` without anything that might be text of a person."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._inner.export([redacted(span) for span in spans])

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._inner.force_flush(timeout_millis)


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
