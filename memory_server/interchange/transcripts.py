"""Transcripts of Claude Code: JSON lines, some of which hold words. What a line says, by the table of spoken_places.py:
the words of the user and of the model, and the names of what is left out. Pure.

The hooks read the end of a transcript (cli/hook/claude_code.py), an import reads whole ones; transcript_turns.py makes
turns of the lines. A line has `uuid`, `sessionId`, `promptId` (since 2.1), `cwd`, `timestamp` (ISO) and a `message` of
Anthropic's form. VS Code and Cursor write nearly the same; what is known of theirs is from programs that read them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from memory_server.interchange import spoken_places as places
from memory_server.kernel import json_text
from memory_server.kernel.messages import Message
from nlp.once import Once
from sandbox import joined_values

_OF_A_MESSAGE = re.compile(
    rb'"(?:type|role|subtype)":\s*"(?:user|assistant|queued_command|turn_duration|stop_hook_summary)(?:\.message)?"'
)
"""A line that may hold words, or that tells that a turn has ended: most do not, and a line may have a megabyte."""
_TAG = Once(lambda: re.compile(rf"<({'|'.join(map(re.escape, places.TAGS))})(?:\s[^<>\n]{{0,1000}})?>"))
_ADDED_TO_WORDS = frozenset(name for name, place in places.TAGS.items() if place.whose != "agent")
_ADDED_TO_ANSWERS = frozenset(("system-reminder", "system_reminder"))
_INTERRUPTED = re.compile(r"^\[Request interrupted by user[^\]\n]*\]$", re.MULTILINE)
_REFUSAL = Once(
    lambda: re.compile(
        r"(?:Error: )?(?:The user doesn't want to proceed with this tool use|Permission for this tool use was denied)\."
        r"[^\n]{0,300}?[Tt]he user said:\n"
    )
)
_AFTER_REFUSAL = "\nNote: The user's next message may contain a correction or preference."
_CLARIFICATION = "The user wants to clarify these questions."
_CLARIFIED = Once(lambda: re.compile(r"^[ -]{0,9}(?:Answer|User notes): (.{1,10000})$", re.MULTILINE))
_ON_A_PLAN = "\nUser feedback on this plan: "
_INVOKED_BY_THE_MODEL = Once(lambda: re.compile(r'^The "[^"\n]{1,200}" skill is (?:loading|running)'))

State = Literal["", "open", "answered"]
"""What a line says about its turn: it goes on, or was interrupted; the model has answered; or nothing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a line says: `messages` in order, and how often something is left out, by its name. `prompts`: it begins a
    turn, unless an earlier one is open; other lines belong to the turn before them."""

    messages: tuple[Message, ...] = ()
    prompts: bool = False
    state: State = ""
    left_out: Counter[str] = field(default_factory=Counter)


def rows_of_messages(transcript: bytes) -> Iterator[Mapping[str, Any]]:
    """The lines that may hold messages."""
    return map(row_of, filter(_OF_A_MESSAGE.search, transcript.splitlines()))


def row_of(line: bytes) -> Mapping[str, Any]:
    """A line of a transcript; empty if the line is cut or is still being written."""
    try:
        row = json_text.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def rows_of(line: bytes, left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    """The objects of a line of a file: one, or several between which the end of the line is missing. `left_out` counts
    a line that is cut off or is not JSON."""
    row = row_of(line)
    if row:
        yield row
        return
    try:
        values, rest = [json_text.loads(line)], ""
    except ValueError:
        values, rest = joined_values(line.decode(errors="replace"))
    for value in values:
        if isinstance(value, dict):
            yield value
        else:
            left_out[places.unknown_record(type(value).__name__)] += 1
    left_out[places.DAMAGED] += bool(rest.strip())


def role_of(row: Mapping[str, Any]) -> str:
    """`user` or `assistant` for a line with a message; for another one its type."""
    kind = row.get("type", row.get("role"))
    return kind.removesuffix(".message") if isinstance(kind, str) else ""


def reading_of(row: Mapping[str, Any]) -> Reading:
    """What a line says."""
    role = role_of(row)
    match role:
        case "user":
            return _of_user(row)
        case "assistant":
            return _of_model(row)
        case "attachment":
            return _of_attachment(row)
        case "system":
            ended = row.get("subtype") in ("turn_duration", "stop_hook_summary")
            return Reading(state="answered" if ended else "")
    if not row or role in places.RECORDS_WITHOUT_WORDS or "type" not in row:
        return Reading()
    return Reading(left_out=Counter([places.unknown_record(role)]))


def _of_user(row: Mapping[str, Any]) -> Reading:
    content = _content(row)
    left_out = _blocks_left_out(content)
    time_ms = time_of(row.get("timestamp"))
    is_result = any(block.get("type") == "tool_result" for block in _blocks(content))
    mark = _mark("user", row)
    if mark is not None:
        feedback = _feedback_on_a_plan(row) if mark.field in ("planContent", "origin.kind") else ""
        if not is_result:
            left_out[mark.called] += 1
        own_turn = mark.field in ("origin.kind", "promptSource", "planContent", "scheduledTaskId", "wakeupSource")
        return Reading(_user_messages([feedback], time_ms), prompts=own_turn and not is_result, left_out=left_out)
    if is_result:
        beside = [_said_in(text, row, left_out) for text in _texts(row, content)]
        spoken = [*_dialog(row, time_ms), *_user_messages([_refusal(row, content), *beside], time_ms)]
        return Reading(tuple(spoken), state="open", left_out=left_out)
    texts = _texts(row, content)
    words = [_said_in(text, row, left_out) for text in texts]
    interrupted = any(_INTERRUPTED.search(text) for text in texts)
    return Reading(
        _user_messages(["\n".join(filter(None, words))], time_ms),
        prompts=not interrupted,
        state="open" if interrupted else "",
        left_out=left_out,
    )


def _of_model(row: Mapping[str, Any]) -> Reading:
    content = _content(row)
    left_out = _blocks_left_out(content)
    mark = _mark("assistant", row)
    if mark is not None:
        left_out[mark.called] += 1
        # An error is not an answer: the hook Stop is not called after it.
        return Reading(state="open" if mark.called == places.ERRORS else "", left_out=left_out)
    text = answer_in("\n".join(_texts(row, content)))
    calls_a_tool = left_out[places.TOOLS] > 0
    if calls_a_tool:
        state: State = "open"
    else:
        state = "answered" if text else ""
    messages = (Message("assistant", text, time_of(row.get("timestamp"))),) if text else ()
    return Reading(messages, state=state, left_out=left_out)


def _of_attachment(row: Mapping[str, Any]) -> Reading:
    attachment = row.get("attachment")
    if not isinstance(attachment, Mapping):
        return Reading()
    kind = str(attachment.get("type"))
    if kind != "queued_command":
        called = places.ATTACHMENTS.get(kind, "")
        if not called and kind not in places.ATTACHMENTS_WITHOUT_WORDS:
            called = places.unknown_record(f"attachment/{kind}")
        return Reading(left_out=Counter([called] if called else []))
    left_out: Counter[str] = Counter()
    mark = _mark("user", row) or _mark("user", attachment)
    if mark is not None:
        return Reading(left_out=Counter([mark.called]))
    prompt = attachment.get("prompt")
    words = [_said_in(text, attachment, left_out) for text in _texts({}, prompt)]
    left_out.update(_blocks_left_out(prompt))
    time_ms = time_of(attachment.get("timestamp")) or time_of(row.get("timestamp"))
    return Reading(_user_messages(["\n".join(filter(None, words))], time_ms), left_out=left_out)


def _mark(record: str, row: Mapping[str, Any]) -> places.Place | None:
    """The place that leaves out the whole line; an origin that no place names leaves it out too."""
    for place in places.line_marks(record):
        value = _value_at(row, place.field)
        if value == place.mark or (not place.mark and value):
            return place
    kind = _value_at(row, "origin.kind")
    if record == "user" and kind is not None and kind != "human":
        return places.Place("user", "origin.kind", str(kind), "client", places.unknown_record(f"origin/{kind}"))
    return None


def _value_at(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _content(row: Mapping[str, Any]) -> Any:
    message = row.get("message" if row.get("type") == role_of(row) or "type" not in row else "data")
    return message.get("content") if isinstance(message, Mapping) else None


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _blocks_left_out(content: Any) -> Counter[str]:
    """How often blocks hold something else than text, by its name."""
    names = (places.BLOCKS.get(str(block.get("type")), "") for block in _blocks(content))
    return Counter(filter(None, names))


def _texts(row: Mapping[str, Any], content: Any) -> list[str]:
    """The texts of a message, a block each."""
    if isinstance(content, str):
        texts = [content]
    else:
        values = [block.get("text") for block in _blocks(content) if block.get("type") == "text"]
        texts = [text for text in values if isinstance(text, str)]
    if "role" in row:  # Cursor adds files and rules to what the user wrote
        return ["\n".join(texts).rpartition("<user_query>")[2].partition("</user_query>")[0]]
    return texts


def _user_messages(words: Iterable[str], time_ms: int | None) -> tuple[Message, ...]:
    texts = map(_trimmed, words)
    return tuple(Message("user", text, time_ms) for text in texts if text)


def _trimmed(text: str) -> str:
    return _INTERRUPTED.sub("", text).strip()


def _dialog(row: Mapping[str, Any], time_ms: int | None) -> list[Message]:
    """Each question of a dialog, which the model asked, and the answer of the user."""
    result = row.get("toolUseResult")
    if not isinstance(result, Mapping) or not isinstance(result.get("questions"), list):
        return []
    answers = result.get("answers")
    annotations = result.get("annotations")
    spoken: list[Message] = []
    for question, answer in answers.items() if isinstance(answers, Mapping) else ():
        chosen = ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer or "")
        annotation = annotations.get(question) if isinstance(annotations, Mapping) else None
        note = annotation.get("notes") if isinstance(annotation, Mapping) else None
        words = _trimmed("\n".join(text for text in (chosen, note) if isinstance(text, str) and text))
        if words:
            spoken += [Message("assistant", answer_in(str(question)), time_ms), Message("user", words, time_ms)]
    return spoken


def _refusal(row: Mapping[str, Any], content: Any) -> str:
    """Why the user refused the call of a tool; empty if the user said nothing. Newer versions have a field of its own;
    in others the reason stands in the result, which only the client may begin so."""
    reason = row.get("userFeedback")
    if not isinstance(reason, str):
        if row.get("toolDenialKind", "user-rejected") != "user-rejected":
            return ""
        if _value_at(row, "permissionDecision.decision") == "accept":
            return ""
        results = [block for block in _blocks(content) if block.get("type") == "tool_result" and block.get("is_error")]
        texts = [text for block in results for text in _texts({}, block.get("content"))]
        refusals = [(text, beginning) for text in texts if (beginning := _REFUSAL().match(text))]
        reason = "\n".join(text[beginning.end() :].partition(_AFTER_REFUSAL)[0] for text, beginning in refusals)
    if reason.startswith(_CLARIFICATION):
        answers = [answer for answer in _CLARIFIED().findall(reason) if not answer.startswith("(No answer")]
        return "\n".join(answers)
    return reason


def _feedback_on_a_plan(row: Mapping[str, Any]) -> str:
    """What the user wrote about a plan that the client hands to a new session."""
    return "\n".join(text.rpartition(_ON_A_PLAN)[2] for text in _texts({}, _content(row)) if _ON_A_PLAN in text)


def _said_in(text: str, row: Mapping[str, Any], left_out: Counter[str]) -> str:
    """What the user wrote in a block of text. Where the line says that a person wrote it, only what the client adds to
    such words is taken away: the rest may be a paste."""
    by_human = _value_at(row, "origin.kind") == "human"
    tags = _ADDED_TO_WORDS if by_human else places.TAGS.keys()
    # A skill that is called without a terminal is a local row too, and has the other tag first.
    local = row.get("rowSource") == "local" and text.lstrip().startswith("<command-name>")
    words = _without_parts(text, tags, left_out, local=local)
    if by_human:
        return words
    beginning = words.lstrip()
    for place in places.SENTENCES:
        if beginning.startswith(place.mark):
            if place.called:
                left_out[place.called] += 1
            return ""
    return words


def prompt_in(text: str) -> str:
    """What the user wrote in a prompt that a client gives to a hook; empty if another agent or the client wrote it."""
    return _trimmed(_said_in(text, {}, Counter()))


def answer_in(text: str) -> str:
    """What the model wrote, without what the client added."""
    return _without_parts(text, _ADDED_TO_ANSWERS, Counter()).strip()


def _without_parts(text: str, tags: Collection[str], left_out: Counter[str], *, local: bool = False) -> str:
    """The text without the parts between `tags`; a slash command as it was typed. Linear in the length: the end of an
    unclosed tag is searched only once. `local`: the client ran the command by itself."""
    kept: list[str] = []
    command: dict[str, str] = {}
    rest = 0
    unclosed: set[str] = set()
    for begin in _TAG().finditer(text):
        name = begin[1]
        if begin.start() < rest or name in unclosed or name not in tags:
            continue
        end = text.find(f"</{name}>", begin.end())
        if end < 0:
            unclosed.add(name)
            continue
        part = text[begin.end() : end]
        kept.append(text[rest : begin.start()])
        if name == "user-memory-input":
            kept.append(part)
        elif name in ("command-name", "command-args", "command-message", "skill-format"):
            command[name] = part.strip()
        called = places.TAGS[name].called
        if called:
            left_out[called] += 1
        rest = end + len(name) + 3
    kept.append(text[rest:])
    return _typed(command, left_out, local=local) + "".join(kept)


def _typed(command: Mapping[str, str], left_out: Counter[str], *, local: bool) -> str:
    """A slash command as the user typed it; empty if it is a setting of the client, or the model called a skill."""
    name = command.get("command-name", "").lstrip("/")
    if not name:
        return command.get("command-args", "")
    by_the_model = "skill-format" in command or _INVOKED_BY_THE_MODEL().match(command.get("command-message", ""))
    if local or by_the_model or name in places.CLIENT_COMMANDS:
        left_out[places.COMMANDS] += 1
        return ""
    return f"/{name} {command.get('command-args', '')}".strip()


def time_of(timestamp: Any) -> int | None:
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
