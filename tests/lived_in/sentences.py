"""What no face may say: a traceback, a failure inside the server, a value of the program where words belong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from lived_in import texts

_MARKED = re.compile(r"(⟦|%E2%9F%A6).*?(⟧|%E2%9F%A7|$|…|\.\.\.|\n|[\"<])", re.DOTALL)
"""Words of a user that look like a fault; they have no end where they were cut."""
_END_OF_MARKED = re.compile(r"(?:…|^)[^⟦⟧\n]{0,200}⟧", re.MULTILINE)
"""They have no beginning where they were cut, or where a word of them is underlined."""
FAULTS = {
    "a traceback": re.compile(r"Traceback \(most recent call|\bFile \"[^\"]+\", line \d+"),
    "a failure inside": re.compile(r"\bInternal\b|failed inside the server|内部出错|服务器内部"),
    "None": re.compile(r"(?<![\w'\"./-])None(?![\w'\"/-])"),
    "nan": re.compile(r"(?<![\w'\"./-])(?:nan|inf|NaN|Infinity)(?![\w'\"/-])"),
    "undefined": re.compile(r"(?<![\w'\"./-])undefined(?![\w'\"/-])"),
    "a place without a value": re.compile(
        r"(?<![{$\w])\{[a-z_]\w*(?:![rsa])?(?::[^{}\s]*)?\}(?!\})"
    ),
    "a representation": re.compile(
        r"<[\w.]+ object at 0x|\bdatetime\.datetime\(|\b[A-Z]\w+\((?:\w+=)|\{'\w+':|<\w+\.\w+: |dict_values|frozenset\("
        r"|\b(?:OSError|ValueError|KeyError|AttributeError|IndexError|RuntimeError|OverflowError|"
        r"UnicodeEncodeError|UnicodeDecodeError|AssertionError|StopIteration|ValidationError)\b"
    ),
    "a flag in another form": re.compile(r"[:=(,] ?(?:True|False)\b(?! for)"),
    "a plural of one": re.compile(
        r"(?<![\d.,:/_-])1 (?:memories|entries|conversations|notes|facts|refs|recalls|exchanges|places|backups|"
        r"characters|triggers|changes|commits|files|tokens|days|subjects|findings|errors|warnings)\b"
    ),
    "a mark of style": re.compile(r"\[/?(?:bold|yellow|red|green|cyan)\]"),
}


def without_users_words(text: str) -> str:
    return _END_OF_MARKED.sub("§", _MARKED.sub("§", text))


def faults_of(text: str) -> Iterator[str]:
    """What a text for people says that it may not, each with the words around it."""
    words = without_users_words(text)
    for name, pattern in FAULTS.items():
        for match in pattern.finditer(words):
            around = words[max(0, match.start() - 60) : match.end() + 60]
            yield f"{name}: …{' '.join(around.split())}…"
            break


def faults_of_json(text: str, *, lines: bool = True) -> Iterator[str]:
    """What is wrong with the output of `--json`."""
    documents = [text]
    if lines:
        documents = list(filter(None, text.split("\n")))
    for line in documents:
        try:
            value = json.loads(line, parse_constant=_refuse)
        except ValueError as error:
            yield f"not JSON ({error}): {line[:200]}"
            return
        yield from _of_values(value)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _of_values(value: Any) -> Iterator[str]:
    """Sentences in JSON are those of the program where their name says so."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in (
                "note",
                "message",
                "what",
                "error",
                "warning",
                "hint",
                "reason",
            ) and isinstance(inner, str):
                yield from faults_of(inner)
            else:
                yield from _of_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _of_values(inner)


_WORD = re.compile(r"[A-Za-z]{2,}")
_LONG_ID = re.compile(r"\b[0-9a-f]{8,64}(?:-[0-9a-f]{4,12}){0,4}\b")
"""An id, whose letters are not words."""


@cache
def _usual_english() -> frozenset[str]:
    """Words of the sentences that people say in a life, in English."""
    texts_of_people = (
        *texts.IMPORTED,
        *texts.SENTENCES,
        *texts.ANSWERS,
        *texts.QUESTIONS,
        *texts.ODD,
        *texts.TRIGGERS,
        *texts.KEYS,
        *texts.NAMES,
        *texts.ROOMS,
        *texts.TRUE_NOW,
        "user: assistant: system:",
        "phone work read,write",  # a token, its tenant, and its rights as the option takes them
    )
    return frozenset(map(str.casefold, _WORD.findall("\n".join(texts_of_people))))


def is_untranslated(text: str) -> bool:
    """Whether a piece of a Chinese page looks like an English sentence of ours: several English words, few of which are
    those of users, and no Chinese beside them."""
    without_ids = _LONG_ID.sub(" ", without_users_words(text))
    # An import begins a trigger with a comment in English, for programs; a list has it behind name and time.
    own_text = re.split(r"(?:^|\s)// World info entry", without_ids, maxsplit=1)[0]
    words = [word.casefold() for word in _WORD.findall(own_text)]
    if len(words) < 4 or re.search(r"[\u4e00-\u9fff]|memory-server|[{}()=]|\w/\w", text):
        return False
    ours = [word for word in words if word not in _usual_english()]
    return len(ours) >= 3 and len(ours) > len(words) / 2
