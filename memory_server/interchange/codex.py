"""Sessions of Codex in `~/.codex/sessions`: files `rollout-*.jsonl`, of which each turn becomes a short-term memory.

A line has `timestamp`, `type` and `payload` (openai/codex: `RolloutItem` of codex-rs/protocol/src/protocol.rs, and
rollout/src/policy.rs for what is kept). The user's words are events `user_message`; a message of the role `user` also
holds instructions and the environment (core/src/context). Newer files have events `item_completed` in their place, and
files of early 2025 have the items themselves, a line each, and no events. Seen with Codex 0.171. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from languages import N_
from memory_server.interchange import spoken_places as places
from memory_server.interchange.incoming import Incoming, fields_of, text_of
from memory_server.interchange.transcript_turns import TranscriptTurn
from memory_server.interchange.transcripts import dialog, rows_of, time_of
from memory_server.interchange.turn_memories import TurnMemories
from memory_server.kernel.json_text import Fields, Json, objects_in
from memory_server.kernel.messages import Message
from memory_server.kernel.private import calls_forget, emptied
from memory_server.kernel.values import dataclass, frozen
from memory_server.kernel.work import strings_of
from sandbox import WRONG_VALUES

_USER_MESSAGE = "user_message"
_ITEM_COMPLETED = "item_completed"
_MESSAGE = "message"
_TURN_STARTED = ("task_started", "turn_started")
_UUID_CHARS = 32
_REQUESTS = ("## My request for Codex:\n", "## My request for Codex:")
"""The words of the user stand after it, where an editor wrote its context before them."""
_CONTEXT = {
    "<environment_context": places.NOTHING_SAID,
    "<user_instructions": places.NOTHING_SAID,
    "<instructions": places.NOTHING_SAID,
    "# agents.md instructions": places.NOTHING_SAID,
    "<turn_aborted": places.NOTHING_SAID,
    "<skill>": places.FOR_THE_MODEL,
    "<hook_prompt": places.HOOKS,
    "<user_shell_command": places.SHELL,
    "<subagent_notification": places.AGENTS,
    "<subagents": places.AGENTS,
}
"""How texts of the role `user` begin that no user wrote, in small letters, and what the report calls them."""
_ITEMS = {
    "reasoning": places.THOUGHTS,
    "agent_message": places.AGENTS,
    "function_call": places.TOOLS,
    "custom_tool_call": places.TOOLS,
    "local_shell_call": places.TOOLS,
    "tool_search_call": places.TOOLS,
    "web_search_call": places.TOOLS,
    "image_generation_call": places.TOOLS,
}
_ITEMS_WITHOUT_WORDS = frozenset(
    (
        "additional_tools",
        "compaction",
        "compaction_summary",
        "context_compaction",
        "ghost_snapshot",
        "other",
    )
)
_LINES = {
    "inter_agent_communication": places.AGENTS,
    "compacted": places.SUMMARIES,
    "inter_agent_communication_metadata": places.NOTHING_SAID,
    "world_state": places.NOTHING_SAID,
    "token_usage_record": places.NOTHING_SAID,
    "security_risk_score": places.NOTHING_SAID,
    "retained_context": places.NOTHING_SAID,
    "realtime_item": places.NOTHING_SAID,
    "turn_context": places.NOTHING_SAID,
    "session_meta": places.NOTHING_SAID,
    "event_msg": places.NOTHING_SAID,
    "response_item": places.NOTHING_SAID,
    "message": places.NOTHING_SAID,
}
_NOTE = "user_note: "
"""How Codex begins an answer in a dialog that the user typed beside the options."""


def read(
    files: Mapping[str, bytes],
    usual: str,
    folder_of: Callable[[str], str | None],
    programs: Collection[str] = (),
) -> Incoming:
    """Read the turns of all sessions, for `usual`. `files`: the sessions by their path; `folder_of` names a working
    folder; `programs`: the programs that a user named. Raises NotThisFormat: no session has a turn."""
    incoming = Incoming()
    memories = TurnMemories(incoming, usual, folder_of, programs)
    seen_ids: set[str] = set()
    for path, data in sorted(files.items()):
        if path.endswith(".jsonl"):
            history = _history_of(data, incoming)
            turns = _Session(incoming, history.words_in).turns(history.rows)
            memories.add(path, _new_turns(turns, seen_ids))
            taken_back = _Session(Incoming(), history.words_in).turns(history.rolled_back)
            memories.take_back(taken_back)
    return memories.finished(
        N_("holds no turn of a user; import `~/.codex/sessions`, or a file in it.")
    )


def _new_turns(turns: Iterable[TranscriptTurn], seen_ids: set[str]) -> Iterator[TranscriptTurn]:
    """Yield the turns that no earlier file has, and add their ids to `seen_ids` at the end: the file of a fork
    repeats turns of the session that it is from. Older versions numbered the turns of each session, so such ids are
    not compared."""
    own_ids: set[str] = set()
    for turn in turns:
        turn_id = turn.prompt_id or ""
        if turn_id in seen_ids:
            continue
        if len(turn_id) >= _UUID_CHARS:
            own_ids.add(turn_id)
        yield turn
    seen_ids |= own_ids


@frozen
class _History:
    """The lines of a file. `words_in`: the type of the lines that have the user's words; a file may have several
    types with the same words. `rolled_back`: the lines that the user took back, with what says which session it is."""

    rows: Sequence[Fields]
    rolled_back: Sequence[Fields]
    words_in: str


def _history_of(data: bytes, incoming: Incoming) -> _History:
    """Separate what holds of a file from what was rolled back: an event `thread_rolled_back` drops the last turns of
    the user, as core/src/codex/rollout_reconstruction.rs of openai/codex counts them. What was rolled back is kept
    apart, because an earlier import may have brought it. A line that is not JSON is counted in `incoming.lost`."""
    rows: list[Fields] = []
    for line in data.splitlines():
        rows += rows_of(line, incoming.lost)

    kinds = {_words_in(row) for row in rows}
    words_in = _MESSAGE
    # The last kind that the file has is taken.
    for kind in (_MESSAGE, _ITEM_COMPLETED, _USER_MESSAGE):
        if kind in kinds:
            words_in = kind

    history: list[Fields] = []
    rolled_back: list[Fields] = []
    turn_starts: list[int] = []
    """The position in `history` of each turn of the user."""
    start: int | None = None
    """The position of the turn that the client began last, until the user says something in it."""
    # Older clients do not say when a turn begins; there the words of the user begin it.
    names_turns = any(_event_in(row) in _TURN_STARTED for row in rows)
    for row in rows:
        event = _event_in(row)
        if event == "thread_rolled_back":
            kept_turns = max(0, len(turn_starts) - _count_of_turns(row))
            if kept_turns < len(turn_starts):
                rolled_back += history[turn_starts[kept_turns] :]
                del history[turn_starts[kept_turns] :]
                del turn_starts[kept_turns:]
            start = None
            continue

        if row.get("type") == "session_meta":
            rolled_back.append(row)
        elif event in _TURN_STARTED:
            start = len(history)
        elif _has_words_of_user(row, words_in):
            if start is None and not names_turns:
                start = len(history)
            if start is not None:
                turn_starts.append(start)
            start = None

        history.append(row)

    return _History(history, rolled_back, words_in)


def _event_in(row: Fields) -> object:
    """Return the type of the event in a line, or None for any other line."""
    if row.get("type") != "event_msg":
        return None
    return fields_of(row.get("payload")).get("type")


def _count_of_turns(row: Fields) -> int:
    count = fields_of(row.get("payload")).get("num_turns")
    return count if isinstance(count, int) and count > 0 else 0


def _has_words_of_user(row: Fields, words_in: str) -> bool:
    """Tell whether the user says something in a line of the type that has the user's words."""
    if words_in != _MESSAGE:
        return _words_in(row) == words_in
    payload = fields_of(row.get("payload", row))
    if payload.get("role") != "user":
        return False
    return any(text.strip() and _context_name(text) is None for text in _texts(payload))


def _context_name(text: str) -> str | None:
    """Return what the report calls a text of the role `user` that no user wrote. Return None if a user may have
    written it."""
    beginning = text[:100].lstrip().lower()
    for mark, called in _CONTEXT.items():
        if beginning.startswith(mark):
            return called
    return None


@dataclass(slots=True)
class _Session:
    """The reader of a file. `words_in` as in `_History`. `questions`: the questions of dialogs, by the id of the call
    and their own."""

    incoming: Incoming
    words_in: str
    session: Json = field(default_factory=dict)
    """What the file says about its session."""
    turn_id: str | None = None
    turn: TranscriptTurn | None = None
    by_sub_agent: bool = False
    questions: dict[str, dict[str, str]] = field(default_factory=dict)

    def turns(self, rows: Iterable[Fields]) -> Iterator[TranscriptTurn]:
        """Yield the turns of these lines, each when the next one begins, and the last at the end. A line with wrong
        values is only counted."""
        for row in rows:
            ended_turn = None
            try:
                ended_turn = self._take(row)
            except WRONG_VALUES:
                self._count(places.DAMAGED)
            if ended_turn is not None:
                yield ended_turn
        if self.turn is not None:
            yield self.turn

    def _take(self, row: Fields) -> TranscriptTurn | None:
        """Read one line, and return the turn before it if the line begins another one, otherwise
        None."""
        kind = str(row.get("type", "session_meta"))
        payload = row.get("payload", row)
        if not isinstance(payload, Mapping):
            return None
        if kind in ("session_meta", "turn_context"):
            self._describe(payload)
        elif kind == "event_msg":
            return self._event(payload, time_of(row.get("timestamp")))
        elif kind == "response_item" or "payload" not in row:
            return self._item(payload, time_of(row.get("timestamp")))
        elif kind in _LINES:
            self._count(_LINES[kind])
        else:
            self._count(places.unknown_record(kind))
        return None

    def _describe(self, payload: Fields) -> None:
        """Note what a line says of the session: id, folder, turn, program, and whether a sub-agent
        ran it. The first id stays."""
        # A session that goes on from another one repeats the first line of that.
        self.session.setdefault("sessionId", payload.get("id"))
        if isinstance(payload.get("cwd"), str):
            self.session["cwd"] = payload["cwd"]
        if isinstance(payload.get("turn_id"), str):
            self.turn_id = payload["turn_id"]
        if "id" in payload and payload["id"] == self.session["sessionId"]:
            source = payload.get("source")
            self.session |= {"source": source, "originator": payload.get("originator")}
            self.by_sub_agent = isinstance(source, Mapping) and bool(
                {"subagent", "subAgent"} & source.keys()
            )

    def _event(self, payload: Fields, time_ms: int | None) -> TranscriptTurn | None:
        """Read an event: words of the user, or the beginning or end of a turn. Pictures are counted as lost. Return
        the turn before it if this begins another one, otherwise None."""
        match payload.get("type"):
            case "item_completed" if self.words_in == _ITEM_COMPLETED:
                item = fields_of(payload.get("item"))
                if item.get("type") == "UserMessage":
                    return self._said("\n".join(_texts(item)), time_ms)
            case "user_message" if payload.get("kind") in (None, "plain"):
                pictures = [*(payload.get("images") or ()), *(payload.get("local_images") or ())]
                self.incoming.lost[places.PICTURES] += len(pictures)
                return self._said(str(payload.get("message") or ""), time_ms)
            case "task_started" | "turn_started":
                self.turn_id = text_of(payload.get("turn_id")) or None
            case "task_complete" | "turn_complete" if self.turn is not None:
                self.turn.answered = True
            case "turn_aborted" if self.turn is not None:
                self.turn.answered = False
        return None

    def _item(self, payload: Fields, time_ms: int | None) -> TranscriptTurn | None:
        """Read an item: a message, a call of a tool or its result; what has no words is counted.
        Return the turn before it if a message begins another one, otherwise None."""
        kind = str(payload.get("type", "message" if "role" in payload else ""))
        if kind == "message":
            return self._message(payload, time_ms)
        called = _ITEMS.get(kind, "")
        if kind.endswith("_call"):
            self._call(payload)
        elif kind == "function_call_output":
            self._dialog(payload, time_ms)
            self._see_result(payload)
        elif kind == "custom_tool_call_output":
            self._see_result(payload)
        elif (
            kind
            and not called
            and not kind.endswith("_output")
            and kind not in _ITEMS_WITHOUT_WORDS
        ):
            called = places.unknown_record(kind)
        self._count(called)
        return None

    def _message(self, payload: Fields, time_ms: int | None) -> TranscriptTurn | None:
        """Read a message: the words of the model, or of the user if this file has them in messages. Return the turn
        before it if this begins another turn, otherwise None."""
        texts = _texts(payload)
        if payload.get("role") == "assistant":
            self._answer("\n".join(texts).strip(), time_ms)
        elif payload.get("role") == "user":
            words = [text for text in texts if not self._is_context(text)]
            if self.words_in == _MESSAGE:
                return self._said("\n".join(words), time_ms)
        return None

    def _answer(self, answer: str, time_ms: int | None) -> None:
        """Add what the model wrote to the turn. What a sub-agent wrote, or what is before the first turn, is only
        counted."""
        if not answer:
            return
        if self.by_sub_agent:
            self._count(places.SUB_AGENTS)
        elif self.turn is None:
            self._count(places.WITHOUT_THE_USER)
        else:
            self.turn.answers.append(Message("assistant", answer, time_ms))
            self.turn.answered = True

    def _is_context(self, text: str) -> bool:
        """Tell whether a text is context that the client added, and count it if so."""
        called = _context_name(text)
        if called is None:
            return False
        self._count(called)
        return True

    def _said(self, text: str, time_ms: int | None) -> TranscriptTurn | None:
        """Add what the user said. Return the turn before it if this begins another turn, otherwise
        None."""
        text = emptied(text)
        # The client puts its own context before the request, so the last mark counts.
        for mark in _REQUESTS:
            text = text.rpartition(mark)[2]

        words = text.strip()
        if not words:
            return None

        if self.by_sub_agent:
            self._count(places.SUB_AGENTS)
            return None

        ended_turn = None
        if self.turn is None or self.turn.answered:
            ended_turn = self.turn
            self.turn = TranscriptTurn(dict(self.session))

        turn = self.turn
        if turn.forgot:
            turn.forget()

        turn.prompt_id = self.turn_id or turn.prompt_id
        turn.prompted_ms = time_ms
        turn.asked.append(Message("user", words, time_ms))
        return ended_turn

    def _call(self, payload: Fields) -> None:
        """Read a call of a tool: its turn has no answer yet, and is not stored if the tool is
        `forget`. The questions of a dialog are kept until its answer."""
        if self.turn is not None:
            self.turn.answered = False
            self.turn.forgot = self.turn.forgot or calls_forget({"function_call": payload})
            arguments = payload.get("input", payload.get("arguments", payload.get("action")))
            fields = fields_of(arguments)
            self.turn.work.call(
                payload.get("call_id"),
                payload.get("name", payload.get("type", "")),
                fields or arguments,
            )
        if payload.get("name") != "request_user_input":
            return
        rows = fields_of(payload.get("arguments")).get("questions")
        questions: dict[str, str] = {}
        for row in objects_in(rows):
            questions[str(row.get("id"))] = str(row.get("question") or row.get("header") or "")
        self.questions[str(payload.get("call_id"))] = questions

    def _see_result(self, payload: Fields) -> None:
        """Add the result of a tool, with its exit code, to the work of the turn. Do nothing without a turn, or for a
        sub-agent."""
        if self.turn is None or self.by_sub_agent:
            return
        output = payload.get("output")
        fields = fields_of(output)
        text = strings_of(output) if isinstance(output, list) else str(fields.get("output", output))
        metadata = fields.get("metadata")
        if isinstance(metadata, Mapping) and "exit_code" in metadata:
            text = f"Exit code {metadata['exit_code']}\n{text}"
        self.turn.work.result(payload.get("call_id"), text)

    def _dialog(self, payload: Fields, time_ms: int | None) -> None:
        """Add the questions of a dialog that the model asked, each with the answer of the user, to
        the turn. Nothing is added without answers, for an unknown dialog, or for one of a
        sub-agent."""
        questions = self.questions.pop(str(payload.get("call_id")), None)
        answers = fields_of(payload.get("output")).get("answers")
        if (
            questions is None
            or not isinstance(answers, Mapping)
            or self.turn is None
            or self.by_sub_agent
        ):
            return
        for name, answer in answers.items():
            question = questions.get(name, "")
            self.turn.asked += dialog(question, _words_of_answer(answer), time_ms)

    def _count(self, called: str) -> None:
        if called:
            self.incoming.lost[called] += 1


def _words_of_answer(answer: Any) -> str:
    """Return what the user chose or typed in a dialog."""
    choices = answer.get("answers") if isinstance(answer, Mapping) else None
    if not isinstance(choices, list):
        return ""
    texts = [str(choice).removeprefix(_NOTE) for choice in choices]
    return "\n".join(texts).strip()


def _words_in(row: Fields) -> str:
    """Tell in which form a line has the user's words: `_USER_MESSAGE`, `_ITEM_COMPLETED`, or else
    `_MESSAGE`."""
    payload = row.get("payload")
    if row.get("type") != "event_msg" or not isinstance(payload, Mapping):
        return _MESSAGE
    if payload.get("type") == _USER_MESSAGE:
        return _USER_MESSAGE
    item = payload.get("item")
    if (
        payload.get("type") == _ITEM_COMPLETED
        and isinstance(item, Mapping)
        and item.get("type") == "UserMessage"
    ):
        return _ITEM_COMPLETED
    return _MESSAGE


def _texts(payload: Fields) -> list[str]:
    """Return the texts of a message, a block each."""
    content = payload.get("content")
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = [block.get("text") for block in objects_in(blocks)]
    return [text for text in texts if isinstance(text, str)]
