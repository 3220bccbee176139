"""`trigger-sandbox run`: one trigger on one chat, and why it came out so."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sandbox.chats import chat
from sandbox.errors import SandboxError
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import RunReport
from sandbox.workbench import verdict_text
from sandbox.workbench.explain.lines import heap_line, reasons
from sandbox.workbench.explain.operands import copy_of
from sandbox.workbench.sources.files import UsageError, people_of, read_chat, read_text, zone_of
from sandbox.workbench.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Scene:
    """What a trigger is given. `first`: the number of the first message. `now`: aware."""

    messages: Sequence[chat.Message]
    first: int
    now: datetime
    timezone: str | None
    seed: int
    participants: Mapping[str, Any]
    conversation_id: str

    def context(self) -> Mapping[str, Any]:
        return {
            "messages": list(self.messages),
            "conversation_id": self.conversation_id,
            "participants": self.participants,
        }


def run(options: argparse.Namespace) -> int:
    """Returns 0 when it fired, 1 when it was quiet, 3 when it failed. Raises UsageError."""
    source = options.code if options.code is not None else read_text(options.file, options.encoding)
    scene = scene_of(options)
    report = perform(source, scene)
    code = verdict_text.show(source, report, sys.stdout)
    terminal = Terminal(sys.stdout)
    terminal.say(heap_line(report))
    for line in reasons(source, report, scene.messages, scene.first, terminal.painter):
        terminal.say(line)
    return code


def perform(source: str, scene: Scene) -> RunReport:
    """Raises UsageError when nothing can be run here."""

    async def once() -> RunReport:
        async with TriggerSandbox(timezone=scene.timezone, workers=1) as sandbox:
            return await sandbox.run(source, scene.context(), now=scene.now, seed=scene.seed, copy=copy_of(source))

    try:
        return asyncio.run(once())
    except SandboxError as error:
        raise UsageError(str(error)) from error


def scene_of(options: argparse.Namespace) -> Scene:
    """From --chat, --at, --window, --now, --tz, --seed, --participants. Raises UsageError."""
    given = verdict_text.moment(options.now, options.tz)
    zone = zone_of(options.tz)
    whole = read_chat(options.chat, options.encoding, zone, people_of(options)) if options.chat else []
    at = options.at if options.at is not None else len(whole)
    if options.at is not None and not 1 <= at <= len(whole):
        hint = f"give a number from 1 to {len(whole)}" if whole else "there are no messages; add --chat"
        raise UsageError(f"--at: there is no message {at}; {hint}")
    if options.window < 1:
        raise UsageError("--window must be at least 1 message")
    seen = whole[max(0, at - options.window) : at]
    stamp = seen[-1].get("timestamp") if options.at is not None and seen else None
    if options.now is None and isinstance(stamp, int):
        given = datetime.fromtimestamp(stamp / 1000, UTC).astimezone(zone)
    return Scene(
        messages=seen,
        first=at - len(seen) + 1,
        now=given,
        timezone=options.tz,
        seed=options.seed,
        participants=participants_of(options.participants),
        conversation_id=options.conversation,
    )


def participants_of(text: str) -> Mapping[str, Any]:
    """`context.participants` from JSON. Raises UsageError."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--participants is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError('--participants must be a JSON object such as {"user": {"name": "Ann"}}')
    return value
