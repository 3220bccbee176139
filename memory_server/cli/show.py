"""Show everything that is known about one memory, trigger or entry (`show`)."""

from __future__ import annotations

from argparse import Namespace
from datetime import tzinfo

from rich.text import Text

from languages import N_, _, joined
from languages.columns import padded
from memory_server.cli.inspection import for_each_conversation, with_id
from memory_server.cli.terminal import console, escape, spoken, time_text
from memory_server.conversations import codec
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.items import OF_CONVERSATIONS, Scope
from memory_server.kernel.other_words import found_by_text
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.streams import write
from memory_server.kernel.values import JsonObject, frozen
from memory_server.kernel.work import Work
from memory_server.knowledge.entry import Entry, json_of
from memory_server.lore import LongTermMemory
from memory_server.memories.reasons import age_at, keywords_of, plan_of, weighted_words
from memory_server.operations.whereabouts import SHOWN_NAMES, whereabouts
from memory_server.runtime.app import CallerView
from nlp import is_kept

MOST = 100
"""Most memories at once: a longer list is not read, and the other tenants of a server wait meanwhile."""


@frozen
class _Record:
    """A memory, trigger or entry, as text with markup for people and as a row for programs."""

    markup: str
    row: JsonObject


async def show(view: CallerView, flags: Namespace) -> None:
    """Show everything that is known about the memories, triggers and entries with this id or name.
    Raises MemoryNotFound if nothing has it."""
    records: list[_Record] = []
    if flags.family is None or flags.family in OF_CONVERSATIONS:
        records += await _records_of_conversations(view, flags)

    if flags.family not in OF_CONVERSATIONS and not hasattr(flags, "conversation"):
        try:
            scope, entry = await view.knowledge.found(flags.memory)
        except MemoryNotFound:
            # Not an error yet: a memory of a conversation may have this id.
            pass
        else:
            if flags.family in (None, scope.space):
                row = _row(scope.space, place_text(scope), json_of(entry))
                records.append(_Record(entry_text(view, scope, entry), row))

    if not records:
        raise MemoryNotFound(
            "No memory has the id or name `{memory}`; {whereabouts}",
            flags.memory,
            await whereabouts(view),
        )

    for record in records:
        if flags.json:
            write(record.row)
        else:
            console().print(Text.from_markup(record.markup))


async def _records_of_conversations(view: CallerView, flags: Namespace) -> list[_Record]:
    """Return the memories whose id begins with `flags.memory`, then the triggers of this name. Raises InvalidInput if
    too many memories match."""
    matches = await with_id(view, flags, flags.memory)
    if len(matches) > MOST:
        ids = ", ".join(match.memory.id for match in matches[:SHOWN_NAMES])
        raise InvalidInput(
            "{found} memories have an id that begins with `{memory}` ({ids}); write more of it.",
            len(matches),
            flags.memory,
            ids,
        )

    records: list[_Record] = []

    if flags.family != "triggers":
        for match in matches:
            memory = match.memory
            fields = codec.short_term_json(memory) | {"keywords": keywords_of(memory)}
            row = _row("memories", match.conversation.id, fields)
            records.append(_Record(_short_term(view, match.conversation.id, memory), row))

    async def look(conversation: Conversation) -> None:
        if flags.family == "memories":
            return
        for trigger in await conversation.long_term.memories():
            if trigger.name == flags.memory:
                row = _row("triggers", conversation.id, codec.long_term_json(trigger))
                records.append(_Record(_long_term(view, conversation.id, trigger), row))

    await for_each_conversation(view, flags, _("looking"), look)
    return records


def _row(family: str, place_name: str, fields: JsonObject) -> JsonObject:
    return {"family": family, "place": place_name, **fields}


def _short_term(view: CallerView, conversation_id: str, memory: ShortTermMemory) -> str:
    """Describe a memory as markup: time, score, words, plan, corrections and work, and then its
    text."""
    age = age_at(memory, view.clock())
    pinned = ""
    if memory.pinned:
        pinned = _(", pinned")

    words = ", ".join(
        f"{word} {weight:.1f}" for word, weight in weighted_words(memory) if not is_kept(word)
    )

    head = _(
        "[bold]short-term memory {id}[/] in {conversation}\n"
        "time      {time} ({age} ago)\n"
        "score     {score:g}{pinned}\n"
        "keywords  {words}",
        memory.id,
        escape(conversation_id),
        time_text(memory.time_ms, view.zone),
        age,
        memory.score,
        pinned,
        escape(words) or _("none"),
    )

    other_words = found_by_text(memory.other_words)
    about = plan_of(memory, view.memories.services.day_notes)
    corrected = ""
    if memory.corrects:
        corrected = _("corrects  {ids}", ", ".join(older.id for older in memory.corrects))

    done = "\n".join(escape(line) for line in work_lines(memory.work))
    text = view.memories.services.day_notes.within(memory.text, memory.time_ms)

    return "\n".join(
        filter(None, (head, about, corrected, done, escape(other_words), escape(spoken(text))))
    )


def work_lines(work: Work) -> list[str]:
    """Describe what was done in a turn: a line for the files, and one for each command."""
    lines: list[str] = []
    if work.touched:
        lines.append(_("changed   {files}", one_line(", ".join(work.touched))))
    for failure in work.failed:
        words = one_line(" ".join(failure.words))
        status = "" if failure.status is None else str(failure.status)
        command = one_line(failure.command)
        lines.append(_("failed    `{command}` {status}: `{words}`", command, status, words))
    return lines


def _long_term(view: CallerView, conversation_id: str, memory: LongTermMemory) -> str:
    """Describe a trigger as markup: times, source, prompt, and what it arose from."""
    zone = view.zone
    updated = ""
    if memory.updated_ms:
        updated = _(", updated {time}", time_text(memory.updated_ms, zone))

    head = _(
        "[bold]long-term memory {name}[/] in {conversation}\ncreated   {time}{updated}",
        escape(memory.name),
        escape(conversation_id),
        time_text(memory.created_ms, zone),
        updated,
    )

    lines = [head]
    lines.append(f"{padded('trigger', 9)} {escape(memory.trigger)}")
    lines.append(f"{padded('prompt', 9)} {escape(memory.prompt)}")
    if memory.created_context:
        lines.append(_("arose from"))
        lines.append(escape(memory.created_context))
    return "\n".join(lines)


def place_text(scope: Scope, *more: str) -> str:
    return "/".join(filter(None, (scope.space, scope.owner, *more)))


def entry_text(view: CallerView, scope: Scope, entry: Entry) -> str:
    """Describe an entry as markup: its title, its facts that have a value, its text and its examples."""
    lines = [f"[bold]{escape(entry.title or entry.ref)}[/]"]
    for name, value in _facts(scope, entry, view.zone).items():
        if value:
            lines.append(f"{padded(name, 11)}{escape(str(value))}")
    text = "\n\n".join((entry.body, *entry.examples))
    lines += ["", escape(text)]
    return "\n".join(lines)


def _facts(scope: Scope, entry: Entry, zone: tzinfo | None) -> dict[str, object]:
    """Return the facts of an entry by their shown names; a fact without a value is not shown."""
    facts: dict[str, object] = {}
    if scope.space == "layers":
        facts[_("file")] = entry.ref
    else:
        facts[_("number")] = entry.id
        facts[_("id")] = entry.ref

    facts[_("where")] = place_text(scope, entry.kind)
    facts[_("project")] = entry.project
    facts[_("tags")] = ", ".join(entry.tags)
    facts[_("source")] = entry.source
    if entry.uses:
        facts[_("used")] = _(
            "{uses} times, last {time}", entry.uses, time_text(entry.accessed_ms, zone)
        )

    facts[_("confidence")] = f"{entry.confidence:g}"
    facts[_("made")] = time_text(entry.created_ms, zone)
    facts[_("changed")] = _(
        "{time}, version {version}", time_text(entry.updated_ms, zone), entry.version
    )

    if entry.expires_ms:
        facts[_("ends")] = time_text(entry.expires_ms, zone)
    if entry.archived_ms:
        reason = _(entry.reason or N_("unused"))
        facts[_("archived")] = joined(", ", (time_text(entry.archived_ms, zone), reason))
    return facts
