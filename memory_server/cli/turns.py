"""`recall` and `remember`: for a companion that runs a command before each answer and one after it."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from memory_server.app import App, Shared
from memory_server.cli.terminal import complain, say_if_waiting, standard_input, write
from memory_server.cli.typed_tools import called
from memory_server.config import Settings
from memory_server.core.errors import InvalidInput
from memory_server.core.model import MAX_ID_CHARS, Session
from memory_server.storage.json_store import codec
from memory_server.tools.turn import recall_turn, remember_turn
from sandbox.language import translated


async def recall(settings: Settings, flags: Namespace, shared: Shared | None = None) -> None:
    """Print what comes to mind, ready for a prompt, or nothing."""
    arguments = _arguments(flags.words) | ({} if flags.chars is None else {"maxChars": flags.chars})
    settings = settings.with_flashbacks(flags.flashbacks)
    async with App(settings, brief=True, session=_session(flags.session), shared=shared) as app:
        answer = await called(app, recall_turn.name, arguments)
    if shown := answer.structured if flags.json else answer.structured["prompt"]:
        write(shown)
    if note := answer.structured.get("note"):
        complain(note)


async def remember(settings: Settings, flags: Namespace, shared: Shared | None = None) -> None:
    """Remember what was said, and print the result."""
    arguments = _arguments(flags.words) | ({} if flags.turn is None else {"turn_id": flags.turn})
    async with App(settings, session=_session(flags.session), shared=shared) as app:
        answer = await called(app, remember_turn.name, arguments)
    write(answer.structured if flags.json else translated(answer.text))


def _session(given: str | None) -> Session | None:
    if given is None:
        return None
    if not 0 < len(given) <= MAX_ID_CHARS:
        raise InvalidInput(
            f"--session takes an id of 1 to {MAX_ID_CHARS} characters; leave it out if there is no session."
        )
    return Session(given)


def _arguments(words: str | None) -> dict[str, Any]:
    """The arguments of the tool: a user's `words` as they are, or else JSON from standard input: a list of messages, or
    an object with the arguments. `words` are never read as JSON: a chat may begin with a bracket."""
    if words is not None:
        return {"messages": [{"role": "user", "content": words}]}
    say_if_waiting("messages as JSON")
    try:
        value = codec.loads(standard_input().removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise InvalidInput(
            f"Standard input is not JSON ({error}); write a list of messages such as "
            '[{"role": "user", "content": "你好"}], or give a user\'s words as an argument.'
        ) from error
    if not isinstance(value, (list, dict)):
        raise InvalidInput(
            "Standard input is neither a list of messages nor an object; see docs/how-to/memory-unasked.md."
        )
    return {"messages": value} if isinstance(value, list) else value
