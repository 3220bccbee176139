"""A chat and what triggers get at each of its messages: the last messages, the time, the seed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from sandbox.chats import chat
from sandbox.chats.dates import instant
from sandbox.host.search import Scene
from sandbox.locale import _
from sandbox.workbench.files import read_chat, zone_of
from sandbox.workbench.terminal import UsageError

DEFAULT_WINDOW = 20
"""Messages that a search gets, as companions send them; triggers look at the last 4 by default."""


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
        """What triggers get after message `number`, from 1. The whole chat each time would take quadratic time."""
        return {
            "messages": self.messages[max(0, number - self.window) : number],
            "conversation_id": self.conversation_id,
            "participants": self.participants,
        }

    def moments(self) -> list[datetime]:
        """The time of each message; one without takes that of the message before it."""
        zone = zone_of(self.timezone)
        found: list[datetime] = []
        last = self.now
        for message in self.messages:
            last = time_of(message, zone) or last
            found.append(last)
        return found

    def scenes(self) -> list[Scene]:
        return [Scene(self.context(number), moment, self.seed) for number, moment in enumerate(self.moments(), start=1)]

    def end(self) -> Scene:
        """The scene after the last message, at the time `now`."""
        return Scene(self.context(len(self.messages)), self.now, self.seed)


def time_of(message: chat.Message, zone: tzinfo | None) -> datetime | None:
    """The time of the message, None if it has none."""
    stamp = message.get("timestamp")
    return datetime.fromtimestamp(stamp / 1000, UTC).astimezone(zone) if isinstance(stamp, int) else None


def replay_of(options: argparse.Namespace) -> Replay:
    """From --chat, --window, --now, --tz, --seed, --participants, and for `run` --at and --conversation. With --at the
    chat ends there, and `now` is the time of that message unless --now is given. Raises UsageError."""
    if options.window < 1:
        raise UsageError("--window must be at least 1 message")
    try:
        participants = json.loads(options.participants)
    except ValueError as error:
        raise UsageError("--participants is not JSON: {reason}", error) from error
    if not isinstance(participants, dict):
        raise UsageError('--participants must be a JSON object such as {"user": {"name": "Ann"}}')
    now = moment(options.now, options.tz)
    roles = {**dict.fromkeys(options.user or (), "user"), **dict.fromkeys(options.assistant or (), "assistant")}
    replay = Replay(
        messages=read_chat(options.chat, options.encoding, zone_of(options.tz), roles) if options.chat else [],
        now=now,
        timezone=options.tz,
        window=options.window,
        seed=options.seed,
        participants=participants,
        conversation_id=getattr(options, "conversation", "default"),
    )
    at, count = getattr(options, "at", None), len(replay.messages)
    if at is None:
        return replay
    if not 1 <= at <= count:
        hint = _("give a number from 1 to {number}", count) if count else _("there are no messages; add --chat")
        raise UsageError("--at: there is no message {at}; {hint}", at, hint)
    now = now if options.now else replay.moments()[at - 1]
    return replace(replay, messages=replay.messages[:at], now=now)


def moment(text: str | None, timezone: str | None) -> datetime:
    """The aware instant that --now and --tz mean: ISO, without an offset in that zone. Raises UsageError."""
    try:
        zone = zone_of(timezone)
    except UsageError as error:
        raise UsageError("--tz: {reason}", error) from error
    if text is None:
        return datetime.now().astimezone(zone)
    try:
        return instant(datetime.fromisoformat(text), zone)
    except ValueError as error:
        said = _("{text!r} is not an ISO time; give one such as 2026-07-17T09:00", text)
        raise UsageError("--now: {reason}", said) from error
