"""OpenTelemetry, where the environment asks for it: what this server does, sent to a collector. Never what was said.

The variables are those of every OpenTelemetry SDK. Nothing of OpenTelemetry is imported before one of them asks.
Specification: opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from memory_server.telemetry.asked import Asked, asked

if TYPE_CHECKING:
    from memory_server.core.meter import Meter

__all__ = ["Asked", "asked", "begin"]

log = logging.getLogger(__name__)

MISSING = (
    "OTEL_ variables ask for OpenTelemetry, but %s is not installed; `pip install 'memory-server[otel]'`, "
    "or set OTEL_SDK_DISABLED=true. Nothing is sent."
)


def begin(environment: Mapping[str, str], meter: Meter) -> Callable[[], None]:
    """Send what `meter` sees, where `environment` asks for it; what comes back ends that, within half a second.

    Nothing that is wrong with it keeps a server from serving: it is told in the log, in one line.
    """
    wanted = asked(environment)
    for complaint in wanted.complaints:
        log.warning("%s", complaint)
    if not wanted.anything:
        return _nothing
    try:
        from memory_server.telemetry.sending import send

        return send(wanted, meter)
    except ModuleNotFoundError as error:
        log.warning(MISSING, error.name)
    except Exception as error:
        log.warning("OpenTelemetry could not begin, so nothing is sent: %s: %s", type(error).__name__, error)
    return _nothing


def _nothing() -> None:
    """There is nothing to end."""
