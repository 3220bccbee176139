"""A line of the record of recalls, and a search of now, as a receipt that a person reads. The points, words and rules
come from the record or from the search; here they only become sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from languages import _
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.recall.day_lines import DayNotes
from memory_server.conversations.recall.why import (
    OtherPoints,
    held_back,
    joined_words,
    near_miss_text,
    reason,
)
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.recorded_recall import RecordedItem, RecordedRecall
from memory_server.kernel.values import frozen
from memory_server.lore import LongTermMemory, left_out_text, trigger_text
from memory_server.memories.reasons import StoredNow
from memory_server.web.charts import OTHER, Piece, underlined
from memory_server.web.speech import Speech

MOST_CHARS = 2_000
"""Characters of a text on a page; behind it is a link to all of it."""
_ROOM_OVER_NEEDED = 1.2
"""The end of a meter, over the points that were needed."""
_ROOM_OVER_MOST = 1.08
"""The end of a meter, over the most points of a memory."""
_WITHOUT_POINTS = ("answer", "plan", "pinned", "last", "action")
"""Tiers of memories that came for another reason than their points."""


@frozen
class QuotedMessage:
    """A message of a memory: who (empty: you), and its pieces."""

    who: str
    yours: bool
    pieces: Sequence[Piece]


@frozen
class Came:
    """A memory that came: what is known of it now (None if it is gone), why it came, what is said `about` it, and its
    meter. `place`: the conversation that keeps it. `share` and `enough`: parts of 100, on the scale of the receipt."""

    id: str
    place: str
    memory: ShortTermMemory | None
    said: Sequence[QuotedMessage]
    why: str
    about: str
    points: float | None
    share: float
    enough: float


@frozen
class Near:
    """A memory that nearly came, and what it lacked."""

    id: str
    place: str
    text: str
    why: str


@frozen
class Spoke:
    """What else came: a trigger or a note with its text. `size`: how long it was and its order, for a trigger."""

    kind: str
    name: str
    text: str
    size: str = ""


@frozen
class OmittedMemory:
    """A memory whose trigger fired and which was left out, and why."""

    name: str
    why: str


@frozen
class ShownRecall:
    """A recall, opened. `asked`: the pieces of the last message; `other_words`: the words that the caller gave beside
    it; `left_out`: whose trigger fired, and which were not given; `word`: the heaviest word, for a trigger; `place`:
    the conversation that was asked; `begins_session`: nothing was asked yet."""

    asked: Sequence[Piece]
    other_words: Sequence[str]
    came: Sequence[Came]
    near: Sequence[Near]
    spoke: Sequence[Spoke]
    left_out: Sequence[OmittedMemory]
    held: Sequence[str]
    needed: float
    word: str
    place: str
    begins_session: bool

    @property
    def has_others(self) -> bool:
        """Whether a word is underlined that is not in both places."""
        pieces = list(self.asked)
        for item in self.came:
            for message in item.said:
                pieces += message.pieces
        return any(piece.level == OTHER for piece in pieces)


def messages_of(
    memory: ShortTermMemory,
    words: Mapping[str, float],
    heaviest: float,
    speech: Speech,
    notes: DayNotes,
    others: Mapping[str, float] = NOTHING,
) -> list[QuotedMessage]:
    """Return what was said, at most MOST_CHARS of it, with notes on its days. The shared `words` are underlined, and in
    another way the `others`, which the caller gave."""
    messages: list[QuotedMessage] = []
    room = MOST_CHARS
    for message in memory.messages:
        if room > 0 and message.content.strip():
            is_yours = message.role == "user"
            who = ""
            if message.name or not is_yours:
                who = speech.speaker(message.role, message.name)
            said_ms = message.time_ms or memory.time_ms
            text = notes.within(message.content[:room], said_ms)
            pieces = underlined(text, words, heaviest, others)
            messages.append(QuotedMessage(who, is_yours, pieces))
            room -= len(message.content)

    # A memory without messages has only its text.
    if messages:
        return messages

    text = notes.within(memory.text[:room], memory.time_ms)
    return [QuotedMessage("", True, underlined(text, words, heaviest, others))]


def receipt(
    recall: RecordedRecall,
    now: StoredNow,
    triggers: Mapping[str, LongTermMemory],
    speech: Speech,
) -> ShownRecall:
    """Make the receipt of a recall with its memories as they are `now`; `triggers`: the long-term memories by name."""
    items = [
        item for item in recall.came if item.relevance is not None or item.tier in _WITHOUT_POINTS
    ]
    weights = _greatest_weights(items)
    shared = joined_words(recall.said, weights)
    heaviest = max(shared.values(), default=1.0)
    scale = _scale(items, recall.needed)
    rows: list[Came] = []
    for item in items:
        memory = now.memories.get(item.id)
        messages: list[QuotedMessage] = []
        if memory is not None:
            messages = messages_of(memory, item.words, heaviest, speech, now.notes, item.given)

        points = _counted(item, recall.needed)
        shown = Came(
            id=item.id,
            place=item.conversation,
            memory=memory,
            said=messages,
            why=_why(item, recall, heaviest, speech),
            about=now.about(item),
            points=points,
            share=_percent(max(0.0, points or 0.0), scale),
            enough=_percent(recall.needed, scale),
        )
        rows.append(shown)

    # A near miss that is gone is not shown: nothing can be done about it.
    near: list[Near] = []
    for item in recall.near:
        memory = now.memories.get(item.id)
        if memory is not None:
            why_not = near_miss_text(item, recall.said, zh=speech.zh)
            near.append(Near(item.id, item.conversation, text=spoken(memory), why=why_not))

    return ShownRecall(
        asked=underlined(recall.said, weights, heaviest, _kept_words(items)),
        other_words=recall.other_words,
        came=rows,
        near=near,
        spoke=[_spoke(item, triggers) for item in recall.others],
        left_out=[OmittedMemory(omitted.id, left_out_text(omitted)) for omitted in recall.left_out],
        held=[held_back(rule, count) for rule, count in recall.held.items()],
        needed=recall.needed,
        word=max(shared, key=lambda word: (len(word) > 1, shared[word]), default=""),
        place=recall.conversation,
        begins_session=recall.begins_session,
    )


def _greatest_weights(items: Sequence[RecordedItem]) -> dict[str, float]:
    """Return each word that brought a memory, with the most that it counted for a memory."""
    weights: dict[str, float] = {}
    for item in items:
        for word, weight in item.words.items():
            weights[word] = max(weight, weights.get(word, 0.0))
    return weights


def _scale(items: Sequence[RecordedItem], needed: float) -> float:
    """Return the points at the end of the meters: a little more than the most that a memory has, or than it needed."""
    points = [_counted(item, needed) or 0.0 for item in items]
    most = max([needed * _ROOM_OVER_NEEDED, *points])
    return most * _ROOM_OVER_MOST or 1.0


def _percent(points: float, scale: float) -> float:
    return round(100 * points / scale, 1)


def _kept_words(items: Sequence[RecordedItem]) -> dict[str, float]:
    """Return the words of the message that are kept with memories, and are in no text of theirs."""
    words: dict[str, float] = {}
    for item in items:
        words.update(item.kept)
    return words


def _spoke(item: RecordedItem, triggers: Mapping[str, LongTermMemory]) -> Spoke:
    """Return a trigger or a note that came, with its text if it is there."""
    trigger = triggers.get(item.id)
    text = "" if trigger is None else trigger.prompt
    size = trigger_text(item) if item.tier == "trigger" else ""
    return Spoke(item.tier, item.id, text=text, size=size)


def _counted(item: RecordedItem, needed: float) -> float | None:
    """Return the points that `needed` is for, or None if it came without them, by its meaning or by chance; or the
    line is of a version that did not note them, whose `relevance` is not compared with `needed`."""
    if item.counted is None or item.counted < needed or item.tier in ("answer", "flashback"):
        return None
    return item.counted


def spoken(memory: ShortTermMemory) -> str:
    """Return what was said, without the names of the speakers."""
    return " ".join(message.content for message in memory.messages) or memory.text


def _why(item: RecordedItem, recall: RecordedRecall, heaviest: float, speech: Speech) -> str:
    """Say why a memory came, and whether the answer used it, where that is known. `heaviest`: the most that a word
    counted."""
    words = joined_words(recall.said, item.words)
    others = OtherPoints(item.given, item.kept)
    why = reason(
        item.tier, words, heaviest, item.around, zh=speech.zh, overview=item.overview, others=others
    )
    if recall.used is None or item.tier in ("flashback", *_WITHOUT_POINTS):
        return why
    use = _("The answer used it.") if item.id in recall.used else _("The answer did not use it.")
    blank = "" if speech.zh else " "
    return f"{why}{blank}{use}"
