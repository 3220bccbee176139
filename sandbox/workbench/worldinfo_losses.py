"""What of a lorebook has no meaning for a trigger, in words: per entry, and once for the file. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sandbox.workbench.worldinfo import Book
from sandbox.workbench.worldinfo_keys import MACRO, Defaults

_LOST: Mapping[str, Callable[[Any], str]] = {
    "cooldown": lambda value: f"cooldown {value}: a trigger does not know when it last fired",
    "group": lambda value: f"group {value!r}: each entry of the group fires for itself",
    "vectorized": lambda _: "vectorized: only its keys are used, not its meaning",
    "delayUntilRecursion": lambda _: "delayUntilRecursion: there is no recursion, so it fires in the first pass",
    "characterFilter": lambda value: f"characterFilter: it fires for every character ({_names(value)})",
    "triggers": lambda value: f"triggers {value}: it fires for every kind of generation",
    "automationId": lambda value: f"automationId {value!r}: no script is started",
    "matchPersonaDescription": lambda _: "matchPersonaDescription: only messages are searched",
    "matchCharacterDescription": lambda _: "matchCharacterDescription: only messages are searched",
    "matchCharacterPersonality": lambda _: "matchCharacterPersonality: only messages are searched",
    "matchCharacterDepthPrompt": lambda _: "matchCharacterDepthPrompt: only messages are searched",
    "matchScenario": lambda _: "matchScenario: only messages are searched",
    "matchCreatorNotes": lambda _: "matchCreatorNotes: only messages are searched",
}


def lost_fields(fields: Mapping[str, Any]) -> Iterator[str]:
    for name, say in _LOST.items():
        value = fields.get(name)
        if name == "characterFilter" and isinstance(value, dict) and not _names(value):
            continue
        if value:
            yield say(value)


def _names(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    but = "all but " if value.get("isExclude") else ""
    names = [str(one) for one in (*(value.get("names") or ()), *(value.get("tags") or ()))]
    return f"{but}{', '.join(names)}" if names else ""


def lost_macros(texts: Iterable[str], defaults: Defaults) -> list[str]:
    """The macros that stay in these texts."""
    found = dict.fromkeys(MACRO.findall(" ".join(texts)))
    return [f"{macro}: stays as it is; {_advice(macro)}" for macro in found if defaults.named(macro) == macro]


def _advice(macro: str) -> str:
    name = macro.strip("{}").lower()
    return f"give --{name} NAME" if name in ("char", "user") else "nothing replaces it here"


def lost_everywhere(book: Book) -> list[str]:
    """What holds for the file as a whole, said once."""
    lines = ["names of speakers are not searched, only what they say"]
    used = [name for name in ("order", "position", "depth", "role", "outletName") if _varies(book, name)]
    if used:
        lines.append(f"{', '.join(used)}: where a text stands in the prompt is for the client to decide")
    recursive = [entry for entry in book.entries if not entry.fields.get("excludeRecursion")]
    if recursive and len(book.entries) > 1:
        lines.append("recursion: the text of one memory does not fire another")
    return lines


def _varies(book: Book, name: str) -> bool:
    plain = {"order": 100, "position": 0, "depth": 4, "role": 0, "outletName": ""}[name]
    values = (entry.fields.get(name) for entry in book.entries)
    return any(value not in (None, plain, "before_char") for value in values)
