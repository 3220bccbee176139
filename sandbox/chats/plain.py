"""The plain form: lines of `who: text`. A line without a speaker continues the message before it. Pure.

The speaker is a word for a role (`user`, `用户`, `我`, `AI`, `系统`, ...) or a name. The caller can give the role of a
name; otherwise the first name is the user and the second the assistant, if no other speaker has that role.
A note says what was assumed, so that a speaker does not become a part of the text unnoticed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from languages import _, joined
from sandbox.chats.message_forms import ROLE_WORDS
from sandbox.chats.messages import ChatError, Message
from sandbox.values import frozen

MOST_NAME = 24
MOST_IDEOGRAPHS = 10
"""Characters of a name; a longer text before a colon is taken for a part of a sentence."""
_MOST_WORDS = 3
"""Words of a name."""
_SHOWN_NAMES = 5
"""Names of speakers that the note tells."""
_LINE = re.compile(r"(?P<who>[^\s:：][^:：]*)(?P<colon>[:：])\s*(?P<text>.*)", re.DOTALL)
_NO_NAME = re.compile('[，。！？、；,!?;"“”「」《》()（）<>{}=/\\\\|`\\[\\]]|^[-#>•·]')
_IDEOGRAPH = re.compile("[\u3400-\u9fff]")


@frozen
class _SpokenLine:
    """A line that may begin with the name of a speaker."""

    speaker: str
    text: str


def begins_with_role(text: str, names: Collection[str] = ()) -> bool:
    """Tell whether the first line begins with a word for a role or with a name of `names`, the speakers: then it is a
    chat, and not some other text."""
    match = _LINE.match(text.lstrip())
    if match is None:
        return False
    return match["who"].strip().casefold() in {*ROLE_WORDS, *map(str.casefold, names)}


def may_be_chat(text: str) -> bool:
    """Tell whether each line may begin with the name of a speaker, and a speaker comes again."""
    lines = [line for line in text.splitlines() if line.strip()]
    spoken_lines = [_spoken(line, {}) for line in lines]
    speakers = [spoken.speaker for spoken in spoken_lines if spoken is not None]
    return len(set(speakers)) < len(speakers) == len(lines)


def parse(text: str, roles: Mapping[str, str] | None = None) -> tuple[list[Message], str]:
    """Return the messages, and one sentence about what was assumed, '' if nothing was. `roles`: known roles, by name.
    Raises ChatError when the first line that is not blank has no speaker."""
    given_roles = {name.casefold(): role for name, role in (roles or {}).items()}
    lines = text.splitlines()
    spoken_lines = [_spoken(line, given_roles) for line in lines]
    # Who speaks is decided from all lines: a name that occurs once may be the beginning of a sentence.
    speakers = _speakers([spoken for spoken in spoken_lines if spoken is not None], given_roles)
    messages: list[Message] = []
    lines_of_messages: list[list[str]] = []
    doubtful: list[tuple[int, str]] = []  # lines that may begin with a name, and that name
    for number, (line, spoken) in enumerate(zip(lines, spoken_lines, strict=True), start=1):
        if spoken is not None and spoken.speaker in speakers:
            message: Message = {"role": speakers[spoken.speaker], "content": ""}
            name = spoken.speaker.casefold()
            if name in given_roles or name not in ROLE_WORDS:
                message["name"] = spoken.speaker
            messages.append(message)
            lines_of_messages.append([spoken.text])
        elif messages:
            lines_of_messages[-1].append(line)
            if spoken is not None:
                doubtful.append((number, spoken.speaker))
        elif line.strip():
            raise ChatError(
                "line {number} must begin with user:, assistant:, system: or another speaker's name and a colon",
                number,
            )

    for message, lines_of_message in zip(messages, lines_of_messages, strict=True):
        message["content"] = "\n".join(lines_of_message).rstrip()

    certain_names = {*given_roles, *ROLE_WORDS}
    assumed = [
        (name, role) for name, role in speakers.items() if name.casefold() not in certain_names
    ]
    return messages, _note(assumed, doubtful)


def _note(assumed: Sequence[tuple[str, str]], doubtful: Sequence[tuple[int, str]]) -> str:
    """Say what was assumed, '' if nothing: the role of each name in `assumed`, and that the `doubtful` lines, which may
    begin with a name, are text. Each is a name and its role, or the number of the line and the name."""
    parts: list[str] = []
    if assumed:
        who = joined(
            ", ",
            (
                _("{name} is taken for the {role}", name, role)
                for name, role in assumed[:_SHOWN_NAMES]
            ),
        )
        more = ""
        if len(assumed) > _SHOWN_NAMES:
            more = _(" and {assumed} more for users", len(assumed) - _SHOWN_NAMES)
        parts.append(_("{who}{more} (--user NAME and --assistant NAME change that)", who, more))

    # One example is enough to see what was meant.
    if doubtful:
        number, name = doubtful[0]
        more = ""
        if len(doubtful) > 1:
            more = _(", and {doubtful} more like it,", len(doubtful) - 1)
        parts.append(
            _(
                "line {number}{more} is taken for text; if {name} is a speaker, give their role",
                number,
                more,
                name,
            )
        )

    return joined("; ", parts)


def _spoken(line: str, given_roles: Mapping[str, str]) -> _SpokenLine | None:
    """Return the likely speaker of a line and the text, or None for a line that cannot begin with a name."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    speaker = match["who"].rstrip().strip("*_ ")
    text = match["text"]
    name = speaker.casefold()
    if name in given_roles or name in ROLE_WORDS:
        return _SpokenLine(speaker, text)
    if not _may_be_name(speaker):
        return None
    is_clock = speaker[-1].isdigit() and text[:1].isdigit()
    is_address = match["colon"] == ":" and text.startswith(("//", "\\"))
    if is_clock or is_address:
        return None
    return _SpokenLine(speaker, text)


def _may_be_name(text: str) -> bool:
    """Tell whether a text before a colon is short enough for a name, and has letters and no marks of a sentence."""
    most_chars = MOST_IDEOGRAPHS if _IDEOGRAPH.search(text) else MOST_NAME
    if not text or len(text) > most_chars or len(text.split()) > _MOST_WORDS:
        return False
    return _NO_NAME.search(text) is None and any(map(str.isalpha, text))


def _speakers(
    spoken_lines: Sequence[_SpokenLine], given_roles: Mapping[str, str]
) -> dict[str, str]:
    """Return the role of each speaker: the given one, that of a word such as `user`, otherwise the first free one of
    user and assistant, and user if both are taken. Where known roles and certain names (the first, or one that occurs
    again) are two or more together, a name that occurs once is taken for the beginning of a sentence, and is left
    out; so is a name with no text behind its colon, unless it is the first."""
    counts = Counter(spoken.speaker for spoken in spoken_lines)
    roles: dict[str, str] = {}
    for speaker in counts:
        role = given_roles.get(speaker.casefold()) or ROLE_WORDS.get(speaker.casefold())
        if role:
            roles[speaker] = role

    if len(roles) == len(counts):
        return roles

    first_speaker = spoken_lines[0].speaker
    # A colon after a word with nothing behind it is rather a heading.
    with_text = {spoken.speaker for spoken in spoken_lines if spoken.text} | {first_speaker}
    names = [speaker for speaker in counts if speaker not in roles and speaker in with_text]
    certain_names = [name for name in names if counts[name] > 1 or name == first_speaker]
    taken_roles = set(roles.values())
    if len(taken_roles & {"user", "assistant"}) + len(certain_names) >= 2:
        names = certain_names

    for name in names:
        roles[name] = _first_free_role(taken_roles)
        taken_roles.add(roles[name])

    return roles


def _first_free_role(taken_roles: Collection[str]) -> str:
    """`user`, or `assistant` if only that is free; `user` again if neither is."""
    for role in ("user", "assistant"):
        if role not in taken_roles:
            return role
    return "user"
