"""The toolset `backup`: backups in the server's own folder, and their restoring. Names, never paths."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from memory_server.kernel.times import iso
from memory_server.memories.memories import Call
from memory_server.tools.base.result import ChangeId, From, Result, undo_hint
from memory_server.tools.base.shapes import Text
from memory_server.tools.base.tool import tool
from sandbox.locale import _, counted, joined, n_

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
    leftOut: list[str] = Field(description="A sentence for each conversation that could not be read")

    def __str__(self) -> str:
        made = _(
            "Backup {name}: {conversations} with {short_term} short-term and {long_term} long-term "
            "memories, {bytes:,} bytes.",
            self.name,
            counted(self.conversations, "conversation"),
            self.shortTerm,
            self.longTerm,
            self.bytes,
        )
        return joined("\n", [made, *(_("Left out: {reason}", reason) for reason in self.leftOut)])


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
    made = await call.memories.backups.make(name, only=conversation_id)
    return BackUpResult.of(made.backup, leftOut=list(made.left_out))


class RestoredRow(Result):
    conversation_id: Annotated[str, From("place", words="Where the memories are kept")]
    added: Annotated[int, From("counts.added", words="Memories that were not there")]
    replaced: Annotated[int, From("counts.replaced", words="Memories that were there in another form")]
    removed: Annotated[int, From("counts.removed", words="Memories that the backup does not hold; with overwrite only")]
    unchanged: Annotated[int, From("counts.unchanged", words="Memories that were there as in the backup")]
    keptNewer: Annotated[
        int, From("counts.kept_newer", words="Memories left as they are, because they are newer than in the backup")
    ]
    leftOut: Annotated[
        list[str] | None,
        From(
            form=lambda left_out: list(left_out) or None, words="Each memory that is more than may be stored, and why"
        ),
    ] = None
    changeId: ChangeId = None


class RestoreResult(Result):
    conversations: list[RestoredRow] = Field(description="Those of the backup, in its order")
    dryRun: bool = Field(description="Whether this only says what would change")
    entries: int | None = Field(None, description="Notes and other entries of knowledge that came, or would")

    def __str__(self) -> str:
        lines = [_("Nothing was changed; a restore would:") if self.dryRun else _("Restored:")]
        for row in self.conversations:
            lines.append(
                _(
                    "{conversation}: {added} added, {replaced} replaced, {removed} removed, {unchanged} "
                    "unchanged, {kept_newer} newer here and kept.{undo_hint}",
                    row.conversation_id,
                    row.added,
                    row.replaced,
                    row.removed,
                    row.unchanged,
                    row.keptNewer,
                    undo_hint(row.changeId),
                )
            )
            lines += [_("Left out: {reason}.", reason) for reason in row.leftOut or ()]
        lines += (
            []
            if self.entries is None
            else [n_("knowledge: {count:,} entry.", "knowledge: {count:,} entries.", self.entries)]
        )
        return joined("\n", lines)


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
        Literal["merge", "overwrite"], "merge adds, and keeps the newer; overwrite also removes what the backup has not"
    ] = "merge",
    dry_run: Annotated[bool, "Only say what would change"] = False,
    conversation_id: Annotated[Text | None, "Only this conversation; by default all in the backup"] = None,
) -> RestoreResult:
    if not dry_run:
        call.memories.services.refuse_where_full()
    done = await call.memories.backups.restore(name, mode, dry_run=dry_run, only=conversation_id, by="restore_memories")
    rows = [each for each in done if each.keeps == "conversations"]
    entries = sum(each.counts.added for each in done if each.keeps == "knowledge") if len(done) > len(rows) else None
    return RestoreResult(conversations=RestoredRow.each(rows), dryRun=dry_run, entries=entries)


class BackupRow(Result):
    name: BackupName
    createdAt: Annotated[str, From("created_ms", iso, "When it was made")]
    bytes: FileBytes
    conversations: ConversationCount
    shortTerm: ShortTermCount
    longTerm: LongTermCount
    problem: str | None = Field(None, description="Why it cannot be used")


class ListResult(Result):
    backups: list[BackupRow] = Field(description="Newest first")

    def __str__(self) -> str:
        if not self.backups:
            return _("There is no backup yet.")
        return joined(
            "\n",
            (
                _("{about}: {what}", row.name, row.problem)
                if row.problem
                else _(
                    "{name}: {created_at}, {conversations}, {memories}, {bytes:,} bytes",
                    row.name,
                    row.createdAt,
                    counted(row.conversations, "conversation"),
                    counted(row.shortTerm + row.longTerm, "memory"),
                    row.bytes,
                )
                for row in self.backups
            ),
        )


@tool(title="List backups", description="The backups, newest first, with what they hold.", read_only=True)
async def list_backups(call: Call) -> ListResult:
    return ListResult(backups=BackupRow.each(await call.memories.backups.listed()))


class DeleteBackupResult(Result):
    remainingBackups: int = Field(description="How many backups there are still")

    def __str__(self) -> str:
        return _("Deleted; {backups} remaining.", counted(self.remainingBackups, "backup"))


@tool(title="Delete a backup", description="Delete one backup for good.", destructive=True)
async def delete_backup(call: Call, name: Annotated[Text, "Name of the backup"]) -> DeleteBackupResult:
    await call.memories.backups.delete(name)
    return DeleteBackupResult(remainingBackups=len(await call.memories.backups.listed()))
