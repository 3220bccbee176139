"""What the OTEL_ variables ask for, and what is said where it cannot be done."""

from __future__ import annotations

import logging
import sys

import pytest

from memory_server.core.meter import Meter
from memory_server.telemetry import asked, begin

HERE = "http://127.0.0.1:4318"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, []),
        ({"OTEL_SERVICE_NAME": "memory"}, []),
        ({"OTEL_TRACES_EXPORTER": " "}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": HERE}, ["traces", "metrics"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": HERE}, ["traces"]),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": HERE}, ["metrics"]),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ["traces"]),
        ({"OTEL_METRICS_EXPORTER": "OTLP"}, ["metrics"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": HERE, "OTEL_METRICS_EXPORTER": "none"}, ["traces"]),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            ["traces", "metrics"],
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": HERE, "OTEL_SDK_DISABLED": "True"}, []),
    ],
)
def test_a_signal_goes_where_somebody_said(environment: dict[str, str], wanted: list[str]) -> None:
    assert asked(environment) == (wanted, [])


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER=zipkin is not supported; use otlp or none.",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported, so no traces are sent; use http/protobuf, port 4318.",
        ),
        (
            {
                "OTEL_METRICS_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            },
            (
                "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/json is not supported, so no metrics are sent; "
                "use http/protobuf, port 4318."
            ),
        ),
    ],
)
def test_what_cannot_be_done_is_one_line_in_the_log(
    environment: dict[str, str], sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert asked(environment) == ([], [sentence])
    begin(environment, Meter())()
    assert caplog.messages == [sentence]


@pytest.mark.parametrize("missing", ["opentelemetry.sdk.metrics", "opentelemetry.sdk"])
def test_without_the_extra_the_log_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "memory_server.telemetry.s"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    meter = Meter()
    begin({"OTEL_EXPORTER_OTLP_ENDPOINT": HERE}, meter)()
    (said,) = caplog.messages
    assert "install the extra `otel` (in a clone `pip install '.[otel]'`)" in said
    assert meter.watcher is None


def test_the_same_complaint_passes_once_in_a_while() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed")
    from memory_server.telemetry.sending import seldom

    moments = iter([0.0, 1.0, 2.0, 60.0, 61.0])
    passes = seldom(60.0, lambda: next(moments))
    complaints = [("away, again in %s s", 1), ("away, again in %s s", 2), ("refused", 0), ("away, again in %s s", 4)]
    passed = [
        passes(logging.LogRecord("name", logging.WARNING, "", 0, sentence, (number,), None))
        for sentence, number in [*complaints, ("away, again in %s s", 8)]
    ]
    assert passed == [True, False, True, True, False]


def test_what_else_is_wrong_keeps_nobody_from_serving(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "-1")
    begin({"OTEL_METRICS_EXPORTER": "otlp"}, Meter())()
    (said,) = caplog.messages
    assert said.startswith("OpenTelemetry could not start, so nothing is sent: ValueError: ")
