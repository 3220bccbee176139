"""Entries of lorebooks as long-term memories with a readable trigger and the rules of their book, and a sentence for
each part that is lost.

Sources: facts of SillyTavern's public/scripts/world-info.js, and what its extensions put into entries (templates).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import Any

from languages import N_, Sentence, _
from memory_server.conversations.model import MAX_PROMPT_CHARS
from memory_server.interchange.incoming import Incoming, IncomingBook, Loss
from memory_server.interchange.lorebooks import Book, LoreEntry, is_placed, placement_of
from memory_server.kernel.messages import MAX_NAME_CHARS, NOTHING
from memory_server.kernel.values import frozen
from memory_server.lore import (
    ANYBODY,
    NAMED,
    SCANNED,
    USUAL_PRECEDENCE,
    BookEntry,
    CountedKeys,
    EntryKeys,
    FiringRules,
    GroupRules,
    KeyCondition,
    LongTermMemory,
    filled_key,
    imported_fingerprint,
    macro_name,
    plain_pattern,
    trigger_of,
    unfilled,
    unfilled_keys,
    with_names,
)
from sandbox import (
    MOST_GROUP_CHARS,
    MOST_GROUPS,
    MOST_MESSAGES,
    MOST_NUMBER,
    spelled_in_two_ways,
)

# --- keys --------------------------------------------------------------------------------------------------------

# The keys of a lore entry of another program as data (lore/entry_keys.py).
#
# Sources: facts of SillyTavern's public/scripts/world-info.js. SillyTavern looks for keys in the last `scanDepth`
# messages joined together, the newest first, each behind a mark and the name of its speaker. A key `/re/flags` is an
# expression, which may reach over several messages; otherwise upper case counts only if that is set. With whole
# words, a single word must stand between characters that are not ASCII word characters; several words are a
# substring. An empty key is never found, a key of blanks always.

SILLYTAVERN_DEPTH = 2
"""Messages that SillyTavern scans unless its user says otherwise (world_info_depth)."""
_DOTTED_I = re.compile("İ|i\u0307")
"""What is the same in lower case, though it is one character and two: expressions do not know it."""
_EXPRESSION = re.compile(r"/(?P<body>[\s\S]+?)/(?P<flags>[gimsuy]*)")
_OPEN_SLASH = re.compile(r"(^|[^\\])/")
_SYNTAX = re.compile(r"[\\^$.*+?()\[\]{}|/]")


@frozen
class Defaults:
    """What holds for an entry that does not say it: the settings of its owner's SillyTavern. `names`: the meanings of
    `char` and `user`. `recursion`: the texts of a book that came are searched too, in `most_rounds` rounds with the
    round of the messages; 0 for no bound. `speakers`: the names of speakers are part of what is searched.
    `group_scoring`: in groups, the number of keys counts."""

    depth: int | None = None
    whole_words: bool = True
    case_sensitive: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    recursion: bool = True
    speakers: bool = True
    group_scoring: bool = False
    most_rounds: int = 0

    def named(self, text: str, spelled: Callable[[str], str] = str) -> str:
        """Return the text with the names in place of their macros, if they are known; each name as `spelled` has it."""
        return with_names(text, self.names, spelled)

    def key(self, key: str, spelled: Callable[[str], str] = str) -> str:
        """Return a key with its macros filled. A key of blanks becomes a single blank, which SillyTavern finds in
        every text."""
        filled = filled_key(key, self.names, spelled)
        return filled.strip() or filled[:1]


@frozen
class Expression:
    """A key with the form of an expression: its body and its flags."""

    body: str
    flags: str

    @property
    def text(self) -> str:
        """The expression as the key has it."""
        return f"/{self.body}/{self.flags}"

    @property
    def literal(self) -> str:
        """The expression as a literal of JavaScript, in a single line, which looks for only one match. With the flag
        y it must be at the beginning, as there."""
        line = self.body.replace("\r", r"\r").replace("\n", r"\n")
        flags = self.flags.replace("g", "")
        return f"/{line}/{flags}"


def expressions(book: Book, defaults: Defaults = Defaults()) -> list[str]:
    """Return the keys with the form of an expression. `KeyWriter` must be told which of them V8 does not compile."""
    texts: list[str] = []
    for entry in book.entries:
        for key in keys_of(entry):
            expression = _parsed(key, entry, defaults)
            if expression is not None:
                texts.append(expression.text)
    return texts


def keys_of(entry: LoreEntry) -> Iterator[str]:
    """Yield all keys of an entry."""
    yield from entry.keys
    yield from entry.secondary
    for condition in entry.conditions:
        yield from condition.keys


def _parsed(key: str, entry: LoreEntry, defaults: Defaults) -> Expression | None:
    """Return a key as an expression, or None if it is plain text."""
    match = _EXPRESSION.fullmatch(defaults.key(key, _without_syntax))
    if match is not None and not _OPEN_SLASH.search(match["body"]):
        return Expression(match["body"], match["flags"])
    if not entry.all_regex or not key.strip():
        return None
    return Expression(key.replace("/", r"\/"), "")


def _without_syntax(name: str) -> str:
    """Write a name as an expression that looks for just this name."""
    return _SYNTAX.sub(r"\\\g<0>", name)


@frozen
class EntryKeyReader:
    """How the keys of `entry` are read, which are sought in the last `depth` messages. `invalid`: expressions that V8
    does not compile. `is_counted`: the number of its keys decides a group."""

    entry: LoreEntry
    depth: int
    defaults: Defaults
    invalid: Collection[str]
    is_counted: bool

    def keys(self, heading: str) -> EntryKeys:
        """Return the keys of the entry as data; `heading` is the first line of its trigger."""
        entry = self.entry
        scope = NAMED if self.defaults.speakers else ANYBODY
        # An expression is looked for in one text of all messages, as in SillyTavern.
        if any(self._valid_expression(key) for key in keys_of(entry)):
            scope = SCANNED[scope]

        # An entry without keys that is not constant came by vectors there.
        is_by_words = not entry.constant and not entry.keys
        conditions: list[KeyCondition] = []
        if entry.keys and not entry.constant:
            named_fields = (
                KeyCondition(entry.keys, "AND_ANY"),
                KeyCondition(entry.secondary, entry.logic),
                *entry.conditions,
            )
            conditions += [
                self._condition(condition) for condition in named_fields if condition.keys
            ]

        return EntryKeys(
            heading=heading,
            conditions=tuple(conditions),
            scope=scope,
            depth=self.depth,
            expressions=self._expressions(),
            is_exact=self._is_exact,
            is_whole=self._is_whole,
            every=entry.every,
            is_by_words=is_by_words,
            counted=self._counted() if self.is_counted else None,
        )

    def lost(self) -> Iterator[Sentence]:
        """Say which keys only look like an expression."""
        for key in keys_of(self.entry):
            is_expression = _parsed(key, self.entry, self.defaults) is not None
            if is_expression and self._valid_expression(key) is None:
                yield Sentence(
                    "key {key}: not a valid expression; it is looked for as plain text, as SillyTavern does",
                    key,
                )

    @property
    def _is_exact(self) -> bool:
        is_exact = self.entry.case_sensitive
        return self.defaults.case_sensitive if is_exact is None else is_exact

    @property
    def _is_whole(self) -> bool:
        is_whole = self.entry.whole_words
        return self.defaults.whole_words if is_whole is None else is_whole

    def _condition(self, condition: KeyCondition) -> KeyCondition:
        return KeyCondition(self._keys(condition.keys), condition.logic)

    def _counted(self) -> CountedKeys:
        entry = self.entry
        secondary = entry.scored_secondary if entry.logic.startswith("AND") else ()
        return CountedKeys(self._keys(entry.keys), self._keys(secondary), entry.logic)

    def _keys(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self._key, keys))

    def _key(self, key: str) -> str:
        """Return a key as it is kept: an expression as its literal, a text with its macros filled."""
        return self._expression_of(key) or self.defaults.key(key)

    def _expressions(self) -> tuple[str, ...]:
        """Return the keys that are expressions, as they are kept."""
        keys = list(keys_of(self.entry))
        if self.is_counted:
            keys += self.entry.scored_secondary
        return tuple(dict.fromkeys(filter(None, map(self._expression_of, keys))))

    def _expression_of(self, key: str) -> str | None:
        """Return the literal of a key that V8 has to look for, or None if the key is text. A text with a dotted I
        that is not compared exactly is looked for in both of its forms, so it needs V8 too."""
        expression = self._valid_expression(key)
        if expression is not None:
            return expression.literal
        text = self.defaults.key(key)
        if self._is_exact or _DOTTED_I.search(text) is None:
            return None
        pattern = plain_pattern(text, is_exact=False, is_whole=self._is_whole)
        literal = replace(pattern, text=_DOTTED_I.sub("İ", text)).literal
        return literal.replace("İ", "(?:İ|i\u0307)")

    def _valid_expression(self, key: str) -> Expression | None:
        """Return a key as an expression that V8 compiles, or None if it is looked for as plain text."""
        expression = _parsed(key, self.entry, self.defaults)
        if expression is None or expression.text in self.invalid:
            return None
        return expression


# --- memories ----------------------------------------------------------------------------------------------------

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


@frozen
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
    """Read the entries of a lorebook as memories, and report broken entries and what is lost of the
    book."""
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
        """Prepare to read the entries of a book: find its name and id, titles that several entries
        have, and the groups that the number of keys decides."""
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
        """Return the book with the memories of all entries that can be used; the others are
        reported as skipped."""
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
        """Yield the memory of an entry, or one for each part of a text that is too long. Yield
        none, and report the reason, if it cannot be used or split; report also what is lost of
        it."""
        title = self._defaults.named(entry.title)
        name_in_report = (
            _("{title} (entry {uid})", title, entry.uid) if self._titles[title] > 1 else title
        )
        # Templates are code of an extension.
        content = _TEMPLATE.sub("", self._defaults.named(entry.content))
        depth = self._depth_of(entry)
        reason = _why_not(entry, content, depth)
        if reason is not None:
            self._incoming.skipped.append((name_in_report, reason))
            return

        reading = EntryKeyReader(
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
        """Make the memory of an entry, or of a part of it, as an entry of its book. It is off if
        the book is off, and its notes say what is `lost`."""
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
        """Return the rules of an entry, with each number moved to the bounds within which it can be
        stored."""
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
            names=tuple(name[:MOST_GROUP_CHARS] for name in names),
            weight=min(max(0.0, entry.group.weight), MOST_NUMBER),
            overrides=entry.group.overrides,
            is_scored=self._is_scored(entry),
        )


def _messages(number: int) -> int:
    """Limit a number of messages to what a rule may have: a larger number could not be read again from disk."""
    return min(max(0, number), MOST_MESSAGES)


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
    """Yield a sentence for each part of an entry that has no meaning here."""
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
    """Yield a sentence for each macro in the content and the keys of an entry that stays as it is."""
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
    """Join the pieces into as few parts as may be stored. No part begins with a blank piece."""
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
