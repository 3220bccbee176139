"""A chat and what triggers get at each of its messages: the last messages, the time, the seed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from languages import _
from sandbox.chats import chat
from sandbox.chats.dates import instant
from sandbox.host.search import Scene
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import Fired, Quiet, Verdict
from sandbox.workbench.files import read_chat, zone_of
from sandbox.workbench.terminal import UsageError

DEFAULT_WINDOW = 20
"""Messages that a search gets, as companions send them; triggers look at the last 4 by default."""
FIRING_EXAMPLE = '{"messages": 3, "ms": 60000}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """`now`: aware, for messages without a time. `timezone`: IANA, None the system's. `window`: messages given."""

    messages: Sequence[chat.Message]
    now: datetime
    timezone: str | None = None
    window: int = DEFAULT_WINDOW
    seed: int = 0
    participants: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: str = "default"

    def context(self, number: int) -> Mapping[str, Any]:
        """Return what triggers get after message `number`, from 1. The whole chat each time would take quadratic
        time."""
        return {
            "messages": self.messages[max(0, number - self.window) : number],
            "conversation_id": self.conversation_id,
            "participants": self.participants,
        }

    def moments(self) -> list[datetime]:
        """Return the time of each message. A message without a time has the time of the message before it; the first
        has `now`."""
        zone = zone_of(self.timezone)
        moments: list[datetime] = []
        last = self.now
        for message in self.messages:
            last = time_of(message, zone) or last
            moments.append(last)
        return moments

    def scenes(self) -> list[Scene]:
        """Return the scene after each message."""
        return [
            Scene(self.context(number), moment, self.seed)
            for number, moment in enumerate(self.moments(), start=1)
        ]

    def end(self) -> Scene:
        """Return the scene after the last message, at the time `now`."""
        return Scene(self.context(len(self.messages)), self.now, self.seed)


async def verdicts_along(
    sandbox: TriggerSandbox,
    source: str,
    scenes: Sequence[Scene],
    last_fired: Mapping[str, int] | None = None,
) -> list[Verdict]:
    """Return the verdict of a trigger at each scene. `context.last_fired` is the last scene before at which it fired;
    in the first one, `last_fired`. Raises SandboxError."""
    verdicts: list[Verdict] = []
    before: Scene | None = None
    for scene in scenes:
        # The memory grows older between two scenes, unless it came in the last scene.
        if last_fired is not None and before is not None:
            passed_ms = _ms(scene) - _ms(before)
            last_fired = {
                "messages": last_fired["messages"] + 1,
                "ms": max(0, last_fired["ms"] + passed_ms),
            }

        ran = await sandbox.judge(
            [source],
            scene.context,
            now=scene.now,
            seed=scene.seed,
            last_fired={} if last_fired is None else {0: last_fired},
        )
        verdict = ran.get(0, Quiet(0))
        verdicts.append(verdict)
        if isinstance(verdict, Fired):
            last_fired = {"messages": 0, "ms": 0}

        before = scene

    return verdicts


def _ms(scene: Scene) -> int:
    return int(scene.now.timestamp() * 1000)


def time_of(message: chat.Message, zone: tzinfo | None) -> datetime | None:
    """Return the time of the message, None if it has none."""
    time_ms = message.get("timestamp")
    if not isinstance(time_ms, int):
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(zone)


def replay_of(options: argparse.Namespace) -> Replay:
    """Return the chat of a command line with the circumstances of its searches: --chat, --window, --now, --tz, --seed,
    --participants, --conversation and --at. Raises UsageError."""
    if options.window < 1:
        raise UsageError("--window must be at least 1 message")
    replay = Replay(
        participants=_participants(options.participants),
        now=moment(options.now, options.tz),
        messages=_messages(options),
        timezone=options.tz,
        window=options.window,
        seed=options.seed,
        conversation_id=options.conversation,
    )
    if options.at is None:
        return replay
    return _until(replay, options.at, has_own_time=bool(options.now))


def _messages(options: argparse.Namespace) -> list[chat.Message]:
    """Return the messages of --chat, where --user and --assistant name speakers. Raises UsageError."""
    if not options.chat:
        return []
    roles = dict.fromkeys(options.user or (), "user")
    roles |= dict.fromkeys(options.assistant or (), "assistant")
    return read_chat(options.chat, options.encoding, zone=zone_of(options.tz), roles=roles)


def _until(replay: Replay, last_number: int, *, has_own_time: bool) -> Replay:
    """Return the replay of a chat that ends with this message, from 1 (--at). Its `now` is the time of the message,
    unless it has a time of its own (--now). Raises UsageError."""
    count = len(replay.messages)
    if not 1 <= last_number <= count:
        hint = (
            _("give a number from 1 to {number}", count)
            if count
            else _("there are no messages; add --chat")
        )
        raise UsageError("--at: there is no message {at}; {hint}", last_number, hint)
    now = replay.now if has_own_time else replay.moments()[last_number - 1]
    return replace(replay, messages=replay.messages[:last_number], now=now)


def _participants(text: str) -> dict[str, Any]:
    """Return what --participants says. Raises UsageError."""
    try:
        participants = json.loads(text)
    except ValueError as error:
        raise UsageError("--participants is not JSON: {reason}", error) from error
    if not isinstance(participants, dict):
        raise UsageError('--participants must be a JSON object such as {"user": {"name": "Ann"}}')
    return participants


def last_firing(text: str | None) -> Mapping[str, int] | None:
    """Return the firing that --last-fired gives as JSON, or None without it and for `null`. Raises
    UsageError."""
    if text is None or text == "null":
        return None
    try:
        return firing_of(json.loads(text))
    except ValueError as error:
        raise UsageError(
            "--last-fired: {reason}", _("it is not JSON such as {example}", FIRING_EXAMPLE)
        ) from error
    except UsageError as error:
        raise UsageError("--last-fired: {reason}", error) from error


def firing_of(value: Any) -> Mapping[str, int]:
    """Return how many messages and milliseconds ago a memory last came: an object with both. Raises UsageError."""
    is_object = isinstance(value, dict) and value.keys() == {"messages", "ms"}
    if not is_object or not all(type(number) is int and number >= 0 for number in value.values()):
        raise UsageError(
            "it must have `messages` and `ms`, whole numbers from 0, such as {example}",
            FIRING_EXAMPLE,
        )
    firing: Mapping[str, int] = value
    return firing


def moment(text: str | None, timezone: str | None) -> datetime:
    """Return the aware instant that --now and --tz mean: ISO, without an offset in that zone. Raises UsageError."""
    try:
        zone = zone_of(timezone)
    except UsageError as error:
        raise UsageError("--tz: {reason}", error) from error
    if text is None:
        return datetime.now().astimezone(zone)
    try:
        return instant(datetime.fromisoformat(text), zone)
    except ValueError as error:
        reason = _("{text!r} is not an ISO time; give one such as 2026-07-17T09:00", text)
        raise UsageError("--now: {reason}", reason) from error
