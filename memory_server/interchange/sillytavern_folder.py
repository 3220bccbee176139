"""A folder of SillyTavern, read as a whole: the chats of each conversation, and its books, on where they are on
there. Pure.

A chat belongs to the conversation of its character, the chat of a group to the conversation of the group. A book that
is on everywhere belongs to the conversation that all others share; the book of a character, a chat or a persona to
theirs, so a book may be in several. A book that is on nowhere is off. Of a card with a book of its own and a world
that it names, SillyTavern uses the world: so does this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import PurePosixPath

from languages import _, counted
from memory_server.conversations.model import conversation_id_of
from memory_server.interchange import lorebooks, sillytavern_parts
from memory_server.interchange.incoming import WRONG_VALUE, NotThisFormat
from memory_server.interchange.lorebooks import Book
from memory_server.interchange.sillytavern_parts import (
    Card,
    ChatHead,
    Group,
    Owner,
    Part,
    ProfileSettings,
    UserSettings,
)
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import dataclass, frozen
from sandbox import WRONG_VALUES


@frozen
class PlacedBook:
    """A book in a conversation. `source` is the path of its file; `character` is its owner, "" without an owner;
    `owner` says for whom it is on."""

    conversation_id: str
    book: Book
    source: str
    character: str = ""
    owner: Owner = "all"


@frozen
class _WorldScope:
    """For whom a world is on in a conversation, and the character of that conversation, "" if it has none."""

    owner: Owner = "all"
    character: str = ""


@frozen
class PlacedChat:
    """A chat in a conversation. `path` is the path of its file."""

    conversation_id: str
    path: str
    data: bytes


@frozen
class Counts:
    """How many files of each kind the folder has, and what is in its books. A book in several conversations counts
    once."""

    chats: int = 0
    group_chats: int = 0
    groups: int = 0
    characters: int = 0
    books: int = 0
    entries: int = 0
    books_on: int = 0


@frozen
class Profile:
    """What one user of SillyTavern has. `user`: their name, "" if it is not known. `faults`: path and reason of each
    file that cannot be read. `replaced`: characters whose own book gives way to the world that they name; `missing`:
    worlds that something names, and that are not in the folder."""

    books: tuple[PlacedBook, ...] = ()
    chats: tuple[PlacedChat, ...] = ()
    counts: Counts = Counts()
    settings: ProfileSettings = field(default_factory=ProfileSettings)
    user: str = ""
    faults: tuple[tuple[str, str], ...] = ()
    replaced: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The names of the files that have a book, or could have one: worlds and cards."""
    says_what_is_on: bool = False
    """Whether the settings are there, which name the books that are on everywhere."""

    @property
    def is_empty(self) -> bool:
        """Whether there are only files with names of SillyTavern, and nothing of it."""
        return not (self.chats or self.books or self.counts.characters)

    def summary(self) -> str:
        """Say what is in the folder, in one sentence."""
        counts = self.counts
        return _(
            "{chats}, {group_chats} of groups, {characters}, {books} with {entries} ({on} on)",
            counted(counts.chats, "chat"),
            counts.group_chats,
            counted(counts.characters, "character"),
            counted(counts.books, "lorebook"),
            counted(counts.entries, "entry"),
            counts.books_on,
        )


def is_folder(paths: Iterable[str]) -> bool:
    """Tell whether files with these paths are a folder of SillyTavern: two kinds of parts of a user, or worlds or
    characters alone, directly in the folder."""
    kinds_by_root: dict[str, set[str]] = {}
    for path in paths:
        part = sillytavern_parts.part_of(path)
        if part is not None:
            kinds_by_root.setdefault(part.root, set()).add(part.kind)
    holds_books = kinds_by_root.get("", set()) & {"world", "character"}
    return bool(holds_books) or any(len(kinds) > 1 for kinds in kinds_by_root.values())


def read(files: Mapping[str, bytes], everywhere: str, usual: str) -> list[Profile]:
    """Read what each user has, of the files of a folder by their paths; a picture may be given as the JSON of its
    card. `everywhere`: the conversation that all others share; `usual`: the conversation of a chat that does not say
    whose it is."""
    by_root: dict[str, list[Part]] = {}
    for path in sorted(files):
        part = sillytavern_parts.part_of(path)
        if part is not None:
            by_root.setdefault(part.root, []).append(part)
    return [_profile(_parsed(parts, files), everywhere, usual) for parts in by_root.values()]


@dataclass(slots=True)
class _UserFiles:
    """The files of a user, read: cards and worlds by the stem of their file. `heads`: the head of each
    chat, by its path."""

    settings: UserSettings | None = None
    worlds: dict[str, PlacedBook] = field(default_factory=dict)
    cards: dict[str, Card] = field(default_factory=dict)
    card_paths: dict[str, str] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    chats: list[Part] = field(default_factory=list)
    heads: dict[str, ChatHead] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)

    def take(self, part: Part, data: bytes) -> None:
        """Read a file as the part that it is, and keep what it holds; of a chat only its head is
        read. Raises NotThisFormat."""
        match part.kind:
            case "settings":
                self.settings = sillytavern_parts.settings_in(data)
            case "world":
                book = replace(lorebooks.read_book(data), name=part.stem)
                self.worlds[part.stem] = PlacedBook("", book, part.path)
            case "character":
                self.cards[part.stem] = sillytavern_parts.card_in(data)
                self.card_paths[part.stem] = part.path
            case "group":
                self.groups.append(sillytavern_parts.group_in(data))
            case "chat" | "group chat":
                self.chats.append(part)
                self.data[part.path] = data
                self.heads[part.path] = sillytavern_parts.head_of(data)


def _parsed(parts: Iterable[Part], files: Mapping[str, bytes]) -> _UserFiles:
    """Read the files of a user; a file that cannot be read is noted as a fault."""
    parsed = _UserFiles()
    for part in parts:
        try:
            parsed.take(part, files[part.path])
        except NotThisFormat as error:
            parsed.faults.append((part.path, _("it {reason}", error)))
        except WRONG_VALUES:
            parsed.faults.append((part.path, _(WRONG_VALUE)))
    return parsed


def _profile(parsed: _UserFiles, everywhere: str, usual: str) -> Profile:
    """Place the chats and books of a folder. A world comes into each conversation for which it is
    on; a world that is on nowhere comes into `everywhere`, and is off unless the folder has only
    worlds."""
    homes = _Homes(parsed, usual)
    settings = parsed.settings or UserSettings()
    chats = [
        PlacedChat(homes.of_chat(part), part.path, parsed.data[part.path]) for part in parsed.chats
    ]
    worlds_on = _worlds_that_are_on(parsed, settings, homes, everywhere=everywhere)
    books: list[PlacedBook] = []
    # A world that is on for several conversations comes into each of them.
    for stem, world in parsed.worlds.items():
        homes_of_world = worlds_on.get(stem, {})
        for conversation, standing in homes_of_world.items():
            placed = replace(
                world,
                conversation_id=conversation,
                character=standing.character,
                owner=standing.owner,
            )
            books.append(placed)
        # It is on nowhere: it comes into the conversation that all share, switched off.
        if not homes_of_world:
            book = replace(world.book, is_on=_holds_only_worlds(parsed))
            books.append(replace(world, conversation_id=everywhere, book=book))

    books += _own_books(parsed, homes)
    replaced = [
        card.name for card in parsed.cards.values() if card.has_book and card.world in parsed.worlds
    ]
    return Profile(
        books=tuple(books),
        chats=tuple(chats),
        counts=_counts(parsed, books),
        settings=settings.profile,
        user=settings.user,
        faults=tuple(parsed.faults),
        replaced=tuple(replaced),
        missing=tuple(sorted(world for world in worlds_on if world not in parsed.worlds)),
        files=tuple(
            PurePosixPath(path).name
            for path in (
                *(world.source for world in parsed.worlds.values()),
                *parsed.card_paths.values(),
            )
        ),
        says_what_is_on=parsed.settings is not None,
    )


def _counts(parsed: _UserFiles, placed_books: Iterable[PlacedBook]) -> Counts:
    """Count what the folder has; a book that is placed several times counts once."""
    books = {placed.source: placed.book for placed in placed_books}
    return Counts(
        chats=len(parsed.chats),
        group_chats=sum(part.kind == "group chat" for part in parsed.chats),
        groups=len(parsed.groups),
        characters=len(parsed.cards),
        books=len(books),
        entries=sum(len(book.entries) for book in books.values()),
        books_on=sum(book.is_on for book in books.values()),
    )


def _holds_only_worlds(parsed: _UserFiles) -> bool:
    """Tell whether nothing in the folder says which worlds are on, so that the user gave it because of all of them."""
    return parsed.settings is None and not parsed.cards and not parsed.chats


class _Homes:
    """The conversation of each character, group and chat. A part whose name cannot be the name of a conversation is
    in the usual conversation."""

    def __init__(self, parsed: _UserFiles, usual: str) -> None:
        self._usual = usual
        self._parsed = parsed
        self._groups_of_chats: dict[str, str] = {}
        for group in parsed.groups:
            for chat in group.chats:
                self._groups_of_chats[chat] = self.of_group(group)

    def of_group(self, group: Group) -> str:
        return self._id(group.name)

    def of_card(self, stem: str) -> str:
        card = self._parsed.cards.get(stem)
        if card is None or not card.name:
            return self._id(stem)
        return self._id(card.name)

    def of_chat(self, part: Part) -> str:
        """Return the conversation of a chat: that of its group, of its card, or of the character whom it names."""
        if part.kind == "group chat":
            return self._groups_of_chats.get(part.stem, self._usual)
        if part.folder in self._parsed.cards:
            return self.of_card(part.folder)
        return self._id(self._parsed.heads[part.path].character or part.folder)

    def where_speaks(self, stem: str) -> tuple[str, ...]:
        """Return the conversations in which a character speaks: its own, and the conversations of its groups."""
        groups = [group for group in self._parsed.groups if stem in map(_stem, group.members)]
        return tuple(dict.fromkeys([self.of_card(stem), *map(self.of_group, groups)]))

    def _id(self, name: str) -> str:
        """Return the id of the conversation with this name, or of the usual one if the name cannot be an id."""
        try:
            return conversation_id_of(name)
        except InvalidInput:
            return self._usual


def _worlds_that_are_on(
    parsed: _UserFiles, settings: UserSettings, homes: _Homes, *, everywhere: str
) -> dict[str, dict[str, _WorldScope]]:
    """Return for each world that is on, by its name, its conversations, each with for whom it is on there.
    SillyTavern takes a world once: for all chats, else for the chat, else for the persona, else for the character."""
    worlds_on: dict[str, dict[str, _WorldScope]] = {}
    for world in settings.worlds:
        worlds_on[world] = {everywhere: _WorldScope()}

    def switch_on(world: str, conversation: str, owner: Owner, character: str = "") -> None:
        """Note that a world is on for a conversation, unless it is on for all. Its first owner there stays, and so
        does the first character that it is for."""
        homes_of_world = worlds_on.setdefault(world, {})
        if not world or everywhere in homes_of_world:
            return
        standing = homes_of_world.get(conversation, _WorldScope(owner))
        if not standing.character:
            standing = replace(standing, character=character)
        homes_of_world[conversation] = standing

    # The order of these loops is SillyTavern's: the first owner of a world keeps it.
    for persona in settings.personas:
        if persona.is_active and everywhere not in worlds_on.get(persona.world, {}):
            worlds_on[persona.world] = {everywhere: _WorldScope("persona")}

    for group in parsed.groups:
        for world in group.worlds:
            switch_on(world, homes.of_group(group), "chat")

    for part in parsed.chats:
        switch_on(parsed.heads[part.path].world, homes.of_chat(part), "chat")

    for persona in settings.personas:
        for avatar in persona.avatars:
            for conversation in _conversations_of_avatar(avatar, parsed, homes):
                switch_on(persona.world, conversation, "persona")

    for stem, card in parsed.cards.items():
        for world in (card.world, *settings.extra.get(stem, ())):
            for conversation in homes.where_speaks(stem):
                switch_on(world, conversation, "character", card.name)

    # A card or persona without a world has the name "".
    worlds_on.pop("", None)
    return worlds_on


def _conversations_of_avatar(avatar: str, parsed: _UserFiles, homes: _Homes) -> tuple[str, ...]:
    """Return the conversations of a character by the name of its file, or of a group by its name."""
    if _stem(avatar) in parsed.cards:
        return homes.where_speaks(_stem(avatar))
    return tuple(homes.of_group(group) for group in parsed.groups if group.name == avatar)


def _own_books(parsed: _UserFiles, homes: _Homes) -> list[PlacedBook]:
    """Return the books inside of cards. The book of a card that names a world of the folder is left out, and a book
    that cannot be used is noted in `parsed.faults`."""
    books: list[PlacedBook] = []
    for stem, card in parsed.cards.items():
        if not card.has_book or card.world in parsed.worlds:
            continue
        path = parsed.card_paths[stem]
        try:
            book = lorebooks.book_of(card.card)
        except NotThisFormat as error:
            parsed.faults.append((path, _("it {reason}", error)))
            continue
        books += [
            PlacedBook(conversation, book, source=path, character=card.name, owner="character")
            for conversation in homes.where_speaks(stem)
        ]
    return books


def _stem(file_name: str) -> str:
    return PurePosixPath(file_name).stem
