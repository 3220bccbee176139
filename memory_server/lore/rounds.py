"""Which memories come whose triggers fired: by the state of the chat, by their groups, by chance, and which further
memories the texts of a book make fire. Pure: the caller evaluates triggers between the rounds.

The rules and their order are those of SillyTavern (`checkWorldInfo` and `filterByInclusionGroups` in
public/scripts/world-info.js). Two differences are decisions of this program: the texts of a book are searched only by
the entries of the same book, and what is left to chance is drawn once for a message of a chat.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from memory_server.kernel.values import dataclass
from memory_server.lore.chat_state import ChatState, Timing, timing_of
from memory_server.lore.entry_keys import EntryKeys
from memory_server.lore.memory import Shelved
from memory_server.lore.rule_index import RuleIndex
from memory_server.lore.rules import FiringRules

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
_NOT_DELAYED = Timing()


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
        """Return the keys that must be counted before `settle` can decide the groups of these candidates."""
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
        """Return what is evaluated next, or None if nothing can make another memory fire."""
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

    def _timings_of(self, rules: RuleIndex) -> dict[int, Timing]:
        """Return what the state of the chat means for the memories that came in it, and for the delayed memories."""
        messages = self._moment.messages
        timings = {index: timing_of(self._rules(index), None, messages) for index in rules.delayed}
        for key, firing in self._moment.state.firings.items():
            counted = rules.counting.get(key)
            if counted is not None:
                timings[counted.index] = timing_of(self._rules(counted.index), firing, messages)
        return timings

    def _may_come(self, index: int) -> bool:
        """Return whether the state of the chat and its characters allow the memory."""
        timing = self._timings.get(index, _NOT_DELAYED)
        if timing.holds_back:
            return False
        return self._rules(index).characters.admits(self._moment.characters)

    def _reason(self, index: int) -> HeldBackReason:
        """Return why a memory whose trigger fired does not come."""
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
        """Keep the text of a memory that came, in which other memories of its book are searched."""
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
        """Return the memories of a group that may come: all that stay, otherwise one of them."""
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
