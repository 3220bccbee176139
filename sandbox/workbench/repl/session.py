"""The state of a `repl` and what each `:command` does to it. No terminal and no sandbox; files for :chat and :save."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox.chats import chat
from sandbox.verdicts import Failed, RunReport
from sandbox.workbench.explain.lines import explain
from sandbox.workbench.fixtures.cases import DEFAULT_WINDOW
from sandbox.workbench.fixtures.outcomes import word
from sandbox.workbench.sources.files import UsageError, read_chat, write_files, zone_of
from sandbox.workbench.sources.yaml_forms import block, quoted
from sandbox.workbench.verdict_text import moment

_LAST_TOKEN = re.compile(r"""(?:'[^'\n]*'|"[^"\n]*"|`[^`]*`|/\S+/\w*|[^\s,;()]+|[\])}])\s*""")
SHOWN = 4
"""Messages that `:chat` shows: as many as match_keys looks at by default."""


@dataclass(frozen=True, slots=True)
class Session:
    """`at`: message number from 1 up to which the chat counts, None all. `given_now` None: the message's, or now."""

    messages: tuple[chat.Message, ...] = ()
    at: int | None = None
    given_now: datetime | None = None
    timezone: str | None = None
    seed: int = 0
    participants: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    report: RunReport | None = None
    over: bool = False
    paint: Callable[[str], str] | None = None
    """Makes matched characters stand out where the answers are shown; None where colour is not wanted."""

    @property
    def seen(self) -> tuple[chat.Message, ...]:
        """The messages that the trigger is given."""
        return self.messages[: self.at][-DEFAULT_WINDOW:]

    def now(self) -> datetime:
        """The time of the trigger, aware."""
        stamp = self.seen[-1].get("timestamp") if self.at is not None and self.seen else None
        if self.given_now is None and isinstance(stamp, int):
            return datetime.fromtimestamp(stamp / 1000, UTC).astimezone(zone_of(self.timezone))
        return (self.given_now or datetime.now(UTC)).astimezone(zone_of(self.timezone))

    def context(self) -> Mapping[str, Any]:
        return {"messages": list(self.seen), "conversation_id": "default", "participants": self.participants}


Answer = tuple[Session, Sequence[str]]


def obey(session: Session, line: str) -> Answer:
    """The session after a line that begins with `:`, and what to print. Raises UsageError."""
    name, _, rest = line[1:].strip().partition(" ")
    for command in COMMANDS:
        if name in command.names:
            return command.perform(session, rest.strip())
    raise UsageError(f"there is no :{name}; :help lists the commands")


def unfinished(source: str, report: RunReport) -> bool:
    """Whether the trigger is only not written to its end yet: V8 met the end where more had to come."""
    verdict = report.verdict
    if not isinstance(verdict, Failed) or verdict.kind != "syntax" or verdict.line is None or verdict.column is None:
        return False
    lines = source.split("\n")
    if verdict.line > len(lines):
        return True
    rest = "\n".join([lines[verdict.line - 1][verdict.column - 1 :], *lines[verdict.line :]])
    if "missing ) after argument" in verdict.message:
        return _LAST_TOKEN.fullmatch(rest) is not None  # V8 names the token before the missing bracket
    return not rest.strip() or rest.startswith("/*")


def _help(session: Session, _rest: str) -> Answer:
    width = max(len(command.usage) for command in COMMANDS)
    lines = [f"{command.usage:<{width}}  {command.about}" for command in COMMANDS]
    return session, ["Type a trigger: its verdict comes back. An open bracket goes on in the next line.", *lines]


def _quit(session: Session, _rest: str) -> Answer:
    return replace(session, over=True), []


def _chat(session: Session, rest: str) -> Answer:
    if not rest:
        return session, _last_messages(session)
    name, _, encoding = rest.rpartition(" ")
    if not name or Path(rest.partition("#")[0]).exists():
        name, encoding = rest, ""
    found = tuple(read_chat(name, encoding or None, zone_of(session.timezone)))
    session = replace(session, messages=found, at=None)
    return session, [f"{len(found)} message{'' if len(found) == 1 else 's'}", *_last_messages(session)]


def _last_messages(session: Session) -> list[str]:
    seen = session.messages[: session.at]
    first = max(0, len(seen) - SHOWN)
    return [
        f"#{number} {message.get('name') or message['role']}: {' '.join(message['content'].split())}"
        for number, message in enumerate(seen[first:], start=first + 1)
    ] or ["no messages; :chat FILE reads some, :say TEXT adds one"]


def _say(session: Session, rest: str) -> Answer:
    if not rest:
        raise UsageError("say what? :say TEXT adds a message of the user, :say assistant: TEXT one of the assistant")
    try:
        added, assumed = chat.parse_assuming(rest, None, None, chat.People())
    except chat.ChatError:
        assumed = rest
    if assumed:  # `Note: tea` is said by the user, and not by somebody called Note
        added = [{"role": "user", "content": rest}]
    session = replace(session, messages=(*session.messages[: session.at], *added), at=None)
    return session, _last_messages(session)[-1:]


def _now(session: Session, rest: str) -> Answer:
    if rest == "real":
        session = replace(session, given_now=None)
    elif rest:
        try:
            session = replace(session, given_now=moment(rest, session.timezone))
        except UsageError as error:
            raise UsageError(str(error).removeprefix("--now: ")) from error
    return session, [f"now {session.now().isoformat(' ', 'seconds')}"]


def _tz(session: Session, rest: str) -> Answer:
    if rest:
        zone_of(rest)
        session = replace(session, timezone=rest)
    return session, [f"time zone {session.timezone or 'of the system'}, now {session.now().isoformat(' ', 'seconds')}"]


def _at(session: Session, rest: str) -> Answer:
    count = len(session.messages)
    if rest == "end":
        session = replace(session, at=None)
    elif rest:
        if not rest.isdecimal() or not 1 <= int(rest) <= count:
            raise UsageError(f"{rest!r} is no message; give a number from 1 to {count}, or end")
        session = replace(session, at=int(rest))
    return session, _last_messages(session)


def _explain(session: Session, _rest: str) -> Answer:
    if session.report is None:
        raise UsageError("there is nothing to explain yet; type a trigger first")
    first = len(session.messages[: session.at]) - len(session.seen) + 1
    return session, explain(session.source, session.report, session.seen, session.now(), first, session.paint)


def _save(session: Session, rest: str) -> Answer:
    replacing = rest.startswith("! ")
    name = rest.removeprefix("! ").strip()
    if session.report is None:
        raise UsageError("there is nothing to save yet; type a trigger first")
    if not name:
        raise UsageError("save to which file? :save NAME.js or :save NAME.trigger.yaml")
    path = Path(name)
    fixture = path.name.endswith((".yaml", ".yml"))
    text = fixture_text(session, word(session.report.verdict)) if fixture else session.source + "\n"
    if path.exists() and not replacing:
        raise UsageError(f"{path} exists already; :save ! {path} replaces it")
    write_files([(path, text)], force=replacing)
    return session, [f"written: {path}"]


def fixture_text(session: Session, expect: str) -> str:
    """A fixture that says what was just seen."""
    lines = [
        *block("trigger", session.source),
        f"tz: {quoted(session.timezone)}" if session.timezone else "tz: UTC  # the session had the system's zone",
        f"now: {session.now().isoformat(timespec='seconds')}",
        f"seed: {session.seed}",
        f"participants: {quoted(session.participants)}",
        "chat:" if session.seen else "chat: []",
        *(f"  - {_message(message)}" for message in session.seen),
        f"expect: {expect}",
    ]
    return "\n".join(lines) + "\n"


def _message(message: chat.Message) -> str:
    if message.keys() == {"role", "content"}:
        return f"{message['role']}: {quoted(message['content'])}"
    return quoted(message)


@dataclass(frozen=True, slots=True)
class Command:
    """One `:command`. `names`: the first is its own, the others work too."""

    names: tuple[str, ...]
    usage: str
    about: str
    perform: Callable[[Session, str], Answer]


COMMANDS = (
    Command(("chat",), ":chat [FILE [ENCODING]]", "read a chat file in any form, or show the last messages", _chat),
    Command(("say",), ":say [ROLE:] TEXT", "add a message", _say),
    Command(("at",), ":at N | end", "end the chat after message N", _at),
    Command(("now",), ":now TIME | real", "the trigger's time, such as 2026-07-17T09:00", _now),
    Command(("tz",), ":tz ZONE", "the trigger's time zone, such as Asia/Shanghai", _tz),
    Command(("explain",), ":explain", "the last run: verdict, console, operands, what match_keys found", _explain),
    Command(
        ("save",), ":save [!] FILE", "the last trigger as .js, or with this chat as .trigger.yaml; ! replaces", _save
    ),
    Command(("help", "h", "?"), ":help", "this list", _help),
    Command(("quit", "q", "exit"), ":quit", "leave; so does Ctrl-D", _quit),
)
