"""Which triggers of a search must run: all but the triggers that conditions on keys decide (sandbox/conditions.py).

A trigger is read once, after it ran without fault. One look at the messages then serves all conditions, and only
conditions of which a message has a key are decided one by one: what a search costs grows with what may fire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from sandbox.condition_reading import ParsedCondition, Role, read
from sandbox.conditions import (
    MOST_CHARACTERS,
    Chat,
    KeyIndex,
    SearchedTexts,
    SoughtKey,
    TooMuchText,
    is_certain,
    named_text,
    searches_of,
    speaker_names,
)
from sandbox.values import frozen

MOST_READ = 50_000
"""Triggers whose readings are kept; beyond that all are forgotten, and read again when they are searched. About 60 MB."""
MOST_CONTENT = 50_000
"""Characters of all messages of a search in which conditions are decided, with the names in them."""


class Outcome(Enum):
    """What a search does with a trigger."""

    RUNS = "runs"
    FIRES = "fires"
    STAYS_QUIET = "stays quiet"


@frozen
class Selection:
    """The indexes of the triggers that must run, and of triggers that fire without running. All others are quiet."""

    running: Sequence[int]
    firing: Sequence[int] = ()


class ConditionIndex:
    """The conditions of all triggers that were read, by source."""

    def __init__(self) -> None:
        self._readings: dict[str, ParsedCondition | None] = {}
        self._usual: dict[str, Outcome] = {}
        """The outcome of each trigger with a condition where no message has any key."""
        self._keys = KeyIndex()
        self._sources_by_key: dict[SoughtKey, list[str]] = defaultdict(list)

    def unread(self, sources: Iterable[str]) -> list[str]:
        """Return the triggers that were not read yet, each once."""
        return [source for source in dict.fromkeys(sources) if source not in self._readings]

    def learn(self, source: str, reading: ParsedCondition | None) -> None:
        """Note the condition that was read in a trigger, or None; the trigger ran without fault. If
        too many are known, all are forgotten first."""
        if len(self._readings) >= MOST_READ:
            self._readings.clear()
            self._usual.clear()
            self._keys.clear()
            self._sources_by_key.clear()
        self._readings[source] = reading
        if reading is None:
            return
        self._usual[source] = _outcome(reading, Chat([], {}))
        for search in searches_of(reading.condition):
            for key in search.keys:
                if key:
                    self._keys.add(key)
                    self._sources_by_key[key].append(source)

    def select(self, triggers: Sequence[str], context: Mapping[str, Any]) -> Selection:
        """Return which triggers must run, and which fire without running. All must run if no
        condition is known, or if the messages are unusual or too long."""
        messages = context.get("messages")
        everything = Selection(range(len(triggers)))
        if not self._usual or type(messages) is not list or not _are_usual(messages):
            return everything
        names = speaker_names(context)
        texts = [named_text(message, names) for message in messages]
        if sum(map(len, texts)) > MOST_CONTENT or not all(map(is_certain, texts)):
            return everything
        searched = SearchedTexts(MOST_CHARACTERS)
        try:
            keys = self._keys.found_in(texts, searched)
            chat = Chat(messages, names, keys, searched)
            return self._selection(triggers, self._decided(keys, chat))
        except (TooMuchText, TypeError):  # one trigger is not even a text
            return everything

    def _decided(self, keys: Collection[SoughtKey], chat: Chat) -> dict[str, Outcome]:
        """Return the outcome of each trigger that looks for any of the keys."""
        outcomes: dict[str, Outcome] = {}
        for key in keys:
            for source in self._sources_by_key[key]:
                reading = self._readings[source]
                if source not in outcomes and reading is not None:
                    outcomes[source] = _outcome(reading, chat)
        return outcomes

    def _selection(self, triggers: Sequence[str], decided: Mapping[str, Outcome]) -> Selection:
        """Return which triggers must run, and which fire without a run. The outcome of a trigger is
        that in `decided`, or else its usual one; without any, it runs."""
        running: list[int] = []
        firing: list[int] = []
        for index, source in enumerate(triggers):
            outcome = decided.get(source)
            if outcome is None:
                outcome = self._usual.get(source, Outcome.RUNS)
            if outcome is Outcome.STAYS_QUIET:
                continue
            if outcome is Outcome.RUNS:
                running.append(index)
            else:
                firing.append(index)
        return Selection(running, firing)


def read_all(sources: Iterable[str]) -> list[ParsedCondition | None]:
    """Return the readings of triggers."""
    return list(map(read, sources))


def _outcome(reading: ParsedCondition, chat: Chat) -> Outcome:
    """Return what the condition of a trigger already decides; the trigger runs if its other conditions count too."""
    if chat.holds(reading.condition):
        return Outcome.RUNS if reading.role is Role.NEEDED else Outcome.FIRES
    return Outcome.RUNS if reading.role is Role.ENOUGH else Outcome.STAYS_QUIET


def _are_usual(messages: Sequence[object]) -> bool:
    """Tell whether each message is an object with a text."""
    return all(
        type(message) is dict and type(message.get("content")) is str for message in messages
    )
