"""Turns of transcripts as short-term memories: of Claude Code, Codex and Gemini CLI. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from memory_server.conversations.contents import Contents
from memory_server.conversations.model import ShortTermMemory
from memory_server.interchange import spoken_places as places
from memory_server.interchange.chats import memory_of
from memory_server.interchange.incoming import Incoming
from memory_server.interchange.transcript_turns import TranscriptTurn
from memory_server.kernel.messages import storable
from memory_server.kernel.private import to_keep
from sandbox.locale import _


@dataclass(slots=True)
class TurnMemories:
    """The memories of turns, for the conversation `usual`, each once. `folder_of`: what a working folder is called.
    `working_folders`: by the folder of transcripts, where their first turns were said."""

    found: Incoming
    usual: str
    folder_of: Callable[[str], str | None]
    working_folders: dict[str, set[str]] = field(default_factory=dict)
    _memories: dict[str, ShortTermMemory] = field(default_factory=dict)
    _folders: dict[str, str | None] = field(default_factory=dict)

    def add(self, path: str, turns: Iterable[TranscriptTurn]) -> None:
        """Add the turns of the transcript at `path` in which the user said something."""
        is_first = True
        for turn in turns:
            if not turn.has_words:
                self.found.lost[places.WITHOUT_THE_USER] += len(turn.answers) + turn.replaced_answers
                continue
            self.found.lost[places.BEFORE_THE_LAST] += turn.replaced_answers
            self.found.lost[places.FORGOTTEN] += turn.times_forgotten
            cwd = turn.first.get("cwd")
            if is_first and isinstance(cwd, str) and cwd:
                self.working_folders.setdefault(str(PurePosixPath(path).parent), set()).add(cwd)
            is_first = False
            memory = self._memory(turn, self._folder(cwd))
            if memory is not None:
                self._memories[memory.id] = memory

    def contents(self) -> list[Contents]:
        return [Contents(self.usual, tuple(self._memories.values()))] if self._memories else []

    def _folder(self, cwd: object) -> str | None:
        if not isinstance(cwd, str) or not cwd:
            return None
        if cwd not in self._folders:
            self._folders[cwd] = self.folder_of(cwd)
        return self._folders[cwd]

    def _memory(self, turn: TranscriptTurn, folder: str | None) -> ShortTermMemory | None:
        if turn.forgot:
            self.found.lost[places.FORGOTTEN] += 1
            return None
        self.found.lost[places.BEFORE_THE_LAST] += len(turn.answers[:-1])
        # As the hook: what the user said, and what the model wrote last.
        answer = turn.answers[-1] if turn.answers else None
        kept = to_keep(turn.messages(answer))
        if not any(message.content.strip() for message in kept):
            self.found.lost[places.PRIVATE] += 1
            return None
        messages = tuple(map(storable, kept))
        self.found.lost[places.SHORTENED] += turn.count_of_shortened(answer)
        session = str(turn.first.get("sessionId") or "")
        spoken = (part for message in messages for part in (message.role, message.content))
        known_by = "\0".join((turn.id_in(session), *spoken))
        memory = memory_of(self.usual, messages, known_by, session=session or None, folder=folder)
        memory = replace(memory, time_ms=memory.time_ms or turn.prompted_ms or 0)
        beginning = messages[0].content[:40]
        fits = self.found.fits(_("the turn that begins with `{content}`", beginning), memory)
        return memory if fits else None
