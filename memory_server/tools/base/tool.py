"""What a tool is, and how it is called: the arguments are checked and errors become one sentence, in one place.

A tool is a function. Its name is the tool's, its arguments are the input schema, and what it returns is the output
schema (result.py): `Annotated[T, "words"]` describes an argument, and `str()` of the result is the text for people.
"""

from __future__ import annotations

import difflib
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import cached_property, partial
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import Field, ValidationError, create_model

from languages import N_, Sentence, _
from memory_server.conversations.services import one_call
from memory_server.kernel.errors import InvalidInput, MemoryServerError, StorageError
from memory_server.kernel.failures import failure_sentence, failure_text, request_id
from memory_server.kernel.json_text import size
from memory_server.kernel.secrets import counting_secrets, removed_text
from memory_server.kernel.text import shown
from memory_server.kernel.values import JsonObject, dataclass, frozen
from memory_server.memories.memories import Call
from memory_server.tools.base.result import Pagination, Result, sentences, truncated
from memory_server.tools.base.shapes import Arguments, MessageContext, as_meant

log = logging.getLogger(__name__)

MAX_BYTES = 40_000
"""Bytes of the JSON of a result, by default: half of what Claude Code takes. The setting is `results.max_bytes`."""

MOST_SAID_CHARS = 2_000
"""Characters of an error message: it may include a line of a trigger with its caret."""
_SHOWN_CHARS = 60
_MOST_NAMES = 10
"""Fields of messages that an answer names as not read."""
MOST_CHARS = 64_000
"""Characters of all arguments of a tool that takes no long texts."""
_LONG = frozenset(
    (
        "messages",
        "recentMessages",
        "content",
        "data",
        "examples",
        "prompt",
        "trigger",
        "createdContext",
    )
) | {"updatedContext"}
"""Arguments with long texts, which have bounds of their own."""

_NULL = {"type": "null"}


_OF_PROGRAMS = "ofPrograms"
FOR_PROGRAMS = Field(json_schema_extra={_OF_PROGRAMS: True})
"""Marks an argument that a model is not told of: it would pay for it in every conversation."""

Function = Callable[..., Awaitable[Result]]
NoteRefusal = Callable[[Call, str, JsonObject, str], Awaitable[None]]
"""Gets the call, the name of the tool, its arguments as they came, and a sentence that names the refused argument,
without what a user wrote."""


_TYPE_NAMES = {
    "list": N_("a list"),
    "string": "text",
    "dict": N_("an object"),
    "model": N_("an object"),
    "float": N_("a number"),
    "int": N_("a whole number"),
    "bool": N_("true or false"),
}
"""What the error messages call a type of pydantic."""


@dataclass(frozen=True)
class Tool:
    """A row of the table: a function of a `Call` and the arguments, and what clients learn about it."""

    function: Function
    title: Sentence
    description: str
    read_only: bool = False
    reinforces: bool = False
    """It changes only scores; if nothing may be changed, it answers without changing them."""
    recalls: bool = False
    """Its text holds memories: for a model the text is marked (recalled_block.py), unless it is marked already."""
    destructive: bool = False
    idempotent: bool = False
    """Repeating the call changes nothing more; true for all tools that only read."""
    paging: Pagination | None = None
    """How a long result continues."""
    always_loaded: bool = False
    """Useful in every conversation: a client that looks tools up on demand should show this tool at once."""
    search_hint: str | None = None
    """Words that help such a client to find it, besides its name and description."""
    note_refusal: NoteRefusal | None = None
    """Notes a call whose arguments were refused, where calls of this tool have a history."""

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def only_reads(self) -> bool:
        """Whether a read-only server can offer it."""
        return self.read_only or self.reinforces

    @cached_property
    def arguments(self) -> type[Arguments]:
        """Its arguments besides the call. Made at first use: most processes call one tool at most."""
        fields: dict[str, Any] = {}
        parameters = list(self._signature.parameters.items())
        for name, parameter in parameters[1:]:
            if parameter.kind is parameter.VAR_KEYWORD:
                fields |= _shared_arguments(parameter.annotation)
                continue
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (_described(parameter.annotation), default)
        return create_model(self.name, __base__=Arguments, **fields)

    @property
    def result(self) -> type[Result]:
        result: type[Result] = self._signature.return_annotation
        return result

    @cached_property
    def plain_arguments(self) -> JsonObject:
        """`input_schema`, made once."""
        return self.input_schema()

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function, eval_str=True)

    def input_schema(self, *, for_models: bool = False) -> dict[str, Any]:
        """Return the JSON Schema of the arguments, without references and generated titles. With `for_models` it lacks
        the arguments that only programs give (`FOR_PROGRAMS`)."""
        schema = plain_schema(self.arguments.model_json_schema())
        properties: dict[str, Any] = {}
        for name, argument in schema["properties"].items():
            is_for_programs = argument.pop(
                _OF_PROGRAMS, False
            )  # a mark of ours, which no client sees
            if for_models and is_for_programs:
                continue
            properties[name] = argument
        schema["properties"] = properties
        return schema

    def output_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the result, in the same form."""
        schema = plain_schema(self.result.model_json_schema(mode="serialization"))
        schema["properties"] |= {
            "truncated": {"type": "boolean", "description": "Something was left off"}
        }
        if self.paging is not None and "next" not in schema["properties"]:
            going_on = f"Give this as `{self.paging.by}` for what was left off"
            schema["properties"]["next"] = {"type": "integer", "description": going_on}
        return schema


def _shared_arguments(unpacked: Any) -> dict[str, Any]:
    """Return the arguments that several tools share (`**name: Unpack[…]`), by name: None if they are left out."""
    [shared] = get_args(unpacked)
    hints = get_type_hints(shared, include_extras=True)
    return {name: (_described(annotation), None) for name, annotation in hints.items()}


def _described(annotation: Any) -> Any:
    """Return a type with the last of its words as the description of the argument; without words unchanged."""
    metadata = getattr(annotation, "__metadata__", ())
    descriptions = [words for words in metadata if isinstance(words, str)]
    if not descriptions:
        return annotation
    return Annotated[annotation, Field(description=descriptions[-1])]


def tool(*, title: str | Sentence, **row: Any) -> Callable[[Function], Tool]:
    """Make a `Tool`, with these fields, of the function below it."""
    sentence = Sentence(title) if isinstance(title, str) else title
    return partial(Tool, title=sentence, **row)


@frozen
class Answer:
    """The same facts twice: for programs and for people."""

    structured: dict[str, Any]
    text: str


class ToolFailed(MemoryServerError):
    """A call that failed and changed nothing; the message is one sentence for the caller."""


class ArgumentsRefused(ToolFailed):
    """A call whose arguments do not fit its tool."""


async def call(
    tool: Tool, caller: Call, arguments: JsonObject, *, max_bytes: int = MAX_BYTES
) -> Answer:
    """Call `tool` with arguments as they came from a client; a result longer than `max_bytes` of JSON is shortened.
    The call is counted in the meter, and the answer says what of the arguments was not read or was removed. Raise
    ToolFailed if the call failed; then nothing was changed."""
    meter = caller.memories.services.meter
    with meter.call(tool.name), one_call(), counting_secrets() as removed_kinds:
        context = MessageContext(caller.memories.services.zone)
        checked = await _checked(tool, caller, arguments, context)
        result = await _result(tool, caller, checked)
        answer = _answer(tool, checked, result, max_bytes)
        answer = _with_note(tool, answer, _unread_text(context.unknown_fields))
        if tool.only_reads:
            return answer
        return _with_note(tool, answer, removed_text(len(removed_kinds)))


def _unread_text(names: Collection[str]) -> str:
    """Return the sentence about fields of messages that were not read; empty without such fields."""
    if not names:
        return ""
    shown_names = map(shown, sorted(names)[:_MOST_NAMES])
    return _("Fields of messages that were not read: {names}.", ", ".join(shown_names))


def _with_note(tool: Tool, answer: Answer, said: str) -> Answer:
    """Return the answer with `said`, what is said once about the arguments, at the end of its text and in its note,
    if the result of the tool has one."""
    if not said:
        return answer
    structured = answer.structured
    if "note" in tool.result.model_fields:
        note = sentences(structured.get("note"), said)
        structured = {**structured, "note": note}
    return Answer(structured, "\n".join((answer.text, said)))


async def _checked(
    tool: Tool, caller: Call, arguments: JsonObject, context: MessageContext
) -> Arguments:
    """Return the arguments as the tool takes them. A refusal is noted if calls of this tool have a history. Raise
    ArgumentsRefused."""
    try:
        _refuse_excess(tool, arguments)
        meant = dict(arguments)
        # What is destroyed must be meant as it was written.
        if not tool.destructive:
            meant = as_meant(tool.plain_arguments, arguments)
        return tool.arguments.model_validate(meant, context=context)
    except InvalidInput as error:
        await _note_refusal(
            tool, caller, arguments, sentence=Sentence("The arguments are too long.")
        )
        raise ArgumentsRefused(error.sentence) from error
    except ValidationError as error:
        sentence = Sentence("The argument {name} was refused.", _refused(tool, error))
        await _note_refusal(tool, caller, arguments, sentence=sentence)
        raise ArgumentsRefused(complaint(tool, error)) from error


async def _result(tool: Tool, caller: Call, arguments: Arguments) -> Result:
    """Return what the function of the tool returns. Raise ToolFailed if it raised any error; a failure of the storage
    is counted in the meter, and one of the program itself goes into the log with an id."""
    try:
        return await tool.function(caller, **vars(arguments))
    except MemoryServerError as error:
        # Only the kind of an error goes into the log, because its sentence may quote a user.
        log.debug("%s was refused: %s", tool.name, type(error).__name__)
        if isinstance(error, StorageError):
            failure = "failed_reads" if tool.only_reads else "failed_writes"
            caller.memories.services.meter.count("storage", failure)

        raise ToolFailed(_for_callers(caller, error.sentence)) from error
    except Exception as error:
        request = request_id()
        log.exception("%s failed, request %s: %s", tool.name, request, failure_text(error))

        usual_sentence = Sentence(
            "{name} failed inside the server ({name2}); its log on standard error says why, under {request}.",
            tool.name,
            type(error).__name__,
            request,
        )
        raise ToolFailed(failure_sentence(error, usual_sentence)) from error


def _for_callers(caller: Call, sentence: Sentence) -> Sentence | str:
    """Return what a caller may read of the sentence of an error. A sentence that names hidden places, or is too long,
    becomes a text in the language of this context."""
    text = str(sentence)
    shown_text = shown(caller.memories.for_callers(text), MOST_SAID_CHARS)
    if shown_text == text:
        return sentence
    return shown_text


async def _note_refusal(
    tool: Tool, caller: Call, arguments: JsonObject, *, sentence: Sentence
) -> None:
    """Log a refusal, and note it in the history of the tool if it has one."""
    log.debug("%s was refused: %s", tool.name, sentence)
    if tool.note_refusal is not None:
        await tool.note_refusal(caller, tool.name, arguments, sentence.english)


def _refused(tool: Tool, error: ValidationError) -> str:
    """Return the name of the refused argument. An unknown name is not told: it may be anything."""
    problems = error.errors(include_url=False, include_input=False)
    name = problems[0]["loc"][0]
    if name not in tool.arguments.model_fields:
        return "?"
    return str(name)


def _refuse_excess(tool: Tool, arguments: JsonObject) -> None:
    """Raise InvalidInput if the arguments have more than MOST_CHARS, unless the tool takes long
    texts. This comes before anything that may take long."""
    takes_long_texts = not _LONG.isdisjoint(tool.arguments.model_fields)
    if takes_long_texts:
        return
    chars = size(dict(arguments))
    if chars > MOST_CHARS:
        raise InvalidInput(
            "The arguments have {chars:,} characters; {name} takes at most {chars2:,}.",
            chars,
            tool.name,
            MOST_CHARS,
        )


def _answer(tool: Tool, arguments: Arguments, result: Result, max_bytes: int) -> Answer:
    """Return the fields and the text of a result. If the fields have more than `max_bytes`, both
    are shortened, and the text says what is missing."""
    fields = result.fields()
    shown_fields, left_out = truncated(
        fields,
        max_bytes,
        tool.paging,
        offset=getattr(arguments, "offset", None) or 0,
        query_words=result.query_words(),
        whole=result.whole_field,
    )
    if shown_fields is not fields:
        # The text says the same as the fields, so it is made from the shortened fields.
        result = tool.result.model_validate(shown_fields)
    text = str(result)
    if left_out:
        text = "\n".join((text, left_out))
    return Answer(shown_fields, text)


def complaint(tool: Tool, error: ValidationError) -> Sentence:
    """Return the first thing wrong with the arguments, in a sentence that says what to write instead."""
    problems = error.errors(include_url=False)

    # A misspelt name makes another argument missing; report the misspelling.
    misspellings = [problem for problem in problems if problem["type"] == "extra_forbidden"]
    problem = misspellings[0] if misspellings else problems[0]
    path = _argument_path(problem["loc"])

    match problem["type"]:
        case "extra_forbidden" if len(problem["loc"]) == 1:
            return _unknown_argument(tool, path)
        case "extra_forbidden":
            return Sentence(
                "`{place}` is not known; leave it out, or see the tool's schema for the names that are.",
                path,
            )
        case "missing":
            return Sentence("`{place}` is missing; {name} needs it.", path, tool.name)

        case "too_short" | "string_too_short":
            return Sentence("`{place}` is empty; {name} needs a value for it.", path, tool.name)

        case "too_long" | "string_too_long":
            limit = f"{problem['ctx']['max_length']:,}"
            unit = (
                Sentence("characters") if isinstance(problem["input"], str) else Sentence("items")
            )
            return Sentence(
                "`{place}` is too long; shorten it or split it to at most {limit} {unit}.",
                path,
                limit,
                unit,
            )

        case kind if kind.endswith("_type") and kind.removesuffix("_type") in _TYPE_NAMES:
            type_name = Sentence(_TYPE_NAMES[kind.removesuffix("_type")])
            return Sentence(
                "`{place}` must be {wanted}, not {shown}.",
                path,
                type_name,
                _shown(problem["input"]),
            )

        case "literal_error":
            return Sentence(
                "`{place}` must be {wanted}, not {shown}.",
                path,
                problem["ctx"]["expected"],
                _shown(problem["input"]),
            )

        case "value_error":
            reason = shown(str(problem["ctx"]["error"]), MOST_SAID_CHARS)
            return Sentence("`{place}` cannot be used: {reason}.", path, reason)

        case _:
            # All other messages of pydantic begin with the same word.
            reason = problem["msg"].removeprefix("Input ")
            return Sentence(
                "`{place}` {reason}, not {shown}.",
                path,
                reason[0].lower() + reason[1:],
                _shown(problem["input"]),
            )


def _unknown_argument(tool: Tool, argument: str) -> Sentence:
    """Return the sentence about an argument that the tool does not have, with the name that was probably meant."""
    names = list(tool.arguments.model_fields)
    close = difflib.get_close_matches(argument, names, n=1)
    hint = Sentence("; did you mean `{close}`?", close[0]) if close else Sentence(";")
    taken = ", ".join(names) if names else Sentence("no arguments")
    return Sentence(
        "{name} has no argument `{place}`{hint} it takes {taken}.", tool.name, argument, hint, taken
    )


def _argument_path(location: tuple[int | str, ...]) -> str:
    """Return a place in the arguments, such as `messages[0].content`."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}"
    return shown(path.removeprefix("."))


def _shown(value: Any) -> str:
    # As the caller wrote it: in JSON.
    return shown(json.dumps(value, ensure_ascii=False, default=repr), _SHOWN_CHARS)


def plain_schema(schema: JsonObject) -> dict[str, Any]:
    """Return a JSON Schema in its shortest form: without references, generated titles, "or null" (an argument can be
    left out), and the docstring of its class. Every model pays for a schema in every conversation."""
    without = {key: value for key, value in schema.items() if key not in ("description", "$defs")}
    plain: dict[str, Any] = _plain(without, schema.get("$defs", {}))
    return plain


def _plain(node: Any, definitions: JsonObject) -> Any:
    """Return a schema with its definitions in place of references, and without titles, `null` as an
    option, and defaults that are null or an empty list."""
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node

    options = [option for option in node.get("anyOf", ()) if option != _NULL]
    # An argument that may be null may also be left out, so the schema need not say it.
    if len(options) == 1:
        return _plain(options[0] | _without(node, "anyOf"), definitions)

    if "$ref" in node:
        definition = definitions[node["$ref"].rsplit("/", 1)[1]]
        return _plain(definition | _without(node, "$ref"), definitions)

    plain: dict[str, Any] = {}
    for key, value in node.items():
        if key == "title" or (key == "default" and value in (None, [])):
            continue
        if key == "properties":
            # The keys of `properties` are names, and one may be called "title" or "default".
            plain[key] = {name: _plain(member, definitions) for name, member in value.items()}
        else:
            plain[key] = _plain(value, definitions)

    return plain


def _without(node: JsonObject, dropped_key: str) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != dropped_key}
