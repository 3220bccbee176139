"""What the OTEL_ variables ask for. Pure: the environment is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Exporter = Literal["otlp", "console"]
Signal = Literal["TRACES", "METRICS"]

PROTOCOL = "http/protobuf"
"""The only form in which this server sends: what OpenTelemetry has as the default."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Where spans and metrics go; `complaints` are sentences about what cannot be done."""

    traces: tuple[Exporter, ...] = ()
    metrics: tuple[Exporter, ...] = ()
    complaints: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        return bool(self.traces or self.metrics)


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
    traces = _exporters(given, "TRACES", complaints)
    metrics = _exporters(given, "METRICS", complaints)
    return Asked(traces, metrics, tuple(complaints))


def _exporters(given: Mapping[str, str], signal: Signal, complaints: list[str]) -> tuple[Exporter, ...]:
    name = f"OTEL_{signal}_EXPORTER"
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    usual = "otlp" if any(endpoint in given for endpoint in endpoints) else "none"
    chosen: list[Exporter] = []
    for text in given.get(name, usual).split(","):
        match text.strip().lower():
            case "otlp":
                if (complaint := _other_protocol(given, signal)) is None:
                    chosen.append("otlp")
                else:
                    complaints.append(complaint)
            case "console":
                chosen.append("console")
            case "none" | "":
                pass
            case _:
                complaints.append(f"{name}={text.strip()} is not known here; use otlp, console or none.")
    return tuple(dict.fromkeys(chosen))


def _other_protocol(given: Mapping[str, str], signal: Signal) -> str | None:
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if name in given:
            if given[name].lower() == PROTOCOL:
                return None
            return (
                f"{name}={given[name]} is not known here, so no {signal.lower()} are sent; use {PROTOCOL}, port 4318."
            )
    return None
