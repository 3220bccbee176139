"""A session of Claude Code in a terminal, as somebody who types has it: a prompt of `claude -p` is one of a program."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_ENDINGS = (
    b'"subtype":"turn_duration"',
    b'"subtype":"stop_hook_summary"',
    b'"subtype":"compact_boundary"',
)
"""Lines of a transcript after a turn, when its hooks have run, and after `/compact`."""


def welcomed(config: Path, project: Path) -> None:
    """Let Claude Code ask nothing before the first prompt: neither for a theme, nor for trust, nor for the key."""
    path = config / ".claude.json"
    settings = json.loads(path.read_text()) if path.exists() else {}
    settings |= {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["none"], "rejected": []},
    }
    projects = settings.setdefault("projects", {})
    projects.setdefault(str(project), {}).update(
        {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    )
    config.mkdir(exist_ok=True)
    path.write_text(json.dumps(settings))


def typed(
    prompt: str,
    *flags: str,
    config: Path,
    project: Path,
    environment: Mapping[str, str],
    seconds: float,
) -> str:
    """The id of the session in which the prompt was typed and answered. Raises AssertionError: no answer came."""
    welcomed(config, project)
    before = _ends(config)
    master, terminal = pty.openpty()
    command = ["claude", prompt, "--permission-mode", "acceptEdits", *flags]
    process = subprocess.Popen(
        command,
        cwd=project,
        env={**environment, "TERM": "xterm-256color"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    shown = b""
    try:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and process.poll() is None:
            if select.select([master], [], [], 0.1)[0]:
                with suppress(OSError):
                    shown += os.read(master, 65_536)
            after = _ends(config)
            ended = [session for session, count in after.items() if count > before.get(session, 0)]
            if ended:
                return ended[0]
        raise AssertionError(shown[-3_000:].decode(errors="replace"))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        os.close(master)


def _ends(config: Path) -> dict[str, int]:
    """How many lines of each session say that a turn has ended."""
    counts: dict[str, int] = {}
    for path in config.glob("projects/*/*.jsonl"):
        data = path.read_bytes()
        counts[path.stem] = sum(data.count(ending) for ending in _ENDINGS)
    return counts
