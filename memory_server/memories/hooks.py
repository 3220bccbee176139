"""Answer the hooks of clients: memory without a request of the model, before a prompt, at the beginning of a session
and after an answer.

The faces (cli/hook on this machine, process/remote_commands.py for a linked one) read the event and print the answer.
This module does not import MCP, numpy or the tools, because a user waits for it at every prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Protocol

from languages import N_, _
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.earlier_turns import Corrections
from memory_server.conversations.model import EVERYWHERE, ShortTermMemory
from memory_server.conversations.ports import Line, RecallLog
from memory_server.conversations.recall.plans import Plan
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.search import muting_places
from memory_server.conversations.short_term import Origin
from memory_server.kernel import json_text
from memory_server.kernel.errors import NothingToKeep
from memory_server.kernel.messages import Message, Session
from memory_server.kernel.private import without_private
from memory_server.kernel.recalled_block import FRAME_CHARS, one_line
from memory_server.kernel.text import language_of
from memory_server.kernel.values import frozen
from memory_server.kernel.work import NO_WORK, Failure, ToolCall, Work
from memory_server.knowledge.projects import Project
from memory_server.lore import Room
from memory_server.memories.memories import Call
from memory_server.memories.point_of_action import Act, Scene, block_of, remarks, seen_key
from memory_server.memories.recalls import RecallOutput
from memory_server.memories.turns import (
    BEGINNING_CHARS,
    beginning_block,
    keep_firings,
    other_words_asked,
    turn_prompt,
)
from nlp.day_notes import without_notes

CHARS = 800
"""Most characters of recalled text; half of it after a Chinese prompt, where a character says as much as two letters.
"""
LORE_CHARS = 2_500
"""Characters of memories with triggers in addition: each of them is given whole, and once in a session until its
context is cut."""
CURSOR = {"sessionStart": "SessionStart", "beforeSubmitPrompt": "UserPromptSubmit", "stop": "Stop"}
"""Cursor's names of the events."""
GEMINI = {"BeforeAgent": "UserPromptSubmit", "AfterTool": "PostToolUse"}
"""Gemini CLI's names of the events. Its `BeforeTool` adds nothing to what the model reads."""

TOOL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")


@frozen
class ToolUse:
    """A call of a tool, by its `id`. `defined` are the names that the text defines which it changes or reads.
    `failure` is how its command failed. `agent` is the id of the subagent that called it, or None for the model of
    the session."""

    id: str | None
    tool: str
    call: ToolCall
    defined: tuple[str, ...] = ()
    failure: Failure | None = None
    agent: str | None = None


@frozen
class HookEvent:
    """A call of a hook. `called` is the client's name of the event. A field is None if the client did not give it."""

    called: str
    session_id: str | None
    transcript_path: str | None
    prompt: str | None
    prompt_id: str | None
    last_assistant_message: str | None
    cwd: str | None
    source: str | None
    client: str | None
    use: ToolUse | None = None

    @property
    def name(self) -> str:
        """Claude Code's name of the event."""
        return {**CURSOR, **GEMINI}.get(self.called, self.called)


@frozen
class Turn:
    """A prompt with its answer. The same turn always has the same `id`; `asked` are the messages of `messages_now`.
    `forgot` means that our tool `forget` was called in it. `is_shortened` means that a message was too long, and both
    its ends are kept. `corrections` are what it says of earlier turns. `program` wrote the prompt, if a person did
    not. `work` was done in it."""

    id: str
    messages: tuple[Message, ...]
    asked: tuple[Message, ...]
    forgot: bool = False
    is_shortened: bool = False
    corrections: Corrections = Corrections()
    program: str = ""
    work: Work = NO_WORK


@frozen
class HookContext:
    """The facts at an event of a hook. `messages` are the prompt and the last few before it, which are the end of the
    `transcript`; `turn` is the turn that ended. The work is in `folder`, and in `project` if that is not the project
    of the app's folder. `act` is done with a tool; `calls_since` as in `Scene`. `secrets` counts the secrets that
    were removed from the prompt or the turn."""

    event: HookEvent
    session: Session | None
    folder: str | None
    messages: tuple[Message, ...] = ()
    turn: Turn | None = None
    project: Project | None = None
    transcript: bytes = b""
    act: Act | None = None
    calls_since: int | None = None
    secrets: int = 0


class GivenLines(Protocol):
    """The texts that each session has been given."""

    def to(self, session: Session | None) -> set[str]: ...

    def note(
        self,
        session: Session | None,
        keys: Collection[str],
        now_ms: int,
        *,
        afresh: bool = False,
    ) -> None: ...


class AnsweredEvents(Protocol):
    """The events that a hook has answered, so that no second hook answers them."""

    def claim(self, key: str, now_ms: int) -> bool: ...


class HookStores(Protocol):
    """What a home keeps for hooks."""

    @property
    def given_lines(self) -> GivenLines: ...

    @property
    def answered_events(self) -> AnsweredEvents: ...

    @property
    def recalls(self) -> RecallLog: ...

    @property
    def questions(self) -> RecallLog: ...


@frozen
class HookAnswer:
    """The `text` for the model, the keys of the texts in it that are new to its session, and as `trouble` what could
    not be read or evaluated for it."""

    text: str
    given_keys: Collection[str]
    trouble: str | None = None


@frozen
class HookMemory:
    """The memory that answers one event: the `call` of its client, its `conversation`, and the `stores` for hooks.
    `read_only` means that nothing is noted or stored. `flashbacks` is the number of random memories to add."""

    call: Call
    conversation: Conversation
    stores: HookStores
    context: HookContext
    read_only: bool = False
    flashbacks: int = 0

    def now_ms(self) -> int:
        return self.call.memories.services.clock()

    @property
    def shows_plans(self) -> bool:
        """Whether plans are shown on their day: only if the user wants them in hooks."""
        return self.call.memories.plans is True and not self.read_only

    @property
    def noted_call(self) -> Call:
        """The call as the record of recalls names it."""
        event = self.context.event
        asker: dict[str, str | int | None] = {
            "by": N_("hook"),
            "client": event.client,
            "cwd": event.cwd,
            "turn": event.prompt_id,
            "secrets": self.context.secrets or None,
        }
        return replace(self.call, asker=asker, folder=self.context.folder)

    def claimed(self, answer: HookAnswer) -> str:
        """Return the text of the `answer` and note its lines as given; return an empty text if another hook has just
        given it. A hook that only reads claims and notes nothing.

        It is called once the memories are closed, and nothing is awaited from here to the output: a hook that is
        cancelled has claimed nothing, and has given no lines."""
        if self.read_only:
            return answer.text

        # Without a session or a turn, as in a test by hand, an equal event may be a new one.
        event = self.context.event
        turn = event.prompt_id or event.source
        key = f"{event.name} {event.session_id} {turn}"
        if answer.text and turn and event.use is None and not self._claim(key):
            return ""

        # A compaction cut the context, so lines that were given before may be given again.
        afresh = event.source == "compact"
        given_lines = self.stores.given_lines
        given_lines.note(self.context.session, answer.given_keys, self.now_ms(), afresh=afresh)
        return answer.text

    def claims_call(self) -> bool:
        """Claim the call of this hook, and return whether no other hook has claimed it, so that this one may speak of
        it. Calls that are made together get one addition, unless a failure is repeated."""
        use = self.context.event.use
        if use is None or use.id is None or self.read_only:
            return True
        session = self.context.session
        return self._claim(f"tool {use.id if use.failure else session and session.id}")

    def _claim(self, key: str) -> bool:
        return self.stores.answered_events.claim(key, self.now_ms())


async def recall_at_action(memory: HookMemory, act: Act) -> HookAnswer:
    """Return what the memories of the project say about an act with a tool; usually nothing."""
    return await _addition(memory, act, memory.stores.given_lines.to(memory.context.session))


async def _addition(memory: HookMemory, act: Act, seen: Collection[str]) -> HookAnswer:
    """Choose remarks on an act, note them in the record of recalls, and return them with their
    keys; none if nothing is to be said or this call was answered already. `seen`: the keys that the
    session was given."""
    context = memory.context
    services = memory.call.memories.services
    if memory.read_only and not context.transcript:
        return HookAnswer("", ())  # nothing is known of what this session was given

    scene = Scene(
        context.folder,
        context.event.session_id,
        muting_places(memory.conversation.id, context.folder),
        seen,
        memory.now_ms(),
        services.day_notes,
        context.calls_since,
    )

    chosen = remarks(act, await memory.conversation.short_term.unordered(), scene)
    if memory.read_only:
        # A read-only memory notes nothing, so only the transcript tells what was given.
        transcript = context.transcript
        chosen = [
            remark for remark in chosen if json_text.dumps(remark.line)[1:-1] not in transcript
        ]

    if not chosen or not memory.claims_call():
        return HookAnswer("", ())

    text = block_of(chosen)
    items: list[Line] = [
        {
            "id": remark.memory.id,
            "tier": N_("action"),
            "words": {remark.about: 1.0},
            "chars": len(remark.line),
        }
        for remark in chosen
    ]

    call = memory.noted_call
    use = context.event.use
    call = replace(call, asker={**call.asker, "use": use.id if use else context.event.name})
    question = Message("user", act.about or act.said)
    call.note(RecallOutput(memory.conversation.id, (question,), text, others=items))
    return HookAnswer(text, frozenset(remark.key for remark in chosen))


async def recall_at_prompt(
    memory: HookMemory,
    earlier: Callable[[int], tuple[Message, ...]],
    project: Project | None,
    max_chars: int | None,
) -> HookAnswer:
    """Return what the prompt brings to mind, with remarks on what it names; empty if nothing is recalled.

    `earlier` gives the messages before the event's messages, so that both together are the wanted number: triggers
    may look further back than a search does. `max_chars` limits what was said, and None means the usual number."""
    context = memory.context
    messages = context.messages
    here = memory.conversation

    if max_chars is None:
        max_chars = CHARS
        if language_of([messages[-1].content]) != "en":
            max_chars = CHARS // 2

    # Most homes have no triggers that look further back.
    most_messages = await here.long_term.messages_of_a_hook()
    earlier_messages: tuple[Message, ...] = ()
    if most_messages > len(messages) and context.transcript:
        earlier_messages = earlier(most_messages)

    # A hook searches unasked, so it must not reinforce what it finds: it would find that more and more often. What
    # comes counts once it is given.
    given_lines = memory.stores.given_lines.to(context.session)
    lines_before = frozenset(given_lines)
    request = RecallRequest(
        messages,
        earlier=earlier_messages,
        folder=context.folder,
        flashbacks=memory.flashbacks,
        reinforce=False,
        plans=memory.shows_plans,
        counts=False,
        by="hook",
    )

    call = replace(memory.noted_call, project=project)
    turn = await turn_prompt(call, here, request, _room(max_chars), given_lines)

    recall = turn.recollection.found.recall
    came = [*recall.top, *recall.next, *recall.flashback]
    given_keys = given_lines - lines_before
    given_keys |= _seen_whole([recalled.memory for recalled in came], turn.text)

    # The prompt may name files and commands, about which memories have something to say.
    act = Act(said=without_private(messages[-1].content))
    named = await _addition(memory, act, {*given_lines, *given_keys})
    text = "\n".join(filter(None, (turn.text, named.text)))

    # Last: a hook that is taken back gives nothing, and the hook in its place must find all of it.
    await here.short_term.note_plans(recall.due, request)
    recollection = await keep_firings(here, turn.recollection, turn.block, by=request.by)
    return HookAnswer(text, given_keys.union(named.given_keys), recollection.trouble)


def _seen_whole(memories: Iterable[ShortTermMemory], text: str) -> set[str]:
    """Return the keys of the memories whose messages are all in a text for the model."""
    shown = without_notes(text)
    keys: set[str] = set()
    for memory in memories:
        contents = [message.content for message in memory.messages] or [memory.text]
        if all(one_line(content) in shown for content in contents):
            keys.add(seen_key(memory.id))
    return keys


def _room(max_chars: int) -> Room:
    """Return the room of a block with so many characters of what was said, and in addition whole memories with
    triggers."""
    short_term_chars = max(0, max_chars - FRAME_CHARS)
    return Room(
        total=short_term_chars + LORE_CHARS,
        long_term=LORE_CHARS,
        ignoring_budget=0,
        short_term=short_term_chars,
    )


async def recall_at_beginning(
    memory: HookMemory, max_chars: int | None, *, offers_recall: bool
) -> HookAnswer:
    """Return the text for a session that begins, and note what is in it in the record of recalls. With
    `offers_recall`, ask its model to search again with other words."""
    context = memory.context
    memories = memory.call.memories
    here = memory.conversation

    # A compacted session has its own summary of the last exchanges.
    after_compaction = context.event.source == "compact"

    plans: tuple[Plan, ...] = ()
    request = RecallRequest((), session=context.session, folder=context.folder, by="hook")
    if memory.shows_plans:
        plans = await here.short_term.plans_today(request)

    room = min(max_chars or CHARS, BEGINNING_CHARS)

    asked = ""
    if offers_recall:
        asked = await other_words_asked(memories, here, room // 2, context.folder)

    block, shown, fresh_keys = await beginning_block(
        memories,
        here,
        session=context.session,
        with_last=not after_compaction,
        max_chars=room - len(asked) - 1 if asked else room,
        here=context.folder,
        plans=plans,
    )
    given_keys = set(fresh_keys)

    if block:
        memory.noted_call.note(RecallOutput(here.id, (), block, others=shown))
        ids = {item["id"] for item in shown}
        stored = await here.short_term.memories()
        given_keys |= _seen_whole([known for known in stored if known.id in ids], block)
    text = "\n".join(filter(None, (block, asked)))
    await here.short_term.note_plans(plans, request)  # last, as at a prompt
    return HookAnswer(text, given_keys)


async def remember_turn(memory: HookMemory) -> str | None:
    """Correct earlier turns, store the turn that ended, and credit the memories that its answer used. Return why
    nothing of it is kept, or None if it is stored. A turn that forgot something is not stored, and the records lose
    its prompt. Raises MemoryServerError if storing failed."""
    context = memory.context
    event = context.event
    turn = context.turn
    if turn is None:
        return _("There is no turn with text, so nothing was stored.")

    if turn.corrections:
        await memory.conversation.correct(turn.corrections, by="hook")
    if turn.forgot:
        # The record of recalls and its questions must not keep the prompt of this turn either.
        asked = {"session": event.session_id, "turn": event.prompt_id}
        if event.prompt_id is not None:
            for log in (memory.stores.recalls, memory.stores.questions):
                log.rewrite(lambda line: None if asked.items() <= line.items() else line)
        return _("In this turn something was forgotten, so nothing of it is kept.")

    short_term = memory.conversation.short_term
    try:
        stored = await short_term.add(
            turn.messages,
            origin=Origin(
                turn.id,
                folder=context.folder,
                # A program's prompt is kept, but it must not come unasked.
                muted=(EVERYWHERE,) if turn.program else (),
                work=turn.work,
            ),
            by="hook",
        )
    except NothingToKeep as error:
        return str(error)

    if stored.change_id is not None and turn.messages[-1].role == "assistant":
        # Search again for what the prompt recalled: a result stored between the two events could be lost.
        credited = await short_term.credit(
            turn.asked, turn.messages[-1], became=stored.memory.id, by="hook"
        )
        used = [scored.memory.id for scored in (*credited.recall.top, *credited.recall.next)]
        about: Line = {"session": event.session_id, "turn": event.prompt_id, "used": used}
        if context.secrets:
            about["secrets"] = context.secrets

        recalls = memory.call.memories.recalls
        if recalls is not None:
            recalls.note(lambda at: {"at": at, "conversation": short_term.conversation_id} | about)
    return None
