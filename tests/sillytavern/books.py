"""Lorebooks with chats, as the tests give them to SillyTavern and to this program, and what each of both brings.

A job is a chat, its books, and the numbers of messages at which both scan. `Job.json` is what `scan.mjs` reads.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clients.node_clients import installed, node
from hosts_of_lore import parsed_flags

from memory_server import Message, Settings, open_memory
from memory_server.app import App
from memory_server.cli import incoming_lore
from memory_server.cli.lore_import import store_book
from memory_server.conversations.model import DEFAULT_CONVERSATION
from memory_server.interchange.sillytavern_parts import Owner, ProfileSettings
from memory_server.kernel.recalled_block import FRAME_CHARS
from memory_server.kernel.sessions import Session
from memory_server.memories.turns import turn_prompt
