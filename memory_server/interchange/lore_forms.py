"""Lorebooks of programs that have a form of their own: NovelAI, Agnai, RisuAI, KoboldAI, AI Dungeon and AstrBot. Each
becomes entries with the names of world info, which lorebooks.py reads.

Sources: facts of SillyTavern's importers (public/scripts/world-info.js: convertNovelLorebook, convertAgnaiMemoryBook,
convertRisuLorebook), of RisuAI's lorebook.svelte.ts, and of public files of each program. What a form has more than
world info is counted and named, and not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from languages import N_, _
from memory_server.interchange import lore_astrbot
from memory_server.interchange.incoming import WRONG_VALUE, fields_of, line_of, list_of
from memory_server.interchange.lore_astrbot import (
    ConvertedLorebook,
    LoreRow,
    RowFault,
    expression_of_all,
    is_given,
)
from memory_server.kernel.json_text import Fields, objects_in
from memory_server.kernel.values import frozen
from sandbox import WRONG_VALUES


@frozen
class _Form:
    """A form of a program. `find`: the part of the value of a file that is a lorebook of this form, or None. `read`
    takes this part and the whole value."""

    program: str
    find: Callable[[Any], Any]
    read: Callable[[Any, Any], ConvertedLorebook]


def converted(value: Any) -> ConvertedLorebook | None:
    """Return the lorebook in the value of a file, with rows of world info. Return None if no other program has such a
    form."""
    for form in _FORMS:
        book = form.find(value)
        if book is not None:
            return replace(form.read(book, value), program=form.program)
    return None


def is_of_another_program(value: Any) -> bool:
    """Tell whether a value has the form of another program."""
    return any(form.find(value) is not None for form in _FORMS)


def _book(
    values: Iterable[Any],
    row_of: Callable[[Fields], LoreRow | None],
    name: Any = "",
    lost: tuple[str, ...] = (),
) -> ConvertedLorebook:
    """Return what `row_of` makes of each entry. An entry for which it gives None is only a heading. The first entry
    with an id has it as its uid; a later one gets its position behind it. Without an id, the position is the uid."""
    rows: list[LoreRow] = []
    broken: list[tuple[str, str]] = []
    uids: set[str] = set()
    for position, entry in enumerate(values):
        uid = str(position)
        if isinstance(entry, dict):
            uid = str(entry.get("id") or entry.get("uid") or position)
        # Two entries with the same id would be a single memory.
        if uid in uids:
            uid = f"{uid}#{position}"

        uids.add(uid)
        if not isinstance(entry, dict):
            broken.append((uid, _("it is not an object")))
            continue

        try:
            row = row_of(entry)
        except RowFault as fault:
            broken.append((uid, str(fault)))
            continue
        except WRONG_VALUES:
            broken.append((uid, _(WRONG_VALUE)))
            continue

        if row is not None:
            rows.append({"uid": uid} | row)

    return ConvertedLorebook(tuple(rows), tuple(broken), name=line_of(name), lost=lost)


def _list_in(value: Any, name: str, **marks: str) -> list[Any] | None:
    """Return the list of this name in an object that has these fields. Return None for any other value."""
    if not isinstance(value, dict) or not isinstance(value.get(name), list):
        return None
    entries: list[Any] = value[name]
    if marks.items() <= value.items():
        return entries
    return None


def _counted(values: list[Any], fields: Mapping[str, str]) -> tuple[str, ...]:
    """Say how many entries have each of these fields set, in the words beside its name."""
    entries = objects_in(values)
    lines: list[str] = []
    for field, description in fields.items():
        count = sum(is_given(entry.get(field)) for entry in entries)
        if count:
            lines.append(_("{what}: {count:,}", _(description), count))
    return tuple(lines)


# NovelAI

_NOVELAI_LOST = {
    "advancedConditions": N_("entries with further conditions (advancedConditions)"),
    "loreBiasGroups": N_("entries that make phrases more or less likely (loreBiasGroups)"),
}
_CONJUNCTION = re.compile(r"\s&\s")


def _novelai_book(value: Any) -> Fields | None:
    """Find the lorebook in a file of NovelAI: alone, or in a story or a scenario. Return None if
    there is none."""
    if not isinstance(value, dict):
        return None
    for book in (value, value.get("lorebook"), fields_of(value.get("content")).get("lorebook")):
        if (
            isinstance(book, dict)
            and "lorebookVersion" in book
            and isinstance(book.get("entries"), list)
        ):
            return book
    return None


def _read_novelai(book: Fields, value: Fields) -> ConvertedLorebook:
    """Convert a lorebook of NovelAI. An entry is off if its category is. `value`: the whole file,
    which may be a story; that is named as lost."""
    # An entry of a category that is off is off too.
    categories = map(fields_of, list_of(book.get("categories")))
    disabled_categories = [
        category.get("id") for category in categories if category.get("enabled") is False
    ]

    def row_of(entry: Fields) -> LoreRow:
        is_enabled = entry.get("enabled", True) and entry.get("category") not in disabled_categories
        return {
            "key": [_novelai_key(str(key)) for key in list_of(entry.get("keys"))],
            "comment": line_of(entry.get("displayName")),
            "content": str(entry.get("text") or ""),
            "constant": bool(entry.get("forceActivation")),
            "order": fields_of(entry.get("contextConfig")).get("budgetPriority"),
            "disable": not is_enabled,
        }

    entries = list_of(book.get("entries"))
    title = value.get("title") or fields_of(value.get("metadata")).get("title")
    lost = _counted(entries, _NOVELAI_LOST)
    if book is not value:
        lost = (*lost, _STORY)

    return _book(entries, row_of, title, lost)


def _novelai_key(key: str) -> str:
    """Return a key as world info has it; `a & b` wants both, which is an expression."""
    if key.startswith("/"):
        return key
    parts = [part.strip() for part in _CONJUNCTION.split(key)]
    required = [part for part in parts if part]
    if len(required) < 2:
        return key
    return expression_of_all(required, ignores_case=True)


# Agnai


def _read_agnai(entries: list[Any], value: Fields) -> ConvertedLorebook:
    """Convert a memory book of Agnai. Its priorities are named as lost if they differ."""

    def row_of(entry: Fields) -> LoreRow:
        return {
            "key": [str(key) for key in list_of(entry.get("keywords"))],
            "comment": line_of(entry.get("name")),
            "content": str(entry.get("entry") or ""),
            "order": entry.get("weight"),
            "disable": not entry.get("enabled", True),
        }

    priorities = {str(entry.get("priority")) for entry in objects_in(entries)}
    lost: tuple[str, ...] = ()
    if len(priorities) > 1:
        lost = (_("which entries come first where there is no room for all (priority)"),)
    return _book(entries, row_of, value.get("name"), lost)


# RisuAI

_RISU_MODULE_LOST = {
    "regex": N_("scripts that change texts (regex)"),
    "trigger": N_("programs of the module (trigger)"),
    "triggerscript": N_("programs of the module (triggerscript)"),
    "cjs": N_("programs of the module (cjs)"),
    "assets": N_("pictures and other files of the module"),
}


def _risu_module(value: Any) -> Fields | None:
    """Return a module of RisuAI, also as the bare object that editors write. Return None if it is
    another value."""
    if not isinstance(value, dict):
        return None
    if value.get("type") == "risuModule":
        return fields_of(value.get("module"))
    is_bare = isinstance(value.get("lorebook"), list) and isinstance(value.get("name"), str)
    if not is_bare or "entries" in value:
        return None
    return value


def _risu_row(entry: Fields) -> LoreRow | None:
    """Return an entry of RisuAI as a row of world info, or None for a folder. Raises RowFault if it
    is a copy of another entry."""
    if entry.get("mode") == "folder":
        return None
    if entry.get("mode") == "child":
        raise RowFault(_("it is a copy of another entry for a second place"))
    extensions = fields_of(entry.get("extentions", entry.get("extensions")))  # RisuAI spells it so
    return {
        "key": entry.get("key"),
        "keysecondary": entry.get("secondkey"),
        "selective": bool(entry.get("selective")),
        "comment": line_of(entry.get("comment")),
        "content": str(entry.get("content") or ""),
        "constant": bool(entry.get("alwaysActive")) or entry.get("mode") == "constant",
        "order": entry.get("insertorder", entry.get("order")),
        "probability": entry.get("activationPercent"),
        "use_regex": bool(entry.get("useRegex")),
        "caseSensitive": extensions.get("risu_case_sensitive"),
    }


def _read_risu_module(module: Fields, _value: Any) -> ConvertedLorebook:
    lost = tuple(loss for field, loss in _RISU_MODULE_LOST.items() if is_given(module.get(field)))
    return _book(list_of(module.get("lorebook")), _risu_row, module.get("name"), lost)


# KoboldAI

_STORY = N_("the text of the story: it is not a chat of messages")


def _read_kobold(entries: list[Any], value: Fields) -> ConvertedLorebook:
    """Convert the world info of KoboldAI; an entry without keys and text is left out. The story,
    its memory and its author's note are named as lost."""

    def row_of(entry: Fields) -> LoreRow | None:
        if not is_given(entry.get("key")) and not is_given(entry.get("content")):
            return None
        return {
            "key": entry.get("key"),
            "keysecondary": entry.get("keysecondary"),
            "excludedKeys": entry.get("keyanti"),
            "selective": bool(entry.get("selective")),
            "comment": line_of(entry.get("comment")),
            "content": str(entry.get("content") or ""),
            "constant": bool(entry.get("constant")),
            "probability": entry.get("probability"),
            "disable": bool(entry.get("widisabled")),
        }

    # A file of KoboldAI is a whole story, of which only the world info is a lorebook.
    lost: list[str] = []
    if is_given(value.get("prompt")) or is_given(value.get("actions")):
        lost.append(_STORY)

    if is_given(value.get("memory")) or is_given(value.get("authorsnote")):
        lost.append(
            _("memory and author's note of the story, which its client puts into the prompt")
        )

    return _book(entries, row_of, lost=tuple(lost))


# AI Dungeon

_CARDS = ("storyCards", "worldInfo")


def _story_cards(value: Any) -> list[Any] | None:
    """Return the story cards (world info, as they were called before) of AI Dungeon: a list of them
    alone, or in an adventure or a scenario. Return None if none exist."""
    if isinstance(value, list):
        if _are_story_cards(value):
            return value
        return None
    if not isinstance(value, dict):
        return None
    for holder in (value, fields_of(value.get("data"))):
        for name in _CARDS:
            cards = holder.get(name)
            if _are_story_cards(cards):
                return list_of(cards)
    return None


def _are_story_cards(value: Any) -> bool:
    """Tell whether a value is a list with a story card in it."""
    cards = objects_in(list_of(value))
    return any(
        isinstance(card.get("keys"), str) and ("value" in card or "entry" in card) for card in cards
    )


def _read_ai_dungeon(cards: list[Any], value: Any) -> ConvertedLorebook:
    """Convert the story cards of AI Dungeon. If `value` is an object, it is a whole story, which is
    named as lost."""

    def row_of(card: Fields) -> LoreRow:
        keys = str(card.get("keys") or "").split(",")
        return {
            "key": [key.strip() for key in keys],
            "comment": line_of(card.get("title") or card.get("name")),
            "content": str(card.get("value") or card.get("entry") or ""),
            # Keys match inside of words there. An author who does not want that writes a blank behind a key.
            "matchWholeWords": any(key.endswith(" ") for key in keys),
        }

    if isinstance(value, dict):
        return _book(cards, row_of, value.get("title"), (_STORY,))
    return _book(cards, row_of)


_FORMS = (
    _Form("NovelAI", _novelai_book, _read_novelai),
    _Form("Agnai", partial(_list_in, name="entries", kind="memory"), _read_agnai),
    _Form(
        "RisuAI",
        partial(_list_in, name="data", type="risu"),
        lambda entries, _value: _book(entries, _risu_row),
    ),
    _Form("RisuAI", _risu_module, _read_risu_module),
    _Form("KoboldAI", partial(_list_in, name="worldinfo"), _read_kobold),
    _Form("AI Dungeon", _story_cards, _read_ai_dungeon),
    _Form("AstrBot", lore_astrbot.triggers_in, lore_astrbot.read),
)
