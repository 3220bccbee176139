"""Copies that programs which sync put beside the files of a home, when two machines had changed the same file. Nobody
reads such a copy, so what the other machine stored is only there. It knows names and no contents.

Names by program: Syncthing ("Conflicting Changes" in its docs), Dropbox ("What's a conflicted copy"), Nextcloud and
ownCloud ("Conflicts" in the manuals of their clients; ownCloud before 2.5 wrote `_conflict-`), Seafile ("SFConflict"),
Resilio Sync (`.Conflict`), Google Drive (`(1)`, `[Conflict]`), iCloud Drive (` 2`), OneDrive (`-COMPUTER`), and the
backups of rsync(1) (`~`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from languages import _, counted
from memory_server.kernel.files import PRIVATE
from memory_server.kernel.text import Finding, visible
from memory_server.storage.json_store.snapshots import SNAPSHOTS
from nlp.once import Once

_MARKED = Once(
    lambda: re.compile(
        r"\.sync-conflict-\d{8}-\d{6}|_conflict-\d{8}-\d{6}|\((?:[^()]{0,80} )?conflicted copy|\(case conflict|"
        r"\(SFConflict |\[Conflict(?:ed)?\]|\.conflict(?:\.|$)|的冲突副本|冲突文件|\.~\w{1,20}~$",
        re.IGNORECASE,
    )
)
"""What is in the name of a copy, whatever the file is."""
_OURS = (
    *SNAPSHOTS,
    *(f"{name}.zlib" for name in SNAPSHOTS),
    *(f"{name}.jsonl" for name in ("journal", "history", "set-aside", "tokens")),
    *(f"{name}.json" for name in ("conversation", "link", "paused", "upkeep", "given", "answered")),
    "knowledge.sqlite3",
    "knowledge.sqlite3-wal",
    "grams.bin",
    "numbers",
    "reasons",
)
"""The files of a home with fixed names. Only of these, a name with something more is a copy: other files are named
after conversations, which may be called `chat (1)`."""
_NUMBERED = r"(?: ?\(\d{1,3}\)| \d{1,3}|-(?!\d{8})[\w-]{1,63}|~)"
"""What comes behind such a name; a hyphen with a day marks a copy of our own."""
_COPY_OF_OURS = Once(
    lambda: re.compile(
        "|".join(
            rf"(?:copy of )?{stem}{_NUMBERED}?{dot}{re.escape(ending)}~?"
            for stem, dot, ending in (name.partition(".") for name in _OURS)
        ),
        re.IGNORECASE,
    )
)
_SHOWN = 3
"""The copies that a finding names; `where` names the folder."""


def is_conflict_copy(name: str) -> bool:
    """Tell whether a program that syncs gives this name to a copy of a file of a home."""
    if name in _OURS:
        return False
    return bool(_MARKED().search(name) or _COPY_OF_OURS().fullmatch(name))


def conflict_copies(home: Path) -> list[Path]:
    """List the copies in a home: beside the files of each conversation, and in the folders of this program."""
    return sorted(Path(folder, name) for folder, name in _files_in(home) if is_conflict_copy(name))


def _files_in(home: Path) -> Iterator[tuple[str, str]]:
    """Yield the folder and name of each file in which this program may have stored something."""
    for folder, folder_names, names in os.walk(home):
        path = Path(folder)
        is_of_a_conversation = PRIVATE in (path.name, *folder_names)
        if path.parent == home and not is_of_a_conversation:
            folder_names.clear()  # something of another program
            continue
        for name in names:
            yield folder, name


def findings(home: Path) -> list[Finding]:
    """Warn if there are copies."""
    copies = conflict_copies(home)
    if not copies:
        return []
    return [Finding("warning", _("synced"), copies_text(copies))]


def copies_text(copies: Sequence[Path]) -> str:
    """Write a sentence that names conflict copies, and says what to do about them."""
    paths = ", ".join(visible(str(path)) for path in copies[:_SHOWN])
    if len(copies) > _SHOWN:
        paths += ", …"
    return _(
        "{files} of another machine, made by a program that syncs this folder, and nothing reads them: {paths}. What was "
        "remembered there may be only in them. `memory-server import FILE` takes the memories of a copy of "
        "short-term-memory.json; then move the copies away, and let no program sync this folder (docs: Move a home).",
        counted(len(copies), "conflict copy"),
        paths,
    )
