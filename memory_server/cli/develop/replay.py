"""`replay`: store a chat through the official client, then ask about it."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memory_server.cli.develop.chat_files import read_exchanges, shifted
from memory_server.cli.develop.client import companion
from memory_server.cli.develop.recall_report import print_question, print_recall
from memory_server.cli.terminal import console
from memory_server.config import Settings, default_data_dir
from memory_server.core.errors import InvalidInput
from memory_server.storage.json_store import codec
from memory_server.tools.base.shapes import counted


async def replay(settings: Settings, flags: Namespace) -> int:
    """Store every exchange of the file as a memory, and print what each question recalls."""
    exchanges = read_exchanges(Path(flags.chat), settings.conversation)
    triggers = read_triggers(Path(flags.triggers)) if flags.triggers else []
    start_ms = settings.now_ms or time.time_ns() // 1_000_000
    if flags.shift_to_now:
        exchanges = shifted(exchanges, start_ms)
    out = console()
    conversation_id = exchanges[-1].conversation_id
    async with companion(settings) as server:
        for trigger in triggers:
            await server.call("add_long_term_memory", {"conversation_id": conversation_id} | trigger)
        await server.remember(exchanges)
        folder = settings.data_dir or default_data_dir()
        out.print(f"Stored {counted(len(exchanges), 'exchange')} and {counted(len(triggers), 'trigger')} in {folder}.")
        for text in flags.ask:
            question = [{"role": "user", "content": text}]
            print_question(out, conversation_id, question)
            print_recall(out, *await server.ask(conversation_id, question), settings.zone)
    return 0


def read_triggers(path: Path) -> Sequence[dict[str, Any]]:
    """The long-term memories of a JSON file: an array of the arguments of `add_long_term_memory`.

    Raises:
        InvalidInput: the file cannot be read or is no such array.
    """
    try:
        return codec.load_array(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InvalidInput(f"{path} cannot be used: {error}; give an array of name, prompt and trigger.") from error
