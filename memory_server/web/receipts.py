"""A line of the record of recalls, and a search of now, as a receipt that a person reads. The points, words and rules
are those of the record or of the search; here they only become sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from memory_server.conversations.model import LongTermMemory, ShortTermMemory
from memory_server.kernel.recalls import Line
from memory_server.kernel.times import milliseconds
from memory_server.memories.reasons import joined_words, reason
from memory_server.web.charts import Piece, underlined
from memory_server.web.speech import Speech
from sandbox.locale import _, joined, n_

MOST_CHARS = 2_000
"""Characters of a text on a page; behind it is a link to all of it."""
_RULES = {
    "muted": lambda count: n_("{count} is muted here.", "{count} are muted here.", count),
    "too_recent": lambda count: n_(
        "{count} is so new that the chat still has it.",
        "{count} are so new that the chat still has them.",
        count,
    ),
    "in_context": lambda count: n_(
        "{count} is still in the context of the session.", "{count} are still in the context of the session.", count
    ),
    "same_moment": lambda count: n_(
        "{count} was said at the same moment as one that came.",
        "{count} were said at the same moment as one that came.",
        count,
    ),
}


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
    """One recall, opened. `asked`: the pieces of the last message. `word`: the heaviest word, for a trigger. `place`:
    the conversation that was asked."""

    asked: Sequence[Piece]
    came: Sequence[Came]
    near: Sequence[Near]
    spoke: Sequence[Spoke]
    held: Sequence[str]
    needed: float
    word: str
    place: str


def at_ms(line: Line) -> int:
    return milliseconds(datetime.fromisoformat(line["at"]))


def messages_of(memory: ShortTermMemory, words: Mapping[str, float], heaviest: float, speech: Speech) -> list[Said]:
    """What was said, with the shared words underlined."""
    said, room = list[Said](), MOST_CHARS
    for message in memory.messages:
        if room > 0 and message.content.strip():
            yours = message.role == "user"
            who = "" if yours and not message.name else speech.speaker(message.role, message.name)
            said.append(Said(who, yours, underlined(message.content[:room], words, heaviest)))
            room -= len(message.content)
    return said or [Said("", True, underlined(memory.text[:room], words, heaviest))]


def receipt(
    line: Line,
    known: Mapping[str, ShortTermMemory],
    triggers: Mapping[str, LongTermMemory],
    speech: Speech,
) -> ShownRecall:
    """`known`: the memories by id, as they are now; `triggers`: the long-term ones by name."""
    came, near = line.get("came", ()), line.get("near", ())
    items = [item for item in came if "relevance" in item or item.get("tier") in ("answer", "pinned", "last")]
    said, greatest = line.get("said", ""), dict[str, float]()
    for item in items:
        for word, points in item.get("words", {}).items():
            greatest[word] = max(points, greatest.get(word, 0.0))
    shared = joined_words(said, greatest)
    heaviest, needed = max(shared.values(), default=1.0), float(line.get("needed", 0.0))
    scale = max([needed * 1.2, *(_counted(item, needed) or 0.0 for item in items)]) * 1.08 or 1.0
    used, home = line.get("used"), line["conversation"]
    rows = list[Came]()
    for item in items:
        memory, words = known.get(item["id"]), item.get("words", {})
        points = _counted(item, needed)
        rows.append(
            Came(
                item["id"],
                item.get("kept_in", home),
                memory,
                [] if memory is None else messages_of(memory, words, heaviest, speech),
                speech.say(_why(item, joined_words(said, item.get("words", {})), heaviest, used, speech)),
                points,
                round(100 * max(0.0, points or 0.0) / scale, 1),
                round(100 * needed / scale, 1),
            )
        )
    nearly = [
        Near(item["id"], item.get("kept_in", home), spoken(known[item["id"]]), speech.say(_lacked(item, speech)))
        for item in near
        if item["id"] in known
    ]
    spoke = [
        Spoke(item["tier"], item["id"], triggers[item["id"]].prompt if item["id"] in triggers else "")
        for item in came
        if item.get("tier") in ("trigger", "note")
    ]
    held = [speech.say(_RULES[rule](count)) for rule, count in line.get("held", {}).items() if rule in _RULES]
    word = max(shared, key=lambda word: (len(word) > 1, shared[word]), default="")
    return ShownRecall(underlined(said, greatest, heaviest), rows, nearly, spoke, held, needed, word, home)


def _counted(item: Line, needed: float) -> float | None:
    """The points that `needed` is for. None: it came without them, by its meaning or by chance; or the line is of a
    version that did not note them, whose `relevance` is not compared with `needed`."""
    points: float | None = item.get("counted")
    return None if points is None or points < needed or item.get("tier") in ("answer", "flashback") else points


def spoken(memory: ShortTermMemory) -> str:
    """What was said, without the names of the speakers."""
    return " ".join(message.content for message in memory.messages) or memory.text


def _why(item: Line, words: Mapping[str, float], heaviest: float, used: Sequence[str] | None, speech: Speech) -> str:
    tier = item.get("tier")
    around, overview = float(item.get("around", 0.0)), bool(item.get("overview"))
    why = reason(tier, words, heaviest, around, zh=speech.zh, overview=overview)
    if used is None or tier in ("flashback", "answer", "pinned", "last"):
        return why
    after = _("The answer used it.") if item["id"] in used else _("The answer did not use it.")
    return joined("" if speech.zh else " ", (why, after))


def _lacked(item: Line, speech: Speech) -> str:
    words = speech.words(list(item.get("words", {}))[:3])
    match item.get("lacked"):
        case "place":
            return _("enough, but others had more")
        case "same_moment":
            return _("said at the same moment as one that came, so not given again")
        case "words":
            return _("only {words} is the same, which says little", words) if words else _("shares too little")
        case _:
            points = f"{item.get('points', 0.0):.1f}"
            if words:
                return _("only {words} is in both: {points} points too few", words, points)
            return _("{points} points too few", points)
