"""Read lorebooks for `import` and `convert`: a single one, one in a card or a CharX, and all of a folder of
SillyTavern with its chats."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path

from languages import _
from memory_server.conversations.model import DEFAULT_CONVERSATION, conversation_id_of
from memory_server.conversations.ports import TriggerRunner
from memory_server.interchange import chats, lore_keys, lore_memories, lorebooks, sillytavern_folder
from memory_server.interchange.incoming import Incoming, NotThisFormat, ProfileBooks
from memory_server.interchange.lore_keys import Defaults
from memory_server.interchange.lore_memories import BookSource
from memory_server.interchange.lorebooks import Book
from memory_server.interchange.sillytavern_folder import Profile
from memory_server.interchange.sillytavern_parts import ProfileSettings
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.values import dataclass
from memory_server.lore import HeldBook
from memory_server.operations.exchanged_files import Tree
from memory_server.operations.exchanged_zips import ZippedCard
from memory_server.operations.lore_import import beginning_of
from memory_server.operations.ports import OpenMemory, ReadOptions
from memory_server.operations.profile_books import held_books
from memory_server.operations.trigger_checks import check_reports
from sandbox import CheckReport

_EXPRESSION = re.compile(r"/(?P<body>[\s\S]*)/(?P<flags>[A-Za-z]*)")
_MOST_EXPRESSION_CHARS = 10_000
"""Most characters of an expression that V8 compiles for a check."""
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
"""Any time will do: whether an expression compiles does not depend on it."""


def names_of(options: ReadOptions) -> dict[str, str]:
    """Return the names of the user and the character, if the options give them."""
    return _known_names(char=options.char, user=options.user)


def _known_names(*, char: str | None, user: str | None) -> dict[str, str]:
    """Return the names of `char` and `user`, without unknown ones."""
    names = {"char": char, "user": user}
    return {who: name for who, name in names.items() if name}


def by_character(options: ReadOptions) -> bool:
    """Return whether a chat is stored in the conversation of its character, because no option names a conversation."""
    return options.conversation is None


def with_hidden(options: ReadOptions) -> bool:
    """Return whether messages that the user hid in SillyTavern are imported too; `convert` has no such option."""
    return options.with_hidden


def chat_options(view: OpenMemory, options: ReadOptions, usual: str) -> chats.ChatOptions:
    """Return how the chats of an import are read. `usual` is the conversation of messages that name no conversation."""
    return chats.ChatOptions(
        usual,
        view.zone,
        names=names_of(options),
        by_character=by_character(options),
        with_hidden=with_hidden(options),
    )


async def lorebook(
    view: OpenMemory, data: bytes, source: str, *, options: ReadOptions, usual: str
) -> Incoming:
    """Read a lorebook, or a card with a lorebook, which is stored in the conversation of its character."""
    book = await asyncio.to_thread(lorebooks.read_book, data)
    names = names_of(options)

    if options.conversation is not None:
        names = {
            "char": usual,
            **names,
        }  # the lorebook of a character usually goes into the conversation of the same name
    elif book.character is not None:
        with suppress(InvalidInput):  # a name that no conversation can have
            usual = conversation_id_of(book.character)
        names = {"char": book.character, **names}

    defaults = Defaults(
        depth=options.depth,
        whole_words=not options.substrings,
        case_sensitive=options.case_sensitive,
        names=names,
        recursion=not options.no_recursion,
        speakers=not options.no_names,
    )

    is_for_all = usual == DEFAULT_CONVERSATION
    book_source = BookSource(
        Path(source).name,
        usual,
        defaults=defaults,
        name=options.book or "",
        precedence=ProfileSettings().precedence_of("all" if is_for_all else "character"),
    )
    return await _memories_of(view, book, book_source, options.check_until)


async def _memories_of(view: OpenMemory, book: Book, source: BookSource, until: float) -> Incoming:
    expressions = lore_keys.expressions(book, source.defaults)
    invalid = await invalid_expressions(view.memories.services.runner, expressions, until=until)
    incoming = lore_memories.read(book, replace(source, invalid=invalid))
    incoming.notes += map(_, book.lost)
    return incoming


async def zipped_card(
    view: OpenMemory, card: ZippedCard, source: str, *, options: ReadOptions, usual: str
) -> Incoming:
    """Read the lorebook in a CharX."""
    try:
        incoming = await lorebook(view, card.card, source, options=options, usual=usual)
    except NotThisFormat as error:
        # The card itself is fine; its lorebook is in a part that cannot be read here.
        if card.has_module:
            raise NotThisFormat(
                "holds a character whose lorebook is in module.risum, in the packed form of RisuAI; export its "
                "lorebook there as JSON."
            ) from error
        raise

    if card.assets:
        incoming.lost[_("pictures and other files of the card")] += card.assets
    if card.has_module:
        incoming.notes.append(
            _("module.risum: the packed module of RisuAI, with scripts and perhaps further entries")
        )
    return incoming


@dataclass(frozen=True, slots=True)
class SillyTavernFolder:
    """A folder of SillyTavern. `name` is its name in the report. `left_out` has the path and the reason of each file
    that should be read and was not."""

    name: str
    profiles: Sequence[Profile]
    left_out: Sequence[tuple[str, str]]

    @property
    def holds_something(self) -> bool:
        """Whether the folder holds anything of SillyTavern, and not only files with such names."""
        return not all(profile.is_empty for profile in self.profiles)


async def sillytavern_in(
    tree: Tree, name: str, options: ReadOptions, usual: str
) -> SillyTavernFolder:
    """Read what the users of such a folder have. With -c all of it is for one conversation."""
    everywhere = DEFAULT_CONVERSATION if by_character(options) else usual
    profiles = await asyncio.to_thread(sillytavern_folder.read, tree.files, everywhere, usual)
    return SillyTavernFolder(name, profiles, tree.left_out)


async def sillytavern(
    view: OpenMemory, folder: SillyTavernFolder, *, options: ReadOptions, usual: str
) -> Incoming:
    """Read all of a folder of SillyTavern, after a sentence about its content."""
    incoming = Incoming(skipped=[*folder.left_out])
    for profile in folder.profiles:
        if profile.is_empty:
            continue
        incoming.found.append(
            _("{named} is a folder of SillyTavern: {what}.", folder.name, profile.summary())
        )
        await asyncio.to_thread(_take_chats, view, incoming, profile, options=options, usual=usual)

    incoming.conversations = chats.merged(incoming.conversations)

    held = await held_books(view)
    incoming.profile = ProfileBooks()
    for profile in folder.profiles:
        incoming.profile.files.update(profile.files)
        incoming.profile.says_what_is_on &= profile.says_what_is_on
        await _take_books(view, incoming, profile, options=options, usual=usual, held=held)

    if not incoming.count and not incoming.skipped:
        raise NotThisFormat("is a folder of SillyTavern without chats and lorebooks.")
    return incoming


def _take_chats(
    view: OpenMemory, incoming: Incoming, profile: Profile, *, options: ReadOptions, usual: str
) -> None:
    for placed in profile.chats:
        conversation_id = placed.conversation_id if by_character(options) else usual

        chat = replace(chat_options(view, options, conversation_id), by_character=False)
        with incoming.record(placed.path):
            chats.add_file(incoming, placed.data, chat, path=placed.path)


async def _take_books(
    view: OpenMemory,
    incoming: Incoming,
    profile: Profile,
    *,
    options: ReadOptions,
    usual: str,
    held: Sequence[HeldBook],
) -> None:
    """Take the books of a user. A book that is off everywhere is imported switched off, unless a conversation has it
    (`held`)."""
    incoming.skipped += profile.faults
    if profile.books:
        incoming.notes += _unused_settings(profile.settings)

    books = incoming.profile or ProfileBooks()
    for placed in profile.books:
        conversation_id = placed.conversation_id if by_character(options) else usual
        defaults = _defaults_of(profile, placed.character, options)

        source = BookSource(
            Path(placed.source).name,
            conversation_id,
            defaults,
            precedence=profile.settings.precedence_of(placed.owner),
        )
        with incoming.record(placed.source):
            of_book = await _memories_of(view, placed.book, source, options.check_until)
            for book in of_book.books:
                books.names[book.book_id] = book.name
                if book.is_on:
                    books.on[book.conversation_id, book.book_id] = book.memories

                places = {one.conversation_id for one in held if one.book_id == book.book_id}
                if book.is_on or not places or book.conversation_id in places:
                    incoming.books.append(book)

            incoming.losses += of_book.losses
            incoming.skipped += of_book.skipped
            incoming.notes += of_book.notes
            incoming.lost.update(of_book.lost)

    for sentence, names in (
        (_("lorebooks in cards; the one that the card names was imported"), profile.replaced),
        (_("lorebooks that are named there and are not in the folder"), profile.missing),
    ):
        if names:
            incoming.notes.append(
                _("{what}: {count:,} ({names})", sentence, len(names), beginning_of(names))
            )


def _unused_settings(settings: ProfileSettings) -> Iterator[str]:
    """Yield a sentence about each changed setting of world info that has no meaning here."""
    if settings.min_activations:
        yield _(
            "min activations ({count}): older messages are not searched until so many entries came; --depth says how "
            "many messages are searched",
            settings.min_activations,
        )
    if settings.has_own_budget:
        yield _("the budget of world info: `maxChars` of a call is the room here")


def _defaults_of(profile: Profile, character: str, options: ReadOptions) -> Defaults:
    """Return the values for what an entry leaves open: the settings of the user, which the options override."""
    settings = profile.settings
    return Defaults(
        depth=settings.depth if options.depth is None else options.depth,
        whole_words=not options.substrings and settings.whole_words is not False,
        case_sensitive=options.case_sensitive or bool(settings.case_sensitive),
        names=_known_names(char=character, user=profile.user) | names_of(options),
        recursion=settings.recursion and not options.no_recursion,
        speakers=settings.names and not options.no_names,
        group_scoring=bool(settings.group_scoring),
        most_rounds=settings.most_rounds,
    )


async def invalid_expressions(
    runner: TriggerRunner, keys: Iterable[str], *, until: float = inf
) -> set[str]:
    """Return the expressions `/body/flags` that V8 does not compile, or that are too long for it: a folder has
    thousands. `until` as in `check_reports`."""
    invalid: set[str] = set()
    triggers: dict[str, str] = {}
    for key in keys:
        match = _EXPRESSION.fullmatch(key)
        if match is None:
            continue
        if not match["body"] or len(key) > _MOST_EXPRESSION_CHARS:
            invalid.add(key)
        else:
            triggers[key] = _trigger_of(match["body"], match["flags"])

    # Check all of them together, because a folder has thousands.
    reports = await check_reports(runner, [*triggers.values()], now=_ANY_TIME, until=until)
    for key, report in zip(triggers, reports, strict=True):
        if _fails(report):
            invalid.add(key)
    return invalid


def _trigger_of(body: str, flags: str) -> str:
    """Return a trigger that throws if V8 does not compile the expression."""
    return f"new RegExp({json.dumps(body)}, {json.dumps(flags)}).test('')"


def _fails(report: CheckReport) -> bool:
    """Return whether a trigger cannot run, or throws."""
    return bool(report.errors) or any(problem.kind == "thrown" for problem in report.warnings)
