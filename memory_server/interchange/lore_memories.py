"""Entries of lorebooks as long-term memories with a readable trigger and the rules of their book, and a sentence for
each part that is lost.

Sources: facts of SillyTavern's public/scripts/world-info.js, and what its extensions put into entries (templates).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from languages import N_, Sentence, _
from memory_server.conversations.model import MAX_PROMPT_CHARS
from memory_server.interchange.incoming import Incoming, IncomingBook, Loss
from memory_server.interchange.lore_keys import SILLYTAVERN_DEPTH, Defaults, EntryReading, keys_of
from memory_server.interchange.lorebooks import Book, LoreEntry, is_placed, placement_of
from memory_server.kernel.messages import MAX_NAME_CHARS, NOTHING
from memory_server.kernel.values import dataclass
from memory_server.lore import (
    MOST_GROUPS,
    MOST_MESSAGES,
    MOST_NUMBER,
    MOST_RULE_CHARS,
    USUAL_PRECEDENCE,
    BookEntry,
    EntryKeys,
    FiringRules,
    GroupRules,
    LongTermMemory,
    imported_fingerprint,
    macro_name,
    trigger_of,
    unfilled,
    unfilled_keys,
)
from sandbox import spelled_in_two_ways

_TEMPLATE = re.compile(r"<%(?:(?!<%)[\s\S])*?%>")
"""A template of an extension of SillyTavern (EJS), which is code."""
_VARIABLE = re.compile(r"\{\{(?:set|add|inc|dec)(?:global)?var[^{}]*\}\}", re.IGNORECASE)
_NORMAL = "normal"
"""The type of generation that answers a message."""
_PLACED = N_(
    "position, depth and role: the text comes in one block; hosts that place texts themselves get them as data"
)
_SPELLINGS = N_(
    "the difference between Traditional and Simplified, full-width and plain characters: a key that is text is found "
    "in all"
)


@dataclass(frozen=True, slots=True)
class BookSource:
    """Where a book comes from, and how it is read. `file`: the name of its file; `conversation_id`: where it goes;
    `invalid`: expressions that V8 does not compile; `name`: its name here, "" for its own name.
    `precedence`: the precedence of its entries among entries of other books."""

    file: str
    conversation_id: str
    defaults: Defaults
    invalid: Collection[str] = ()
    name: str = ""
    precedence: int = USUAL_PRECEDENCE


def read(book: Book, source: BookSource) -> Incoming:
    """Read the entries of a lorebook into an incoming book."""
    incoming = Incoming()
    incoming_book = _Reader(book, source, incoming).book()
    incoming.books.append(incoming_book)
    incoming.skipped += [
        (_("entry {uid}", uid), _("it cannot be read: {fault}", fault))
        for uid, fault in book.broken
    ]
    if any(map(is_placed, book.entries)):
        incoming.losses.append(Loss(_(_PLACED), incoming_book.name))

    if book.unread:
        card = _("{name} ({fields})", incoming_book.name, ", ".join(book.unread))
        incoming.losses.append(
            Loss(_("other fields of a card: its client puts these into the prompt"), card)
        )

    all_keys = chain.from_iterable(map(keys_of, book.entries))
    if any(map(spelled_in_two_ways, all_keys)):
        incoming.losses.append(Loss(_(_SPELLINGS), incoming_book.name))

    return incoming


def book_id_of(name: str, file: str) -> str:
    """Make the id of a book without an id: the same for the same name and file."""
    return hashlib.blake2b(f"{name}\0{file}".encode(errors="replace"), digest_size=8).hexdigest()


class _Reader:
    """Reads the entries of a book."""

    def __init__(self, book: Book, source: BookSource, incoming: Incoming) -> None:
        self._book = book
        self._source = source
        self._defaults = source.defaults
        self._incoming = incoming
        stem = source.file.rpartition(".")[0] or source.file
        name = source.name or book.name or book.character or stem
        self._name = name[:MAX_NAME_CHARS]  # each entry has the name of its book
        self._book_id = book_id_of(name, source.file)
        self._titles = Counter(self._defaults.named(entry.title) for entry in book.entries)
        self._scored_groups: set[str] = set()
        for entry in book.entries:
            if self._is_scored(entry):
                self._scored_groups.update(entry.group.names)

    def book(self) -> IncomingBook:
        """Return the book with the memories of all entries that come."""
        memories: list[LongTermMemory] = []
        for entry in self._book.entries:
            memories += self._memories_of(entry)
        return IncomingBook(
            conversation_id=self._source.conversation_id,
            book_id=self._book_id,
            name=self._name,
            source=self._source.file,
            memories=tuple(memories),
            is_on=self._book.is_on,
            entries=len(self._book.entries) + len(self._book.broken),
            is_update=bool(self._source.name),
        )

    def _memories_of(self, entry: LoreEntry) -> Iterator[LongTermMemory]:
        title = self._defaults.named(entry.title)
        name_in_report = (
            _("{title} (entry {uid})", title, entry.uid) if self._titles[title] > 1 else title
        )
        content = _without_code(self._defaults.named(entry.content))
        depth = self._depth_of(entry)
        reason = _why_not(entry, content, depth)
        if reason is not None:
            self._incoming.skipped.append((name_in_report, reason))
            return

        reading = EntryReading(
            entry, depth, self._defaults, self._source.invalid, is_counted=self._is_counted(entry)
        )
        keys = reading.keys(f"World info entry {entry.uid}: {title}")
        rules = self._rules_of(entry)
        lost = [*reading.lost(), *_lost(entry, self._defaults)]
        parts = _parts(content)
        # The parts of an entry would exclude each other if they were in a group.
        if parts is None or (len(parts) > 1 and rules.group.names):
            where = _place_to_split(content)
            self._incoming.skipped.append(
                (name_in_report, _("it is too long: split it at character {where:,}", where))
            )
            return

        self._incoming.losses += [
            Loss(str(sentence), name_in_report) for sentence in dict.fromkeys(lost)
        ]
        # The part is a memory of its own, under a name and uid that say so.
        for number, part in enumerate(parts, 1):
            name = title
            uid = entry.uid
            if len(parts) > 1:
                name = f"{title} ({number}/{len(parts)})"
                uid = f"{entry.uid}/{number}"
            yield self._memory(
                entry, name=name, uid=uid, prompt=part, keys=keys, rules=rules, lost=lost
            )

    def _memory(
        self,
        entry: LoreEntry,
        *,
        name: str,
        uid: str,
        prompt: str,
        keys: EntryKeys,
        rules: FiringRules,
        lost: Sequence[Sentence],
    ) -> LongTermMemory:
        extra: Mapping[str, Any] = NOTHING
        if lost:
            extra = {"notes": [sentence.english for sentence in dict.fromkeys(lost)]}

        # The time is not known: lorebooks do not say when an entry was written.
        memory = LongTermMemory(
            name=name,
            prompt=prompt,
            trigger=trigger_of(keys),
            created_ms=0,
            created_context=f"{self._source.file}, entry {uid}",
            rules=replace(rules, is_off=not self._book.is_on),
            keys=keys,
            extra=extra,
        )
        book = BookEntry(
            book_id=self._book_id,
            book_name=self._name,
            source=self._source.file,
            uid=uid,
            # A later import compares with this, so that it does not replace what the user changed here.
            imported=imported_fingerprint(memory),
            imported_off=not self._book.is_on,
            placement=placement_of(entry) or NOTHING,
        )
        return replace(memory, book=book)

    def _is_counted(self, entry: LoreEntry) -> bool:
        """Tell whether the keys of an entry count for a group that it is in."""
        return bool(entry.keys) and not self._scored_groups.isdisjoint(entry.group.names)

    def _is_scored(self, entry: LoreEntry) -> bool:
        """Tell whether the number of keys decides the groups of an entry."""
        is_left_out = entry.fields.get("useGroupScoring") is False
        return entry.group.is_scored or (self._defaults.group_scoring and not is_left_out)

    def _depth_of(self, entry: LoreEntry) -> int:
        depths = (entry.depth, self._defaults.depth, self._book.depth, SILLYTAVERN_DEPTH)
        return next(depth for depth in depths if depth is not None)

    def _rules_of(self, entry: LoreEntry) -> FiringRules:
        recursion = replace(
            entry.recursion,
            is_on=self._defaults.recursion,
            level=_messages(entry.recursion.level),
            most_rounds=_messages(self._defaults.most_rounds),
        )
        return FiringRules(
            # Numbers outside of the bounds could not be read again from disk.
            order=min(max(-MOST_NUMBER, entry.order), MOST_NUMBER),
            precedence=self._source.precedence,
            group=self._group_of(entry),
            probability=min(100.0, max(0.0, entry.probability or 0.0)),
            sticky=MOST_MESSAGES if entry.stays else _messages(entry.sticky),
            cooldown=_messages(entry.cooldown),
            delay=_messages(entry.delay),
            once=entry.once,
            ignores_budget=entry.ignores_budget,
            recursion=recursion,
            characters=entry.characters,
            by_words=entry.vectorized and not entry.constant,
        )

    def _group_of(self, entry: LoreEntry) -> GroupRules:
        """Return the groups of an entry within the bounds of rules."""
        if not entry.group.names:
            return GroupRules()
        names = entry.group.names[:MOST_GROUPS]
        return GroupRules(
            names=tuple(name[:MOST_RULE_CHARS] for name in names),
            weight=min(max(0.0, entry.group.weight), MOST_NUMBER),
            overrides=entry.group.overrides,
            is_scored=self._is_scored(entry),
        )


def _messages(number: int) -> int:
    """Limit a number of messages to what a rule may have: a larger number could not be read again from disk."""
    return min(max(0, number), MOST_MESSAGES)


def _without_code(content: str) -> str:
    """Return the content without templates, which are code of an extension."""
    if "<%" not in content:
        return content
    return _TEMPLATE.sub("", content)


def _why_not(entry: LoreEntry, content: str, depth: int) -> str | None:
    """Say why an entry is left out. Return None if it is not."""
    if entry.is_forbidden:
        return _("@@dont_activate keeps it from ever firing")
    if not entry.enabled:
        return _("it is disabled")
    if not entry.content.strip():
        return _("it has no content")
    if not _VARIABLE.sub("", content).strip():
        return _("it consists of code for its client")
    if entry.outlet:
        return _("it is only for an outlet, into which a template of its client puts it")

    # A recall is made for an answer, so other types never come.
    types = _generation_types(entry)
    if types and _NORMAL not in types:
        return _(
            "it is only for other types of generation than an answer: {types}", ", ".join(types)
        )

    if entry.probability is None:
        return _("it has a probability without a number, so it never comes there either")
    if entry.probability <= 0:
        return _("its probability is 0")
    if not entry.constant and not entry.keys and not entry.vectorized:
        return _("it has no keys, so it never comes by itself there either, such as a heading")
    if not entry.constant and entry.keys and depth < 1:
        return _("scanDepth {depth} looks at no message", depth)

    return None


def _generation_types(entry: LoreEntry) -> list[str]:
    types = entry.fields.get("triggers")
    if not isinstance(types, list):
        return []
    return [kind for kind in types if isinstance(kind, str)]


def _lost(entry: LoreEntry, defaults: Defaults) -> Iterator[Sentence]:
    """Say what of an entry has no meaning here."""
    for line in entry.unknown_decorators:
        yield Sentence("{unused}: has no meaning here", line.split()[0])
    if entry.character_tags:
        yield Sentence("the filter by tags: no tag of a character is known here")
    if entry.fields.get("automationId"):
        yield Sentence("{unused}: has no meaning here", "automationId")
    if _generation_types(entry):
        yield Sentence("types of generation: a recall does not know why an answer is made")
    if _looks_in_descriptions(entry):
        yield Sentence("keys are not looked for in descriptions of characters and personas")
    if "<%" in entry.content:
        yield Sentence("templates (<% … %>) are code of an extension, and are not imported")
    yield from _lost_macros(entry, defaults)


def _looks_in_descriptions(entry: LoreEntry) -> bool:
    """Tell whether a field such as `matchPersonaDescription` is set."""
    places = [
        name for name in entry.fields if name.startswith("match") and name != "matchWholeWords"
    ]
    return any(entry.fields[name] for name in places)


def _lost_macros(entry: LoreEntry, defaults: Defaults) -> Iterator[Sentence]:
    for macro in unfilled([entry.content]):
        yield Sentence("{macro}: stays as it is; nothing replaces it here", _kind_of(macro))
    for macro in unfilled_keys(map(defaults.key, keys_of(entry))):
        name = macro.strip("{}").lower()
        advice = (
            f"give --{name} NAME"
            if name in ("char", "user")
            else Sentence("nothing replaces it here")
        )
        yield Sentence("{macro} in a key: stays as it is; {advice}", _kind_of(macro), advice)


def _kind_of(macro: str) -> str:
    """Return the name of a macro: macros with other arguments are of the same kind."""
    return f"{{{{{macro_name(macro)}}}}}"


def _parts(content: str) -> list[str] | None:
    """Cut the content into as few parts as may be stored, at paragraphs, or else at lines. Return None if a line
    alone is too long."""
    if len(content) <= MAX_PROMPT_CHARS:
        return [content]
    for separator in ("\n\n", "\n"):
        pieces = content.split(separator)
        if max(map(len, pieces)) <= MAX_PROMPT_CHARS:
            return _joined(pieces, separator)
    return None


def _joined(pieces: Iterable[str], separator: str) -> list[str]:
    parts: list[str] = []
    for piece in pieces:
        if parts and len(parts[-1]) + len(separator) + len(piece) <= MAX_PROMPT_CHARS:
            parts[-1] += separator + piece
        elif piece.strip():
            parts.append(piece)
    return parts


def _place_to_split(content: str) -> int:
    """Return the character at which to split what is too long: the end of the last line before the bound."""
    end = content.rfind("\n", 0, MAX_PROMPT_CHARS)
    if end <= 0:
        return MAX_PROMPT_CHARS
    return end
