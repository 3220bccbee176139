"""Decisions about entries of any kind: what of a text is kept, who may remove, what leaves by age and by number, and
what takes a change back. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from memory_server.kernel.errors import InvalidInput, NothingToKeep
from memory_server.kernel.private import without_private
from memory_server.kernel.recalled_block import without_recalled
from memory_server.kernel.text import shown
from memory_server.kernel.times import DAY_MS
from memory_server.knowledge.entry import Entry, Filter, Purge, Reason, archived, change_id, changed_by_json
from memory_server.knowledge.notes.pages import Kind
from memory_server.knowledge.options import PATTERNS, ROLES, KnowledgeSettings, Role
from memory_server.knowledge.ports import ScopeView
from memory_server.knowledge.projects import Project
from sandbox.locale import _, counted

MOST_AT_ONCE = 500
"""Entries that one run of the clean-up moves at most, as with memories: a mistake then costs a part."""
_SAID = ("title", "body", "tags", "examples", "metadata")
"""The fields in which an entry that is brought in may say something else than the one that is here."""


async def no_other_folder(_name: str, _project: Project) -> bool:
    """Of no folder it is known where it is."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(KnowledgeSettings):
    """`keep_ms`: how long archived entries and former texts are kept. `publish` as in `Notes`, `refuse` raises where
    nothing may be stored now. `here`: the project that is worked in, if that is known; `is_elsewhere` as in
    `Settling`."""

    keep_ms: int = 90 * DAY_MS
    here: Project | None = None
    is_elsewhere: Callable[[str, Project], Awaitable[bool]] = no_other_folder
    refuse: Callable[[], None] = lambda: None
    publish: Callable[[Mapping[Kind, str]], None] | None = None


def to_keep(content: str) -> str:
    """`content` without private parts and recalled memories, as with messages. Raises NothingToKeep: nothing else is in
    it."""
    kept = without_recalled(without_private(content))
    if content.strip() and not kept.strip():
        raise NothingToKeep("All of the content is private or recalled, so nothing was stored.")
    return kept


def role_of(caller: str | None, server: Role, patterns: Mapping[str, Role] = PATTERNS) -> Role:
    """The lower one of the server's role and that of `caller`, by the first pattern that fits, in upper or lower case;
    unknown names have the server's. No authentication: a name that a caller gives can only take away."""
    name = (caller or "").strip().casefold()
    claimed = next((role for pattern, role in patterns.items() if fnmatchcase(name, pattern.casefold())), server)
    return max(server, claimed, key=ROLES.index)


def refuse_worker(caller: str | None, server: Role, patterns: Mapping[str, Role], what: str) -> None:
    """Refuse `what`, such as `deletes entries`, to a worker. Raises InvalidInput: the caller or the server is a
    worker."""
    if role_of(caller, server, patterns) == "worker":
        name = shown(caller, 60) if caller and server != "worker" else _("This server")
        raise InvalidInput("{name} is a worker; an owner or admin {what}.", name, what)


def expired(held: ScopeView, now_ms: int) -> list[tuple[Entry, Reason]]:
    """Live entries whose time is over, oldest first. Searches hide them already."""
    found = held.entries(Filter(expired_by_ms=now_ms), order="oldest", limit=MOST_AT_ONCE)
    return [(entry, "expired") for entry in found]


def over_limit(held: ScopeView, most: int, coming: int = 0, now_ms: int | None = None) -> list[tuple[Entry, Reason]]:
    """The oldest live entries above `most`, when `coming` more are stored. `now_ms`: those that are over do not
    count."""
    where = Filter(unexpired_at_ms=now_ms)
    above = held.count(where) + coming - most
    found = held.entries(where, order="oldest", limit=min(above, MOST_AT_ONCE)) if above > 0 else []
    return [(entry, "over_limit") for entry in found]


def to_archive(due: list[tuple[Entry, Reason]], now_ms: int) -> tuple[Entry, ...]:
    """The changes that archive what is due."""
    return tuple(archived(entry, reason, now_ms) for entry, reason in due)


def to_purge(held: ScopeView, archived_by_ms: int) -> tuple[Purge, ...]:
    """The changes that remove for good what was archived until `archived_by_ms`."""
    return tuple(map(Purge, held.ids(Filter(archived=True, archived_by_ms=archived_by_ms))[:MOST_AT_ONCE]))


def as_later(present: ScopeView, held: ScopeView, *, since: int, now_ms: int) -> list[Entry]:
    """The changes that bring what operations after `since` changed over to an earlier state, which `held` has: the
    entries as they are at present, by ref or key, and into the archive those that were removed for good. The order of
    operations counts, and no time: an undo gives an entry its former time, and a clock may be set back."""
    later, gone = present.changed_since(since)
    made, own = [], {*gone, *(each.ref for each in later)}
    for theirs in sorted(later, key=lambda each: each.archived_ms is None):  # first what makes its key free
        ours = held.get(ref=theirs.ref)
        if theirs.key is not None and theirs.archived_ms is None:
            keyed = held.keyed(theirs.kind, theirs.project, theirs.key)
            ours = ours if keyed is None or keyed.ref in own else keyed
        made.append(replace(theirs, id=0) if ours is None else replace(theirs, id=ours.id, ref=ours.ref))
    there = (held.get(ref=ref) for ref in gone)
    removed = [archived(each, "deleted", now_ms) for each in there if each is not None and each.archived_ms is None]
    return [*removed, *made]


def taking_back(held: ScopeView, seq: int, now_ms: int) -> tuple[Entry, ...]:
    """The changes that take the operation `seq` back. What is already gone, or already back, stays as it is.

    Raises:
        InvalidInput: an entry was changed since, it or its former text is no longer kept, or nothing is left to take
            back.
    """
    made: list[Entry] = []
    removed: list[int] = []
    for former in reversed(held.former(seq)):
        entry = held.get(id=former.entry_id)
        if entry is None:
            removed += [former.entry_id] if former.before is not None and former.after_version else []
            continue
        if former.before is None and entry.archived_ms is not None:
            continue
        later = held.changed_after(entry.id, seq) if entry.version != former.after_version else None
        if later is not None:
            raise InvalidInput(
                "What {change_id} changed was changed again after it, by {change_id2}; undo that first. "
                "`memory-server knowledge history` lists all changes.",
                change_id(seq),
                change_id(later),
            )
        if former.before == {}:
            raise InvalidInput(
                "{change} is too long ago: what was there before it is not kept any more.", change_id(seq)
            )
        before = former.before
        made.append(archived(entry, "undone", now_ms) if before is None else changed_by_json(entry, before))
    if not made:
        raise InvalidInput(
            "Nothing of {change_id} is left to undo: what it changed was removed for good, or is as it was before it. "
            "`memory-server knowledge history` lists more.",
            change_id(seq),
        )
    if removed:
        raise InvalidInput(
            "{change_id} cannot be undone: of what it changed, {entries} left the archive for good after "
            "it. Nothing was changed; `memory-server backup list` shows what can be restored.",
            change_id(seq),
            counted(len(removed), "entry"),
        )
    return tuple(made)


def arriving(held: ScopeView, theirs: Entry) -> Entry | Literal["unchanged", "newer"]:
    """Their entry as it would be stored here; or that ours says the same, or is newer. One that was deleted here comes
    back, unless another has its key now."""
    ours = held.get(ref=theirs.ref)
    if theirs.key is not None and theirs.archived_ms is None:
        ours = held.keyed(theirs.kind, theirs.project, theirs.key) or ours
    if ours is None:
        return replace(theirs, id=0)
    comes_back = ours.archived_ms is not None and theirs.archived_ms is None and ours.reason != "merged"
    lacks_summary = bool(theirs.title) and not ours.title
    if ours.updated_ms >= theirs.updated_ms and not comes_back and not lacks_summary:
        says_otherwise = any(getattr(ours, name) != getattr(theirs, name) for name in _SAID)
        return "newer" if says_otherwise else "unchanged"
    return replace(theirs, id=ours.id, ref=ours.ref)
