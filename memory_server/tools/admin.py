"""The toolset `admin`: the state of this server, for people who run one. A model does not need it to remember."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from languages import _, counted
from memory_server.kernel.meter import Calls
from memory_server.kernel.text import Grade
from memory_server.memories.memories import Call
from memory_server.tools.base.result import From, Result, hundredths
from memory_server.tools.base.tool import tool


def _quantile(share: float) -> From:
    return From("quantile", lambda quantile: hundredths(quantile(share)))


class ToolFigures(Result):
    name: str = Field(description="A tool that was called")
    calls: Annotated[int, From("count", words="How often it was called")]
    errors: int = Field(description="How many of these calls were refused or failed")
    p50Ms: Annotated[float, _quantile(0.5)] = Field(
        description="Milliseconds that half of the calls took at most, estimated from a histogram"
    )
    p95Ms: Annotated[float, _quantile(0.95)] = Field(description="The same for 95 of 100")
    p99Ms: Annotated[float, _quantile(0.99)] = Field(description="The same for 99 of 100")


class MetricsResult(Result):
    uptimeSeconds: float = Field(description="Since this process began")
    tools: list[ToolFigures] = Field(description="Calls by tool, the most called first")
    counters: dict[str, dict[str, int]] = Field(
        description="By family: storage (with failed_reads and failed_writes), knowledge, layers, sessions (sources of "
        "ids), triggers (verdicts by kind; not_run: quiet ones that had no need to run; run_us: microseconds of the "
        "others), workers (processes that run triggers), files (their count and bytes), process (memory_bytes, cpu_ms, threads)"
    )

    def __str__(self) -> str:
        """Describe the figures: a line for each tool, and one for each family of counters."""
        lines = [_("Up for {uptime_seconds:g} s.", self.uptimeSeconds)]
        lines += [
            _(
                "{name}: {calls}, {errors}, p50 {p50ms:g} ms, p95 {p95ms:g} ms, p99 {p99ms:g} ms",
                tool.name,
                counted(tool.calls, "call"),
                counted(tool.errors, "error"),
                tool.p50Ms,
                tool.p95Ms,
                tool.p99Ms,
            )
            for tool in self.tools
        ]

        for family, figures in self.counters.items():
            lines.append(
                _(
                    "{about}: {what}",
                    family,
                    ", ".join(f"{name} {number}" for name, number in figures.items()),
                )
            )

        return "\n".join(lines)


@tool(
    title="Figures of this server",
    description="Calls, errors and times of each tool, and counters of storage and triggers, since the start.",
    read_only=True,
)
async def get_metrics(call: Call) -> MetricsResult:
    meter = call.memories.services.meter
    tools: list[ToolFigures] = []
    for name, calls in sorted(meter.calls.items(), key=_most_called_first):
        # The present call has not ended, and may be the first of its tool.
        if calls.count:
            tools.append(ToolFigures.of(calls, name=name))
    return MetricsResult(
        uptimeSeconds=round(meter.seconds, 1),
        tools=tools,
        counters={family: dict(figures) for family, figures in meter.figures().items()},
    )


def _most_called_first(figures: tuple[str, Calls]) -> tuple[int, str]:
    name, calls = figures
    return -calls.count, name


class Check(Result):
    about: str = Field(description="folder, disk, clock, triggers, …")
    grade: Grade = Field(
        description="ok; note: good to know; warning: worth a change; error: it does not work"
    )
    what: str = Field(description="What was found, and what to do about it")


class HealthResult(Result):
    healthy: bool = Field(description="Whether nothing is an error")
    checks: list[Check] = Field(description="What was looked at")

    def __str__(self) -> str:
        verdict = _("Healthy.") if self.healthy else _("Not healthy.")
        lines = [
            f"{check.grade:<8}" + _("{about}: {what}", check.about, check.what)
            for check in self.checks
        ]
        return "\n".join([verdict, *lines])


@tool(
    title="Health of this server",
    description="Whether folder, disk, clock and the sandbox of triggers are as they should be. Changes nothing.",
    read_only=True,
)
async def health_check(call: Call) -> HealthResult:
    findings = await call.memories.examine()
    for_callers = [
        replace(finding, what=call.memories.for_callers(finding.what)) for finding in findings
    ]
    is_healthy = all(finding.grade != "error" for finding in findings)
    return HealthResult(healthy=is_healthy, checks=Check.each(for_callers))
