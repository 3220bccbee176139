"""The record of recalls: what a hook, a tool or a command was given, and why. A line is made and written after the
answer. Nothing is noted during a pause, and nothing of a private message."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from languages import N_, Sentence, _, counted
from memory_server.conversations.ports import Line, RecallLog
from memory_server.conversations.recall.words import spelling_of
from memory_server.kernel.errors import StorageError
from memory_server.kernel.messages import Message
from memory_server.kernel.private import to_keep
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.text import Finding, estimated_tokens, shown
from memory_server.kernel.times import DAY_MS, iso, merged
from memory_server.kernel.values import frozen
from memory_server.lore import USUAL_ORDER

if TYPE_CHECKING:
    from memory_server.conversations.recall.order import Recalled
    from memory_server.conversations.recall.plans import Plan
    from memory_server.conversations.recall.receipts import MatchedWord
    from memory_server.conversations.recall.selection import Recall
    from memory_server.conversations.trigger_search import Activation
    from memory_server.kernel.recorded_recall import RecordedRecall
    from memory_server.lore import PromptFit, Shelved

SAID_CHARS = 200
"""Most characters of the last message in a line."""
MOST_WORDS = 12
"""Most shared words of a memory in a line; the heaviest are kept."""
MOST_LEFT_OUT = 50
"""Most memories with triggers that a line names as left out."""
AFTER_SECONDS = 0.05
"""Seconds from a recall until a server writes its line: by then the answer is given."""


@frozen
class RecallOutput:
    """What was given, as `text`, for a question by `messages`, and its sources. `others` are further items. `fitting`
    says which memories with triggers are in the text, and None means all that were activated. `without_room` are the ids
    of the memories of `recall` that are not in the text."""

    conversation_id: str
    messages: Sequence[Message]
    text: object
    recall: Recall | None = None
    activation: Activation | None = None
    others: Sequence[Line] = ()
    fitting: PromptFit | None = None
    without_room: Collection[str] = ()


class Recalls:
    """Notes recalls in `log`, `after` so many seconds, and finds the recalls of the last `days`. With 0 days nothing
    is noted, and nothing stays. `may` says whether something may be noted now."""

    def __init__(
        self,
        log: RecallLog,
        clock: Callable[[], int],
        days: float,
        may: Callable[[], bool],
        after: float,
    ):
        """Keep what is given, as the class says; nothing is noted yet. `log` is the file of the record."""
        self._log = log
        self._clock = clock
        self._days = days
        self._may = may
        self._after = after
        self._pending: deque[Callable[[], Line | None]] = deque()
        self._writing = threading.Lock()
        self._writing_loop: asyncio.AbstractEventLoop | None = None
        """The event loop that writes the pending lines soon."""

    def note(self, make: Callable[[str], Line | None]) -> None:
        """Make the line of `make` for this time and write it some time after the answer, unless `make` returns None.
        Do nothing if no record is kept, or nothing may be written now."""
        if not self._days or not self._may():
            return
        self._pending.append(partial(make, iso(self._clock())))
        loop = asyncio.get_running_loop()
        if self._writing_loop is not loop:  # what is noted until then is written with it
            loop.call_later(self._after, self._begin_to_write)
            self._writing_loop = loop

    def _begin_to_write(self) -> None:
        """Begin to write the pending lines in a thread."""
        self._writing_loop = None
        with suppress(RuntimeError):  # the loop ends, and then its app has written all
            asyncio.get_running_loop().run_in_executor(None, self.write)

    def write(self) -> None:
        """Make the pending lines and append them to the record. A record that cannot be written is passed over. An
        error of a line comes out after the lines before it are written."""
        with self._writing:  # whoever reads after it finds what another thread is writing
            lines: list[Line] = []
            try:
                while self._pending:
                    make_line = self._pending.popleft()
                    line = make_line()
                    if line is not None:
                        lines.append(line)
            finally:
                if lines:
                    with suppress(OSError):
                        self._log.append(*lines)

    def found(self, conversation_id: str | None = None) -> list[RecordedRecall]:
        """Write what is pending, and return the recalls of a conversation or of all, oldest first, each with what its
        answer used. Blocking. Raises StorageError."""
        self.write()
        try:
            lines = self._log.lines(conversation_id)
        except OSError as error:
            raise StorageError(
                Sentence("The record of recalls cannot be read: {reason}.", str(error))
            ) from error

        from memory_server.kernel.recorded_recall import (
            recorded_recall,
        )  # here: a hook only writes the record

        recalls: dict[object, RecordedRecall] = {}
        latest_keys: dict[object, object] = {}
        now_ms = self._clock()

        for line in lines:
            if not self._lasts(line, now_ms):
                continue
            recall = recorded_recall(line)

            session = (recall.conversation, recall.session)
            if recall.id:
                key: object = recall.id
                if recall.turn:  # two hooks that are installed both note a turn
                    key = (session, recall.turn, recall.line.get("use"))
                recalls.setdefault(key, recall)
                if "use" not in recall.line:  # an answer uses what came with the prompt
                    latest_keys[session] = key
            elif session in latest_keys:
                key = latest_keys[session]
                recalls[key] = _credited(recalls[key], recall)

        by_conversation: dict[str, list[RecordedRecall]] = {}
        for recall in recalls.values():
            by_conversation.setdefault(recall.conversation, []).append(recall)
        return merged(by_conversation.values(), now_ms)

    def tidy(self, seen_from_ms: int, *beside: RecallLog) -> None:
        """Remove what is too old at `seen_from_ms`, also from logs `beside` the record. Blocking. Raises OSError."""

        def lasting(line: Line) -> Line | None:
            return line if self._lasts(line, seen_from_ms) else None

        for log in (self._log, *beside):
            log.rewrite(lasting)

    def since_ms(self, seen_from_ms: int) -> int:
        """Return the time from which on recalls are kept at `seen_from_ms`."""
        return round(seen_from_ms - self._days * DAY_MS)

    def finding(self) -> Finding:
        """Return the number of recalls and the share of empty ones, or a warning if the record
        cannot be read. Blocking."""
        try:
            recalls = self.found()
        except StorageError as error:
            return Finding("warning", "recalls", str(error))
        quiet_share = sum(recall.is_quiet for recall in recalls) / max(1, len(recalls))
        number = counted(len(recalls), "recall")
        summary = _(
            "{recalls} in {days:g} days, {share:.0%} found nothing", number, self._days, quiet_share
        )
        return Finding("ok", _("recalls"), summary)

    def _lasts(self, line: Line, seen_from_ms: int) -> bool:
        """Return whether a line is young enough to stay."""
        if not self._days:
            return False
        return bool(line["at"] >= iso(self.since_ms(seen_from_ms)))


def _credited(recall: RecordedRecall, answer: RecordedRecall) -> RecordedRecall:
    """Add to a recall what its answer used, from a later line of the same session. It stays as it is if nothing came,
    or the answer is of another turn."""
    is_of_another_turn = answer.turn and recall.turn and answer.turn != recall.turn
    if not recall.came or is_of_another_turn:
        return recall
    answer_ids = answer.used or ()
    match_ids = [item.id for item in recall.came if item.tier != "flashback"]
    used_ids = [memory_id for memory_id in match_ids if memory_id in answer_ids]
    return replace(recall, used=used_ids, line={**recall.line, "used": used_ids})


def recall_line(given: RecallOutput, asker: Line, at: str) -> Line | None:
    """Return the line of a recall, with what came, what nearly came and why, without empty fields.
    Return None if the last message is private; words of private parts are left out."""
    messages = as_said(given.messages)
    last_public = to_keep(messages[-1:])
    if messages and not last_public:
        return None

    text = str(given.text)
    items = [*given.others, *_triggers_that_came(given)]
    line: Line = {
        "id": secrets.token_hex(4),
        "at": at,
        "conversation": given.conversation_id,
        **asker,
        "came": items,
    }

    if given.activation is not None:
        line["failed"] = [shelved.memory.name for shelved, _failure in given.activation.failed]
        line["leftOut"] = _left_out(given)

    if given.recall is not None:
        # A word that only a private part holds must not be in the record.
        public_text = _public_text(messages)
        recalled = _recalled_items(given.recall, public_text, given.conversation_id)
        items += [item for item in recalled if item["id"] not in given.without_room]
        without_room = [
            {**item, "lacked": "room"} for item in recalled if item["id"] in given.without_room
        ]
        ids = {item["id"] for item in (*items, *without_room)}
        line["near"] = without_room + _near_misses(given.recall, ids, public_text)
        line["needed"] = round(given.recall.needed, 2)
        line["otherWords"] = list(given.recall.query.other_words)
        line["held"] = _held_back_counts(given.recall)

    last_text = "".join(message.content for message in last_public)
    line["said"] = shown(last_text, SAID_CHARS)
    line["chars"] = len(text)
    line["tokens"] = estimated_tokens(text)
    return {name: value for name, value in line.items() if value}


def _public_text(messages: Sequence[Message]) -> str | None:
    """Return the case-folded text in which a word must occur to count as said, if messages have private parts. Return
    None if they have no private parts, so that all words count."""
    public_messages = to_keep(messages)
    if public_messages == messages:
        return None
    return "\n".join(message.content for message in public_messages).casefold()


def _item_of_plan(plan: Plan, conversation_id: str) -> Line:
    """Make the item of a plan that was shown unasked."""
    item: Line = {"id": plan.memory.id, "tier": N_("plan"), "chars": len(plan.message.content)}
    if plan.kept_in != conversation_id:
        item["kept_in"] = plan.kept_in
    return item


def _recalled_items(recall: Recall, public_text: str | None, conversation_id: str) -> list[Line]:
    """Make the items of a line for the plans for today, for the recalled short-term memories, and for their answers."""
    items = [_item_of_plan(plan, conversation_id) for plan in recall.due]
    tiers = {"top": recall.top, "next": recall.next, "flashback": recall.flashback}
    for tier, memories in tiers.items():
        items += [{**_item(recalled, public_text), "tier": tier} for recalled in memories]
    answers = recall.answers.values()
    items += [
        {"id": answer.id, "tier": N_("answer"), "chars": len(answer.text)} for answer in answers
    ]
    return items


def _near_misses(recall: Recall, ids: Collection[str], public_text: str | None) -> list[Line]:
    """Make the items of the memories that were nearly recalled, without the memories with these `ids`, which were
    given in another way."""
    items: list[Line] = []
    for near_miss in recall.near:
        if near_miss.recalled.memory.id not in ids:
            item = _item(near_miss.recalled, public_text)
            item["lacked"] = near_miss.lacked
            item["points"] = round(near_miss.points, 2)
            items.append(item)
    return items


def _held_back_counts(recall: Recall) -> dict[str, int]:
    """Count how many memories each rule held back; rules that held back none are left out."""
    held_back = recall.held_back
    counts = {
        "muted": held_back.muted,
        "too_recent": held_back.recent,
        "in_context": held_back.in_context,
        "same_moment": held_back.adjacent,
    }
    return {rule: count for rule, count in counts.items() if count}


def _triggers_that_came(given: RecallOutput) -> list[Line]:
    """Make the items of the triggers whose texts were given; without a fitting, of all that came."""
    if given.fitting is not None:
        return [
            _trigger(lore.entry, len(lore.body), is_cut=lore.is_cut) for lore in given.fitting.texts
        ]
    if given.activation is None:
        return []
    return [_trigger(shelved, len(shelved.memory.prompt)) for shelved in given.activation.activated]


def _trigger(shelved: Shelved, chars: int, *, is_cut: bool = False) -> Line:
    item: Line = {"id": shelved.memory.name, "tier": "trigger", "chars": chars}
    if shelved.memory.rules.order != USUAL_ORDER:
        item["order"] = shelved.memory.rules.order
    if is_cut:
        item["cut"] = True
    return item


def _left_out(given: RecallOutput) -> list[Line]:
    """Return at most `MOST_LEFT_OUT` memories whose triggers fired and which are not in the text,
    each with the reason: there was no room, or a rule held it back."""
    rows: list[Line] = []
    if given.fitting is not None:
        without_room = given.fitting.left_out
        rows += [
            {"id": lore.entry.name, "chars": lore.chars, "reason": lore.reason}
            for lore in without_room
        ]
    if given.activation is not None:
        held_back = given.activation.held_back
        rows += [
            {"id": memory.shelved.memory.name, "reason": memory.reason} for memory in held_back
        ]
    return rows[:MOST_LEFT_OUT]


def _item(recalled: Recalled, public_text: str | None) -> Line:
    """Make the item of a short-term memory. If `public_text` is given, a shared word must occur in it."""
    memory = recalled.memory
    receipt = recalled.receipt

    shared_words = receipt.words_shared
    if public_text is not None:
        shared_words = tuple(word for word in shared_words if word.word.casefold() in public_text)

    item: Line = {
        "id": memory.id,
        "relevance": round(receipt.relevance, 2),
        "chars": len(memory.text),
    }
    item["counted"] = round(recalled.counted, 2)
    item["words"] = {word.word: round(word.points, 2) for word in _heaviest(shared_words)}

    # These words may be in no text of the user, so they are spelt as in the memory.
    for name, words in (("given", receipt.other_words), ("kept", receipt.words_kept)):
        if words:
            spelt = spelling_of(memory)
            item[name] = {spelt(word.word): round(word.points, 2) for word in _heaviest(words)}

    if receipt.around:
        item["around"] = round(receipt.around, 2)
    if receipt.overview:
        item["overview"] = True
    if recalled.kept_in is not None:
        item["kept_in"] = recalled.kept_in
    if recalled.before is not None:
        item["insteadOf"] = recalled.before.id
    return item


def _heaviest(words: Sequence[MatchedWord]) -> list[MatchedWord]:
    """Return the words with the most points."""
    return sorted(words, key=lambda word: -word.points)[:MOST_WORDS]
