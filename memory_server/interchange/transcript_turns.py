"""Turns of a transcript: what the user said, in order, and what the model answered last. The hook `Stop` stores the
turn that ended, an import stores all of them; both ask here, so that a turn is the same memory whichever came first.
Pure.

A turn begins with a prompt. What the user types while the model works, answers in a dialog or says at a refusal belongs
to it. A turn that was interrupted, or in which the model did not answer, is not over: no hook stored it, so the next
prompt continues it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from memory_server.conversations.earlier_turns import TakenBackTurn, turn_said
from memory_server.interchange.spoken_places import WITHOUT_THE_USER
from memory_server.interchange.transcripts import LineContent, reading_of, value_at
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import Fields
from memory_server.kernel.messages import Message, storable
from memory_server.kernel.private import (
    calls_forget,
    loses_its_middle,
    shortened,
    to_keep,
    without_private,
)
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.values import dataclass
from memory_server.kernel.work import NO_WORK, Work, WorkSeen, strings_of
from sandbox import WRONG_VALUES


@dataclass(slots=True)
class TranscriptTurn:
    """A turn. `first`: its first line, which tells session and folder. `asked`: the words of the user, with the
    questions of dialogs that they answer. `answers`: the texts of the model since the last prompt; `replaced_answers`:
    how often it wrote something before that. `forgot`: our tool `forget` was called in it; `times_forgotten`: how
    often the user then went on, so that only what came later is kept."""

    first: Fields
    prompt_id: str | None = None
    prompted_ms: int | None = None
    asked: list[Message] = field(default_factory=list)
    answers: list[Message] = field(default_factory=list)
    answered: bool = False
    forgot: bool = False
    replaced_answers: int = 0
    times_forgotten: int = 0
    work: WorkSeen = field(default_factory=WorkSeen)

    def forget(self) -> None:
        """Drop what was said until now: the user asked to forget it, and was interrupted."""
        self.asked.clear()
        self.times_forgotten += 1
        self.forgot = False
        self.work = WorkSeen()

    def prompt_again(self) -> None:
        """Prepare for another prompt of a turn that is not over."""
        if self.forgot:
            self.forget()
        self.replaced_answers += len(self.answers)
        self.answers.clear()
        self.answered = False

    @property
    def session(self) -> str:
        """The session in which it was said, which differs from the session of its lines if a fork repeats them; empty
        if it is not known."""
        session = value_at(self.first, ("forkedFrom", "sessionId")) or self.first.get("sessionId")
        return str(session or "")

    @property
    def has_words(self) -> bool:
        """Whether the user said something in it."""
        return any(message.role == "user" for message in self.asked)

    def work_in(self, folder: str | None) -> Work:
        """Return what was done in it, in a project, or nothing if the user marked something as private."""
        for message in self.asked:
            if without_private(message.content) is not message.content:
                return NO_WORK
        return self.work.within(folder)

    def id_in(self, session: str, prompt_id: str | None = None) -> str:
        """Return an id that is the same each time for this turn. `prompt_id` is the id that the client gave to a
        hook."""
        return f"{session}/{prompt_id or self.prompt_id or self.prompted_ms}"

    def messages(self, answer: Message | None) -> tuple[Message, ...]:
        """Return what is stored of it, with this answer. What the model says of words that are wholly private is left
        out. Of a message that is too long, both ends are kept."""
        return tuple(map(shortened, self._unshortened(answer)))

    def count_of_shortened(self, answer: Message | None) -> int:
        """Count the messages that `messages` gives without their middle."""
        return sum(map(loses_its_middle, self._unshortened(answer)))

    def taken_back(self, session: str) -> Iterator[TakenBackTurn]:
        """Yield this turn as it may be stored, if its user took it back: the hook may have had all that the model
        wrote since the prompt, or the last of it."""
        answers: list[Message | None] = [None]
        if self.answers:
            answers = [self.answers[-1], joined(self.answers)]
        for answer in answers:
            with suppress(InvalidInput):  # what cannot be stored is not there
                stored_messages = tuple(map(storable, to_keep(self.messages(answer))))
                yield turn_said(session, stored_messages)

    def _unshortened(self, answer: Message | None) -> tuple[Message, ...]:
        """Return what the user said, with the model's questions and the answer: without these if a message of the
        user is wholly private."""
        asked = as_said(self.asked)
        of_user = tuple(message for message in asked if message.role == "user")
        if any(not without_private(message.content) for message in of_user):
            return of_user
        answers = [] if answer is None else [answer]
        return (*asked, *as_said(answers))


def by_program(messages: Iterable[Message], program: str) -> tuple[Message, ...]:
    """Return the messages with the program as the speaker of the user's words; empty `program` if a person said them."""
    if not program:
        return tuple(messages)
    return tuple(
        replace(message, name=program) if message.role == "user" else message
        for message in messages
    )


def joined(answers: Sequence[Message]) -> Message:
    """Join the blocks of an answer, which has a line for each block and tools between them, to a single message."""
    text = "\n".join(answer.content for answer in answers)
    return replace(answers[-1], content=text)


def turns_of(
    rows: Iterable[Fields], left_out: Counter[str] | None = None
) -> Iterator[TranscriptTurn]:
    """Read the turns of these lines, also turns without words of the user. `left_out` counts what is not in them."""
    turn: TranscriptTurn | None = None
    for row in rows:
        reading = reading_of(row)
        if left_out is not None:
            left_out.update(reading.left_out)
        if reading.prompts and (turn is None or turn.answered):
            if turn is not None:
                yield turn
            turn = TranscriptTurn(row)
        if turn is None and reading.messages and reading.messages[0].role == "user":
            turn = TranscriptTurn(row)  # the beginning of the turn is not in these lines
        if turn is not None:
            _continue(turn, row, reading)
        elif left_out is not None:
            left_out[WITHOUT_THE_USER] += len(reading.messages)

    if turn is not None:
        yield turn


def _continue(turn: TranscriptTurn, row: Fields, reading: LineContent) -> None:
    """Add a line to its turn: prompts, questions and answers, whether it is answered, and its work.
    A turn that called `forget` is marked for good."""
    if reading.prompts:
        _prompt(turn, row, reading)
    from_model = [message for message in reading.messages if message.role == "assistant"]
    if from_model and len(from_model) == len(reading.messages):
        turn.answers += from_model
    else:
        turn.asked += reading.messages
    if reading.state:
        turn.answered = reading.state == "answered"
    message = row.get("message", row.get("data"))
    turn.forgot = turn.forgot or calls_forget(message)
    with suppress(*WRONG_VALUES):
        _see_work(turn.work, message)


def _see_work(work: WorkSeen, message: Any) -> None:
    """Note the calls of tools in a message and their results in `work`. A message without blocks
    has none."""
    content = message.get("content") if isinstance(message, Mapping) else None
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, Mapping):
            continue
        if block.get("type") == "tool_use":
            work.call(block.get("id"), block.get("name"), block.get("input"))
        elif block.get("type") == "tool_result":
            output = block.get("content")
            texts = output if isinstance(output, list) else [output]
            work.result(
                block.get("tool_use_id"), strings_of(texts), failed=bool(block.get("is_error"))
            )


def _prompt(turn: TranscriptTurn, row: Fields, reading: LineContent) -> None:
    """Begin a turn by a prompt, or go on with it: the turn is known by its last prompt with
    words."""
    turn.prompt_again()
    prompt_id = row.get("promptId")
    if isinstance(prompt_id, str) and (reading.messages or turn.prompt_id is None):
        turn.prompt_id = prompt_id
    if reading.messages:
        turn.prompted_ms = reading.messages[0].time_ms
