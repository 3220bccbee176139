"""Memories of lorebooks, and the rules by which memories with triggers come: the port through which all other rooms use
it. It knows no conversation, no store and no face."""

from __future__ import annotations

from memory_server.lore.book_identity import is_another
from memory_server.lore.book_versions import is_changed_here
from memory_server.lore.books import (
    BookContents,
    BookUpdate,
    EntryKey,
    HeldBook,
    as_its_client,
    book_changes,
    books_of,
    is_switched_here,
    memories_of_book,
    older_version,
    removing_book,
    switching,
)
from memory_server.lore.chat_state import (
    MOST_CHATS,
    Came,
    ChatState,
    ChatStep,
    advanced,
    character_name,
    characters_of,
    firing_key,
    last_fired,
    user_name,
    without_memory,
)
from memory_server.lore.entry_index import ScannedChat
from memory_server.lore.entry_keys import (
    ANYBODY,
    NAMED,
    SCANNED,
    CountedKeys,
    EntryKeys,
    KeyCondition,
    keys_json,
    plain_pattern,
    question_of,
    taken_keys,
    trigger_of,
)
from memory_server.lore.firing_forms import (
    book_json,
    chat_state_json,
    chat_state_of,
    chats_json,
    chats_of,
    imported_fingerprint,
    taken_book,
)
from memory_server.lore.firing_texts import (
    ROOM,
    left_out_text,
    length_text,
    no_room_text,
    rules_text,
    trigger_text,
)
from memory_server.lore.given_rules import NO_RULES, GivenRules
from memory_server.lore.macros import (
    MacroContext,
    filled,
    filled_key,
    has_macros,
    macro_name,
    unfilled,
    unfilled_keys,
    with_names,
)
from memory_server.lore.memory import (
    BookEntry,
    ForgetReason,
    LongTermMemory,
    Shelved,
    TriggerRemoved,
    TriggerSet,
)
from memory_server.lore.reasons import reason_text
from memory_server.lore.recursion import Recursion, with_text_of_book
from memory_server.lore.room import Fitting, LoreText, Room, fitting, head_of
from memory_server.lore.rounds import (
    ChatMoment,
    FiringRounds,
    HeldBackReason,
    message_seed,
    short_seed,
)
from memory_server.lore.rule_fields import (
    MOST_MESSAGES,
    MOST_NUMBER,
    group_names,
    rules_json,
    taken_rules,
)
from memory_server.lore.rule_index import Counted, key_of
from memory_server.lore.rules import (
    LATER_PRECEDENCE,
    MOST_GROUPS,
    MOST_RULE_CHARS,
    OF_CHAT,
    OF_PERSONA,
    PLAIN,
    USUAL_ORDER,
    USUAL_PRECEDENCE,
    CharacterRule,
    FiringRules,
    GroupRules,
    RecursionRules,
)
from memory_server.lore.shelf import JoinedShelves, Shelf, most_triggers, shelf_of
