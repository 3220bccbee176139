"""The record of recalls: what a hook, a tool or a command was given, and why. A line of it is made and written after
the answer. Nothing is noted during a pause, and nothing of a message that is private."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from memory_server.conversations.recall.words import spelling_of
from memory_server.kernel.errors import StorageError
from memory_server.kernel.messages import Message
from memory_server.kernel.private import to_keep
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.recalls import Line, RecallLog
from memory_server.kernel.text import Finding, estimated_tokens, shown
from memory_server.kernel.times import DAY_MS, iso
from sandbox.locale import N_, _, counted

if TYPE_CHECKING:
    from memory_server.conversations.recall.activation import Activation
    from memory_server.conversations.recall.order import Recalled
    from memory_server.conversations.recall.selection import Recall
    from memory_server.kernel.recorded_recall import RecordedRecall

SAID_CHARS, MOST_WORDS = 200, 12
"""Characters of the last message, and shared words of a memory (the heaviest), at most."""
AFTER_SECONDS = 0.05
"""How long after a recall a server writes its line: then the answer is given."""


@dataclass(frozen=True, slots=True)
class Given:
    """What was given, as `text`, to a question by `messages`, and where it is from. `others`: what else came."""

    conversation_id: str
    messages: Sequence[Message]
    text: object
    recall: Recall | None = None
    activation: Activation | None = None
    others: Sequence[Line] = ()


class Recalls:
    """Notes recalls in `kept`, `after` so many seconds, and finds those of the last `days` (0: nothing is noted, and
    nothing is left). `may` says whether something may be noted now."""

    def __init__(self, kept: RecallLog, clock: Callable[[], int], days: float, may: Callable[[], bool], after: float):
        self._kept, self._clock, self._days, self._may, self._after = kept, clock, days, may, after
        self._pending: deque[Callable[[], Line | None]] = deque()
        self._due: asyncio.AbstractEventLoop | None = None
        """The loop that writes them soon."""

    def note(self, make: Callable[[str], Line | None]) -> None:
        """Write, after the answer, the line that `make` makes for this time; None: there is none."""
        if self._days and self._may():
            self._pending.append(partial(make, iso(self._clock())))
            if self._due is not (loop := asyncio.get_running_loop()):  # what is noted until then is written with it
                loop.call_later(self._after, self._begin_to_write)
                self._due = loop

    def _begin_to_write(self) -> None:
        self._due = None
        with suppress(RuntimeError):  # the loop ends, and then its app has written all
            asyncio.get_running_loop().run_in_executor(None, self.write)

    def write(self) -> None:
        """Write what was noted. A failure is no harm."""
        lines = list[Line]()
        try:
            with suppress(IndexError):  # the queue is empty
                while True:
                    if (line := self._pending.popleft()()) is not None:
                        lines.append(line)
        finally:
            if lines:
                with suppress(OSError):
                    self._kept.append(*lines)

    def found(self, conversation_id: str | None = None) -> list[RecordedRecall]:
        """The recalls of a conversation or of all, oldest first, each with what its answer used. Blocking. Raises
        StorageError."""
        self.write()
        try:
            lines = self._kept.lines(conversation_id)
        except OSError as error:
            raise StorageError(_("The record of recalls cannot be read: {reason}.", str(error))) from error
        from memory_server.kernel.recorded_recall import recorded_recall  # here: a hook only writes the record

        recalls: dict[object, RecordedRecall] = {}
        latest_keys = dict[object, object]()
        for line in filter(self._lasts, lines):
            recall = recorded_recall(line)
            session = recall.conversation, recall.session
            if recall.id:
                # Two hooks that are installed both note a turn.
                key: object = (session, recall.turn) if recall.turn else recall.id
                recalls.setdefault(key, recall)
                latest_keys[session] = key
            elif session in latest_keys:
                key = latest_keys[session]
                recalls[key] = _credited(recalls[key], recall)
        return sorted(recalls.values(), key=lambda recall: recall.at_ms)

    def tidy(self) -> None:
        """Remove what is too old. Blocking. Raises OSError."""
        self._kept.rewrite(lambda line: line if self._lasts(line) else None)

    def finding(self) -> Finding:
        """How many recalls there are, and the share of empty ones. Blocking."""
        try:
            found = self.found()
        except StorageError as error:
            return Finding("warning", "recalls", str(error))
        share = sum(recall.is_quiet for recall in found) / max(1, len(found))
        what = _("{recalls} in {days:g} days, {share:.0%} empty", counted(len(found), "recall"), self._days, share)
        return Finding("ok", _("recalls"), what)

    def _lasts(self, line: Line) -> bool:
        return bool(self._days) and line["at"] >= iso(round(self._clock() - self._days * DAY_MS))


def _credited(recall: RecordedRecall, answer: RecordedRecall) -> RecordedRecall:
    """A recall with what its answer used, which a later line of the same session says."""
    if not recall.came or answer.turn not in ("", recall.turn or answer.turn):
        return recall
    matches = [item.id for item in recall.came if item.tier != "flashback"]
    used = [memory_id for memory_id in matches if memory_id in (answer.used or ())]
    return replace(recall, used=used, line={**recall.line, "used": used})


def recall_line(given: Given, asker: Line, at: str) -> Line | None:
    """The line of a recall; None: the last message is private."""
    said = as_said(given.messages)
    kept, last = to_keep(said), to_keep(said[-1:])
    if said and not last:
        return None
    # Of messages with private parts, a word counts as said only if the rest has it as it is.
    public = None if kept == said else "\n".join(message.content for message in kept).casefold()
    text, fired = str(given.text), () if given.activation is None else given.activation.activated
    came = [*given.others, *({"id": each.memory.name, "tier": "trigger"} for each in fired)]
    line: Line = {"id": secrets.token_hex(4), "at": at, "conversation": given.conversation_id, **asker, "came": came}
    if given.activation is not None:
        line["failed"] = [each.memory.name for each, _verdict in given.activation.failed]
    if (recall := given.recall) is not None:
        tiers = {"top": recall.top, "next": recall.next, "flashback": recall.flashback}
        came += [_item(each, public) | {"tier": tier} for tier, items in tiers.items() for each in items]
        came += [{"id": one.id, "tier": N_("answer"), "chars": len(one.text)} for one in recall.answers.values()]
        ids, held = {item["id"] for item in came}, recall.held_back
        missed = (one for one in recall.near if one.recalled.memory.id not in ids)
        line["near"] = [_item(m.recalled, public) | {"lacked": m.lacked, "points": round(m.points, 2)} for m in missed]
        line["needed"] = round(recall.needed, 2)
        line["otherWords"] = list(recall.query.other_words)
        rules = {"muted": held.muted, "too_recent": held.recent, "in_context": held.in_context}
        rules["same_moment"] = held.adjacent
        line["held"] = {rule: count for rule, count in rules.items() if count}
    line["said"] = shown("".join(message.content for message in last), SAID_CHARS)
    line |= {"chars": len(text), "tokens": estimated_tokens(text)}
    return {name: value for name, value in line.items() if value}


def _item(recalled: Recalled, public: str | None) -> Line:
    memory, receipt = recalled.memory, recalled.receipt
    shared = [word for word in receipt.words_shared if public is None or word.word.casefold() in public]
    heaviest = sorted(shared, key=lambda word: -word.points)[:MOST_WORDS]
    item: Line = {"id": memory.id, "relevance": round(receipt.relevance, 2), "chars": len(memory.text)}
    item["counted"] = round(recalled.counted, 2)
    item["words"] = {word.word: round(word.points, 2) for word in heaviest}
    for name, words in (("given", receipt.words_given), ("kept", receipt.words_kept)):
        if words:
            spelt = spelling_of(memory)
            heaviest = sorted(words, key=lambda word: -word.points)[:MOST_WORDS]
            item[name] = {spelt(word.word): round(word.points, 2) for word in heaviest}
    if receipt.around:
        item["around"] = round(receipt.around, 2)
    if receipt.overview:
        item["overview"] = True
    return item if recalled.kept_in is None else item | {"kept_in": recalled.kept_in}
