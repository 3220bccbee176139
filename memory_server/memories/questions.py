"""Questions that were asked of these memories, to be asked again: how they are made of recalls and changes, and which
memories an answer lost or gained. Pure.

A question is a line in the form of the record of recalls, with fields of its own (docs/reference/data-folder.md), so that
what holds for the record holds for it too, such as that erasing reaches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from languages import N_, _, clause
from memory_server.conversations.changes import (
    Added,
    Change,
    Commit,
    Edited,
    Forgotten,
    Muted,
    Restored,
    change_id,
    memories_in,
)
from memory_server.conversations.model import EVERYWHERE, ShortTermMemory
from memory_server.conversations.ports import Line
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.recorded_recall import RecordedItem, RecordedRecall, recorded_recall
from memory_server.kernel.text import shown
from memory_server.kernel.times import MINUTE_MS, iso
from memory_server.kernel.values import frozen
from memory_server.memories.recalls import SAID_CHARS

ANSWER = ("version", "came", "near", "needed", "held", "tokens", "chars")
"""The fields of a question that its answer fills; `version` is there if it was answered."""
_ASKED_AFTER_MS = 60 * MINUTE_MS
"""How long after a change its question is asked: by then no memory is held back because it is minutes old."""
_SAME_POINTS = 0.05
"""Points by which the relevance of a memory may differ, because sums are rounded."""


@frozen
class Question:
    """A question with its last answer, which is in `recall`. `version` is the program that gave this answer, and is
    empty if the question was not answered yet. `about` says what it was made of."""

    recall: RecordedRecall
    about: str
    version: str
    must_come: frozenset[str]
    must_not_come: frozenset[str]
    is_off: bool

    @property
    def line(self) -> Line:
        return dict(self.recall.line)


@frozen
class Difference:
    """A memory that a question lost or gained. `item_then` and `item_now` are what the answers say of it, where it came
    or nearly came."""

    memory_id: str
    came: bool
    item_then: RecordedItem | None
    item_now: RecordedItem | None


def question_of(line: Line) -> Question:
    """Read a line as a question. Raises InvalidInput: a person has given a field a value that it cannot have."""
    ids: dict[str, frozenset[str]] = {}
    for name in ("mustCome", "mustNotCome"):
        value = line.get(name, [])
        if not isinstance(value, list) or not all(
            isinstance(memory_id, str) for memory_id in value
        ):
            raise unaskable(line, _("`{name}` must be a list of ids of memories", name))
        ids[name] = frozenset(value)
    for name in ("id", "said"):
        if not isinstance(line.get(name), str) or not line[name].strip():
            raise unaskable(line, _("`{name}` must be a text that is not empty", name))

    recall = recorded_recall(line)
    return Question(
        recall,
        about=str(line.get("about", "recall")),
        version=str(line.get("version", "")),
        must_come=ids["mustCome"],
        must_not_come=ids["mustNotCome"],
        is_off=line.get("off") is True,
    )


def unaskable(line: Mapping[str, object], reason: str) -> InvalidInput:
    """Return the error about a question that a person has given a value that it cannot have."""
    return InvalidInput(
        "The question {id} of {conversation} cannot be asked: {reason}; mend its line in the file, or delete the line.",
        line.get("id"),
        line["conversation"],
        clause(reason),
    )


def of_recall(recall: RecordedRecall) -> Line | None:
    """Make the question of a recall, or return None if nothing was asked that can be asked again: a session began, or a
    tool was called."""
    if not recall.said.strip() or not recall.id or "use" in recall.line:
        return None
    return _line(
        recall.id,
        recall.at_ms,
        recall.conversation,
        N_("recall"),
        recall.said,
        session=recall.session,
        turn=recall.turn,
        folder=recall.folder or recall.cwd,
        otherWords=list(recall.other_words),
    )


def of_changes(
    conversation_id: str,
    newest_first: Sequence[Commit],
    present: Mapping[str, ShortTermMemory],
    now_ms: int,
) -> Iterator[Line]:
    """Make a question of the last mute, edit of the text, correction, and deletion of each short-term memory; other
    removals, such as by the clean-up, make none. It asks with the first message of the memory. A last change that
    ended a mute or a removal makes none, and a change of the last hour none yet; then an earlier change of this kind
    makes none either."""
    memories_by_id: dict[str, ShortTermMemory] = {}
    for commit in reversed(newest_first):
        for memory in memories_in(commit.changes):
            if isinstance(memory, ShortTermMemory):
                memories_by_id[memory.id] = memory
    memories_by_id.update(present)

    seen: set[tuple[str, str]] = set()
    for commit in newest_first:
        at_ms = commit.at_ms + _ASKED_AFTER_MS
        for change in commit.changes:
            for test in _tests_of(change):
                subject = memories_by_id.get(test.memory_id)
                if subject is None or (test.about, test.memory_id) in seen:
                    continue
                seen.add((test.about, test.memory_id))
                if test.is_needless or at_ms > now_ms:
                    continue
                yield _line(
                    f"{test.memory_id}-{test.about}-{change_id(conversation_id, commit.version)}",
                    at_ms,
                    conversation_id,
                    test.about,
                    _said_in(subject),
                    memory=test.memory_id,
                    **test.fields,
                )


@frozen
class _Test:
    """What a change is about, the memory whose words ask about it, and further fields of the question. It
    `is_needless` where the change ended a mute or a removal."""

    about: str
    memory_id: str
    fields: Mapping[str, object] = field(default_factory=lambda: NOTHING)
    is_needless: bool = False


def _tests_of(change: Change) -> Iterator[_Test]:
    """Yield the tests that a change to a memory makes: it was muted or deleted and must not come,
    or was edited or corrected. Other changes make none."""
    match change:
        case Muted(id=memory_id, after=places):
            fields = _muted_at(memory_id, places[-1]) if places else NOTHING
            yield _Test(N_("muted"), memory_id, fields, is_needless=not places)
        case Forgotten(memory, reason="deleted"):
            yield _Test(N_("forgotten"), memory.id, {"mustNotCome": [memory.id]})
        case Added(memory) | Restored(memory):
            yield _Test(N_("forgotten"), memory.id, is_needless=True)
        case Edited(memory, before):
            if memory.text != before.text:
                yield _Test(N_("edited"), memory.id)
            former_ids = {older.id for older in before.corrects}
            for older in memory.corrects:
                if older.id not in former_ids:
                    yield _Test(N_("corrected"), older.id)


def _muted_at(memory_id: str, place: str) -> Mapping[str, object]:
    """Return the fields of a question that is asked where a memory is muted."""
    fields: dict[str, object] = {"mustNotCome": [memory_id]}
    kind, _colon, name = place.partition(":")
    if place != EVERYWHERE:
        fields[kind] = name
    return fields


def _said_in(memory: ShortTermMemory) -> str:
    """Return the first message of a memory."""
    return memory.messages[0].content if memory.messages else memory.text


def _line(
    question_id: str, at_ms: int, conversation_id: str, about: str, said: str, **fields: object
) -> Line:
    """Return a question as a line of its record; fields with an empty value (0 too) are left out. A long `said`
    loses its middle."""
    line: Line = {
        "id": question_id,
        "at": iso(at_ms),
        "conversation": conversation_id,
        "about": about,
        "said": shown(said, SAID_CHARS),
        **fields,
    }
    return {name: value for name, value in line.items() if value}


def answered(question: Question, answer: Line, version: str) -> Line:
    """Return the line of a question with this answer of this version."""
    asked = without_answer(question.line)
    answer_fields = {name: answer[name] for name in ANSWER if name in answer}
    return {**asked, **answer_fields, "version": version}


def accepted(line: Line, different: Iterable[Difference]) -> Line:
    """Return the line of a question that no longer demands that the memory of its change stays away, where this is
    among the differences. What a person demands stays."""
    memory_id = line.get("memory")
    if memory_id not in [difference.memory_id for difference in different]:
        return line
    demanded = [
        demanded_id for demanded_id in line.get("mustNotCome", ()) if demanded_id != memory_id
    ]
    return {**line, "mustNotCome": demanded}


def without_answer(line: Mapping[str, object]) -> Line:
    """Return the line of a question that is to be answered anew."""
    return {name: value for name, value in line.items() if name not in ANSWER}


def differences(question: Question, now: RecordedRecall) -> list[Difference]:
    """Return what the answer of now lost and gained beside the former answer, and where it is not what the question
    demands. A question without an answer demands only that."""
    then = question.recall
    came_now = _by_id(now.memories)
    came_then = came_now
    if question.version:
        came_then = _by_id(then.memories)

    lost = (came_then.keys() | question.must_come) - came_now.keys()
    gained = (came_now.keys() - came_then.keys()) | (question.must_not_come & came_now.keys())
    items_then = _by_id((*then.near, *then.memories))
    items_now = _by_id((*now.near, *now.memories))
    return [
        Difference(
            memory_id, memory_id in gained, items_then.get(memory_id), items_now.get(memory_id)
        )
        for memory_id in sorted(lost | gained)
    ]


def has_other_points(question: Question, now: RecordedRecall) -> bool:
    """Return whether a memory that came then and comes now has another relevance."""
    came_now = _by_id(now.memories)
    for item in question.recall.memories:
        twin = came_now.get(item.id)
        if twin is not None and abs((twin.relevance or 0) - (item.relevance or 0)) > _SAME_POINTS:
            return True
    return False


def _by_id(items: Iterable[RecordedItem]) -> dict[str, RecordedItem]:
    return {item.id: item for item in items}
