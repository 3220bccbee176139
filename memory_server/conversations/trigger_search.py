"""One search of long-term memories: it evaluates their triggers, and lets memory_server/lore decide which of them come.

Memories of books whose client finds them by vectors are found by words too: such an entry comes where it clears the
threshold of what comes unasked, ranked as a short-term memory without age.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from dataclasses import field, replace
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any, get_args

from languages import _, clause, joined
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.ports import Trial
from memory_server.conversations.recall.order import comes_unasked
from memory_server.conversations.recall.relevance import receipts
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.recall.words import KeywordOptions, QueryContext
from memory_server.conversations.services import Services
from memory_server.kernel.errors import TriggersUnavailable
from memory_server.kernel.messages import Message
from memory_server.kernel.meter import Meter
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.text import Finding
from memory_server.kernel.times import local, moment_of
from memory_server.kernel.values import dataclass, frozen
from memory_server.lore import (
    ChatMoment,
    ChatState,
    EntryKeys,
    FiringRounds,
    HeldBackReason,
    LongTermMemory,
    MacroContext,
    ScannedChat,
    Shelf,
    Shelved,
    TimedEntry,
    character_name,
    characters_of,
    filled,
    has_macros,
    key_of,
    last_fired,
    message_seed,
    question_of,
    score_of,
    short_seed,
    user_name,
    with_text_of_book,
)
from sandbox import (
    CheckReport,
    Failed,
    FailureKind,
    Fired,
    PatternError,
    SandboxError,
    SandboxUnavailable,
    TooMuchText,
    TriggerSandbox,
    Verdict,
)

if TYPE_CHECKING:
    from sandbox import ProtectionLayer, TriggerRecord


class SandboxRunner:
    """Runs triggers and expressions in `sandbox`, which the caller opens and closes. See `ports.TriggerRunner`.

    `meter` counts verdicts by kind. A search waits for its turn of `turns`. `timezone` is the time zone of its
    searches, if it differs from the sandbox's own.
    """

    def __init__(
        self,
        sandbox: TriggerSandbox,
        meter: Meter | None = None,
        turns: AbstractAsyncContextManager[None] | None = None,
        timezone: str | None = None,
    ) -> None:
        """Keep what is given, and begin the figures of the meter; the sandbox is not asked yet. `turns` lets callers
        in, who wait for the same sandbox; `timezone` is that of the triggers."""
        self._sandbox = sandbox
        self._timezone = timezone
        self._meter = meter or Meter()
        self._meter.expect(
            "triggers", "searches", "fired", "quiet", "not_run", "run_us", *get_args(FailureKind)
        )
        self._turns = turns or contextlib.nullcontext()

    def in_zone(self, timezone: str) -> SandboxRunner:
        """Return a runner with the same sandbox, whose triggers run in this zone."""
        view = copy(self)
        view._timezone = timezone
        return view

    def gauge_workers(self) -> None:
        """Let the meter show the worker processes, which all tenants share."""
        self._meter.gauge("workers", "running", lambda: len(self._sandbox.pids), of_all=True)
        self._meter.gauge("workers", "started", lambda: self._sandbox.workers_started, of_all=True)
        self._meter.gauge(
            "workers", "replaced", lambda: self._sandbox.workers_replaced, of_all=True
        )

    async def evaluate(
        self,
        triggers: Sequence[str],
        context: Mapping[str, Any],
        *,
        now: datetime,
        seed: int,
        last_fired: Mapping[int, Mapping[str, int]] | None = None,
    ) -> Mapping[int, Verdict]:
        """Run the triggers that can fire, and return their verdicts by index; count them, and the
        others as quiet. Raises TriggersUnavailable if the sandbox cannot run."""
        with sandbox_errors():
            async with self._turns:
                verdicts = await self._sandbox.judge(
                    triggers,
                    context,
                    now=now,
                    seed=seed,
                    last_fired=last_fired or {},
                    timezone=self._timezone,
                )

        self._meter.count("triggers", "searches")
        for kind, count in Counter(map(_kind_of, verdicts.values())).items():
            self._meter.count("triggers", kind, count)
        run_us = sum(verdict.elapsed_us for verdict in verdicts.values())
        self._meter.count("triggers", "run_us", run_us)

        not_run_count = len(triggers) - len(verdicts)
        self._meter.count("triggers", "quiet", not_run_count)
        self._meter.count("triggers", "not_run", not_run_count)
        return verdicts

    async def check(
        self, source: str, context: Mapping[str, Any] | None = None, *, now: datetime, seed: int
    ) -> CheckReport:
        with sandbox_errors():
            async with self._turns:
                return await self._sandbox.check(source, context, now=now, seed=seed)

    async def check_all(
        self, sources: Sequence[str], *, now: datetime, seed: int
    ) -> Sequence[CheckReport]:
        with sandbox_errors():
            async with self._turns:
                return await self._sandbox.check_all(sources, now=now, seed=seed)

    async def try_out(
        self, source: str, context: Mapping[str, Any], *, now: datetime, seed: int
    ) -> Trial:
        """Run a trigger once, and return the report of the run, its operands, and what is wrong
        with it. Without messages it is checked on those of a sample too. Raises TriggersUnavailable
        if the sandbox cannot run."""
        with sandbox_errors():
            async with self._turns:
                reading = await self._sandbox.read(source)
                report = await self._sandbox.run(
                    source, context, now=now, seed=seed, copy=reading.copy, timezone=self._timezone
                )
                if context["messages"] or isinstance(report.verdict, Failed):
                    check = await self._sandbox.check_after(source, report.verdict, now=now)
                else:  # on the messages of a sample
                    check = await self._sandbox.check(source, now=now, seed=seed)
        return Trial(report, reading.operands, check)

    async def words_of(self, sources: Sequence[str]) -> Sequence[Sequence[str]]:
        with sandbox_errors():
            async with self._turns:
                return await self._sandbox.words_of(sources)

    def record_of(self, source: str) -> TriggerRecord:
        return self._sandbox.record_of(source)

    async def match_texts(self, pattern: str, texts: Sequence[str]) -> tuple[bool, ...]:
        with sandbox_errors():
            async with self._turns:
                return await self._sandbox.match_texts(pattern, texts)


def _kind_of(verdict: Verdict) -> str:
    """Return the name of the counter for such verdicts."""
    if isinstance(verdict, Failed):
        return verdict.kind
    return type(verdict).__name__.lower()


async def examine_sandbox(sandbox: TriggerSandbox) -> list[Finding]:
    """Examine whether triggers run, and find each missing layer, as `trigger-sandbox doctor` shows it."""
    try:
        layers = await sandbox.layers()
    except SandboxError as error:
        return [Finding("error", _("triggers"), _("they cannot run here: {reason}", error))]
    missing = [layer for layer in layers if not layer.holds]
    if missing:
        return [Finding("warning", _("triggers"), _without(layer)) for layer in missing]
    walls = [layer.title for layer in layers if not layer.is_attempt]
    attempts = len(layers) - len(walls)
    active = _(
        "sandbox active: {walls} are isolated, all {attempts} escape tests were blocked",
        joined(", ", walls),
        attempts,
    )
    return [Finding("ok", _("triggers"), active)]


def _without(layer: ProtectionLayer) -> str:
    """Return a sentence on a layer of protection that is missing, or on an escape test that was not blocked."""
    if layer.is_attempt:
        return _(
            "the sandbox runs, but an escape test was not blocked ({name}): {reason}",
            layer.title,
            layer.detail,
        )
    return _(
        "the sandbox runs, but without one layer ({name}): {reason}", layer.title, layer.detail
    )


@contextlib.contextmanager
def sandbox_errors() -> Iterator[None]:
    """Raise TriggersUnavailable in place of an error of the sandbox in the block; a PatternError
    passes through."""
    try:
        yield
    except PatternError:
        # The caller's mistake: the manager that has the expression says what was not done because of it.
        raise
    except SandboxUnavailable as error:
        raise TriggersUnavailable(
            "Triggers cannot run now: {reason}; `memory-server doctor` says why.",
            clause(str(error)),
        ) from error
    except SandboxError as error:
        raise TriggersUnavailable(
            "Triggers cannot run now: {reason}.", clause(str(error))
        ) from error


ROUND_SECONDS = 2.0
"""Seconds after which no further round of recursion begins, from the end of the first round on: the time of the
triggers of a search. Before that, a process for the triggers may still have to start."""


@frozen
class HeldBackMemory:
    """A memory whose trigger fired and which does not come, and why."""

    shelved: Shelved
    reason: HeldBackReason


@frozen
class Chat:
    """The chat of a search: its session ("": the host has none), and how many messages it has. `is_counted`: the host
    said how many; otherwise each recall counts as one."""

    session: str = ""
    messages: int = 0
    is_counted: bool = False


@frozen
class Activation:
    """The answer of a search, in the order in which texts take room. `random`: the memories that came by chance.
    `held_back` fired too. `unread`: conversations whose triggers could not be read, with the file. `chat`: where the
    search was made. `is_complete`: False if there was no time to search all texts of books that came. `counting`: the
    memories whose rules count its messages."""

    activated: tuple[Shelved, ...]
    random: tuple[Shelved, ...]
    failed: tuple[tuple[Shelved, Failed], ...]
    searched: int
    unread: Mapping[str, object] = field(default_factory=dict)
    held_back: tuple[HeldBackMemory, ...] = ()
    chat: Chat = Chat()
    is_complete: bool = True
    counting: Mapping[str, TimedEntry] = field(default_factory=dict)


NOTHING_ACTIVATED = Activation((), (), (), 0)


def fired_in(verdicts: Mapping[int, Verdict]) -> list[int]:
    """Return the indexes of the triggers that fired."""
    return [index for index, verdict in verdicts.items() if isinstance(verdict, Fired)]


def failed_in(
    verdicts: Mapping[int, Verdict], memories: Sequence[Shelved]
) -> tuple[tuple[Shelved, Failed], ...]:
    """Return the memories whose trigger failed, which counts as not fired."""
    return tuple(
        (memories[index], verdict)
        for index, verdict in verdicts.items()
        if isinstance(verdict, Failed)
    )


def drawn_by_chance(
    memories: Sequence[Shelved], excluded: Collection[int], *, rng: Random, count: int
) -> tuple[Shelved, ...]:
    """Draw up to `count` of the memories evenly, leaving out the `excluded` ones. A failing trigger is `false` for
    recall, so its memory may still come by chance."""
    candidate_count = len(memories) - len(excluded)
    drawn = rng.sample(range(candidate_count), min(count, candidate_count))
    # From indexes among the candidates to indexes among all.
    for excluded_index in sorted(excluded):
        drawn = [index + (index >= excluded_index) for index in drawn]
    return tuple(memories[index] for index in drawn)


_WORTH_A_THREAD_CHARS = 1_000_000
"""Characters of messages, times the entries whose keys are looked for in them: some milliseconds."""
_MOST_FILLED_CHARS = 1_000_000
"""Characters of texts in which a search fills macros: fifteen times the largest prompt."""


@frozen
class Occasion:
    """What is asked in `conversation_id`, the messages as they were said, and the chat. `room`: characters beyond which
    the texts of books start no further entries. `given`: keys of texts that the reader has."""

    conversation_id: str
    request: RecallRequest
    messages: Sequence[Message]
    session: str
    chat: ChatState
    room: int | None
    given: Collection[str]

    def moment(self, now_ms: int) -> ChatMoment:
        """Return the chat at `now_ms`: its count of messages (by default one more than was
        counted), its state, its characters and room, and a seed that is the same for the same
        message."""
        count = self.request.message_count
        if count is None:
            count = self.chat.messages + 1

        time_ms, content = None, ""
        if self.messages:
            last = self.messages[-1]
            time_ms, content = last.time_ms, last.content

        # The same whenever this message of this chat is searched for.
        seed = message_seed(self.session, self.request.message_count, time_ms, content)
        return ChatMoment(
            messages=count,
            now_ms=now_ms,
            seed=f"{self.conversation_id}\0{seed}",
            state=self.chat,
            characters=characters_of(self.request.participants, self.conversation_id),
            room=self.room,
        )

    def context(self, text_of_books: str = "") -> dict[str, Any]:
        """Return what a trigger sees. `text_of_books` has texts of its book that came; they are searched as part of
        the last message."""
        seen = trigger_context(self.messages, self.conversation_id, self.request.participants)
        if seen["messages"]:
            last = seen["messages"][-1]
            last["content"] = with_text_of_book(last["content"], text_of_books)
        return seen


def trigger_context(
    messages: Iterable[Message], conversation_id: str, participants: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a trigger sees (docs/reference/trigger-api.md)."""
    return {
        "messages": list(map(_seen, messages)),
        "conversation_id": conversation_id,
        "participants": dict(participants),
    }


def _seen(message: Message) -> dict[str, Any]:
    """Return a message as a trigger sees it."""
    fields = {
        "role": message.role,
        "content": message.content,
        "timestamp": message.time_ms,
        "name": message.name,
    }
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(slots=True)
class Recursion:
    """The rounds of a search over `entries`, whose triggers and keys the search looks for where the last message has a text
    of a book too."""

    _rounds: FiringRounds
    _entries: Sequence[Shelved]
    _search: TriggerSearch

    async def run(self, fired: Sequence[int]) -> bool:
        """Settle what fired in the first round, which has been evaluated, and go on until nothing more can fire.
        Return False if `ROUND_SECONDS` were over before."""
        until = time.monotonic() + ROUND_SECONDS
        await self._settle(self._rounds.first(fired), {})
        while True:
            following = self._rounds.next_round()
            if following is None:
                return True
            if time.monotonic() >= until:
                return False
            fired_again: list[int] = []
            for book, indexes in following.memories.items():
                fired_again += await self._search.fired_entries(indexes, following.texts[book])
            await self._settle(self._rounds.recursive(fired_again), following.texts)

    async def _settle(self, candidates: Sequence[int], texts: Mapping[str, str]) -> None:
        """Decide which of the candidates of a round come, in a thread if that takes long. `texts` are searched in
        this round, by the id of their book."""
        keys_by_index = self._rounds.keys_to_score(candidates)
        scores = await self._scores(keys_by_index, texts)
        if self._rounds.are_settled_quickly(candidates):
            self._rounds.settle(candidates, scores)
        else:
            await asyncio.to_thread(self._rounds.settle, candidates, scores)

    async def _scores(
        self, keys_by_index: Mapping[int, EntryKeys], texts: Mapping[str, str]
    ) -> dict[int, int]:
        """Count the keys that each memory has in the messages; none for a memory without counted keys. All keys that
        are sought in the same text are asked at once: a group may have hundreds of memories."""
        by_text: dict[str, dict[int, EntryKeys]] = {}
        for index, keys in keys_by_index.items():
            text = texts.get(self._entries[index].book_id, "")
            by_text.setdefault(text, {})[index] = keys
        scores: dict[int, int] = {}
        for text, rivals in by_text.items():
            present_keys = await self._search.present_keys(rivals, text)
            for index, keys in rivals.items():
                if keys.counted is not None:
                    scores[index] = score_of(keys.counted, present_keys[index])
        return scores


class TriggerSearch:
    """The rounds of a search among the memories of `shelf`."""

    def __init__(self, services: Services, shelf: Shelf, occasion: Occasion) -> None:
        """Begin the first round at the moment of `occasion`. No trigger runs yet."""
        self._services = services
        self._shelf = shelf
        self._occasion = occasion
        self._moment = occasion.moment(services.clock())
        self._filled_memories = _FilledMemories(self._macros())
        self._rounds = FiringRounds(
            shelf.memories,
            shelf.rules,
            self._moment,
            lambda index: self._filled_memories.of(shelf.memories[index]).text,
            is_given=self._is_given,
        )
        self._failed_later: dict[int, Failed] = {}
        """Triggers that failed on the text of a book, where they could have made their memory come."""

    async def activation(self) -> Activation:
        """Run the triggers, and the rounds on texts of books, and return what comes, by chance too,
        what failed and what was held back. Nothing is changed. Raises TriggersUnavailable if the
        sandbox cannot run."""
        request = self._occasion.request
        shelf = self._shelf
        verdicts = await self._verdicts(self._occasion.context())
        recursion = Recursion(self._rounds, shelf.memories, self)
        is_complete = await recursion.run([*fired_in(verdicts), *await self._by_words()])

        # What fired cannot come by chance, and what its rules hold back cannot either.
        excluded = frozenset((*fired_in(verdicts), *self._rounds.activated, *self._rounds.barred()))
        by_chance = request.flashbacks
        if by_chance is None:
            by_chance = self._services.parameters.random_long_term
        rng = Random(self._services.rng.getrandbits(64))
        drawn = drawn_by_chance(shelf.memories, excluded, rng=rng, count=by_chance)

        # The rounds have filled the texts of what fired; only what came by chance is filled here.
        fill = self._filled_memories.each
        activated = fill(shelf.memories[index] for index in self._rounds.activated)
        random: tuple[Shelved, ...] = ()
        if drawn:
            random = await asyncio.to_thread(fill, drawn)

        failed = failed_in({**verdicts, **self._failed_later}, shelf.memories)
        # As a chat opens, a trigger that reads the last message throws, and nothing is wrong with it.
        if not self._occasion.messages:
            failed = tuple(item for item in failed if item[1].kind != "thrown")
        held_back = tuple(
            HeldBackMemory(shelf.memories[index], reason)
            for index, reason in self._rounds.held_back().items()
        )

        is_counted = request.message_count is not None
        return Activation(
            activated=activated,
            random=random,
            failed=failed,
            searched=len(shelf.memories),
            held_back=held_back,
            chat=Chat(self._occasion.session, self._moment.messages, is_counted=is_counted),
            counting=shelf.rules.counting,
            is_complete=is_complete,
        )

    async def fired_entries(self, indexes: Sequence[int], text_of_book: str) -> list[int]:
        """Run the triggers of the memories `indexes` with this text of a book added to the last message, and return
        the memories whose triggers fire. Keep the failures of the ones that may come in a later round, in place of
        earlier ones."""
        context = self._occasion.context(text_of_book)
        verdicts = await self._verdicts(context, frozenset(indexes))
        for index, verdict in verdicts.items():
            self._failed_later.pop(index, None)
            if isinstance(verdict, Failed) and self._rounds.may_recurse(index):
                self._failed_later[index] = verdict
        return fired_in(verdicts)

    async def present_keys(
        self, entries: Mapping[int, EntryKeys], text_of_book: str
    ) -> Mapping[int, Collection[str]]:
        """Return the counted keys of each entry that are in the messages with this text of a book.
        The sandbox answers for keys that are expressions; raises TriggersUnavailable if it cannot
        run."""
        context = self._occasion.context(text_of_book)
        chat = ScannedChat(context, max((keys.depth for keys in entries.values()), default=0))

        present: dict[int, set[str]] = {}
        asking: dict[str, list[tuple[int, str]]] = {}
        """The entries and keys of each question that only V8 answers."""
        for index, keys in entries.items():
            present[index] = set()
            for key in () if keys.counted is None else keys.counted.all:
                is_there = chat.answer(keys, key)
                if is_there is None:
                    asking.setdefault(question_of(keys, key), []).append((index, key))
                elif is_there:
                    present[index].add(key)

        questions = list(asking)
        for position in fired_in(await self._run(questions, context, {})):
            for index, key in asking[questions[position]]:
                present[index].add(key)
        return present

    async def _verdicts(
        self, context: Mapping[str, Any], among: Collection[int] | None = None
    ) -> Mapping[int, Verdict]:
        """Return the verdicts on memories of the shelf by their indexes; a memory without a verdict is quiet. Entries
        are decided by their keys, all else by the sandbox. With `among`, only these memories are looked at."""
        shelf = self._shelf
        triggers = shelf.triggers
        if among is not None:
            triggers = {index: triggers[index] for index in among if index in triggers}

        # Entries of books are decided here by their keys, which needs no sandbox.
        chat = ScannedChat(context, shelf.entries.depth)
        coming: Sequence[int] = ()
        try:
            if chat.chars * len(shelf.entries.places) < _WORTH_A_THREAD_CHARS:
                coming = shelf.entries.coming(chat, among)
            else:
                coming = await asyncio.to_thread(shelf.entries.coming, chat, among)
        except TooMuchText:
            # The sandbox has a limit of time, and names what it could not decide within it.
            entries = (
                shelf.entries.places if among is None else shelf.entries.places.intersection(among)
            )
            triggers = {
                index: shelf.memories[index].memory.trigger
                for index in sorted((*triggers, *entries))
            }
        verdicts: dict[int, Verdict] = dict.fromkeys(coming, Fired(0))

        # The sandbox knows only positions in its list, not the indexes of the shelf.
        indexes = list(triggers)
        last_came = self._last_fired()
        asking = {
            position: last_came[index]
            for position, index in enumerate(indexes)
            if index in last_came
        }
        ran = await self._run(list(triggers.values()), context, asking)
        for position, verdict in ran.items():
            verdicts[indexes[position]] = verdict
        return dict(sorted(verdicts.items()))

    async def _run(
        self,
        triggers: Sequence[str],
        context: Mapping[str, Any],
        last_came: Mapping[int, Mapping[str, int]],
    ) -> Mapping[int, Verdict]:
        """Return the verdicts of the sandbox on these triggers that had to run, by their places.
        `last_came` has what each of them sees as `last_fired`. Raises TriggersUnavailable."""
        if not triggers:
            return {}
        return await self._services.runner.evaluate(
            triggers,
            context,
            now=moment_of(self._services.clock()),
            seed=self._services.rng.getrandbits(32),
            last_fired=last_came,
        )

    async def _by_words(self) -> list[int]:
        """Return the indexes of the memories that the messages bring to mind by words."""
        if not self._shelf.rules.by_words:
            return []
        return await asyncio.to_thread(self._found_by_words)

    def _found_by_words(self) -> list[int]:
        """Return the indexes of the memories that come by words, none for an overview. Blocking: it takes some
        milliseconds for each memory whose words are not known yet."""
        occasion = self._occasion
        parameters = self._services.parameters
        wording = parameters.wording.within(occasion.conversation_id)
        now_ms = self._services.clock()
        indexes = self._shelf.rules.by_words
        documents = [_document(self._shelf, index, now_ms, wording) for index in indexes]

        others = other_words_of(occasion.request.other_words, occasion.messages)
        keeps_words = any(document.other_words for document in documents)
        query = wording.of_query(
            occasion.messages,
            now_ms,
            other_words=others.texts,
            known=QueryContext(keeps_words=keeps_words),
        )

        if not query or query.overview is not None:
            return []

        # Judged only against each other: a word counts as rare if few memories of books have it.
        judged = receipts(
            documents, query, now_ms=now_ms, parameters=parameters.recall, wording=wording
        )
        return [
            index
            for index, receipt in zip(indexes, judged, strict=True)
            if comes_unasked(receipt, query, len(documents), parameters.recall)
        ]

    def _macros(self) -> MacroContext:
        """Return what macros of books are filled with: the time, the names of user and character
        that are known, and seeds of the message and of the chat."""
        occasion = self._occasion
        names = {
            "user": user_name(occasion.request.participants),
            "char": character_name(occasion.request.participants),
        }
        return MacroContext(
            now=local(self._moment.now_ms, self._services.zone),
            names={name: meaning for name, meaning in names.items() if meaning},
            message_seed=self._moment.seed,
            chat_seed=short_seed(f"{occasion.conversation_id}\0{occasion.session}"),
        )

    def _is_given(self, index: int) -> bool:
        """Return whether the reader has this version of the memory."""
        given_keys = self._occasion.given
        return bool(given_keys) and self._shelf.memories[index].version_key in given_keys

    def _last_fired(self) -> dict[int, Mapping[str, int]]:
        """Return, for the index of each trigger that asks, how many messages and milliseconds ago its memory last
        came. Memories that never came are left out."""
        answers: dict[int, Mapping[str, int]] = {}
        for index in self._shelf.with_last_fired:
            shelved = self._shelf.memories[index]
            firing = self._moment.state.firings.get(key_of(shelved))
            answer = last_fired(firing, self._moment.messages, self._moment.now_ms)
            if answer is not None:
                answers[index] = answer
        return answers


def _document(shelf: Shelf, index: int, now_ms: int, wording: KeywordOptions) -> ShortTermMemory:
    """Return a memory of a book as a short-term memory of now, so that its age does not count. Its words are those of
    its name, its text and its other words. They are found once in the life of the shelf, as without a time: a day
    such as tomorrow means none."""
    shelved = shelf.memories[index]
    content = f"{shelved.conversation_id}\n{shelved.memory.name}\n{shelved.memory.prompt}"
    key = (wording.enrichment.signature, content)
    if key not in shelf.documents:
        shelf.documents[key] = wording.of_text(
            _timeless_and_unindexed(shelved.memory, shelved.conversation_id)
        )
    document: ShortTermMemory = shelf.documents[key]
    return replace(document, time_ms=now_ms)


def _timeless_and_unindexed(memory: LongTermMemory, conversation_id: str) -> ShortTermMemory:
    """Return a memory of a book as a short-term memory without a time, whose words are not known
    yet."""
    return ShortTermMemory(
        id=memory.name,
        time_ms=0,
        text=f"{memory.name}\n{memory.prompt}",
        words=(),
        weights=(),
        score=0.0,
        conversation_id=conversation_id,
        other_words=memory.rules.other_words,
    )


class _FilledMemories:
    """The memories of a search with their macros filled, each once, until the texts have _MOST_FILLED_CHARS together:
    the others stay as they are stored, because no prompt has room for them. Filling is work for a thread."""

    def __init__(self, context: MacroContext) -> None:
        self._context = context
        self._filled: dict[tuple[str, str], Shelved] = {}
        self._chars_left = _MOST_FILLED_CHARS

    def of(self, shelved: Shelved) -> Shelved:
        """Fill the macros of the memory, once in a search. It stays as it is when the room for filled texts is used
        up."""
        key = (shelved.conversation_id, shelved.name)
        if key in self._filled:
            return self._filled[key]
        if self._chars_left <= 0:
            return shelved
        filled_memory = _filled(shelved, self._context)
        self._filled[key] = filled_memory
        self._chars_left -= max(len(shelved.text), len(filled_memory.text))
        return filled_memory

    def each(self, memories: Iterable[Shelved]) -> tuple[Shelved, ...]:
        """Fill the macros of the memories, in their order."""
        return tuple(map(self.of, memories))


def _filled(shelved: Shelved, context: MacroContext) -> Shelved:
    """Fill the macros in the memory's text if it is from a book; the user's own memories have none. Each memory draws
    for itself, even where two have the same macro in the same place."""
    memory = shelved.memory
    if memory.book is None or not has_macros(memory.prompt):
        return shelved
    of_memory = f"\0{shelved.conversation_id}\0{memory.name}"
    own_context = replace(
        context,
        message_seed=context.message_seed + of_memory,
        chat_seed=context.chat_seed + of_memory,
    )
    return replace(shelved, memory=replace(memory, prompt=filled(memory.prompt, own_context)))
