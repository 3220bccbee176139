"""Lorebooks with a chat, as the tests give them to SillyTavern and to this program, and what each of both brings.

`scan.mjs` reads the same jobs as JSON. An entry is named `BOOK/UID`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import pytest
from clients.node_clients import node

from memory_server import Message
from memory_server.cli.parser import parser
from memory_server.conversations.recall.request import RecallRequest
from memory_server.interchange import lorebooks
from memory_server.interchange.lore_memories import BookSource
from memory_server.interchange.sillytavern_folder import Profile
from memory_server.interchange.sillytavern_parts import Owner, settings_in
from memory_server.kernel.messages import Session
from memory_server.kernel.recalled_block import FRAME_CHARS
from memory_server.memories.turns import prompt_room, turn_prompt
from memory_server.operations.lore_import import _defaults_of, _memories_of, store_book
from memory_server.runtime.app import App

USER = "Ann"
CHARACTER = "Robin"
ROOM = 50_000
"""Characters of a prompt that no book of the tests fills, unless its job says so."""
SCAN = Path(__file__).with_name("scan.mjs")
JUDGE = (
    Path(__file__).parent / "node_modules" / "sillytavern" / "public" / "scripts" / "world-info.js"
)

RECORDED = Path(__file__).with_name("recorded_answers.jsonl")
"""What SillyTavern brings for our jobs, so that they are compared where it is not installed."""
HOW_TO_RECORD = "run `make judge`, and these tests with UPDATE_GOLDEN=1"


@dataclass(frozen=True)
class LoreBook:
    """A book as a file has it. `owner`: for whom it is on; `is_card`: it has the form of a book in a card."""

    data: Mapping[str, Any]
    name: str = "Book"
    owner: Owner = "character"
    is_card: bool = False


@dataclass(frozen=True)
class Job:
    """A chat and its books. `chat`: name and text of each message, oldest first. `scans`: the numbers of messages at
    which both scan, in this order. `settings`: of world info, where they are not as SillyTavern ships them. `room`:
    characters of a prompt."""

    name: str
    books: Sequence[LoreBook]
    chat: Sequence[tuple[str, str]]
    scans: Sequence[int]
    settings: Mapping[str, Any] = field(default_factory=dict)
    room: int = ROOM

    def json(self) -> dict[str, Any]:
        """The job for `scan.mjs`. What overflows there fills more than the room here."""
        budgets: dict[int, int] = {}
        heads: dict[str, int] = {}
        if self.room != ROOM:
            budgets = dict.fromkeys(self.scans, self.room - FRAME_CHARS + 1)
            for book in self.books:
                for entry in book.data["entries"].values():
                    heads[str(entry["content"])] = len(f"[{entry['comment']}] ")
        return {
            "user": USER,
            "character": CHARACTER,
            "books": [
                {"name": book.name, "data": book.data, "owner": book.owner, "isCard": book.is_card}
                for book in self.books
            ],
            "chat": [{"name": name, "text": text} for name, text in self.chat],
            "scans": list(self.scans),
            "settings": dict(self.settings),
            "budgets": budgets,
            "heads": heads,
        }


@dataclass(frozen=True)
class Scan:
    """What one scan brings, and the order in which it stands in the text."""

    came: frozenset[str]
    text: tuple[str, ...]


def judged(jobs: Sequence[Job]) -> list[list[Scan]]:
    """What SillyTavern brings in each scan of each job; skips the test where it is not installed."""
    if not JUDGE.is_file():
        pytest.skip("needs SillyTavern: `make judge` installs it")
    completed = subprocess.run(
        [node(), str(SCAN), str(JUDGE)],
        input=json.dumps([job.json() for job in jobs]),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    return [
        [Scan(frozenset(scan["came"]), tuple(scan["text"])) for scan in scans]
        for scans in json.loads(completed.stdout)
    ]


def record(jobs: Sequence[Job], answers: Sequence[Sequence[Scan]]) -> str:
    """Return what SillyTavern brings for these jobs as text, a line for each job. A scan is the entries in the order of
    the text, and those that came and have none."""
    lines: list[str] = []
    for job, scans in zip(jobs, answers, strict=True):
        shown = [[list(scan.text), sorted(scan.came.difference(scan.text))] for scan in scans]
        lines.append(json.dumps([job.name, _digest(job), shown], ensure_ascii=False) + "\n")
    return "".join(lines)


def recorded(jobs: Sequence[Job]) -> list[list[Scan]]:
    """What SillyTavern brought in each scan of each job when the answers were written down."""
    lines = map(json.loads, RECORDED.read_text("utf-8").splitlines())
    answers = {(name, digest): scans for name, digest, scans in lines}
    found: list[list[Scan]] = []
    for job in jobs:
        scans = answers.get((job.name, _digest(job)))
        assert scans is not None, f"{job.name!r} has another answer now: {HOW_TO_RECORD}"
        found.append([Scan(frozenset(text + others), tuple(text)) for text, others in scans])
    return found


def _digest(job: Job) -> str:
    """What tells a job from its former form."""
    text = json.dumps(job.json(), sort_keys=True, ensure_ascii=False)
    return sha256(text.encode()).hexdigest()[:12]


async def brought(app: App, job: Job) -> list[Scan]:
    """What this program brings in each scan, after the books were imported. The jobs share the home, so a book for all
    chats is in a conversation of its own, which is searched too."""
    names: dict[tuple[str, str], str] = {}
    for book in job.books:
        conversation_id = f"{job.name} all" if book.owner == "all" else job.name
        await _import(app, job, book, conversation_id)
        names |= await _names(app, conversation_id)
    others = sorted({conversation_id for conversation_id, _ in names} - {job.name})
    call = replace(app.call, session=Session(job.name))
    scans: list[Scan] = []
    for count in job.scans:
        request = RecallRequest(
            _messages(job.chat[:count]),
            participants={"user": USER, "char": CHARACTER},
            also=others,
            session=call.session,
            flashbacks=0,
            said_again=False,
            message_count=count,
            by="recall_turn",
        )
        prompt = await turn_prompt(call, app.conversation(job.name), request, prompt_room(job.room))
        assert prompt.recollection.trouble is None, (job.name, prompt.recollection.trouble)
        entries = [text.entry for text in prompt.block.fitting.texts]
        texts = tuple(names[entry.conversation_id, entry.name] for entry in entries)
        scans.append(Scan(frozenset(texts), texts))
    return scans


def _messages(chat: Sequence[tuple[str, str]]) -> list[Message]:
    messages: list[Message] = []
    for name, text in chat:
        role = "user" if name == USER else "assistant"
        messages.append(Message(role, text, name=name))
    return messages


async def _import(app: App, job: Job, book: LoreBook, conversation_id: str) -> None:
    """Import a book as the books of a folder of SillyTavern are, whose settings are those of the job."""
    settings = settings_in(json.dumps({"world_info_settings": dict(job.settings)}).encode())
    profile = Profile(settings=settings.profile, user=USER)
    defaults = _defaults_of(profile, CHARACTER, parser().parse_args(["import", "."]))
    data: Any = book.data
    if book.is_card:
        data = {"spec": "chara_card_v2", "data": {"name": CHARACTER, "character_book": data}}
    source = BookSource(
        f"{book.name}.json",
        conversation_id,
        defaults,
        name=book.name,
        precedence=profile.settings.precedence_of(book.owner),
    )
    incoming = await _memories_of(app, lorebooks.book_of(data), source, until=inf)
    for each in incoming.books:
        await store_book(app, each, dry_run=False)


async def _names(app: App, conversation_id: str) -> dict[tuple[str, str], str]:
    """How the tests call each memory, by its conversation and its name."""
    state = await app.store.read(conversation_id)
    names: dict[tuple[str, str], str] = {}
    for memory in state.long_term.values():
        assert memory.book is not None
        names[conversation_id, memory.name] = f"{memory.book.book_name}/{memory.book.uid}"
    return names
