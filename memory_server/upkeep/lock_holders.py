"""Whether a lock can be had, and on Linux which processes hold it or wait for it. Changes nothing.

/proc/locks has a line for each lock (`1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`) and one with `->` for each
that waits; the numbers are the process, the device in hexadecimal and the inode.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from memory_server.storage.partition.locking import QUEUE, try_lock

PROC_LOCKS = Path("/proc/locks")


@dataclass(frozen=True, slots=True)
class LockState:
    """`free`: it could be taken just now. `holders`, `waiting`: process ids, empty where the system does not tell.
    `holds`: whether it keeps others out, as far as it could be tried."""

    free: bool
    holders: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    holds: bool = True


def lock_state(path: Path) -> LockState | None:
    """The lock on `path`, or None where that file does not exist: nobody wrote there yet.

    Raises:
        OSError: the file cannot be opened for writing, or this disk knows no locks.
    """
    if not path.exists():
        return None
    holders, waiting = _listed(path)
    # The next one holds the queue, in which the others wait.
    waiting += _listed(path.with_name(QUEUE))[1]
    lock = try_lock(path)
    if lock is None:
        return LockState(False, holders, waiting)
    second = try_lock(path)
    if second is not None:
        second.release()
    lock.release()
    return LockState(True, holds=second is None)


def _listed(path: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    try:
        text = PROC_LOCKS.read_text(encoding="ascii", errors="replace")
        facts = path.stat()
    except OSError:
        return (), ()
    inode = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}:{facts.st_ino}"
    return parse_locks(text, inode)


def parse_locks(text: str, inode: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Process ids that hold, and that wait for, a lock on `inode` (`08:01:5678`) in the text of /proc/locks."""
    found: tuple[list[int], list[int]] = ([], [])
    for line in text.splitlines():
        words = line.split()
        waits = len(words) > 1 and words[1] == "->"
        fields = words[2:] if waits else words[1:]
        if len(fields) >= 5 and fields[4] == inode and fields[3].isdecimal():
            found[waits].append(int(fields[3]))
    return tuple(found[0]), tuple(found[1])
