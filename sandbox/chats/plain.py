"""The plain form: lines of `who: text`. A line without a speaker continues the message before it. Pure.

The speaker is a word for a role (`user`, `用户`, `我`, `AI`, `系统`, ...) or a name. The caller can give the role of a
name; otherwise the first name is the user and the second the assistant, if no other speaker has that role.
A note says what was assumed, so that a speaker does not become a part of the text unnoticed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from sandbox.chats.messages import ROLES, ChatError, Message
from sandbox.locale import _, joined

WORDS: Mapping[str, str] = {
    **dict.fromkeys(("user", "human", "me", "you", "you said", "用户", "用戶", "使用者", "我", "你"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "model", "chatgpt", "chatgpt said", "claude"), "assistant"),
    **dict.fromkeys(("助手", "助理", "ai助手", "智能助手", "机器人", "機器人", "模型"), "assistant"),
    **dict.fromkeys(("system", "narrator", "系统", "系統", "旁白"), "system"),
}
"""Words that people write for a role, in lower case."""
MOST_NAME = 24
MOST_IDEOGRAPHS = 10
"""Characters of a name; a longer text before a colon is taken for a part of a sentence."""
_LINE = re.compile(r"(?P<who>[^\s:：][^:：]*)(?P<colon>[:：])\s*(?P<text>.*)", re.DOTALL)
_NO_NAME = re.compile('[，。！？、；,!?;"“”「」《》()（）<>{}=/\\\\|`\\[\\]]|^[-#>•·]')
_IDEOGRAPH = re.compile("[\u3400-\u9fff]")


def begins_with_role(text: str) -> bool:
    """Whether the first line begins with a word for a role: then it is a chat, and not some other text."""
    found = _LINE.match(text.lstrip())
    return found is not None and found["who"].strip().casefold() in WORDS


def parse(text: str, roles: Mapping[str, str] | None = None) -> tuple[list[Message], str]:
    """The messages, and one sentence about what was assumed, '' if nothing was. `roles`: known ones, by name. Raises
    ChatError when the first line that is not blank has no speaker."""
    told = {name.casefold(): role for name, role in (roles or {}).items()}
    lines = text.splitlines()
    found = [_spoken(line, told) for line in lines]
    speakers = _speakers([one for one in found if one is not None], told)
    messages: list[Message] = []
    doubtful: list[tuple[int, str]] = []  # lines that may begin with a name, and that name
    for number, (line, spoken) in enumerate(zip(lines, found, strict=True), start=1):
        if spoken is not None and spoken[0] in speakers:
            who, said = spoken
            message: Message = {"role": speakers[who], "content": said}
            if who.casefold() in told or who.casefold() not in WORDS:
                message["name"] = who
            messages.append(message)
        elif messages:
            messages[-1]["content"] += f"\n{line}"
            if spoken is not None:
                doubtful.append((number, spoken[0]))
        elif line.strip():
            raise ChatError(
                "line {number} must begin with user:, assistant:, system: or another speaker's name and a colon", number
            )
    for message in messages:
        message["content"] = message["content"].rstrip()
    assumed = [(name, role) for name, role in speakers.items() if name.casefold() not in {*told, *WORDS}]
    return messages, _note(assumed, doubtful)


def _note(assumed: Sequence[tuple[str, str]], doubtful: Sequence[tuple[int, str]]) -> str:
    parts = []
    if assumed:
        who = joined(", ", (_("{name} is taken for the {role}", name, role) for name, role in assumed[:5]))
        more = _(" and {assumed} more for users", len(assumed) - 5) if len(assumed) > 5 else ""
        parts.append(_("{who}{more} (--user NAME and --assistant NAME change that)", who, more))
    if doubtful:
        number, name = doubtful[0]
        more = _(", and {doubtful} more like it,", len(doubtful) - 1) if len(doubtful) > 1 else ""
        parts.append(
            _("line {number}{more} is taken for text; if {name} is a speaker, give their role", number, more, name)
        )
    return joined("; ", parts)


def _spoken(line: str, told: Mapping[str, str]) -> tuple[str, str] | None:
    """The likely speaker of a line and the text; None for a line that cannot begin with a name."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    who, said = found["who"].rstrip().strip("*_ "), found["text"]
    if who.casefold() in told or who.casefold() in WORDS:
        return who, said
    most = MOST_IDEOGRAPHS if _IDEOGRAPH.search(who) else MOST_NAME
    if not who or len(who) > most or len(who.split()) > 3 or _NO_NAME.search(who):
        return None
    clock = who[-1].isdigit() and said[:1].isdigit()
    address = found["colon"] == ":" and said.startswith(("//", "\\"))
    return None if clock or address or not any(map(str.isalpha, who)) else (who, said)


def _speakers(spoken: Sequence[tuple[str, str]], told: Mapping[str, str]) -> dict[str, str]:
    """The role of each speaker. If both a user and an assistant are known, a name that occurs once is taken for the
    beginning of a sentence."""
    counts = Counter(who for who, _ in spoken)
    roles: dict[str, str] = {}
    for who in counts:
        if role := told.get(who.casefold()) or WORDS.get(who.casefold()):
            roles[who] = role
    known = set(roles.values())
    says = {who for who, said in spoken if said}
    names = [who for who in counts if who not in roles and (who in says or who == spoken[0][0])]
    sure = [who for who in names if counts[who] > 1 or who == spoken[0][0]]
    for who in sure if len(known & {"user", "assistant"}) + len(sure) >= 2 else names:
        roles[who] = next((role for role in ROLES[:2] if role not in known), "user")
        known.add(roles[who])
    return roles
