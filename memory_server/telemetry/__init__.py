"""OpenTelemetry, where the environment asks for it: what this server does, sent to a collector. Never what was said.

The variables are those of every OpenTelemetry SDK. Nothing of OpenTelemetry is imported before one of them asks.
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
"""The only form in which this server sends: what OpenTelemetry has as the default."""
MISSING = (
    "OTEL_ variables ask for OpenTelemetry, but %s is not installed, so nothing is sent; "
    "run `pip install 'memory-server[otel]'`, or set OTEL_SDK_DISABLED=true."
)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """Where spans and metrics go; `complaints` are sentences about what cannot be done."""

    traces: tuple[Exporter, ...] = ()
    metrics: tuple[Exporter, ...] = ()
    complaints: tuple[str, ...] = ()


def begin(environment: Mapping[str, str], meter: Meter) -> Callable[[], None]:
    """Send what `meter` sees, where `environment` asks for it; what comes back ends that, within half a second.

    Nothing that is wrong with it keeps a server from serving: the log says it in one line.
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


def asked(environment: Mapping[str, str]) -> Asked:
    """What `environment` asks for.

    A signal goes where OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER says. Where that is not set, it goes to the
    endpoint if one is given, and nowhere else: a collector on this machine, the specification's default, is not
    assumed.
    """
    given = {name: text for name, value in environment.items() if name.startswith("OTEL_") and (text := value.strip())}
    if given.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return Asked()
    complaints: list[str] = []
    traces, metrics = (_exporters(given, signal, complaints) for signal in ("TRACES", "METRICS"))
    return Asked(traces, metrics, tuple(complaints))


def _exporters(given: Mapping[str, str], signal: str, complaints: list[str]) -> tuple[Exporter, ...]:
    name, own = f"OTEL_{signal}_EXPORTER", f"OTEL_EXPORTER_OTLP_{signal}"
    has_endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT" in given or f"{own}_ENDPOINT" in given
    chosen: dict[Exporter, None] = {}
    for text in given.get(name, "otlp" if has_endpoint else "none").split(","):
        match text.strip().lower():
            case "otlp":
                source = f"{own}_PROTOCOL" if f"{own}_PROTOCOL" in given else "OTEL_EXPORTER_OTLP_PROTOCOL"
                protocol = given.get(source, PROTOCOL)
                if protocol.lower() == PROTOCOL:
                    chosen["otlp"] = None
                else:
                    complaints.append(
                        f"{source}={protocol} is not supported, so no {signal.lower()} are sent; "
                        f"use {PROTOCOL}, port 4318."
                    )
            case "console":
                chosen["console"] = None
            case "none" | "":
                pass
            case _:
                complaints.append(f"{name}={text.strip()} is not supported; use otlp, console or none.")
    return tuple(chosen)
