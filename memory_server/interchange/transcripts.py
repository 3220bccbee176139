"""Transcripts of Claude Code: JSON lines, some of which hold words. What a line says, by the table of spoken_places.py:
the words of the user and of the model, and the names of what is left out. Pure.

The hooks read the end of a transcript (operations/hook_events.py), an import reads whole ones; transcript_turns.py makes
turns of the lines. A line has `uuid`, `sessionId`, `promptId` (since 2.1), `cwd`, `timestamp` (ISO) and a `message` of
Anthropic's form. VS Code and Cursor write nearly the same; what is known of theirs is from programs that read them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Literal

from memory_server.interchange import spoken_places as places
from memory_server.interchange.transcript_words import (
    ORIGIN,
    answer_in,
    value_at,
    was_interrupted,
    without_interruption,
    words_of_user,
)
from memory_server.kernel import json_text
from memory_server.kernel.messages import Message
from memory_server.kernel.values import dataclass
from nlp.once import Once
from sandbox import WRONG_VALUES, joined_values

_OF_A_MESSAGE = re.compile(
    rb'"(?:type|role|subtype)":\s*"(?:user|assistant|queued_command|turn_duration|stop_hook_summary)(?:\.message)?"'
)
"""A line that may hold words, or that tells that a turn has ended: most do not, and a line may have a megabyte."""
_REFUSAL = Once(
    lambda: re.compile(
        r"(?:Error: )?(?:The user doesn't want to proceed with this tool use|Permission for this tool use was denied)\."
        r"[^\n]{0,300}?[Tt]he user said:\n"
    )
)
_AFTER_REFUSAL = "\nNote: The user's next message may contain a correction or preference."
_CLARIFICATION = "The user wants to clarify these questions."
_CLARIFIED = Once(
    lambda: re.compile(r"^[ -]{0,9}(?:Answer|User notes): (.{1,10000})$", re.MULTILINE)
)
_ON_A_PLAN = "\nUser feedback on this plan: "

State = Literal["", "open", "answered"]
"""What a line says about its turn: it goes on, or was interrupted; the model has answered; or nothing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a line says: `messages` in order, and how often something is left out, by its name. `prompts`: it begins a
    turn, unless an earlier turn is open; other lines belong to the turn before them."""

    messages: tuple[Message, ...] = ()
    prompts: bool = False
    state: State = ""
    left_out: Counter[str] = field(default_factory=Counter)


def rows_of_transcript(transcript: bytes) -> list[Mapping[str, Any]]:
    """Return the lines that may hold messages, or that say which line follows which."""
    return [row_of(line) for line in transcript.splitlines() if _is_looked_at(line)]


def _is_looked_at(line: bytes) -> bool:
    if b'"parentUuid"' in line or b'"leafUuid"' in line:
        return True
    return _OF_A_MESSAGE.search(line) is not None


def row_of(line: bytes) -> Mapping[str, Any]:
    """Parse a line of a transcript. Return an empty row if the line is cut or is still being written."""
    try:
        row = json_text.loads(line)
    except ValueError:
        return {}
    if not isinstance(row, dict):
        return {}
    return row


def rows_of(line: bytes, left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a line of a file: a single object, or several between which the end of the line is
    missing. `left_out` counts a line that is cut off or is not JSON."""
    row = row_of(line)
    if row:
        yield row
        return
    rest = ""
    try:
        values = [json_text.loads(line)]
    except ValueError:
        values, rest = joined_values(line.decode(errors="replace"))
    for value in values:
        if isinstance(value, dict):
            yield value
        else:
            left_out[places.unknown_record(type(value).__name__)] += 1
    left_out[places.DAMAGED] += bool(rest.strip())


def is_error(row: Mapping[str, Any]) -> bool:
    """Tell whether the line says that a request to the model failed."""
    return row.get("subtype") == "api_error" or bool(row.get("isApiErrorMessage"))


def role_of(row: Mapping[str, Any]) -> str:
    """`user` or `assistant` for a line with a message; for another one its type."""
    kind = row.get("type", row.get("role"))
    if not isinstance(kind, str):
        return ""
    return kind.removesuffix(".message")


def reading_of(row: Mapping[str, Any]) -> Reading:
    """Return what a line says. A line with a value of a wrong type says nothing, and is counted."""
    try:
        return _reading_of(row)
    except WRONG_VALUES:
        return Reading(left_out=Counter([places.DAMAGED]))


def _reading_of(row: Mapping[str, Any]) -> Reading:
    role = role_of(row)
    match role:
        case "user":
            return _of_user(row)
        case "assistant":
            return _of_model(row)
        case "attachment":
            return _of_attachment(row)
        case "system" if row.get("subtype") in ("turn_duration", "stop_hook_summary"):
            return Reading(state="answered")
    if not row or role in places.RECORDS_WITHOUT_WORDS or "type" not in row:
        return Reading()
    return Reading(left_out=Counter([places.unknown_record(role)]))


def _of_user(row: Mapping[str, Any]) -> Reading:
    content = _content(row)
    is_result = any(block.get("type") == "tool_result" for block in _blocks(content))
    mark = _mark("user", row)
    if mark is not None:
        return _of_marked_line(row, mark, is_result=is_result)

    left_out = _blocks_left_out(content)
    time_ms = time_of(row.get("timestamp"))
    texts = _texts(row, content)
    words = [words_of_user(text, row, left_out) for text in texts]
    # With the result of a tool comes only what the user says to it: an answer to a dialog, or the reason of a
    # refusal.
    if is_result:
        spoken = [
            *_dialog(row, time_ms),
            *_user_messages([_refusal(row, content), *words], time_ms),
        ]
        return Reading(tuple(spoken), state="open", left_out=left_out)

    messages = _user_messages(["\n".join(filter(None, words))], time_ms)
    # The words of an interruption do not begin a turn.
    if any(map(was_interrupted, texts)):
        return Reading(messages, state="open", left_out=left_out)

    return Reading(messages, prompts=True, left_out=left_out)


_BEGINS_A_TURN = ("origin.kind", "promptSource", "planContent", "scheduledTaskId", "wakeupSource")
"""The fields of lines that the client writes in the place of a prompt."""


def _of_marked_line(row: Mapping[str, Any], mark: places.Place, *, is_result: bool) -> Reading:
    """Return what a line says that `mark` leaves out as a whole: nothing but what the user wrote about a plan."""
    left_out = _blocks_left_out(_content(row))
    if not is_result:
        left_out[mark.called] += 1
    feedback = ""
    if mark.field in ("planContent", "origin.kind"):
        feedback = _feedback_on_a_plan(row)
    messages = _user_messages([feedback], time_of(row.get("timestamp")))
    begins_a_turn = mark.field in _BEGINS_A_TURN and not is_result
    return Reading(messages, prompts=begins_a_turn, left_out=left_out)


def _of_model(row: Mapping[str, Any]) -> Reading:
    content = _content(row)
    left_out = _blocks_left_out(content)
    mark = _mark("assistant", row)
    if mark is not None:
        left_out[mark.called] += 1
        # An error is not an answer: the hook Stop is not called after it.
        state: State = "open" if mark.called == places.ERRORS else ""
        return Reading(state=state, left_out=left_out)
    text = answer_in("\n".join(_texts(row, content)))
    messages: tuple[Message, ...] = ()
    state = ""
    if text:
        messages = (Message("assistant", text, time_of(row.get("timestamp"))),)
        state = "answered"
    calls_a_tool = left_out[places.TOOLS] > 0
    if calls_a_tool:
        state = "open"
    return Reading(messages, state=state, left_out=left_out)


def _of_attachment(row: Mapping[str, Any]) -> Reading:
    attachment = row.get("attachment")
    if not isinstance(attachment, Mapping):
        return Reading()
    kind = str(attachment.get("type"))
    if kind != "queued_command":
        return Reading(left_out=_attachment_left_out(kind))
    mark = _mark("user", row) or _mark("user", attachment)
    if mark is not None:
        return Reading(left_out=Counter([mark.called]))
    prompt = attachment.get("prompt")
    left_out = _blocks_left_out(prompt)
    words = [words_of_user(text, attachment, left_out) for text in _texts({}, prompt)]
    time_ms = time_of(attachment.get("timestamp")) or time_of(row.get("timestamp"))
    return Reading(_user_messages(["\n".join(filter(None, words))], time_ms), left_out=left_out)


def _attachment_left_out(kind: str) -> Counter[str]:
    """Name what an attachment holds that is not a prompt."""
    called = places.ATTACHMENTS.get(kind, "")
    if not called and kind not in places.ATTACHMENTS_WITHOUT_WORDS:
        called = places.unknown_record(f"attachment/{kind}")
    return Counter(filter(None, [called]))


def _mark(record: str, row: Mapping[str, Any]) -> places.Place | None:
    """Find the place that leaves out the whole line. An origin that no place names leaves it out too."""
    for place in places.line_marks(record):
        value = value_at(row, place.field.split("."))
        if value == place.mark or (not place.mark and value):
            return place
    kind = value_at(row, ORIGIN)
    if record == "user" and kind is not None and kind != "human":
        called = places.unknown_record(f"origin/{kind}")
        return places.Place("user", "origin.kind", mark=str(kind), whose="client", called=called)
    return None


def _content(row: Mapping[str, Any]) -> Any:
    """Return the content of the message of a line."""
    # A line of VS Code has a type such as `user.message`, and the message in `data`.
    is_of_vs_code = "type" in row and row["type"] != role_of(row)
    message = row.get("data" if is_of_vs_code else "message")
    if not isinstance(message, Mapping):
        return None
    return message.get("content")


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, Mapping)]


def _blocks_left_out(content: Any) -> Counter[str]:
    """Count the blocks that hold something else than text, by their names."""
    names = (places.BLOCKS.get(str(block.get("type")), "") for block in _blocks(content))
    return Counter(filter(None, names))


def _texts(row: Mapping[str, Any], content: Any) -> list[str]:
    """Return the texts of a message, a block each."""
    if isinstance(content, str):
        texts = [content]
    else:
        values = [block.get("text") for block in _blocks(content) if block.get("type") == "text"]
        texts = [text for text in values if isinstance(text, str)]
    if "role" in row:  # Cursor adds files and rules to what the user wrote
        _before, _tag, words = "\n".join(texts).rpartition("<user_query>")
        return [words.partition("</user_query>")[0]]
    return texts


def _user_messages(words: Iterable[str], time_ms: int | None) -> tuple[Message, ...]:
    texts = map(without_interruption, words)
    return tuple(Message("user", text, time_ms) for text in texts if text)


def _dialog(row: Mapping[str, Any], time_ms: int | None) -> list[Message]:
    """Yield each question of a dialog, which the model asked, and the answer of the user."""
    result = row.get("toolUseResult")
    if not isinstance(result, Mapping) or not isinstance(result.get("questions"), list):
        return []
    answers = result.get("answers")
    if not isinstance(answers, Mapping):
        return []
    spoken: list[Message] = []
    for question, answer in answers.items():
        words = without_interruption("\n".join([*_choices(answer), *_note_on(question, result)]))
        if words:
            spoken += [
                Message("assistant", answer_in(str(question)), time_ms),
                Message("user", words, time_ms),
            ]
    return spoken


def _choices(answer: Any) -> list[str]:
    """Return a line with what the user chose or typed, or no line if that is nothing."""
    text = ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer or "")
    return [text] if text else []


def _note_on(question: str, result: Mapping[str, Any]) -> list[str]:
    """Return a line with what the user wrote beside the choice, or no line if that is nothing."""
    note = value_at(result, ("annotations", question, "notes"))
    return [note] if isinstance(note, str) and note else []


def _refusal(row: Mapping[str, Any], content: Any) -> str:
    """Return the reason why the user refused the call of a tool; empty if the user said nothing. Newer versions have
    a field of its own; in others the reason is in the result, which only the client may begin so."""
    reason = row.get("userFeedback")
    if not isinstance(reason, str):
        reason = _reason_in_results(row, content)
    if reason.startswith(_CLARIFICATION):
        answers = [
            answer for answer in _CLARIFIED().findall(reason) if not answer.startswith("(No answer")
        ]
        return "\n".join(answers)
    return reason


def _reason_in_results(row: Mapping[str, Any], content: Any) -> str:
    if row.get("toolDenialKind", "user-rejected") != "user-rejected":
        return ""
    if value_at(row, ("permissionDecision", "decision")) == "accept":
        return ""
    reasons: list[str] = []
    for block in _blocks(content):
        if block.get("type") != "tool_result" or not block.get("is_error"):
            continue
        for text in _texts({}, block.get("content")):
            beginning = _REFUSAL().match(text)
            if beginning is not None:
                reasons.append(text[beginning.end() :].partition(_AFTER_REFUSAL)[0])
    return "\n".join(reasons)


def _feedback_on_a_plan(row: Mapping[str, Any]) -> str:
    """Return what the user wrote about a plan that the client hands to a new session."""
    texts = [text for text in _texts({}, _content(row)) if _ON_A_PLAN in text]
    return "\n".join(text.rpartition(_ON_A_PLAN)[2] for text in texts)


def time_of(timestamp: Any) -> int | None:
    """Return the milliseconds since 1970 of an ISO text, or None if it is not a time."""
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
