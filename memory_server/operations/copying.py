"""Copy conversations with their versions and their past, and all else that a store keeps, to another store
(`copy_store`).

Nothing is merged: what differs in the target stays as it is, and is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from languages import _, counted, n_
from memory_server.conversations.contents import holds_erased
from memory_server.conversations.model import ConversationState, conversation_id_of, short_term_mark
from memory_server.conversations.ports import Line, RecallLog
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.items import Scope
from memory_server.kernel.recorded_recall import recorded_recall
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge import erasing
from memory_server.knowledge.entry import EVERYTHING, Entry, Operation
from memory_server.knowledge.ports import EntryStore
from memory_server.operations.ports import HomeOfMemories, Progress


class Homes(Protocol):
    """The homes of a store."""

    def owner(self) -> AbstractAsyncContextManager[HomeOfMemories]: ...

    def tenant(self, name: str) -> AbstractAsyncContextManager[HomeOfMemories]:
        """Open the home of a tenant, while the home of the owner is open."""


@frozen
class CopyRequest:
    """A request to copy all of a store to another one, or only these `conversations`, or only the memories of a
    `tenant`. `known_tenants` are names that tenants may have whose folder does not tell the whole name."""

    source: Homes
    target: Homes
    conversations: Sequence[str] = ()
    tenant: str | None = None
    known_tenants: Sequence[str] = ()
    dry_run: bool = False


@frozen
class CopyStep:
    """A sentence about a part of a store. `is_fault` means that it was not copied, and the target does not have it in
    the same form."""

    sentence: str
    is_fault: bool = False


@dataclass(slots=True)
class CopyReport:
    """The result of a copy. `present` counts the conversations that the target already had in the same form.
    `not_copied` names what was not copied and is not in the target in the same form."""

    conversations: int = 0
    present: int = 0
    tenants: int = 0
    not_copied: list[str] = field(default_factory=list)
    steps: list[CopyStep] = field(default_factory=list)

    def say(self, sentence: str, *, is_fault: bool = False) -> None:
        self.steps.append(CopyStep(sentence, is_fault))


async def copy_store(request: CopyRequest, progress: Progress) -> CopyReport:
    """Copy conversations and, unless conversations are named, also the knowledge, the record of recalls, the questions
    of `examine`, the tombstones and every tenant. What cannot be copied is in the report. Raises InvalidInput if both
    stores are the same, or if a conversation or tenant does not exist."""
    report = CopyReport()
    async with request.source.owner() as source, request.target.owner() as target:
        # A copy onto itself would find everything present and look complete.
        if source.shown == target.shown:
            raise InvalidInput(
                "Both stores are {place}; give another one as --from or --to.", source.shown
            )

        tenants = source.tenant_names([*request.known_tenants, *target.tenant_names()])

        if request.tenant is None:
            await _HomeCopy(source, target, request, report, progress).run()
            if request.conversations:
                tenants = []  # a conversation without a tenant is the owner's
        elif source.has_tenant(request.tenant):
            tenants = [request.tenant]
        else:
            raise InvalidInput(
                "There is no tenant {tenant}; the tenants are: {known}.",
                request.tenant,
                ", ".join(tenants) or _("none"),
            )

        if tenants and target.is_of_a_tenant:
            sentence = _(
                "{place} is the home of a tenant, which cannot have tenants.", target.shown
            )
            report.say(sentence, is_fault=True)
            report.not_copied += tenants
            return report

        for name in tenants:
            # The folder of a tenant does not always tell its whole name.
            if not source.has_tenant(name):
                sentence = _(
                    "The whole name of the tenant {name} is not known; copy it with --tenant NAME.",
                    name,
                )
                report.say(sentence, is_fault=True)
                report.not_copied.append(name)
                continue
            async with (
                request.source.tenant(name) as tenants_source,
                request.target.tenant(name) as tenants_target,
            ):
                copy = _HomeCopy(tenants_source, tenants_target, request, report, progress, name)
                await copy.run()
            if not request.dry_run:
                target.note_tenant(name)
            report.tenants += 1
    return report


@dataclass(eq=False)
class _HomeCopy:
    """The copy of a home; `tenant` is None for the home of the owner."""

    _source: HomeOfMemories
    _target: HomeOfMemories
    _request: CopyRequest
    _report: CopyReport
    _progress: Progress
    _tenant: str | None = None

    async def run(self) -> None:
        """Copy the named conversations, or everything if no conversation is named. Raises InvalidInput if a named one
        does not exist."""
        stored = await self._source.conversations.conversations()
        names = [conversation_id_of(name) for name in self._request.conversations] or stored

        missing = sorted(set(names) - set(stored))
        if missing:
            raise InvalidInput(
                "There is no conversation {name} in {place}.", missing[0], self._source.shown
            )

        present = set(await self._target.conversations.conversations())
        with self._progress(_("copying"), len(names)) as advance:
            for name in names:
                await self._copy_conversation(name, present=name in present)
                advance()

        if self._request.conversations:
            return

        await self._copy_part(_("the knowledge"), self._copy_knowledge())
        for name, source, target in (
            (_("the record of recalls"), self._source.recalls, self._target.recalls),
            (_("the file of questions"), self._source.questions, self._target.questions),
        ):
            await self._copy_part(name, asyncio.to_thread(self._copy_lines, name, source, target))
        if not self._request.dry_run:
            await self._copy_part(
                _("the record of erased texts"), asyncio.to_thread(self._copy_erased)
            )

    def _named(self, part: str) -> str:
        """Name a part of the source, such as a conversation, for people."""
        if self._tenant is None:
            return part
        return _("{part} of {tenant}", part, self._tenant)

    def _refuse(self, sentence: str) -> bool:
        """Report why a part is not copied."""
        self._report.say(sentence, is_fault=True)
        return False

    def _refuse_erased(self, name: str) -> bool:
        """Report that something was not copied, because it holds erased text. Return False."""
        return self._refuse(
            _(
                "{name} was not copied: it contains text that was erased for good in {place}. Export it and "
                "import it there; the import leaves that text out.",
                name,
                self._target.shown,
            )
        )

    async def _copy_part(self, name: str, copying: Awaitable[bool]) -> None:
        """Await the copy of a part of a home, and report it if it failed or the target does not have it: a part that
        cannot be read must not keep the others from being copied."""
        try:
            is_there = await copying
        except (StorageError, InvalidInput) as error:
            is_there = self._refuse(_("{name} was not copied: {reason}", self._source.shown, error))
        if not is_there:
            self._report.not_copied.append(self._named(name))

    async def _copy_conversation(self, name: str, *, present: bool) -> None:
        """Copy a conversation with its history if the target has none of this name (`present`).
        Copy nothing, and report it, if it is there already, differs there, was erased there, or if
        a store cannot be read or written."""
        source = self._source
        target = self._target
        shown = self._named(name)

        try:
            source.refuse_newer(name)
            commits = await source.conversations.history(name, limit=2**31)
            state = await source.conversations.read(name)

            past = [commit for commit in reversed(commits) if commit.version <= state.version]
            present_state = ConversationState(name)
            erased = False
            if present:
                present_state = await target.conversations.read(name)
            else:
                changes = [change for commit in past for change in commit.changes]

                # What the target erased for good must not come back through a copy.
                erased = await asyncio.to_thread(holds_erased, state, changes, target.erased.holds)

            # A conversation of this name in the target is never changed.
            adopted = not present and not erased
            if adopted and not self._request.dry_run:
                adopted = await target.conversations.adopt(name, state, past)
        except StorageError as error:
            self._refuse(_("{name} was not copied: {reason}", shown, error))
            self._report.not_copied.append(shown)
            return

        if adopted:
            text = n_(
                "{name} was copied: {count} change.",
                "{name} was copied: {count} changes.",
                len(past),
                shown,
            )
            if self._request.dry_run:
                text = n_(
                    "{name} would be copied: {count} change.",
                    "{name} would be copied: {count} changes.",
                    len(past),
                    shown,
                )
            self._report.say(text)
            self._report.conversations += 1
        elif not erased and present_state == state:
            self._report.say(_("{name} is already in the other store.", shown))
            self._report.present += 1
        else:
            self._report.not_copied.append(shown)
            if erased:
                self._refuse_erased(shown)
                return
            self._refuse(
                _(
                    "{name} was not copied: the other store has a different one of this name (version {there} "
                    "there, {here} here); nothing is merged.",
                    shown,
                    present_state.version,
                    state.version,
                )
            )

    async def _copy_knowledge(self) -> bool:
        """Copy notes and other entries with their past and their numbers into a store that has none. Return whether the
        target has them now."""
        source = self._source.entries(durability="full", cache_mb=16)
        target = self._target.entries(durability="full", cache_mb=16)
        name = self._named(_("knowledge"))

        try:
            contents = await _contents(source)
            present = await _contents(target)
            count = counted(sum(map(len, contents.entries.values())), "entry")
            if present == contents:
                if any(contents.entries.values()):
                    self._report.say(_("{name} is already in the other store.", name))
                return True

            if not present.entries:
                if await erasing.holds_erased(source, self._target.erased.holds):
                    return self._refuse_erased(self._named(_("the knowledge")))

                if self._request.dry_run:
                    self._report.say(_("{name} would be copied: {count}.", name, count))
                    return True

                # The whole database is copied, so that numbers and history stay.
                with TemporaryDirectory() as folder:
                    path = Path(folder, "knowledge.sqlite3")
                    await source.copy_to(path)
                    if await target.adopt(path):
                        self._report.say(_("{name} copied: {count}.", name, count))
                        return True

            return self._refuse(
                _(
                    "The {name} was not copied: the other store already has some, and it differs; nothing is "
                    "merged.",
                    name,
                )
            )
        finally:
            await source.aclose()
            await target.aclose()

    def _copy_lines(self, name: str, source: RecallLog, target: RecallLog) -> bool:
        """Copy the recalls or the questions of `source` if `target` has none. Return whether the target has all of
        them now."""
        present_lines = {json_text.dumps(line) for line in target.lines()}
        lines = source.lines()
        erased = self._target.erased
        coming = [line for line in lines if not erased.holds(_marks_in(line))]

        left_out = len(lines) - len(coming)
        if left_out:
            self._report.say(
                n_(
                    "{count} recall was left out: it contains text that was erased for good in {place}",
                    "{count} recalls were left out: they contain text that was erased for good in {place}",
                    left_out,
                    self._target.shown,
                ),
                is_fault=True,
            )

        lacking = [line for line in coming if json_text.dumps(line) not in present_lines]

        # Records of two homes cannot be told apart once they are mixed.
        if lacking and present_lines:
            return self._refuse(
                _(
                    "{name} was not copied: the other store already has one, and it differs; nothing is merged.",
                    name.capitalize(),
                )
            )

        if not self._request.dry_run:
            target.append(*lacking)
        return True

    def _copy_erased(self) -> bool:
        """Copy the record of erased texts, so that they do not come back. Return False, and report
        it, if the target has a record of its own."""
        key, hashes = self._source.erased.known()
        target = self._target
        if not key or hashes <= target.erased.known()[1] or target.erased.adopt(key, hashes):
            return True
        return self._refuse(
            _(
                "The record of erased texts was not copied from {place} to {other}, which has one of its own.",
                self._source.shown,
                target.shown,
            )
        )


@frozen
class _Contents:
    """All that a store of entries holds, in a form that can be compared."""

    entries: dict[Scope, list[Entry]]
    operations: list[tuple[Scope, Operation]]


async def _contents(store: EntryStore) -> _Contents:
    entries = {}
    for scope in await store.scopes():
        entries[scope] = await store.read(
            scope, lambda view: view.entries(EVERYTHING, order="oldest")
        )
    return _Contents(entries, await store.operations(limit=2**31))


def _marks_in(line: Line) -> list[str]:
    """Return the texts and marks in a line of a recall that tombstones may know."""
    recall = recorded_recall(line)
    items = (*recall.came, *recall.near)
    marks = [short_term_mark(item.id, item.conversation) for item in items if item.is_memory]
    return [recall.said, *marks]
