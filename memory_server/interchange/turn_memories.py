"""Turns of transcripts as short-term memories: of Claude Code, Codex and Gemini CLI. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import field, replace
from pathlib import PurePosixPath

from languages import _
from memory_server.conversations.contents import Contents
from memory_server.conversations.earlier_turns import TakenBackTurn, turn_said
from memory_server.conversations.model import EVERYWHERE, ShortTermMemory
from memory_server.interchange import spoken_places as places
from memory_server.interchange.chats import memory_of
from memory_server.interchange.incoming import Incoming, NotThisFormat
from memory_server.interchange.transcript_turns import TranscriptTurn, by_program
from memory_server.kernel.messages import storable
from memory_server.kernel.private import to_keep
from memory_server.kernel.values import dataclass

_SHOWN_CHARS = 40
"""Characters of a message by which the report names its turn."""


@dataclass(slots=True)
class TurnMemories:
    """The memories of turns, for the conversation `conversation_id`, each once. `incoming`: where what is left out is
    counted. `folder_of` names a working folder. `programs` are as `named` of `program_of`.
    `working_folders`: where the first turns of transcripts were said, by the folder of the transcripts."""

    incoming: Incoming
    conversation_id: str
    folder_of: Callable[[str], str | None]
    programs: Collection[str] = ()
    working_folders: dict[str, set[str]] = field(default_factory=dict)
    _memories: dict[str, ShortTermMemory] = field(default_factory=dict)
    _folders: dict[str, str | None] = field(default_factory=dict)
    _said: Counter[str] = field(default_factory=Counter)
    """How often each text was said in one file at most."""
    _taken_back: set[TakenBackTurn] = field(default_factory=set)

    def add(self, path: str, turns: Iterable[TranscriptTurn]) -> None:
        """Add the turns of the transcript at `path` in which the user said something; of others the
        answers are counted as lost. A turn with wrong values is skipped."""
        is_first = True
        said_here: Counter[str] = Counter()
        with self.incoming.record(path):
            all_turns = list(turns)
            prompts = sum(turn.has_words for turn in all_turns)
            for turn in all_turns:
                if not turn.has_words:
                    self.incoming.lost[places.WITHOUT_THE_USER] += (
                        len(turn.answers) + turn.replaced_answers
                    )
                    continue
                cwd = turn.first.get("cwd")
                # Only the first turn tells where the client was started: the user may change the folder later.
                if is_first and isinstance(cwd, str) and cwd:
                    self.working_folders.setdefault(str(PurePosixPath(path).parent), set()).add(cwd)
                is_first = False
                with self.incoming.record(_("a turn of {path}", path)):
                    self._take(turn, self._folder(cwd), prompts, said_here)

        for text, times in said_here.items():
            self._said[text] = max(self._said[text], times)

    def _take(
        self, turn: TranscriptTurn, folder: str | None, prompts: int, said_here: Counter[str]
    ) -> None:
        """Add the memory of a turn in which the user said something, unless an earlier file has said its text as
        often without a time. `prompts`: the number of prompts in its session. `said_here`: how often its file has
        said each text."""
        self.incoming.lost[places.BEFORE_THE_LAST] += turn.replaced_answers
        self.incoming.lost[places.FORGOTTEN] += turn.times_forgotten
        memory = self._memory(turn, folder, prompts)
        if memory is None:
            return
        said_here[memory.text] += 1
        if not memory.time_ms and said_here[memory.text] <= self._said[memory.text]:
            return  # what has no time and an earlier file has is of a copy, such as a checkpoint
        self._memories[memory.id] = memory

    def take_back(self, turns: Iterable[TranscriptTurn]) -> None:
        """Leave out turns that their user took back, and remember them: an earlier import may have brought them."""
        for turn in turns:
            if turn.has_words:
                self.incoming.lost[places.TAKEN_BACK] += 1
                self._taken_back.update(turn.taken_back(turn.session))

    def finished(self, refusal: str) -> Incoming:
        """Return what came, with the turns. Raises NotThisFormat with this sentence if nothing did."""
        incoming = self.incoming
        incoming.conversations = self.contents()
        if not incoming.count and not incoming.skipped and not incoming.lost[places.TAKEN_BACK]:
            raise NotThisFormat(refusal)
        return incoming

    def contents(self) -> list[Contents]:
        if not self._memories and not self._taken_back:
            return []
        memories = tuple(self._memories.values())
        stored_turns = {turn_said(memory.session or "", memory.messages) for memory in memories}
        taken_back = frozenset(self._taken_back - stored_turns)
        return [Contents(self.conversation_id, memories, taken_back=taken_back)]

    def _folder(self, cwd: object) -> str | None:
        if not isinstance(cwd, str) or not cwd:
            return None
        if cwd not in self._folders:
            self._folders[cwd] = self.folder_of(cwd)
        return self._folders[cwd]

    def _memory(
        self, turn: TranscriptTurn, folder: str | None, prompts: int
    ) -> ShortTermMemory | None:
        """Return the memory of a turn: what the user said, and what the model wrote last, as the hook keeps a turn.
        What it leaves out is counted. `prompts`: how many its session has. What a program said is muted. Return None
        if the user had it forgotten, all of it is private, or it is too large."""
        lost = self.incoming.lost
        if turn.forgot:
            lost[places.FORGOTTEN] += 1
            return None

        answer = None
        if turn.answers:
            *earlier_answers, answer = turn.answers
            lost[places.BEFORE_THE_LAST] += len(earlier_answers)

        public_messages = to_keep(turn.messages(answer))
        if not any(message.content.strip() for message in public_messages):
            lost[places.PRIVATE] += 1
            return None

        lost[places.SHORTENED] += turn.count_of_shortened(answer)
        messages = tuple(map(storable, public_messages))
        # It is the same each time for a turn with these messages.
        identity = [turn.id_in(turn.session)]
        for message in messages:
            identity += [message.role, message.content]
        program = places.program_of(turn.first, prompts, self.programs)
        memory = memory_of(
            self.conversation_id,
            by_program(messages, program),
            "\0".join(identity),
            session=turn.session or None,
            folder=folder,
            muted=(EVERYWHERE,) if program else (),
        )
        memory = replace(memory, work=turn.work_in(folder or turn.first.get("cwd")))
        # The client wrote no time for its messages.
        if not memory.time_ms:
            memory = replace(memory, time_ms=turn.prompted_ms or 0)

        name_in_report = _(
            "the turn that begins with `{content}`", messages[0].content[:_SHOWN_CHARS]
        )
        if not self.incoming.fits(name_in_report, memory):
            return None

        return memory
