"""In CI, a test that is skipped for want of a program is a failure, unless the program cannot be installed there."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

REASON = "Skipped: needs "
"""How the reason of a test begins that is skipped for want of a program."""


def faults_of(reasons: list[str], excused: list[str]) -> Iterator[str]:
    """Yield the reasons of skipped tests that name a program, but those of the `excused` programs."""
    excuses = tuple(REASON + program for program in excused)
    for reason in sorted(set(reasons)):
        if reason.startswith(REASON) and not reason.startswith(excuses):
            yield reason.removeprefix("Skipped: ")


class LackingPrograms:
    """A plugin that fails the whole run for each such skip. It reads `CI` and the programs, separated by commas, in
    `CANNOT_BE_INSTALLED`."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._faults: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        is_worker = "PYTEST_XDIST_WORKER" in os.environ
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if os.environ.get("CI") != "true" or is_worker or reporter is None:
            return
        skipped = reporter.stats.get("skipped", [])
        reasons = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]
        excused = os.environ.get("CANNOT_BE_INSTALLED", "")
        names = [name.strip() for name in excused.split(",") if name.strip()]
        self._faults = list(faults_of(reasons, names))
        if self._faults and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for fault in self._faults:
            terminalreporter.write_line(f"CI skips no test for want of a program: {fault}")
