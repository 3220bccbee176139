"""The composition root: Settings -> App. The only place that connects the parts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Self

from memory_server.config import Settings, home_of
from memory_server.config.recall import parameters
from memory_server.conversations.conversation import Conversation, Conversations
from memory_server.conversations.model import DEFAULT_CONVERSATION, MAX_TRIGGER_CHARS
from memory_server.conversations.search import DECISIONS
from memory_server.conversations.services import Services
from memory_server.conversations.trigger_runner import SandboxRunner, examine_sandbox
from memory_server.kernel.collecting import collect_from_now_on
from memory_server.kernel.errors import MemoryClosed, MemoryServerError
from memory_server.kernel.failures import failure_text
from memory_server.kernel.messages import Message, Session
from memory_server.kernel.meter import Meter
from memory_server.kernel.options import extended
from memory_server.kernel.private import Pause
from memory_server.kernel.times import clock_from
from memory_server.memories.memories import Call, Memories
from memory_server.memories.recalls import AFTER_SECONDS, Recalls
from memory_server.memories.turns import MAX_CHARS, turn_text
from memory_server.storage.data_dir import Home
from memory_server.storage.options import StoreParameters
from memory_server.storage.repositories import folder_of_work
from nlp.normal_forms import can_simplify, load_simplified
from sandbox import SandboxLimits, TriggerSandbox
from sandbox.locale import N_, _

if TYPE_CHECKING:
    from socket import socket

    from mcp.server.lowlevel import Server

    from memory_server.kernel.text import Finding
    from memory_server.knowledge.embeddings import TextVectors
    from memory_server.knowledge.service import Knowledge
    from memory_server.memories.word_giver import WordGiver
    from memory_server.serving.documents import Resolve
    from memory_server.serving.subscriptions import Subscriptions
    from memory_server.tools.base.tool import Tool
    from memory_server.upkeep import Maintenance, UpkeepJob

log = logging.getLogger(__name__)

NO_OPENCC = _(
    "Traditional characters do not count as Simplified ones, because OpenCC is not installed; "
    "run `pip install opencc`, or set words.simplified to false."
)


@dataclass(frozen=True, slots=True)
class Shared:
    """The app of a shared process, for the app of one of its clients, which was started in `folder`: both use one
    store, sandbox and meter, which the first one closes."""

    app: App
    folder: Path


class App:
    """A running memory: an async context manager; nothing is opened or started before it is used.

    `brief` is for a process that asks once: it makes no index and no spare worker, and (unless `tidies`) does not tidy
    the files at its end. `session` is that of calls that name none. `sandbox` is one that several apps share, made by
    `sandbox_of` and closed by its owner; searches of triggers wait for `turns`. With `shared`, nothing but the
    knowledge is opened. `apart`: the data folder is one of many, and nothing outside of it is looked at. `beside`: a
    home of the same process, whose connections it uses. While `full` is set, nothing can be added. `asker`: who is
    noted in the record of recalls.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        brief: bool = False,
        tidies: bool = False,
        session: Session | None = None,
        sandbox: TriggerSandbox | None = None,
        turns: asyncio.Semaphore | None = None,
        apart: bool = False,
        shared: Shared | None = None,
        beside: Home | None = None,
        asker: str = N_("program"),
    ) -> None:
        self.settings = settings
        self.full = False
        self._folder = None if shared is None else shared.folder
        self._owner = owner = None if shared is None else shared.app
        self._apart: bool = apart or (owner is not None and owner._apart)
        room = self if owner is None else owner
        self.clock: Callable[[], int] = clock_from(settings.now_ms) if owner is None else owner.clock
        owned_elsewhere = sandbox or (None if owner is None else owner.sandbox)
        self.sandbox: TriggerSandbox = owned_elsewhere or sandbox_of(settings, spare=not brief)
        self._shares_sandbox = sandbox is not None
        self.meter: Meter = Meter() if owner is None else owner.meter
        self.home: Home = self._home(brief and not tidies, beside) if owner is None else owner.home
        self.store = self.home.conversations
        runner = SandboxRunner(self.sandbox, self.meter, turns)
        if owner is None:
            runner.gauge_workers()
            if not brief:
                from memory_server.kernel.process_figures import gauge

                gauge(self.meter, self.home.folder_size, of_process=not self._apart)
        self._services = services = Services(
            self.store,
            runner,
            parameters(settings),
            self.clock,
            Random(settings.seed),
            scope=settings.recall_scope,
            groups=settings.groups,
            zone=settings.zone,
            language=None if settings.language == "auto" else settings.language,
            brief=brief and owner is None,
            writable=not settings.read_only,
            session=session,
            paused=self.paused,
            full=lambda: room.full,
            meter=self.meter,
            meaning=self._meaning_of(settings),
            erased=lambda texts: self.home.erased.holds(texts),
        )
        self.conversations = Conversations(
            services,
            usual=settings.conversation,
            shared_conversation=None if settings.compat == "node" else DEFAULT_CONVERSATION,
        )
        unasked = frozenset(filter(settings.names_toolset, ("notes", "layers")))
        kept, days, after = self.home.recalls, settings.recalls.days, 0 if brief else AFTER_SECONDS
        may = lambda: not (settings.read_only or room.full) and self.paused() is None  # noqa: E731
        self.recalls: Recalls = owner.recalls if owner else Recalls(kept, self.clock, days, may, after)
        self.memories = Memories(
            self.conversations,
            services,
            lambda: self.home.backups,
            self._health,
            self.home.examinations,
            lambda: self.knowledge,
            auto_recall_chars=settings.notes.unasked_chars if unasked else 0,
            auto_recall_from=unasked,
            recalls=self.recalls,
        )
        here, work = "", None
        with suppress(OSError):  # the folder is gone
            here = str(self._folder or Path.cwd())
            work = None if self._apart else folder_of_work(Path(here))
        self.call = Call(self.memories, self.conversations, asker={"by": asker, "cwd": here}, folder=work)
        self._life: Literal["new", "open", "closed"] = "new"

    def _home(self, exits_at_once: bool, beside: Home | None) -> Home:
        exit_seconds = 0.0 if exits_at_once else StoreParameters().exit_seconds
        given = {"exit_seconds": exit_seconds, "read_only": self.settings.read_only}
        parameters = extended(StoreParameters, self.settings.storage, **given)
        return home_of(self.settings, self.clock, parameters, self.meter, beside=beside)

    # Imported at first use: a process that asks once does not need it, and a hook saves a tenth of a second.

    @cached_property
    def maintenance(self) -> Maintenance:
        from memory_server.composition import maintenance_of

        return maintenance_of(self.settings, self.home, self.memories, self.recalls)

    @property
    def word_giver(self) -> WordGiver:
        """What asks a model for the other words of memories."""
        from memory_server.composition import word_giver_of

        return word_giver_of(self.settings, self.memories)

    @cached_property
    def _knowledge(self) -> Knowledge:
        from memory_server.composition import knowledge_of

        where = None if self._apart else self._folder or Path()
        return knowledge_of(self.settings, self.home, self.clock, self._services.refuse_while_paused, folder=where)

    def _meaning_of(self, settings: Settings) -> Callable[[], TextVectors] | None:
        """The vectors of short-term memories; None: no model of the settings makes any. A shared process has them at
        hand for all clients, and goes on after the client has left."""
        if not settings.llm.embeddings.model or settings.read_only or settings.compat == "node":
            return None
        home = self._owner if self._owner is not None and self._owner.settings.llm == settings.llm else self
        return lambda: home.knowledge.sessions.meaning

    @property
    def knowledge(self) -> Knowledge:
        """Notes and other knowledge, opened at first use.

        Raises:
            MemoryClosed: outside of `async with`.
        """
        self._refuse_unless_open()
        return self._knowledge

    def _refuse_unless_open(self) -> None:
        if self._life != "open":
            raise MemoryClosed("This memory is not open; use it inside `async with open_memory(...) as memory:`.")

    async def _health(self) -> Sequence[Finding]:
        found = await asyncio.to_thread(self.home.examine)
        knowledge = [finding for look in await self.knowledge.lifecycle.examinations() for finding in await look()]
        return [*found, *knowledge, await asyncio.to_thread(self.recalls.finding), *await examine_sandbox(self.sandbox)]

    def paused(self) -> Pause | None:
        """The pause that lasts now, during which nothing is stored; None: there is no pause."""
        return self.home.pause.read(self.clock())

    def conversation(self, conversation_id: str | None = None) -> Conversation:
        """The managers of a conversation, by default the usual one.

        Raises:
            InvalidInput: the id cannot be used.
            MemoryClosed: outside of `async with`.
        """
        self._refuse_unless_open()
        return self.conversations.get(conversation_id)

    async def recall_turn(
        self,
        messages: Sequence[Message],
        conversation_id: str | None = None,
        *,
        participants: Mapping[str, Any] | None = None,
        session: Session | None = None,
        max_chars: int = MAX_CHARS,
        flashbacks: int = 0,
    ) -> str:
        """What the messages bring to mind, marked and ready for a prompt; empty if nothing came. `flashbacks`: memories
        of each kind that may come by chance. Raises InvalidInput: no message, or the id or `flashbacks` is wrong."""
        call, conversation = replace(self.call, session=session), self.conversation(conversation_id)
        return await turn_text(
            call, conversation, messages, participants=participants, flashbacks=flashbacks, max_chars=max_chars
        )

    async def serve_stdio(self) -> None:
        """Serve the tools over MCP on standard input and output; opens and closes this app."""
        from memory_server.serving.stdio.runner import serve

        async with self:
            await serve(self.server(), self._settle)

    async def serve_window(self, descriptors: tuple[int, int], stopped: asyncio.Event, control: socket) -> None:
        """Serve one client of a shared process; opens and closes this app. See `runner.session`."""
        from memory_server.serving.stdio.runner import session

        async with self:
            await session(self.server(), self._settle, descriptors, stopped, control)

    def server(self, resolve: Resolve | None = None, subscriptions: Subscriptions | None = None) -> Server[Any]:
        """An MCP server of these memories. With `subscriptions` its caller ends the streams, and the sessions of the
        handshake era do not last; `resolve` gives the context of a request."""
        # Half a second of imports that the other commands do not need.
        from memory_server.serving.server import build_server

        return build_server(
            resolve or (lambda _: self.call),
            None if usual_offer(self.settings) else lambda: offered_tools(self.settings),
            read_only=self.settings.read_only,
            max_bytes=self.settings.results.max_bytes,
            hooks=self.settings.hooks,
            subscribe=subscriptions is None,
            subscriptions=subscriptions,
        )

    async def warm(self) -> None:
        """Load the dictionary before the first use, then what a small first search does without: worker and numpy."""
        import nlp

        load = [asyncio.to_thread(nlp.load)]
        if self.memories.services.parameters.wording.enrichment.simplified:
            load.append(asyncio.to_thread(load_simplified))
        results: list[object] = await asyncio.gather(*load, return_exceptions=True)
        for load_later in (self.sandbox.warm, lambda: asyncio.to_thread(import_module, DECISIONS)):
            results += await asyncio.gather(load_later(), return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                log.warning("warming up failed: %s", failure_text(result))

    async def _settle(self) -> None:
        """What a server does besides answering, until it is cancelled."""
        from memory_server.tools import keeps_conversations

        conversations = keeps_conversations(offered_tools(self.settings))
        try:
            if conversations:
                await self.warm()
        finally:
            collect_from_now_on()
        if conversations:
            await self._tell_of_outdated_words()
        if self._owner is None:
            await self.keep_up()

    async def keep_up(self, maintenance: UpkeepJob | None = None) -> None:
        """Run the daily upkeep of this app, or of `maintenance`, at its time, until it is cancelled."""
        if not self.settings.upkeep.enabled or self.settings.read_only:
            return
        from memory_server.upkeep import Jobs

        jobs = Jobs(maintenance or self.maintenance, self.settings.upkeep.hour, self.settings.timezone)
        try:
            await jobs.start()
            await asyncio.Event().wait()
        finally:
            await jobs.stop()

    async def _tell_of_outdated_words(self) -> None:
        """Warn about the usual conversation; the daily upkeep, which reads all of them, warns about the others."""
        try:
            outdated = await self.conversation().short_term.outdated()
        except MemoryServerError as error:
            log.warning("could not look for outdated words: %s", error)
        else:
            if outdated:
                from memory_server.conversations.lifecycle import outdated_text

                log.warning("%s", outdated_text(outdated))
        if self.settings.words.simplified and not can_simplify():
            log.warning("%s", NO_OPENCC)

    async def __aenter__(self) -> Self:
        if self._life != "new":
            raise MemoryClosed("This memory was opened before; make a new one with open_memory(...).")
        self._life = "open"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._life = "closed"
        # The store last, so that what upkeep began can still be written.
        async with AsyncExitStack() as stack:
            if self._owner is None:
                stack.push_async_callback(self.home.aclose)
                stack.push_async_callback(self.store.aclose)
                stack.callback(self.recalls.write)
            if "_knowledge" in self.__dict__:
                stack.push_async_callback(self._knowledge.aclose)
            if self._owner is None and not self._shares_sandbox:
                stack.push_async_callback(self.sandbox.aclose)


def open_memory(
    data_dir: str | Path | None = None, *, timezone: str | None = None, settings: Settings | None = None
) -> App:
    """A memory for use in this process: `async with open_memory("memories", timezone="Asia/Shanghai") as memory: …`.

    `timezone` is where the people of the chats live, by its IANA name: it decides when a day begins, and which time of
    day a prompt names; None: that of `settings`, which is usually the system's. `data_dir` and `timezone` override
    those of `settings`. Neither a file nor the environment is read: to use them, pass `config.load(os.environ)` as
    `settings`. Raises InvalidInput: there is no such time zone.
    """
    chosen = settings or Settings()
    if data_dir is not None:
        chosen = chosen.model_copy(update={"data_dir": Path(data_dir)})
    if timezone is not None:
        chosen = chosen.in_zone(timezone)
    return App(chosen)


def sandbox_of(settings: Settings, *, spare: bool = True) -> TriggerSandbox:
    """A sandbox with the limits of `settings`; `spare`: with a worker in reserve."""
    given = settings.triggers
    limits = given.model_dump(include={"trigger_seconds", "search_seconds", "heap_mb"})
    return TriggerSandbox(
        SandboxLimits(max_source_chars=MAX_TRIGGER_CHARS, **limits),
        timezone=settings.timezone,
        spare=spare,
        spellings_apart=settings.compat == "node",
        **given.model_dump(include={"workers", "require_all_layers"}),
    )


def usual_offer(settings: Settings) -> bool:
    chosen = settings.toolsets not in (None, "default")
    return not (chosen or settings.tools or settings.exclude_tools or settings.read_only)


def offered_tools(settings: Settings) -> Mapping[str, Tool]:
    """The tools that a client is offered. Raises InvalidInput: a name is unknown, or nothing is left."""
    from memory_server.tools import offered

    return offered(settings.toolsets, settings.tools, settings.exclude_tools, read_only=settings.read_only)
