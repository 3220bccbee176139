"""Ask again what was asked of these memories, and say which memories come now that did not come then, or no longer
(`examine`).

A question is asked with the clock, the memories and the scores of its time: the changes since then are taken back on a
copy. It is asked by words only, without memories by chance, and nothing is reinforced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from random import Random

from languages import _, counted
from memory_server.conversations.changes import (
    Change,
    Commit,
    Edited,
    OfShortTerm,
    Restored,
    apply,
    memories_in,
    reversal_of,
)
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.ports import Line, RecallLog
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.conversations.search import Search, conversations_of
from memory_server.conversations.services import Services
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message, Session
from memory_server.kernel.recorded_recall import RecordedItem, RecordedRecall, recorded_recall
from memory_server.kernel.text import Finding
from memory_server.kernel.times import iso
from memory_server.kernel.values import frozen
from memory_server.memories.questions import (
    Difference,
    Question,
    accepted,
    answered,
    differences,
    has_other_points,
    of_changes,
    of_recall,
    question_of,
    unaskable,
    without_answer,
)
from memory_server.memories.reasons import what_it_lacked, words_that_brought
from memory_server.memories.recalls import RecallOutput, Recalls, recall_line
from memory_server.operations.ports import OpenMemory, Progress, no_progress
from memory_server.version import version_line

MOST_QUESTIONS = 1_000
"""Questions that are kept: some ten seconds in a home of 1,000 memories."""
_PAGE = 500
"""Commits that are read at once."""
_SAID = ("text", "messages", "other_words", "time_ms")
"""The fields of a memory from which its words are found."""


@frozen
class ExamineRequest:
    """A request to ask all questions again. `accept` means that from now on questions are compared with the answers of
    now. Without `writes` the file of questions stays as it is."""

    accept: bool = False
    writes: bool = True


@frozen
class ChangedMemory:
    """A memory that a question lost, or that `came` now, with its text of that time, and why it did then and does
    now."""

    memory_id: str
    came: bool
    text: str
    then: str
    now: str


@frozen
class ChangedAnswer:
    """A question whose answer differs from the former one, or from what the question demands."""

    question: Question
    memories: Sequence[ChangedMemory]

    def fields(self) -> Line:
        """Return it as JSON."""
        asked = {
            name: self.question.line.get(name) for name in ("id", "at", "conversation", "said")
        }
        return {**asked, "memories": [asdict(memory) for memory in self.memories]}


@frozen
class ExamineReport:
    """How many questions there are, how many were asked, and how many are new; the changed answers, the newest question
    first; how many bring the same memories with other points; and how many could not be asked, because the history does
    not go back to their time, or because their conversation is gone."""

    total: int
    asked: int
    new: int
    changed: Sequence[ChangedAnswer]
    other_points: int
    too_old: int
    gone: int

    @property
    def lost(self) -> int:
        return self._count(came=False)

    @property
    def gained(self) -> int:
        return self._count(came=True)

    def _count(self, *, came: bool) -> int:
        memories = chain.from_iterable(answer.memories for answer in self.changed)
        return sum(memory.came == came for memory in memories)


class Past:
    """A conversation as it was at earlier times, which are asked for from the latest on. `commits` are its changes, the
    newest first."""

    def __init__(
        self,
        state: ConversationState,
        commits: Sequence[Commit],
        oldest_ms: float,
        wording: KeywordOptions,
    ) -> None:
        """Begin at the present `state`. Changes are taken back on a copy of its short-term
        memories."""
        self.commits = commits
        self._wording = wording
        self.oldest_ms = oldest_ms
        """The time before which it is not known."""
        self._state = state
        self._next = 0

    @classmethod
    async def read(cls, services: Services, conversation_id: str, since_ms: int) -> Past:
        """Read a conversation with its changes since `since_ms`. If older changes were deleted, its
        past is known only from the oldest one that is left."""
        present = await services.store.read(conversation_id)
        state = ConversationState(conversation_id, short_term=dict(present.short_term))
        # Other processes may write meanwhile: what the state does not have is not taken back from it.
        before = present.version + 1
        commits: list[Commit] = []
        oldest_ms = float(since_ms)
        while not commits or commits[-1].at_ms >= since_ms:
            page = await services.store.history(conversation_id, before=before, limit=_PAGE)
            commits += page
            if len(page) < _PAGE:
                # Without the first commit, older ones were deleted.
                if commits and commits[-1].version > 1:
                    oldest_ms = max(oldest_ms, commits[-1].at_ms)
                break
            before = page[-1].version
        wording = services.parameters.wording.within(conversation_id)
        return cls(state, commits, oldest_ms, wording)

    @property
    def memories(self) -> Mapping[str, ShortTermMemory]:
        return self._state.short_term

    @property
    def memory_ids(self) -> Iterator[str]:
        """The ids of the memories that are there, or were."""
        yield from self._state.short_term
        for commit in self.commits:
            for memory in memories_in(commit.changes):
                if isinstance(memory, ShortTermMemory):
                    yield memory.id

    def at(self, at_ms: int) -> ConversationState:
        """Return the state at a time; it is valid until an earlier one is asked for."""
        while self._next < len(self.commits) and self.commits[self._next].at_ms > at_ms:
            for change in reversed(self.commits[self._next].changes):
                self._take_back(change)
            self._next += 1
        return self._state

    def _take_back(self, change: Change) -> None:
        """Take a change of a short-term memory back in the state; leave the state as it is for another change."""
        # Searches of short-term memories depend on no other changes.
        is_of_memory = isinstance(change, OfShortTerm) or isinstance(
            getattr(change, "memory", None), ShortTermMemory
        )
        former = reversal_of(self._state, change) if is_of_memory else None
        if isinstance(former, Edited | Restored):
            former = replace(former, memory=self._indexed(former.memory))
        if former is not None:
            apply(self._state, [former])

    def _indexed(self, former: ShortTermMemory) -> ShortTermMemory:
        """Return a former memory with the words of its present one if it says the same: these are what a reindex found,
        or did not find. Another one was in no reindex, so its words are found now, if other settings found them."""
        present = self._state.short_term.get(former.id)
        if present is not None and all(
            getattr(present, name) == getattr(former, name) for name in _SAID
        ):
            return replace(
                former,
                words=present.words,
                weights=present.weights,
                indexed_with=present.indexed_with,
            )
        return former if self._wording.is_of(former) else self._wording.of_text(former)


async def examine(
    view: OpenMemory, request: ExamineRequest, progress: Progress = no_progress
) -> ExamineReport:
    """Ask the questions of the file, and the ones that recalls and changes have added since. Write the new ones, and the
    answers of the ones that did not change. Raises InvalidInput if the file cannot be read; then nothing is changed."""
    log = view.home.questions
    services = view.memories.services
    version = version_line()
    lines = await asyncio.to_thread(log.lines)
    for line in lines:
        question_of(line)  # raises before anything is changed

    pasts, made_lines = await _recorded(services, view.recalls, view.clock())
    known_ids = {line["id"] for line in lines}
    new_lines = [line for line_id, line in made_lines.items() if line_id not in known_ids]
    new_lines = new_lines[: max(0, MOST_QUESTIONS - len(lines))]
    if request.writes:
        # Before they are asked: what is erased from now on is erased here too, and what was erased since it was read is
        # not made again.
        if new_lines:
            await asyncio.to_thread(log.append, *new_lines)
        pasts, made_lines = await drop_unrecorded(log, services, view.recalls, view.clock())
        lines = await asyncio.to_thread(log.lines)
    else:
        lines += new_lines

    remaining = [line for line in lines if _is_recorded(line, made_lines)]
    new_count = sum(line["id"] not in known_ids for line in remaining)
    questions = [question for question in map(question_of, remaining) if not question.is_off]
    questions.sort(key=lambda question: question.recall.at_ms, reverse=True)
    changed: list[ChangedAnswer] = []
    answers: dict[bytes, Line] = {}
    asked = other_points = missing = 0

    with progress(_("examining"), len(questions)) as advance:
        for question in questions:
            advance()
            search = await PastSearch.of(question, services, pasts)
            if search is None:
                missing += question.recall.conversation not in pasts
                continue
            asked += 1
            now = recorded_recall(search.answer)
            different = differences(question, now)
            if different:
                memories = [search.explained(difference, now) for difference in different]
                changed.append(ChangedAnswer(question, memories))
            elif has_other_points(question, now):
                other_points += 1
            if not question.version or request.accept:
                line = answered(question, search.answer, version)
                if request.accept:
                    line = accepted(line, different)
                answers[json_text.dumps(question.line)] = line
            elif not different:  # its points stay as they were, so that small steps add up
                answers[json_text.dumps(question.line)] = {**question.line, "version": version}

    if request.writes:
        # A line that was edited or erased meanwhile stays as it is.
        await asyncio.to_thread(log.rewrite, lambda line: answers.get(json_text.dumps(line), line))
        # An answer may name a memory that was erased while the questions were asked.
        await drop_unrecorded(log, services, view.recalls, view.clock())
    too_old = len(questions) - asked - missing
    return ExamineReport(
        len(remaining), asked, new_count, changed, other_points, too_old=too_old, gone=missing
    )


async def drop_unrecorded(
    log: RecallLog, services: Services, recalls: Recalls, now_ms: int
) -> tuple[dict[str, Past], dict[str, Line]]:
    """Remove the questions of recalls and changes that are no longer on record, and the answers that name a memory that
    is not: they may have been erased, also by another machine. Return what is on record, as `_recorded`."""
    pasts, made_lines = await _recorded(services, recalls, now_ms)
    memory_ids = frozenset(chain.from_iterable(past.memory_ids for past in pasts.values()))

    def remaining(line: Line) -> Line | None:
        if not _is_recorded(line, made_lines):
            return None
        recall = recorded_recall(line)
        named_ids = {item.id for item in (*recall.memories, *recall.near)}
        return line if named_ids <= memory_ids else without_answer(line)

    await asyncio.to_thread(log.rewrite, remaining)
    return pasts, made_lines


def _is_recorded(line: Line, made_lines: Mapping[str, Line]) -> bool:
    """Return whether a question is on record, or a person's own, which has no `about`."""
    return "about" not in line or str(line.get("id")) in made_lines


async def _recorded(
    services: Services, recalls: Recalls, now_ms: int
) -> tuple[dict[str, Past], dict[str, Line]]:
    """Return all conversations with their changes, and the questions by id that recalls and changes make: those of
    changes first, and then the newest."""
    since_ms = recalls.since_ms(now_ms)
    pasts = {
        conversation_id: await Past.read(services, conversation_id, since_ms)
        for conversation_id in await services.store.conversations()
    }
    lines: list[Line] = []
    for conversation_id, past in pasts.items():
        lines += of_changes(conversation_id, past.commits, past.memories, now_ms)
    newest_first = reversed(await asyncio.to_thread(recalls.found))
    lines += [line for line in map(of_recall, newest_first) if line is not None]
    return pasts, {line["id"]: line for line in lines if line["at"] >= iso(since_ms)}


class PastSearch:
    """A question that is asked with what was remembered at its time."""

    def __init__(self, question: Question, search: Search) -> None:
        self._question = question
        self._search = search
        recall = question.recall
        output = RecallOutput(
            recall.conversation, search.request.said, "", replace(search.found().recall, due=())
        )
        self.answer: Line = recall_line(output, {}, iso(recall.at_ms)) or {}

    @classmethod
    async def of(
        cls, question: Question, services: Services, pasts: Mapping[str, Past]
    ) -> PastSearch | None:
        """Prepare to ask a question again as of its time. Return None if what was remembered then is not known. Raises
        InvalidInput if a person has edited the question so that it cannot be asked."""
        recall = question.recall
        scope = await conversations_of(services, recall.conversation, None)
        searched = [pasts[conversation_id] for conversation_id in scope if conversation_id in pasts]
        if not searched or any(past.oldest_ms > recall.at_ms for past in searched):
            return None
        then = replace(
            services,
            clock=lambda: recall.at_ms,
            rng=Random(0),
            brief=False,
            writable=False,
            session=None,
            meaning=None,
        )
        request = RecallRequest(
            [Message("user", recall.said)],
            other_words=recall.other_words,
            session=Session(recall.session) if recall.session else None,
            folder=recall.folder or None,
            flashbacks=0,
            reinforce=False,
        )
        search = Search(then, recall.conversation, request)
        search.states = [past.at(recall.at_ms) for past in searched]
        try:
            await search.find_query()
        except InvalidInput as error:  # a person has edited it
            raise unaskable(question.line, str(error)) from error
        return cls(question, search)

    def explained(self, difference: Difference, now: RecordedRecall) -> ChangedMemory:
        """Return the changed memory with the reasons of then and now: why it came then and not now,
        or the other way round."""
        text = ""
        for state in self._search.states:
            memory = state.short_term.get(difference.memory_id)
            text = memory.text if memory else text

        memory_id = difference.memory_id
        then = _reason(difference.item_then, text, self._question.recall)
        if memory_id in self._question.must_not_come:
            then = _("it must not come ({about})", _(self._question.about))
        if difference.came:
            reason = _reason(difference.item_now, text, now)
        else:
            reason = self._why_not(memory_id, now)
        return ChangedMemory(memory_id, difference.came, text, then, reason)

    def _why_not(self, memory_id: str, now: RecordedRecall) -> str:
        """Say why a memory does not come now."""
        from memory_server.conversations.recall.explanation import explain

        for item in now.came:
            if item.instead_of == memory_id:
                return _("{memory} came in its place, which corrects it", item.id)
        decision = self._search.decision()
        row = decision.columns.row_of(memory_id)
        if row is None:
            return _("it is not among the memories of that time")
        return explain(decision, row).verdict.sentence


def _reason(item: RecordedItem | None, text: str, recall: RecordedRecall) -> str:
    """Say why a memory came or nearly came, as an answer has it."""
    if item is None:
        return _("it was not among what came or nearly came")
    if item.lacked:
        return what_it_lacked(item, recall.said)
    return words_that_brought(item, text) or _("it came")


def unexamined_finding(log: RecallLog) -> Finding | None:
    """Say that another version answered the questions, which is so after an upgrade, or that they cannot be read. Return
    None if this version answered them, or there are none. Blocking."""
    subject = _("examination")
    try:
        versions = [line["version"] for line in log.lines() if "version" in line]
    except InvalidInput as error:
        return Finding("warning", subject, str(error))
    others = [version for version in versions if version != version_line()]
    if not others:
        return None
    sentence = _(
        "{version} gave the answers to {questions}; `memory-server examine` says what is recalled otherwise now",
        others[-1],
        counted(len(others), "question"),
    )
    return Finding("note", subject, sentence)
