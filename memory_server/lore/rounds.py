"""Which memories come whose triggers fired: by the state of the chat, by their groups, by chance, and which further
memories the texts of a book make fire. Pure: the caller evaluates triggers between the rounds.

The rules and their order are those of SillyTavern (`checkWorldInfo` and `filterByInclusionGroups` in
public/scripts/world-info.js). Two differences are decisions of this program: the texts of a book are searched only by
the entries of the same book, and what is left to chance is drawn once for a message of a chat.

The room of a prompt is filled in the order of the activation: what stays comes first, then the highest order. The first
memory that does not fit ends it, so more room never loses a memory. In the text the order is reversed: the highest
order is last, nearest to what is said next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

from languages import n_
from memory_server.kernel.readers import way
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.values import frozen
from memory_server.lore.chat_state import ChatState, TimedEffects, timed_effects_of
from memory_server.lore.entry_keys import CountedKeys, EntryKeys
from memory_server.lore.memory import FiringRules, Shelved
from memory_server.lore.shelf import RuleIndex

HeldBackReason = Literal["group", "chance", "cooldown", "delay", "once", "character", "recursion"]
"""Why a memory whose trigger fired does not come: another memory of its group does; its probability was against it; it
came lately; the chat is too short; it came once; it is for other characters; it waits for a text of its book."""

MOST_ROUNDS = 5
"""Rounds of recursion after the first one, at most: each costs as much as a search of a book."""
_MOST_SEED_CHARS = 1_000
"""Characters of a seed: some of a message, the names of its chat and of the memory."""
_QUICK_WORK = 20_000
"""Work that `settle` does in a few milliseconds, in characters of texts."""
_WORK_OF_ENTRY = 100
"""What an entry takes of it beside its text: its chance and its groups are looked at."""
_WORK_OF_MACRO = 200
"""What a macro in a text takes, `{{user}}` or `<user>`: its value may be a hundred dice."""
MARK = "\n\x01"
"""The mark between the texts that are searched: SillyTavern puts it before each message, and before the texts of each
round (realm/keys.js has the same mark)."""
_NOT_DELAYED = TimedEffects()


@frozen
class ChatMoment:
    """A chat at the moment of a search: how many messages it has, what it remembers, who is in it. `seed`: a text that
    is the same whenever this message of this chat is searched for. `room`: characters that are enough: once what came
    has more, no text of a book is searched any more. It is None without a bound."""

    messages: int
    now_ms: int
    seed: str
    state: ChatState = field(default_factory=ChatState)
    characters: frozenset[str] = frozenset()
    room: int | None = None

    def share(self, *names: str) -> float:
        """Return a number from 0 to below 1, drawn once for this message and these names."""
        text = "\0".join((self.seed, *names)).encode(errors="replace")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) / 2**64


def message_seed(session: str, messages: int | None, time_ms: int | None, content: str) -> str:
    """Return a text that is the same whenever this last message of a chat is searched for. `messages` is the number of
    messages of the chat; it is None if it is not known, because the number that a client sends says nothing."""
    return short_seed("\0".join((session, str(messages or ""), str(time_ms or ""), content)))


def short_seed(text: str) -> str:
    """Return a seed for this text: the text, or the hash of a long text, because each draw of a search hashes its seed."""
    if len(text) <= _MOST_SEED_CHARS:
        return text
    return hashlib.blake2b(text.encode(errors="replace")).hexdigest()


@frozen
class Round:
    """What is evaluated next: the texts that came of each book, and its memories: always all of them, because the same
    list of triggers is decided sooner than a new one."""

    texts: Mapping[str, str]
    memories: Mapping[str, Sequence[int]]


class FiringRounds:
    """The entries of a search by their index. `rules` has the entries with rules. `text_of` returns the text of an
    entry as it comes, with macros filled, in which further entries are searched; by default it is the stored text.
    `is_given` says whether the reader has the text of an entry, so that it takes no room."""

    def __init__(
        self,
        entries: Sequence[Shelved],
        rules: RuleIndex,
        moment: ChatMoment,
        text_of: Callable[[int], str] | None = None,
        is_given: Callable[[int], bool] = lambda _index: False,
    ) -> None:
        """Begin without any memory that came, at the lowest level of the entries that wait. `text_of` gives the text
        of a memory by its index, by default the stored one; `is_given` says whether the reader has it, so that it
        takes no room."""
        self._entries = entries
        self._moment = moment
        self._text_of = self._stored_text if text_of is None else text_of
        self._is_given = is_given

        self._of_characters = frozenset(rules.of_characters)
        self._timings = self._timings_of(rules)

        self._fired: dict[int, None] = {}
        self._lost_by_chance: set[int] = set()
        self._lost_to_group: set[int] = set()
        self._activated: dict[int, None] = {}
        self._texts: dict[str, list[str]] = {}
        self._new_texts: dict[str, list[str]] = {}
        self._came_chars: dict[str, int] = {}
        self._rounds = 0

        # Entries that wait are let in level by level, the lowest first.
        self._levels = list(rules.levels)
        self._level = self._levels.pop(0) if self._levels else 0
        self._recursive = rules.recursive

    @property
    def activated(self) -> Sequence[int]:
        """The memories that came, in the order in which they take room."""
        return list(self._activated)

    @property
    def sticky(self) -> frozenset[int]:
        """The memories that stay because they came a few messages ago."""
        return frozenset(index for index, timing in self._timings.items() if timing.is_sticky)

    def barred(self) -> frozenset[int]:
        """Return the memories that do not come in this search, whatever their trigger says, and the memories that had
        no luck."""
        with_conditions = self._timings.keys() | self._of_characters
        return (
            frozenset(index for index in with_conditions if not self._may_come(index))
            | self._lost_by_chance
        )

    def held_back(self) -> dict[int, HeldBackReason]:
        """Return the memories whose trigger fired in any round and which do not come, each with the reason."""
        return {index: self._reason(index) for index in self._fired if index not in self._activated}

    def first(self, fired: Iterable[int]) -> list[int]:
        """Return the candidates of the first round: what fired, and what stays."""
        fired = list(fired)
        self._fired.update(dict.fromkeys(fired))
        ready = [index for index in fired if not self._waits_for_recursion(index)]
        staying = [index for index, timing in self._timings.items() if timing.is_sticky]
        return self._in_order(filter(self._may_come, ready + staying))

    def recursive(self, fired: Iterable[int]) -> list[int]:
        """Return the candidates of a later round."""
        fired = list(filter(self._is_open, fired))
        self._fired.update(dict.fromkeys(fired))
        return self._in_order(filter(self.may_recurse, fired))

    def may_recurse(self, index: int) -> bool:
        """Return whether the memory may come in a later round, if its trigger fires there."""
        is_new = index not in self._activated and index not in self._lost_by_chance
        return is_new and self._is_open(index) and self._may_come(index)

    def keys_to_score(self, candidates: Sequence[int]) -> dict[int, EntryKeys]:
        """Return the keys that must be counted before `settle` can decide the groups of these candidates: the keys of
        rivals in a group where scores decide."""
        keys_by_index: dict[int, EntryKeys] = {}
        for members in self._groups_of(candidates).values():
            if len(members) < 2 or not any(map(self._is_scored, members)):
                continue
            for index in members:
                keys = self._entries[index].keys
                if keys is not None and keys.counted is not None:
                    keys_by_index[index] = keys
        return keys_by_index

    def settle(self, candidates: Sequence[int], scores: Mapping[int, int]) -> None:
        """Let candidates come, unless another memory of their group does, or chance is against them. `scores` counts
        the keys of each that are in the messages."""
        losers = self._losers(candidates, scores)
        self._lost_to_group |= losers
        self._new_texts = {}
        for index in candidates:
            if index in losers:
                continue
            if not self._has_luck(index):
                self._lost_by_chance.add(index)
                continue
            self._activated[index] = None
            self._take_text(index)
        for book_id, texts in self._new_texts.items():
            self._texts.setdefault(book_id, []).append("\n".join(texts))

    def are_settled_quickly(self, candidates: Sequence[int]) -> bool:
        """Return whether `settle` takes a few milliseconds at most for these candidates, so that it needs no thread: a
        turn to a thread costs every recall, and a book may have thousands of constants and groups."""
        work = len(candidates) * _WORK_OF_ENTRY
        for index in candidates:
            if work > _QUICK_WORK:
                return False
            text = self._entries[index].text
            macros = text.count("{{") + text.count("<")
            work += len(text) + macros * _WORK_OF_MACRO
        return work <= _QUICK_WORK

    def next_round(self) -> Round | None:
        """Return the texts of books and the memories to evaluate next: those of books with a new
        text, or else of the next level. Return None if none exist, the room is full or
        `MOST_ROUNDS` are over."""
        if not self._recursive or self._rounds >= MOST_ROUNDS or self._is_full():
            return None
        searched = self._new_texts.keys() & self._recursive.keys()
        if not searched and self._levels:
            self._level = self._levels.pop(0)
            searched = set(self._recursive)
        if not searched:
            return None
        self._rounds += 1
        memories = {book: self._recursive[book] for book in sorted(searched)}
        texts = {book: MARK.join(self._texts.get(book, ())) for book in memories}
        return Round(texts, memories)

    def _is_full(self) -> bool:
        """Return whether what came has more characters than there is room for. A text that is there twice counts once."""
        room = self._moment.room
        if room is None:
            return False
        return sum(self._came_chars.values()) > room

    # --- one memory ------------------------------------------------------------------------------------

    def _rules(self, index: int) -> FiringRules:
        return self._entries[index].rules

    def _timings_of(self, rules: RuleIndex) -> dict[int, TimedEffects]:
        """Return what the state of the chat means for the memories that came in it, and for the delayed memories."""
        messages = self._moment.messages
        timings = {
            index: timed_effects_of(self._rules(index), None, messages) for index in rules.delayed
        }
        for key, firing in self._moment.state.firings.items():
            counted = rules.counting.get(key)
            if counted is not None:
                timings[counted.index] = timed_effects_of(
                    self._rules(counted.index), firing, messages
                )
        return timings

    def _may_come(self, index: int) -> bool:
        """Return whether the state of the chat and its characters allow the memory."""
        timing = self._timings.get(index, _NOT_DELAYED)
        if timing.holds_back:
            return False
        return self._rules(index).characters.admits(self._moment.characters)

    def _reason(self, index: int) -> HeldBackReason:
        """Return the first rule that keeps a memory out whose trigger fired; `recursion` if no
        other does."""
        timing = self._timings.get(index, _NOT_DELAYED)
        if timing.is_delayed:
            return "delay"
        if timing.is_used_up:
            return "once"
        if timing.holds_back:
            return "cooldown"
        if not self._may_come(index):
            return "character"
        if index in self._lost_by_chance:
            return "chance"
        if index in self._lost_to_group:
            return "group"
        return "recursion"

    def _is_sticky(self, index: int) -> bool:
        return self._timings.get(index, _NOT_DELAYED).is_sticky

    def _waits_for_recursion(self, index: int) -> bool:
        """Return whether the memory fires only by texts that came."""
        return self._rules(index).recursion.level > 0 and not self._is_sticky(index)

    def _is_open(self, index: int) -> bool:
        """Return whether texts that came may make the memory fire in this round."""
        recursion = self._rules(index).recursion
        # `most_rounds` counts the round of the messages as the first.
        is_late = recursion.most_rounds and self._rounds >= recursion.most_rounds
        return not recursion.is_excluded and not is_late and recursion.level <= self._level

    def _stored_text(self, index: int) -> str:
        return self._entries[index].text

    def _has_luck(self, index: int) -> bool:
        """Return whether chance is for the memory, by its probability."""
        probability = self._rules(index).probability
        if probability >= 100 or self._is_sticky(index):
            return True
        entry = self._entries[index]
        share = self._moment.share("chance", entry.conversation_id, entry.name)
        return share * 100 < probability

    def _take_text(self, index: int) -> None:
        """Count the text of a memory that came, unless the reader has it, and keep it if other memories of its book
        may be searched in it."""
        entry = self._entries[index]
        text = self._text_of(index)
        if not self._is_given(index):
            self._came_chars[text] = len(text)
        recursion = entry.rules.recursion
        if not entry.book_id or not recursion.is_on or recursion.is_prevented:
            return
        self._new_texts.setdefault(entry.book_id, []).append(text)

    def _in_order(self, candidates: Iterable[int]) -> list[int]:
        """Order the candidates: memories that stay come first, then by precedence, then by the highest order, then by
        the order of the shelf."""

        def rank(index: int) -> tuple[bool, int, float, int]:
            rules = self._rules(index)
            return not self._is_sticky(index), rules.precedence, -rules.order, index

        return sorted(set(candidates), key=rank)

    # --- groups ----------------------------------------------------------------------------------------

    def _is_scored(self, index: int) -> bool:
        return self._rules(index).group.is_scored

    def _groups_of(self, candidates: Iterable[int]) -> dict[str, list[int]]:
        """Return the candidates of each group, by the name of the group."""
        groups: dict[str, list[int]] = {}
        for index in candidates:
            for name in self._rules(index).group.names:
                groups.setdefault(name, []).append(index)
        return groups

    def _losers(self, candidates: Sequence[int], scores: Mapping[int, int]) -> set[int]:
        """Return the candidates that do not come, because another memory of their group does or came before."""
        losers: set[int] = set()
        taken_groups = self._groups_of(self._activated).keys()
        for name, members in self._groups_of(candidates).items():
            rivals = [index for index in members if index not in losers]
            winners: Collection[int] = ()
            if name not in taken_groups:
                winners = self._winners(name, rivals, scores)
            losers.update(index for index in rivals if index not in winners)
        return losers

    def _winners(
        self, group: str, rivals: Sequence[int], scores: Mapping[int, int]
    ) -> Collection[int]:
        """Return the memories of a group that may come: all that stay, otherwise one of them; none if their weights
        draw none."""
        staying = [index for index in rivals if self._is_sticky(index)]
        if staying:
            return staying
        rivals = self._best_scored(rivals, scores)
        preferred = [index for index in rivals if self._rules(index).group.overrides]
        if preferred:
            return [max(preferred, key=lambda index: self._rules(index).order)]
        return self._drawn(group, rivals)

    def _best_scored(self, rivals: Sequence[int], scores: Mapping[int, int]) -> Sequence[int]:
        """Return the rivals without the scored rivals that have fewer keys in the messages than the best."""
        if not any(map(self._is_scored, rivals)):
            return rivals
        best = max(scores.get(index, 0) for index in rivals)
        return [
            index for index in rivals if not self._is_scored(index) or scores.get(index, 0) >= best
        ]

    def _drawn(self, group: str, rivals: Sequence[int]) -> Sequence[int]:
        """Return the rival that chance chooses, by their weights; empty if the weights do not add up to it."""
        weights = [self._rules(index).group.weight for index in rivals]
        remaining = self._moment.share("group", group) * sum(weights)
        for index, weight in zip(rivals, weights, strict=True):
            remaining -= weight
            if remaining <= 0:
                return [index]
        return []


def with_text_of_book(content: str, text: str) -> str:
    """Return the last message of a chat with the texts of a book that are searched with it."""
    if not text:
        return content
    return f"{content}{MARK}{text}"


def score_of(keys: CountedKeys, present_keys: Collection[str]) -> int:
    """Return the score of a memory by the keys that are in the messages, `present_keys`: the number of its primary
    keys there, with the secondary ones if all that the logic asks for are there."""
    primary = sum(key in present_keys for key in keys.primary)
    secondary = sum(key in present_keys for key in keys.secondary)
    has_all_secondary = secondary == len(keys.secondary)
    if keys.logic == "AND_ANY" or (keys.logic == "AND_ALL" and has_all_secondary):
        return primary + secondary
    return primary


# --- room in a prompt -----------------------------------------------------------------------------

ROOM = "room"
"""The reason of memories for which no room was left."""
Reason = Literal["room", "same_text"]
"""Why a memory was left out: there was no room for it, or its text is there already."""
_SHORT_TERM_LEAST = 1_200
"""Characters that short-term memories keep for themselves, if that is at most half of all: as many as a whole prompt
had before lorebooks came whole."""
_SHORT_TERM_SHARE = 4
"""Short-term memories keep one part in so many of more room."""
_MOST_NAMED = 3
"""Names in a sentence about memories, at most."""
_LEAST_CHARS = 40
"""Characters of a text that is cut, at least: fewer say nothing."""


@frozen
class Room:
    """Characters of a block. `long_term` is the budget of memories with triggers. `ignoring_budget` is the further room
    of memories that ignore the budget. `short_term` is the most room of short-term memories, within the rest of
    `total`. The part of `total` above `long_term` is the reserve."""

    total: int
    long_term: int
    ignoring_budget: int
    short_term: int
    lends: bool = False
    """Whether memories with triggers also have that part of the reserve which short-term ones cannot use."""

    @staticmethod
    def of(max_chars: int) -> Room:
        """Return the room of a prompt with this many characters."""
        most_for_short_term = max(_SHORT_TERM_LEAST, max_chars // _SHORT_TERM_SHARE)
        reserved = min(most_for_short_term, max_chars // 2)
        return Room(max_chars, max_chars - reserved, reserved, most_for_short_term, lends=True)

    def with_lent_reserve(self, needed_reserve: int) -> Room:
        """Return the same room where memories with triggers also have the reserve above `needed_reserve` characters.
        The caller counts what short-term memories need without a bound, so that more room never takes room from another
        memory."""
        reserve = self.total - self.long_term
        if not self.lends or needed_reserve >= reserve:
            return self
        return replace(self, long_term=self.total - needed_reserve)


@frozen
class LoreText:
    """A memory in its form in a prompt: its name and its text, on one line."""

    entry: Shelved
    head: str
    body: str
    key: str
    """It names this version of the memory, for what a session was given."""
    is_chinese: bool
    is_cut: bool = False

    @property
    def line(self) -> str:
        return self.head + self.body

    @property
    def chars(self) -> int:
        """Characters with the end of the line."""
        return len(self.line) + 1


@frozen
class LeftOut:
    """A memory that came to mind and is not in the prompt."""

    entry: Shelved
    chars: int
    reason: Reason


@frozen
class PromptFit:
    """What is in the prompt, in the order of the text, and what is not."""

    texts: tuple[LoreText, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def came(self) -> Sequence[Shelved]:
        return [text.entry for text in self.texts]

    @property
    def chars(self) -> int:
        """Characters of all texts, each with the end of its line."""
        return sum(text.chars for text in self.texts)


def head_of(name: str, *, is_chinese: bool) -> str:
    """Return the beginning of the line of a memory in a prompt."""
    return f"【{name}】" if is_chinese else f"[{name}] "


def fitting(
    texts: Sequence[LoreText],
    room: Room,
    beginning: Callable[[str, int], str],
    known_keys: Collection[str] = (),
) -> PromptFit:
    """Decide which of the memories that came fit, in the order in which they take room, and of equal texts take one.
    The result has the highest order last. `beginning` returns the first sentences of a text, within so many
    characters. `known_keys` are the keys of texts that the reader has; these take no room, and do not come again."""
    new_texts = [text for text in texts if text.body and text.key not in known_keys]
    chosen: list[LoreText] = []
    bodies: set[str] = set()
    missing: list[LoreText] = []
    used_chars = 0
    used_chars_beside = 0

    for number, text in enumerate(new_texts):
        if text.body in bodies:
            missing.append(text)
            continue

        ignores_budget = text.entry.rules.ignores_budget
        # A text that does not fit counts too: the first such text ends the room.
        used_chars += text.chars
        if ignores_budget:
            used_chars_beside += text.chars

        fits = used_chars <= room.long_term
        fits_beside = ignores_budget and used_chars_beside <= room.ignoring_budget
        if fits or fits_beside:
            chosen.append(text)
            bodies.add(text.body)
            continue

        # Only the first text is cut: if not even it fits, its beginning says more than nothing.
        cut_text = _cut(text, room.long_term, beginning) if number == 0 else None
        if cut_text is None:
            missing.append(text)
        else:
            chosen.append(cut_text)

    in_order = sorted(chosen, key=lambda text: -text.entry.rules.order)
    left_out = [_left_out(text, bodies) for text in missing]
    return PromptFit(tuple(reversed(in_order)), tuple(left_out))


def _left_out(text: LoreText, bodies: Collection[str]) -> LeftOut:
    """Return a text that is not in the prompt, with the reason. `bodies` are the texts that are in the prompt whole."""
    reason: Reason = "same_text" if text.body in bodies else "room"
    return LeftOut(text.entry, len(text.body), reason)


def _cut(text: LoreText, room: int, beginning: Callable[[str, int], str]) -> LoreText | None:
    """Return the first sentences of a text that is longer than all the room, with what was cut, or None if not even one
    sentence fits."""
    longest_note = _cut_note(len(text.body), is_chinese=text.is_chinese)
    body_room = room - len(text.head) - len(longest_note) - 1  # 1: the end of the line
    if body_room < _LEAST_CHARS:
        return None
    first_sentences = beginning(text.body, body_room)
    note = _cut_note(len(text.body) - len(first_sentences), is_chinese=text.is_chinese)
    return replace(text, body=first_sentences + note, is_cut=True)


def _cut_note(missing: int, *, is_chinese: bool) -> str:
    """Return the note that follows a text from which so many characters are missing."""
    return (
        f"（后面还有 {missing} 个字符没有放下）"
        if is_chinese
        else f" (cut here: {missing} more characters)"
    )


def no_room_text(names: Sequence[str]) -> str:
    """Describe how many memories were left out because no room was left, and what gives more room; empty if none was."""
    if not names:
        return ""
    shown = ", ".join(map(one_line, names[:_MOST_NAMED]))
    if len(names) > _MOST_NAMED:
        shown += ", …"
    return n_(
        "{count} memory was left out, because no room was left ({names}); {setting} gives more.",
        "{count} memories were left out, because no room was left ({names}); {setting} gives more.",
        len(names),
        shown,
        way("`maxChars`", "--chars"),
    )
