"""What a client says later of turns that are stored: their user took them back, as by `/rewind`, and their memories go
into the archive; or a person, and not a program, said them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from memory_server.conversations.changes import Change, Edited, Forgotten
from memory_server.conversations.model import EVERYWHERE, ConversationState, ShortTermMemory
from memory_server.kernel.messages import Message, context_text
from memory_server.kernel.values import frozen


@frozen
class TakenBackTurn:
    """A turn that does not hold any more: where it was said, what the user said last in it, and the answer, or "" if
    it had no answer."""

    session: str
    asked: str
    answer: str


@frozen
class Corrections:
    """What is known now of earlier turns. `taken_back`: turns that do not hold any more. `said_by`: the program to
    which turns of `session` were ascribed that a person said, or ""."""

    taken_back: frozenset[TakenBackTurn] = frozenset()
    session: str = ""
    said_by: str = ""

    def __bool__(self) -> bool:
        return bool(self.taken_back or self.said_by)

    def changes(
        self, state: ConversationState, reworded: Callable[[ShortTermMemory], ShortTermMemory]
    ) -> list[Change]:
        """Return the changes to the conversation: turns that were taken back go to the archive, and what the program
        is noted to have said becomes the user's again. `reworded` finds the words of a memory again."""
        changes: list[Change] = [*retirements(state, self.taken_back)]
        for memory in state.short_term.values():
            speakers = {message.name for message in memory.messages if message.role == "user"}
            is_of_program = speakers == {self.said_by} and memory.muted == (EVERYWHERE,)
            if self.said_by and memory.session == self.session and is_of_program:
                changes.append(Edited(reworded(_said_by_user(memory)), memory))
        return changes


def _said_by_user(memory: ShortTermMemory) -> ShortTermMemory:
    """Return the memory without the name of the program, so that it comes unasked again."""
    messages = tuple(
        replace(message, name=None) if message.role == "user" else message
        for message in memory.messages
    )
    return replace(memory, messages=messages, text=context_text(messages), muted=())


def turn_said(session: str, messages: Sequence[Message]) -> TakenBackTurn:
    """Return the turn that these messages make, in the form in which they are stored."""
    asked = [message.content for message in messages if message.role == "user"]
    answers = [message.content for message in messages if message.role == "assistant"]
    return TakenBackTurn(session, "".join(asked[-1:]), "".join(answers[-1:]))


def retirements(state: ConversationState, turns: Collection[TakenBackTurn]) -> list[Forgotten]:
    """Return the changes that archive the memories of these turns. A memory is of a turn if its session, what the
    user said last, and the answer are all the same; so the same question with another answer stays, and so do
    memories that a user rewrote (their words differ) or pinned. Only short-term memories; the caller makes the
    changes."""
    if not turns:
        return []
    changes: list[Forgotten] = []
    for memory in state.short_term.values():
        if memory.session is None or memory.pinned:
            continue
        if turn_said(memory.session, memory.messages) in turns:
            changes.append(Forgotten(memory, "taken_back"))
    return changes
