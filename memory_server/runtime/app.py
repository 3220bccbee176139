"""The composition root: Settings -> App, a runtime and the view of a caller on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import tzinfo
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Self

from languages import N_
from memory_server.config import Settings
from memory_server.config.recall import parameters
from memory_server.conversations.conversation import Conversation, Conversations
from memory_server.conversations.model import DEFAULT_CONVERSATION
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.search import DECISIONS
from memory_server.conversations.services import Services
from memory_server.conversations.trigger_search import examine_sandbox
from memory_server.kernel.collecting import collect_from_now_on
from memory_server.kernel.errors import InvalidInput, MemoryClosed, MemoryServerError
from memory_server.kernel.failures import failure_text
from memory_server.kernel.messages import GivenMessage, Session
from memory_server.kernel.private import Pause
from memory_server.memories.memories import Call, Memories
from memory_server.memories.turns import MAX_CHARS, prompt_room, turn_prompt
from memory_server.runtime.runtime import ONE_QUESTION, Runtime
from memory_server.storage.repositories import folder_of_work
from nlp.normal_forms import can_simplify, load_simplified

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from memory_server.kernel.text import Finding
    from memory_server.knowledge.embeddings import TextVectors
    from memory_server.knowledge.service import Knowledge
    from memory_server.memories.word_giver import WordGiver
    from memory_server.operations.backing_up import Tenants
    from memory_server.operations.imports import ImportReport
    from memory_server.operations.ports import Machine
    from memory_server.runtime.upkeep import Maintenance, UpkeepJob
    from memory_server.serving.documents import Resolve
    from memory_server.serving.subscriptions import Subscriptions
    from memory_server.tools.base.tool import Tool

log = logging.getLogger(__name__)

FIRST_CALLS_SECONDS = 2
"""How long after its start a server begins the schedule of the upkeep."""
PROGRAM = N_("program")
"""The asker in the record of recalls when a Python program recalls."""

NO_OPENCC = N_(
    "Traditional characters do not count as Simplified ones, because OpenCC is not installed; "
    "run `pip install opencc`, or set words.simplified to false."
)


Placed = Callable[[Sequence[str]], tuple[Path, Settings] | None]
"""The folder that the roots of a client name, by their URIs, and the settings there, or None if they name no folder here.
"""


class CallerView:
    """The memories as a caller sees them: with the settings of its window or command. It has the calls of `App`.

    An async context manager. `session` is the session of calls that name none. `folder`: where the caller works, by
    default the folder of this process. `elsewhere`: the caller works on another machine, and sees no folder of this
    machine; layers outside of the data folder only where the toolset `layers` is offered. `asker`: the program that the
    record of recalls names. `vectors` are the vectors of a view that lasts longer; if it is None, this view has its
    own.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        *,
        session: Session | None,
        folder: Path | None,
        elsewhere: bool = False,
        asker: str = PROGRAM,
        vectors: Callable[[], TextVectors] | None = None,
    ) -> None:
        """Make the parts of the view; nothing is opened or started."""
        self.runtime = runtime
        self.settings = settings
        self.clock = runtime.clock
        self.home = runtime.home
        self.store = runtime.store
        self.sandbox = runtime.sandbox
        self.meter = runtime.meter
        self.recalls = runtime.recalls

        self._folder = folder
        self._elsewhere = elsewhere
        self._session = session
        self._services = self._services_of(session, vectors or self.vectors)

        # Programs of the Node original know no shared conversation.
        self.conversations = Conversations(
            self._services,
            usual=settings.conversation,
            shared_conversation=None if settings.compat == "node" else DEFAULT_CONVERSATION,
        )

        unasked = frozenset(filter(settings.names_toolset, ("notes", "layers")))
        self.memories = Memories(
            self.conversations,
            self._services,
            lambda: self.home.backups,
            self._health,
            self.home.examinations,
            lambda: self.knowledge,
            auto_recall_chars=settings.notes.unasked_chars if unasked else 0,
            auto_recall_from=unasked,
            recalls=self.recalls,
            plans=settings.recall.plans,
        )

        self.call = self._call_of(asker)
        self._life: Literal["new", "open", "closed"] = "new"
        self._there: CallerView | None = None
        """The view of the folder that the client says is open."""

    def _services_of(self, session: Session | None, vectors: Callable[[], TextVectors]) -> Services:
        """Return what the managers of conversations need, by the settings of the view. Vectors are
        used only if a model is named and the view may write."""
        settings = self.settings
        language = None
        if settings.language != "auto":
            language = settings.language

        # The Node original has no vectors, and a view that only reads cannot store any.
        makes_vectors = (
            settings.llm.embeddings.model and not settings.read_only and settings.compat != "node"
        )

        return Services(
            self.store,
            self.runtime.runner(settings),
            parameters(settings),
            self.clock,
            Random(settings.seed),
            scope=settings.recall_scope,
            groups=settings.groups,
            zone=settings.zone,
            language=language,
            brief=self.runtime.lifetime.questions == "one",
            writable=not settings.read_only,
            session=session,
            paused=self.runtime.paused,
            full=self.runtime.is_full,
            meter=self.meter,
            meaning=vectors if makes_vectors else None,
            erased=lambda texts: self.home.erased.holds(texts),
            secrets=settings.secret_filter,
        )

    def _call_of(self, asker: str) -> Call:
        """Return the call of this caller, which tools and commands use if they name no other session or conversation.
        `asker` is the program that asks, as the record of recalls notes it. A tenant has no folders of this machine."""
        working_folder = ""
        checkout_folder = None
        with suppress(OSError):  # the folder was deleted
            working_folder = str(self._folder or Path.cwd())
            if self.runtime.serves == "this machine":
                checkout_folder = folder_of_work(Path(working_folder))
        recorded_asker = {"by": asker, "cwd": working_folder}
        return Call(self.memories, self.conversations, asker=recorded_asker, folder=checkout_folder)

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the caller."""
        return self.settings.zone

    @property
    def machine(self) -> Machine:
        """What operations ask of the machine of the caller."""
        from memory_server.runtime.homes import MachineElsewhere, ThisMachine

        if self._elsewhere:
            return MachineElsewhere(False)
        return ThisMachine(self.home.on_several_machines, self.settings.notes.documents)

    # Imported at first use: a process that asks once does not need it, and a hook saves a tenth of a second.

    @property
    def word_giver(self) -> WordGiver:
        """Asks a model for the other words of memories."""
        from memory_server.runtime.composition import word_giver_of

        return word_giver_of(self.settings, self.memories)

    @cached_property
    def _knowledge(self) -> Knowledge:
        """Return the knowledge as the view sees it. A tenant has no layers outside of its data
        folder; a caller elsewhere has layers of this machine only if the toolset is named."""
        from memory_server.runtime.composition import knowledge_of

        folder = None
        if self.runtime.serves == "this machine":
            folder = self._folder or Path()
        return knowledge_of(
            self.settings,
            self.home,
            self.clock,
            self._services.refuse_while_paused,
            folder=folder,
            layers=not self._elsewhere or folder is None or self.settings.names_toolset("layers"),
        )

    @property
    def knowledge(self) -> Knowledge:
        """Notes and other knowledge, opened at first use.

        Raises:
            MemoryClosed: outside of `async with`.
        """
        self._refuse_unless_open()
        return self._knowledge

    def vectors(self) -> TextVectors:
        """Return the vectors of texts, by the model of the settings.

        Raises:
            MemoryClosed: outside of `async with`.
        """
        return self.knowledge.sessions.meaning

    def _refuse_unless_open(self) -> None:
        if self._life != "open":
            raise MemoryClosed(
                "This memory is not open; use it inside `async with open_memory(...) as memory:`."
            )

    async def _health(self) -> Sequence[Finding]:
        from memory_server.knowledge.lifecycle import KnowledgeLifecycle

        findings = list(await asyncio.to_thread(self.home.examine))
        for examine in await KnowledgeLifecycle(self.knowledge).examinations():
            findings += await examine()
        findings.append(await asyncio.to_thread(self.recalls.finding))
        findings += await examine_sandbox(self.sandbox)
        return findings

    def paused(self) -> Pause | None:
        """Return the pause during which nothing is stored, if there is one now."""
        return self.runtime.paused()

    def conversation(self, conversation_id: str | None = None) -> Conversation:
        """Return the managers of a conversation, by default the usual one.

        Raises:
            InvalidInput: the id cannot be used.
            MemoryClosed: outside of `async with`.
        """
        self._refuse_unless_open()
        return self.conversations.get(conversation_id)

    async def recall_turn(
        self,
        messages: Sequence[GivenMessage],
        conversation_id: str | None = None,
        *,
        other_words: Sequence[str] = (),
        participants: Mapping[str, Any] | None = None,
        also: Sequence[str] = (),
        session: Session | None = None,
        max_chars: int = MAX_CHARS,
        flashbacks: int = 0,
        reinforce: bool = True,
        message_count: int | None = None,
    ) -> str:
        """Search the memories for the next answer, and return them marked and ready for a prompt; empty if no memory
        comes. `other_words` are up to 40 words or short texts that a memory may hold in place of the words of the
        messages. `also` has ids of further conversations. `flashbacks` is how many memories of each kind may come by
        chance. `reinforce` False leaves no trace. `message_count` is how many messages the chat has; without it, its
        recalls are counted. Raise InvalidInput if the messages are empty, or if an id, `other_words` or `flashbacks` is
        wrong."""
        self._refuse_unless_open()
        if flashbacks < 0:
            raise InvalidInput(
                "`flashbacks` is a number of memories, from 0 on; {number} is less.", flashbacks
            )

        request = RecallRequest(
            messages,
            other_words=other_words,
            participants=participants or {},
            also=[self.conversations.get(name).id for name in also],
            session=session,
            folder=self.call.folder,
            flashbacks=flashbacks,
            # A client sends what it has in its context.
            said_again=False,
            message_count=message_count,
            reinforce=reinforce,
            counts=reinforce,
            plans=reinforce and self.memories.plans is not False,
            by="recall_turn",
        )

        call = replace(self.call, session=session).in_zone(request.timezone)
        conversation = call.conversations.get(conversation_id)
        prompt = await turn_prompt(call, conversation, request, prompt_room(max_chars))
        return prompt.text

    async def import_source(
        self,
        source: str | Path | bytes,
        *,
        form: str | None = None,
        conversation_id: str | None = None,
        dry_run: bool = False,
    ) -> ImportReport:
        """Import a file or folder, or the content of a file, as `memory-server import` does. `form`: None means what
        its content shows. `dry_run`: nothing is stored. Raise InvalidInput if it cannot be read."""
        from memory_server.operations.imports import ImportRequest, form_named, import_sources
        from memory_server.operations.ports import ReadOptions, Source

        self._refuse_unless_open()
        named = Source("-", source) if isinstance(source, bytes) else Source(str(source))
        options = ReadOptions(
            form_named(form), conversation=conversation_id, programs=self.settings.programs or ""
        )
        return await import_sources(self, ImportRequest([named], options, dry_run=dry_run))

    async def export(self, form: str = "native", conversation_id: str | None = None) -> bytes:
        """Return what is stored, or a conversation of it, as a file: native, csv, markdown or pack. Raise InvalidInput
        for an unknown form."""
        from memory_server.operations.exports import ExportRequest, exported, file_content

        self._refuse_unless_open()
        stored = await exported(self, ExportRequest(conversation_id))
        return b"".join(file_content(self, stored, form))

    def server(
        self,
        resolve: Resolve | None = None,
        subscriptions: Subscriptions | None = None,
        placed: Placed | None = None,
    ) -> Server[Any]:
        """Build an MCP server of these memories. With `subscriptions` its caller ends the streams, and the sessions of
        the handshake era do not last; `resolve` returns the context of a request. With `placed`, the client is asked
        which folder is open, and from then on works in the folder and with the settings that `placed` returns for its
        roots."""
        # Half a second of imports that the other commands do not need.
        from memory_server.serving.server import build_server

        async def move(uris: Sequence[str]) -> None:
            place = None if placed is None else placed(uris)
            if place is not None:
                await self._move(*place)

        return build_server(
            resolve or (lambda _: (self._there or self).call),
            None if usual_offer(self.settings) else lambda: offered_tools(self.settings),
            read_only=self.settings.read_only,
            max_bytes=self.settings.results.max_bytes,
            hooks=self.settings.hooks,
            subscribe=subscriptions is None,
            subscriptions=subscriptions,
            node_original=self.settings.compat == "node",
            move=None if placed is None else move,
        )

    async def _move(self, folder: Path, settings: Settings) -> None:
        """Serve from now on in another folder, with the settings there, and close the view of the former folder."""
        there = CallerView(
            self.runtime, settings, session=self._session, folder=folder, vectors=self.vectors
        )
        former = self._there
        self._there = await there.__aenter__()
        if former is not None:
            await former.__aexit__()

    async def warm(self) -> None:
        """Load the dictionary, the trigger worker and numpy before the first use. A failure is only logged."""
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

    async def settle(self) -> None:
        """Do what a server does for a caller besides answering: load what the first calls need, start the collection of
        garbage, and tell of memories with outdated words."""
        from memory_server.tools import keeps_conversations

        keeps = keeps_conversations(offered_tools(self.settings))
        try:
            if keeps:
                await self.warm()
        finally:
            collect_from_now_on()
        if keeps:
            await self._tell_of_outdated_words()

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
            raise MemoryClosed(
                "This memory was opened before; make a new one with open_memory(...)."
            )
        self._life = "open"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._life = "closed"
        if self._there is not None:
            await self._there.__aexit__()
        if "_knowledge" in self.__dict__:
            await self._knowledge.aclose()


class App(CallerView):
    """A running memory, as an async context manager; nothing is opened or started before it is used.

    `runtime` lasts by default. `session`, `asker` and `folder` are as in `CallerView`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        runtime: Runtime | None = None,
        session: Session | None = None,
        asker: str = PROGRAM,
        folder: Path | None = None,
    ) -> None:
        """Make the view on `runtime`, or on a new one. Raises InvalidInput if the settings name a
        store that cannot be used."""
        super().__init__(
            runtime or Runtime(settings), settings, session=session, asker=asker, folder=folder
        )

    @classmethod
    def for_one_question(cls, settings: Settings) -> Self:
        """Make the memories for a command that reads once and ends."""
        return cls(settings, runtime=Runtime(settings, ONE_QUESTION))

    def view(
        self,
        settings: Settings,
        *,
        folder: Path,
        elsewhere: bool = False,
        session: Session | None = None,
        asker: str = PROGRAM,
    ) -> CallerView:
        """Return the view of another caller, with its own settings, who works in `folder`. `elsewhere` and `asker` are
        as in `CallerView`."""
        vectors = None
        if settings.llm == self.settings.llm:
            # A process that lasts has them at hand for all callers, and goes on after a caller has left.
            vectors = self.vectors
        return CallerView(
            self.runtime,
            settings,
            session=session,
            folder=folder,
            elsewhere=elsewhere,
            asker=asker,
            vectors=vectors,
        )

    @cached_property
    def maintenance(self) -> Maintenance:
        """The daily upkeep of these memories."""
        from memory_server.runtime.composition import maintenance_of

        return maintenance_of(self.settings, self.home, self.memories, self.recalls)

    async def serve_stdio(self, placed: Placed | None = None) -> None:
        """Serve the tools over MCP on standard input and output; opens and closes this app. `placed` as in `server`."""
        from memory_server.serving.stdio.runner import serve

        async with self:
            await serve(self.server(placed=placed), self.settle)

    async def settle(self) -> None:
        """Do what a server does besides answering, until it is cancelled: load what the first calls need, and then keep
        the schedule of the upkeep."""
        await super().settle()
        await self.keep_up()

    async def keep_up(self, maintenance: UpkeepJob | None = None) -> None:
        """Run the daily upkeep of this app, or of `maintenance`, at its time, until it is
        cancelled. Return at once if upkeep is off or the app is read-only."""
        if not self.settings.upkeep.enabled or self.settings.read_only:
            return

        # The first calls come at once, and what the schedule needs would take the interpreter from them for 0.15 s.
        await asyncio.sleep(FIRST_CALLS_SECONDS)
        from memory_server.runtime.upkeep import Jobs

        jobs = Jobs(
            maintenance or self.maintenance, self.settings.upkeep.hour, self.settings.timezone
        )
        try:
            await jobs.start()
            await asyncio.Event().wait()
        finally:
            await jobs.stop()

    async def __aexit__(self, *_: object) -> None:
        try:
            await super().__aexit__()
        finally:
            await self.runtime.aclose()


def tenants_of(view: CallerView) -> Tenants:
    """Return the tenants beside the memories of a view, each to be opened for one question."""

    def opened(where: Mapping[str, Any]) -> App:
        settings = view.settings.model_copy(update=where)
        runtime = Runtime.for_tenant(settings, view.runtime, lifetime=ONE_QUESTION)
        return App(settings, runtime=runtime)

    places = zip(view.home.tenant_names(), view.home.tenants(), strict=True)
    return {name: partial(opened, where) for name, where in places}


def open_memory(
    data_dir: str | Path | None = None,
    *,
    timezone: str | None = None,
    settings: Settings | None = None,
) -> App:
    """Make a memory for use in this process: `async with open_memory("memories", timezone="Asia/Shanghai") as memory:
    …`.

    `timezone` is where the people of the chats live, by its IANA name. `data_dir` and `timezone` override the same
    settings. To read a settings file and the environment, pass `config.load(os.environ)` as `settings`. Raise
    InvalidInput if the time zone does not exist.
    """
    chosen = settings or Settings()
    if data_dir is not None:
        chosen = chosen.model_copy(update={"data_dir": Path(data_dir)})
    if timezone is not None:
        chosen = chosen.in_zone(timezone)
    return App(chosen)


def usual_offer(settings: Settings) -> bool:
    chosen = settings.toolsets not in (None, "default")
    return not (chosen or settings.tools or settings.exclude_tools or settings.read_only)


def offered_tools(settings: Settings) -> Mapping[str, Tool]:
    """Return the tools that a client is offered. Raise InvalidInput if a name is unknown, or nothing is left."""
    from memory_server.tools import offered

    return offered(
        settings.toolsets, settings.tools, settings.exclude_tools, read_only=settings.read_only
    )
