"""The toolset `backup`: backups in the server's own folder, and their restoring. Names, never paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from languages import _, counted, joined, n_
from memory_server.kernel.backups import MergeCounts
from memory_server.kernel.lifecycle import RestoredPlace
from memory_server.kernel.times import iso
from memory_server.memories.backups import BackupResult
from memory_server.memories.memories import Call
from memory_server.tools.base.result import ChangeId, From, Result, or_none, undo_hint, when
from memory_server.tools.base.shapes import Text
from memory_server.tools.base.tool import tool

BackupName = Annotated[str, Field(description="Name of the backup")]
FileBytes = Annotated[int, From("size_bytes"), Field(description="Size of its file in bytes")]
ConversationCount = Annotated[int, Field(description="Conversations in it")]
ShortTermCount = Annotated[int, Field(description="Short-term memories in it")]
LongTermCount = Annotated[int, Field(description="Long-term memories in it")]


class BackUpResult(Result):
    name: BackupName
    bytes: FileBytes
    conversations: ConversationCount
    shortTerm: ShortTermCount
    longTerm: LongTermCount
    entries: int | None = Field(
        None, description="Notes and other entries of knowledge, beside the conversations"
    )
    leftOut: list[str] = Field(
        description="A sentence for each conversation that could not be read"
    )

    def __str__(self) -> str:
        """Say what the backup holds, with a line for each thing that was left out."""
        entries = ""
        if self.entries:
            entries = n_(
                " Beside it {count:,} note or other entry.",
                " Beside it {count:,} notes and other entries.",
                self.entries,
            )

        sentence = _(
            "Backup {name}: {conversations} with {short_term} short-term and {long_term} long-term "
            "memories, {bytes:,} bytes.{entries}",
            self.name,
            counted(self.conversations, "conversation"),
            self.shortTerm,
            self.longTerm,
            self.bytes,
            entries,
        )

        left_out = [_("Left out: {reason}", reason) for reason in self.leftOut]
        return "\n".join([sentence, *left_out])


def backup_result(backup: BackupResult) -> BackUpResult:
    """Return what a backup holds, and what had to be left out."""
    return BackUpResult.of(
        backup.backup, entries=backup.entries or None, leftOut=list(backup.left_out)
    )


@tool(
    title="Back up memories",
    description="Set a copy of all memories aside in the server's folder for backups, while others go on writing.",
)
async def backup_memories(
    call: Call,
    name: Annotated[Text | None, "Letters, digits, `_`, `-`; by default the time"] = None,
    conversation_id: Annotated[Text | None, "Only this conversation; by default all"] = None,
) -> BackUpResult:
    call.memories.services.refuse_where_full()
    backup = await call.memories.backups.make(name, only=conversation_id)
    return backup_result(backup)


LeftOut = Annotated[
    list[str] | None,
    From(form=or_none, words="Each memory that is more than may be stored, and why"),
]


def tally_text(counts: MergeCounts) -> str:
    """Return what a restore or an import did with memories, such as `3 new, 1 replaced`."""
    added = _("{count} new", counts.added)
    if counts.forgotten:
        added = _(
            "{count} new, {forgotten} of them forgotten before", counts.added, counts.forgotten
        )

    all_parts = (
        (counts.added, added),
        (counts.replaced, _("{count} replaced", counts.replaced)),
        (counts.removed, _("{count} removed", counts.removed)),
        (counts.unchanged, _("{count} unchanged", counts.unchanged)),
        (counts.kept_newer, _("{count} newer here and kept", counts.kept_newer)),
    )

    parts = [part for count, part in all_parts if count]
    if not parts:
        return _("nothing")
    return joined(", ", parts)


class RestoredRow(Result):
    conversation_id: Annotated[str, From("place", words="Where the memories are kept")]
    added: Annotated[int, From("counts.added", words="Memories that were not there")]
    replaced: Annotated[
        int, From("counts.replaced", words="Memories that were there in another form")
    ]
    removed: Annotated[
        int,
        From("counts.removed", words="Memories that the backup does not hold; with overwrite only"),
    ]
    unchanged: Annotated[
        int, From("counts.unchanged", words="Memories that were there as in the backup")
    ]
    keptNewer: Annotated[
        int,
        From(
            "counts.kept_newer",
            words="Memories left as they are, because they are newer than in the backup",
        ),
    ]
    forgottenBefore: Annotated[
        int | None,
        From(
            "counts.forgotten",
            or_none,
            "Of `added`, those that were forgotten or deleted here before",
        ),
    ] = None
    leftOut: LeftOut = None
    changeId: ChangeId = None

    def tally(self) -> str:
        """Return what the restore did with the memories of this conversation, such as `3 new, 1 replaced`."""
        return tally_text(
            MergeCounts(
                added=self.added,
                replaced=self.replaced,
                removed=self.removed,
                unchanged=self.unchanged,
                kept_newer=self.keptNewer,
                forgotten=self.forgottenBefore or 0,
            )
        )


class RestoredEntries(Result):
    place: Annotated[str, Field(description="Such as `notes`")]
    entries: Annotated[int, From("counts.added", words="Entries that came, or would")]
    leftOut: LeftOut = None
    changeId: ChangeId = None


class RestoreResult(Result):
    conversations: list[RestoredRow] = Field(description="Those of the backup, in its order")
    dryRun: bool = Field(description="Whether this only says what would change")
    entries: int | None = Field(
        None, description="Notes and other entries of knowledge that came, or would"
    )
    knowledge: list[RestoredEntries] | None = Field(
        None, description="The same for each place of them"
    )

    def __str__(self) -> str:
        """List the places that were restored or would be, each with what was left out."""
        lines = [_("Nothing was changed; a restore would:") if self.dryRun else _("Restored:")]
        for row in self.conversations:
            lines.append(
                _(
                    "{place}: {entries}.{undo_hint}",
                    row.conversation_id,
                    row.tally(),
                    undo_hint(row.changeId),
                )
            )
            lines += [_("Left out: {reason}.", reason) for reason in row.leftOut or ()]

        for place in self.knowledge or ():
            count = counted(place.entries, "entry")
            lines.append(
                _("{place}: {entries}.{undo_hint}", place.place, count, undo_hint(place.changeId))
            )
            lines += [_("Left out: {reason}.", reason) for reason in place.leftOut or ()]

        return "\n".join(lines)


def restore_result(restored: Iterable[RestoredPlace], *, dry_run: bool) -> RestoreResult:
    """Return what a restore changed in each place, or would change."""
    places = list(restored)
    knowledge = RestoredEntries.each(place for place in places if place.keeps == "knowledge")
    entries = sum(place.entries for place in knowledge) if knowledge else None
    return RestoreResult(
        conversations=RestoredRow.each(place for place in places if place.keeps == "conversations"),
        dryRun=dry_run,
        entries=entries,
        knowledge=knowledge or None,
    )


@tool(
    title="Restore a backup",
    description=(
        "Bring the memories of a backup back. Look with dry_run first, and ask before you overwrite. "
        "The backup is checked before anything changes."
    ),
    destructive=True,
    idempotent=True,
)
async def restore_memories(
    call: Call,
    name: Annotated[Text, "Name of the backup"],
    mode: Annotated[
        Literal["merge", "overwrite"],
        "merge adds, and keeps the newer; overwrite also removes what the backup has not",
    ] = "merge",
    dry_run: Annotated[bool, "Only say what would change"] = False,
    conversation_id: Annotated[
        Text | None, "Only this conversation; by default all in the backup"
    ] = None,
) -> RestoreResult:
    if not dry_run:
        call.memories.services.refuse_where_full()
    restored = await call.memories.backups.restore(
        name, mode, dry_run=dry_run, only=conversation_id, by="restore_memories"
    )
    return restore_result(restored, dry_run=dry_run)


class BackupRow(Result):
    name: BackupName
    createdAt: Annotated[str, From("created_ms", iso, "When it was made")]
    bytes: FileBytes
    conversations: ConversationCount
    shortTerm: ShortTermCount
    longTerm: LongTermCount
    problem: str | None = Field(None, description="Why it cannot be used")

    def __str__(self) -> str:
        if self.problem:
            return _("{about}: {what}", self.name, self.problem)
        return _(
            "{name}: {created_at}, {conversations}, {memories}, {bytes:,} bytes",
            self.name,
            when(self.createdAt),
            counted(self.conversations, "conversation"),
            counted(self.shortTerm + self.longTerm, "memory"),
            self.bytes,
        )


class ListResult(Result):
    backups: list[BackupRow] = Field(description="Newest first")

    def __str__(self) -> str:
        if not self.backups:
            return _("There is no backup yet.")
        return "\n".join(map(str, self.backups))


@tool(
    title="List backups",
    description="The backups, newest first, with what they hold.",
    read_only=True,
)
async def list_backups(call: Call) -> ListResult:
    return ListResult(backups=BackupRow.each(await call.memories.backups.listed()))


class DeleteBackupResult(Result):
    remainingBackups: int = Field(description="How many backups there are still")

    def __str__(self) -> str:
        return _("Deleted; {backups} remaining.", counted(self.remainingBackups, "backup"))


@tool(title="Delete a backup", description="Delete one backup for good.", destructive=True)
async def delete_backup(
    call: Call, name: Annotated[Text, "Name of the backup"]
) -> DeleteBackupResult:
    await call.memories.backups.delete(name)
    return DeleteBackupResult(remainingBackups=len(await call.memories.backups.listed()))
