"""The toolset `backup`: memories set aside in one folder of the server's own, and brought back. Names, never paths."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from memory_server.managers.backups import BroughtBack
from memory_server.managers.context import Context
from memory_server.tools.base.shapes import ChangeId, Text, counted, time_text, undo_hint
from memory_server.tools.base.tool import Arguments, Result, Tool

BackupName = Annotated[str, Field(description="Name of the backup")]
FileBytes = Annotated[int, Field(description="Size of its file in bytes")]
ConversationCount = Annotated[int, Field(description="Conversations in it")]
ShortTermCount = Annotated[int, Field(description="Short-term memories in it")]
LongTermCount = Annotated[int, Field(description="Long-term memories in it")]


class BackUpArguments(Arguments):
    name: Text | None = Field(None, description="Letters, digits, `_`, `-`; by default the time")
    conversation_id: Text | None = Field(None, description="Only this conversation; by default all")


class BackUpResult(Result):
    name: BackupName
    bytes: FileBytes
    conversations: ConversationCount
    shortTerm: ShortTermCount
    longTerm: LongTermCount
    leftOut: list[str] = Field(description="A sentence for each conversation that could not be read")


async def _back_up(context: Context, arguments: BackUpArguments) -> BackUpResult:
    made = await context.backups.make(arguments.name, only=arguments.conversation_id)
    backup = made.backup
    return BackUpResult(
        name=backup.name,
        bytes=backup.size_bytes,
        conversations=backup.conversations,
        shortTerm=backup.short_term,
        longTerm=backup.long_term,
        leftOut=list(made.left_out),
    )


def _back_up_text(result: BackUpResult) -> str:
    made = (
        f"Backup {result.name}: {counted(result.conversations, 'conversation')} with {result.shortTerm} short-term and "
        f"{result.longTerm} long-term memories, {result.bytes:,} bytes."
    )
    return "\n".join([made, *(f"Left out: {reason}" for reason in result.leftOut)])


class RestoreArguments(Arguments):
    name: Text = Field(description="Name of the backup")
    mode: Literal["merge", "overwrite"] = Field(
        "merge", description="merge adds, and keeps the newer; overwrite also removes what the backup has not"
    )
    dry_run: bool = Field(False, description="Only say what would change")
    conversation_id: Text | None = Field(None, description="Only this conversation; by default all in the backup")


class Restored(Result):
    conversation_id: str = Field(description="Where the memories are kept")
    added: int = Field(description="Memories that were not there")
    replaced: int = Field(description="Memories that were there in another form")
    removed: int = Field(description="Memories that the backup does not hold; with overwrite only")
    unchanged: int = Field(description="Memories that were there as in the backup")
    keptNewer: int = Field(description="Memories left as they are, because they are newer than in the backup")
    leftOut: list[str] | None = Field(None, description="Each memory that is more than may be stored, and why")
    changeId: ChangeId = None


class RestoreResult(Result):
    conversations: list[Restored] = Field(description="Those of the backup, in its order")
    dryRun: bool = Field(description="Whether this only says what would change")


def _restored(one: BroughtBack) -> Restored:
    tally = one.tally
    return Restored(
        conversation_id=one.conversation_id,
        added=tally.added,
        replaced=tally.replaced,
        removed=tally.removed,
        unchanged=tally.unchanged,
        keptNewer=tally.kept_newer,
        leftOut=list(one.left_out) or None,
        changeId=one.change_id,
    )


async def _restore(context: Context, arguments: RestoreArguments) -> RestoreResult:
    done = await context.backups.restore(
        arguments.name,
        arguments.mode,
        dry_run=arguments.dry_run,
        only=arguments.conversation_id,
        by="restore_memories",
    )
    return RestoreResult(conversations=list(map(_restored, done)), dryRun=arguments.dry_run)


def _restore_text(result: RestoreResult) -> str:
    opening = "Nothing was changed; a restore would:" if result.dryRun else "Restored:"
    lines = [opening]
    for row in result.conversations:
        lines.append(
            f"{row.conversation_id}: {row.added} added, {row.replaced} replaced, {row.removed} removed, "
            f"{row.unchanged} unchanged, {row.keptNewer} newer here and kept.{undo_hint(row)}"
        )
        lines += [f"Left out: {reason}." for reason in row.leftOut or ()]
    return "\n".join(lines)


class NoArguments(Arguments):
    pass


class BackupRow(Result):
    name: BackupName
    createdAt: str = Field(description="When it was made")
    bytes: FileBytes
    conversations: ConversationCount
    shortTerm: ShortTermCount
    longTerm: LongTermCount
    problem: str | None = Field(None, description="Why it cannot be used")


class ListResult(Result):
    backups: list[BackupRow] = Field(description="Newest first")


async def _list(context: Context, arguments: NoArguments) -> ListResult:
    return ListResult(
        backups=[
            BackupRow(
                name=backup.name,
                createdAt=time_text(backup.created_ms) or "",
                bytes=backup.size_bytes,
                conversations=backup.conversations,
                shortTerm=backup.short_term,
                longTerm=backup.long_term,
                problem=backup.problem,
            )
            for backup in await context.backups.listed()
        ]
    )


def _list_text(result: ListResult) -> str:
    if not result.backups:
        return "There is no backup yet."
    return "\n".join(
        f"{row.name}: {row.problem}"
        if row.problem
        else f"{row.name}: {row.createdAt}, {counted(row.conversations, 'conversation')}, "
        f"{counted(row.shortTerm + row.longTerm, 'memory')}, {row.bytes:,} bytes"
        for row in result.backups
    )


class DeleteBackupArguments(Arguments):
    name: Text = Field(description="Name of the backup")


class DeleteBackupResult(Result):
    remainingBackups: int = Field(description="How many backups there are still")


async def _delete(context: Context, arguments: DeleteBackupArguments) -> DeleteBackupResult:
    await context.backups.delete(arguments.name)
    return DeleteBackupResult(remainingBackups=len(await context.backups.listed()))


BACKUP: tuple[Tool, ...] = (
    Tool(
        name="backup_memories",
        title="Back up memories",
        description="Set a copy of all memories aside in the server's folder for backups, while others go on writing.",
        arguments=BackUpArguments,
        result=BackUpResult,
        run=_back_up,
        text=_back_up_text,
    ),
    Tool(
        name="restore_memories",
        title="Restore a backup",
        description=(
            "Bring the memories of a backup back. Look with dry_run first, and ask before you overwrite. "
            "The backup is checked before anything changes."
        ),
        arguments=RestoreArguments,
        result=RestoreResult,
        run=_restore,
        text=_restore_text,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="list_backups",
        title="List backups",
        description="The backups, newest first, with what they hold.",
        arguments=NoArguments,
        result=ListResult,
        run=_list,
        text=_list_text,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="delete_backup",
        title="Delete a backup",
        description="Delete one backup for good.",
        arguments=DeleteBackupArguments,
        result=DeleteBackupResult,
        run=_delete,
        text=lambda r: f"Deleted; {counted(r.remainingBackups, 'backup')} remaining.",
        destructive=True,
    ),
)
