"""Decisions about entries of any kind: what of a text is kept, who may remove, what leaves by age and by number, and
what takes a change back. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal

from languages import _, counted
from memory_server.kernel.errors import InvalidInput, NothingToKeep
from memory_server.kernel.private import without_private
from memory_server.kernel.recalled_block import without_recalled
from memory_server.kernel.secrets import SecretFilter
from memory_server.kernel.text import shown
from memory_server.kernel.times import DAY_MS
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import (
    Entry,
    Filter,
    Former,
    Purge,
    Reason,
    archived,
    change_id,
    changed_by_json,
)
from memory_server.knowledge.notes.pages import Kind
from memory_server.knowledge.options import PATTERNS, ROLES, KnowledgeSettings, LayerSettings, Role
from memory_server.knowledge.ports import ScopeView
from memory_server.knowledge.projects import Project

MOST_AT_ONCE = 500
"""Entries that a run of the clean-up moves at most, as with memories: a mistake then costs a part."""
_CONTENT_FIELDS = ("title", "body", "tags", "examples", "metadata")
"""The fields that are compared when an entry is brought in: a difference means that both entries do not say the same.
"""


async def no_other_folder(_name: str, _project: Project) -> bool:
    """Return False: no other folder is known to have the name."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(KnowledgeSettings):
    """`keep_ms`: how long archived entries and former texts are kept. `publish` has the meaning that it has in `Notes`;
    `refuse` raises where nothing may be stored now. `here`: the project that is worked in, if that is known;
    `needs_project`: what belongs to a project is refused where none is known; `is_elsewhere` has the meaning that it
    has in `NoteAssigner`."""

    keep_ms: int = 90 * DAY_MS
    here: Project | None = None
    needs_project: bool = False
    is_elsewhere: Callable[[str, Project], Awaitable[bool]] = no_other_folder
    refuse: Callable[[], None] = lambda: None
    publish: Callable[[Mapping[Kind, str]], None] | None = None
    secrets: SecretFilter = SecretFilter()


def to_keep(content: str) -> str:
    """Return `content` without private parts and recalled memories, as with messages. Raise
    NothingToKeep if nothing else is in it."""
    public = without_recalled(without_private(content))
    if content.strip() and not public.strip():
        raise NothingToKeep("All of the content is private or recalled, so nothing was stored.")
    return public


def role_of(caller: str | None, server: Role, patterns: Mapping[str, Role] = PATTERNS) -> Role:
    """Return the lower of two roles: the server's, and the role of `caller` by the first pattern that fits, in upper or
    lower case. Unknown names have the server's role. This is not an authentication: a name that a caller gives can only
    take rights away."""
    name = (caller or "").strip().casefold()
    for pattern, role in patterns.items():
        if fnmatchcase(name, pattern.casefold()):
            return max(server, role, key=ROLES.index)
    return server


def refuse_worker(options: LayerSettings, caller: str | None, action: str) -> None:
    """Refuse an action, such as `deletes entries`, to a worker. Raise InvalidInput if the caller or the server is a
    worker."""
    if role_of(caller, options.role, options.roles) != "worker":
        return
    name = _("This server")
    if caller and options.role != "worker":
        name = shown(caller, 60)
    raise InvalidInput("{name} is a worker; an owner or admin {what}.", name, action)


def expired(view: ScopeView, now_ms: int) -> list[tuple[Entry, Reason]]:
    """Return the live entries whose time is over, oldest first. Searches hide them already."""
    expired_entries = view.entries(Filter(expired_by_ms=now_ms), order="oldest", limit=MOST_AT_ONCE)
    return [(entry, "expired") for entry in expired_entries]


def over_limit(
    view: ScopeView, most: int, coming: int = 0, now_ms: int | None = None
) -> list[tuple[Entry, Reason]]:
    """Return the oldest live entries above `most`, if `coming` more are stored. Entries that expired by `now_ms` do not
    count."""
    where = Filter(unexpired_at_ms=now_ms)
    above = view.count(where) + coming - most
    if above <= 0:
        return []
    oldest = view.entries(where, order="oldest", limit=min(above, MOST_AT_ONCE))
    return [(entry, "over_limit") for entry in oldest]


def to_archive(due: list[tuple[Entry, Reason]], now_ms: int) -> tuple[Entry, ...]:
    """Return the changes that archive what is due."""
    return tuple(archived(entry, reason, now_ms) for entry, reason in due)


def to_purge(view: ScopeView, archived_by_ms: int) -> tuple[Purge, ...]:
    """Return the changes that remove for good what was archived until `archived_by_ms`."""
    archived_ids = view.ids(Filter(archived=True, archived_by_ms=archived_by_ms))
    return tuple(map(Purge, archived_ids[:MOST_AT_ONCE]))


def as_later(present: ScopeView, earlier: ScopeView, *, since: int, now_ms: int) -> list[Entry]:
    """Return the changes that re-apply, on top of a restored state (`earlier`), what was done after `since`: the
    present entries, by ref or key, and archived versions of entries that were removed for good. Only the order of
    operations counts: an undo gives an entry its former time, and a clock may be set back."""
    changed, removed_refs = present.changed_since(since)
    changed_refs = {*removed_refs, *(entry.ref for entry in changed)}

    removals = []
    for ref in removed_refs:
        ours = earlier.get(ref=ref)
        if ours is not None and ours.archived_ms is None:
            removals.append(archived(ours, "deleted", now_ms))

    # Archived entries come first, because they make their keys free.
    stored = []
    for theirs in sorted(changed, key=lambda entry: entry.archived_ms is None):
        ours = _counterpart(earlier, theirs, changed_refs)
        if ours is None:
            stored.append(replace(theirs, id=0))
        else:
            stored.append(replace(theirs, id=ours.id, ref=ours.ref))
    return [*removals, *stored]


def _counterpart(earlier: ScopeView, theirs: Entry, changed_refs: Collection[str]) -> Entry | None:
    """Return the entry of the earlier state that a later entry replaces: the entry with the same key, unless it was
    changed itself; otherwise the entry with the same ref, or None."""
    if theirs.key is not None and theirs.archived_ms is None:
        keyed = earlier.keyed(theirs.kind, theirs.project, theirs.key)
        if keyed is not None and keyed.ref not in changed_refs:
            return keyed
    return earlier.get(ref=theirs.ref)


def taking_back(view: ScopeView, seq: int, now_ms: int) -> tuple[Entry, ...]:
    """Return the changes that undo the operation `seq`. What is already gone, or already back, stays as it is.

    Raises:
        InvalidInput: an entry was changed since, it or its former text is no longer kept, or nothing is left to take
            back.
    """
    changes: list[Entry] = []
    removed: list[int] = []
    for former in reversed(view.former(seq)):
        # What a person removed for good cannot come back; a new entry that is gone is already undone.
        entry = view.get(id=former.entry_id)
        if entry is None:
            if former.before is not None and former.after_version:
                removed.append(former.entry_id)
            continue

        if former.before is None and entry.archived_ms is not None:
            continue
        _refuse_changed_since(view, entry, former=former, seq=seq)
        if former.before == {}:
            raise InvalidInput(
                "{change} is too long ago: what was there before it is not kept any more.",
                change_id(seq),
            )

        if former.before is None:
            changes.append(archived(entry, "undone", now_ms))
        else:
            changes.append(changed_by_json(entry, former.before))

    if not changes:
        raise InvalidInput(
            "Nothing of {change_id} is left to undo: what it changed was removed for good, or is as it was before it. "
            "`memory-server knowledge history` lists more.",
            change_id(seq),
        )

    # A part of a change is never undone.
    if removed:
        raise InvalidInput(
            "{change_id} cannot be undone: of what it changed, {entries} left the archive for good after "
            "it. Nothing was changed; `memory-server backup list` shows what can be restored.",
            change_id(seq),
            counted(len(removed), "entry"),
        )
    return tuple(changes)


def _refuse_changed_since(view: ScopeView, entry: Entry, former: Former, seq: int) -> None:
    """Raise InvalidInput if another operation changed the entry after `seq`."""
    if entry.version == former.after_version:
        return
    later = view.changed_after(entry.id, seq)
    if later is not None:
        raise InvalidInput(
            "What {change_id} changed was changed again after it, by {change_id2}; undo that first. "
            "`memory-server knowledge history` lists all changes.",
            change_id(seq),
            change_id(later),
        )


def arriving(view: ScopeView, theirs: Entry) -> Entry | Literal["unchanged", "newer"]:
    """Return their entry as it would be stored here, `unchanged` if ours says the same, or `newer` if ours is newer. An
    entry that was deleted here comes back, unless another entry has its key now."""
    ours = view.get(ref=theirs.ref)
    if theirs.key is not None and theirs.archived_ms is None:
        ours = view.keyed(theirs.kind, theirs.project, theirs.key) or ours
    if ours is None:
        return replace(theirs, id=0)
    comes_back = (
        ours.archived_ms is not None and theirs.archived_ms is None and ours.reason != "merged"
    )
    lacks_summary = bool(theirs.title) and not ours.title
    if ours.updated_ms < theirs.updated_ms or comes_back or lacks_summary:
        return replace(theirs, id=ours.id, ref=ours.ref)
    if any(getattr(ours, name) != getattr(theirs, name) for name in _CONTENT_FIELDS):
        return "newer"
    return "unchanged"
