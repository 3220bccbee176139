"""OpenTelemetry, if the environment asks for it: sends what this server does to a collector, but never texts.

The variables are those of every OpenTelemetry SDK. OpenTelemetry is not imported unless one of them asks for it.
Specification: opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from memory_server.core.meter import Meter

Exporter = Literal["otlp", "console"]

PROTOCOL = "http/protobuf"
"""The only form in which this server sends: the default of OpenTelemetry."""
MISSING = (
    "OTEL_ variables ask for OpenTelemetry, but %s is not installed, so nothing is sent; "
    "install the extra `otel` (in a clone `pip install '.[otel]'`), or set OTEL_SDK_DISABLED=true."
)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """Where spans and metrics are sent; `complaints` are sentences about what is not possible."""

    traces: tuple[Exporter, ...] = ()
    metrics: tuple[Exporter, ...] = ()
    complaints: tuple[str, ...] = ()


def begin(environment: Mapping[str, str], meter: Meter) -> Callable[[], None]:
    """Send what `meter` counts, if `environment` asks for it; the returned function ends that, within half a second.

    A problem with it never prevents serving: the log reports it in one line.
    """
    wanted = asked(environment)
    for complaint in wanted.complaints:
        log.warning("%s", complaint)
    if wanted.traces or wanted.metrics:
        try:
            from memory_server.telemetry.sending import send

            return send(wanted, meter)
        except ModuleNotFoundError as error:
            log.warning(MISSING, error.name)
        except Exception as error:
            log.warning("OpenTelemetry could not start, so nothing is sent: %s: %s", type(error).__name__, error)
    return lambda: None


def asked(environment: Mapping[str, str]) -> ExporterSettings:
    """What `environment` asks for.

    OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER says where a signal is sent. If it is not set, the signal is sent to
    the endpoint if one is given, and nowhere else: the default of the specification, a collector on this machine, is
    not used.
    """
    given = {name: text for name, value in environment.items() if name.startswith("OTEL_") and (text := value.strip())}
    if given.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ExporterSettings()
    complaints: list[str] = []
    traces, metrics = (_exporters(given, signal, complaints) for signal in ("TRACES", "METRICS"))
    return ExporterSettings(traces, metrics, tuple(complaints))


def _exporters(given: Mapping[str, str], signal: str, complaints: list[str]) -> tuple[Exporter, ...]:
    name, own = f"OTEL_{signal}_EXPORTER", f"OTEL_EXPORTER_OTLP_{signal}"
    has_endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT" in given or f"{own}_ENDPOINT" in given
    source = f"{own}_PROTOCOL" if f"{own}_PROTOCOL" in given else "OTEL_EXPORTER_OTLP_PROTOCOL"
    protocol = given.get(source, PROTOCOL)
    chosen: dict[Exporter, None] = {}
    for text in given.get(name, "otlp" if has_endpoint else "none").split(","):
        match text.strip().lower():
            case "console":
                chosen["console"] = None
            case "otlp" if protocol.lower() == PROTOCOL:
                chosen["otlp"] = None
            case "otlp":
                complaints.append(
                    f"{source}={protocol} is not supported, so no {signal.lower()} are sent; use {PROTOCOL}, port 4318."
                )
            case "none" | "":
                pass
            case _:
                complaints.append(f"{name}={text.strip()} is not supported; use otlp, console or none.")
    return tuple(chosen)
