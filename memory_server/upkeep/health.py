"""Whether a running memory is as it should be: its folder, disk and clock, and the sandbox. Changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from memory_server.core.findings import Finding
from sandbox import SandboxError, TriggerSandbox


async def examine(data_dir: Path, now_ms: int, sandbox: TriggerSandbox) -> list[Finding]:
    """What there is to say of the folder as a whole and of the sandbox; `doctor` looks at each conversation as well."""
    from memory_server.upkeep.folder_examination import examine_folder

    found = await asyncio.to_thread(lambda: list(examine_folder(data_dir, now_ms)))
    return [*found, await examine_sandbox(sandbox)]


async def examine_sandbox(sandbox: TriggerSandbox) -> Finding:
    """Whether triggers run, and behind which walls."""
    try:
        layers = (await sandbox.describe())["layers"]
    except SandboxError as error:
        return Finding("error", "triggers", f"Triggers cannot run here: {error}")
    missing = [name for name, state in layers.items() if not state["holds"]]
    if missing:
        return Finding(
            "warning",
            "triggers",
            f"They run, but without {', '.join(missing)}; `trigger-sandbox doctor` says what that means.",
        )
    walls = [name for name in layers if not name.startswith("no ")]
    attempts = len(layers) - len(walls)
    return Finding("ok", "triggers", f"they run behind {', '.join(walls)}; {attempts} attempts to get out were refused")
