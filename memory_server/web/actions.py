"""What the page changes. Each change is a form, goes through the managers as `page`, and is answered by the page that
it came from, with what was done and a way to take it back."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from starlette.responses import RedirectResponse, Response

from memory_server.conversations.model import place_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Family
from memory_server.kernel.private import Pause
from memory_server.kernel.text import words_between_commas
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.memories import forgetting
from memory_server.web.taking_back import forget, item_of, mended
from memory_server.web.view import Flash, View, form_of
from sandbox.locale import _, counted

BY = "page"
_PAUSE_MS = 2 * 3_600_000
_BACK = re.compile(r"[a-z]{0,20}(?:\?[^\s#]{0,4000})?(?:#[\w-]{0,64})?")
Form = Mapping[str, list[str]]
Act = Callable[[View, Form], Awaitable[Flash]]


def first(form: Form, name: str) -> str:
    return form.get(name, [""])[0]


def acting(act: Act) -> Callable[[View], Awaitable[Response]]:
    """The answer to a form: the change is made, and the reader is sent back to where the form was."""

    async def answered(view: View) -> Response:
        form = await form_of(view.request)
        if not view.writable:
            raise InvalidInput("This memory server may only read; end the setting `read_only` to change something.")
        flash = await act(view, form)
        key = secrets.token_urlsafe(8)
        view.site.made.flashes.put(key, flash)
        back = first(form, "back")
        back = back if _BACK.fullmatch(back) else ""
        page, _hash, anchor = re.sub(r"[?&]done=[^&#]*", "", back).partition("#")
        page = page if "?" in page or "&" not in page else page.replace("&", "?", 1)
        target = f"../{page}{'&' if '?' in page else '?'}done={key}"
        return RedirectResponse(f"{target}#{anchor}" if anchor else target, 303)

    return answered


async def _pin(view: View, form: Form) -> Flash:
    memory_id, pinned = first(form, "id"), first(form, "pinned") != "no"
    done = await view.conversation.short_term.pin(memory_id, pinned=pinned, by=BY)
    said = _("Pinned. It is never cleaned up.") if pinned else _("No longer pinned.")
    return Flash(said, done.change_id or "", view.conversation.id, memory_id)


async def _mute(view: View, form: Form) -> Flash:
    memory_id, place = first(form, "id"), first(form, "in")
    done = await view.conversation.short_term.mute(memory_id, place or None, by=BY)
    said = _("Muted: it no longer comes unasked {place}.", place_text(place)) if place else _("It may come again.")
    return Flash(said, done.change_id or "", view.conversation.id, memory_id)


async def _edit(view: View, form: Form) -> Flash:
    texts = [text.replace("\r\n", "\n") for text in form.get("text", [])]
    before = first(form, "before").replace("\r\n", "\n")
    memory_id = first(form, "id")
    memory = await view.conversation.short_term.memory(memory_id)
    if memory.text.replace("\r\n", "\n") == before:
        before = memory.text
    typed = first(form, "otherWords")
    is_as_it_was = "otherWords" not in form or typed == ", ".join(memory.other_words)
    words = None if is_as_it_was else words_between_commas(typed)
    done = await view.conversation.short_term.edit(memory_id, texts, other_words=words, before=before, by=BY)
    return Flash(
        _("Changed. The words as they were are in the history."), done.change_id or "", view.conversation.id, memory_id
    )


def _meant(view: View, form: Form) -> tuple[Family, str, str]:
    """The memory, trigger or entry that a form names."""
    family, place = first(form, "family") or "memories", first(form, "place") or view.conversation.id
    return cast(Family, family), place, first(form, "id")


async def _forget(view: View, form: Form) -> Flash:
    """Put a memory, a trigger or an entry on the shelf."""
    item = await item_of(view, *_meant(view, form))
    change, until = await forget(view, item), view.speech.date(view.speech.now_ms + view.site.keep_ms)
    return Flash(_("1 memory forgotten. On the shelf until {day}.", until), change)


async def _erase(view: View, form: Form) -> Flash:
    if view.site.eraser is None:
        raise InvalidInput("Only the person at the server can erase for good: `memory-server forget --for-good`.")
    item = await item_of(view, *_meant(view, form))
    erasure = await forgetting.erasure_of(view.call.memories.engines, [item])
    left = await view.site.eraser.erase(erasure, form.get("backup", []))
    if left:
        return Flash(_("Erased here; it is still in {places}.", ", ".join(left)))
    if erasure.unsearched:
        return Flash(
            _("Erased for good. Its text was looked for nowhere else: it is very short, or stays in another one.")
        )
    return Flash(_("Erased for good. The whole folder was searched: found in 0 places."))


async def _undo(view: View, form: Form) -> Flash:
    change, place = first(form, "change"), first(form, "place")
    done = await forgetting.undo(view.call.memories.engines, change, place or None, by=BY)
    return Flash(_("Undone."), done.id, place)


async def _restore(view: View, form: Form) -> Flash:
    family, name = first(form, "family"), first(form, "id")
    view.call.memories.services.refuse_where_full()
    if not family:
        done = await view.conversation.archive.bring_back([name], by=BY)
        if done.in_the_way:
            raise InvalidInput("Its name is in use again, so it stays on the shelf; rename the other one first.")
        return Flash(_("It is back."), done.change_id or "", view.conversation.id, name)
    knowledge, (space, _slash, owner) = view.call.memories.knowledge, family.partition("/")
    if space == "layers":
        await knowledge.layers["global" if owner == "global" else "project"].restore(name, by=BY)
        return Flash(_("It is back."))
    if space == "notes":
        return Flash(_("It is back."), await knowledge.notes.restore(name, by=BY) or "")
    raise InvalidInput("It comes back by undoing the change that removed it; the list below has that change.")


def _number(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) < 16:
        return int(text)
    raise InvalidInput("`{text}` is not the number of a fact; open it from the list.", text)


async def _edit_entry(view: View, form: Form) -> Flash:
    knowledge, name, body = view.call.memories.knowledge, first(form, "id"), first(form, "text").replace("\r\n", "\n")
    space, _slash, owner = first(form, "family").partition("/")
    if space == "notes":
        change: str | None = await _edit_note(view, name, first(form, "before"), body)
    elif space == "sessions":
        change = (await knowledge.sessions.update(SessionIds(owner), _number(name), body, by=BY)).change_id
    else:
        raise InvalidInput("An entry of this kind is changed in its own file or program, not here.")
    return Flash(_("Changed. The words as they were are in the history."), change or "")


async def _edit_note(view: View, name: str, before: str, body: str) -> str | None:
    notes = view.call.memories.knowledge.notes
    now = (await notes.get(name)).body
    if now.replace("\r\n", "\n") != before.replace("\r\n", "\n"):
        raise InvalidInput("This note was changed meanwhile; look at it as it is now, and change it again.")
    return (await notes.edit(name, find=now, replacement=body, by=BY)).change_id


async def _promote(view: View, form: Form) -> Flash:
    await view.call.memories.knowledge.layers.promote(first(form, "id"), by=BY)
    return Flash(_("It is an entry of all projects now."))


async def _save_trigger(view: View, form: Form) -> Flash:
    name, long_term = first(form, "name").strip(), view.conversation.long_term
    code, prompt = (first(form, part).replace("\r\n", "\n") for part in ("code", "prompt"))
    stored = await long_term.add(name, prompt, code, by=BY)
    return Flash(_("The trigger is saved."), stored.change_id, view.conversation.id, name)


async def _pause(view: View, form: Form) -> Flash:
    if (pauses := view.site.pauses) is None:
        raise InvalidInput("Only the person at the server can pause it; `memory-server pause` does it there.")
    if first(form, "resume"):
        await asyncio.to_thread(pauses.remove)
        return Flash(_("Memory resumed."))
    until_ms = view.speech.now_ms + _PAUSE_MS
    await asyncio.to_thread(pauses.write, Pause(until_ms))
    return Flash(_("Memory is off until {time}: nothing is stored or recalled.", view.speech.clock(until_ms)))


async def _back_up(view: View, form: Form) -> Flash:
    view.call.memories.services.refuse_where_full()
    made = await view.call.memories.backups.make()
    view.site.made.examination = None
    return Flash(_("The backup {name} is made.", made.backup.name))


async def _mend(view: View, form: Form) -> Flash:
    done = [plan for plan in await mended(view, dry_run=False) if plan.steps]
    view.site.made.examination = None
    return Flash(_("Mended: {conversations}. The files as they were are kept.", counted(len(done), "conversation")))


async def _clean_up(view: View, form: Form) -> Flash:
    left = 0
    for engine in view.call.memories.engines:
        async for cleaned in engine.clean_up(by=BY):
            left += len(cleaned.left)
    return Flash(_("Cleaned up: {memories} went to the shelf.", counted(left, "memory")))


_ALL: Mapping[str, Act] = {
    "pin": _pin,
    "mute": _mute,
    "mend": _mend,
    "edit": _edit,
    "forget": _forget,
    "erase": _erase,
    "undo": _undo,
    "restore": _restore,
    "edit-entry": _edit_entry,
    "promote": _promote,
    "save-trigger": _save_trigger,
    "pause": _pause,
    "backup": _back_up,
    "cleanup": _clean_up,
}
ACTIONS = {name: acting(act) for name, act in _ALL.items()}
