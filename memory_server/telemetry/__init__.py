"""OpenTelemetry, if the environment asks for it: sends what this server does to a collector, but never texts.

The variables are those of every OpenTelemetry SDK. OpenTelemetry is not imported unless one of them asks for it.
Specification: opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_server.core.meter import Meter

PROTOCOL = "http/protobuf"
"""The only form in which this server sends: the default of OpenTelemetry."""
MISSING = (
    "OTEL_ variables ask for OpenTelemetry, but %s is not installed, so nothing is sent; "
    "install the extra `otel` (in a clone `pip install '.[otel]'`), or set OTEL_SDK_DISABLED=true."
)
log = logging.getLogger(__name__)


def begin(environment: Mapping[str, str], meter: Meter) -> Callable[[], None]:
    """Send what `meter` counts, if `environment` asks for it; the returned function ends that, within half a second.

    A problem with it never prevents serving: the log reports it in one line.
    """
    wanted, complaints = asked(environment)
    for complaint in complaints:
        log.warning("%s", complaint)
    if wanted:
        try:
            from memory_server.telemetry.sending import send

            return send(wanted, meter)
        except ModuleNotFoundError as error:
            log.warning(MISSING, error.name)
        except Exception as error:
            log.warning("OpenTelemetry could not start, so nothing is sent: %s: %s", type(error).__name__, error)
    return lambda: None


def asked(environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The signals that `environment` asks for, `traces` and `metrics`, and sentences about what is not possible.

    OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER says whether a signal is sent. If it is not set, the signal is sent
    if an endpoint is given: the default of the specification, a collector on this machine, is not used.
    """
    given = {name: text for name, value in environment.items() if name.startswith("OTEL_") and (text := value.strip())}
    wanted: list[str] = []
    complaints: list[str] = []
    for signal in () if given.get("OTEL_SDK_DISABLED", "").lower() == "true" else ("traces", "metrics"):
        name, own = f"OTEL_{signal.upper()}_EXPORTER", f"OTEL_EXPORTER_OTLP_{signal.upper()}"
        has_endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT" in given or f"{own}_ENDPOINT" in given
        chosen = given.get(name, "otlp" if has_endpoint else "none").lower()
        source = f"{own}_PROTOCOL" if f"{own}_PROTOCOL" in given else "OTEL_EXPORTER_OTLP_PROTOCOL"
        protocol = given.get(source, PROTOCOL)
        if chosen not in ("otlp", "none"):
            complaints.append(f"{name}={given[name]} is not supported; use otlp or none.")
        elif chosen == "otlp" and protocol.lower() != PROTOCOL:
            complaints.append(
                f"{source}={protocol} is not supported, so no {signal} are sent; use {PROTOCOL}, port 4318."
            )
        elif chosen == "otlp":
            wanted.append(signal)
    return wanted, complaints
