"""OpenTelemetry as a whole: a real server process and a collector on this machine."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from stdio_process import Client, command, running

pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http",
    reason="the extra `otel` is not installed: pip install '.[otel]'",
)

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

HELLO = [{"role": "user", "content": "你好，今天吃披萨 🍕"}]
ENDING_SECONDS = 5.0
"""Longest end of a process here, with others on the machine; waiting for a collector would take 10 s."""
posix = pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM")


@contextmanager
def collector() -> Iterator[tuple[str, dict[str, list[bytes]]]]:
    """The address of a collector, and what it was sent, by path."""
    sent: dict[str, list[bytes]] = defaultdict(list)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent[self.path].append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", sent
        finally:
            server.shutdown()
            thread.join()


def used(client: Client) -> None:
    client.connect()
    client.call("add_short_term_memory", messages=HELLO)
    client.call("search_short_term_memories", recentMessages=HELLO)


def end_of(client: Client, how: str = "end of input") -> None:
    """End it, in time, with nothing more on its standard output."""
    began = time.monotonic()
    if how == "SIGTERM":
        client.process.send_signal(signal.SIGTERM)
    else:
        client.stdin.close()
    assert client.rest() == []
    client.ended()
    assert time.monotonic() - began < ENDING_SECONDS
    assert client.process.returncode == 0


def log_of(client: Client) -> list[dict[str, Any]]:
    assert client.process.stderr is not None
    return [json.loads(line) for line in client.process.stderr.read().decode().splitlines()]


@posix
@pytest.mark.parametrize("end", ["end of input", "SIGTERM"])
def test_a_collector_has_everything_when_the_server_has_ended(tmp_path: Path, end: str) -> None:
    with collector() as (address, sent):
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_SERVICE_NAME": "memory of 小明"}
        with running(command(tmp_path), environment) as client:
            used(client)
            end_of(client, end)
            assert log_of(client) == []
    assert set(sent) == {"/v1/traces", "/v1/metrics"}
    traces = [ExportTraceServiceRequest.FromString(body) for body in sent["/v1/traces"]]
    spans = [
        span
        for request in traces
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    ids = {span.name: span.span_id for span in spans}
    parents = {span.name: span.parent_span_id for span in spans}
    assert parents["memory.commit"] == ids["tools/call add_short_term_memory"]
    assert parents["memory.recall"] == ids["tools/call search_short_term_memories"]
    metrics = ExportMetricsServiceRequest.FromString(sent["/v1/metrics"][-1])
    (resource,) = metrics.resource_metrics
    told = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
    assert told["service.name"] == "memory of 小明"
    values = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    (commits,) = values["memory_server.storage.commits"].sum.data_points
    assert commits.as_int == 1
    durations = values["mcp.server.operation.duration"].histogram.data_points
    assert [point.count for point in durations] == [1, 1]
    everything = b"".join(body for bodies in sent.values() for body in bodies)
    assert "披萨".encode() not in everything


@posix
@pytest.mark.parametrize("end", ["end of input", "SIGTERM"])
def test_a_collector_that_never_answers_does_not_keep_the_server(tmp_path: Path, end: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        with running(command(tmp_path), environment) as client:
            used(client)
            end_of(client, end)
            assert log_of(client) == []


@posix
def test_where_nobody_asks_nothing_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys, os, atexit; os._exit = lambda status: print([name for name in sys.modules if name.startswith("
        "('opentelemetry.sdk', 'opentelemetry.exporter', 'requests', 'memory_server.telemetry.s'))], file=sys.stderr); "
        f"sys.argv[1:] = ['--data-dir', {str(tmp_path)!r}]; from memory_server.cli.parser import main; main()"
    )
    with running([sys.executable, "-c", code], {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}) as client:
        used(client)
        end_of(client)
        assert client.process.stderr is not None
        assert client.process.stderr.read() == b"[]\n"
