"""The parts of a folder of SillyTavern by their paths, and what is in each: settings, cards, groups and the heads of
chats. Pure.

Sources: facts of SillyTavern's src/users.js (names of folders), public/scripts/world-info.js (`world_info_settings`,
`charLore`, `chat_metadata.world_info`), public/scripts/personas.js (`persona_descriptions`) and of public profiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any, Literal

from memory_server.interchange import chats, png_cards
from memory_server.interchange.incoming import (
    NotThisFormat,
    document,
    fields_of,
    line_of,
    list_of,
    switch_of,
)
from memory_server.kernel.json_text import Fields, Json, objects_in
from memory_server.kernel.values import frozen
from memory_server.lore import LATER_PRECEDENCE, OF_CHAT, OF_PERSONA, USUAL_PRECEDENCE

Kind = Literal["settings", "world", "character", "chat", "group", "group chat"]
SETTINGS = "settings.json"
BOOK_FOLDERS = ("worlds", "characters")
"""Folders of a user that hold lorebooks, and may be given alone."""


@frozen
class Part:
    """A file of the folder of a user. `root` is the path of that folder; `kind` says what is in the file."""

    root: str
    kind: Kind
    path: str

    @property
    def stem(self) -> str:
        return PurePosixPath(self.path).stem

    @property
    def folder(self) -> str:
        """The name of the folder that the file is in; for a chat, the folder of its character."""
        return PurePosixPath(self.path).parent.name


def part_of(path: str) -> Part | None:
    """Return the part of a folder of SillyTavern that a file with this path is, or None."""
    pure_path = PurePosixPath(path)
    parts = pure_path.parts
    if pure_path.name == SETTINGS:
        return Part("/".join(parts[:-1]), "settings", path)

    if len(parts) > 1:
        root = "/".join(parts[:-2])
        match parts[-2], pure_path.suffix.lower():
            case "worlds", ".json":
                return Part(root, "world", path)
            case "characters", ".png" | ".json":
                return Part(root, "character", path)
            case "groups", ".json":
                return Part(root, "group", path)
            case "group chats", ".jsonl":
                return Part(root, "group chat", path)

    # Chats are in a folder for each character.
    if len(parts) > 2 and parts[-3] == "chats" and pure_path.suffix == ".jsonl":
        return Part("/".join(parts[:-3]), "chat", path)

    return None


Owner = Literal["chat", "persona", "character", "all"]
"""For whom a book is on: a chat, a persona, a character, or all chats."""
_EVENLY, _CHARACTER_FIRST, _GLOBAL_FIRST = range(3)
"""The strategies by which SillyTavern sorts the books of a character and those for all chats."""
_SHIPPED_BUDGET = 25
"""Per cent of the context that SillyTavern ships as the budget of world info."""


@frozen
class ProfileSettings:
    """What the settings of a user say about all books; the defaults are the settings that SillyTavern ships. A field
    is None if the settings do not say it. `recursion`: texts that came are searched too; `most_rounds`: the most
    searches, 0 without a bound; `names`: the names of speakers are part of what is searched; `strategy`: which books
    come first. `min_activations`: SillyTavern looks at older messages until so many entries came; `has_own_budget`:
    its room for entries is not as usual."""

    recursion: bool = True
    most_rounds: int = 0
    names: bool = True
    depth: int | None = None
    whole_words: bool | None = None
    case_sensitive: bool | None = None
    group_scoring: bool | None = None
    strategy: int = _CHARACTER_FIRST
    min_activations: int = 0
    has_own_budget: bool = False

    def precedence_of(self, owner: Owner) -> int:
        """Return the precedence of a book. Books of chats and personas come before all others, whatever the strategy
        is."""
        match owner:
            case "chat":
                return OF_CHAT
            case "persona":
                return OF_PERSONA
            case "character":
                comes_later = self.strategy == _GLOBAL_FIRST
            case "all":
                comes_later = self.strategy == _CHARACTER_FIRST
        return LATER_PRECEDENCE if comes_later else USUAL_PRECEDENCE


@frozen
class PersonaBook:
    """The lorebook of a persona. `is_active`: the user speaks as this persona, or does usually; `avatars`: the
    characters and groups for which it is chosen."""

    world: str
    is_active: bool
    avatars: tuple[str, ...]


@frozen
class UserSettings:
    """The settings of a user. `worlds`: names of the lorebooks that are on everywhere; `extra`: the further lorebooks
    that are on for a character, by the stem of its file."""

    profile: ProfileSettings = field(default_factory=ProfileSettings)
    user: str = ""
    worlds: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    personas: tuple[PersonaBook, ...] = ()


def settings_in(data: bytes) -> UserSettings:
    """Read the settings of a user. Raises NotThisFormat: the file is not JSON."""
    value = _object(data)
    lore = fields_of(value.get("world_info_settings")) or value
    selection = fields_of(lore.get("world_info"))
    extra: dict[str, tuple[str, ...]] = {}
    for row in list_of(selection.get("charLore")):
        fields = fields_of(row)
        extra[str(fields.get("name"))] = _names(fields.get("extraBooks"))

    # The user has the name of the persona in use.
    power = fields_of(value.get("power_user"))
    avatar = str(value.get("user_avatar") or "")
    name = fields_of(power.get("personas")).get(avatar) or value.get("username") or ""
    return UserSettings(
        profile=_profile(lore),
        user=line_of(name),
        worlds=_names(selection.get("globalSelect")),
        extra=extra,
        personas=_personas(power, {avatar, str(power.get("default_persona") or "")}),
    )


def _profile(lore: Fields) -> ProfileSettings:
    """Read the settings of lorebooks. A value that is missing or of a wrong type counts as
    SillyTavern's own."""
    # A setting that is missing is as SillyTavern ships it.
    usual = ProfileSettings()
    budget = _count(lore, "world_info_budget")
    strategy = _count(lore, "world_info_character_strategy")
    if strategy is None:
        strategy = usual.strategy

    return ProfileSettings(
        recursion=switch_of(lore.get("world_info_recursive")) is not False,
        most_rounds=_count(lore, "world_info_max_recursion_steps") or 0,
        names=switch_of(lore.get("world_info_include_names")) is not False,
        depth=_count(lore, "world_info_depth"),
        whole_words=switch_of(lore.get("world_info_match_whole_words")),
        case_sensitive=switch_of(lore.get("world_info_case_sensitive")),
        group_scoring=switch_of(lore.get("world_info_use_group_scoring")),
        strategy=strategy,
        min_activations=_count(lore, "world_info_min_activations") or 0,
        has_own_budget=budget not in (None, _SHIPPED_BUDGET)
        or bool(_count(lore, "world_info_budget_cap")),
    )


def _personas(power: Fields, active: set[str]) -> tuple[PersonaBook, ...]:
    """Return the lorebooks of personas that have one. `active`: the personas that the user speaks
    as, or usually does."""
    books: list[PersonaBook] = []
    for avatar, description in fields_of(power.get("persona_descriptions")).items():
        fields = fields_of(description)
        world = fields.get("lorebook")
        if isinstance(world, str) and world:
            connections = objects_in(list_of(fields.get("connections")))
            avatars = tuple(
                str(connection["id"]) for connection in connections if connection.get("id")
            )
            books.append(PersonaBook(world, avatar in active, avatars))
    return tuple(books)


@frozen
class Card:
    """A character. `world`: the name of its lorebook among the worlds; `card`: the value of its file."""

    name: str
    world: str
    card: Json

    @property
    def has_book(self) -> bool:
        return "character_book" in self.card or "character_book" in fields_of(self.card.get("data"))


def card_in(data: bytes) -> Card:
    """Read the character in a picture or a JSON file. Raises NotThisFormat."""
    if data.startswith(png_cards.SIGNATURE):
        data = png_cards.card_in(data)
    value = _object(data)
    inner = fields_of(value.get("data")) or value
    extensions = fields_of(inner.get("extensions"))
    return Card(
        name=line_of(inner.get("name") or value.get("name")),
        world=str(extensions.get("world") or ""),
        card=value,
    )


@frozen
class Group:
    """A group. `members`: names of the files of its characters; `chats`: stems of the files of its chats; `worlds`:
    lorebooks of these chats."""

    name: str
    members: tuple[str, ...]
    chats: tuple[str, ...]
    worlds: tuple[str, ...]


def group_in(data: bytes) -> Group:
    """Read the group in a file. Raises NotThisFormat."""
    value = _object(data)
    past_metadata = fields_of(value.get("past_metadata"))
    metadata_of_chats = [value.get("chat_metadata"), *past_metadata.values()]
    worlds = [_world_of(fields_of(metadata)) for metadata in metadata_of_chats]
    return Group(
        name=line_of(value.get("name")),
        members=_names(value.get("members")),
        chats=(*_names(value.get("chats")), str(value.get("chat_id") or "")),
        worlds=tuple(filter(None, worlds)),
    )


@frozen
class ChatHead:
    """What a chat says of itself: the name of its character, and of its own lorebook; "": it does not say it."""

    character: str
    world: str


def head_of(data: bytes) -> ChatHead:
    """Read the head of a chat, from its first line and the names of its speakers."""
    first = fields_of(data.partition(b"\n")[0])
    world = _world_of(fields_of(first.get("chat_metadata")))
    return ChatHead(character=line_of(chats.names_in(data).get("char")), world=world)


def _world_of(metadata: Fields) -> str:
    """Return the lorebook of a chat, or ""."""
    world = metadata.get("world_info")
    if not isinstance(world, str):
        return ""
    return world


def _object(data: bytes) -> Json:
    value = document(data)
    if not isinstance(value, dict):
        raise NotThisFormat("is not a JSON object.")
    return value


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in list_of(value) if isinstance(name, str) and name)


def _count(fields: Fields, name: str) -> int | None:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return value
