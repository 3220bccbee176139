"""What Claude Code keeps in `~/.claude/projects`: transcripts, of which each turn becomes a short-term memory, and
beside them the pages of its memory (pages.py).

A turn gets the id that the hook `Stop` gives it, so that what was remembered as it was said is not there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from pathlib import PurePosixPath

from languages import N_
from memory_server.interchange import pages
from memory_server.interchange.branches import Row, branches_of
from memory_server.interchange.incoming import Incoming
from memory_server.interchange.transcript_turns import turns_of
from memory_server.interchange.transcripts import row_of, rows_of, time_of
from memory_server.interchange.turn_memories import TurnMemories
from memory_server.kernel.values import frozen
from memory_server.knowledge.projects import name_of, unsettled


@frozen
class WorkingFolders:
    """What is known of working folders by their paths: how a memory names one, and the key of its project ("":
    none)."""

    folder_of: Callable[[str], str | None]
    project_of: Callable[[str], str]


def read(
    files: Mapping[str, bytes],
    usual: str,
    times: Mapping[str, int],
    folders: WorkingFolders,
    programs: Collection[str] = (),
) -> Incoming:
    """Read the turns of all transcripts, for `usual`, and the notes of all pages. `files`: the files by their path in
    a folder; `times`: when each was changed; `programs`: the programs that a user named. Raises NotThisFormat: it has
    neither."""
    incoming = Incoming()
    memories = TurnMemories(incoming, usual, folders.folder_of, programs)
    seen_ids: set[str] = set()
    transcripts = {path: data for path, data in files.items() if path.endswith(".jsonl")}
    for path in sorted(transcripts, key=lambda path: (_last_ms(transcripts[path]), path)):
        with incoming.record(path):
            branches = branches_of(list(_lines(incoming, transcripts[path])))
            # A line that another transcript has too, such as a line of a continued session, counts once.
            live = list(_once(branches.live, seen_ids))
            memories.add(path, turns_of(live, incoming.lost))
            for branch in branches.taken_back:
                memories.take_back(turns_of(_once(branch.rows, seen_ids)))
            # What was taken back in a session may still hold in a session that was forked before that.
            seen_ids.update(filter(None, map(_id_of, live)))

    def project_of_page(path: str) -> str:
        """Return the project of the working folders of the transcripts beside a page."""
        transcripts = PurePosixPath(path).parent.parent
        working_folders = memories.working_folders.get(str(transcripts), set())
        return _only_one({folders.project_of(folder) for folder in working_folders})

    markdown = {path: data for path, data in files.items() if path.endswith(".md")}
    pages.take(incoming, markdown, times, project_of=project_of_page)
    return memories.finished(
        N_("holds no turn of a user and no page; import `~/.claude/projects`, or a folder in it.")
    )


def _only_one(projects: Collection[str]) -> str:
    """Return the only project, or an unsettled name. Claude Code names a folder of transcripts by a path in which
    each `/` and `.` became `-`, so two working folders can have the same name, and a page cannot be attributed."""
    if len(projects) < 2:
        return next(iter(projects), "")
    return unsettled(name_of(min(projects)))


def _last_ms(data: bytes) -> int:
    """Return the time of the last line with a time, or 0. The transcript of a fork repeats lines of the session that
    it is from, and usually goes on longer: so that session comes first, and its turns are known by its name."""
    for line in reversed(data.splitlines()):
        time_ms = time_of(row_of(line).get("timestamp"))
        if time_ms is not None:
            return time_ms
    return 0


def _lines(incoming: Incoming, data: bytes) -> Iterator[Row]:
    for line in data.splitlines():
        yield from rows_of(line, incoming.lost)


def _once(rows: Iterable[Row], seen_ids: Set[str]) -> Iterator[Row]:
    """Yield the lines without repeated lines and lines that were seen."""
    ids = set(seen_ids)
    for row in rows:
        line_id = _id_of(row)
        if line_id is not None:
            if line_id in ids:
                continue
            ids.add(line_id)
        yield row


def _id_of(row: Row) -> str | None:
    """Return the id of a line, or None if the line has no id or an id of a wrong type."""
    line_id = row.get("uuid")
    return line_id if isinstance(line_id, str) else None
