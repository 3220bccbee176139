"""What the page changes. Each change is a form, goes through the managers as `page`, and is answered by the page that
it came from, with what was done and a way to take it back."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from starlette.responses import RedirectResponse, Response

from languages import Sentence, _, counted
from memory_server.conversations.model import place_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Family, Item
from memory_server.kernel.private import Pause
from memory_server.kernel.text import words_between_commas
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.memories import forgetting
from memory_server.operations.erasing import erase_from
from memory_server.web.taking_back import forget, item_of, mended
from memory_server.web.view import Flash, View, form_of

BY = "page"
"""How the history names what is changed here."""
_PAUSE_MS = 2 * 3_600_000
"""How long a pause from the page lasts: two hours."""
_BACK = re.compile(r"[a-z]{0,20}(?:\?[^\s#]{0,4000})?(?:#[\w-]{0,64})?")
_CHANGED = Sentence("Changed. The former text is in the history.")
_BACK_AGAIN = Sentence("Restored.")
Form = Mapping[str, list[str]]
Act = Callable[[View, Form], Awaitable[Flash]]


def first(form: Form, name: str) -> str:
    return form.get(name, [""])[0]


def acting(act: Act) -> Callable[[View], Awaitable[Response]]:
    """Return the handler of a form: `act` makes the change, and the reader is sent back to where the form
    was, which shows what `act` says. The handler raises InvalidInput if the server is read-only."""

    async def answered(view: View) -> Response:
        form = await form_of(view.request)
        if not view.writable:
            raise InvalidInput(
                "This memory server is read-only; to change something, turn off the setting `read_only`."
            )
        flash = await act(view, form)
        key = secrets.token_urlsafe(8)
        view.site.made.flashes.put(key, flash)
        return RedirectResponse(_way_back(first(form, "back"), key), 303)

    return answered


def _way_back(back: str, flash_key: str) -> str:
    """Return the address to go back to, with the key of what was done; the first page where `back` is not a page of
    ours."""
    if not _BACK.fullmatch(back):
        back = ""
    page, _hash, anchor = re.sub(r"[?&]done=[^&#]*", "", back).partition("#")
    if "?" not in page:
        page = page.replace("&", "?", 1)  # `done` was the first parameter
    separator = "&" if "?" in page else "?"
    address = f"../{page}{separator}done={flash_key}"
    if anchor:
        return f"{address}#{anchor}"
    return address


def _typed_lines(form: Form, name: str) -> str:
    """Return a text of several lines, which browsers send with `\\r\\n`."""
    return first(form, name).replace("\r\n", "\n")


async def _pin(view: View, form: Form) -> Flash:
    """Pin a memory, or end that if the form has `pinned=no`."""
    memory_id = first(form, "id")
    pinned = first(form, "pinned") != "no"
    done = await view.conversation.short_term.pin(memory_id, pinned=pinned, by=BY)
    if pinned:
        sentence = Sentence("Pinned. It is never cleaned up.")
    else:
        sentence = Sentence("No longer pinned.")
    return Flash(sentence, done.change_id, view.conversation.id, changed=memory_id)


async def _mute(view: View, form: Form) -> Flash:
    """Mute a memory in the place of the form, or end that if the form names no place."""
    memory_id = first(form, "id")
    mute_scope = first(form, "in")
    done = await view.conversation.short_term.mute(memory_id, mute_scope or None, by=BY)
    if mute_scope:
        sentence = Sentence(
            "Muted: this memory no longer comes unasked {place}.", place_text(mute_scope)
        )
    else:
        sentence = Sentence("This memory may come unasked again.")
    return Flash(sentence, done.change_id, view.conversation.id, changed=memory_id)


async def _keep_both(view: View, form: Form) -> Flash:
    memory_id = first(form, "id")
    done = await view.conversation.short_term.keep_both(memory_id, by=BY)
    sentence = Sentence("Both are true: this memory corrects no other one now.")
    return Flash(sentence, done.change_id, view.conversation.id, changed=memory_id)


async def _edit(view: View, form: Form) -> Flash:
    """Change the texts of a memory and, if the form has changed them, its other words. Raises
    MemoryNotFound, and InvalidInput if it was changed since the reader saw it, or no text is
    left."""
    texts = [text.replace("\r\n", "\n") for text in form.get("text", [])]
    before = _typed_lines(form, "before")
    memory_id = first(form, "id")
    memory = await view.conversation.short_term.memory(memory_id)
    if memory.text.replace("\r\n", "\n") == before:
        before = memory.text
    typed = first(form, "otherWords")
    other_words = None
    if "otherWords" in form and typed != ", ".join(memory.other_words):
        other_words = words_between_commas(typed)
    done = await view.conversation.short_term.edit(
        memory_id, texts, other_words=other_words, before=before, by=BY
    )
    return Flash(_CHANGED, done.change_id, view.conversation.id, changed=memory_id)


async def _named_item(view: View, form: Form) -> Item:
    """Find the memory, trigger or entry that a form names."""
    family = cast(Family, first(form, "family") or "memories")
    place = first(form, "place") or view.conversation.id
    return await item_of(view, family, place, first(form, "id"))


async def _forget(view: View, form: Form) -> Flash:
    """Put a memory, a trigger or an entry on the shelf."""
    change = await forget(view, await _named_item(view, form))
    last_day = view.speech.date(view.speech.now_ms + view.site.keep_ms)
    return Flash(
        Sentence("1 memory forgotten. It stays on the shelf until {day}.", last_day), change
    )


async def _erase(view: View, form: Form) -> Flash:
    """Erase an item for good, also from the chosen backups, and say where its text still is. Raises
    InvalidInput if the reader is not the person at the server, or if the item is not there."""
    if view.site.owner is None:
        raise InvalidInput(
            "Only the person at the server can erase for good: run `memory-server forget --for-good` there."
        )

    # Looked up again: the page may be old.
    item = await _named_item(view, form)
    erasure = await forgetting.erasure_of(view.call.memories.engines, [item])
    report = await erase_from(view.site.owner, erasure, form.get("backup", []))
    file_names = [path.name for path in report.found]
    unread = [_("{file}, which could not be searched", path.name) for path in report.unread]
    remaining_places = [*file_names, *unread, *report.damaged]
    # The reader should know that a text which was erased here can still be read elsewhere.
    if remaining_places:
        return Flash(
            Sentence("Erased here; the text is still in {places}.", ", ".join(remaining_places))
        )

    if erasure.unsearched:
        return Flash(
            Sentence(
                "Erased for good. Its text was not searched for elsewhere: it is very short, or another memory "
                "contains it."
            )
        )

    return Flash(Sentence("Erased for good. The whole folder was searched: found in 0 places."))


async def _undo(view: View, form: Form) -> Flash:
    place = first(form, "place")
    undoing = await forgetting.undo(
        view.call.memories.engines, first(form, "change"), place or None, by=BY
    )
    return Flash(Sentence("Undone."), undoing.id, place)


async def _restore(view: View, form: Form) -> Flash:
    """Bring a memory, an entry of a layer or a note back from the archive. Raises InvalidInput for
    other families, or if another entry has its name now; QuotaReached if there is no room."""
    family = first(form, "family")
    name = first(form, "id")
    view.call.memories.services.refuse_where_full()
    # Without a family it is a memory of this conversation.
    if not family:
        done = await view.conversation.archive.bring_back([name], by=BY)
        if done.in_the_way:
            raise InvalidInput(
                "Another entry has its name now, so it stays on the shelf; rename the other one first."
            )
        return Flash(_BACK_AGAIN, done.change_id, view.conversation.id, changed=name)

    knowledge = view.call.memories.knowledge
    space, _slash, owner = family.partition("/")
    if space == "layers":
        layer = knowledge.layers["global" if owner == "global" else "project"]
        await layer.restore(name, by=BY)
        return Flash(_BACK_AGAIN)

    if space == "notes":
        change = await knowledge.notes.restore(name, by=BY)
        return Flash(_BACK_AGAIN, change)

    raise InvalidInput(
        "To bring it back, undo the change that removed it; that change is in the list below."
    )


def _number(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) < 16:
        return int(text)
    raise InvalidInput("`{text}` is not the number of a fact; open it from the list.", text)


async def _edit_entry(view: View, form: Form) -> Flash:
    """Change the text of a note or of a fact of a user. Raises InvalidInput for entries of other
    families, for what is not the number of a fact, or if the note was changed meanwhile."""
    name = first(form, "id")
    body = _typed_lines(form, "text")
    space, _slash, owner = first(form, "family").partition("/")
    if space == "notes":
        change: str | None = await _edit_note(view, name, first(form, "before"), body)
    elif space == "sessions":
        sessions = view.call.memories.knowledge.sessions
        updated = await sessions.update(SessionIds(owner), _number(name), body, by=BY)
        change = updated.change_id
    else:
        raise InvalidInput(
            "Entries of this kind cannot be changed here; change them in their own file or program."
        )
    return Flash(_CHANGED, change)


async def _edit_note(view: View, name: str, before: str, body: str) -> str | None:
    """Replace the whole text of a note, which was `before` when the reader saw it. Return the id of the change, or None
    if the text is the same. Raises InvalidInput if it was changed meanwhile."""
    notes = view.call.memories.knowledge.notes
    note = await notes.get(name)
    if note.body.replace("\r\n", "\n") != before.replace("\r\n", "\n"):
        raise InvalidInput(
            "This note was changed meanwhile; look at it as it is now, and change it again."
        )
    edited = await notes.edit(name, find=note.body, replacement=body, by=BY)
    return edited.change_id


async def _promote(view: View, form: Form) -> Flash:
    await view.call.memories.knowledge.layers.promote(first(form, "id"), by=BY)
    return Flash(Sentence("All projects have this entry now."))


async def _save_trigger(view: View, form: Form) -> Flash:
    """Store a trigger, in place of one of this name, and return what was done."""
    name = first(form, "name").strip()
    prompt = _typed_lines(form, "prompt")
    code = _typed_lines(form, "code")
    stored = await view.conversation.long_term.add(name, prompt, code, by=BY)
    return Flash(
        Sentence("The trigger is saved."), stored.change_id, view.conversation.id, changed=name
    )


async def _switch_book(view: View, form: Form) -> Flash:
    """Switch a lorebook on or off, and return what was done."""
    is_on = first(form, "on") != "no"
    done = await view.conversation.books.switch(first(form, "id"), on=is_on, by=BY)
    if is_on:
        sentence = Sentence("{name} is on.", done.book.name)
    else:
        sentence = Sentence("{name} is off: none of its entries come.", done.book.name)
    return Flash(sentence, done.change_id, view.conversation.id, changed=done.book.book_id)


async def _remove_book(view: View, form: Form) -> Flash:
    done = await view.conversation.books.remove(first(form, "id"), by=BY)
    entries = counted(done.entries, "entry")
    sentence = Sentence("{name} was removed: {entries} went to the shelf.", done.book.name, entries)
    return Flash(sentence, done.change_id, view.conversation.id)


async def _pause(view: View, form: Form) -> Flash:
    """Pause memory for `_PAUSE_MS`, or end the pause if the form has `resume`. Raises InvalidInput
    if the reader is not the person at the server."""
    pauses = view.site.pauses
    if pauses is None:
        raise InvalidInput(
            "Only the person at the server can pause memory: run `memory-server pause` there."
        )
    if first(form, "resume"):
        await asyncio.to_thread(pauses.remove)
        return Flash(Sentence("Memory resumed."))
    until_ms = view.speech.now_ms + _PAUSE_MS
    await asyncio.to_thread(pauses.write, Pause(until_ms))
    end = view.speech.clock(until_ms)
    return Flash(Sentence("Memory is off until {time}: nothing is stored or recalled.", end))


async def _back_up(view: View, form: Form) -> Flash:
    view.call.memories.services.refuse_where_full()
    backup = await view.call.memories.backups.make()
    view.site.made.examinations.clear()
    return Flash(Sentence("The backup {name} was made.", backup.backup.name))


async def _mend(view: View, form: Form) -> Flash:
    carried_out = [plan for plan in await mended(view, dry_run=False) if plan.steps]
    view.site.made.examinations.clear()
    conversations = counted(len(carried_out), "conversation")
    return Flash(Sentence("Repaired: {conversations}. The former files are kept.", conversations))


async def _clean_up(view: View, form: Form) -> Flash:
    count = 0
    for engine in view.call.memories.engines:
        async for cleanup in engine.clean_up(by=BY):
            count += len(cleanup.left)
    return Flash(Sentence("Cleaned up: {memories} went to the shelf.", counted(count, "memory")))


_ALL: Mapping[str, Act] = {
    "pin": _pin,
    "mute": _mute,
    "keep_both": _keep_both,
    "mend": _mend,
    "edit": _edit,
    "forget": _forget,
    "erase": _erase,
    "undo": _undo,
    "restore": _restore,
    "edit-entry": _edit_entry,
    "promote": _promote,
    "save-trigger": _save_trigger,
    "switch-book": _switch_book,
    "remove-book": _remove_book,
    "pause": _pause,
    "backup": _back_up,
    "cleanup": _clean_up,
}
ACTIONS = {name: acting(act) for name, act in _ALL.items()}
