"""Which entries of lorebooks fire in SillyTavern for a chat, and in which order their texts stand. Pure.

Written after the rule of SillyTavern's public/scripts/world-info.js, to compare this server with it; no code is shared.
Draws and chances are functions of the caller, so that both sides of a comparison can draw the same. What differs on
purpose: room is counted in characters and not in tokens, texts are scanned again at most MOST_ROUNDS times, an entry of
several groups that loses in two of them takes no other entry with it, and positions are left out. Not read: minimum
activations, injected prompts, and keys that are sought in cards and personas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from bench.quality.lore_entries import Entry
from bench.quality.lore_keys import Keys

MOST_ROUNDS = 5
"""Scans after the first one. SillyTavern has no bound by default; LORE.md sets this one."""
MOST_DEPTH = 1000
_MARK = "\x01"
"""What stands before each message in the text that is scanned."""

Draw = Callable[[str, Sequence[Entry]], Entry | None]
"""Which of several entries of a group fires."""
Chance = Callable[[Entry], bool]
"""Whether an entry whose probability is below 100 fires."""


@dataclass(frozen=True, slots=True)
class Line:
    """A message of a chat."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user of SillyTavern sets for all books, with the values that it ships. `room`: characters of all texts
    that fire; None for as many as there are. `most_rounds`: scans after the first one. `length_of`: the characters that
    an entry takes of the room."""

    depth: int = 2
    names: bool = True
    recursive: bool = True
    group_scoring: bool = False
    room: int | None = None
    most_rounds: int = MOST_ROUNDS
    length_of: Callable[[Entry], int] = lambda entry: len(entry.content) + 1


@dataclass(frozen=True, slots=True)
class Span:
    """The numbers of messages from which on and until which an effect lasts. One that is `kept` lasts also where the
    chat has not become longer."""

    start: int
    end: int
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Effects:
    """What lasts in a chat, by the key of an entry."""

    sticky: Mapping[str, Span] = field(default_factory=dict)
    cooldown: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lore:
    """What fired. `entries`: with content, in the order of their texts, so the highest order comes last. `effects`:
    what lasts from now on. `drawn`: the candidates of each group that was decided by a draw; `by_chance`: the entries
    that were decided by their probability. `left_out`: the first entry that found no room."""

    entries: tuple[Entry, ...]
    effects: Effects
    drawn: Mapping[str, tuple[Entry, ...]]
    by_chance: tuple[Entry, ...]
    left_out: Entry | None

    @property
    def text(self) -> str:
        return "\n".join(entry.content for entry in self.entries)


class Scan(Enum):
    """Why the texts are looked through: for the first time, or again with the texts that fired."""

    FIRST = auto()
    AGAIN = auto()


def fires_there(
    entries: Sequence[Entry],
    chat: Sequence[Line],
    keys: Keys,
    settings: Settings = Settings(),
    effects: Effects = Effects(),
    *,
    draw: Draw,
    chance: Chance,
    message_count: int | None = None,
    character: str = "",
    tags: Sequence[str] = (),
) -> Lore:
    """Which of the entries fire after a chat, whose newest message is the last. `message_count`: messages of the whole
    chat, if these are only the last of them. `character`, `tags`: for the filters of entries."""
    count = message_count
    if count is None:
        count = len(chat)
    texts_of_lines = [line.text for line in reversed(chat)]
    if settings.names:
        texts_of_lines = [f"{line.name}: {line.text}" for line in reversed(chat)]
    usable = [entry for entry in entries if entry.enabled and passes_filter(entry, character, tags)]
    lasting = _Lasting.after(entries, effects, count)
    search = _Search(
        entries=sorted(usable, key=lambda entry: (entry.rank, -entry.order)),
        messages=texts_of_lines,
        keys=keys,
        settings=settings,
        lasting=lasting,
        draw=draw,
        chance=chance,
    )
    search.run()
    texts = [entry for entry in search.active if entry.content]
    texts.sort(key=lambda entry: -entry.order)
    return Lore(
        tuple(reversed(texts)),
        lasting.with_active(search.active, count),
        search.drawn,
        tuple(search.by_chance),
        search.left_out,
    )


def passes_filter(entry: Entry, character: str, tags: Sequence[str]) -> bool:
    """Whether the entry is for this character."""
    if entry.filter_names and (character in entry.filter_names) == entry.filter_excludes:
        return False
    has_tag = any(tag in entry.filter_tags for tag in tags)
    return not entry.filter_tags or has_tag != entry.filter_excludes


@dataclass(frozen=True, slots=True)
class _Lasting:
    """The effects on the entries of this search."""

    sticky: Mapping[str, Span]
    cooldown: Mapping[str, Span]
    delayed: frozenset[str]

    @staticmethod
    def after(entries: Sequence[Entry], effects: Effects, count: int) -> _Lasting:
        """What lasts at this number of messages. When an entry is no longer sticky, its cooldown begins."""
        sticky: dict[str, Span] = {}
        cooldown = dict(effects.cooldown)
        of_key = {entry.key: entry for entry in entries}
        for key, span in effects.sticky.items():
            entry = of_key.get(key)
            if not _has_begun(span, count):
                continue
            if count < span.end:
                if entry is None or entry.sticky:
                    sticky[key] = span
            elif entry is not None and entry.sticky and entry.cooldown:
                cooldown[key] = Span(count, count + entry.cooldown, kept=True)
        lasts = {
            key: span
            for key, span in cooldown.items()
            if _has_begun(span, count) and count < span.end
        }
        delayed = frozenset(entry.key for entry in entries if count < entry.delay)
        return _Lasting(sticky, lasts, delayed)

    def is_sticky(self, entry: Entry) -> bool:
        return entry.key in self.sticky and entry.sticky > 0

    def is_cooling(self, entry: Entry) -> bool:
        return entry.key in self.cooldown and entry.cooldown > 0

    def with_active(self, active: Sequence[Entry], count: int) -> Effects:
        """The effects after these entries fired. An effect that lasts already is not renewed."""
        sticky = dict(self.sticky)
        cooldown = dict(self.cooldown)
        for entry in active:
            if entry.sticky:
                sticky.setdefault(entry.key, Span(count, count + entry.sticky))
            if entry.cooldown:
                cooldown.setdefault(entry.key, Span(count, count + entry.cooldown))
        return Effects(sticky, cooldown)


def _has_begun(span: Span, count: int) -> bool:
    return span.kept or count > span.start


@dataclass(slots=True)
class _Search:
    """One search: scans until no entry fires any more."""

    entries: Sequence[Entry]
    messages: Sequence[str]
    keys: Keys
    settings: Settings
    lasting: _Lasting
    draw: Draw
    chance: Chance
    active: list[Entry] = field(default_factory=list)
    drawn: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    by_chance: list[Entry] = field(default_factory=list)
    left_out: Entry | None = None
    unlucky: set[str] = field(default_factory=set)
    again: list[str] = field(default_factory=list)
    """Texts that fired and are searched too."""
    used: int = 0
    """Characters of them."""
    level: int = 0

    def run(self) -> None:
        levels = sorted({entry.delay_until_recursion for entry in self.entries} - {0})
        if levels:
            self.level = levels.pop(0)
        scan = Scan.FIRST
        for _ in range(1 + self.settings.most_rounds):
            news = self._scan(scan)
            speaking = [entry for entry in news if not entry.prevent_recursion]
            has_room = self.left_out is None
            if not (self.settings.recursive and has_room and speaking):
                if not levels:
                    return
                self.level = levels.pop(0)
            self.again.append("\n".join(entry.content for entry in speaking))
            self.used += sum(map(self.settings.length_of, speaking))
            scan = Scan.AGAIN

    def _scan(self, scan: Scan) -> list[Entry]:
        """Adds the entries that fire now to `active`, and gives those whose texts may make others fire."""
        candidates = [
            entry
            for entry in self.entries
            if self._is_open(entry) and self._could_fire(entry, scan)
        ]
        candidates.sort(key=lambda entry: not self.lasting.is_sticky(entry))
        candidates = self._without_losers(candidates)
        ignoring = sum(entry.ignore_budget for entry in candidates)
        length = 0
        for entry in candidates:
            ignoring -= entry.ignore_budget
            if self.left_out is not None and not entry.ignore_budget:
                if ignoring:
                    continue
                break
            if not self._is_lucky(entry):
                continue
            length += self.settings.length_of(entry)
            if not entry.ignore_budget and self._is_full(length):
                self.left_out = entry
                continue
            self.active.append(entry)
        return [entry for entry in candidates if entry.key not in self.unlucky]

    def _is_open(self, entry: Entry) -> bool:
        """Whether the entry was not decided in an earlier scan."""
        return entry not in self.active and entry.key not in self.unlucky

    def _is_full(self, length: int) -> bool:
        room = self.settings.room
        return room is not None and self.used + length >= room

    def _could_fire(self, entry: Entry, scan: Scan) -> bool:
        is_sticky = self.lasting.is_sticky(entry)
        if entry.key in self.lasting.delayed or (self.lasting.is_cooling(entry) and not is_sticky):
            return False
        if not is_sticky and not self._may_recur(entry, scan):
            return False
        if "@@activate" in entry.decorators:
            return True
        if "@@dont_activate" in entry.decorators:
            return False
        return entry.constant or is_sticky or self.keys.fires(entry, self._scanned(entry))

    def _may_recur(self, entry: Entry, scan: Scan) -> bool:
        if scan is Scan.FIRST:
            return not entry.delay_until_recursion
        if entry.delay_until_recursion > self.level:
            return False
        return not (self.settings.recursive and entry.exclude_recursion)

    def _scanned(self, entry: Entry) -> str:
        """The text in which the keys of an entry are sought: messages, the newest first, and texts that fired."""
        depth = self.settings.depth if entry.scan_depth is None else entry.scan_depth
        if depth <= 0:
            return ""
        messages = [message.strip() for message in self.messages[: min(depth, MOST_DEPTH)]]
        return _MARK + f"\n{_MARK}".join((*messages, *self.again))

    def _is_lucky(self, entry: Entry) -> bool:
        if entry.is_certain or self.lasting.is_sticky(entry):
            return True
        self.by_chance.append(entry)
        if self.chance(entry):
            return True
        self.unlucky.add(entry.key)
        return False

    # --- groups -------------------------------------------------------------------------------------------------------

    def _without_losers(self, candidates: Sequence[Entry]) -> list[Entry]:
        """The candidates without those that lose in one of their groups."""
        groups: dict[str, list[Entry]] = {}
        for entry in candidates:
            for name in entry.groups:
                groups.setdefault(name, []).append(entry)
        losers: set[str] = set()
        undecided: dict[str, list[Entry]] = {}
        for name, members in groups.items():
            # There this takes a sticky entry too whose cooldown has begun with it.
            losers |= {entry.key for entry in members if self.lasting.is_cooling(entry)}
            sticky = [entry for entry in members if self.lasting.is_sticky(entry)]
            if sticky:
                losers |= {entry.key for entry in members if entry not in sticky}
            else:
                best = self._best_scored(members)
                losers |= {entry.key for entry in members if entry not in best}
                undecided[name] = best
        for name, members in undecided.items():
            losers |= {entry.key for entry in self._losers_of(name, members)}
        return [entry for entry in candidates if entry.key not in losers]

    def _best_scored(self, members: Sequence[Entry]) -> list[Entry]:
        """The members without those that are scored and have fewer keys in the text than another one."""
        is_scored = [self._is_scored(entry) for entry in members]
        if not any(is_scored):
            return list(members)
        scores = [self.keys.score(entry, self._scanned(entry)) for entry in members]
        most = max(scores)
        rows = zip(members, scores, is_scored, strict=True)
        return [entry for entry, score, scored in rows if score == most or not scored]

    def _is_scored(self, entry: Entry) -> bool:
        return self.settings.group_scoring if entry.group_scoring is None else entry.group_scoring

    def _losers_of(self, name: str, members: Sequence[Entry]) -> list[Entry]:
        """All members but the winner of the group; all of them if a member fired in an earlier scan."""
        if any(entry.group == name for entry in self.active):
            return list(members)
        if len(members) <= 1:
            return []
        overriding = [entry for entry in members if entry.group_override]
        if overriding:
            winner: Entry | None = max(overriding, key=lambda entry: entry.order)
        else:
            self.drawn[name] = tuple(members)
            winner = self.draw(name, members)
        if winner is None:
            return []
        return [entry for entry in members if entry is not winner]


def by_weight(random: Callable[[], float]) -> Draw:
    """A draw by the weights of entries, with numbers in [0, 1) of `random`."""

    def draw(_name: str, candidates: Sequence[Entry]) -> Entry | None:
        rest = random() * sum(entry.group_weight for entry in candidates)
        for entry in candidates:
            rest -= entry.group_weight
            if rest <= 0:
                return entry
        return None

    return draw


def by_probability(random: Callable[[], float]) -> Chance:
    """A chance by the probabilities of entries, with numbers in [0, 1) of `random`."""
    return lambda entry: random() * 100 <= entry.probability


def with_macros(entries: Sequence[Entry], keys: Keys) -> list[Entry]:
    """The entries with the macros replaced whose meaning is known, as their texts stand in a prompt."""
    return [replace(entry, content=keys.named(entry.content)) for entry in entries]
