"""Transcripts of Claude Code: JSON lines, some of which hold words. What a line says, by the tables of spoken_places.py:
the words of the user and of the model, and the names of what is left out. Pure.

The hooks read the end of a transcript (operations/hook_events.py), an import reads whole ones; transcript_turns.py makes
turns of the lines. A line has `uuid`, `sessionId`, `promptId` (since 2.1), `cwd`, `timestamp` (ISO) and a `message` of
Anthropic's form. VS Code and Cursor write nearly the same; what is known of theirs is from programs that read them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Literal

from memory_server.interchange import spoken_places as places
from memory_server.kernel import json_text
from memory_server.kernel.json_text import Fields, objects_in
from memory_server.kernel.messages import Message
from memory_server.kernel.values import frozen
from nlp.once import Once
from sandbox import WRONG_VALUES, joined_values

# --- words in a block of text ------------------------------------------------------------------------------------

# What the user or the model wrote in a block of text of a transcript of Claude Code, without what the client adds:
# tags, slash commands and sentences of the table spoken_places.py. Pure.

_TAG = Once(
    lambda: re.compile(rf"<({'|'.join(map(re.escape, places.TAGS))})(?:\s[^<>\n]{{0,1000}})?>")
)
_ADDED_TO_WORDS = places.TAGS.keys() - places.TAGS_OF_AGENTS.keys()
_ADDED_TO_ANSWERS = frozenset(("system-reminder", "system_reminder"))
_INTERRUPTED = re.compile(r"^\[Request interrupted by user[^\]\n]*\]$", re.MULTILINE)
_INVOKED_BY_THE_MODEL = Once(
    lambda: re.compile(r'^The "[^"\n]{1,200}" skill is (?:loading|running)')
)
ORIGIN = ("origin", "kind")
"""Where newer lines say whose words they hold."""


def words_of_user(text: str, row: Fields, left_out: Counter[str]) -> str:
    """Return what the user wrote in a block of text. Where the line says that a person wrote it, only what the client
    adds to such words is taken away: the rest may be a paste."""
    is_by_human = value_at(row, ORIGIN) == "human"
    tags = _ADDED_TO_WORDS if is_by_human else places.TAGS.keys()
    # A skill that is called without a terminal is a local row too, and has the other tag first.
    is_local = row.get("rowSource") == "local" and text.lstrip().startswith("<command-name>")
    words = _without_parts(text, tags, left_out, is_local=is_local)
    if is_by_human:
        return words
    beginning = words.lstrip()
    for sentence, called in places.SENTENCES.items():
        if beginning.startswith(sentence):
            if called:
                left_out[called] += 1
            return ""
    return words


def prompt_in(text: str) -> str:
    """Return what the user wrote in a prompt that a client gives to a hook; empty if another agent or the client
    wrote it."""
    return without_interruption(words_of_user(text, {}, Counter()))


def without_hook_context(text: str) -> str:
    """Return a text without the output of hooks that Gemini CLI writes around the words of the user. The output of the
    hook of a session comes before them. A tag that is not closed is a word of the user. Linear in the length."""
    closing_tag = "</hook_context>"
    *pieces, words_after = text.split(closing_tag)
    lines: list[str] = []
    for piece in pieces:
        before, opening_tag, context = piece.rpartition("<hook_context>")
        lines.append(before if opening_tag else context + closing_tag)
    return ("".join(lines) + words_after).strip()


def answer_in(text: str) -> str:
    """Return what the model wrote, without what the client added."""
    return _without_parts(text, _ADDED_TO_ANSWERS, Counter()).strip()


def was_interrupted(text: str) -> bool:
    """Tell whether the client wrote in a text that the user interrupted the model."""
    return _INTERRUPTED.search(text) is not None


def without_interruption(text: str) -> str:
    """Return a text without the line that the client writes where the user interrupts the model."""
    return _INTERRUPTED.sub("", text).strip()


def _without_parts(
    text: str, tags: Collection[str], left_out: Counter[str], *, is_local: bool = False
) -> str:
    """Return the text without the parts between `tags`; a slash command as it was typed. Linear in the length: the
    end of an unclosed tag is searched only once. `is_local`: the client ran the command by itself."""
    pieces: list[str] = []
    command: dict[str, str] = {}
    piece_start = 0
    unclosed: set[str] = set()
    for opening in _TAG().finditer(text):
        name = opening[1]
        # This tag is inside a part that is taken out, or does not matter.
        if opening.start() < piece_start or name in unclosed or name not in tags:
            continue

        closing = f"</{name}>"
        end = text.find(closing, opening.end())
        if end < 0:
            unclosed.add(name)
            continue

        part = text[opening.end() : end]
        pieces.append(text[piece_start : opening.start()])
        # This is what the user typed after `#`, so it stays.
        if name == "user-memory-input":
            pieces.append(part)
        elif name in ("command-name", "command-args", "command-message", "skill-format"):
            command[name] = part.strip()

        called = places.TAGS[name]
        if called:
            left_out[called] += 1

        piece_start = end + len(closing)

    pieces.append(text[piece_start:])
    return _typed(command, left_out, is_local=is_local) + "".join(pieces)


def _typed(command: Mapping[str, str], left_out: Counter[str], *, is_local: bool) -> str:
    """Write a slash command as the user typed it, or only its arguments if its name is missing; empty if it is a
    setting of the client, or the model called a skill."""
    name = command.get("command-name", "").lstrip("/")
    if not name:
        return command.get("command-args", "")
    is_by_model = "skill-format" in command or _INVOKED_BY_THE_MODEL().match(
        command.get("command-message", "")
    )
    if is_local or is_by_model or name in places.CLIENT_COMMANDS:
        left_out[places.COMMANDS] += 1
        return ""
    return f"/{name} {command.get('command-args', '')}".strip()


def value_at(row: Fields, path: Iterable[str]) -> Any:
    """Return the value at a path of names, or None."""
    value: Any = row
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


# --- lines -------------------------------------------------------------------------------------------------------

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


@frozen
class LineContent:
    """What a line says: `messages` in order, and how often something is left out, by its name. `prompts`: it begins a
    turn, unless an earlier turn is open; other lines belong to the turn before them."""

    messages: tuple[Message, ...] = ()
    prompts: bool = False
    state: State = ""
    left_out: Counter[str] = field(default_factory=Counter)


def rows_of_transcript(transcript: bytes) -> list[Fields]:
    """Return the lines that may hold messages, or that say which line follows which."""
    return [row_of(line) for line in transcript.splitlines() if _is_looked_at(line)]


def _is_looked_at(line: bytes) -> bool:
    """Tell whether a line may hold a message or say which line follows which, without parsing it."""
    if b'"parentUuid"' in line or b'"leafUuid"' in line:
        return True
    return _OF_A_MESSAGE.search(line) is not None


def row_of(line: bytes) -> Fields:
    """Parse a line of a transcript. Return an empty row if the line is cut or is still being written."""
    try:
        row = json_text.loads(line)
    except ValueError:
        return {}
    if not isinstance(row, dict):
        return {}
    return row


def rows_of(line: bytes, left_out: Counter[str]) -> Iterator[Fields]:
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


def is_error(row: Fields) -> bool:
    """Tell whether the line says that a request to the model failed."""
    return row.get("subtype") == "api_error" or bool(row.get("isApiErrorMessage"))


def role_of(row: Fields) -> str:
    """`user` or `assistant` for a line with a message; for another one its type."""
    kind = row.get("type", row.get("role"))
    if not isinstance(kind, str):
        return ""
    return kind.removesuffix(".message")


def reading_of(row: Fields) -> LineContent:
    """Return what a line says. A line with a value of a wrong type says nothing, and is counted."""
    try:
        return _reading_of(row)
    except WRONG_VALUES:
        return LineContent(left_out=Counter([places.DAMAGED]))


def _reading_of(row: Fields) -> LineContent:
    """Read a line by the role that it has. A line that ends a turn has no words; a record of an
    unknown kind is counted."""
    role = role_of(row)
    match role:
        case "user":
            return _of_user(row)
        case "assistant":
            return _of_model(row)
        case "attachment":
            return _of_attachment(row)
        case "system" if row.get("subtype") in ("turn_duration", "stop_hook_summary"):
            return LineContent(state="answered")
    if not row or role in places.RECORDS_WITHOUT_WORDS or "type" not in row:
        return LineContent()
    return LineContent(left_out=Counter([places.unknown_record(role)]))


def _of_user(row: Fields) -> LineContent:
    """Read a line of the user. Its words begin a turn, unless they are an interruption. With the
    result of a tool, only an answer to a dialog and the reason of a refusal are words."""
    content = _content(row)
    is_result = any(block.get("type") == "tool_result" for block in objects_in(content))
    mark = _mark(places.LINES_OF_USER, row)
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
        return LineContent(tuple(spoken), state="open", left_out=left_out)

    messages = _user_messages(["\n".join(filter(None, words))], time_ms)
    # The words of an interruption do not begin a turn.
    if any(map(was_interrupted, texts)):
        return LineContent(messages, state="open", left_out=left_out)

    return LineContent(messages, prompts=True, left_out=left_out)


_BEGINS_A_TURN = ("origin.kind", "promptSource", "planContent", "scheduledTaskId", "wakeupSource")
"""The fields of lines that the client writes in the place of a prompt."""


def _of_marked_line(row: Fields, mark: _LineMark, *, is_result: bool) -> LineContent:
    """Return what a line says that `mark` leaves out as a whole: nothing but what the user wrote about a plan."""
    left_out = _blocks_left_out(_content(row))
    if not is_result:
        left_out[mark.called] += 1
    feedback = ""
    if mark.field in ("planContent", "origin.kind"):
        feedback = _feedback_on_a_plan(row)
    messages = _user_messages([feedback], time_of(row.get("timestamp")))
    begins_a_turn = mark.field in _BEGINS_A_TURN and not is_result
    return LineContent(messages, prompts=begins_a_turn, left_out=left_out)


def _of_model(row: Fields) -> LineContent:
    """Read a line of the model: its words answer the turn, and a call of a tool leaves it open. A
    marked line, such as an error, is only counted."""
    content = _content(row)
    left_out = _blocks_left_out(content)
    mark = _mark(places.LINES_OF_MODEL, row)
    if mark is not None:
        left_out[mark.called] += 1
        # An error is not an answer: the hook Stop is not called after it.
        state: State = "open" if mark.called == places.ERRORS else ""
        return LineContent(state=state, left_out=left_out)
    text = answer_in("\n".join(_texts(row, content)))
    messages: tuple[Message, ...] = ()
    state = ""
    if text:
        messages = (Message("assistant", text, time_of(row.get("timestamp"))),)
        state = "answered"
    calls_a_tool = left_out[places.TOOLS] > 0
    if calls_a_tool:
        state = "open"
    return LineContent(messages, state=state, left_out=left_out)


def _of_attachment(row: Fields) -> LineContent:
    """Read an attachment: the words of a prompt that waited. Any other one is only counted."""
    attachment = row.get("attachment")
    if not isinstance(attachment, Mapping):
        return LineContent()
    kind = str(attachment.get("type"))
    if kind != "queued_command":
        return LineContent(left_out=_attachment_left_out(kind))
    mark = _mark(places.LINES_OF_USER, row) or _mark(places.LINES_OF_USER, attachment)
    if mark is not None:
        return LineContent(left_out=Counter([mark.called]))
    prompt = attachment.get("prompt")
    left_out = _blocks_left_out(prompt)
    words = [words_of_user(text, attachment, left_out) for text in _texts({}, prompt)]
    time_ms = time_of(attachment.get("timestamp")) or time_of(row.get("timestamp"))
    return LineContent(_user_messages(["\n".join(filter(None, words))], time_ms), left_out=left_out)


def _attachment_left_out(kind: str) -> Counter[str]:
    """Name what an attachment holds that is not a prompt."""
    called = places.ATTACHMENTS.get(kind, "")
    if not called and kind not in places.ATTACHMENTS_WITHOUT_WORDS:
        called = places.unknown_record(f"attachment/{kind}")
    return Counter(filter(None, [called]))


@frozen
class _LineMark:
    """A field that leaves out its whole line, and how the report calls the line."""

    field: str
    called: str


def _mark(lines: Mapping[str, str | Mapping[str, str]], row: Fields) -> _LineMark | None:
    """Find the field of a table of lines that leaves out the whole line. An origin that is not
    known leaves it out too. Return None if no field does."""
    for field_path, called in lines.items():
        value = value_at(row, field_path.split("."))
        if isinstance(called, str):
            if value:
                return _LineMark(field_path, called)
        elif isinstance(value, str) and value in called:
            return _LineMark(field_path, called[value])

    kind = value_at(row, ORIGIN)
    if lines is places.LINES_OF_USER and kind is not None and kind != "human":
        return _LineMark("origin.kind", places.unknown_record(f"origin/{kind}"))
    return None


def _content(row: Fields) -> Any:
    """Return the content of the message of a line."""
    # A line of VS Code has a type such as `user.message`, and the message in `data`.
    is_of_vs_code = "type" in row and row["type"] != role_of(row)
    message = row.get("data" if is_of_vs_code else "message")
    if not isinstance(message, Mapping):
        return None
    return message.get("content")


def _blocks_left_out(content: Any) -> Counter[str]:
    """Count the blocks that hold something else than text, by their names."""
    names = (places.BLOCKS.get(str(block.get("type")), "") for block in objects_in(content))
    return Counter(filter(None, names))


def _texts(row: Fields, content: Any) -> list[str]:
    """Return the texts of a message, a block each."""
    if isinstance(content, str):
        texts = [content]
    else:
        values = [block.get("text") for block in objects_in(content) if block.get("type") == "text"]
        texts = [text for text in values if isinstance(text, str)]
    if "role" in row:  # Cursor adds files and rules to what the user wrote
        _before, _tag, words = "\n".join(texts).rpartition("<user_query>")
        return [words.partition("</user_query>")[0]]
    return texts


def _user_messages(words: Iterable[str], time_ms: int | None) -> tuple[Message, ...]:
    texts = map(without_interruption, words)
    return tuple(Message("user", text, time_ms) for text in texts if text)


def _dialog(row: Fields, time_ms: int | None) -> list[Message]:
    """Return each question of a dialog, which the model asked, and the answer of the user."""
    result = row.get("toolUseResult")
    if not isinstance(result, Mapping) or not isinstance(result.get("questions"), list):
        return []
    answers = result.get("answers")
    if not isinstance(answers, Mapping):
        return []
    spoken: list[Message] = []
    for question, answer in answers.items():
        words = without_interruption("\n".join([*_choices(answer), *_note_on(question, result)]))
        spoken += dialog(answer_in(str(question)), words, time_ms)
    return spoken


def _choices(answer: Any) -> list[str]:
    """Return a line with what the user chose or typed, or no line if that is nothing."""
    text = ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer or "")
    return [text] if text else []


def _note_on(question: str, result: Fields) -> list[str]:
    """Return a line with what the user wrote beside the choice, or no line if that is nothing."""
    note = value_at(result, ("annotations", question, "notes"))
    return [note] if isinstance(note, str) and note else []


def _refusal(row: Fields, content: Any) -> str:
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


def _reason_in_results(row: Fields, content: Any) -> str:
    """Return the reasons that the user typed for a refusal, from the results of tools; '' if the
    user did not refuse, or gave no reason."""
    if row.get("toolDenialKind", "user-rejected") != "user-rejected":
        return ""
    if value_at(row, ("permissionDecision", "decision")) == "accept":
        return ""
    reasons: list[str] = []
    for block in objects_in(content):
        if block.get("type") != "tool_result" or not block.get("is_error"):
            continue
        for text in _texts({}, block.get("content")):
            beginning = _REFUSAL().match(text)
            if beginning is not None:
                reasons.append(text[beginning.end() :].partition(_AFTER_REFUSAL)[0])
    return "\n".join(reasons)


def _feedback_on_a_plan(row: Fields) -> str:
    """Return what the user wrote about a plan that the client hands to a new session."""
    texts = [text for text in _texts({}, _content(row)) if _ON_A_PLAN in text]
    return "\n".join(text.rpartition(_ON_A_PLAN)[2] for text in texts)


def dialog(question: str, words: str, time_ms: int | None) -> list[Message]:
    """Return a question of the model, which may be empty, and the answer of the user; nothing without an answer."""
    if not words:
        return []
    messages = [Message("user", words, time_ms)]
    if question:
        messages.insert(0, Message("assistant", question, time_ms))
    return messages


def time_of(timestamp: Any) -> int | None:
    """Return the milliseconds since 1970 of an ISO text, or None if it is not a time."""
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
