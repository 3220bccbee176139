"""The memories of a pack along a chat: which come at each message, by their rules and the state of the chat, as in the
server after a recall for each message."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from sandbox.firing.chat_state import Came, ChatState, Firing, advanced, last_fired
from sandbox.firing.participants import characters_of
from sandbox.firing.recursion import Recursion, with_text_of_book
from sandbox.firing.room import Fitting, LoreText, Room, fitting, head_of
from sandbox.firing.rounds import ChatMoment, FiringRounds, HeldBackReason, message_seed
from sandbox.firing.rule_index import RuleIndex, index_of_rules, key_of
from sandbox.firing.rules import PLAIN
from sandbox.host.search import Scene
from sandbox.host.supervisor import TriggerSandbox
from sandbox.verdicts import Fired, Quiet, Verdict
from sandbox.workbench.pack_rules import PackEntry

MOST_AT_ONCE = 4
"""Searches in flight: as many as a sandbox has workers."""
USUAL_CHARS = 7_200
"""Characters of a prompt where nobody says another number, as in the server (memory_server/memories/turns.py)."""
FRAME_CHARS = 124
"""Characters of them that the frame of the block takes (memory_server/kernel/recalled_block.py)."""

_IDEOGRAPH = re.compile("[\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Step:
    """A search: what triggers get, and the number of messages of the chat then."""

    scene: Scene
    messages: int


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What beside the chat decides what comes. `max_chars`: of the prompt. `state`: of the chat before the first
    search. `conversation_id`: the conversation of the chat."""

    max_chars: int = USUAL_CHARS
    state: ChatState = field(default_factory=ChatState)
    conversation_id: str = "default"

    @property
    def room(self) -> Room:
        return Room.of(max(0, self.max_chars - FRAME_CHARS))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one search gave. `verdicts`: of the triggers. `activated`: the numbers of the memories that come as far as
    there is room, in the order in which they take it; `staying` are those that came before and are sticky. `held_back`:
    what fired and does not come. `fitting`: what stands in the prompt."""

    verdicts: Sequence[Verdict]
    activated: Sequence[int]
    staying: Collection[int]
    held_back: Mapping[int, HeldBackReason]
    fitting: Fitting[PackEntry]

    @property
    def without_room(self) -> Mapping[int, str]:
        """The numbers of those of the activated that are not in the prompt, each with the reason."""
        return {text.entry.number: text.reason for text in self.fitting.left_out}


def _ignore_progress(_finished: int) -> None:
    pass


async def outcomes_along(
    sandbox: TriggerSandbox,
    entries: Sequence[PackEntry],
    steps: Sequence[Step],
    circumstances: Circumstances,
    progress: Callable[[int], None] = _ignore_progress,
) -> list[Outcome]:
    """What each search gives, with the state that those before it left. Calls `progress` with the number of finished
    ones. Raises SandboxError."""
    walk = _Walk(sandbox, entries, circumstances)
    if any(entry.asks_when for entry in entries):
        return [await walk.outcome(step, None, progress) for step in steps]
    sources = [entry.trigger for entry in entries]
    rows = await verdicts_along(sandbox, sources, [step.scene for step in steps], progress)
    return [await walk.outcome(step, verdicts) for step, verdicts in zip(steps, rows, strict=True)]


async def verdicts_along(
    sandbox: TriggerSandbox,
    sources: Sequence[str],
    scenes: Sequence[Scene],
    progress: Callable[[int], None] = _ignore_progress,
) -> list[tuple[Verdict, ...]]:
    """The verdicts of a search for each scene. Calls `progress` with the number of finished ones. Raises
    SandboxError."""
    free_workers = asyncio.Semaphore(MOST_AT_ONCE)
    finished = count(1)

    async def search(scene: Scene) -> tuple[Verdict, ...]:
        async with free_workers:
            verdicts = await sandbox.evaluate(
                sources, scene.context, now=scene.now, seed=scene.seed
            )
        progress(next(finished))
        return verdicts

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(search(scene)) for scene in scenes]
    return [task.result() for task in tasks]


class _Walk:
    """The searches along one chat, and its state between them."""

    def __init__(
        self, sandbox: TriggerSandbox, entries: Sequence[PackEntry], circumstances: Circumstances
    ) -> None:
        self._sandbox = sandbox
        self._entries = entries
        self._triggers = [entry.trigger for entry in entries]
        self._rules = _rules_of(entries)
        self._circumstances = circumstances
        self._state = circumstances.state
        self._finished = count(1)

    async def outcome(
        self,
        step: Step,
        verdicts: Sequence[Verdict] | None,
        progress: Callable[[int], None] = _ignore_progress,
    ) -> Outcome:
        """What this search gives; the state of the chat goes on. `verdicts`: of its triggers; None: they run now."""
        if verdicts is None:
            verdicts = await self.verdicts(step)
            progress(next(self._finished))
        rounds = FiringRounds(self._entries, self._rules, self._moment(step))
        recursion = Recursion(rounds, self._entries, _StepEvaluator(self, step))
        await recursion.run(_fired(verdicts))
        texts = [_lore_text(self._entries[number]) for number in rounds.activated]
        fitted = fitting(texts, self._circumstances.room, _cut)
        self._advance(step, fitted)
        return Outcome(
            verdicts=verdicts,
            activated=rounds.activated,
            staying=rounds.sticky,
            held_back=rounds.held_back(),
            fitting=fitted,
        )

    async def verdicts(
        self, step: Step, numbers: Sequence[int] | None = None, text_of_book: str = ""
    ) -> tuple[Verdict, ...]:
        """The verdicts of the memories with these numbers, None: of all, each with what `context.last_fired` is for it.
        `text_of_book`: a text that is searched with the last message."""
        if numbers is None:
            numbers = range(len(self._entries))
        triggers = [self._triggers[number] for number in numbers]
        firings = self._last_firings(step)
        asking = {
            position: firings[number]
            for position, number in enumerate(numbers)
            if number in firings
        }
        return await self.evaluated(step, triggers, text_of_book, asking)

    async def evaluated(
        self,
        step: Step,
        triggers: Sequence[str],
        text_of_book: str = "",
        asking: Mapping[int, Mapping[str, int]] | None = None,
    ) -> tuple[Verdict, ...]:
        """The verdicts of triggers at a step. `asking`: what `context.last_fired` is for them, by their position."""
        scene = step.scene
        context = _with_text(scene, text_of_book) if text_of_book else scene.context
        ran = await self._sandbox.judge(
            triggers, context, now=scene.now, seed=scene.seed, last_fired=asking
        )
        return tuple(ran.get(position, Quiet(0)) for position in range(len(triggers)))

    def _last_firings(self, step: Step) -> dict[int, Mapping[str, int]]:
        """When each memory last came before this step, by its number."""
        firings: dict[int, Mapping[str, int]] = {}
        for entry in self._entries:
            firing = last_fired(self._firing(entry), step.messages, _ms(step.scene))
            if firing is not None:
                firings[entry.number] = firing
        return firings

    def _moment(self, step: Step) -> ChatMoment:
        scene = step.scene
        conversation_id = self._circumstances.conversation_id
        messages = scene.context["messages"]
        last_message: Mapping[str, Any] = messages[-1] if messages else {"content": ""}
        session = str(scene.seed) if scene.seed else ""
        seed = message_seed(
            session, step.messages, last_message.get("timestamp"), last_message["content"]
        )
        return ChatMoment(
            messages=step.messages,
            now_ms=_ms(scene),
            seed=f"{conversation_id}\0{seed}",
            state=self._state,
            characters=characters_of(scene.context["participants"], conversation_id),
            room=self._circumstances.room.total,
        )

    def _firing(self, entry: PackEntry) -> Firing | None:
        return self._state.firings.get(key_of(entry))

    def _advance(self, step: Step, fitted: Fitting[PackEntry]) -> None:
        """The state of the chat after this search; only memories whose rules ask for it are in it."""
        counting = [entry for entry in self._entries if entry.counts_messages]
        if not counting:
            return
        numbers_that_came = {entry.number for entry in fitted.came}
        self._state = advanced(
            self._state,
            [_came(entry) for entry in counting if entry.number in numbers_that_came],
            [_came(entry) for entry in counting if entry.number not in numbers_that_came],
            messages=step.messages,
            now_ms=_ms(step.scene),
        )


def _cut(text: str, chars: int) -> str:
    return text[:chars]


class _StepEvaluator:
    """Evaluates triggers at one step of a walk, for rounds of recursion."""

    def __init__(self, walk: _Walk, step: Step) -> None:
        self._walk = walk
        self._step = step

    async def fired_entries(self, indexes: Sequence[int], text_of_book: str) -> list[int]:
        verdicts = await self._walk.verdicts(self._step, indexes, text_of_book)
        return [indexes[position] for position in _fired(verdicts)]

    async def true_conditions(self, conditions: Sequence[str], text_of_book: str) -> list[str]:
        verdicts = await self._walk.evaluated(self._step, conditions, text_of_book)
        return [conditions[position] for position in _fired(verdicts)]


def state_after(entry: PackEntry, step: Step, *, messages: int, ms: int) -> ChatState:
    """The state of a chat in which the memory came so many messages and milliseconds before this search."""
    return advanced(
        ChatState(),
        [_came(entry)],
        [],
        messages=step.messages - messages,
        now_ms=_ms(step.scene) - ms,
    )


def _rules_of(entries: Sequence[PackEntry]) -> RuleIndex:
    ruled = [entry.number for entry in entries if entry.rules != PLAIN]
    asking = [entry.number for entry in entries if entry.asks_when]
    return index_of_rules(entries, ruled, asking)


def _came(entry: PackEntry) -> Came:
    return Came(key_of(entry), entry.rules)


def _ms(scene: Scene) -> int:
    return int(scene.now.timestamp() * 1000)


def _fired(verdicts: Sequence[Verdict]) -> list[int]:
    return [number for number, verdict in enumerate(verdicts) if isinstance(verdict, Fired)]


def _with_text(scene: Scene, text_of_book: str) -> Mapping[str, object]:
    """What triggers get where a text of a book is searched with the last message."""
    if not scene.context["messages"]:
        return scene.context
    *earlier, last = scene.context["messages"]
    last = {**last, "content": with_text_of_book(last["content"], text_of_book)}
    return {**scene.context, "messages": [*earlier, last]}


def _lore_text(entry: PackEntry) -> LoreText[PackEntry]:
    body = " ".join(entry.text.split())
    is_chinese = _IDEOGRAPH.search(body) is not None
    return LoreText(
        entry, head_of(entry.name, is_chinese=is_chinese), body, str(entry.number), is_chinese
    )
