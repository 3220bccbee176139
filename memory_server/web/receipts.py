"""A line of the record of recalls, and a search of now, as a receipt that a person reads. The points, words and rules
are those of the record or of the search; here they only become sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory_server.conversations.model import LongTermMemory, ShortTermMemory
from memory_server.conversations.recall.why import OtherPoints, held_back, joined_words, lacked, reason
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.recorded_recall import RecordedItem, RecordedRecall
from memory_server.web.charts import OTHER, Piece, underlined
from memory_server.web.speech import Speech
from sandbox.locale import _, joined

MOST_CHARS = 2_000
"""Characters of a text on a page; behind it is a link to all of it."""
_WITHOUT_POINTS = ("answer", "pinned", "last")
"""Tiers of memories that came for another reason than their points."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a memory: who (empty: you), and its pieces."""

    who: str
    yours: bool
    pieces: Sequence[Piece]


@dataclass(frozen=True, slots=True)
class Came:
    """A memory that came: what is known of it now (None: it is gone), why it came, and its meter. `place`: the
    conversation that keeps it. `share` and `enough`: of 100, on the scale of the receipt."""

    id: str
    place: str
    memory: ShortTermMemory | None
    said: Sequence[Said]
    why: str
    points: float | None
    share: float
    enough: float


@dataclass(frozen=True, slots=True)
class Near:
    """A memory that nearly came, and what it lacked."""

    id: str
    place: str
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Spoke:
    """What else came: a trigger or a note with its text."""

    kind: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ShownRecall:
    """One recall, opened. `asked`: the pieces of the last message; `other_words`: what the caller gave beside it;
    `word`: the heaviest word, for a trigger; `place`: the conversation that was asked; `begins_session`: nothing was
    asked yet."""

    asked: Sequence[Piece]
    other_words: Sequence[str]
    came: Sequence[Came]
    near: Sequence[Near]
    spoke: Sequence[Spoke]
    held: Sequence[str]
    needed: float
    word: str
    place: str
    begins_session: bool

    @property
    def has_others(self) -> bool:
        """Whether a word is underlined that is not in both places."""
        said = (message for item in self.came for message in item.said)
        pieces = [*self.asked, *(piece for message in said for piece in message.pieces)]
        return any(piece.level == OTHER for piece in pieces)


def messages_of(
    memory: ShortTermMemory,
    words: Mapping[str, float],
    heaviest: float,
    speech: Speech,
    others: Mapping[str, float] = NOTHING,
) -> list[Said]:
    """What was said, with the shared words underlined, and the `others` that the caller gave in another way."""
    said, room = list[Said](), MOST_CHARS
    for message in memory.messages:
        if room > 0 and message.content.strip():
            yours = message.role == "user"
            who = "" if yours and not message.name else speech.speaker(message.role, message.name)
            pieces = underlined(message.content[:room], words, heaviest, others)
            said.append(Said(who, yours, pieces))
            room -= len(message.content)
    return said or [Said("", True, underlined(memory.text[:room], words, heaviest, others))]


def receipt(
    recall: RecordedRecall,
    memories: Mapping[str, ShortTermMemory],
    triggers: Mapping[str, LongTermMemory],
    speech: Speech,
) -> ShownRecall:
    """`memories`: by id, as they are now; `triggers`: the long-term ones by name."""
    items = [item for item in recall.came if item.relevance is not None or item.tier in _WITHOUT_POINTS]
    greatest = dict[str, float]()
    for item in items:
        for word, weight in item.words.items():
            greatest[word] = max(weight, greatest.get(word, 0.0))
    shared = joined_words(recall.said, greatest)
    heaviest = max(shared.values(), default=1.0)
    scale = max([recall.needed * 1.2, *(_counted(item, recall.needed) or 0.0 for item in items)]) * 1.08 or 1.0
    came = list[Came]()
    for item in items:
        memory = memories.get(item.id)
        points = _counted(item, recall.needed)
        why = _why(item, joined_words(recall.said, item.words), heaviest, recall.used, speech)
        came.append(
            Came(
                id=item.id,
                place=item.conversation,
                memory=memory,
                said=[] if memory is None else messages_of(memory, item.words, heaviest, speech, item.given),
                why=speech.say(why),
                points=points,
                share=round(100 * max(0.0, points or 0.0) / scale, 1),
                enough=round(100 * recall.needed / scale, 1),
            )
        )
    near = [
        Near(item.id, item.conversation, spoken(memories[item.id]), speech.say(lacked(item, zh=speech.zh)))
        for item in recall.near
        if item.id in memories
    ]
    return ShownRecall(
        asked=underlined(recall.said, greatest, heaviest, _kept_words(items)),
        other_words=recall.other_words,
        came=came,
        near=near,
        spoke=[_spoke(item, triggers) for item in recall.others],
        held=[speech.say(held_back(rule, count)) for rule, count in recall.held.items()],
        needed=recall.needed,
        word=max(shared, key=lambda word: (len(word) > 1, shared[word]), default=""),
        place=recall.conversation,
        begins_session=recall.begins_session,
    )


def _kept_words(items: Sequence[RecordedItem]) -> dict[str, float]:
    """The words of the message that are kept with memories, and stand in no text of theirs."""
    return {word: points for item in items for word, points in item.kept.items()}


def _spoke(item: RecordedItem, triggers: Mapping[str, LongTermMemory]) -> Spoke:
    trigger = triggers.get(item.id)
    return Spoke(item.tier, item.id, "" if trigger is None else trigger.prompt)


def _counted(item: RecordedItem, needed: float) -> float | None:
    """The points that `needed` is for. None: it came without them, by its meaning or by chance; or the line is of a
    version that did not note them, whose `relevance` is not compared with `needed`."""
    if item.counted is None or item.counted < needed or item.tier in ("answer", "flashback"):
        return None
    return item.counted


def spoken(memory: ShortTermMemory) -> str:
    """What was said, without the names of the speakers."""
    return " ".join(message.content for message in memory.messages) or memory.text


def _why(
    item: RecordedItem, words: Mapping[str, float], heaviest: float, used: Sequence[str] | None, speech: Speech
) -> str:
    others = OtherPoints(item.given, item.kept)
    why = reason(item.tier, words, heaviest, item.around, zh=speech.zh, overview=item.overview, others=others)
    if used is None or item.tier in ("flashback", *_WITHOUT_POINTS):
        return why
    after = _("The answer used it.") if item.id in used else _("The answer did not use it.")
    return joined("" if speech.zh else " ", (why, after))
