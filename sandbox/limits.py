"""Every bound of the sandbox, each with its unit and its source."""

from __future__ import annotations

from languages import _
from sandbox.values import frozen

MOST_NAME_CHARS = 200
"""Characters of the name of a participant that count: a name is part of each message of its speaker and replaces each
macro of a text, so a longer name would be multiplied. As many as the name of a memory may have."""


@frozen
class SandboxLimits:
    """What one search, one trigger and one worker process may use. Sources: docs/explanation/sandbox-security.md."""

    trigger_seconds: float = 1.0
    """Wall seconds for one trigger (docs/reference/trigger-api.md). Interrupted within some 10 ms of it."""
    sprint_seconds: float = 0.05
    """Wall seconds for each trigger in the first round of a search: 25 times what a slow honest trigger takes. Triggers
    that need more run after all others. It is at most a thirtieth of the time that is left (search.py)."""
    after_timeout_seconds: float = 0.1
    """Wall seconds that each trigger of the second round has for itself, even when others take long. After a trigger
    has timed out, the others get no more than this: 50 times what a slow honest trigger takes."""
    search_seconds: float = 2.0
    """Wall seconds for all triggers of a search. Triggers that have not run by then are reported as not evaluated."""
    heap_mb: int = 32
    """MiB of V8 heap, checked after each garbage collection. V8 itself stops at twice that."""
    data_mb: int = 192
    """MiB of private memory of the worker process (RLIMIT_DATA): bounds the memory outside the V8 heap. The worker
    starts at about 45 MiB; below 64 MiB it does not start."""
    max_source_chars: int = 100_000
    """Characters of a trigger. A thousand times the mean length of people's triggers."""
    max_triggers: int = 10_000
    """Triggers of a search; 3,000 take about 0.11 s. Triggers beyond this number are reported as not evaluated."""
    max_context_chars: int = 2_000_000
    """Characters of the context as ASCII JSON (a Chinese character takes six): about 9 MB of the V8 heap."""
    max_waiting: int = 1_000
    """Searches that may wait for a free worker; one more is refused with SandboxBusy."""
    start_seconds: float = 20.0
    """Wall seconds for a worker process to say that it is ready: usually 0.13 s, far more on a machine that swaps."""

    def __post_init__(self) -> None:
        """Check the limits. Raises ValueError if one of them is too small."""
        for name in (
            "trigger_seconds",
            "sprint_seconds",
            "after_timeout_seconds",
            "search_seconds",
            "start_seconds",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(
                    _(
                        "{name} must be more than 0 seconds, not {given!r}",
                        name,
                        getattr(self, name),
                    )
                )

        counts = dict.fromkeys(
            ("max_source_chars", "max_triggers", "max_context_chars", "max_waiting"), (1, "")
        )
        for name, (least, unit) in {
            "heap_mb": (8, " MiB"),
            "data_mb": (64, " MiB"),
            **counts,
        }.items():
            if getattr(self, name) < least:
                raise ValueError(
                    _(
                        "{name} must be at least {least}{unit}, not {given!r}",
                        name,
                        least,
                        unit,
                        getattr(self, name),
                    )
                )
