"""Tools from a shell: `call` with JSON, and a command for each tool, whose flags are made from the tool's schema.

Every tool has a command such as `memory-server pin-memory --id 3f2a`, so a new tool has its command at once. The flags
of `search` and `explain` are made in the same way (commands.py). `-c` names the conversation, as everywhere.
"""

from __future__ import annotations

import json
import re
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape

from memory_server.app import App
from memory_server.cli.commands import Short
from memory_server.cli.terminal import console, reading, write
from memory_server.core.errors import InvalidInput
from memory_server.storage.json_store import codec
from memory_server.tools import TOOLS
from memory_server.tools.base.result import SHOWN_ZONE
from memory_server.tools.base.tool import Answer, ToolFailed
from memory_server.tools.base.tool import call as call_tool
from sandbox.language import complaint, translated

_OF_TOOL = "argument "
"""The prefix of a tool's arguments, so that they differ from the settings of every command."""
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def add_flags(parser: ArgumentParser, short: Short) -> None:
    """Give `parser` an argument for each property of the tool's schema."""
    schema = TOOLS[short.tool].input_schema()
    for name, of in schema["properties"].items():
        if name in (short.or_words, "conversation_id"):
            continue
        needed = name in schema.get("required", ()) or (name == short.operand and short.or_words is not None)
        flag, options = _flag(_typed_name(name, short), of)
        if name == short.operand:
            many = options.pop("action", None) == "append"
            options["nargs"] = "*" if many else None if needed else "?"
            parser.add_argument(_OF_TOOL + name, default=SUPPRESS, **options | {"metavar": short.metavar})
        else:
            parser.add_argument(f"--{flag}", dest=_OF_TOOL + name, default=SUPPRESS, required=needed, **options)
    parser.set_defaults(short=short)


def _typed_name(name: str, short: Short) -> str:
    return short.flags.get(name, _CAPITAL.sub("-", name).lower().replace("_", "-"))


def _flag(name: str, of: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The flag of a property with this schema, and its options for argparse."""
    about = of.get("description", "").replace("%", "%%")
    match of:
        case {"type": "boolean", "default": True}:
            return f"no-{name}", {"action": "store_false", "help": about}
        case {"type": "boolean"}:
            return name, {"action": "store_true", "help": about}
        case {"enum": ["asc", "desc"]}:
            return "reverse", {"action": "store_const", "const": "asc", "help": "least, oldest or lowest first"}
        case {"enum": choices}:
            return name, {"choices": choices, "help": about}
        case {"type": "integer" | "number" as number}:
            return name, {"type": int if number == "integer" else float, "metavar": "N", "help": about}
        case {"type": "array", "items": {"properties": {"role": _, "content": _}}}:
            repeated = {"action": "append", "type": _said_by_user, "metavar": "TEXT"}
            return name, repeated | {"help": "a message of the user (may be repeated)"}
        case {"type": "array", "items": {"type": "string"}}:
            return name, {"action": "append", "metavar": name.upper(), "help": f"{about} (may be repeated)".lstrip()}
        case {"type": "string"}:
            return name, {"metavar": name.upper(), "help": about}
    return name, {"type": json.loads, "metavar": "JSON", "help": about}


def _said_by_user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def arguments_of(flags: Namespace) -> dict[str, Any]:
    """The arguments that the flags of a typed command give to its tool, without the conversation."""
    return {name.removeprefix(_OF_TOOL): x for name, x in vars(flags).items() if name.startswith(_OF_TOOL)}


async def typed(app: App, flags: Namespace) -> None:
    """Call the tool of a typed command and print its text."""
    given, tool = arguments_of(flags), TOOLS[flags.short.tool]
    if not (tool.only_reads or given.get("dry_run")):
        app.settings.refuse_change(tool.name)
    console().print(escape((await called(app, tool.name, given, flags.short)).text))


async def call(app: App, flags: Namespace) -> None:
    """Print the result of one tool call: its JSON, or with --text the block for people."""
    tool = TOOLS.get(flags.tool)
    if tool is None:
        raise InvalidInput(f"There is no tool `{flags.tool}`; use one of {', '.join(TOOLS)}.")
    if not tool.only_reads:
        app.settings.refuse_change(tool.name)
    answer = await called(app, tool.name, _arguments(flags.arguments))
    write(translated(answer.text) if flags.text else answer.structured)


async def called(app: App, tool: str, arguments: Mapping[str, Any], short: Short | None = None) -> Answer:
    """The answer of the tool with this name; its text has local times. Raises ToolFailed if the call failed; nothing
    was changed. The message names commands and, with `short`, flags in place of tools and their arguments."""
    SHOWN_ZONE.set(app.settings.zone)
    try:
        return await call_tool(TOOLS[tool], app.context, arguments, max_bytes=app.settings.results.max_bytes)
    except ToolFailed as error:
        message = complaint(str(error)).replace("get_history", "`memory-server history`")
        if short is not None:
            for name in TOOLS[tool].input_schema()["properties"]:
                flag = "-c" if name == "conversation_id" else f"--{_typed_name(name, short)}"
                message = message.replace(f"`{name}`", f"`{short.metavar if name == short.operand else flag}`")
        raise ToolFailed(message) from error


def _arguments(source: str) -> dict[str, object]:
    if source == "-":
        text, origin = sys.stdin.buffer.read(), "standard input"
    elif source.startswith("@"):
        origin = source[1:]
        with reading(origin):
            text = Path(origin).read_bytes()
    else:
        text, origin = source.encode("utf-8", "surrogateescape"), "the argument"
    try:
        value = codec.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{origin} is not JSON ({error}); write an object such as '{{}}'.") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{origin} is not a JSON object; write the arguments by name, such as '{{}}'.")
    return value
